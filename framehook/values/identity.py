"""Numbers that tell objects, or threads, apart: only the running program knows them."""

from __future__ import annotations

import threading
from typing import Any

from framehook.guards.guard import Check
from framehook.values.base import Tracer, Value
from framehook.values.classes import CallableValue
from framehook.values.frame_classes import FrameClassValue
from framehook.values.functions import FunctionValue


class IdentityNumber(Value):
    """`id(owner)`, or with no owner the number of the thread: a number that only the running program knows."""

    __slots__ = ("key", "owner")

    def __init__(self, owner: Value | None) -> None:
        self.source = None
        self.owner = owner
        self.key = OpaqueKey(self)

    def python_type(self) -> type:
        return int

    def hash_key(self, tr: Tracer) -> Any:
        """As a key it is that of the object; for one from outside, and for the thread, it is the very number."""
        owner = self.owner
        if owner is None:
            number = threading.get_ident()
            tr.guard(None, Check.PREDICATE, (IsThread(number), ()))
            return number
        if owner.source is not None and not isinstance(owner, FrameClassValue):
            obj = getattr(owner, "fn" if isinstance(owner, CallableValue | FunctionValue) else "obj", None)
            if obj is None:
                tr.graph_break("call", f"the id of {owner.describe()} is used as a key")
            tr.guard(owner.source, Check.IDENTITY, obj)
            return id(obj)
        return self.key


class IsThread:
    """A guard on the thread that runs the frame."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self) -> bool:
        return threading.get_ident() == self.number

    def __repr__(self) -> str:
        return f"runs in the thread {self.number}"


class OpaqueKey:
    """Stands for an `IdentityNumber` of the frame's own objects: equal to that of the same object only."""

    __slots__ = ("number",)

    def __init__(self, number: IdentityNumber) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(id(self.number.owner))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueKey) and other.number.owner is self.number.owner
