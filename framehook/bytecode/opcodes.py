"""Every difference between the bytecodes of CPython 3.11, 3.12 and 3.13, as tables.

Handlers see canonical operations, named as in 3.11 wherever 3.11 has them:

operation                    stack before -> after (top on the right); argval
---------------------------  --------------------------------------------------------------------------
LOAD_FAST                    -> value; variable name. Raises UnboundLocalError when unbound
                             (LOAD_FAST_CHECK is this one)
LOAD_FAST_AND_CLEAR          -> raw slot or NULL, slot becomes unbound (3.12+, inlined comprehensions)
LOAD_FAST / STORE_FAST / DELETE_FAST     of variable_kind "cell" (3.12+, inlined comprehensions): the raw slot
LOAD_CLOSURE                 -> the raw slot of a cell: the cell itself (3.13 spells it LOAD_FAST) but for those
LOAD_CONST, RETURN_VALUE     RETURN_CONST is split into these two
LOAD_GLOBAL                  -> value; name. push_null: -> NULL, value or value, NULL (`NULL_COMES_FIRST`)
LOAD_ATTR                    object -> value; name
LOAD_METHOD                  object -> method, self, or NULL, value / value, NULL (`NULL_COMES_FIRST`)
                             (3.12+: LOAD_ATTR with its low bit set)
LOAD_SUPER_ATTR              super, class, self -> value; push_null: -> as LOAD_METHOD (3.12+)
CALL                         a, b, argument * arg -> result. Whichever of a, b is NULL is no part of the
                             call; if neither is, a is called with b as its first argument. The last
                             len(kwnames) arguments are keywords (KW_NAMES, PRECALL, CALL_KW folded in)
CALL_FUNCTION_EX             a, b, args, [kwargs if arg & 1] -> result; a, b as for CALL (both always there)
COMPARE_OP                   argval "<" ...; 3.13's bool bit is split off as a TO_BOOL of its own
TO_BOOL                      value -> bool (3.13); jumps below may assume nothing about their operand
IS_OP, CONTAINS_OP           argval "is", "is not"; "in", "not in"
BINARY_OP                    argval "+", "+=", ...
POP_JUMP_IF_TRUE, _FALSE, _NONE, _NOT_NONE    direction is of no concern
JUMP                         JUMP_FORWARD, JUMP_BACKWARD, JUMP_BACKWARD_NO_INTERRUPT
JUMP_IF_TRUE_OR_POP, JUMP_IF_FALSE_OR_POP     3.11
FOR_ITER                     iterator -> iterator, value; at the end iterator -> and a jump to target, which
                             lies behind END_FOR (3.12), END_FOR POP_TOP (3.13): those are never reached
FORMAT_VALUE                 argval (conversion "str" "repr" "ascii" or None, has_spec); FORMAT_SIMPLE and
                             FORMAT_WITH_SPEC of 3.13 are this one
CONVERT_VALUE                3.13; argval "str", "repr" or "ascii"
UNARY_POSITIVE, LIST_TO_TUPLE, ASYNC_GEN_WRAP, PREP_RERAISE_STAR     intrinsics in 3.12+
STOPITERATION_ERROR          exception -> what leaves the generator: RuntimeError for StopIteration (3.12+, at
                             the end of each generator; an intrinsic)
CALL_INTRINSIC_1, _2         the other intrinsics; argval is the intrinsic's name
MAKE_FUNCTION                arg: flags (0 on 3.13); SET_FUNCTION_ATTRIBUTE arg: one flag (3.13)
SEND                         3.11: at the end receiver is popped; 3.12+: it stays for END_SEND
CLEANUP_THROW                receiver, sent, exception -> receiver, value of a StopIteration; others are raised (3.12+)

Superinstructions of 3.13 are split. Everything else has one name and meaning in all versions.
Sources: Python/bytecodes.c (3.12, 3.13), Python/ceval.c (3.11), Lib/opcode.py of each.
"""

from __future__ import annotations

import opcode
import sys
from typing import Any, NamedTuple

Version = tuple[int, int]
VERSION: Version = sys.version_info[:2]

