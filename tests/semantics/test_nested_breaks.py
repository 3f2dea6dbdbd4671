"""Breaks inside inlined functions: one graph for all before them, one for all behind, and frames as eager has them."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.errors import GraphBreakError
from framehook.testing import CompileCounter
from tests.semantics.nested_break_programs import PROGRAMS
from tests.semantics.program_outcomes import check_program


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_program(*PROGRAMS[name], capsys)


def _depth() -> int:
    frame: Any = sys._getframe(1)
    count = 0
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count


def test_ten_thousand_breaks_in_a_callee_do_not_deepen_the_stack() -> None:
    depths: set[int] = set()

    @framehook.disable
    def note() -> None:
        depths.add(_depth())

    def inner(x: Tensor, n: int) -> Tensor:
        i = 0
        while i < n:
            x = x + 1
            note()
            i += 1
        return x

    def middle(x: Tensor, n: int) -> Tensor:
        return inner(x, n) * 2

    def fn(x: Tensor, n: int) -> Tensor:
        return middle(x, n) - 1

    compiled = framehook.compile(fn, backend="eager")
    result = compiled(torch.zeros(2), 10_000)
    assert torch.equal(result, torch.full((2,), 19_999.0))
    assert len(depths) == 1


def test_ten_thousand_calls_that_break_do_not_deepen_the_stack() -> None:
    depths: set[int] = set()

    @framehook.disable
    def note() -> None:
        depths.add(_depth())

    def inner(x: Tensor) -> Tensor:
        x = x + 1
        note()
        return x * 1

    def fn(x: Tensor, n: int) -> Tensor:
        i = 0
        while i < n:
            x = inner(x)
            i += 1
        return x

    compiled = framehook.compile(fn, backend="eager")
    result = compiled(torch.zeros(2), 10_000)
    assert torch.equal(result, torch.full((2,), 10_000.0))
    assert len(depths) == 1


def test_every_piece_is_found_again() -> None:
    def inner(x: Tensor) -> Tensor:
        x = x + 1
        framehook.graph_break()
        return x * 2

    def fn(x: Tensor) -> Tensor:
        return inner(x) + inner(x - 1)

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    compiled(torch.ones(2))
    assert counter.frame_count == 3
    before = compiled.handle.counters()
    compiled(torch.ones(2))
    after = compiled.handle.counters()
    assert counter.frame_count == 3
    assert after["hits"] - before["hits"] == 3
    assert after["misses"] == before["misses"]
    assert after["eager_frames"] == before["eager_frames"]


def test_the_reason_names_the_innermost_line_and_the_calls() -> None:
    def inner(x: Tensor) -> Tensor:
        framehook.graph_break("because")
        return x

    def middle(x: Tensor) -> Tensor:
        return inner(x + 1)

    def fn(x: Tensor) -> Tensor:
        return middle(x) + 1

    seen: list[Any] = []
    stop = framehook.events.on("graph_break", seen.append)
    try:
        framehook.compile(fn, backend="eager")(torch.ones(2))
    finally:
        stop()
    assert len(seen) == 1
    assert "because" in seen[0].reason
    assert [place.function.split(".")[-1] for place in seen[0].stack] == ["fn", "middle", "inner"]
    assert seen[0].stack[-1][1] == inner.__code__.co_firstlineno + 1


def test_guards_of_all_frames_are_checked_behind_a_break() -> None:
    scale = 2

    def inner(x: Tensor) -> Tensor:
        x = x + 1
        framehook.graph_break()
        return x * scale

    def fn(x: Tensor, items: list[int]) -> Tensor:
        return inner(x) + len(items)

    compiled = framehook.compile(fn, backend="eager")
    for scale in (2, 3, 2):  # noqa: B020
        for items in ([1], [1, 2]):
            x = torch.ones(2)
            assert torch.equal(compiled(x, items), fn(x, items))
            assert torch.equal(compiled(x.double(), items), fn(x.double(), items))


def test_functions_of_two_modules_keep_their_globals() -> None:
    first: dict[str, Any] = {"brk": framehook.graph_break, "N": 1}
    second: dict[str, Any] = {"N": 10, "__builtins__": __builtins__}
    exec(
        "def inner(x):\n    global N\n    x = x + N\n    N += 1\n    brk()\n    N += 1\n    return x * N",
        first,
    )
    second["inner"] = first["inner"]
    exec("def fn(x):\n    global N\n    N += 1\n    y = inner(x) * N\n    N += 1\n    return y * N", second)
    fn = second["fn"]

    def outcome(call: Any) -> Any:
        first["N"], second["N"] = 1, 10
        return call(torch.ones(2)).tolist(), first["N"], second["N"]

    compiled = framehook.compile(fn, backend="eager")
    expected = outcome(fn)
    assert [outcome(compiled) for _ in range(3)] == [expected] * 3


def test_closures_of_one_code_keep_their_own_cells() -> None:
    def make(scale: int) -> Any:
        def inner(x: Tensor) -> Tensor:
            nonlocal scale
            x = x + scale
            framehook.graph_break()
            scale += 1
            return x * scale

        return inner

    def fn(x: Tensor, inner: Any) -> Tensor:
        return inner(x) + 1

    compiled = framehook.compile(fn, backend="eager")
    for scale in (1, 2, 5):
        mine, theirs = make(scale), make(scale)
        for _ in range(3):
            x = torch.ones(2)
            assert torch.equal(compiled(x, mine), fn(x, theirs))


def test_deep_recursion_with_breaks_ends_as_eager_does() -> None:
    def down(x: Tensor, n: int) -> Tensor:
        if n == 0:
            return x
        framehook.graph_break()
        return down(x + 1, n - 1)

    compiled = framehook.compile(down, backend="eager")
    assert torch.equal(compiled(torch.zeros(1), 300), torch.full((1,), 300.0))
    with pytest.raises(RecursionError):
        compiled(torch.zeros(1), 100_000)


def test_an_interrupt_in_the_callee_passes_the_blocks_of_its_callers() -> None:
    log: list[str] = []

    def interrupted(flag: bool) -> None:
        if flag:
            raise KeyboardInterrupt

    stop = framehook.disable(interrupted)

    def inner(x: Tensor, flag: bool) -> Tensor:
        x = x + 1
        try:
            stop(flag)
        finally:
            log.append("inner")
        return x

    def fn(x: Tensor, flag: bool) -> Tensor:
        try:
            return inner(x, flag) * 2
        except BaseException as error:
            log.append(type(error).__name__)
            raise

    compiled = framehook.compile(fn, backend="eager")
    for flag in (False, True, True):
        log.clear()
        if flag:
            with pytest.raises(KeyboardInterrupt):
                compiled(torch.ones(2), flag)
            assert log == ["inner", "KeyboardInterrupt"]
        else:
            assert torch.equal(compiled(torch.ones(2), flag), torch.full((2,), 4.0))
            assert log == ["inner"]


def test_a_traced_program_sees_the_same_lines_when_it_is_observed() -> None:
    def inner(x: Tensor) -> Tensor:
        x = x + 1
        framehook.graph_break()
        return x * 2

    def fn(x: Tensor) -> Tensor:
        return inner(x) + 1

    def lines(call: Any) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        def trace(frame: Any, event: str, arg: Any) -> Any:
            if frame.f_code.co_filename != __file__:
                return None
            if event == "line":
                seen.append((frame.f_code.co_name, frame.f_lineno))
            return trace

        sys.settrace(trace)
        try:
            call(torch.ones(2))
        finally:
            sys.settrace(None)
        return seen

    compiled = framehook.compile(fn, backend="eager")
    compiled(torch.ones(2))
    assert lines(compiled) == lines(fn)


def test_fullgraph_names_the_calls() -> None:
    def inner(x: Tensor) -> Tensor:
        print("no")
        return x

    def fn(x: Tensor) -> Tensor:
        return inner(x + 1)

    with pytest.raises(GraphBreakError) as caught:
        framehook.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert [place.function.split(".")[-1] for place in caught.value.stack] == ["fn", "inner"]


def test_a_callee_of_nothing_but_breaks_is_called_natively() -> None:
    def setup(log: list[int]) -> None:
        for i in range(40):
            framehook.graph_break()
            log.append(i)

    def fn(x: Tensor, log: list[int]) -> Tensor:
        setup(log)
        y = x + 1
        framehook.graph_break()
        return y * 2

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for _ in range(3):
        log: list[int] = []
        assert torch.equal(compiled(torch.ones(2), log), torch.full((2,), 4.0))
        assert log == list(range(40))
    frames = counter.frame_count
    assert frames >= 2
    compiled(torch.ones(2), [])
    assert counter.frame_count == frames


def test_a_break_without_operations_before_it_makes_no_graph() -> None:
    def inner(x: Tensor) -> Tensor:
        framehook.graph_break()
        return x + 1

    def fn(x: Tensor) -> Tensor:
        framehook.graph_break()
        return inner(x) * 2

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert counter.frame_count == 1
    assert counter.op_count == 2


def test_guards_on_frames_below_are_said_in_words() -> None:
    def inner(x: Tensor, scale: int) -> Tensor:
        x = x + 1
        framehook.graph_break()
        return x * scale

    def fn(x: Tensor, scale: int) -> Tensor:
        return inner(x, scale) - 1

    seen: list[Any] = []
    stop = framehook.events.on("recompile", seen.append)
    try:
        compiled = framehook.compile(fn, backend="eager", dynamic=False)
        compiled(torch.ones(2), 2)
        compiled(torch.ones(2), 3)
    finally:
        stop()
    assert any("L['scale', 1 call below]: expected 2, got 3" in str(event.reasons) for event in seen)


def test_a_loop_over_modules_is_not_broken_twice() -> None:
    class Layer(torch.nn.Module):
        def __init__(self, breaks: bool) -> None:
            super().__init__()
            self.breaks = breaks

        def forward(self, x: Tensor) -> Tensor:
            x = x + 1
            if self.breaks:
                framehook.graph_break()
            return x * 2

    for place in range(4):
        model = torch.nn.Sequential(*[Layer(i == place) for i in range(4)])
        counter = CompileCounter()
        compiled = framehook.compile(model, backend=counter)
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2)), model(torch.ones(2)))
        assert counter.frame_count == 2


def test_threads_break_inside_the_same_functions() -> None:
    def inner(x: Tensor, k: int) -> Tensor:
        x = x + k
        framehook.graph_break()
        return x * k

    def fn(x: Tensor, k: int) -> Tensor:
        for i in range(3):
            x = inner(x, k) + i
        return x

    compiled = framehook.compile(fn, backend="eager")
    wrong: list[Any] = []

    def work(k: int) -> None:
        for _ in range(30):
            got, expected = compiled(torch.ones(3), k), fn(torch.ones(3), k)
            if not torch.equal(got, expected):
                wrong.append((k, got, expected))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
