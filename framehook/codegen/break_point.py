"""A graph break in generated code: the frame's state made real, the native instruction, and the way on.

locals and stack as they were; the breaking instruction, natively;
return make_continuation(resume code, locals..., stack...)

Where the frame waits for frames below it, the call of the frame below stands for the native instruction. That is a
piece of its own: generated code in which the breaking instruction runs, or the call of the next frame. It comes back
with the continuation of its frame, which each frame above joins with its own state.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence, Set
from types import CodeType

from framehook import _C, torch_compat
from framehook.bytecode.assemble import CodeBuilder, Label
from framehook.bytecode.decode import decode
from framehook.bytecode.effects import stack_effect
from framehook.bytecode.instruction import Instruction, Region
from framehook.bytecode.liveness import ENDINGS, live_variables
from framehook.bytecode.opcodes import CALLS_ARE_HANDLED_BEFORE, NULL_COMES_FIRST
from framehook.bytecode.resume import (
    CalleeToResume,
    below,
    layout_of,
    make_resume_code,
    native_parameters,
    note_native,
    origin,
    original_index,
)
from framehook.bytecode.stack import Item, LoopOver, StackItem
from framehook.codegen.emitter import Emitter, NotRebuildable
from framehook.codegen.operands import operand_count
from framehook.source import LocalSource
from framehook.trace.frame import Frame, PreviousException, RaisedAt
from framehook.trace.loops import left_loop
from framehook.trace.tracer import original_unit
from framehook.values.base import NULL, ConstantValue, LazyValue, Value
from framehook.values.mappings import DictIterator
from framehook.values.numbers import comes_from_native_code
from framehook.values.sequences import SequenceIterator
from framehook.values.tensor import TensorValue

#: Positions of loops that were left, by code and instruction of all frames, and the depth on the stack.
LoopPositions = dict[tuple[tuple[int, int], ...], int]

#: The variable that holds the call of the frame below.
CALLEE = ".callee"

#: Instructions whose meaning is tied to the frame that they stand in.
_FRAME_BOUND = frozenset(
    {"YIELD_VALUE", "SEND", "RETURN_GENERATOR", "MAKE_CELL", "COPY_FREE_VARS", "RETURN_VALUE"}
)


class LeftFrame:
    """What is to be known of a frame that is left: its variables, cells, stack and operands, by their values.

    `parts` are values and the variables of the generated code that they are kept in, in this order: local
    variables, cells, the stack below the operands, the operands.
    """

    def __init__(
        self, frames: Sequence[Frame], native: Set[str], is_innermost: bool, loops: LoopPositions
    ) -> None:
        """`frames` are the frame, last, and those that wait for it; `loops` the positions of loops left so far."""
        self.frame = frame = frames[-1]
        self._frames = frames
        self._loops = loops
        self.code = frame.code
        self.inst: Instruction = frame.inst
        # A truth test and what is done with its answer are one step: nothing then depends on the answer's value.
        self.tail = _truth_tail(frame.code, self.inst)
        self.is_innermost = is_innermost
        self.items: list[Item] = []  # the stack below the operands
        self.names: list[str | None] = []  # where each of its entries is kept
        self.bound: list[str] = []
        self.cells: dict[str, str] = {}
        self.operands: list[str | None] = []
        self.native: set[str] = set()  # variables that hold results of native instructions
        self.parts: list[tuple[str, Value]] = []
        #: Whether a call of a frame below stands for the instruction.
        self.has_callee = not is_innermost or frame.callee is not None
        self._was_native = native
        taken = self._operand_count()
        stack = frame.stack
        self._note_variables()
        self._note_stack(stack[: len(stack) - taken])
        for position, value in enumerate(stack[len(stack) - taken :]):
            self.operands.append(None if value is NULL else self._note(f".o{position}", value))

    def _operand_count(self) -> int:
        if self.has_callee:
            return 0  # the call has taken them
        inst = self.inst
        if inst.variable_kind == "cell" or inst.opname in _FRAME_BOUND:
            raise NotRebuildable(f"the instruction {inst.opname} cannot stand in another frame")
        taken = operand_count(inst)
        if taken is None:
            raise NotRebuildable(f"the instruction {inst.opname} cannot be left and resumed")
        return taken

    def _note(self, name: str, value: Value) -> str:
        self.parts.append((name, value))
        if comes_from_native_code(value) or (
            isinstance(value, LazyValue)
            and isinstance(value.source, LocalSource)
            and value.source.key in self._was_native
        ):
            self.native.add(name)
        return name

    def _note_variables(self) -> None:
        frame, code = self.frame, self.code
        live = self._live()
        # The text of a NameError suggests names of all variables, those that are not used any more included.
        is_lookup = self.inst.opname == "LOAD_GLOBAL"
        for name in decode(code).variables:
            value = frame.locals.get(name)
            if value is not None and (is_lookup or name in live or not _is_unobservable(value)):
                self.bound.append(name)
                self._note(name, value)
        for name, cell in frame.cells.items():
            if name not in code.co_freevars:
                self.cells[name] = self._note(f".c{name}", cell)

    def _live(self) -> frozenset[str]:
        inst = self.inst
        live: frozenset[str] = frozenset()
        for index in (*_successors(inst), *(_successors(self.tail) if self.tail else ())):
            live |= live_variables(self.code, index)
        return live | live_variables(self.code, inst.index)

    def _is_left_as_before(self, depth: int, loop: LoopOver) -> bool:
        """Whether a loop was never left at this point but with so many elements done.

        A loop that is left again and again is better continued alike each time, whatever its position.
        """
        place = [
            (id(origin(each.code)[0]), original_index(each.code, each.inst.index)) for each in self._frames
        ]
        return self._loops.setdefault((*place, (depth, 0)), loop.position) == loop.position

    def _note_stack(self, stack: list[Value]) -> None:
        for position, value in enumerate(stack):
            name = f".b{position}"
            if isinstance(value, PreviousException):
                # Once taken back it is only an entry that the unwinding stack drops.
                self.items.append(StackItem.EXC if value.is_active else StackItem.VALUE)
                left = value.exception if value.is_active else ConstantValue(None)
                self.names.append(self._note(f".e{position}", left))
            elif isinstance(value, RaisedAt):
                self.items.append(StackItem.LASTI)
                self.names.append(self._note(name, ConstantValue(value.unit)))
            elif (loop := left_loop(self.frame, value)) is not None and self._is_left_as_before(
                position, loop[0]
            ):
                self.items.append(loop[0])
                self.names.append(self._note(name, value))
                self._note(_over(name), loop[1])
            else:
                self.items.append(StackItem.NULL if value is NULL else StackItem.VALUE)
                self.names.append(None if value is NULL else self._note(name, value))


def stage(emitter: Emitter, left: LeftFrame) -> list[tuple[str, str]]:
    """Put the root frame's parts into hidden variables; returns which of these are to be moved where.

    The frame's own names still hold its arguments, of which the other parts may be made.
    """
    builder = emitter.builder
    moves: list[tuple[str, str]] = []
    for name, value in left.parts:
        if name not in left.bound:
            emitter.emit(value)
            builder.store_fast(name)
        elif not _is_in_place(value, name):
            staged = f".l{name}"
            emitter.emit(value)
            builder.store_fast(staged)
            moves.append((staged, name))
    return moves


def stage_calls(emitter: Emitter, frames: Sequence[LeftFrame], pieces: Sequence[CodeType]) -> None:
    """Make the calls of the frames below the root, and keep the outermost in a variable.

    `frames` are all that are left, `pieces` the generated codes of those below the root.
    """
    builder = emitter.builder
    if frames[-1].frame.callee is not None:
        _make_rest_call(emitter, frames[-1].frame.callee)
        builder.store_fast(CALLEE)
    for left, piece in zip(reversed(frames[1:]), reversed(pieces), strict=True):
        builder.begin_call(lambda: builder.load_const(_C.make_piece_call))
        builder.load_const(piece)
        assert left.frame.function is not None
        emitter.emit(left.frame.function)
        for _, value in left.parts:
            emitter.emit(value)
        if left.has_callee:
            builder.take_fast(CALLEE)
        builder.call(2 + len(left.parts) + left.has_callee)
        builder.store_fast(CALLEE)


def _make_rest_call(emitter: Emitter, frame: Frame) -> None:
    """Make the call of a resumed frame that has not run since."""
    builder = emitter.builder
    builder.begin_call(lambda: builder.load_const(_C.make_rest_call))
    builder.load_const(frame.code)
    values = _resumed_values(frame)
    for value in values:
        emitter.emit(value)
    builder.call(1 + len(values))


def _resumed_values(frame: Frame) -> list[Value]:
    """A resumed frame's function and what its resume function takes."""
    assert frame.function is not None
    values: list[Value] = [frame.function]
    for kind, key in layout_of(frame.code).parameters:
        value = (
            frame.locals[str(key)]
            if kind == "local"
            else frame.cells[str(key)]
            if kind == "cell"
            else _container(frame.stack[int(key)])
            if kind == "over"
            else frame.stack[int(key)]
        )
        if isinstance(value, PreviousException):
            value = value.exception
        elif isinstance(value, RaisedAt):
            value = ConstantValue(value.unit)
        values.append(value)
    return values if frame.callee is None else values + _resumed_values(frame.callee)


