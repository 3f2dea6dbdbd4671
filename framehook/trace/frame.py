"""One activation of a code object inside a trace."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any

from framehook.bytecode.decode import decode
from framehook.bytecode.instruction import Instruction
from framehook.values.base import Value
from framehook.values.functions import CellValue, GlobalsView


class Frame:
    """Symbolic locals, cells, stack and position."""

    __slots__ = (
        "awaited",
        "callee",
        "caller",
        "cells",
        "closure",
        "code",
        "function",
        "globals",
        "handling",
        "index",
        "inst",
        "instructions",
        "is_generator",
        "is_replaceable",
        "locals",
        "loops",
        "result",
        "stack",
        "step",
        "yielded",
    )

    def __init__(self, code: CodeType, globals_view: GlobalsView, caller: Frame | None) -> None:
        self.code = code
        self.instructions: list[Instruction] = decode(code).instructions
        self.index = 0
        self.inst: Instruction = self.instructions[0]
        self.stack: list[Value] = []
        self.locals: dict[str, Value] = {}
        self.cells: dict[str, CellValue] = {}
        self.closure: list[CellValue] = []
        self.globals = globals_view
        self.caller = caller
        self.function: Value | None = None  # None: the root frame
        #: A frame below that was left in its middle: the instruction at `index` stands for the call of it.
        self.callee: Frame | None = None
        #: Number of the instruction that is being executed, counted over all frames of the trace.
        self.step = 0
        #: Step and function of the call whose result is that of the instruction, by which a callee knows itself.
        self.awaited: tuple[int, object] = (0, None)
        #: Whether the caller's instruction is a call of this frame and nothing more.
        self.is_replaceable = False
        #: id -> iterators over containers that nothing has but this frame's stack.
        self.loops: dict[int, Value] = {}
        self.handling: list[Value] = []  # exceptions being handled, innermost last
        self.result: Value | None = None
        self.yielded: Value | None = None
        self.is_generator = False

    def release(self) -> None:
        """Let go of all values, in the frames below as well: each of them refers to the one above."""
        frame: Frame | None = self
        while frame is not None:
            below = frame.callee
            frame.stack.clear()
            frame.locals.clear()
            frame.cells.clear()
            frame.closure.clear()
            frame.handling.clear()
            frame.loops.clear()
            frame.result = frame.yielded = frame.caller = frame.callee = frame.function = None
            frame = below

    def pop(self) -> Value:
        """Pop the top of the stack."""
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Value]:
        """Pop `count` values, the deepest first."""
        if not count:
            return []
        stack = self.stack
        values = stack[-count:]
        del stack[-count:]
        return values

    def push(self, value: Value) -> None:
        """Push a value."""
        self.stack.append(value)

    def where(self) -> tuple[CodeType, int]:
        """The code and the byte offset of the instruction that is being executed."""
        return self.code, self.inst.offset

    def places(self) -> list[tuple[CodeType, int]]:
        """The same of every frame of the trace down to this one, outermost first."""
        return [frame.where() for frame in _upwards(self)][::-1]


def lines(tr: Any) -> tuple[tuple[str, int, str], ...]:
    """File, line and name of every frame of a trace, outermost first; graphs may not keep code objects."""
    found = [
        (frame.code.co_filename, frame.inst.line or frame.code.co_firstlineno, frame.code.co_name)
        for frame in _upwards(tr.frame)
    ]
    return tuple(found[::-1])


def _upwards(frame: Frame | None) -> Iterator[Frame]:
    while frame is not None:
        yield frame
        frame = frame.caller


class PreviousException(Value):
    """What PUSH_EXC_INFO leaves on the stack: the exception state of before, until POP_EXCEPT takes it back."""

    __slots__ = ("exception", "is_active")

    def __init__(self, exception: Value) -> None:
        self.source = None
        self.exception = exception  # the one being handled
        self.is_active = True


class RaisedAt(Value):
    """What a handler with `lasti` finds below the exception: the code unit that raised, in the original code."""

    __slots__ = ("unit",)

    def __init__(self, unit: int) -> None:
        self.source = None
        self.unit = unit

    def python_type(self) -> type:
        return int


class TracebackValue(Value):
    """The traceback of an exception that only the trace has raised; nobody may look at it."""

    __slots__ = ()

    def __init__(self) -> None:
        self.source = None

    def python_type(self) -> type:
        return TracebackType

    def describe(self) -> str:
        return "the traceback of an exception inside the graph"


class StopHere(BaseException):
    """The trace has come to the step where it has to stop; all frames are as they were before that step."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
