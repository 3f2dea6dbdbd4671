"""Objects of subclasses of builtin classes: which of their own methods C code asks, and which it passes over."""

from __future__ import annotations

import collections
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook


class EqualToNothing(str):
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


class NumberEqualToNothing(int):
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


class ListEqualToNothing(list):
    def __eq__(self, other: object) -> bool:
        return False


class DictEqualToNothing(dict):
    def __eq__(self, other: object) -> bool:
        return False


class PlainEqualToNothing:
    def __eq__(self, other: object) -> bool:
        return False


def unequal(x, text, number, items, table):
    return x + 1, text != "a", number != 1, items != [1], table != {}, PlainEqualToNothing() != 1


def unequal_in_frame(x):
    return unequal(
        x, EqualToNothing("a"), NumberEqualToNothing(1), ListEqualToNothing([1]), DictEqualToNothing()
    )


class AskedForEqual(int):
    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def equal_by_slot(x, number):
    return x + 1, number == 1, number == 1.0, number + 1


class OwnText(str):
    def __str__(self) -> str:
        return "own text"


class OwnNumber(int):
    def __str__(self) -> str:
        return "own number"


class OwnRepr(float):
    def __repr__(self) -> str:
        return "own repr"


class OwnFormat(int):
    def __format__(self, spec: str) -> str:
        return f"own {spec}"


def formatted(x):
    text, number, shown, own = OwnText("a"), OwnNumber(3), OwnRepr(2.5), OwnFormat(1)
    return (
        x + 1,
        f"{text} {number} {shown} {own} {own:x}",
        f"{text:>3} {number:03} {shown:.2f}",
        f"{text!s} {number!r} {shown!s}",
        "{} {:>4} {}".format(text, text, number),
        format(number),
        format(text, ""),
        "%s %s %d" % (text, number, number),
        str(text),
    )


def caught_by_nested_tuple(x):
    try:
        try:
            {}["k"]
        except (TypeError, (KeyError, ValueError)):  # type: ignore[misc]
            return x + 1, "caught"
    except TypeError as error:
        return x + 1, str(error)


class OwnIteration(set):
    def __iter__(self):
        return iter("pq")


def tables_of_sets(x):
    return tables_of_given_sets(x, OwnIteration([2]))


def tables_of_given_sets(x, value):
    target, lost = {1}, {1, 2}
    target.update(value)
    lost.difference_update(value)
    return (
        x + 1,
        sorted({*value}, key=str),
        sorted(target, key=str),
        sorted(lost, key=str),
        sorted({1} | value, key=str),
        sorted(frozenset(value), key=str),
        sorted(set(value), key=str),
        sorted({1, 2}.union(value), key=str),
        sorted({1, 2, "p"}.intersection(value), key=str),
        sorted({1, 2, "p"}.symmetric_difference(value), key=str),
        {2}.isdisjoint(value),
        {2}.issubset(value),
        {2}.issuperset(value),
        [*value],
    )


class Missing(dict):
    def __missing__(self, key):
        return f"no {key}"


class AsksSuper(dict):
    def __getitem__(self, key):
        return super().__getitem__(key)

    def __missing__(self, key):
        return f"no {key}"


def missing_keys(x, given):
    table = AsksSuper(a=1)
    return (
        x + 1,
        dict.__getitem__(Missing(), 3),
        dict.__getitem__(given, "k"),
        dict.__getitem__(given, "j"),
        table["a"],
        table["b"],
        given.get("j"),
    )


class Descriptor:
    def __get__(self, owner, cls):
        return owner.__dict__["_kept"]

    def __set__(self, owner, value):
        owner.__dict__["_kept"] = value


class Described:
    kept = Descriptor()

    @property
    def read(self):
        return "property"


class SlotAndDict:
    __slots__ = ("__dict__", "slot")


def past_descriptor(x):
    made = Described()
    made.kept = 1
    made.__dict__["kept"] = "shadow"
    made.__dict__["read"] = "below"
    return x + 1, made.kept, made.read, dict(made.__dict__), vars(made)


def past_slot(x):
    made = SlotAndDict()
    made.slot = 1
    made.__dict__["slot"] = 2
    return x + 1, made.slot, vars(made)


class OrInPlace(set):
    def __ior__(self, other):
        return super().__ior__(other)

    def pop(self):
        return "own"


class DictInPlace(dict):
    def __ior__(self, other):
        return super().__ior__(other)

    def get(self, key):
        return "own"


class ListInPlace(list):
    def __imul__(self, other):
        return super().__imul__(other)


class DequeInPlace(collections.deque):
    def __iadd__(self, other):
        return super().__iadd__(other)


def changed_in_place(x):
    a = first = OrInPlace([1])
    a |= {2}
    b = second = DictInPlace()
    b |= {1: 2}
    c = third = ListInPlace([1])
    c *= 2
    d = fourth = DequeInPlace([1])
    d += [2]
    return x + 1, a.pop(), b.get(1), a is first, b is second, c is third, d is fourth, type(a).__name__


class Row(typing.TypedDict):
    a: int


class Protocol(typing.Protocol):
    def f(self): ...


class Implementation(Protocol):
    def f(self):
        return 3


def typed_dict(x, number):
    row = Row(a=number)
    return x + row["a"], row


def typed_dict_in_frame(x):
    class Local(typing.TypedDict):
        a: int

    row = Local(a=1)
    framehook.graph_break()
    return x + row["a"], row


def protocols(x):
    try:
        Protocol()
    except TypeError as error:
        return x * Implementation().f(), str(error)


def nothing(i: int) -> tuple[Any, ...]:
    return ()


CASES: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = [
    (
        unequal,
        lambda i: (
            EqualToNothing("ab"[i % 2]),
            NumberEqualToNothing(i),
            ListEqualToNothing([i]),
            DictEqualToNothing({i: i} if i else {}),
        ),
    ),
    (unequal_in_frame, nothing),
    (equal_by_slot, lambda i: (AskedForEqual(i),)),
    (formatted, nothing),
    (caught_by_nested_tuple, nothing),
    (tables_of_sets, nothing),
    (tables_of_given_sets, lambda i: (OwnIteration([i]),)),
    (missing_keys, lambda i: (Missing(k=i),)),
    (past_descriptor, nothing),
    (past_slot, nothing),
    (changed_in_place, nothing),
    (typed_dict, lambda i: (i,)),
    (typed_dict_in_frame, nothing),
    (protocols, nothing),
]


def outcomes(fn: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]) -> list[Any]:
    """What three calls give, as text."""
    return [repr(fn(torch.ones(2), *arguments(i))) for i in range(3)]


@pytest.mark.parametrize(("fn", "arguments"), CASES, ids=[case[0].__name__ for case in CASES])
def test_compiled_gives_what_eager_gives(fn: Callable[..., Any], arguments: Callable[[int], Any]) -> None:
    expected = outcomes(fn, arguments)
    assert outcomes(framehook.compile(fn, backend="eager"), arguments) == expected
