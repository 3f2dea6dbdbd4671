"""Where capture is on: contexts, tasks, threads, other users of the evaluation function, shutdown."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import gc
import shutil
import subprocess
import sysconfig
import threading

import pytest

from framehook import _C
from tests.native.capturing import capture, replace, run_script


def fn(x):
    return ("eager", x)


@pytest.fixture
def captured(handle):
    replace(handle, fn, lambda x: "captured")
    return handle


def test_hook_is_there_only_while_capture_is_on(handle):
    assert not _C.is_hook_installed()
    first, second = _C.enter_capture(handle), _C.enter_capture(handle)
    assert _C.is_hook_installed()
    _C.exit_capture(second)
    assert _C.is_hook_installed()
    assert _C.active_handle() is handle
    _C.exit_capture(first)
    _C.exit_capture(first)
    assert not _C.is_hook_installed()
    assert _C.active_handle() is None


def test_capture_without_a_handle_keeps_it_off(captured):
    compiled = _C.CompiledCallable(captured, fn)
    with capture(None):
        assert not _C.is_hook_installed()
        assert compiled(1) == ("eager", 1)
    with capture(captured):
        assert fn(1) == "captured"
        with capture(None):
            assert _C.active_handle() is None
            assert fn(1) == compiled(1) == ("eager", 1)
        assert fn(1) == "captured"
    assert compiled(1) == "captured"


def test_exits_in_any_order(captured):
    other = _C.Handle()
    first, second = _C.enter_capture(captured), _C.enter_capture(other)
    _C.exit_capture(first)
    assert _C.active_handle() is other
    _C.exit_capture(second)
    assert _C.active_handle() is None


def test_capture_does_not_leak_across_tasks(captured):
    seen = {}

    async def capturing(started, proceed):
        with capture(captured):
            seen["inside"] = fn(1)
            started.set()
            await proceed.wait()
            seen["inside again"] = fn(1)

    async def bystander(started, proceed):
        await started.wait()
        seen["bystander"] = fn(1)
        seen["hook while another task captures"] = _C.is_hook_installed()
        proceed.set()

    async def main():
        started, proceed = asyncio.Event(), asyncio.Event()
        await asyncio.gather(capturing(started, proceed), bystander(started, proceed))
        seen["after"] = fn(1)

    asyncio.run(main())
    assert seen == {
        "inside": "captured",
        "bystander": ("eager", 1),
        "hook while another task captures": True,
        "inside again": "captured",
        "after": ("eager", 1),
    }


def test_task_made_inside_captures_only_until_the_block_ends(captured):
    seen = []

    async def child(ended):
        seen.append(fn(1))
        await ended.wait()
        with capture(_C.Handle()):  # the hook is in, for another handle
            pass
        seen.append(fn(1))

    async def main():
        ended = asyncio.Event()
        with capture(captured):
            task = asyncio.create_task(child(ended))
            await asyncio.sleep(0)
        with capture(_C.Handle()):
            ended.set()
            await task

    asyncio.run(main())
    assert seen == ["captured", ("eager", 1)]


def test_new_threads_do_not_capture(captured):
    seen = []
    with capture(captured):
        thread = threading.Thread(target=lambda: seen.append(fn(1)))
        thread.start()
        thread.join()
        copied = contextvars.copy_context()
        thread = threading.Thread(target=lambda: seen.append(copied.run(fn, 1)))
        thread.start()
        thread.join()
    assert seen == [("eager", 1), "captured"]


def test_token_closed_on_another_thread(captured):
    token = _C.enter_capture(captured)
    thread = threading.Thread(target=_C.exit_capture, args=(token,))
    thread.start()
    thread.join()
    assert not _C.is_hook_installed()
    assert _C.active_handle() is None
    assert fn(1) == ("eager", 1)


def test_dropped_generator_ends_its_capture(captured):
    def generator():
        token = _C.enter_capture(captured)
        yield token.__class__.__name__

    running = generator()
    assert next(running) == "CaptureToken"
    assert _C.is_hook_installed()
    del running
    gc.collect()
    assert not _C.is_hook_installed()
    assert _C.active_handle() is None


def test_capture_off_is_per_thread(captured):
    seen = {}
    entered, proceed = threading.Event(), threading.Event()

    def other():
        with capture(captured):
            entered.set()
            proceed.wait()
            seen["other"] = fn(1)

    thread = threading.Thread(target=other)
    with capture(captured):
        state = _C.capture_off()
        assert not _C.is_hook_installed()
        thread.start()
        entered.wait()
        assert _C.is_hook_installed()
        assert fn(1) == ("eager", 1)
        proceed.set()
        thread.join()
        assert fn(1) == ("eager", 1)
        _C.capture_on(state)
        assert _C.is_hook_installed()
        assert fn(1) == "captured"
    assert seen == {"other": "captured"}


def test_nested_capture_off(captured):
    with capture(captured):
        outer = _C.capture_off()
        inner = _C.capture_off()
        assert (outer, inner) == (0, 1)
        _C.capture_on(inner)
        assert _C.is_capture_off()
        assert fn(1) == ("eager", 1)
        _C.capture_on(outer)
        assert fn(1) == "captured"


def test_capture_inside_our_own_code_waits_until_it_is_done(captured):
    """A compile callback that itself enters a capture must not be captured."""
    seen = []

    def miss(handle, record):
        if record.code is trigger.__code__:
            with capture(captured):
                seen.append(fn(1))

    def trigger():
        return None

    _C.set_miss_callback(miss)
    with capture(captured):
        trigger()
        assert fn(1) == "captured"
    assert seen == [("eager", 1)]


PEP523_USER = r"""
#include <Python.h>
typedef PyObject* (*Evaluate)(PyThreadState*, struct _PyInterpreterFrame*, int);
extern void _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState*, Evaluate);
extern Evaluate _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState*);
static Evaluate previous;
static long seen;
static PyObject* count(PyThreadState* ts, struct _PyInterpreterFrame* frame, int throwflag) {
    seen++;
    return previous(ts, frame, throwflag);
}
void install(void) {
    previous = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), count);
}
void uninstall(void) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), previous); }
long is_on_top(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == count; }
long seen_frames(void) { long now = seen; seen = 0; return now; }
"""


@pytest.fixture(scope="module")
def other_user(tmp_path_factory):
    """Another user of PEP 523: counts frames and chains to what was there."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    directory = tmp_path_factory.mktemp("pep523")
    (directory / "user.c").write_text(PEP523_USER)
    include = sysconfig.get_paths()["include"]
    command = [compiler, "-shared", "-fPIC", "-w", f"-I{include}", "user.c", "-o", "user.so"]
    subprocess.run(command, cwd=directory, check=True)
    return ctypes.PyDLL(str(directory / "user.so"))


