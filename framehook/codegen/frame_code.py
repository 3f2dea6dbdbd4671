"""The generated function: graph call, side effects, then the result or the way to the resume function.

    def original_name(slot0, slot1, ..., inputs):
        extras = the tail of inputs             # objects that are needed again
        g0, g1, ... = graph(inputs)
        side effects
        return result                            # whole frame
        -- or, at a graph break --
        locals and stack as they were; the breaking instruction, natively;
        return make_continuation(resume code, locals..., stack...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from framehook import _C
from framehook.bytecode.assemble import CodeBuilder, Label
from framehook.bytecode.decode import decode
from framehook.bytecode.effects import stack_effect
from framehook.bytecode.instruction import Instruction
from framehook.bytecode.liveness import ENDINGS, live_variables
from framehook.bytecode.opcodes import NULL_COMES_FIRST
from framehook.bytecode.resume import layout_of, make_resume_code, origin
from framehook.bytecode.stack import StackItem
from framehook.codegen.effects import replay
from framehook.codegen.emitter import Emitter, NotRebuildable
from framehook.guards.guard import Check
from framehook.source import Source
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.trace.frame import PreviousException, RaisedAt
from framehook.trace.tracer import original_unit
from framehook.values.base import NULL, ConstantValue, LazyValue, Value
from framehook.values.functions import CellValue
from framehook.values.mappings import DictValue, SetValue
from framehook.values.objects import ObjectValue
from framehook.values.sequences import ListValue
from framehook.values.tensor import TensorValue

INPUTS = ".inputs"


class Plan:
    """What a capture's code needs: the graph's outputs, and objects from outside beyond the graph's inputs."""

    __slots__ = ("capture", "extras", "outputs")

    def __init__(self, capture: Capture, outputs: list[TensorValue], extras: list[Source]) -> None:
        self.capture = capture
        self.outputs = outputs
        self.extras = extras

    def sources(self) -> list[Source]:
        """What the guard program hands over: the graph's inputs, then the extras."""
        return [each.source for each in self.capture.inputs] + self.extras


def plan(capture: Capture) -> Plan:
    """Decide the graph's outputs and close the graph; `capture.graph` and `capture.inputs` are final then.

    Raises:
        Unsupported: when the frame's state cannot be rebuilt.
    """
    try:
        writer = _Writer(capture, None, [], [])
        writer.write()
    except NotRebuildable as error:
        raise Unsupported(_cannot_rebuild(capture, str(error))) from None
    emitter = writer.emitter
    outputs = list(emitter.outputs.values())
    mutated = capture.builder.mutates_inputs()
    _guard_aliasing(capture, mutated, outputs)
    capture.mutates_inputs = bool(mutated)
    graph = capture.builder.finish(outputs)
    capture.operations = capture.builder.count()
    capture.inputs = capture.builder.inputs
    if capture.operations or outputs:
        capture.graph = graph
    return Plan(capture, outputs, list(emitter.extras))


def emit(planned: Plan, run_graph: Any) -> CodeType:
    """Write the code; `run_graph` takes the list of inputs and returns the outputs (None: no graph)."""
    writer = _Writer(planned.capture, run_graph, planned.outputs, planned.extras)
    writer.write()
    return writer.builder.build()


def _cannot_rebuild(capture: Capture, words: str) -> GraphBreak:
    if capture.graph_break is not None:
        stop = capture.graph_break
        return GraphBreak(stop.kind, f"{stop.reason}; {words}", stop.hint, stop.frames)
    return GraphBreak("rebuild", words, "", (capture.frame.where(),))


def _guard_aliasing(capture: Capture, mutated: Sequence[Any], outputs: Sequence[TensorValue]) -> None:
    """Where the graph or the frame changes things, which objects are the same must not change."""
    guards = capture.guards
    if mutated and len(capture.inputs) > 1:
        everything = tuple(each.source for each in capture.inputs)
        guards.add(None, Check.DISJOINT, (tuple(each.source for each in mutated), everything))
        guards.add(None, Check.DISTINCT, everything)
    changed: dict[type, list[Source]] = {}
    for effect in capture.effects:
        if isinstance(effect, (ListValue, DictValue, SetValue, ObjectValue, CellValue)) and effect.source:
            changed.setdefault(effect.python_type(), []).append(effect.source)
    if not changed:
        return
    groups: dict[type, list[Source]] = {}
    for _, value in capture.known.values():
        cls = value.python_type()
        if cls in changed and value.source is not None:
            groups.setdefault(cls, []).append(value.source)
    for sources in groups.values():
        if len(sources) > 1:
            guards.add(None, Check.DISTINCT, tuple(sources))


