"""What is compiled, and when not: warm-up calls, θ, limits, churn, stances."""

from __future__ import annotations

import contextvars
import logging
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook
from framehook.errors import RecompileError, RecompileLimitError
from framehook.testing import CompileCounter


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def sized(*sizes: int) -> list[torch.Tensor]:
    return [torch.ones(size) for size in sizes]


def compiles(calls: list[torch.Tensor], fn: Callable[..., Any] = double, **options: Any) -> list[int]:
    """How many graphs there are after each call."""
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter, dynamic=False, **options)
    found = []
    for x in calls:
        assert torch.equal(compiled(x), fn(x))
        found.append(counter.frame_count)
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"warmup_calls": 1}, [0, 1, 1, 1]),
        ({"warmup_calls": 3}, [0, 0, 0, 1]),
        ({"min_graph_ops": 1}, [1, 1, 1, 1]),
        ({"min_graph_ops": 2}, [0, 0, 0, 0]),
        ({"warmup_calls": 2, "min_graph_ops": 2}, [0, 0, 0, 0]),
    ],
)
def test_warmup_calls_and_theta_per_call(options: dict[str, int], expected: list[int]) -> None:
    assert compiles(sized(3, 3, 3, 3), **options) == expected


def test_theta_of_capture_and_its_reason() -> None:
    counter = CompileCounter()
    with framehook.capture(backend=counter, warmup_calls=0, min_graph_ops=2) as capture:
        double(torch.ones(2))
    assert counter.frame_count == 0
    assert capture.stats().eager_frames == 1
    assert capture.stats().eager_reasons == ["1 operation (min_graph_ops is 2)"]


@pytest.mark.parametrize("value", [-1, "two", 1.5])
def test_theta_of_the_wrong_kind_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="min_graph_ops"):
        framehook.compile(double, backend="eager", min_graph_ops=value)  # type: ignore[call-overload]


def test_the_warning_at_the_limit_names_guard_values_and_cure(caplog: pytest.LogCaptureFixture) -> None:
    with framehook.config.patch(max_entries_per_code=3), caplog.at_level(logging.WARNING, "framehook"):
        assert compiles(sized(2, 3, 4, 5, 6)) == [1, 2, 3, 3, 3]
    [record] = caplog.records
    for text in ("double", "3 entries", "size of L['x'] at dim 0", "seen 2, 3, 4, 5", "mark_dynamic"):
        assert text in record.getMessage()


def test_fullgraph_raises_at_the_limit_each_time() -> None:
    with framehook.config.patch(max_entries_per_code=2):
        compiled = framehook.compile(double, backend="eager", dynamic=False, fullgraph=True)
    for x in sized(2, 3):
        compiled(x)
    for x in sized(4, 5):
        with pytest.raises(RecompileLimitError, match="max_entries_per_code") as caught:
            compiled(x)
    assert caught.value.function == "double"
    assert caught.value.guard == "size of L['x'] at dim 0, seen 2, 3, 4, 5"
    assert "mark_dynamic" in caught.value.cure
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


class Box:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def test_churn_pauses_retries_and_doubles(caplog: pytest.LogCaptureFixture) -> None:
    counter = CompileCounter()
    paused: list[framehook.events.GiveUp] = []
    off = framehook.events.on("give_up", paused.append)
    with framehook.config.patch(
        churn_window=8, min_hit_rate=0.5, retry_after_calls=20, evict_after=0, max_entries_per_code=2
    ):
        compiled = framehook.compile(double, backend=counter, dynamic=False)
    counts = []
    with caplog.at_level(logging.WARNING, "framehook"):
        for size in range(1, 90):
            x = torch.ones(size)
            assert torch.equal(compiled(x), x * 2)
            counts.append(counter.frame_count)
    off()
    # Compiled 4 times, then eager for 20 calls; 4 times, eager for 40; 4 times.
    assert [counts.index(n) for n in range(1, 13)] == [0, 1, 2, 3, 24, 25, 26, 27, 68, 69, 70, 71]
    assert [each.retry_after for each in paused] == [20, 40, 80]
    assert len(caplog.records) == 1
    assert "min_hit_rate" in caplog.text
    assert len(compiled.stats().gave_up) == 3
    assert "tried again after 20 calls" in compiled.stats().gave_up[0]
    assert "gave up" in str(compiled.stats())
    # Entries that are there still serve.
    hits = compiled.stats().hits
    compiled(torch.ones(72))
    assert compiled.stats().hits == hits + 1


