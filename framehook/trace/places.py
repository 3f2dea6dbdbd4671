"""Where a trace may stop: the innermost frame that can be left and rebuilt together with all frames above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import CodeType

from framehook.bytecode.assemble import GENERATOR_FLAGS, NEWLOCALS, OPTIMIZED
from framehook.bytecode.liveness import sees_its_frame
from framehook.bytecode.resume import origin, prologue_length
from framehook.trace.frame import Frame

#: Frames of one code object that are rebuilt above each other: every further one is another resume function.
_MOST_OF_ONE_CODE = 8


def chain_of(frame: Frame) -> list[Frame]:
    """The frame and those that wait for it, outermost first."""
    chain = [frame]
    while (caller := chain[-1].caller) is not None:
        chain.append(caller)
    return chain[::-1]


def innermost(frame: Frame, may_break: Callable[[CodeType], bool]) -> Frame:
    """The innermost frame, from `frame` outwards, before whose instruction a trace can stop.

    Every frame above it waits in a call that stands for the whole instruction, so that the frame can be put in the
    callee's place. A frame that sees itself, a generator's, or one whose code is not broken up ends the chain: the
    frame above calls it natively.
    """
    chain = chain_of(frame)
    last = 0
    if len(chain) == 1:
        return frame
    activations: Counter[int] = Counter()
    for place, each in enumerate(chain):
        original, _ = origin(each.code)
        activations[id(original)] += 1
        if place and not (
            each.is_replaceable and _is_divisible(original) and activations[id(original)] <= _MOST_OF_ONE_CODE
        ):
            break
        last = place
    while last and not _can_stop(chain[last], may_break):
        last -= 1
    return chain[last]


def _is_divisible(code: CodeType) -> bool:
    is_function = code.co_flags & (OPTIMIZED | NEWLOCALS) == OPTIMIZED | NEWLOCALS
    return is_function and not code.co_flags & GENERATOR_FLAGS and not sees_its_frame(code)


def _can_stop(frame: Frame, may_break: Callable[[CodeType], bool]) -> bool:
    return frame.callee is not None or (
        frame.inst.index >= prologue_length(frame.code) and may_break(frame.code)
    )
