"""`copy.copy` and `copy.deepcopy` of symbolic values: the same walk as in CPython's `copy.py`, without its C parts."""

from __future__ import annotations

import collections
import copyreg
import enum
from collections.abc import Sequence
from typing import Any

from framehook.trace.classes import is_mutable_class
from framehook.trace.rules import RULES
from framehook.values.base import ConstantValue, MethodOfConstant, Value
from framehook.values.classes import CallableValue
from framehook.values.deques import DequeValue
from framehook.values.functions import BoundMethodValue, FunctionValue, NestedFunctionValue
from framehook.values.identity import IdentityNumber
from framehook.values.mappings import DictValue, hash_key
from framehook.values.objects import (
    MISSING,
    InstanceDictValue,
    ObjectValue,
    has_instance_dict,
    shows_instance_dict,
)
from framehook.values.real_classes import namespace_of
from framehook.values.sequences import BuiltinMethod, ListValue, TupleValue
from framehook.values.sets import SetValue, make_set

#: Values whose objects are their own deep copy.
_ATOMIC = (ConstantValue, FunctionValue, NestedFunctionValue, CallableValue, MethodOfConstant)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
#: Hooks of pickling that change how an object is copied; the plain ones are those of `object`.
_HOOKS = (
    "__reduce_ex__",
    "__reduce__",
    "__getstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__setstate__",
)


