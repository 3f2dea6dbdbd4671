"""Properties, cached ones too, class methods and static methods that the frame makes, mostly in class bodies."""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from typing import Any

from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.sequences import BuiltinMethod

#: What each takes, in order.
_PARTS: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel", "doc"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    functools.cached_property: ("func",),
}
_SETTERS = {"getter": "fget", "setter": "fset", "deleter": "fdel"}


class DescriptorValue(Value):
    """A `property`, `cached_property`, `classmethod` or `staticmethod` made inside the frame."""

    __slots__ = ("cls", "parts")

    def __init__(self, cls: type, parts: dict[str, Value]) -> None:
        self.source = None
        self.cls = cls
        self.parts = parts

    def python_type(self) -> type:
        return self.cls

    def arguments(self) -> list[Value]:
        """What the real one is made with."""
        return [self.parts.get(name, ConstantValue(None)) for name in _PARTS[self.cls]]

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if self.cls is property and name in _SETTERS:
            return BuiltinMethod(self, name)
        if name in self.parts and name != "doc":
            return self.parts[name]
        return super().get_attr(tr, name)

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if name in _SETTERS and self.cls is property and len(args) == 1 and not kwargs:
            return DescriptorValue(property, {**self.parts, _SETTERS[name]: args[0].realize(tr)})
        return super().call_method(tr, name, args, kwargs)


def make_descriptor(cls: type) -> Any:
    """The rule for a call of `cls`."""

    def make(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        names = _PARTS[cls]
        if (
            len(args) > len(names)
            or not set(kwargs) <= set(names)
            or (cls is not property and len(args) != 1)
        ):
            tr.graph_break("call", f"{cls.__name__}() is called with other arguments")
        parts = {name: arg.realize(tr) for name, arg in zip(names, args, strict=False)}
        return DescriptorValue(cls, {**parts, **{name: arg.realize(tr) for name, arg in kwargs.items()}})

    return make


def part_of(tr: Tracer, raw: Any, value: Value, name: str) -> Value | None:
    """A function inside a descriptor, `raw` and as a value; None without one."""
    if isinstance(value, DescriptorValue):
        found = value.parts.get(name)
        return None if isinstance(found, ConstantValue) else found
    fn = getattr(raw, name)
    if fn is None:
        return None
    if value.source is None and value.python_type() is types.FunctionType:
        return value  # `__new__` of a class of the frame: it becomes a static method of its own accord
    assert value.source is not None
    # A cached property is an object of Python.
    place = (
        value.source.attr(name) if isinstance(raw, functools.cached_property) else value.source.member(name)
    )
    return tr.wrap(fn, place)
