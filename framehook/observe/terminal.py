"""Text for terminals: coloured there, plain in files and pipes.  `rich` is imported when something is shown."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
from collections.abc import Iterator
from typing import Any, TextIO

_PLAIN_WIDTH = 160


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether what is printed there is seen in a terminal."""
    stream = sys.stdout if stream is None else stream
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


@contextlib.contextmanager
def keeping_random() -> Iterator[None]:
    """Give the program the random numbers that it would have had: `rich` draws some, already when it is imported."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


@keeping_random()
def to_text(*parts: Any, is_coloured: bool | None = None, width: int | None = None) -> str:
    """What `rich` makes of texts and tables.

    Args:
        parts: strings with rich's markup, and its tables and panels, one below the other.
        is_coloured: whether with colours; None: where standard output is a terminal (and NO_COLOR is not set).
        width: columns; None: those of the terminal, else 160.
    """
    from rich.console import Console

    if is_coloured is None:
        is_coloured = is_terminal()
    file = io.StringIO()
    if width is None and not (is_coloured and is_terminal()):
        width = _PLAIN_WIDTH
    console = Console(
        file=file,
        force_terminal=is_coloured,
        no_color=None if is_coloured else True,
        color_system="standard" if is_coloured else None,
        width=width,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


@keeping_random()
def escaped(text: str) -> str:
    """A text that has no markup of its own."""
    from rich.markup import escape

    return escape(text)


def short_place(filename: str, line: int) -> str:
    """`train.py:41`."""
    return f"{os.path.basename(filename)}:{line}"


def duration(seconds: float) -> str:
    """A time as people say it: `1.24 s`, `3.1 ms`, `12 µs`."""
    if seconds >= 100:
        return f"{seconds:.0f} s"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.1f} µs"


def plural(count: int, thing: str) -> str:
    """`1 graph`, `2 graphs`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


__all__ = ["duration", "escaped", "is_terminal", "keeping_random", "plural", "short_place", "to_text"]
