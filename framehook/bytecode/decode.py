"""Code object to instructions, once per code object: the first step of every trace.

Decoded forms are kept by identity, as code objects compare by value, and go when their code goes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from framehook.bytecode.encoding import parse_exception_table
from framehook.bytecode.instruction import Instruction, Positions, Region
from framehook.bytecode.opcodes import (
    BINARY_SYMBOLS,
    CACHES,
    COMPARE_SHIFT,
    COMPARE_TO_BOOL,
    COMPARISONS,
    CONVERSIONS,
    FOR_ITER_TAIL,
    INTRINSIC_NAMES_1,
    INTRINSIC_NAMES_2,
    INTRINSICS_1,
    INTRINSICS_2,
    OPMAP,
    OPNAME,
    ROW_BY_NATIVE,
)


class Decoded:
    """The instructions of one code object, without the code object itself (which it must not keep alive)."""

    __slots__ = ("_code", "instructions", "kinds", "live", "regions", "units", "variables")

    def __init__(self, code: CodeType) -> None:
        self._code = weakref.ref(code)
        self.instructions: list[Instruction] = []
        self.regions: list[Region] = []
        # Instruction index for each code unit (two bytes), and for the end of the code.
        self.units: list[int] = []
        # Live slots before each instruction, once `liveness` was asked.
        self.live: list[int] | None = None
        # Names and kinds ("local", "cell", "free") of the frame's slots; an argument that is a cell is "cell".
        self.variables: tuple[str, ...] = variable_names(code)
        self.kinds: tuple[str, ...] = variable_kinds(code)

    @property
    def code(self) -> CodeType:
        """The code object; it is alive for as long as the caller has it."""
        code = self._code()
        if code is None:
            raise ReferenceError("the code object of this decoded form is gone")
        return code

    def index_of(self, offset: int) -> int:
        """Index of the instruction that byte `offset` (for example `f_lasti`) belongs to."""
        return self.units[offset // 2]


_cache: dict[int, tuple[weakref.ref[CodeType], Decoded]] = {}


def decode(code: CodeType) -> Decoded:
    """Return the decoded form of `code`, the same object each time."""
    found = _cache.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    decoded = _Decoder(code).run()
    key = id(code)

    def forget(reference: weakref.ref[CodeType]) -> None:
        current = _cache.get(key)
        if current is not None and current[0] is reference:
            del _cache[key]

    _cache[key] = (weakref.ref(code, forget), decoded)
    return decoded


def variable_names(code: CodeType) -> tuple[str, ...]:
    """Names of the frame's slots in order: locals, cells that are not arguments, free variables."""
    varnames = code.co_varnames
    return (*varnames, *(name for name in code.co_cellvars if name not in varnames), *code.co_freevars)


def variable_kinds(code: CodeType) -> tuple[str, ...]:
    """ "local", "cell" or "free" for each slot of `variable_names`."""
    cells = code.co_cellvars
    free = len(code.co_freevars)
    names = variable_names(code)
    bound = names[: len(names) - free]
    return (*("cell" if name in cells else "local" for name in bound), *(["free"] * free))


