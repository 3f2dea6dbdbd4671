"""The helpers for tests must themselves notice what they are there to notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from framehook.testing import CompileCounter, assert_same, check, snapshot


def test_counter_counts_graphs_and_operations() -> None:
    import framehook

    counter = CompileCounter()
    compiled = framehook.compile(lambda x: (x + 1) * 2, backend=counter, dynamic=False)
    compiled(torch.ones(2))
    compiled(torch.ones(2))
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (1, 2, 1)
    compiled(torch.ones(3))
    assert (counter.frame_count, counter.op_count) == (2, 4)
    counter.clear()
    assert (counter.frame_count, counter.op_count, counter.graphs) == (0, 0, [])


def test_check_returns_what_it_saw() -> None:
    checked = check(lambda x: x + 1, torch.ones(2), graphs=1)
    assert (checked.graphs, checked.operations) == (1, 1)
    assert torch.equal(checked.result, torch.full((2,), 2.0))


def test_check_leaves_arguments_alone() -> None:
    x = [torch.ones(2, requires_grad=True)]

    def fn(items: list[torch.Tensor]) -> torch.Tensor:
        items.append(items[0] * 2)
        return items[1]

    check(fn, x)
    assert len(x) == 1
    assert x[0].grad is None


def wrong_backend(change: Callable[[Any], Any]) -> Callable[..., Any]:
    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            return (
                type(result)(change(each) for each in result)
                if isinstance(result := gm(*args), list | tuple)
                else result
            )

        return run

    return backend


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t + 1,
        lambda t: t.double(),
        lambda t: t.detach(),
        lambda t: t.t().contiguous().t(),
        torch.nn.Parameter,
    ],
    ids=["value", "dtype", "gradient", "stride", "class"],
)
def test_check_notices_wrong_results(change: Callable[[Any], Any]) -> None:
    x = torch.randn(3, 2, requires_grad=True)
    with pytest.raises(AssertionError):
        check(lambda x: x * 2, x, backend=wrong_backend(change))


def test_check_notices_another_number_of_graphs() -> None:
    with pytest.raises(AssertionError, match="expected 2 graphs, got 1"):
        check(lambda x: x + 1, torch.ones(2), graphs=2)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.nn.Parameter(torch.ones(2), requires_grad=False)),
        (torch.ones(2, 2), torch.ones(2, 2).t().contiguous().t()[:, :1]),
        (ValueError("a"), ValueError("b")),
        (ValueError("a"), TypeError("a")),
    ],
)
def test_snapshots_tell_apart(left: object, right: object) -> None:
    assert_same(snapshot(left), snapshot(left))
    with pytest.raises(AssertionError):
        assert_same(snapshot(left), snapshot(right))


def test_snapshots_see_aliasing() -> None:
    shared = [1]
    with pytest.raises(AssertionError):
        assert_same(snapshot([shared, shared]), snapshot([[1], [1]]))
    loop: list[object] = []
    loop.append(loop)
    assert_same(snapshot(loop), snapshot(loop))
