"""Errors that a frame raises and handles itself have the texts of the running Python, whoever words them."""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook


class Slotted:
    __slots__ = ("filled", "kept")

    def __init__(self) -> None:
        self.kept = 1


class SlottedAndDict(Slotted):
    pass


class Bare:
    __slots__ = ()
    field = 1


class Plain:
    field = 1

    @property
    def read_only(self) -> int:
        return 1


class Child(Plain):
    def missing_of_super(self) -> Any:
        return super().missing  # type: ignore[misc]


def set_attribute(owner: Any, name: str, value: Any = 1) -> None:
    setattr(owner, name, value)


def unpack_two(items: Any) -> None:
    a, b = items


def unpack_starred(items: Any) -> None:
    a, b, *c = items


def generator() -> Any:
    yield 1


def added_in_place() -> None:
    value: Any = 1
    value += [1]


def ored_in_place() -> None:
    value: Any = {1}
    value |= [1]


def unbound() -> Any:
    if len("") > 0:
        value = 1
    return value


def unbound_cell() -> Any:
    def inner() -> Any:
        return value

    return inner()
    value = 1


def deleted() -> Any:
    value = 1
    del value
    return value  # noqa: F821


def grows(container: Any) -> None:
    for item in container:
        container.update(
            {len(container) + item: 1} if isinstance(container, dict) else [len(container) + item]
        )


def mutated_deque() -> None:
    queue = collections.deque([1, 2])
    for item in queue:
        queue.append(item)


ONE: Any = 1
A: Any = "a"
module = types.ModuleType("module_of_a_test")

