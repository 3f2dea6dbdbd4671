"""Steps per second with Inductor: eager, the peer and framehook, in inference and in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.compilers import EAGER, Compiler
from tests.models.zoo import ZooModel, by_name, fields, loss_of

ROWS: dict[str, tuple[str, dict[str, int]]] = {
    "BERT, 4 layers": ("bert", {"layers": 4, "hidden": 128}),
    "GPT-2, 4 layers": ("gpt2", {"layers": 4, "hidden": 128}),
    "Llama, 4 layers": ("llama", {"layers": 4, "hidden": 128}),
    "ResNet": ("resnet", {"layers": 2, "hidden": 32}),
}
SMALL = {"layers": 1, "hidden": 8}
ROUNDS = 60


def _build(title: str, smoke: bool) -> tuple[ZooModel, nn.Module, int]:
    name, sizes = ROWS[title]
    model = by_name(name)
    return model, model.build(**(SMALL if smoke else sizes)), 1 if smoke else 8


def _repeat(batch: dict[str, Any], times: int) -> dict[str, Any]:
    return {name: value.repeat(times, *[1] * (value.dim() - 1)) for name, value in batch.items()}


def _options(runner: Compiler, smoke: bool) -> dict[str, Any]:
    return {"backend": "eager"} if smoke and runner is not EAGER else {}


@pytest.mark.parametrize("title", ROWS)
def test_inference(
    title: str, runner: Compiler, smoke: bool, row: Callable[..., None], benchmark: Any
) -> None:
    model, module, times = _build(title, smoke)
    module.eval()
    batch = _repeat(model.inference(), times)
    compiled = runner.compile(module, **_options(runner, smoke))
    row("inference", title, runner)
    with torch.no_grad():
        for name, value in fields(module(**batch)).items():
            if isinstance(value, Tensor):
                torch.testing.assert_close(fields(compiled(**batch))[name], value, rtol=1e-3, atol=1e-3)
        benchmark.pedantic(compiled, kwargs=batch, rounds=1 if smoke else ROUNDS, warmup_rounds=3)


@pytest.mark.parametrize("title", ROWS)
def test_training(
    title: str, runner: Compiler, smoke: bool, row: Callable[..., None], benchmark: Any
) -> None:
    model, module, times = _build(title, smoke)
    module.train()
    batch = _repeat(model.training(), times)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def loss_function(module: nn.Module, batch: dict[str, Any]) -> Tensor:
        return loss_of(module(**batch))

    compiled = runner.compile(loss_function, **_options(runner, smoke))

    def step() -> None:
        compiled(module, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    row("training", title, runner)
    benchmark.pedantic(step, rounds=1 if smoke else ROUNDS, warmup_rounds=3)
