"""`weakref.ref` made inside the frame."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from framehook.values.base import Tracer, Value
from framehook.values.sequences import check_arguments


def has_weak_references(cls: type) -> bool:
    """Whether instances of a class can be referred to weakly."""
    return cls.__weakrefoffset__ != 0


class WeakReferenceValue(Value):
    """A weak reference to an object of the trace."""

    __slots__ = ("owner",)

    def __init__(self, owner: Value) -> None:
        self.source = None
        self.owner = owner

    def python_type(self) -> type:
        return weakref.ref

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        check_arguments(tr, "weak reference", args, kwargs, 0, 0)
        if not tr.is_held(self.owner):
            tr.graph_break(
                "finalizer", f"whether {self.owner.describe()} still lives is asked of a weak reference"
            )
        return self.owner

    def hash_key(self, tr: Any) -> Any:
        tr.graph_break("call", "a weak reference is used as a key")
