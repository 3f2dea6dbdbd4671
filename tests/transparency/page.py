"""The page of results, docs/transparency.md, from what `--keep` has kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.transparency.modules import EXCEPTIONS, MODULES

_HEAD = """\
# CPython's own tests

`make transparency` runs test modules of CPython twice, with every frame captured and without, and compares how each
test ended ([architecture.md](architecture.md#how-it-is-held-against-python)).  This page is written by
`python -m tests.transparency --keep FILE --write docs/transparency.md`.

A function is *whole* if every frame of it was followed by one trace from its first to its last instruction; frames that
began again and again count once each.  *Differ* are tests that did not end as without framehook, and failures of
framehook itself.  Seconds are of processor time, for the tests alone.
"""


def of(kept: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The text of the page.

    Args:
        kept: by version of Python, by module, `Comparison.to_dict`.
    """
    parts = [_HEAD]
    for version in sorted(kept, key=lambda each: tuple(map(int, each.split(".")))):
        parts.append(_table(version, kept[version]))
    parts.append(_exceptions())
    return "\n".join(parts)


def _table(version: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        f"## CPython {version}\n",
        "| module | tests | differ | functions whole | of | share | frames whole | of | s | s captured |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows = [results[module] for module in MODULES if module in results]
    for row in rows:
        lines.append(_row(f"`{row['module']}`", row))
    total: dict[str, Any] = {
        name: sum(row[name] for row in rows)
        for name in (
            *("tests", "whole", "attempted", "whole_frames", "frames"),
            *("plain_seconds", "captured_seconds"),
        )
    }
    total["differences"] = [each for row in rows for each in row["differences"]]
    total["internal_errors"] = [each for row in rows for each in row["internal_errors"]]
    lines.append(_row(f"**{len(rows)} modules**", total))
    lines.append("")
    for row in rows:
        for each in (*row["differences"], *row["internal_errors"]):
            lines.append(f"- `{row['module']}`: {each.splitlines()[0]}")
    absent = [module for module in MODULES if module not in results]
    if absent:
        lines.append(f"Not run, or not in this Python: {', '.join(f'`{module}`' for module in absent)}.\n")
    return "\n".join(lines)


def _row(name: str, row: Mapping[str, Any]) -> str:
    share = f"{row['whole'] / row['attempted']:.0%}" if row["attempted"] else "-"
    return (
        f"| {name} | {row['tests']} | {len(row['differences']) + len(row['internal_errors'])} | {row['whole']} "
        f"| {row['attempted']} | {share} | {row['whole_frames']} | {row['frames']} "
        f"| {row['plain_seconds']:.1f} | {row['captured_seconds']:.1f} |"
    )


def _exceptions() -> str:
    lines = [f"## Left out\n\n{len(EXCEPTIONS)} tests are not run:\n"]
    lines += [f"- `{test}`: {reason}." for test, reason in EXCEPTIONS.items()]
    return "\n".join([*lines, ""])
