"""Writes that fake tensors and AOTAutograd see differently: through `.data`, and of results that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter

Write = Callable[[Tensor], Any]


def adds(w: Tensor) -> None:
    w.data.add_(1)


def adds_to_a_view(w: Tensor) -> None:
    w.data.view(-1)[1:].mul_(3)


def clamps_what_it_computes_with(w: Tensor) -> Tensor:
    y = w * 3
    w.data.clamp_(max=0.5)
    return y.detach()


def hands_it_out(w: Tensor) -> Tensor:
    return w.data


def hands_out_a_view(w: Tensor) -> Tensor:
    return w.data.view(2, 2)


def only_reads(w: Tensor) -> Tensor:
    return w.data * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "write",
    [adds, adds_to_a_view, clamps_what_it_computes_with, hands_it_out, hands_out_a_view, only_reads],
)
def test_writes_to_data_are_not_counted(write: Write, backend: str) -> None:
    """A tensor that backward needs and that changes through `.data`: backward takes the new values."""
    counter = CompileCounter(backend)
    seen = []
    for fn in (write, framehook.compile(write, backend=counter)):
        for _ in range(2):
            w = torch.arange(4.0, requires_grad=True)
            x = torch.ones(4, requires_grad=True)
            y = w * x
            handed = fn(w)
            if handed is not None:
                handed.add_(5)
            y.sum().backward()
            assert w.grad is not None
            assert x.grad is not None
            seen.append(
                (w.tolist(), w._version, w.grad.tolist(), x.grad.tolist(), handed is None or handed.tolist())
            )
    assert seen[2:] == seen[:2]
    # As one operation of AOTAutograd's it would be a view of the tensor, and counted.
    runs_as_it_is = backend == "aot_eager" and write in (hands_it_out, hands_out_a_view)
    assert counter.frame_count == (not runs_as_it_is)


def _raises_after(w: Tensor, i: Tensor) -> Any:
    w.data.add_(1)
    try:
        return w.detach()[i]
    except IndexError:
        return "outside"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_that_raises_after_a_write_to_data(backend: str) -> None:
    compiled = framehook.compile(_raises_after, backend=backend)
    for index in (0, 9, 1, 9):
        results = []
        for fn in (_raises_after, compiled):
            w = torch.arange(4.0, requires_grad=True)
            results.append((str(fn(w, torch.tensor([index]))), w.tolist(), w._version))
        assert results[1] == results[0]


INTS = torch.tensor([1, 2, 3], dtype=torch.int8)
BOOLS = torch.tensor([True, False, True])
FLOATS = torch.tensor([0.5, 1.5, 2.5])
ROWS = torch.ones(2, 3)

FITS: list[tuple[str, Tensor, tuple[Any, ...], bool]] = [
    ("mul_", INTS, (2.5,), False),
    ("mul_", INTS, (3,), True),
    ("mul_", INTS, (FLOATS,), False),
    ("mul_", BOOLS, (2,), False),
    ("mul_", BOOLS, (True,), True),
    ("mul_", BOOLS, (INTS,), False),
    ("multiply_", INTS, (1j,), False),
    ("__imul__", INTS, (2.5,), False),
    ("__iadd__", INTS, (2.5,), False),
    ("__itruediv__", INTS, (2,), False),
    ("__ifloordiv__", INTS, (2,), True),
    ("__ipow__", INTS, (2,), True),
    ("sub_", FLOATS, (1j,), False),
    ("mul_", FLOATS, (2,), True),
    ("mul_", FLOATS, (ROWS,), False),
    ("ne_", FLOATS, (ROWS,), False),
    ("ne_", FLOATS, (FLOATS,), True),
    ("lt_", INTS, (2.5,), True),
    ("nextafter_", FLOATS, (ROWS,), False),
    ("xlogy_", FLOATS, (ROWS,), False),
    ("clamp_", INTS, (1.5,), False),
    ("__ior__", BOOLS, (INTS,), False),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("method", "first", "others", "fits"), FITS)
def test_results_that_do_not_fit(
    method: str, first: Tensor, others: tuple[Any, ...], fits: bool, backend: str
) -> None:
    def program(x: Tensor, *others: Any) -> Any:
        try:
            return getattr(x, method)(*others)
        except (RuntimeError, TypeError) as error:
            return str(error)

    counter = CompileCounter(backend)
    compiled = framehook.compile(program, backend=counter)
    for _ in range(2):
        results = []
        for fn in (program, compiled):
            x = first.clone()
            results.append((str(fn(x, *others)), x.tolist(), x.dtype, x.shape))
        assert results[1] == results[0]
    assert isinstance(program(first.clone(), *others), Tensor) is fits
    assert counter.frame_count == fits
