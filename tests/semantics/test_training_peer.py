"""What `torch.compile` makes of the pieces of training scripts: where it captures one graph, so do we."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import Executor
from typing import Any

import pytest
import torch

from tests.semantics.test_training import TABLES, run
from tests.semantics.training_table import SCRIPTS

assert TABLES  # they fill the table

#: Its counts were measured with this Python; with others it captures less, or more.
MEASURED = sys.version_info[:2] == (3, 11)


def graphs_of_the_peer(name: str) -> tuple[int, int] | None:
    """How many graphs `torch.compile` makes of the first call, and of all; None where it raises."""
    graphs = 0
    counts: list[int] = []

    def backend(graph_module: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph_module.forward

    torch._dynamo.reset()
    logging.disable(logging.CRITICAL)
    try:
        run(SCRIPTS[name], lambda fn: torch.compile(fn, backend=backend), lambda: counts.append(graphs))
    except Exception:
        return None
    finally:
        logging.disable(logging.NOTSET)
        torch._dynamo.reset()
    return counts[0], counts[-1]


@pytest.mark.slow
@pytest.mark.skipif(not MEASURED, reason="measured with Python 3.11")
@pytest.mark.parametrize("name", SCRIPTS)
def test_graphs_of_the_peer(name: str, another_process: Executor) -> None:
    assert another_process.submit(graphs_of_the_peer, name).result(timeout=120) == SCRIPTS[name].peer


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_more_graphs_than_the_peer(name: str) -> None:
    script = SCRIPTS[name]
    if script.peer is None or script.peer[0] == 0:
        pytest.skip("the peer captures nothing")
    assert script.reason or (script.graphs <= script.peer[0] and script.in_all <= script.peer[1])
