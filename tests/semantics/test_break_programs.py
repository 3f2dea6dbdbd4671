"""Programs that break everywhere, side by side with eager: results, exceptions with their lines, output, state."""

from __future__ import annotations

import contextlib
import gc
import sys
import traceback
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics import (
    break_programs_exceptions,
    break_programs_expressions,
    break_programs_functions,
    break_programs_iterators,
    break_programs_observers,
    break_programs_values,
)

ROOMS = (
    break_programs_expressions,
    break_programs_exceptions,
    break_programs_functions,
    break_programs_iterators,
    break_programs_observers,
    break_programs_values,
)
PROGRAMS: dict[str, tuple[Any, int | None]] = {}
for _room in ROOMS:
    PROGRAMS.update(_room.PROGRAMS)


def _error(error: BaseException) -> tuple[Any, ...]:
    lines = [
        (frame.name, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if "break_programs_" in frame.filename
    ]
    chain = (repr(error.__cause__), repr(error.__context__), error.__suppress_context__)
    return (type(error).__name__, str(error), lines, *chain)


def _outcome(fn: Any, x: Tensor, capsys: pytest.CaptureFixture[str]) -> tuple[Any, ...]:
    torch.manual_seed(0)
    result, raised = None, None
    try:
        result = fn(x)
    except Exception as error:
        raised = _error(error)
    seen = snapshot((x, result))
    state = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype())
    return seen, raised, capsys.readouterr().out, state, repr(sys.exc_info()[1]), torch.rand(1).item()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fn, graphs = PROGRAMS[name]
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for sign in (1, 1, -1, 1):
        x = sign * torch.arange(9.0).reshape(3, 3) / 4
        expected = _outcome(fn, x.clone(), capsys)
        actual = _outcome(compiled, x.clone(), capsys)
        assert_same(actual[0], expected[0])
        assert actual[1:] == expected[1:]
    if graphs is not None:
        assert counter.frame_count == graphs


KEEPING = (
    "handlers_nested",
    "finally_raise_override",
    "exc_tb_lines",
    "uncaught_chain",
    "mid_call_args",
    "with_multi",
)


@pytest.mark.parametrize("name", KEEPING)
def test_a_broken_frame_keeps_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fn, _ = PROGRAMS[name]
    # What the first compile of a process imports leaves garbage of its own.
    framehook.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    compiled = framehook.compile(fn, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            x = torch.arange(9.0).reshape(3, 3) / 4
            reference = weakref.ref(x)
            with contextlib.suppress(ValueError):
                compiled(x)
            del x
            assert reference() is None
    finally:
        gc.enable()


def test_a_graph_that_raises_half_way_leaves_the_state_as_it_was() -> None:
    attempts: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            attempts.append(1)
            if len(attempts) in (1, 3):
                torch._C._set_grad_enabled(False)
                torch.autocast_increment_nesting()
                torch.set_autocast_enabled("cpu", True)
                raise RuntimeError("half way")
            return graph.forward(*inputs)

        return run

    @framehook.compile(backend=backend)
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y, x * 2

    x = torch.ones(2, 2, requires_grad=True)
    for call in range(4):
        y, z = fn(x)
        assert (y.dtype, y.requires_grad, z.requires_grad) == (torch.bfloat16, False, True)
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
        assert len(attempts) == call + 1
