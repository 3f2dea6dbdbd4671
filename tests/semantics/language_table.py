"""The table of small programs about the language: what each is called with, and how many graphs it becomes.

A program is a function of the tensors `x` (3×4) and `y` (4), or of what its `arguments` make; `@program` collects it.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Program:
    """A function, what to call it with, and how many graphs it becomes.

    Attributes:
        arguments: makes the arguments; where it takes one, it is given the number of the variant (0, 1, 2).
        graphs: how many graphs the first call becomes.
        in_all: how many the calls of all variants become, where other constants need graphs of their own.
        peer: how many `torch.compile` of the installed torch makes of the first call (measured, see test_language_peer.py).
        reason: why the graph breaks, where it does.
        state: names of globals of the program's module that it changes.
    """

    fn: Callable[..., Any]
    arguments: Callable[..., tuple[Any, ...]]
    graphs: int
    in_all: int
    peer: int
    reason: str
    state: tuple[str, ...]

    def variant(self, number: int) -> tuple[Any, ...]:
        """New arguments; those of other variants hold other tensor values."""
        if inspect.signature(self.arguments).parameters:
            return self.arguments(number)
        made = self.arguments()
        for value in made:
            if type(value) is Tensor and value.is_floating_point():
                value.detach().mul_(1 + number)
        return made

    def namespace(self) -> dict[str, Any]:
        """The globals of the program's module."""
        return vars(sys.modules[self.fn.__module__])

    def read_state(self) -> dict[str, Any]:
        """A copy of the globals that the program changes."""
        namespace = self.namespace()
        return {name: copy.deepcopy(namespace[name]) for name in self.state if name in namespace}

    def write_state(self, state: dict[str, Any]) -> None:
        """Put a state in place."""
        namespace = self.namespace()
        for name in self.state:
            namespace.pop(name, None)
        namespace.update(copy.deepcopy(state))


PROGRAMS: dict[str, Program] = {}


def tensors() -> tuple[Tensor, Tensor]:
    """The default arguments."""
    return torch.arange(12.0).reshape(3, 4) / 7, torch.tensor([1.0, -2.0, 3.0, 0.5])


def program(
    fn: Callable[..., Any] | None = None,
    *,
    arguments: Callable[..., tuple[Any, ...]] = tensors,
    graphs: int = 1,
    in_all: int | None = None,
    peer: int = 1,
    reason: str = "",
    state: tuple[str, ...] = (),
) -> Any:
    """Collect a program."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        assert fn.__name__ not in PROGRAMS
        total = graphs if in_all is None else in_all
        PROGRAMS[fn.__name__] = Program(fn, arguments, graphs, total, peer, reason, state)
        return fn

    return add if fn is None else add(fn)
