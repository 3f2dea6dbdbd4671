"""What a cached call costs: guards, lookup and the way to the graph; the graph itself returns stored outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.compilers import PEER, Compiler, StoredOutputs
from framehook.testing import assert_same, snapshot
from tests.models.zoo import by_name


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
    "two instances alternating": _two_instances,
    "counter attribute": _counting,
}


@pytest.mark.parametrize("title", ROWS)
def test_dispatch(
    title: str, compiler: Compiler, smoke: bool, row: Callable[..., None], benchmark: Any
) -> None:
    torch.manual_seed(0)
    fn, calls = ROWS[title](layers=2) if smoke and "layers" in title else ROWS[title]()
    backend = StoredOutputs()
    with torch.no_grad(), _peer_options(title, compiler):
        expected = [snapshot(fn(*args, **kwargs)) for args, kwargs in calls]
        compiled = compiler.compile(fn, backend=backend)
        for _ in range(4):
            for (args, kwargs), result in zip(calls, expected, strict=True):
                # What one model object is passed twice may be dynamic the second time; then it settles.
                assert_same(snapshot(compiled(*args, **kwargs)), result, exact=False, where=title)
        graphs = backend.graphs
        backend.stop_recording()
        row("dispatch", title, compiler, calls=len(calls))
        if len(calls) == 1:
            (args, kwargs) = calls[0]
            benchmark(compiled, *args, **kwargs)
        else:
            (first, _), (second, _) = calls

            def both() -> None:
                compiled(*first)
                compiled(*second)

            benchmark(both)
        assert backend.graphs == graphs, "recompiled while it was measured"


def _peer_options(title: str, compiler: Compiler) -> Any:
    # By default the peer compiles anew for every value of the counter, and then gives up.
    if compiler is PEER and title == "counter attribute":
        return torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True)
    return torch.no_grad()
