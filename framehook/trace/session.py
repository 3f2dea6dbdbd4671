"""One trace from start to end: run the root frame, break where it must, restart once to stop before a break."""

from __future__ import annotations

import time
from types import CodeType
from typing import Any

from framehook import _C, torch_compat
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.trace.frame import Frame
from framehook.trace.tracer import SymbolicTracer
from framehook.values.base import BreakGraph, ObservedException, Value
from framehook.values.objects import ExceptionValue

#: Restarts of one trace; each moves the break to an earlier instruction.
_MAX_RESTARTS = 8


def trace_frame(record: Any, options: Any) -> Capture:
    """Trace a frame.

    Args:
        record: what `_C` hands over on a miss: code, slots, globals, builtins, closure.
        options: the handle's `CompileOptions`.

    Raises:
        Unsupported: when nothing can be captured.
    """
    started = time.perf_counter()
    snapshot = _C.StateSnapshot()
    stop_at: int | None = None
    reason: GraphBreak | None = None
    for _ in range(_MAX_RESTARTS):
        with torch_compat.trace_session() as entry_state:
            tracer = SymbolicTracer(record, options, snapshot, entry_state)
            run = _RootRun(tracer, stop_at, reason)
            capture = run.run()
            if capture is not None:
                capture.seconds = time.perf_counter() - started
                return capture
            stop_at, reason = run.step, run.reason
    assert reason is not None
    raise Unsupported(reason)


class _RootRun:
    """The root frame's loop.  It counts steps, so that a restarted trace can stop before the one that broke."""

    def __init__(self, tracer: SymbolicTracer, stop_at: int | None, reason: GraphBreak | None) -> None:
        self.tracer = tracer
        self.stop_at = stop_at
        self.reason = reason
        self.step = 0

    def run(self) -> Capture | None:
        """Return the capture, or None when the trace must be restarted to stop at `self.step`."""
        tracer = self.tracer
        frame = tracer.frame
        raised_at: dict[int, int] = {}
        while frame.result is None:
            if self.step == self.stop_at:
                return self._stop(frame)
            stack = list(frame.stack)
            index = frame.index
            try:
                tracer.step(frame)
            except ObservedException as observed:
                if frame.inst.handler is None:
                    self.reason = self._describe(
                        BreakGraph("exception", f"the frame raises {observed.value.python_type().__name__}")
                    )
                    return None
                if isinstance(observed.value, ExceptionValue):
                    raised_at.setdefault(id(observed.value), self.step)
                tracer.unwind(frame, observed)
            except BreakGraph as stop:
                self.reason = self._describe(stop)
                # An exception of the trace has no traceback; stop where the real one is raised.
                live = [raised_at[id(value)] for value in self._live(frame, stack) if id(value) in raised_at]
                if live:
                    self.step = min(live)
                    return None
                frame.stack[:] = stack
                frame.index = index
                return None
            self.step += 1
            if self.step % 10_000 == 0:
                try:
                    tracer.count_instructions(10_000)
                except BreakGraph as stop:
                    raise Unsupported(self._describe(stop)) from None
        return self._finish(frame, frame.result, None)

    def _live(self, frame: Frame, stack: list[Value]) -> list[Value]:
        return [*stack, *frame.locals.values(), *frame.handling]

    def _stop(self, frame: Frame) -> Capture:
        frame.inst = frame.instructions[frame.index]
        return self._finish(frame, None, self.reason)

    def _finish(self, frame: Frame, result: Value | None, graph_break: GraphBreak | None) -> Capture:
        tracer = self.tracer
        return Capture(
            tracer.record,
            frame,
            tracer.builder,
            tracer.guards,
            tracer.effects,
            result,
            graph_break,
            tracer.finish_state(),
            tracer.absolute_sources,
            tracer.known,
        )

    def _describe(self, stop: BreakGraph) -> GraphBreak:
        frames: list[tuple[CodeType, int]] = stop.frames or self.tracer.frames()
        return GraphBreak(stop.kind, stop.reason, stop.hint, tuple(frames))