class _Decoder:
    """One pass over the code units; argument kinds are the methods below."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.decoded = Decoded(code)
        self.instructions = self.decoded.instructions
        self.positions: list[Positions] = list(code.co_positions())
        self.jumps: list[tuple[Instruction, int]] = []
        self.kwnames: tuple[str, ...] = ()
        # Set by a kind that continues an encoding begun earlier (EXTENDED_ARG, KW_NAMES, PRECALL).
        self.start = -1

    def run(self) -> Decoded:
        raw = self.code.co_code
        units = self.decoded.units
        instructions = self.instructions
        offset = 0
        size = len(raw)
        extended = 0
        while offset < size:
            number = raw[offset]
            canonical, read, caches = _TABLE[number]
            arg = raw[offset + 1] | extended
            start = self.start
            if start < 0:
                self.start = start = offset
            index = len(instructions)
            units.append(index)
            for _ in range(caches):
                units.append(index)
            if read is _extend:
                extended = arg << 8
            else:
                extended = 0
                if read is None:
                    self.append(canonical, number, arg, None, offset)
                    self.start = -1
                else:
                    read(self, canonical, number, arg, offset)
            offset += 2 + 2 * caches
        units.append(len(instructions))
        self.resolve()
        return self.decoded

    def append(self, opname: str, number: int, arg: int, argval: Any, offset: int) -> Instruction:
        instructions = self.instructions
        instruction = Instruction(
            opname, number, arg, argval, len(instructions), offset, self.start, self.positions[offset >> 1]
        )
        instructions.append(instruction)
        return instruction

    def resolve(self) -> None:
        """Jump targets and exception regions, once every unit has its instruction."""
        units = self.decoded.units
        instructions = self.instructions
        for instruction, unit in self.jumps:
            target = units[unit]
            if instruction.opname == "FOR_ITER":
                target += FOR_ITER_TAIL
            instruction.target = target
            instruction.argval = target
        regions = self.decoded.regions
        for start, end, target, depth, lasti in parse_exception_table(self.code.co_exceptiontable):
            region = Region(units[start], units[end], units[target], depth, lasti)
            regions.append(region)
            for index in range(region.start, region.end):
                instructions[index].handler = region


Read = Callable[[_Decoder, str, int, int, int], None]


def _extend(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    raise AssertionError("handled by the loop")


def _skip(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.start = -1


def _fold(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    pass


def _kwnames(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.kwnames = d.code.co_consts[arg]


def _call(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    instruction = d.append(opname, number, arg, arg, offset)
    instruction.kwnames = d.kwnames
    d.kwnames = ()
    d.start = -1


def _call_kw(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    names = d.instructions[-1]
    # The compiler always loads the names right before; anything else stays what it is.
    if names.opname != "LOAD_CONST" or not isinstance(names.argval, tuple):
        d.append("CALL_KW", number, arg, arg, offset)
        d.start = -1
        return
    d.instructions.pop()
    d.start = names.start
    units = d.decoded.units
    index = len(d.instructions)
    for unit in range(names.start >> 1, len(units)):
        units[unit] = index
    instruction = d.append(opname, number, arg, arg, offset)
    instruction.kwnames = names.argval
    d.start = -1


def _const(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, d.code.co_consts[arg], offset)
    d.start = -1


def _return_const(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append("LOAD_CONST", OPMAP["LOAD_CONST"], arg, d.code.co_consts[arg], offset)
    d.append("RETURN_VALUE", OPMAP["RETURN_VALUE"], 0, None, offset)
    d.start = -1


def _name(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, d.code.co_names[arg], offset)
    d.start = -1


def _global(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, d.code.co_names[arg >> 1], offset).push_null = bool(arg & 1)
    d.start = -1


def _attribute(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append("LOAD_METHOD" if arg & 1 else opname, number, arg, d.code.co_names[arg >> 1], offset)
    d.start = -1


def _super_attribute(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, d.code.co_names[arg >> 2], offset).push_null = bool(arg & 1)
    d.start = -1


def _variable(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    decoded = d.decoded
    d.append(opname, number, arg, decoded.variables[arg], offset).variable_kind = decoded.kinds[arg]
    d.start = -1


def _variable_or_cell(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    if d.decoded.kinds[arg] != "local":
        opname = "LOAD_CLOSURE"
    _variable(d, opname, number, arg, offset)


def _variable_pair(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    start = d.start
    for name, slot in zip(opname.split(), (arg >> 4, arg & 15), strict=True):
        d.start = start
        read = _variable_or_cell if name == "LOAD_FAST" else _variable
        read(d, name, OPMAP[name], slot, offset)


def _compare(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    symbol = COMPARISONS[arg >> COMPARE_SHIFT]
    d.append(opname, number, arg & ~COMPARE_TO_BOOL, symbol, offset)
    if arg & COMPARE_TO_BOOL:
        d.append("TO_BOOL", OPMAP["TO_BOOL"], 0, None, offset)
    d.start = -1


def _binary(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, BINARY_SYMBOLS[arg], offset)
    d.start = -1


def _is(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, "is not" if arg else "is", offset)
    d.start = -1


def _contains(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, "not in" if arg else "in", offset)
    d.start = -1


def _forward(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    instruction = d.append(opname, number, arg, None, offset)
    d.jumps.append((instruction, (offset >> 1) + 1 + CACHES[number] + arg))
    d.start = -1


def _backward(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    instruction = d.append(opname, number, arg, None, offset)
    d.jumps.append((instruction, (offset >> 1) + 1 + CACHES[number] - arg))
    d.start = -1


def _format(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, (CONVERSIONS[arg & 3], bool(arg & 4)), offset)
    d.start = -1


def _format_simple(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, (None, False), offset)
    d.start = -1


def _format_with_spec(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, (None, True), offset)
    d.start = -1


def _convert(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    d.append(opname, number, arg, CONVERSIONS[arg], offset)
    d.start = -1


def _intrinsic_1(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    name = INTRINSIC_NAMES_1[arg]
    d.append(INTRINSICS_1.get(arg, opname), number, arg, name, offset)
    d.start = -1


def _intrinsic_2(d: _Decoder, opname: str, number: int, arg: int, offset: int) -> None:
    name = INTRINSIC_NAMES_2[arg]
    d.append(INTRINSICS_2.get(arg, opname), number, arg, name, offset)
    d.start = -1


_READERS: dict[str, Read | None] = {
    "": None,
    "extend": _extend,
    "skip": _skip,
    "fold": _fold,
    "kwnames": _kwnames,
    "call": _call,
    "call_kw": _call_kw,
    "const": _const,
    "return_const": _return_const,
    "name": _name,
    "global": _global,
    "attribute": _attribute,
    "super_attribute": _super_attribute,
    "variable": _variable,
    "variable_or_cell": _variable_or_cell,
    "variable_pair": _variable_pair,
    "compare": _compare,
    "binary": _binary,
    "is": _is,
    "contains": _contains,
    "forward": _forward,
    "backward": _backward,
    "format": _format,
    "format_simple": _format_simple,
    "format_with_spec": _format_with_spec,
    "convert": _convert,
    "intrinsic_1": _intrinsic_1,
    "intrinsic_2": _intrinsic_2,
}


def _build_table() -> list[tuple[str, Read | None, int]]:
    """For each native opcode: canonical name, how its argument is read, inline cache units."""
    table: list[tuple[str, Read | None, int]] = []
    for number, native in enumerate(OPNAME):
        row = ROW_BY_NATIVE.get(native)
        if row is None:
            table.append((native, None, CACHES[number]))
        else:
            table.append((row.canonical, _READERS[row.argument], CACHES[number]))
    return table


_TABLE = _build_table()
