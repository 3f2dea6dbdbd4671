"""Functions that operations of the graph give, such as the one that `torch.func.vjp` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framehook.values.base import Tracer, Value

if TYPE_CHECKING:
    import torch.fx


class GraphFunction(Value):
    """A node, and the function that it has given on fake tensors."""

    __slots__ = ("fn", "node")

    def __init__(self, node: torch.fx.Node, fn: Callable[..., Any]) -> None:
        self.source = None
        self.node = node
        self.fn = fn

    def python_type(self) -> type:
        return type(self.fn)

    def describe(self) -> str:
        return "a function that an operation has given"

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call_given(self, args, kwargs)
