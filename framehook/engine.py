"""The spine: what happens between a miss and a cache entry.

C++ calls `compile_frame` when a frame of a candidate has no entry that fits.  It comes back with the new entry,
which this very call then runs, or with None, and the frame runs eagerly.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from framehook import (
    _C,
    backends,
    changing,
    codegen,
    events,
    inference,
    policy,
    stances,
    torch_compat,
    torch_state,
    trace,
)
from framehook.backends import results
from framehook.backends.foreign import ForeignCompiler
from framehook.backends.phases import inductor_seconds
from framehook.break_kinds import KINDS
from framehook.bytecode.resume import is_resume_code, waits_for_callee
from framehook.config import config
from framehook.errors import (
    BackendError,
    CodeLocation,
    DynamicDimensionError,
    GraphBreakError,
    RecompileError,
    RecompileLimitError,
)
from framehook.guards import lowering, words
from framehook.guards.guard import Check, GuardSet
from framehook.guards.merging import merged
from framehook.handle import CodeState, EntryNotes, Handle, Place, place_of
from framehook.policy import Decision
from framehook.source import Source

_log = logging.getLogger("framehook.engine")

# torch's tracing and compiling machinery is not thread-safe: one frame at a time in the process.
_one_at_a_time = threading.Lock()


def compile_frame(handle: Handle, record: _C.FrameRecord) -> _C.Entry | None:
    """Compile a frame that has no entry; None lets it run eagerly this time.

    Raises:
        GraphBreakError: with `fullgraph=True`, when the frame cannot become one graph.
        RecompileLimitError: with `fullgraph=True`, when it has as many entries as it may have.
        RecompileError: when the stance forbids to compile.
        BackendError: when the backend fails.
    """
    if not _C.StateSnapshot().is_plain and not torch_compat.is_only_device_modes():
        # The user's modes and hooks would see what tracing does; and each fresh mode object would be a recompile.
        _hold_back(
            handle,
            place_of(record.code),
            "a torch-function or dispatch mode, or a hook of autograd, is active",
        )
        return None
    if not policy.may_compile():
        _hold_back(handle, place_of(record.code), f"the stance is {stances.current()}")
        return None
    state = policy.state_of(handle, record)
    handle.misses[state.place] += 1
    if not _take_turn(handle):
        _hold_back(handle, state.place, "another thread was compiling")
        return None
    try:
        for entry in handle.entries_of(state):
            if entry.guards is not None and policy.holds(entry.guards, record):
                return entry  # another thread has made it since
        decision, reason = policy.decide(handle, state, record)
        if decision is Decision.EAGER:
            _hold_back(handle, state.place, reason)
            return None
        _tell_miss(handle, state.place, reason or "compile")
        if decision is Decision.APART:
            return _compile_apart(handle, state, record, reason)
        entries = handle.entries_of(state)
        if stances.current() == "fail_on_recompile":
            raise RecompileError(state.place, [failure.text for failure in _failures(entries, record)])
        if entries:
            try:
                _tell_recompile(handle, state, _failures(entries, record))
                policy.note_changing(handle, record, entries)
                changing.note_numbers(handle, state, record, entries)
                changing.note_sizes(handle, state, record, entries)
            except Exception as error:
                _internal_error(handle, state, _Clock(), error)
                return None
        if decision is Decision.GIVE_UP:
            _give_up(handle, state, reason)
            return _compile_apart(handle, state, record, reason)
        with _garbage_collection_paused():
            return _compile(handle, state, record)
    finally:
        _one_at_a_time.release()


def _hold_back(handle: Handle, place: Place, reason: str) -> None:
    """Let the frame run eagerly, and remember why."""
    handle.held_back[place] = reason
    _tell_miss(handle, place, reason)


def _tell_miss(handle: Handle, place: Place, decision: str) -> None:
    if events.is_wanted("miss"):
        events.emit(events.Miss(handle.serial, *place, decision))


def _take_turn(handle: Handle) -> bool:
    """Get the lock; False when another thread compiles and the handle's patience is at an end: run eagerly."""
    if _one_at_a_time.acquire(blocking=False):
        return True
    if handle.patience <= 0:
        return False
    started = time.perf_counter()
    try:
        return _one_at_a_time.acquire(timeout=handle.patience)
    finally:
        handle.patience -= time.perf_counter() - started


