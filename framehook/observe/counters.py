"""Counters: what `stats()` shows, per function and in all.

Compiles, recompiles, breaks and seconds are counted from events; hits and misses are asked of the handles, which
count them in C++.  What a dead handle had counted stays in the totals of the process.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from framehook import events, stances
from framehook.config import config
from framehook.handle import Handle, Lookups, Place, live_handles
from framehook.observe import table


@dataclasses.dataclass
class FunctionStats:
    """One function, or the sum of several.

    Attributes:
        hits, misses: lookups that found an entry, and that found none.
        compiles: traces that ended in an entry.
        recompiles: misses on code that had entries; `recompile_reasons` says which guards failed.
        whole, partial, eager: traces that came to the end of their frame, that ended at a graph break, and that
            gave nothing.  What a frame is resumed with behind a graph break is a trace of its own.
        whole_frames, partial_frames, eager_frames: frames (activations of the function, on its own or inlined) that
            were traced from their first to their last instruction, that were left at a graph break, and that run
            eagerly.  Each frame that is looked at by the tracer counts once, where it begins.
        operations: tensor operations in all graphs.
        graph_breaks, eager_reasons: reasons, in the order they came.
        eager_graphs: why graphs run operation by operation although their backend compiles.
        seconds: by phase: imports (torch's own, once in a process), trace, aotautograd, inductor, backend (other
            ones), codegen, guards, first_run (of compiled graphs).
        internal_errors: failures of framehook itself; the frame ran eagerly.
        held_back: why frames without an entry ran eagerly the last time: warm-up calls, a stance, another thread.
        timed_hits, hit_seconds: the few calls with an entry that were timed, and their time in all.
        timed_eager, eager_seconds: the same of eager calls: warm-up calls, or those of `time_eager`.
    """

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    recompiles: int = 0
    whole: int = 0
    partial: int = 0
    eager: int = 0
    whole_frames: int = 0
    partial_frames: int = 0
    eager_frames: int = 0
    operations: int = 0
    internal_errors: int = 0
    recompile_reasons: list[str] = dataclasses.field(default_factory=list)
    graph_breaks: list[str] = dataclasses.field(default_factory=list)
    eager_reasons: list[str] = dataclasses.field(default_factory=list)
    eager_graphs: list[str] = dataclasses.field(default_factory=list)
    gave_up: list[str] = dataclasses.field(default_factory=list)
    held_back: list[str] = dataclasses.field(default_factory=list)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    timed_hits: int = 0
    hit_seconds: float = 0.0
    timed_eager: int = 0
    eager_seconds: float = 0.0

    @property
    def run_time(self) -> float | None:
        """Seconds of one call that found its entry; None where none was timed."""
        return self.hit_seconds / self.timed_hits if self.timed_hits else None

    @property
    def eager_time(self) -> float | None:
        """Seconds of one eager call; None where none was timed."""
        return self.eager_seconds / self.timed_eager if self.timed_eager else None

    @property
    def speedup(self) -> float | None:
        """T_eager / (T_trace + T_run) over all calls so far, without imports; None while a time is unknown.

        Above 1 once compiling has paid off; see `break_even`.
        """
        eager, run, calls = self.eager_time, self.run_time, self.hits + self.compiles
        if eager is None or run is None or not self.hits:
            return None
        return calls * eager / (self._own_seconds + calls * run)

    @property
    def break_even(self) -> int | None:
        """The call with which compiling has paid off; None while a time is unknown, or where it never does."""
        eager, run = self.eager_time, self.run_time
        if eager is None or run is None or eager <= run:
            return None
        return math.ceil(self._own_seconds / (eager - run))

    @property
    def _own_seconds(self) -> float:
        # Whoever comes first has the imports of the whole process.
        return self.total_seconds - self.seconds.get("imports", 0.0)

    @property
    def hit_rate(self) -> float:
        """Hits per lookup, 0.0 without lookups."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0

    @property
    def graphs(self) -> int:
        """Entries made: one for each whole frame, one for each piece between graph breaks."""
        return self.compiles

    @property
    def total_seconds(self) -> float:
        """Seconds of all phases."""
        return sum(self.seconds.values())

    def add(self, other: FunctionStats) -> None:
        """Add another's counts to these."""
        for field in dataclasses.fields(FunctionStats):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, dict):
                for phase, seconds in theirs.copy().items():
                    mine[phase] = mine.get(phase, 0.0) + seconds
            else:
                setattr(self, field.name, mine + theirs)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        names = ("hit_rate", "run_time", "eager_time", "speedup", "break_even")
        return {**dataclasses.asdict(self), **{name: getattr(self, name) for name in names}}


