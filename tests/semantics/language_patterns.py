"""Small programs about pattern matching."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

from torch import Tensor

from tests.semantics.language_table import program, tensors


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


class Pair(NamedTuple):
    left: Any
    right: Any


class Kind(enum.Enum):
    A = 1
    B = 2


class Custom:
    __match_args__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second


LIMIT = 7


@program
def literals_and_values(x: Tensor, y: Tensor) -> Any:
    def name(value: Any) -> str:
        match value:
            case 0:
                return "zero"
            case -1.5 | 2 + 3j:
                return "number"
            case "a" | b"a":
                return "text"
            case None:
                return "none"
            case True:
                return "true"
            case Kind.A:
                return "A"
            case _:
                return "other"

    return [name(v) for v in (0, 0.0, False, -1.5, 2 + 3j, "a", b"a", None, True, Kind.A, Kind.B, [])], x + 1


@program
def sequences(x: Tensor, y: Tensor) -> Any:
    def name(value: Any) -> Any:
        match value:
            case []:
                return "empty"
            case [one]:
                return "one", one
            case [1, second] | (second, 1):
                return "with 1", second
            case [first, *middle, "end"]:
                return first, middle
            case [[a, b], *_]:
                return "nested", a, b
            case (a, b, c):
                return "three", c
            case _:
                return "no sequence"

    values = [[], [x], (1, y), [5, 1], [x, 2, 3, "end"], [[1, 2], 3], (1, 2, 3), "ab", {1: 2}, range(3), b"a"]
    return [name(value) for value in values], x + 1


@program
def mappings(x: Tensor, y: Tensor) -> Any:
    def name(value: Any) -> Any:
        match value:
            case {"kind": "scale", "by": by, **rest}:
                return x * by, rest
            case {"kind": ("a" | "b") as kind}:
                return kind
            case {1: _}:
                return "one"
            case {}:
                return "mapping"
            case _:
                return "other"

    table = {"kind": "scale", "by": 2, "z": y}
    return [name(v) for v in (table, {"kind": "b"}, {1: 2}, {}, {"k": 1}, [], 3)], table


@program
def classes(x: Tensor, y: Tensor) -> Any:
    def name(value: Any) -> Any:
        match value:
            case Point(0, y=z):
                return "origin", z
            case Point(x=int(a), y=0):
                return "axis", a
            case Point():
                return "point"
            case Custom(first, second=[inner, *_]):
                return first, inner
            case Pair(left, right):
                return left, right
            case int() | float() as number:
                return "number", number
            case str(text):
                return text.upper()
            case list() | tuple():
                return "row"
            case dict(mapping):
                return len(mapping)
            case Tensor():
                return value + 1
            case type():
                return value.__name__
            case object():
                return "object"

    values = [
        Point(0, x),
        Point(3),
        Point("y", 1),
        Custom(1, [x, 2]),
        Custom(1, 2),
        Pair(1, y),
        3,
        2.5,
        True,
        "s",
    ]
    return [
        name(v) for v in (*values, [1], {"a": 1}, x, int, None) if not isinstance(v, Custom) or v.second != 2
    ]


@program
def guards_and_captures(x: Tensor, y: Tensor) -> Any:
    found = []
    for value in ([1, 2], [3, 1], (x, 4), "text", 9, 12):
        match value:
            case [int(a), int(b)] if a < b:
                found.append(("ascending", a, b))
            case [int(), int()] as pair:
                found.append(("other", pair))
            case [tensor, n]:
                found.append(tensor * n)
            case int(n) if n > LIMIT and (m := n + 1) > 10:
                found.append(m)
            case whatever:
                found.append(whatever)
    return found, y + 1


@program
def a_match_without_a_case_that_fits(x: Tensor, y: Tensor) -> Any:
    result = "before"
    match x.shape[0]:
        case 1:
            result = "one"
        case 2 | 4:
            result = "two"
    match x.shape:
        case (3, columns):
            result = x * columns
    return result


@program(
    arguments=lambda variant: (*tensors(), [{"op": "add"}, {"op": "mul", "by": 3}, ["x"]][variant]), in_all=2
)
def matching_an_argument(x: Tensor, y: Tensor, command: Any) -> Any:
    match command:
        case {"op": "add"}:
            return x + y
        case {"op": "mul", "by": int(by)}:
            return x * by
        case [str(name)]:
            return y, name


@program
def matching_many_subjects(x: Tensor, y: Tensor) -> Any:
    def act(*pair: Any) -> Any:
        match pair:
            case (Tensor() as a, Tensor() as b):
                return a.sum() + b.sum()
            case (Tensor() as a, int() | float() as by):
                return a * by
            case (a, None) | (None, a):
                return "half", a

    return act(x, y), act(x, 2), act(1, None), act(None, y), act(1, 2)


@program
def patterns_that_are_wrong(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    try:
        match 3:
            case int(1, 2):
                pass
    except TypeError as error:
        return str(error), z


@program
def a_small_interpreter(x: Tensor, y: Tensor) -> Any:
    def evaluate(node: Any) -> Any:
        match node:
            case ("add", left, right):
                return evaluate(left) + evaluate(right)
            case ("mul", *factors):
                result = 1
                for factor in factors:
                    result = result * evaluate(factor)
                return result
            case ("var", "x" | "y" as name):
                return {"x": x, "y": y}[name]
            case int() | float():
                return node

    return evaluate(("add", ("mul", 2, ("var", "x"), 0.5), ("add", ("var", "y"), 1)))