def _compile_apart(handle: Handle, state: CodeState, record: _C.FrameRecord, reason: str) -> _C.Entry | None:
    """Go on with a frame that is compiled no more together with the frame below it, in whose call it is.

    The frame below is called natively, as a frame of its own, and the rest of this one is captured behind it.
    """
    if (
        not waits_for_callee(record.code)
        or len(handle.entries_of(state)) > handle.options.max_entries_per_code
    ):
        return None
    return _compile(handle, state, record, trace.stop_at_once(record, reason))


def _compile(
    handle: Handle, state: CodeState, record: _C.FrameRecord, stop: trace.Stop | None = None
) -> _C.Entry | None:
    clock = _Clock()
    events.emit(
        events.CompileStart(handle.serial, *state.place, "" if stop is None else stop.reason.reason, clock)
    )
    capture = None
    try:
        clock.time("imports", _first_imports)
        capture, planned = _capture(handle, state, record, clock, stop)
        if state.changing:
            changing.tell_constants(state, capture.guards)
        if planned is None:
            policy.remember_eager(state, lowering.lower(capture.guards, ()))
            _end(handle, state, clock, "eager", _too_small(handle, capture))
            return None
        if capture.graph_break is not None and stop is None:
            if not _report_break(handle, state, clock, capture.graph_break):
                return None
            empty = policy.note_piece(handle, state, capture.frames[-1].code, capture.operations)
            if empty:
                policy.stay_eager(handle, state, empty)
                _end(handle, state, clock, "eager", empty)
                return None
        renewed = policy.renewed_class(handle, state, capture.guards)
        if renewed:
            policy.stay_eager(handle, state, renewed)
            _end(handle, state, clock, "eager", renewed)
            return _compile_apart(handle, state, record, renewed) if stop is None else None
        state.compiles += 1
        run_graph = clock.time("backend", lambda: _run_backend(handle, state, capture, clock))
        capture.builder.symbols.add_guards(capture.guards)
        code = clock.time("codegen", lambda: codegen.emit(planned, run_graph))
        entry = clock.time("guards", lambda: _add_entry(handle, state, record, planned, code))
    except trace.Unsupported as unsupported:
        if _report_break(handle, state, clock, unsupported.graph_break):
            policy.stay_eager(handle, state, unsupported.graph_break.reason)
            _end(handle, state, clock, "eager", unsupported.graph_break.reason)
            if stop is None:
                return _compile_apart(handle, state, record, unsupported.graph_break.reason)
        return None
    except DynamicDimensionError as error:
        _end(handle, state, clock, "error", str(error))
        raise
    except trace.UnknownSymbol:
        if not state.is_static:
            state.is_static = True
            return _compile(handle, state, record, stop)
        reason = "the graph depends on a size of which nobody knows where it comes from"
        policy.stay_eager(handle, state, reason)
        _end(handle, state, clock, "eager", reason)
        return None
    except GraphBreakError:
        raise
    except BackendError as error:
        _end(handle, state, clock, "error", str(error))
        raise
    except RecursionError:
        # Containers or calls of the program that are nested deeper than our own code can follow.
        reason = "values are nested too deeply to be traced"
        policy.stay_eager(handle, state, reason)
        _end(handle, state, clock, "eager", reason)
        return None
    except Exception as error:
        _internal_error(handle, state, clock, error)
        return None
    except BaseException as interruption:
        _end(handle, state, clock, "error", f"interrupted by {type(interruption).__name__}", frames=())
        raise
    else:
        outcome = "whole" if capture.graph_break is None else "partial"
        reason = "" if capture.graph_break is None else capture.graph_break.reason
        artifacts = {
            "graph": capture.graph,
            "guards": capture.guards,
            "code": code,
            "original": record.code,
            "inputs": capture.inputs,
            "visited": capture.visited,
        }
        if capture.eager_graph:
            artifacts["eager_graph"] = capture.eager_graph
        frames = policy.frames_of(record, capture)
        _end(
            handle, state, clock, outcome, reason, capture.operations, len(capture.guards), frames, artifacts
        )
        return entry
    finally:
        if capture is not None:
            capture.release()


# -- the steps -------------------------------------------------------------------------------------------------


