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
from tests.models.zoo import by_name

ROWS = {
    "BERT, 12 layers": ("bert", 12),
    "GPT-2, 12 layers": ("gpt2", 12),
    "Llama, 12 layers": ("llama", 12),
    "T5, 6 + 6 layers": ("t5", 6),
}


ROUNDS = 5


@pytest.mark.parametrize("title", ROWS)
def test_trace(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    name, layers = ROWS[title]
    model, graphs = by_name(name), 0

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    def first_call(compiler: Compiler) -> Callable[[], Any]:
        compiler.reset()
        module = model.build(layers=2 if smoke else layers).eval()
        return partial(compiler.compile(module, backend=backend), **model.inference())

    with torch.no_grad():
        for compiler in (PEER, FRAMEHOOK):
            first_call(compiler)()  # warms the process up
        graphs = 0
        columns = {compiler.name: partial(first_call, compiler) for compiler in (PEER, FRAMEHOOK)}
        side_by_side("trace", title, columns, rounds=ROUNDS)
    assert graphs == (2 if smoke else 2 * ROUNDS)
