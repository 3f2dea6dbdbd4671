"""Options and the table at the end: medians side by side, and the ratio of the peer to framehook."""

from __future__ import annotations

import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from benchmarks.compilers import EAGER, FRAMEHOOK, PEER

#: The title of each table.
TABLES = {
    "dispatch": "Dispatch: one cached call",
    "dispatch_thread": "Dispatch on a second thread",
    "dispatch_cold": "Dispatch after 64 MiB of other memory were touched",
    "trace": "Trace: first call on a new model, warm process",
    "retrace": "Trace again: the same model with another element type",
    "trace_growth": "Trace of more layers",
    "serving": "A service: requests of random sizes, with Inductor",
    "memory": "Memory that the first call leaves, in a new process",
    "cold_start": "Cold start: a new process",
    "inference": "End to end: inference step with Inductor",
    "training": "End to end: training step with Inductor",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("framehook benchmarks")
    group.addoption("--smoke", action="store_true", help="run everything once and quickly; measure nothing")
    group.addoption("--page", metavar="PATH", help="write the tables into this Markdown page")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--smoke"):
        config.option.benchmark_disable = True
    # The table below says it all.
    config.option.benchmark_quiet = True


def pytest_sessionstart(session: pytest.Session) -> None:
    # Capturing log records costs each compiler as much as it logs: not what is measured here.
    session.config.pluginmanager.unregister(name="logging-plugin")


@pytest.fixture
def smoke(request: pytest.FixtureRequest) -> bool:
    """Whether this run only shows that everything works."""
    return bool(request.config.getoption("--smoke"))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Nothing compiled before and after."""
    torch.compiler.reset()
    FRAMEHOOK.reset()
    yield
    torch.compiler.reset()
    FRAMEHOOK.reset()


@pytest.fixture
def side_by_side(benchmark: Any, smoke: bool) -> Callable[..., None]:
    """Measure one row of a table: all its columns in turns, so that a machine that drifts drifts for each."""

    def measure(
        table: str,
        title: str,
        columns: dict[str, Callable[[], Callable[[], Any]]],
        rounds: int,
        calls: dict[str, int] | None = None,
        goal: float | None = None,
    ) -> None:
        """Run the rounds.

        Args:
            table: a key of `TABLES`.
            title: of the row.
            columns: for each column what prepares a round, untimed, and returns what is timed.
            rounds: how many.
            calls: how many calls are in one round of a column, if not one.
            goal: the ratio of the peer to framehook that is asked for.
        """
        seconds: dict[str, list[float]] = {name: [] for name in columns}
        others = {name: prepare for name, prepare in columns.items() if name != FRAMEHOOK.name}

        def others_first() -> tuple[tuple[Any, ...], dict[str, Any]]:
            for name, prepare in others.items():
                run = prepare()
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
            return (columns[FRAMEHOOK.name](),), {}

        benchmark.group = f"{table}: {title}"
        benchmark.pedantic(_call, setup=others_first, rounds=1 if smoke else rounds)
        if smoke:
            return
        seconds[FRAMEHOOK.name] = list(benchmark.stats.stats.data)
        medians = {
            name: statistics.median(times) / (calls or {}).get(name, 1) for name, times in seconds.items()
        }
        benchmark.extra_info.update(table=table, rows={title: (medians, goal)})

    return measure


def _call(run: Callable[[], Any]) -> Any:
    return run()


class Row(NamedTuple):
    """Medians by column, the ratio that is asked for, and their unit: seconds, bytes or number."""

    medians: dict[str, float]
    goal: float | None
    unit: str = "seconds"


def _measured(config: pytest.Config) -> dict[str, dict[str, Row]]:
    """Table → title of a row → row."""
    session = getattr(config, "_benchmarksession", None)
    tables: dict[str, dict[str, Row]] = {}
    for result in getattr(session, "benchmarks", []):
        info = result.extra_info
        if "table" in info:
            rows = {title: Row(*row) for title, row in info["rows"].items()}
            tables.setdefault(info["table"], {}).update(rows)
    return tables


def _format(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "number":
        return f"{value:.4g}"
    return _seconds(value) if unit == "seconds" else f"{value / 2**20:.3g} MiB"


def _seconds(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _lines(name: str, rows: dict[str, Row]) -> list[str]:
    columns = [
        c.name for c in (EAGER, PEER, FRAMEHOOK) if any(c.name in row.medians for row in rows.values())
    ]
    compared = PEER.name in columns and FRAMEHOOK.name in columns
    has_goals = any(row.goal is not None for row in rows.values())
    titles = ["", *columns, *["peer / framehook"] * compared, *["asked"] * has_goals]
    lines = [f"### {TABLES[name]}", "", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for title, (medians, goal, unit) in rows.items():
        cells = [title, *(_format(medians.get(column), unit) for column in columns)]
        if compared:
            ratio = medians[PEER.name] / medians[FRAMEHOOK.name]
            cells.append(f"{ratio:.3g}" + (" **below**" if goal is not None and ratio < goal else ""))
        if has_goals:
            cells.append("" if goal is None else f"≥ {goal:g}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    tables = _measured(config)
    sections = {name: _lines(name, rows) for name, rows in tables.items()}
    for lines in sections.values():
        terminalreporter.write_line("")
        for line in lines:
            terminalreporter.write_line(line)
    page = config.getoption("--page")
    if page and sections:
        write_page(Path(page), sections)
        terminalreporter.write_line(f"\nwritten to {page}")


def write_page(path: Path, sections: dict[str, list[str]]) -> None:
    """Replace each section that was measured between its markers, or add it at the end; keep the rest."""
    text = path.read_text() if path.exists() else "# Performance\n"
    machine = (
        f"Measured on {_processor()} with {torch.get_num_threads()} threads, Python {platform.python_version()}, "
        f"torch {torch.__version__}. Medians; the columns of a row are measured in turns, in one process."
    )
    for name, lines in {"machine": [machine], **sections}.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        block = "\n".join([begin, *lines, end])
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if pattern.search(text):
            text = pattern.sub(lambda match, block=block: block, text)
        else:
            text = text.rstrip("\n") + "\n\n" + block + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
