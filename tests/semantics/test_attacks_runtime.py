"""What happens around a graph while it runs: hooks, modes, exceptions half-way, and what they leave behind."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import framehook
from framehook.testing.counting import CompileCounter

BACKENDS: dict[str, Any] = {
    "eager": lambda: "eager",
    "counter": CompileCounter,
    "the module": lambda: lambda gm, inputs: gm,
    "its forward": lambda: lambda gm, inputs: gm.forward,
    "aot_eager": lambda: "aot_eager",
}


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    """The result of a call, or its exception's class and text."""
    try:
        return "returned", run()
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]


# -- modules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_global_hooks_do_not_see_the_graph(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    hook = nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(type(m).__name__))
    original = nn.Module.__call__
    nn.Module.__call__ = lambda self, *a, **k: seen.append("call") or original(self, *a, **k)  # type: ignore
    try:

        @framehook.compile(backend=BACKENDS[backend]())
        def f(x: Tensor, i: Tensor) -> Tensor:
            return (x * 2 + 1)[i]

        for _ in range(2):
            assert f(torch.ones(3), torch.tensor(1)) == 3
        with pytest.raises(IndexError):
            f(torch.ones(3), torch.tensor(7))
    finally:
        hook.remove()
        nn.Module.__call__ = original  # type: ignore[method-assign]
    assert not seen
    assert "FX-traced" not in capfd.readouterr().err


# -- exceptions half-way -----------------------------------------------------------------------------------------


def dropout(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    y = F.dropout(x)
    try:
        return y[i] * 2
    except IndexError:
        return y * 3


def noise(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    y = x + torch.randn_like(x)
    return y[i] * 2


def attention(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    q = x.view(1, 1, -1, 1)
    y = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).view(-1)
    try:
        return y[i]
    except IndexError:
        return y


def change(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    log.append("begun")
    x.add_(1)
    try:
        return x[i] * 2
    except IndexError:
        log.append("caught")
        return x * 3
    finally:
        log.append("ended")


def change_view(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    x[1:].mul_(2)
    log.append("changed")
    y = torch.index_select(x, 0, i.reshape(1)) + 1
    x.zero_()
    return y


def change_at_random(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    x.add_(torch.rand(5))
    log.append("changed")
    return x.gather(0, i.reshape(1)) * torch.rand(1)


def whole_numbers(x: Tensor, i: Tensor, log: list[str]) -> Tensor:
    x.add_(1)
    log.append("changed")
    try:
        return x + 10 // (i - 9)
    except RuntimeError:
        return x - 1


RAISING = (dropout, noise, attention, change, change_view, change_at_random, whole_numbers)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", RAISING, ids=lambda program: program.__name__)
def test_graph_that_raises_leaves_what_eager_leaves(program: Callable[..., Tensor], backend: str) -> None:
    compiled = framehook.compile(program, backend=backend)

    def play(fn: Callable[..., Tensor]) -> list[Any]:
        torch.manual_seed(3)
        told: list[Any] = []
        for index in (1, 9, 2, 9):
            x, log = torch.arange(5.0), ["before"]
            kind, value = outcome(lambda: fn(x, torch.tensor(index), log))  # noqa: B023
            value = value.tolist() if isinstance(value, Tensor) else value
            version = x._version if backend == "eager" else 0  # AOTAutograd writes once more
            told.append((kind, value, x.tolist(), version, log, torch.rand(1).item()))
        return told

    assert play(compiled) == play(program)
    assert compiled.stats().compiles >= 1


def test_error_of_an_operation_in_tracing_is_eagers() -> None:
    def f(x: Tensor) -> Tensor:
        return x.add_(1) * 2

    wide = torch.zeros(1).expand(4)
    for backend in ("eager", "aot_eager"):
        compiled = framehook.compile(f, backend=backend)
        assert outcome(lambda: compiled(wide)) == outcome(lambda: f(wide))  # noqa: B023


# -- modes -------------------------------------------------------------------------------------------------------


class Watching(TorchFunctionMode):
    """Notes which functions run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):
    """Notes which operations run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Packing(torch.autograd.graph.saved_tensors_hooks):
    """Notes which tensors are saved."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        super().__init__(lambda t: self.seen.append(type(t).__name__) or t, lambda t: t)


@pytest.mark.parametrize("mode", [Watching, Dispatching, Packing])
def test_modes_see_what_they_see_eagerly(mode: Any) -> None:
    def f(x: Tensor) -> Tensor:
        if x.shape[0] > 2 and x.requires_grad:
            return (x @ x).sin() * 2
        return x

    compiled = framehook.compile(f, backend="eager")
    x = torch.ones(3, 3, requires_grad=True)
    for _ in range(3):
        with mode() as plain:
            f(x)
        with mode() as watching:
            compiled(x)
        seen = [getattr(each, "seen", None) for each in (plain, watching)]
        assert seen[0] == seen[1]
    assert compiled.stats().compiles == 0
    compiled(x)
    assert compiled.stats().compiles == 1, "the mode was remembered"


def test_default_device_is_compiled_under() -> None:
    compiled = framehook.compile(lambda x: x + torch.ones(3), backend="eager")
    with torch.device("cpu"):
        compiled(torch.ones(3))
    assert compiled.stats().compiles == 1


# -- what a compiled function says of itself -----------------------------------------------------------------------


async def coroutine(x: int) -> int:
    return x


def generator(x: int) -> Any:
    yield x


async def async_generator(x: int) -> Any:
    yield x


def plain(x: int) -> int:
    return x


QUESTIONS = (
    asyncio.iscoroutinefunction,
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


@pytest.mark.parametrize("fn", [coroutine, generator, async_generator, plain], ids=lambda fn: fn.__name__)
def test_kind_of_function(fn: Any) -> None:
    compiled = framehook.compile(fn, backend="eager")
    assert [ask(compiled) for ask in QUESTIONS] == [ask(fn) for ask in QUESTIONS]
    assert inspect.signature(compiled) == inspect.signature(fn)


# -- lifetimes ---------------------------------------------------------------------------------------------------

FIRST_COMPILE = """
import gc, weakref
import torch, framehook
gc.disable()
def run():
    module = torch.nn.Linear(3, 3)
    framehook.compile(module, backend="eager")(torch.ones(2, 3))
    return weakref.ref(module)
assert run()() is None, "the module is still alive"
"""


def test_first_compile_of_a_process_keeps_nothing_alive() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_COMPILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
