"""Eager and compiled side by side, as one assertion for tests."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from framehook.api import compile as compile_
from framehook.testing.counting import CompileCounter
from framehook.verification.differences import Tolerance
from framehook.verification.sides import Pair


@dataclasses.dataclass(frozen=True)
class Checked:
    """What a successful check saw.

    Attributes:
        graphs, operations: what the backend was given in all calls.
        result: what the last compiled call returned (None if it raised).
        compiled: the compiled function, for a look at its `stats()`.
    """

    graphs: int
    operations: int
    result: Any
    compiled: Any


def check(
    fn: Callable[..., Any],
    *args: Any,
    graphs: int | None = None,
    backend: str | Callable[..., Any] = "eager",
    calls: int = 3,
    exact: bool | None = None,
    backward: bool = True,
    fullgraph: bool = False,
    **kwargs: Any,
) -> Checked:
    """Call `fn` eagerly and compiled, several times, on copies, and compare what `framehook.verify` compares.

    Args:
        fn: a function, or a module, which is copied so that both runs have one of their own.
        args, kwargs: copied deeply for every call, all together, so that aliasing among them is kept.
        graphs: how many graphs the backend must have been given in all calls; None: any number.
        backend: what compiles; its graphs are counted.
        calls: how often each is called.
        exact: bit for bit; None: for the eager backend only.
        backward: whether to run the backward pass.
        fullgraph: passed to `compile`.

    Raises:
        AssertionError: at the first call with a difference, or when the number of graphs is another.
    """
    counter = CompileCounter(backend)
    compiling = functools.partial(compile_, backend=counter, fullgraph=fullgraph)
    tolerance = Tolerance(backend == "eager" if exact is None else exact)
    pair = Pair(fn, compiling, tolerance, backward)
    result = None
    for _ in range(calls):
        differences, result = pair.run(args, kwargs)
        if differences:
            raise AssertionError("\n".join(map(str, differences)))
    compiled = pair.compiled.call
    if graphs is not None and counter.frame_count != graphs:
        reasons = "; ".join(compiled.stats().graph_breaks) or "no graph breaks"
        raise AssertionError(f"expected {graphs} graphs, got {counter.frame_count} ({reasons})")
    return Checked(counter.frame_count, counter.op_count, result, compiled)
