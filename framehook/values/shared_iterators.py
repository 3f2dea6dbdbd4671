"""Iterators that share what they read from: `itertools.groupby` with its groups, and `itertools.tee`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.sequences import IteratorValue, TupleValue


class GroupByValue(IteratorValue):
    """`itertools.groupby` (CPython: groupby_next in Modules/itertoolsmodule.c)."""

    __slots__ = ("current", "current_key", "group", "key", "source_iterator", "target_key")

    def __init__(self, source: Value, key: Value | None) -> None:
        self.source = None
        self.source_iterator = source
        self.key = key
        self.current: Value | None = None  # what has been read and not given yet
        self.current_key: Value | None = None
        self.target_key: Value | None = None  # of the group that is given
        self.group: GroupValue | None = None  # the one that may still read

    def python_type(self) -> type:
        return itertools.groupby

    def step(self, tr: Tracer) -> bool:
        """Read one element; False where there is none."""
        item = self.source_iterator.next(tr)
        if item is None:
            return False
        key = item if self.key is None else tr.call(self.key, [item], {})
        self.current, self.current_key = item, key
        return True

    def next(self, tr: Tracer) -> Value | None:
        self.group = None
        while self.current_key is None or (
            self.target_key is not None and tr.equals(self.target_key, self.current_key)
        ):
            if not self.step(tr):
                return None
        self.target_key = self.current_key
        self.group = GroupValue(self, self.current_key)
        return TupleValue([self.current_key, self.group])


class GroupValue(IteratorValue):
    """One group: it ends when the next one begins."""

    __slots__ = ("key", "parent")

    def __init__(self, parent: GroupByValue, key: Value) -> None:
        self.source = None
        self.parent = parent
        self.key = key

    def python_type(self) -> type:
        return itertools._grouper  # type: ignore[attr-defined]

    def next(self, tr: Tracer) -> Value | None:
        parent = self.parent
        if parent.group is not self:
            return None
        if parent.current is None and not parent.step(tr):
            return None
        assert parent.current_key is not None
        if not tr.equals(self.key, parent.current_key):
            return None
        item, parent.current = parent.current, None
        return item


def make_groupby(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.groupby(iterable, key=None)."""
    key = args[1] if len(args) > 1 else kwargs.get("key")
    if set(kwargs) - {"key"} or not 1 <= len(args) + len(kwargs) <= 2 or not args:
        tr.graph_break("exception", "groupby() is called with other arguments")
    if key is not None:
        plain = key.realize(tr)
        key = None if isinstance(plain, ConstantValue) and plain.value is None else plain
    return GroupByValue(tr.iterate(args[0]), key)


class Shared:
    """What the iterators of one `tee` have read together."""

    __slots__ = ("items", "source")

    def __init__(self, source: Value) -> None:
        self.source = source
        self.items: list[Value] = []


class TeeValue(IteratorValue):
    """One of the iterators that `tee` makes."""

    __slots__ = ("position", "shared")

    def __init__(self, shared: Shared, position: int) -> None:
        self.source = None
        self.shared = shared
        self.position = position

    def python_type(self) -> type:
        return itertools._tee  # type: ignore[attr-defined]

    def next(self, tr: Tracer) -> Value | None:
        shared = self.shared
        if self.position == len(shared.items):
            item = shared.source.next(tr)
            if item is None:
                return None
            shared.items.append(item)
        self.position += 1
        return shared.items[self.position - 1]


def make_tee(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> TupleValue:
    """itertools.tee(iterable, n=2)."""
    count = (args[1] if len(args) > 1 else ConstantValue(2)).realize(tr)
    if kwargs or not 1 <= len(args) <= 2:
        tr.graph_break("exception", "tee() is called with other arguments")
    if not isinstance(count, ConstantValue) or type(count.value) is not int:
        tr.graph_break("call", "tee() into a number that is no constant")
    if count.value < 0:
        tr.throw(ValueError, "n must be >= 0")
    if count.value > 100:
        tr.graph_break("limit", f"tee() into {count.value} iterators")
    iterator = tr.iterate(args[0])
    if isinstance(iterator, TeeValue):
        shared, position = iterator.shared, iterator.position
    else:
        shared, position = Shared(iterator), 0
    made = [TeeValue(shared, position) for _ in range(count.value)]
    if made and isinstance(iterator, TeeValue) and _FIRST_IS_ITSELF:
        made[0] = iterator
    return TupleValue(list(made))


#: Up to 3.13 `tee` of one of its own iterators gives that iterator back first.
_probe: Any = itertools.tee([])[0]
_FIRST_IS_ITSELF = itertools.tee(_probe)[0] is _probe
