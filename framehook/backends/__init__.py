"""Backends: from a captured graph to something that runs.

`compile_graph` is where the engine enters; `register`, `list` and `get` are for users.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat
from framehook.backends.graph import CompiledGraph, Compiler, GraphInput
from framehook.backends.registry import get, register, resolve
from framehook.backends.registry import list_backends as list
from framehook.errors import BackendError

__all__ = [
    "CompiledGraph",
    "Compiler",
    "GraphInput",
    "compile_graph",
    "get",
    "list",
    "register",
    "resolve",
]


def compile_graph(
    compiler: Compiler, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
) -> CompiledGraph:
    """Compile a captured graph under the grad mode, inference mode and autocast state at the frame's entry.

    Args:
        compiler: a backend with its options, from `resolve`.
        gm: the graph; the backend may change it.
        inputs: one for each placeholder, in order.
        mode: the fake mode of the capture, to which the fake inputs belong.

    Raises:
        BackendError: with what the backend raised as its cause.
    """
    torch_compat.mark_inputs(
        gm,
        [each.fake for each in inputs],
        [each.source for each in inputs],
        [each.is_static for each in inputs],
    )
    try:
        return compiler.compile(gm, inputs, mode)
    except Exception as error:
        raise BackendError(f"{type(error).__name__}: {error}", compiler.name, gm) from error