def deepcopy(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """The rule of `copy.deepcopy`."""
    memo = args[1].realize(tr) if len(args) == 2 and not kwargs else None
    if isinstance(memo, MemoValue):
        return memo.copying.copy(args[0])
    if len(args) != 1 or kwargs:
        tr.graph_break("call", "copy.deepcopy() with a memo")
    return _Copying(tr).copy(args[0])


class MemoValue(DictValue):
    """The memo that a `__deepcopy__` is given and passes on."""

    __slots__ = ("copying",)

    def __init__(self, copying: _Copying) -> None:
        super().__init__()
        self.copying = copying


def shallow_copy(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """The rule of `copy.copy`."""
    if len(args) != 1 or kwargs:
        tr.graph_break("exception", "copy.copy() is called with other arguments")
    value = args[0].realize(tr)
    if isinstance(value, (*_ATOMIC, BoundMethodValue)) or (
        isinstance(value, TupleValue) and value.cls is tuple
    ):
        return value
    if isinstance(value, InstanceDictValue):
        return tr.call(value.get_attr(tr, "copy"), [], {})
    if isinstance(value, SetValue) and value.cls is frozenset:
        return value
    if isinstance(value, (ListValue, SetValue, DequeValue)) or (
        isinstance(value, DictValue) and value.cls in _DICTS
    ):
        return tr.call(value.get_attr(tr, "copy"), [], {})
    if isinstance(value, ObjectValue):
        return _shallow_object(tr, value)
    tr.graph_break("call", f"copy.copy() of {value.describe()}")
    raise AssertionError


def _shallow_object(tr: Any, value: ObjectValue) -> Value:
    if issubclass(type(value.obj), enum.Enum):
        return value
    hook = value.special(tr, "__copy__")
    if hook is not None:
        return tr.call(hook, [], {})
    if isinstance(value.base, TupleValue) and _is_named_tuple(tr, value):
        return ObjectValue(value.cls, None, base=TupleValue(list(value.base.items)))
    if value.cls is collections.Counter and isinstance(value.base, DictValue):
        plain = value.base.plain_copy(tr)
        plain.cls = dict
        return tr.call(tr.constant_object(value.cls), [plain], {})
    _check_plain(tr, value, "copy.copy()")
    made = ObjectValue(value.cls, None)
    rows = list(InstanceDictValue(value).snapshot(tr).items.values())
    _fill(tr, made, rows, "copy.copy()")
    return made


def _is_named_tuple(tr: Any, value: ObjectValue) -> bool:
    """Whether a copy of an object is made of its items alone."""
    return (
        tr.class_attr(value.cls, "_fields") is not MISSING
        and not has_instance_dict(value.cls)
        and tr.class_attr(value.cls, "__new__") is not tuple.__new__
        and value.cls not in copyreg.dispatch_table
        and tr.class_attr(value.cls, "__reduce_ex__") is object.__reduce_ex__
        and tr.class_attr(value.cls, "__reduce__") is object.__reduce__
    )


def _hides_dict(cls: type) -> bool:
    return has_instance_dict(cls) and not shows_instance_dict(cls)


def _check_plain(tr: Any, value: ObjectValue, what: str) -> None:
    """Break where an object is copied in another way than by its `__dict__`."""
    cls = value.cls
    if not is_mutable_class(cls):
        tr.graph_break("call", f"{what} of {value.describe()}")
    if cls in copyreg.dispatch_table or value.base is not None or _has_slots(cls) or _hides_dict(cls):
        tr.graph_break("call", f"{what} of {value.describe()}")
    for name in _HOOKS:
        if tr.class_attr(cls, name) not in (MISSING, getattr(object, name, MISSING)):
            tr.graph_break("call", f"{what} of {value.describe()}, which has {name}")
    _ask(tr, value, what, ("__reduce_ex__", "__reduce__", "__getstate__"))
    if tr.class_attr(cls, "__new__") is not object.__new__:
        tr.graph_break("call", f"{what} of {value.describe()}, which has __new__")


def _ask(tr: Any, value: ObjectValue, what: str, names: Sequence[str]) -> None:
    """Ask a `__getattribute__` of the program for hooks, as `copy` does; break where it answers with one of its own."""
    own = tr.class_attr(value.cls, "__getattribute__")
    if own is object.__getattribute__:
        return
    for name in names:
        found = RULES[id(getattr)](tr, [value, ConstantValue(name), ConstantValue(None)], {}).realize(tr)
        if name == "__setstate__":
            is_plain = isinstance(found, ConstantValue) and found.value is None
        else:
            is_plain = isinstance(found, (BuiltinMethod, InstanceDictValue)) and found.owner is value
        if not is_plain or (isinstance(found, BuiltinMethod) and found.name != name):
            tr.graph_break("call", f"{what} of {value.describe()}, whose __getattribute__ answers for {name}")


def _fill(tr: Any, made: ObjectValue, rows: Sequence[tuple[Value, Value]], what: str) -> None:
    """Write the state of a copy."""
    if not rows:
        return
    _ask(tr, made, what, ("__setstate__", "__dict__"))
    for key, item in rows:
        assert isinstance(key, ConstantValue)
        made.store(tr, key.value, item)


class _Copying:
    """One deep copy with its memo."""

    def __init__(self, tr: Any) -> None:
        self.tr = tr
        self.memo: dict[int, tuple[Value, Value]] = {}
        self.memo_value = MemoValue(self)

    def copy(self, value: Value) -> Value:
        """The copy of a value; parts that were copied before are found again."""
        value = value.realize(self.tr)
        if isinstance(value, _ATOMIC):
            return value
        found = self.memo.get(id(value))
        if found is None and self.memo_value.items:
            # What a `__deepcopy__` has noted itself.
            row = self.memo_value.items.get(hash_key(self.tr, IdentityNumber(value)))
            if row is not None:
                return row[1].realize(self.tr)
        if found is None:
            made = self._copy(value)
            found = self.memo.setdefault(id(value), (value, made))
        return found[1]

    def _copy(self, value: Value) -> Value:
        if isinstance(value, ListValue):
            return self._list(value)
        if isinstance(value, TupleValue) and value.cls is tuple:
            return self._tuple(value)
        if isinstance(value, InstanceDictValue):
            return self._dict(value.snapshot(self.tr), value)
        if isinstance(value, DictValue) and value.cls in _DICTS:
            return self._dict(value, value)
        if isinstance(value, SetValue):
            return make_set(self.tr, value.cls, ListValue(self._copied(value.order(self.tr))))
        if isinstance(value, DequeValue):
            copied = DequeValue([], value.maxlen)
            self.memo[id(value)] = (value, copied)
            copied.items.extend(self._copied(list(value.items)))
            return copied
        if isinstance(value, BoundMethodValue):
            return BoundMethodValue(value.fn, self.copy(value.owner))
        if isinstance(value, ObjectValue):
            return self._object(value)
        self.tr.graph_break("call", f"copy.deepcopy() of {value.describe()}")
        raise AssertionError

    def _copied(self, items: list[Value]) -> list[Value]:
        return [self.copy(item) for item in items]

    def _list(self, value: ListValue) -> Value:
        value.guard_length(self.tr)
        made = ListValue([])
        self.memo[id(value)] = (value, made)
        made.items.extend(self.copy(item) for item in list(value.items))
        return made

    def _tuple(self, value: TupleValue) -> Value:
        value.guard_length(self.tr)
        items = [self.copy(item) for item in value.items]
        kept = all(new is old.realize(self.tr) for new, old in zip(items, value.items, strict=True))
        return value if kept else TupleValue(items)

    def _dict(self, value: DictValue, owner: Value, cls: type | None = None) -> Value:
        value.guard_keys(self.tr)
        made = DictValue(cls=value.cls if cls is None else cls)
        made.default_factory = value.default_factory
        self.memo[id(owner)] = (owner, made)
        for key, item in list(value.items.values()):
            made.set_item(self.tr, self.copy(key), self.copy(item))
        return made

    def _object(self, value: ObjectValue) -> Value:
        tr, cls = self.tr, value.cls
        if issubclass(type(value.obj), enum.Enum):
            return value
        hook = RULES[id(getattr)](
            tr, [value, ConstantValue("__deepcopy__"), ConstantValue(None)], {}
        ).realize(tr)
        if not isinstance(hook, ConstantValue):
            return tr.call(hook, [self.memo_value], {})
        if isinstance(value.base, TupleValue) and _is_named_tuple(tr, value):
            items = [self.copy(item) for item in value.base.items]
            return ObjectValue(cls, None, base=TupleValue(items))
        if cls is collections.Counter and isinstance(value.base, DictValue):
            return tr.call(tr.constant_object(cls), [self._dict(value.base, value.base, dict)], {})
        _check_plain(tr, value, "copy.deepcopy()")
        made = ObjectValue(cls, None)
        self.memo[id(value)] = (value, made)
        rows = list(InstanceDictValue(value).snapshot(tr).items.values())
        _fill(tr, made, [(key, self.copy(item)) for key, item in rows], "copy.deepcopy()")
        return made


def _has_slots(cls: type) -> bool:
    return any("__slots__" in namespace_of(base) and namespace_of(base)["__slots__"] for base in cls.__mro__)
