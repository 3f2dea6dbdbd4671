"""Resume functions: code that continues a frame at any instruction.

A resume function is the original bytecode and exception table behind a prologue that takes the frame's variables
and stack values as parameters and jumps to the point. It is made once for each (code, index, variables, stack)
and lives as long as the original code; it knows its original only weakly.

Where the frame waits for a frame below it, the point is the call instruction, and the resume function of the frame
below stands in the place of the callee: its function and its parameters are parameters here too, and the prologue
calls it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import CodeType

from framehook.bytecode.assemble import GENERATOR_FLAGS, NEWLOCALS, OPTIMIZED, CodeBuilder, Label
from framehook.bytecode.decode import Decoded, decode
from framehook.bytecode.instruction import Instruction
from framehook.bytecode.liveness import has_zero_argument_super, sees_its_frame
from framehook.bytecode.opcodes import OPMAP, V312, VERSION
from framehook.bytecode.stack import Item, LoopOver, StackItem


class ResumeLayout:
    """The parameters of a resume function, in order: ("local", name), ("cell", name) or ("stack", position).

    ("over", position) is what the iterator of a `LoopOver` runs over.
    With a callee, its function follows, and then the callee's own parameters.
    """

    __slots__ = ("bound", "callee", "parameters", "stack")

    def __init__(
        self,
        parameters: tuple[tuple[str, str | int], ...],
        stack: tuple[Item, ...],
        callee: CodeType | None = None,
    ) -> None:
        self.parameters = parameters
        self.stack = stack
        self.bound = tuple(name for kind, name in parameters if kind in ("local", "cell"))
        self.callee = callee


class CalleeToResume:
    """The frame below: its resume code, and what makes a callable of (code, function, *values)."""

    __slots__ = ("code", "make_call")

    def __init__(self, code: CodeType, make_call: Callable[..., Callable[[], object]]) -> None:
        self.code = code
        self.make_call = make_call


class _Resume:
    """What is known of one resume code object."""

    __slots__ = ("changing", "index", "index_of_unit", "layout", "native", "original")

    def __init__(
        self,
        original: weakref.ref[CodeType],
        index: int,
        layout: ResumeLayout,
        index_of_unit: dict[int, int],
    ) -> None:
        self.original = original
        self.index = index
        self.layout = layout
        self.index_of_unit = index_of_unit
        #: Names of parameters that hold results of native instructions.
        self.native: set[str] = set()
        #: Parameters whose numbers were seen to change.
        self.changing: set[str] = set()


_Key = tuple[int, tuple[str, ...], tuple[Item, ...], int]

# By identity, as code compares by value. An original owns its resume codes.
_owned: dict[int, tuple[weakref.ref[CodeType], dict[_Key, CodeType]]] = {}
_resumes: dict[int, tuple[weakref.ref[CodeType], _Resume]] = {}


def make_resume_code(
    code: CodeType,
    index: int,
    *,
    bound: Sequence[str],
    stack: Sequence[Item],
    callee: CalleeToResume | None = None,
) -> CodeType:
    """Return code that continues `code` at decoded instruction `index`.

    `bound` names the local variables that are bound and the cell variables whose cells exist; `stack` describes
    the stack, bottom first. `layout_of` says which parameters the result takes. A resume function of a resume
    function is made of the original. Equal requests return the same object.

    With a `callee`, the instruction is the one that called it, and `stack` is what lies below its operands.

    Raises ValueError for generators and coroutines, for class and module bodies, for unknown variables, and for
    an index outside the code.
    """
    resume = _resume_of(code)
    if resume is not None:
        code, index = _original(resume), original_index(code, index)
        if index < 0:
            raise ValueError("the prologue of a resume function cannot be resumed")
    if code.co_flags & GENERATOR_FLAGS:
        raise ValueError(f"{code.co_qualname} is a generator or coroutine: it has no resume functions")
    if code.co_flags & (OPTIMIZED | NEWLOCALS) != OPTIMIZED | NEWLOCALS:
        raise ValueError(f"{code.co_qualname} is no function body: it has no resume functions")
    decoded = decode(code)
    if not 0 <= index < len(decoded.instructions):
        raise ValueError(f"{code.co_qualname} has no instruction {index}")
    names = frozenset(bound)
    resumable = {name for name, kind in zip(decoded.variables, decoded.kinds, strict=True) if kind != "free"}
    if not names <= resumable:
        raise ValueError(f"not local variables of {code.co_qualname}: {sorted(names - resumable)}")
    ordered = tuple(name for name in decoded.variables if name in names)
    # The result keeps the callee's code, so that its address stays its own.
    key = (index, ordered, tuple(stack), 0 if callee is None else id(callee.code))
    table = _table_of(code)
    found = table.get(key)
    if found is None:
        found = table[key] = _build(code, decoded, index, ordered, tuple(stack), callee)
    return found


def origin(code: CodeType) -> tuple[CodeType, int]:
    """The original code of a resume function and the index it continues at; any other code: itself and 0."""
    resume = _resume_of(code)
    if resume is None:
        return code, 0
    return _original(resume), resume.index


def is_resume_code(code: CodeType) -> bool:
    """Whether `make_resume_code` made it."""
    return _resume_of(code) is not None


def layout_of(code: CodeType) -> ResumeLayout:
    """The parameters of a resume function. Raises ValueError for other code."""
    resume = _resume_of(code)
    if resume is None:
        raise ValueError(f"{code.co_qualname} is no resume function")
    return resume.layout


def has_original(code: CodeType) -> bool:
    """Whether the code that a resume function continues, and those of the frames below, still exist."""
    resume = _resume_of(code)
    if resume is None:
        return True
    callee = resume.layout.callee
    return resume.original() is not None and (callee is None or has_original(callee))


def prologue_length(code: CodeType) -> int:
    """How many instructions prepare a frame of the code: cells, free variables and RESUME."""
    return _entry_length(decode(code).instructions)


def below(name: str) -> str:
    """The name in a resume function of a parameter of its callee; of "" for the callee's function."""
    return f".>{name}"


