"""Emitting iterators: each is made anew of what it runs over, and advanced to where it was."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framehook.codegen.refusals import NotRebuildable
from framehook.values.base import ConstantValue
from framehook.values.deques import DequeIterator
from framehook.values.iterators import CallIterator, ComposedIterator, ConstantIterator, ListedIterator
from framehook.values.mappings import DictIterator
from framehook.values.sequences import (
    ListValue,
    ReversedIterator,
    SequenceIterator,
    SequenceValue,
    TupleValue,
)
from framehook.values.shared_iterators import GroupByValue, GroupValue

if TYPE_CHECKING:
    from framehook.codegen.emitter import Emitter


def _sequence_iterator(e: Emitter, value: SequenceIterator) -> None:
    if value.done:
        _exhausted(e, _skip, value.sequence)
        return
    e.call(iter, lambda: e.emit(value.sequence))
    _advance(e, value.position)


def _reversed_lists_let_go() -> bool:
    class Held(list[Any]):
        pass

    held = Held()
    watch = weakref.ref(held)
    iterator = reversed(held)
    del held
    next(iterator, None)
    return watch() is None


#: Whether `reversed()` of a list lets go of it at its end; CPython 3.13's does not.
_REVERSED_LISTS_LET_GO = _reversed_lists_let_go()


def _reversed_iterator(e: Emitter, value: ReversedIterator) -> None:
    if value.done and (_REVERSED_LISTS_LET_GO or not isinstance(value.sequence, ListValue)):
        _exhausted(e, _skip_reversed, value.sequence)
        return
    if value.position >= len(value.sequence.items):
        raise NotRebuildable("a reversed iterator over a list that became shorter cannot be rebuilt", value)
    e.call(reversed, lambda: e.emit(value.sequence))
    _set_state(e, value.position)


def _exhausted(e: Emitter, make: Any, sequence: SequenceValue) -> None:
    """An iterator that has come to its end: it holds its sequence no more."""
    build = e.builder.build_list if isinstance(sequence, ListValue) else e.builder.build_tuple
    e.call(make, functools.partial(build, 0), e.const(None))


def _advance(e: Emitter, position: int) -> None:
    """Advance the iterator on top of the stack, which stays."""
    if position:
        _set_state(e, position)


def _set_state(e: Emitter, position: int) -> None:
    owner = e.keep_top()
    e.begin_method(functools.partial(e.builder.load_fast, owner), "__setstate__")
    e.builder.load_const(position)
    e.builder.call(1)
    e.builder.pop_top()


def _constant_iterator(e: Emitter, value: ConstantIterator) -> None:
    if isinstance(value.iterable, frozenset):
        e.call(_skip, e.const(value.iterable), e.const(value.position))
        return
    e.call(iter, e.const(value.iterable))
    _advance(e, value.position)


def _skip(iterable: Any, count: int | None) -> Any:
    """An iterator that has given `count` elements; None: that has come to its end."""
    iterator = iter(iterable)
    for _ in itertools.islice(iterator, count):
        pass
    return iterator


def _skip_reversed(sequence: Any, count: int | None) -> Any:
    return _skip(reversed(sequence), count)


def _dict_iterator(e: Emitter, value: DictIterator) -> None:
    if not value.is_intact():
        raise NotRebuildable("an iterator over a dict that has changed cannot be rebuilt", value)
    make = _skip_reversed if value.is_reversed else _skip
    count = None if value.is_done else value.position
    e.call(make, lambda: e.emit(value.origin), e.const(count))


def _listed_iterator(e: Emitter, value: ListedIterator) -> None:
    if value.origin is not None:
        if value.version != getattr(value.origin, "version", value.version):
            raise NotRebuildable("an iterator over a set that has changed cannot be rebuilt", value)
        e.call(_skip, functools.partial(e.emit, value.origin), e.const(value.position))
        return
    if value.cls is not type(iter(())):
        raise NotRebuildable(f"{value.describe()} cannot be rebuilt", value)
    rest = value.elements[value.position :]
    e.call(iter, lambda: e.emit(TupleValue(rest)))


#: Iterators that can be rebuilt at any time of what they are made of.
_LIVE: frozenset[Any] = frozenset(
    {
        *(zip, map, filter, enumerate, itertools.count, itertools.repeat, itertools.chain),
        *(itertools.starmap, itertools.filterfalse, itertools.compress),
    }
)


def _composed_iterator(e: Emitter, value: ComposedIterator) -> None:
    if value.has_raised or (value.started and value.cls not in _LIVE):
        raise NotRebuildable(f"{value.describe()} that has begun cannot be rebuilt", value)
    if value.is_strict and value.cls is zip:
        e.call_values(functools.partial(zip, strict=True), *value.parts)
        return
    if value.is_strict:
        raise NotRebuildable(f"{value.describe()} with options cannot be rebuilt", value)
    e.call_values(value.cls, *value.parts)


def _group_by(e: Emitter, value: GroupByValue) -> None:
    if value.current_key is not None:
        raise NotRebuildable("a groupby that has begun cannot be rebuilt", value)
    e.call_values(itertools.groupby, value.source_iterator, value.key or ConstantValue(None))


def _group(e: Emitter, value: GroupValue) -> None:
    raise NotRebuildable("a group of a groupby cannot be rebuilt", value.parent)


def _call_iterator(e: Emitter, value: CallIterator) -> None:
    if value.is_done:
        raise NotRebuildable("an iterator over calls that has come to its end cannot be rebuilt", value)
    e.call_values(iter, value.fn, value.sentinel)


def _deque_iterator(e: Emitter, value: DequeIterator) -> None:
    if value.version != value.deque.version:
        raise NotRebuildable("an iterator over a deque that has changed cannot be rebuilt", value)
    make = _skip_reversed if value.is_reversed else _skip
    e.call(make, lambda: e.emit(value.deque), e.const(len(value.deque.items) - value.left))


ITERATORS: dict[type, Callable[[Emitter, Any], None]] = {
    SequenceIterator: _sequence_iterator,
    ReversedIterator: _reversed_iterator,
    ConstantIterator: _constant_iterator,
    DictIterator: _dict_iterator,
    ListedIterator: _listed_iterator,
    ComposedIterator: _composed_iterator,
    GroupByValue: _group_by,
    GroupValue: _group,
    CallIterator: _call_iterator,
    DequeIterator: _deque_iterator,
}
