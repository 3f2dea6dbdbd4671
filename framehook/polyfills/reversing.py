"""`reversed` of an object that has `__len__` and `__getitem__` only (CPython: enumobject.c)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def reversed_sequence(sequence: Any) -> Iterator[Any]:
    """The elements from the last to the first; each is asked for when it is wanted."""
    return _elements(sequence, len(sequence))


def _elements(sequence: Any, size: int) -> Iterator[Any]:
    while size > 0:
        size -= 1
        try:
            element = sequence[size]
        except (IndexError, StopIteration):
            return
        yield element
