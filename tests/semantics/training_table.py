"""The table of small pieces of training scripts: what each does call after call, and how many graphs it becomes.

A script is made anew for each run: a function that is given `compile` (eager: a function that gives back what it is
given) and returns `step` and `state`.  `step(i)` is the i-th call; `state()` is all that it leaves behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Running(NamedTuple):
    """A script that has been made.

    Attributes:
        step: called with 0, 1, 2, ...; what it returns is compared.
        state: modules, optimizers, buffers: all that calls may have changed.
    """

    step: Callable[[int], Any]
    state: Callable[[], Any]


Make = Callable[[Callable[[Any], Any]], Running]


@dataclasses.dataclass(frozen=True)
class Script:
    """A script, and how many graphs it becomes.

    Attributes:
        graphs: how many graphs the first call becomes.
        in_all: how many all calls become.
        peer: the two numbers of `torch.compile` of the installed torch (measured, see test_training_peer.py);
            None where it raises.
        calls: how often `step` is called.
        is_exact: whether the numbers are eager's bit for bit; torch's optimizers compute otherwise where they are
            told that somebody compiles them.
        reason: why there are more graphs than the peer's.
    """

    make: Make
    graphs: int
    in_all: int
    peer: tuple[int, int] | None
    calls: int
    is_exact: bool
    reason: str


SCRIPTS: dict[str, Script] = {}


def script(
    *,
    graphs: int = 1,
    in_all: int | None = None,
    peer: tuple[int, int] | None = (1, 1),
    calls: int = 4,
    is_exact: bool = True,
    reason: str = "",
) -> Callable[[Make], Make]:
    """Collect a script."""

    def add(make: Make) -> Make:
        assert make.__name__ not in SCRIPTS
        total = graphs if in_all is None else in_all
        SCRIPTS[make.__name__] = Script(make, graphs, total, peer, calls, is_exact, reason)
        return make

    return add


def rows(call: int, width: int = 4) -> Tensor:
    """The batch of a call."""
    return torch.linspace(-1, 1, 5 * width).reshape(5, width) * (1 + call)


def calling(
    compile: Callable[[Any], Any], module: nn.Module, make_input: Callable[[int], Any] = rows
) -> Running:
    """A module that is called, with a backward pass after it."""
    compiled = compile(module)

    def step(call: int) -> Any:
        result = compiled(make_input(call))
        first = result
        while not isinstance(first, Tensor):
            first = next(iter(first.values() if isinstance(first, dict) else first))
        if first.requires_grad:
            first.square().sum().backward()
        return result

    return Running(step, lambda: module)


def contents(module: nn.Module) -> Any:
    """Parameters, gradients and buffers: of modules whose hooks are numbered through the whole process."""
    return [(name, p, p.grad) for name, p in module.named_parameters()], dict(module.named_buffers())
