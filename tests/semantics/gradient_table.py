"""The table of small programs about training: what each is called with, and how many graphs it becomes.

A program is a function; `@program` collects it.  It is called several times with fresh copies of its arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Program:
    """A function, what to call it with, and how many graphs it becomes.

    Attributes:
        graphs: how many graphs all calls become.
        peer: how many `torch.compile` of the installed torch makes of the first call (measured, see
            test_gradients_peer.py), or why it fails where eager does not.
        reason: where the graph breaks; empty: it does not.
        peer_breaks: whether the peer breaks the graph, too.
        backward: whether the caller runs a backward pass on what it returns.
    """

    fn: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    graphs: int
    peer: int | str
    reason: str
    peer_breaks: bool
    backward: bool


PROGRAMS: dict[str, Program] = {}


def rand(*sizes: int, grad: bool = False, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Random numbers that are the same at every call."""
    made = torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return made.requires_grad_(grad)


def plain() -> tuple[Any, ...]:
    """Two tensors without gradients."""
    return rand(3, 4), rand(3, 4, seed=1)


def trained() -> tuple[Any, ...]:
    """Two leaves that want gradients."""
    return rand(3, 4, grad=True), rand(3, 4, grad=True, seed=1)


def one_trained() -> tuple[Any, ...]:
    """A tensor, and a leaf that wants a gradient."""
    return rand(3, 4), rand(3, 4, grad=True, seed=1)


def layers() -> nn.Sequential:
    """A small model with the same weights each time."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU())
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(rand(*parameter.shape, seed=number))
    return model


def program(
    fn: Callable[..., Any] | None = None,
    *,
    arguments: Callable[[], tuple[Any, ...]] = plain,
    graphs: int = 1,
    peer: int | str = 1,
    reason: str = "",
    peer_breaks: bool = False,
    backward: bool = True,
) -> Any:
    """Collect a program."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        assert fn.__name__ not in PROGRAMS, fn.__name__
        PROGRAMS[fn.__name__] = Program(fn, arguments, graphs, peer, reason, peer_breaks, backward)
        return fn

    return add if fn is None else add(fn)
