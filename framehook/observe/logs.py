"""Logs through `logging`, one logger for each topic under `framehook.*`, fed by events."""

from __future__ import annotations

import dis
import io
import logging
from collections.abc import Iterable

from framehook import events
from framehook.config import config

TOPICS = ("graph_breaks", "recompiles", "guards", "graph", "bytecode", "compiles")

_loggers = {topic: logging.getLogger(f"framehook.{topic}") for topic in TOPICS}
_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))


def set_logs(topics: str | Iterable[str] = (), /, **switches: bool) -> None:
    """Log these topics, and no others, to standard error (or to the handlers of the `framehook` logger).

    Args:
        topics: names, or one string with names separated by commas: graph_breaks, recompiles, guards, graph,
            bytecode, compiles; "all" for all.
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
    _loggers["recompiles"].info("%s: %s", _where(record), "; ".join(record.reasons))


def _on_compile_end(record: events.CompileEnd) -> None:
    where = _where(record)
    seconds = ", ".join(f"{phase} {value:.3f} s" for phase, value in record.seconds.items())
    _loggers["compiles"].info(
        "%s: %s, %d operations, %d guards; %s%s",
        where, record.outcome, record.operations, record.guards, seconds,
        f"; {record.reason}" if record.reason else "",
    )  # fmt: skip
    graph, guards, code = (record.artifacts.get(name) for name in ("graph", "guards", "code"))
    if graph is not None and _loggers["graph"].isEnabledFor(logging.INFO):
        _loggers["graph"].info("%s:\n%s", where, graph.print_readable(print_output=False))
    if guards is not None and _loggers["guards"].isEnabledFor(logging.INFO):
        _loggers["guards"].info("%s:\n%s", where, "\n".join(f"    {guard!r}" for guard in guards))
    if code is not None and _loggers["bytecode"].isEnabledFor(logging.INFO):
        text = io.StringIO()
        dis.dis(code, file=text)
        _loggers["bytecode"].info("%s:\n%s", where, text.getvalue())


events.on("graph_break", _on_graph_break)
events.on("recompile", _on_recompile)
events.on("compile_end", _on_compile_end)
if config.logs:
    set_logs(config.logs)
