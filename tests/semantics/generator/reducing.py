"""Making a failing program smaller: lines, with the blocks below them, are taken out while the failure stays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.semantics.generator.programs import Program


def reduced(program: Program, still_fails: Callable[[Program], bool]) -> Program:
    """The smallest program found for which `still_fails` is true, as it is for `program`."""
    lines = program.text.splitlines()
    is_shorter = True
    while is_shorter:
        is_shorter = False
        index = len(lines) - 1
        while index >= 0:
            for candidate in _without(lines, index):
                attempt = dataclasses.replace(program, text="\n".join(candidate) + "\n")
                if _compiles(attempt) and still_fails(attempt):
                    lines, program, is_shorter = candidate, attempt, True
                    break
            index = min(index, len(lines)) - 1
    return program


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without(lines: list[str], index: int) -> list[list[str]]:
    """`lines` without a line and its block, and without the line alone, its block moved to the left."""
    end = index + 1
    while end < len(lines) and _indent(lines[end]) > _indent(lines[index]):
        end += 1
    found = [lines[:index] + lines[end:]]
    if end > index + 1:
        found.append(lines[:index] + [line[4:] for line in lines[index + 1 : end]] + lines[end:])
        found.append([*lines[: index + 1], " " * (_indent(lines[index]) + 4) + "pass", *lines[end:]])
        if end == index + 2 and lines[index + 1].strip() == "pass":
            found.pop()
    return found


def _compiles(program: Program) -> bool:
    try:
        compile(program.text, "<reduced>", "exec")
    except SyntaxError:
        return False
    return "def main(" in program.text
