"""Operators of builtin containers called by the names of their special methods: `values.__iadd__`, `table.__eq__`."""

from __future__ import annotations

from collections.abc import Sequence

from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.deques import DequeValue
from framehook.values.mappings import DictValue, DictView
from framehook.values.sequences import BuiltinContainer, ListValue, Method, TupleValue, check_arguments
from framehook.values.sets import SetValue, is_set_like

_BINARY = {
    "__add__": "+",
    "__mul__": "*",
    "__rmul__": "*",
    "__or__": "|",
    "__and__": "&",
    "__sub__": "-",
    "__xor__": "^",
    "__iadd__": "+=",
    "__imul__": "*=",
    "__ior__": "|=",
    "__iand__": "&=",
    "__isub__": "-=",
    "__ixor__": "^=",
}
_COMPARE = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _takes(name: str, owner: Value, other: Value) -> bool:
    """Whether the method of the owner's class has an answer for the operand."""
    if name in ("__mul__", "__rmul__", "__imul__"):
        return isinstance(other, ConstantValue) and isinstance(other.value, int)
    if name == "__iadd__" and isinstance(owner, (ListValue, DequeValue)):
        return True
    if isinstance(owner, (SetValue, DictView)):
        return is_set_like(other)
    return any(isinstance(owner, kind) and isinstance(other, kind) for kind in _KINDS)


def _method(name: str) -> Method:
    def method(tr: Tracer, self: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        check_arguments(tr, name, args, kwargs, 1, 1)
        other = args[0].realize(tr)
        if not _takes(name, self, other):
            if name in _COMPARE and isinstance(other, (ConstantValue, BuiltinContainer)):
                return ConstantValue(NotImplemented)
            tr.graph_break("exception", f"{name} of {self.describe()} and {other.describe()}")
        if name in _COMPARE:
            return tr.compare(_COMPARE[name], self, other)
        return tr.binary(_BINARY[name], self, other)

    return method


_KINDS: tuple[type[BuiltinContainer], ...] = (
    ListValue,
    TupleValue,
    DictValue,
    DictView,
    SetValue,
    DequeValue,
)
for _kind in _KINDS:
    _kind.methods = {**{name: _method(name) for name in (*_BINARY, *_COMPARE)}, **_kind.methods}
