"""What user code says to the tracer: no-ops when run for real, recognised when traced.

The tracer knows `graph_break`, `is_compiling` and `disable` by identity, and asks `treatment`, `dynamic_dims` and
`static_dims` for what was said about a function or a tensor.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType, TracebackType
from typing import Any, Generic, NamedTuple, TypeVar, overload

import torch

from framehook import _C
from framehook.module_view import make_view

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")


class _Notes(Generic[V]):
    """Facts about objects, by identity and without changing or keeping them (functions, tensors)."""

    def __init__(self) -> None:
        self._notes: dict[int, tuple[Callable[[], object], V]] = {}

    def get(self, obj: object) -> V | None:
        note = self._notes.get(id(obj))
        return note[1] if note is not None and note[0]() is obj else None

    def set(self, obj: object, value: V) -> None:
        key = id(obj)
        holder: Callable[[], object]
        try:
            holder = weakref.ref(obj, lambda _, notes=self._notes, key=key: notes.pop(key, None))  # type: ignore[misc]
        except TypeError:
            # Built-in functions of some kinds cannot be referred to weakly; they live as long as the process.
            holder = lambda: obj  # noqa: E731
        self._notes[key] = (holder, value)


_treatments: _Notes[str] = _Notes()


def graph_break(msg: str = "") -> None:
    """End the graph here when traced, with `msg` as the reason; does nothing otherwise."""


def is_compiling() -> bool:
    """True while being traced, False when run for real."""
    return False


def allow_in_graph(fn: F) -> F:
    """Put calls of `fn` into the graph as one node instead of tracing through it.

    `fn` takes and returns tensors (or nested tuples, lists, dicts of them), has no side effects and does not
    depend on values of tensors.

    Returns:
        `fn` itself, so that this can be used as a decorator.
    """
    return _treat(fn, "allow_in_graph")


def disallow_in_graph(fn: F) -> F:
    """Never put calls of `fn` into a graph: a call breaks the graph and runs for real.

    Returns:
        `fn` itself, so that this can be used as a decorator.
    """
    return _treat(fn, "disallow_in_graph")


def _treat(fn: F, treatment: str) -> F:
    if not callable(fn):
        raise TypeError(f"{treatment}() takes a callable, not {type(fn).__name__} ({fn!r})")
    _treatments.set(fn, treatment)
    return fn


def treatment(fn: object) -> str | None:
    """What was said about a callable: "allow_in_graph", "disallow_in_graph", "disable", "disable_frame" or None."""
    if isinstance(fn, _C.DisabledCallable):
        return "disable"
    return _treatments.get(fn)


class _Disabled:
    """`with framehook.disable():` — capture is off for this context inside; also a decorator."""

    def __init__(self, recursive: bool) -> None:
        self._recursive = recursive
        self._tokens: list[Any] = []

    def __call__(self, fn: Any) -> Any:
        return disable(fn, recursive=self._recursive)

    def __enter__(self) -> None:
        if not self._recursive:
            raise TypeError("disable(recursive=False) concerns one function: use it as a decorator")
        self._tokens.append(_C.enter_capture(None))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.exit_capture(self._tokens.pop())


@overload
def disable(fn: F, *, recursive: bool = True) -> F: ...
@overload
def disable(fn: None = None, *, recursive: bool = True) -> _Disabled: ...
def disable(fn: Any = None, *, recursive: bool = True) -> Any:
    """Run `fn` eagerly, whatever captures around it; without `fn` a decorator and a context manager.

    Args:
        fn: a function, any callable, or a module (returns a view of it).
        recursive: False lets what `fn` calls be captured; only the frame of `fn` itself stays eager.

    Raises:
        TypeError: when `fn` cannot be called.
    """
    if fn is None:
        return _Disabled(recursive)
    if isinstance(fn, torch.nn.Module):
        if not recursive:
            raise TypeError(
                "disable(recursive=False) takes a Python function, not a module: name its forward"
            )
        # The module itself stays as it is; what is returned is the module in everything but calling.
        return make_view(fn, _C.DisabledCallable(fn), (disable, ()))
    if not callable(fn):
        raise TypeError(f"framehook.disable() takes a callable, not {type(fn).__name__} ({fn!r})")
    if recursive:
        if isinstance(fn, _C.DisabledCallable):
            return fn
        # What objects keep in their dict describes them, not the call.
        updated = functools.WRAPPER_UPDATES if isinstance(fn, FunctionType) else ()
        return functools.update_wrapper(_C.DisabledCallable(fn), fn, updated=updated)
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, FunctionType):
        raise TypeError(f"disable(recursive=False) takes a Python function, not {type(fn).__name__} ({fn!r})")
    _treatments.set(function, "disable_frame")
    _C.mark(function.__code__, None, "skip", "framehook.disable(recursive=False)")
    return fn


class DynamicRange(NamedTuple):
    """Bounds of a dimension that was marked as dynamic; None where open."""

    min: int | None
    max: int | None


_dynamic: _Notes[dict[int, DynamicRange]] = _Notes()
_static: _Notes[frozenset[int]] = _Notes()


def mark_dynamic(
    t: torch.Tensor, dim: int | list[int] | tuple[int, ...], min: int | None = None, max: int | None = None
) -> None:
    """Say that the size of `t` in `dim` will change between calls, so that it is a symbol from the start.

    A size of 0 or 1 stays a number.  A compile that finds that the size has to be a number, because the function
    branches on it or loops over it, raises `DynamicDimensionError`, which names the operation.

    Raises:
        TypeError: when `t` is not a tensor.
        IndexError: when it has no such dimension.
        ValueError: when the size of `t` is not within the bounds.
    """
    known = dict(_dynamic.get(_tensor(t)) or {})
    for index in _dims(t, dim):
        size = t.shape[index]
        if (min is not None and size < min) or (max is not None and size > max):
            raise ValueError(f"size {size} of dimension {index} is not within the bounds {min} to {max}")
        known[index] = DynamicRange(min, max)
    _dynamic.set(t, known)


def mark_static(t: torch.Tensor, dim: int | list[int] | tuple[int, ...] | None = None) -> None:
    """Say that the size of `t` in `dim` (None: in every dimension) is never to become a symbol.

    Raises:
        TypeError: when `t` is not a tensor.
        IndexError: when it has no such dimension.
    """
    dims = range(_tensor(t).dim()) if dim is None else _dims(t, dim)
    _static.set(t, (_static.get(t) or frozenset()) | frozenset(dims))


def dynamic_dims(t: torch.Tensor) -> Mapping[int, DynamicRange]:
    """The dimensions of `t` that `mark_dynamic` named."""
    return _dynamic.get(t) or {}


def static_dims(t: torch.Tensor) -> frozenset[int]:
    """The dimensions of `t` that `mark_static` named."""
    return _static.get(t) or frozenset()


def _tensor(t: object) -> torch.Tensor:
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"only tensors have dimensions to mark, not {type(t).__name__} ({t!r})")
    return t


def _dims(t: torch.Tensor, dim: int | list[int] | tuple[int, ...]) -> list[int]:
    found = []
    for index in [dim] if isinstance(dim, int) else dim:
        if not -t.dim() <= index < t.dim():
            raise IndexError(f"dimension {index} of a tensor with {t.dim()} dimensions")
        found.append(index % t.dim())
    return found
