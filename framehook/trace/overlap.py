"""Writes into memory that an operand lies in as well: real operations refuse them, and fake ones say nothing.

The rules are those of ATen/MemoryOverlap.cpp: a tensor that is not dense is never refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def is_refused(target: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operation that writes to its first argument, or to `out=`, may raise because memory overlaps."""
    written = list(_tensors([kwargs["out"]] if "out" in kwargs else args[:1]))
    others = list(_tensors([*args[1:], *(each for name, each in kwargs.items() if name != "out")]))
    if "out" in kwargs:
        others += _tensors(args[:1])
    elif _name(target) in ("setitem", "__setitem__") and len(args) == 3:
        # With plain indices, what is written is a part of it.
        if _has_indices(args[1]):
            return any(shares_memory(written[0], other) for other in others) if written else False
        with torch.no_grad():
            written = [each[args[1]] for each in written]
    for each in written:
        if _repeats(each):
            return True
        if any(
            other is not each and shares_memory(each, other) and ("out" in kwargs or _is_partial(each, other))
            for other in others
        ):
            return True
    return False


def _has_indices(key: Any) -> bool:
    """Whether a key picks elements by tensors or lists of their places."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(each, (torch.Tensor, list, tuple, range)) for each in parts)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _repeats(tensor: torch.Tensor) -> bool:
    """Whether one place in memory is several elements, as after `expand`."""
    if tensor.layout is not torch.strided:
        return False
    dimensions = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.numel() > 0 and any(size > 1 and stride == 0 for size, stride in dimensions)


def shares_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors lie in one storage."""
    if left.layout is not torch.strided or right.layout is not torch.strided:
        return False
    return left.untyped_storage()._cdata == right.untyped_storage()._cdata


def _is_partial(left: torch.Tensor, right: torch.Tensor) -> bool:
    if not (_is_dense(left) and _is_dense(right)) or not left.numel() or not right.numel():
        return False
    spans = [
        (
            each.storage_offset() * each.element_size(),
            (each.storage_offset() + each.numel()) * each.element_size(),
        )
        for each in (left, right)
    ]
    (begin, end), (other_begin, other_end) = spans
    if (begin, end) == (other_begin, other_end):
        return left.stride() != right.stride()
    return begin < other_end and other_begin < end


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements, in some order of the dimensions, follow each other without gaps."""
    expected = 1
    dimensions = sorted(
        (stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1
    )
    for stride, size in dimensions:
        if stride != expected:
            return False
        expected *= size
    return True
