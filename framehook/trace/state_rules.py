"""Flags of torch as the trace sees them: those that the STATE guard compares are read now, some can be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx.node

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
