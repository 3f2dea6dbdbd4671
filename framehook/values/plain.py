"""Values that are constants all the way down, containers included, as the objects that they stand for."""

from __future__ import annotations

from typing import Any

from framehook.values.base import ConstantValue, Tracer, Value, to_constant
from framehook.values.classes import ClassValue
from framehook.values.mappings import DictValue
from framehook.values.sequences import ListValue, SequenceValue, drain
from framehook.values.sets import SetValue


def as_plain(tr: Tracer, value: Value) -> tuple[bool, Any]:
    """(True, object) when a value is constants all the way down, containers included."""
    value = value.realize(tr)
    known, obj = to_constant(tr, value)
    if known:
        return True, obj
    if isinstance(value, SequenceValue):
        parts = [as_plain(tr, item) for item in drain(tr, value)]
        if all(part[0] for part in parts):
            items = [part[1] for part in parts]
            return True, items if isinstance(value, ListValue) else tuple(items)
    elif isinstance(value, DictValue):
        value.guard_keys(tr)
        rows = {key: as_plain(tr, item) for key, (_, item) in value.items.items()}
        if all(part[0] for part in rows.values()) and value.cls is dict:
            return True, {key: part[1] for key, part in rows.items()}
    elif (
        isinstance(value, SetValue)
        and value.cls is set
        and all(isinstance(item, ConstantValue) for item in value.found.values())
    ):
        value.order(tr)  # it may be shown
        copied = value.table.copy()
        if list(copied) != list(value.original if value.source is not None else value.table):
            # Another history has led to another order.
            tr.graph_break("container", f"the order of {value.describe()}")
        return True, copied
    elif isinstance(value, ClassValue):
        return True, value.fn
    return False, None
