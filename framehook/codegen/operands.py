"""How many values an instruction takes from the stack: what a graph break hands to the native instruction."""

from __future__ import annotations

from collections.abc import Callable

from framehook.bytecode.instruction import Instruction

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
    # It looks at what lies on the stack and takes nothing.
    "WITH_EXCEPT_START": lambda inst: 0,
    "POP_TOP": lambda inst: 1,
    "GET_AITER": lambda inst: 1,
}


def operand_count(inst: Instruction) -> int | None:
    """The number of values that `inst` takes; None when it cannot be left and resumed."""
    taken = _TAKEN.get(inst.opname)
    return None if taken is None else taken(inst)
