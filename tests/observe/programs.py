"""Small programs that the tests of logs, explanations and reports look at."""

from __future__ import annotations

import torch

import framehook


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    framehook.graph_break("on purpose")
    return x * 2


def inner(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x - 1
    return x + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    y = inner(x * 3)
    return y / 2


def small(x: int) -> int:
    return x + 1


def generator(x: torch.Tensor):
    yield x + 1


async def coroutine(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def model(layers: int = 3) -> torch.nn.Module:
    return torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(layers)])
