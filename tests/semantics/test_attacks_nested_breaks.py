"""Breaks inside inlined functions against programs that see how long objects live."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import framehook


class Thing:
    held: Any = None


def watch_through_a_break(t: Any, log: list[Any]) -> Any:
    reference = weakref.ref(t)
    log.append("a break")
    framehook.graph_break()
    return reference


def let_go_by_del(make: Callable[[], Any], x: Tensor) -> Any:
    log: list[Any] = []
    t = make()
    reference = watch_through_a_break(t, log)
    log.append(reference() is None)
    del t
    log.append(reference() is None)
    return log, x + 1


def let_go_by_rebinding(make: Callable[[], Any], x: Tensor) -> Any:
    log: list[Any] = []
    t = make()
    reference = watch_through_a_break(t, log)
    t = x + 1
    return log, reference() is None, t


def let_go_by_list(make: Callable[[], Any], x: Tensor) -> Any:
    held = [make()]
    reference = watch_through_a_break(held[0], [])
    held.clear()
    return reference() is None, x + 1


def let_go_by_dict(make: Callable[[], Any], x: Tensor) -> Any:
    held = {"t": make()}
    reference = watch_through_a_break(held["t"], [])
    held["t"] = None
    return reference() is None, x + 1


def let_go_by_attribute(make: Callable[[], Any], x: Tensor) -> Any:
    thing = Thing()
    thing.held = make()
    reference = watch_through_a_break(thing.held, [])
    thing.held = None
    return reference() is None, x + 1


def let_go_with_a_callee(make: Callable[[], Any], x: Tensor) -> Any:
    reference = watch_through_a_break(make(), [])
    return reference() is None, x + 1


def raise_behind_a_break(make: Callable[[], Any], watched: list[Any]) -> None:
    t = make()
    watched.append(watch_through_a_break(t, []))
    raise ValueError("with a traceback that holds the frame")


def let_go_with_a_traceback(make: Callable[[], Any], x: Tensor) -> Any:
    watched: list[Any] = []
    try:
        raise_behind_a_break(make, watched)
    except ValueError:
        inside = [reference() is None for reference in watched]
        x = x + 1
    return inside, [reference() is None for reference in watched], x


PROGRAMS = [
    let_go_by_del,
    let_go_by_rebinding,
    let_go_by_list,
    let_go_by_dict,
    let_go_by_attribute,
    let_go_with_a_callee,
    let_go_with_a_traceback,
]

MAKERS: dict[str, Callable[[], Any]] = {
    "object": Thing,
    "tensor": lambda: torch.ones(2) * 3,
    "module": lambda: nn.ReLU(),
    "function": lambda: eval("lambda: 1"),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.__name__))
@pytest.mark.parametrize("kind", MAKERS)
def test_weak_references_die_when_the_program_lets_go(kind: str, program: Callable[..., Any]) -> None:
    make = framehook.disable(MAKERS[kind])
    compiled = framehook.compile(program, backend="eager")
    for size in (2, 2, 3):
        *expected, tensor = program(make, torch.ones(size))
        *got, result = compiled(make, torch.ones(size))
        assert got == expected
        assert torch.equal(result, tensor)


@pytest.mark.parametrize("kind", MAKERS)
def test_weak_references_see_what_an_argument_lets_go(kind: str) -> None:
    def clear(held: list[Any], reference: Any, x: Tensor) -> tuple[Tensor, bool]:
        held.clear()
        return x + 1, reference() is None

    def arguments() -> tuple[list[Any], Any, Tensor]:
        held = [MAKERS[kind]()]
        return held, weakref.ref(held[0]), torch.ones(2)

    compiled = framehook.compile(clear, backend="eager")
    for _ in range(3):
        assert clear(*arguments())[1] is compiled(*arguments())[1] is True


def test_a_weak_reference_to_what_a_caller_holds_stays_in_the_graph() -> None:
    class Child(nn.Module):
        parent: Any
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.parent().scale

    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 3.0
            self.child = Child()
            self.child.parent = weakref.ref(self)

        def forward(self, x: Tensor) -> Tensor:
            return self.child(x + 1) - 1

    model = Parent()
    compiled = framehook.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 5.0))
    assert model.child.calls == 1


def test_a_trace_of_several_frames_leaves_no_circle_that_holds_their_objects() -> None:
    class Told:
        def __init__(self, told: list[str]) -> None:
            self.told = told

        def __del__(self) -> None:
            self.told.append("deleted")

    def inner(told: Told | None, x: Tensor, log: list[str]) -> Tensor:
        framehook.graph_break()
        told = None
        framehook.graph_break()
        log.append("inner")
        return x

    def middle(x: Tensor, log: list[str]) -> tuple[Tensor, Tensor]:
        told = Told(log)
        return inner(told, x, log), inner(None or told, x, log)

    def outer(x: Tensor, log: list[str]) -> Tensor:
        a, b = middle(x, log)
        framehook.graph_break()
        log.append("outer")
        return a

    compiled = framehook.compile(outer, backend="eager")
    gc.disable()
    try:
        for _ in range(2):
            log: list[str] = []
            compiled(torch.ones(2), log)
            assert log == ["inner", "inner", "deleted", "outer"]
    finally:
        gc.enable()
