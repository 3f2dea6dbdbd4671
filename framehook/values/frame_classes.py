"""Classes that the frame defines.

Each call of the frame defines another class, so no class of the trace may leave it.  The trace works with a *template*,
a real class of the same shape that lives as long as the generated code; where the class, or an object of it, is needed
after the graph, generated code makes a new one.
"""

from __future__ import annotations

from typing import Any

from framehook.source import Source
from framehook.values.base import Value
from framehook.values.classes import ClassValue


class FrameClassValue(ClassValue):
    """A class defined by the frame: its template, and the call that makes the real one.

    `functions` holds what the body of the class bound to each name, where the template has a stand-in; `later` what
    was stored to the class after it was made; `decorators` are calls with the class as first argument.
    """

    __slots__ = ("args", "decorators", "functions", "is_exact", "kwargs", "later", "maker")

    def __init__(
        self, template: type, source: Source, maker: Any, args: list[Value], kwargs: dict[str, Value]
    ) -> None:
        super().__init__(template, source)
        self.maker = maker
        self.args = args
        self.kwargs = kwargs
        self.functions: dict[str, Value] = {}
        self.later: dict[str, Value | None] = {}
        self.decorators: list[tuple[Any, list[Value]]] = []
        self.is_exact = True  # whether the template's own attributes are what the real ones are
