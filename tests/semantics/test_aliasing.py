"""Arguments that are one tensor, or share memory: every pattern, after every other pattern, gives eager's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import assert_same, snapshot

Pair = tuple[Tensor, Tensor]


def numbers(count: int, grad: bool = False) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(1)).requires_grad_(grad)


def distinct() -> Pair:
    return numbers(4), numbers(4) + 1


def same() -> Pair:
    one = numbers(4)
    return one, one


def shifted_by_one() -> Pair:
    base = numbers(5)
    return base[:4], base[1:]


def shifted_by_two() -> Pair:
    base = numbers(6)
    return base[:4], base[2:]


def halves() -> Pair:
    base = numbers(8)
    return base[:4], base[4:]


def interleaved() -> Pair:
    base = numbers(8)
    return base[::2], base[1::2]


PATTERNS = [
    distinct,
    same,
    shifted_by_one,
    shifted_by_two,
    halves,
    interleaved,
    distinct,
    same,
    shifted_by_one,
]


def changes_first(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    return y * 2


def changes_both(x: Tensor, y: Tensor) -> Any:
    x.add_(y)
    y.mul_(2)
    return x + y


def changes_through_a_view(x: Tensor, y: Tensor) -> Any:
    z = x.view(-1)
    z.mul_(3)
    return x, y.view(4), y * 1


def returns_views(x: Tensor, y: Tensor) -> Any:
    return x.view(2, 2), y.view(4), x, x + y


def computes_twice(x: Tensor, y: Tensor) -> Any:
    return x + 1, x + 1, y + 1


def returns_views_of_its_own(x: Tensor, y: Tensor) -> Any:
    a = x * 2
    return a, a.view(2, 2), x * 2


FUNCTIONS = [changes_first, changes_both, changes_through_a_view]
FUNCTIONS += [returns_views, computes_twice, returns_views_of_its_own]


def outcome(fn: Callable[..., Any], pair: Pair) -> Any:
    try:
        return snapshot((pair, fn(*pair)))
    except RuntimeError as error:
        return snapshot((pair, str(error)))


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("step", [1, -1], ids=["forwards", "backwards"])
def test_patterns_of_arguments(fn: Callable[..., Any], backend: str, step: int) -> None:
    compiled = framehook.compile(fn, backend=backend)
    for make in PATTERNS[::step]:
        expected, actual = outcome(fn, make()), outcome(compiled, make())
        assert_same(actual, expected, exact=backend == "eager", where=make.__name__)


@pytest.mark.parametrize("fn", [returns_views, computes_twice, returns_views_of_its_own])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_patterns_of_gradients(fn: Callable[..., Any], backend: str) -> None:
    compiled = framehook.compile(fn, backend=backend)
    for first, second in [(True, True), (True, False), (False, True), (False, False)] * 2:
        seen = []
        for each in (fn, compiled):
            x, y = numbers(4, first), numbers(4, second)
            result = each(x, y)
            total = sum(part.sum() for part in result if part.requires_grad)
            if isinstance(total, Tensor):
                total.backward()
            seen.append(snapshot((x, y, result)))
        assert_same(seen[1], seen[0], exact=backend == "eager")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_equal_results_are_two_tensors(backend: str) -> None:
    compiled = framehook.compile(computes_twice, backend=backend)
    x = numbers(4, grad=True)
    first, second, _ = compiled(x, x)
    assert first is not second
    with torch.no_grad():
        first.zero_()
    torch.testing.assert_close(second, x + 1)
