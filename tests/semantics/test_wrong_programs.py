"""Programs with a mistake: eager's exception, at the call or in backward, with the user's line, and eager's state left behind."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import framehook
from framehook.testing import assert_same, snapshot
from tests.semantics.gradient_table import layers, rand

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}


def plain() -> tuple[Any, ...]:
    """Two tensors."""
    return rand(3, 4), rand(3, 4, seed=1)


def trained() -> tuple[Any, ...]:
    """Two leaves that want gradients."""
    return rand(3, 4, grad=True), rand(3, 4, grad=True, seed=1)


def wrong(fn: Any = None, *, arguments: Callable[[], tuple[Any, ...]] = plain) -> Any:
    """Collect a program that raises; what it returns is differentiated by the caller."""

    def add(fn: Any) -> Any:
        PROGRAMS[fn.__name__] = fn, arguments
        return fn

    return add if fn is None else add(fn)


# -- shapes, dtypes, devices ---------------------------------------------------------------------------------------


@wrong
def shapes_of_a_product(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    return (x * 2) @ y


@wrong
def shapes_of_a_sum(x: Tensor, y: Tensor) -> Any:
    z = x.sin()
    return z + y[:2]


@wrong
def shape_of_a_view(x: Tensor, y: Tensor) -> Any:
    return x.view(5, -1) + 1


@wrong(arguments=lambda: (rand(3, 5), layers()))
def shape_for_a_layer(x: Tensor, model: nn.Module) -> Any:
    return model(x)


@wrong
def shapes_of_a_concatenation(x: Tensor, y: Tensor) -> Any:
    return torch.cat([x, y[:, :2]], dim=0)


@wrong
def dimension_that_is_not_there(x: Tensor, y: Tensor) -> Any:
    return x.sum(2)


@wrong(arguments=lambda: (rand(3, 4), rand(4, 3, dtype=torch.float64)))
def dtypes_of_a_product(x: Tensor, y: Tensor) -> Any:
    return x @ y


@wrong(arguments=lambda: (torch.arange(4), torch.arange(4)))
def dtype_of_a_mean(x: Tensor, y: Tensor) -> Any:
    y.add_(1)
    return x.mean()


@wrong
def dtype_of_an_index(x: Tensor, y: Tensor) -> Any:
    return x[y]


@wrong(arguments=lambda: (rand(3, 4), torch.empty(3, 4, device="meta")))
def devices_of_a_sum(x: Tensor, y: Tensor) -> Any:
    return x + y


@wrong
def dtype_in_place(x: Tensor, y: Tensor) -> Any:
    return x.long().add_(y)


@wrong
def out_of_another_dtype(x: Tensor, y: Tensor) -> Any:
    return torch.add(x, y, out=torch.empty(3, 4, dtype=torch.int64))


# -- values --------------------------------------------------------------------------------------------------------------


@wrong(arguments=lambda: (rand(3, 4), torch.tensor([0, 9])))
def index_out_of_range(x: Tensor, i: Tensor) -> Any:
    x.mul_(2)
    return x[i]


@wrong(arguments=lambda: (rand(3, 4), torch.tensor([0, 9])))
def index_out_of_range_in_an_embedding(x: Tensor, i: Tensor) -> Any:
    return F.embedding(i, x) + 1


@wrong(arguments=lambda: (rand(3, 4, grad=True), torch.tensor([0, 1, 9])))
def class_out_of_range(x: Tensor, i: Tensor) -> Any:
    return F.cross_entropy(x * 2, i)


@wrong
def constant_index_out_of_range(x: Tensor, y: Tensor) -> Any:
    return x[5] + 1


@wrong
def not_positive_definite(x: Tensor, y: Tensor) -> Any:
    return torch.linalg.cholesky(-torch.eye(3) * x[0, 0].abs())


@wrong
def invalid_parameter_of_a_distribution(x: Tensor, y: Tensor) -> Any:
    y.add_(1)
    return torch.distributions.Normal(x, -y.abs()).log_prob(x)


@wrong
def invalid_value_of_a_distribution(x: Tensor, y: Tensor) -> Any:
    return torch.distributions.Bernoulli(logits=x).log_prob(y)


@wrong
def item_of_several(x: Tensor, y: Tensor) -> Any:
    return x.item()


@wrong
def truth_of_several(x: Tensor, y: Tensor) -> Any:
    return x if x > 0 else y


# -- autograd ---------------------------------------------------------------------------------------------------------------


@wrong(arguments=trained)
def in_place_on_a_leaf(x: Tensor, y: Tensor) -> Any:
    z = x * y
    x.add_(1)
    return z


@wrong(arguments=trained)
def in_place_on_a_view_of_a_leaf(x: Tensor, y: Tensor) -> Any:
    x[0].mul_(2)
    return x * y


@wrong(arguments=trained)
def saved_tensor_overwritten(x: Tensor, y: Tensor) -> Any:
    z = x.exp()
    w = z * y
    z.add_(1)
    return w


@wrong(arguments=trained)
def saved_input_overwritten(x: Tensor, y: Tensor) -> Any:
    z = y.detach().clone()
    w = x * z
    z.mul_(2)
    return w


@wrong
def backward_of_no_gradient(x: Tensor, y: Tensor) -> Any:
    (x * y).sum().backward()


@wrong(arguments=trained)
def backward_of_several(x: Tensor, y: Tensor) -> Any:
    (x * y).backward()


@wrong(arguments=trained)
def backward_twice(x: Tensor, y: Tensor) -> Any:
    z = (x * y).sin().sum()
    z.backward()
    z.backward()


@wrong(arguments=trained)
def gradient_of_what_was_not_used(x: Tensor, y: Tensor) -> Any:
    return torch.autograd.grad((x * 2).sum(), y)


@wrong(arguments=trained)
def numpy_of_what_wants_a_gradient(x: Tensor, y: Tensor) -> Any:
    return (x * y).numpy()


@wrong
def requires_grad_of_integers(x: Tensor, y: Tensor) -> Any:
    return x.long().requires_grad_()


@wrong(arguments=trained)
def requires_grad_taken_from_a_result(x: Tensor, y: Tensor) -> Any:
    return (x * y).requires_grad_(False)


@wrong
def inference_tensor_saved(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode():
        z = x * 2
    return z * y.requires_grad_()


@wrong
def inference_tensor_changed(x: Tensor, y: Tensor) -> Any:
    with torch.inference_mode():
        z = x * 2
    z.add_(1)
    return z


class TooFew(torch.autograd.Function):
    """One gradient for two inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad


