"""Python versions of C functions of the standard library, traced in their place.

`TABLE` maps each function to the one that is traced.  They compare what the C code compares, in its order, and raise
what it raises.
"""

from __future__ import annotations

import _bisect
import _heapq
import functools
from collections.abc import Callable
from typing import Any

from framehook.polyfills import bisection, heaps, ordering

TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    _bisect.bisect_left: bisection.bisect_left,
    _bisect.bisect_right: bisection.bisect_right,
    _bisect.insort_left: bisection.insort_left,
    _bisect.insort_right: bisection.insort_right,
    functools.cmp_to_key: ordering.cmp_to_key,
    _heapq.heapify: heaps.heapify,
    _heapq.heappush: heaps.heappush,
    _heapq.heappop: heaps.heappop,
    _heapq.heapreplace: heaps.heapreplace,
    _heapq.heappushpop: heaps.heappushpop,
}
#: Functions that `heapq.nsmallest` and `heapq.merge` use; they have other names in newer Pythons.
for _name, _fn in (
    ("_heapify_max", heaps.heapify_max),
    ("_heappop_max", heaps.heappop_max),
    ("_heapreplace_max", heaps.heapreplace_max),
):
    if hasattr(_heapq, _name):
        TABLE[getattr(_heapq, _name)] = _fn

#: Those that read a list past what a subclass defines.
OF_LISTS: frozenset[Callable[..., Any]] = frozenset(fn for fn in TABLE if fn.__module__ == "_heapq")
