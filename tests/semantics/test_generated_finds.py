"""What random programs have found, each in its smallest form, with its relatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


LOG: list[Any] = []


def _closing(x: Tensor) -> Any:
    try:
        yield x
        yield x * 2
    finally:
        LOG.append("closed")


def _within_no_grad(x: Tensor) -> Any:
    with torch.no_grad():
        yield x


def _failing(x: Tensor) -> Any:
    try:
        yield x
    finally:
        raise KeyError("at the end")


def _delegating(x: Tensor) -> Any:
    yield from _closing(x)


def dropped_at_return(x: Tensor) -> Tensor:
    generator = _closing(x)
    y = next(generator) * 2
    LOG.append("before")
    return y


def dropped_by_assignment(x: Tensor) -> Tensor:
    generator = _closing(x)
    y = next(generator) * 2
    generator = None
    LOG.append("after")
    return y


def dropped_by_a_loop(x: Tensor) -> Tensor:
    for each in _within_no_grad(x):
        break
    return each * 2


def dropped_by_zip(x: Tensor) -> Tensor:
    y = next(zip([1], _closing(x), strict=False))[1] + next(map(torch.neg, _delegating(x)))
    LOG.append("after")
    return y


def dropped_with_an_error(x: Tensor) -> Tensor:
    return next(_failing(x)) * 2


def dropped_in_a_callee(x: Tensor) -> Tensor:
    y = dropped_at_return(x)
    LOG.append("after")
    return y + 1


@pytest.mark.parametrize(
    "fn",
    [
        dropped_at_return,
        dropped_by_assignment,
        dropped_by_a_loop,
        dropped_by_zip,
        dropped_with_an_error,
        dropped_in_a_callee,
    ],
)
def test_generators_that_are_dropped_in_their_middle(fn: Callable[..., Any]) -> None:
    _verified(fn, torch.ones(3))


def test_generators_that_have_nothing_to_close_stay_in_the_graph() -> None:
    def plain(x: Tensor) -> Any:
        yield x
        yield from (x + 1, x + 2)

    def fn(x: Tensor) -> Tensor:
        generator = plain(x)
        finished = [each * 2 for each in _closing(x)]
        LOG.clear()
        return next(generator) + next(generator) + sum(finished)

    assert _verified(fn, torch.ones(3)).graphs == 1


def popped_and_set(x: Tensor, table: dict[str, Any]) -> Tensor:
    for value in table.values():
        LOG.append(value)
        for key in table:
            table.popitem()
            if len(table) < 5:
                table[key + "x"] = x.sum()
    return x + 1


def deleted_and_set(x: Tensor, table: dict[str, Any]) -> Tensor:
    for key in table:
        framehook.graph_break()
        del table[key]
        table[key + "x"] = x.sum()
    return x + 1


def cleared_and_set(x: Tensor, table: dict[str, Any]) -> Tensor:
    for key in table:
        framehook.graph_break()
        LOG.append(key)
        if len(LOG) < 6:
            names = list(table)
            table.clear()
            for name in names:
                table[name + "x"] = x.sum()
    return x + 1


def popped_after_deleting(x: Tensor, table: dict[str, Any]) -> Tensor:
    for key in table:
        framehook.graph_break()
        LOG.append(key)
        if len(LOG) == 1:
            del table["d"]
            table.popitem()
            table["e"] = x * 2
            table["f"] = x
    return x + 1


@pytest.mark.parametrize("fn", [popped_and_set, deleted_and_set, cleared_and_set, popped_after_deleting])
@pytest.mark.parametrize("size", [2, 4])
def test_dicts_that_change_below_an_iterator(fn: Callable[..., Any], size: int) -> None:
    table = dict(zip("dcba"[-size:] if fn is not popped_after_deleting else "abcd", range(4), strict=False))
    _verified(fn, torch.ones(3), table)


LIFE: list[str] = []


def noting_its_end(x: Tensor) -> Iterator[Tensor]:
    try:
        yield x + 1
        yield x + 2
    finally:
        LIFE.append("closed")


class Noting:
    def __enter__(self) -> None:
        LIFE.append("in")

    def __exit__(self, *error: object) -> None:
        LIFE.append("out")


def raises_in_a_with_block(x: Tensor) -> Any:
    with Noting():
        rows = noting_its_end(x)
        return next(rows) + 3 // 0


def raises_in_a_with_block_of_torch(x: Tensor) -> Any:
    framehook.graph_break()
    with torch.no_grad():
        rows = noting_its_end(x)
        return next(rows) + 3 // 0


def raises_behind_a_break_in_a_with_block(x: Tensor) -> Any:
    rows = noting_its_end(x)
    first = next(rows)
    with Noting():
        framehook.graph_break()
        return first + 3 // 0


def raises_in_a_finally_block(x: Tensor) -> Any:
    rows = noting_its_end(x)
    first = next(rows)
    try:
        framehook.graph_break()
        return first + [][0]
    finally:
        LIFE.append("finally")


def handles_what_it_raises(x: Tensor) -> Any:
    rows = noting_its_end(x)
    try:
        return next(rows) + 3 // 0
    except ZeroDivisionError:
        framehook.graph_break()
        LIFE.append("handled")
    LIFE.append("behind")
    return x + 1


@pytest.mark.parametrize(
    "fn",
    [
        raises_in_a_with_block,
        raises_in_a_with_block_of_torch,
        raises_behind_a_break_in_a_with_block,
        raises_in_a_finally_block,
        handles_what_it_raises,
    ],
)
def test_a_traceback_keeps_the_variables_of_its_frames(fn: Callable[..., Any]) -> None:
    def lives(call: Callable[..., Any]) -> list[str]:
        LIFE.clear()
        try:
            call(torch.ones(2))
        except (ZeroDivisionError, IndexError) as error:
            LIFE.append(type(error).__name__)
        LIFE.append("after")
        return LIFE.copy()

    compiled = framehook.compile(fn, backend="eager")
    expected = lives(fn)
    for _ in range(3):
        assert lives(compiled) == expected
