"""Programs about autograd: see `gradient_table`."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from tests.semantics.gradient_table import layers, one_trained, plain, program, rand, trained

# -- grad mode ------------------------------------------------------------------------------------------------------


@program(arguments=trained)
def modes_as_contexts(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = a * y
            with torch.set_grad_enabled(False):
                c = b * 3
            d = b * x
    return a, b, c, d, d.requires_grad, torch.is_grad_enabled()


@torch.no_grad()
def _frozen(x: Tensor) -> Tensor:
    return x * 5


@torch.enable_grad()
def _thawed(x: Tensor) -> Tensor:
    return x * 7


@torch.set_grad_enabled(False)
def _set(x: Tensor) -> Tensor:
    return x + 1


@program(arguments=trained, peer=3, peer_breaks=True)
def modes_as_decorators(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        a = _thawed(x)
    return _frozen(x) * y, a, _set(y), x * y


@program(arguments=trained)
def mode_decorates_a_local_function(x: Tensor, y: Tensor) -> Any:
    @torch.no_grad()
    def inner(a: Tensor) -> Tensor:
        return a * y

    return inner(x), x * y


@program(arguments=trained)
def mode_set_by_a_call(x: Tensor, y: Tensor) -> Any:
    torch.set_grad_enabled(False)
    a = x * 2
    torch.set_grad_enabled(True)
    return a, x * y


@program(arguments=trained, graphs=2, peer=2, peer_breaks=True, reason="framehook.graph_break() was called")
def mode_across_a_break(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        a = x * 2
        torch.compiler.is_compiling() and torch._dynamo.graph_break()
        b = a * y
    return b, x * y, torch.is_grad_enabled()


@program(arguments=trained)
def mode_left_by_an_exception(x: Tensor, y: Tensor) -> Any:
    a = x
    try:
        with torch.no_grad():
            a = x * 2
            raise ValueError("out")
    except ValueError:
        pass
    return a, x * y, torch.is_grad_enabled()


@program(arguments=trained)
def mode_left_set(x: Tensor, y: Tensor) -> Any:
    a = x * y
    torch.set_grad_enabled(False)
    return a, x + y


@program(arguments=plain)
def inference_as_context(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode():
        a = x * 2
        b = a + y
    return b


@program(arguments=trained)
def inference_after_gradients(x: Tensor, y: Tensor) -> Any:
    z = x * y
    with torch.inference_mode():
        a = z * 2
        metric = (a.argmax(1) == 0).float().mean()
    return z.sum(), metric


@program(arguments=plain, peer=3, peer_breaks=True)
def inference_facts(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode():
        a = x * 2
        a.add_(1)
        flag = a.is_inference(), torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    return a + 0, x * y, flag, torch.is_inference_mode_enabled()


@program(arguments=plain, peer=2, peer_breaks=True)
def inference_nested(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode():
        with torch.inference_mode(False):
            b = x * y
            flag = torch.is_inference_mode_enabled()
        c = x + y
    return b.is_inference(), c.is_inference(), flag, b, c


@program(arguments=trained, peer="AssertionError")
def inference_off(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode(mode=False):
        b = x * y
    return b


@torch.inference_mode()
def _inferred(x: Tensor) -> Tensor:
    return x * 5 + 1


@program(arguments=plain)
def inference_as_decorator(x: Tensor, y: Tensor) -> Any:
    z = _inferred(x)
    return z.clone(), y + 1


@program(arguments=plain, graphs=2, peer=2, peer_breaks=True, reason="framehook.graph_break() was called")
def inference_across_a_break(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode():
        a = x * 2
        torch.compiler.is_compiling() and torch._dynamo.graph_break()
        b = a + y
    return b, torch.is_inference_mode_enabled(), b.is_inference()


@program(arguments=trained)
def grad_mode_in_a_generator_context(x: Tensor, y: Tensor) -> Any:
    @contextlib.contextmanager
    def quietly() -> Any:
        with torch.no_grad():
            yield 3

    with quietly() as n:
        a = x * n
    return a, x * y


# -- leaves and requires_grad -----------------------------------------------------------------------------------------


@program(arguments=trained)
def detached(x: Tensor, y: Tensor) -> Any:
    a = x.detach()
    return a * y, x.data + y, (x * y).detach(), (x.detach() * 2).requires_grad


@program(arguments=one_trained)
def detached_in_place(x: Tensor, y: Tensor) -> Any:
    z = x * y
    w = z * 2
    z.detach_()
    return w, z + 1, z.requires_grad


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="tensor.requires_grad_() does not go into a graph",
)
def requires_grad_of_a_detached_result(x: Tensor, y: Tensor) -> Any:
    other = (x.detach() * 1).requires_grad_()
    return (other * y).sum(), other.requires_grad


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="tensor.requires_grad_() does not go into a graph",
)
def requires_grad_of_a_fresh_tensor(x: Tensor, y: Tensor) -> Any:
    leaf = torch.zeros(3, 4).requires_grad_()
    return (leaf + x).sum()


@program(arguments=trained, peer_breaks=True)
def fresh_tensor_with_requires_grad(x: Tensor, y: Tensor) -> Any:
    leaf = torch.ones(3, 4, requires_grad=True)
    return (leaf * x).sum(), leaf.requires_grad


@program(arguments=plain, peer_breaks=True, reason="tensor.requires_grad_() does not go into a graph")
def requires_grad_of_an_input(x: Tensor, y: Tensor) -> Any:
    x.requires_grad_()
    return x * y, x.requires_grad


@program(arguments=trained, peer_breaks=True, reason="tensor.requires_grad_() does not go into a graph")
def requires_grad_taken_from_an_input(x: Tensor, y: Tensor) -> Any:
    x.requires_grad_(False)
    return x * y, x.requires_grad


@program(arguments=plain, peer_breaks=True, reason="attribute 'requires_grad' of a tensor is set")
def requires_grad_assigned(x: Tensor, y: Tensor) -> Any:
    x.requires_grad = True
    return x * y, x.requires_grad


@program(arguments=trained)
def requires_grad_as_it_is(x: Tensor, y: Tensor) -> Any:
    return x.requires_grad_() * y


@program(arguments=trained)
def leaf_of_inputs(x: Tensor, y: Tensor) -> Any:
    return x * 2 if x.is_leaf else y


@program(arguments=trained)
def leaf_of_results(x: Tensor, y: Tensor) -> Any:
    z = x * y
    w = z.detach()
    return z, z.is_leaf, w.is_leaf, (w * 2).is_leaf


@program(arguments=trained, graphs=2, peer=0, peer_breaks=True, reason="'grad_fn' of a tensor is read")
def grad_fn_queries(x: Tensor, y: Tensor) -> Any:
    z = x * y
    return z, x.grad_fn is None, z.grad_fn is None, z.detach().grad_fn is None


@program(arguments=trained, peer=0, peer_breaks=True, reason="'grad_fn' of a tensor is read")
def grad_fn_names(x: Tensor, y: Tensor) -> Any:
    z = x * y
    return z, type(z.grad_fn).__name__


@program(arguments=trained)
def retains_grad(x: Tensor, y: Tensor) -> Any:
    z = x * y
    return z, x.retains_grad, z.retains_grad


@program(
    arguments=trained,
    graphs=2,
    peer=0,
    peer_breaks=True,
    reason="tensor.retain_grad() does not go into a graph",
)
def retain_grad_of_a_result(x: Tensor, y: Tensor) -> Any:
    z = x * y
    z.retain_grad()
    return z * 2, z


@program(arguments=trained)
def gradient_read(x: Tensor, y: Tensor) -> Any:
    return x * 2 if x.grad is None else x.grad * 3


@program(
    arguments=one_trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="TensorBase._make_subclass() is C code that is not known to be an operation",
)
def makes_a_parameter(x: Tensor, y: Tensor) -> Any:
    p = nn.Parameter(x.detach() * 2)
    return p * y, isinstance(p, nn.Parameter)


# -- backward inside -----------------------------------------------------------------------------------------------------


@program(
    arguments=trained, graphs=2, peer=2, peer_breaks=True, reason="tensor.backward() does not go into a graph"
)
def backward_inside(x: Tensor, y: Tensor) -> Any:
    loss = (x * y).sum()
    loss.backward()
    return x.grad * 2, y.grad


@program(arguments=trained, peer_breaks=True, reason="tensor.backward() does not go into a graph")
def backward_with_a_gradient(x: Tensor, y: Tensor) -> Any:
    z = x * y
    z.backward(torch.ones_like(z) * 2)
    return x.grad


@program(
    arguments=trained, graphs=3, peer=3, peer_breaks=True, reason="tensor.backward() does not go into a graph"
)
def backward_accumulates(x: Tensor, y: Tensor) -> Any:
    (x * y).sum().backward()
    (x * x).sum().backward()
    return x.grad + 1


@program(
    arguments=trained, graphs=3, peer=3, peer_breaks=True, reason="tensor.backward() does not go into a graph"
)
def backward_and_zero_grad(x: Tensor, y: Tensor) -> Any:
    (x * y).sum().backward()
    x.grad = None
    y.grad.zero_()
    (x * x).sum().backward()
    return x.grad + 1, y.grad


@program(arguments=trained, peer_breaks=True, reason="tensor.backward() does not go into a graph")
def backward_retaining(x: Tensor, y: Tensor) -> Any:
    z = (x * y).sin().sum()
    z.backward(retain_graph=True)
    z.backward()
    return x.grad


@program(
    arguments=trained, backward=False, peer_breaks=True, reason="tensor.backward() does not go into a graph"
)
def backward_with_inputs(x: Tensor, y: Tensor) -> Any:
    z = (x * y).sin().sum()
    z.backward(inputs=[x])
    return x.grad, y.grad is None


@program(arguments=trained, peer_breaks=True, reason="torch.autograd.backward() does not go into a graph")
def autograd_backward_function(x: Tensor, y: Tensor) -> Any:
    z = (x * y).sin()
    torch.autograd.backward([z], [torch.ones_like(z)])
    return x.grad


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def gradients_asked_for(x: Tensor, y: Tensor) -> Any:
    gx, gy = torch.autograd.grad((x**2 * y).sum(), [x, y])
    return gx * 2, gy


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def gradients_of_results(x: Tensor, y: Tensor) -> Any:
    z = x * y
    w = z.sin()
    (gz,) = torch.autograd.grad(w, z, torch.ones_like(w))
    return gz * 2


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def gradients_with_create_graph(x: Tensor, y: Tensor) -> Any:
    (g,) = torch.autograd.grad((x**2 * y).sum(), x, create_graph=True)
    return (g * g).sum()


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def gradient_penalty(x: Tensor, y: Tensor) -> Any:
    out = (x @ y.t()).tanh().sum()
    (g,) = torch.autograd.grad(out, x, create_graph=True, retain_graph=True)
    penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
    return out + 10 * penalty


@program(arguments=trained, peer_breaks=True, reason="torch.autograd.grad() does not go into a graph")
def gradients_that_are_not_there(x: Tensor, y: Tensor) -> Any:
    gx, gy = torch.autograd.grad((x**2).sum(), [x, y], allow_unused=True)
    return gx, gy is None


@program(
    arguments=trained,
    graphs=3,
    peer=3,
    peer_breaks=True,
    reason="tensor.requires_grad_() does not go into a graph",
)
def gradient_of_a_leaf_made_here(x: Tensor, y: Tensor) -> Any:
    leaf = x.detach().clone().requires_grad_()
    (leaf * y.detach()).sin().sum().backward()
    return leaf.grad * 2


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def inner_step(x: Tensor, y: Tensor) -> Any:
    loss = ((x - 1) ** 2).sum()
    (g,) = torch.autograd.grad(loss, x, create_graph=True)
    moved = x - 0.1 * g
    return ((moved * y) ** 2).sum()


@program(
    arguments=trained, graphs=3, peer=2, peer_breaks=True, reason="tensor.backward() does not go into a graph"
)
def clipped_step(x: Tensor, y: Tensor) -> Any:
    loss = (x * y).sin().sum()
    loss.backward()
    norm = nn.utils.clip_grad_norm_([x, y], 0.5)
    with torch.no_grad():
        x -= 0.1 * x.grad
        y.sub_(y.grad, alpha=0.1)
    x.grad = None
    y.grad = None
    return loss.detach(), norm


@program(
    arguments=trained, graphs=2, peer=2, peer_breaks=True, reason="tensor.backward() does not go into a graph"
)
def clipped_by_value(x: Tensor, y: Tensor) -> Any:
    (x * y).sum().backward()
    nn.utils.clip_grad_value_([x, y], 0.1)
    return x.grad, y.grad


@program(
    arguments=trained,
    graphs=3,
    peer=3,
    peer_breaks=True,
    reason="torch.autograd.grad() does not go into a graph",
)
def higher_derivatives(x: Tensor, y: Tensor) -> Any:
    z = (x**3).sum()
    (g,) = torch.autograd.grad(z, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    return (h * y).sum()


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="tensor.requires_grad_() does not go into a graph",
)
def functional_jacobian(x: Tensor, y: Tensor) -> Any:
    return torch.autograd.functional.jacobian(lambda a: (a * y.detach()).sum(1), x.detach())


# -- hooks --------------------------------------------------------------------------------------------------------------


@program(arguments=trained, graphs=2, reason="tensor.register_hook() does not go into a graph")
def hook_on_a_result(x: Tensor, y: Tensor) -> Any:
    z = x * y
    z.register_hook(lambda grad: grad * 2)
    return z + 1


@program(arguments=trained, graphs=2, reason="tensor.register_hook() does not go into a graph")
def hook_on_a_result_with_a_closure(x: Tensor, y: Tensor) -> Any:
    z = x * y
    scale = 3.0

    def hook(grad: Tensor) -> Tensor:
        return grad.clamp(-1, 1) * scale

    z.register_hook(hook)
    return (z + 1).sum()


@program(
    arguments=trained,
    graphs=2,
    peer="AssertionError",
    reason="tensor.register_hook() does not go into a graph",
)
def hook_that_is_removed(x: Tensor, y: Tensor) -> Any:
    z = x * y
    handle = z.register_hook(lambda grad: grad * 2)
    handle.remove()
    return z + 1


SEEN: list[str] = []


@program(
    arguments=trained,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="tensor.register_hook() does not go into a graph",
)
def hook_that_leaves_something(x: Tensor, y: Tensor) -> Any:
    z = x * y

    def hook(grad: Tensor) -> None:
        SEEN.append(f"{tuple(grad.shape)}")

    z.register_hook(hook)
    return z + 1


@program(arguments=trained, reason="tensor.register_hook() does not go into a graph")
def hook_on_an_input(x: Tensor, y: Tensor) -> Any:
    x.register_hook(lambda grad: grad * 2)
    return x * y


@program(arguments=trained, reason="tensor.register_post_accumulate_grad_hook() does not go into a graph")
def hook_after_accumulation(x: Tensor, y: Tensor) -> Any:
    x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2))
    return x * y


@program(arguments=trained, graphs=2, peer=0, peer_breaks=True, reason="'grad_fn' of a tensor is read")
def hook_on_grad_fn(x: Tensor, y: Tensor) -> Any:
    z = x * y
    z.grad_fn.register_hook(lambda inputs, outputs: None)
    return z + 1


@program(
    arguments=trained,
    graphs=0,
    peer_breaks=True,
    reason="torch._C._autograd._push_saved_tensors_default_hooks() is C code that is no",
)
def saved_tensor_hooks(x: Tensor, y: Tensor) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        z = x * y
    return z.sum()


@program(
    arguments=trained,
    graphs=0,
    peer=0,
    peer_breaks=True,
    reason="torch._C._autograd._push_saved_tensors_default_hooks() is C code that is no",
)
def saved_tensors_on_cpu(x: Tensor, y: Tensor) -> Any:
    with torch.autograd.graph.save_on_cpu():
        z = (x * y).sin()
    return z.sum()


# -- a step ---------------------------------------------------------------------------------------------------------------


@program(
    arguments=lambda: (rand(3, 4), layers()),
    backward=False,
    graphs=2,
    peer=2,
    peer_breaks=True,
    reason="tensor.backward() does not go into a graph",
)
def training_step(x: Tensor, model: nn.Module) -> Any:
    model.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    return loss.detach(), norm


@program(
    arguments=lambda: (rand(3, 4), layers()),
    backward=False,
    graphs=5,
    peer=0,
    peer_breaks=True,
    reason="tensor.backward() does not go into a graph",
)
def accumulation(x: Tensor, model: nn.Module) -> Any:
    total = 0.0
    for part in x.split(1):
        loss = model(part).pow(2).mean() / 3
        loss.backward()
        total = total + loss.detach()
    return total, [each.grad for each in model.parameters()]


@program(
    arguments=lambda: (rand(3, 4), layers()),
    backward=False,
    peer=0,
    peer_breaks=True,
    reason="tensor.requires_grad_() does not go into a graph; a generator cannot be reb",
)
def frozen_layers(x: Tensor, model: nn.Module) -> Any:
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    model[2].requires_grad_(True)
    return model(x)


@program(
    arguments=trained,
    graphs=2,
    peer=0,
    peer_breaks=True,
    reason="torch.is_anomaly_check_nan_enabled() is C code that is not known to be an o",
)
def anomaly_detection(x: Tensor, y: Tensor) -> Any:
    with torch.autograd.detect_anomaly(check_nan=True):
        z = x * y
    return z.sum()


@program(
    arguments=trained,
    graphs=2,
    peer=0,
    peer_breaks=True,
    reason="torch.is_anomaly_check_nan_enabled() is C code that is not known to be an o",
)
def set_anomaly(x: Tensor, y: Tensor) -> Any:
    with torch.autograd.set_detect_anomaly(False):
        z = x * y
    return z.sum()


@program(arguments=trained)
def recorded(x: Tensor, y: Tensor) -> Any:
    with torch.profiler.record_function("part"):
        z = x * y
    with torch.autograd.profiler.record_function("rest"):
        return z.sum()


@program(arguments=trained, peer="AssertionError")
def partial_in_no_grad(x: Tensor, y: Tensor) -> Any:
    fn = functools.partial(torch.no_grad()(torch.mul), y)
    return fn(x), x * y
