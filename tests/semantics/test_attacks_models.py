"""What the code of large model libraries does beside computing: small programs, each in one graph with eager's result."""

from __future__ import annotations

import collections
import collections.abc
import copy
import functools
import gc
import importlib.util
import typing
import weakref
from collections.abc import Callable
from types import UnionType
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter


class Settings:
    """Maps some names to others whenever one is asked for, as configurations do."""

    renamed = {"size": "width"}

    def __init__(self) -> None:
        self.width = 3
        self.parts = [1, 2]

    def __getattribute__(self, name: str) -> Any:
        if name != "renamed" and name in super().__getattribute__("renamed"):
            name = super().__getattribute__("renamed")[name]
        return super().__getattribute__(name)


class CopiedByHand(Settings):
    """Answers `copy` itself, through `__getattribute__`."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__reduce_ex__":
            return lambda protocol: (Settings, ())
        return super().__getattribute__(name)


class Output(collections.OrderedDict[str, Any]):
    """Guards its items, like the outputs of models."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict(self.items())[key]
        return tuple(dict(self.items()).values())[key]


def scale(name: str) -> int:
    return {"a": 2, "b": 3}[name]


NUMBER = int | None
CHECKS: dict[Any, Callable[[Any], Any]] = {
    typing.Union: lambda args: ("union", len(args)),
    UnionType: lambda args: ("union", args[0] is int),
    int: lambda args: ("int", args),
    scale: lambda args: ("function", args),
    "name": lambda args: ("text", args),
}


def deep_copy_through_getattribute(x: Tensor) -> Any:
    settings = Settings()
    settings.parts.append(5)
    copied = copy.deepcopy(settings)
    copied.parts.append(7)
    return x * copied.size, settings.parts, copied.parts, list(copied.__dict__)


def shallow_copy_through_getattribute(x: Tensor) -> Any:
    settings = Settings()
    copied = copy.copy(settings)
    copied.width = 5
    return x * settings.size, copied.size, copied.parts is settings.parts


def union_is_taken_apart(x: Tensor) -> Any:
    return x + 1, typing.get_args(NUMBER), typing.get_origin(NUMBER), NUMBER.__args__ is NUMBER.__args__


def table_of_classes(x: Tensor) -> Any:
    found = CHECKS.get(typing.get_origin(NUMBER))
    assert found is not None
    return x + 1, found(typing.get_args(NUMBER)), CHECKS[int](1), CHECKS[scale](2), CHECKS["name"](3)


def table_without_the_class(x: Tensor) -> Any:
    return x + 1, CHECKS.get(str), float in CHECKS, int in CHECKS, union_is_taken_apart in CHECKS


def output_with_its_own_items(x: Tensor) -> Any:
    output = Output()
    output["a"] = x + 1
    output["b"] = x + 2
    return list(output.keys()), output["a"] + output[1], len(list(output.values())), output.get("c")


def masks_of_views(x: Tensor) -> Any:
    row = (x > 0)[None].expand(3, -1)
    return row & row, row | row, x[:1].expand(2) + 1


ONE_GRAPH = [
    masks_of_views,
    deep_copy_through_getattribute,
    shallow_copy_through_getattribute,
    union_is_taken_apart,
    table_of_classes,
    table_without_the_class,
    output_with_its_own_items,
]


@pytest.mark.parametrize("fn", ONE_GRAPH, ids=[fn.__name__ for fn in ONE_GRAPH])
def test_in_one_graph(fn: Callable[[Tensor], Any]) -> None:
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter, fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(fn(torch.ones(2)))
    assert counter.frame_count == 1


def test_a_copy_that_getattribute_answers_for_is_made_by_it() -> None:
    def fn(x: Tensor, settings: Settings) -> Any:
        copied = copy.deepcopy(settings)
        return x + 1, type(copied)

    compiled = framehook.compile(fn, backend="eager")
    assert compiled(torch.ones(2), CopiedByHand())[1] is fn(torch.ones(2), CopiedByHand())[1] is Settings


