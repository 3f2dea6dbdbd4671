"""What differs between calls, as the guards show that failed: the next trace does not take it for a constant.

Asked by the engine before a recompile, and after its trace.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from framehook import _C
from framehook.guards import words
from framehook.guards.guard import Check, Guard, GuardSet
from framehook.guards.lowering import lower
from framehook.handle import CodeState, Handle

_recompiles = logging.getLogger("framehook.recompiles")


def note_numbers(
    handle: Handle, state: CodeState, record: _C.FrameRecord, entries: Sequence[_C.Entry]
) -> None:
    """Note the numbers that entries have as constants and that are others now: they change from call to call."""
    if handle.options.dynamic is False:
        return
    for entry in entries:
        for guard in getattr(entry.payload, "guards", ()):
            for part in guard.constant if guard.check is Check.ALL else (guard,):
                if part.check is not Check.EQUALS or type(part.constant) not in (int, float):
                    continue
                name = part.source.name()
                if name not in state.changing and _is_another_number(part, record):
                    state.changing.add(name)


def _is_another_number(guard: Guard, record: _C.FrameRecord) -> bool:
    program = lower(GuardSet.of([guard]), ())
    found = program.failure(record.slots, record.globals, record.builtins, record.closure)
    return found is not None and type(found[1]) is type(guard.constant)


def tell_constants(state: CodeState, guards: Iterable[Guard]) -> None:
    """Say which numbers stay constants although they change, and which line looks at them."""
    for guard in guards:
        if guard.check is Check.EQUALS and guard.source is not None and guard.source.name() in state.changing:
            _recompiles.info(
                "%s (%s:%d): %s changes from call to call, and stays a constant: its value is looked at in %s",
                *state.place, guard.source.name(), words.line_of(guard.location) or "this function",
            )  # fmt: skip
