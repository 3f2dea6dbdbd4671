"""What a cached call costs: guards, lookup and the way to the graph; the graph itself returns stored outputs."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import repeat
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.compilers import FRAMEHOOK, PEER, StoredOutputs
from framehook.testing import assert_same, snapshot
from tests.models.zoo import by_name

#: One round is as many calls as fit into this time.
ROUND_SECONDS = 0.003
ROUNDS = 150
RANDOM_SIZES = "8 entries, random sizes"


class Stack(nn.Module):
    """Linear layers, one after the other."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Counting(nn.Module):
    """Writes an attribute in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(x)


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def of_dict(batch: dict[str, Tensor]) -> Tensor:
    return batch["a"] + batch["b"] * batch["c"] - batch["d"]


def through(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


Program = tuple[Callable[..., Any], list[tuple[tuple[Any, ...], dict[str, Any]]]]


def _two_tensors() -> Program:
    return add, [((torch.randn(4), torch.randn(4)), {})]


def _dict_argument() -> Program:
    return of_dict, [(({name: torch.randn(4) for name in "abcd"},), {})]


def _linears(layers: int = 100) -> Program:
    return Stack(layers), [((torch.randn(2, 8),), {})]


def _bert(layers: int = 12) -> Program:
    model = by_name("bert")
    return model.build(layers=layers).eval(), [((), model.inference())]


def _qwen3(layers: int = 36) -> Program:
    model = by_name("qwen3")
    return model.build(layers=layers).eval(), [((), model.inference())]


def four_breaks(x: Tensor) -> Tensor:
    # None of the compilers knows this C function.
    x = x + 1
    gc.isenabled()
    x = x * 2
    gc.isenabled()
    x = x - 3
    gc.isenabled()
    x = x / 4
    gc.isenabled()
    return x + 5


def _four_breaks() -> Program:
    return four_breaks, [((torch.randn(4),), {})]


def _random_sizes() -> Program:
    """Eight sizes, of which two in a row are rarely the same."""
    calls = [((torch.randn(size), torch.randn(size)), {}) for size in range(2, 10)]
    return add, [random.Random(0).choice(calls) for _ in range(256)]


def _two_instances() -> Program:
    x = torch.randn(2, 8)
    return through, [((Stack(10), x), {}), ((Stack(10), x), {})]


def _counting() -> Program:
    return Counting(), [((torch.randn(2, 8),), {})]


ROWS: dict[str, Callable[..., Program]] = {
    "two tensors": _two_tensors,
    "dict argument": _dict_argument,
    "100 linear layers": _linears,
    "BERT, 12 layers": _bert,
    "Qwen3, 36 layers": _qwen3,
    "four graph breaks": _four_breaks,
    RANDOM_SIZES: _random_sizes,
    "two instances alternating": _two_instances,
    "counter attribute": _counting,
}

#: The ratio of the peer to framehook that is asked for.
GOALS = {
    "two tensors": 20,
    "dict argument": 15,
    "100 linear layers": 20,
    "BERT, 12 layers": 20,
    "Qwen3, 36 layers": 25,
    "four graph breaks": 10,
    RANDOM_SIZES: 15,
    "two instances alternating": 15,
    "counter attribute": 10,
}


Calls = dict[str, list[Callable[[], Any]]]


@contextmanager
def _warm_calls(title: str, smoke: bool) -> Iterator[Calls]:
    """For each compiler the calls of one row, compiled and shown to be right; none may compile any more."""
    torch.manual_seed(0)
    fn, calls = ROWS[title](layers=2) if smoke and "layers" in title else ROWS[title]()
    backends = {compiler.name: StoredOutputs() for compiler in (PEER, FRAMEHOOK)}
    ready: Calls = {}
    graphs: dict[str, int] = {}
    with torch.no_grad(), _peer_options(title):
        expected = [snapshot(fn(*args, **kwargs)) for args, kwargs in calls]
        for compiler in (PEER, FRAMEHOOK):
            backend = backends[compiler.name]
            options = {"dynamic": False} if title == RANDOM_SIZES else {}
            compiled = compiler.compile(fn, backend=backend, **options)
            for _ in range(4):
                for (args, kwargs), result in zip(calls, expected, strict=True):
                    # What one model object is passed twice may be dynamic the second time; then it settles.
                    assert_same(snapshot(compiled(*args, **kwargs)), result, exact=False, where=title)
            graphs[compiler.name] = backend.graphs
            backend.stop_recording()
            ready[compiler.name] = [partial(compiled, *args, **kwargs) for args, kwargs in calls]
        yield ready
    for name, backend in backends.items():
        assert backend.graphs == graphs[name], "recompiled while it was measured"


def _in_rounds(side_by_side: Callable[..., None], table: str, title: str, ready: Calls, smoke: bool) -> None:
    repeats = {name: 1 if smoke else _calls_in(ROUND_SECONDS, calls) for name, calls in ready.items()}
    rounds = {name: partial(partial, _run, calls, repeats[name]) for name, calls in ready.items()}
    counts = {name: repeats[name] * len(calls) for name, calls in ready.items()}
    side_by_side(table, title, rounds, rounds=ROUNDS, calls=counts, goal=GOALS[title])


@pytest.mark.parametrize("title", ROWS)
def test_dispatch(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    with _warm_calls(title, smoke) as ready:
        _in_rounds(side_by_side, "dispatch", title, ready, smoke)


@pytest.mark.parametrize("title", ["two tensors", "100 linear layers", "BERT, 12 layers"])
def test_dispatch_on_a_second_thread(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    with _warm_calls(title, smoke) as ready, ThreadPoolExecutor(1) as thread:

        def there() -> None:
            with torch.no_grad():  # grad mode is the thread's own
                _in_rounds(side_by_side, "dispatch_thread", title, ready, smoke)

        thread.submit(there).result()


@pytest.mark.parametrize("title", ["two tensors", "BERT, 12 layers", "Qwen3, 36 layers"])
def test_dispatch_with_cold_caches(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    other = bytearray(1 if smoke else 64 << 20)
    with _warm_calls(title, smoke) as ready:

        def touch_first(calls: list[Callable[[], Any]]) -> Callable[[], Any]:
            bytes(other)
            return partial(_run, calls, 1)

        rounds = {name: partial(touch_first, calls) for name, calls in ready.items()}
        side_by_side("dispatch_cold", title, rounds, rounds=ROUNDS)


def _run(calls: list[Callable[[], Any]], times: int) -> None:
    if len(calls) == 1:
        (call,) = calls
        for _ in repeat(None, times):
            call()
        return
    for _ in repeat(None, times):
        for call in calls:
            call()


def _calls_in(seconds: float, calls: list[Callable[[], Any]]) -> int:
    """How often the calls run in about `seconds`."""
    times = 1
    while True:
        start = time.perf_counter()
        _run(calls, times)
        passed = time.perf_counter() - start
        if passed > seconds / 10:
            return max(1, round(times * seconds / passed))
        times *= 2


def _peer_options(title: str) -> Any:
    # By default the peer compiles anew for every value of the counter, and then gives up.
    if title == "counter attribute":
        return torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True)
    return nullcontext()
