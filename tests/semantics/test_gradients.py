"""Training: each small program gives eager's results, gradients, mutations and random numbers, in as few graphs as it can."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from framehook.testing import check
from tests.semantics import gradient_autograd, gradient_checkpoints, gradient_functional, gradient_values
from tests.semantics.gradient_table import PROGRAMS

#: They fill the table.
TABLES = (gradient_autograd, gradient_checkpoints, gradient_functional, gradient_values)


@pytest.fixture(autouse=True)
def parameters_are_checked() -> None:
    """As in a new process; `torch.compile`, which is behind eager's `torch.cond`, turns it off."""
    torch.distributions.Distribution.set_default_validate_args(True)


def checked(name: str, backend: str) -> Any:
    """Run a program eagerly and compiled, three times each."""
    program = PROGRAMS[name]
    # Graphs that AOTAutograd is not given, the backend does not see.
    graphs = program.graphs if backend == "eager" else None
    return check(program.fn, *program.arguments(), graphs=graphs, backend=backend, backward=program.backward)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    breaks = checked(name, "eager").compiled.stats().graph_breaks
    assert bool(breaks) is bool(PROGRAMS[name].reason), breaks


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_under_autograd_tracing(name: str) -> None:
    checked(name, "aot_eager")
