"""`collections.deque` (CPython: Modules/_collectionsmodule.c)."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.endings import check_let_go
from framehook.values.sequences import (
    BuiltinContainer,
    IteratorValue,
    Method,
    as_index,
    as_slice,
    check_arguments,
    operator_methods,
)

if TYPE_CHECKING:
    from framehook.source import Source


class DequeValue(BuiltinContainer):
    """A deque; one from outside is guarded by length when it is made.  `version` moves with every change: iterators
    notice.
    """

    __slots__ = ("changed", "items", "maxlen", "version")

    def __init__(self, items: list[Value], maxlen: int | None, source: Source | None = None) -> None:
        self.source = source
        self.items = items
        self.maxlen = maxlen
        self.changed = False
        self.version = 0
        self.trim(from_left=True)

    def python_type(self) -> type:
        return collections.deque

    def touch(self, tr: Tracer) -> None:
        """The deque changes; what puts an element in another's place disturbs no iterator."""
        if not self.changed:
            self.changed = True
            check_let_go(tr, *self.items)
            tr.mutated(self)

    def moved(self, tr: Tracer) -> None:
        """The deque changes so that iterators over it end."""
        self.touch(tr)
        self.version += 1

    def trim(self, *, from_left: bool) -> None:
        """Drop what is too much at one end."""
        extra = len(self.items) - self.maxlen if self.maxlen is not None else 0
        if extra > 0:
            if from_left:
                del self.items[:extra]
            else:
                del self.items[len(self.items) - extra :]

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "maxlen":
            return ConstantValue(self.maxlen)
        return super().get_attr(tr, name)

    def truth(self, tr: Tracer) -> bool:
        return bool(self.items)

    def length(self, tr: Tracer) -> int:
        return len(self.items)

    def _position(self, tr: Tracer, key: Value, words: str = "deque index out of range") -> int:
        index = as_index(tr, key)
        if index is None:
            if as_slice(tr, key) is not None:
                tr.throw(TypeError, "sequence index must be integer, not 'slice'")
            tr.graph_break("data_dependent", f"a deque is indexed by {key.realize(tr).describe()}")
        size = len(self.items)
        if not -size <= index < size:
            tr.throw(IndexError, words)
        return index

    def get_item(self, tr: Tracer, key: Value) -> Value:
        return tr.found(self.items[self._position(tr, key)])

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        position = self._position(tr, key)
        self.touch(tr)
        self.items[position] = value

    def del_item(self, tr: Tracer, key: Value) -> None:
        position = self._position(tr, key)
        self.moved(tr)
        del self.items[position]

    def iterate(self, tr: Tracer) -> Value:
        return DequeIterator(self, is_reversed=False)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return any(self.compare_each(tr, self.items, item))

    def compare_each(self, tr: Tracer, elements: Sequence[Value], item: Value) -> Iterator[bool]:
        """Whether the elements equal `item`, one by one; none of the comparisons may change the deque."""
        version = self.version
        for element in list(elements):
            found = tr.equals(element, item)
            if self.version != version:
                tr.throw(RuntimeError, "deque mutated during iteration")
            yield found

    def copy(self) -> DequeValue:
        """A new deque of the same elements and the same bound."""
        return DequeValue(list(self.items), self.maxlen)


class DequeIterator(IteratorValue):
    """An iterator over a deque: any change ends it."""

    __slots__ = ("deque", "is_reversed", "left", "version")

    def __init__(self, deque: DequeValue, *, is_reversed: bool) -> None:
        self.source = None
        self.deque = deque
        self.is_reversed = is_reversed
        self.left = len(deque.items)
        self.version = deque.version

    def python_type(self) -> type:
        empty: collections.deque[object] = collections.deque()
        return type(reversed(empty) if self.is_reversed else iter(empty))

    def next(self, tr: Tracer) -> Value | None:
        if self.is_reversed and not self.left:
            return None
        if self.version != self.deque.version:
            self.left = 0
            tr.throw(RuntimeError, "deque mutated during iteration")
        if not self.left:
            return None
        self.left -= 1
        if self.is_reversed:
            return self.deque.items[self.left]
        return self.deque.items[len(self.deque.items) - self.left - 1]