class _Writer:
    """Writes one generated function."""

    def __init__(
        self, capture: Capture, run_graph: Any, outputs: Sequence[TensorValue], extras: Sequence[Source]
    ) -> None:
        code = capture.record.code
        self.capture = capture
        self.code = code
        self.run_graph = run_graph
        self.slots = code.co_varnames[: len(capture.record.slots)]
        self.builder = CodeBuilder(code, (*self.slots, INPUTS), free=code.co_freevars)
        self.emitter = Emitter(capture, self.builder)
        for value in outputs:
            self.emitter.outputs[id(value)] = value
        for position, source in enumerate(extras):
            self.emitter.extras[source] = position
        self.outputs = outputs
        self.extras = extras

    def write(self) -> None:
        """Emit everything."""
        builder, capture = self.builder, self.capture
        builder.set_line(self.code.co_firstlineno)
        builder.begin()
        self._take_inputs()
        self._run_graph()
        if capture.frame.inst.line is not None:
            builder.set_line(capture.frame.inst.line)
        for effect in capture.effects:
            replay(self.emitter, effect)
        if capture.result is not None:
            self.emitter.emit(capture.result)
            self._change_state()
            builder.return_value()
        else:
            self._break()

    def _take_inputs(self) -> None:
        """Move the extras from the end of the list of inputs into variables."""
        builder = self.builder
        for position in reversed(range(len(self.extras))):
            builder.begin_call(lambda: (builder.load_fast(INPUTS), builder.load_attr("pop"))[1])
            builder.call(0)
            builder.store_fast(f".x{position}")

    def _run_graph(self) -> None:
        builder = self.builder
        if self.run_graph is None:
            builder.delete_fast(INPUTS)
            return
        builder.begin_call(lambda: builder.load_const(self.run_graph))
        builder.take_fast(INPUTS)
        builder.call(1)
        if self.outputs:
            builder.unpack_sequence(len(self.outputs))
            for position in range(len(self.outputs)):
                builder.store_fast(f".g{position}")
        else:
            builder.pop_top()

    def _change_state(self) -> None:
        """Make changes of torch's state real."""
        for setter, args in self.capture.state:
            self.emitter.call(setter, *(self.emitter.const(arg) for arg in args))
            self.builder.pop_top()

    # -- at a graph break ------------------------------------------------------------------------------
    def _break(self) -> None:
        frame = self.capture.frame
        inst = frame.inst
        if inst.variable_kind == "cell" or inst.opname in _FRAME_BOUND:
            raise NotRebuildable(f"the instruction {inst.opname} cannot stand in another frame")
        taken = _operands(inst)
        below = frame.stack[: len(frame.stack) - taken]
        operands = frame.stack[len(frame.stack) - taken :]
        point = _BreakPoint(self, inst, below)
        point.stage(operands)
        self._change_state()
        point.run()


