"""Private torch interfaces about values that are not known while tracing; `torch_compat` has all others."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor


def forget_contents(tensor: torch.Tensor) -> None:
    """Let a fake tensor no longer know the numbers in it.

    `FakeTensor.constant` is set on what `torch.tensor(1.0)` gives, and by operations on such tensors; `item_memo`
    and its like on tensors of which a number was read.  Checked: 2.13.0, 2.14.1.
    """
    if isinstance(tensor, FakeTensor):
        tensor.constant = None
        tensor.item_memo = None


def is_any_autocast_enabled() -> bool:
    """Whether autocast is on for some device: `torch._C._is_any_autocast_enabled`.  Checked: 2.13.0, 2.14.1."""
    return torch._C._is_any_autocast_enabled()
