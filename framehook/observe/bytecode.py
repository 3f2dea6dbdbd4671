"""Original and generated code, side by side."""

from __future__ import annotations

import dis
from types import CodeType

_WIDTH = 58


def side_by_side(original: CodeType, generated: CodeType) -> str:
    """Two listings in two columns, with the user's line numbers in both."""
    left, right = _listing(original), _listing(generated)
    rows = [f"{'original':<{_WIDTH}} | generated", f"{'-' * _WIDTH}-+-{'-' * _WIDTH}"]
    for index in range(max(len(left), len(right))):
        first = left[index] if index < len(left) else ""
        second = right[index] if index < len(right) else ""
        rows.append(f"{first:<{_WIDTH}} | {second}".rstrip())
    return "\n".join(rows)


def _listing(code: CodeType) -> list[str]:
    rows = []
    line = None
    for instruction in dis.get_instructions(code):
        position = instruction.positions
        now = position.lineno if position is not None else None
        number = "" if now is None or now == line else str(now)
        line = now
        mark = ">>" if instruction.is_jump_target else "  "
        text = f"{number:>5} {mark} {instruction.offset:>4} {instruction.opname} {_argument(instruction)}".rstrip()
        rows.append(text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…")
    return rows


def _argument(instruction: dis.Instruction) -> str:
    if instruction.arg is None:
        return ""
    # `argrepr` of a constant is its repr, which may be code of the user's, and long.
    if instruction.opname == "LOAD_CONST" and not isinstance(
        instruction.argval, int | float | str | bytes | bool | tuple | CodeType | None
    ):
        return f"<{type(instruction.argval).__name__}>"
    return instruction.argrepr or str(instruction.arg)


__all__ = ["side_by_side"]
