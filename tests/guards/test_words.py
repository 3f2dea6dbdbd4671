"""Guards and failures in words."""

from __future__ import annotations

import builtins
import importlib.util
import types
from typing import Any

import pytest

from framehook.guards import words
from framehook.guards.guard import Check, GuardSet
from framehook.guards.lowering import lower
from framehook.source import Source

from .programs import CELL, G, X, Y


class Thing:
    def __repr__(self) -> str:
        raise AssertionError("words run no user code")


def user_code(x: int) -> int:
    return x


def made(**attrs: Any) -> Thing:
    thing = Thing()
    thing.__dict__.update(attrs)
    return thing


LINE = user_code.__code__.co_firstlineno + 1
PLACE = f"test_words.py:{LINE}"

ROWS: list[tuple[Source | None, Check, Any, Any, str, str]] = [
    (X, Check.TYPE, Thing, 3, "type of L['x'] is Thing", "type of L['x']: expected Thing, got int"),
    (X, Check.EQUALS, 32, 48, "L['x'] is 32", "L['x']: expected 32, got 48"),
    (X, Check.EQUALS, 1, True, "L['x'] is 1", "L['x']: expected 1 (int), got True (bool)"),
    (X, Check.EQUALS, None, made(), "L['x'] is None", "L['x']: expected None, got Thing object at "),
    (X, Check.NOT_NONE, None, None, "L['x'] is not None", "L['x']: expected anything but None, got None"),
    (X, Check.IDENTITY, len, max, "L['x'] is the very len", "L['x']: expected len, got max"),
    (X, Check.LENGTH, 2, [1], "length of L['x'] is 2", "length of L['x']: expected 2, got 1"),
    (X, Check.KEYS, ("a",), {"b": 1}, "keys of L['x'] are ['a']", "keys of L['x']: expected ['a'], got ['b']"),
    (X, Check.MEMBERS, (1, 2), {1}, "members of L['x'] are [1, 2]", "members of L['x']: expected [1, 2], got [1]"),
    (X, Check.HAS_KEY, "a", {}, "L['x']['a'] exists", "L['x']['a']: expected to exist, is missing"),
    (
        X.instance_dict(), Check.NO_KEY, "forward", made(forward=1),
        "L['x'].forward does not exist", "L['x'].forward: expected not to exist, is present",
    ),
    (
        X.type(), Check.NO_CLASS_ATTR, "late", type("Has", (), {"late": 1})(),
        "class type(L['x']) has no attribute late", "attribute late of class type(L['x']): expected none, is present",
    ),
    (X.attr("a"), Check.EQUALS, 1, made(), "L['x'].a is 1", "L['x'].a: expected 1, got missing"),
    (X, Check.SAME, Y, 1, "L['x'] is L['y']", "L['x']: expected the same object as L['y'], got another one"),
    (
        None, Check.DISTINCT, (X, X), 1,
        "L['x'], L['x'] are different objects", "L['x'], L['x']: expected different objects, got one object twice",
    ),
    (G.item("n"), Check.EQUALS, 1, 0, "G['n'] is 1", "G['n']: expected 1, got missing"),
    (CELL.cell_contents(), Check.EQUALS, 1, 0, "free is 1", "free: expected 1, got 5"),
    (
        None, Check.ENVIRONMENT, ("FRAMEHOOK_NEVER_SET", "a"), 0,
        "environment variable FRAMEHOOK_NEVER_SET is 'a'",
        "environment variable FRAMEHOOK_NEVER_SET: expected 'a', got not set",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[1].value}-{i}" for i, row in enumerate(ROWS)])
def test_words(row: Any) -> None:
    source, check, constant, got, saying, failure = row
    guards = GuardSet()
    guards.location = (user_code.__code__, len(user_code.__code__.co_code) - 2)
    guard = guards.add(source, check, constant)
    assert words.say(guard) == f"{saying} ({PLACE})"
    program = lower(guards, ())
    record = types.SimpleNamespace(
        slots=(got, object()), globals={}, builtins=builtins.__dict__, closure=(types.CellType(5),)
    )
    said = words.failure(program, list(guards), record)
    assert said.startswith(failure) and said.endswith(f"({PLACE})"), said


def test_no_failure() -> None:
    guards = GuardSet()
    guards.add(X, Check.EQUALS, 1)
    record = types.SimpleNamespace(slots=(1,), globals={}, builtins={}, closure=None)
    assert words.failure(lower(guards, ()), list(guards), record) == "no guard fails any more"
    record.slots = (2,)
    assert words.failure(lower(guards, ()), list(guards), record) == "L['x']: expected 1, got 2"
    assert words.failure(lower(GuardSet(), [Y]), [], record).startswith("an input of the graph: ")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="words about tensors need torch")
def test_tensor_words() -> None:
    import torch

    from .tensors import spec_of

    def said(spec_for: Any, got: Any, **options: Any) -> str:
        guards = GuardSet()
        guards.add(X, Check.TENSOR, spec_of(spec_for, **options))
        record = types.SimpleNamespace(slots=(got,), globals={}, builtins={}, closure=None)
        return words.failure(lower(guards, ()), list(guards), record)

    x = torch.zeros(32, 8)
    assert said(x, torch.zeros(48, 8)) == "size of L['x'] at dim 0: expected 32, got 48"
    assert said(x, torch.zeros(8, 32).t()) == "stride of L['x'] at dim 0: expected 8, got 1"
    assert said(x, torch.zeros(3)) == "number of dimensions of L['x']: expected 2, got 1"
    assert said(x, x.double()) == "dtype of L['x']: expected torch.float32, got torch.float64"
    assert said(x, torch.zeros(32, 8, device="meta")) == "device of L['x']: expected cpu, got meta"
    assert said(x, x.clone().requires_grad_()) == "requires_grad of L['x']: expected False, got True"
    assert said(x, torch.nn.Parameter(x)) == "type of L['x']: expected Tensor, got Parameter"
    assert said(x, None) == "type of L['x']: expected Tensor, got NoneType"
    guards = GuardSet()
    guard = guards.add(X, Check.TENSOR, spec_of(x, symbolic=[0]))
    assert words.say(guard) == (
        "L['x'] is a Tensor of torch.float32 on cpu, sizes [any, 8], strides [any, 1], requires no grad"
    )
