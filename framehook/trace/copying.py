"""`copy.deepcopy` of symbolic values: the same walk as in CPython's `copy.py`, without its C parts."""

from __future__ import annotations

import collections
import copyreg
import enum
from collections.abc import Sequence
from typing import Any

from framehook.trace.rules import RULES
from framehook.values.base import ConstantValue, MethodOfConstant, Value
from framehook.values.classes import CallableValue
from framehook.values.functions import BoundMethodValue, FunctionValue, NestedFunctionValue
from framehook.values.mappings import DictValue
from framehook.values.objects import MISSING, InstanceDictValue, ObjectValue
from framehook.values.sequences import ListValue, TupleValue
from framehook.values.sets import SetValue, make_set

#: Values whose objects are their own deep copy.
_ATOMIC = (ConstantValue, FunctionValue, NestedFunctionValue, CallableValue, MethodOfConstant)
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
    if len(args) != 1 or kwargs:
        tr.graph_break("call", "copy.deepcopy() with a memo")
    return _Copying(tr).copy(args[0])


class _Copying:
    """One deep copy with its memo."""

    def __init__(self, tr: Any) -> None:
        self.tr = tr
        self.memo: dict[int, tuple[Value, Value]] = {}

    def copy(self, value: Value) -> Value:
        """The copy of a value; parts that were copied before are found again."""
        value = value.realize(self.tr)
        if isinstance(value, _ATOMIC):
            return value
        found = self.memo.get(id(value))
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
        if isinstance(value, DictValue) and value.cls in (
            dict,
            collections.OrderedDict,
            collections.defaultdict,
        ):
            return self._dict(value, value)
        if isinstance(value, SetValue) and value.cls is set:
            return make_set(self.tr, set, ListValue(self._copied(value.order(self.tr))))
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

    def _dict(self, value: DictValue, owner: Value) -> Value:
        value.guard_keys(self.tr)
        made = DictValue(cls=value.cls)
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
            return tr.call(hook, [DictValue()], {})
        if cls in copyreg.dispatch_table or value.base is not None or _has_slots(cls):
            tr.graph_break("call", f"copy.deepcopy() of {value.describe()}")
        for name in _HOOKS:
            if tr.class_attr(cls, name) not in (MISSING, getattr(object, name, MISSING)):
                tr.graph_break("call", f"copy.deepcopy() of {value.describe()}, which has {name}")
        if tr.class_attr(cls, "__getattribute__") is not object.__getattribute__:
            tr.graph_break("call", f"copy.deepcopy() of {value.describe()}, which has __getattribute__")
        if tr.class_attr(cls, "__new__") is not object.__new__:
            tr.graph_break("call", f"copy.deepcopy() of {value.describe()}, which has __new__")
        made = ObjectValue(cls, None)
        self.memo[id(value)] = (value, made)
        for key, item in list(InstanceDictValue(value).snapshot(tr).items.values()):
            assert isinstance(key, ConstantValue)
            made.store(tr, key.value, self.copy(item))
        return made


def _has_slots(cls: type) -> bool:
    return any("__slots__" in base.__dict__ and base.__dict__["__slots__"] for base in cls.__mro__)
