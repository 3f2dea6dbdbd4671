"""What one trace gives: the graph, its guards, and the state that generated code has to bring about."""

from __future__ import annotations

import linecache
from types import CodeType
from typing import Any, NamedTuple

import torch.fx

from framehook.guards.guard import GuardSet
from framehook.source import ObjectSource
from framehook.trace.frame import Frame
from framehook.trace.graph import GraphBuilder, GraphInput
from framehook.values.base import Value


class GraphBreak(NamedTuple):
    """Where and why a trace stopped.  `frames` are (code, line), outermost first."""

    kind: str
    reason: str
    hint: str
    frames: tuple[tuple[CodeType, int], ...]

    def location(self) -> str:
        """File and line of the innermost user frame."""
        code, line = self.frames[-1]
        return f"{code.co_filename}:{line}"

    def source_line(self) -> str:
        """The text of the innermost user line."""
        code, line = self.frames[-1]
        return linecache.getline(code.co_filename, line).strip()

    def __str__(self) -> str:
        return f"{self.reason} ({self.location()})"


class Unsupported(Exception):
    """Nothing of the frame can be captured; it runs eagerly and is remembered with the reason."""

    def __init__(self, graph_break: GraphBreak) -> None:
        super().__init__(str(graph_break))
        self.graph_break = graph_break


class Capture:
    """The result of one trace.  `graph` and `inputs` are final once code generation has planned its outputs."""

    __slots__ = (
        "absolute",
        "builder",
        "effects",
        "frame",
        "graph",
        "graph_break",
        "guards",
        "inputs",
        "known",
        "mutates_inputs",
        "operations",
        "record",
        "result",
        "seconds",
        "state",
    )

    def __init__(
        self,
        record: Any,
        frame: Frame,
        builder: GraphBuilder,
        guards: GuardSet,
        effects: list[Any],
        result: Value | None,
        graph_break: GraphBreak | None,
        state: list[tuple[Any, tuple[Any, ...]]],
        absolute: dict[int, ObjectSource],
        known: dict[int, tuple[Any, Value]],
    ) -> None:
        self.record = record
        self.frame = frame
        self.builder = builder
        self.guards = guards
        self.effects = effects
        self.result = result
        self.graph_break = graph_break
        self.state = state
        self.absolute = absolute
        self.known = known
        self.graph: torch.fx.GraphModule | None = None
        self.inputs: list[GraphInput] = builder.inputs
        self.operations = builder.operations
        self.mutates_inputs = False
        self.seconds = 0.0
