"""The table of graph counts (`make graphs`): programs full of breaks, and programs without any, framehook and the peer.

Each program of the test tables is called once by each compiler.  The peer is told that `framehook.graph_break` breaks.
Fewer graphs are better if they hold as many operations: a compiler that leaves a function eager has none.  Programs
where framehook does worse are listed; all of them with `--all`.

    python -m benchmarks.graph_counts [--all] [breaks] [language]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

import framehook
from benchmarks.compilers import FRAMEHOOK, PEER, Compiler
from framehook.testing import CompileCounter
from tests.semantics import test_break_programs, test_language, test_nested_breaks


class Program(NamedTuple):
    """A function, and a call that makes its arguments."""

    name: str
    fn: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]


def break_programs() -> Iterator[Program]:
    """Functions of one tensor that break in many places."""
    for room in (test_break_programs.PROGRAMS, test_nested_breaks.PROGRAMS):
        for name, (fn, _) in room.items():
            yield Program(name, fn, lambda: (torch.arange(9.0).reshape(3, 3) / 4,))


def language_programs() -> Iterator[Program]:
    """Functions that use the language and the standard library."""
    for name, program in test_language.PROGRAMS.items():
        yield Program(name, program.fn, functools.partial(program.variant, 0))


SETS = {"breaks": break_programs, "language": language_programs}


def teach_peer_to_break() -> None:
    """Let `framehook.graph_break` break the peer's graphs, too: natively both do nothing."""

    def graph_break(msg: str = "") -> None:
        import torch

        torch._dynamo.graph_break(msg)

    framehook.graph_break.__code__ = graph_break.__code__


class Counts(NamedTuple):
    """What one call became: graphs, and the operations in all of them."""

    graphs: int
    operations: int

    def is_worse(self, other: Counts) -> bool:
        """Whether the other captured no less in fewer graphs, or more in no more graphs."""
        return (self.graphs > other.graphs and self.operations <= other.operations) or (
            self.operations < other.operations and self.graphs >= other.graphs
        )

    def __str__(self) -> str:
        return f"{self.graphs} ({self.operations})"


def count(compiler: Compiler, program: Program) -> Counts | None:
    """What one call becomes; None where the compiler itself fails."""
    compiler.reset()
    counter = CompileCounter()
    failures = (torch._dynamo.exc.TorchDynamoException, framehook.FramehookError)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            compiler.compile(program.fn, backend=counter)(*program.arguments())
        except failures:
            return None
        except Exception:
            pass  # the program's own
    return Counts(counter.frame_count, counter.op_count)


def show(title: str, rows: list[tuple[str, Counts | None, Counts | None]], everything: bool) -> None:
    """Print one table, with sums over the programs that both compilers can run."""
    both = [(ours, theirs) for _, ours, theirs in rows if ours is not None and theirs is not None]
    table = Table("program", "framehook", "peer", title=f"{title}: graphs (operations)")
    for name, ours, theirs in rows:
        if everything or ours is None or (theirs is not None and ours.is_worse(theirs)):
            table.add_row(name, *("fails" if each is None else str(each) for each in (ours, theirs)))
    console = Console()
    if table.row_count:
        console.print(table)
    ours_in_all, theirs_in_all = (
        Counts(*map(sum, zip(*column, strict=True))) for column in zip(*both, strict=True)
    )
    console.print(
        f"{title}: {len(rows)} programs, {len(both)} of which both run: framehook {ours_in_all}, peer {theirs_in_all}; "
        f"framehook is better in {sum(theirs.is_worse(ours) for ours, theirs in both)}, "
        f"worse in {sum(ours.is_worse(theirs) for ours, theirs in both)}; "
        f"fails in {sum(ours is None for _, ours, _ in rows)}, "
        f"the peer in {sum(theirs is None for _, _, theirs in rows)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--all", action="store_true", help="every program, not only those with more graphs")
    options = parser.parse_args()
    unknown = set(options.sets) - set(SETS)
    if unknown:
        parser.error(f"unknown set: {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    logging.disable()
    teach_peer_to_break()
    for name in options.sets or SETS:
        rows = [(program.name, count(FRAMEHOOK, program), count(PEER, program)) for program in SETS[name]()]
        show(name, rows, options.all)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
