"""Why generated code cannot be written as a trace would have it."""

from __future__ import annotations

from framehook.values.base import Value


class NotRebuildable(Exception):
    """A value has no equivalent that bytecode could make (a running generator)."""

    def __init__(self, words: str, value: Value | None = None) -> None:
        super().__init__(words)
        self.value = value


class CycleFound(Exception):
    """A container that is being built is part of itself; `value` has to be made empty and filled later."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value
