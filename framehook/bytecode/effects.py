"""What each operation does to the height of the stack, and a check of whole code objects by it."""

from __future__ import annotations

import dis
from types import CodeType

from framehook.bytecode.decode import decode
from framehook.bytecode.instruction import Instruction
from framehook.bytecode.liveness import ENDINGS
from framehook.bytecode.opcodes import OPNAME


def native_stack_effect(opcode: int, arg: int, jumps: bool) -> int:
    """Change of the stack's height by a native operation, when it jumps or when it goes on."""
    if OPNAME[opcode] == "FOR_ITER":
        # Counted to where execution really goes on: behind END_FOR.
        return -1 if jumps else 1
    if OPNAME[opcode] == "RETURN_GENERATOR":
        # The generator is resumed with a value on its stack; 3.11 and 3.12 do not count it.
        return 1
    return dis.stack_effect(opcode, arg if opcode in _HAVE_ARGUMENT else None, jump=jumps)


_HAVE_ARGUMENT = frozenset(
    getattr(dis, "hasarg", None) or range(dis.HAVE_ARGUMENT, 256)  # 3.11 has no `hasarg`
)


def stack_effect(instruction: Instruction, jumps: bool) -> int:
    """As `native_stack_effect`, for a decoded instruction (KW_NAMES, PRECALL and such folded in)."""
    if instruction.opname == "CALL":
        return -instruction.arg - 1
    return native_stack_effect(instruction.opcode, instruction.arg, jumps)


class StackError(ValueError):
    """Code whose stack does not add up; the interpreter would crash on it."""


def verify(code: CodeType) -> list[int]:
    """Check that the stack of `code` adds up on every path; returns its height before each instruction.

    Unreachable instructions have height -1. Raises StackError when two paths meet with different heights,
    when the stack runs empty, grows over `co_stacksize`, or a handler expects more than there is.
    """
    decoded = decode(code)
    instructions = decoded.instructions
    heights = [-1] * (len(instructions) + 1)
    heights[0] = 0
    waiting = [0]

    def reach(index: int, height: int, source: Instruction) -> None:
        if index >= len(instructions):
            raise StackError(f"{source} runs off the end of the code")
        if height < 0:
            raise StackError(f"the stack runs empty at {source}")
        # RETURN_CONST, split by decoding, needs no stack natively.
        if height > code.co_stacksize and OPNAME[code.co_code[source.offset]] != "RETURN_CONST":
            raise StackError(f"stack of {height} at {source}, co_stacksize is {code.co_stacksize}")
        if heights[index] == -1:
            heights[index] = height
            waiting.append(index)
        elif heights[index] != height:
            raise StackError(f"{instructions[index]} is reached with {heights[index]} and {height} values")

    while waiting:
        instruction = instructions[waiting.pop()]
        height = heights[instruction.index]
        handler = instruction.handler
        if handler is not None:
            if handler.depth > height:
                raise StackError(f"{handler} keeps more than the {height} values at {instruction}")
            reach(handler.target, handler.depth + handler.lasti + 1, instruction)
        if instruction.target >= 0:
            reach(instruction.target, height + stack_effect(instruction, True), instruction)
        if instruction.opname not in ENDINGS:
            reach(instruction.index + 1, height + stack_effect(instruction, False), instruction)
    return heights[:-1]
