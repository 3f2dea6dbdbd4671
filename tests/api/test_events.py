"""Events: plain records, callbacks that cannot break a call."""

from __future__ import annotations

import logging

import pytest
import torch

import framehook
from framehook import events
from framehook.testing import CompileCounter


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_compile_start_and_end_name_the_function() -> None:
    seen: list[events.Event] = []
    off = [framehook.events.on(kind, seen.append) for kind in ("compile_start", "compile_end")]
    framehook.compile(double, backend="eager")(torch.ones(2))
    for stop in off:
        stop()
    start, end = seen
    assert isinstance(start, events.CompileStart)
    assert isinstance(end, events.CompileEnd)
    assert start.function == end.function == "double"
    assert end.filename == __file__
    assert (end.outcome, end.operations) == ("whole", 1)
    assert {"trace", "backend", "codegen"} <= set(end.seconds)


def test_recompile_says_what_failed() -> None:
    seen: list[events.Recompile] = []
    off = framehook.events.on("recompile", seen.append)
    compiled = framehook.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    compiled(torch.ones(3))
    off()
    assert len(seen) == 1
    assert "L['x']" in seen[0].reasons[0]
    assert "2" in seen[0].reasons[0]
    assert "3" in seen[0].reasons[0]


def test_graph_break_has_reason_and_place() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        framehook.graph_break("on purpose")
        return x * 2

    seen: list[events.GraphBreak] = []
    off = framehook.events.on("graph_break", seen.append)
    framehook.compile(broken, backend="eager")(torch.ones(2))
    off()
    assert len(seen) == 1
    assert "on purpose" in seen[0].reason
    filename, line, function = seen[0].stack[-1][:3]
    assert filename == __file__
    assert line == broken.__code__.co_firstlineno + 2
    assert "broken" in function


def test_a_failing_callback_is_logged_and_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(record: events.Event) -> None:
        raise RuntimeError("callback failed")

    after: list[events.Event] = []
    stops = [framehook.events.on("compile_end", fail), framehook.events.on("compile_end", after.append)]
    with caplog.at_level(logging.ERROR, "framehook"):
        result = framehook.compile(double, backend="eager")(torch.ones(2))
    for stop in stops:
        stop()
    assert torch.equal(result, torch.full((2,), 2.0))
    assert "callback failed" in caplog.text
    assert len(after) == 1


def test_a_callback_is_not_captured() -> None:
    counter = CompileCounter()

    def work(record: events.Event) -> None:
        double(torch.ones(5))

    off = framehook.events.on("compile_end", work)
    framehook.compile(double, backend=counter)(torch.ones(2))
    off()
    assert counter.frame_count == 1


def test_a_callback_may_take_itself_out() -> None:
    calls = 0

    def once(record: events.Event) -> None:
        nonlocal calls
        calls += 1
        off()

    off = framehook.events.on("compile_start", once)
    compiled = framehook.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    compiled(torch.ones(3))
    off()
    assert calls == 1


def test_misses_and_first_runs_in_their_order() -> None:
    seen: list[events.Event] = []
    stops = [framehook.events.on(kind, seen.append) for kind in events.KINDS if kind != "handle_end"]
    compiled = framehook.compile(double, backend="eager", warmup_calls=1, dynamic=False)
    for size in (2, 2, 2, 3):
        compiled(torch.ones(size))
    for stop in stops:
        stop()
    assert [each.kind for each in seen] == [
        "miss",
        *("miss", "compile_start", "compile_end", "first_run"),
        *("miss", "recompile", "compile_start", "compile_end", "first_run"),
    ]
    assert "call 1 of 1" in seen[0].decision
    assert seen[4].seconds > 0
    assert seen[2].progress.operations >= 0
    compiled(torch.ones(4))
    assert len(seen) == 10


def test_unknown_kinds_and_callbacks_are_refused() -> None:
    with pytest.raises(ValueError, match="compile_start"):
        framehook.events.on("compile_begin", print)
    with pytest.raises(TypeError, match="callable"):
        framehook.events.on("compile_start", 3)  # type: ignore[arg-type]
