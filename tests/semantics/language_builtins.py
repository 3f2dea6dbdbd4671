"""Small programs about the functions of `builtins`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.semantics.language_lists import failures
from tests.semantics.language_table import program


class Meters:
    """A number-like class with the special methods that builtin functions call."""

    def __init__(self, length: float) -> None:
        self.length = length

    def __abs__(self) -> float:
        return abs(self.length)

    def __round__(self, digits: int | None = None) -> float:
        return round(self.length, digits)

    def __int__(self) -> int:
        return int(self.length)

    def __float__(self) -> float:
        return float(self.length)

    def __index__(self) -> int:
        return 3

    def __divmod__(self, other: float) -> tuple[float, float]:
        return divmod(self.length, other)

    def __pow__(self, power: int, modulus: int | None = None) -> Any:
        return ("pow", power, modulus)

    def __format__(self, spec: str) -> str:
        return f"{self.length:{spec}}m"

    def __repr__(self) -> str:
        return f"Meters({self.length})"

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Meters) and self.length == other.length

    def __lt__(self, other: Meters) -> bool:
        return self.length < other.length

    def __add__(self, other: Any) -> Meters:
        return Meters(self.length + getattr(other, "length", other))

    __radd__ = __add__

    def __reversed__(self) -> Any:
        return iter([3, 2, 1])

    def __dir__(self) -> list[str]:
        return ["b", "a"]


class Countdown:
    """Callable until it has counted down."""

    def __init__(self, start: int) -> None:
        self.left = start

    def __call__(self) -> int:
        self.left -= 1
        return self.left


@program
def numbers_by_functions(x: Tensor, y: Tensor) -> Any:
    return (
        abs(-3),
        abs(-2.5),
        abs(3 + 4j),
        divmod(7, -2),
        divmod(7.5, 2),
        pow(2, 10),
        pow(3, 4, 5),
        pow(2, -1),
        pow(3, -1, 7),
        round(2.5),
        round(-1.567, 2),
        round(1234, -2),
        x + 1,
    )


@program
def numbers_and_texts(x: Tensor, y: Tensor) -> Any:
    return (
        bin(10),
        hex(-255),
        oct(8),
        chr(8364),
        ord("a"),
        int("ff", 16),
        int(" 12 "),
        int("0b101", 0),
        float("1e3"),
        float("-inf"),
        complex("1+2j"),
        complex(1, 2),
        bool(""),
        int(2.9),
        ascii("é"),
        repr("a'b"),
        str(1.0),
        x + 1,
    )


@program
def methods_of_numbers(x: Tensor, y: Tensor) -> Any:
    return (
        (10).bit_length(),
        (255).to_bytes(2, "big"),
        int.from_bytes(b"\x01\x00", "big"),
        (2.5).is_integer(),
        (0.75).as_integer_ratio(),
        (1.5).hex(),
        float.fromhex("0x1.8p+0"),
        (3 + 4j).conjugate(),
        (3 + 4j).real,
        (7).bit_count(),
        (5).numerator,
        (-7) // 2,
        -7 % 3,
        7 & 3 | 8 ^ 1,
        1 << 4,
        ~5,
        True + True,
        x + 1,
    )


@program(peer=0)
def errors_of_numbers(x: Tensor, y: Tensor) -> Any:
    return failures(
        lambda: int("z"),
        lambda: float("q"),
        lambda: 1 / 0,
        lambda: 1 % 0,
        lambda: divmod(1, 0),
        lambda: chr(-1),
        lambda: ord("ab"),
        lambda: round("a"),
        lambda: abs("a"),
        lambda: pow(2, 3, 0),
        lambda: int([]),
        lambda: 0**-1,
        lambda: 2.0**5000,
        lambda: hex(1.5),
        lambda: [] + 1,
        lambda: 1 + "a",
    ), x + 1  # type: ignore


@program(peer=0)
def special_methods_that_functions_call(x: Tensor, y: Tensor) -> Any:
    length = Meters(-2.25)
    return (
        abs(length),
        round(length),
        round(length, 1),
        int(length),
        float(length),
        divmod(length, 2),
        pow(length, 2),
        hash(length),
        format(length, ".1f"),
        f"{length:6.2f}",
        repr(length),
        str(length),
        f"{length!r:>15}",
        [0, 1, 2, 3][length],
        list(reversed(length)),
        sum([length, Meters(1)]).length,
        hex(length),
        dir(length),
        x + 1,
    )  # type: ignore[call-overload, arg-type]


@program(peer=0)
def sums(x: Tensor, y: Tensor) -> Any:
    return (
        sum([1, 2.5, True]),
        sum([]),
        sum([[1], [2]], []),
        sum((1, 2), start=10),
        sum([x, x]),
        sum((t.sum() for t in (x, y)), start=0.5),
        sum([0.1] * 10),
        sum({1: 2, 3: 4}),
        failures(lambda: sum(["a", "b"]), lambda: sum(["a"], "")),
        x + 1,
    )  # type: ignore[call-overload]


@program(peer=0)
def extremes(x: Tensor, y: Tensor) -> Any:
    return (
        min(3, 1, 2),
        max([1, 5, 2]),
        max("abc", "b"),
        min([], default=None),
        max([-3, 2], key=abs),
        min(["bb", "a"], key=len),
        max({"a": 1, "b": 0}),
        max([(1, "z"), (1, "a")]),
        max([1, 1.0]),
        min((x, y), key=lambda t: t.dim()),
        failures(lambda: max([]), lambda: min(), lambda: max(1, "a"), lambda: min(1)),
        x + 1,
    )  # type: ignore


@program
def truths(x: Tensor, y: Tensor) -> Any:
    return (
        all([]),
        any([]),
        all([1, "a", [0]]),
        any([0, "", ()]),
        all(n > 0 for n in [1, 2]),
        any(t.dim() == 1 for t in (x, y)),
        bool([]),
        bool({1}),
        bool(0.0),
        not "",
        x + 1,
    )


@program
def map_and_filter(x: Tensor, y: Tensor) -> Any:
    return (
        list(map(lambda a, b: a + b, [1, 2, 3], [10, 20])),
        list(map(str, range(3))),
        list(filter(None, [0, 1, "", "a"])),
        list(filter(lambda t: t.dim() == 2, [x, y])),
        list(map(torch.sum, [x, y])),
        dict(map(lambda k: (k, k * 2), "ab")),
        tuple(map(int, "12")),
        x + 1,
    )


@program
def zips(x: Tensor, y: Tensor) -> Any:
    matrix = [(1, 2), (3, 4)]
    return (
        list(zip(*matrix)),
        list(zip([x, y], "ab")),
        dict(zip("ab", (x, y))),
        list(zip()),
        list(zip([1, 2], [3])),
        list(zip([1], [2], strict=True)),
        x + 1,
    )  # noqa: B905


@program
def strict_zips_of_different_lengths(x: Tensor, y: Tensor) -> Any:
    return failures(
        lambda: list(zip([1, 2], [3], strict=True)),
        lambda: list(zip([1], [2, 3], strict=True)),
        lambda: list(zip([1], [2], [], strict=True)),
    ), x + 1


@program
def enumerations(x: Tensor, y: Tensor) -> Any:
    pairs = enumerate("abc", start=5)
    first = next(pairs)
    return first, list(pairs), [(i, t + i) for i, t in enumerate([x, y])], dict(enumerate("ab", 1)), x + 1


@program
def iterating_until_a_sentinel(x: Tensor, y: Tensor) -> Any:
    return list(iter(Countdown(4), 0)), [*iter([3, 2, 0, 1].pop, 3)], x + 1


@program
def next_with_and_without_default(x: Tensor, y: Tensor) -> Any:
    numbers = iter([1])
    return (
        next(numbers),
        next(numbers, "end"),
        next(iter([]), None),
        failures(lambda: next(numbers), lambda: next([1])),
        next(t for t in (x, y) if t.dim() == 1) + 1,
    )  # type: ignore[call-overload]


@program
def reversing(x: Tensor, y: Tensor) -> Any:
    return (
        list(reversed([1, 2])),
        list(reversed("ab")),
        list(reversed(range(3))),
        list(reversed({"a": 1, "b": 2})),
        list(reversed((x, y))),
        "".join(reversed("abc")),
        failures(lambda: reversed({1})),
        x + 1,
    )  # type: ignore[call-overload]


@program
def attributes_by_functions(x: Tensor, y: Tensor) -> Any:
    length: Any = Meters(1.5)
    setattr(length, "unit", x)
    had = hasattr(length, "unit"), hasattr(length, "nope")
    delattr(length, "length")
    return (
        had,
        getattr(length, "unit") + 1,
        getattr(length, "length", None),
        vars(length),
        getattr(x, "shape"),
        getattr("a", "upper")(),
        failures(
            lambda: getattr(length, "nope"), lambda: delattr(length, "nope"), lambda: setattr(1, "a", 2)
        ),
    )  # noqa: B009, B010


@program
def kinds_of_things(x: Tensor, y: Tensor) -> Any:
    return (
        isinstance(1, int),
        isinstance(True, (str, int)),
        isinstance(x, Tensor),
        isinstance([], list | tuple),
        issubclass(bool, int),
        callable(len),
        callable(3),
        callable(lambda: 0),
        callable(Meters),
        type(x) is Tensor,
        type(1) is int,
        type([]) == list,  # noqa: E721
        type(None),
        type(type),
        type(Meters(1)).__name__,
        issubclass(Meters, object),
        failures(lambda: isinstance(1, 2), lambda: issubclass(1, int)),
        x + 1,
    )  # type: ignore[arg-type]  # noqa: E721


@program
def hashes(x: Tensor, y: Tensor) -> Any:
    return (
        hash(1) == hash(1.0),
        hash("a") == hash("a"),
        hash((1, 2)) == hash((1, 2)),
        hash(None) == hash(None),
        hash(frozenset()) == hash(frozenset()),
        failures(lambda: hash([]), lambda: hash({})),
        x + 1,
    )


@program
def representations(x: Tensor, y: Tensor) -> Any:
    return (
        repr([1, "a", (2,)]),
        str({"a": [1]}),
        repr({1}),
        str((1,)),
        repr(None),
        str(range(3)),
        repr(slice(1)),
        str(b"a"),
        repr(1.0),
        repr(True),
        str([Meters(1)]),
        repr({"k": Meters(2)}),
        str(int),
        repr(Ellipsis),
        x + 1,
    )


@program
def formatting_by_function(x: Tensor, y: Tensor) -> Any:
    return (
        format(3.14159, ".2f"),
        format(255, "#x"),
        format("a", ">4"),
        format(1234567, ","),
        format(0.5, "%"),
        format(True),
        format(None, ""),
        format([1]),
        failures(lambda: format(1, "q"), lambda: format([], "d")),
        x + 1,
    )


@program
def identities_by_id(x: Tensor, y: Tensor) -> Any:
    values = [x]
    return (
        id(values) == id(values),
        id(None) == id(None),
        id(len) == id(len),
        id(values) != id([x]),
        x + 1,
    )


@program(in_all=2, reason="the id of a tensor of shape (3, 4) is asked for")
def identities_of_tensors(x: Tensor, y: Tensor) -> Any:
    return id(x) == id(y), id(x) == id([x][0]), x + 1


@program
def directories(x: Tensor, y: Tensor) -> Any:
    return (
        "append" in dir([]),
        "upper" in dir(str),
        "length" in vars(Meters(1)),
        sorted(vars(Meters(1))),
        "keys" in dir({}),
        x + 1,
    )


@program
def types_made_by_type(x: Tensor, y: Tensor) -> Any:
    made = type("Made", (), {"size": 3, "grow": lambda self, by: self.size + by})
    one = made()
    return one.grow(2), made.__name__, isinstance(one, made), x + one.size


@program(
    graphs=0,
    reason="builtins.locals() is C code that is not known to be an operation; the function looks at its own frame",
)
def local_and_global_names(x: Tensor, y: Tensor) -> Any:
    size = 3
    names = sorted(locals())
    return names, "torch" in globals(), globals()["Meters"](2).length, x + size


@program
def objects_and_defaults(x: Tensor, y: Tensor) -> Any:
    missing = object()
    table = {"a": None}
    return (
        table.get("a", missing) is missing,
        table.get("b", missing) is missing,
        isinstance(missing, object),
        int(),
        str(),
        list(),
        tuple(),
        dict(),
        float(),
        bool(),
        set(),
        frozenset(),
        bytes(),
        complex(),
        x + 1,
    )


@program
def numbers_that_tensors_give(x: Tensor, y: Tensor) -> Any:
    rows, columns = x.shape
    return (
        divmod(x.numel(), 5),
        pow(rows, 2),
        round(columns / 3, 2),
        max(x.shape),
        min(x.size()),
        sum(x.shape),
        list(range(x.dim())),
        hex(x.numel()),
        sorted(x.shape, reverse=True),
        abs(-x.dim()),
        float(rows),
        str(rows),
        x.view(columns, -1) + 1,
        int(x.numel() ** 0.5),
        len(x),
        len(y),
    )


@program(peer=2)
def arithmetic_of_tensors_by_functions(x: Tensor, y: Tensor) -> Any:
    return (
        abs(-x),
        pow(x, 2),
        pow(2, y),
        sum(x),
        sum(list(y)),
        max(y.shape),
        x.__abs__(),
        reversed(y),
        abs(y - 1),
    )


@program
def nested_calls_of_builtins(x: Tensor, y: Tensor) -> Any:
    return (
        dict(sorted(zip("ba", map(len, ([1], [1, 2]))))),
        max(map(abs, [-3, 2])),
        sum(n for n in range(10) if n % 2),
        list(zip(*sorted(zip([2, 1], "ab")))),
        sorted(set(map(str.lower, "AbBa"))),
        any(map(lambda n: n > 2, range(4))),
        "".join(map(chr, [97, 98])),
        x + 1,
    )  # noqa: B905


@program
def evaluating_and_compiling_texts(x: Tensor, y: Tensor) -> Any:
    return eval("1 + 2"), x + 1


@program
def imports_inside(x: Tensor, y: Tensor) -> Any:
    import collections.abc as abcs
    import math
    from functools import reduce

    return (
        math.pi,
        reduce(lambda a, b: a * b, [1, 2, 3]),
        isinstance([], abcs.Sequence),
        __import__("math").e,
        x + 1,
    )


@program
def chained_conditions_and_defaults(x: Tensor, y: Tensor) -> Any:
    size = x.shape[0]
    return (
        1 < size < 5,
        size or 3,
        None or "b",
        [] and 1,
        0 if size > 5 else 1,
        size in (3, 4),
        size is not None,
        (lambda a, b=2, *c, d=4, **e: (a, b, c, d, e))(1, z=3),
        x + 1,
    )  # noqa: RUF100
