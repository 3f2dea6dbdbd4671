"""The text of a program as it grows, and which variables of what kind there are at a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

#: Kinds of variables; the programs keep to them, so that most of what they do is well-formed.
KINDS = ("tensor", "int", "str", "tensors", "ints", "table", "set", "deque", "box", "function", "iterator")


class Scope:
    """A function body: its variables by kind."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.variables: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.is_nested = parent is not None
        self.nonlocals: list[str] = []

    def add(self, kind: str, name: str) -> None:
        """A variable is bound."""
        if name not in self.variables[kind]:
            self.variables[kind].append(name)

    def saved(self) -> dict[str, list[str]]:
        """The variables as they are now."""
        return {kind: list(names) for kind, names in self.variables.items()}


class Draw:
    """Choices drawn from hypothesis, lines written down."""

    def __init__(self, draw: Callable[[Any], Any], has_breaks: bool) -> None:
        self._draw = draw
        self.has_breaks = has_breaks
        self.lines: list[str] = []
        self.indent = 0
        self.loops = 0  # loops around this place in this function
        self.tries = 0
        self.depth = 0  # blocks around this place
        self.names = 0
        self.budget = 0  # statements that may still come
        self.scope = Scope()
        self.helpers: list[str] = []

    def number(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return int(self._draw(st.integers(low, high)))

    def choice(self, options: Sequence[T]) -> T:
        """One of them; the first is the simplest."""
        return options[self.number(0, len(options) - 1)] if len(options) > 1 else options[0]

    def chance(self, percent: int) -> bool:
        """True in so many cases of a hundred; false is simpler."""
        return self.number(0, 99) >= 100 - percent

    def fresh(self, prefix: str) -> str:
        """A name that is not in use."""
        self.names += 1
        return f"{prefix}{self.names}"

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a header, and what follows inside of it; variables bound there are not used after it."""
        self.line(header)
        self.indent += 1
        self.depth += 1
        kept = self.scope.saved()
        start = len(self.lines)
        try:
            yield
        finally:
            if len(self.lines) == start:
                self.line("pass")
            self.scope.variables = kept
            self.indent -= 1
            self.depth -= 1

    def name(self, kind: str) -> str | None:
        """A variable of that kind, of this function or one around it; None when there is none."""
        found = list(reversed(self.scope.variables[kind]))
        scope = self.scope.parent
        while scope is not None:
            found += [name for name in scope.variables[kind] if name not in found]
            scope = scope.parent
        return self.choice(found) if found else None

    def own(self, kind: str) -> str | None:
        """A variable that this function may bind anew."""
        names = self.scope.variables[kind]
        return self.choice(names) if names else None
