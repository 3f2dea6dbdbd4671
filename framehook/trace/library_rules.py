"""What C code of the standard library does with symbolic values: collections, operator, types."""

from __future__ import annotations

import collections
import functools
import operator
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Sequence
from typing import Any

from framehook.trace.frame import TracebackValue
from framehook.trace.rules import Rule, positional
from framehook.values import special_methods  # noqa: F401  (it enters the tables of methods)
from framehook.values.base import ConstantValue, Value
from framehook.values.deques import make_deque
from framehook.values.functions import BoundMethodValue
from framehook.values.getters import make_getter
from framehook.values.identity import IdentityNumber
from framehook.values.objects import ObjectValue
from framehook.values.proxies import make_proxy
from framehook.values.sequences import BuiltinMethod, TupleValue
from framehook.values.tensor import TensorValue
from framehook.values.weak_references import WeakReferenceValue, has_weak_references


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


@positional(0)
def _exc_info(tr: Any) -> Value:
    exception = _handled(tr, [], {})
    if isinstance(exception, ConstantValue):
        return TupleValue([exception] * 3)
    cls = tr.constant_object(exception.python_type())
    return TupleValue([cls, exception, tr.traceback_value()])


@positional(0)
def _handled(tr: Any) -> Value:
    """`sys.exception()`."""
    current = tr.current_exception()
    if current is None and not tr.nothing_handled_outside():
        tr.graph_break("exception", "a caller may be handling an exception")
    return ConstantValue(None) if current is None else current.realize(tr)


@positional(1)
def _id(tr: Any, owner: Value) -> Value:
    owner = owner.realize(tr)
    if isinstance(owner, ConstantValue) and isinstance(owner.value, (type(None), bool, type(...))):
        return ConstantValue(id(owner.value))  # there is one of each while the process lives
    if isinstance(owner, (ConstantValue, TensorValue, BoundMethodValue, BuiltinMethod)):
        tr.graph_break("call", f"the id of {owner.describe()} is asked for")
    if isinstance(owner, TupleValue) and owner.source is None and not tr.is_held(owner):
        # Iterators (`zip`, `product`) make their next tuple in the place of the last one if nobody has kept that.
        tr.graph_break("call", "the id of a tuple is asked for that no variable holds")
    return IdentityNumber(owner)


@positional(0)
def _thread(tr: Any) -> Value:
    return IdentityNumber(None)


def _call(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    return tr.call(args[0], args[1:], kwargs)


@positional(1)
def _weak_reference(tr: Any, owner: Value) -> Value:
    owner = owner.realize(tr)
    if not isinstance(owner, (ObjectValue, TensorValue)):
        tr.graph_break("call", f"a weak reference to {owner.describe()}")
    if isinstance(owner, ObjectValue) and not has_weak_references(owner.cls):
        tr.throw(TypeError, f"cannot create weak reference to '{owner.cls.__name__}' object")
    found = tr.weak_references.get(id(owner))
    if found is None:
        found = tr.weak_references[id(owner)] = WeakReferenceValue(owner)
    return found


@positional(1)
def _clear_frames(tr: Any, traceback_value: Value) -> Value:
    """The frames that an exception of the trace has left keep nothing that could be let go of."""
    given = traceback_value.realize(tr)
    if not isinstance(given, TracebackValue):
        tr.graph_break("call", f"traceback.clear_frames() of {given.describe()}")
    return ConstantValue(None)


TABLE: dict[Any, Rule] = {
    traceback.clear_frames: _clear_frames,
    collections.deque: make_deque,
    collections._count_elements: _count_elements,  # type: ignore[attr-defined]
    types.MethodType: _bound_method,
    types.SimpleNamespace: _namespace,
    weakref.ref: _weak_reference,
    types.MappingProxyType: make_proxy,
    operator.itemgetter: functools.partial(make_getter, operator.itemgetter),
    operator.attrgetter: functools.partial(make_getter, operator.attrgetter),
    operator.methodcaller: functools.partial(make_getter, operator.methodcaller),
    operator.concat: _concat,
    sys.exc_info: _exc_info,
    id: _id,
    threading.get_ident: _thread,
    operator.countOf: _count_of,
}
if hasattr(sys, "exception"):
    TABLE[sys.exception] = _handled
if hasattr(operator, "call"):
    TABLE[operator.call] = _call
