"""Backends that are functions of somebody else: any callable, and those that other packages register."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat, torch_symbols
from framehook.backends.graph import CompiledGraph, GraphInput
from framehook.trace.number_inputs import NumberForm

#: The entry-point group in which packages register backends for `torch.compile`.
ENTRY_POINT_GROUP = "torch_dynamo_backends"

BackendFunction = Callable[..., Callable[..., Any]]


def entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """The backends that installed packages announce, by name, not yet loaded."""
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}


def _given(inputs: Sequence[GraphInput]) -> list[Any]:
    """Real tensors, as `torch.compile` hands them over; fakes where sizes or integers are symbols."""
    is_symbolic = any(
        torch_symbols.is_symbolic(size)
        for each in inputs
        for size in (each.fake.size() if isinstance(each.fake, torch.Tensor) else (each.fake,))
    )
    return [each.fake if is_symbolic else each.example for each in inputs]


class ForeignCompiler:
    """`function(gm, example_inputs)`; `mode` and `options` are passed on as keywords where given."""

    def __init__(
        self, name: str, function: BackendFunction, mode: str | None, options: Mapping[str, Any] | None
    ) -> None:
        self.name = name
        #: A wrapper around one of our own backends says what it wraps.
        self.uses_autograd_tracing = bool(getattr(function, "uses_autograd_tracing", False))
        #: Only who declares it knows that sizes and integers may be symbols.
        self.takes_symbols = bool(getattr(function, "takes_symbols", False))
        self.number_form = getattr(function, "number_form", NumberForm.EXACT_TENSOR)
        self.writes_last = bool(getattr(function, "writes_last", False))
        self._function = function
        self._keywords: dict[str, Any] = {}
        if mode and mode != "default":
            self._keywords["mode"] = mode
        if options:
            self._keywords["options"] = dict(options)

    def compile(
        self, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
    ) -> CompiledGraph:
        """Call the function with real tensors, as `torch.compile` does.

        A function that goes on to AOTAutograd or Inductor finds the fake mode through the tracing context,
        where its real tensors lead to the fakes that they already have.
        """
        with torch_compat.backend_session(mode) as context:
            compiled = self._function(gm, _given(inputs), **self._keywords)
            guards = torch_compat.input_guards(context)
        if not callable(compiled):
            raise TypeError(f"it returned {compiled!r} ({type(compiled).__name__}), which cannot be called")
        if compiled is gm and not (gm._forward_hooks or gm._forward_pre_hooks or gm._backward_hooks):
            compiled = torch_compat.plain_forward(gm)
        run, is_boxed = torch_compat.boxed_call(compiled, gm)
        return CompiledGraph(run, is_boxed, guards)
