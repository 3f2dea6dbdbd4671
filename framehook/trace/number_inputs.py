"""Which operations take a number that changes between calls as an input of the graph.

A number may stay unknown only where nothing but values follows from it: not the shape, the dtype or the aliasing of
a result.  Operations are listed one by one for that; everything else makes the number a constant under guard.

Backends that run the graph as it is get the number itself.  To others a number would be a constant for good: they
get a tensor without dimensions, and `backends.numbers` rewrites the operations that take one.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from typing import Any

import torch


class NumberForm(enum.Enum):
    """In which form a backend takes numbers that differ between calls."""

    NUMBER = "number"
    TENSOR = "tensor"
    #: Only where operations on the tensor round as those on the number do.
    EXACT_TENSOR = "exact tensor"


#: Operators and functions of two operands, element by element.
_BINARY = (
    *("add", "sub", "rsub", "mul", "truediv", "true_divide", "div", "divide", "multiply", "subtract", "pow"),
    *("floordiv", "floor_divide", "mod", "remainder", "fmod", "float_power", "copysign", "xlogy", "ldexp"),
    *("lt", "le", "gt", "ge", "eq", "ne", "greater", "greater_equal", "less", "less_equal", "not_equal"),
)
#: Others, of which a scalar argument only says how large the values are.
_SCALED = (
    *(
        "addcmul",
        "addcdiv",
        "lerp",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "addbmm",
        "index_add",
        "clamp",
        "clip",
    ),
    *("clamp_min", "clamp_max", "fill", "masked_fill", "full_like", "nan_to_num", "where"),
    *("leaky_relu", "elu", "celu", "threshold", "softplus", "hardshrink", "softshrink"),
    *("layer_norm", "group_norm", "batch_norm", "rms_norm", "scalar_tensor", "tensor", "as_tensor"),
)
_FOREACH = tuple(
    f"_foreach_{name}"
    for name in ("add", "sub", "mul", "div", "pow", "addcmul", "addcdiv", "lerp", "clamp_min", "clamp_max")
)
#: Others, with the places that say nothing about the shape.
_VALUE_PLACES: dict[str, tuple[int | str, ...]] = {"full": (1, "fill_value"), "new_full": (2, "fill_value")}
_NAMES = frozenset((*_BINARY, *_SCALED, *_FOREACH, *_VALUE_PLACES))

#: Of the operations that exist as rewritten for tensors: the places that a number may have.
_AS_TENSOR: dict[str, tuple[int | str, ...]] = {
    **dict.fromkeys(("add", "sub"), (0, 1, "other", "alpha")),
    **dict.fromkeys(
        ("mul", "truediv", "true_divide", "div", "divide", "multiply", "subtract"), (0, 1, "other")
    ),
    "lerp": (2, "weight"),
    "addcmul": ("value",),
    "addcdiv": ("value",),
    "fill": (1, "value"),
    "_foreach_add": (1, "alpha"),
    "_foreach_sub": (1, "alpha"),
    "_foreach_mul": (1,),
    "_foreach_div": (1,),
    "_foreach_lerp": (2,),
    "_foreach_addcmul": (3, "value"),
    "_foreach_addcdiv": (3, "value"),
}
#: Of these, those that round as their forms for numbers do, in float32 and float64.
_EXACT = frozenset(
    {"add", "sub", "subtract", "mul", "multiply", "truediv", "true_divide", "div", "divide", "lerp", "fill"}
    | {"_foreach_mul", "_foreach_div"}
)


@functools.cache
def _known_functions() -> dict[int, str]:
    found: dict[int, str] = {}
    namespaces: tuple[Any, ...] = (torch, operator, torch.nn.functional, torch._C._nn)
    for name in _NAMES:
        for variant in (name, f"{name}_", f"i{name}"):
            for namespace in namespaces:
                fn = getattr(namespace, variant, None)
                if fn is not None:
                    found[id(fn)] = name
    return found


def plain_name(target: Any, is_method: bool) -> str:
    """The name of a listed operation, the same for all its forms; empty for any other."""
    if not is_method:
        return _known_functions().get(id(target), "")
    name: str = target
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        if name not in _NAMES and name[:1] in "ir":
            name = name[1:]
        return name if name in _BINARY else ""
    name = name.removesuffix("_")
    return name if name in _NAMES else ""


def is_in_place(target: Any, is_method: bool) -> bool:
    """Whether a listed operation is the form that changes its first operand."""
    name = target if is_method else getattr(target, "__name__", "")
    if name.startswith("__") or (
        isinstance(target, types.BuiltinFunctionType) and target.__module__ == "_operator"
    ):
        return name.strip("_").startswith("i")
    return bool(name.endswith("_"))


def takes_number(
    target: Any, is_method: bool, place: int | str, tensors: list[Any], form: NumberForm, changes_type: bool
) -> bool:
    """Whether an operation takes an unknown number at a place among its arguments.

    Args:
        target: a function, or the name of a method.
        is_method: which of the two.
        place: position or keyword of the argument.
        tensors: the fake tensors among the operands, those in lists included.
        form: what the backend gets.
        changes_type: whether autocast is on, which some operations change their dtype for.
    """
    name = plain_name(target, is_method)
    if not name:
        return False
    if form is NumberForm.NUMBER:
        return place in _VALUE_PLACES.get(name, (place,))
    if place not in _AS_TENSOR.get(name, ()) or changes_type or not tensors:
        return False
    if name not in _BINARY and not (
        tensors[0].is_floating_point() and all(each.dtype is tensors[0].dtype for each in tensors)
    ):
        return False
    if form is NumberForm.EXACT_TENSOR and (
        name not in _EXACT
        or place == "alpha"
        or any(each.dtype not in (torch.float32, torch.float64) for each in tensors)
    ):
        return False
    is_reflected = is_method and target.startswith("__r")
    return not is_reflected and not any(each.is_complex() or each.dtype is torch.bool for each in tensors)
