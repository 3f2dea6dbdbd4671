"""Facts about tensors that no metadata shows, methods replaced on the class, and caches: what once was stale."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import assert_same, snapshot


@pytest.fixture(params=["eager", "aot_eager"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _offsets() -> Iterator[Tensor]:
    base = torch.arange(10.0)
    yield from (base[2:4], base[2:4], base[4:6])


def _versions() -> Iterator[Tensor]:
    x = torch.ones(2)
    yield from (x, x)
    x.add_(1)
    yield x


def _plain_and_view() -> Iterator[Tensor]:
    yield from (torch.ones(2), torch.ones(2), torch.ones(4)[1:3])


FACTS: dict[str, tuple[Callable[[Tensor], Any], Callable[[], Iterator[Tensor]]]] = {
    "storage_offset": (lambda x: (x.storage_offset(), x * 2 + 1), _offsets),
    "version": (lambda x: (x._version, x * 2 + 1), _versions),
    "base": (lambda x: (x._base is None, x * 2 + 1), _plain_and_view),
    "is_view": (lambda x: (x._is_view(), x * 2 + 1), _plain_and_view),
    "is_set_to": (lambda x: (x.is_set_to(x), x * 2 + 1), _plain_and_view),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_that_are_not_metadata(name: str, backend: str) -> None:
    fn, inputs = FACTS[name]
    compiled = framehook.compile(fn, backend=backend)
    for x in inputs():
        (fact, result), (expected, value) = compiled(x), fn(x)
        assert fact == expected
        torch.testing.assert_close(result, value)


@pytest.mark.parametrize(
    "name, replacement, fn",
    [
        ("ndimension", lambda self: 50, lambda x: x * 2 + x.ndimension()),
        ("sum", lambda self: torch.full((), 7.0), lambda x: x.sum() * 2 + 1),
        ("__mul__", lambda self, other: self - other, lambda x: x * 2 + 1),
        ("__getitem__", lambda self, key: self + 5, lambda x: x[0] + 1),
    ],
)
def test_a_method_replaced_on_the_class_of_tensors(
    name: str, replacement: Any, fn: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.ones(2)
    compiled = framehook.compile(fn, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), fn(x))
    monkeypatch.setattr(Tensor, name, replacement)
    torch.testing.assert_close(compiled(x), fn(x))


def test_the_cache_of_a_function_is_used(backend: str) -> None:
    calls: list[int] = []

    @functools.lru_cache
    def cached(n: int) -> int:
        calls.append(n)
        return n * 2

    compiled = framehook.compile(lambda x, n: x * cached(n) + 1, backend=backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(1), 1), torch.full((1,), 3.0))
    assert calls == [1]
    assert cached.cache_info().hits == 2


def test_a_number_that_is_only_counted_with_costs_no_compile(backend: str) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.linear(x)

    model = Counting()
    compiled = framehook.compile(model, backend=backend)
    for count in range(1, 6):
        compiled(torch.ones(1, 2))
        assert model.calls == count
    assert (framehook.stats(compiled).misses, framehook.stats(compiled).hits) == (1, 4)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (), (0,)])
def test_new_of_a_size_and_of_values(shape: tuple[int, ...], backend: str) -> None:
    def program(x: Tensor) -> Any:
        made = x.new(x.shape).fill_(2)
        return made, x.new(torch.Size([3]) + x.shape).zero_(), x.new([4, 5]), x.new(2).fill_(1)

    compiled = framehook.compile(program, backend=backend)
    x = torch.ones(shape)
    for _ in range(2):
        assert_same(snapshot(compiled(x)), snapshot(program(x)))
