"""What capturing costs: the first call of a newly built model in a warm process, with a backend that does nothing.

The first trace of a process, which pays for imports, is in `test_cold_start.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.compilers import Compiler
from tests.models.zoo import by_name

ROWS = {
    "BERT, 12 layers": ("bert", 12),
    "GPT-2, 12 layers": ("gpt2", 12),
    "Llama, 12 layers": ("llama", 12),
    "T5, 6 + 6 layers": ("t5", 6),
}


@pytest.mark.parametrize("title", ROWS)
def test_trace(title: str, compiler: Compiler, smoke: bool, row: Callable[..., None], benchmark: Any) -> None:
    name, layers = ROWS[title]
    model, graphs = by_name(name), 0

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    def new_model() -> tuple[tuple[Any, ...], dict[str, Any]]:
        compiler.reset()
        module = model.build(layers=2 if smoke else layers).eval()
        return (compiler.compile(module, backend=backend),), model.inference()

    def first_call(compiled: Any, **batch: Any) -> None:
        compiled(**batch)

    row("trace", title, compiler)
    with torch.no_grad():
        (compiled,), batch = new_model()
        first_call(compiled, **batch)  # warms the process up
        graphs = 0
        benchmark.pedantic(first_call, setup=new_model, rounds=1 if smoke else 5)
    assert graphs == (1 if smoke else 5)
