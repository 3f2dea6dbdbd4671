"""Loops over modules that a graph break leaves: they go on symbolically, so that the rest of them is one graph.

Behind a break the iterator of a loop is a real object, of which the trace knows nothing. Where only the loop has it,
and it runs over modules (each of which has operations of its own), what it runs over is handed on beside it.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from framehook.bytecode.stack import LoopOver
from framehook.guards.guard import Check
from framehook.trace.frame import Frame
from framehook.values.base import LazyValue, Value
from framehook.values.mappings import DictIterator, DictValue, DictView
from framehook.values.objects import ObjectValue
from framehook.values.real_classes import derives
from framehook.values.sequences import ListValue, SequenceIterator, TupleValue

_CONTAINERS = (torch.nn.ModuleList.__iter__, torch.nn.Sequential.__iter__)


def note_loop(tr: Any, frame: Frame, iterable: Value, iterator: Value) -> None:
    """Note an iterator that has just been made for a loop, if nobody else has it."""
    iterable = iterable.realize(tr)
    is_new = isinstance(iterable, ListValue | TupleValue | DictValue | DictView) or (
        isinstance(iterable, ObjectValue)
        and inspect.getattr_static(iterable.cls, "__iter__", None) in _CONTAINERS
    )
    if is_new and isinstance(iterator, SequenceIterator | DictIterator):
        frame.loops[id(iterator)] = iterator


def left_loop(frame: Frame, iterator: Value) -> tuple[LoopOver, Value] | None:
    """How to go on with an iterator on a frame's stack, and what it runs over; None: as any object."""
    if frame.loops.get(id(iterator)) is not iterator:
        return None
    if isinstance(iterator, SequenceIterator):
        sequence = iterator.sequence
        if (
            iterator.done
            or not all(map(_is_module, sequence.items))
            or sequence.python_type() not in (list, tuple)
        ):
            return None
        return LoopOver("", iterator.position), sequence
    assert isinstance(iterator, DictIterator)
    mapping = iterator.mapping
    if (
        iterator.kind not in ("values", "items")
        or iterator.is_done
        or iterator.is_reversed
        or not iterator.is_intact()
        or not all(isinstance(key, str) for key in mapping.items)
        or not all(_is_module(item) for _, item in mapping.items.values())
    ):
        return None
    return LoopOver(iterator.kind, iterator.position, tuple(map(str, mapping.items))), mapping


def _is_module(value: Value) -> bool:
    if isinstance(value, LazyValue):
        if value.actual is None:
            return derives(type(value.obj), torch.nn.Module)
        value = value.actual
    return isinstance(value, ObjectValue) and issubclass(value.cls, torch.nn.Module)


def resumed_loop(tr: Any, frame: Frame, item: LoopOver, iterator: Value, over: Value) -> Value:
    """The iterator that a resumed frame goes on with."""
    container = over.realize(tr)
    made: SequenceIterator | DictIterator
    if not item.kind:
        if not isinstance(container, ListValue | TupleValue):
            return iterator
        made = SequenceIterator(container)
    else:
        if not isinstance(container, DictValue):
            return iterator
        container.guard_keys(tr)
        if tuple(container.items) != item.keys or not _runs_over(iterator.obj, over.obj):  # type: ignore[attr-defined]
            return iterator
        tr.guard(None, Check.PREDICATE, (_runs_over, (iterator.source, over.source)))
        made = DictIterator(container, item.kind, DictView(container, item.kind))
    made.position = item.position
    frame.loops[id(made)] = made
    return made


def _runs_over(iterator: Any, mapping: Any) -> bool:
    """Whether an iterator over the values or items of a dict gives what stands last in the dict now."""
    try:
        rest = iterator.__reduce__()[1][0]  # of a copy
    except RuntimeError:
        return False  # the dict has another size
    is_values = not rest or type(rest[0]) is not tuple
    found = list(mapping.values() if is_values else mapping.items())[len(mapping) - len(rest) :]
    if is_values:
        return all(a is b for a, b in zip(rest, found, strict=True))
    return all(a[0] == b[0] and a[1] is b[1] for a, b in zip(rest, found, strict=True))
