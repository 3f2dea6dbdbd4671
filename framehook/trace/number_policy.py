"""What a trace is told of numbers and sizes that differ from call to call."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch

from framehook.directives import dynamic_dims, static_dims
from framehook.source import Source
from framehook.trace.number_inputs import NumberForm
from framehook.values.base import ChangingNumber, LazyValue, Value
from framehook.values.numbers import leaves
from framehook.values.symbolic import SymbolicInteger


class NumberPolicy(NamedTuple):
    """Which numbers and sizes are not to be taken for constants.

    Attributes:
        changing: names of the sources of numbers that differ from call to call.
        form: what the backend gets for them.
        sizes: the dimensions that differ between calls, by the names of the sources of tensors.
        are_all_symbolic: whether all dimensions may.
        takes_symbols: whether the backend knows symbols at all.
    """

    changing: frozenset[str] = frozenset()
    form: NumberForm = NumberForm.NUMBER
    sizes: Mapping[str, Collection[int]] = types.MappingProxyType({})
    are_all_symbolic: bool = False
    takes_symbols: bool = True

    def is_changing(self, value: Value) -> bool:
        """Whether it is a number that nobody has looked at and that is known to differ between calls."""
        if not isinstance(value, LazyValue):
            return False
        changing = self.changing
        return any(
            isinstance(leaf, ChangingNumber | SymbolicInteger)
            or (bool(changing) and leaf.source.name() in changing)
            for leaf in leaves(value)
        )

    def symbolic_dims(self, source: Source, tensor: torch.Tensor) -> Collection[int]:
        """The dimensions of an input whose sizes become symbols."""
        if (
            not self.takes_symbols
            or isinstance(tensor, torch.nn.Parameter)
            or (tensor._is_view() and tensor.requires_grad)
        ):
            return ()
        dims = set(range(tensor.dim())) if self.are_all_symbolic else set(self.sizes.get(source.name(), ()))
        dims = (dims - static_dims(tensor)) | dynamic_dims(tensor).keys()
        return {dim for dim in dims if dim < tensor.dim() and tensor.shape[dim] > 1}


NO_NUMBERS = NumberPolicy()
