"""Flags of torch as the trace sees them: those that the STATE guard compares are read now, some can be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx.node

from framehook import torch_state
from framehook.torch_state import FLAGS
from framehook.trace.rules import fold_plain, rule
from framehook.values.base import CONSTANT_TYPES, ConstantValue, Value

#: What says which kernels attention may choose; compared by value.
CONSTANT_TYPES.add(torch._C._SDPBackend)

#: Flags of `at::Context`; the STATE guard compares all of them.
_READERS = (
    *("cudnn_enabled", "cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "mkldnn_enabled"),
    *("mkldnn_deterministic", "mkldnn_allow_tf32", "nnpack_enabled", "deterministic_algorithms"),
    *("deterministic_algorithms_warn_only", "cublas_allow_fp16_reduced_precision_reduction"),
    *("cublas_allow_bf16_reduced_precision_reduction", "cublas_allow_fp16_accumulation"),
    *(
        "cublas_allow_tf32",
        "math_sdp_allow_fp16_bf16_reduction",
        "cpu_allow_fp16_reduced_precision_reduction",
    ),
)


def _read(reader: Any) -> None:
    rule(reader)(lambda tr, args, kwargs: fold_plain(tr, reader, args, kwargs))


def _set(setter: Any) -> None:
    @rule(setter)
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        value = args[0].realize(tr) if len(args) == 1 and not kwargs else None
        if not isinstance(value, ConstantValue):
            tr.graph_break("call", f"{setter.__name__}() of what is no constant")
            raise AssertionError
        return ConstantValue(tr.change_state(setter, [value.value]))


for _name in _READERS:
    if hasattr(torch._C, f"_get_{_name}"):
        _read(getattr(torch._C, f"_get_{_name}"))
for _reader, _setter in FLAGS:
    _read(_reader)
    if _setter is not torch._C._set_default_dtype:
        # The dtype of `torch.ones(4)` is not written into a backend's graph: it is found when that runs.
        _set(_setter)
        torch.fx.node.has_side_effect(_setter)  # a backend must not drop it


def finish_state(tr: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Let the graph leave torch's state as it found it; return the calls that change it for real."""
    entry = tr.entry_state
    changes: list[tuple[Any, tuple[Any, ...]]] = []
    if torch.is_grad_enabled() != entry.grad_enabled:
        changes.append((torch._C._set_grad_enabled, (torch.is_grad_enabled(),)))
        tr.builder.state_call(torch._C._set_grad_enabled, entry.grad_enabled)
    undo, redo = torch_state.autocast_difference(entry, tr.autocast_nesting, tr.is_autocast_cache_enabled)
    for setter, args in undo:
        tr.builder.state_call(setter, *args)
    changes.extend(redo)
    for setter, before, now in torch_state.flag_difference(entry):
        tr.builder.state_call(setter, before)
        changes.append((setter, (now,)))
    return changes
