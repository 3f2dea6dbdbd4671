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
        if target.opname == "PUSH_EXC_INFO" and not _passes_on(frame, region.target + 1):
            return True
        region = target.handler
    return False


def _passes_on(frame: Frame, index: int) -> bool:
    """Whether a handler is a chain of `except IndexError:` and the like, none of which takes `GeneratorExit`."""
    instructions = frame.instructions
    while instructions[index].opname != "RERAISE":
        while instructions[index].opname == "LOAD_GLOBAL" and _is_ordinary(frame, instructions[index].argval):
            index += 1
        if instructions[index].opname == "BUILD_TUPLE":
            index += 1
        if [each.opname for each in instructions[index : index + 2]] != [
            "CHECK_EXC_MATCH",
            "POP_JUMP_IF_FALSE",
        ]:
            return False
        index = instructions[index + 1].target
    return True


def _is_ordinary(frame: Frame, name: str) -> bool:
    """Whether a name is that of a builtin exception that `GeneratorExit` is not."""
    found = frame.globals.builtins.get(name)
    return name not in frame.globals.namespace and isinstance(found, type) and issubclass(found, Exception)
