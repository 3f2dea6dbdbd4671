"""Runs a function up to one of its instructions and hands out its variables and stack, for resume tests."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from framehook.bytecode import CodeBuilder, Instruction, StackItem, decode, layout_of, make_resume_code
from framehook.bytecode.effects import stack_effect, verify
from framehook.bytecode.liveness import ENDINGS
from framehook.bytecode.opcodes import NULL_COMES_FIRST
from framehook.bytecode.resume import emit_body

# An entry that is NULL or an object depending on the run (the lower half of LOAD_METHOD's pair).
MAYBE = "maybe"
NULL = object()

Kind = StackItem | str
Shape = tuple[Kind, ...]


def after(instruction: Instruction, shape: Shape) -> Shape:
    """Kinds on the stack after an instruction that went on to the next one."""
    value: Kind = StackItem.VALUE
    name = instruction.opname
    arg = instruction.arg
    if name == "PUSH_NULL":
        return (*shape, StackItem.NULL)
    if name == "LOAD_GLOBAL" and instruction.push_null:
        return (*shape, StackItem.NULL, value) if NULL_COMES_FIRST else (*shape, value, StackItem.NULL)
    if name == "LOAD_METHOD":
        return (*shape[:-1], MAYBE, value) if NULL_COMES_FIRST else (*shape[:-1], value, MAYBE)
    if name == "LOAD_SUPER_ATTR":
        if not instruction.push_null:
            return (*shape[:-3], value)
        return (*shape[:-3], MAYBE, value) if NULL_COMES_FIRST else (*shape[:-3], value, MAYBE)
    if name == "LOAD_FAST_AND_CLEAR":
        return (*shape, MAYBE)
    if name == "COPY":
        copied = shape[-arg]
        return (*shape, value if copied is StackItem.EXC else copied)
    if name == "SWAP":
        swapped = list(shape)
        swapped[-1], swapped[-arg] = swapped[-arg], swapped[-1]
        return tuple(swapped)
    if name == "PUSH_EXC_INFO":
        return (*shape[:-1], StackItem.EXC, value)
    if name == "POP_EXCEPT":
        rest = list(shape[:-1])
        if shape[-1] is not StackItem.EXC:
            # A copy was popped: the handler is over though its saved state is still there.
            last = max(i for i, kind in enumerate(rest) if kind is StackItem.EXC)
            rest[last] = value
        return tuple(rest)
    effect = stack_effect(instruction, False)
    if name in ("CALL", "CALL_FUNCTION_EX"):
        return (*shape[: effect - 1], value)
    if effect < 0:
        return shape[:effect]
    return (*shape, *([value] * effect))


def shapes(code: types.CodeType) -> list[Shape | None]:
    """Kinds on the stack before each instruction, None where it is not reachable."""
    decoded = decode(code)
    found: list[Shape | None] = [None] * len(decoded.instructions)
    waiting: list[tuple[int, Shape]] = [(0, ())]
    while waiting:
        index, shape = waiting.pop()
        known = found[index]
        if known is not None:
            assert known == shape, (decoded.instructions[index], known, shape)
            continue
        found[index] = shape
        instruction = decoded.instructions[index]
        handler = instruction.handler
        # PUSH_EXC_INFO cannot raise; its own region already counts what it is about to push.
        if handler is not None and instruction.opname != "PUSH_EXC_INFO":
            kept: Shape = shape[: handler.depth]
            if handler.lasti:
                kept = (*kept, StackItem.LASTI)
            waiting.append((handler.target, (*kept, StackItem.VALUE)))
        if instruction.target >= 0:
            effect = stack_effect(instruction, True)
            waiting.append((instruction.target, shape[:effect] if effect < 0 else shape))
        if instruction.opname not in ENDINGS:
            waiting.append((index + 1, after(instruction, shape)))
    return found


class Split:
    """What `run_until` found at the instruction."""

    def __init__(self, bound: dict[str, Any], stack: list[StackItem], values: list[Any]) -> None:
        self.bound = bound
        self.stack = stack
        self.values = values


def flatten(function: types.FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Argument values in the order of the frame's slots."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return [bound.arguments[name] for name in code.co_varnames[:count]]


def make_prefix(
    function: types.FunctionType, index: int, tick: Callable[[], bool], shape: Shape, slots: int
) -> types.FunctionType:
    """A function that runs `function` until `tick` says so before instruction `index`.

    Then it returns a tuple: all variables, then all stack entries that may be objects, NULL for what is unbound.
    """
    code = function.__code__
    decoded = decode(code)
    kinds = dict(zip(decoded.variables, decoded.kinds, strict=True))
    cells = tuple(name for name, kind in kinds.items() if kind == "cell")
    builder = CodeBuilder(code, code.co_varnames[:slots], cells=cells, free=code.co_freevars)
    for name in code.co_varnames:
        builder.locals.setdefault(name)
    labels = [builder.label() for _ in range(len(decoded.instructions) + 1)]

    def stop() -> None:
        builder.set_position(decoded.instructions[index].positions)
        go_on = builder.label()
        builder.load_const(tick)
        builder.begin_call_on_top()
        builder.call(0)
        builder.pop_jump_if("FALSE", go_on)
        items = [StackItem.VALUE if kind == MAYBE else kind for kind in shape]
        names = [name for name, kind in kinds.items() if kind != "free"]
        names += [name for name in builder.spill_stack(items) if name is not None]  # type: ignore[arg-type]
        for depth, name in enumerate(names):
            load_or_marker(builder, name, depth)
        builder.build_tuple(len(names))
        builder.return_value()
        builder.place(go_on)

    emit_body(builder, decoded, labels, range(len(decoded.instructions)), before={index: stop})
    built = builder.build()
    verify(built)
    return types.FunctionType(built, function.__globals__, function.__name__, None, function.__closure__)


def load_or_marker(builder: CodeBuilder, name: str, depth: int) -> None:
    handler, done = builder.label(), builder.label()
    start = builder.here()
    builder.load_fast(name, check=True)
    end = builder.here()
    builder.jump(done)
    builder.place(handler)
    builder.emit("PUSH_EXC_INFO")
    builder.pop_top()
    builder.emit("POP_EXCEPT")
    builder.load_const(NULL)
    builder.place(done)
    builder.add_region(start, end, handler, depth)


def run_until(
    function: types.FunctionType,
    index: int,
    visit: int,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    shape: Shape,
) -> Split | None:
    """Run until the `visit`-th time before instruction `index`; None when the function ended before."""
    visits = 0
    stopped = False

    def tick() -> bool:
        nonlocal visits, stopped
        visits += 1
        stopped = visits == visit
        return stopped

    code = function.__code__
    decoded = decode(code)
    flat = flatten(function, args, kwargs)
    prefix = make_prefix(function, index, tick, shape, len(flat))
    result = prefix(*flat)
    if not stopped:
        return None
    values = list(result)
    bound = {}
    for name, kind in zip(decoded.variables, decoded.kinds, strict=True):
        if kind != "free":
            value = values.pop(0)
            if value is not NULL:
                bound[name] = value
    stack = []
    for kind in shape:
        if kind == MAYBE:
            kind = (
                StackItem.NULL
                if values[len([i for i in stack if i is not StackItem.NULL])] is NULL
                else StackItem.VALUE
            )
            if kind is StackItem.NULL:
                values.pop(len([i for i in stack if i is not StackItem.NULL]))
        assert isinstance(kind, StackItem)
        stack.append(kind)
    return Split(bound, stack, values)


def continue_split(function: types.FunctionType, index: int, split: Split) -> Any:
    """Run the resume function for what `run_until` found."""
    code = make_resume_code(function.__code__, index, bound=list(split.bound), stack=split.stack)
    verify(code)
    present = iter(split.values)
    arguments = [
        next(present) if kind == "stack" else split.bound[str(name)]
        for kind, name in layout_of(code).parameters
    ]
    resume = types.FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
    split.bound.clear()
    split.values.clear()
    return resume(*arguments)
