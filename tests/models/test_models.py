"""The models: one graph, as many operations as the peer's, and eager's results and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook.testing import CompileCounter
from tests.models.zoo import ZOO, ZooModel, by_name, fields, loss_of

#: Share of the peer's number of operations that one graph must have.
ENOUGH = 0.95

all_models = pytest.mark.parametrize("model", ZOO, ids=[model.name for model in ZOO])
both_backends = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def infer(fn: Callable[..., Any], model: ZooModel) -> dict[str, Any]:
    """The fields of the output, under `no_grad`."""
    with torch.no_grad():
        return fields(fn(**model.inference()))


def train(fn: Callable[..., Any], module: nn.Module, model: ZooModel) -> dict[str, Any]:
    """The fields of the output, all gradients and all buffers after one backward pass, from a fixed seed."""
    torch.manual_seed(7)
    module.zero_grad()
    output = fn(**model.training())
    loss_of(output).backward()
    seen = fields(output)
    seen |= {f"grad of {name}": parameter.grad for name, parameter in module.named_parameters()}
    return seen | {f"buffer {name}": buffer.clone() for name, buffer in module.named_buffers()}


def assert_equal(actual: Any, expected: Any, exact: bool, where: str = "output") -> None:
    """Compare nested outputs: structure, classes, tensors."""
    assert type(actual) is type(expected), where
    if isinstance(expected, Tensor):
        assert actual.requires_grad == expected.requires_grad, where
        tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {}
        torch.testing.assert_close(actual, expected, **tolerance, msg=lambda text: f"{where}: {text}")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key in expected:
            assert_equal(actual[key], expected[key], exact, f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), where
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(left, right, exact, f"{where}[{index}]")
    elif hasattr(expected, "__dict__"):
        assert_equal(vars(actual), vars(expected), exact, where)
    else:
        assert actual == expected, where


@all_models
@both_backends
def test_inference(model: ZooModel, backend: str) -> None:
    reference = model.build().eval()
    module = model.build().eval()
    counter = CompileCounter(backend)
    compiled = framehook.compile(module, backend=counter)
    expected = infer(reference, model)
    for _ in range(3):
        assert_equal(infer(compiled, model), expected, exact=backend == "eager")
    assert counter.frame_count == 1
    assert counter.op_count >= ENOUGH * model.peer_operations[0]
    assert type(compiled(**model.inference())) is type(reference(**model.inference()))


@all_models
@both_backends
def test_training(model: ZooModel, backend: str) -> None:
    reference = model.build().train()
    module = model.build().train()
    counter = CompileCounter(backend)
    compiled = framehook.compile(module, backend=counter)
    for _ in range(3):
        expected = train(reference, reference, model)
        assert_equal(train(compiled, module, model), expected, exact=backend == "eager")
    assert counter.frame_count == 1
    assert counter.op_count >= ENOUGH * model.peer_operations[1]


@all_models
def test_fullgraph_compiles(model: ZooModel) -> None:
    module = model.build().eval()
    compiled = framehook.compile(module, backend="eager", fullgraph=True)
    assert_equal(infer(compiled, model), infer(model.build().eval(), model), exact=True)


@all_models
def test_another_batch_size(model: ZooModel) -> None:
    module = model.build().eval()
    compiled = framehook.compile(module, backend="eager")

    def run(fn: Callable[..., Any], rows: int) -> dict[str, Any]:
        batch = {key: torch.cat([value] * rows)[:rows] for key, value in model.inference().items()}
        with torch.no_grad():
            return fields(fn(**batch))

    for rows in (2, 3, 5, 2):
        assert_equal(run(compiled, rows), run(module, rows), exact=True)


@all_models
def test_inside_capture(model: ZooModel) -> None:
    module = model.build().eval()
    counter = CompileCounter()
    expected = infer(model.build().eval(), model)
    with framehook.capture(backend=counter, warmup_calls=0):
        for _ in range(3):
            assert_equal(infer(module, model), expected, exact=True)
    assert counter.op_count >= ENOUGH * model.peer_operations[0]


def step_of(model: nn.Module, batch: dict[str, Any]) -> Tensor:
    """A training step function: model and batch in, loss out."""
    return loss_of(model(**batch))


@all_models
@both_backends
def test_training_step_function(model: ZooModel, backend: str) -> None:
    """Several optimizer steps through a compiled step function end with eager's losses and parameters."""
    counter = CompileCounter(backend)
    losses: list[list[float]] = []
    modules = [model.build().train(), model.build().train()]
    for module, step in zip(modules, (step_of, framehook.compile(step_of, backend=counter)), strict=True):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
        losses.append([])
        torch.manual_seed(11)
        for _ in range(4):
            loss = step(module, model.training())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(loss.item())
    assert all(map(math.isfinite, losses[0]))
    assert losses[1] == pytest.approx(losses[0], rel=0 if backend == "eager" else 1e-4)
    for actual, expected in zip(modules[1].parameters(), modules[0].parameters(), strict=True):
        tolerance = {"rtol": 0.0, "atol": 0.0} if backend == "eager" else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(actual, expected, **tolerance)
    assert counter.frame_count == 1
    assert counter.op_count >= ENOUGH * (model.peer_operations[1] - model.unread_by_step)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_inductor(name: str) -> None:
    model = by_name(name)
    reference, module = model.build().eval(), model.build().eval()
    compiled = framehook.compile(module)
    for _ in range(2):
        assert_equal(infer(compiled, model), infer(reference, model), exact=False)
    # Dropout is off, so that the random stream, which Inductor has of its own, does not count.
    reference, module = _without_dropout(model.build().train()), _without_dropout(model.build().train())
    compiled = framehook.compile(module)
    for _ in range(2):
        assert_equal(train(compiled, module, model), train(reference, reference, model), exact=False)


def _without_dropout(module: nn.Module) -> nn.Module:
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
        if hasattr(each, "dropout_prob"):
            each.dropout_prob = 0.0
    return module


@pytest.mark.slow
def test_the_recorded_numbers_are_the_peers() -> None:
    """`peer_operations` in the table are what `torch.compile` captures here and now."""
    with torch._dynamo.config.patch(allow_rnn=True):
        for model in ZOO:
            for column, training in enumerate((False, True)):
                torch.compiler.reset()
                counts: list[int] = []

                def backend(graph: torch.fx.GraphModule, inputs: Any, counts: list[int] = counts) -> Any:
                    counts.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
                    return graph.forward

                compiled = torch.compile(model.build().train(training), backend=backend)
                with torch.set_grad_enabled(training):
                    compiled(**(model.training() if training else model.inference()))
                assert counts == [model.peer_operations[column]], model.name
    torch.compiler.reset()
