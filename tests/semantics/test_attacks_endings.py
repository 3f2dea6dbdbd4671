"""Objects whose end somebody sees go where the program lets go of them, whoever has held them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter

LOG: list[str] = []
HELD: Any = None


class Noisy:
    def __del__(self) -> None:
        LOG.append("died")


class Plain:
    pass


class Slotted:
    __slots__ = ("value",)


def running() -> Iterator[int]:
    try:
        yield 1
    finally:
        LOG.append("closed")


def noisy() -> Any:
    return Noisy()


def watched() -> Any:
    made = Plain()
    made.reference = weakref.ref(made, lambda _: LOG.append("gone"))  # type: ignore[attr-defined]
    KEPT.append(made.reference)  # type: ignore[attr-defined]
    del made.reference  # type: ignore[attr-defined]
    return made


def watched_by_proxy() -> Any:
    made = Plain()
    KEPT.append(weakref.proxy(made, lambda _: LOG.append("gone")))
    return made


def with_silent_proxy() -> Any:
    made = Plain()
    KEPT.append(weakref.proxy(made))
    return made


KEPT: list[Any] = []


def half_done() -> Any:
    rows = running()
    next(rows)
    return rows


def nested() -> Any:
    made = Plain()
    made.parts = [{"inner": (Noisy(),)}]  # type: ignore[attr-defined]
    return made


def in_attribute(made: Any) -> Any:
    holder = Plain()
    holder.value = made  # type: ignore[attr-defined]
    return holder


def in_slot(made: Any) -> Any:
    holder = Slotted()
    holder.value = made
    return holder


def in_cell(made: Any) -> Any:
    def let_go() -> None:
        nonlocal made
        made = None

    return let_go


def in_global(made: Any) -> None:
    global HELD
    HELD = made


def replace_global(holder: Any) -> None:
    global HELD
    HELD = 3


def set_attribute(holder: Any) -> None:
    holder.value = None


def delete_attribute(holder: Any) -> None:
    del holder.value


def set_item(holder: Any) -> None:
    holder[0] = None


def clear(holder: Any) -> None:
    holder.clear()


def pop(holder: Any) -> None:
    holder.pop()


def assign_slice(holder: Any) -> None:
    holder[:] = [1]


#: (what holds the object, what lets go of it)
WAYS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list_pop": (lambda made: [made], pop),
    "list_item": (lambda made: [made, 1], set_item),
    "list_slice": (lambda made: [made, 1], assign_slice),
    "list_clear": (lambda made: [1, made], clear),
    "deque_pop": (lambda made: deque([1, made]), pop),
    "dict_item": (lambda made: {0: made}, set_item),
    "dict_clear": (lambda made: {0: made}, clear),
    "dict_popitem": (lambda made: {0: made}, lambda holder: holder.popitem()),
    "attribute": (in_attribute, set_attribute),
    "deleted_attribute": (in_attribute, delete_attribute),
    "slot": (in_slot, set_attribute),
    "deleted_slot": (in_slot, delete_attribute),
    "cell": (in_cell, lambda holder: holder()),
    "global": (in_global, replace_global),
}


@pytest.mark.parametrize("make", [noisy, watched, watched_by_proxy, half_done, nested])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_let_go_ends_there(way: str, make: Callable[[], Any]) -> None:
    hold, let_go = WAYS[way]

    def fn(x: Tensor, holder: Any) -> tuple[Tensor, int]:
        y = x + 1
        let_go(holder)
        seen = len(LOG)
        LOG.append("behind")
        return y * 2 + seen, seen

    def run(call: Callable[..., Any]) -> Any:
        LOG.clear()
        result, seen = call(torch.ones(2), hold(make()))
        return result.tolist(), seen, LOG.copy()

    compiled = framehook.compile(fn, backend="eager")
    expected = run(fn)
    assert expected[1] == 1
    for _ in range(3):
        assert run(compiled) == expected


@pytest.mark.parametrize("way", WAYS)
def test_what_ends_silently_does_not_break_the_graph(way: str) -> None:
    hold, let_go = WAYS[way]

    def fn(x: Tensor, holder: Any) -> Tensor:
        y = x + 1
        let_go(holder)
        return y * 2

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for _ in range(2):
        compiled(torch.ones(2), hold([torch.ones(2), {"a": Plain()}, with_silent_proxy()]))
    assert counter.frame_count == 1, compiled.stats().graph_breaks