def _capture(
    handle: Handle, state: CodeState, record: _C.FrameRecord, clock: _Clock, stop: trace.Stop | None
) -> tuple[trace.Capture, codegen.Plan | None]:
    """Trace the frame, at most up to `stop`, and plan its code; None when it is not worth it."""
    budget = trace.Budget(handle.options.max_trace_ops, handle.options.max_trace_seconds)
    clock.budget = budget
    while True:
        capture = clock.time(
            "trace",
            lambda: trace.trace_frame(
                record,
                handle.options,
                budget,
                stop,  # noqa: B023
                functools.partial(policy.may_break, handle),
                handle.loops_left,
                changing.policy_for(handle, state),
            ),
        )
        if not _is_worth_it(handle, capture):
            return capture, None
        try:
            return capture, clock.time("codegen", lambda: codegen.plan(capture))  # noqa: B023
        except codegen.NotRebuildable as error:
            # The trace has come too far; each time it stops earlier.
            try:
                stop = codegen.earlier_stop(capture, error)
            finally:
                capture.release()


def _is_worth_it(handle: Handle, capture: trace.Capture) -> bool:
    # A piece that ends at a graph break is kept even without a graph: it is the way to the pieces behind it.
    return capture.graph_break is not None or capture.operations >= handle.options.min_graph_ops


def _too_small(handle: Handle, capture: trace.Capture) -> str:
    count = capture.operations
    return f"{count} operation{'' if count == 1 else 's'} (min_graph_ops is {handle.options.min_graph_ops})"


def _run_backend(
    handle: Handle, state: CodeState, capture: trace.Capture, clock: _Clock
) -> Callable[[list[Any]], Any] | None:
    """Compile the graph, if there is one; what the backend assumed about its inputs is added to the guards."""
    graph = capture.graph
    if graph is None:
        return None
    compiler = handle.compiler
    if capture.operations < handle.options.min_graph_ops:
        compiler = backends.resolve("eager")
    inputs = [
        backends.GraphInput(each.name, each.example, each.fake, each.is_static, each.source.name())
        for each in capture.inputs
    ]
    inputs += [
        backends.GraphInput(each.name, each.example, each.fake, False, each.name) for each in capture.numbers
    ]
    undo = backends.undo_for(graph, inputs, _changed_places(capture))  # the backend may change the graph
    returned: Any = graph.graph.output_node().args[0]
    outputs = len(returned)  # before the backend changes the graph
    is_inference = inference.take_out(graph)
    reason = _reason_to_stay_eager(capture, is_inference)
    inside = torch.inference_mode() if is_inference else contextlib.nullcontext()
    with inside, clock.inductor(compiler.name == "inductor"):
        compiled = backends.compile_graph(compiler, graph, inputs, capture.builder.mode, reason)
    capture.eager_graph = compiled.eager_reason
    sources = {each.source.name(): each.source for each in capture.inputs}
    for guard in compiled.extra_guards:
        _add_backend_guard(capture.guards, guard, sources)
    run = compiled.callable
    if unseen := [
        place for place, each in enumerate(capture.inputs) if capture.builder.is_changed_unseen(each)
    ]:
        run = _changing_unseen(run, compiled.is_boxed, unseen)
    if is_inference:
        run = torch.inference_mode()(run)
    elif capture.builder.state_setters:
        run = _leaving_state(run, torch.autocast_increment_nesting in capture.builder.state_setters)
    if undo is not None:
        run = undo.wrap(run, compiled.is_boxed)
    is_final = capture.mutates_inputs and (undo is None or not undo.undoes_changes)
    if is_final and capture.builder.has_checks:
        reason = "parameters of a distribution are checked where large inputs are changed"
        raise trace.Unsupported(trace.GraphBreak("data_dependent", reason, "", (capture.frame.where(),)))

    first_run = functools.partial(_tell_first_run, handle.serial, state.place)
    if not isinstance(compiler, ForeignCompiler):
        return _C.GraphCallable(run, compiled.is_boxed, is_final, compiler.name, first_run=first_run)
    refuse = results.refusal(compiler.name, graph, outputs)
    return _C.GraphCallable(run, compiled.is_boxed, is_final, compiler.name, outputs, refuse, first_run)


def _tell_first_run(handle: int, place: Place, seconds: float) -> None:
    events.emit(events.FirstRun(handle, *place, seconds))