class WrongShape(torch.autograd.Function):
    """A gradient of another shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad[:1, :2]


class Failing(torch.autograd.Function):
    """Its backward raises."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise KeyError("in backward")


@wrong(arguments=trained)
def too_few_gradients(x: Tensor, y: Tensor) -> Any:
    return TooFew.apply(x + 1, y)


@wrong(arguments=trained)
def gradient_of_another_shape(x: Tensor, y: Tensor) -> Any:
    return WrongShape.apply(x + 1)


@wrong(arguments=trained)
def backward_that_raises(x: Tensor, y: Tensor) -> Any:
    return Failing.apply(x * y)


@wrong(arguments=lambda: (torch.zeros(3, 4, requires_grad=True), rand(3, 4)))
def anomaly_is_detected(x: Tensor, y: Tensor) -> Any:
    with torch.autograd.detect_anomaly():
        z = x.sqrt() * 0
        z.sum().backward()


# -- transforms -----------------------------------------------------------------------------------------------------------------


@wrong
def gradient_of_several(x: Tensor, y: Tensor) -> Any:
    return torch.func.grad(lambda a: a * y)(x)


@wrong
def batches_of_other_sizes(x: Tensor, y: Tensor) -> Any:
    return torch.vmap(lambda a, b: a + b)(x, y[:2])


@wrong
def branch_in_a_batch(x: Tensor, y: Tensor) -> Any:
    return torch.vmap(lambda a: a if a.sum() > 0 else -a)(x)


@wrong
def random_in_a_batch(x: Tensor, y: Tensor) -> Any:
    return torch.vmap(lambda a: a + torch.rand(4))(x)


@wrong
def error_in_a_transformed_function(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        if a.dim() == 2:
            raise LookupError("mine")
        return a.sum()

    return torch.func.grad(inner)(x)


@wrong(arguments=trained)
def error_in_a_checkpoint(x: Tensor, y: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        raise LookupError("mine")

    return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)


@wrong
def branches_of_other_shapes(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.sum() > 100, lambda a: a, lambda a: a[0], (x,))


# -- comparing ------------------------------------------------------------------------------------------------------------------


def outcome(fn: Callable[..., Any], name: str) -> Any:
    """Where it raises, what, from which of the program's lines, and what is left behind."""
    arguments = PROGRAMS[name][1]()
    torch.manual_seed(0)
    where, error, lines = "nowhere", None, []
    try:
        result = fn(*arguments)
        where = "backward"
        if isinstance(result, Tensor) and result.requires_grad:
            result.sum().backward()
        where = "nowhere"
    except Exception as raised:
        error = raised
        where = "call" if where == "nowhere" else where
        lines = [
            frame.lineno for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == __file__
        ][1:]
    state = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()
    return where, type(error), str(error), lines, snapshot(arguments), state, torch.rand(())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_raises_what_eager_raises(name: str, backend: str) -> None:
    torch.distributions.Distribution.set_default_validate_args(True)
    fn = PROGRAMS[name][0]
    compiled = framehook.compile(fn, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(fn, name)
        assert expected[0] != "nowhere"
        for call in range(3):
            actual = outcome(compiled, name)
            assert actual[:4] == expected[:4]
            assert_same(snapshot(actual[4:]), snapshot(expected[4:]), where=f"call {call + 1}")
