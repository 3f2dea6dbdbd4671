"""One trace from start to end: run the root frame, break where it must, restart to stop before that point."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from framehook import _C, torch_compat
from framehook.bytecode.liveness import sees_its_frame
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.trace.frame import Frame
from framehook.trace.tracer import SymbolicTracer
from framehook.values.base import BreakGraph, ObservedException, Value

#: Restarts of one trace; each moves the break to an earlier instruction.
_MAX_RESTARTS = 8
#: Frames of the tracer that one trace may need: the depth of inlined calls (tracer.MAX_DEPTH) with a wide margin.
_EXTRA_DEPTH = 5_000


class Stop(NamedTuple):
    """Where a restarted trace has to stop: before this step of the root frame, and why."""

    step: int
    reason: GraphBreak


def trace_frame(record: Any, options: Any, stop: Stop | None = None) -> Capture:
    """Trace a frame, at most up to `stop`.

    Args:
        record: what `_C` hands over on a miss: code, slots, globals, builtins, closure.
        options: the handle's `CompileOptions`.
        stop: set when an earlier trace came too far.

    Raises:
        Unsupported: when nothing can be captured.
    """
    with _room_to_recurse():
        return _trace(record, options, stop)


@contextlib.contextmanager
def _room_to_recurse() -> Iterator[None]:
    """An inlined call costs several of ours; the program's own depth must not decide what can be traced."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _EXTRA_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _trace(record: Any, options: Any, stop: Stop | None) -> Capture:
    started = time.perf_counter()
    snapshot = _C.StateSnapshot()
    for _ in range(_MAX_RESTARTS):
        with torch_compat.trace_session() as entry_state:
            tracer = SymbolicTracer(record, options, snapshot, entry_state)
            run = _RootRun(tracer, stop)
            capture = None
            try:
                capture = run.run()
            finally:
                if capture is None:
                    tracer.release()
            if capture is not None:
                capture.seconds = time.perf_counter() - started
                return capture
            assert run.reason is not None
            stop = Stop(run.step, run.reason)
    assert stop is not None
    raise Unsupported(stop.reason)


class _RootRun:
    """The root frame's loop.  It counts steps, so that a restarted trace can stop before the one that broke."""

    def __init__(self, tracer: SymbolicTracer, stop: Stop | None) -> None:
        self.tracer = tracer
        self.stop_at: int | None = stop[0] if stop is not None else None
        self.reason: GraphBreak | None = stop[1] if stop is not None else None
        self.step = 0

    def run(self) -> Capture | None:
        """Return the capture, or None when the trace must be restarted to stop at `self.step`."""
        tracer = self.tracer
        frame = tracer.frame
        while frame.result is None:
            if self.step == self.stop_at:
                return self._stop(frame)
            tracer.root_step = self.step
            try:
                tracer.step(frame)
            except ObservedException as observed:
                raised = observed.value
                if not tracer.unwind(frame, raised):
                    self.reason = self._describe(
                        BreakGraph("raises", f"the frame raises {raised.python_type().__name__}")
                    )
                    return None
            except BreakGraph as stop:
                self.reason = self._describe(stop)
                return None
            self.step += 1
            if self.step % 10_000 == 0:
                try:
                    tracer.count_instructions(10_000)
                except BreakGraph as stop:
                    raise Unsupported(self._describe(stop)) from None
        return self._finish(frame, frame.result, None)

    def _stop(self, frame: Frame) -> Capture:
        assert self.reason is not None
        if sees_its_frame(frame.code):
            # A frame in pieces has other variables, and is another object in each piece.
            raise Unsupported(
                self.reason._replace(reason=f"{self.reason.reason}; the function looks at its own frame")
            )
        frame.inst = frame.instructions[frame.index]
        return self._finish(frame, None, self.reason)

    def _finish(self, frame: Frame, result: Value | None, graph_break: GraphBreak | None) -> Capture:
        tracer = self.tracer
        return Capture(tracer, result, graph_break, tracer.finish_state())

    def _describe(self, stop: BreakGraph) -> GraphBreak:
        frames: list[tuple[CodeType, int]] = stop.frames or self.tracer.frames()
        return GraphBreak(stop.kind, stop.reason, stop.hint, tuple(frames))
