"""`stats()`: counts, reasons and seconds, per function and in all; limits; `reset`."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook
from framehook.testing import CompileCounter


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def test_five_calls_are_two_hits_and_three_misses() -> None:
    @framehook.compile(backend="eager")
    def run(fn: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return fn(a, b)

    square = torch.ones(32, 128), torch.ones(128, 32)
    tall = torch.ones(64, 128), torch.ones(128, 32)
    for fn, args in [
        (matmul, square),
        (matmul, square),
        (matmul, tall),
        (add, (square[0],) * 2),
        (add, (square[0],) * 2),
    ]:
        assert torch.equal(run(fn, *args), fn(*args))
    stats = run.stats()
    assert (stats.hits, stats.misses) == (2, 3)
    assert stats.hit_rate == pytest.approx(0.4)
    assert stats.recompiles == 2


def test_theta_keeps_small_frames_eager_and_traces_them_once() -> None:
    def two(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * 2

    def three(x: torch.Tensor) -> torch.Tensor:
        return ((x + 1) * 2) - 3

    counter = CompileCounter()
    traces: list[object] = []
    off = framehook.events.on("compile_start", traces.append)
    with framehook.config.patch(min_graph_ops=3):
        small = framehook.compile(two, backend=counter)
        large = framehook.compile(three, backend=counter)
    for _ in range(4):
        assert torch.equal(small(torch.ones(2)), two(torch.ones(2)))
    assert counter.frame_count == 0
    assert len(traces) == 1
    assert small.stats().eager == 1
    assert "min_graph_ops" in small.stats().eager_reasons[0]
    for _ in range(4):
        large(torch.ones(2))
    off()
    assert counter.frame_count == 1
    assert len(traces) == 2
    assert large.stats().hits == 3


def test_a_frame_without_operations_is_traced_once_however_often_it_runs() -> None:
    def plain(a: int) -> int:
        return a + 1

    compiled = framehook.compile(plain, backend="eager")
    for _ in range(300):
        assert compiled(1) == 2
    assert sum(compiled.stats().seconds.values()) > 0
    assert compiled.stats().eager == 1


def test_per_function_and_total() -> None:
    with framehook.capture(backend="eager", warmup_calls=0) as capture:
        for _ in range(3):
            matmul(torch.ones(2, 2), torch.ones(2, 2))
        add(torch.ones(2), torch.ones(2))
    stats = capture.stats()
    by_name = {name.split()[0]: each for name, each in stats.functions.items()}
    assert (by_name["matmul"].hits, by_name["matmul"].misses) == (2, 1)
    assert (by_name["add"].hits, by_name["add"].misses) == (0, 1)
    assert (stats.hits, stats.misses, stats.whole, stats.operations) == (2, 2, 2, 2)
    assert "matmul" in str(stats)
    assert stats.to_dict()["functions"]


def test_process_stats_keep_what_dead_handles_counted() -> None:
    before = framehook.stats()
    compiled = framehook.compile(add, backend="eager")
    for _ in range(5):
        compiled(torch.ones(2), torch.ones(2))
    assert framehook.stats().hits - before.hits == 4
    del compiled
    gc.collect()
    after = framehook.stats()
    assert (after.hits - before.hits, after.misses - before.misses) == (4, 1)
    assert after.compiles - before.compiles == 1


def test_recompile_reasons_have_values() -> None:
    compiled = framehook.compile(add, backend="eager", dynamic=False)
    compiled(torch.ones(2), torch.ones(2))
    compiled(torch.ones(3), torch.ones(3))
    [reason] = compiled.stats().recompile_reasons
    assert "L['a']" in reason
    assert "2" in reason
    assert "3" in reason


def test_partly_compiled_frames_are_counted_as_such() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        framehook.graph_break("on purpose")
        return x * 2

    compiled = framehook.compile(broken, backend="eager")
    compiled(torch.ones(2))
    stats = compiled.stats()
    assert (stats.partial, stats.whole) == (1, 1)
    assert "on purpose" in stats.graph_breaks[0]
    assert len(stats.functions) == 1


def test_frames_are_counted_where_they_begin() -> None:
    def inner(x: torch.Tensor, is_broken: bool) -> torch.Tensor:
        x = x + 1
        if is_broken:
            framehook.graph_break("on purpose")
        return x * 2

    def helper(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    def outer(x: torch.Tensor, is_broken: bool) -> torch.Tensor:
        return inner(helper(x), is_broken) + helper(x)

    def raises(x: torch.Tensor) -> torch.Tensor:
        helper(x)
        raise ValueError(x + 1)

    def raises_late(x: torch.Tensor) -> torch.Tensor:
        try:
            raise ValueError(x + 1)
        finally:
            helper(x)

    def frames(fn: Any, *calls: tuple[Any, ...]) -> dict[str, tuple[int, int, int]]:
        compiled = framehook.compile(fn, backend="eager", dynamic=False)
        for args in calls:
            with contextlib.suppress(ValueError):
                compiled(*args)
        return {
            name.partition(" (")[0].rpartition(".")[2]: (
                each.whole_frames,
                each.partial_frames,
                each.eager_frames,
            )
            for name, each in compiled.stats().functions.items()
        }

    x = torch.ones(2)
    assert frames(outer, (x, False), (x, False)) == {
        "outer": (1, 0, 0),
        "inner": (1, 0, 0),
        "helper": (2, 0, 0),
    }
    # What is resumed is counted where it began; the call of `helper` behind the break begins there.
    assert frames(outer, (x, True)) == {"outer": (0, 1, 0), "inner": (0, 1, 0), "helper": (2, 0, 0)}
    assert frames(raises, (x,)) == {"raises": (1, 0, 0), "helper": (1, 0, 0)}
    # The handler runs behind the instruction that raises, in a trace of its own.
    assert frames(raises_late, (x,)) == {"raises_late": (0, 1, 0), "helper": (1, 0, 0)}
    assert frames(lambda x: x, (x,)) == {"<lambda>": (0, 0, 1)}


def test_warmup_calls_run_eagerly_first() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(add, backend=counter, warmup_calls=2)
    for expected in (0, 0, 1, 1):
        compiled(torch.ones(2), torch.ones(2))
        assert counter.frame_count == expected


def test_at_the_limit_compiling_stops_and_entries_stay(caplog: pytest.LogCaptureFixture) -> None:
    counter = CompileCounter()
    compiled = framehook.compile(add, backend=counter, dynamic=False)
    gave_up: list[framehook.events.GiveUp] = []
    off = framehook.events.on("give_up", gave_up.append)
    with caplog.at_level(logging.WARNING, "framehook"):
        for size in range(1, 13):
            a = torch.ones(size)
            assert torch.equal(compiled(a, a.clone()), a + a)
    off()
    assert counter.frame_count == 8
    assert len(compiled.entries()) == 8
    assert len(gave_up) == 1
    assert len([record for record in caplog.records if "compiled no more" in record.message]) == 1
    assert "L['a']" in caplog.text
    hits = compiled.stats().hits
    compiled(torch.ones(1), torch.ones(1))
    assert compiled.stats().hits == hits + 1


def test_an_idle_entry_makes_room() -> None:
    counter = CompileCounter()
    with framehook.config.patch(evict_after=20, max_entries_per_code=2):
        compiled = framehook.compile(add, backend=counter, dynamic=False)
    busy = torch.ones(1), torch.ones(1)
    compiled(torch.ones(2), torch.ones(2))
    for _ in range(30):
        compiled(*busy)
    compiled(torch.ones(3), torch.ones(3))
    assert counter.frame_count == 3
    assert len(compiled.entries()) == 2
    hits = compiled.stats().hits
    compiled(*busy)
    assert compiled.stats().hits == hits + 1


def test_one_handle_has_a_limit_of_its_own() -> None:
    with framehook.config.patch(max_entries_per_handle=2):
        capture = framehook.capture(backend="eager", warmup_calls=0)
    a = torch.ones(2)
    with capture:
        add(a, a.clone())
        matmul(torch.ones(2, 2), torch.ones(2, 2))
        late(a)
    assert len(capture.entries()) == 2


def late(x: torch.Tensor) -> torch.Tensor:
    return x * 5


def test_module_calls_have_limits_per_class() -> None:
    counter = CompileCounter()
    with framehook.config.patch(max_entries_per_code=2):
        capture = framehook.capture(backend=counter, warmup_calls=0, dynamic=False)
    linears = [torch.nn.Linear(n, n) for n in (1, 2, 3)]
    with capture:
        for n, linear in enumerate(linears, 1):
            linear(torch.ones(1, n))
        torch.nn.Tanh()(torch.ones(2))
    assert counter.frame_count >= 3


def test_reset_forgets_entries_and_counts() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(add, backend=counter)
    other = framehook.compile(add, backend="eager")
    a = torch.ones(2)
    compiled(a, a.clone())
    compiled(a, a.clone())
    other(a, a.clone())
    framehook.reset(compiled)
    assert compiled.entries() == []
    assert (compiled.stats().hits, compiled.stats().misses, compiled.stats().compiles) == (0, 0, 0)
    assert len(other.entries()) == 1
    compiled(a, a.clone())
    assert counter.frame_count == 2
    assert compiled.stats().misses == 1
    framehook.reset()
    assert other.entries() == []
    assert framehook.stats().hits == 0


def test_stats_and_reset_of_what_was_not_compiled() -> None:
    for function in (framehook.stats, framehook.reset):
        with pytest.raises(TypeError, match="not compiled"):
            function(add)


def test_an_internal_error_never_reaches_the_user(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise AssertionError("tracer bug")

    monkeypatch.setattr(framehook.engine.trace, "trace_frame", fail)
    compiled = framehook.compile(add, backend="eager")
    with framehook.config.patch(raise_internal_errors=False), caplog.at_level(logging.ERROR, "framehook"):
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(1), torch.ones(1)), torch.full((1,), 2.0))
    assert compiled.stats().internal_errors == 1
    assert len([record for record in caplog.records if "report" in record.message]) == 1
    with pytest.raises(AssertionError, match="tracer bug"):
        framehook.compile(matmul, backend="eager")(torch.ones(1, 1), torch.ones(1, 1))


def test_logs(caplog: pytest.LogCaptureFixture) -> None:
    framehook.set_logs("recompiles, graph,bytecode,guards,compiles")
    try:
        compiled = framehook.compile(add, backend="eager", dynamic=False)
        compiled(torch.ones(2), torch.ones(2))
        compiled(torch.ones(3), torch.ones(3))
    finally:
        framehook.set_logs()
    names = {record.name for record in caplog.records}
    assert {
        f"framehook.{topic}" for topic in ("recompiles", "graph", "bytecode", "guards", "compiles")
    } <= names
    assert "framehook.graph_breaks" not in names
    with pytest.raises(ValueError, match="graph_breaks"):
        framehook.set_logs("no_such_topic")
