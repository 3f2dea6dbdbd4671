"""What goes into a backend and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook.torch_compat import InputGuard
from framehook.trace.number_inputs import NumberForm


class GraphInput(NamedTuple):
    """One placeholder of a captured graph.

    Attributes:
        name: the placeholder's name.
        example: the real tensor or number of the call that is being compiled.
        fake: its stand-in during tracing; for numbers the number or symbol itself.
        is_static: a parameter or buffer: it keeps its address between calls.
        source: where it comes from, in words; distinct per graph.
    """

    name: str
    example: Any
    fake: Any
    is_static: bool
    source: str


class CompiledGraph(NamedTuple):
    """A graph that can be run.

    Attributes:
        callable: takes one list of inputs, which it may empty, if `is_boxed`; else the inputs one by one.
        is_boxed: the calling convention.
        extra_guards: what the backend assumed about the inputs beyond their own metadata.
        eager_reason: why the graph runs operation by operation although the backend compiles; else empty.
    """

    callable: Callable[..., Any]
    is_boxed: bool
    extra_guards: tuple[InputGuard, ...] = ()
    eager_reason: str = ""


class Compiler(Protocol):
    """A backend with its options fixed, as `resolve` returns it."""

    @property
    def name(self) -> str:
        """The name that errors and reports use."""
        ...

    @property
    def uses_autograd_tracing(self) -> bool:
        """Whether the graph goes to AOTAutograd, with its limits."""
        ...

    @property
    def takes_symbols(self) -> bool:
        """Whether sizes and integers among the inputs may be symbols."""
        ...

    @property
    def number_form(self) -> NumberForm:
        """What the graph gets for inputs that are numbers which differ between calls."""
        ...

    @property
    def writes_last(self) -> bool:
        """Whether its graphs write to their inputs after everything that can fail."""
        ...

    def compile(
        self, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
    ) -> CompiledGraph:
        """Compile `gm`; whatever it raises becomes the cause of a `BackendError`."""
        ...
