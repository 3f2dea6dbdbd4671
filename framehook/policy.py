"""Whether and how to compile: which code is a candidate at all, and what to do about one frame that has no entry.

Stands between a miss and the tracer.  Everything here is about cost; nothing here can make a result wrong.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import inspect
import os
import sysconfig
import weakref
from collections.abc import Hashable, Iterable, Iterator, Sequence
from types import CodeType

import torch

from framehook import _C, stances, torch_compat
from framehook.bytecode import resume
from framehook.bytecode.resume import origin
from framehook.config import CompileOptions, config
from framehook.guards import cures, words
from framehook.guards.guard import Check, Guard
from framehook.handle import Cause, CodeState, Handle, Place, place_of
from framehook.source import LocalSource
from framehook.trace.capture import Capture

# -- candidates: asked once per code object ------------------------------------------------------------------

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_SITE_PACKAGES = tuple({sysconfig.get_paths()[name] + os.sep for name in ("purelib", "platlib")})
_TORCH = os.path.dirname(torch.__file__) + os.sep
_TORCH_MODULES = os.path.join(_TORCH, "nn", "modules") + os.sep
_OURS = os.path.dirname(__file__) + os.sep
_MODULE_CALLS = frozenset({"forward", "_call_impl", "_wrapped_call_impl"})


#: Methods that look at each operation: they run between operations, for another object each time.
_OBSERVERS = frozenset({"__torch_function__", "__torch_dispatch__"})


def is_candidate(code: CodeType) -> bool:
    """Whether frames of `code` may be compiled on their own.

    User code is, and so are calls of `nn.Module` and the forwards of torch.nn.  Generators, coroutines, class and
    module bodies are not, nor are torch's internals, the standard library and framehook itself: what they call may be.
    Tests may want the standard library, too (`config.every_frame`).
    """
    if code.co_flags & _SUSPENDS or not code.co_flags & inspect.CO_OPTIMIZED:
        return False
    if code.co_name in _OBSERVERS:
        return False
    if config.every_frame:
        return _is_candidate_for_tests(code)
    return _is_of_user(code)


#: Code that is a candidate only because a test wants every frame, by address.
_taken_for_tests: dict[int, weakref.ref[CodeType]] = {}


def _is_candidate_for_tests(code: CodeType) -> bool:
    if code.co_filename.startswith((_OURS, _TORCH)):
        return _is_of_user(code)
    if not _is_of_user(code):
        _taken_for_tests[id(code)] = weakref.ref(code)
    return True


def give_back_frames() -> None:
    """Judge the code again that was a candidate only because `config.every_frame` was set."""
    while _taken_for_tests:
        _, known = _taken_for_tests.popitem()
        code = known()
        if code is not None:
            _C.reset_record(code)


def _is_of_user(code: CodeType) -> bool:
    filename = code.co_filename
    if filename.startswith(_TORCH):
        if torch_compat.is_peer_wrapper(code):
            _C.mark(code, None, "skip_recursive", "disabled by torch.compiler, or compiled by it")
            return False
        return filename.startswith(_TORCH_MODULES) and code.co_name in _MODULE_CALLS
    if filename.startswith((_OURS, "<frozen ")):
        return False
    return not filename.startswith(_STDLIB) or filename.startswith(_SITE_PACKAGES)


# -- decisions: asked at each miss ---------------------------------------------------------------------------

#: After so many calls that were better off eager, code without entries is not looked up any more.
_SETTLED = 100


class Decision(enum.Enum):
    """What to do about a frame for which there is no entry."""

    EAGER = "eager this time"
    COMPILE = "compile"
    GIVE_UP = "give up"  # said once; afterwards the decision is EAGER or APART
    APART = "compile apart from the frame below, in whose call the frame is"


def state_of(handle: Handle, record: _C.FrameRecord) -> CodeState:
    """What the handle remembers of the frame's code; calls of modules are told apart by the module's class."""
    slots = record.slots
    discriminator: Hashable = None
    # By the type itself: `isinstance` asks `__class__`, which may be code of the user's.
    if slots and issubclass(type(slots[0]), torch.nn.Module):
        # A reference would keep the class; two classes at one address in turn share limits, no more.
        discriminator = id(type(slots[0]))
    return handle.state(record.code, discriminator)


def decide(handle: Handle, state: CodeState, record: _C.FrameRecord) -> tuple[Decision, str]:
    """Decide what becomes of a frame without an entry; the text says why it is not compiled.

    At a limit an entry that has had no hit for long is taken out to make room.  With `fullgraph=True` the decision at
    a limit is GIVE_UP each time, and code is compiled however little its entries are used.
    """
    options = handle.options
    if state.eager_reason:
        return _given_up(record), state.eager_reason
    warmup_calls = warmup_calls_of(handle)
    if handle.misses[state.place] <= warmup_calls:
        return (
            Decision.EAGER,
            f"warming up: call {handle.misses[state.place]} of {warmup_calls} that run eagerly",
        )
    if torch_compat.is_marked_disabled(record.function):
        stay_eager(handle, state, "torch.compiler.disable(recursive=False)")
        return Decision.EAGER, state.eager_reason
    for program in state.eager_programs:
        if holds(program, record):
            state.eager_hits += 1
            if state.eager_hits >= _SETTLED and not handle.entries_of(state):
                stay_eager(handle, state, "too few operations")
                if state.discriminator is None:
                    _C.mark(record.code, handle, "skip", "too few operations")
            return Decision.EAGER, "too few operations"
    entries = handle.entries_of(state)
    counts = _C.record_counters(record.code, handle)
    if counts["lookups"] < state.paused_until:
        return _given_up(record), "compiled again and again without use"
    full = _full(
        handle, entries, options.max_entries_per_code, "for this code (max_entries_per_code)"
    ) or _full(handle, handle.entries(), options.max_entries_per_handle, "in all (max_entries_per_handle)")
    if isinstance(full, str):
        return _stop(handle, state, record, full)
    churns = "" if options.fullgraph else _churns(state, options, counts["lookups"], counts["hits"])
    if churns:
        return Decision.GIVE_UP, churns
    if full is not None:
        _C.remove_entry(full)
    return Decision.COMPILE, ""


def _full(handle: Handle, entries: list[_C.Entry], most: int, what: str) -> _C.Entry | str | None:
    """None below a limit; at it the entry that may be replaced, or, when all are in use, a text that says so."""
    if len(entries) < most:
        return None
    longest = max(entries, key=lambda entry: _idle(handle, entry), default=None)
    if longest is None or _idle(handle, longest) < handle.options.evict_after:
        return f"{len(entries)} entries {what}"
    return longest


_warm: contextvars.ContextVar[bool] = contextvars.ContextVar("framehook_warm", default=False)


@contextlib.contextmanager
def warmed_up() -> Iterator[None]:
    """Compile at the first call inside, whatever `warmup_calls` and the stance say."""
    token = _warm.set(True)
    try:
        yield
    finally:
        _warm.reset(token)


def warmup_calls_of(handle: Handle) -> int:
    """Calls that run eagerly before a function is compiled, as the handle and the stance of this context say."""
    if _warm.get():
        return 0
    least = 1 if stances.current() == "eager_then_compile" else 0
    return max(handle.options.warmup_calls, least)


def may_compile() -> bool:
    """Whether the stance of this context lets frames be compiled."""
    return stances.current() not in _SERVING_STANCES


_SERVING_STANCES = ("eager_on_recompile", "force_eager")


def _churns(state: CodeState, options: CompileOptions, lookups: int, hits: int) -> str:
    """Say so, and stop for a while, when code has been compiled again and again with too few hits in between.

    A window of calls ends after `churn_window` of them, or when its hit rate cannot reach `min_hit_rate` any more.
    """
    began, hits_before = state.window
    calls = lookups - 1 - began  # this one is still open
    used = hits - hits_before
    wasted = state.compiles >= max(2.0, (1 - options.min_hit_rate) * options.churn_window)
    if calls < options.churn_window and not wasted:
        return ""
    rate = used / calls if calls else 0.0
    compiles = state.compiles
    state.compiles, state.window = 0, (lookups, hits)
    if rate >= options.min_hit_rate:
        state.retry_after = 0
        return ""
    if compiles < 2:
        return ""
    retry = state.retry_after or options.retry_after_calls
    state.paused_until, state.retry_after = lookups + retry, 2 * retry
    return (
        f"compiled {compiles} times in {calls} calls, and found an entry in {rate:.0%} of them (min_hit_rate "
        f"{options.min_hit_rate:.0%}); tried again after {retry} calls"
    )


def holds(program: _C.GuardProgram, record: _C.FrameRecord) -> bool:
    """Whether a guard program holds for a frame."""
    return program.check(record.slots, record.globals, record.builtins, record.closure) is not None


def remember_eager(state: CodeState, program: _C.GuardProgram) -> None:
    """Under the conditions of `program` the frame stays eager without being traced again."""
    state.eager_programs.append(program)


def stay_eager(handle: Handle, state: CodeState, reason: str) -> None:
    """Do not compile this code again; what it calls may still be captured."""
    state.eager_reason = reason
    # Calls of modules share their code between classes: those are still looked up. So is a frame that waits for
    # one below, as it can be captured behind that.
    if state.discriminator is None and not handle.entries_of(state):
        code = state.code()
        if code is not None and not resume.waits_for_callee(code):
            _C.mark(code, handle, "skip", reason)


#: Pieces between graph breaks that a function may have without a single tensor operation.
_MOST_EMPTY_PIECES = 16


def may_break(handle: Handle, code: CodeType) -> bool:
    """Whether the graph may break inside an inlined function; else the function is called natively."""
    return is_candidate(code) and place_of(code) not in handle.unbroken


def note_piece(handle: Handle, state: CodeState, broken: CodeType, operations: int) -> str:
    """Count one piece that ends in a frame of the code `broken`, the frame itself or an inlined one.

    The answer says why the frame stays eager from now on, if it does; an inlined function that is left eager is
    called natively from now on.
    """
    place = place_of(broken)
    if place != state.place and broken.co_filename.startswith(_TORCH):
        return ""  # the calls of all modules share that code
    pieces, total = handle.pieces.get(place, (0, 0))
    pieces, total = handle.pieces[place] = (pieces + 1, total + operations)
    if pieces < _MOST_EMPTY_PIECES or total:
        return ""
    reason = f"{pieces} graph breaks and no operation between them"
    original, _ = origin(broken)
    handle.state(original, None).eager_reason = reason
    _C.mark(original, handle, "skip", reason)
    handle.unbroken.add(place)
    return reason if place == state.place else ""


def frames_of(record: _C.FrameRecord, capture: Capture) -> list[tuple[Place, str]]:
    """The frames that began in a trace: the place of each, and whether it is in the trace as a whole.

    A frame that an exception leaves ends with the instruction that raises: it has been traced up to its last one.
    Only candidates count, so that what is inlined counts as it would on its own.
    """
    stopped = capture.graph_break
    places: dict[int, Place | None] = {}

    def place(code: CodeType) -> Place | None:
        found = places.get(id(code))
        if found is None and id(code) not in places:
            found = places[id(code)] = place_of(code) if is_candidate(code) else None
        return found

    found = [(place(code), "whole") for code in capture.ended]
    left = [frame.code for frame in capture.frames] if stopped is not None else [record.code]
    outcome = "whole" if stopped is None or stopped.is_end else "partial"
    found += [(place(code), outcome) for code in left if not resume.is_resume_code(code)]
    return [(known, outcome) for known, outcome in found if known is not None]


def note_class_body(handle: Handle, state: CodeState) -> None:
    """Remember a function that defines classes: they are others at each call."""
    handle.class_makers.add(state.place[0])


def renewed_class(handle: Handle, state: CodeState, guards: Iterable[Guard]) -> str:
    """Say which class is another one at each call, if the guards name such a class; entries for it never hit."""
    if not handle.class_makers:
        return ""
    for guard in guards:
        if guard.check not in (Check.TYPE, Check.IDENTITY):
            continue
        cls = guard.constant.get()
        if not isinstance(cls, type) or cls.__qualname__.partition(".<locals>")[0] not in handle.class_makers:
            continue
        known = state.classes.setdefault((cls.__module__, cls.__qualname__), id(cls))
        if known != id(cls):
            return f"class {cls.__qualname__} is made anew by each call"
    return ""


def note_changing(handle: Handle, record: _C.FrameRecord, entries: Sequence[_C.Entry]) -> None:
    """See whether entries of a resume function differ in a number, as a loop counts it: it gets no more of them."""
    threshold = max(2, handle.options.max_entries_per_code // 2)
    if len(entries) < threshold or not resume.is_resume_code(record.code):
        return
    places: dict[str, list[_C.Entry]] = {}
    for entry in entries:
        found = None
        if entry.guards is not None:
            found = entry.guards.failure(record.slots, record.globals, record.builtins, record.closure)
        if found is None or found[0] < 0:
            continue
        guard = entry.payload.guards[found[0]]
        is_number = guard.check is Check.EQUALS and type(guard.constant) in (int, float)
        if is_number and isinstance(guard.source, LocalSource):
            places.setdefault(guard.source.key, []).append(entry)
    for name, differing in places.items():
        if len(differing) >= threshold:
            resume.note_changing(record.code, name)
            for entry in differing:
                if not entry.hits:
                    _C.remove_entry(entry)


def note_causes(state: CodeState, failures: Sequence[words.Failure]) -> tuple[str, Cause]:
    """Count what the failed guards are about, and return what changed most often of it."""
    found: dict[str, Cause] = {}
    for failure in failures:
        cause = state.causes.get(failure.subject)
        if cause is None:
            cause = state.causes[failure.subject] = Cause(cures.cure(failure.guard, failure.subject))
        cause.saw(failure.expected, failure.got)
        found[failure.subject] = cause
    for cause in found.values():
        cause.count += 1
    # The first of several: that of the entry that was used last.
    return max(found.items(), key=lambda item: item[1].count, default=("no guard", Cause("")))


#: For code that was compiled again although no guard failed: what its guards named has died.
cure_of_dying_entries = "keep the objects that the function uses between its calls: entries go with them"


def _given_up(record: _C.FrameRecord) -> Decision:
    return Decision.APART if resume.waits_for_callee(record.code) else Decision.EAGER


def _stop(handle: Handle, state: CodeState, record: _C.FrameRecord, reason: str) -> tuple[Decision, str]:
    if state.limit_reason and not handle.options.fullgraph:
        return _given_up(record), state.limit_reason
    state.limit_reason = reason
    return Decision.GIVE_UP, reason


def _idle(handle: Handle, entry: _C.Entry) -> int:
    """Lookups of the entry's code since its last hit."""
    code = entry.key_code
    return 0 if code is None else _C.record_counters(code, handle)["lookups"] - entry.last_hit_lookup
