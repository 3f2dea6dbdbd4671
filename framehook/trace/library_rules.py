"""What C code of the standard library does with symbolic values: collections, operator, types."""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Sequence
from typing import Any

from framehook.trace.rules import Rule, positional
from framehook.values.base import ConstantValue, Value
from framehook.values.deques import make_deque
from framehook.values.functions import BoundMethodValue
from framehook.values.getters import make_getter
from framehook.values.objects import ObjectValue


@positional(2)
def _bound_method(tr: Any, fn: Value, owner: Value) -> Value:
    owner = owner.realize(tr)
    if isinstance(owner, ConstantValue) and owner.value is None:
        tr.throw(TypeError, "self must not be None")
    return BoundMethodValue(fn.realize(tr), owner)


def _namespace(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if args:
        tr.graph_break("exception", "SimpleNamespace() is called with other arguments")
    value = ObjectValue(types.SimpleNamespace, None)
    for name, item in kwargs.items():
        value.store(tr, name, item)
    return value


@positional(2)
def _count_elements(tr: Any, mapping: Value, iterable: Value) -> Value:
    """What `Counter` counts with: `mapping[element] = mapping.get(element, 0) + 1`."""
    mapping = mapping.realize(tr)
    get = mapping.get_attr(tr, "get")
    iterator = tr.iterate(iterable)
    while (element := iterator.next(tr)) is not None:
        count = tr.call(get, [element, ConstantValue(0)], {})
        mapping.set_item(tr, element, tr.binary("+", count, ConstantValue(1)))
    return ConstantValue(None)


@positional(2)
def _concat(tr: Any, left: Value, right: Value) -> Value:
    return tr.binary("+", left, right)


@positional(2)
def _count_of(tr: Any, iterable: Value, item: Value) -> Value:
    return ConstantValue(sum(tr.equals(element, item) for element in tr.drain(iterable)))


def _call(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    return tr.call(args[0], args[1:], kwargs)


TABLE: dict[Any, Rule] = {
    collections.deque: make_deque,
    collections._count_elements: _count_elements,  # type: ignore[attr-defined]
    types.MethodType: _bound_method,
    types.SimpleNamespace: _namespace,
    operator.itemgetter: functools.partial(make_getter, operator.itemgetter),
    operator.attrgetter: functools.partial(make_getter, operator.attrgetter),
    operator.methodcaller: functools.partial(make_getter, operator.methodcaller),
    operator.concat: _concat,
    operator.countOf: _count_of,
}
if hasattr(operator, "call"):
    TABLE[operator.call] = _call
