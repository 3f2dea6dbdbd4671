"""Generators that the trace leaves in their middle: whoever drops them runs their `finally` and `__exit__`."""

from __future__ import annotations

from collections.abc import Mapping

from framehook.trace.frame import Frame
from framehook.values.base import Value
from framehook.values.functions import GeneratorValue


def abandoned(births: Mapping[int, tuple[Value, int]]) -> GeneratorValue | None:
    """The first of the generators that have to be closed; when that will be, only the native one can know."""
    for value, _ in sorted(births.values(), key=lambda birth: birth[1]):
        if isinstance(value, GeneratorValue) and value.started and not (value.finished or value.running):
            if _has_handler(value.frame):
                return value
    return None


def _has_handler(frame: Frame) -> bool:
    """Whether `GeneratorExit`, raised where the frame waits, would run code of the user's."""
    region = frame.inst.handler
    while region is not None:
        target = frame.instructions[region.target]
        # Other handlers are CPython's own: they take an exception off the stack, or pass it on.
        if target.opname == "PUSH_EXC_INFO":
            return True
        region = target.handler
    return False
