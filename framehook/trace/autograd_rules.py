"""`torch.autograd.Function.apply`.

Where a gradient is recorded, the call goes into the graph as it is: the real function runs there, with its context,
and autograd calls its `backward`.  It may do nothing but compute, as a backend may run it less often than eager does;
a rehearsal finds out, in which both are traced and dropped again.  Where no gradient is recorded, `forward` is traced
like any other function.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch

from framehook.polyfills import autograd_context
from framehook.trace.rules import rule
from framehook.values.base import ConstantValue, ObservedException, Value
from framehook.values.classes import ClassValue
from framehook.values.functions import FunctionValue
from framehook.values.sequences import TupleValue
from framehook.values.tensor import TensorValue, break_at_backward

_HINT = "call it outside of the compiled function"


class AppliedFunction:
    """The target of a node: `cls.apply`, with a name of its own."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.__name__ = self.__qualname__ = cls.__name__
        self.__module__ = cls.__module__

    def __call__(self, *inputs: Any) -> Any:
        return self.cls.apply(*inputs)


def _inner_code(fn: Any) -> types.CodeType | None:
    codes = [each for each in fn.__code__.co_consts if isinstance(each, types.CodeType)]
    return codes[0] if codes else None


#: The code of what `once_differentiable` makes of a `backward`.
_ONCE = _inner_code(torch.autograd.function.once_differentiable)
_APPLY: Any = torch.autograd.Function.apply
_NO_SETUP = torch.autograd.Function.setup_context


@rule(_APPLY.__func__)
def _apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    cls = args[0].realize(tr)
    inputs = [arg.realize(tr) for arg in args[1:]]
    if kwargs or type(cls) is not ClassValue:
        tr.graph_break(
            "call", "an autograd function is called with keyword arguments, or defined by the frame", _HINT
        )
        raise AssertionError
    name = cls.fn.__name__
    if any(isinstance(each, TensorValue) and each.subclass is not None for each in inputs):
        tr.graph_break("call", f"{name}.apply() of a subclass of tensors", _HINT)
    setup = cls.get_attr(tr, "setup_context").realize(tr)
    has_setup = not (isinstance(setup, FunctionValue) and setup.fn is _NO_SETUP)
    forward = cls.get_attr(tr, "forward").realize(tr)
    if not isinstance(forward, FunctionValue):
        tr.graph_break("call", f"{name}.forward is no function", _HINT)
        raise AssertionError
    if has_setup and forward.fn.__code__.co_argcount != len(inputs):
        tr.graph_break("call", f"{name}.apply() leaves arguments to their defaults", _HINT)
    wanted = [each for each in inputs if isinstance(each, TensorValue) and _requires_grad(tr, each)]
    if wanted and torch.is_grad_enabled():
        _rehearse(tr, cls, has_setup, inputs)
        result: Value = tr.builder.call(tr, AppliedFunction(cls.fn), inputs, {}, False)
        return result
    run = tr.constant_object(autograd_context.forward_alone)
    result = tr.call(run, [cls, ConstantValue(has_setup), *inputs], {}).realize(tr)
    _check_outputs(tr, name, result, inputs)
    return result


def _requires_grad(tr: Any, value: TensorValue) -> bool:
    if value.example is not None:
        tr.need_requires_grad(value)
    return bool(value.fake.requires_grad)


def _check_outputs(tr: Any, name: str, result: Value, inputs: list[Value]) -> None:
    """Break where `apply` gives other objects than `forward` does."""
    is_tuple = isinstance(result, TupleValue) and result.cls is tuple
    for each in (item.realize(tr) for item in (result.items if is_tuple else [result])):  # type: ignore[attr-defined]
        is_new = isinstance(each, TensorValue) and each.source is None and each not in inputs
        if not is_new and not (is_tuple and isinstance(each, ConstantValue)):
            tr.graph_break("call", f"{name}.forward() returns what it was given, or no tensors", _HINT)


def _rehearse(tr: Any, cls: ClassValue, has_setup: bool, inputs: list[Value]) -> None:
    """Break where `forward` or `backward` does anything but compute."""
    name = cls.fn.__name__
    backward = cls.get_attr(tr, "backward").realize(tr)
    if isinstance(backward, FunctionValue) and backward.fn.__code__ is _ONCE:
        plain: Any = backward.fn.__wrapped__  # type: ignore[attr-defined]
        backward = tr.wrap(plain, tr.absolute(plain, backward.source))
    effects = len(tr.effects)
    state = torch.is_grad_enabled()
    run = tr.constant_object(autograd_context.forward_and_backward)
    try:
        with tr.builder.rehearsal():
            tr.call(run, [cls, ConstantValue(has_setup), backward, *inputs], {})
    except ObservedException:
        tr.graph_break("call", f"{name}.forward() or {name}.backward() raises", _HINT)
    if len(tr.effects) != effects or torch.is_grad_enabled() is not state:
        tr.graph_break("call", f"{name} does more than compute tensors", _HINT)


# -- gradients asked for inside ----------------------------------------------------------------------------------


@rule(torch.autograd.grad)
def _grad(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph")
    break_at_backward(tr, "torch.autograd.grad", dict(zip(names, args, strict=False)) | kwargs)


@rule(torch.autograd.backward)
def _backward(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
    break_at_backward(tr, "torch.autograd.backward", dict(zip(names, args, strict=False)) | kwargs)
