"""A whole training script gives eager's numbers, whichever part of it is compiled."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import framehook
from framehook.testing import assert_same, snapshot


class Net(nn.Module):
    """Convolutions with batch norm and dropout, and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv2d(8, 8, 3, stride=2),
        )
        self.head = nn.utils.parametrizations.weight_norm(nn.Linear(8, 5))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.calls = 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        if self.training:
            self.seen += images.shape[0]
        return self.head(self.body(images).mean((2, 3)))  # type: ignore[no-any-return]


def batches(seed: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """Images and labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = [torch.randint(0, 5, (6,), generator=generator) for _ in range(count)]
    return [(torch.randn(6, 3, 8, 8, generator=generator) + y.view(-1, 1, 1, 1) / 3, y) for y in labels]


def train(part: str, compile: Callable[[Any], Any], epochs: int = 2) -> dict[str, Any]:
    """The script; `part` says what of it is compiled. Returns all that it leaves behind."""
    torch.manual_seed(0)
    module = Net()
    average = copy.deepcopy(module).requires_grad_(False)
    model = compile(module) if part == "model" else module
    optimizer = torch.optim.AdamW(module.parameters(), 3e-3, weight_decay=0.01)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], [4])
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    apply_step = compile(optimizer.step) if part == "optimizer.step" else optimizer.step

    def train_step(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        if part == "optimizer.step":
            apply_step()
        else:
            scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), module.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
            for slow, fast in zip(average.buffers(), module.buffers(), strict=True):
                slow.copy_(fast)
        return loss.detach(), norm

    @torch.no_grad()
    def evaluate(network: Any) -> float:
        network.eval()
        right = sum((network(images).argmax(-1) == labels).sum().item() for images, labels in batches(1, 2))
        network.train()
        return right / 12

    step = compile(train_step) if part == "step function" else train_step
    losses: list[Any] = []
    for epoch in range(epochs):
        for images, labels in batches(0, 3):
            loss, norm = step(images, labels)
            losses.append((loss, norm, scheduler.get_last_lr()))
        losses.append((evaluate(model), evaluate(average)))
        if epoch == 0:
            file = io.BytesIO()
            parts = (module, optimizer, scheduler, scaler)
            torch.save([each.state_dict() for each in parts], file)
            file.seek(0)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.zero_()
            for each, state in zip(parts, torch.load(file), strict=True):
                each.load_state_dict(state)
    return {
        "losses": losses,
        "model": model.state_dict(),
        "average": average.state_dict(),
        "optimizer": optimizer.state_dict(),
        "calls": module.calls,
        "by chance": torch.rand(()),
    }


@pytest.fixture(scope="module")
def expected() -> Any:
    """What the script leaves behind without a compiler."""
    return snapshot(train("nothing", lambda fn: fn))


@pytest.mark.parametrize("part", ["model", "step function", "optimizer.step"])
def test_script(part: str, expected: Any) -> None:
    counter = framehook.testing.CompileCounter()
    actual = snapshot(train(part, lambda fn: framehook.compile(fn, backend=counter)))
    assert_same(actual, expected, where=part)
    assert counter.frame_count


def test_script_under_capture(expected: Any) -> None:
    with framehook.capture(backend="eager") as captured:
        actual = snapshot(train("nothing", lambda fn: fn))
    assert_same(actual, expected, where="capture")
    assert captured.stats().hits
