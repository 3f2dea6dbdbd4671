"""The language: each small program is one graph, gives eager's result, and is served from the cache the second time."""

from __future__ import annotations

import copy

import pytest
import torch

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics import language_classes, language_containers, language_generators
from tests.semantics.guard_table import outcome
from tests.semantics.language_programs import PROGRAMS

assert language_classes and language_containers and language_generators  # they fill the table


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program = PROGRAMS[name]
    counter = CompileCounter()
    compiled = framehook.compile(program.fn, backend=counter)
    arguments, expected_arguments = program.arguments(), program.arguments()
    for attempt in range(3):
        torch.manual_seed(attempt)
        actual = snapshot((outcome(compiled, *arguments), arguments))
        torch.manual_seed(attempt)
        expected = snapshot((outcome(program.fn, *expected_arguments), expected_arguments))
        assert_same(actual, expected, where=f"call {attempt + 1}")
        assert counter.frame_count == program.graphs


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_without_breaks(name: str) -> None:
    program = PROGRAMS[name]
    compiled = framehook.compile(program.fn, backend="eager", fullgraph=True)
    torch.manual_seed(0)
    actual = snapshot(compiled(*program.arguments()))
    torch.manual_seed(0)
    assert_same(actual, snapshot(program.fn(*copy.deepcopy(program.arguments()))))
