"""What stands around and inside of `torch.optim`: profiler ranges, graph breaks asked for, numbers that are tensors.

Torch's optimizers compute with tensors instead of numbers where `torch.compiler.is_compiling()`: the number of the step
stays a tensor, so that no step needs a graph of its own.  The tensors are made such that the results are eager's.
"""

from __future__ import annotations

import importlib
import os
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.profiler
import torch.optim

from framehook.guards.guard import Check
from framehook.trace import calls
from framehook.trace.rules import positional, rule
from framehook.values.base import ConstantValue, Value
from framehook.values.numbers import is_deferred, is_untouched_number
from framehook.values.objects import ObjectValue
from framehook.values.sequences import ListValue, drain
from framehook.values.tensor import TensorValue

# `torch.optim` takes the names of its modules away.
_OPTIMIZER: Any = importlib.import_module("torch.optim.optimizer")
_FOLDER = os.path.dirname(torch.optim.__file__) + os.sep


def is_in_optimizer(tr: Any) -> bool:
    """Whether the code that is traced is torch.optim's own."""
    return bool(tr.frame.code.co_filename.startswith(_FOLDER))


# -- profiler ranges ---------------------------------------------------------------------------------------------------


def _nobody_profiles() -> bool:
    monitor = getattr(torch.autograd.profiler, "_cupti_monitor_module", None)
    return not torch._C._autograd._profiler_enabled() and getattr(monitor, "_monitor_singleton", None) is None


@rule(torch.autograd.profiler.record_function.__enter__)
def _enter_range(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """A range that nobody records; under a profiler it is entered natively."""
    owner = args[0].realize(tr)
    if not isinstance(owner, ObjectValue) or not _nobody_profiles():
        tr.graph_break(
            "call", "a range for the profiler is entered while a profile is made", "profile elsewhere"
        )
    tr.guard(None, Check.PREDICATE, (_nobody_profiles, ()))
    owner.set_attr(tr, "run_callbacks_on_exit", ConstantValue(False))
    return owner


# -- numbers that are tensors ------------------------------------------------------------------------------------------


@rule(_OPTIMIZER._get_value)
@positional(1)
def _get_value(tr: Any, value: Value) -> Value:
    """`tensor.item()` of the number of the step: a tensor that computes as Python's numbers do."""
    number = _tensor(tr, value)
    return value if number is None else _method(tr, "double", number)


def _tensor(tr: Any, value: Value) -> TensorValue | None:
    """The tensor that a value is; a number that changes from call to call is not looked at."""
    if is_deferred(value) or is_untouched_number(value):
        return None
    value = value.realize(tr)
    return value if isinstance(value, TensorValue) else None


#: `capturable=True` that the program has not written.
CAPTURABLE = ConstantValue(True)


def _capturable(fn: types.FunctionType) -> Callable[..., Value]:
    """The form of an optimizer for CUDA graphs, where the other one branches on the number of the step."""

    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        flag = kwargs.get("capturable")
        value = None if flag is None else flag.realize(tr)
        if isinstance(value, ConstantValue) and value.value is False:
            kwargs = {**kwargs, "capturable": CAPTURABLE}
        return calls.inline(tr, tr.constant_object(fn), args, kwargs)

    return apply


for _name in ("radam", "asgd"):
    _fn = getattr(importlib.import_module(f"torch.optim.{_name}"), _name)
    rule(_fn)(_capturable(_fn))

#: Operations that take a number, which `item()` makes of a tensor: the keyword.
_SCALED = {torch._foreach_addcdiv_: "", "addcdiv_": "value", "add_": "alpha", "sub_": "alpha"}
_REDUCED = (torch.float16, torch.bfloat16)


def scaled_by_tensor(tr: Any, target: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value | None:
    """`param.addcdiv_(a, b, value=tensor)` in an optimizer, without asking for the number; None if it is none.

    The operations, and their order, are those of the kernel: `add_` rounds product and sum at once, as `addcmul_` does.
    """
    keyword = _SCALED.get(target)
    if keyword is None or not is_in_optimizer(tr):
        return None
    if not keyword:
        return _foreach_addcdiv(tr, args) if len(args) == 4 and not kwargs else None
    if keyword not in kwargs or len(kwargs) != 1:
        return None
    factor = _tensor(tr, kwargs[keyword])
    owner = _tensor(tr, args[0])
    if factor is None or owner is None:
        return None
    operands = [owner, *args[1:]]
    is_reduced = owner.fake.dtype in _REDUCED
    if is_reduced:
        operands = [_method(tr, "float", each) for each in operands]
    if target != "addcdiv_" and not is_reduced and owner.fake.is_floating_point():
        signed = _method(tr, "neg", factor) if target == "sub_" else factor
        return _method(tr, "addcmul_", owner, operands[1], signed)
    change = _method(tr, "mul", operands[1], factor)
    if target == "addcdiv_":
        change = _method(tr, "div", change, operands[2])
    combine = "sub" if target == "sub_" else "add"
    if is_reduced:
        return _method(tr, "copy_", owner, _method(tr, combine, operands[0], change))
    return _method(tr, f"{combine}_", owner, change)


def _foreach_addcdiv(tr: Any, args: Sequence[Value]) -> Value | None:
    """`torch._foreach_addcdiv_(params, a, b, numbers)` where the numbers are tensors."""
    factors = args[3].realize(tr)
    if not isinstance(factors, ListValue) or any(_tensor(tr, each) is None for each in factors.items):
        return None
    params = drain(tr, args[0])
    if all(isinstance(each := param.realize(tr), TensorValue) and each.fake.is_cpu for param in params):
        rows = zip(params, drain(tr, args[1]), drain(tr, args[2]), factors.items, strict=True)
        for param, numerator, denominator, factor in rows:
            scaled_by_tensor(tr, "addcdiv_", [param, numerator, denominator], {"value": factor})
        return ConstantValue(None)
    change = tr.graph_call(torch._foreach_div, [args[1], args[2]], {})
    tr.graph_call(torch._foreach_mul_, [change, factors], {})
    return tr.graph_call(torch._foreach_add_, [args[0], change], {})


def _method(tr: Any, name: str, *operands: Value) -> Value:
    found: Value = tr.graph_call(name, operands, {}, method=True)
    return found


@rule(_OPTIMIZER._stack_if_compiling)
@positional(1)
def _stack_if_compiling(tr: Any, values: Value) -> Value:
    """A list of numbers for a `torch._foreach_*` function: it stays one."""
    return values
