"""Integers that the graph computes: sizes of tensors whose dimensions differ between calls."""

from __future__ import annotations

from typing import Any

import torch

from framehook.values.base import ConstantValue, LazyValue, Tracer, Value


class SymbolicInteger(LazyValue):
    """A size, or what follows from sizes, as a symbol of the trace and a node of the graph.

    Whoever looks at the value realizes it: then the symbol is guarded to be that number, and it is a constant.
    """

    __slots__ = ("node", "symbol")

    def __init__(self, node: Any, symbol: torch.SymInt, hint: int) -> None:
        super().__init__(hint, None)  # type: ignore[arg-type]
        self.node = node
        self.symbol = symbol

    def realize(self, tr: Tracer) -> Value:
        if self.actual is None:
            self.actual = ConstantValue(int(self.symbol))  # this is where the guard comes from
            tr.note_specialised()
        return self.actual


def is_symbolic_size(value: Value) -> bool:
    """Whether it is a size that nobody has looked at."""
    return isinstance(value, SymbolicInteger) and value.actual is None