def make_deque(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """`deque(iterable=(), maxlen=None)`."""
    made = DequeValue([], None)
    _init(tr, made, args, kwargs)
    return made


def _init(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) > 2 or set(kwargs) - {"iterable", "maxlen"}:
        tr.graph_break("exception", "deque() is called with other arguments")
    bound = (args[1] if len(args) > 1 else kwargs.get("maxlen", ConstantValue(None))).realize(tr)
    if not isinstance(bound, ConstantValue) or not (bound.value is None or type(bound.value) is int):
        tr.graph_break("call", "deque() with a length that is no constant number")
    maxlen = bound.value
    if maxlen is not None and maxlen < 0:
        tr.throw(ValueError, "maxlen must be non-negative")
    if self.source is not None and maxlen != self.maxlen:
        tr.graph_break("side_effect", "a deque from outside is given another length")
    if self.items:
        _clear(tr, self, [], {})
    self.maxlen = maxlen
    iterable = args[0] if args else kwargs.get("iterable")
    if iterable is not None:
        _extend(tr, self, [iterable], {})
    return ConstantValue(None)


# -- methods -----------------------------------------------------------------------------------------


def _append(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "append", args, kwargs, 1, 1)
    self.moved(tr)
    self.items.append(args[0])
    self.trim(from_left=True)
    return ConstantValue(None)


def _append_left(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "appendleft", args, kwargs, 1, 1)
    self.moved(tr)
    self.items.insert(0, args[0])
    self.trim(from_left=False)
    return ConstantValue(None)


def _extend(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "extend", args, kwargs, 1, 1)
    if args[0].realize(tr) is self:
        elements: list[Value] = list(self.items)
        for element in elements:
            _append(tr, self, [element], {})
        return ConstantValue(None)
    iterator = tr.iterate(args[0])
    while (item := iterator.next(tr)) is not None:
        _append(tr, self, [item], {})
    return ConstantValue(None)


def _extend_left(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "extendleft", args, kwargs, 1, 1)
    if args[0].realize(tr) is self:
        for element in list(self.items):
            _append_left(tr, self, [element], {})
        return ConstantValue(None)
    iterator = tr.iterate(args[0])
    while (item := iterator.next(tr)) is not None:
        _append_left(tr, self, [item], {})
    return ConstantValue(None)


def _pop(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "pop", args, kwargs, 0, 0)
    if not self.items:
        tr.throw(IndexError, "pop from an empty deque")
    self.moved(tr)
    return self.items.pop()


def _pop_left(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "popleft", args, kwargs, 0, 0)
    if not self.items:
        tr.throw(IndexError, "pop from an empty deque")
    self.moved(tr)
    return self.items.pop(0)


def _clear(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "clear", args, kwargs, 0, 0)
    self.moved(tr)
    self.items.clear()
    return ConstantValue(None)


def _copy(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "copy", args, kwargs, 0, 0)
    return self.copy()


def _count(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "count", args, kwargs, 1, 1)
    return ConstantValue(sum(self.compare_each(tr, self.items, args[0])))


def _index(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "index", args, kwargs, 1, 3)
    bounds: list[int | None] = []
    for arg in args[1:]:
        bound = as_index(tr, arg)
        if bound is None:
            tr.graph_break("call", "deque.index() between bounds that are no constants")
        bounds.append(bound)
    positions = range(*slice(*[*bounds, None, None][:2]).indices(len(self.items)))
    elements = [self.items[position] for position in positions]
    for position, found in zip(positions, self.compare_each(tr, elements, args[0]), strict=True):
        if found:
            return ConstantValue(position)
    item = args[0].realize(tr)
    if not isinstance(item, ConstantValue):
        tr.graph_break("exception", "deque.index() of what is not in it")
    tr.throw(ValueError, f"{item.value!r} is not in deque")


def _insert(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "insert", args, kwargs, 2, 2)
    index = as_index(tr, args[0])
    if index is None:
        tr.graph_break("call", "deque.insert() at a position that is no constant")
    if self.maxlen is not None and len(self.items) >= self.maxlen:
        tr.throw(IndexError, "deque already at its maximum size")
    self.moved(tr)
    self.items.insert(index, args[1])
    return ConstantValue(None)


def _remove(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "remove", args, kwargs, 1, 1)
    version = self.version
    for position, item in enumerate(list(self.items)):
        found = tr.equals(item, args[0])
        if self.version != version:
            tr.throw(IndexError, "deque mutated during remove().")
        if found:
            self.moved(tr)
            del self.items[position]
            return ConstantValue(None)
    tr.graph_break("exception", "deque.remove() of what is not in it")


def _reverse(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "reverse", args, kwargs, 0, 0)
    self.touch(tr)
    self.items.reverse()
    return ConstantValue(None)


def _rotate(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "rotate", args, kwargs, 0, 1)
    count = as_index(tr, args[0]) if args else 1
    if count is None:
        tr.graph_break("call", "deque.rotate() by what is no constant")
    if len(self.items) > 1:
        count %= len(self.items)
        self.moved(tr)
        self.items[:] = self.items[len(self.items) - count :] + self.items[: len(self.items) - count]
    return ConstantValue(None)


def _reversed(tr: Tracer, self: DequeValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "__reversed__", args, kwargs, 0, 0)
    return DequeIterator(self, is_reversed=True)


METHODS: dict[str, Method] = {
    **operator_methods({}),
    "append": _append,
    "appendleft": _append_left,
    "extend": _extend,
    "extendleft": _extend_left,
    "pop": _pop,
    "popleft": _pop_left,
    "clear": _clear,
    "copy": _copy,
    "__copy__": _copy,
    "count": _count,
    "index": _index,
    "insert": _insert,
    "remove": _remove,
    "reverse": _reverse,
    "rotate": _rotate,
    "__reversed__": _reversed,
    "__init__": _init,
}
DequeValue.methods = METHODS
