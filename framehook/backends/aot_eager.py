"""AOTAutograd without a compiler behind it: shows whether functionalisation and partitioning are at fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat
from framehook.backends.graph import CompiledGraph, GraphInput
from framehook.trace.number_inputs import NumberForm


def _run_as_it_is(gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    return torch_compat.boxed_forward(gm)


def aot_eager(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_options: Any) -> Callable[..., Any]:
    """Return forward and backward graphs of ATen operations, run one by one."""
    return torch_compat.aot_autograd(gm, example_inputs, _run_as_it_is)


class AotEagerCompiler:
    """The `aot_eager` backend."""

    name = "aot_eager"
    uses_autograd_tracing = True
    takes_symbols = True
    number_form = NumberForm.TENSOR
    writes_last = True

    def compile(
        self, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
    ) -> CompiledGraph:
        """Trace forward and backward with the fake tensors of the capture."""
        with torch_compat.backend_session(mode) as context:
            compiled = torch_compat.aot_autograd(gm, [each.fake for each in inputs], _run_as_it_is)
            guards = torch_compat.input_guards(context)
        run, is_boxed = torch_compat.boxed_call(compiled, gm)
        return CompiledGraph(run, is_boxed, guards)
