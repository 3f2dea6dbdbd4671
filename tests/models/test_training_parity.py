"""A hundred steps of training end where eager's end: losses, parameters, buffers, and the state of the generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.models.zoo import by_name, loss_of

STEPS = 100


class VariationalAutoEncoder(nn.Module):
    """Draws its code; the loss is reconstruction and divergence."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        reconstruction = self.decoder(code)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1).mean()
        return {"loss": F.mse_loss(reconstruction, x) + divergence / 16, "output": reconstruction}


def _of_zoo(name: str) -> Callable[[], tuple[nn.Module, dict[str, Any]]]:
    model = by_name(name)
    return lambda: (model.build(), model.training())


def _auto_encoder() -> tuple[nn.Module, dict[str, Any]]:
    return VariationalAutoEncoder(), {"x": torch.randn(8, 16)}


MODELS = {
    "gpt": _of_zoo("gpt2"),
    "resnet": _of_zoo("resnet"),
    "vit": _of_zoo("vit"),
    "lstm": _of_zoo("lstm"),
    "auto-encoder": _auto_encoder,
}


def _train(name: str, compile: Callable[[Any], Any]) -> tuple[list[float], dict[str, Tensor], Tensor]:
    torch.manual_seed(0)
    module, batch = MODELS[name]()
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
    compiled = compile(module)
    torch.manual_seed(1)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(compiled(**batch))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, module.state_dict(), torch.get_rng_state()


@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_steps(name: str) -> None:
    counter = CompileCounter()
    losses, state, generator = _train(name, lambda module: framehook.compile(module, backend=counter))
    expected_losses, expected_state, expected_generator = _train(name, lambda module: module)
    assert losses == expected_losses
    assert losses[-1] < losses[0]
    assert state.keys() == expected_state.keys()
    assert all(torch.equal(state[key], expected_state[key]) for key in state)
    assert torch.equal(generator, expected_generator)
    assert counter.frame_count == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_steps_of_aot_graphs(name: str) -> None:
    losses, state, _ = _train(name, lambda module: framehook.compile(module, backend="aot_eager"))
    expected_losses, expected_state, _ = _train(name, lambda module: module)
    torch.testing.assert_close(losses, expected_losses, rtol=0, atol=1e-4)
    torch.testing.assert_close(state, expected_state, rtol=1e-3, atol=1e-3)


def _scaled_steps(part: str, compile: Callable[[Any], Any]) -> list[Any]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    model = compile(module) if part == "model" else module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", growth_interval=2)

    def step(x: Tensor, overflows: bool) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).square().mean()
        if overflows:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss

    run = compile(step) if part == "step" else step
    seen: list[Any] = []
    for number in range(8):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(number))
        seen += [run(x, number == 5), scaler.get_scale()]
    return [seen, dict(module.state_dict()), optimizer.state_dict()]


@pytest.mark.parametrize("part", ["model", "step"])
def test_scaled_steps_of_which_one_overflows(part: str) -> None:
    counter = CompileCounter()
    actual = _scaled_steps(part, lambda fn: framehook.compile(fn, backend=counter))
    assert_same(snapshot(actual), snapshot(_scaled_steps(part, lambda fn: fn)))
    assert counter.frame_count >= 1
