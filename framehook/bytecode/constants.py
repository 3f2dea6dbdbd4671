"""Constants of built code stay the very objects that they are."""

from __future__ import annotations

import re
import sys

# What CPython takes for a name (`all_name_chars`).
_NAME = re.compile(r"[A-Za-z0-9_]*", re.ASCII)


class HeldConstant:
    """Holds a constant that CPython would replace by an equal one, or change, if it saw it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def survives_interning(value: object) -> bool:
    """Whether making a code object leaves this constant what it is.

    CPython interns strings that could be names, also inside of tuples (which it changes in place) and frozen
    sets (which it replaces): `intern_string_constants` in Objects/codeobject.c.
    """
    kind = type(value)
    if kind is str:
        return not _NAME.fullmatch(value) or sys.intern(value) is value  # type: ignore[call-overload]
    if kind is tuple or kind is frozenset:
        return all(survives_interning(item) for item in value)  # type: ignore[attr-defined]
    return True
