"""What differs between calls, as the guards show that failed: the next trace does not take it for a constant.

Asked by the engine before a recompile, and after its trace.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from framehook import _C
from framehook.guards import words
from framehook.guards.guard import Check, Guard, GuardSet, TensorSpec
from framehook.guards.lowering import lower
from framehook.handle import CodeState, Handle
from framehook.trace import NumberPolicy

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


def note_sizes(handle: Handle, state: CodeState, record: _C.FrameRecord, entries: Sequence[_C.Entry]) -> None:
    """Note the dimensions of tensors that have another size than entries were compiled for."""
    if handle.options.dynamic is False:
        return
    for entry in entries:
        for guard in getattr(entry.payload, "guards", ()):
            if guard.check is not Check.TENSOR or guard.constant.cls.get() is torch.nn.Parameter:
                continue  # sizes of parameters are never symbols
            program = lower(GuardSet.of([guard]), ())
            found = program.failure(record.slots, record.globals, record.builtins, record.closure)
            if found is not None:
                _note_size(state, guard, found[1])


def _note_size(state: CodeState, guard: Guard, tensor: Any) -> None:
    spec: TensorSpec = guard.constant
    if (
        type(tensor) is not spec.cls.get()
        or tensor.dtype is not spec.dtype
        or tensor.dim() != len(spec.sizes)
    ):
        return
    differing = {
        dim
        for dim, (expected, size) in enumerate(zip(spec.sizes, tensor.shape, strict=True))
        if expected is not None and expected != size
    }
    if differing and guard.source is not None:
        state.sizes.setdefault(guard.source.name(), set()).update(differing)


def policy_for(handle: Handle, state: CodeState) -> NumberPolicy:
    """What the next trace is told of numbers and sizes."""
    compiler, dynamic = handle.compiler, handle.options.dynamic
    takes_symbols = compiler.takes_symbols and dynamic is not False and not state.is_static
    return NumberPolicy(
        frozenset(state.changing),
        compiler.number_form,
        state.sizes if takes_symbols else {},
        takes_symbols and dynamic is True,
        takes_symbols,
    )


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