def _reason_to_stay_eager(capture: trace.Capture, is_inference: bool) -> str:
    """Why AOTAutograd's graph would not be what the program sees of eager's; else empty."""
    if capture.graph_break is not None and capture.graph_break.kind == "autograd":
        # To autograd, what it makes of a graph is one operation.
        return f"the program looks into autograd's graph: {capture.graph_break.reason}"
    if torch.is_anomaly_enabled():
        return "anomalies are detected, and named after the operation where they are"
    if inference.enter in capture.builder.state_setters and not is_inference:
        return "some of it happens in inference mode"
    if capture.builder.returns_data:
        return "it hands out `.data` of a tensor, which counts its changes by itself"
    return ""


def _changed_places(capture: trace.Capture) -> list[int]:
    """The places of the inputs that the graph changes."""
    changed = {id(each) for each in capture.builder.mutates_inputs()}
    return [place for place, each in enumerate(capture.inputs) if id(each) in changed]


def _changing_unseen(run: Callable[..., Any], is_boxed: bool, places: list[int]) -> Callable[..., Any]:
    """Let a graph change inputs through `.data`: their versions stay, and backward does not mind."""

    def run_unseen(*given: Any) -> Any:
        inputs = given[0] if is_boxed else given
        tensors = tuple(inputs[place] for place in places)
        with torch_compat.keeping_versions(tensors):
            return run(*given)

    return run_unseen


def _leaving_state(run: Callable[..., Any], is_nesting: bool) -> Callable[..., Any]:
    """A graph that changes grad mode or autocast puts them back at its end; see to it when it raises half-way."""
    # The guards see to it that every call begins with the state of now; only autocast's depth is its own.
    state = torch_state.save_state()

    def graph(*inputs: Any) -> Any:
        depth = inference.depth()
        nesting = state.autocast_nesting
        if is_nesting:
            nesting = torch.autocast_increment_nesting() - 1
            torch.autocast_decrement_nesting()
        try:
            return run(*inputs)
        except BaseException:
            inference.leave_down_to(depth)
            torch_state.restore_state(state._replace(autocast_nesting=nesting))
            if is_nesting and not nesting:
                torch.clear_autocast_cache()
            raise

    return graph


def _add_backend_guard(guards: GuardSet, guard: torch_compat.InputGuard, sources: dict[str, Source]) -> None:
    first = tuple(sources[name] for name in guard.first)
    second = tuple(sources[name] for name in guard.second)
    if guard.kind == "duplicate":
        guards.add(first[0], Check.SAME, second[0])
        return
    if first:
        guards.add(None, Check.PREDICATE, (_share_memory, first))
    if second:
        guards.add(None, Check.DISJOINT, (second, first + second))


def _share_memory(*tensors: torch.Tensor) -> bool:
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1


