"""What happened so far, kept small: the last compiles, and of each function which lines are in a graph.

Recorded from the first import on, so that a report can be asked for afterwards.  Code objects and entries are not
kept: a report has the bytecode and the guards of what is alive when it is written.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
import weakref
from collections import deque
from types import CodeType
from typing import Any, NamedTuple

import torch.fx

from framehook import events
from framehook.bytecode.decode import decode
from framehook.handle import Place, place_of
from framehook.observe.listing import lines_of, user_line

#: Compiles that are kept, and operations of each whose graph is kept.
_MOST_COMPILES = 400
_MOST_NODES = 3000
_MOST_FUNCTIONS = 5000
_MOST_REASONS = 5


class Node(NamedTuple):
    """One operation or input of a graph: its label, what it takes (places in the list of nodes), its shape and line."""

    label: str
    kind: str
    takes: tuple[int, ...]
    shape: str
    place: str


@dataclasses.dataclass
class Compile:
    """One compile, as plain data."""

    at: float
    handle: int
    place: Place
    decision: str = ""
    reasons: tuple[str, ...] = ()
    cure: str = ""
    breaks: list[events.GraphBreak] = dataclasses.field(default_factory=list)
    outcome: str = ""
    reason: str = ""
    operations: int = 0
    guards: int = 0
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    first_run: float | None = None
    frames: list[tuple[Place, str]] = dataclasses.field(default_factory=list)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    code: weakref.ref[CodeType] | None = None
    original: weakref.ref[CodeType] | None = None


@dataclasses.dataclass
class Function:
    """One function that was traced: its lines, those that a trace came by, and what became of its frames."""

    lines: set[int] = dataclasses.field(default_factory=set)
    reached: set[int] = dataclasses.field(default_factory=set)
    outcomes: dict[str, int] = dataclasses.field(default_factory=dict)
    eager_reason: str = ""


class History:
    """What happened in this process."""

    def __init__(self) -> None:
        self.began = time.time()
        self.compiles: deque[Compile] = deque(maxlen=_MOST_COMPILES)
        self.functions: dict[Place, Function] = {}
        #: By file: lines with operations in a graph; lines at which a graph broke, with the reasons.
        self.in_graph: dict[str, set[int]] = {}
        self.native: dict[str, dict[int, dict[str, None]]] = {}
        self.gave_up: deque[tuple[float, events.GiveUp]] = deque(maxlen=_MOST_COMPILES)
        self._local = threading.local()

    def clear(self) -> None:
        """Forget everything."""
        self.compiles.clear()
        self.functions.clear()
        self.in_graph.clear()
        self.native.clear()
        self.gave_up.clear()

    # -- events, in the order in which they come ----------------------------------------------------------------
    def on_recompile(self, record: events.Recompile) -> None:
        self._local.recompile = record

    def on_compile_start(self, record: events.CompileStart) -> None:
        found = Compile(time.time(), record.handle, record.place, record.reason)
        recompile = getattr(self._local, "recompile", None)
        if recompile is not None:
            found.reasons, found.cure = recompile.reasons, recompile.cure
        self._local.compile = found
        self._local.recompile = None

    def on_graph_break(self, record: events.GraphBreak) -> None:
        current: Compile | None = getattr(self._local, "compile", None)
        if current is not None:
            current.breaks.append(record)
        at = record.stack[-1]
        reasons = self.native.setdefault(at.filename, {}).setdefault(at.line, {})
        if len(reasons) < _MOST_REASONS:
            reasons[record.reason] = None

    def on_compile_end(self, record: events.CompileEnd) -> None:
        current: Compile | None = getattr(self._local, "compile", None)
        self._local.compile = None
        if current is None:
            return
        current.outcome, current.reason = record.outcome, record.reason
        current.operations, current.guards = record.operations, record.guards
        current.seconds = dict(record.seconds)
        current.frames = list(record.frames)
        for place, outcome in record.frames:
            function = self._function(place)
            function.outcomes[outcome] = function.outcomes.get(outcome, 0) + 1
        if record.outcome == "eager":
            self._function(record.place).eager_reason = record.reason
        artifacts = record.artifacts
        for code, flags in artifacts.get("visited", {}).items():
            self._note_lines(code, flags)
        if isinstance(artifacts.get("graph"), torch.fx.GraphModule):
            static = {each.name for each in artifacts.get("inputs", ()) if each.is_static}
            current.nodes = self._sketch(artifacts["graph"], static)
        for name in ("code", "original"):
            if isinstance(artifacts.get(name), CodeType):
                setattr(current, name, weakref.ref(artifacts[name]))
        self.compiles.append(current)

    def on_first_run(self, record: events.FirstRun) -> None:
        for each in reversed(self.compiles):
            if each.handle == record.handle and each.place == record.place and each.first_run is None:
                each.first_run = record.seconds
                return

    def on_give_up(self, record: events.GiveUp) -> None:
        self.gave_up.append((time.time(), record))

    def _function(self, place: Place) -> Function:
        if place not in self.functions and len(self.functions) >= _MOST_FUNCTIONS:
            return Function()  # one too many: it is not kept
        return self.functions.setdefault(place, Function())

    def _note_lines(self, code: CodeType, flags: bytearray) -> None:
        function = self._function(place_of(code))
        instructions = decode(code).instructions
        if not function.lines:
            function.lines = {inst.line for inst in instructions if inst.line is not None}
        function.reached.update(
            [inst.line for inst in itertools.compress(instructions, flags) if inst.line is not None]
        )

    def _sketch(self, graph: torch.fx.GraphModule, static: set[str]) -> list[Node]:
        """The operations of a graph and their inputs; parameters and buffers are left out."""
        nodes: list[Node] = []
        index: dict[torch.fx.Node, int] = {}
        places: set[tuple[str, int, str]] = set()
        for node in graph.graph.nodes:
            if node.op == "output" or node.name in static:
                continue
            lines = lines_of(node)
            places.update(lines)
            if len(nodes) >= _MOST_NODES:
                continue
            at = user_line(lines)
            index[node] = len(nodes)
            takes = tuple(index[each] for each in node.all_input_nodes if each in index)
            place = "" if at is None else f"{at[0]}:{at[1]}"
            kind = "input" if node.op == "placeholder" else "operation"
            nodes.append(Node(_label(node), kind, takes, _shape(node.meta.get("example_value")), place))
        for filename, line, _ in places:
            self.in_graph.setdefault(filename, set()).add(line)
        return nodes


def _label(node: torch.fx.Node) -> str:
    if node.op == "placeholder":
        return node.name
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (tuple, list)):
        return f"{len(value)} results"
    return ""


#: Of this process.
history = History()
events.on("recompile", history.on_recompile)
events.on("compile_start", history.on_compile_start)
events.on("graph_break", history.on_graph_break)
events.on("compile_end", history.on_compile_end)
events.on("first_run", history.on_first_run)
events.on("give_up", history.on_give_up)

__all__ = ["Compile", "Function", "History", "Node", "history"]
