"""What user code says to the tracer."""

from __future__ import annotations

import gc

import pytest
import torch

import framehook
from framehook import directives
from framehook.testing import CompileCounter, check


def test_they_are_no_ops_when_run_for_real() -> None:
    assert framehook.graph_break() is None
    assert framehook.graph_break("why") is None
    assert framehook.is_compiling() is False


@pytest.mark.parametrize("asked", [framehook.is_compiling, torch.compiler.is_compiling])
def test_is_compiling_is_true_in_the_traced_program(asked: object) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if asked() else x - 1  # type: ignore[operator]

    assert torch.equal(framehook.compile(fn, backend="eager")(torch.zeros(1)), torch.ones(1))


def test_graph_break_splits_the_frame() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        framehook.graph_break()
        return x * 2

    check(fn, torch.ones(2), graphs=2)


def test_disable_breaks_the_graph_at_the_call() -> None:
    @framehook.disable
    def quiet(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    def fn(x: torch.Tensor) -> torch.Tensor:
        return quiet(x + 1) - 1

    checked = check(fn, torch.ones(2), graphs=2)
    assert checked.operations == 2


def test_allow_in_graph_makes_one_node() -> None:
    @framehook.allow_in_graph
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * 2 - 3

    def fn(x: torch.Tensor) -> torch.Tensor:
        return opaque(x) + 1

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    assert torch.equal(compiled(torch.ones(2)), fn(torch.ones(2)))
    assert (counter.frame_count, counter.op_count) == (1, 2)
    assert opaque in [node.target for node in counter.graphs[0].graph.nodes]


def test_disallow_in_graph_breaks() -> None:
    @framehook.disallow_in_graph
    def never(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    def fn(x: torch.Tensor) -> torch.Tensor:
        return never(x + 1) - 1

    check(fn, torch.ones(2), graphs=3)  # before, after, and the function on its own


def test_treatments_are_kept_without_keeping_the_function() -> None:
    def fn() -> None: ...

    assert directives.treatment(fn) is None
    assert framehook.allow_in_graph(fn) is fn
    assert directives.treatment(fn) == "allow_in_graph"
    framehook.disallow_in_graph(fn)
    assert directives.treatment(fn) == "disallow_in_graph"
    assert directives.treatment(framehook.disable(fn)) == "disable"
    gc.collect()
    count = len(directives._treatments._notes)
    del fn
    gc.collect()
    assert len(directives._treatments._notes) == count - 1
    with pytest.raises(TypeError, match="allow_in_graph"):
        framehook.allow_in_graph(3)  # type: ignore[type-var]


def test_marks_on_dimensions() -> None:
    t = torch.ones(2, 3)
    framehook.mark_dynamic(t, 0, min=1, max=8)
    framehook.mark_dynamic(t, [-1])
    assert directives.dynamic_dims(t) == {0: (1, 8), 1: (None, None)}
    framehook.mark_static(t, 1)
    assert directives.static_dims(t) == {1}
    framehook.mark_static(t)
    assert directives.static_dims(t) == {0, 1}
    assert directives.dynamic_dims(torch.ones(2, 3)) == {}
    assert vars(t) == {}


def test_bad_marks_are_refused() -> None:
    t = torch.ones(2, 3)
    with pytest.raises(IndexError, match="dimension 2"):
        framehook.mark_dynamic(t, 2)
    with pytest.raises(ValueError, match="bounds"):
        framehook.mark_dynamic(t, 0, min=3)
    with pytest.raises(TypeError, match="tensors"):
        framehook.mark_dynamic([1, 2], 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tensors"):
        framehook.mark_static(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [3, "text"])
def test_disable_takes_callables(bad: object) -> None:
    with pytest.raises(TypeError, match="disable"):
        framehook.disable(bad)  # type: ignore[call-overload]


def test_disable_not_recursive_is_for_functions() -> None:
    with pytest.raises(TypeError, match="recursive=False"):
        framehook.disable(len, recursive=False)
    with pytest.raises(TypeError, match="decorator"), framehook.disable(recursive=False):
        pass
