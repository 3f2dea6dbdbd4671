"""A backend that counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from framehook import backends

_OPERATIONS = frozenset({"call_function", "call_method", "call_module"})


class CompileCounter:
    """A backend that counts the graphs and operations it is given: `compile(fn, backend=CompileCounter())`.

    Attributes:
        frame_count: graphs received.
        op_count: operations in all of them.
        graphs: the graphs themselves, in order.
        uses_autograd_tracing, number_form, takes_symbols, writes_last: what the backend behind it is like.
    """

    def __init__(self, backend: str | Callable[..., Any] = "eager") -> None:
        self.frame_count = 0
        self.op_count = 0
        self.graphs: list[torch.fx.GraphModule] = []
        self._backend = backends.get(backend) if isinstance(backend, str) else backend
        compiler = backends.resolve(self._backend)
        self.uses_autograd_tracing = compiler.uses_autograd_tracing
        self.takes_symbols = compiler.takes_symbols
        self.number_form = compiler.number_form
        self.writes_last = compiler.writes_last

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum(node.op in _OPERATIONS for node in gm.graph.nodes)
        self.graphs.append(gm)
        run: Callable[..., Any] = self._backend(gm, example_inputs)
        return run

    def clear(self) -> None:
        """Count from zero."""
        self.frame_count = 0
        self.op_count = 0
        self.graphs.clear()
