"""With tracing, profiling and monitoring tools at work users see events of their own frames, as eager has them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook import graph_break
from framehook.testing import assert_same, snapshot

Events = list[tuple[Any, ...]]


def scaled(x: Tensor, by: int) -> Tensor:
    if by == 2:
        graph_break()
    return x * by


def rows(x: Tensor) -> Iterator[Tensor]:
    for row in x:
        yield row + 1


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    notes.append("in")
    try:
        yield
    finally:
        notes.append("out")


def fails(x: Tensor) -> Tensor:
    raise ValueError(tuple(x.shape))


def whole(x: Tensor) -> Any:
    y = scaled(x, 3)
    return y.sum() + sum(row.sum() for row in rows(x))


def broken(x: Tensor) -> Any:
    notes: list[str] = []
    y = x + 1
    graph_break()
    with noted(notes):
        y = scaled(y, 2)
        z = [scaled(row, by) for by, row in enumerate(y, 1)]
    try:
        fails(y)
    except ValueError as error:
        notes.append(str(error))
        graph_break()
    for row in rows(y):
        graph_break()
        z.append(row * 2)
    return z, notes, y.sum()


def leaves(x: Tensor) -> Any:
    y = x * 2
    graph_break()
    return fails(y)


def switching(x: Tensor, on: Callable[[], None], off: Callable[[], None]) -> Any:
    y = scaled(x, 3)
    on()
    y = y + 1
    graph_break()
    z = scaled(y, 2)
    off()
    graph_break()
    return z.sum() + scaled(x, 4)


PROGRAMS = (whole, broken, leaves)


def outcome(fn: Callable[[Tensor], Any]) -> Any:
    x = torch.arange(6.0).reshape(2, 3)
    try:
        return snapshot(fn(x))
    except ValueError as error:
        return repr(error)


def is_ours(code: Any) -> bool:
    return code.co_filename == __file__ and code.co_name not in ("outcome", "record_events", "<lambda>")


def set_trace(events: Events) -> Callable[[], None]:
    def tracer(frame: Any, event: str, argument: Any) -> Any:
        if not is_ours(frame.f_code):
            return None
        events.append((event, frame.f_code.co_qualname, frame.f_lineno))
        return tracer

    previous = sys.gettrace()
    sys.settrace(tracer)
    return lambda: sys.settrace(previous)


def set_profile(events: Events) -> Callable[[], None]:
    def profiler(frame: Any, event: str, argument: Any) -> None:
        # Everything, whoever's frames they are: none of framehook's are among them.
        events.append((event, frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno))

    previous = sys.getprofile()
    sys.setprofile(profiler)
    return lambda: sys.setprofile(previous)


def monitor(codes: tuple[Any, ...] = ()) -> Callable[[Events], Callable[[], None]]:
    """Monitor everything, or these code objects only."""

    def install(events: Events) -> Callable[[], None]:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        tool = monitoring.OPTIMIZER_ID
        names = ["PY_START", "PY_RETURN", "PY_RESUME", "PY_YIELD", "LINE", "CALL", "JUMP"]
        if not codes:
            names += ["PY_UNWIND", "RAISE", "EXCEPTION_HANDLED"]
        monitoring.use_tool_id(tool, "test")
        for name in names:

            def callback(code: Any, *arguments: Any, name: str = name) -> None:
                if is_ours(code):
                    # The rest is offsets and objects. (RAISE's offset depends on whether CPython inlines the call.)
                    line = arguments[0] if name == "LINE" else None
                    events.append((name, code.co_qualname, line))

            monitoring.register_callback(tool, getattr(monitoring.events, name), callback)
        chosen = sum(getattr(monitoring.events, name) for name in names)
        if codes:
            for code in codes:
                monitoring.set_local_events(tool, code, chosen)
        else:
            monitoring.set_events(tool, chosen)

        def remove() -> None:
            monitoring.set_events(tool, 0)
            for code in codes:
                monitoring.set_local_events(tool, code, 0)
            for name in names:
                monitoring.register_callback(tool, getattr(monitoring.events, name), None)
            monitoring.free_tool_id(tool)

        return remove

    return install


TOOLS: dict[str, Callable[[Events], Callable[[], None]]] = {"trace": set_trace, "profile": set_profile}
if sys.version_info >= (3, 12):
    TOOLS["monitoring"] = monitor()
    TOOLS["monitoring-outer"] = monitor((*(fn.__code__ for fn in PROGRAMS), switching.__code__))


def record_events(tool: Callable[[Events], Callable[[], None]], fn: Any) -> tuple[Events, Any]:
    events: Events = []
    gc.collect()
    gc.disable()  # callbacks of weak references would be events too
    remove = tool(events)
    try:
        result = outcome(fn)
    finally:
        remove()
        gc.enable()
    return events, result


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("fn", PROGRAMS)
def test_events_are_eagers(fn: Any, tool: str, is_warm: bool) -> None:
    """Whether or not the function has been compiled before the tool began to look."""
    compiled = framehook.compile(fn, backend="eager")
    if is_warm:
        outcome(compiled)
        outcome(compiled)
    expected_events, expected = record_events(TOOLS[tool], fn)
    events, result = record_events(TOOLS[tool], compiled)
    assert_same(result, expected)
    assert events == expected_events
    assert events
    # Afterwards the function is compiled, or served from its entries again.
    before = framehook.stats(compiled).compiles
    for _ in range(2):
        assert_same(outcome(compiled), expected)
    assert (framehook.stats(compiled).compiles == before) is is_warm


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
@pytest.mark.parametrize("fn", PROGRAMS)
def test_a_tool_that_monitors_inner_functions_only(fn: Any) -> None:
    """Calls that are part of a graph have no frame, and so no events; the others have their own."""
    tool = monitor((scaled.__code__, fails.__code__, rows.__code__))
    compiled = framehook.compile(fn, backend="eager")
    expected_events, expected = record_events(tool, fn)
    for _ in range(3):
        events, result = record_events(tool, compiled)
        assert_same(result, expected)
        rest = iter(expected_events)
        assert all(event in rest for event in events)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_the_function_switches_on_and_off(tool: str) -> None:
    """Frames that begin afterwards are seen as in eager."""

    def run(fn: Any) -> tuple[Events, Any]:
        events: Events = []
        removers: list[Callable[[], None]] = []

        def on() -> None:
            removers.append(TOOLS[tool](events))

        def off() -> None:
            removers.pop()()

        x = torch.arange(6.0).reshape(2, 3)
        result = snapshot(fn(x, on, off))
        return [event for event in events if "scaled" in event], result

    compiled = framehook.compile(switching, backend="eager")
    expected_events, expected = run(switching)
    for _ in range(3):
        events, result = run(compiled)
        assert_same(result, expected)
        assert events == expected_events
