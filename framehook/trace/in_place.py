"""In-place operations whose result the tensor cannot hold: real ones raise, and fake ones say nothing.

`ints.mul_(2.5)`, `row.ne_(matrix)`: without this, AOTAutograd computes the result and casts it.
The rules are those of ATen/TensorIterator.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat

#: In-place forms of operations element by element, of one tensor and others that are broadcast to it.
_ELEMENTWISE = frozenset(
    {"add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "truediv", "floor_divide"}
    | {"floordiv", "remainder", "fmod", "mod", "pow", "atan2", "arctan2", "xlogy", "hypot", "nextafter"}
    | {"copysign", "lerp", "addcmul", "addcdiv", "clamp", "clip", "clamp_min", "clamp_max", "gcd", "lcm"}
    | {"lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal", "not_equal"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor", "heaviside"}
    | {"and", "or", "xor", "lshift", "rshift", "bitwise_left_shift", "bitwise_right_shift", "ldexp"}
)
#: How the operators are called as methods that change nothing.
_METHODS = {
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}


def is_refused(name: str, args: list[Any], kwargs: dict[str, Any], mode: FakeTensorMode) -> bool:
    """Whether an operation that writes to its first argument raises, as the result does not fit there.

    Args:
        name: of the function or method.
        args, kwargs: fake tensors and constants.
        mode: the mode of the fake tensors.
    """
    plain = name.strip("_")
    if plain not in _ELEMENTWISE:
        plain = plain.removeprefix("i")
        if plain not in _ELEMENTWISE:
            return False
    if "out" in kwargs or not args or not isinstance(args[0], torch.Tensor):
        return False
    first = args[0]
    others = [*args[1:], *kwargs.values()]
    if first.is_floating_point() and all(_fits(each, first) for each in others):
        return False
    try:
        with torch_compat.propagating(mode), torch.no_grad():
            result = getattr(torch.Tensor, _METHODS.get(plain, plain))(*args, **kwargs)
    except Exception:
        return False  # the operation itself went through
    return result.shape != first.shape or not torch.can_cast(result.dtype, first.dtype)


def _fits(other: Any, first: torch.Tensor) -> bool:
    if isinstance(other, torch.Tensor):
        return not other.is_complex() and (other.shape == first.shape or other.dim() == 0)
    return not isinstance(other, complex) and not any(_tensors(other))


def _tensors(value: Any) -> Iterator[bool]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield isinstance(each, torch.Tensor)