@dataclasses.dataclass
class Stats(FunctionStats):
    """The sum over all functions, and each function under its name, file and line.

    Attributes:
        nothing: why nothing was compiled, where that is so; else empty.
    """

    functions: dict[str, FunctionStats] = dataclasses.field(default_factory=dict)
    nothing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        functions = {name: each.to_dict() for name, each in self.functions.items()}
        return {**super().to_dict(), "functions": functions, "nothing": self.nothing}

    def __str__(self) -> str:
        return table.stats_text(self)


# Handles end in finalizers, which run in any thread at any moment, also while that thread is in here.  So finalizers
# never wait for a lock, and whoever goes through a dict of others goes through a copy (`dict.copy` runs no Python).

_Functions = dict[Place, FunctionStats]
_by_handle: dict[int, _Functions] = {}
# What handles that are gone have counted: per function, and lookups in all.
_dead: _Functions = {}
_dead_lookups = [0, 0]
# Ended handles whose counts are not yet in `_dead`, and who is adding them.
_ended: deque[events.HandleEnd] = deque()
_adding_ended = threading.Lock()


def stats_of(handles: Iterable[Handle]) -> Stats:
    """The counts of some handles."""
    total = Stats()
    handles = list(handles)
    for handle in handles:
        counts = handle.counters()
        _add(total, _functions_of(handle), counts["hits"], counts["misses"])
    if len(handles) == 1 and not total.compiles:
        total.nothing = why_nothing(handles[0], total)
    return total


def why_nothing(handle: Handle, stats: Stats) -> str:
    """Why a handle has compiled nothing so far."""
    name = handle.name or "it"
    if config.disable:
        return "config.disable is set (FRAMEHOOK_DISABLE)"
    if not stats.functions:
        if handle.skipped:
            return f"{name} cannot be compiled as a whole: {handle.skipped}"
        if stances.current() == "force_eager":
            return "the stance is force_eager"
        return (
            f"no frame was looked up: {name} was not called yet, or only inside of another compiled function, under "
            "framehook.disable, or where a debugger or profiler was at work"
        )
    reasons: dict[str, None] = {}
    for each in stats.functions.values():
        reasons |= dict.fromkeys(
            [*each.eager_reasons, *each.gave_up, *(each.held_back if not each.eager_reasons else ())]
        )
    return "; ".join(reasons) or "no frame was traced"


def process_stats() -> Stats:
    """The counts of all handles, dead ones included."""
    _add_ended()
    total = stats_of(live_handles())
    _add(total, _dead.copy(), *_dead_lookups)
    return total


def forget(handle: Handle | None = None) -> None:
    """Start the counts of a handle, or all counts of the process, from zero; the handle counts its own lookups."""
    if handle is not None:
        _by_handle.pop(handle.serial, None)
        return
    _ended.clear()
    _by_handle.clear()
    _dead.clear()
    _dead_lookups[:] = [0, 0]