def test_code_that_is_used_does_not_churn() -> None:
    with framehook.config.patch(churn_window=4, min_hit_rate=0.5, retry_after_calls=1000):
        assert compiles(sized(*[size for size in range(1, 9) for _ in range(2)]))[-1] == 8


def test_entries_that_die_are_churn() -> None:
    made: list[Box] = []

    def run(box: Box) -> torch.Tensor:
        return box.x + (1 if box is made[-1] else 2)

    counter = CompileCounter()
    with framehook.config.patch(churn_window=8, retry_after_calls=1000):
        compiled = framehook.compile(run, backend=counter)
    for _ in range(40):
        made[:] = [Box(torch.ones(2))]
        assert torch.equal(compiled(made[0]), torch.full((2,), 2.0))
    assert counter.frame_count <= 8


def test_after_good_use_the_pause_starts_short_again() -> None:
    paused: list[framehook.events.GiveUp] = []
    off = framehook.events.on("give_up", paused.append)
    with framehook.config.patch(
        churn_window=4, min_hit_rate=0.5, retry_after_calls=5, evict_after=0, max_entries_per_code=1
    ):
        compiled = framehook.compile(double, backend="eager", dynamic=False)
    size = 0
    while len(paused) < 2:
        size += 1
        compiled(torch.ones(size))
    for _ in range(50):
        compiled(torch.ones(size + 100))
    compiled(torch.ones(1))
    while len(paused) < 3:
        size += 1
        compiled(torch.ones(size))
    off()
    assert [each.retry_after for each in paused] == [5, 10, 5]


# -- stances ---------------------------------------------------------------------------------------------------


def counts_under(stance: str, calls: list[torch.Tensor], **options: Any) -> tuple[int, int]:
    """Graphs and hits of calls under a stance, of a function that was compiled for size 2 before."""
    counter = CompileCounter()
    compiled = framehook.compile(double, backend=counter, dynamic=False, **options)
    compiled(torch.ones(2))
    with framehook.stance(stance):
        for x in calls:
            assert torch.equal(compiled(x), double(x))
    return counter.frame_count, compiled.stats().hits


@pytest.mark.parametrize(
    ("stance", "expected"),
    [
        ("default", (2, 3)),
        ("force_eager", (1, 0)),
        ("eager_on_recompile", (1, 2)),
        ("eager_then_compile", (2, 3)),
    ],
)
def test_stances_of_a_block(stance: str, expected: tuple[int, int]) -> None:
    assert counts_under(stance, sized(2, 3, 2, 3)) == expected


def test_fail_on_recompile_names_the_guard_and_lets_entries_serve() -> None:
    compiled = framehook.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    with framehook.stance("fail_on_recompile"):
        compiled(torch.ones(2))
        with pytest.raises(RecompileError, match=r"expected 2, got 3") as caught:
            compiled(torch.ones(3))
        with pytest.raises(RecompileError, match="not been compiled before"):
            framehook.compile(double, backend="eager")(torch.ones(3))
    assert isinstance(caught.value, RuntimeError)
    assert len(caught.value.reasons) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    compiled(torch.ones(3))
    assert compiled.stats().compiles == 2


def test_eager_then_compile_runs_the_first_call_eagerly() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(double, backend=counter)
    with framehook.stance("eager_then_compile"):
        counts = [(compiled(torch.ones(2)), counter.frame_count)[1] for _ in range(3)]
    assert counts == [0, 1, 1]


