"""Programs that break everywhere, side by side with eager: results, exceptions with their lines, output, state."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from tests.semantics import (
    break_programs_exceptions,
    break_programs_expressions,
    break_programs_functions,
    break_programs_iterators,
    break_programs_observers,
    break_programs_values,
)
from tests.semantics.program_outcomes import check_program

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


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_program(*PROGRAMS[name], capsys)


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
