"""Logs through `logging`, one logger for each topic under `framehook.*`, fed by events.

`FRAMEHOOK_LOGS=recompiles,graph_breaks` or `set_logs()` switches topics on; `TORCH_LOGS="+framehook"` all of them, in
torch's format.
"""

from __future__ import annotations

import atexit
import functools
import logging
from collections.abc import Iterable

from framehook import events
from framehook.config import config
from framehook.guards import words
from framehook.handle import live_handles
from framehook.observe import bytecode, counters, listing

#: What each topic is about.
TOPICS = {
    "graph_breaks": "where a graph ends, why, and what to write instead",
    "recompiles": "which guard failed, with the values expected and seen",
    "guards": "the guards of each entry, in words",
    "graph": "each graph as Python source",
    "bytecode": "original and generated code side by side",
    "dispatch": "frames without an entry, and what becomes of them",
    "policy": "frames that stay eager or are compiled no more, and why",
    "compiles": "each trace: outcome, size, and seconds by phase",
}

_loggers = {topic: logging.getLogger(f"framehook.{topic}") for topic in TOPICS}
_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
#: From this time on for one cause, a recompile is told with its cure.
_OFTEN = 3


def set_logs(topics: str | Iterable[str] = (), /, **switches: bool) -> None:
    """Log these topics, and no others, to standard error (or to the handlers of the `framehook` logger).

    Args:
        topics: names, or one string with names separated by commas: graph_breaks, recompiles, guards, graph,
            bytecode, dispatch, policy, compiles; "all" for all.
        switches: the same as keywords, for example `set_logs(recompiles=True)`.

    Raises:
        ValueError: for an unknown topic.
    """
    wanted = _names(topics) | {name for name, is_on in switches.items() if is_on}
    unknown = (wanted | set(switches)) - {*TOPICS, "all"}
    if unknown:
        raise ValueError(f"unknown topics {', '.join(sorted(unknown))}; there are {', '.join(TOPICS)}, all")
    for topic, logger in _loggers.items():
        logger.setLevel(logging.INFO if topic in wanted or "all" in wanted else logging.NOTSET)
    root = logging.getLogger("framehook")
    root.removeHandler(_handler)
    # Someone who configured logging gets the records there, and only there.
    if wanted and not root.hasHandlers():
        root.addHandler(_handler)


def is_on(topic: str) -> bool:
    """Whether somebody wants the records of a topic."""
    return _loggers[topic].isEnabledFor(logging.INFO)


def _names(topics: str | Iterable[str]) -> set[str]:
    parts = topics.split(",") if isinstance(topics, str) else topics
    return {part.strip() for part in parts if part.strip()}


def _where(record: events.Event) -> str:
    return f"{record.function} ({record.filename}:{record.line})"


def _on_graph_break(record: events.GraphBreak) -> None:
    place = record.stack[-1]
    _loggers["graph_breaks"].info(
        "%s breaks at %s:%d (%s): %s; hint: %s\n%s",
        _where(record), place.filename, place.line, record.break_kind, record.reason, record.hint,
        "\n".join(each.format() for each in record.stack),
    )  # fmt: skip


def _on_recompile(record: events.Recompile) -> None:
    text = f"{_where(record)} is compiled again: {'; '.join(record.reasons)}"
    if record.count >= _OFTEN:
        seen = f", seen {', '.join(record.seen)}" if record.seen else ""
        text += f"\n    {_ordinal(record.count)} time for {record.subject}{seen}. What to do: {record.cure}"
    _loggers["recompiles"].info("%s", text)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _on_compile_end(record: events.CompileEnd) -> None:
    where = _where(record)
    seconds = ", ".join(f"{phase} {value:.3f} s" for phase, value in record.seconds.items())
    _loggers["compiles"].info(
        "%s: %s, %d operations, %d guards; %s%s",
        where, record.outcome, record.operations, record.guards, seconds,
        f"; {record.reason}" if record.reason else "",
    )  # fmt: skip
    if record.outcome == "eager":
        _loggers["policy"].info("%s stays eager: %s", where, record.reason)
    if "eager_graph" in record.artifacts:
        _loggers["policy"].info("the graph of %s is not compiled: %s", where, record.artifacts["eager_graph"])
    names = ("graph", "guards", "code", "original")
    graph, guards, code, original = (record.artifacts.get(name) for name in names)
    if graph is not None and is_on("graph"):
        _loggers["graph"].info("%s:\n%s", where, listing.graph_text(graph))
    if guards is not None and is_on("guards"):
        _loggers["guards"].info("%s:\n%s", where, "\n".join(f"    {words.say(guard)}" for guard in guards))
    if code is not None and original is not None and is_on("bytecode"):
        _loggers["bytecode"].info("%s:\n%s", where, bytecode.side_by_side(original, code))


def _on_give_up(record: events.GiveUp) -> None:
    _loggers["policy"].info("%s is compiled no more: %s", _where(record), record.reason)


def _on_miss(record: events.Miss) -> None:
    _loggers["dispatch"].info("%s has no entry: %s", _where(record), record.decision)


def _at_exit() -> None:
    topics = [topic for topic in ("policy", *TOPICS) if is_on(topic)]
    for handle in live_handles() if topics else ():
        stats = counters.stats_of([handle])
        if stats.nothing:
            _loggers[topics[0]].info("nothing was compiled for %s: %s", handle.name, stats.nothing)


events.on("graph_break", _on_graph_break)
events.on("recompile", _on_recompile)
events.on("compile_end", _on_compile_end)
events.on("give_up", _on_give_up)
events.on_if("miss", functools.partial(_loggers["dispatch"].isEnabledFor, logging.INFO), _on_miss)
atexit.register(_at_exit)
if config.logs:
    set_logs(config.logs)
__all__ = ["TOPICS", "is_on", "set_logs"]