FAILING: dict[str, Callable[[], Any]] = {
    "slot_unset": lambda: Slotted().filled,
    "slot_deleted": lambda: delattr(Slotted(), "filled"),
    "slot_deleted_twice": lambda: [delattr(box, "kept") for box in [Slotted()] * 2],
    "slot_of_a_child": lambda: SlottedAndDict().filled,
    "no_slot": lambda: set_attribute(Slotted(), "other"),
    "class_attribute_without_dict": lambda: set_attribute(Bare(), "field"),
    "class_attribute_without_dict_deleted": lambda: delattr(Bare(), "field"),
    "no_slot_read": lambda: Slotted().other,  # type: ignore[attr-defined]
    "no_slot_deleted": lambda: delattr(Slotted(), "other"),
    "plain_read": lambda: Plain().other,  # type: ignore[attr-defined]
    "plain_deleted": lambda: delattr(Plain(), "other"),
    "plain_class_attribute_deleted": lambda: delattr(Plain(), "field"),
    "property_set": lambda: set_attribute(Plain(), "read_only"),
    "property_deleted": lambda: delattr(Plain(), "read_only"),
    "class_read": lambda: Plain.other,  # type: ignore[attr-defined]
    "module_read": lambda: module.other,
    "function_read": lambda: unbound.other,  # type: ignore[attr-defined]
    "lambda_read": lambda: (lambda: 1).other,  # type: ignore[attr-defined]
    "super_read": lambda: Child().missing_of_super(),
    "object_read": lambda: object().other,  # type: ignore[attr-defined]
    "object_set": lambda: set_attribute(object(), "other"),
    "int_read": lambda: (1).other,  # type: ignore[attr-defined]
    "int_set": lambda: set_attribute(1, "other"),
    "int_set_known": lambda: set_attribute(1, "real"),
    "list_read": lambda: [].other,  # type: ignore[attr-defined]
    "list_set": lambda: set_attribute([], "other"),
    "list_set_method": lambda: set_attribute([], "append"),
    "dict_set": lambda: set_attribute({}, "other"),
    "dict_set_method": lambda: set_attribute({}, "get"),
    "set_set": lambda: set_attribute(set(), "other"),
    "tuple_set": lambda: set_attribute((1,), "other"),
    "deque_set": lambda: set_attribute(collections.deque(), "other"),
    "generator_read": lambda: generator().other,
    "range_read": lambda: range(3).other,  # type: ignore[attr-defined]
    "iterator_read": lambda: iter([1]).other,  # type: ignore[attr-defined]
    "slice_read": lambda: slice(1).other,  # type: ignore[attr-defined]
    "partial_read": lambda: functools.partial(unbound).other,  # type: ignore[attr-defined]
    "none_read": lambda: None.other,  # type: ignore[attr-defined]
    "unpack_few": lambda: unpack_two([1]),
    "unpack_many": lambda: unpack_two([1, 2, 3]),
    "unpack_many_of_a_tuple": lambda: unpack_two((1, 2, 3)),
    "unpack_many_of_a_dict": lambda: unpack_two({1: 1, 2: 2, 3: 3}),
    "unpack_many_of_an_iterator": lambda: unpack_two(iter([1, 2, 3])),
    "unpack_starred_few": lambda: unpack_starred([1]),
    "unpack_int": lambda: unpack_two(1),
    "iterate_int": lambda: list(1),  # type: ignore[call-overload]
    "for_int": lambda: [x for x in 1],  # type: ignore[attr-defined]
    "unbound": unbound,
    "unbound_cell": unbound_cell,
    "deleted": deleted,
    "no_global": lambda: not_a_name,  # type: ignore[name-defined] # noqa: F821
    "call_int": lambda: ONE(),
    "call_object": lambda: Plain()(),  # type: ignore[operator]
    "call_with_arguments": lambda: Plain(1),  # type: ignore[call-arg]
    "call_with_too_many": lambda: unbound(1),  # type: ignore[call-arg]
    "call_without": lambda: unpack_two(),  # type: ignore[call-arg]
    "call_with_unknown": lambda: unpack_two(things=1),  # type: ignore[call-arg]
    "call_twice": lambda: unpack_two([1], items=[1]),  # type: ignore[misc]
    "keywords_twice": lambda: unpack_two(**{"items": [1]}, **{"items": [2]}),
    "keywords_not_strings": lambda: unpack_two(**{1: [1]}),  # type: ignore[misc]
    "keywords_no_mapping": lambda: unpack_two(**[1]),  # type: ignore[arg-type]
    "arguments_no_iterable": lambda: unpack_two(*1),  # type: ignore[misc]
    "add": lambda: 1 + "a",  # type: ignore[operator]
    "add_list": lambda: [1] + (1,),  # type: ignore[operator]
    "add_inplace": lambda: functools.reduce(lambda a, b: a.__iadd__(b), [[1], 1]),  # type: ignore[attr-defined]
    "multiply": lambda: [1] * "a",  # type: ignore[operator]
    "power": lambda: [1] ** 2,  # type: ignore[operator]
    "or_of_sets": lambda: {1} | [1],  # type: ignore[operator]
    "add_in_place": lambda: operator.iadd(1, "a"),
    "add_in_place_list": added_in_place,
    "or_in_place_set": ored_in_place,
    "add_object": lambda: Plain() + 1,  # type: ignore[operator]
    "add_object_to_list": lambda: [1] + Plain(),  # type: ignore[operator]
    "add_object_to_text": lambda: "a" + Plain(),  # type: ignore[operator]
    "add_list_to_object": lambda: Plain() + [1],  # type: ignore[operator]
    "power_of_object": lambda: Plain() ** 2,  # type: ignore[operator]
    "subtract_dicts": lambda: {1: 1} - {2: 2},  # type: ignore[operator]
    "negative_list": lambda: -[1],  # type: ignore[operator]
    "invert_str": lambda: ~"a",  # type: ignore[operator]
    "less": lambda: [1] < (1,),  # type: ignore[operator]
    "less_objects": lambda: Plain() < Plain(),  # type: ignore[operator]
    "less_mixed": lambda: 1 < "a",  # type: ignore[operator]
    "less_none": lambda: sorted([1, None]),  # type: ignore[type-var]
    "index_list": lambda: [1][3],
    "index_tuple": lambda: (1,)[3],
    "index_str": lambda: "a"[3],
    "index_range": lambda: range(1)[3],
    "index_list_by_str": lambda: [1][A],
    "index_tuple_by_str": lambda: (1,)[A],
    "index_int": lambda: ONE[0],
    "index_object": lambda: Plain()[0],  # type: ignore[index]
    "index_class": lambda: Plain[0],  # type: ignore[type-arg]
    "index_function": lambda: unbound[0],  # type: ignore[index]
    "store_tuple": lambda: (1,).__setitem__(0, 1),  # type: ignore[attr-defined]
    "store_list": lambda: [1].__setitem__(3, 1),
    "delete_list": lambda: [1].__delitem__(3),
    "key": lambda: {}["a"],  # type: ignore[index]
    "key_unhashable": lambda: {}[[1]],  # type: ignore[index]
    "set_of_lists": lambda: {[1]},  # type: ignore[arg-type]
    "dict_of_lists": lambda: {[1]: 1},  # type: ignore[dict-item]
    "pop_list": lambda: [].pop(),
    "pop_list_index": lambda: [1].pop(4),
    "pop_dict": lambda: {}.pop("a"),
    "popitem": lambda: {}.popitem(),
    "pop_set": lambda: set().pop(),
    "pop_deque": lambda: collections.deque().pop(),
    "remove_list": lambda: [1].remove(2),
    "remove_set": lambda: {1}.remove(2),
    "remove_deque": lambda: collections.deque([1]).remove(2),
    "index_of": lambda: [1].index(2),
    "index_of_tuple": lambda: (1,).index(2),
    "index_of_deque": lambda: collections.deque([1]).index(2),
    "index_deque": lambda: collections.deque([1])[4],
    "dict_grows": lambda: grows({1: 1}),
    "set_grows": lambda: grows({1}),
    "deque_grows": mutated_deque,
    "len_int": lambda: len(1),  # type: ignore[arg-type]
    "len_object": lambda: len(Plain()),  # type: ignore[arg-type]
    "max_empty": lambda: max([]),
    "min_none": lambda: min(),  # type: ignore[call-overload]
    "sum_strings": lambda: sum(["a", "b"]),  # type: ignore[arg-type]
    "reduce_empty": lambda: functools.reduce(lambda a, b: a, []),
    "isinstance_bad": lambda: isinstance(1, 1),  # type: ignore[arg-type]
    "issubclass_bad": lambda: issubclass(1, int),  # type: ignore[arg-type]
    "int_of_text": lambda: int("a"),
    "int_of_none": lambda: int(None),  # type: ignore[call-overload]
    "float_of_text": lambda: float("a"),
    "divide": lambda: 1 / 0,
    "floor_divide": lambda: 1 // 0,
    "modulo": lambda: 1 % 0,
    "modulo_float": lambda: 1.0 % 0.0,
    "divide_float": lambda: 1.0 / 0.0,
    "power_of_zero": lambda: 0**-1,
    "shift": lambda: 1 << -1,
    "range_step": lambda: range(1, 2, 0),
    "zip_strict": lambda: list(zip([1], [1, 2], strict=True)),
    "zip_strict_longer": lambda: list(zip([1, 2], [1], strict=True)),
    "chr": lambda: chr(-1),
    "ord": lambda: ord("ab"),
    "format_spec": lambda: f"{1:q}",
    "format_spec_of_a_list": lambda: f"{[1]:3}",
    "format_too_few": lambda: "%s %s" % 1,  # noqa: F507
    "format_too_many": lambda: "%s" % (1, 2),  # noqa: F507
    "str_join": lambda: ",".join([1]),  # type: ignore[list-item]
    "int_too_long": lambda: str(10**5000),
    "next_of_a_list": lambda: next([1]),  # type: ignore[call-overload]
    "stop": lambda: next(iter([])),
    "send": lambda: generator().send(1),
    "raise_class": lambda: (_ for _ in ()).throw(int),
    "getattr_name": lambda: getattr(1, 2),  # type: ignore[call-overload]
    "hash": lambda: hash([1]),
    "bool_of_two": lambda: bool(torch.ones(2)),
    "tensor_read": lambda: torch.ones(2).other,  # type: ignore[attr-defined]
    "linear_read": lambda: torch.nn.ReLU().other,
    "named_tuple_set": lambda: set_attribute(collections.namedtuple("Pair", "a b")(1, 2), "a"),  # type: ignore[call-arg]
}


def failing(x: torch.Tensor, fail: Callable[[], Any]) -> tuple[str, str, torch.Tensor]:
    y = x + 1
    try:
        fail()
    except Exception as error:
        return type(error).__name__, str(error), y * 2
    return "nothing", "", y


@pytest.mark.parametrize("name", FAILING)
def test_text(name: str) -> None:
    x = torch.ones(2)
    expected = failing(x, FAILING[name])
    actual = framehook.compile(failing, backend="eager")(x, FAILING[name])
    assert actual[:2] == expected[:2]
    assert torch.equal(actual[2], expected[2])
