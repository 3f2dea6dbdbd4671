"""Inputs of a graph that lie in the same memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from framehook import torch_compat
from framehook.backends.graph import GraphInput


def changes_overlapping(inputs: Sequence[GraphInput]) -> bool:
    """Whether an input that the graph changes lies within the memory of another one, be it between its elements.

    AOTAutograd 2.13 joins such inputs in one base, and gave old values where views of them are outputs too.
    """
    tensors = [each for each in inputs if torch_compat.is_fake(each.fake)]
    changed = [each for each in tensors if torch_compat.is_mutated(each.fake)]
    if not changed or len(tensors) < 2:
        return False
    spans = {id(each): _memory_span(each.example) for each in tensors}
    return any(
        one is not other
        and spans[id(one)].start < spans[id(other)].stop
        and spans[id(other)].start < spans[id(one)].stop
        for one in changed
        for other in tensors
    )


def _memory_span(tensor: torch.Tensor) -> range:
    """The addresses from a tensor's first to its last byte, gaps included; empty for tensors without elements."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return range(start, start)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return range(start, start + (last + 1) * tensor.element_size())
