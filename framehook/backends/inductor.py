"""TorchInductor, reached as `torch.compile` reaches it: the same `mode` and `options`, the same caches."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import torch_compat
from framehook.backends.graph import CompiledGraph, GraphInput
from framehook.errors import BackendOptionError
from framehook.trace.number_inputs import NumberForm

# Options of `torch.compile` that speak to its own front end, and what stands in their place here.
_FRONT_END_OPTIONS = {
    "guard_filter_fn": "guards of framehook cannot be filtered: an entry with fewer guards could be wrong",
    "use_aoti": "ahead-of-time packages are made by torch.export and aoti_compile_and_package",
}


def inductor(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile `gm` for `example_inputs`, real or fake."""
    check_options(mode, options)
    compiler = torch_compat.inductor_compiler(mode, dict(options) if options else None, None)
    return compiler(gm, example_inputs)


def check_options(mode: str | None, options: Mapping[str, Any] | None) -> None:
    """Raise `BackendOptionError` unless Inductor knows this mode and these options."""
    if mode is not None and options is not None:
        raise BackendOptionError("pass either mode or options: a mode is a set of options with a name")
    if mode is not None and mode != "default":
        modes = torch_compat.inductor_modes()
        if mode not in modes:
            raise BackendOptionError(
                f"Inductor has no mode {mode!r}{_nearest(mode, modes)}; modes: {', '.join(modes)}"
            )
    if not options:
        return
    types = torch_compat.inductor_option_types()
    for key, value in options.items():
        if key in _FRONT_END_OPTIONS:
            raise BackendOptionError(f"option {key!r}: {_FRONT_END_OPTIONS[key]}")
        name = key.replace("-", "_")
        if name not in types:
            raise BackendOptionError(
                f"Inductor has no option {key!r}{_nearest(name, types)}; "
                "torch._inductor.list_options() names all of them"
            )
        expected = types[name]
        # Generic types such as `list[str]` cannot be checked with isinstance.
        if typing.get_origin(expected) is None and not isinstance(value, expected):
            raise BackendOptionError(
                f"option {key!r} wants {getattr(expected, '__name__', expected)}, got {value!r} "
                f"({type(value).__name__})"
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


class InductorCompiler:
    """The `inductor` backend with its mode and options."""

    name = "inductor"
    uses_autograd_tracing = True
    takes_symbols = True
    number_form = NumberForm.TENSOR
    writes_last = False

    def __init__(self, mode: str | None, options: Mapping[str, Any] | None, dynamic: bool | None) -> None:
        check_options(mode, options)
        self._mode = mode
        self._options = dict(options) if options else None
        self._dynamic = dynamic

    def compile(
        self, gm: torch.fx.GraphModule, inputs: Sequence[GraphInput], mode: FakeTensorMode
    ) -> CompiledGraph:
        """Compile for CPU or the inputs' device; a graph that Inductor declines runs as it is."""
        compiler = torch_compat.inductor_compiler(self._mode, self._options, self._dynamic)
        with torch_compat.backend_session(mode) as context:
            try:
                compiled = compiler(gm, [each.fake for each in inputs])
            except Exception as error:
                if torch_compat.is_skip_request(error):
                    return CompiledGraph(
                        torch_compat.plain_forward(gm), False, eager_reason="Inductor declined the device"
                    )
                raise
            guards = torch_compat.input_guards(context)
        run, is_boxed = torch_compat.boxed_call(compiled, gm)
        return CompiledGraph(run, is_boxed, guards)
