"""Tensor specs for tests, read from a tensor as a trace would."""

from __future__ import annotations

from collections.abc import Collection

import torch

from framehook import _C
from framehook.guards.guard import TensorSpec, WeakIdentity


def spec_of(
    tensor: torch.Tensor, *, symbolic: Collection[int] = (), uses_grad: bool = True, strides: bool = True
) -> TensorSpec:
    def known(numbers: Collection[int]) -> tuple[int | None, ...]:
        return tuple(None if dim in symbolic else number for dim, number in enumerate(numbers))

    return TensorSpec(
        WeakIdentity(type(tensor)),
        _C.dispatch_keys(tensor),
        tensor.dtype,
        tensor.device,
        known(tensor.shape),
        known(tensor.stride()) if strides else None,
        tensor.requires_grad if uses_grad else None,
    )
