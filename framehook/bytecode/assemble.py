"""The assembler: symbolic instructions of one code object to native bytecode of the running Python.

Operations are given by the canonical names of `opcodes.py`. Jumps, cell prologues, exception regions, source
positions, inline caches and the stack size are worked out here, so that users of a builder know no version.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

from framehook.bytecode.constants import HeldConstant, survives_interning
from framehook.bytecode.effects import StackError, native_stack_effect
from framehook.bytecode.encoding import NO_POSITIONS, encode_exception_table, encode_locations
from framehook.bytecode.instruction import Instruction, Positions
from framehook.bytecode.opcodes import (
    BINARY_SYMBOLS,
    CACHES,
    COMPARE_MASKS,
    COMPARE_SHIFT,
    COMPARISONS,
    CONVERSIONS,
    FOR_ITER_TAIL,
    INTRINSICS_1,
    INTRINSICS_2,
    NULL_COMES_FIRST,
    OPMAP,
    V311,
    V312,
    V313,
    VERSION,
)
from framehook.bytecode.stack import StackItem

OPTIMIZED, NEWLOCALS = 1, 2
VARARGS, VARKEYWORDS = 4, 8
GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 32, 128, 256, 512
GENERATOR_FLAGS = GENERATOR | COROUTINE | ITERABLE_COROUTINE | ASYNC_GENERATOR

_EXTENDED_ARG = OPMAP["EXTENDED_ARG"]
_NO_FALL_THROUGH = frozenset(
    OPMAP[name]
    for name in (
        "RETURN_VALUE",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    )
)
_OPPOSITE = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}
_MAKE_CLOSURE = 8  # MAKE_FUNCTION's flag for a closure tuple


class Label:
    """A place in the code: a jump target or a border of an exception region."""

    __slots__ = ("item",)

    def __init__(self) -> None:
        self.item = -1  # number of the item it stands before; -1 until placed


class _Item:
    """One native operation with what is still symbolic about its argument."""

    __slots__ = ("arg", "label", "opcode", "origin", "positions", "variable")

    def __init__(self, opcode: int, arg: int, positions: Positions, origin: Instruction | None) -> None:
        self.opcode = opcode
        self.arg = arg
        self.positions = positions
        self.origin = origin
        self.label: Label | None = None
        self.variable: str | None = None


class _Units(dict[int, int]):
    """Code units of one code object to those of another; code of its own maps to itself.

    Built code looks a unit up through the bound `__getitem__`, which, unlike a dict, is a hashable constant.
    """

    def __missing__(self, unit: int) -> int:
        return unit


class CodeBuilder:
    """Builds one code object that is named, and reports errors, like `template`.

    template     gives file name, name, qualified name, first line, docstring and future flags
    arguments    names of the plain positional parameters, in order; they are slots 0..n-1
    cells        variables that are cells; those among `arguments` too
    free         names of free variables, in the order of the closure
    arguments_are_cells  parameters named in `cells` receive the cell itself, not its contents

    Other local variables appear as they are named. `begin` must come first, `build` last.
    """

    def __init__(
        self,
        template: CodeType,
        arguments: Sequence[str] = (),
        *,
        cells: Sequence[str] = (),
        free: Sequence[str] = (),
        arguments_are_cells: bool = False,
    ) -> None:
        self.template = template
        self.arguments = tuple(arguments)
        self.cells = tuple(cells)
        self.free = tuple(free)
        self.arguments_are_cells = arguments_are_cells
        if len(set(self.arguments)) != len(self.arguments):
            raise ValueError(f"two parameters of one name: {self.arguments}")
        self.locals: dict[str, None] = dict.fromkeys(self.arguments)
        self._not_local = frozenset((*self.cells, *self.free)).difference(self.arguments)
        self._items: list[_Item] = []
        self._positions: Positions = NO_POSITIONS
        self._origin: Instruction | None = None
        docstring = template.co_consts[0] if template.co_consts else None
        # The first constant doubles as docstring.
        self._consts: list[Any] = [docstring if isinstance(docstring, str) else None]
        self._const_index: dict[int, int] = {id(self._consts[0]): 0}
        self._names: dict[str, int] = {}
        self._regions: list[tuple[Label, Label, Label, int, bool]] = []
        self._temporaries = 0
        # Filled by `build`: code unit here -> unit of the decoded code that was re-emitted, and back.
        self.unit_to_origin: dict[int, int] = _Units()
        self.origin_to_unit: dict[int, int] = _Units()
        # Filled by `build`: code unit here -> index of the decoded instruction that was re-emitted.
        self.unit_to_index: dict[int, int] = {}

    # Places, positions, regions

    def label(self) -> Label:
        """A new label, not yet placed."""
        return Label()

    def place(self, label: Label) -> None:
        """Let `label` stand for what is emitted next."""
        if label.item >= 0:
            raise ValueError("a label has one place")
        label.item = len(self._items)

    def here(self) -> Label:
        """A new label placed here."""
        label = Label()
        label.item = len(self._items)
        return label

    def set_position(self, positions: Positions) -> None:
        """Source position of what is emitted from here on: (line, end line, column, end column)."""
        self._positions = positions

    def set_line(self, line: int | None) -> None:
        """Source line of what is emitted from here on, with no columns."""
        self._positions = (line, line, None, None)

    def add_region(self, start: Label, end: Label, handler: Label, depth: int, lasti: bool = False) -> None:
        """Exceptions between two labels unwind to `depth` values, push (lasti,) exception, go to `handler`.

        Of regions that overlap the smaller one applies.
        """
        self._regions.append((start, end, handler, depth, lasti))

    # Emitting

    def begin(self, resumed: bool = False) -> None:
        """Emit the prologue: free variables, cells, RESUME.

        With `resumed`, RESUME is the kind that does not look for signals: an interrupt there would find the
        `with` and `try` blocks of the frame not yet on the stack.
        """
        if self.free:
            self._native("COPY_FREE_VARS", len(self.free))
        for name in self.cells:
            if self.arguments_are_cells and name in self.arguments:
                # CPython takes the slot for a cell once it saw MAKE_CELL for it (locals(), debuggers).
                self._variable("LOAD_FAST", name)
                self._variable("MAKE_CELL", name)
                self._variable("STORE_FAST", name)
            else:
                self._variable("MAKE_CELL", name)
        self._native("RESUME", 2 if resumed else 0)

    def emit(
        self,
        opname: str,
        argval: Any = None,
        *,
        kwnames: tuple[str, ...] = (),
        push_null: bool = False,
    ) -> None:
        """Emit one canonical operation; `argval` means what `Instruction.argval` does (jumps: a Label)."""
        encode = _ENCODERS.get(opname)
        if opname == "CALL":
            self.call(argval, kwnames)
        elif opname == "LOAD_GLOBAL":
            self._native(opname, self._name(argval) << 1 | push_null)
        elif encode is not None:
            encode(self, opname, argval)
        else:
            if opname not in OPMAP:
                raise ValueError(f"Python {VERSION[0]}.{VERSION[1]} has no operation {opname}")
            self._native(opname, argval or 0)

    def emit_instruction(self, instruction: Instruction, label_of: Callable[[int], Label]) -> None:
        """Emit a decoded instruction again, natively and at its own position.

        `label_of` gives the label for an instruction index; variables are found again by name. The caller
        places the labels.
        """
        self._positions = instruction.positions
        self._origin = instruction
        opname = instruction.opname
        native = _NATIVE_AGAIN.get(opname)
        if native is not None:
            native(self, instruction, label_of)
        elif instruction.variable_kind:
            item = self._native_number(instruction.opcode, 0)
            item.variable = self._declared(instruction.argval)
        elif instruction.target >= 0:
            self.emit(opname, label_of(instruction.target))
        elif opname in _ENCODERS or opname == "CALL" or opname == "LOAD_GLOBAL":
            argval = instruction.argval
            self.emit(opname, argval, kwnames=instruction.kwnames, push_null=instruction.push_null)
        else:
            self._native_number(instruction.opcode, instruction.arg)
        self._origin = None

    def emit_checked_load(self, instruction: Instruction) -> None:
        """Emit a decoded LOAD_FAST again so that it raises UnboundLocalError when unbound."""
        self._positions = instruction.positions
        self._origin = instruction
        self.load_fast(instruction.argval, check=True)
        self._origin = None

    def call_again(self, instruction: Instruction) -> None:
        """Call what is on the stack without arguments, in the place of a decoded call."""
        self._positions = instruction.positions
        self._origin = instruction
        self.call(0)
        self._origin = None

    def jump_again(self, instruction: Instruction, label: Label) -> None:
        """Go to `label`, where a decoded instruction stands: the jump counts as that instruction."""
        self._origin = instruction
        self.jump(label)
        self._origin = None

    # Values

    def load_const(self, value: object) -> None:
        """Push this very object."""
        if survives_interning(value):
            self._native("LOAD_CONST", self._const(value))
        else:
            self._native("LOAD_CONST", self._const(HeldConstant(value)))
            self.load_attr("value")

    def load_fast(self, name: str, check: bool = False) -> None:
        """Push a local variable, which must be bound; with `check` UnboundLocalError is raised if not."""
        self._variable("LOAD_FAST_CHECK" if check and VERSION >= V312 else "LOAD_FAST", name)

    def take_fast(self, name: str) -> None:
        """Push a local variable and leave it unbound."""
        if VERSION >= V312:
            self._variable("LOAD_FAST_AND_CLEAR", name)
        else:
            self._variable("LOAD_FAST", name)
            self._variable("DELETE_FAST", name)

    def store_fast(self, name: str) -> None:
        """Pop into a local variable."""
        self._variable("STORE_FAST", name)

    def delete_fast(self, name: str) -> None:
        """Unbind a local variable, which must be bound."""
        self._variable("DELETE_FAST", name)

    def load_closure(self, name: str) -> None:
        """Push the cell of a cell or free variable."""
        self._variable("LOAD_CLOSURE" if VERSION < V313 else "LOAD_FAST", name)

    def load_deref(self, name: str) -> None:
        """Push the contents of a cell or free variable."""
        self._variable("LOAD_DEREF", name)

    def store_deref(self, name: str) -> None:
        """Pop into a cell or free variable."""
        self._variable("STORE_DEREF", name)

    def load_global(self, name: str) -> None:
        """Push a global or builtin."""
        self._native("LOAD_GLOBAL", self._name(name) << 1)

    def load_attr(self, name: str) -> None:
        """Replace an object by its attribute."""
        self._native("LOAD_ATTR", self._name(name) << (VERSION >= V312))

    def store_attr(self, name: str) -> None:
        """value, object -> ; as STORE_ATTR."""
        self._native("STORE_ATTR", self._name(name))

    def binary_subscr(self) -> None:
        """container, key -> item."""
        self._native("BINARY_SUBSCR", 0)

    def build_tuple(self, count: int) -> None:
        """Pop `count` values into a tuple."""
        self._native("BUILD_TUPLE", count)

    def build_list(self, count: int) -> None:
        """Pop `count` values into a list."""
        self._native("BUILD_LIST", count)

    def build_map(self, count: int) -> None:
        """Pop `count` pairs key, value into a dict."""
        self._native("BUILD_MAP", count)

    def unpack_sequence(self, count: int) -> None:
        """Replace a sequence by its items, the first one on top."""
        self._native("UNPACK_SEQUENCE", count)

    def pop_top(self) -> None:
        """Drop the top."""
        self._native("POP_TOP", 0)

    def copy(self, depth: int = 1) -> None:
        """Push again what is `depth` values down (1 is the top)."""
        self._native("COPY", depth)

    def swap(self, depth: int = 2) -> None:
        """Exchange the top with what is `depth` values down."""
        self._native("SWAP", depth)

    def return_value(self) -> None:
        """Return the top."""
        self._native("RETURN_VALUE", 0)

    # Calls

    def begin_call(self, emit_callable: Callable[[], None]) -> None:
        """Push a callable with the NULL that a call wants; arguments and `call` follow."""
        if NULL_COMES_FIRST:
            self._native("PUSH_NULL", 0)
        emit_callable()
        if not NULL_COMES_FIRST:
            self._native("PUSH_NULL", 0)

    def begin_call_on_top(self) -> None:
        """As `begin_call` for a callable that is on top of the stack already."""
        self._native("PUSH_NULL", 0)
        if NULL_COMES_FIRST:
            self._native("SWAP", 2)

    def call(self, count: int, kwnames: tuple[str, ...] = ()) -> None:
        """Call with `count` arguments, of which the last ones are the keywords `kwnames`."""
        if VERSION >= V313:
            if kwnames:
                self._native("LOAD_CONST", self._const(kwnames))
                self._native("CALL_KW", count)
            else:
                self._native("CALL", count)
            return
        if kwnames:
            self._native("KW_NAMES", self._const(kwnames))
        if VERSION == V311:
            self._native("PRECALL", count)
        self._native("CALL", count)

    def call_function_ex(self, has_kwargs: bool = False) -> None:
        """Call what `begin_call` pushed with a tuple (and a dict) from the stack."""
        self._native("CALL_FUNCTION_EX", int(has_kwargs))

    def make_function(self, code: CodeType, closure: Sequence[str] = ()) -> None:
        """Push a function of `code` closing over the named cells, which match its free variables."""
        for name in closure:
            self.load_closure(name)
        if closure:
            self.build_tuple(len(closure))
        self.load_const(code)
        if VERSION >= V313:
            self._native("MAKE_FUNCTION", 0)
            if closure:
                self._native("SET_FUNCTION_ATTRIBUTE", _MAKE_CLOSURE)
        else:
            self._native("MAKE_FUNCTION", _MAKE_CLOSURE if closure else 0)

    # Jumps

    def jump(self, label: Label) -> None:
        """Go to `label`, forward or backward."""
        self._jump("JUMP_FORWARD" if label.item < 0 else "JUMP_BACKWARD", label)

    def pop_jump_if(self, test: str, label: Label) -> None:
        """Pop and go to `label` if it is "TRUE", "FALSE", "NONE" or "NOT_NONE" (any value, not just bool)."""
        if VERSION >= V313 and test in ("TRUE", "FALSE"):
            self._native("TO_BOOL", 0)
        self._conditional(test, label)

    def for_iter(self, end: Label) -> None:
        """iterator -> iterator, item; or, at its end, iterator -> and go to `end`, placed by `end_for`."""
        self._jump("FOR_ITER", end)

    def end_for(self, end: Label) -> None:
        """Place the label of a `for_iter`; the code before must not run into it."""
        if FOR_ITER_TAIL:
            self._native("END_FOR", 0)
        if FOR_ITER_TAIL == 2:
            self._native("POP_TOP", 0)
        self.place(end)

    # The stack as a whole

    def spill_stack(self, stack: Sequence[StackItem]) -> list[str | None]:
        """Move the whole stack, described bottom first, into hidden locals; returns their names.

        NULL entries get no name. Active handlers are left (POP_EXCEPT), so that the frame may then return.
        """
        names: list[str | None] = []
        for item in stack:
            names.append(None if item is StackItem.NULL else f".t{self._temporaries}")
            self._temporaries += 1
        for name, item in zip(reversed(names), reversed(stack), strict=True):
            if name is None:
                # STORE_FAST takes a NULL too and leaves the variable unbound; POP_TOP would crash.
                self.store_fast(".null")
            elif item is StackItem.EXC:
                self.load_const(sys.exception)
                self.begin_call_on_top()
                self.call(0)
                self.store_fast(name)
                self.emit("POP_EXCEPT")
            elif item is StackItem.LASTI:
                self.store_fast(name)
                self.load_const(self.unit_to_origin.__getitem__)
                self.begin_call_on_top()
                self.load_fast(name)
                self.call(1)
                self.store_fast(name)
            else:
                self.store_fast(name)
        return names

    def pack_stack(self, stack: Sequence[StackItem]) -> None:
        """Replace the whole stack by one tuple of what a resume function takes for it (`StackItem`)."""
        if all(item is StackItem.VALUE for item in stack):
            self.build_tuple(len(stack))
            return
        names = [name for name in self.spill_stack(stack) if name is not None]
        for name in names:
            self.take_fast(name)
        self.build_tuple(len(names))

    # Building

    def build(self) -> CodeType:
        """Assemble. Raises ValueError for labels without a place, StackError for a stack that does not add up."""
        variables, varnames = self._layout()
        self._resolve_variables(variables)
        offsets = self._settle_jumps()
        code = bytearray()
        for item in self._items:
            arg = item.arg
            if arg > 0xFF:
                for shift in (24, 16, 8):
                    if arg >> shift:
                        code += bytes((_EXTENDED_ARG, arg >> shift & 0xFF))
            code += bytes((item.opcode, arg & 0xFF))
            code += bytes(2 * CACHES[item.opcode])
        self._record_origins(offsets)
        owners = self._region_of_items()
        lengths = [end - start for start, end in itertools.pairwise(offsets)]
        template = self.template
        flags = template.co_flags & ~(VARARGS | VARKEYWORDS | GENERATOR_FLAGS) | OPTIMIZED | NEWLOCALS
        return template.replace(
            co_argcount=len(self.arguments),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_nlocals=len(varnames),
            co_stacksize=self._stack_size(owners),
            co_flags=flags,
            co_code=bytes(code),
            co_consts=tuple(self._consts),
            co_names=tuple(self._names),
            co_varnames=varnames,
            co_cellvars=self.cells,
            co_freevars=self.free,
            co_linetable=encode_locations(
                [(length, item.positions) for length, item in zip(lengths, self._items, strict=True)],
                template.co_firstlineno,
            ),
            co_exceptiontable=encode_exception_table(self._exception_rows(owners, offsets)),
        )

    def _layout(self) -> tuple[dict[str, int], tuple[str, ...]]:
        """Slot of each variable, and the names of the locals among them."""
        varnames = tuple(self.locals)
        order = (*varnames, *(name for name in self.cells if name not in self.locals), *self.free)
        return {name: slot for slot, name in enumerate(order)}, varnames

    def _resolve_variables(self, variables: Mapping[str, int]) -> None:
        for item in self._items:
            if item.variable is not None:
                item.arg = variables[item.variable]

    def _settle_jumps(self) -> list[int]:
        """Give jumps their distances; returns the unit at which each item begins, and the end.

        A longer distance may need EXTENDED_ARG, which moves other targets: repeat until nothing grows.
        """
        items = self._items
        lengths = [_length(item) for item in items]
        jumps = [(number, item) for number, item in enumerate(items) if item.label is not None]
        while True:
            offsets = [0]
            for length in lengths:
                offsets.append(offsets[-1] + length)
            stable = True
            for number, item in jumps:
                assert item.label is not None
                goal = item.label.item
                if goal < 0:
                    raise ValueError("a jump to a label that was never placed")
                if item.opcode == _FOR_ITER:
                    goal -= FOR_ITER_TAIL
                item.arg = abs(offsets[goal] - offsets[number + 1])
                if _length(item) > lengths[number]:
                    lengths[number] = _length(item)
                    stable = False
            if stable:
                # An argument that shrank again keeps its place: it was counted with the longer form.
                for number, item in jumps:
                    if _length(item) != lengths[number]:
                        raise AssertionError("a jump's encoding shrank")
                return offsets

    def _record_origins(self, offsets: list[int]) -> None:
        for number, item in enumerate(self._items):
            if item.origin is None:
                continue
            origin = item.origin.offset >> 1
            for unit in range(offsets[number], offsets[number + 1]):
                self.unit_to_origin[unit] = origin
                self.unit_to_index[unit] = item.origin.index
            # Where `lasti` points while it runs: the opcode behind its EXTENDED_ARGs.
            opcode_unit = offsets[number + 1] - 1 - CACHES[item.opcode]
            self.origin_to_unit[origin] = opcode_unit

    def _region_of_items(self) -> list[int]:
        """Number of the region that applies to each item, or -1."""
        owners = [-1] * len(self._items)
        sized = []
        for number, (start, end, handler, _, _) in enumerate(self._regions):
            if min(start.item, end.item, handler.item) < 0:
                raise ValueError("an exception region with a label that was never placed")
            sized.append((start.item - end.item, number, start.item, end.item))
        for _, number, first, last in sorted(sized):
            for item in range(first, last):
                owners[item] = number
        return owners

    def _exception_rows(
        self, owners: Sequence[int], offsets: Sequence[int]
    ) -> Iterable[tuple[int, int, int, int, bool]]:
        start = 0
        for item in range(1, len(owners) + 1):
            if item < len(owners) and owners[item] == owners[start]:
                continue
            if owners[start] >= 0:
                _, _, handler, depth, lasti = self._regions[owners[start]]
                yield offsets[start], offsets[item], offsets[handler.item], depth, lasti
            start = item

    def _stack_size(self, owners: Sequence[int]) -> int:
        """The highest stack on any path, handlers included."""
        items = self._items
        count = len(items)
        heights = [-1] * count
        waiting = [(0, 0)]
        highest = 1
        entered: set[int] = set()
        while waiting:
            number, height = waiting.pop()
            while True:
                if number >= count:
                    raise StackError("the code runs off its end")
                if height < 0:
                    raise StackError(f"the stack runs empty before item {number}")
                if heights[number] >= 0:
                    if heights[number] != height:
                        raise StackError(
                            f"item {number} is reached with {heights[number]} and with {height} values"
                        )
                    break
                heights[number] = height
                highest = max(highest, height)
                item = items[number]
                region = owners[number]
                if region >= 0 and region not in entered:
                    entered.add(region)
                    _, _, handler, depth, lasti = self._regions[region]
                    waiting.append((handler.item, depth + lasti + 1))
                if item.label is not None:
                    jumped = height + native_stack_effect(item.opcode, item.arg, True)
                    waiting.append((item.label.item, jumped))
                height += native_stack_effect(item.opcode, item.arg, False)
                if item.opcode in _NO_FALL_THROUGH:
                    break
                number += 1
        return highest

    # Native operations

    def _native(self, name: str, arg: int) -> _Item:
        return self._native_number(OPMAP[name], arg)

    def _native_number(self, opcode: int, arg: int) -> _Item:
        item = _Item(opcode, arg, self._positions, self._origin)
        self._items.append(item)
        return item

    def _variable(self, name: str, variable: str) -> None:
        self._native(name, 0).variable = self._declared(variable)

    def _jump(self, name: str, label: Label) -> None:
        self._native(name, 0).label = label

    def _conditional(self, test: str, label: Label) -> None:
        if label.item < 0:
            way = "FORWARD_" if VERSION == V311 else ""
            self._jump(f"POP_JUMP_{way}IF_{test}", label)
        elif VERSION == V311:
            self._jump(f"POP_JUMP_BACKWARD_IF_{test}", label)
        else:
            # Since 3.12 conditional jumps only go forward.
            past = Label()
            self._jump(f"POP_JUMP_IF_{_OPPOSITE[test]}", past)
            self.jump(label)
            self.place(past)

    def _declared(self, name: str) -> str:
        if name not in self._not_local:
            self.locals.setdefault(name)
        return name

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _const(self, value: object) -> int:
        index = self._const_index.get(id(value))
        if index is None:
            index = self._const_index[id(value)] = len(self._consts)
            self._consts.append(value)
        return index


_FOR_ITER = OPMAP["FOR_ITER"]


def _length(item: _Item) -> int:
    """Code units of an item: EXTENDED_ARGs, opcode, inline caches."""
    arg = item.arg
    return 1 + (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF) + CACHES[item.opcode]


# Canonical operations whose native form needs more than the same name and number.

Encode = Callable[[CodeBuilder, str, Any], object]


def _encode_name(b: CodeBuilder, opname: str, argval: Any) -> None:
    b._native(opname, b._name(argval))


def _encode_method(b: CodeBuilder, opname: str, argval: Any) -> None:
    if VERSION >= V312:
        b._native("LOAD_ATTR", b._name(argval) << 1 | 1)
    else:
        b._native("LOAD_METHOD", b._name(argval))


def _encode_compare(b: CodeBuilder, opname: str, argval: Any) -> None:
    mask = COMPARE_MASKS[argval] if COMPARE_SHIFT else 0
    b._native(opname, COMPARISONS.index(argval) << COMPARE_SHIFT | mask)


def _encode_format(b: CodeBuilder, opname: str, argval: Any) -> None:
    conversion, has_spec = argval
    number = CONVERSIONS.index(conversion)
    if VERSION < V313:
        b._native("FORMAT_VALUE", number | has_spec << 2)
        return
    if number and has_spec:
        raise ValueError("emit CONVERT_VALUE before the specification, then FORMAT_VALUE (None, True)")
    if number:
        b._native("CONVERT_VALUE", number)
    b._native("FORMAT_WITH_SPEC" if has_spec else "FORMAT_SIMPLE", 0)


def _intrinsic(name: str, native: str, number: int) -> Encode:
    def encode(b: CodeBuilder, opname: str, argval: Any) -> None:
        if VERSION >= V312:
            b._native(native, number)
        else:
            b._native(name, 0)

    return encode


_ENCODERS: dict[str, Encode] = {
    "LOAD_CONST": lambda b, _, value: b.load_const(value),
    **dict.fromkeys(
        (
            "LOAD_NAME",
            "STORE_NAME",
            "DELETE_NAME",
            "STORE_GLOBAL",
            "DELETE_GLOBAL",
            "STORE_ATTR",
            "DELETE_ATTR",
            "IMPORT_NAME",
            "IMPORT_FROM",
            "LOAD_FROM_DICT_OR_GLOBALS",
        ),
        _encode_name,
    ),
    "LOAD_ATTR": lambda b, _, name: b.load_attr(name),
    "LOAD_METHOD": _encode_method,
    "LOAD_FAST": lambda b, _, name: b.load_fast(name, check=True),
    "LOAD_CLOSURE": lambda b, _, name: b.load_closure(name),
    **{
        name: (lambda b, opname, variable: b._variable(opname, variable))
        for name in (
            "LOAD_FAST_AND_CLEAR",
            "STORE_FAST",
            "DELETE_FAST",
            "MAKE_CELL",
            "LOAD_DEREF",
            "STORE_DEREF",
            "DELETE_DEREF",
            "LOAD_CLASSDEREF",
            "LOAD_FROM_DICT_OR_DEREF",
        )
    },
    "COMPARE_OP": _encode_compare,
    "BINARY_OP": lambda b, opname, symbol: b._native(opname, BINARY_SYMBOLS.index(symbol)),
    "IS_OP": lambda b, opname, symbol: b._native(opname, int(symbol == "is not")),
    "CONTAINS_OP": lambda b, opname, symbol: b._native(opname, int(symbol == "not in")),
    "FORMAT_VALUE": _encode_format,
    "CONVERT_VALUE": lambda b, opname, name: b._native(opname, CONVERSIONS.index(name)),
    "JUMP": lambda b, _, label: b.jump(label),
    "FOR_ITER": lambda b, _, label: b.for_iter(label),
    "SEND": lambda b, opname, label: b._jump(opname, label),
    "JUMP_IF_TRUE_OR_POP": lambda b, opname, label: b._jump(opname, label),
    "JUMP_IF_FALSE_OR_POP": lambda b, opname, label: b._jump(opname, label),
    # TO_BOOL is an operation of its own on this level.
    **{
        f"POP_JUMP_IF_{test}": (lambda b, opname, label: b._conditional(opname[12:], label))
        for test in _OPPOSITE
    },
    **{name: _intrinsic(name, "CALL_INTRINSIC_1", number) for number, name in INTRINSICS_1.items()},
    **{name: _intrinsic(name, "CALL_INTRINSIC_2", number) for number, name in INTRINSICS_2.items()},
}


# Decoded instructions whose native argument says more than the canonical one.


def _jump_again(b: CodeBuilder, instruction: Instruction, label_of: Callable[[int], Label]) -> None:
    label = label_of(instruction.target)
    if instruction.opcode == OPMAP["JUMP_BACKWARD_NO_INTERRUPT"] and label.item >= 0:
        b._jump("JUMP_BACKWARD_NO_INTERRUPT", label)
    else:
        b.jump(label)


def _super_again(b: CodeBuilder, instruction: Instruction, label_of: Callable[[int], Label]) -> None:
    b._native_number(instruction.opcode, b._name(instruction.argval) << 2 | instruction.arg & 3)


def _plain_again(b: CodeBuilder, instruction: Instruction, label_of: Callable[[int], Label]) -> None:
    b._native_number(instruction.opcode, instruction.arg)


_NATIVE_AGAIN: dict[str, Callable[[CodeBuilder, Instruction, Callable[[int], Label]], None]] = {
    "JUMP": _jump_again,
    "LOAD_SUPER_ATTR": _super_again,
    "COMPARE_OP": _plain_again,
    "CALL_INTRINSIC_1": _plain_again,
    "CALL_INTRINSIC_2": _plain_again,
    "FORMAT_VALUE": _plain_again,
}
