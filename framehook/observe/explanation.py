"""`explain`: what became of one call, for people and for programs."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

from framehook import events
from framehook.errors import CodeLocation
from framehook.guards import words
from framehook.guards.guard import Check, Guard
from framehook.observe import bytecode, listing, page
from framehook.observe.terminal import duration, escaped, plural, short_place, to_text

#: Graphs of so few operations are shown in the text; others are in `to_dict()` and `to_html()`.
_FEW_OPERATIONS = 8
_FEW_GUARDS = 3
_LONG = 130
_LOOKED_UP = "classes and functions"
_MOST_FRAMES = 6


class ExplainedGraph(NamedTuple):
    """One entry that was made: a frame, or a piece of one between graph breaks.

    Attributes:
        function, filename, line: the frame.
        outcome: "whole", or "partial" where a graph break ends it.
        operations: tensor operations in the graph.
        source: the graph as Python source, each operation under the user's line that it comes from; empty without one.
        inputs: where the graph's inputs come from, in order: `L['x']`.
        parameters: those of them that are parameters and buffers: they keep their place between calls.
        guards: in words, by what they are about: `L['x']`, `G`, a free variable, "state".
        bytecode: original and generated code, side by side.
        seconds: by phase.
        not_compiled: why the graph runs operation by operation although its backend compiles; else empty.
    """

    function: str
    filename: str
    line: int
    outcome: str
    operations: int
    source: str
    inputs: list[str]
    parameters: list[str]
    guards: dict[str, list[str]]
    bytecode: str
    seconds: dict[str, float]
    not_compiled: str


class ExplainedBreak(NamedTuple):
    """One graph break: kind (a word of docs/graph-breaks.md), reason, what to write instead, and the call stack."""

    kind: str
    reason: str
    hint: str
    stack: tuple[CodeLocation, ...]

    @property
    def location(self) -> CodeLocation:
        """The user's line."""
        return self.stack[-1]


