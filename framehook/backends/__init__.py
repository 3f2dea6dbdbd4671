"""Backends: from a captured graph to something that runs.

`compile_graph` is where the engine enters; `register`, `list` and `get` are for users.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat, torch_symbols
from framehook.backends.failures import is_operation_failure, run_again_on_failure
from framehook.backends.graph import CompiledGraph, Compiler, GraphInput
from framehook.backends.numbers import as_tensors, taking_numbers
from framehook.backends.overlap import changes_overlapping
from framehook.backends.registry import get, register, resolve
from framehook.backends.registry import list_backends as list
from framehook.backends.undo import undo_for
from framehook.errors import BackendError
from framehook.trace.number_inputs import NumberForm

__all__ = [
    "CompiledGraph",
    "Compiler",
    "GraphInput",
    "compile_graph",
    "get",
    "list",
    "register",
    "resolve",
    "undo_for",
]


def compile_graph(
    compiler: Compiler,
    gm: torch.fx.GraphModule,
    inputs: Sequence[GraphInput],
    mode: FakeTensorMode,
    eager_reason: str = "",
) -> CompiledGraph:
    """Compile a captured graph under the grad mode, inference mode and autocast state at the frame's entry.

    Args:
        compiler: a backend with its options, from `resolve`.
        gm: the graph; the backend may change it.
        inputs: one for each placeholder, in order.
        mode: the fake mode of the capture, to which the fake inputs belong.
        eager_reason: why AOTAutograd cannot be given the graph; else empty.

    Raises:
        ValueError: if two placeholders stand for the same tensor; the tracer makes one of them.
        BackendError: with what the backend raised as its cause.
    """
    if compiler.uses_autograd_tracing and eager_reason:
        return _as_it_is(gm, eager_reason)
    if compiler.number_form is NumberForm.NUMBER or not any(
        type(each.example) in (int, float) for each in inputs
    ):
        return _compile_tensors(compiler, gm, inputs, mode)
    # What takes a number as an input would be compiled for this one.
    compiled = _compile_tensors(compiler, gm, as_tensors(gm, inputs, mode), mode)
    return taking_numbers(compiled, inputs)


def _compile_tensors(
    compiler: Compiler, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
) -> CompiledGraph:
    fakes = [each.fake for each in inputs if torch_compat.is_fake(each.fake)]
    if len({id(fake) for fake in fakes}) != len(fakes):
        # AOTAutograd 2.13 fails on them with an AttributeError of its own.
        raise ValueError("one tensor was passed as two graph inputs")
    if compiler.uses_autograd_tracing and any(map(torch_compat.is_mutated_with_gradient, fakes)):
        return _as_it_is(gm, "it changes an input in place under autograd")
    if compiler.uses_autograd_tracing and changes_overlapping(inputs):
        return _as_it_is(gm, "it changes an input whose memory another input shares")
    if any(
        torch_compat.is_stale(each.fake, each.example) for each in inputs if torch_compat.is_fake(each.fake)
    ):
        if any(torch_symbols.is_symbolic(size) for fake in fakes for size in (*fake.size(), *fake.stride())):
            return _as_it_is(gm, "it changes the shape of an input, and sizes are symbols")
        # All of them anew, in a mode of their own: views and shared storage must agree with each other.
        mode = torch_compat.make_fake_mode()
        inputs = [
            each._replace(fake=torch_compat.fakify(mode, each.example))
            if torch_compat.is_fake(each.fake)
            else each
            for each in inputs
        ]
    torch_compat.mark_inputs(
        gm,
        [each.fake for each in inputs],
        [each.source for each in inputs],
        [each.is_static for each in inputs],
    )
    is_mutating = any(map(torch_compat.is_mutated, fakes))
    try:
        compiled = compiler.compile(gm, inputs, mode)
        if is_mutating and compiler.writes_last:
            compiled = run_again_on_failure(compiled, gm)
        return compiled
    except Exception as error:
        if compiler.uses_autograd_tracing and torch_compat.is_backward_failure(error):
            return _as_it_is(gm, "its backward cannot be traced")
        if compiler.uses_autograd_tracing and is_operation_failure(error):
            # Eager raises it too, or knows better; either way the user gets what eager gives.
            return _as_it_is(gm, f"an operation failed in tracing: {type(error).__name__}: {error}")
        raise BackendError(f"{type(error).__name__}: {error}", compiler.name, gm) from error


def _as_it_is(gm: torch.fx.GraphModule, reason: str) -> CompiledGraph:
    """Run the graph operation by operation: eager's result, also where that is an error at backward."""
    return CompiledGraph(torch_compat.plain_forward(gm), False, eager_reason=reason)
