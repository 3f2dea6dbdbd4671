"""`list.sort` and `sorted`: CPython's own sort, which asks the trace where two keys have to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framehook.values.base import ConstantValue, Tracer, Value, to_constant
from framehook.values.sequences import ListValue, check_arguments


class _Key:
    """A key whose order is the traced program's to tell."""

    __slots__ = ("tr", "value")

    def __init__(self, tr: Tracer, value: Value) -> None:
        self.tr = tr
        self.value = value

    def __lt__(self, other: _Key) -> bool:
        return self.tr.truth(self.tr.compare("<", self.value, other.value))


def _is_none(tr: Tracer, value: Value) -> bool:
    plain = value.realize(tr)
    return isinstance(plain, ConstantValue) and plain.value is None


def _keys(tr: Tracer, elements: list[Value], key: Value | None) -> list[Any]:
    """What is compared in place of the elements: plain constants where all are, else what asks the trace."""
    keys = elements
    if key is not None and not _is_none(tr, key):
        keys = [tr.call(key, [element], {}) for element in elements]
    plain = []
    for each in keys:
        known, obj = to_constant(tr, each)
        if not known:
            return [_Key(tr, each) for each in keys]
        plain.append(obj)
    return plain


def sort_list(tr: Tracer, target: ListValue, kwargs: dict[str, Value]) -> None:
    """Sort a list in place.  While that goes on, and where it fails, the list is as CPython has it then."""
    if set(kwargs) - {"key", "reverse"}:
        tr.graph_break("exception", "sort() is called with arguments that do not fit")
    backwards = False
    if "reverse" in kwargs:
        flag = kwargs["reverse"].realize(tr)
        if not isinstance(flag, ConstantValue) or not isinstance(flag.value, int):
            tr.graph_break("call", "sort(reverse=...) of what is no constant")
        backwards = bool(flag.value)
    target.touch(tr)
    elements = list(target.items)
    target.items.clear()
    was_filled, target.was_filled = target.was_filled, False
    order = list(range(len(elements)))
    try:
        keys = _keys(tr, elements, kwargs.get("key"))
        try:
            order.sort(key=keys.__getitem__, reverse=backwards)
        except TypeError as error:
            tr.throw(TypeError, *error.args)
        is_modified = bool(target.items) or target.was_filled
    finally:
        target.was_filled |= was_filled
        target.items[:] = [elements[position] for position in order]
    if is_modified:
        tr.throw(ValueError, "list modified during sort")


def _sort(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "sort", args, {}, 0, 0)
    sort_list(tr, self, kwargs)
    return ConstantValue(None)


ListValue.methods["sort"] = _sort
