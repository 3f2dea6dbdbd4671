"""Logs: one topic each, what a line says, and nothing by default."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framehook
from framehook.observe.logs import TOPICS
from tests.observe import programs


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    framehook.set_logs()


def lines(caplog: pytest.LogCaptureFixture, topic: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == f"framehook.{topic}"]


#: topic, function, sizes of the calls, options, what some line says
CASES: list[tuple[str, Any, list[int], dict[str, Any], list[str]]] = [
    ("graph_breaks", programs.broken, [2], {}, ["on purpose", "^^^", "hint: remove"]),
    ("recompiles", programs.double, [2, 3], {}, ["compiled again", "size of L['x'] at dim 0: expected 2, got 3", ".py:"]),
    ("guards", programs.double, [2], {}, ["L['x'] is a Tensor of torch.float32 on cpu, sizes [2]", "state of torch"]),
    ("graph", programs.double, [2], {}, ["def forward", "code: return x * 2"]),
    ("bytecode", programs.double, [2], {}, ["original", "| generated", "BINARY_OP *", "<GraphCallable>"]),
    ("dispatch", programs.double, [2], {"warmup_calls": 1}, ["has no entry: warming up: call 1 of 1"]),
    ("policy", programs.double, [2], {"min_graph_ops": 2}, ["stays eager: 1 operation (min_graph_ops is 2)"]),
    ("compiles", programs.double, [2], {}, ["whole, 1 operations", "trace 0."]),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "fn", "sizes", "options", "texts"), CASES, ids=[case[0] for case in CASES])
def test_each_topic(
    topic: str, fn: Any, sizes: list[int], options: dict[str, Any], texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    framehook.set_logs(topic)
    compiled = framehook.compile(fn, backend="eager", dynamic=False, **options)
    for size in sizes:
        compiled(torch.ones(size))
    text = "\n".join(lines(caplog, topic))
    for part in texts:
        assert part in text
    assert {each.name for each in caplog.records} == {f"framehook.{topic}"}


def test_every_topic_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(TOPICS)


def test_the_third_recompile_for_one_cause_names_values_and_cure(caplog: pytest.LogCaptureFixture) -> None:
    framehook.set_logs("recompiles")
    compiled = framehook.compile(programs.double, backend="eager", dynamic=False)
    for size in (2, 3, 4, 5):
        compiled(torch.ones(size))
    first, second, third = lines(caplog, "recompiles")
    for early in (first, second):
        assert "What to do" not in early
    assert "3rd time for size of L['x'] at dim 0, seen 2, 3, 4, 5. What to do: pad" in third


def test_loggers_can_be_switched_on_as_any_others(caplog: pytest.LogCaptureFixture) -> None:
    compiled = framehook.compile(programs.double, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, "framehook.dispatch"):
        compiled(torch.ones(3))
    assert [each.name for each in caplog.records] == ["framehook.dispatch"]


PROGRAM = """
import torch, framehook
def double(x): return x * 2
def gen(): yield 1
compiled = framehook.compile(double, backend="eager", dynamic=False)
for size in range(1, 12): compiled(torch.ones(size))
never = framehook.compile(double, backend="eager")
kept = framehook.compile(gen, backend="eager"); list(kept())
"""

#: environment, whether a text is in standard error
RUNS: list[tuple[dict[str, str], list[str], list[str]]] = [
    ({}, ["compiled no more: 8 entries", "What to do"], ["has no entry", "compiled again", "nothing was compiled"]),
    ({"FRAMEHOOK_LOGS": "recompiles"},
     ["[framehook.recompiles] double", "nothing was compiled for double: no frame was looked up",
      "nothing was compiled for gen: gen cannot be compiled as a whole: it is a generator"],
     ["has no entry", "sizes [1]"]),
    ({"FRAMEHOOK_LOGS": "guards,policy"}, ["sizes [1]", "[framehook.policy]"], ["compiled again"]),
    ({"TORCH_LOGS": "+framehook"}, ["compiled again", "sizes [1]", "has no entry: compile"], []),
    ({"FRAMEHOOK_LOGS": "graphs"}, ["unknown topics graphs", "graph_breaks"], []),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "there", "absent"), RUNS, ids=[str(run[0]) for run in RUNS])
def test_what_a_process_prints(environment: dict[str, str], there: list[str], absent: list[str]) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("FRAMEHOOK_LOGS", "TORCH_LOGS")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == ""
    for text in there:
        assert text in done.stderr
    for text in absent:
        assert text not in done.stderr
    if not environment:
        assert len(done.stderr.splitlines()) == 1


def test_a_handler_of_the_users_gets_the_records_alone() -> None:
    seen: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    logger = logging.getLogger("framehook")
    handler = Keep()
    logger.addHandler(handler)
    try:
        framehook.set_logs("compiles")
        framehook.compile(programs.double, backend="eager")(torch.ones(2))
        assert len(seen) == 1
        assert logger.handlers == [handler]
    finally:
        logger.removeHandler(handler)