def test_force_eager_inside_of_a_capture() -> None:
    counter = CompileCounter()
    with framehook.capture(backend=counter, warmup_calls=0):
        with framehook.stance("force_eager"):
            double(torch.ones(2))
            with framehook.stance("default"):
                double(torch.ones(2))
                assert counter.frame_count == 1
            double(torch.ones(3))
        assert counter.frame_count == 1


def test_the_stance_of_the_process_and_of_other_threads() -> None:
    compiled = framehook.compile(double, backend="eager", dynamic=False)
    outcomes: list[str] = []

    def call(size: int) -> None:
        try:
            compiled(torch.ones(size))
        except RecompileError:
            outcomes.append("refused")
        else:
            outcomes.append("compiled")

    def in_thread(size: int) -> None:
        thread = threading.Thread(target=call, args=(size,))
        thread.start()
        thread.join()

    try:
        with framehook.stance("fail_on_recompile"):
            call(2)
            in_thread(3)  # a block is of its context alone
        framehook.stance("fail_on_recompile")
        assert framehook.config.stance == "fail_on_recompile"
        call(4)
        in_thread(5)
        with framehook.stance("default"):
            call(6)
    finally:
        framehook.stance("default")
    call(7)
    assert outcomes == ["refused", "compiled", "refused", "refused", "compiled", "compiled"]


def test_a_stance_as_decorator_and_in_a_copied_context() -> None:
    compiled = framehook.compile(double, backend="eager")

    @framehook.stance("force_eager")
    def serve(x: torch.Tensor) -> torch.Tensor:
        return compiled(x)

    assert framehook.config.stance == "default"
    serve(torch.ones(2))
    assert compiled.stats().misses == 0
    with framehook.stance("force_eager"):
        copied = contextvars.copy_context()
        compiled(torch.ones(2))
    # The block has ended, also where its context goes on.
    copied.run(compiled, torch.ones(2))
    assert compiled.stats().misses == 1


@pytest.mark.parametrize("name", ["eager", "", "default "])
def test_unknown_stances_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="eager_on_recompile"):
        framehook.stance(name)
    with pytest.raises(ValueError, match="eager_on_recompile"):
        framehook.config.stance = name
    with pytest.raises(TypeError, match="callables"):
        framehook.stance("default")(3)  # type: ignore[type-var]


# -- what made it compile again --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "subject", "cure"),
    [
        ([(torch.ones(n),) for n in (2, 3, 4)], "size of L['x'] at dim 0", "mark_dynamic"),
        ([(torch.ones(2, dtype=t),) for t in (torch.float32, torch.float64, torch.int32)], "dtype of L['x']", "dtype"),
        ([(torch.ones(2), lambda v: v) for _ in range(3)], "", ""),
        ([(torch.ones(2), m) for m in ("a", "b", "c")], "L['m']", "functools.partial"),
        ([(torch.ones(2), [1] * n) for n in (1, 2, 3)], "length of L['m']", "one length"),
    ],
)  # fmt: skip
def test_recompile_events_name_cause_and_cure(calls: list[tuple[Any, ...]], subject: str, cure: str) -> None:
    def run(x: torch.Tensor, m: object = None) -> torch.Tensor:
        if isinstance(m, str):
            return x + 1 if m == "a" else x + 2 if m == "b" else x + 3
        if isinstance(m, list):
            return x + len(m)
        return x + 1

    seen: list[framehook.events.Recompile] = []
    off = framehook.events.on("recompile", seen.append)
    compiled = framehook.compile(run, backend="eager", dynamic=False)
    for args in calls:
        compiled(*args)
    off()
    if not subject:
        assert seen == []
        return
    assert [each.subject for each in seen] == [subject] * 2
    assert [each.count for each in seen] == [1, 2]
    assert cure in seen[-1].cure
    assert len(seen[-1].seen) == 3 or subject.startswith("length")