# 3.13 turned the two slots below a call's arguments around: [callable, NULL] where it was [NULL, callable].
NULL_COMES_FIRST = VERSION < (3, 13)

# 3.11 runs two instructions for variables as one when their code is warm (STORE_FAST__LOAD_FAST); a variable without
# a value is then reported at the line of the first of the two.
FUSES_LOADS_OF_VARIABLES = VERSION < (3, 12)

# At the end of a receiver SEND leaves it on the stack, for END_SEND to drop.
SEND_KEEPS_RECEIVER = VERSION >= (3, 12)

# A call that the interpreter enters without leaving its loop is looked up in the exception table by the unit before it
# when an exception comes back (3.13: `resume_with_error` goes on at `instr_ptr`, which is the call's own place).  The
# compiler's tables always have an operand there.
CALLS_ARE_HANDLED_BEFORE = VERSION >= (3, 13)


class Row(NamedTuple):
    """A native operation that is presented under another name or needs its argument explained."""

    native: str
    canonical: str
    argument: str  # how `decode` reads the argument
    first: Version
    last: Version


V311, V312, V313 = (3, 11), (3, 12), (3, 13)

# Argument kinds:
#   ""          plain number             const, name, variable   index into the table of that kind
#   forward, backward                    jump by arg units from the next instruction
#   the others  explained where `decode` reads them
ROWS: tuple[Row, ...] = (
    Row("LOAD_CONST", "LOAD_CONST", "const", V311, V313),
    Row("RETURN_CONST", "RETURN_VALUE", "return_const", V312, V313),
    *(
        Row(name, name, "name", V311, V313)
        for name in (
            "LOAD_NAME",
            "STORE_NAME",
            "DELETE_NAME",
            "STORE_GLOBAL",
            "DELETE_GLOBAL",
            "STORE_ATTR",
            "DELETE_ATTR",
            "IMPORT_NAME",
            "IMPORT_FROM",
        )
    ),
    Row("LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_GLOBALS", "name", V312, V313),
    Row("LOAD_GLOBAL", "LOAD_GLOBAL", "global", V311, V313),
    Row("LOAD_ATTR", "LOAD_ATTR", "name", V311, V311),
    Row("LOAD_METHOD", "LOAD_METHOD", "name", V311, V311),
    Row("LOAD_ATTR", "LOAD_ATTR", "attribute", V312, V313),
    Row("LOAD_SUPER_ATTR", "LOAD_SUPER_ATTR", "super_attribute", V312, V313),
    *(
        Row(name, name, "variable", V311, V313)
        for name in (
            "STORE_FAST",
            "DELETE_FAST",
            "MAKE_CELL",
            "LOAD_DEREF",
            "STORE_DEREF",
            "DELETE_DEREF",
        )
    ),
    Row("LOAD_CLOSURE", "LOAD_CLOSURE", "variable", V311, V312),
    Row("LOAD_CLASSDEREF", "LOAD_CLASSDEREF", "variable", V311, V311),
    Row("LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_DEREF", "variable", V312, V313),
    Row("LOAD_FAST", "LOAD_FAST", "variable", V311, V312),
    Row("LOAD_FAST", "LOAD_FAST", "variable_or_cell", V313, V313),
    Row("LOAD_FAST_CHECK", "LOAD_FAST", "variable", V312, V313),
    Row("LOAD_FAST_AND_CLEAR", "LOAD_FAST_AND_CLEAR", "variable", V312, V313),
    Row("LOAD_FAST_LOAD_FAST", "LOAD_FAST LOAD_FAST", "variable_pair", V313, V313),
    Row("STORE_FAST_LOAD_FAST", "STORE_FAST LOAD_FAST", "variable_pair", V313, V313),
    Row("STORE_FAST_STORE_FAST", "STORE_FAST STORE_FAST", "variable_pair", V313, V313),
    Row("PRECALL", "", "fold", V311, V311),
    Row("KW_NAMES", "", "kwnames", V311, V312),
    Row("CALL", "CALL", "call", V311, V313),
    Row("CALL_KW", "CALL", "call_kw", V313, V313),
    Row("COMPARE_OP", "COMPARE_OP", "compare", V311, V313),
    Row("BINARY_OP", "BINARY_OP", "binary", V311, V313),
    Row("IS_OP", "IS_OP", "is", V311, V313),
    Row("CONTAINS_OP", "CONTAINS_OP", "contains", V311, V313),
    *(
        Row(f"POP_JUMP_{way.upper()}_IF_{test}", f"POP_JUMP_IF_{test}", way, V311, V311)
        for way in ("forward", "backward")
        for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    ),
    *(
        Row(f"POP_JUMP_IF_{test}", f"POP_JUMP_IF_{test}", "forward", V312, V313)
        for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    ),
    Row("JUMP_IF_TRUE_OR_POP", "JUMP_IF_TRUE_OR_POP", "forward", V311, V311),
    Row("JUMP_IF_FALSE_OR_POP", "JUMP_IF_FALSE_OR_POP", "forward", V311, V311),
    Row("JUMP_FORWARD", "JUMP", "forward", V311, V313),
    Row("JUMP_BACKWARD", "JUMP", "backward", V311, V313),
    Row("JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "backward", V311, V313),
    Row("FOR_ITER", "FOR_ITER", "forward", V311, V313),
    Row("SEND", "SEND", "forward", V311, V313),
    Row("FORMAT_VALUE", "FORMAT_VALUE", "format", V311, V312),
    Row("FORMAT_SIMPLE", "FORMAT_VALUE", "format_simple", V313, V313),
    Row("FORMAT_WITH_SPEC", "FORMAT_VALUE", "format_with_spec", V313, V313),
    Row("CONVERT_VALUE", "CONVERT_VALUE", "convert", V313, V313),
    Row("CALL_INTRINSIC_1", "CALL_INTRINSIC_1", "intrinsic_1", V312, V313),
    Row("CALL_INTRINSIC_2", "CALL_INTRINSIC_2", "intrinsic_2", V312, V313),
    Row("EXTENDED_ARG", "", "extend", V311, V313),
    Row("CACHE", "", "skip", V311, V313),
)

# Intrinsics with a name of their own, by number; the same in 3.12 and 3.13.
INTRINSICS_1 = {3: "STOPITERATION_ERROR", 4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
INTRINSICS_2 = {1: "PREP_RERAISE_STAR"}

INTRINSIC_NAMES_1: list[str] = list(getattr(opcode, "_intrinsic_1_descs", ()))
INTRINSIC_NAMES_2: list[str] = list(getattr(opcode, "_intrinsic_2_descs", ()))

CONVERSIONS: tuple[str | None, ...] = (None, "str", "repr", "ascii")

# FOR_ITER's native target, in instructions before the canonical one: END_FOR, or END_FOR and POP_TOP.
FOR_ITER_TAIL = {V311: 0, V312: 1, V313: 2}.get(VERSION, 2)

# The comparison's number is kept above these bits; 3.13's bit 4 asks for the result as a bool.
COMPARE_SHIFT = {V311: 0, V312: 4, V313: 5}.get(VERSION, 5)
COMPARE_TO_BOOL = 16 if VERSION >= V313 else 0

# The low bits of COMPARE_OP since 3.12, which specialised forms rely on (compare_masks in Python/compile.c).
COMPARE_MASKS = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12}

OPMAP: dict[str, int] = {name: number for name, number in opcode.opmap.items() if number < 256}
OPNAME: list[str] = [f"<{number}>" for number in range(256)]
for _name, _number in OPMAP.items():
    OPNAME[_number] = _name

ROW_BY_NATIVE: dict[str, Row] = {row.native: row for row in ROWS if row.first <= VERSION <= row.last}

BINARY_SYMBOLS: tuple[str, ...] = tuple(symbol for _, symbol in opcode._nb_ops)  # type: ignore[attr-defined]
COMPARISONS: tuple[str, ...] = tuple(opcode.cmp_op)


def _cache_counts() -> list[int]:
    """Inline cache units behind each opcode; 3.13 keeps them by name, earlier Pythons by number."""
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        return [entries.get(name, 0) for name in OPNAME]
    return list(entries) + [0] * (256 - len(entries))


CACHES: list[int] = _cache_counts()