class _BreakPoint:
    """The frame's variables and stack in real form, the native instruction, and what follows it."""

    def __init__(self, writer: _Writer, inst: Instruction, below: list[Value]) -> None:
        self.writer = writer
        self.builder = writer.builder
        self.emitter = writer.emitter
        self.frame = writer.capture.frame
        self.inst = inst
        self.items: list[StackItem] = []  # the stack below the operands
        self.names: list[str | None] = []  # where each of its entries is kept
        self.bound: list[str] = []
        self.cells: dict[str, str] = {}
        self.operands: list[str | None] = []
        self._below = below

    def stage(self, operands: list[Value]) -> None:
        """Put everything into variables; hidden ones that hold parts of it are dropped."""
        builder, emitter, frame = self.builder, self.emitter, self.frame
        self._stage_stack()
        for position, value in enumerate(operands):
            self.operands.append(self._stage(f".o{position}", value))
        code = self.writer.code
        live = self._live(code)
        moves: list[tuple[str, str]] = []
        for name, value in frame.locals.items():
            if name not in live and _is_unobservable(value):
                continue
            self.bound.append(name)
            if isinstance(value, LazyValue) and value.source.kind == "local" and value.source.key == name:
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
        for position in range(len(self.writer.extras)):
            builder.delete_fast(f".x{position}")
        for position in range(len(self.writer.outputs)):
            builder.delete_fast(f".g{position}")
        for staged, name in moves:
            builder.take_fast(staged)
            builder.store_fast(name)
        bound = set(self.bound)
        for name in self.writer.slots:
            if name not in bound:
                builder.delete_fast(name)

    def _live(self, code: CodeType) -> frozenset[str]:
        inst = self.inst
        live: frozenset[str] = frozenset()
        for index in _successors(inst):
            live |= live_variables(code, index)
        return live | live_variables(code, inst.index)

    def _stage(self, name: str, value: Value) -> str | None:
        if value is NULL:
            return None
        self.emitter.emit(value)
        self.builder.store_fast(name)
        return name

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
        """Emit the native instruction and the continuations behind it."""
        builder, inst = self.builder, self.inst
        handled = [
            name for name, item in zip(self.names, self.items, strict=True) if item is StackItem.EXC
        ]
        for name in handled:
            assert name is not None
            builder.load_fast(name)
            builder.emit("PUSH_EXC_INFO")
            builder.pop_top()
        depth = len(handled)
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
        if inst.opname not in ENDINGS or inst.opname == "JUMP":
            self._continue(inst.index + 1, results, depth)
        if inst.target >= 0:
            self._jumped(jumped, depth)
        if inst.handler is not None:
            builder.add_region(start, end, failed, depth)
            builder.place(failed)
            self._handle(inst.handler, depth)

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
        return [StackItem.VALUE] * (len(self.operands) + stack_effect(inst, False))

    def _jumped(self, jumped: Label, depth: int) -> None:
        """The continuation at the instruction's jump target."""
        builder, inst = self.builder, self.inst
        count = len(self.operands) + stack_effect(inst, True)
        if inst.opname == "FOR_ITER":
            builder.end_for(jumped)
        else:
            builder.place(jumped)
        self._continue(inst.target, [StackItem.VALUE] * count, depth)

    def _continue(self, index: int, results: list[StackItem], depth: int) -> None:
        """Return the continuation at `index`, with the results that are on the stack now."""
        builder = self.builder
        instructions = decode(self.writer.code).instructions
        if not depth and not self._below and results == [StackItem.VALUE]:
            if instructions[index].opname == "RETURN_VALUE":
                builder.return_value()
                return
        names: list[str | None] = []
        for position, item in enumerate(results):
            names.append(f".r{position}" if item is StackItem.VALUE else None)
        for name in reversed(names):
            if name is not None:
                builder.store_fast(name)
        for _ in range(depth):
            builder.emit("POP_EXCEPT")
        self._return(index, [*self.items, *results], [*self.names, *names])

    def _handle(self, region: Any, depth: int) -> None:
        """Return the continuation in the frame's own handler of an exception of the instruction."""
        builder = self.builder
        builder.store_fast(".raised")
        for _ in range(depth):
            builder.emit("POP_EXCEPT")
        items = self.items[: region.depth]
        names = self.names[: region.depth]
        # Operands that the handler finds on the stack (`with` keeps what it enters below).
        for position in range(region.depth - len(items)):
            raise NotRebuildable(f"a handler keeps operand {position} of the breaking instruction")
        if region.lasti:
            unit = original_unit(self.writer.code, self.inst.index)
            builder.load_const(unit)
            builder.store_fast(".lasti")
            items = [*items, StackItem.LASTI]
            names = [*names, ".lasti"]
        self._return(region.target, [*items, StackItem.VALUE], [*names, ".raised"])

    def _return(self, index: int, items: list[StackItem], names: list[str | None]) -> None:
        builder = self.builder
        code = self.writer.code
        bound = self._bound_after(index)
        resume = make_resume_code(code, index, bound=(*bound, *self.cells), stack=items)
        original, _ = origin(code)
        _C.own_resume_code(original, resume)
        layout = layout_of(resume)
        builder.begin_call(lambda: builder.load_const(_C.make_continuation))
        builder.load_const(_C.CodeRef(resume))
        for kind, key in layout.parameters:
            if kind == "local":
                builder.load_fast(str(key))
            elif kind == "cell":
                builder.load_fast(self.cells[str(key)])
            else:
                name = names[int(key)]
                assert name is not None
                builder.load_fast(name)
        builder.call(len(layout.parameters) + 1)
        builder.return_value()

    def _bound_after(self, index: int) -> Sequence[str]:
        """The variables that are bound when the instruction is done."""
        inst = self.inst
        bound = list(self.bound)
        if inst.opname == "STORE_FAST" and inst.argval not in bound:
            bound.append(inst.argval)
        elif inst.opname == "DELETE_FAST" and inst.argval in bound:
            bound.remove(inst.argval)
        names = set(self.writer.code.co_varnames) | set(self.writer.code.co_cellvars)
        return [name for name in bound if name in names and not name.startswith(".s")]


#: Instructions whose meaning is tied to the frame that they stand in.
_FRAME_BOUND = frozenset({"YIELD_VALUE", "SEND", "RETURN_GENERATOR", "MAKE_CELL", "COPY_FREE_VARS", "RETURN_VALUE"})

