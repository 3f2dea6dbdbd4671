"""`functools.cmp_to_key` (CPython: Lib/functools.py, before its C version takes its place)."""

from __future__ import annotations

import functools
from typing import Any


class ComparedBy:
    """A key that is compared by a function of two objects."""

    __slots__ = ("compare", "obj")

    def __init__(self, compare: Any, obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: object) -> bool:
        return self.compare(self.obj, other.obj) == 0  # type: ignore[attr-defined]

    def __le__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) >= 0

    __hash__ = None  # type: ignore[assignment]


def cmp_to_key(mycmp: Any) -> Any:
    """What makes a key of an object."""
    return functools.partial(ComparedBy, mycmp)
