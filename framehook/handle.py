"""A handle: one `compile()` or `capture()`, with its options, its entries and what it remembers of each function.

The C++ base owns the entries and counts hits and misses; when a handle goes, its entries go.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Hashable, Iterator
from types import CodeType
from typing import Any, TypeAlias

from framehook import _C, events
from framehook.backends.graph import Compiler
from framehook.config import CompileOptions
from framehook.guards.guard import Guard

#: Qualified name, file and first line: a function and its resume functions are one place.
Place: TypeAlias = tuple[str, str, int]

_serials = itertools.count(1)
_live: weakref.WeakSet[Handle] = weakref.WeakSet()


class CodeState:
    """What a handle remembers of one code object; for calls of modules, of one code object and class."""

    __slots__ = (
        "code",
        "discriminator",
        "eager_hits",
        "eager_programs",
        "eager_reason",
        "limit_reason",
        "misses",
        "place",
    )

    def __init__(self, code: CodeType, discriminator: Hashable) -> None:
        # Weak, so that a handle does not keep a user's function.
        self.code = weakref.ref(code)
        self.place: Place = place_of(code)
        self.discriminator = discriminator
        self.misses = 0
        #: Guards under which the frame was found to be better off eager.
        self.eager_programs: list[_C.GuardProgram] = []
        self.eager_hits = 0
        #: Why it is never to be compiled; empty otherwise.
        self.eager_reason = ""
        #: Why compiling stopped; empty while it goes on.
        self.limit_reason = ""


class EntryNotes:
    """What belongs to an entry besides its program and code: hung on it as its payload.

    Attributes:
        guards: in the order of the guard program, for saying in words which one failed.
        hits_seen, seen_at: the entry's hits when last looked at, and at which lookup they had last changed.
    """

    __slots__ = ("graph_operations", "guards", "hits_seen", "seen_at", "state")

    def __init__(self, state: CodeState, guards: list[Guard], graph_operations: int, lookup: int) -> None:
        self.state = state
        self.guards = guards
        self.graph_operations = graph_operations
        self.hits_seen = 0
        self.seen_at = lookup


class Handle(_C.Handle):
    """Options, entries, limits and counters of one `compile()` or `capture()`."""

    def __init__(self, options: CompileOptions, compiler: Compiler) -> None:
        super().__init__()
        self.serial = next(_serials)
        self.options = options
        self.compiler = compiler
        #: Lookups that found nothing, by place; what has run so often is warm.
        self.misses: Counter[Place] = Counter()
        #: Hits of entries that are gone, by place.
        self.past_hits: Counter[Place] = Counter()
        self._hits_before: Counter[Place] = Counter()
        self._misses_before: Counter[Place] = Counter()
        self._states: dict[int, dict[Hashable, CodeState]] = {}
        _live.add(self)

    def state(self, code: CodeType, discriminator: Hashable) -> CodeState:
        """What is remembered of a code object, made at first sight."""
        key = id(code)
        states = self._states.get(key)
        if states is None:
            states = self._states[key] = {}
            # The address may be used again; a code object's states go with it.
            weakref.finalize(code, self._states.pop, key, None).atexit = False
        found = states.get(discriminator)
        if found is None:
            found = states[discriminator] = CodeState(code, discriminator)
        return found

    def entries_of(self, state: CodeState) -> list[_C.Entry]:
        """The entries of one code object (and class, for calls of modules)."""
        return [entry for entry in self.entries() if entry.payload.state is state]

    def remove(self, entry: _C.Entry) -> None:
        """Take an entry out and keep its count of hits."""
        self.past_hits[entry.payload.state.place] += entry.hits
        _C.remove_entry(entry)

    def reset(self) -> None:
        """Forget all entries and everything remembered; counters and options stay."""
        for entry in self.entries():
            self.past_hits[entry.payload.state.place] += entry.hits
        self.clear()
        for states in list(self._states.values()):
            for state in states.values():
                code = state.code()
                if code is not None:
                    _C.reset_record(code, self)
        self._states.clear()

    def hits_by_place(self) -> dict[Place, int]:
        """Hits per function, entries that are gone included."""
        found = Counter(self.past_hits)
        for entry in self.entries():
            found[entry.payload.state.place] += entry.hits
        found.subtract(self._hits_before)
        return +found

    def misses_by_place(self) -> dict[Place, int]:
        """Misses per function."""
        found = Counter(self.misses)
        found.subtract(self._misses_before)
        return +found

    def start_counts(self) -> None:
        """Count hits and misses from now on."""
        # The policy goes on with the true numbers: what was warm stays warm.
        self._hits_before.update(self.hits_by_place())
        self._misses_before.update(self.misses_by_place())

    def __del__(self) -> None:
        events.emit(events.HandleEnd(self.serial, "", "", 0, self.hits_by_place(), self.misses_by_place()))


def place_of(code: CodeType) -> Place:
    """The place that a code object belongs to."""
    return (code.co_qualname, code.co_filename, code.co_firstlineno)


def live_handles() -> Iterator[Handle]:
    """All handles of the process, oldest first."""
    return iter(sorted(_live, key=lambda handle: handle.serial))


def handle_of(obj: Any) -> Handle | None:
    """The handle that compiles a compiled function, a compiled module or a capture; None for anything else."""
    handle = getattr(obj, "handle", None) if isinstance(obj, _C.CompiledCallable) else None
    return handle if isinstance(handle, Handle) else None