def _container(iterator: Value) -> Value:
    """What the iterator of a resumed loop runs over; if it is taken for any object, that is of no use."""
    if isinstance(iterator, SequenceIterator):
        return iterator.sequence
    return iterator.mapping if isinstance(iterator, DictIterator) else ConstantValue(None)


def _over(name: str) -> str:
    """The variable that holds what the iterator in variable `name` runs over."""
    return f".w{name[2:]}"


def make_pieces(frames: Sequence[LeftFrame]) -> tuple[list[CodeType], list[CodeType]]:
    """Write the pieces of the frames below the root; also returns what the outermost of them may go on with."""
    pieces: list[CodeType] = []
    exits: list[CodeType] = []
    for left in reversed(frames[1:]):
        parameters = [name for name, _ in left.parts]
        if left.has_callee:
            parameters.append(CALLEE)
        builder = CodeBuilder(left.code, parameters, free=left.code.co_freevars)
        builder.set_position(left.inst.positions)
        builder.begin(resumed=True)
        point = BreakPoint(builder, left, exits, is_root=False)
        point.run()
        piece = builder.build()
        # What it calls is code of the user's.
        torch_compat.hide_from_peer(piece, is_recursive=False)
        pieces.append(piece)
        exits = point.exits
    return pieces[::-1], exits