def _functions_of(handle: Handle) -> _Functions:
    functions: _Functions = {}
    for place, each in _by_handle.get(handle.serial, {}).copy().items():
        functions[place] = FunctionStats()
        functions[place].add(each)
    _add_lookups(functions, handle.lookups_by_place())
    for place, reason in handle.held_back.copy().items():
        functions.setdefault(place, FunctionStats()).held_back.append(reason)
    for place, (calls, seconds) in handle.eager_times.copy().items():
        counts = functions.setdefault(place, FunctionStats())
        counts.timed_eager, counts.eager_seconds = calls, seconds
    return functions


def _add_lookups(functions: _Functions, lookups: Mapping[Place, Lookups]) -> None:
    for place, found in lookups.items():
        counts = functions.setdefault(place, FunctionStats())
        for name, value in Lookups(*found)._asdict().items():
            setattr(counts, name, getattr(counts, name) + value)


def _add(total: Stats, functions: _Functions, hits: int, misses: int) -> None:
    for (function, filename, line), each in functions.items():
        total.add(each)
        total.functions.setdefault(f"{function} ({filename}:{line})", FunctionStats()).add(each)
        # Lookups of code that is gone are in the sum only.
        hits -= each.hits
        misses -= each.misses
    total.hits += hits
    total.misses += misses


# -- from events -----------------------------------------------------------------------------------------------


def _entry(record: events.Event) -> FunctionStats:
    return _by_handle.setdefault(record.handle, {}).setdefault(record.place, FunctionStats())


def _on_compile_end(record: events.CompileEnd) -> None:
    counts = _entry(record)
    if record.outcome == "whole":
        counts.whole += 1
    elif record.outcome == "partial":
        counts.partial += 1
    else:
        counts.eager += 1
        counts.eager_reasons.append(record.reason)
    for place, outcome in record.frames:
        frame_counts = _by_handle[record.handle].setdefault(place, FunctionStats())
        name = f"{outcome}_frames"
        setattr(frame_counts, name, getattr(frame_counts, name) + 1)
    if record.outcome in ("whole", "partial"):
        counts.compiles += 1
    if "eager_graph" in record.artifacts:
        counts.eager_graphs.append(record.artifacts["eager_graph"])
    counts.operations += record.operations
    counts.internal_errors += record.is_internal_error
    for phase, seconds in record.seconds.items():
        counts.seconds[phase] = counts.seconds.get(phase, 0.0) + seconds


def _on_recompile(record: events.Recompile) -> None:
    counts = _entry(record)
    counts.recompiles += 1
    counts.recompile_reasons.extend(record.reasons)


def _on_first_run(record: events.FirstRun) -> None:
    seconds = _entry(record).seconds
    seconds["first_run"] = seconds.get("first_run", 0.0) + record.seconds


def _on_graph_break(record: events.GraphBreak) -> None:
    place = record.stack[-1]
    _entry(record).graph_breaks.append(f"{record.reason} ({place.filename}:{place.line})")


def _on_give_up(record: events.GiveUp) -> None:
    _entry(record).gave_up.append(record.reason)


def _on_handle_end(record: events.HandleEnd) -> None:
    _ended.append(record)
    _add_ended()


def _add_ended() -> None:
    # Whoever has the lock adds what comes meanwhile, too.
    while _ended and _adding_ended.acquire(blocking=False):
        try:
            while _ended:
                _add_dead(_ended.popleft())
        except IndexError:
            pass  # `forget` came in between
        finally:
            _adding_ended.release()


def _add_dead(record: events.HandleEnd) -> None:
    functions = _by_handle.pop(record.handle, {})
    _add_lookups(functions, record.lookups_by_place)
    for place, each in functions.copy().items():
        _dead.setdefault(place, FunctionStats()).add(each)
    _dead_lookups[0] += record.hits
    _dead_lookups[1] += record.misses


events.on("compile_end", _on_compile_end)
events.on("first_run", _on_first_run)
events.on("recompile", _on_recompile)
events.on("graph_break", _on_graph_break)
events.on("give_up", _on_give_up)
events.on("handle_end", _on_handle_end)
__all__ = ["FunctionStats", "Stats", "forget", "process_stats", "stats_of"]
