"""Which operations may draw random numbers, by their names."""

from __future__ import annotations

import re

import torch.fx

# Generously: an operation too many costs microseconds, one too few a wrong result.
_RANDOM = re.compile(
    r"rand|drop|bernoulli|multinomial|normal(?!iz)|uniform|exponential|rrelu|geometric|cauchy|poisson|gumbel"
    r"|binomial|(?<!up)(?<!grid_)sample|dirichlet|gamma|kaiming|xavier|orthogonal|sparse_|fractional|seed"
)
#: These draw only where a probability among their arguments is not zero.
_RANDOM_BY_PROBABILITY = re.compile(r"attention|lstm|gru|rnn")


def name_of(node: torch.fx.Node) -> str:
    """What the operation of a node is called."""
    target = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def is_foreign(node: torch.fx.Node) -> bool:
    """Operations that are not torch's may do anything."""
    if isinstance(node.target, str):
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.namespace not in ("aten", "prims", "prim")
    module = getattr(node.target, "__module__", None) or ""
    return module.partition(".")[0] not in ("torch", "_operator", "builtins", "math", "")


def is_random(node: torch.fx.Node) -> bool:
    """Whether an operation may draw random numbers."""
    name = name_of(node)
    if "drop" in name:
        arguments = dict(enumerate(node.args)) | node.kwargs
        return arguments.get("training", arguments.get("train", arguments.get(2))) is not False
    if name == "scaled_dot_product_attention":
        return bool(node.kwargs.get("dropout_p", (*node.args, *[0.0] * 5)[4]) != 0.0)
    if _RANDOM_BY_PROBABILITY.search(name):
        return node.kwargs.get("training") is not False and any(
            isinstance(each, float) and each > 0 for each in (*node.args, *node.kwargs.values())
        )
    return is_foreign(node) or _RANDOM.search(name) is not None
