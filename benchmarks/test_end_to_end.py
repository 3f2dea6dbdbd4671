"""Steps per second with Inductor: eager, the peer and framehook, in inference and in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.compilers import EAGER, FRAMEHOOK, PEER, Compiler
from tests.models.zoo import ZooModel, by_name, fields, loss_of

ROWS: dict[str, tuple[str, dict[str, int]]] = {
    "BERT, 4 layers": ("bert", {"layers": 4, "hidden": 128}),
    "GPT-2, 4 layers": ("gpt2", {"layers": 4, "hidden": 128}),
    "Llama, 4 layers": ("llama", {"layers": 4, "hidden": 128}),
    "ResNet": ("resnet", {"layers": 2, "hidden": 32}),
}
SMALL = {"layers": 1, "hidden": 8}
ROUNDS = 100
WARM_UP = 3


def _build(title: str, smoke: bool) -> tuple[ZooModel, nn.Module, int]:
    name, sizes = ROWS[title]
    model = by_name(name)
    return model, model.build(**(SMALL if smoke else sizes)), 1 if smoke else 8


def _repeat(batch: dict[str, Any], times: int) -> dict[str, Any]:
    return {name: value.repeat(times, *[1] * (value.dim() - 1)) for name, value in batch.items()}


def _compile(compiler: Compiler, target: Any, smoke: bool) -> Any:
    return compiler.compile(target, **({"backend": "eager"} if smoke and compiler is not EAGER else {}))


def _in_turns(
    side_by_side: Callable[..., None], table: str, title: str, steps: dict[str, Callable[[], Any]]
) -> None:
    for _ in range(WARM_UP):
        for step in steps.values():
            step()
    columns: dict[str, Any] = {name: partial(_as_it_is, step) for name, step in steps.items()}
    side_by_side(table, title, columns, rounds=ROUNDS)


def _as_it_is(step: Callable[[], Any]) -> Callable[[], Any]:
    return step


@pytest.mark.parametrize("title", ROWS)
def test_inference(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    model, module, times = _build(title, smoke)
    module.eval()
    batch = _repeat(model.inference(), times)
    steps: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        expected = {
            name: value for name, value in fields(module(**batch)).items() if isinstance(value, Tensor)
        }
        for compiler in (EAGER, PEER, FRAMEHOOK):
            step = steps[compiler.name] = partial(_compile(compiler, module, smoke), **batch)
            result = fields(step())
            for name, value in expected.items():
                torch.testing.assert_close(result[name], value, rtol=1e-3, atol=1e-3)
        _in_turns(side_by_side, "inference", title, steps)


@pytest.mark.parametrize("title", ROWS)
def test_training(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    model, module, times = _build(title, smoke)
    module.train()
    batch = _repeat(model.training(), times)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def loss_function(module: nn.Module, batch: dict[str, Any]) -> Tensor:
        return loss_of(module(**batch))

    def step(compiled: Callable[..., Tensor]) -> None:
        compiled(module, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    steps = {
        compiler.name: partial(step, _compile(compiler, loss_function, smoke))
        for compiler in (EAGER, PEER, FRAMEHOOK)
    }
    _in_turns(side_by_side, "training", title, steps)
