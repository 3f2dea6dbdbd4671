"""Small programs in torch: operations, views, in-place changes, autograd, modules, and torch's own state.

Each is a function with the arguments to call it with; `graphs` is how many graphs the calls may need in all, None
where only the results count.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Program:
    """A function or a class of modules, what to call it with, and how many graphs it becomes."""

    fn: Any
    arguments: Callable[[], tuple[Any, ...]]
    graphs: int | None
    is_module: bool


PROGRAMS: dict[str, Program] = {}


def rand(*sizes: int, grad: bool = False, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Random numbers that are the same at every call."""
    made = torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return made.requires_grad_(grad)


def plain() -> tuple[Any, ...]:
    """Two tensors without gradients."""
    return rand(3, 4), rand(3, 4, seed=1)


def trained() -> tuple[Any, ...]:
    """Two leaves that want gradients."""
    return rand(3, 4, grad=True), rand(3, 4, grad=True, seed=1)


def program(
    fn: Any = None, *, arguments: Callable[[], tuple[Any, ...]] = plain, graphs: int | None = 1
) -> Any:
    """Collect a function, or a class of modules."""

    def add(fn: Any) -> Any:
        assert fn.__name__ not in PROGRAMS, fn.__name__
        PROGRAMS[fn.__name__] = Program(fn, arguments, graphs, isinstance(fn, type))
        return fn

    return add if fn is None else add(fn)


# -- operations ----------------------------------------------------------------------------------------------------


@program(arguments=trained)
def arithmetic(x: Tensor, y: Tensor) -> Tensor:
    return (x * 2 - y / 3 + 1) ** 2 % 1.5 + (x @ y.T).sum() - (-x).abs() + 3 // (y.abs() + 1)