def test_names_asked_for_by_a_copy_are_those_of_eager() -> None:
    asked: list[str] = []

    class Asked:
        def __init__(self) -> None:
            self.value = [1]

        def __getattribute__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattribute__(name)

    def fn(x: Tensor, value: Asked) -> Any:
        return x + len(copy.deepcopy(value).value), copy.copy(value).value

    seen = []
    for each in (fn, framehook.compile(fn, backend="eager")):
        value = Asked()
        asked.clear()
        result = each(torch.ones(2), value)
        seen.append((list(asked), repr(result)))
    assert seen[0] == seen[1]


def test_a_table_of_classes_that_changes() -> None:
    class Left: ...

    class Right: ...

    table = {Left: 2.0}
    fn = lambda x, cls: (x * table.get(cls, 1.0), cls in table)  # noqa: E731
    compiled = framehook.compile(fn, backend="eager")
    x = torch.ones(2)

    def check() -> None:
        for cls in (Left, Right, Left):
            assert repr(compiled(x, cls)) == repr(fn(x, cls))

    check()
    table[Right] = 3.0
    check()
    table[Left] = 5.0
    check()
    del table[Left]
    check()


def test_a_table_does_not_keep_a_class_alive() -> None:
    class Gone: ...

    table = {Gone: 2.0}
    compiled = framehook.compile(lambda x, cls: x * table[cls], backend="eager")
    assert compiled(torch.ones(1), Gone).item() == 2.0
    seen = weakref.ref(Gone)
    table.clear()
    del Gone
    gc.collect()
    assert seen() is None


def test_keys_that_are_equal_without_being_the_same() -> None:
    class Same:
        def __hash__(self) -> int:
            return hash(int)

        def __eq__(self, other: object) -> bool:
            return other is int

    table = {Same(): 2.0}
    fn = lambda x: (x + 1, table.get(int), table.get(str))  # noqa: E731
    compiled = framehook.compile(fn, backend="eager")
    assert repr(compiled(torch.ones(1))) == repr(fn(torch.ones(1)))


class Layers(collections.abc.Sequence[int]):
    """Its iterator is a generator that waits for an IndexError (`collections.abc`)."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        if index >= 3:
            raise IndexError(index)
        return index + 1


def given_up(items: Any) -> Any:
    try:
        try:
            yield from items
        except (KeyError, ValueError):
            yield -1
        except LookupError:
            yield -2
    except TypeError:
        yield -3


def an_iterator_left_in_its_middle(x: Tensor) -> Any:
    pairs = [(a, b) for a, b in zip([5, 6], Layers())]  # noqa: B905
    return x + 1, pairs, list(zip([1], given_up(range(3))))  # noqa: B905


def test_an_iterator_left_in_its_middle() -> None:
    test_in_one_graph(an_iterator_left_in_its_middle)


def test_a_generator_that_takes_its_end_is_closed() -> None:
    log: list[str] = []

    def watching() -> Any:
        try:
            yield 1
        except ValueError:
            log.append("no")
        except BaseException as error:
            log.append(type(error).__name__)
            raise

    def fn(x: Tensor) -> Any:
        (pair,) = zip([1], watching())  # noqa: B905
        return x + pair[1], list(log)

    for each in (fn, framehook.compile(fn, backend="eager")):
        log.clear()
        assert repr(each(torch.ones(1))) == "(tensor([2.]), ['GeneratorExit'])"


@torch.compiler.assume_constant_result
def is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@functools.lru_cache
@torch.compiler.assume_constant_result
def is_there_cached(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def results_that_are_assumed_constant(x: Tensor) -> Any:
    return x + 1, is_there("torch"), is_there("nothing_of_this_name"), is_there_cached(package="torch")


def test_results_that_are_assumed_constant() -> None:
    test_in_one_graph(results_that_are_assumed_constant)
    fn = lambda x, size: (x + 1, is_there_cached(size))  # noqa: E731
    compiled = framehook.compile(fn, backend="eager")
    for each in (fn, compiled):
        with pytest.raises(TypeError):
            each(torch.ones(1), ["a"])
