"""The graph itself, run operation by operation: shows what capture costs and what it gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat
from framehook.backends.graph import CompiledGraph, GraphInput
from framehook.trace.number_inputs import NumberForm


def eager(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_options: Any) -> Callable[..., Any]:
    """Return the graph's own `forward`; `mode` and `options` have no meaning here, as for `torch.compile`."""
    return torch_compat.plain_forward(gm)


class EagerCompiler:
    """The `eager` backend."""

    name = "eager"
    uses_autograd_tracing = False
    takes_symbols = True
    number_form = NumberForm.NUMBER
    writes_last = False

    def compile(
        self, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
    ) -> CompiledGraph:
        """Nothing is compiled; the graph's code is only written."""
        return CompiledGraph(torch_compat.plain_forward(gm), is_boxed=False)