def _add_entry(
    handle: Handle, state: CodeState, record: _C.FrameRecord, planned: codegen.Plan, code: CodeType
) -> _C.Entry:
    capture = planned.capture
    capture.guards = merged(capture.guards)
    # What a partial entry calls itself is code of the user's.
    torch_compat.hide_from_peer(code, is_recursive=capture.graph_break is None)
    entry = _C.Entry(
        lowering.lower(capture.guards, planned.sources(), planned.looked_up),
        code,
        takes_inputs=True,
        is_whole=capture.graph_break is None,
        payload=EntryNotes(state, list(capture.guards), capture.operations),
    )
    _C.add_entry(handle, record.code, entry)
    return entry


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """A trace makes tens of thousands of objects that live until its end: looking through them is wasted."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Clock:
    """Seconds by phase, and for whoever watches from another thread the phase of now, and the operations so far."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.phase = ""
        self.budget: trace.Budget | None = None

    @property
    def operations(self) -> int:
        return 0 if self.budget is None else self.budget.reached

    def time(self, phase: str, step: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        self.phase = phase
        try:
            return step()
        finally:
            self._add(phase, time.perf_counter() - start)

    @contextlib.contextmanager
    def inductor(self, is_used: bool) -> Iterator[None]:
        """What happens inside is AOTAutograd's and Inductor's, if they are used, and not the rest of the backend's."""
        start, before = time.perf_counter(), inductor_seconds()
        try:
            yield
        finally:
            if is_used:
                both = time.perf_counter() - start
                inductor = min(both, inductor_seconds() - before)
                self._add("inductor", inductor)
                self._add("aotautograd", both - inductor)
                self._add("backend", -both)

    def _add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


_imported = False


def _first_imports() -> None:
    # Making the first fake mode of a process imports a second's worth of torch; that is nobody's trace.
    global _imported
    if not _imported:
        torch_compat.make_fake_mode()
        # An import of torch's leaves a cycle with its frame, and so with all frames up to the user's.  Everything
        # since collection was paused is young.
        gc.collect(0)
        _imported = True


# -- telling ---------------------------------------------------------------------------------------------------


def _failures(entries: Sequence[_C.Entry], record: _C.FrameRecord) -> list[words.Failure]:
    """For each entry the guard that failed, in words."""
    return [
        words.explain(entry.guards, notes.guards, record)
        for entry in entries
        # An entry may become invalid meanwhile; it then has neither.
        if entry.guards is not None and (notes := entry.payload) is not None
    ]


def _tell_recompile(handle: Handle, state: CodeState, failures: Sequence[words.Failure]) -> None:
    subject, cause = policy.note_causes(state, failures)
    events.emit(
        events.Recompile(
            handle.serial,
            *state.place,
            tuple(failure.text for failure in failures),
            subject,
            cause.count,
            tuple(cause.seen),
            cause.cure,
        )
    )


def _report_break(handle: Handle, state: CodeState, clock: _Clock, graph_break: trace.GraphBreak) -> bool:
    """Tell of a break; False when the frame has to run eagerly this time.

    Raises:
        GraphBreakError: with `fullgraph=True`.
    """
    reason, kind = graph_break.reason, graph_break.kind
    hint = graph_break.hint or KINDS[kind].hint
    if handle.options.fullgraph and kind == "raises":
        # No break of ours: the call ends with the user's own exception.
        _end(handle, state, clock, "eager", reason)
        return False
    if kind == "class_body":
        policy.note_class_body(handle, state)
    stack = tuple(CodeLocation.of(code, offset) for code, offset in graph_break.frames)
    events.emit(events.GraphBreak(handle.serial, *state.place, reason, hint, stack, kind))
    if handle.options.fullgraph:
        _end(handle, state, clock, "error", reason)
        raise GraphBreakError(reason, kind=kind, stack=stack, hint=hint) from None
    return True


def _end(
    handle: Handle,
    state: CodeState,
    clock: _Clock,
    outcome: str,
    reason: str = "",
    operations: int = 0,
    guards: int = 0,
    frames: Sequence[tuple[Place, str]] | None = None,
    artifacts: dict[str, Any] | None = None,
    is_internal_error: bool = False,
) -> None:
    if frames is None:
        code = state.code()
        is_resumed = code is None or is_resume_code(code)
        frames = () if is_resumed else ((state.place, "eager"),)
    events.emit(
        events.CompileEnd(
            handle.serial,
            *state.place,
            outcome,
            reason,
            operations,
            guards,
            clock.seconds,
            frames,
            is_internal_error,
            artifacts or {},
        )
    )


def _give_up(handle: Handle, state: CodeState, reason: str) -> None:
    """Tell that the code is not compiled any more, and which guard kept failing.

    Raises:
        RecompileLimitError: with `fullgraph=True`.
    """
    subject, cause = max(
        state.causes.items(), key=lambda item: item[1].count, default=("no guard: its entries died", None)
    )
    guard = subject if cause is None or not cause.seen else f"{subject}, seen {', '.join(cause.seen)}"
    cure = policy.cure_of_dying_entries if cause is None else cause.cure
    if handle.options.fullgraph:
        raise RecompileLimitError(reason, place=state.place, guard=guard, cure=cure)
    function, filename, line = state.place
    # Said once; what comes of later tries is in the logs.
    level = logging.INFO if state.is_told else logging.WARNING
    state.is_told = True
    _log.log(
        level,
        "%s (%s:%d) is compiled no more: %s; other calls run eagerly, entries stay. "
        "The guard that kept failing: %s. What to do: %s",
        function, filename, line, reason, guard, cure,
    )  # fmt: skip
    events.emit(events.GiveUp(handle.serial, *state.place, reason, state.retry_after // 2))


def _internal_error(handle: Handle, state: CodeState, clock: _Clock, error: Exception) -> None:
    """An error of ours is never the user's: the frame runs eagerly, and we hear of it."""
    reason = f"internal error: {type(error).__name__}: {error}"
    policy.stay_eager(handle, state, reason)
    _end(handle, state, clock, "error", reason, is_internal_error=True)
    if config.raise_internal_errors:
        raise error
    function, filename, line = state.place
    _log.error(
        "framehook failed on %s (%s:%d) and runs it eagerly. Please report this with the text below.",
        function, filename, line, exc_info=error,
    )  # fmt: skip
