"""Counts as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framehook.observe.terminal import duration, escaped, keeping_random, plural, to_text

if TYPE_CHECKING:
    from framehook.observe.counters import FunctionStats, Stats

_MOST_REASONS = 5


def stats_text(stats: Stats, is_coloured: bool | None = None) -> str:
    """All counts: a line for the sum, a table of functions by cost, and the reasons below it."""
    parts: list[Any] = [
        f"[bold]{stats.hits:,} hits, {stats.misses:,} misses[/] (hit rate {stats.hit_rate:.1%}); {stats.compiles:,} "
        f"compiled, {stats.recompiles:,} recompiled; frames: {stats.whole_frames:,} whole, {stats.partial_frames:,} "
        f"partly, {stats.eager_frames:,} eager; {plural(stats.operations, 'operation')}",
        "seconds: " + (", ".join(f"{k} {v:.3f}" for k, v in stats.seconds.items()) or "none"),
    ]
    if stats.nothing:
        parts.append(f"[yellow]nothing was compiled:[/] {escaped(stats.nothing)}")
    if stats.internal_errors:
        parts.append(
            f"[red]{plural(stats.internal_errors, 'failure')} of framehook itself; please report them[/]"
        )
    told_functions = told(stats.functions)
    by_cost = sorted(told_functions.items(), key=lambda item: -item[1].total_seconds)
    if by_cost:
        parts.append(_table(by_cost))
    untold = len(stats.functions) - len(told_functions)
    if untold:
        parts.append(f"and {plural(untold, 'function')} that only ran in warm-up calls")
    for name, each in by_cost:
        lines = _reasons(each)
        if lines:
            parts += [f"[bold]{escaped(name)}[/]", *lines]
    return to_text(*parts, is_coloured=is_coloured)


def told(functions: dict[str, FunctionStats]) -> dict[str, FunctionStats]:
    """The functions that are worth telling of; without those that were only seen in warm-up calls."""
    return {
        name: each
        for name, each in functions.items()
        if each.hits or each.total_seconds or each.whole_frames or each.partial_frames or each.eager_frames
        or any(not reason.startswith("warming up") for reason in each.held_back)
        or not each.misses
    }  # fmt: skip


@keeping_random()
def _table(functions: list[tuple[str, FunctionStats]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    table.add_column("function", overflow="fold")
    headings = (
        "hits",
        "misses",
        "rate",
        "compiled",
        "again",
        "whole/partly/eager",
        "cost",
        "speedup",
        "even at",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, each in functions:
        table.add_row(
            escaped(_short(name)), f"{each.hits:,}", f"{each.misses:,}", f"{each.hit_rate:.0%}", str(each.compiles),
            str(each.recompiles), f"{each.whole_frames:,}/{each.partial_frames:,}/{each.eager_frames:,}",
            duration(each.total_seconds), _times(each), *_speedup(each),
        )  # fmt: skip
    return table


def _times(each: FunctionStats) -> str:
    if each.run_time is None:
        return ""
    return duration(each.run_time) + ("" if each.eager_time is None else f"/{duration(each.eager_time)}")


def _speedup(each: FunctionStats) -> tuple[str, str]:
    if each.speedup is None:
        return "", ""
    return f"{each.speedup:.2f}x", "never" if each.break_even is None else f"call {each.break_even:,}"


def _short(name: str) -> str:
    """`f (/home/me/train.py:41)` as `f (train.py:41)`."""
    function, _, place = name.rpartition(" (")
    return f"{function} ({place.rpartition('/')[2]}"


def _reasons(each: FunctionStats) -> list[str]:
    lines: list[str] = []
    for word, reasons in (
        ("recompiled", each.recompile_reasons),
        ("graph break", each.graph_breaks),
        ("eager", each.eager_reasons),
        ("graph not compiled", each.eager_graphs),
        ("gave up", each.gave_up),
        ("held back", each.held_back if not each.compiles else []),
    ):
        counted: dict[str, int] = {}
        for reason in reasons:
            counted[reason] = counted.get(reason, 0) + 1
        for reason in list(counted)[:_MOST_REASONS]:
            times = f" ({counted[reason]} times)" if counted[reason] > 1 else ""
            lines.append(f"    {word}: {escaped(reason)}{times}")
        if len(counted) > _MOST_REASONS:
            lines.append(f"    {word}: and {len(counted) - _MOST_REASONS} more")
    return lines


__all__ = ["stats_text", "told"]
