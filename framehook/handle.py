"""A handle: one `compile()` or `capture()`, with its options, its entries and what it remembers of each function.

The C++ base owns the entries and counts hits and misses; when a handle goes, its entries go.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

from framehook import _C, events
from framehook.backends.graph import Compiler
from framehook.config import CompileOptions
from framehook.guards.guard import Guard

#: Qualified name, file and first line: a function and its resume functions are one place.
Place: TypeAlias = tuple[str, str, int]

_serials = itertools.count(1)
# By serial number.  A plain dict: unlike a WeakSet it can be copied while other threads and finalizers change it.
_live: dict[int, weakref.ref[Handle]] = {}


class Lookups(NamedTuple):
    """What the cache has counted for one function, and the few calls that it has timed.

    Attributes:
        hits, misses: lookups that found an entry, and that found none.
        timed_hits, hit_seconds: calls with an entry that were timed, and their time in all.
        timed_eager, eager_seconds: the same of calls that ran eagerly as they had no entry, the hook in place.
    """

    hits: int = 0
    misses: int = 0
    timed_hits: int = 0
    hit_seconds: float = 0.0
    timed_eager: int = 0
    eager_seconds: float = 0.0

    def __add__(self, other: Lookups) -> Lookups:  # type: ignore[override]
        return Lookups(
            self.hits + other.hits,
            self.misses + other.misses,
            self.timed_hits + other.timed_hits,
            self.hit_seconds + other.hit_seconds,
            self.timed_eager + other.timed_eager,
            self.eager_seconds + other.eager_seconds,
        )


class CodeState:
    """What a handle remembers of one code object; for calls of modules, of one code object and class."""

    __slots__ = (
        "causes",
        "changing",
        "classes",
        "code",
        "compiles",
        "discriminator",
        "eager_hits",
        "eager_programs",
        "eager_reason",
        "is_static",
        "is_told",
        "limit_reason",
        "paused_until",
        "place",
        "retry_after",
        "sizes",
        "window",
    )

    def __init__(self, code: CodeType, discriminator: Hashable) -> None:
        # Weak, so that a handle does not keep a user's function.
        self.code = weakref.ref(code)
        self.place: Place = place_of(code)
        self.discriminator = discriminator
        #: Guards under which the frame was found to be better off eager.
        self.eager_programs: list[_C.GuardProgram] = []
        self.eager_hits = 0
        #: Why it is never to be compiled; empty otherwise.
        self.eager_reason = ""
        #: Why compiling stopped; empty while it goes on.
        self.limit_reason = ""
        #: Compiles since the churn window began, at these lookups and hits; the lookup until which there are none;
        #: and for how many lookups there will be none the next time (0: as the options say).
        self.compiles = 0
        self.window = (0, 0)
        self.paused_until = 0
        self.retry_after = 0
        #: Whether the user has been warned that compiling stopped.
        self.is_told = False
        #: What made it compile again: by the subject of the guard that failed, as a `words.Failure` says it.
        self.causes: dict[str, Cause] = {}
        #: Classes that functions make anew at each call, which entries were compiled for: address by name.
        self.classes: dict[tuple[str, str], int] = {}
        #: Names of the sources of numbers that were seen to differ between calls.
        self.changing: set[str] = set()
        #: Dimensions that differ between calls, by the names of the sources of tensors.
        self.sizes: dict[str, set[int]] = {}
        #: Whether its sizes are never to be symbols.
        self.is_static = False


class Cause:
    """One thing about a call that changed, and made its code compile again.

    Attributes:
        count: how often it did.
        seen: values of it, in words: those of the entries, and those of the calls that had none; not too many.
        cure: what to do about it.
    """

    __slots__ = ("count", "cure", "seen")

    _MOST_VALUES = 12

    def __init__(self, cure: str) -> None:
        self.count = 0
        self.cure = cure
        self.seen: list[str] = []

    def saw(self, *values: str) -> None:
        """Remember values, each once."""
        for value in values:
            if value and value not in self.seen and len(self.seen) < self._MOST_VALUES:
                self.seen.append(value)


class EntryNotes:
    """What belongs to an entry besides its program and code: hung on it as its payload.

    Attributes:
        state: the code (and class) that the entry is for.
        guards: in the order of the guard program, for saying in words which one failed.
        operations: tensor operations in its graph.
    """

    __slots__ = ("guards", "operations", "state")

    def __init__(self, state: CodeState, guards: list[Guard], operations: int) -> None:
        self.state = state
        self.guards = guards
        self.operations = operations


class Handle(_C.Handle):
    """Options, entries, limits and counters of one `compile()` or `capture()`."""

    def __init__(self, options: CompileOptions, compiler: Compiler) -> None:
        super().__init__()
        self.serial = next(_serials)
        self.options = options
        self.compiler = compiler
        #: What was compiled, for people.
        self.name = ""
        #: Why frames of it are never looked up (generators, coroutines, C code); empty otherwise.
        self.skipped = ""
        #: Lookups that found nothing, by place; what has run often enough is warm.
        self.misses: Counter[Place] = Counter()
        #: Why frames ran eagerly the last time that they had no entry, by place.
        self.held_back: dict[Place, str] = {}
        #: Calls that were timed eagerly on request, without the hook: how many, and their time in all.
        self.eager_times: dict[Place, tuple[int, float]] = {}
        #: Seconds that calls may still wait for compiles of other threads, all together.
        self.patience = 1.0
        #: Pieces between graph breaks, and the operations in all of them, by the place of the frame that broke.
        self.pieces: dict[Place, tuple[int, int]] = {}
        #: Functions that are not broken up where they are inlined, as nothing but breaks was found in them.
        self.unbroken: set[Place] = set()
        #: Positions of loops at graph breaks, as code generation notes them.
        self.loops_left: dict[Any, int] = {}
        #: Qualified names of functions that broke where they define a class.
        self.class_makers: set[str] = set()
        self._states: dict[int, dict[Hashable, CodeState]] = {}
        # One for each key of `_states`; kept here, so that they go with the handle.
        self._code_deaths: dict[int, weakref.ref[CodeType]] = {}
        _live[self.serial] = weakref.ref(self)

    def state(self, code: CodeType, discriminator: Hashable) -> CodeState:
        """What is remembered of a code object, made at first sight."""
        key = id(code)
        states = self._states.get(key)
        if states is None:
            # The address may be used again; a code object's states go with it.
            self._code_deaths[key] = weakref.ref(code, _forgetting(self, key))
            states = self._states.setdefault(key, {})
        found = states.get(discriminator)
        if found is None:
            found = states.setdefault(discriminator, CodeState(code, discriminator))
        return found

    def _forget_code(self, key: int) -> None:
        self._states.pop(key, None)
        self._code_deaths.pop(key, None)

    def entries_of(self, state: CodeState) -> list[_C.Entry]:
        """The entries of one code object (and class, for calls of modules)."""
        code = state.code()
        if code is None:
            return []
        # An entry that has become invalid has no payload any more.
        return [
            entry for entry in _C.record_entries(code, self) if getattr(entry.payload, "state", None) is state
        ]

    def reset(self) -> None:
        """Forget all entries, counts, and everything remembered; options stay."""
        self.clear()
        self._states.clear()
        self._code_deaths.clear()
        self.misses.clear()
        self.held_back.clear()
        self.pieces.clear()
        self.unbroken.clear()
        self.loops_left.clear()

    def lookups_by_place(self) -> dict[Place, Lookups]:
        """Hits, misses and times of each function whose code is alive."""
        found: dict[Place, Lookups] = {}
        for place, code in self._living_code():
            counts = _C.record_counters(code, self)
            times = _C.record_times(code, self)
            lookups = Lookups(counts["hits"], counts["misses"], *times["hits"][:2], *times["eager"][:2])
            if place in found:
                # A resume function: its time is within that of the call that it ends.
                lookups = Lookups(lookups.hits, lookups.misses) + found[place]
            found[place] = lookups
        return found

    def times_by_place(self) -> dict[Place, dict[str, list[tuple[int, float]]]]:
        """Times of calls that were measured, "hits" and "eager": the number of the lookup, and seconds."""
        found: dict[Place, dict[str, list[tuple[int, float]]]] = {}
        for place, code in self._living_code():
            times = _C.record_times(code, self)
            found.setdefault(place, {kind: samples for kind, (_, _, _, samples) in times.items()})
        return found

    def _living_code(self) -> Iterator[tuple[Place, CodeType]]:
        # Copies: other threads and finalizers may add and remove meanwhile.
        for states in self._states.copy().values():
            state = next(iter(states.copy().values()), None)
            code = None if state is None else state.code()
            if state is not None and code is not None:
                yield state.place, code

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return  # modules are half gone, and nobody listens
        _live.pop(self.serial, None)
        totals = self.counters()
        events.emit(
            events.HandleEnd(
                self.serial, "", "", 0, totals["hits"], totals["misses"], self.lookups_by_place()
            )
        )


def _forgetting(handle: Handle, key: int) -> Callable[[object], None]:
    """A callback for the death of a code object; does not keep the handle."""
    known = weakref.ref(handle)

    def forget(_code: object) -> None:
        alive = known()
        if alive is not None:
            alive._forget_code(key)

    return forget


def place_of(code: CodeType) -> Place:
    """The place that a code object belongs to."""
    return (code.co_qualname, code.co_filename, code.co_firstlineno)


def live_handles() -> Iterator[Handle]:
    """All handles of the process, oldest first."""
    # Serial numbers rise, so that the dict is in order but for threads that overtake each other.
    handles = [known() for _, known in sorted(_live.copy().items())]
    return (handle for handle in handles if handle is not None)
