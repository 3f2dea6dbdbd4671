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

A frame is *whole* if one trace has followed it from its first to its last instruction, on its own or inlined in another;
counted are, by `stats()`, all that were traced: calls that find a compiled entry are not traced again, and frames of
generators, class and module bodies never on their own.  A frame whose guards keep failing is traced, and counted, again
and again.  So functions are counted as well, a harder measure: each once, as whole only if every frame of it was.
*Differ* are tests that did not end as without framehook, and failures of framehook itself.  Seconds are of processor
time, for the tests alone, without and with framehook; most of the latter goes into tracing code that runs once.
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
        "| module | tests | differ | frames whole | of | share | functions whole | of | share | s | s captured |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
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
    cells: list[object] = [name, row["tests"], len(row["differences"]) + len(row["internal_errors"])]
    for whole, attempted in ((row["whole_frames"], row["frames"]), (row["whole"], row["attempted"])):
        cells += [whole, attempted, f"{whole / attempted:.0%}" if attempted else "-"]
    cells += [f"{row[name]:.1f}" for name in ("plain_seconds", "captured_seconds")]
    return f"| {' | '.join(map(str, cells))} |"


def _exceptions() -> str:
    lines = [f"## Left out\n\n{len(EXCEPTIONS)} tests are not run:\n"]
    lines += [f"- `{test}`: {reason}." for test, reason in EXCEPTIONS.items()]
    return "\n".join([*lines, ""])
