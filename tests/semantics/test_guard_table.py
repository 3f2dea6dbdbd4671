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

ROWS = [row for table in (TENSORS, VALUES, NAMES, STATE, MODULES) for row in table.rows]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
@pytest.mark.parametrize("first_calls", [1, 4], ids=["cold", "warm"])
def test_change(row: Row, first_calls: int) -> None:
    check(row, first_calls)


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
