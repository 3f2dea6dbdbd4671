"""Programs about torch's own state, random numbers, the values of tensors, and errors: see `torch_programs`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.semantics.torch_programs import program, rand, trained

# -- torch's state ------------------------------------------------------------------------------------------------------


@program(arguments=trained)
def autocast_inside(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ y.T
        with torch.autocast("cpu", enabled=False):
            b = x @ y.T
        flag = torch.is_autocast_enabled("cpu")
    return a, b, x @ y.T, a.dtype, b.dtype, flag


@torch.autocast("cpu", dtype=torch.bfloat16)
def _cast(x: Tensor) -> Tensor:
    return x @ x.T


@program
def autocast_decorator(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return _cast(x), _cast(y) + 1, x @ x.T


@program(graphs=None)
def inference_inside(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    with torch.inference_mode():
        a = x * 2
        a.add_(1)
        flag = a.is_inference()
    return a + 0, x * y, flag, torch.is_inference_mode_enabled()


@program(graphs=None)
def inference_left(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    with torch.inference_mode(), torch.inference_mode(False):
        b = x * y
        flag = torch.is_inference_mode_enabled()
    return b.is_inference(), flag, b


@torch.inference_mode()
def _inferred(x: Tensor) -> Tensor:
    return x * 5 + 1


@program(graphs=None)
def inference_decorator(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = _inferred(x)
    return z.is_inference(), z.clone(), y + 1


@program(arguments=trained)
def dropout(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return (
        F.dropout(x, 0.5),
        F.dropout(y, 0.5, training=False),
        x + torch.rand(3, 4),
        torch.randn_like(y),
        x.bernoulli(0.3),
    )


@program
def random_numbers(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return (
        *(
            torch.rand(2),
            torch.randn(2),
            torch.randint(0, 9, (3,)),
            torch.randperm(4),
            torch.normal(0.0, 1.0, (2,)),
        ),
        *(
            x.clone().uniform_(),
            y.clone().normal_(),
            torch.bernoulli(x.sigmoid()),
            torch.multinomial(x.softmax(1), 2),
        ),
    )


@program(graphs=None)
def seeded(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    torch.manual_seed(3)
    return torch.rand(3), x * 2


@program(graphs=None)
def generator(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    g = torch.Generator().manual_seed(5)
    return torch.rand(3, generator=g), torch.rand(2, generator=g)


@program(graphs=None)
def default_dtype(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    torch.set_default_dtype(torch.float64)
    try:
        return torch.zeros(2), x + 1
    finally:
        torch.set_default_dtype(torch.float32)


@program(graphs=None)
def device_context(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    with torch.device("meta"):
        a = torch.zeros(2)
    return a.device, torch.zeros(2).device, x + 1


@program(graphs=None)
def profiled(x: Tensor, y: Tensor) -> Tensor:
    with torch.profiler.record_function("part"):
        return x * y


# -- data and exceptions -------------------------------------------------------------------------------------------------


@program(graphs=None)
def values_read(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    a = x.sum().item()
    b = (x * 2).tolist()
    c = float(y[0, 0]) + int(y.argmax())
    return a, b, c, bool(x[0, 0] > 0), x.numpy().sum(), f"{y[0, 0].item():.3f}", x[0].max().item() * y


@program(graphs=None)
def branch_on_data(x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        return x + y
    return x - y


@program(graphs=None)
def loop_on_data(x: Tensor, y: Tensor) -> Tensor:
    while x.norm() < 50:
        x = x * 2 + y.abs().max()
    return x


@program(graphs=None, arguments=lambda: (rand(3, 4), torch.tensor([1, 7])))
def index_out_of_range(x: Tensor, i: Tensor) -> Tensor:
    return F.embedding(i, x) * 2


@program(graphs=None, arguments=lambda: (rand(3, 4), torch.tensor([1, 7])))
def index_out_of_range_after_a_change(x: Tensor, i: Tensor) -> Tensor:
    x.add_(1)
    return x[i] * 2


@program(graphs=None, arguments=lambda: (torch.tensor([4, 5]), torch.tensor([2, 0])))
def division_by_zero(x: Tensor, y: Tensor) -> Tensor:
    return x // y


@program(graphs=None)
def wrong_shapes(x: Tensor, y: Tensor) -> Tensor:
    return (x + 1) @ y


@program(graphs=None)
def caught_error(x: Tensor, y: Tensor) -> Any:
    try:
        return x @ y
    except RuntimeError as error:
        return str(error), x * 2


@program(graphs=None, arguments=lambda: (rand(3, 3), rand(3, 3)))
def singular(x: Tensor, y: Tensor) -> Tensor:
    return torch.linalg.cholesky(x - x - torch.eye(3))


@program(arguments=lambda: (torch.zeros(0, 4), torch.zeros(0, 4)))
def empty_batch(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return x + y, x.sum(), torch.cat([x, y]), x.mean(0), len(x)


@program(arguments=lambda: (torch.tensor(2.0), torch.tensor(3.0, requires_grad=True)))
def scalars(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return x * y, x[None], y**2, x.shape, x.expand(3)


@program(arguments=lambda: (rand(4, 3).T, rand(3, 8)[:, ::2]))
def strided(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return (
        x + y,
        x.contiguous(),
        y.contiguous().view(-1),
        x.clone(),
        torch.empty_like(y).fill_(1),
        x.stride(),
        y * 1,
    )


@program
def loops_and_lists(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    states = []
    h = torch.zeros(4)
    for row in x:
        h = torch.tanh(h + row)
        states.append(h)
    total = sum(states)
    for i, value in enumerate(y.unbind(0)):
        total = total + value * i
    return (
        torch.stack(states),
        total,
        [a * b for a, b in zip(x, y, strict=True)],
        {i: r for i, r in enumerate(x)},
    )
