"""`stance`: what becomes of frames that have no entry, for a block or for the process.

The default costs nothing.  `force_eager` is the only stance that calls with an entry notice, so C++ is told about
it; the others are asked for at a miss.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from framehook import _C
from framehook.config import STANCES, config

F = TypeVar("F", bound=Callable[..., Any])

# The blocks that this context is in: [name, the block around it]; a block that has ended has None for its name, as
# generators and tasks may carry a context on after that.  C++ reads the lists.
_block: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("framehook_stance", default=None)
_blocks_entered = 0


def current() -> str:
    """The stance of this context: that of the innermost block, else that of the process."""
    block = _block.get() if _blocks_entered else None
    while block is not None:
        if block[0] is not None:
            name: str = block[0]
            return name
        block = block[1]
    return config.stance


def _tell() -> None:
    _C.watch_stance(_block if _blocks_entered else None, config.stance == "force_eager")


class stance:
    """Say what becomes of frames that have no entry; the words are those of `torch.compiler.set_stance`.

    Called by itself it holds for the process from now on (as does `config.stance`, or `FRAMEHOOK_STANCE`).  In a
    `with` statement or as a decorator it holds for that block, in that context (thread, task) only.

    Args:
        name: "default": frames are compiled, as their options say.
            "force_eager": everything runs eagerly, entries or not.
            "eager_on_recompile": entries serve; what has none runs eagerly, and nothing is compiled.
            "fail_on_recompile": entries serve; where something would have to be compiled, `RecompileError` is raised.
            "eager_then_compile": the first call of each function runs eagerly, and the second one compiles.

    Raises:
        ValueError: for another name.
    """

    def __init__(self, name: str) -> None:
        if name not in STANCES:
            raise ValueError(f"unknown stance {name!r}; there are {', '.join(STANCES)}")
        self.name = name
        self._before: str | None = config.stance
        self._entered: list[tuple[list[Any], contextvars.Token[list[Any] | None]]] = []
        config.stance = name

    def _is_of_block(self) -> None:
        # Called for a block: the process keeps what it had.
        if self._before is not None:
            config.stance = self._before
            self._before = None

    def __enter__(self) -> None:
        global _blocks_entered
        self._is_of_block()
        entered = [self.name, _block.get()]
        self._entered.append((entered, _block.set(entered)))
        _blocks_entered += 1
        _tell()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _blocks_entered
        entered, token = self._entered.pop()
        entered[0] = None
        # A generator may end it in another context than it began in.
        with contextlib.suppress(ValueError):
            _block.reset(token)
        _blocks_entered -= 1
        _tell()

    def __call__(self, fn: F) -> F:
        """Return `fn` such that each call runs in such a block."""
        if not callable(fn):
            raise TypeError(f"framehook.stance() decorates callables, not {type(fn).__name__} ({fn!r})")
        self._is_of_block()
        name = self.name
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                with block(name):
                    return await fn(*args, **kwargs)

            return call_async  # type: ignore[return-value]

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with block(name):
                return fn(*args, **kwargs)

        return call  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"framehook.stance({self.name!r})"


def block(name: str) -> stance:
    """A stance for a `with` statement only: making it changes nothing for the process."""
    made = stance.__new__(stance)
    made.name, made._before, made._entered = name, None, []
    return made


config.watch("stance", lambda _: _tell())

__all__ = ["block", "current", "stance"]
