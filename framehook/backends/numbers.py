"""Numbers that differ between calls, for backends to which a number is a constant: tensors take their places.

A tensor without dimensions is no number: beside integers it decides the dtype, and beside float16 it is rounded before
the operation.  So each operation that takes a number (`trace.number_inputs` lists them) is rewritten such that it is
computed in the dtype that eager computes it in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat
from framehook.backends.graph import CompiledGraph, GraphInput
from framehook.trace.number_inputs import is_in_place, plain_name

_DTYPES = {float: torch.float64, int: torch.int64}
#: CPU kernels and compilers compute these with the precision of float32.
_REDUCED = (torch.float16, torch.bfloat16)
_QUOTIENTS = ("div", "divide", "truediv", "true_divide")


def _tensor_of(number: int | float) -> torch.Tensor:
    return torch.scalar_tensor(number, dtype=_DTYPES[type(number)], device="cpu")


def as_tensors(
    gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
) -> list[GraphInput]:
    """Let a graph take tensors in the place of numbers; returns its inputs, changed likewise."""
    found: list[GraphInput] = []
    rewriter = _Rewriter(gm.graph, mode)
    for each, node in zip(inputs, gm.graph.find_nodes(op="placeholder"), strict=True):
        if type(each.fake) in _DTYPES:
            real = _tensor_of(each.example)
            each = each._replace(example=real, fake=torch_compat.fakify(mode, real))
            rewriter.numbers[node] = each.fake
        found.append(each)
    for node in list(gm.graph.nodes):
        if any(used in rewriter.numbers for used in node.all_input_nodes):
            rewriter.rewrite(node)
    for node, fake in rewriter.numbers.items():
        node.meta["example_value"] = fake
    gm.recompile()
    return found


def taking_numbers(compiled: CompiledGraph, inputs: Sequence[GraphInput]) -> CompiledGraph:
    """Wrap a compiled graph that takes tensors in the place of numbers."""
    places = [place for place, each in enumerate(inputs) if type(each.fake) in _DTYPES]
    run = compiled.callable

    def run_boxed(given: list[Any]) -> Any:
        for place in places:
            given[place] = _tensor_of(given[place])
        return run(given)

    def run_plain(*given: Any) -> Any:
        replaced = list(given)
        for place in places:
            replaced[place] = _tensor_of(given[place])
        return run(*replaced)

    return compiled._replace(callable=run_boxed if compiled.is_boxed else run_plain)


class _Rewriter:
    """Rewrites the operations of one graph that take numbers."""

    def __init__(self, graph: torch.fx.Graph, mode: FakeTensorMode) -> None:
        self.graph = graph
        self.mode = mode
        #: The placeholders of numbers, with the fakes of the tensors that take their places.
        self.numbers: dict[torch.fx.Node, torch.Tensor] = {}

    def rewrite(self, node: torch.fx.Node) -> None:
        """Put operations on tensors in the place of one on numbers."""
        is_method = node.op == "call_method"
        name = plain_name(node.target, is_method)
        changes = is_in_place(node.target, is_method)
        with self.graph.inserting_before(node):
            if not name.startswith("_foreach_"):
                made = self.one(name, node.args, node.kwargs, changes, node.meta["example_value"])
                made.meta.update(node.meta)
                node.replace_all_uses_with(made)
            else:
                rows = self.each(name.removeprefix("_foreach_"), node, changes)
                for user in list(node.users):
                    assert user.target is operator.getitem
                    rows[user.args[1]].meta.update(user.meta)  # type: ignore[index]
                    user.replace_all_uses_with(rows[user.args[1]])  # type: ignore[index]
                    self.graph.erase_node(user)
        self.graph.erase_node(node)

    def each(self, name: str, node: torch.fx.Node, changes: bool) -> list[torch.fx.Node]:
        """An operation on lists of tensors, one by one."""
        count = len(node.args[0])  # type: ignore[arg-type]

        def part(argument: Any, index: int) -> Any:
            return argument[index] if isinstance(argument, (list, tuple)) else argument

        results = node.meta["example_value"]
        return [
            self.one(
                name,
                [part(argument, index) for argument in node.args],
                {key: part(argument, index) for key, argument in node.kwargs.items()},
                changes,
                None if changes else results[index],
            )
            for index in range(count)
        ]

    def one(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], changes: bool, result: Any
    ) -> torch.fx.Node:
        """One operation on tensors, numbers among them; `result` is the fake of what it gives if it changes nothing."""
        first = args[0]
        wanted = self.fake(first).dtype if changes else result.dtype
        if name == "fill":
            number = self.cast(kwargs.get("value", args[-1]), wanted)
            if changes:
                return self.graph.call_method("fill_", (first, number))
            return self.call(torch.fill, first, number)
        if name == "truediv" and first in self.numbers:
            # `Tensor.__rtruediv__` multiplies.
            inverse = self.call(torch.reciprocal, self.cast(args[1], wanted))
            return self.one("mul", (inverse, first), {}, False, result)
        dtype = self.common_dtype(args) if changes else wanted
        made = self.compute(name, args, kwargs, torch.float32 if dtype in _REDUCED else dtype)
        if not changes:
            return self.cast(made, wanted)
        changed = self.graph.call_method("copy_", (first, self.cast(made, wanted)))
        changed.meta["example_value"] = self.fake(first)
        return changed

    def common_dtype(self, args: Sequence[Any]) -> torch.dtype:
        """The dtype that the first two operands are combined in."""
        first = self.fake(args[0])
        second = args[1] if len(args) > 1 else 1
        known = 1 if second in self.numbers else self.fake(second)
        return torch.result_type(first, known)

    def compute(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], dtype: torch.dtype
    ) -> torch.fx.Node:
        """The value of an operation, computed in a dtype."""

        def operand(place: int, keyword: str) -> torch.fx.Node:
            return self.cast(args[place] if place < len(args) else kwargs[keyword], dtype)

        first, second = operand(0, "input"), operand(1, {"lerp": "end"}.get(name, "other"))
        if name == "lerp":
            return self.call(torch.lerp, first, second, operand(2, "weight"))
        if name in ("addcmul", "addcdiv"):
            second = operand(1, "tensor1")
            scaled = self.call(torch.mul, second, operand(3, "value"))
            join = torch.mul if name == "addcmul" else torch.div
            return self.call(torch.add, first, self.call(join, scaled, operand(2, "tensor2")))
        if name in ("add", "sub", "subtract"):
            if "alpha" in kwargs:
                second = self.call(torch.mul, second, operand(len(args), "alpha"))
            return self.call(torch.add if name == "add" else torch.sub, first, second)
        if name in _QUOTIENTS:
            return self.call(torch.div, first, second, **_only(kwargs, "rounding_mode"))
        assert name in ("mul", "multiply")
        return self.call(torch.mul, first, second)

    # -- nodes -----------------------------------------------------------------------------------------
    def fake(self, argument: Any) -> Any:
        """What stands for an argument: a fake tensor, or a constant."""
        if not isinstance(argument, torch.fx.Node):
            return argument
        return self.numbers[argument] if argument in self.numbers else argument.meta["example_value"]

    def cast(self, argument: Any, dtype: torch.dtype) -> Any:
        """An operand in a dtype; constants stay as they are."""
        if not isinstance(argument, torch.fx.Node) or self.fake(argument).dtype is dtype:
            return argument
        made = self.graph.call_method("to", (argument, dtype))
        with torch_compat.propagating(self.mode):
            made.meta["example_value"] = self.fake(argument).to(dtype)
        return made

    def call(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.fx.Node:
        """A call of a function that changes nothing."""
        made = self.graph.call_function(fn, args, kwargs)
        with torch_compat.propagating(self.mode):
            made.meta["example_value"] = fn(*map(self.fake, args), **kwargs)
        return made


def _only(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: kwargs[name]} if kwargs.get(name) is not None else {}
