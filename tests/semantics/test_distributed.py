"""Data-parallel wrappers in one process: eager's outputs, gradients and buffers, whichever is outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of one."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


def _module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


Wrap = Callable[[nn.Module, CompileCounter], nn.Module]
WRAPPED: dict[str, Wrap] = {
    "compiled outside": lambda module, counter: framehook.compile(
        nn.parallel.DistributedDataParallel(module), backend=counter
    ),
    "compiled inside": lambda module, counter: nn.parallel.DistributedDataParallel(
        framehook.compile(module, backend=counter)
    ),
    "data parallel": lambda module, counter: framehook.compile(nn.DataParallel(module), backend=counter),
}


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_modules(name: str, group: None) -> None:
    counter = CompileCounter()
    expected = nn.parallel.DistributedDataParallel(_module())
    actual = WRAPPED[name](_module(), counter)
    for step in range(4):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        for model in (expected, actual):
            model.zero_grad()
            model(x).square().mean().backward()
        assert_same(snapshot(actual(x)), snapshot(expected(x)), where=f"step {step}")
        for (key, one), other in zip(actual.named_parameters(), expected.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad), key
        for one, other in zip(actual.buffers(), expected.buffers(), strict=True):
            assert torch.equal(one, other)
    assert counter.frame_count >= 1


def test_collectives_in_a_compiled_function(group: None) -> None:
    counter = CompileCounter()

    def step(x: Tensor) -> Tensor:
        y = x * 2
        torch.distributed.all_reduce(y)
        return y + torch.distributed.get_world_size()

    compiled = framehook.compile(step, backend=counter)
    for size in (2, 2, 3):
        assert torch.equal(compiled(torch.ones(size)), step(torch.ones(size)))
    assert counter.frame_count >= 2
