"""`report`: one page about everything that happened in this process so far."""

from __future__ import annotations

import json
import os
from types import CodeType
from typing import Any

import torch

from framehook.errors import CodeLocation
from framehook.guards import words
from framehook.guards.guard import Check
from framehook.handle import Handle, Place, live_handles
from framehook.observe import bytecode, counters, page, table
from framehook.observe.history import Compile, Function, history
from framehook.observe.terminal import duration, plural, short_place

_TORCH = os.path.dirname(torch.__file__) + os.sep
_MOST_GUARDS = 400
_MOST_SOURCE_LINES = 400
#: Compiles that can be stepped through, the last ones.
_MOST_STEPS = 60


class Report:
    """What a page says; the process is looked at when it is written."""

    def write(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write the page."""
        text = self.html(title)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def html(self, title: str = "") -> str:
        """The page."""
        stats = counters.process_stats()
        compiles = list(history.compiles)
        by_cost = sorted(table.told(stats.functions).items(), key=lambda item: -item[1].total_seconds)
        data = {
            "timeline": _timeline(compiles),
            "latency": _latency(),
            "graphs": [
                [[each.label, each.kind, each.takes, each.shape, each.place] for each in one.nodes]
                for one in compiles
            ],
        }
        return page.render(
            "report.html",
            f"framehook: {title}" if title else "framehook report",
            f"{plural(len(compiles), 'trace')}, {plural(len(by_cost), 'function')}",
            stats=stats,
            saved=_saved(by_cost),
            functions=by_cost,
            untold=len(stats.functions) - len(by_cost),
            sources=_sources(),
            steps=[_step(index, each) for index, each in list(enumerate(compiles))[-_MOST_STEPS:]],
            left_out=max(0, len(compiles) - _MOST_STEPS),
            data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        )


def report(path: str | os.PathLike[str], title: str = "") -> None:
    """Write one page about everything that was compiled in this process so far; it needs no network.

    Hit rate and time saved, functions by cost, source with each line coloured, graphs, guards, recompiles over time,
    latencies, and each compile step by step.  It contains source lines and names, and no contents of tensors.

    Args:
        path: where to write the page.
        title: what it is about.
    """
    Report().write(path, title)


def _saved(functions: list[tuple[str, counters.FunctionStats]]) -> str:
    known = [
        each
        for _, each in functions
        if each.eager_time is not None and each.run_time is not None and each.hits
    ]
    if not known:
        return "unknown"
    seconds = sum(each.hits * ((each.eager_time or 0.0) - (each.run_time or 0.0)) for each in known)
    seconds -= sum(each.total_seconds - each.seconds.get("imports", 0.0) for each in known)
    return duration(seconds) if seconds >= 0 else f"-{duration(-seconds)}"


def _timeline(compiles: list[Compile]) -> list[dict[str, Any]]:
    rows = [
        {
            "at": each.at - history.began,
            "seconds": sum(each.seconds.values()),
            "function": _name(each.place),
            "outcome": each.outcome,
            "again": bool(each.reasons),
            "text": "; ".join(each.reasons) or each.reason or each.outcome,
        }
        for each in compiles
    ]
    for at, record in history.gave_up:
        rows.append(
            {"at": at - history.began, "seconds": 0, "function": _name(record.place), "outcome": "gave up",
             "again": False, "text": record.reason}
        )  # fmt: skip
    return rows


def _latency() -> dict[str, dict[str, list[list[float]]]]:
    found: dict[str, dict[str, list[list[float]]]] = {}
    for handle in live_handles():
        for place, times in handle.times_by_place().items():
            if any(times.values()):
                name = f"{_name(place)} in {handle.name}"
                found[name] = {
                    kind: [[float(at), seconds] for at, seconds in rows] for kind, rows in times.items()
                }
    return found


def _line(filename: str, line: int) -> str:
    return CodeLocation(filename, line, "").source_line()


def _name(place: Place) -> str:
    return f"{place[0]} ({short_place(place[1], place[2])})"


# -- source ----------------------------------------------------------------------------------------------------


def _sources() -> list[dict[str, Any]]:
    """Each function that was traced: its lines, and what became of each."""
    found = []
    for place, function in history.functions.copy().items():
        lines = _source(place, function)
        if lines:
            is_eager = set(function.outcomes) == {"eager"}
            outcomes = ", ".join(f"{count} {name}" for name, count in sorted(function.outcomes.items()))
            found.append(
                {"name": place[0], "filename": place[1], "line": place[2], "lines": lines, "outcomes": outcomes,
                 "is_torch": place[1].startswith(_TORCH), "eager_reason": function.eager_reason if is_eager else ""}
            )  # fmt: skip
    return sorted(found, key=lambda each: (each["is_torch"], each["filename"], each["line"]))


def _source(place: Place, function: Function) -> list[tuple[int, str, str, str]]:
    """(line, text, what became of it, why) of a function."""
    filename, first = place[1], place[2]
    native, in_graph = history.native.get(filename, {}), history.in_graph.get(filename, set())
    last = min(max(function.lines, default=first), first + _MOST_SOURCE_LINES)
    if not function.lines:
        last = first
    is_eager = set(function.outcomes) == {"eager"} or (function.eager_reason and not function.reached)
    found = []
    for line in range(first, last + 1):
        text = _line(filename, line)
        if not text and line == first:
            return []
        reasons = "; ".join(native.get(line, {}))
        if line not in function.lines and line != first:
            kind = ""
        elif line in native:
            kind = "native"
        elif line in in_graph:
            kind = "graph"
        elif is_eager:
            kind = "eager"
        elif line in function.reached or line == first:
            kind = "traced"
        else:
            kind = "unreached"
        found.append((line, text, kind, reasons))
    return found


# -- step by step ----------------------------------------------------------------------------------------------


def _step(index: int, each: Compile) -> dict[str, Any]:
    code, original = (None if ref is None else ref() for ref in (each.code, each.original))
    entry = _entry_of(each, code)
    return {
        "index": index,
        "name": _name(each.place),
        "filename": each.place[1],
        "line": each.place[2],
        "source": _line(each.place[1], each.place[2]).strip(),
        "compile": each,
        "total": sum(each.seconds.values()),
        "bytecode": bytecode.side_by_side(original, code)
        if code is not None and original is not None
        else "",
        "guards": _guards(entry),
        "has_graph": bool(each.nodes),
    }


def _entry_of(each: Compile, code: CodeType | None) -> Any:
    handle: Handle | None = next((one for one in live_handles() if one.serial == each.handle), None)
    if handle is None or code is None:
        return None
    return next((entry for entry in handle.entries() if entry.code is code), None)


def _guards(entry: Any) -> list[str]:
    notes = getattr(entry, "payload", None)
    if notes is None:
        return []
    parts = [
        part for guard in notes.guards for part in (guard.constant if guard.check is Check.ALL else (guard,))
    ]
    texts = [words.say(part) for part in parts[:_MOST_GUARDS]]
    if len(parts) > _MOST_GUARDS:
        texts.append(f"and {len(parts) - _MOST_GUARDS:,} more")
    return texts


__all__ = ["Report", "report"]