@program
def comparisons(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x < y, x >= 0, 0 < y, (x == y) | (x != 0) & ~(y > 0), (x > 0) ^ (y > 0)


@program(arguments=trained)
def matrix_products(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.einsum("ij,kj->ik", x, y),
        torch.einsum("bi,bi->b", x, y),
        torch.einsum("...ij,...jk->...ik", x[None], y.T[None]),
        torch.tensordot(x, y, dims=([1], [1])),
        torch.bmm(x[None], y.mT[None]),
        torch.addmm(x @ y.T, x, y.T, alpha=0.5),
        torch.outer(x[0], y[0]),
        torch.kron(x, y),
    )


@program
def fourier(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    f = torch.fft.rfft(x)
    return (
        torch.fft.irfft(f * 2, n=4),
        f.real,
        f.imag,
        f.abs(),
        torch.fft.fft2(x + 1j * y),
        torch.fft.fftshift(x),
    )


@program
def linear_algebra(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    a = x @ x.T + 3 * torch.eye(3)
    return (
        torch.linalg.inv(a),
        torch.linalg.solve(a, y),
        torch.linalg.norm(x),
        torch.linalg.det(a),
        torch.linalg.qr(x).R.abs(),
        torch.linalg.cholesky(a),
        torch.linalg.eigvalsh(a),
        torch.linalg.svdvals(x),
        torch.linalg.matrix_rank(a),
        torch.linalg.slogdet(a).logabsdet,
        torch.trace(a),
    )


@program
def complex_numbers(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = torch.complex(x, y)
    return (
        z * z.conj(),
        z.real,
        z.imag,
        z.angle(),
        torch.view_as_real(z),
        torch.polar(x.abs(), y),
        z.conj(),
        z.H,
    )


@program
def reductions(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    values, indices = x.max(dim=1)
    top = torch.topk(y, 2)
    mean, spread = torch.var_mean(x, dim=0)
    return (
        *(values, indices, top.values, top.indices, mean, spread),
        *(x.sum(0, keepdim=True), x.mean(), x.std(), x.prod(1), x.argmax(), x.cumsum(1), x.logsumexp(0)),
        *(x.median(), x.mode(1).values, x.sort(1, descending=True).indices, x.norm(dim=1), x.amin((0, 1))),
        *(torch.quantile(x, 0.5), x.all(), x.any(1), torch.aminmax(x).min, torch.histc(x, 3)),
    )


@program
def shapes(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    a, b = x.chunk(2, dim=1)
    c, *rest = y.split([1, 2, 1], dim=1)
    return (
        *(
            a,
            b,
            c,
            rest,
            x.reshape(2, -1),
            x.view(-1, 2, 2),
            x.permute(1, 0),
            x.flatten(),
            x.unflatten(1, (2, 2)),
        ),
        *(
            x.unsqueeze(-1).squeeze(),
            x.expand(2, 3, 4),
            x.repeat(1, 2),
            x.repeat_interleave(2, 0),
            torch.stack([x, y]),
        ),
        *(torch.cat((x, y), -1), x.roll(1, 0), x.flip(0), x.T, x.mT, torch.movedim(x, 0, 1), x.tile(2, 1)),
        *(
            x.narrow(1, 1, 2),
            x.select(0, 1),
            x.unfold(1, 2, 1),
            x.diagonal(),
            x.triu(),
            torch.meshgrid(x[0], y[0]),
        ),
        *(
            torch.broadcast_tensors(x, y[:1]),
            torch.atleast_3d(x),
            torch.block_diag(x, y),
            torch.hstack([x, y]),
        ),
    )


@program
def shape_arithmetic(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    n, d = x.shape
    size = x.size()
    return (
        *(
            x.view(n * d),
            x.reshape(size[0], -1, d // 2),
            x.new_zeros(n, d * 2),
            size,
            x.dim(),
            x.numel(),
            x.shape[-1],
        ),
        *(
            size[:-1] + (2, d // 2),
            x.stride(),
            x.stride(0),
            x.element_size(),
            len(x),
            x.ndim,
            x.size(-1),
            x.nelement(),
        ),
        *(
            x.is_contiguous(),
            x.T.is_contiguous(),
            x.is_floating_point(),
            x.dtype,
            x.device,
            x.layout,
            x.itemsize,
        ),
        *(
            x.is_complex(),
            x.is_sparse,
            x.is_cuda,
            x.nbytes,
            x.get_device(),
            x.is_meta,
        ),
    )


@program
def indexing(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    i = torch.tensor([2, 0])
    return (
        *(
            x[0],
            x[-1, 2],
            x[1:],
            x[::2, 1:3],
            x[..., 0],
            x[None],
            x[:, None, 1:],
            x[i],
            x[i, i],
            x[[0, 2]],
            x[[0, 1], [1, 2]],
        ),
        *(
            x[(0, 1)],
            x[:, i],
            x[i][:, i],
            x[i[:, None], i],
            x[1, ...],
            x[slice(0, 2)],
            x[True],
        ),
        *(
            torch.gather(x, 1, x.argsort(1)),
            x.index_select(0, i),
            torch.take_along_dim(x, i[:, None], 0),
            x.take(i),
        ),
        *(x[range(2)], x[i.long(), ..., None]),
    )


@program(graphs=None)
def indexing_by_scalars(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return x[y.argmax() // 4] * 2, x[torch.tensor(1)] + 1


@program
def masked(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    mask = x > y
    return (
        *(
            torch.where(mask, x, y),
            x.masked_fill(mask, 0.0),
            torch.where(mask, 1.0, 0.0),
            x.masked_fill(~mask, -math.inf),
        ),
        *(x.masked_scatter(mask, y), torch.where(mask, x, 0), x.clamp(-1, 1), x.clamp(min=0), x * mask),
    )


@program(graphs=None)
def masked_select(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    kept = x[x > 0]
    return kept, kept.sum(), torch.nonzero(y > 0), kept.shape[0] + 1


@program
def scatters(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    i = torch.tensor([[0, 1, 2, 0]])
    return (
        x.scatter(0, i, y[:1]),
        x.scatter_add(0, i, y[:1]),
        x.index_add(0, torch.tensor([0, 2]), y[:2]),
        x.index_fill(1, torch.tensor([1]), 3.0),
        x.index_put((torch.tensor([0]), torch.tensor([1])), torch.tensor(5.0)),
        torch.zeros(3, 4).scatter_reduce(0, i, y[:1], reduce="amax"),
    )


@program
def half_precision(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    a, b = x.bfloat16(), y.half()
    return (
        a @ a.T,
        (a * 2).float(),
        b + 1,
        a + x,
        a.to(torch.float64),
        b.type(torch.int32),
        x.double() + 1,
        x.to(a),
    )


@program
def integers(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    i, j = (x * 10).int(), (y * 10).long()
    return i // 3, i % 3, i & 7, i | 1, i << 1, i >> 1, ~i, j + i, i / 2, i.bool(), -j, j**2


@program
def factories(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    n = x.shape[0]
    return (
        *(
            torch.zeros(n, 2),
            torch.ones_like(x),
            torch.arange(n),
            torch.arange(0, 1, 0.25),
            torch.full((n,), 2.5),
        ),
        *(torch.linspace(0, 1, n), torch.eye(n), torch.tensor([1, 2, n]), torch.tensor(3.0), x.new_ones(2)),
        *(
            torch.zeros((2, n), dtype=torch.int64),
            torch.tril(torch.ones(n, n)),
            x.new_tensor([1.0, 2.0]),
            torch.empty(0),
        ),
        *(
            torch.as_tensor([1.5, 2.5]),
            torch.zeros_like(x, dtype=torch.bool),
            torch.full_like(x, math.pi),
            torch.Tensor,
        ),
    )


@program(arguments=trained)
def losses(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    target = torch.tensor([0, 3, 1])
    return (
        *(
            F.cross_entropy(x, target),
            F.mse_loss(x, y),
            F.l1_loss(x, y),
            F.nll_loss(x.log_softmax(1), target),
        ),
        *(
            F.binary_cross_entropy_with_logits(x, y.sigmoid().detach()),
            F.smooth_l1_loss(x, y),
            F.huber_loss(x, y),
        ),
        *(F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), F.cosine_similarity(x, y)),
        *(
            F.cross_entropy(x, target, label_smoothing=0.1, ignore_index=3),
            F.triplet_margin_loss(x, y, y + 1),
        ),
    )


@program(arguments=trained)
def activations(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return (
        *(
            F.relu(x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.softplus(x),
            F.elu(x),
            F.leaky_relu(x),
        ),
        *(
            F.softmax(x, -1),
            F.log_softmax(x, dim=0),
            torch.tanh(x),
            x.sigmoid(),
            F.hardtanh(x),
            F.glu(x),
            F.mish(x),
        ),
        *(
            F.normalize(x),
            F.layer_norm(x, (4,)),
            F.rms_norm(x, (4,)),
            F.one_hot(torch.tensor([0, 2]), 4),
            F.pad(x, (1, 2)),
        ),
    )


@program(arguments=lambda: (rand(2, 2, 5, 4, grad=True), rand(2, 2, 5, 4, grad=True, seed=1)))
def attention(q: Tensor, k: Tensor) -> tuple[Any, ...]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), diagonal=1)
    by_hand = scores.masked_fill(mask, float("-inf")).softmax(-1) @ k
    return by_hand, F.scaled_dot_product_attention(q, k, k, is_causal=True)


# -- in place, views, aliases -----------------------------------------------------------------------------------------


@program
def in_place_chain(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1).mul_(2).clamp_(max=3)
    x += y
    x *= 2
    x[0] = 5
    x[1, 1:3] = y[0, :2]
    x[..., -1] += 1
    return x


@program
def in_place_on_views(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    row, column = x[0], x[:, 1]
    row.zero_()
    column.add_(10)
    part = x.view(-1)[3:7].view(2, 2)
    part.mul_(3)
    x.T[0].copy_(y[:, 0])
    return row, column, part, x, x.sum()


@program
def in_place_on_fresh(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x.clone()
    b = a[1]
    a.add_(1)
    b.mul_(2)
    c = a.detach()
    c.sub_(1)
    return a, b, c


@program
def in_place_functions(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = F.relu(x.clone(), inplace=True)
    torch.add(x, y, out=a)
    x.masked_fill_(x > 0, 1.0)
    y.index_copy_(0, torch.tensor([0, 2]), x[:2])
    x.fill_diagonal_(7)
    y.scatter_(1, torch.zeros(3, 1, dtype=torch.long), 4.0)
    x.data[0] = 9
    return a, x, y


@program
def out_arguments(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    out = torch.empty(3, 4)
    got = torch.mul(x, y, out=out)
    torch.sub(x, y, out=x)
    return got, out, x


@program(graphs=None)
def out_of_another_shape(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    out = torch.empty(0)
    torch.mul(x, y, out=out)
    return out, out.shape  # type: ignore[return-value]


def same_twice() -> tuple[Any, ...]:
    x = rand(3, 4)
    return x, x


@program(arguments=same_twice)
def one_tensor_twice(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    x.add_(1)
    return y * 2, x is y, x, y


def overlapping() -> tuple[Any, ...]:
    base = rand(13)
    return base[:12].view(3, 4), base[1:].view(3, 4)


@program(arguments=overlapping, graphs=None)
def overlapping_views(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    x.add_(1)
    z = y * 2
    y.mul_(3)
    return z, x, y, x * 1


@program(arguments=lambda: (lambda base: (base, base[1]))(rand(3, 4)), graphs=None)
def base_and_view(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    y.zero_()
    return x.sum(), x + 0, y


# AOTAutograd is not given graphs that change one of two inputs in the same memory.
@program(arguments=lambda: (lambda base: (base[:, :2], base[:, 2:]))(rand(3, 4)), graphs=None)
def columns_of_one_base(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    x.add_(y)
    return y * 2, x * 1


@program
def aliases_out(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    a = x + y
    return a, a, x, x.view(4, 3), a.T, {"x": x, "a": [a, x]}, x.detach(), x.contiguous(), x.to(x.dtype)


@program(arguments=trained)
def views_with_gradients(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = x * 2
    z[0] = y[1]
    z[:, 1].mul_(3)
    w = z.view(-1)
    w[5] += 1
    return z.sum(), w[3:], z.T @ y


@program(arguments=trained, graphs=None)
def in_place_on_a_leaf(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    x.add_(1)
    return z + y


@program(arguments=lambda: (rand(3, 4), rand(3, 4, grad=True)), graphs=None)
def in_place_with_a_leaf(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(y)
    return x * 2


@program(arguments=trained, graphs=None)
def saved_and_overwritten(x: Tensor, y: Tensor) -> Tensor:
    z = x.exp()
    w = z * y
    z.add_(1)
    return w.sum()


# -- autograd -----------------------------------------------------------------------------------------------------------


@program(arguments=trained)
def no_grad_inside(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        flag = torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        c = y + 1
    return a, b, c, (x * y).sum(), flag, a.requires_grad, b.requires_grad


@torch.no_grad()
def _frozen(x: Tensor) -> Tensor:
    return x * 5


@program(arguments=trained)
def no_grad_decorator(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return _frozen(x) + y, _frozen(y)


@program(arguments=trained)
def detached(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    a = x.detach()
    return a * y, x.data + y, (x * y).detach(), (x.detach() * 2).requires_grad


@program(arguments=trained, graphs=None)
def leaf_facts(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = x * y
    return (
        z,
        x.requires_grad,
        z.requires_grad,
        x.is_leaf,
        z.is_leaf,
        x.grad,
        z.grad_fn is None,
        x.grad_fn,
        x.retains_grad,
    )


@program(arguments=trained, graphs=None)
def makes_a_leaf(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    leaf = torch.zeros(3, 4, requires_grad=True)
    other = x.detach().requires_grad_()
    return (leaf + x).sum() + (other * y).sum(), leaf.requires_grad


@program(arguments=trained, graphs=None)
def makes_a_parameter(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    p = nn.Parameter(x.detach() * 2)
    return p * y, isinstance(p, nn.Parameter), p


@program(arguments=trained, graphs=None)
def backward_inside(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    loss = (x * y).sum()
    loss.backward()
    assert x.grad is not None
    return x.grad * 2, y.grad


@program(arguments=trained, graphs=None)
def gradients_asked_for(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    (g,) = torch.autograd.grad((x**2 * y).sum(), x, create_graph=True)
    return g, g * 2


class Doubled(torch.autograd.Function):
    """Twice the input, three times the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 3 + x * 0


@program(arguments=trained, graphs=None)
def custom_function(x: Tensor, y: Tensor) -> Tensor:
    return Doubled.apply(x + 1) * y  # type: ignore[no-any-return]


@program(arguments=trained, graphs=None)
def tensor_hook(x: Tensor, y: Tensor) -> Tensor:
    z = x * y
    z.register_hook(lambda grad: grad * 2)
    return z + 1


@program(arguments=trained, graphs=None)
def checkpointed(x: Tensor, y: Tensor) -> Tensor:
    def inner(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sin().exp()

    return torch.utils.checkpoint.checkpoint(inner, x, y, use_reentrant=False) + 1  # type: ignore[no-any-return]


@program(graphs=None)
def vectorised(x: Tensor, y: Tensor) -> Tensor:
    return torch.vmap(lambda a, b: (a * b).sum())(x, y) + 1  # type: ignore[no-any-return]


@program(graphs=None)
def functional_gradient(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return torch.func.grad(lambda a: (a**2 * y).sum())(x), torch.func.jacrev(torch.sin)(x[0])
