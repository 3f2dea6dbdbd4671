"""Liveness knows every variable that may still be read, and forgets those that cannot."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from framehook.bytecode import decode, live_variables


def live_at(function: Callable[..., Any], opname: str, argval: Any = None) -> set[str]:
    code = function.__code__
    assert isinstance(code, types.CodeType)
    for instruction in decode(code).instructions:
        if instruction.opname == opname and (argval is None or instruction.argval == argval):
            return set(live_variables(code, instruction.index))
    raise AssertionError(f"no {opname}")


def straight(a, b):
    c = a + b
    print()
    return c


def loop(n, step):
    total = 0
    for i in range(n):
        total = total + step
    return total


def handled(a, b, f):
    try:
        b = f()
    except ValueError:
        return b
    return a


def captured(a, b):
    def inner():
        return a

    print()
    return inner


def stores(a):
    print()
    a = 1
    return a


def stores_cell(x):
    total = 0
    f = lambda: total
    print()
    total = x
    return f


def sees(a, b):
    print()
    return locals()


def evaluates(model, b):
    print()
    return model.eval()


class Derived(dict):
    def method(self, n):
        print()
        return super().get(n)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (straight, {"c"}),
        (captured, {"inner"}),
        (stores, set()),
        (stores_cell, {"x", "f", "total"}),
        (sees, {"a", "b"}),
        (evaluates, {"model"}),
        (Derived.method, {"self", "n"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_at_print(function: Callable[..., Any], expected: set[str]) -> None:
    assert live_at(function, "LOAD_GLOBAL", "print") == expected


def test_loops_read_again() -> None:
    assert live_at(loop, "FOR_ITER") == {"total", "step"}
    assert live_at(loop, "LOAD_GLOBAL", "range") == {"n", "step", "total"}


def test_exceptions_come_before_the_store() -> None:
    assert live_at(handled, "CALL") == {"a", "b"}
