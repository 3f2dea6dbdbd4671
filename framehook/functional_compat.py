"""The interfaces of torch that take functions, and that are not public: see `torch_compat`, of which this is a part.

"Checked" names the torch versions that a sentence was tried on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._functorch.apis
import torch._functorch.eager_transforms as transforms
import torch.utils.checkpoint
from torch._functorch import vmap as vmap_module
from torch._higher_order_ops.cond import CondOp, cond_op

#: What the transformed functions of `torch.func` call, with the function to be transformed as first argument.
#: Checked: 2.13.0, 2.14.1.
grad = transforms.grad_impl
grad_and_value = transforms.grad_and_value_impl
vmap = vmap_module.vmap_impl
vjp = transforms._vjp_with_argnums
jvp = transforms._jvp_with_argnums
#: `cond_op(pred, true_fn, false_fn, operands)` behind `torch.cond`.  Checked: 2.13.0, 2.14.1.
cond_call = CondOp.__call__
cond = cond_op


def load_decompositions() -> None:
    """What `vmap` needs loaded before it runs under a fake mode.  Checked: 2.13.0, 2.14.1."""
    vmap_module.lazy_load_decompositions()  # type: ignore[attr-defined]


def is_traced_again() -> bool:
    """Whether a graph that runs is being traced by AOTAutograd: a `TracingContext` is there, and modes are active.

    `torch._guards.TracingContext.try_get`, `torch._C._len_torch_dispatch_stack`.  Checked: 2.13.0, 2.14.1.
    """
    return torch._guards.TracingContext.try_get() is not None and torch._C._len_torch_dispatch_stack() > 0


def tagged_checkpoint(gm: torch.fx.GraphModule, tensors: Sequence[Any]) -> Any:
    """Run a graph module such that AOTAutograd's partitioner recomputes it in the backward graph.

    `torch.ops.higher_order.tag_activation_checkpoint`.  Checked: 2.13.0, 2.14.1.
    """
    return torch.ops.higher_order.tag_activation_checkpoint(gm, *tensors)


#: Modules of `torch.func` that are ordinary Python around the functions above.
TRACED_MODULES = frozenset({"torch.func", "torch._functorch.apis"})
#: Of these, functions that are not.  Checked: 2.13.0, 2.14.1.
NOT_TRACED: frozenset[Callable[..., Any]] = frozenset(
    {torch.func.linearize, torch.func.functionalize, torch.func.debug_unwrap}
)
#: And functions of other modules that are ordinary Python, too.  Checked: 2.13.0, 2.14.1.
TRACED: frozenset[Callable[..., Any]] = frozenset({vmap_module._check_randomness_arg})
