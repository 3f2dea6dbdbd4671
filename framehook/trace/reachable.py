"""What the frame has made and a function of the frame can reach: whether a call of it changes something there."""

from __future__ import annotations

from typing import Any

from framehook.values.base import LazyValue, Value
from framehook.values.deques import DequeValue
from framehook.values.functions import BoundMethodValue, CellValue, NestedFunctionValue
from framehook.values.mappings import DictValue
from framehook.values.objects import ObjectValue
from framehook.values.sequences import SequenceValue
from framehook.values.sets import SetValue


def _parts(value: Value) -> list[Value | None]:
    if isinstance(value, CellValue):
        return [value.contents]
    if isinstance(value, (SequenceValue, DequeValue)):
        return list(value.items)
    if isinstance(value, DictValue):
        return [item for _, item in value.items.values()]
    if isinstance(value, SetValue):
        return list(value.found.values())
    if isinstance(value, ObjectValue):
        return [*value.attrs.values(), value.base]
    if isinstance(value, NestedFunctionValue):
        return [value.closure, value.defaults, value.kwdefaults, *value.attrs.values()]
    if isinstance(value, BoundMethodValue):
        return [value.fn, value.owner]
    return []


def _names(value: Value) -> tuple[Any, ...]:
    """What its parts are called, where they have names."""
    if isinstance(value, DictValue):
        return tuple(value.items)
    return tuple(value.attrs) if isinstance(value, ObjectValue) else ()


class Reachable:
    """Everything that is reached from some values, and what it consists of now.

    What comes from outside is left out: its changes are effects.
    """

    def __init__(self, *values: Value) -> None:
        self._found: dict[int, tuple[Value, Any]] = {}
        waiting: list[Value | None] = list(values)
        while waiting:
            value = waiting.pop()
            if isinstance(value, LazyValue):
                value = value.actual
            if (
                value is None
                or id(value) in self._found
                or (value.source is not None and value not in values)
            ):
                continue
            parts = _parts(value)
            self._found[id(value)] = value, self._state(value)
            waiting += parts

    @staticmethod
    def _state(value: Value) -> Any:
        return _names(value), [id(part) for part in _parts(value)]

    def is_changed(self) -> bool:
        """Whether something of it consists of other things by now."""
        return any(self._state(value) != state for value, state in self._found.values())
