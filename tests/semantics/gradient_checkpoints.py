"""Programs about checkpoints, changes in place and autograd functions: see `gradient_table`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.semantics.gradient_table import layers, one_trained, plain, program, rand, trained

# -- checkpoint -----------------------------------------------------------------------------------------------------------


def _block(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sin().exp()


@program(arguments=trained)
def checkpointed(x: Tensor, y: Tensor) -> Any:
    return checkpoint(_block, x, y, use_reentrant=False) + 1


@program(arguments=trained)
def checkpointed_local_function(x: Tensor, y: Tensor) -> Any:
    scale = x.detach() + 1

    def inner(a: Tensor) -> Tensor:
        return (a * y * scale).sin()

    return checkpoint(inner, x, use_reentrant=False) + 1


@program(arguments=trained)
def checkpointed_reentrant(x: Tensor, y: Tensor) -> Any:
    return checkpoint(_block, x, y, use_reentrant=True) + 1


@program(arguments=trained)
def checkpointed_dropout(x: Tensor, y: Tensor) -> Any:
    return checkpoint(lambda a: F.dropout(a * y, 0.5), x, use_reentrant=False).sum()


@program(arguments=trained)
def checkpointed_without_random_state(x: Tensor, y: Tensor) -> Any:
    return checkpoint(_block, x, y, use_reentrant=False, preserve_rng_state=False)


@program(arguments=trained)
def checkpointed_twice(x: Tensor, y: Tensor) -> Any:
    z = checkpoint(_block, x, y, use_reentrant=False)
    return checkpoint(_block, z, y, use_reentrant=False)


@program(arguments=trained)
def checkpointed_inside_another(x: Tensor, y: Tensor) -> Any:
    def outer(a: Tensor, b: Tensor) -> Tensor:
        return checkpoint(_block, a, b, use_reentrant=False) * 2

    return checkpoint(outer, x, y, use_reentrant=False)


@program(arguments=trained)
def checkpointed_tuple(x: Tensor, y: Tensor) -> Any:
    a, b = checkpoint(lambda p, q: (p * q, p + q), x, y, use_reentrant=False)
    return a * b


@program(arguments=trained)
def checkpointed_with_options(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor, factor: float, *, shift: Tensor | None = None) -> Tensor:
        return a.sin() * factor + shift

    return checkpoint(inner, x, 2.0, shift=y, use_reentrant=False)


@program(arguments=lambda: (rand(3, 4, grad=True), layers()))
def checkpointed_module(x: Tensor, layers: nn.Module) -> Any:
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False)
    return x


@program(
    arguments=lambda: (rand(3, 4, grad=True), layers()),
    graphs=2,
    peer=0,
    peer_breaks=True,
    reason="torch.utils.checkpoint.checkpoint_sequential() is not traced",
)
def checkpointed_sequence(x: Tensor, layers: nn.Module) -> Any:
    return checkpoint_sequential(layers, 2, x, use_reentrant=False)


@program(
    arguments=trained, peer_breaks=True, reason="a function under checkpoint() does more than compute tensors"
)
def checkpointed_counter(x: Tensor, y: Tensor) -> Any:
    seen = []

    def inner(a: Tensor) -> Tensor:
        seen.append(a.dim())
        return a.sin()

    return checkpoint(inner, x * y, use_reentrant=False), seen


@program(
    arguments=lambda: (rand(3, 4, grad=True), nn.BatchNorm1d(4)),
    reason="a function that is transformed changes a tensor from outside",
)
def checkpointed_batch_norm(x: Tensor, layer: nn.Module) -> Any:
    return checkpoint(layer, x, use_reentrant=False) * 2


@program(arguments=plain)
def checkpointed_without_gradients(x: Tensor, y: Tensor) -> Any:
    return checkpoint(_block, x, y, use_reentrant=False) + 1


@program(arguments=trained, graphs=2, peer=2, peer_breaks=True, reason="framehook.graph_break() was called")
def checkpointed_with_a_break(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        a = a.sin()
        torch.compiler.is_compiling() and torch._dynamo.graph_break()
        return a * y

    return checkpoint(inner, x * 2, use_reentrant=False) + 1


# -- in place, views, out -------------------------------------------------------------------------------------------------


@program(arguments=trained)
def in_place_on_a_view_of_a_result(x: Tensor, y: Tensor) -> Any:
    z = x * 2
    z[0] = y[1]
    z[:, 1].mul_(3)
    w = z.view(-1)
    w[5] += 1
    return z.sum(), w[3:], z.T @ y


@program(arguments=one_trained)
def in_place_on_an_input(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    x[0] = 0
    return x * y


@program(arguments=one_trained)
def in_place_that_makes_an_input_a_result(x: Tensor, y: Tensor) -> Any:
    x.mul_(y)
    return x * 2


@program(arguments=trained)
def in_place_on_leaves_under_no_grad(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        x.sub_(0.1)
        y[0].zero_()
        x.copy_(y)
    return x * y


@program(arguments=trained)
def data_of_a_leaf_changed(x: Tensor, y: Tensor) -> Any:
    x.data.mul_(2)
    y.data[0] = 1
    return x * y


@program(arguments=trained, graphs=2, reason="attribute 'data' of a tensor is set")
def data_assigned(x: Tensor, y: Tensor) -> Any:
    x.data = y.detach() * 2
    return x * y


@program(arguments=plain)
def out_of_inputs(x: Tensor, y: Tensor) -> Any:
    out = torch.empty(3, 4)
    got = torch.mul(x, y, out=out)
    torch.sub(x, y, out=x)
    return got, out, x


@program(arguments=plain)
def out_into_a_view(x: Tensor, y: Tensor) -> Any:
    out = torch.zeros(2, 3, 4)
    torch.add(x, y, out=out[1])
    return out


@program(arguments=trained)
def input_swapped(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        keep = x.clone()
        x.copy_(y)
        y.copy_(keep)
    return x - y


# -- autograd functions ---------------------------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """With a number, and a context that keeps more than tensors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        ctx.shape = x.shape
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.view(ctx.shape) * ctx.factor if ctx.needs_input_grad[0] else None, None