#: Values that instructions take from the stack where that does not follow from their effect on its height.
_TAKEN: dict[str, Callable[[Instruction], int]] = {
    "CALL": lambda inst: inst.arg + 2,
    "CALL_FUNCTION_EX": lambda inst: 3 + (inst.arg & 1),
    "LOAD_ATTR": lambda inst: 1,
    "LOAD_METHOD": lambda inst: 1,
    "STORE_ATTR": lambda inst: 2,
    "DELETE_ATTR": lambda inst: 1,
    "LOAD_SUPER_ATTR": lambda inst: 3,
    "BINARY_OP": lambda inst: 2,
    "COMPARE_OP": lambda inst: 2,
    "IS_OP": lambda inst: 2,
    "CONTAINS_OP": lambda inst: 2,
    "BINARY_SUBSCR": lambda inst: 2,
    "STORE_SUBSCR": lambda inst: 3,
    "DELETE_SUBSCR": lambda inst: 2,
    "BINARY_SLICE": lambda inst: 3,
    "STORE_SLICE": lambda inst: 4,
    "UNARY_NEGATIVE": lambda inst: 1,
    "UNARY_POSITIVE": lambda inst: 1,
    "UNARY_INVERT": lambda inst: 1,
    "UNARY_NOT": lambda inst: 1,
    "TO_BOOL": lambda inst: 1,
    "POP_JUMP_IF_TRUE": lambda inst: 1,
    "POP_JUMP_IF_FALSE": lambda inst: 1,
    "POP_JUMP_IF_NONE": lambda inst: 1,
    "POP_JUMP_IF_NOT_NONE": lambda inst: 1,
    "JUMP_IF_TRUE_OR_POP": lambda inst: 1,
    "JUMP_IF_FALSE_OR_POP": lambda inst: 1,
    "GET_ITER": lambda inst: 1,
    "FOR_ITER": lambda inst: 1,
    "GET_LEN": lambda inst: 1,
    "MATCH_SEQUENCE": lambda inst: 1,
    "MATCH_MAPPING": lambda inst: 1,
    "MATCH_KEYS": lambda inst: 2,
    "MATCH_CLASS": lambda inst: 3,
    "UNPACK_SEQUENCE": lambda inst: 1,
    "UNPACK_EX": lambda inst: 1,
    "FORMAT_VALUE": lambda inst: 1 + bool(inst.argval[1]),
    "CONVERT_VALUE": lambda inst: 1,
    "BUILD_STRING": lambda inst: inst.arg,
    "BUILD_SET": lambda inst: inst.arg,
    "BUILD_MAP": lambda inst: 2 * inst.arg,
    "BUILD_CONST_KEY_MAP": lambda inst: inst.arg + 1,
    "BUILD_LIST": lambda inst: inst.arg,
    "BUILD_TUPLE": lambda inst: inst.arg,
    "BUILD_SLICE": lambda inst: inst.arg,
    "LIST_EXTEND": lambda inst: inst.arg + 1,
    "LIST_APPEND": lambda inst: inst.arg + 1,
    "SET_ADD": lambda inst: inst.arg + 1,
    "SET_UPDATE": lambda inst: inst.arg + 1,
    "MAP_ADD": lambda inst: inst.arg + 2,
    "DICT_UPDATE": lambda inst: inst.arg + 1,
    # CPython words the error with the callable that lies below.
    "DICT_MERGE": lambda inst: inst.arg + 4,
    "LIST_TO_TUPLE": lambda inst: 1,
    "LOAD_GLOBAL": lambda inst: 0,
    "LOAD_FAST": lambda inst: 0,
    "DELETE_FAST": lambda inst: 0,
    "STORE_FAST": lambda inst: 1,
    "LOAD_DEREF": lambda inst: 0,
    "STORE_DEREF": lambda inst: 1,
    "DELETE_DEREF": lambda inst: 0,
    "STORE_GLOBAL": lambda inst: 1,
    "DELETE_GLOBAL": lambda inst: 0,
    "LOAD_BUILD_CLASS": lambda inst: 0,
    "IMPORT_NAME": lambda inst: 2,
    "IMPORT_FROM": lambda inst: 1,
    "RAISE_VARARGS": lambda inst: inst.arg,
    "RERAISE": lambda inst: 1,
    "BEFORE_WITH": lambda inst: 1,
    "CHECK_EXC_MATCH": lambda inst: 2,
    "POP_TOP": lambda inst: 1,
    "GET_AITER": lambda inst: 1,
}


def _operands(inst: Instruction) -> int:
    taken = _TAKEN.get(inst.opname)
    if taken is None:
        raise NotRebuildable(f"the instruction {inst.opname} cannot be left and resumed")
    return taken(inst)


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
