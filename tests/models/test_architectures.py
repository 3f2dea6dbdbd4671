"""Ten of the architectures of `make zoo`: one graph, as many operations as the peer's, eager's results and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framehook
from framehook.testing import CompileCounter
from tests.models.architectures import TEXT_MODELS
from tests.models.architectures_media import MEDIA_MODELS
from tests.models.test_models import ENOUGH, assert_equal, infer, train
from tests.models.zoo import ZooModel

MODELS = {model.name: model for model in [*TEXT_MODELS, *MEDIA_MODELS]}

#: Operations in the peer's one graph, in (inference, training), with torch 2.13.0 and transformers 5.24.0.
PEER_OPERATIONS = {
    "deberta-v2": (118, 121),
    "nystromformer": (79, 82),
    "gemma3": (244, 252),
    "mixtral": (122, 130),
    "mamba2": (152, 154),
    "bart": (139, 142),
    "whisper": (112, 123),
    "clip": (106, 113),
    "swin": (111, 120),
    "unet": (37, 48),
}
ten = pytest.mark.parametrize("name", PEER_OPERATIONS)


@ten
def test_inference(name: str) -> None:
    model = MODELS[name]
    reference, module = model.build().eval(), model.build().eval()
    counter = CompileCounter()
    compiled = framehook.compile(module, backend=counter)
    for _ in range(2):
        assert_equal(infer(compiled, model), infer(reference, model), exact=True)
    assert counter.frame_count == 1
    assert counter.op_count >= ENOUGH * PEER_OPERATIONS[name][0]


@ten
def test_training(name: str) -> None:
    model = MODELS[name]
    reference, module = model.build().train(), model.build().train()
    counter = CompileCounter()
    compiled = framehook.compile(module, backend=counter)
    for _ in range(2):
        assert_equal(train(compiled, module, model), train(reference, reference, model), exact=True)
    assert counter.frame_count == 1
    assert counter.op_count >= ENOUGH * PEER_OPERATIONS[name][1]


def test_names_are_distinct() -> None:
    assert len(MODELS) == len(TEXT_MODELS) + len(MEDIA_MODELS)
    assert len(MODELS) >= 100


def count_operations(model: ZooModel, training: bool) -> list[int]:
    """Operations in each graph of the peer."""
    torch.compiler.reset()
    counts: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        counts.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    compiled = torch.compile(model.build().train(training), backend=backend)
    with torch.set_grad_enabled(training):
        compiled(**(model.training() if training else model.inference()))
    torch.compiler.reset()
    return counts


@pytest.mark.slow
@ten
def test_the_recorded_numbers_are_the_peers(name: str) -> None:
    counts = [count_operations(MODELS[name], training) for training in (False, True)]
    assert counts == [[each] for each in PEER_OPERATIONS[name]]