@program(arguments=trained)
def function_with_attributes(x: Tensor, y: Tensor) -> Any:
    return Scaled.apply(x * y, 3.0).sum()


class Dirty(torch.autograd.Function):
    """Changes its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


@program(
    arguments=trained,
    graphs=3,
    peer=2,
    peer_breaks=True,
    reason="the context of an autograd function is asked for something of its own",
)
def function_that_changes_its_input(x: Tensor, y: Tensor) -> Any:
    return Dirty.apply(x * 1) + y


class Straight(torch.autograd.Function):
    """Hands its input through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return -grad


@program(arguments=trained)
def gradient_reversed(x: Tensor, y: Tensor) -> Any:
    return Straight.apply(x * 2) * y


class TwiceDifferentiable(torch.autograd.Function):
    """Its backward is differentiated, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.exp()


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def function_differentiated_twice(x: Tensor, y: Tensor) -> Any:
    z = TwiceDifferentiable.apply(x)
    (g,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    return (g * y).sum()


class Step(torch.autograd.Function):
    """Straight-through rounding."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


@program(arguments=trained)
def straight_through(x: Tensor, y: Tensor) -> Any:
    return (Step.apply(x * 4) / 4 * y).sum() + (x + (x.round() - x).detach()).sum()


class MemoryOfOthers(torch.autograd.Function):
    """No tensors in, one out."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, others: list[Tensor]) -> Tensor:
        return x + sum(others)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * 2, None


@program(arguments=trained)
def function_of_a_list(x: Tensor, y: Tensor) -> Any:
    return MemoryOfOthers.apply(x, [y.detach(), y.detach() * 2]) * 2
