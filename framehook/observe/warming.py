"""What `warmup` reports, and its progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from framehook.observe.terminal import duration, is_terminal, keeping_random, plural


class WarmedUp(NamedTuple):
    """What compiling ahead did.

    Attributes:
        inputs: how many calls were made.
        compiles: entries that were made.
        hits: calls that found what an earlier one had compiled.
        seconds: of each call.
        graph_breaks, eager_reasons: of all of them.
    """

    inputs: int
    compiles: int
    hits: int
    seconds: tuple[float, ...]
    graph_breaks: tuple[str, ...] = ()
    eager_reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = (
            f"{plural(self.inputs, 'call')} in {duration(sum(self.seconds))}: {self.compiles} compiled, "
            f"{self.hits} found in the cache"
        )
        for word, reasons in (("graph break", self.graph_breaks), ("eager", self.eager_reasons)):
            for reason in dict.fromkeys(reasons):
                text += f"\n    {word}: {reason}"
        return text


def tracked(inputs: Sequence[Any], name: str, is_shown: bool | None) -> Iterator[Any]:
    """The inputs in turn, under a progress bar where standard error is a terminal (or as `is_shown` says)."""
    if not (is_terminal(sys.stderr) if is_shown is None else is_shown):
        yield from inputs
        return
    with keeping_random():
        from rich.console import Console
        from rich.progress import track

    yield from track(inputs, description=f"compiling {name}", console=Console(stderr=True), transient=True)


__all__ = ["WarmedUp", "tracked"]
