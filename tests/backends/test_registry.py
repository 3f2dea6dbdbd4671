"""Names, entry points, options and errors."""

import importlib.metadata
import pickle
import subprocess
import sys

import pytest
import torch

from framehook import backends
from framehook.backends import registry
from framehook.errors import (
    BackendError,
    BackendOptionError,
    BuildMismatchError,
    CodeLocation,
    FramehookError,
    GraphBreakError,
    UnknownBackendError,
)


def double(x):
    return (x * 2,)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def test_importing_backends_imports_no_compiler():
    modules = "('torch._dynamo', 'torch._inductor', 'sympy')"
    program = (
        f"import sys, framehook.backends; sys.exit(str([m for m in {modules} if m in sys.modules] or 0))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "0\n"


def test_registered_backends_are_listed_and_found(compile_for):
    seen = []

    @backends.register("mine")
    def mine(gm, example_inputs):
        seen.append(example_inputs)
        return gm.forward

    x = torch.ones(2)
    assert {"aot_eager", "eager", "inductor", "mine"} <= set(backends.list())
    assert backends.get("mine") is mine
    assert compile_for("mine", double, (x,)).run(x)[0].tolist() == [2, 2]
    assert seen[0][0] is x  # the real tensor


def test_any_callable_is_a_backend(compile_for):
    class Backend:
        def __call__(self, gm, example_inputs, *, mode=None, options=None):
            return lambda *inputs: [mode, options]

    graph = compile_for(Backend(), double, (torch.ones(2),), options={"a": 1})
    assert graph.run(torch.ones(2)) == [None, {"a": 1}]
    assert backends.resolve(Backend()).name == "Backend"


def test_a_backend_may_hand_on_to_ours(compile_for, contexts):
    def mine(gm, example_inputs):
        return backends.get("aot_eager")(gm, example_inputs)

    w = torch.nn.Parameter(torch.ones(2))
    graph = compile_for(mine, lambda x, w: (x * w,), (torch.ones(2), w), static=(1,))
    assert contexts[-1].fw_metadata.static_input_indices == [1]
    assert graph.compiled.is_boxed
    graph.run(torch.full((2,), 3.0), w)[0].sum().backward()
    assert w.grad.tolist() == [3, 3]


def test_entry_point_backends_are_found_by_name(monkeypatch, compile_for):
    class Entry:
        name = "elsewhere"

        def load(self):
            return lambda gm, example_inputs: gm.forward

    def entry_points(*, group):
        return [Entry()] if group == "torch_dynamo_backends" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert "elsewhere" in backends.list()
    assert compile_for("elsewhere", double, (torch.ones(2),)).run(torch.ones(2))[0].tolist() == [2, 2]


def test_unknown_name_says_the_nearest():
    with pytest.raises(
        UnknownBackendError, match=r"did you mean 'inductor'.*known backends: aot_eager, eager"
    ):
        backends.resolve("inducter")
    with pytest.raises(ValueError, match="'zzz'"):
        backends.get("zzz")


@pytest.mark.parametrize("backend", [3, None])
def test_what_is_no_backend(backend):
    with pytest.raises(TypeError, match="backend must be a name or a function"):
        backends.resolve(backend)


def test_names_that_cannot_be_registered():
    with pytest.raises(ValueError, match="choose another name"):
        backends.register("eager", double)
    with pytest.raises(TypeError, match=r"write @register\('name'\)"):
        backends.register(double)
    with pytest.raises(TypeError, match="a function of graph and inputs"):
        backends.register("mine", 3)


def test_a_backend_that_raises(compile_for):
    def broken(gm, example_inputs):
        raise ZeroDivisionError("no")

    with pytest.raises(BackendError, match="backend 'broken': ZeroDivisionError: no") as caught:
        compile_for(broken, double, (torch.ones(2),))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.backend == "broken"
    assert [node.op for node in caught.value.graph.graph.nodes] == ["placeholder", "call_function", "output"]


def test_a_backend_that_returns_no_callable(compile_for):
    with pytest.raises(BackendError, match="which cannot be called") as caught:
        compile_for(lambda gm, example_inputs: 3, double, (torch.ones(2),))
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_failing_backend_leaves_modes_alone(compile_for):
    def broken(gm, example_inputs):
        torch.set_grad_enabled(False)
        raise ValueError

    with pytest.raises(BackendError):
        compile_for(broken, double, (torch.ones(2),))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    "mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", None]
)
def test_modes_of_inductor(mode):
    backends.resolve("inductor", mode=mode)


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("max-autotone", None, r"no mode 'max-autotone' \(did you mean 'max-autotune'"),
        (None, {"max_autotun": True}, r"no option 'max_autotun' \(did you mean .*'max_autotune'"),
        (None, {"max_autotune": "yes"}, r"option 'max_autotune' wants bool, got 'yes' \(str\)"),
        ("default", {"max_autotune": True}, "either mode or options"),
        (None, {"guard_filter_fn": print}, "cannot be filtered"),
    ],
)
def test_what_inductor_does_not_have(mode, options, message):
    with pytest.raises(BackendOptionError, match=message):
        backends.resolve("inductor", mode=mode, options=options)


@pytest.mark.parametrize(
    "options", [{"max_autotune": True}, {"epilogue-fusion": False}, {"triton.cudagraphs": True}, {}]
)
def test_options_of_inductor(options):
    backends.resolve("inductor", options=options)


def test_graph_break_error_shows_line_caret_stack_and_hint():
    def user(x):
        return x.item() + 1

    code = user.__code__
    offset = next(i * 2 for i, p in enumerate(code.co_positions()) if p[2] == 15 and p[3] == 23)
    inner = CodeLocation.of(code, offset)
    error = GraphBreakError(
        "a number is read", kind="item", stack=(CodeLocation("t.py", 3, "outer"), inner), hint="no"
    )
    lines = str(error).splitlines()
    caret = next(i for i, line in enumerate(lines) if "^" in line)
    assert lines[caret - 1][lines[caret].index("^") :].startswith("x.item()")
    assert lines[caret].count("^") == len("x.item()")
    assert error.location == inner
    assert 'File "t.py", line 3, in outer' in str(error)
    assert "hint: no" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_errors_have_their_builtin_bases():
    mismatch = BuildMismatchError("torch", "2.12", "2.13", "make build")
    assert isinstance(mismatch, ImportError)
    assert "make build" in str(mismatch)
    for error in (mismatch, UnknownBackendError("a", ["b"]), BackendError("m", "n"), BackendOptionError("m")):
        assert isinstance(error, FramehookError)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
