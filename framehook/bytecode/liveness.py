"""Which variables of a frame may still be read from a point on: what a resume function has to be given."""

from __future__ import annotations

from types import CodeType

from framehook.bytecode.decode import Decoded, decode

# Builtins through which a frame sees its own variables; as attributes (`model.eval()`) they are something else.
_BUILTIN_READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint"})

# These lead to frames under any spelling.
_FRAME_NAMES = frozenset(
    {
        "__builtins__",
        "_current_frames",
        "_getframe",
        "builtins",
        "currentframe",
        "f_back",
        "f_locals",
        "inspect",
        "set_trace",
        "tb_frame",
    }
)

_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR"})

_READS = frozenset(
    {
        "LOAD_FAST",
        "LOAD_FAST_AND_CLEAR",
        "DELETE_FAST",  # raises when unbound
        "MAKE_CELL",
        "LOAD_CLOSURE",
        "LOAD_DEREF",
        "LOAD_CLASSDEREF",
        "LOAD_FROM_DICT_OR_DEREF",
        # Stores into a cell use the cell.
        "STORE_DEREF",
        "DELETE_DEREF",
    }
)

# After these the next instruction is not reached.
ENDINGS = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP", "INTERPRETER_EXIT"})


def sees_its_frame(code: CodeType) -> bool:
    """Whether the code may look at its own local variables by another way than loading them."""
    names = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    if not _FRAME_NAMES.isdisjoint(names):
        return True
    if _BUILTIN_READERS.isdisjoint(names):
        return False
    return any(
        instruction.argval in _BUILTIN_READERS
        for instruction in decode(code).instructions
        if isinstance(instruction.argval, str) and instruction.opname not in _ATTRIBUTES
    )


def has_zero_argument_super(code: CodeType) -> bool:
    """Whether `super()` may be called, which reads slot 0 of the frame."""
    return "__class__" in code.co_freevars


def live_variables(code: CodeType, index: int) -> frozenset[str]:
    """Names of locals and cells that may be read when execution goes on at instruction `index`.

    Free variables are not among them: the closure has them. A cell is live while any instruction uses the
    cell, also to store into it. Raises IndexError for an index that is no instruction.
    """
    decoded = decode(code)
    if decoded.live is None:
        decoded.live = _solve(decoded, code)
    mask = decoded.live[index]
    return frozenset(
        name
        for slot, name in enumerate(decoded.variables)
        if mask >> slot & 1 and decoded.kinds[slot] != "free"
    )


def _solve(decoded: Decoded, code: CodeType) -> list[int]:
    """Live slots before each instruction, as bit masks."""
    instructions = decoded.instructions
    slots = {name: slot for slot, name in enumerate(decoded.variables)}
    if sees_its_frame(code):
        return [(1 << len(slots)) - 1] * len(instructions)
    always = 1 if has_zero_argument_super(code) and slots else 0
    live = [always] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for instruction in reversed(instructions):
            index = instruction.index
            opname = instruction.opname
            after = 0 if opname in ENDINGS else live[index + 1]
            if instruction.target >= 0:
                after |= live[instruction.target]
            if instruction.variable_kind:
                bit = 1 << slots[instruction.argval]
                if opname in _READS:
                    after |= bit
                elif opname == "STORE_FAST":
                    after &= ~bit
            # Also what is overwritten here: the exception may come before the store.
            if instruction.handler is not None:
                after |= live[instruction.handler.target]
            after |= always
            if after != live[index]:
                live[index] = after
                changed = True
    return live[:-1]
