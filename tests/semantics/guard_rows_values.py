"""Guard rows about numbers, strings, containers and objects."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.semantics.guard_rows_tensors import ramp
from tests.semantics.guard_table import Call, Table, call

VALUES = Table()


@VALUES.miss(
    cases={
        "int": (2, 3),
        "int_to_bool": (1, True),
        "int_to_float": (1, 1.0),
        "bool_to_int": (True, 1),
        "float_to_bool": (1.0, True),
        "bool": (True, False),
        "float": (0.5, 0.25),
        "negative_zero": (0.0, -0.0),
        "float_to_nan": (1.0, float("nan")),
        "nan_to_float": (float("nan"), 1.0),
        "float_to_inf": (1.0, float("inf")),
        "big_int": (2**40, 2**41),
        "huge_int": (2**70, 2**71),
        "complex": (1 + 2j, 1 - 2j),
        "str": ("a", "b"),
        "str_to_bytes": ("a", b"a"),
        "none_to_int": (None, 0),
        "str_to_none": ("", None),
    }
)
def constant_argument(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, value: Any) -> tuple[Any, ...]:
        if isinstance(value, bool | int | float) and not (isinstance(value, int) and value > 2**60):
            x = x * value
        return x + 1, type(value).__name__, repr(value)

    yield call(fn, ramp(3) + 1, before)
    yield call(fn, ramp(3) + 1, after)


@VALUES.hit(
    cases={
        "int": (3, int("3")),
        "float": (0.1, float("0.1")),
        "nan": (float("nan"), float("nan")),
        "str": ("spam", "".join(["sp", "am"])),
        "bool": (True, bool(1)),
        "tuple": ((1, 2.0, "a"), tuple([1, 2.0, "a"])),
    }
)
def equal_constant_argument(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, value: Any) -> tuple[Any, ...]:
        return x + 1, repr(value)

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss(
    cases={
        "length": ([1, 2], [1, 2, 3]),
        "shorter": ([1, 2], [1]),
        "empty": ([1], []),
        "item_value": ([1, 2], [1, 3]),
        "item_type": ([1, 2], [1, 2.0]),
        "item_to_tensor": ([1, 2], [1, torch.tensor(2.0)]),
        "tuple_instead": ([1, 2], (1, 2)),
        "nested": ([1, [2]], [1, [3]]),
    }
)
def list_argument(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, items: Any) -> Any:
        for item in items:
            x = x * item[0] if isinstance(item, list) else x * item
        return x + len(items), type(items).__name__

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss
def list_changed_in_place(patch: object) -> Iterator[Call]:
    items = [1, 2]

    def fn(x: Tensor) -> Tensor:
        return x * sum(items)

    yield call(fn, ramp(3))
    items[0] = 7
    yield call(fn, ramp(3))
    items.append(9)
    yield call(fn, ramp(3))


@VALUES.hit
def list_that_was_only_indexed(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, items: list[int]) -> Tensor:
        return x * items[0]

    yield call(fn, ramp(3), [2, 3])
    yield call(fn, ramp(3), [2, 4, 5])


@VALUES.miss(
    cases={
        "key_added": ({"a": 1}, {"a": 1, "b": 2}),
        "key_removed": ({"a": 1, "b": 2}, {"a": 1}),
        "key_renamed": ({"a": 1}, {"b": 1}),
        "order": ({"a": 2, "b": 3}, {"b": 3, "a": 2}),
        "value": ({"a": 1}, {"a": 2}),
        "key_type": ({1: 2}, {True: 2}),
        "class": ({"a": 1}, collections.OrderedDict(a=1)),
    }
)
def dict_argument(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, table: dict[Any, int]) -> Any:
        names = []
        for key, value in table.items():
            x = x * 2 + value
            names.append(repr(key))
        return x, names, type(table).__name__

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss(cases={"present": ({"a": 1}, {"a": 1, "b": 5}), "absent": ({"a": 1, "b": 5}, {"a": 1})})
def dict_membership(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, table: dict[str, int]) -> Tensor:
        return x * table.get("b", 3) if "b" in table else x - 1

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.hit
def dict_key_that_was_not_used(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, table: dict[str, int]) -> Tensor:
        return x * table["a"]

    yield call(fn, ramp(3), {"a": 2})
    yield call(fn, ramp(3), {"b": 9, "a": 2})


@VALUES.miss
def dict_of_tensors_with_other_shapes(patch: object) -> Iterator[Call]:
    def fn(batch: dict[str, Tensor]) -> Tensor:
        return batch["x"].sum() + batch["y"].sum()

    yield call(fn, {"x": ramp(3), "y": ramp(2)})
    yield call(fn, {"x": ramp(3), "y": ramp(2, 2)})


@VALUES.miss(
    cases={
        "member": ({1, 2}, {1, 3}),
        "length": ({1, 2}, {1, 2, 3}),
        "frozen": ({1}, frozenset({1})),
        "order": ({8, 0}, {0, 8}),
        "order_frozen": (frozenset([8, 0]), frozenset([0, 8])),
    }
)
def set_argument(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, members: Any) -> Any:
        return x * (3 in members) + len(members), type(members).__name__, list(members)

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.hit(cases={"set": (set,), "frozenset": (frozenset,)})
def a_set_with_the_same_members(patch: object, cls: Any) -> Iterator[Call]:
    def fn(x: Tensor, members: Any) -> Any:
        return x * (3 in members), list(members)

    yield call(fn, ramp(3), cls([3, 1000]))
    yield call(fn, ramp(3), cls([3, int("1000")]))


class Pair(NamedTuple):
    left: int
    right: int


class OtherPair(NamedTuple):
    left: int
    right: int


@VALUES.miss(
    cases={
        "tuple_item": ((1, 2), (1, 5)),
        "tuple_item_type": ((1, 2), (1, 2.0)),
        "tuple_length": ((1, 2), (1, 2, 3)),
        "namedtuple_field": (Pair(1, 2), Pair(1, 5)),
        "namedtuple_class": (Pair(1, 2), OtherPair(1, 2)),
        "namedtuple_to_tuple": (Pair(1, 2), (1, 2)),
        "range": (range(2), range(3)),
        "slice_like": ((0, 2), (1, 2)),
    }
)
def tuple_argument(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, items: Any) -> Any:
        return x[items[0] :] * items[1], len(items), type(items).__name__

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss(cases={"dtype": (torch.float32, torch.float64), "to_int": (torch.float32, torch.int32)})
def dtype_argument(patch: object, before: torch.dtype, after: torch.dtype) -> Iterator[Call]:
    def fn(x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.to(dtype) + 1

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss
def variable_arguments(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, *rest: int, **named: int) -> Tensor:
        return x * sum(rest) + sum(named.values())

    yield call(fn, ramp(3), 1, 2, k=3)
    yield call(fn, ramp(3), 1, 2, 3, k=3)
    yield call(fn, ramp(3), 1, 2, k=3, j=4)


class Box:
    """An ordinary object."""

    shared = 10

    def __init__(self, scale: Any) -> None:
        self.scale = scale

    @property
    def doubled(self) -> Any:
        return self.scale * 2

    def apply(self, x: Tensor) -> Tensor:
        return x * self.scale


class Slotted:
    """An object without a dict."""

    __slots__ = ("scale",)

    def __init__(self, scale: int) -> None:
        self.scale = scale


class Drawer(Box):
    """A subclass that overrides what `Box` does."""

    def apply(self, x: Tensor) -> Tensor:
        return x - self.scale


@dataclasses.dataclass
class Settings:
    scale: int
    offset: int = 0


@VALUES.miss(
    cases={
        "plain": (lambda: Box(2),),
        "slots": (lambda: Slotted(2),),
        "dataclass": (lambda: Settings(2),),
        "namespace": (lambda: SimpleNamespace(scale=2),),
    }
)
def attribute_set(patch: object, make: Any) -> Iterator[Call]:
    box = make()

    def fn(x: Tensor, box: Any) -> Tensor:
        return x * box.scale

    yield call(fn, ramp(3), box)
    box.scale = 3
    yield call(fn, ramp(3), box)


@VALUES.miss
def attribute_read_by_a_property(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return x * box.doubled

    yield call(fn, ramp(3))
    box.scale = 3
    yield call(fn, ramp(3))


@VALUES.miss
def attribute_deleted(patch: object) -> Iterator[Call]:
    box = Box(2)
    box.shared = 20

    def fn(x: Tensor) -> Tensor:
        return x * box.shared

    yield call(fn, ramp(3))
    del box.shared
    yield call(fn, ramp(3))


@VALUES.miss
def attribute_shadows_the_class(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return x * box.shared

    yield call(fn, ramp(3))
    box.shared = 20
    yield call(fn, ramp(3))


@VALUES.miss
def method_shadowed_by_the_instance(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return box.apply(x)

    yield call(fn, ramp(3))
    box.apply = lambda x: x + 100  # type: ignore[method-assign]
    yield call(fn, ramp(3))


@VALUES.miss(
    cases={
        "hasattr": (lambda x, box: x * 2 if hasattr(box, "extra") else x + 1,),
        "getattr": (lambda x, box: x * getattr(box, "extra", 5),),
        "in_dict": (lambda x, box: x * 2 if "extra" in box.__dict__ else x + 1,),
    }
)
def attribute_appears(patch: object, fn: Any) -> Iterator[Call]:
    box = Box(2)
    yield call(fn, ramp(3), box)
    box.extra = 7  # type: ignore[attr-defined]
    yield call(fn, ramp(3), box)


@VALUES.miss
def object_identity_compared(patch: object) -> Iterator[Call]:
    known = Box(2)

    def fn(x: Tensor, box: Box) -> Tensor:
        return x * 2 if box is known else x - 2

    yield call(fn, ramp(3), known)
    yield call(fn, ramp(3), Box(2))


@VALUES.miss
def class_assigned(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return box.apply(x)

    yield call(fn, ramp(3))
    box.__class__ = Drawer
    yield call(fn, ramp(3))


@VALUES.miss
def other_class(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, box: Box) -> Tensor:
        return box.apply(x)

    yield call(fn, ramp(3), Box(2))
    yield call(fn, ramp(3), Drawer(2))


@VALUES.miss(cases={"swapped": (False,), "updated": (True,)})
def dict_swapped(patch: object, in_place: bool) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return x * box.scale

    yield call(fn, ramp(3))
    if in_place:
        box.__dict__["scale"] = 9
    else:
        box.__dict__ = {"scale": 9}
    yield call(fn, ramp(3))


@VALUES.miss
def isinstance_result(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, value: Any) -> Tensor:
        return x + 1 if isinstance(value, Box) else x - 1

    yield call(fn, ramp(3), Box(1))
    yield call(fn, ramp(3), Settings(1))


@VALUES.miss
def nested_attribute(patch: object) -> Iterator[Call]:
    outer = Box(Box(2))

    def fn(x: Tensor) -> Tensor:
        return x * outer.scale.scale

    yield call(fn, ramp(3))
    outer.scale.scale = 3
    yield call(fn, ramp(3))
    outer.scale = Box(4)
    yield call(fn, ramp(3))


@VALUES.hit
def another_object_of_the_class_with_equal_attributes(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, box: Box) -> Tensor:
        return box.apply(x)

    yield call(fn, ramp(3), Box(2))
    yield call(fn, ramp(3), Box(2))


@VALUES.hit
def unrelated_attribute_set(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return box.apply(x)

    yield call(fn, ramp(3))
    box.unrelated = 5  # type: ignore[attr-defined]
    yield call(fn, ramp(3))
    del box.unrelated  # type: ignore[attr-defined]
    yield call(fn, ramp(3))


@VALUES.hit
def attribute_set_and_set_back(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return x * box.scale

    yield call(fn, ramp(3))
    box.scale = 7
    box.scale = 2
    yield call(fn, ramp(3))


@VALUES.hit
def dict_swapped_for_an_equal_one(patch: object) -> Iterator[Call]:
    box = Box(2)

    def fn(x: Tensor) -> Tensor:
        return x * box.scale

    yield call(fn, ramp(3))
    box.__dict__ = {"scale": 2}
    yield call(fn, ramp(3))


@VALUES.miss(cases={"object": (Box(2), object.__new__(Box))})
def attribute_that_is_only_looked_up(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, box: Any) -> Any:
        try:
            box.scale  # noqa: B018
        except AttributeError:
            return x - 1
        return x + 1

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss(cases={"object": (Box(2), object.__new__(Box))})
def name_in_the_dict_of_an_object(patch: object, before: Any, after: Any) -> Iterator[Call]:
    def fn(x: Tensor, box: Any) -> Any:
        return x + ("scale" in box.__dict__)

    yield call(fn, ramp(3), before)
    yield call(fn, ramp(3), after)


@VALUES.miss
def item_that_is_only_looked_up(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, items: list[int]) -> Any:
        try:
            items[1]  # noqa: B018
        except IndexError:
            return x - 1
        return x + 1

    yield call(fn, ramp(3), [1, 2])
    yield call(fn, ramp(3), [1])


@VALUES.miss
def union_type_replaced(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, kinds: Any) -> Any:
        return x + isinstance(1, kinds)

    yield call(fn, ramp(3), int | str)
    yield call(fn, ramp(3), float | str)


@VALUES.any
def dict_that_is_the_one_of_an_object(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, box: Any, table: dict[str, Any]) -> Any:
        box.scale = 5
        return x + table["scale"], table["scale"]

    yield call(fn, ramp(3), Box(2), {"scale": 2})
    box = Box(2)
    yield call(fn, ramp(3), box, vars(box))
