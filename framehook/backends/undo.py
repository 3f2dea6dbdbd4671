"""Graphs that raise while they run: the frame runs again eagerly, from the state that the graph began with.

What has to be kept for that is decided once, by the names of the operations: a graph that neither draws random
numbers nor changes its inputs costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.fx

from framehook import torch_compat
from framehook.backends.graph import GraphInput
from framehook.backends.overlap import changes_overlapping
from framehook.trace.randomness import is_foreign, is_random, name_of

# Generously: an operation too many costs microseconds, one too few a wrong result.
_RAISES = re.compile(
    r"index|gather|scatter|take|embedding|one_hot|linalg|cholesky|inv|svd|qr|eig|lu_|solve|lstsq|multinomial"
    r"|bernoulli|binomial|poisson|normal_?$|dirichlet|gamma|nll|cross_entropy|multi_margin|multilabel|bincount"
    r"|put_|repeat_interleave|ctc|quantile|assert|unpool|masked_s|searchsorted|bucketize|histc|item"
    r"|split|tolist|pack"
)
#: These raise for whole numbers only.
_RAISES_FOR_INTEGERS = re.compile(r"div|mod|remainder|pow")
_CHANGES_METADATA = re.compile(r"resize|(^|_)set_$|^(t|transpose|swap\w*|squeeze|unsqueeze|as_strided)_$")
#: Of inputs that a graph changes, this much is copied before each call; beyond it the copies cost too much.
_MOST_BYTES = 1 << 20


class Undo(NamedTuple):
    """What a graph that raised must put back.

    Attributes:
        is_random: the state of torch's generators.
        generators: and of these.
        changed: the places of inputs whose values it may have changed.
        undoes_changes: whether, after it, nothing of the graph is left, so that the frame can run again.
    """

    is_random: bool
    generators: tuple[torch.Generator, ...]
    changed: tuple[int, ...]
    undoes_changes: bool

    def wrap(self, run: Callable[..., Any], is_boxed: bool) -> Callable[..., Any]:
        """Return `run` such that it leaves no trace when it raises; the calling convention stays."""

        def run_or_undo(*given: Any) -> Any:
            inputs = given[0] if is_boxed else given
            kept = [_keep(inputs[place]) for place in self.changed]
            states = [(each, each.get_state()) for each in self._all_generators()]
            try:
                return run(*given)
            except Exception:
                for tensor, values, version in kept:  # also of an unchanged version: `.data` does not count
                    torch_compat.put_back(tensor, values, version)
                for generator, state in states:
                    generator.set_state(state)
                raise

        return run_or_undo

    def _all_generators(self) -> Iterator[torch.Generator]:
        yield from self.generators
        if self.is_random:
            yield torch.default_generator
            if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
                yield from torch.cuda.default_generators


def _keep(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int | None]:
    return tensor, tensor.detach().clone(), None if tensor.is_inference() else tensor._version


def undo_for(gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], changed: Sequence[int]) -> Undo | None:
    """Say what must be put back when the graph raises; None when nothing must, or nothing can be.

    Args:
        gm: the graph as it was captured.
        inputs: its inputs.
        changed: the places of those that it changes.
    """
    nodes = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    # Of a write into memory that an operand lies in as well, propagation saw nothing where both are inputs.
    may_raise = changed and (any(map(_may_raise, nodes)) or changes_overlapping(inputs))
    if changed and not (may_raise and _can_put_back(nodes, [inputs[i] for i in changed])):
        return None
    generators = {id(each): each for node in nodes for each in _generators(node)}
    draws = any(map(is_random, nodes))
    if not (changed or generators or draws):
        return None
    return Undo(draws, tuple(generators.values()), tuple(changed), True)


def _can_put_back(nodes: Sequence[torch.fx.Node], changed: Sequence[GraphInput]) -> bool:
    return (
        not any(_CHANGES_METADATA.search(name_of(node)) or "out" in node.kwargs for node in nodes)
        and not any(torch_compat.is_mutated_with_gradient(each.fake) for each in changed)
        and sum(each.example.numel() * each.example.element_size() for each in changed) <= _MOST_BYTES
    )


def _may_raise(node: torch.fx.Node) -> bool:
    name = name_of(node)
    if name.strip("_") in ("getitem", "setitem"):
        return any(
            isinstance(used.meta.get("example_value"), torch.Tensor) for used in _nodes_in(node.args[1:2])
        )
    if _RAISES_FOR_INTEGERS.search(name):
        result = node.meta.get("example_value")
        return not (isinstance(result, torch.Tensor) and (result.is_floating_point() or result.is_complex()))
    return is_foreign(node) or _RAISES.search(name) is not None


def _nodes_in(arguments: Any) -> list[torch.fx.Node]:
    found: list[torch.fx.Node] = []
    torch.fx.node.map_arg(arguments, found.append)
    return found


def _generators(node: torch.fx.Node) -> list[torch.Generator]:
    given: tuple[Any, ...] = (*node.args, *node.kwargs.values())
    return [each for each in given if isinstance(each, torch.Generator)]
