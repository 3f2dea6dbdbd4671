"""Graphs built by hand, so that backends are tested without the tracer."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from framehook import backends, torch_compat


def trace(fn, args):
    """One graph of `fn` with a tuple as output, each node with the fake that tracing would leave there."""
    gm = torch.fx.symbolic_trace(fn)
    return gm if isinstance(gm, torch.fx.GraphModule) else torch.fx.GraphModule({}, gm)


def annotate(gm, mode, fakes):
    class Recorder(torch.fx.Interpreter):
        def run_node(self, node):
            value = super().run_node(node)
            node.meta["example_value"] = value
            return value

    with mode:
        Recorder(gm).run(*fakes)


def compile_for(backend, fn_or_gm, args, *, static=(), mode=None, options=None):
    gm = fn_or_gm if isinstance(fn_or_gm, torch.fx.GraphModule) else trace(fn_or_gm, args)
    fake_mode = torch_compat.make_fake_mode()
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    with torch_compat.trace_session():
        fakes = [
            torch_compat.fakify(fake_mode, arg) if isinstance(arg, torch.Tensor) else arg for arg in args
        ]
        annotate(gm, fake_mode, fakes)
    inputs = [
        backends.GraphInput(name, arg, fake, index in static, f"L[{name!r}]")
        for index, (name, arg, fake) in enumerate(zip(names, args, fakes, strict=True))
    ]
    compiler = backends.resolve(backend, mode=mode, options=options)
    compiled = backends.compile_graph(compiler, gm, inputs, fake_mode)

    def run(*args):
        return compiled.callable([*args]) if compiled.is_boxed else compiled.callable(*args)

    return SimpleNamespace(compiled=compiled, run=run, gm=gm)


@pytest.fixture(name="compile_for")
def compile_for_fixture():
    return compile_for


@pytest.fixture
def contexts(monkeypatch):
    """The tracing contexts of the compiles of this test, in order."""
    seen = []
    original = torch_compat.tracing_context

    @contextlib.contextmanager
    def recording(mode):
        with original(mode) as context:
            seen.append(context)
            yield context

    monkeypatch.setattr(torch_compat, "tracing_context", recording)
    return seen