@dataclasses.dataclass
class Explanation:
    """What became of one call; `str()` is for people, `to_dict()` for programs.

    Attributes:
        function: what was called.
        backend: what compiled the graphs.
        graphs, breaks: in the order they came.
        frames: "whole", "partial" and "eager": functions by what became of their frames, `name (file:line)`, each with
            how many frames; inlined ones count, too.
        eager_reasons: why functions stay eager, by function.
        seconds: by phase.
        nothing: why nothing was compiled, where that is so; else empty.
        error: the exception that the call ended with, in words; else empty.
        result: what the call returned.
    """

    function: str
    backend: str
    graphs: list[ExplainedGraph] = dataclasses.field(default_factory=list)
    breaks: list[ExplainedBreak] = dataclasses.field(default_factory=list)
    frames: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=lambda: {"whole": {}, "partial": {}, "eager": {}}
    )
    eager_reasons: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    nothing: str = ""
    error: str = ""
    result: Any = dataclasses.field(default=None, repr=False)

    @property
    def operations(self) -> int:
        """Tensor operations in all graphs."""
        return sum(graph.operations for graph in self.graphs)

    @property
    def guards(self) -> dict[str, list[str]]:
        """The guards of all graphs, each once, by what they are about."""
        found: dict[str, dict[str, None]] = {}
        for graph in self.graphs:
            for about, texts in graph.guards.items():
                found.setdefault(about, {}).update(dict.fromkeys(texts))
        return {about: list(texts) for about, texts in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, without the result."""
        return {
            "function": self.function,
            "backend": self.backend,
            "operations": self.operations,
            "graphs": [graph._asdict() for graph in self.graphs],
            "breaks": [
                {
                    "kind": each.kind,
                    "reason": each.reason,
                    "hint": each.hint,
                    "stack": [place._asdict() for place in each.stack],
                }
                for each in self.breaks
            ],
            "guards": self.guards,
            "frames": self.frames,
            "eager_reasons": self.eager_reasons,
            "seconds": self.seconds,
            "nothing": self.nothing,
            "error": self.error,
        }

    def to_json(self, indent: int | None = 2) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, path: str | None = None) -> str:
        """A page that needs nothing else; written to `path` if there is one."""
        text = page.explanation_page(self)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text(is_coloured=False))}</pre>"

    def text(self, is_coloured: bool | None = None) -> str:
        """For people; None: coloured where standard output is a terminal."""
        return to_text(*self._parts(), is_coloured=is_coloured)

    def _parts(self) -> Iterable[str]:
        breaks = plural(len(self.breaks), "graph break") if self.breaks else "no graph breaks"
        colour = "green" if self.graphs and not self.breaks else "yellow"
        sizes = f"{plural(len(self.graphs), 'graph')}, {plural(self.operations, 'operation')}, {breaks}"
        yield f"[bold]{escaped(self.function)}[/] with {escaped(self.backend)}: [{colour}]{sizes}[/]"
        if self.nothing:
            yield f"[yellow]nothing was compiled:[/] {escaped(self.nothing)}"
        if self.error:
            yield f"[red]the call raised[/] {escaped(self.error)}"
        for number, graph in enumerate(self.graphs, 1):
            yield from self._graph_parts(number, graph)
        for number, each in enumerate(self.breaks, 1):
            yield f"[yellow]graph break {number}[/] ({escaped(each.kind)}): {escaped(each.reason)}"
            yield escaped(each.location.format())
            if len(each.stack) > 1:
                calls = " > ".join(
                    f"{at.function} ({short_place(at.filename, at.line)})" for at in each.stack[:-1]
                )
                yield f"  called through {escaped(calls)}"
            if each.hint:
                yield f"  hint: {escaped(each.hint)}"
        yield from self._guard_parts()
        for outcome, word in (
            ("whole", "compiled whole"),
            ("partial", "compiled partly"),
            ("eager", "eager"),
        ):
            names = [
                f"{name} x{count}" if count > 1 else name for name, count in self.frames[outcome].items()
            ]
            if names:
                more = f", and {len(names) - _MOST_FRAMES} more" if len(names) > _MOST_FRAMES else ""
                yield f"frames {word}: {escaped(', '.join(names[:_MOST_FRAMES]))}{more}"
        for name, reason in self.eager_reasons.items():
            yield f"  {escaped(name)} stays eager: {escaped(reason)}"
        if self.seconds:
            yield "time: " + ", ".join(
                f"{phase} {duration(seconds)}" for phase, seconds in self.seconds.items()
            )

    def _graph_parts(self, number: int, graph: ExplainedGraph) -> Iterable[str]:
        given = [name for name in graph.inputs if name not in set(graph.parameters)]
        inputs = ", ".join(given[:6]) + (f" and {len(given) - 6} more" if len(given) > 6 else "")
        text = (
            f"graph {number}: {escaped(graph.function)} ({short_place(graph.filename, graph.line)}), {graph.outcome}, "
            f"{plural(graph.operations, 'operation')}; inputs: {escaped(inputs) or 'none'}"
        )
        if graph.parameters:
            text += f"; and {plural(len(graph.parameters), 'parameter')} or buffers, as inputs, too"
        yield text
        if graph.not_compiled:
            yield f"  [yellow]runs operation by operation:[/] {escaped(graph.not_compiled)}"
        if graph.source and self.operations <= _FEW_OPERATIONS:
            body = [line for line in graph.source.splitlines() if not line.startswith("class ")]
            yield escaped("\n".join(body))

    def _guard_parts(self) -> Iterable[str]:
        guards = self.guards
        if guards:
            yield f"guards: {plural(sum(map(len, guards.values())), 'fact')} about {plural(len(guards), 'thing')}"
        shown = sorted(guards.items(), key=lambda item: (not item[0].startswith("L["), item[0] == _LOOKED_UP))
        for about, texts in shown[:_MOST_FRAMES]:
            more = f"; and {len(texts) - _FEW_GUARDS} more" if len(texts) > _FEW_GUARDS else ""
            first = "; ".join(
                text if len(text) <= _LONG else text[: _LONG - 1] + "…" for text in texts[:_FEW_GUARDS]
            )
            yield f"  {escaped(about)}: {escaped(first)}{more}"
        if len(shown) > _MOST_FRAMES:
            yield f"  and about {len(shown) - _MOST_FRAMES} more"


# -- collecting ------------------------------------------------------------------------------------------------


def root_of(guard: Guard) -> str:
    """What a guard is about: the argument, variable or namespace that its source begins with."""
    source = guard.source
    if source is None:
        return "state" if guard.check.name in ("STATE", "ENVIRONMENT") else "relations of inputs"
    while source.base is not None and type(source).__name__ != "CellContentsSource":
        previous, source = source, source.base
        if source.base is None and type(source).__name__ == "GlobalsSource":
            return previous.name()
    name = source.name()
    if source.base is not None or name.startswith(("L[", "G[")):
        return name
    return "builtins" if name == "B" else _LOOKED_UP  # looked up by themselves, once


def guard_words(guards: Iterable[Guard]) -> dict[str, list[str]]:
    """Guards in words, by what they are about."""
    found: dict[str, list[str]] = {}
    for guard in guards:
        for part in guard.constant if guard.check is Check.ALL else (guard,):
            found.setdefault(root_of(part), []).append(words.say(part))
    return found


class Recorder:
    """Collects what happens under one handle between `start` and `stop`."""

    def __init__(self, explanation: Explanation, handle: int) -> None:
        self._explanation = explanation
        self._handle = handle
        self._stops: list[Any] = []

    def __enter__(self) -> Explanation:
        for kind, callback in (
            ("compile_end", self._on_compile_end),
            ("graph_break", self._on_graph_break),
            ("first_run", self._on_first_run),
        ):
            self._stops.append(events.on(kind, callback))
        return self._explanation

    def __exit__(self, *_: object) -> None:
        for stop in self._stops:
            stop()

    def _on_compile_end(self, record: events.CompileEnd) -> None:
        if record.handle != self._handle:
            return
        explanation = self._explanation
        self._add_seconds(record.seconds)
        for place, outcome in record.frames:
            name = f"{place[0]} ({short_place(*place[1:])})"
            frames = explanation.frames[outcome]
            frames[name] = frames.get(name, 0) + 1
        if record.outcome in ("whole", "partial"):
            explanation.graphs.append(explained_graph(record))
        else:
            name = f"{record.function} ({short_place(record.filename, record.line)})"
            explanation.eager_reasons[name] = record.reason

    def _on_graph_break(self, record: events.GraphBreak) -> None:
        if record.handle == self._handle:
            found = ExplainedBreak(record.break_kind, record.reason, record.hint, record.stack)
            self._explanation.breaks.append(found)

    def _on_first_run(self, record: events.FirstRun) -> None:
        if record.handle == self._handle:
            self._add_seconds({"first_run": record.seconds})

    def _add_seconds(self, seconds: Any) -> None:
        total = self._explanation.seconds
        for phase, value in seconds.items():
            total[phase] = total.get(phase, 0.0) + value


def explained_graph(record: events.CompileEnd) -> ExplainedGraph:
    """What a compile gave, as plain data; to be asked while the event is handled."""
    graph, guards = record.artifacts.get("graph"), record.artifacts.get("guards", ())
    original, code = record.artifacts.get("original"), record.artifacts.get("code")
    inputs = record.artifacts.get("inputs", ())
    is_code = isinstance(original, CodeType) and isinstance(code, CodeType)
    return ExplainedGraph(
        record.function,
        record.filename,
        record.line,
        record.outcome,
        record.operations,
        "" if graph is None else listing.graph_text(graph),
        [each.source.name() for each in inputs],
        [each.source.name() for each in inputs if each.is_static],
        guard_words(guards),
        bytecode.side_by_side(original, code) if is_code else "",  # type: ignore[arg-type]
        dict(record.seconds),
        record.artifacts.get("eager_graph", ""),
    )


__all__ = ["ExplainedBreak", "ExplainedGraph", "Explanation", "Recorder", "explained_graph", "guard_words"]
