"""Events: what happened, as plain records, for whoever wants to know.

The engine speaks to the rest of the package (counters, logs) and to users through this one room.  Callbacks run
in the thread of the call that caused the event, with capture off, and can never break that call: an exception
in a callback is logged.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from framehook.errors import CodeLocation

_log = logging.getLogger("framehook.events")


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Base of all records.

    Attributes:
        handle: serial number of the handle (records must not keep handles alive).
        function: qualified name of the function, for people.
        filename, line: where the function's code begins.
    """

    kind: ClassVar[str]
    handle: int
    function: str
    filename: str
    line: int

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells one function from another: a function and its resume functions are one place."""
        return (self.function, self.filename, self.line)


class Progress(Protocol):
    """How far a compile has come; may be asked in any thread."""

    @property
    def phase(self) -> str: ...
    @property
    def operations(self) -> int: ...


@dataclasses.dataclass(frozen=True, slots=True)
class CompileStart(Event):
    """A frame is about to be traced.

    Attributes:
        reason: why only now, or why again: what `Miss` says of the decision.
        progress: how far it has come, while it lasts: `phase`, and `operations` so far.
    """

    kind: ClassVar[str] = "compile_start"
    reason: str = ""
    progress: Progress | None = dataclasses.field(default=None, repr=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CompileEnd(Event):
    """A trace has ended.

    Attributes:
        outcome: "whole" (one graph to the end), "partial" (up to a graph break), "eager" (nothing to gain or
            nothing could be captured), "error" (the backend or framehook failed).
        reason: why it is not whole, empty otherwise.
        operations: tensor operations in the graph.
        guards: number of guards of the entry.
        seconds: by phase: imports, trace, backend (with Inductor: aotautograd and inductor), codegen, guards.
        frames: the frames that began in the trace, the function's own and those of calls that were inlined: the
            place of each, and "whole" (traced from its first to its last instruction), "partial" (left at a graph
            break) or "eager". Frames that a trace resumes have been counted where they began.
        is_internal_error: whether framehook itself failed.
        artifacts: for logs, to be looked at and not to be kept: "graph" (a GraphModule), "guards" (a GuardSet), "code"
            (the generated code object), "original" (the frame's), "inputs" (of the graph, with their sources),
            "visited" (per code object the instructions that were executed, by index);
            "eager_graph" (why the backend lets the graph run operation by operation), where it does.
    """

    kind: ClassVar[str] = "compile_end"
    outcome: str
    reason: str = ""
    operations: int = 0
    guards: int = 0
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    frames: Sequence[tuple[tuple[str, str, int], str]] = ()
    is_internal_error: bool = False
    artifacts: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Recompile(Event):
    """No entry fits code that has entries.

    Attributes:
        reasons: for each entry which guard failed, in words, the entry that was used last first.
        subject: what changed most often so far, of what these guards are about.
        count: how often it has made this code compile again, this time included.
        seen: values of it, in words, if they are known.
        cure: what to do about it.
    """

    kind: ClassVar[str] = "recompile"
    reasons: tuple[str, ...]
    subject: str = ""
    count: int = 1
    seen: tuple[str, ...] = ()
    cure: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class GraphBreak(Event):
    """A point that could not go into the graph.

    Attributes:
        reason, hint: what cannot be captured, and what to write instead.
        stack: the call stack of inlined functions, outermost first; the last is the place of the break.
        break_kind: the stable word for breaks of this kind, as docs/graph-breaks.md lists them.
    """

    kind: ClassVar[str] = "graph_break"
    reason: str
    hint: str
    stack: tuple[CodeLocation, ...]
    break_kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class GiveUp(Event):
    """A function will not be compiled again by this handle, or not for a while; its entries stay.

    Attributes:
        reason: why.
        retry_after: lookups of the function after which it is compiled again; 0: when an entry has been idle for long.
    """

    kind: ClassVar[str] = "give_up"
    reason: str
    retry_after: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FirstRun(Event):
    """A compiled graph has run for the first time; backends may do a part of their work then."""

    kind: ClassVar[str] = "first_run"
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Miss(Event):
    """No entry fits a frame.  Made only while somebody listens.

    Attributes:
        decision: "compile", or why the frame runs eagerly this time.
    """

    kind: ClassVar[str] = "miss"
    decision: str


@dataclasses.dataclass(frozen=True, slots=True)
class HandleEnd(Event):
    """A handle goes away: its last counts, which cannot be asked for any more."""

    kind: ClassVar[str] = "handle_end"
    hits: int
    misses: int
    lookups_by_place: Mapping[tuple[str, str, int], Any]


Callback: TypeAlias = Callable[[Any], object]

KINDS = tuple(
    cls.kind for cls in (CompileStart, CompileEnd, FirstRun, Recompile, GraphBreak, GiveUp, Miss, HandleEnd)
)
_callbacks: dict[str, list[Callback]] = {kind: [] for kind in KINDS}


# Callbacks that want records only at times: whether now, and what to call.  Records of frequent kinds are made only
# where somebody wants them.
_at_times: dict[str, list[tuple[Callable[[], bool], Callback]]] = {kind: [] for kind in KINDS}


def on_if(kind: str, condition: Callable[[], bool], callback: Callback) -> None:
    """Call `callback(record)` at events of `kind` while the condition holds, for the life of the process."""
    _at_times[kind].append((condition, callback))


def is_wanted(kind: str) -> bool:
    """Whether somebody wants records of this kind now."""
    if _callbacks[kind]:
        return True
    for condition, _ in _at_times[kind]:  # noqa: SIM110  asked at every miss: no generator
        if condition():
            return True
    return False


def on(kind: str, callback: Callback) -> Callable[[], None]:
    """Call `callback(record)` at every event of `kind`.

    Args:
        kind: one of compile_start, compile_end, first_run, recompile, graph_break, give_up, miss, handle_end.
        callback: takes one record; what it returns is ignored, what it raises is logged.

    Returns:
        A function that takes the callback out again.

    Raises:
        ValueError: for an unknown kind.
        TypeError: when the callback cannot be called.
    """
    if kind not in _callbacks:
        raise ValueError(f"unknown kind of event {kind!r}; there are {', '.join(KINDS)}")
    if not callable(callback):
        raise TypeError(f"a callback must be callable, not {callback!r}")
    # Copied on write, so that a running `emit` is not disturbed and needs no lock.
    _callbacks[kind] = [*_callbacks[kind], callback]

    def off() -> None:
        registered = list(_callbacks[kind])
        for index, other in enumerate(registered):
            if other is callback:
                del registered[index]
                break
        _callbacks[kind] = registered

    return off


def emit(record: Event) -> None:
    """Hand a record to its callbacks."""
    at_times = [callback for condition, callback in _at_times[record.kind] if condition()]
    for callback in (*_callbacks[record.kind], *at_times):
        try:
            callback(record)
        except Exception:
            _log.exception("callback %r for %r failed; the call goes on", callback, record.kind)
