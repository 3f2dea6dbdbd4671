"""`torch.func.jacrev` and `jacfwd` in Python (torch: _functorch/eager_transforms.py).


What is called with the function and its arguments is one operation of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def apply_jacrev(
    func: Callable[..., Any], options: tuple[Any, ...], named: dict[str, Any], args: tuple[Any, ...]
) -> Any:
    """`jacrev(func, ...)(*args)`."""
    return torch.func.jacrev(func, *options, **named)(*args)


def apply_jacfwd(
    func: Callable[..., Any], options: tuple[Any, ...], named: dict[str, Any], args: tuple[Any, ...]
) -> Any:
    """`jacfwd(func, ...)(*args)`."""
    return torch.func.jacfwd(func, *options, **named)(*args)


def jacrev(func: Callable[..., Any], *options: Any, **named: Any) -> Callable[..., Any]:
    """`torch.func.jacrev`."""
    chunk_size = named.get("chunk_size")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def wrapper_fn(*args: Any) -> Any:
        return apply_jacrev(func, options, named, args)

    return wrapper_fn


def jacfwd(func: Callable[..., Any], *options: Any, **named: Any) -> Callable[..., Any]:
    """`torch.func.jacfwd`."""

    def wrapper_fn(*args: Any) -> Any:
        return apply_jacfwd(func, options, named, args)

    return wrapper_fn