class BreakPoint:
    """Writes, into one piece of generated code, what happens where its frame was left."""

    def __init__(
        self, builder: CodeBuilder, left: LeftFrame, exits_below: Sequence[CodeType], *, is_root: bool
    ) -> None:
        self.builder = builder
        self.left = left
        self.code = left.code
        self.inst = left.inst
        self.items, self.names = left.items, left.names
        self.is_root = is_root
        self.exits_below = exits_below
        #: The resume codes that the frame may go on with.
        self.exits: list[CodeType] = []
        self._native_names = set(left.native)

    def run(self) -> None:
        """Emit the native instruction and the continuations behind it.

        Meanwhile the stack is the frame's own (but for NULLs): nothing hangs on variables that the frame does not
        have, where a traceback would keep it and an observer would see it.
        """
        builder, inst = self.builder, self.inst
        depth = 0
        for name, item in zip(self.names, self.items, strict=True):
            if name is None:
                continue
            if isinstance(item, LoopOver):
                depth += 1
                builder.take_fast(_over(name))
            depth += 1
            builder.take_fast(name)
            if item is StackItem.EXC:
                builder.emit("PUSH_EXC_INFO")
                builder.pop_top()
        for name in self.left.operands:
            if name is None:
                builder.emit("PUSH_NULL")
            else:
                builder.take_fast(name)
        builder.set_position(inst.positions)
        jumped = builder.label()
        start = builder.here()
        if self.left.has_callee:
            builder.begin_call(lambda: builder.take_fast(CALLEE))
            builder.call(0)
            end = builder.here()
            if self.left.is_innermost:
                self._continue(inst.index + 1, [StackItem.VALUE])
            else:
                self._join()
        else:
            if CALLS_ARE_HANDLED_BEFORE and inst.handler is not None:
                builder.emit("NOP")
            results = self._native(jumped)
            end = builder.here()
            last = self.left.tail or inst
            if inst.opname not in ENDINGS or inst.opname == "JUMP":
                self._continue(last.index + 1, results)
            if last.target >= 0:
                self._jumped(last, jumped)
        failed = builder.label()
        if inst.handler is not None:
            builder.add_region(start, end, failed, depth)
            builder.place(failed)
            self._handle(inst.handler)

    def _unstack(self, height: int) -> None:
        """Move the stack back into variables; what lies above `height` is dropped."""
        builder = self.builder
        for position in reversed(range(len(self.items))):
            name = self.names[position]
            if name is None:
                continue
            is_kept = position < height
            if self.items[position] is StackItem.EXC:
                if is_kept:
                    self._call(sys.exception)
                    builder.store_fast(name)
                builder.emit("POP_EXCEPT")
            elif is_kept:
                builder.store_fast(name)
            else:
                builder.pop_top()
            if isinstance(self.items[position], LoopOver):
                if is_kept:
                    builder.store_fast(_over(name))
                else:
                    builder.pop_top()

    def _native(self, jumped: Label) -> list[StackItem]:
        """Emit the instruction itself; returns what it leaves on the stack when it goes on."""
        builder, inst = self.builder, self.inst
        pair = [StackItem.NULL, StackItem.VALUE] if NULL_COMES_FIRST else [StackItem.VALUE, StackItem.NULL]
        if inst.opname == "LOAD_METHOD":
            builder.load_attr(inst.argval)
            return pair
        if inst.opname == "LOAD_SUPER_ATTR" and inst.push_null:
            plain = copy.copy(inst)
            plain.arg &= ~1  # the bit that asks for a method and its self
            builder.emit_instruction(plain, lambda index: jumped)
            return pair
        if inst.opname == "LOAD_GLOBAL" and inst.push_null:
            builder.load_global(inst.argval)
            return pair
        if inst.opname == "RERAISE":
            builder.emit("RERAISE", 0)
            return []
        builder.emit_instruction(inst, lambda index: jumped)
        if inst.opname in ENDINGS:
            return []
        count = len(self.left.operands) + stack_effect(inst, False)
        if self.left.tail is not None:
            builder.emit_instruction(self.left.tail, lambda index: jumped)
            count += stack_effect(self.left.tail, False)
        if inst.opname == "DICT_MERGE":
            # What it leaves where it is may be the NULL of a call.
            return [
                StackItem.NULL if name is None else StackItem.VALUE for name in self.left.operands[:count]
            ]
        return [StackItem.VALUE] * count

    def _jumped(self, inst: Instruction, jumped: Label) -> None:
        """The continuation at the jump target of `inst`, the last native instruction."""
        builder = self.builder
        count = len(self.left.operands) + stack_effect(inst, True)
        if inst.opname == "FOR_ITER":
            builder.end_for(jumped)
        else:
            builder.place(jumped)
        self._continue(inst.target, [StackItem.VALUE] * count)

    def _continue(self, index: int, results: list[StackItem]) -> None:
        """Return the continuation at `index`, with the results that are on the stack now."""
        builder = self.builder
        instructions = decode(self.code).instructions
        if self.is_root and not self.items and results == [StackItem.VALUE]:
            if instructions[index].opname == "RETURN_VALUE":
                builder.return_value()
                return
        names: list[str | None] = []
        for position, item in enumerate(results):
            names.append(f".r{position}" if item is StackItem.VALUE else None)
        for name in reversed(names):
            if name is not None:
                builder.store_fast(name)
                self._native_names.add(name)
            elif self.inst.opname == "DICT_MERGE":
                builder.store_fast(".null")  # leaves the variable unbound
        self._unstack(len(self.items))
        self._return(index, [*self.items, *results], [*self.names, *names])

    def _handle(self, region: Region) -> None:
        """Return the continuation in the frame's own handler of an exception of the instruction."""
        builder = self.builder
        builder.store_fast(".raised")
        self._unstack(region.depth)
        items = self.items[: region.depth]
        names = self.names[: region.depth]
        # Operands that the handler finds on the stack (`with` keeps what it enters below).
        for position in range(region.depth - len(items)):
            raise NotRebuildable(f"a handler keeps operand {position} of the breaking instruction")
        if region.lasti:
            unit = original_unit(self.code, self.inst.index)
            builder.load_const(unit)
            builder.store_fast(".lasti")
            items = [*items, StackItem.LASTI]
            names = [*names, ".lasti"]
        # The exception's traceback has this frame, and keeps alive what nobody may rebind any more.
        kept = frozenset(self.left.bound) - live_variables(self.code, region.target)
        self._return(region.target, [*items, StackItem.VALUE], [*names, ".raised"], kept)

    def _return(
        self, index: int, items: list[Item], names: list[str | None], kept: Set[str] = frozenset()
    ) -> None:
        """Return a continuation; the variables in `kept` stay bound in this frame, too."""
        builder = self.builder
        resume = self._resume_code(index, items, None)
        builder.begin_call(lambda: builder.load_const(_C.make_continuation))
        builder.load_const(_C.CodeRef(resume))
        count = self._take_values(resume, names, kept)
        builder.call(1 + count)
        builder.return_value()

    def _join(self) -> None:
        """Return the continuation of this frame and of those below, which is on the stack."""
        builder = self.builder
        if not self.exits_below:
            builder.return_value()  # never reached: the frame below raises
            return
        builder.store_fast(".below")
        self._unstack(len(self.items))
        codes: list[CodeType] = []
        for each in self.exits_below:
            callee = CalleeToResume(each, _C.make_rest_call)
            resume = self._resume_code(self.inst.index, self.items, callee)
            note_native(resume, map(below, native_parameters(each)))
            codes += (each, resume)
        builder.begin_call(lambda: builder.load_const(_C.join_continuation))
        builder.load_const(tuple(map(_C.CodeRef, codes)))
        builder.take_fast(".below")
        count = self._take_values(codes[-1], self.names)
        for resume in codes[1:-1:2]:
            self._note_native(resume, self.names)
        builder.call(2 + count)
        builder.return_value()

    def _resume_code(self, index: int, items: Sequence[Item], callee: CalleeToResume | None) -> CodeType:
        bound = self.left.bound if callee is not None else self._bound_after(index)
        resume = make_resume_code(
            self.code, index, bound=(*bound, *self.left.cells), stack=items, callee=callee
        )
        original, _ = origin(self.code)
        _C.own_resume_code(original, resume)
        self.exits.append(resume)
        return resume

    def _places(self, resume: CodeType, names: Sequence[str | None]) -> list[str]:
        """The variables that hold what a resume function takes of this frame."""
        return [
            str(key)
            if kind == "local"
            else self.left.cells[str(key)]
            if kind == "cell"
            else _over(names[int(key)] or "")
            if kind == "over"
            else names[int(key)] or ""
            for kind, key in layout_of(resume).parameters
        ]

    def _take_values(
        self, resume: CodeType, names: Sequence[str | None], kept: Set[str] = frozenset()
    ) -> int:
        places = self._places(resume, names)
        for place in places:
            if place in kept:
                self.builder.load_fast(place)
            else:
                self.builder.take_fast(place)
        self._note_native(resume, names)
        return len(places)

    def _note_native(self, resume: CodeType, names: Sequence[str | None]) -> None:
        places = self._places(resume, names)
        note_native(
            resume,
            [resume.co_varnames[slot] for slot, place in enumerate(places) if place in self._native_names],
        )

    def _call(self, fn: Callable[[], object]) -> None:
        self.builder.begin_call(lambda: self.builder.load_const(fn))
        self.builder.call(0)

    def _bound_after(self, index: int) -> Sequence[str]:
        """The variables that are bound when the instruction is done."""
        inst = self.inst
        bound = list(self.left.bound)
        if inst.opname == "STORE_FAST" and self.left.operands != [None]:
            if inst.argval not in bound:
                bound.append(inst.argval)
        elif inst.opname in ("STORE_FAST", "DELETE_FAST") and inst.argval in bound:
            bound.remove(inst.argval)
        names = set(self.code.co_varnames) | set(self.code.co_cellvars)
        return [name for name in bound if name in names and not name.startswith(".s")]


def _truth_tail(code: CodeType, inst: Instruction) -> Instruction | None:
    """The instruction behind a TO_BOOL that takes its answer."""
    if inst.opname != "TO_BOOL":
        return None
    behind = decode(code).instructions[inst.index + 1]
    is_taker = behind.opname in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
    return behind if is_taker else None


def _successors(inst: Instruction) -> list[int]:
    found = [] if inst.opname in ENDINGS else [inst.index + 1]
    if inst.target >= 0:
        found.append(inst.target)
    if inst.handler is not None:
        found.append(inst.handler.target)
    return found


def _is_in_place(value: Value, name: str) -> bool:
    """Whether a variable of the root frame still holds the argument of its name."""
    return isinstance(value, LazyValue) and isinstance(value.source, LocalSource) and value.source.key == name


def _is_unobservable(value: Value) -> bool:
    """Whether nobody can tell when a dead variable's object goes: constants and the graph's own tensors."""
    value = value.actual if isinstance(value, LazyValue) and value.actual is not None else value
    return isinstance(value, ConstantValue) or (isinstance(value, TensorValue) and value.source is None)
