"""Running a generated program both ways."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import framehook
from framehook.testing import CompileCounter
from framehook.verification.differences import Tolerance
from framehook.verification.sides import Pair, random_state_kept
from tests.semantics.generator.prelude import names
from tests.semantics.generator.programs import Program, arguments

#: The variants of the arguments, in the order of the calls.
CALLS = (0, 0, 1, 2, 0)


class _Counting(TorchDispatchMode):
    """Counts the operations that run under it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, fn: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return fn(*args, **(kwargs or {}))


class CountingBackend(CompileCounter):
    """Runs graphs as they are; with `is_counting`, counts the operations that run inside of them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_counting = False
        self.inside = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        run = super().__call__(gm, example_inputs)

        def counted(*args: Any) -> Any:
            if not self.is_counting:
                return run(*args)
            with _Counting() as counting:
                try:
                    return run(*args)
                finally:
                    self.inside += counting.count

        return counted


@dataclasses.dataclass
class Ran:
    """What came of a program: differences in words, operations in all and inside of graphs (of break-free ones)."""

    differences: list[str]
    operations: int = 0
    inside: int = 0
    graphs: int = 0


def load(program: Program) -> Any:
    """`main` of a program, whose lines tracebacks can show."""
    digest = hashlib.sha1(program.text.encode(), usedforsecurity=False).hexdigest()[:10]
    filename = f"<generated {digest}>"
    linecache.cache[filename] = (len(program.text), None, program.text.splitlines(True), filename)
    namespace = names()
    exec(compile(program.text, filename, "exec"), namespace)
    return namespace["main"]


def run(program: Program, calls: Sequence[int] = CALLS) -> Ran:
    """Run a program eagerly and compiled, with several arguments, and compare after each call."""
    main = load(program)
    backend = CountingBackend()
    compiling = functools.partial(framehook.compile, backend=backend)
    differences: list[str] = []
    ran = Ran(differences)
    with random_state_kept(), framehook.config.patch(raise_internal_errors=True):
        torch.manual_seed(0)
        pair = Pair(main, compiling, Tolerance(), has_backward=True)
        for variant in calls:
            found, _ = pair.run(arguments(variant), {})
            differences += map(str, found)
            if found:
                break
        if not program.has_breaks and not differences:
            ran.operations, ran.inside = _count(pair, backend, calls[0])
    ran.graphs = backend.frame_count
    linecache.cache.pop(main.__code__.co_filename, None)
    return ran


def _count(pair: Pair, backend: CountingBackend, variant: int) -> tuple[int, int]:
    """Operations of one more eager call, and of those the ones inside graphs in one more compiled call."""
    counting = _Counting()
    for side in (pair.eager, pair.compiled):
        args, _ = side.arguments(arguments(variant), {})
        with side.in_place():
            try:
                if side is pair.eager:
                    with counting:
                        side.call(*args)
                else:
                    backend.is_counting = True
                    side.call(*args)
            except Exception:  # both have raised the same before
                pass
    backend.is_counting = False
    return counting.count, backend.inside
