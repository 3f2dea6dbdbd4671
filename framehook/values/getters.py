"""`operator.itemgetter`, `attrgetter` and `methodcaller` made inside the frame."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.sequences import TupleValue


class GetterValue(Value):
    """One of the three; `args` and `kwargs` are what it was made of."""

    __slots__ = ("args", "cls", "kwargs")

    def __init__(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.source = None
        self.cls = cls
        self.args = args
        self.kwargs = kwargs

    def python_type(self) -> type:
        return self.cls

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if kwargs or len(args) != 1:
            tr.graph_break("exception", f"{self.cls.__name__} is called with other arguments")
        owner = args[0].realize(tr)
        if self.cls is operator.methodcaller:
            method = owner.get_attr(tr, _name(tr, self.args[0]))
            return tr.call(method, self.args[1:], self.kwargs)
        if self.cls is operator.itemgetter:
            found = [owner.get_item(tr, key.realize(tr)) for key in self.args]
        else:
            found = [_dotted(tr, owner, _name(tr, name)) for name in self.args]
        return found[0] if len(found) == 1 else TupleValue(found)


def _name(tr: Tracer, value: Value) -> str:
    value = value.realize(tr)
    assert isinstance(value, ConstantValue)
    return str(value.value)


def _dotted(tr: Tracer, owner: Value, path: str) -> Value:
    for name in path.split("."):
        owner = owner.realize(tr).get_attr(tr, name)
    return owner


def make_getter(cls: type, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Make a getter; the native call words the TypeError where arguments do not fit."""
    named = args[:1] if cls is operator.methodcaller else args if cls is operator.attrgetter else ()
    names = [value.realize(tr) for value in named]
    if not args or (kwargs and cls is not operator.methodcaller):
        tr.graph_break("exception", f"{cls.__name__}() is called with other arguments")
    if not all(isinstance(name, ConstantValue) and type(name.value) is str for name in names):
        tr.graph_break("call", f"{cls.__name__}() of a name that is no constant string")
    return GetterValue(cls, list(args), dict(kwargs))
