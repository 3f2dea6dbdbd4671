"""Values whose class, identity or own methods decide: three calls give what eager gives, with arguments that change."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook


def text_of(call: Callable[[], Any]) -> Any:
    """What a call gives, or the exception that it raises, in words."""
    try:
        return call()
    except Exception as error:
        return repr(error)


class Index(int):
    """An int that says it is another one where nobody asks."""

    def __index__(self) -> int:
        return 1


class Compared(int):
    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return super().__ne__(other)

    __hash__ = int.__hash__


class Renamed(int):
    __add__ = int.__mul__


class Foreign(list):
    __len__ = dict.__len__


def slot_of_another_class(x, value):
    found = []
    try:
        found.append(int.__add__(value, 2))
    except TypeError as error:
        found.append(str(error))
    try:
        found.append(float.__mul__(value, 2))
    except TypeError as error:
        found.append(str(error))
    try:
        found.append(str.upper(value))
    except TypeError as error:
        found.append(str(error))
    try:
        found.append(list.append(value, 2))
    except TypeError as error:
        found.append(str(error))
    return x + 1, found


def slot_of_a_base_class(x, value):
    return x + 1, int.__repr__(value), int.__add__(value, 1), object.__eq__(value, value)


def slot_under_another_name(x, value):
    return x + 1, value + 5, value.__add__(5)


def slot_of_no_base(x, value):
    try:
        return x + 1, len(value)
    except TypeError as error:
        return x + 1, str(error)


def index_of_int_subclass(x, i):
    values = [5, 6, 7]
    values.insert(i, 0)
    picked = [values[i], (5, 6, 7)[i], "abc"[i], values.pop(i)]
    return x + 1, picked, list(range(i)), values[:i], hex(i), type(operator.index(i)) is int, values


def equality_of_int_subclass(x, c):
    return x + 1, c == 1, c != 1, c == 1.0, 1 == c, c + 1, int.__eq__(c, 1), c in [1, 2], c.__eq__(1)


class Extended(list):
    def __iadd__(self, other):
        return super().__iadd__(other)

    def __imul__(self, other):
        return super().__imul__(other)

    def sort(self):
        super().sort(reverse=True)


class Pair(tuple):
    pass


NAN = float("nan")


def in_place_method_of_a_base_class(x, values):
    before = values
    values += [4]
    values *= 2
    values.sort()
    return x + 1, values is before, type(values).__name__, list(values)


def identity_of_nan(x, a, b):
    return x + 1, a in [b], [a] == [b], (1, a) == (1, b), a is b, a in (1.0, b), [b].count(a), a == b


def nan_as_a_key(x, a, b):
    return x + 1, {a: 1}.get(b), b in {a}


def identity_of_empty_tuples(x, t):
    empty = ()
    return x + 1, tuple([]) is empty, tuple() is empty, t[1:] is empty, t[:0] is t[:0]


def identity_of_constant_tuples(x, t):
    one = (1, 2)
    other = (1, 2)
    return x + 1, one is other, t is one, t == one


def tuple_given_back_as_it_is(x, t):
    found = [t[:], t[0:], t + (), () + t, t * 1, tuple(t)]
    return x + 1, [each is t for each in found], [type(each).__name__ for each in found]


def exhausted_list_iterator(x, values):
    iterator = iter(values)
    list(iterator)
    values.append(1)
    return x + 1, type(iterator).__name__, list(iterator)


def keys_that_come_back_while_iterating(x, table):
    seen = []
    for key in table:
        seen.append(key)
        table[key] = table.pop(key)
        if len(seen) > 6:
            break
    return x + 1, seen, list(table)


PER_THREAD = threading.local()


class Local(threading.local):
    kind = "local"


PER_THREAD_OF_CLASS = Local()


class Node:
    pass


NODE = Node()
PROXY = weakref.proxy(NODE)  # its text holds its address


def attribute_of_a_thread_local(x, i):
    return x * getattr(PER_THREAD, "b", 0), hasattr(PER_THREAD, "b"), getattr(PER_THREAD_OF_CLASS, "b", None)


def attribute_behind_a_weak_proxy(x, proxy):
    return x + 1, getattr(proxy, "b", None), hasattr(proxy, "b")


def stored_per_thread(i: int) -> tuple[Any, ...]:
    for owner in (PER_THREAD, PER_THREAD_OF_CLASS):
        owner.__dict__.clear()
        if i:
            owner.b = i
    return (i,)


def proxied(i: int) -> tuple[Any, ...]:
    NODE.__dict__.clear()
    if i:
        NODE.b = i
    return (PROXY,)


CASES: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = [
    (slot_of_another_class, lambda i: ((1.5, 3, "a")[i],)),
    (slot_of_a_base_class, lambda i: ((True, 3, False)[i],)),
    (slot_under_another_name, lambda i: (Renamed(i),)),
    (slot_of_no_base, lambda i: (Foreign([i]),)),
    (index_of_int_subclass, lambda i: (Index(i),)),
    (equality_of_int_subclass, lambda i: (Compared(i),)),
    (in_place_method_of_a_base_class, lambda i: (Extended([i, 2]),)),
    (identity_of_nan, lambda i: ((NAN, NAN), (NAN, float("nan")), (NAN, NAN))[i]),
    (nan_as_a_key, lambda i: ((NAN, NAN), (NAN, float("nan")), (NAN, NAN))[i]),
    (identity_of_empty_tuples, lambda i: (((1,), (2,), (3, 4))[i],)),
    (identity_of_constant_tuples, lambda i: (((1, 2), tuple([1, 2]), (i,))[i],)),
    (tuple_given_back_as_it_is, lambda i: ((((1, 2), Pair((1, 2)), ())[i]),)),
    (exhausted_list_iterator, lambda i: ([1] * i,)),
    (keys_that_come_back_while_iterating, lambda i: ({1: 1, 2: 2, 3: 3, **dict.fromkeys("abcdef"[:i])},)),
    (attribute_of_a_thread_local, stored_per_thread),
    (attribute_behind_a_weak_proxy, proxied),
]


def shown(value: Any) -> Any:
    """A result in a form that compares by value, classes included."""
    if isinstance(value, torch.Tensor):
        return ["tensor", value.tolist()]
    if type(value) in (tuple, list):
        return [type(value).__name__, *map(shown, value)]
    return [type(value).__name__, repr(value)]


def outcomes(fn: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]) -> list[Any]:
    """Result and arguments afterwards of three calls; how each ends if it raises."""
    found = []
    for i in range(3):
        args = arguments(i)
        found.append((shown(text_of(lambda args=args: fn(torch.ones(2), *args))), shown(args)))
    return found


@pytest.mark.parametrize(("fn", "arguments"), CASES, ids=[case[0].__name__ for case in CASES])
def test_compiled_gives_what_eager_gives(fn: Callable[..., Any], arguments: Callable[[int], Any]) -> None:
    expected = outcomes(fn, arguments)
    assert outcomes(framehook.compile(fn, backend="eager"), arguments) == expected


def constant_tuple(x):
    return x + 1, (1, (2.0, "a"))


def test_returned_tuples_are_the_ones_that_eager_returns() -> None:
    given = (1, 2, 3)
    same = framehook.compile(lambda x, t: (x + 1, t[:], t + (), t[::1]), backend="eager")
    for _ in range(2):
        assert all(each is given for each in same(torch.ones(2), given)[1:])
        assert (
            framehook.compile(constant_tuple, backend="eager")(torch.ones(2))[1]
            is constant_tuple(torch.ones(2))[1]
        )
