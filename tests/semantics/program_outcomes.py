"""One program run eager and compiled, several times: results, exceptions with their lines, output, state, graphs."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot


def _error(error: BaseException) -> tuple[Any, ...]:
    lines = [
        (frame.name, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if "break_programs" in frame.filename or "break_table" in frame.filename
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


def check_program(fn: Any, graphs: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare four calls of `fn` with eager's, and the number of graphs with the one expected (None: any)."""
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for sign in (1, 1, -1, 1):
        x = sign * torch.arange(9.0).reshape(3, 3) / 4
        expected = _outcome(fn, x.clone(), capsys)
        actual = _outcome(compiled, x.clone(), capsys)
        assert actual[1:] == expected[1:]
        assert_same(actual[0], expected[0])
    if graphs is not None:
        assert counter.frame_count == graphs
