"""Steps per second with Inductor: eager, the peer and framehook, in inference and in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from benchmarks.compilers import EAGER, FRAMEHOOK, PEER, Compiler
from tests.models.zoo import ZooModel, by_name, fields, loss_of


def _mlp(layers: int, hidden: int) -> nn.Module:
    return nn.Sequential(
        *(layer for _ in range(layers - 1) for layer in (nn.Linear(hidden, hidden), nn.ReLU())),
        nn.Linear(hidden, hidden),
    )


def _mlp_of(rows: int, hidden: int) -> ZooModel:
    def batch() -> dict[str, Any]:
        return {"input": torch.randn(rows, hidden, generator=torch.Generator().manual_seed(0))}

    return ZooModel(name="mlp", make=_mlp, inference=batch, training=batch, layers=2)


class Case(NamedTuple):
    """One row: the model, its sizes, how often its batch is repeated, the ratios to the peer that are asked for."""

    model: ZooModel
    sizes: dict[str, int]
    repeats: int = 1
    inference_goal: float = 0.97
    training_goal: float = 0.97


ROWS = {
    "BERT, 4 layers": Case(by_name("bert"), {"layers": 4, "hidden": 128}, 8),
    "GPT-2, 4 layers": Case(by_name("gpt2"), {"layers": 4, "hidden": 128}, 8),
    "Llama, 4 layers": Case(by_name("llama"), {"layers": 4, "hidden": 128}, 8),
    "ResNet": Case(by_name("resnet"), {"layers": 2, "hidden": 32}, 8),
    "ViT, batch of 2": Case(by_name("vit"), {"layers": 2, "hidden": 32}),
    "T5, batch of 2": Case(by_name("t5"), {"layers": 2, "hidden": 32}),
    "MLP, batch of 512": Case(_mlp_of(512, 256), {"layers": 4, "hidden": 256}),
    "MLP of width 32, batch of 2": Case(_mlp_of(2, 32), {"layers": 2, "hidden": 32}, 1, 1.8, 1.2),
}
SMALL = {"layers": 1, "hidden": 8}
ROUNDS = 100
WARM_UP = 3


def _build(title: str, smoke: bool, device: str) -> tuple[ZooModel, nn.Module, int]:
    case = ROWS[title]
    is_small = smoke and case.model.name != "mlp"
    module = case.model.build(**(SMALL if is_small else case.sizes))
    return case.model, module.to(device), 1 if smoke else case.repeats


def _repeat(batch: dict[str, Any], times: int, device: str) -> dict[str, Any]:
    return {name: value.repeat(times, *[1] * (value.dim() - 1)).to(device) for name, value in batch.items()}


def _compile(compiler: Compiler, target: Any, smoke: bool) -> Any:
    return compiler.compile(target, **({"backend": "eager"} if smoke and compiler is not EAGER else {}))


def _in_turns(
    measure: Callable[..., None], steps: dict[str, Callable[[], Any]], device: str, goal: float
) -> None:
    for _ in range(WARM_UP):
        for step in steps.values():
            step()
    ready: dict[str, Any] = {
        name: partial(_as_it_is, step if device == "cpu" else partial(_to_the_end, step))
        for name, step in steps.items()
    }
    measure(ready, rounds=ROUNDS, goal=goal)


def _as_it_is(step: Callable[[], Any]) -> Callable[[], Any]:
    return step


def _to_the_end(step: Callable[[], Any]) -> None:
    step()
    torch.cuda.synchronize()


def _title(title: str, device: str) -> str:
    return title if device == "cpu" else f"{title} ({device})"


on_devices = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
        ),
    ],
)


@on_devices
@pytest.mark.parametrize("title", ROWS)
def test_inference(title: str, device: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    model, module, times = _build(title, smoke, device)
    module.eval()
    batch = _repeat(model.inference(), times, device)
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
        measure = partial(side_by_side, "inference", _title(title, device))
        _in_turns(measure, steps, device, ROWS[title].inference_goal)


@on_devices
@pytest.mark.parametrize("title", ROWS)
def test_training(title: str, device: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    model, module, times = _build(title, smoke, device)
    module.train()
    batch = _repeat(model.training(), times, device)
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
    measure = partial(side_by_side, "training", _title(title, device))
    _in_turns(measure, steps, device, ROWS[title].training_goal)
