"""What generated programs find in their globals: classes with special methods, context managers, generators, breaks."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import random
import warnings
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

import framehook


class Problem(Exception):
    """What generated programs raise."""


class Other(Problem):
    """A kind of it, with something of its own."""

    def __init__(self, code: int) -> None:
        super().__init__("other", code)
        self.code = code


class Box:
    """A mutable object with most special methods."""

    kind = "box"

    def __init__(self, value: Tensor, count: int = 0, items: list[int] | None = None) -> None:
        self.value = value
        self.count = count
        self.items = [] if items is None else items

    def __add__(self, other: Any) -> Box:
        other = other.value if isinstance(other, Box) else other
        return type(self)(self.value + other, self.count, self.items)

    def __radd__(self, other: Any) -> Box:
        return Box(other - self.value, self.count + 1)

    def __iadd__(self, other: Any) -> Box:
        self.count += 1
        self.value = self.value + other
        return self

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return self.count > 0

    def __contains__(self, item: object) -> bool:
        return item in self.items

    def __iter__(self) -> Iterator[int]:
        for item in self.items:
            yield item * 2

    def __getitem__(self, index: int) -> Tensor:
        if index >= 2:
            raise IndexError(index)
        return self.value * index

    def __setitem__(self, index: int, value: int) -> None:
        self.items[index] = value

    def __call__(self, x: Tensor) -> Tensor:
        self.count += 1
        return x + self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.count == other.count

    def __hash__(self) -> int:
        return hash(self.kind)

    def __enter__(self) -> Box:
        self.count += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        self.count -= 2
        return kind is not None and issubclass(kind, Other)

    def __getattr__(self, name: str) -> Any:
        if name == "doubled":
            return self.value * 2
        raise AttributeError(name)

    @property
    def total(self) -> Tensor:
        self.count += 1
        return self.value + self.count

    @total.setter
    def total(self, value: Tensor) -> None:
        self.value = value * 0.5

    @classmethod
    def of(cls, value: Tensor) -> Box:
        return cls(value, 1)

    @staticmethod
    def twice(x: Tensor) -> Tensor:
        return x * 2

    def grow(self, by: int = 1) -> Box:
        self.count += by
        return self


class Crate(Box):
    """A subclass that overrides and calls on."""

    kind = "crate"

    def __init__(self, value: Tensor, count: int = 0, items: list[int] | None = None) -> None:
        super().__init__(value, count + 1, items)

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) * 2

    def grow(self, by: int = 2) -> Box:
        super().grow(by)
        self.items.append(by)
        return self


@dataclass
class Pair:
    """A data class."""

    left: Tensor
    right: int = 1
    rest: list[Any] = field(default_factory=list)


class Described:
    """A data descriptor."""

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return owner.__dict__.get("hidden", 1)

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__["hidden"] = value


class Slotted:
    """An object without a dict."""

    __slots__ = ("count", "value")

    def __init__(self, value: Tensor) -> None:
        self.value = value


class Lazy:
    """Attributes that are made when they are asked for."""

    described = Described()

    def __init__(self, x: Tensor) -> None:
        self.x = x

    @functools.cached_property
    def cached(self) -> Tensor:
        return self.x * 2


class Point(NamedTuple):
    """A named tuple."""

    value: Tensor
    n: int = 0


@contextlib.contextmanager
def noting(log: list[Any], name: str) -> Iterator[str]:
    """Write down that it is entered and left."""
    log.append(name)
    try:
        yield name
    except Problem:
        log.append("caught")
        raise
    finally:
        log.append("left")


def counting(n: int, x: Tensor) -> Iterator[Tensor]:
    """A generator over tensors."""
    for index in range(n):
        x = x + index
        yield x


def echo(x: Tensor) -> Iterator[Any]:
    """A generator that is sent to."""
    total = x
    while True:
        sent = yield total
        if sent is None:
            return
        total = total + sent


def chained(*parts: Iterable[Any]) -> Iterator[Any]:
    """`yield from`."""
    for part in parts:
        yield from part


def mixed(x: Tensor, by: int = 2, *rest: Tensor, flip: bool = False, **named: Tensor) -> Tensor:
    """All kinds of parameters."""
    for each in rest:
        x = x + each
    for name, each in named.items():
        x = x * 2 + each if name == "a" else x - each
    return -x * by if flip else x * by


def twice(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A decorator."""

    def called(*args: Any, **named: Any) -> Tensor:
        return fn(*args, **named) * 2

    return called


@framehook.disable
def outside(x: Tensor) -> Tensor:
    """A function that runs natively."""
    return x * 3 - 1


def pausing(x: Tensor) -> Tensor:
    """A break between operations."""
    y = x + 1
    framehook.graph_break()
    return y * x


def pauses(x: Tensor) -> Iterator[Tensor]:
    """A generator with a break between its values."""
    yield x * 2
    framehook.graph_break()
    yield x + 1


def weight(x: Tensor) -> float:
    """A key for sorting that looks at data."""
    return (x * 2).sum().item()


class Pausing:
    """An object whose methods break, and a context manager."""

    def __init__(self, x: Tensor) -> None:
        self.x = x * 2
        framehook.graph_break()
        self.y = x + 1

    @property
    def value(self) -> Tensor:
        y = self.y * 2
        framehook.graph_break()
        return y + self.x

    def __enter__(self) -> Pausing:
        self.x = pausing(self.x)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        self.y = pausing(self.y)
        return kind is not None and issubclass(kind, LookupError)


def names() -> dict[str, Any]:
    """New globals for one program."""
    return {**_SHARED, "LOG": [], "COUNT": 0, "__name__": "generated"}


_SHARED = {
    each.__name__.rpartition(".")[2]: each
    for each in (
        Box, Counter, Crate, Lazy, OrderedDict, Point, copy, dataclasses, weakref, Other, Pair, Problem, Slotted, chained, contextlib, counting, defaultdict, deque, echo,
        framehook, functools, itertools, mixed, noting, outside, pauses, pausing, Pausing, random, torch, twice, warnings, weight,
    )
}  # fmt: skip
