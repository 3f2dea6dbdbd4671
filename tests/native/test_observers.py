"""Tracing, profiling and monitoring tools see eager's events; Ctrl-C is never swallowed."""

from __future__ import annotations

import _thread
import collections
import sys
import threading

import pytest

from framehook import _C
from tests.native.capturing import capture, replace


def leaf(x):
    return x + 1


def branch(x):
    total = 0
    for i in range(2):
        total += leaf(x + i)
    try:
        fails(total)
    except ValueError:
        pass
    return list(numbers(total))


def fails(x):
    raise ValueError(x)


def numbers(n):
    yield n
    yield leaf(n)


FUNCTIONS = (leaf, branch, fails, numbers)


def generated(x):
    return "not when somebody looks"


def record_events(install, remove, sees) -> list[object]:
    events: list[object] = []

    def tracer(frame, event, argument):
        if frame.f_code in {fn.__code__ for fn in FUNCTIONS} or not sees:
            events.append((event, frame.f_code.co_name, frame.f_lineno))
        return tracer

    install(tracer)
    try:
        branch(3)
    finally:
        remove(None)
    return events


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile], ids=["trace", "profile"])
def test_trace_and_profile_events_are_eagers(handle, setter):
    expected = record_events(setter, setter, True)
    for fn in FUNCTIONS:
        if fn is not numbers:
            replace(handle, fn, generated)
    previous = sys.gettrace()
    with capture(handle):
        got = record_events(setter, setter, True)
    assert got == expected
    assert expected
    sys.settrace(previous)


def test_entries_run_again_when_nobody_looks(handle):
    replace(handle, leaf, generated)
    compiled = _C.CompiledCallable(handle, leaf)
    replace(handle, fails, generated, is_whole=True)
    compiled_whole = _C.CompiledCallable(handle, fails)
    previous = sys.gettrace()
    sys.settrace(lambda frame, event, argument: None)
    try:
        assert compiled(1) == 2
        with pytest.raises(ValueError):
            compiled_whole(1)
    finally:
        sys.settrace(previous)
    if previous is None:
        assert compiled(1) == compiled_whole(1) == generated(1)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
@pytest.mark.parametrize("local", [False, True])
def test_monitoring_events_are_eagers(handle, local):
    monitoring = sys.monitoring
    tool = monitoring.OPTIMIZER_ID
    kinds = ["PY_START", "PY_RETURN", "PY_RESUME", "PY_YIELD", "LINE"]
    if not local:
        kinds += ["PY_UNWIND", "RAISE"]
    codes = {fn.__code__ for fn in FUNCTIONS}
    chosen = sum(getattr(monitoring.events, kind) for kind in kinds)

    def run():
        events = []

        def callback(kind):
            def record(code, *arguments):
                if code in codes:
                    # The offset of RAISE depends on whether CPython inlined the call, so it is not compared.
                    place = [a for a in arguments if isinstance(a, int)] if kind != "RAISE" else []
                    events.append((kind, code.co_name, *place))

            return record

        monitoring.use_tool_id(tool, "test")
        for kind in kinds:
            monitoring.register_callback(tool, getattr(monitoring.events, kind), callback(kind))
        if local:
            for code in codes:
                monitoring.set_local_events(tool, code, chosen)
        else:
            monitoring.set_events(tool, chosen)
        try:
            branch(3)
        finally:
            monitoring.set_events(tool, 0)
            for code in codes:
                monitoring.set_local_events(tool, code, 0)
            for kind in kinds:
                monitoring.register_callback(tool, getattr(monitoring.events, kind), None)
            monitoring.free_tool_id(tool)
        return events

    expected = run()
    for fn in FUNCTIONS:
        if fn is not numbers:
            replace(handle, fn, generated)
    with capture(handle):
        got = run()
    assert got == expected
    assert expected


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_clearing_a_frame_fires_no_monitoring_event(handle):
    """Events switched on by the generated code itself are on while the hook clears the frame."""
    monitoring = sys.monitoring
    tool = monitoring.OPTIMIZER_ID
    events = []
    monitoring.use_tool_id(tool, "test")
    names = ["PY_START", "PY_RETURN", "LINE", "INSTRUCTION"]
    for name in names:
        monitoring.register_callback(
            tool, getattr(monitoring.events, name), lambda code, *rest: events.append(code.co_name)
        )

    def victim(start):
        return None

    def switched_on(start):
        start()

    def start():
        monitoring.set_events(tool, sum(getattr(monitoring.events, name) for name in names))

    replace(handle, victim, switched_on)
    try:
        with capture(handle):
            victim(start)
            monitoring.set_events(tool, 0)
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    assert "<clear>" not in events
    assert "victim" not in events


