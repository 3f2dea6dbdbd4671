"""Objects of the trace as native formatting sees them: it asks them for their texts, and the trace answers."""

from __future__ import annotations

import collections
from typing import Any

from framehook.trace.rules import RULES
from framehook.values.base import ConstantValue, Value, to_constant
from framehook.values.deques import DequeValue
from framehook.values.mappings import DictValue
from framehook.values.plain import as_plain
from framehook.values.sequences import ListValue, SequenceValue, TupleValue, drain
from framehook.values.sets import SetValue


class Shown:
    """Stands for an object: its texts, attributes and items are those that the trace finds."""

    __slots__ = ("_tr", "_value")

    def __init__(self, tr: Any, value: Value) -> None:
        object.__setattr__(self, "_tr", tr)
        object.__setattr__(self, "_value", value)

    def _text(self, fn: Any, *args: Value) -> str:
        tr, value = object.__getattribute__(self, "_tr"), object.__getattribute__(self, "_value")
        known, text = to_constant(tr, RULES[id(fn)](tr, [value, *args], {}))
        if not known or type(text) is not str:
            tr.graph_break("call", f"{fn.__name__}() of {value.describe()} is no constant string")
        return text

    def __str__(self) -> str:
        return Shown._text(self, str)

    def __repr__(self) -> str:
        return Shown._text(self, repr)

    def __format__(self, spec: str) -> str:
        return Shown._text(self, format, ConstantValue(spec))

    def __getattribute__(self, name: str) -> Any:
        tr, value = object.__getattribute__(self, "_tr"), object.__getattribute__(self, "_value")
        return as_shown(tr, value.get_attr(tr, name))


class ShownItems(Shown):
    """One that can be subscripted: `%` takes it for a mapping."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        tr, value = object.__getattribute__(self, "_tr"), object.__getattribute__(self, "_value")
        return as_shown(tr, value.get_item(tr, ConstantValue(key)))


#: Dicts that show their rows, as real ones do.
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def as_shown(tr: Any, value: Value) -> Any:
    """A native object that is formatted like the one that the value stands for."""
    value = value.realize(tr)
    known, obj = as_plain(tr, value)
    if known:
        return obj
    shown = _container(tr, value, [])
    if shown is not None:
        return shown
    return ShownItems(tr, value) if hasattr(value.python_type(), "__getitem__") else Shown(tr, value)


def _container(tr: Any, value: Value, above: list[Value]) -> Any:
    """A container of what its elements are shown as; None for what is no container of C code."""
    if any(each is value for each in above):
        tr.graph_break("container", f"{value.describe()} that contains itself is shown")
    above = [*above, value]

    def part(item: Value) -> Any:
        item = item.realize(tr)
        inner = _container(tr, item, above)
        return as_shown(tr, item) if inner is None else inner

    if isinstance(value, SequenceValue) and (isinstance(value, ListValue) or value.cls is tuple):  # type: ignore[attr-defined]
        parts = [part(item) for item in drain(tr, value)]
        return parts if isinstance(value, ListValue) else tuple(parts)
    if isinstance(value, DequeValue):
        return collections.deque([part(item) for item in value.items], value.maxlen)
    if isinstance(value, SetValue) and len(value.table) < 2:
        return value.cls(part(item) for item in value.order(tr))
    if isinstance(value, DictValue) and value.cls in _DICTS:
        value.guard_keys(tr)
        rows: Any = {_Row(part(key)): part(item) for key, item in value.items.values()}
        if value.cls is collections.defaultdict:
            factory = value.default_factory
            return collections.defaultdict(None if factory is None else _callable(tr, factory), rows)
        return value.cls(rows)
    return None


def _callable(tr: Any, value: Value) -> Any:
    known, obj = as_plain(tr, value)
    if not known:
        tr.graph_break("call", f"{value.realize(tr).describe()} is shown")
    return obj


class _Row:
    """A key as it is shown; the keys of one dict are all different."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __repr__(self) -> str:
        return repr(self.key)


def is_shown_by_parts(value: Value) -> bool:
    """Whether the text of an object consists of the texts of its parts."""
    if isinstance(value, TupleValue):
        return value.cls is tuple
    if isinstance(value, DictValue):
        return value.cls in _DICTS
    if isinstance(value, SetValue):
        return len(value.table) < 2
    return isinstance(value, (ListValue, DequeValue))
