"""`is_compiling()`: true in a trace, except where torch's own code gives another result for that answer."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from framehook import directives
from framehook.trace import optimizer_rules
from framehook.trace.rules import rule
from framehook.values.base import ConstantValue, Value
from framehook.values.sequences import ListValue, TupleValue
from framehook.values.tensor import TensorValue


def _place(code: types.CodeType) -> tuple[str, str]:
    """What a code object and those that go on after a break in it have in common."""
    return code.co_filename, code.co_qualname


_CALL = _place(nn.Module._call_impl.__code__)
_ENCODER = _place(nn.TransformerEncoder.forward.__code__)


@rule(directives.is_compiling)
@rule(torch.compiler.is_compiling)
@rule(torch.compiler.is_dynamo_compiling)
def _is_compiling(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    place = _place(tr.frame.code)
    if place == _CALL:
        return ConstantValue(not _has_always_called_hooks(tr))
    if place == _ENCODER:
        return ConstantValue(_records_gradients(tr))
    if optimizer_rules.is_in_optimizer(tr):
        return ConstantValue(not _is_refused(tr))
    return ConstantValue(True)


def _variable(tr: Any, name: str) -> Any:
    found = tr.frame.locals.get(name)
    return (tr.frame.cells[name].contents if found is None else found).realize(tr)


def _has_always_called_hooks(tr: Any) -> bool:
    """Hooks that are called even after `forward` has raised; compilers are told not to."""
    of_module = _variable(tr, "self").get_attr(tr, "_forward_hooks_always_called")
    of_all = tr.frame.globals.load(tr, "_global_forward_hooks_always_called")
    return bool(tr.truth(of_module) or tr.truth(of_all))


def _records_gradients(tr: Any) -> bool:
    """An encoder that records gradients never takes the path of nested tensors, which compilers are kept from.

    That path gives zeros at the positions that the mask hides.
    """
    if not torch.is_grad_enabled():
        return False
    weight = _variable(tr, "first_layer")
    for name in ("linear1", "weight"):
        weight = weight.get_attr(tr, name).realize(tr)
    return bool(tr.truth(weight.get_attr(tr, "requires_grad")))


def _is_refused(tr: Any) -> bool:
    """Whether an optimizer would refuse `capturable=True` for tensors on the CPU."""
    flag = tr.frame.locals.get("capturable")
    if flag is None or flag is optimizer_rules.CAPTURABLE:
        return False
    value = flag.realize(tr)
    params = tr.frame.locals.get("params")
    params = None if params is None else params.realize(tr)
    if not isinstance(value, ConstantValue) or not value.value:
        return False
    if not isinstance(params, ListValue | TupleValue) or not params.items:
        return False
    first = params.items[0].realize(tr)
    return isinstance(first, TensorValue) and first.fake.is_cpu