def interrupting(mapping):
    # The subscript calls interrupt_main() from C; nothing looks at pending signals before the return.
    return mapping[0]


def interrupted_result(mapping):
    return None


def test_ctrl_c_between_the_result_and_the_clearing_of_the_frame(handle):
    replace(handle, interrupted_result, interrupting)
    reached = []

    def caller():
        interrupted_result(collections.defaultdict(_thread.interrupt_main))
        reached.append("after the call")
        for _ in range(1000):
            pass

    with capture(handle):
        with pytest.raises(KeyboardInterrupt):
            caller()


def test_ctrl_c_that_comes_with_an_exception(handle):
    class Fails(dict):
        pass

    def victim(mapping):
        return None

    def raising(mapping):
        return mapping[0] + ()  # None + () raises while the signal is pending

    replace(handle, victim, raising)

    def caller():
        try:
            victim(collections.defaultdict(_thread.interrupt_main))
        except TypeError:
            for _ in range(1000):
                pass
            raise

    with capture(handle):
        with pytest.raises(KeyboardInterrupt) as caught:
            caller()
    assert isinstance(caught.value.__context__, TypeError)


def test_ctrl_c_in_the_miss_callback(handle):
    def miss(handle, record):
        if record.code is leaf.__code__:
            _thread.interrupt_main()
            for _ in range(1000):
                pass

    _C.set_miss_callback(miss)
    with capture(handle):
        with pytest.raises(KeyboardInterrupt):
            leaf(1)
        assert not _C.is_capture_off()


def test_ctrl_c_while_code_is_classified(handle):
    asked = []

    def classify(code):
        if code is leaf.__code__:
            asked.append(code)
            if len(asked) == 1:
                raise KeyboardInterrupt
        return True

    _C.reset_record(leaf.__code__)
    _C.set_classify_callback(classify)
    with capture(handle):
        with pytest.raises(KeyboardInterrupt):
            leaf(1)
        assert leaf(1) == leaf(1) == 2
    assert len(asked) == 2


def test_ctrl_c_in_a_graph_is_not_taken_for_a_failed_graph(handle):
    def interrupted(inputs):
        raise KeyboardInterrupt

    graph = _C.GraphCallable(interrupted, True, False, "graph")
    scope = {"graph": graph}
    exec("def generated(x): return graph([x])", scope)
    victim = type(leaf)(leaf.__code__.replace(), scope)
    replace(handle, victim, scope["generated"], is_whole=True)
    with pytest.raises(KeyboardInterrupt):
        _C.CompiledCallable(handle, victim)(1)


def test_tracing_on_another_thread_does_not_matter_here(handle):
    if sys.version_info >= (3, 12):
        pytest.skip("since 3.12 tracing is switched on in the interpreter, so all threads run eagerly")
    replace(handle, leaf, generated)
    results = []

    def traced():
        sys.settrace(lambda *arguments: None)
        with capture(handle):
            results.append(leaf(1))
        ready.set()
        go.wait()

    ready, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=traced)
    thread.start()
    ready.wait()
    try:
        with capture(handle):
            results.append(leaf(1))
    finally:
        go.set()
        thread.join()
    assert results == [2, generated(1)] or sys.gettrace() is not None