def waits_for_callee(code: CodeType) -> bool:
    """Whether the code continues a frame in the middle of a call of another frame that it continues too."""
    resume = _resume_of(code)
    return resume is not None and resume.layout.callee is not None


def entry_index(code: CodeType) -> int:
    """Index, in the resume function, of the first instruction behind its prologue; with a callee, of its call."""
    resume = _resume_of(code)
    if resume is None:
        raise ValueError(f"{code.co_qualname} is no resume function")
    wanted = max(resume.index, _entry_length(decode(_original(resume)).instructions))
    for instruction in decode(code).instructions:
        if resume.index_of_unit.get(instruction.offset >> 1) == wanted:
            return instruction.index
    raise ValueError(f"{code.co_qualname} has lost its instruction {wanted}")


def note_native(code: CodeType, parameters: Iterable[str]) -> None:
    """Note parameters of a resume function that hold what native instructions gave."""
    resume = _resume_of(code)
    if resume is not None:
        resume.native.update(parameters)


def native_parameters(code: CodeType) -> Set[str]:
    """The parameters that hold what native instructions gave: they may differ at every call."""
    resume = _resume_of(code)
    return resume.native if resume is not None else frozenset()


def note_changing(code: CodeType, parameter: str) -> None:
    """Note a parameter whose number changes from call to call."""
    resume = _resume_of(code)
    if resume is not None:
        resume.changing.add(parameter)


def changing_parameters(code: CodeType) -> Set[str]:
    """The parameters whose numbers change from call to call."""
    resume = _resume_of(code)
    return resume.changing if resume is not None else frozenset()


def original_index(code: CodeType, index: int) -> int:
    """For a decoded instruction of a resume function, its index in the original code; -1 in the prologue."""
    resume = _resume_of(code)
    if resume is None:
        return index
    unit = decode(code).instructions[index].offset >> 1
    return resume.index_of_unit.get(unit, -1)


def _resume_of(code: CodeType) -> _Resume | None:
    found = _resumes.get(id(code))
    return found[1] if found is not None and found[0]() is code else None


def _original(resume: _Resume) -> CodeType:
    original = resume.original()
    if original is None:
        raise ReferenceError("the original code of this resume function is gone")
    return original


def _table_of(code: CodeType) -> dict[_Key, CodeType]:
    key = id(code)
    found = _owned.get(key)
    if found is not None and found[0]() is code:
        return found[1]

    def forget(reference: weakref.ref[CodeType]) -> None:
        current = _owned.get(key)
        if current is not None and current[0] is reference:
            del _owned[key]

    table: dict[_Key, CodeType] = {}
    _owned[key] = (weakref.ref(code, forget), table)
    return table


def _register(code: CodeType, resume: _Resume) -> None:
    key = id(code)

    def forget(reference: weakref.ref[CodeType]) -> None:
        current = _resumes.get(key)
        if current is not None and current[0] is reference:
            del _resumes[key]

    _resumes[key] = (weakref.ref(code, forget), resume)


