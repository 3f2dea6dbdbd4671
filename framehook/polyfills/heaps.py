"""The functions of `heapq` that are C code (CPython: Modules/_heapqmodule.c)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

#: Whether the first of two items belongs nearer to the root.
Order: TypeAlias = Callable[[Any, Any], bool]


def _smallest_first(item: Any, other: Any) -> bool:
    return item < other


def _greatest_first(item: Any, other: Any) -> bool:
    return other < item


def _rise(heap: list[Any], start: int, place: int, precedes: Order) -> None:
    """Move an item towards the root until its parent does not have to come behind it."""
    item = heap[place]
    while place > start:
        parent = (place - 1) >> 1
        if not precedes(item, heap[parent]):
            break
        heap[parent], heap[place] = heap[place], heap[parent]
        place = parent


def _sink(heap: list[Any], place: int, precedes: Order) -> None:
    """Move an item down to a leaf, along the children that come first, and up again to its place."""
    start = place
    while place < len(heap) >> 1:
        child = 2 * place + 1
        if child + 1 < len(heap) and not precedes(heap[child], heap[child + 1]):
            child += 1
        heap[child], heap[place] = heap[place], heap[child]
        place = child
    _rise(heap, start, place, precedes)


def _put_at_root(heap: list[Any], item: Any, precedes: Order) -> Any:
    root = heap[0]
    heap[0] = item
    _sink(heap, 0, precedes)
    return root


def _pop(heap: list[Any], precedes: Order) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    return _put_at_root(heap, last, precedes) if heap else last


def _replace(heap: list[Any], item: Any, precedes: Order) -> Any:
    if not heap:
        raise IndexError("index out of range")
    return _put_at_root(heap, item, precedes)


def _heapify(heap: list[Any], precedes: Order) -> None:
    for place in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, place, precedes)


def heappush(heap: list[Any], item: Any, /) -> None:
    """Add an item."""
    heap.append(item)
    _rise(heap, 0, len(heap) - 1, _smallest_first)


def heappop(heap: list[Any], /) -> Any:
    """Take the smallest item."""
    return _pop(heap, _smallest_first)


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """Take the smallest item, then add one."""
    return _replace(heap, item, _smallest_first)


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """Add an item, then take the smallest."""
    return _put_at_root(heap, item, _smallest_first) if heap and heap[0] < item else item


def heapify(heap: list[Any], /) -> None:
    """Make a list a heap."""
    _heapify(heap, _smallest_first)


def heapify_max(heap: list[Any], /) -> None:
    """Make a list a heap whose greatest item comes first."""
    _heapify(heap, _greatest_first)


def heappop_max(heap: list[Any], /) -> Any:
    """Take the greatest item."""
    return _pop(heap, _greatest_first)


def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    """Take the greatest item, then add one."""
    return _replace(heap, item, _greatest_first)
