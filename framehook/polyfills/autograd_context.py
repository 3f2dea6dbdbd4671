"""`torch.autograd.Function.apply` in Python (torch: autograd/function.py).

It makes a context and calls `forward`.
The context that is traced here never meets autograd.  Where gradients are recorded, the real one goes into the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from framehook import directives


class Context:
    """The `ctx` of a `forward` that records nothing."""

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(
            isinstance(each, torch.Tensor) and each.requires_grad for each in inputs
        )

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`."""
        self.to_save = tensors

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Name outputs without a gradient."""
        self.non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether gradients that nobody asked for are zeros or None."""
        self.materialize_grads = value

    def __getattr__(self, name: str) -> Any:
        directives.graph_break("the context of an autograd function is asked for something of its own")


class SavingContext(Context):
    """The same, for a `backward` that is called with it afterwards."""

    @property
    def saved_tensors(self) -> Any:
        """What `forward` has saved."""
        return self.to_save


def forward(cls: Any, context: Context, has_setup: bool, inputs: tuple[Any, ...]) -> Any:
    """Call `forward` in either of its two forms."""
    if not has_setup:
        return cls.forward(context, *inputs)
    outputs = cls.forward(*inputs)
    cls.setup_context(context, inputs, outputs)
    return outputs


def forward_alone(cls: Any, has_setup: bool, *inputs: Any) -> Any:
    """`apply` where no gradient is recorded."""
    if not torch.is_grad_enabled():
        return forward(cls, Context(inputs), has_setup, inputs)
    with torch.no_grad():
        return forward(cls, Context(inputs), has_setup, inputs)


def forward_and_backward(cls: Any, has_setup: bool, backward: Any, *inputs: Any) -> None:
    """Call both, for what they do beside computing."""
    context = SavingContext(inputs)
    with torch.no_grad():
        outputs = forward(cls, context, has_setup, inputs)
        if isinstance(outputs, tuple):
            backward(
                context,
                *[torch.ones_like(each) if isinstance(each, torch.Tensor) else None for each in outputs],
            )
        else:
            backward(context, torch.ones_like(outputs))