def _build(
    code: CodeType,
    decoded: Decoded,
    index: int,
    bound: tuple[str, ...],
    stack: tuple[Item, ...],
    callee: CalleeToResume | None,
) -> CodeType:
    instructions = decoded.instructions
    kinds = dict(zip(decoded.variables, decoded.kinds, strict=True))
    layout = ResumeLayout(
        tuple(
            [("cell" if kinds[name] == "cell" else "local", name) for name in bound]
            + [("stack", i) for i, item in enumerate(stack) if item is not StackItem.NULL]
            + [("over", i) for i, item in enumerate(stack) if isinstance(item, LoopOver)]
        ),
        stack,
        None if callee is None else callee.code,
    )
    unmoved = _unmoved_count(code, decoded, bound)
    parameters = [
        f".s{name}"
        if kind == "stack"
        else f".v{name}"
        if kind == "over"
        else f".p{name}"
        if position >= unmoved
        else str(name)
        for position, (kind, name) in enumerate(layout.parameters)
    ]
    passed: list[str] = []  # to the callee
    if callee is not None:
        count = callee.code.co_argcount
        passed = [below(name) for name in ("", *callee.code.co_varnames[:count])]
        parameters += passed
    cells = tuple(name for name, kind in kinds.items() if kind == "cell")
    builder = CodeBuilder(code, parameters, cells=cells, free=code.co_freevars, arguments_are_cells=True)
    if unmoved < len(bound):
        # The variables stand in the order of the original, behind the hidden parameters.
        for name in code.co_varnames:
            builder.locals.setdefault(name)
    builder.set_position(instructions[index].positions)
    builder.begin(resumed=True)
    for name in bound[unmoved:]:
        builder.take_fast(f".p{name}")
        builder.store_fast(name)
    for i, item in enumerate(stack):
        if item is StackItem.NULL:
            builder.emit("PUSH_NULL")
        elif item is StackItem.LASTI:
            builder.load_const(builder.origin_to_unit.__getitem__)
            builder.begin_call_on_top()
            builder.take_fast(f".s{i}")
            builder.call(1)
        else:
            builder.take_fast(f".s{i}")
            if item is StackItem.EXC:
                builder.emit("PUSH_EXC_INFO")
                builder.pop_top()
            elif isinstance(item, LoopOver):
                builder.delete_fast(f".v{i}")
    labels = [builder.label() for _ in range(len(instructions) + 1)]
    entry = _entry_length(instructions)
    if callee is None:
        # Where the function begins, cells and RESUME are the prologue's.
        builder.jump(labels[max(index, entry)])
    else:
        _emit_call(builder, decoded, index, labels, callee, passed)
    emit_body(builder, decoded, labels, range(entry, len(instructions)), frozenset(bound))
    for label in labels[:entry]:
        label.item = labels[entry].item
    result = builder.build()
    _register(result, _Resume(weakref.ref(code), index, layout, builder.unit_to_index))
    return result


def _emit_call(
    builder: CodeBuilder,
    decoded: Decoded,
    index: int,
    labels: Sequence[Label],
    callee: CalleeToResume,
    passed: Sequence[str],
) -> None:
    """Call the callee in the place of instruction `index`, and go on behind that."""
    instruction = decoded.instructions[index]
    start = builder.here()
    builder.begin_call(lambda: builder.load_const(callee.make_call))
    builder.load_const(callee.code)
    for name in passed:
        builder.take_fast(name)
    builder.call(1 + len(passed))
    builder.begin_call_on_top()
    builder.call_again(instruction)
    end = builder.here()
    builder.jump_again(decoded.instructions[index + 1], labels[index + 1])
    region = instruction.handler
    if region is not None:
        builder.add_region(start, end, labels[region.target], region.depth, region.lasti)


def emit_body(
    builder: CodeBuilder,
    decoded: Decoded,
    labels: Sequence[Label],
    indexes: range,
    bound: frozenset[str] | None = None,
    before: Mapping[int, Callable[[], None]] | None = None,
) -> None:
    """Emit decoded instructions again with their labels and exception regions.

    `labels` has one label an instruction and one for the end. Unless None, variables outside of `bound` are
    loaded with a check even where the compiler knew that the original code had bound them. `before` emits
    something of its own before an instruction, also when that is reached by a jump.
    """
    for index in indexes:
        instruction = decoded.instructions[index]
        builder.place(labels[index])
        if before is not None and index in before:
            before[index]()
        if (
            VERSION >= V312
            and bound is not None
            and instruction.opcode == _LOAD_FAST
            and instruction.variable_kind == "local"
            and instruction.argval not in bound
        ):
            builder.emit_checked_load(instruction)
        else:
            builder.emit_instruction(instruction, labels.__getitem__)
    builder.place(labels[indexes.stop])
    for region in decoded.regions:
        start, end = max(region.start, indexes.start), min(region.end, indexes.stop)
        if start < end:
            builder.add_region(labels[start], labels[end], labels[region.target], region.depth, region.lasti)


_LOAD_FAST = OPMAP["LOAD_FAST"]


def _entry_length(instructions: Sequence[Instruction]) -> int:
    """How many instructions prepare the frame: COPY_FREE_VARS, MAKE_CELL and the first RESUME."""
    for instruction in instructions:
        if instruction.opname == "RESUME":
            return instruction.index + 1
    return 0


def _unmoved_count(code: CodeType, decoded: Decoded, bound: tuple[str, ...]) -> int:
    """How many variables may stay in the slots of their parameters; the others come under hidden names.

    All may, except where the slots can be seen: `super()` takes slot 0 for the first argument, and locals()
    has the order of the slots.
    """
    in_place = 0
    for name, original in zip(bound, decoded.variables, strict=False):
        if name != original:
            break
        in_place += 1
    if in_place < len(bound) and (sees_its_frame(code) or (has_zero_argument_super(code) and in_place == 0)):
        return in_place
    return len(bound)
