"""What one trace gives: the graph, its guards, and the state that generated code has to bring about."""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple

import torch.fx

from framehook.errors import CodeLocation
from framehook.guards.guard import GuardSet
from framehook.source import ObjectSource
from framehook.trace.frame import Frame
from framehook.trace.graph import GraphBuilder, GraphInput, NumberInput
from framehook.trace.places import chain_of
from framehook.values.base import LazyValue, Value
from framehook.values.frame_classes import FrameClassValue
from framehook.values.numbers import DeferredNumber


class GraphBreak(NamedTuple):
    """Where and why a trace stopped.  `frames` are (code, byte offset), outermost first."""

    kind: str
    reason: str
    hint: str
    frames: tuple[tuple[CodeType, int], ...]
    #: Whether all the frames end here: an exception leaves the root frame.
    is_end: bool = False

    def location(self) -> CodeLocation:
        """The place in the innermost user frame."""
        return CodeLocation.of(*self.frames[-1])

    def __str__(self) -> str:
        place = self.location()
        return f"{self.reason} ({place.filename}:{place.line})"


class Unsupported(Exception):
    """Nothing of the frame can be captured; it runs eagerly and is remembered with the reason."""

    def __init__(self, graph_break: GraphBreak) -> None:
        super().__init__(str(graph_break))
        self.graph_break = graph_break


class Capture:
    """The result of one trace.  `graph` and `inputs` are final once code generation has planned its outputs."""

    __slots__ = (
        "absolute",
        "births",
        "builder",
        "cyclic",
        "eager_graph",
        "effects",
        "ended",
        "frame",
        "frames",
        "graph",
        "graph_break",
        "guards",
        "inputs",
        "known",
        "looked_up",
        "mutates_inputs",
        "numbers",
        "operations",
        "record",
        "result",
        "risky",
        "seconds",
        "state",
        "templates",
        "tracer",
        "visited",
    )

    def __init__(
        self,
        tracer: Any,
        result: Value | None,
        graph_break: GraphBreak | None,
        state: list[tuple[Any, tuple[Any, ...]]],
        stopped: Frame | None = None,
    ) -> None:
        self.tracer = tracer
        self.record: Any = tracer.record
        self.frame: Frame = tracer.root
        #: The frames at the graph break, outermost first: each waits for the next one.
        self.frames: list[Frame] = chain_of(stopped) if stopped is not None else []
        self.builder: GraphBuilder = tracer.builder
        self.guards: GuardSet = tracer.guards
        self.effects: list[Any] = tracer.effects
        self.absolute: dict[int, ObjectSource] = tracer.absolute_sources
        self.known: dict[int, tuple[Any, Value]] = tracer.known
        self.looked_up: list[LazyValue] = tracer.looked_up
        self.births: dict[int, tuple[Value, int]] = tracer.births
        self.cyclic: list[Value] = []  # containers that contain themselves, as code generation finds them
        self.templates: dict[int, FrameClassValue] = tracer.templates
        #: The code of each inlined call that the trace followed to its end, generators' left out.
        self.ended: list[CodeType] = tracer.ended
        #: Per code object the instructions that the trace executed, by index.
        self.visited: dict[CodeType, bytearray] = tracer.visited
        self.result = result
        self.graph_break = graph_break
        self.state = state
        self.graph: torch.fx.GraphModule | None = None
        self.inputs: list[GraphInput] = self.builder.inputs
        #: Numbers that the graph takes behind its tensors; generated code hands them over.
        self.numbers: list[NumberInput] = []
        #: Numbers that generated code computes first of all, in this order.
        self.risky: list[DeferredNumber] = tracer.risky
        self.operations = self.builder.operations
        self.mutates_inputs = False
        self.eager_graph = ""  # why the backend let the graph run operation by operation
        self.seconds = 0.0

    def release(self) -> None:
        """Let go of the call's objects, which values, frames and the tracer hold in circles."""
        self.tracer.release()
        for source in self.absolute.values():
            source.release()
        for frame in self.frames:
            frame.release()
        self.frames.clear()
        for entry in self.builder.inputs:
            entry.release()
        self.numbers.clear()
        self.risky.clear()
        self.known.clear()
        self.effects.clear()
        self.births.clear()
        self.cyclic.clear()
        self.looked_up.clear()
