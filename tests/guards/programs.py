"""Building a guard program from rows of guards, and asking the fast and the exact way for their answer."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from framehook import _C
from framehook.guards.guard import Check, Guard, GuardSet
from framehook.guards.lowering import lower
from framehook.source import BuiltinsSource, ClosureSource, GlobalsSource, LocalSource, Source

X = LocalSource("x", 0)
Y = LocalSource("y", 1)
G = GlobalsSource()
B = BuiltinsSource()
CELL = ClosureSource(0, "free")

Row = tuple[Source | None, Check, Any]


class Program:
    """A guard program that is asked twice: `check` (skips blocks) and `failure` (exact) must agree."""

    def __init__(self, *rows: Row, inputs: Sequence[Source] = ()) -> None:
        guards = GuardSet()
        for source, check, constant in rows:
            guards.add(source, check, constant)
        self.guards: list[Guard] = list(guards)
        self.program: _C.GuardProgram = lower(guards, inputs)
        self.has_inputs = bool(inputs)

    def arguments(self, slots: tuple[Any, ...], namespace: Any, closure: Any) -> tuple[Any, ...]:
        return (slots, {} if namespace is None else namespace, builtins.__dict__, closure)

    def inputs(self, *slots: Any, namespace: Any = None, closure: Any = None) -> list[Any] | None:
        arguments = self.arguments(slots, namespace, closure)
        exact = self.program.failure(*arguments)
        found = self.program.check(*arguments)
        again = self.program.check(*arguments)
        assert (found is None) == (exact is not None), (found, exact)
        assert (found is None) == (again is None)
        if found is not None and again is not None:
            assert [id(each) for each in found] == [id(each) for each in again]
        return found

    def holds(self, *slots: Any, namespace: Any = None, closure: Any = None) -> bool:
        return self.inputs(*slots, namespace=namespace, closure=closure) is not None

    def failing(self, *slots: Any, namespace: Any = None, closure: Any = None) -> tuple[Guard | None, Any]:
        """The guard that fails and what was found there."""
        assert not self.holds(*slots, namespace=namespace, closure=closure)
        found = self.program.failure(*self.arguments(slots, namespace, closure))
        assert found is not None
        index, got = found
        return (self.guards[index] if index >= 0 else None), got
