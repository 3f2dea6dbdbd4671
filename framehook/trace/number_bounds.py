"""The numbers that an operation takes: others raise, for they do not fit the dtype that they are converted to.

Fake tensors do not ask, nor does what AOTAutograd makes of an operation.  A constant outside of the bounds ends the
graph; of a number that is an input of the graph, generated code checks the bounds before the graph runs, and outside
of them the frame runs eagerly.  The rules are those of c10/util/TypeCast.h and of `alpha_check` in ATen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from framehook.trace.number_inputs import plain_name

_Places = tuple[int | str, ...]

#: The places of numbers that are converted to the dtype of the result.
_CONVERTED: dict[str, _Places] = {
    **dict.fromkeys(("add", "sub", "subtract", "rsub", "_foreach_add", "_foreach_sub"), ("alpha",)),
    "index_add": ("alpha",),
    **dict.fromkeys(("addmv", "addr"), ("alpha", "beta")),
    **dict.fromkeys(("pow", "_foreach_pow"), (1, "exponent")),
    **dict.fromkeys(("clamp", "clip"), (1, 2, "min", "max")),
    "clamp_min": (1, "min"),
    "clamp_max": (1, "max"),
    **dict.fromkeys(("_foreach_clamp_min", "_foreach_clamp_max"), (1, "scalar", "scalars")),
    "fill": (1, "value"),
    "masked_fill": (2, "value"),
    "index_fill": (3, "value"),
    "fill_diagonal": (1, "fill_value"),
    "scatter": (3, "value"),
    "setitem": (2,),
    "__setitem__": (2,),
    **dict.fromkeys(("full", "full_like"), (1, "fill_value")),
    "new_full": (2, "fill_value"),
    "hardshrink": (1, "lambd"),
    "softshrink": (1, "lambd"),
    "threshold": (1, 2, "threshold", "value"),
    "hardtanh": (1, 2, "min_val", "max_val"),
}
#: The same, but beside float16 and bfloat16 they are converted to float32.
_WIDENED: dict[str, _Places] = {
    "lerp": (2, "weight"),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
    "_foreach_lerp": (2, "weight"),
    **dict.fromkeys(("_foreach_addcmul", "_foreach_addcdiv"), (3, "value")),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm"), ("alpha", "beta")),
    "leaky_relu": (1, "negative_slope"),
    **dict.fromkeys(("elu", "celu"), (1, "alpha")),
    "softplus": (1, 2, "beta", "threshold"),
    "scalar_tensor": (0, "s"),
    **dict.fromkeys(("tensor", "as_tensor"), (0, "data")),
}
#: Divisors: converted, and not zero, where the result is of whole numbers.
_DIVISORS = ("floordiv", "floor_divide", "mod", "remainder", "fmod")
_QUOTIENTS = ("div", "divide")
_FOREACH = ("_foreach_add", "_foreach_sub", "_foreach_mul", "_foreach_div")
_REDUCED = (torch.float16, torch.bfloat16)


class Bounds(NamedTuple):
    """Which numbers are taken."""

    low: float = -math.inf
    high: float = math.inf
    is_finite: bool = False  # neither infinite nor NaN
    is_not_zero: bool = False

    def hold(self, number: Any) -> bool:
        """Whether a number is taken; of a symbol, its guards are then those of the answer."""
        if type(number) is complex:
            return self.low <= self.high
        if self.is_not_zero and not bool(number != 0):
            return False
        if type(number) is float and not math.isfinite(number):
            return not self.is_finite
        if isinstance(number, torch.SymInt):  # within those of integers
            return (self.low <= WHOLE.low or bool(number >= self.low)) and (
                self.high >= WHOLE.high or bool(number <= self.high)
            )
        return self.low <= number <= self.high

    def both(self, other: Bounds) -> Bounds:
        """The numbers that are within these and within others."""
        return Bounds(
            max(self.low, other.low),
            min(self.high, other.high),
            self.is_finite or other.is_finite,
            self.is_not_zero or other.is_not_zero,
        )


ANY = Bounds()
"""No bounds."""
WHOLE = Bounds(-(1 << 63), (1 << 63) - 1)
"""The integers that graphs take as inputs."""
_UNSIGNED = Bounds(-(1 << 63), (1 << 64) - 1)
_INT32 = Bounds(-(1 << 31), (1 << 31) - 1)
_NONE = Bounds(1, 0, True)


def bounds_of(
    target: Any,
    is_method: bool,
    place: int | str,
    number: Any,
    arguments: dict[Any, Any],
    results: Sequence[Any],
) -> Bounds:
    """The bounds of a number at a place among the arguments of an operation, those of others of its type.

    They may be tighter than what the operation takes, but not wider.

    Args:
        target: a function, or the name of a method.
        is_method: which of the two.
        place: position or keyword of the argument.
        number: the argument.
        arguments: all arguments, by their places.
        results: the fake tensors that come out, or are changed in place.
    """
    kind = int if isinstance(number, torch.SymInt) else type(number)
    if kind is int and not isinstance(number, torch.SymInt) and not _UNSIGNED.hold(number):
        return _UNSIGNED  # no operation takes it
    if kind not in (int, float, bool, complex) or (is_method and target.startswith("__r")):
        return ANY  # reflected operators are not among those that convert
    name = plain_name(target, is_method) or (target if is_method else getattr(target, "__name__", ""))
    if name not in _CONVERTED:
        name = name.removesuffix("_") if not name.endswith("__") else name
    is_rounded = name in _DIVISORS or (name in _QUOTIENTS and "rounding_mode" in arguments)
    dtypes = {each.dtype for each in results if isinstance(each, torch.Tensor)}
    found = WHOLE if kind is int and name in ("setitem", "__setitem__") and place == 2 else ANY
    if name in ("tensor", "as_tensor") and isinstance(number, torch.SymInt):
        found = _INT32  # of larger symbols AOTAutograd makes other floats
    for dtype in dtypes:
        found = found.both(_of_dtype(name, place, kind, is_rounded, dtype))
    return found


def _of_dtype(name: str, place: int | str, kind: type, is_rounded: bool, dtype: torch.dtype) -> Bounds:
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    if name in _FOREACH and place == 1 and is_whole and (kind is float or name == "_foreach_div"):
        return _NONE  # lists in place
    if place == "alpha" and place in _CONVERTED.get(name, ()):
        if kind is bool:
            return ANY if dtype is torch.bool else _NONE
        if kind is float and is_whole:
            return _NONE
    if place in _CONVERTED.get(name, ()):
        found = _range(dtype, kind)
        if name in ("pow", "_foreach_pow") and is_whole:
            found = found.both(Bounds(low=0))
        elif name == "softshrink":
            found = found.both(Bounds(low=0, is_finite=True))
        return found
    if place in _WIDENED.get(name, ()):
        found = _range(torch.float32 if dtype in _REDUCED else dtype, kind)
        return found.both(Bounds(is_not_zero=True)) if name == "celu" else found
    if name == "where" and place != 0:
        return _range(torch.get_default_dtype() if kind is float else dtype, kind)
    if is_rounded and place in (1, "other") and is_whole:
        return _range(dtype, kind).both(Bounds(is_not_zero=True))
    return ANY


def _range(dtype: torch.dtype, kind: type) -> Bounds:
    if dtype is torch.bool or dtype.is_complex:
        return ANY
    if kind is complex:
        return _NONE
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        return Bounds(limits.min, limits.max)
    whole = torch.iinfo(dtype)
    # Negative integers wrap around.
    low = -whole.max if dtype.is_signed is False and kind is int else whole.min
    return Bounds(low, whole.max, is_finite=True)
