"""`torch.inference_mode`: the C++ guard behind it is entered for real while tracing, and by nodes of the graph.

A guard that is open where the trace stops would have to stay open: the trace stops before it is entered instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from framehook import inference
from framehook.trace.rules import rule
from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.sequences import BuiltinMethod


class InferenceGuardValue(Value):
    """An object of `torch._C._InferenceMode`: its mode, and the real guard and its node while it is entered."""

    __slots__ = ("guard", "mode", "node")

    def __init__(self, mode: bool) -> None:
        self.source = None
        self.mode = mode
        self.guard: Any = None
        self.node: Any = None

    def python_type(self) -> type:
        return torch._C._InferenceMode

    def describe(self) -> str:
        return "the guard of an inference mode"

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name in ("__enter__", "__exit__"):
            return BuiltinMethod(self, name)
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()}")

    def call_method(self, tr: Any, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        guards: list[InferenceGuardValue] = tr.inference_guards
        if name == "__enter__" and self.guard is None:
            self.guard = inference.enter(self.mode)
            self.node = tr.builder.state_call(inference.enter, self.mode)
            guards.append(self)
        elif name == "__exit__" and guards and guards[-1] is self and self.node.graph is tr.builder.graph:
            guards.pop()
            inference.leave(self.guard)
            tr.builder.state_call(inference.leave, self.node)
            self.guard = self.node = None
        else:
            tr.graph_break("call", "an inference mode is not left in the order in which it was entered")
        return ConstantValue(None)


@rule(torch._C._InferenceMode)
def _make(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 or kwargs:
        tr.graph_break("call", "an inference mode is made in an unusual way")
    value: Value = tr.note_birth(InferenceGuardValue(tr.truth(args[0])))
    return value
