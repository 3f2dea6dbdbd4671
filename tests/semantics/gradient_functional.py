"""Programs about functional transforms, higher-order operations and the odder kinds of tensors: see `gradient_table`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)

from tests.semantics.gradient_table import layers, program, rand, trained

# -- torch.func -------------------------------------------------------------------------------------------------------


def _loss(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sin().sum()


@program
def func_grad(x: Tensor, y: Tensor) -> Any:
    return grad(_loss)(x, y) * 2


@program
def func_grad_of_a_lambda(x: Tensor, y: Tensor) -> Any:
    return grad(lambda a: (a**2 * y).sum())(x)


@program
def func_grad_of_several(x: Tensor, y: Tensor) -> Any:
    a, b = grad(_loss, argnums=(0, 1))(x, y)
    return a + b


@program
def func_grad_and_value(x: Tensor, y: Tensor) -> Any:
    (g, (value, extra)) = grad_and_value(lambda a: (_loss(a, y), a + 1), has_aux=True)(x)
    return g, value, extra


@program
def func_grad_nested(x: Tensor, y: Tensor) -> Any:
    return grad(lambda a: grad(_loss)(a, y).pow(2).sum())(x)


@program(arguments=trained)
def func_grad_with_gradients_outside(x: Tensor, y: Tensor) -> Any:
    return grad(_loss)(x, y) * 2


@program
def func_vmap(x: Tensor, y: Tensor) -> Any:
    return vmap(lambda a, b: (a * b).sum())(x, y) + 1


@program
def func_vmap_with_dims(x: Tensor, y: Tensor) -> Any:
    return vmap(torch.dot, in_dims=(1, 1))(x, y), vmap(lambda a: a + y, out_dims=1)(x)


@program
def func_vmap_nested(x: Tensor, y: Tensor) -> Any:
    return vmap(vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x[0], y[0])


@program(arguments=trained)
def func_vmap_with_gradients(x: Tensor, y: Tensor) -> Any:
    return vmap(lambda a, b: (a * b).sin().sum())(x, y)


@program
def func_vmap_random(x: Tensor, y: Tensor) -> Any:
    return vmap(lambda a: a + torch.rand(4), randomness="different")(x)


@program
def func_vmap_in_chunks(x: Tensor, y: Tensor) -> Any:
    return vmap(lambda a: a.sin().sum(), chunk_size=2)(x)


@program
def func_per_sample_gradients(x: Tensor, y: Tensor) -> Any:
    weight = y[0]
    return vmap(grad(lambda w, sample: (w * sample).sum() ** 2), in_dims=(None, 0))(weight, x)


@program
def func_jvp(x: Tensor, y: Tensor) -> Any:
    value, tangent = jvp(torch.sin, (x,), (y,))
    return value, tangent


@program
def func_vjp(x: Tensor, y: Tensor) -> Any:
    value, pull = vjp(lambda a: a.sin() * y, x)
    return value, pull(torch.ones_like(value))[0]


@program
def func_jacobians(x: Tensor, y: Tensor) -> Any:
    return jacrev(lambda a: a.sin() * y[0])(x[0]), jacfwd(lambda a: a.sin() * y[0])(x[0])


@program
def func_hessian(x: Tensor, y: Tensor) -> Any:
    return hessian(lambda a: (a**3).sum())(x[0])


@program(graphs=6, peer=2, peer_breaks=True, reason="torch.func.linearize() is not traced")
def func_linearize(x: Tensor, y: Tensor) -> Any:
    value, push = linearize(torch.sin, x)
    return value, push(y)


@program(arguments=lambda: (rand(3, 4), layers()))
def func_functional_call(x: Tensor, model: nn.Module) -> Any:
    parameters = {name: each * 2 for name, each in model.named_parameters()}
    return functional_call(model, parameters, (x,)) + 1


@program(arguments=lambda: (rand(3, 4), layers()))
def func_functional_call_with_parameters(x: Tensor, model: nn.Module) -> Any:
    return functional_call(model, dict(model.named_parameters()), x)


@program(arguments=lambda: (rand(3, 4), layers()))
def func_functional_call_with_gradients(x: Tensor, model: nn.Module) -> Any:
    parameters = {name: each.detach() for name, each in model.named_parameters()}
    return grad(lambda p: functional_call(model, p, (x,)).pow(2).sum())(parameters)


@program(arguments=lambda: (rand(3, 4), layers()))
def func_functional_call_per_sample(x: Tensor, model: nn.Module) -> Any:
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(p: Any, sample: Tensor) -> Tensor:
        return functional_call(model, p, (sample.unsqueeze(0),)).pow(2).sum()

    return vmap(grad(loss), in_dims=(None, 0))(parameters, x)


# -- control flow -------------------------------------------------------------------------------------------------------


@program
def cond(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (x, y)) * 2


@program
def cond_with_closures(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.sin() + y, lambda a: a.cos() - y, (x,))


@program
def cond_nested(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        return torch.cond(a.max() > 1, lambda b: b.sin(), lambda b: b.cos(), (a,))

    return torch.cond(y.sum() > 0, inner, lambda a: a * 2, (x,))


@program(arguments=trained)
def cond_with_gradients(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a - b, (x, y)).sum()


@program
def cond_of_a_constant(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.dim() == 2, lambda a: a + 1, lambda a: a - 1, (x,))


@program(reason="torch._higher_order_ops.while_loop.while_loop() is not traced")
def while_loop(x: Tensor, y: Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop as loop

    count = torch.tensor(0)
    return loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.sin()), (count, x))


@program(reason="torch._higher_order_ops.scan.scan() is not traced")
def scan(x: Tensor, y: Tensor) -> Any:
    from torch._higher_order_ops.scan import scan as run

    return run(lambda carry, a: (carry + a, carry * 2), y[0], x, dim=0)


@program(graphs=0, reason="torch._higher_order_ops.associative_scan.associative_scan() is not traced")
def associative_scan(x: Tensor, y: Tensor) -> Any:
    from torch._higher_order_ops.associative_scan import associative_scan as run

    return run(lambda a, b: a + b, x, dim=0, combine_mode="generic")


@program(reason="torch._higher_order_ops.map.map() is not traced")
def mapped(x: Tensor, y: Tensor) -> Any:
    from torch._higher_order_ops.map import map as run

    return run(lambda a, b: a.sin() + b, x, y[0])


@program(reason="vmap raises NotImplementedError: Cannot access storage of BatchedTensorImpl")
def flexible_attention(x: Tensor, y: Tensor) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.stack([x, y]).repeat(1, 6, 4).view(1, 2, 18, 16)
    return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))


# -- custom operators -----------------------------------------------------------------------------------------------------


@torch.library.custom_op("framehook_tests::scaled", mutates_args=())
def scaled(x: Tensor, factor: float) -> Tensor:
    """A custom operator with a derivative."""
    return torch.from_numpy(x.detach().numpy() * factor)


@scaled.register_fake
def _(x: Tensor, factor: float) -> Tensor:
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.factor = inputs[1]


def _backward(ctx: Any, grad: Tensor) -> Any:
    return grad * ctx.factor, None


scaled.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op("framehook_tests::filled", mutates_args={"x"})
def filled(x: Tensor, value: float) -> None:
    """A custom operator that changes its argument."""
    x.fill_(value)


@torch.library.custom_op("framehook_tests::unknown", mutates_args=())
def unknown(x: Tensor) -> Tensor:
    """A custom operator without a fake implementation."""
    return x.clone()


@program(arguments=trained)
def custom_operator(x: Tensor, y: Tensor) -> Any:
    return scaled(x * y, 2.0) + 1


@program(arguments=trained)
def custom_operator_by_name(x: Tensor, y: Tensor) -> Any:
    return torch.ops.framehook_tests.scaled(x, 2.0) + torch.ops.framehook_tests.scaled.default(y, 3.0)


@program
def custom_operator_in_place(x: Tensor, y: Tensor) -> Any:
    filled(x, 2.0)
    filled(y[0], 3.0)
    return x + y


@program(
    graphs=2,
    peer="TorchRuntimeError",
    reason="unknown.default raises RuntimeError: There was no fake impl registered for ",
)
def custom_operator_without_fake(x: Tensor, y: Tensor) -> Any:
    return unknown(x * 2) + y


@program
def aten_operators(x: Tensor, y: Tensor) -> Any:
    return torch.ops.aten.add(x, y), torch.ops.aten.mul.Tensor(x, y), torch.ops.aten.sum.dim_IntList(x, [0])


@program
def foreach(x: Tensor, y: Tensor) -> Any:
    a = torch._foreach_add([x, y], 1)
    torch._foreach_mul_(a, [2.0, 3.0])
    torch._foreach_addcmul_(a, [x, y], [y, x], value=0.5)
    return a, torch._foreach_norm([x, y]), torch._foreach_sqrt(torch._foreach_abs([x, y]))


@program
def foreach_on_inputs(x: Tensor, y: Tensor) -> Any:
    torch._foreach_add_([x, y], 1)
    torch._foreach_copy_([x], [y])
    torch._foreach_zero_([y])
    return x + y


# -- operations ---------------------------------------------------------------------------------------------------------------


@program(arguments=trained)
def einsums(x: Tensor, y: Tensor) -> Any:
    return (
        torch.einsum("ij,kj->ik", x, y),
        torch.einsum("ij,ij", [x, y]),
        torch.einsum(x, [0, 1], y, [0, 1], [0]),
    )


@program(arguments=lambda: (rand(2, 2, 5, 4, grad=True), rand(2, 2, 5, 4, grad=True, seed=1)))
def attention(q: Tensor, k: Tensor) -> Any:
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        a = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    return a + F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3)


@program
def fourier(x: Tensor, y: Tensor) -> Any:
    f = torch.fft.rfft(x)
    return (
        torch.fft.irfft(f * 2, n=4),
        torch.fft.fft2(x + 1j * y),
        torch.stft(x.flatten(), 4, window=torch.hann_window(4), return_complex=True),
        torch.fft.fftfreq(4),
        torch.fft.ifftn(torch.fft.fftn(x)).real,
    )


@program
def linear_algebra(x: Tensor, y: Tensor) -> Any:
    a = x @ x.T + 3 * torch.eye(3)
    return (
        *(torch.linalg.inv(a), torch.linalg.solve(a, y), torch.linalg.det(a), torch.linalg.qr(x).R.abs()),
        *(torch.linalg.svd(x, full_matrices=False).S, torch.linalg.eigh(a).eigenvalues),
        *(torch.linalg.pinv(a), torch.linalg.matrix_exp(a * 0.1)),
        *(torch.linalg.multi_dot([x, x.T, y]), torch.linalg.cond(a), torch.linalg.vector_norm(x, 3)),
        *(torch.linalg.lu_factor(a).LU, torch.cholesky_inverse(torch.linalg.cholesky(a)), torch.trace(a)),
    )


@program
def indexing(x: Tensor, y: Tensor) -> Any:
    i = torch.tensor([2, 0])
    return (
        *(
            x[i],
            x[i, i],
            x[[0, 2]],
            x[[0, 1], [1, 2]],
            x[(0, 1)],
            x[:, i],
            x[i[:, None], i],
            x[..., None, 1:],
        ),
        *(x[True], x[None, :, None], x[-1:, ::2], x[1:].T[0], x[y.argmax(1) // 2], x[:, 1][..., None]),
    )


@program(reason="numpy.array() is C code that is not known to be an operation")
def indexing_by_numpy(x: Tensor, y: Tensor) -> Any:
    return x[np.array([0, 1])], x[torch.tensor(1)]


@program
def index_assignment(x: Tensor, y: Tensor) -> Any:
    i = torch.tensor([2, 0])
    x[i] = y[:2]
    x[i, 1] += 1
    x[x > 0] = 0.5
    x[:, [0, 1]] *= 2
    x[..., -1] = torch.arange(3.0)
    y[0, 1:3] = 7
    y[None, 1] = y[2]
    y[torch.tensor([True, False, False])] = -1
    return x, y


@program
def masked(x: Tensor, y: Tensor) -> Any:
    mask = x > y
    return (
        *(torch.where(mask, x, y), x.masked_fill(mask, 0.0), torch.where(mask, 1.0, 0.0)),
        *(x.masked_fill(~mask, -math.inf), x.masked_scatter(mask, y), x * mask, mask.any(), mask.sum(1)),
    )


@program(graphs=3, peer=3, reason="the result of getitem depends on the values of tensors")
def sizes_that_depend_on_data(x: Tensor, y: Tensor) -> Any:
    kept = (x + 1)[x > 0] * 2
    return kept.sum(), torch.unique(y.round()).shape, (y * 2).sum()


@program(graphs=2, peer=2, reason="the result of nonzero depends on the values of tensors")
def nonzero(x: Tensor, y: Tensor) -> Any:
    found = torch.nonzero(x > 0, as_tuple=True)
    return x[found] * 2


@program(graphs=2, peer=2, reason="the result of masked_select depends on the values of tensors")
def masked_select(x: Tensor, y: Tensor) -> Any:
    return torch.masked_select(x * 2, y > 0).sum()


@program(arguments=lambda: (rand(3, 4).to(torch.complex64).requires_grad_(), rand(3, 4, grad=True)))
def complex_gradients(x: Tensor, y: Tensor) -> Any:
    z = x * torch.complex(y, y * 2)
    return z.abs().sum(), torch.view_as_real(z), z.conj().angle()


@program
def bfloat16(x: Tensor, y: Tensor) -> Any:
    a = x.bfloat16()
    return a @ a.T, (a * 2).float(), a + y, a.sum(dtype=torch.float32), torch.finfo(a.dtype).eps


@program
def quantisation_by_hand(x: Tensor, y: Tensor) -> Any:
    scale = x.abs().max() / 127
    q = (x / scale).round().clamp(-128, 127).to(torch.int8)
    return q, q.float() * scale, q.to(torch.int32) @ q.T.to(torch.int32), torch.iinfo(torch.int8).max


@program
def booleans(x: Tensor, y: Tensor) -> Any:
    a, b = x > 0, y > 0
    return a & b, a | ~b, a ^ b, a.all(), a.any(0), a.sum(), a.float() * y, torch.logical_and(a, b), a == b


@program(
    arguments=lambda: (rand(3, 4).to_sparse(), rand(4, 2)),
    peer=0,
    peer_breaks=True,
    reason="torch._C._sparse._sparse_mm() is C code that is not known to be an operatio",
)
def sparse_argument(x: Tensor, y: Tensor) -> Any:
    return torch.sparse.mm(x, y) + 1


@program(
    graphs=2,
    peer_breaks=True,
    reason="torch._C._sparse._sparse_mm() is C code that is not known to be an operatio",
)
def sparse_inside(x: Tensor, y: Tensor) -> Any:
    s = (x * 2).to_sparse()
    return torch.sparse.mm(s, y.T) + 1, s.is_sparse


@program(peer_breaks=True)
def sparse_csr(x: Tensor, y: Tensor) -> Any:
    return (x * 2).to_sparse_csr() @ y.T


@program(graphs=2, peer_breaks=True, reason="torch.nested.nested_tensor() is not traced")
def nested_tensors(x: Tensor, y: Tensor) -> Any:
    n = torch.nested.nested_tensor([x, y[:2]])
    return (n * 2).to_padded_tensor(0.0) + 1


@program(peer="InternalTorchDynamoError", reason="torch.nested.as_nested_tensor() is not traced")
def jagged_tensors(x: Tensor, y: Tensor) -> Any:
    n = torch.nested.as_nested_tensor([x, y[:2]], layout=torch.jagged)
    return [each * 2 for each in (n + 1).unbind()]


@program(graphs=2, peer_breaks=True, reason="quantize_per_tensor gives a quantized or nested tensor")
def quantized_tensors(x: Tensor, y: Tensor) -> Any:
    q = torch.quantize_per_tensor(x * 2, 0.1, 0, torch.quint8)
    return q.dequantize() + 1, q.int_repr()


# -- what transformed functions do beside computing ------------------------------------------------------------------


@program
def transform_that_leaks(x: Tensor, y: Tensor) -> Any:
    seen = []

    def inner(a: Tensor) -> Tensor:
        seen.append(a.shape)
        return (a * y).sum()

    return grad(inner)(x), seen


@program(graphs=2, peer=2, peer_breaks=True, reason="print() writes to the outside")
def transform_with_a_break(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        print("inside")
        return (a * y).sum()

    return grad(inner)(x * 2) + 1


@program
def transform_that_raises(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        raise KeyError(a.dim())

    try:
        return grad(inner)(x)
    except KeyError as error:
        return error.args, x * 2


@program(graphs=0, reason="a function that is transformed changes a tensor from outside")
def transform_changes_what_it_is_given(x: Tensor, y: Tensor) -> Any:
    return vmap(lambda a, b: a.add_(b) * 2)(x, y), x


@program(graphs=2, peer="TorchRuntimeError", reason="add_ raises RuntimeError")
def transform_changes_what_it_reaches(x: Tensor, y: Tensor) -> Any:
    total = torch.zeros(4)

    def inner(a: Tensor) -> Tensor:
        total.add_(1)
        return a.sum()

    try:
        return grad(inner)(x), total
    except RuntimeError:
        return x * 2, total


@program
def vmap_of_containers(x: Tensor, y: Tensor) -> Any:
    return vmap(lambda d, s: {"out": [d["x"] * s, d["x"].shape[0]][0]}, in_dims=({"x": 0}, None))(
        {"x": x}, 2.0
    )


@program
def vjp_used_twice(x: Tensor, y: Tensor) -> Any:
    value, pull = vjp(lambda a: (a * y).sin(), x)
    return value, pull(y)[0], pull(x)[0]


@program(reason="a function that an operation has given is called in another function; a fun")
def vjp_in_a_batch(x: Tensor, y: Tensor) -> Any:
    value, pull = vjp(torch.sin, x)
    return vmap(pull)(torch.eye(12).view(12, 3, 4))


@program(
    peer_breaks=True, reason="print() writes to the outside; a function that an operation has given canno"
)
def vjp_handed_out(x: Tensor, y: Tensor) -> Any:
    value, pull = vjp(torch.sin, x * 2)
    print("between")
    return value, pull(y)[0]


@program(arguments=trained)
def cond_without_operands(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda: x * 2, lambda: y * 3, ())


@program
def cond_of_tuples(x: Tensor, y: Tensor) -> Any:
    a, b = torch.cond(x.sum() > 0, lambda p: (p * 2, p + y), lambda p: (p * 3, p - y), (x,))
    return a * b
