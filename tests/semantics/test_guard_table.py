"""What must miss and what must hit: each row runs eagerly and compiled, and both must give the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter
from tests.semantics.guard_rows_modules import MODULES
from tests.semantics.guard_rows_names import NAMES
from tests.semantics.guard_rows_state import STATE
from tests.semantics.guard_rows_tensors import TENSORS
from tests.semantics.guard_rows_values import VALUES
from tests.semantics.guard_table import Row, check


def _parameters(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


@_parameters(TENSORS.rows)
def test_tensors(row: Row) -> None:
    check(row)


@_parameters(VALUES.rows)
def test_values_and_objects(row: Row) -> None:
    check(row)


@_parameters(NAMES.rows)
def test_names_and_code(row: Row) -> None:
    check(row)


@_parameters(STATE.rows)
def test_process_state(row: Row) -> None:
    check(row)


@_parameters(MODULES.rows)
def test_modules(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(
    "transform",
    [
        lambda fn: lambda x: torch.func.grad(lambda t: fn(t).sum())(x),
        lambda fn: lambda x: torch.func.vmap(fn)(x),
        lambda fn: lambda x: torch.func.jvp(fn, (x,), (torch.ones_like(x),)),
        lambda fn: lambda x: torch.func.vmap(torch.func.grad(lambda t: fn(t).sum()))(x),
    ],
    ids=["grad", "vmap", "jvp", "vmap_of_grad"],
)
def test_a_compiled_function_inside_a_functorch_transform(
    transform: Callable[..., Callable[..., object]],
) -> None:
    def fn(x: Tensor) -> Tensor:
        return x * x + x.sum()

    compiled = framehook.compile(fn, backend=CompileCounter())
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), fn(x))
        torch.testing.assert_close(transform(compiled)(x), transform(fn)(x))
