"""The functions of `heapq` that are C code (CPython: Modules/_heapqmodule.c)."""

from __future__ import annotations

from typing import Any


def _rise(heap: list[Any], start: int, place: int) -> None:
    """Move an item towards the root until its parent is not greater."""
    item = heap[place]
    while place > start:
        parent = (place - 1) >> 1
        if not item < heap[parent]:
            break
        heap[parent], heap[place] = heap[place], heap[parent]
        place = parent


def _sink(heap: list[Any], place: int) -> None:
    """Move an item down to a leaf, along the smaller children, and up again to its place."""
    start = place
    while place < len(heap) >> 1:
        child = 2 * place + 1
        if child + 1 < len(heap) and not heap[child] < heap[child + 1]:
            child += 1
        heap[child], heap[place] = heap[place], heap[child]
        place = child
    _rise(heap, start, place)


def heappush(heap: list[Any], item: Any, /) -> None:
    """Add an item."""
    heap.append(item)
    _rise(heap, 0, len(heap) - 1)


def heappop(heap: list[Any], /) -> Any:
    """Take the smallest item."""
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    smallest = heap[0]
    heap[0] = last
    _sink(heap, 0)
    return smallest


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """Take the smallest item, then add one."""
    if not heap:
        raise IndexError("index out of range")
    smallest = heap[0]
    heap[0] = item
    _sink(heap, 0)
    return smallest


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """Add an item, then take the smallest."""
    if not heap or not heap[0] < item:
        return item
    smallest = heap[0]
    heap[0] = item
    _sink(heap, 0)
    return smallest


def heapify(heap: list[Any], /) -> None:
    """Make a list a heap."""
    for place in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, place)


def _rise_max(heap: list[Any], start: int, place: int) -> None:
    item = heap[place]
    while place > start:
        parent = (place - 1) >> 1
        if not heap[parent] < item:
            break
        heap[parent], heap[place] = heap[place], heap[parent]
        place = parent


def _sink_max(heap: list[Any], place: int) -> None:
    start = place
    while place < len(heap) >> 1:
        child = 2 * place + 1
        if child + 1 < len(heap) and not heap[child + 1] < heap[child]:
            child += 1
        heap[child], heap[place] = heap[place], heap[child]
        place = child
    _rise_max(heap, start, place)


def heapify_max(heap: list[Any], /) -> None:
    """Make a list a heap whose greatest item comes first."""
    for place in range(len(heap) // 2 - 1, -1, -1):
        _sink_max(heap, place)


def heappop_max(heap: list[Any], /) -> Any:
    """Take the greatest item."""
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    greatest = heap[0]
    heap[0] = last
    _sink_max(heap, 0)
    return greatest


def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    """Take the greatest item, then add one."""
    if not heap:
        raise IndexError("index out of range")
    greatest = heap[0]
    heap[0] = item
    _sink_max(heap, 0)
    return greatest
