"""Every kind of check, passing and failing."""

from __future__ import annotations

import collections
import enum
import functools
import math
import os
import types
from typing import Any

import pytest

from framehook.guards.guard import Check

from .programs import CELL, B, G, Program, X, Y


class Plain:
    pass


class Other:
    pass


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        if value is not None:
            self.value = value


class Color(enum.Enum):
    RED = 1
    BLUE = 2


Point = collections.namedtuple("Point", "x y")


class Dict(dict):  # type: ignore[type-arg]
    pass


def made(**attrs: Any) -> Plain:
    obj = Plain()
    obj.__dict__.update(attrs)
    return obj


def function(a: int = 1, *, b: int = 2) -> None:
    pass


def other_function(a: int = 1, *, b: int = 2) -> None:
    pass


MARK = Plain()
NAN = float("nan")

#: (name, source, check, constant, values of x that pass, values of x that fail)
ROWS: list[tuple[str, Any, Check, Any, list[Any], list[Any]]] = [
    ("type", X, Check.TYPE, Plain, [Plain(), made(a=1)], [Other(), None, Plain]),
    ("type int", X, Check.TYPE, int, [1, 10**30], [True, 1.0, "1"]),
    ("type of attribute", X.attr("a"), Check.TYPE, Plain, [made(a=Plain())], [made(a=Other()), made(), 3]),
    ("fixed type of attribute", X.attr("a"), Check.TYPE, str, [made(a="s")], [made(a=1), made()]),
    ("identity", X, Check.IDENTITY, MARK, [MARK], [Plain(), None]),
    ("identity of a function", X, Check.IDENTITY, function, [function], [other_function]),
    ("identity of None", X, Check.IDENTITY, None, [None], [0, MARK]),
    ("not None", X, Check.NOT_NONE, None, [0, MARK], [None]),
    ("equals int", X, Check.EQUALS, 1, [1], [True, 1.0, 2, "1", None]),
    ("equals bool", X, Check.EQUALS, True, [True], [1, 1.0, False]),
    ("equals big int", X, Check.EQUALS, 10**30, [10**30, 10**29 * 10], [-(10**30), 10**31]),
    ("equals float", X, Check.EQUALS, 0.0, [0.0, math.fabs(-0.0)], [-0.0, 0, False, NAN]),
    ("equals NaN", X, Check.EQUALS, NAN, [NAN, float("nan")], [-NAN, 0.0]),
    ("equals complex", X, Check.EQUALS, 1 + 0j, [complex(1, 0)], [complex(1, -0.0), 1.0]),
    ("equals str", X, Check.EQUALS, "ab", ["ab", "".join(["a", "b"])], ["abc", b"ab", None, "aä"]),
    ("equals bytes", X, Check.EQUALS, b"ab", [b"ab", bytes([97, 98])], [b"abc", bytearray(b"ab"), "ab"]),
    ("equals None", X, Check.EQUALS, None, [None], [False, 0, ()]),
    ("equals tuple", X, Check.EQUALS, (1, "a", (2.0,)), [(1, "a", (2.0,))], [(True, "a", (2.0,)), (1, "a"), [1]]),
    ("equals namedtuple", X, Check.EQUALS, Point(1, 2), [Point(1, 2)], [(1, 2), Point(1, 3)]),
    (
        "equals frozenset", X, Check.EQUALS, frozenset([8, 0]),
        [frozenset([8, 0])], [frozenset([0, 8]), frozenset([8, False]), frozenset({1}), {8, 0}],
    ),
    ("equals slice", X, Check.EQUALS, slice(1, None), [slice(1, None)], [slice(1, 2), slice(True, None)]),
    ("equals range", X, Check.EQUALS, range(3), [range(3)], [range(4), 3]),
    ("equals enum member", X, Check.EQUALS, Color.RED, [Color.RED], [Color.BLUE, 1]),
    ("equals ellipsis", X, Check.EQUALS, ..., [...], [None, NotImplemented]),
    ("length of list", X, Check.LENGTH, 2, [[1, 2], (1, 2), {1, 2}, {1: 1, 2: 2}, "ab", frozenset("ab")], [[1], (), 2]),
    ("length of deque", X, Check.LENGTH, 1, [collections.deque([1])], [collections.deque()]),
    ("length of attribute", X.attr("a"), Check.LENGTH, 0, [made(a=[]), made(a={})], [made(a=[1]), made()]),
    ("length of instance dict", X.instance_dict(), Check.LENGTH, 1, [made(a=1)], [made(), made(a=1, b=2)]),
    ("keys", X, Check.KEYS, ("a", 1), [{"a": 0, 1: 0}], [{1: 0, "a": 0}, {"a": 0, True: 0}, {"a": 0}, []]),
    (
        "keys of OrderedDict", X, Check.KEYS, ("a", "b"),
        [collections.OrderedDict(a=1, b=2), {"a": 1, "b": 2}, Dict(a=1, b=2)],
        [collections.OrderedDict(b=1, a=2), collections.OrderedDict(a=1)],
    ),
    ("keys by identity", X, Check.KEYS, (MARK, "a"), [{MARK: 1, "a": 2}], [{Plain(): 1, "a": 2}]),
    ("no keys", X, Check.KEYS, (), [{}, collections.OrderedDict()], [{1: 1}]),
    ("keys of instance dict", X.instance_dict(), Check.KEYS, ("a", "b"), [made(a=1, b=2)], [made(b=1, a=1), made()]),
    (
        "members", X, Check.MEMBERS, (8, 0), [{8, 0}, frozenset([8, 0]), {int("8"), 0}],
        [{0, 8}, {8}, {8, 0, 1}, {8, False}, {8, 0.0}, [8, 0], {8: 0, 0: 0}, None],
    ),
    ("members by value", X, Check.MEMBERS, ("a" * 99,), [{"a" * int("99")}], [set(), {"b"}]),
    ("no members", X, Check.MEMBERS, (), [set(), frozenset()], [{1}]),
    ("has key", X, Check.HAS_KEY, "a", [{"a": 1}, Dict(a=2)], [{}, {"b": 1}, 3]),
    ("has tuple key", X, Check.HAS_KEY, (1, "a"), [{(1, "a"): 0}], [{(1, "b"): 0}]),
    ("no key", X, Check.NO_KEY, "a", [{}, {"b": 1}], [{"a": 1}, 3]),
    ("no attribute", X.instance_dict(), Check.NO_KEY, "a", [made(), made(b=1), Slotted(), 3], [made(a=1)]),
    ("no class attribute", X, Check.NO_CLASS_ATTR, "missing", [Plain, int], [3, types.new_class(
        "Has", (), {}, lambda ns: ns.update(missing=1))]),
    ("class attribute", X.type().class_attr("__init__"), Check.IDENTITY, object.__init__, [made(), 3.0], [Slotted()]),
    ("item of list", X.item(1), Check.EQUALS, 5, [[0, 5], (0, 5), {1: 5}], [[0], [0, 6], {}, 7, {0: 5}]),
    ("item from the end", X.item(-1), Check.EQUALS, 5, [[0, 5], (5,), {-1: 5}], [[], [5, 0]]),
    ("item of dict", X.item("k"), Check.EQUALS, 5, [{"k": 5}, Dict(k=5)], [{}, [5], None, {"k": 6}]),
    ("slot", X.member("value"), Check.EQUALS, 5, [Slotted(5)], [Slotted(6), Slotted(), made(value=5)]),
    ("function code", X.member("__code__"), Check.IDENTITY, function.__code__, [function], [other_function, 3]),
    ("function defaults", X.member("__defaults__"), Check.EQUALS, (1,), [function], [lambda: 0, lambda a=2: 0]),
    ("no defaults", X.member("__defaults__"), Check.EQUALS, None, [lambda: 0], [function]),
    ("keyword defaults", X.member("__kwdefaults__").item("b"), Check.EQUALS, 2, [function], [lambda: 0]),
    ("method function", X.member("__func__"), Check.IDENTITY, function, [types.MethodType(function, 1)], [function]),
    ("method self", X.member("__self__"), Check.IDENTITY, MARK, [types.MethodType(function, MARK)], [len]),
    ("builtin self", X.member("__self__"), Check.LENGTH, 1, [[1].append], [[].append, len]),
    ("partial function", X.member("func"), Check.IDENTITY, function, [functools.partial(function, 1)], [function]),
    (
        "partial keywords", X.member("keywords").item("b"), Check.EQUALS, 3,
        [functools.partial(function, b=3)], [functools.partial(function, b=4), functools.partial(function)],
    ),
    ("class dict", X.member("__dict__"), Check.NO_KEY, "missing", [Plain, made()], [made(missing=1)]),
    ("MRO", X.member("__mro__"), Check.IDENTITY, Plain.__mro__, [Plain], [Other, type("Sub", (Plain,), {})]),
    ("member made by C", X.member("__name__"), Check.EQUALS, "Plain", [Plain], [Other]),
    ("identity of namespace", X.member("__globals__"), Check.IDENTITY, globals(), [function], [os.path.join]),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_check_passes_and_fails(row: Any) -> None:
    _, source, check, constant, passing, failing = row
    program = Program((source, check, constant))
    for _ in range(2):
        for value in passing:
            assert program.holds(value), value
        for value in failing:
            assert not program.holds(value), value
        for value in passing + failing:
            assert program.holds(value) == any(value is each for each in passing)
    assert program.program.fallbacks == 0
    assert program.program.size >= program.program.checks >= 1


def test_missing_slot_fails() -> None:
    assert not Program((Y, Check.NOT_NONE, None)).holds(1)


def test_globals_and_builtins() -> None:
    program = Program(
        (G.item("n"), Check.EQUALS, 3), (G, Check.NO_KEY, "len"), (B.item("len"), Check.IDENTITY, len)
    )
    assert program.holds(namespace={"n": 3})
    assert not program.holds(namespace={"n": 4})
    assert not program.holds(namespace={"n": 3, "len": len})
    namespace = {"n": 3}
    for _ in range(3):
        assert program.holds(namespace=namespace)
        namespace["n"] = 4
        assert not program.holds(namespace=namespace)
        namespace["n"] = 3


def test_cells() -> None:
    program = Program((CELL.cell_contents(), Check.EQUALS, 1))
    cell = types.CellType(1)
    assert program.holds(closure=(cell,))
    cell.cell_contents = 2
    assert not program.holds(closure=(cell,))
    del cell.cell_contents
    assert not program.holds(closure=(cell,))
    assert not program.holds(closure=None)
    assert not program.holds(closure=())
    empty = Program((CELL, Check.CELL_EMPTY, None))
    assert empty.holds(closure=(cell,))
    cell.cell_contents = None
    assert not empty.holds(closure=(cell,))


def test_same_and_distinct() -> None:
    a, b, c = [], [], []  # type: ignore[var-annotated]
    assert Program((X, Check.SAME, Y)).holds(a, a)
    assert not Program((X, Check.SAME, Y)).holds(a, b)
    distinct = Program((None, Check.DISTINCT, (X, Y, X.item(0))))
    assert distinct.holds([c], b)
    assert not distinct.holds([c], c)
    row = [b]
    assert not distinct.holds(row, row)
    assert not distinct.holds([b], b)
    assert distinct.holds([c], b)
    many = Program((None, Check.DISTINCT, tuple(X.item(i) for i in range(50))))
    objects = [Plain() for _ in range(50)]
    assert many.holds(objects)
    assert not many.holds([*objects[:-1], objects[7]])
    assert many.holds(objects[::-1])


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEHOOK_GUARD_TEST", "a")
    program = Program((None, Check.ENVIRONMENT, ("FRAMEHOOK_GUARD_TEST", "a")))
    assert program.holds()
    monkeypatch.setenv("FRAMEHOOK_GUARD_TEST", "b")
    assert not program.holds()
    monkeypatch.delenv("FRAMEHOOK_GUARD_TEST")
    assert not program.holds()
    assert Program((None, Check.ENVIRONMENT, ("FRAMEHOOK_GUARD_TEST", None))).holds()
    monkeypatch.setenv("FRAMEHOOK_GUARD_TEST", "")
    assert not Program((None, Check.ENVIRONMENT, ("FRAMEHOOK_GUARD_TEST", None))).holds()
    assert not program.holds()


def test_predicate_is_called_with_values_and_counted() -> None:
    seen = []

    def agrees(x: int, y: int) -> bool:
        seen.append((x, y))
        return x < y

    program = Program((None, Check.PREDICATE, (agrees, (X, Y.item(0)))), inputs=[Y])
    assert program.program.fallbacks == 1
    assert program.inputs(1, [2]) == [[2]]
    assert not program.holds(3, [2])
    assert (1, 2) in seen and (3, 2) in seen


def test_predicate_that_raises_fails_quietly() -> None:
    def raises(x: object) -> bool:
        raise KeyError(x)

    assert not Program((None, Check.PREDICATE, (raises, (X,)))).holds(1)


def test_predicate_may_change_what_was_read() -> None:
    """The inputs were taken before: nothing borrowed is used after Python ran."""

    def empties(x: Plain) -> bool:
        x.__dict__.clear()
        return True

    program = Program(
        (X.attr("a"), Check.TYPE, Plain), (None, Check.PREDICATE, (empties, (X,))), inputs=[X.attr("a")]
    )
    for _ in range(20):
        inner = made(n=1)
        found = program.program.check((made(a=inner),), {}, {}, None)
        assert found == [inner]
        del inner, found


def test_predicate_may_evaluate_the_same_program() -> None:
    depth = 0

    def nested(x: Plain) -> bool:
        nonlocal depth
        if depth < 3:
            depth += 1
            assert program.program.check((made(a=depth + 10),), {}, {}, None) is not None
            depth -= 1
        return True

    program = Program(
        (X.attr("a"), Check.TYPE, int), (None, Check.PREDICATE, (nested, (X,))), inputs=[X.attr("a")]
    )
    assert program.program.check((made(a=1),), {}, {}, None) == [1]


def test_inputs_come_in_order_and_shared_prefixes_are_fetched_once() -> None:
    x = made(a=made(b=1, c=2))
    inputs = [X.attr("a").attr("c"), X, X.attr("a").attr("b"), X.attr("a").attr("c")]
    program = Program((X.attr("a"), Check.TYPE, Plain), inputs=inputs)
    assert program.inputs(x) == [2, x, 1, 2]
    wider = Program((X.attr("a"), Check.TYPE, Plain), inputs=[*inputs, X.attr("a").attr("d")])
    assert wider.program.size == program.program.size + 1
    guard, got = wider.failing(x)
    assert guard is None and isinstance(got, LookupError)


def test_failure_names_the_guard_and_the_value() -> None:
    program = Program((X.attr("a"), Check.EQUALS, 1), (X.attr("b"), Check.TYPE, int), (Y, Check.LENGTH, 2))
    guard, got = program.failing(made(a=2, b=1), [1, 2])
    assert guard is program.guards[0] and got == 2
    guard, got = program.failing(made(a=1, b="s"), [1, 2])
    assert guard is program.guards[1] and got == "s"
    guard, got = program.failing(made(a=1), [1, 2])
    assert guard is program.guards[1] and isinstance(got, LookupError)
    guard, got = program.failing(made(a=1, b=1), [1])
    assert guard is program.guards[2] and got == [1]


def test_measure_gives_seconds() -> None:
    program = Program((X, Check.EQUALS, 1))
    assert 0 < program.program.measure((1,), {}, {}, None, 10) < 1
    with pytest.raises(ValueError):
        program.program.measure((2,), {}, {}, None)
