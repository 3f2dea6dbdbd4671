"""`torch.autograd.Function`: in one graph where it only computes, left to eager where it does more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

import framehook
from framehook.testing import CompileCounter


class Clipped(torch.autograd.Function):
    """The gradient is clipped; a number comes along."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float) -> Tensor:
        ctx.limit = limit
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad.clamp(-ctx.limit, ctx.limit) * x.sign(), None


class Two(torch.autograd.Function):
    """Two outputs, one without a gradient, in the form with `setup_context`."""

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, (x > y).float()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, other: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return (grad * y if ctx.needs_input_grad[0] else None), (
            grad * x if ctx.needs_input_grad[1] else None
        )


class Once(torch.autograd.Function):
    """A `backward` that is not differentiable itself, and a global that is read."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * FACTOR[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 10


class Rounded(torch.autograd.Function):
    """Another function inside; random numbers; an output that is the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return Clipped.apply(x + torch.rand_like(x), 0.5).round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Straight(torch.autograd.Function):
    """Hands its input through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return -grad


FACTOR = [3.0]
LOG: list[str] = []


class Logged(torch.autograd.Function):
    """Both directions leave something behind."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        LOG.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        LOG.append("backward")
        return grad


class LoggedBackward(Clipped):
    """Only the second leaves something behind."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        LOG.append("backward")
        return grad, None


class InPlace(torch.autograd.Function):
    """Changes its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


#: A program, and the graphs it has with and without gradients.
PROGRAMS: dict[str, tuple[Callable[[Tensor, Tensor], Any], int, int]] = {
    "clipped": (lambda x, w: Clipped.apply(x * w, 0.1).sum(), 1, 1),
    "twice": (lambda x, w: Clipped.apply(Clipped.apply(w, 0.1) + x, 0.2), 1, 1),
    "two outputs": (lambda x, w: [out * 2 for out in Two.apply(x, w)], 1, 1),
    "once differentiable": (lambda x, w: Once.apply(x * w) + 1, 1, 1),
    "one inside another": (lambda x, w: Rounded.apply(x * w) + 1, 1, 1),
    "no gradient is wanted": (lambda x, w: Clipped.apply(x, 0.1) * w, 1, 1),
    "is_grad_enabled inside": (lambda x, w: (Once.apply(x), torch.is_grad_enabled()), 1, 1),
    "its input": (lambda x, w: Straight.apply(x * w) + 1, 1, 2),
    "a log": (lambda x, w: Logged.apply(x * w) + 1, 3, 1),
    "a log in backward": (lambda x, w: LoggedBackward.apply(x * w, 0.1) + 1, 3, 1),
    "in place": (lambda x, w: InPlace.apply(x * w) + 1, 3, 3),
}


def outcome(fn: Callable[..., Any], with_gradients: bool) -> Any:
    """Result, gradient and log from the same start."""
    LOG.clear()
    torch.manual_seed(5)
    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    with torch.set_grad_enabled(with_gradients):
        result = fn(x, w)
    first = result if isinstance(result, Tensor) else result[0]
    if first.requires_grad:
        first.sum().backward()
    return repr(result), repr(w.grad), first.requires_grad, list(LOG), torch.rand(1).item()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("with_gradients", [True, False], ids=["gradients", "no gradients"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_function(name: str, with_gradients: bool, backend: str) -> None:
    fn, recorded, unrecorded = PROGRAMS[name]
    expected = outcome(fn, with_gradients)
    counter = CompileCounter(backend)
    compiled = framehook.compile(fn, backend=counter)
    for _ in range(2):
        actual = outcome(compiled, with_gradients)
        # The name of a node of autograd is that of the backend.
        if backend == "eager":
            assert actual == expected
        else:
            assert actual[1:] == expected[1:]
    assert counter.frame_count <= (recorded if with_gradients else unrecorded)


def test_what_forward_reads_is_read_each_time() -> None:
    fn = lambda w: Once.apply(w * 2)  # noqa: E731
    compiled = framehook.compile(fn, backend="eager")
    for grad in (True, False):
        for factor in (3.0, 4.0):
            FACTOR[0] = factor
            with torch.set_grad_enabled(grad):
                w = torch.ones(2, requires_grad=True)
                assert torch.equal(compiled(w), fn(w))
    FACTOR[0] = 3.0


def test_errors_are_those_of_eager() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad, grad

    fn = lambda w: Wrong.apply(w * 1)  # noqa: E731
    texts = []
    for each in (fn, framehook.compile(fn, backend="eager")):
        with pytest.raises(RuntimeError) as error:
            each(torch.ones(2, requires_grad=True)).sum().backward()
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    assert "returned an incorrect number of gradients" in texts[0]
