"""The functions of `bisect` (CPython: Modules/_bisectmodule.c)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _search(a: Any, x: Any, lo: int, hi: int | None, key: Any, is_before: Callable[[Any, Any], bool]) -> int:
    """The place behind the elements that are before `x`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle] if key is None else key(a[middle])
        if is_before(item, x):
            lo = middle + 1
        else:
            hi = middle
    return lo


def _is_less(item: Any, x: Any) -> bool:
    return item < x


def _is_not_greater(item: Any, x: Any) -> bool:
    return not x < item


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> int:
    """The place behind the elements that are not greater than `x`."""
    return _search(a, x, lo, hi, key, _is_not_greater)


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> int:
    """The place before the elements that are not less than `x`."""
    return _search(a, x, lo, hi, key, _is_less)


def insort_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> None:
    """Insert `x` behind the elements that are not greater."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> None:
    """Insert `x` before the elements that are not less."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)
