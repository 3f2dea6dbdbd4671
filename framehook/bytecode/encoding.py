"""The two packed tables of a code object: source locations and exception regions.

Formats: Objects/locations.md and Objects/exception_handling_notes.txt of CPython 3.11 to 3.13.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framehook.bytecode.instruction import Positions

NO_POSITIONS: Positions = (None, None, None, None)

# Longest run of code units that one location entry covers.
_LONGEST = 8


def encode_exception_table(rows: Iterable[tuple[int, int, int, int, bool]]) -> bytes:
    """Pack rows (start unit, end unit, target unit, depth, lasti), sorted and without overlap."""
    table = bytearray()
    for start, end, target, depth, lasti in rows:
        _append_big_endian(table, start, 128)
        _append_big_endian(table, end - start, 0)
        _append_big_endian(table, target, 0)
        _append_big_endian(table, depth << 1 | lasti, 0)
    return bytes(table)


def _append_big_endian(table: bytearray, value: int, mark: int) -> None:
    chunks = [value & 63]
    value >>= 6
    while value:
        chunks.append(value & 63)
        value >>= 6
    chunks.reverse()
    for i in range(len(chunks) - 1):
        chunks[i] |= 64
    chunks[0] |= mark
    table.extend(chunks)


def encode_locations(runs: Sequence[tuple[int, Positions]], first_line: int) -> bytes:
    """Pack runs (code units, positions), in code order, into a `co_linetable`."""
    table = bytearray()
    line = first_line
    pending_units = 0
    pending: Positions | None = None
    for units, positions in runs:
        if positions == pending:
            pending_units += units
            continue
        if pending is not None:
            line = _append_location(table, pending_units, pending, line)
        pending = positions
        pending_units = units
    if pending is not None:
        _append_location(table, pending_units, pending, line)
    return bytes(table)


def _append_location(table: bytearray, units: int, positions: Positions, line: int) -> int:
    """Append one run, in entries of at most eight units; returns the line that the next run counts from."""
    while units > 0:
        size = min(units, _LONGEST)
        line = _append_entry(table, size, positions, line)
        units -= size
    return line


def _append_entry(table: bytearray, size: int, positions: Positions, line: int) -> int:
    start, end, column, end_column = positions
    if start is None:
        table.append(128 | 15 << 3 | size - 1)
        return line
    delta = start - line
    if column is None or end_column is None or column < 0 or end_column < 0:
        if end is None or end == start:
            table.append(128 | 13 << 3 | size - 1)
            _append_signed(table, delta)
            return start
        # The long form stores columns plus one; zero is "not known".
        table.append(128 | 14 << 3 | size - 1)
        _append_signed(table, delta)
        _append_unsigned(table, end - start)
        _append_unsigned(table, 0)
        _append_unsigned(table, 0)
        return start
    if end is None:
        end = start
    if end == start and delta == 0 and column < 80 and 0 <= end_column - column < 16:
        table.append(128 | column // 8 << 3 | size - 1)
        table.append(column % 8 << 4 | end_column - column)
    elif end == start and 0 <= delta < 3 and column < 128 and end_column < 128:
        table.append(128 | 10 + delta << 3 | size - 1)
        table.append(column)
        table.append(end_column)
    else:
        table.append(128 | 14 << 3 | size - 1)
        _append_signed(table, delta)
        _append_unsigned(table, end - start)
        _append_unsigned(table, column + 1)
        _append_unsigned(table, end_column + 1)
    return start


def _append_unsigned(table: bytearray, value: int) -> None:
    while value >= 64:
        table.append(64 | value & 63)
        value >>= 6
    table.append(value)


def _append_signed(table: bytearray, value: int) -> None:
    _append_unsigned(table, -value << 1 | 1 if value < 0 else value << 1)


def parse_exception_table(table: bytes) -> list[tuple[int, int, int, int, bool]]:
    """Rows (start unit, end unit, target unit, depth, lasti) of a `co_exceptiontable`.

    Format: Objects/exception_handling_notes.txt.
    """
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = (value << 6) | (byte & 63)
        if not byte & 64:
            numbers.append(value)
            value = 0
    rows = []
    for i in range(0, len(numbers), 4):
        start, length, target, depth_lasti = numbers[i : i + 4]
        rows.append((start, start + length, target, depth_lasti >> 1, bool(depth_lasti & 1)))
    return rows
