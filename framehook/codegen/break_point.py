"""A graph break in generated code: the frame's state made real, the native instruction, and the way on.

locals and stack as they were; the breaking instruction, natively;
return make_continuation(resume code, locals..., stack...)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CodeType

from framehook import _C
from framehook.bytecode.assemble import Label
from framehook.bytecode.decode import decode
from framehook.bytecode.effects import stack_effect
from framehook.bytecode.instruction import Instruction, Region
from framehook.bytecode.liveness import ENDINGS, live_variables
from framehook.bytecode.opcodes import NULL_COMES_FIRST
from framehook.bytecode.resume import layout_of, make_resume_code, native_parameters, note_native, origin
from framehook.bytecode.stack import StackItem
from framehook.codegen.emitter import Emitter, NotRebuildable
from framehook.source import LocalSource
from framehook.trace.frame import Frame, PreviousException, RaisedAt
from framehook.trace.tracer import original_unit
from framehook.values.base import NULL, ConstantValue, LazyValue, Value
from framehook.values.tensor import TensorValue


class BreakPoint:
    """The frame's variables and stack in real form, the native instruction, and what follows it."""

    def __init__(self, emitter: Emitter, code: CodeType, frame: Frame, below: list[Value]) -> None:
        self.code = code
        self.builder = emitter.builder
        self.emitter = emitter
        self.frame = frame
        self.inst: Instruction = frame.inst
        # A truth test and what is done with its answer are one step: nothing then depends on the answer's value.
        self.tail = _truth_tail(code, self.inst)
        self.items: list[StackItem] = []  # the stack below the operands
        self.names: list[str | None] = []  # where each of its entries is kept
        self.bound: list[str] = []
        self.cells: dict[str, str] = {}
        self.operands: list[str | None] = []
        self.native: set[str] = set()  # variables that hold results of native instructions
        self._was_native = native_parameters(code)
        self._below = below

    def stage(self, operands: list[Value], slots: Sequence[str], extras: int, outputs: int) -> None:
        """Put everything into variables; hidden ones that hold parts of it are dropped.

        Hidden are the emitter's, the objects from outside and the graph's outputs; `slots` are the arguments.
        """
        builder, emitter, frame = self.builder, self.emitter, self.frame
        self._stage_stack()
        for position, value in enumerate(operands):
            self.operands.append(self._stage(f".o{position}", value))
        code = self.code
        live = self._live(code)
        moves: list[tuple[str, str]] = []
        for name, value in frame.locals.items():
            if name not in live and _is_unobservable(value):
                continue
            self.bound.append(name)
            if self._is_native(value):
                self.native.add(name)
            if self._is_in_place(value, name):
                continue  # it is where it was
            staged = f".l{name}"
            self._stage(staged, value)
            moves.append((staged, name))
        for name, cell in frame.cells.items():
            if name in code.co_freevars:
                continue
            staged = f".c{name}"
            self._stage(staged, cell)
            self.cells[name] = staged
        for name in list(emitter.hidden):
            builder.delete_fast(name)
        for position in range(extras):
            builder.delete_fast(f".x{position}")
        for position in range(outputs):
            builder.delete_fast(f".g{position}")
        for staged, name in moves:
            builder.take_fast(staged)
            builder.store_fast(name)
        bound = set(self.bound)
        for name in slots:
            if name not in bound:
                builder.delete_fast(name)

    def _live(self, code: CodeType) -> frozenset[str]:
        inst = self.inst
        live: frozenset[str] = frozenset()
        for index in (*_successors(inst), *(_successors(self.tail) if self.tail else ())):
            live |= live_variables(code, index)
        return live | live_variables(code, inst.index)

    def _stage(self, name: str, value: Value) -> str | None:
        if value is NULL:
            return None
        self.emitter.emit(value)
        self.builder.store_fast(name)
        if self._is_native(value):
            self.native.add(name)
        return name

    @staticmethod
    def _is_in_place(value: Value, name: str) -> bool:
        """Whether a variable still holds the argument of its name."""
        return (
            isinstance(value, LazyValue)
            and isinstance(value.source, LocalSource)
            and value.source.key == name
        )

    def _is_native(self, value: Value) -> bool:
        return (
            isinstance(value, LazyValue)
            and isinstance(value.source, LocalSource)
            and value.source.key in self._was_native
        )

    def _stage_stack(self) -> None:
        for position, value in enumerate(self._below):
            name = f".b{position}"
            if isinstance(value, PreviousException):
                # Once taken back it is only an entry that the unwinding stack drops.
                self.items.append(StackItem.EXC if value.is_active else StackItem.VALUE)
                left = value.exception if value.is_active else ConstantValue(None)
                self.names.append(self._stage(f".e{position}", left))
            elif isinstance(value, RaisedAt):
                self.items.append(StackItem.LASTI)
                self.builder.load_const(value.unit)
                self.builder.store_fast(name)
                self.names.append(name)
            else:
                self.items.append(StackItem.NULL if value is NULL else StackItem.VALUE)
                self.names.append(self._stage(name, value))

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
            depth += 1
            builder.take_fast(name)
            if item is StackItem.EXC:
                builder.emit("PUSH_EXC_INFO")
                builder.pop_top()
        for name in self.operands:
            if name is None:
                builder.emit("PUSH_NULL")
            else:
                builder.take_fast(name)
        builder.set_position(inst.positions)
        jumped = builder.label()
        start = builder.here()
        results = self._native(jumped)
        end = builder.here()
        failed = builder.label()
        last = self.tail or inst
        if inst.opname not in ENDINGS or inst.opname == "JUMP":
            self._continue(last.index + 1, results)
        if last.target >= 0:
            self._jumped(last, jumped)
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
                    self.emitter.call(sys.exception)
                    builder.store_fast(name)
                builder.emit("POP_EXCEPT")
            elif is_kept:
                builder.store_fast(name)
            else:
                builder.pop_top()

    def _native(self, jumped: Label) -> list[StackItem]:
        """Emit the instruction itself; returns what it leaves on the stack when it goes on."""
        builder, inst = self.builder, self.inst
        pair = [StackItem.NULL, StackItem.VALUE] if NULL_COMES_FIRST else [StackItem.VALUE, StackItem.NULL]
        if inst.opname == "LOAD_METHOD":
            builder.load_attr(inst.argval)
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
        count = len(self.operands) + stack_effect(inst, False)
        if self.tail is not None:
            builder.emit_instruction(self.tail, lambda index: jumped)
            count += stack_effect(self.tail, False)
        if inst.opname == "DICT_MERGE":
            # What it leaves where it is may be the NULL of a call.
            return [StackItem.NULL if name is None else StackItem.VALUE for name in self.operands[:count]]
        return [StackItem.VALUE] * count

    def _jumped(self, inst: Instruction, jumped: Label) -> None:
        """The continuation at the jump target of `inst`, the last native instruction."""
        builder = self.builder
        count = len(self.operands) + stack_effect(inst, True)
        if inst.opname == "FOR_ITER":
            builder.end_for(jumped)
        else:
            builder.place(jumped)
        self._continue(inst.target, [StackItem.VALUE] * count)

    def _continue(self, index: int, results: list[StackItem]) -> None:
        """Return the continuation at `index`, with the results that are on the stack now."""
        builder = self.builder
        instructions = decode(self.code).instructions
        if not self._below and results == [StackItem.VALUE]:
            if instructions[index].opname == "RETURN_VALUE":
                builder.return_value()
                return
        names: list[str | None] = []
        for position, item in enumerate(results):
            names.append(f".r{position}" if item is StackItem.VALUE else None)
        for name in reversed(names):
            if name is not None:
                builder.store_fast(name)
                self.native.add(name)
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
        self._return(region.target, [*items, StackItem.VALUE], [*names, ".raised"])

    def _return(self, index: int, items: list[StackItem], names: list[str | None]) -> None:
        builder = self.builder
        code = self.code
        bound = self._bound_after(index)
        resume = make_resume_code(code, index, bound=(*bound, *self.cells), stack=items)
        original, _ = origin(code)
        _C.own_resume_code(original, resume)
        layout = layout_of(resume)
        native: list[str] = []
        builder.begin_call(lambda: builder.load_const(_C.make_continuation))
        builder.load_const(_C.CodeRef(resume))
        for slot, (kind, key) in enumerate(layout.parameters):
            if kind == "local":
                name = str(key)
            elif kind == "cell":
                name = self.cells[str(key)]
            else:
                name = names[int(key)] or ""
            builder.take_fast(name)
            if name in self.native:
                native.append(resume.co_varnames[slot])
        note_native(resume, native)
        builder.call(len(layout.parameters) + 1)
        builder.return_value()

    def _bound_after(self, index: int) -> Sequence[str]:
        """The variables that are bound when the instruction is done."""
        inst = self.inst
        bound = list(self.bound)
        if inst.opname == "STORE_FAST" and self.operands != [None]:
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


def _is_unobservable(value: Value) -> bool:
    """Whether nobody can tell when a dead variable's object goes: constants and the graph's own tensors."""
    value = value.actual if isinstance(value, LazyValue) and value.actual is not None else value
    return isinstance(value, ConstantValue) or (isinstance(value, TensorValue) and value.source is None)
