"""One trace from start to end: run the root frame, break where it must, restart to stop before that point."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from framehook import _C, inference, torch_compat
from framehook.bytecode.decode import decode
from framehook.bytecode.liveness import sees_its_frame
from framehook.bytecode.resume import entry_index, is_resume_code
from framehook.trace.budget import Budget, OverBudget
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.trace.frame import Frame, StopHere
from framehook.trace.number_policy import NO_NUMBERS, NumberPolicy
from framehook.trace.places import innermost
from framehook.trace.state_rules import finish_state
from framehook.trace.tracer import SymbolicTracer
from framehook.values.base import BreakGraph, ObservedException

#: Restarts of one trace; each moves the break to an earlier instruction.
_MAX_RESTARTS = 12


class Stop(NamedTuple):
    """Where a restarted trace has to stop: before this step, counted over all frames, and why."""

    step: int
    reason: GraphBreak


def stop_at_once(record: Any, reason: str) -> Stop:
    """The stop that captures nothing: before the first instruction, or where a resumed frame is continued."""
    code = record.code
    offset = decode(code).instructions[entry_index(code)].offset if is_resume_code(code) else 0
    return Stop(1, GraphBreak("limit", reason, "", ((code, offset),)))


def trace_frame(
    record: Any,
    options: Any,
    budget: Budget,
    stop: Stop | None = None,
    may_break: Callable[[CodeType], bool] = lambda code: True,
    loops_left: dict[Any, int] | None = None,
    numbers: NumberPolicy = NO_NUMBERS,
) -> Capture:
    """Trace a frame, at most up to `stop`.

    Args:
        record: what `_C` hands over on a miss: code, slots, globals, builtins, closure.
        options: the handle's `CompileOptions`.
        budget: what the frame may cost, earlier attempts included.
        stop: set when an earlier trace came too far.
        may_break: says of an inlined function's code whether the graph may break inside of it.
        loops_left: where the handle's loops were left, for code generation to look up and to fill.
        numbers: which numbers differ from call to call.

    Raises:
        Unsupported: when nothing can be captured, or only at too high a cost.
    """
    loops_left = {} if loops_left is None else loops_left
    started = time.perf_counter()
    snapshot = _C.StateSnapshot()
    for _ in range(_MAX_RESTARTS):
        with torch_compat.trace_session() as entry_state:
            tracer = SymbolicTracer(record, options, snapshot, entry_state, budget, numbers)
            tracer.may_break = may_break
            tracer.loops_left = loops_left
            outcome: Capture | Stop | None = None
            entered = inference.depth()
            try:
                outcome = _run(tracer, stop)
            finally:
                inference.leave_down_to(entered)
                if not isinstance(outcome, Capture):
                    tracer.release()
            if isinstance(outcome, Capture):
                outcome.seconds = time.perf_counter() - started
                return outcome
            stop = outcome
    assert stop is not None
    raise Unsupported(stop.reason)


def _run(tracer: SymbolicTracer, stop: Stop | None) -> Capture | Stop:
    """Run the root frame; the answer is the capture, or where the trace has to stop instead."""
    if stop is not None:
        tracer.stop_at = stop.step
    try:
        tracer.begin()
        result = tracer.run_inner(tracer.root)
    except ObservedException as observed:
        raised = observed.value
        # Where it was raised, so that its traceback tells of every frame.
        _, step = tracer.births.get(id(raised), (None, observed.step))
        reason = BreakGraph("raises", f"the frame raises {raised.python_type().__name__}")
        if issubclass(raised.python_type(), NameError):
            # Its text suggests names of all variables of the frame, those that are not used any more included.
            raise Unsupported(_describe(tracer, reason)) from None
        # Where the frames have handlers, more of them runs behind that.
        return Stop(step, _describe(tracer, reason)._replace(is_end=step == tracer.steps))
    except BreakGraph as broken:
        described = _describe(tracer, broken)
        if not broken.step or isinstance(broken, OverBudget):
            raise Unsupported(described) from None
        return Stop(broken.step, described)
    except StopHere as here:
        assert stop is not None
        place = innermost(here.frame, tracer.may_break)
        if place is not here.frame:
            return Stop(place.step, stop.reason)
        if tracer.inference_guards:
            return _before_inference(tracer, stop.reason)
        return _stop(tracer, here.frame, stop.reason)
    if tracer.inference_guards:
        reason = BreakGraph("call", "inference mode is not left", "use it in a with statement")
        return _before_inference(tracer, _describe(tracer, reason))
    return Capture(tracer, result, None, finish_state(tracer))


def _before_inference(tracer: SymbolicTracer, reason: GraphBreak) -> Stop:
    """Stop before an inference mode that is open where the trace ends: only the native guard can stay so."""
    _, step = tracer.births[id(tracer.inference_guards[0])]
    return Stop(step, reason)


def _stop(tracer: SymbolicTracer, frame: Frame, reason: GraphBreak) -> Capture:
    if sees_its_frame(tracer.root.code):
        # A frame in pieces has other variables, and is another object in each piece.
        raise Unsupported(reason._replace(reason=f"{reason.reason}; the function looks at its own frame"))
    return Capture(tracer, None, reason, finish_state(tracer), frame)


def _describe(tracer: SymbolicTracer, stop: BreakGraph) -> GraphBreak:
    frames: list[tuple[CodeType, int]] = stop.frames or tracer.frames()
    return GraphBreak(stop.kind, stop.reason, stop.hint, tuple(frames))
