"""What one decoded instruction is: small records that the tracer, the assembler and resume functions share."""

from __future__ import annotations

from typing import Any

# Line, end line, column, end column, as code.co_positions() has them.
Positions = tuple[int | None, int | None, int | None, int | None]


class Region:
    """One row of the exception table: instructions `start` up to `end` unwind to `target`.

    `depth` values stay on the stack; with `lasti` the index of the raising instruction is pushed below
    the exception.
    """

    __slots__ = ("depth", "end", "lasti", "start", "target")

    def __init__(self, start: int, end: int, target: int, depth: int, lasti: bool) -> None:
        self.start = start
        self.end = end
        self.target = target
        self.depth = depth
        self.lasti = lasti

    def __repr__(self) -> str:
        return f"Region({self.start}..{self.end} -> {self.target}, depth={self.depth}, lasti={self.lasti})"


class Instruction:
    """One operation under its canonical name (see `opcodes.py` for the names).

    opname         canonical name; what the tracer dispatches on
    opcode         native opcode number of the running Python (of the part, when it was split)
    arg            native argument, EXTENDED_ARG included; for CALL the number of all arguments without self
    argval         what the argument means: a name, a constant, a variable's name, an operator's symbol
    index          position in `Decoded.instructions`
    offset         byte offset of the opcode itself (what `f_lasti` shows while it runs)
    start          byte offset where its encoding begins (EXTENDED_ARG, KW_NAMES, PRECALL come first)
    target         index of the instruction it may jump to, or -1
    line           source line or None
    positions      (line, end line, column, end column)
    handler        innermost exception region that covers it, or None
    kwnames        CALL: names of the trailing keyword arguments
    push_null      LOAD_GLOBAL: pushes a NULL with the value; LOAD_SUPER_ATTR: pushes a method pair
    variable_kind  "local", "cell" or "free" for operations on variables, else ""
    """

    __slots__ = (
        "arg",
        "argval",
        "handler",
        "index",
        "kwnames",
        "line",
        "offset",
        "opcode",
        "opname",
        "positions",
        "push_null",
        "start",
        "target",
        "variable_kind",
    )

    def __init__(
        self,
        opname: str,
        opcode: int,
        arg: int,
        argval: Any,
        index: int,
        offset: int,
        start: int,
        positions: Positions,
    ) -> None:
        self.opname = opname
        self.opcode = opcode
        self.arg = arg
        self.argval = argval
        self.index = index
        self.offset = offset
        self.start = start
        self.target = -1
        self.line = positions[0]
        self.positions = positions
        self.handler: Region | None = None
        self.kwnames: tuple[str, ...] = ()
        self.push_null = False
        self.variable_kind = ""

    def __repr__(self) -> str:
        words = [f"{self.index}: {self.opname}"]
        if self.target >= 0:
            words.append(f"-> {self.target}")
        elif self.argval is not None:
            words.append(repr(self.argval))
        if self.kwnames:
            words.append(f"kwnames={self.kwnames}")
        return f"<{' '.join(words)} line {self.line}>"
