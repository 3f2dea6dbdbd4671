"""What random programs have found, each in its smallest form, with its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter


def _verified(fn: Callable[..., Any], *args: Any) -> Any:
    report = framehook.verify(fn, backend=CompileCounter(), exact=True, calls=3)(*args)
    assert report, str(report)
    return report


#: Writes that the real operation refuses, because what it reads lies in the same memory.
OVERLAPPING: dict[str, Callable[[Tensor], Any]] = {
    "augmented": lambda x: x.__isub__(x[0]),
    "part of itself": lambda x: x[1:].copy_(x[:-1]),
    "an element": lambda x: x.view(4).mul_(x[2]),
    "out": lambda x: torch.add(x[1:], x[:3], out=x[:3]),
    "expanded": lambda x: x.expand(2, 4).add_(1),
    "expanded row": lambda x: x[:1].expand(3).mul_(x[1:]),
    "transposed": lambda x: x.view(2, 2).add_(x.view(2, 2).t()),
    "masked": lambda x: x.__setitem__(x > 0, x[0]),
    "where it is allowed: all of itself": lambda x: x.add_(x.view(4)),
    "where it is allowed: another part": lambda x: x[:2].add_(x[2:]),
    "where it is allowed: not dense": lambda x: x[::2].add_(x[1::2]),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_writes_into_memory_that_is_read(name: str) -> None:
    write = OVERLAPPING[name]

    def fn(x: Tensor) -> Tensor:
        x.mul_(2)
        write(x)
        x.add_(1)
        return x

    report = _verified(fn, torch.arange(4.0))
    if name.startswith("where"):
        assert (report.graphs, report.graph_breaks) == (1, ())


def test_inputs_that_overlap() -> None:
    memory = torch.arange(4.0)

    def fn(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        z.add_(1)
        x.add_(y)
        return x

    _verified(fn, memory[1:], memory[:-1], torch.ones(3))


def test_plain_element_assignments_stay_in_the_graph() -> None:
    def fn(x: Tensor) -> Tensor:
        x[0] = x[1]
        x[1:] *= 2
        m = torch.ones(3, 3)
        m[:, 0] += m[:, 1]
        m[0] = m[1]
        return m + x

    assert _verified(fn, torch.arange(3.0)).graphs == 1
