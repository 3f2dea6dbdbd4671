"""`types.MappingProxyType`: a mapping that cannot be changed through it."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

from framehook.values.base import Tracer, Value
from framehook.values.sequences import BuiltinContainer, Method, check_arguments

if TYPE_CHECKING:
    from framehook.source import Source


class MappingProxyValue(BuiltinContainer):
    """A proxy; `mapping` is what it shows."""

    __slots__ = ("mapping",)

    def __init__(self, mapping: Value, source: Source | None = None) -> None:
        self.source = source
        self.mapping = mapping

    def python_type(self) -> type:
        return types.MappingProxyType

    def truth(self, tr: Tracer) -> bool:
        return self.length(tr) > 0

    def length(self, tr: Tracer) -> int:
        return self.mapping.realize(tr).length(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        return self.mapping.realize(tr).get_item(tr, key)

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        tr.throw(TypeError, "'mappingproxy' object does not support item assignment")

    def del_item(self, tr: Tracer, key: Value) -> None:
        tr.throw(TypeError, "'mappingproxy' object doesn't support item deletion")

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self.mapping.realize(tr).contains(tr, item)

    def iterate(self, tr: Tracer) -> Value:
        return tr.iterate(self.mapping)


def _passed_on(name: str) -> Method:
    def method(tr: Tracer, self: MappingProxyValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call(self.mapping.realize(tr).get_attr(tr, name), args, kwargs)

    return method


def _merge(tr: Tracer, self: MappingProxyValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "__or__", args, kwargs, 1, 1)
    return tr.binary("|", self, args[0])


MappingProxyValue.methods = {
    **{
        name: _passed_on(name)
        for name in ("get", "keys", "values", "items", "copy", "__getitem__", "__contains__", "__len__")
    },
    "__iter__": lambda tr, self, args, kwargs: self.iterate(tr),
    "__reversed__": _passed_on("__reversed__"),
    "__or__": _merge,
}


def make_proxy(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """`MappingProxyType(mapping)`."""
    mapping = args[0].realize(tr) if len(args) == 1 and not kwargs else None
    if mapping is None or not hasattr(mapping.python_type(), "keys"):
        tr.graph_break("exception", "MappingProxyType() is called with other arguments")
    return MappingProxyValue(mapping)
