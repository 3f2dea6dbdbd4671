"""The form of the guard table: a row is a program that is called, changed and called again.

A row is a generator function: it builds a program, yields a `call(fn, ...)`, changes something, and yields the
next call.  It gets a `MonkeyPatch` of its own for changes that outlive it.  The checker runs each row once eagerly
and once compiled and compares everything that a caller could see after each call; `later` says what the calls after
the change have to do: "miss", "hit", or "any" where both are sound.
"""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot


class Call(NamedTuple):
    """A function and what to call it with."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    """The call `fn(*args, **kwargs)`, not made yet."""
    return Call(fn, args, kwargs)


@dataclass(frozen=True)
class Row:
    """A program with a change in the middle; `through` is the way it is captured: "compile" or "capture"."""

    name: str
    program: Callable[..., Iterator[Call]]
    parameters: tuple[Any, ...]
    later: str
    through: str


class Table:
    """Rows, filled by decorators: `@table.miss`, `@table.hit(cases={...}, through="capture")`, `@table.any`."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def _add(
        self,
        later: str,
        program: Callable[..., Iterator[Call]] | None,
        cases: Mapping[str, tuple[Any, ...]] | None,
        through: str,
    ) -> Any:
        def add(program: Callable[..., Iterator[Call]]) -> Callable[..., Iterator[Call]]:
            for case, parameters in (cases or {"": ()}).items():
                name = f"{program.__name__}-{case}" if case else program.__name__
                self.rows.append(Row(f"{name}-{later}", program, parameters, later, through))
            return program

        return add if program is None else add(program)

    def miss(
        self,
        program: Any = None,
        *,
        cases: Mapping[str, tuple[Any, ...]] | None = None,
        through: str = "compile",
    ) -> Any:
        """The calls after the change need another entry."""
        return self._add("miss", program, cases, through)

    def hit(
        self,
        program: Any = None,
        *,
        cases: Mapping[str, tuple[Any, ...]] | None = None,
        through: str = "compile",
    ) -> Any:
        """The calls after the change are served by the first entry."""
        return self._add("hit", program, cases, through)

    def any(
        self,
        program: Any = None,
        *,
        cases: Mapping[str, tuple[Any, ...]] | None = None,
        through: str = "compile",
    ) -> Any:
        """The result must be right; whether it needs another entry is left open."""
        return self._add("any", program, cases, through)


def outcome(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the call gives: its result, or the exception that it raises."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return error


def namespace(source: str, **names: Any) -> dict[str, Any]:
    """Run `source` as a module of its own (with `torch` and `names` in it) and return its globals."""
    filename = f"<guard table {hash(source):x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    globals_: dict[str, Any] = {"__name__": "guard_table_program", "torch": torch, **names}
    exec(compile(source, filename, "exec"), globals_)
    return globals_


def _eager(row: Row, first_calls: int) -> list[Any]:
    return [view for view, _ in _run(row, lambda fn: fn, first_calls)]


def _run(
    row: Row, wrap: Callable[[Callable[..., Any]], Callable[..., Any]], first_calls: int
) -> Iterator[tuple[Any, Call]]:
    with pytest.MonkeyPatch.context() as patch:
        for index, step in enumerate(row.program(patch, *copy.deepcopy(row.parameters))):
            for _ in range(first_calls - 1 if index == 0 else 0):
                torch.manual_seed(0)
                outcome(wrap(step.fn), *step.args, **step.kwargs)
            torch.manual_seed(0)
            result = outcome(wrap(step.fn), *step.args, **step.kwargs)
            if (
                isinstance(result, torch.Tensor)
                and result.requires_grad
                and not torch.is_inference_mode_enabled()
            ):
                with torch.enable_grad():
                    result.sum().backward()
            yield snapshot((result, step.args, step.kwargs)), step


def check(row: Row, first_calls: int = 1) -> None:
    """Run `row` eagerly and compiled; compare what each call gives and whether it hit.

    Before the change the program is called `first_calls` times: entries that were hit take shorter ways.
    """
    expected = _eager(row, first_calls)
    counter = CompileCounter()
    handles: list[Any] = []
    if row.through == "capture":
        handles.append(framehook.capture(backend=counter, warmup_calls=0))
        wrap: Callable[..., Any] = lambda fn: _inside(handles[0], fn)  # noqa: E731
    else:
        compiled: dict[int, tuple[Any, Any]] = {}

        def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
            if id(fn) not in compiled:
                compiled[id(fn)] = (framehook.compile(fn, backend=counter), fn)
                handles.append(compiled[id(fn)][0])
            return compiled[id(fn)][0]

    graphs: list[int] = []
    hits: list[int] = []
    for index, (view, _) in enumerate(_run(row, wrap, first_calls)):
        assert_same(view, expected[index], where=f"call {index + 1}")
        graphs.append(counter.frame_count)
        hits.append(sum(framehook.stats(handle).hits for handle in handles))
    assert len(graphs) == len(expected) >= 2
    assert graphs[0] >= 1, "the first call made no graph"
    seen = f"graphs after each call: {graphs}, hits: {hits}"
    if row.later == "hit":
        assert graphs[-1] == graphs[0] and hits[1] > hits[0], seen
    elif row.later == "miss":
        # A miss makes a graph, or finds that the frame is better off eager.
        assert graphs[1] > graphs[0] or hits[1] == hits[0], seen


def _inside(handle: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with handle:
            return fn(*args, **kwargs)

    return run
