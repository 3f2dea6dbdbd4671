"""The value of a tensor without dimensions is data: no trace may take it for a constant, whatever torch remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException

import framehook
from framehook import torch_compat
from framehook.testing import CompileCounter

PROGRAMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "item": lambda x, i: x * i.item(),
    "int": lambda x, i: x + int(i),
    "float": lambda x, i: x + float(i),
    "tolist": lambda x, i: x + i.tolist(),
    "bool": lambda x, i: x + 1 if i else x - 1,
    "comparison": lambda x, i: x + 1 if i > 1 else x - 1,
    "index of a tensor": lambda x, i: x[i] * 2,
    "index of a tensor among others": lambda x, i: x.reshape(2, 4)[..., i],
    "index of a list": lambda x, i: x * [5, 6, 7, 8][i],
    "slice": lambda x, i: x[i:] * x[i:].shape[0],
    "size": lambda x, i: x.new_ones(i).sum() + x,
    "range": lambda x, i: torch.arange(i).sum() + x,
    "narrow": lambda x, i: x.narrow(0, i, 2) * 2,
    "select": lambda x, i: x.select(0, i) + x,
    "fill value": lambda x, i: torch.full((2,), i) + x[0],
    "scale": lambda x, i: torch.add(x, x, alpha=i),
    "repeats": lambda x, i: x.repeat(i).shape[0] * x,
    "store": lambda x, i: x.clone().index_fill_(0, i.reshape(1).long(), 3.0),
    "store at": lambda x, i: _store(x.clone(), i),
    "a sum": lambda x, i: x * (i + 1).item(),
    "a view": lambda x, i: x * torch.stack((i, i))[0].item(),
    "a word": lambda x, i: (x + 1, f"{i.item():03d}"),
}  # fmt: skip


def _store(x: Tensor, i: Tensor) -> Tensor:
    x[i] = 7.0
    return x * 2


def outcome(run: Callable[[], Any]) -> Any:
    try:
        value = run()
    except Exception as error:
        return type(error), str(error)
    return [
        part.tolist() if isinstance(part, Tensor) else part
        for part in (value if isinstance(value, tuple) else (value,))
    ]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.float64], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_value_has_its_own_result(name: str, dtype: torch.dtype, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = framehook.compile(program, backend=backend)
    x = torch.arange(8.0)
    for value in (1, 2, 3, 0, 2):
        index = torch.tensor(value, dtype=dtype)
        assert outcome(lambda: compiled(x, index)) == outcome(lambda: program(x, index))  # noqa: B023


def test_values_that_stay_tensors_are_in_one_graph() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(lambda x, i: (x * i + i).sum() + i, backend=counter, fullgraph=True)
    for value in (1, 2, 3):
        assert compiled(torch.arange(3.0), torch.tensor(value)) == 3 * value + 3 * value + value
    assert counter.frame_count == 1


@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int8, torch.float64, torch.float32, torch.bool], ids=str
)
def test_a_fake_does_not_know_the_number(dtype: torch.dtype, is_static: bool) -> None:
    tensor = torch.tensor(1, dtype=dtype)
    fake = torch_compat.fakify(torch_compat.make_fake_mode(), tensor, static=is_static, source="L['x']")
    with pytest.raises(DataDependentOutputException):
        fake.item()
