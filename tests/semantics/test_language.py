"""The language: each small program gives eager's result, in as many graphs as its table says, and is served from the cache.

It is called with the same arguments twice (what it did to them included), and with other values of its tensors and
of what else its variants change.
"""

from __future__ import annotations

import contextlib
import io
import random
import types
from typing import Any

import numpy
import pytest
import torch

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics import (
    language_builtins,
    language_classes,
    language_containers,
    language_corners,
    language_effects,
    language_exceptions,
    language_functions,
    language_generators,
    language_iteration,
    language_itertools,
    language_lists,
    language_mappings,
    language_objects,
    language_patterns,
    language_programs,
    language_records,
    language_stdlib,
    language_text,
)
from tests.semantics.guard_table import outcome
from tests.semantics.language_table import PROGRAMS, Program

#: They fill the table.
TABLES = (
    *(language_classes, language_containers, language_corners, language_exceptions, language_functions),
    *(language_generators, language_iteration, language_objects, language_patterns, language_programs),
    *(language_records, language_lists, language_mappings, language_builtins, language_itertools),
    *(language_text, language_stdlib, language_effects),
)
#: The variants that are called in turn; None: the arguments of the call before, as it left them.
CALLS = (0, None, 1, None, 2, 0)
WITHOUT_BREAKS = [name for name, program in PROGRAMS.items() if not program.reason]


class Side:
    """One of the two runs that are compared: its function, its arguments, its copy of the program's state."""

    def __init__(self, program: Program, fn: Any) -> None:
        self.program = program
        self.fn = fn
        self.state = program.read_state()
        self.arguments: tuple[Any, ...] = ()

    def call(self, variant: int | None) -> Any:
        """Call it and return all that can be seen afterwards."""
        if variant is not None:
            self.arguments = self.program.variant(variant)
        self.program.write_state(self.state)
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = outcome(self.fn, *self.arguments)
        self.state = self.program.read_state()
        by_chance = (torch.rand(()), random.random(), float(numpy.random.rand()))
        return snapshot((_shown(result), self.arguments, self.state, printed.getvalue(), by_chance))


def _shown(result: Any) -> Any:
    if isinstance(result, types.GeneratorType):
        return "generator", list(result)
    if isinstance(result, BaseException):
        chain = (repr(result.__cause__), repr(result.__context__), result.__suppress_context__)
        return type(result), str(result), chain, getattr(result, "__notes__", None)
    return result


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program = PROGRAMS[name]
    before = program.read_state()
    counter = CompileCounter()
    compiled, eager = Side(program, framehook.compile(program.fn, backend=counter)), Side(program, program.fn)
    try:
        for number, variant in enumerate(CALLS):
            actual, expected = compiled.call(variant), eager.call(variant)
            assert_same(actual, expected, where=f"call {number + 1}")
            if number == 0:
                assert counter.frame_count == program.graphs
        assert counter.frame_count == program.in_all
    finally:
        program.write_state(before)


@pytest.mark.parametrize("name", WITHOUT_BREAKS)
def test_program_without_breaks(name: str) -> None:
    program = PROGRAMS[name]
    before = program.read_state()
    compiled = framehook.compile(program.fn, backend="eager", fullgraph=True)
    torch.manual_seed(0)
    try:
        actual = snapshot(_shown(outcome(compiled, *program.variant(0))))
        program.write_state(before)
        torch.manual_seed(0)
        assert_same(actual, snapshot(_shown(outcome(program.fn, *program.variant(0)))))
    finally:
        program.write_state(before)