def test_user_that_was_there_first_sees_eager_frames_and_stays(captured, other_user):
    other_user.install()
    try:
        other_user.seen_frames()
        with capture(captured):
            assert _C.is_hook_installed()
            assert fn(1) == "captured"
            assert not other_user.is_on_top()
        assert other_user.is_on_top()
        assert other_user.seen_frames() > 0
    finally:
        other_user.uninstall()
    assert not other_user.is_on_top()


def test_user_that_comes_later_is_never_removed(captured, other_user):
    token = _C.enter_capture(captured)
    other_user.install()
    try:
        assert fn(1) == "captured"  # through the other one, which chains to us
        _C.exit_capture(token)
        assert other_user.is_on_top()
        assert fn(1) == ("eager", 1)
        for _ in range(30):
            with capture(captured):
                # We are above it and below it; each frame must still be evaluated once.
                assert fn(1) == "captured"
                other_user.seen_frames()
                sum(x for x in range(3))
            assert other_user.is_on_top()
            assert other_user.seen_frames() > 0
    finally:
        other_user.uninstall()  # puts back our function, which has nothing to do
    fn(1)
    assert not _C.is_hook_installed()
    with capture(captured):
        assert fn(1) == "captured"


def test_user_that_comes_and_goes_inside(captured, other_user):
    with capture(captured):
        other_user.install()
        assert fn(1) == "captured"
        other_user.uninstall()
        assert _C.is_hook_installed()
        assert fn(1) == "captured"


def test_user_that_comes_while_we_are_suspended(captured, other_user):
    with capture(captured):
        state = _C.capture_off()
        other_user.install()
        _C.capture_on(state)
        assert fn(1) == "captured"
    assert other_user.is_on_top()
    other_user.uninstall()
    assert not other_user.is_on_top()


def test_interpreter_ends_with_capture_on():
    script = """
import atexit, threading, weakref
handle = _C.Handle()
_C.set_miss_callback(lambda handle, record: None)
class Late:
    def __init__(self): self.other = self
    def __del__(self): late(1)
def late(x): return x
keep = Late()
_C.add_entry(handle, late.__code__, _C.Entry(None, (lambda x: x).__code__, payload=Late()))
compiled = _C.CompiledCallable(handle, late)
atexit.register(lambda: print("at exit", compiled(1), late(2)))
threading.Thread(target=lambda: late(1), daemon=True).start()
token = _C.enter_capture(handle)
print("ends")
"""
    assert run_script(script).split() == ["ends", "at", "exit", "1", "2"]


def test_interpreter_ends_inside_a_captured_frame():
    script = """
handle = _C.Handle()
def body(): raise SystemExit(0)
token = _C.enter_capture(handle)
body()
"""
    assert run_script(script) == ""


def test_fork_keeps_capturing(captured):
    script = """
import os
handle = _C.Handle()
def fn(x): return "eager"
_C.add_entry(handle, fn.__code__, _C.Entry(None, (lambda x: "captured").__code__))
token = _C.enter_capture(handle)
child = os.fork()
if child == 0:
    os._exit(0 if fn(1) == "captured" else 1)
print(os.waitpid(child, 0)[1], fn(1))
"""
    assert run_script(script).split() == ["0", "captured"]


def test_a_collection_as_capture_ends_leaves_nothing_behind(captured):
    """CPython 3.11 collects in the midst of changes to a context: Python code that runs then sees the variable."""
    for name in "abc":
        contextvars.ContextVar(name).set(name)
    thresholds = gc.get_threshold()
    gc.callbacks.append(lambda phase, info: fn(phase))
    try:
        for threshold in range(1, 60):
            for _ in range(20):
                gc.set_threshold(threshold, 1000, 1000)
                with capture(captured):
                    assert fn(1) == "captured"
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*thresholds)
