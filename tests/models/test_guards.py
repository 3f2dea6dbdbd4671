"""Guards of the models: no more than the peer has, and none that Python evaluates."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framehook
from framehook import events
from tests.models.zoo import ZOO, ZooModel


def peer_guards(model: ZooModel) -> int:
    """The conditions at the leaves of `torch.compile`'s guard tree."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    torch.compiler.reset()
    module = model.build().eval()
    with torch._dynamo.config.patch(allow_rnn=True):
        torch.compile(module, backend="eager")(**model.inference())
    forward: Any = type(module).forward
    found = _debug_get_cache_entry_list(forward.__code__)
    while not found:
        forward = forward.__wrapped__
        found = _debug_get_cache_entry_list(forward.__code__)
    root = found[0].guard_manager.root
    return _leaves(root) + len(root.get_epilogue_lambda_guards())


def _leaves(manager: Any) -> int:
    count = len(manager.get_leaf_guards()) + sum(map(_leaves, manager.get_child_managers()))
    if hasattr(manager, "get_key_value_managers"):
        for pair in manager.get_key_value_managers().values():
            count += sum(_leaves(each) for each in pair if each is not None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("model", ZOO, ids=[model.name for model in ZOO])
def test_no_more_guards_than_the_peer(model: ZooModel) -> None:
    counts: list[int] = []
    off = events.on("compile_end", lambda record: counts.append(record.guards))
    with torch.no_grad():
        compiled = framehook.compile(model.build().eval(), backend="eager")
        compiled(**model.inference())
        off()
        assert len(counts) == 1
        assert 0 < counts[0] <= peer_guards(model)
    torch.compiler.reset()


@pytest.mark.parametrize("model", ZOO, ids=[model.name for model in ZOO])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_no_guard_runs_python(model: ZooModel, training: bool) -> None:
    seen: list[Any] = []
    off = events.on("compile_end", lambda record: seen.append(record.artifacts["guards"]))
    with torch.set_grad_enabled(training):
        compiled = framehook.compile(model.build().train(training), backend="eager")
        compiled(**(model.training() if training else model.inference()))
    off()
    assert len(seen) == 1
    assert all(guard.check.name != "PREDICATE" for guard in seen[0])
    assert seen[0].checks >= len(seen[0])
