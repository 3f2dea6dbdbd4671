"""`stats()` for people: times, speedup, why nothing was compiled, tables."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import pytest
import torch

import framehook
from framehook.observe.counters import FunctionStats
from tests.observe import programs


def slow(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@pytest.mark.parametrize(
    ("hits", "run", "eager", "seconds", "speedup", "even"),
    [
        (99, 1.0, 2.0, {"trace": 10.0}, 200 / 110, 10),
        (99, 1.0, 2.0, {"trace": 10.0, "imports": 50.0}, 200 / 110, 10),
        (99, 2.0, 1.0, {"trace": 10.0}, 100 / 210, None),
        (0, 1.0, 2.0, {}, None, 0),
        (9, 1.0, None, {"trace": 1.0}, None, None),
    ],
)
def test_speedup_and_break_even(
    hits: int,
    run: float,
    eager: float | None,
    seconds: dict[str, float],
    speedup: float | None,
    even: int | None,
) -> None:
    stats = FunctionStats(hits=hits, compiles=1, seconds=seconds, timed_hits=2, hit_seconds=2 * run)
    if eager is not None:
        stats.timed_eager, stats.eager_seconds = 3, 3 * eager
    assert stats.speedup == (None if speedup is None else pytest.approx(speedup))
    assert stats.break_even == even


def test_warm_up_calls_and_hits_are_timed() -> None:
    compiled = framehook.compile(programs.double, backend="eager", warmup_calls=3)
    for _ in range(20):
        compiled(torch.ones(2))
    [stats] = compiled.stats().functions.values()
    assert (stats.timed_eager, stats.hits) == (3, 16)
    assert 1 <= stats.timed_hits <= 16
    assert 0 < stats.run_time < 1  # type: ignore[operator]
    assert stats.speedup is not None
    compiled.reset()
    assert compiled.stats().timed_hits == compiled.stats().timed_eager == 0


def test_pieces_count_within_the_frame_that_they_end() -> None:
    compiled = framehook.compile(programs.broken, backend="eager")
    for _ in range(20):
        compiled(torch.ones(2))
    [stats] = compiled.stats().functions.values()
    assert stats.hits == 38
    assert 1 <= stats.timed_hits <= 19


def test_eager_time_on_request() -> None:
    compiled = framehook.compile(programs.double, backend="eager")
    for _ in range(5):
        compiled(torch.ones(2))
    assert compiled.stats().speedup is None
    start = time.perf_counter()
    seconds = framehook.time_eager(compiled, calls=3)(torch.ones(2))
    assert 0 < seconds < time.perf_counter() - start
    stats = compiled.stats()
    assert stats.hits == 4
    assert stats.eager_time == pytest.approx(seconds)
    assert stats.speedup is not None
    model = framehook.compile(programs.model(), backend="eager")
    for _ in range(3):
        model(torch.ones(1, 4))
    framehook.time_eager(model)(torch.ones(1, 4))
    assert framehook.stats(model).speedup is not None
    with pytest.raises(TypeError, match="not compiled"):
        framehook.time_eager(programs.double)


def test_the_first_run_is_a_phase_of_its_own() -> None:
    def run_slowly(gm: Any, inputs: Any) -> Any:
        state = {"is_first": True}

        def run(*args: Any) -> Any:
            if state.pop("is_first", False):
                time.sleep(0.02)
            return gm(*args)

        return run

    compiled = framehook.compile(programs.double, backend=run_slowly)
    for _ in range(3):
        compiled(torch.ones(2))
    seconds = compiled.stats().seconds
    assert 0.02 <= seconds["first_run"] < 1
    assert {"trace", "backend", "codegen", "guards"} <= set(seconds)


def test_a_failing_listener_of_the_first_run_breaks_no_call() -> None:
    def fail(record: framehook.events.Event) -> None:
        raise RuntimeError("no")

    off = framehook.events.on("first_run", fail)
    result = framehook.compile(programs.double, backend="eager")(torch.ones(2))
    off()
    assert torch.equal(result, torch.full((2,), 2.0))


def under(stance: str) -> Any:
    def act(compiled: Any) -> None:
        with framehook.stance(stance):
            compiled(torch.ones(2))

    return act


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, fn: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return fn(*args, **(kwargs or {}))


def in_a_mode(compiled: Any) -> None:
    with Mode():
        compiled(torch.ones(2))


#: what is compiled, options, what is done, what is said
NOTHING: list[tuple[str, Any, dict[str, Any], Any, str]] = [
    ("never called", programs.double, {}, lambda compiled: None, "was not called yet"),
    ("warming up", programs.double, {"warmup_calls": 2}, lambda compiled: compiled(torch.ones(2)), "call 1 of 2"),
    ("no operations", programs.small, {}, lambda compiled: compiled(1), "0 operations (min_graph_ops is 1)"),
    ("few operations", programs.double, {"min_graph_ops": 5}, lambda compiled: compiled(torch.ones(2)),
     "1 operation (min_graph_ops is 5)"),
    ("a generator", programs.generator, {}, lambda compiled: list(compiled(torch.ones(2))), "it is a generator"),
    ("a builtin", len, {}, lambda compiled: compiled([1]), "C code"),
    ("eager stance", programs.double, {}, under("eager_on_recompile"), "the stance is eager_on_recompile"),
    ("a mode", programs.double, {}, in_a_mode, "mode"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "options", "act", "said"), [case[1:] for case in NOTHING], ids=[c[0] for c in NOTHING]
)
def test_it_never_says_nothing(fn: Any, options: dict[str, Any], act: Any, said: str) -> None:
    compiled = framehook.compile(fn, backend="eager", **options)
    act(compiled)
    stats = compiled.stats()
    assert said in stats.nothing
    assert f"nothing was compiled: {stats.nothing[:40]}" in str(stats)
    assert stats.to_dict()["nothing"] == stats.nothing


def test_a_skipped_frame_is_listed_and_tried_again_after_reset() -> None:
    compiled = framehook.compile(programs.small, backend="eager")
    traces: list[object] = []
    off = framehook.events.on("compile_start", traces.append)
    for _ in range(3):
        compiled(1)
    [(name, each)] = compiled.stats().functions.items()
    assert "small" in name
    assert each.eager_reasons == ["0 operations (min_graph_ops is 1)"]
    compiled.reset()
    compiled(1)
    off()
    assert len(traces) == 2


def test_the_table_has_functions_by_cost_and_reasons_below() -> None:
    with framehook.capture(backend="eager", warmup_calls=0, dynamic=False) as capture:
        for size in range(1, 9):
            programs.double(torch.ones(size))
        programs.broken(torch.ones(2))
    text = str(capture.stats())
    lines = text.splitlines()
    assert any(line.startswith("double (programs.py:") for line in lines)
    assert "recompiled: and" in text
    assert "graph break: on purpose" in text
    assert "\x1b[" not in text
    assert max(map(len, lines)) < 250


def test_showing_draws_no_random_number(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = framehook.compile(torch.sin, backend="eager")
    compiled(torch.ones(2))
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)  # some of the numbers are drawn at the first import
    before = random.getstate()
    assert "hits" in str(framehook.stats())
    assert random.getstate() == before
