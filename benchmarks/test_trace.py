"""What capturing costs: the first call of a newly built model in a warm process, with a backend that does nothing.

The first trace of a process, which pays for imports, is in `test_cold_start.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from benchmarks.compilers import FRAMEHOOK, PEER, Compiler
from tests.models.zoo import ZooModel, by_name

ROWS = {
    "BERT, 12 layers": ("bert", 12),
    "GPT-2, 12 layers": ("gpt2", 12),
    "Llama, 12 layers": ("llama", 12),
    "T5, 6 + 6 layers": ("t5", 6),
    "Qwen3, 36 layers": ("qwen3", 36),
}
#: The ratio of the peer to framehook that is asked for.
GOAL = 4
GROWTH = {f"BERT, {layers} layers": layers for layers in (12, 36, 72)}
ROUNDS = 5


class CountingBackend:
    """Runs graphs as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


def _first_call(
    compiler: Compiler, model: ZooModel, layers: int, backend: CountingBackend
) -> Callable[[], Any]:
    """The first call of a new instance."""
    compiler.reset()
    module = model.build(layers=layers).eval()
    return partial(compiler.compile(module, backend=backend), **model.inference())


def _call_in_double(
    compiler: Compiler, model: ZooModel, layers: int, backend: CountingBackend
) -> Callable[[], Any]:
    """The second call of a new instance, whose parameters have become double in the meantime."""
    compiler.reset()
    module = model.build(layers=layers).eval()
    call = partial(compiler.compile(module, backend=backend), **model.inference())
    call()
    module.double()
    return call


Prepare = Callable[[Compiler, ZooModel, int, CountingBackend], Callable[[], Any]]


def _measure(
    prepare: Prepare, table: str, title: str, smoke: bool, graphs: int, side_by_side: Callable[..., None]
) -> None:
    name, layers = ROWS[title]
    backend = CountingBackend()
    columns = {
        compiler.name: partial(prepare, compiler, by_name(name), 2 if smoke else layers, backend)
        for compiler in (PEER, FRAMEHOOK)
    }
    with torch.no_grad():
        for warm_up in columns.values():
            warm_up()()
        backend.graphs = 0
        side_by_side(table, title, columns, rounds=ROUNDS, goal=GOAL)
    assert backend.graphs == (1 if smoke else ROUNDS) * graphs * len(columns)


@pytest.mark.parametrize("title", ROWS)
def test_trace(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    _measure(_first_call, "trace", title, smoke, 1, side_by_side)


@pytest.mark.parametrize("title", ["BERT, 12 layers", "GPT-2, 12 layers"])
def test_retrace(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    _measure(_call_in_double, "retrace", title, smoke, 2, side_by_side)


@pytest.mark.parametrize("title", GROWTH)
def test_growth(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    model, layers, backend = by_name("bert"), 2 if smoke else GROWTH[title], CountingBackend()
    with torch.no_grad():
        _first_call(FRAMEHOOK, model, 2, backend)()
        columns = {FRAMEHOOK.name: partial(_first_call, FRAMEHOOK, model, layers, backend)}
        side_by_side("trace_growth", title, columns, rounds=ROUNDS)
