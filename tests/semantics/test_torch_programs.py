"""Torch: each small program gives eager's results, gradients, mutations and random numbers, in as few graphs as it can."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framehook
from framehook.testing import check
from tests.semantics import torch_modules, torch_programs, torch_state_programs
from tests.semantics.torch_programs import Program

# All three files fill one table.
assert torch_modules.program is torch_state_programs.program is torch_programs.program
PROGRAMS = torch_programs.PROGRAMS

all_programs = pytest.mark.parametrize("name", PROGRAMS)


def built(program: Program) -> Any:
    """The function, or a module with weights from a fixed seed."""
    if not program.is_module:
        return program.fn
    torch.manual_seed(0)
    return program.fn()


@all_programs
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_program(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    # AOTAutograd cannot differentiate twice; its backward says so.
    backward = (name, backend) != ("gradients_asked_for", "aot_eager")
    check(built(program), *program.arguments(), graphs=program.graphs, backend=backend, backward=backward)


@all_programs
def test_program_without_gradients(name: str) -> None:
    program = PROGRAMS[name]
    fn = built(program)
    if isinstance(fn, nn.Module):
        fn.eval()
    with torch.no_grad():
        check(fn, *program.arguments(), backward=False)


@all_programs
def test_program_in_inference_mode(name: str) -> None:
    program = PROGRAMS[name]
    fn = built(program)
    with torch.inference_mode():
        check(fn, *program.arguments(), backward=False)


@all_programs
def test_program_under_autocast(name: str) -> None:
    program = PROGRAMS[name]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(built(program), *program.arguments())


@all_programs
def test_program_without_breaks(name: str) -> None:
    program = PROGRAMS[name]
    if program.graphs != 1:
        pytest.skip("it breaks")
    framehook.compile(built(program), backend="eager", fullgraph=True)(*program.arguments())
