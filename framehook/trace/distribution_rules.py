"""`torch.distributions`: checks of parameters, and which function computes a divergence.

Whether parameters are valid is asked of their values.  That they are becomes an operation that raises: then the call
runs again eagerly, and raises what eager raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributions.kl as divergences
from torch.distributions import Distribution, constraints
from torch.distributions import utils as distribution_utils

from framehook.guards.guard import Check
from framehook.trace.rules import rule
from framehook.values.base import ConstantValue, Value
from framehook.values.objects import ObjectValue
from framehook.values.tensor import TensorValue

_CHECKING = frozenset({Distribution.__init__.__code__, Distribution._validate_sample.__code__})
#: Constraints that ask of a first part of what they check whether it holds, and say no at once if it does not.
_FIRST_PARTS = frozenset(
    {constraints._Symmetric.check.__code__, constraints._PositiveSemidefinite.check.__code__}
    | {constraints._PositiveDefinite.check.__code__}
)


def is_checked(tr: Any, value: TensorValue) -> bool:
    """Whether the program raises unless this tensor is true, and the graph now sees to it.

    On other devices than the CPU the operation would not raise, but end the process.
    """
    fake = value.fake
    frame = tr.frame
    while frame.code in _FIRST_PARTS and frame.caller is not None:
        frame = frame.caller
    if (
        frame.code not in _CHECKING
        or tr.builder.regions
        or fake.device.type != "cpu"
        or fake.dtype is not torch.bool
        or fake.numel() != 1
    ):
        return False
    tr.graph_call(
        torch._assert_async, [value, ConstantValue("the parameters of a distribution are valid")], {}
    )
    tr.builder.has_checks = True
    return True


class LazyPropertyValue(Value):
    """What a lazy property of a distribution is on the class: it is only asked for its class."""

    __slots__ = ()

    def __init__(self) -> None:
        self.source = None

    def python_type(self) -> type:
        return distribution_utils._lazy_property_and_property


@rule(distribution_utils._lazy_property_and_property)
def _lazy_property(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    value: Value = tr.note_birth(LazyPropertyValue())
    return value


def _function_for(left: type, right: type) -> Any:
    """What `kl_divergence` calls; None where it has to say something."""
    found = divergences._KL_MEMOIZE.get((left, right))
    if found is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = divergences._dispatch_kl(left, right)
        except RuntimeWarning:
            return None
    return None if found is NotImplemented else found


class Divergence:
    """A guard: the classes still have this function."""

    __qualname__ = "divergence_of"

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, left: type, right: type) -> bool:
        return _function_for(left, right) is self.function


@rule(divergences.kl_divergence)
def _divergence(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    values = [value.realize(tr) for value in (*args, *kwargs.values())]
    if len(values) != 2 or list(kwargs) not in ([], ["q"], ["p", "q"]):
        tr.graph_break("call", "kl_divergence() is called in another way")
    left, right = values
    function = None
    if isinstance(left, ObjectValue) and isinstance(right, ObjectValue):
        function = _function_for(left.cls, right.cls)
    if function is None:
        tr.graph_break("call", f"kl_divergence() of {left.describe()} and {right.describe()}")
        raise AssertionError
    sources = (tr.absolute(left.cls, None), tr.absolute(right.cls, None))  # type: ignore[attr-defined]
    tr.guard(None, Check.PREDICATE, (Divergence(function), sources))
    result: Value = tr.call(tr.constant_object(function), [left, right], {})
    return result
