"""What `torch.compile` makes of the small programs: where it captures one graph, so do we."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import Executor
from typing import Any

import pytest
import torch

from tests.semantics.language_table import PROGRAMS
from tests.semantics.test_language import TABLES, Side

assert TABLES  # they fill the table

#: Its counts were measured with this Python; with others it captures less, or more.
MEASURED = sys.version_info[:2] == (3, 11)


def graphs_of_the_peer(name: str) -> int:
    """How many graphs `torch.compile` makes of the first call."""
    program = PROGRAMS[name]
    graphs = 0

    def backend(graph_module: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph_module.forward

    before = program.read_state()
    torch._dynamo.reset()
    logging.disable(logging.CRITICAL)
    try:
        Side(program, torch.compile(program.fn, backend=backend)).call(0)
    finally:
        logging.disable(logging.NOTSET)
        torch._dynamo.reset()
        program.write_state(before)
    return graphs


@pytest.mark.slow
@pytest.mark.skipif(not MEASURED, reason="measured with Python 3.11")
@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_the_peer(name: str, another_process: Executor) -> None:
    assert another_process.submit(graphs_of_the_peer, name).result(timeout=120) == PROGRAMS[name].peer


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_more_graphs_than_the_peer(name: str) -> None:
    program = PROGRAMS[name]
    assert program.graphs == 1 or program.reason or program.graphs < program.peer
