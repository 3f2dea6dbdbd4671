"""Small programs about itertools, functools and operator."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.semantics.language_lists import failures
from tests.semantics.language_table import program, tensors


def scale(x: Any, by: Any = 2, *, offset: Any = 0) -> Any:
    """What partials are made of."""
    return x * by + offset


@functools.lru_cache(maxsize=None)
def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.cache
def window(size: int, kind: str = "a") -> tuple[int, str]:
    return size * 2, kind


@functools.singledispatch
def kind_of(value: Any) -> str:
    return "object"


@kind_of.register
def _(value: int) -> str:
    return "int"


@kind_of.register(list)
def _list(value: Any) -> str:
    return "list of " + ", ".join(kind_of(item) for item in value)


@kind_of.register(Tensor)
def _tensor(value: Any) -> str:
    return "tensor"


@functools.total_ordering
class Version:
    """Ordered by two methods; the rest follows."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.number == other.number

    def __lt__(self, other: Version) -> bool:
        return self.number < other.number


class Shapes:
    """Methods that functools makes."""

    def __init__(self, sides: int) -> None:
        self.sides = sides

    def named(self, name: str, suffix: str = "") -> str:
        return f"{name}{self.sides}{suffix}"

    square = functools.partialmethod(named, "square", suffix="!")

    @functools.singledispatchmethod
    def add(self, other: Any) -> str:
        return "anything"

    @add.register
    def _(self, other: int) -> str:
        return f"int {self.sides + other}"

    @functools.cached_property
    def area(self) -> int:
        return self.sides**2


def logged(fn: Any) -> Any:
    """A decorator as they are written."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


@logged
def described(x: Any) -> Any:
    """What it is."""
    return x


def numbers(count: int) -> Iterator[int]:
    yield from range(count)


@program
def groups(x: Tensor, y: Tensor) -> Any:
    rows = [("a", 1), ("a", x), ("b", 2), ("a", 3)]
    return (
        [
            (key, [value for _, value in group])
            for key, group in itertools.groupby(rows, key=operator.itemgetter(0))
        ],
        [(key, len(list(group))) for key, group in itertools.groupby("aabbb")],
        [key for key, _ in itertools.groupby([1, 1, 2])],
        x + 1,
    )


@program(peer=0)
def groups_left_unread(x: Tensor, y: Tensor) -> Any:
    grouped = itertools.groupby([1, 1, 2, 2, 3], lambda n: n)
    _, first = next(grouped)
    one = next(first)
    key, second = next(grouped)
    return one, list(first), key, list(second), [key for key, _ in grouped], x + 1


@program
def tees(x: Tensor, y: Tensor) -> Any:
    first, second = itertools.tee(iter([x, 1, 2]))
    next(first)
    a, b, c = itertools.tee("abc", 3)
    return list(first), list(second), next(a), list(b), list(c), list(a), itertools.tee([1], 0), x + 1


@program
def chains(x: Tensor, y: Tensor) -> Any:
    return (
        list(itertools.chain([1], (x,), "ab", {2: 0})),
        list(itertools.chain()),
        list(itertools.chain.from_iterable([[1], "ab", numbers(2)])),
        list(itertools.chain(numbers(2), [9])),
        x + 1,
    )


@program
def counting_and_repeating(x: Tensor, y: Tensor) -> Any:
    counter = itertools.count(10, 5)
    return (
        next(counter),
        next(counter),
        list(itertools.islice(itertools.count(), 3)),
        list(zip(itertools.count(1), "ab")),
        list(itertools.repeat(x, 2)),
        list(map(pow, [2, 3], itertools.repeat(2))),
        list(itertools.islice(itertools.count(0.5, -1), 2)),
        list(itertools.islice(itertools.count(step=2), 2)),
        x + 1,
    )  # noqa: B905


@program
def slicing_iterators(x: Tensor, y: Tensor) -> Any:
    rest = iter(range(6))
    head = list(itertools.islice(rest, 2))
    return (
        head,
        list(rest),
        list(itertools.islice("abcdef", 1, 5, 2)),
        list(itertools.islice("ab", None)),
        failures(lambda: itertools.islice([], -1)),
        x + 1,
    )


@program
def cycling(x: Tensor, y: Tensor) -> Any:
    turns = itertools.cycle([x, y])
    return (
        [next(turns).dim() for _ in range(5)],
        list(itertools.islice(itertools.cycle([]), 3)),
        list(zip(range(3), itertools.cycle("ab"))),
        x + 1,
    )  # noqa: B905


@program
def accumulating(x: Tensor, y: Tensor) -> Any:
    return (
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        list(itertools.accumulate([1, 2], initial=10)),
        list(itertools.accumulate([x, x])),
        list(itertools.accumulate([3, 1, 2], max)),
        list(itertools.accumulate([], initial=y)),
        list(itertools.accumulate("ab", func=lambda a, b: a + b)),
        x + 1,
    )


@program
def selecting(x: Tensor, y: Tensor) -> Any:
    return (
        list(itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda n: n < 3, [1, 3, 1])),
        list(itertools.filterfalse(lambda t: t.dim() == 1, [x, y])),
        list(itertools.compress([x, y, 1], [1, 0, True])),
        list(itertools.starmap(lambda a, b: a + b, [(1, 2), (x, 1)])),
        list(itertools.filterfalse(None, [0, 1])),
        x + 1,
    )


@program
def products_and_permutations(x: Tensor, y: Tensor) -> Any:
    return (
        list(itertools.product([1, 2], "ab")),
        list(itertools.product([0, 1], repeat=2)),
        list(itertools.permutations([1, 2, 3], 2)),
        list(itertools.combinations("abc", 2)),
        list(itertools.combinations_with_replacement([x, 1], 2)),
        list(itertools.product()),
        list(itertools.permutations([], 0)),
        list(itertools.combinations([1], 2)),
        x + 1,
    )


@program
def pairs_and_longest(x: Tensor, y: Tensor) -> Any:
    return (
        list(itertools.pairwise([1, x, 2])),
        list(itertools.pairwise([1])),
        list(itertools.zip_longest([1, 2], "a")),
        list(itertools.zip_longest("a", [1, 2], fillvalue=y)),
        list(itertools.zip_longest()),
        x + 1,
    )


if sys.version_info >= (3, 12):

    @program
    def batches(x: Tensor, y: Tensor) -> Any:
        return (
            list(itertools.batched([1, 2, x], 2)),
            list(itertools.batched("", 2)),
            failures(lambda: itertools.batched([], 0)),
            x + 1,
        )


@program
def pipelines_of_iterators(x: Tensor, y: Tensor) -> Any:
    odd = filter(lambda n: n % 2, itertools.count())
    squares = map(lambda n: n * n, odd)
    small = itertools.takewhile(lambda n: n < 60, squares)
    total = x.sum()
    for square in small:
        total = total + square
    return total, list(itertools.islice(odd, 2))


@program
def iterators_handed_out_half_used(x: Tensor, y: Tensor) -> Any:
    chained = itertools.chain([1, 2], [3])
    sliced = itertools.islice([1, 2, 3, 4], 3)
    counted = itertools.count(3)
    paired = itertools.pairwise([1, 2, 3])
    for each in (chained, sliced, counted, paired):
        next(each)
    return [list(chained), list(sliced), next(counted), list(paired)], x + 1


@program(
    arguments=lambda: (
        *tensors(),
        itertools.chain([1, 2], [3]),
        itertools.count(5),
        itertools.cycle("ab"),
        itertools.islice([1, 2, 3], 2),
    ),
    in_all=2,
    reason="__next__ of an object of class count is served by C code",
)
def iterators_of_itertools_from_outside(x: Tensor, y: Tensor, a: Any, b: Any, c: Any, d: Any) -> Any:
    return x + next(b), next(a), next(c), next(d), next(b)


@program(
    arguments=lambda: (*tensors(), numbers(4)),
    in_all=2,
    peer=0,
    reason="__next__ of an object of class generator is served by C code",
)
def a_generator_of_the_caller(x: Tensor, y: Tensor, values: Iterator[int]) -> Any:
    return x + next(values), list(itertools.islice(values, 2))


@program
def partials(x: Tensor, y: Tensor) -> Any:
    triple = functools.partial(scale, by=3)
    more = functools.partial(triple, offset=1)
    first = functools.partial(scale, x)
    return (
        triple(x),
        more(y),
        triple(2, offset=1),
        first(by=5),
        more.func is scale,
        more.args,
        more.keywords,
        first.args[0] is x,
        list(map(functools.partial(pow, 2), [1, 2])),
        functools.partial(int, base=2)("101"),
    )


@program
def partials_handed_out(x: Tensor, y: Tensor) -> Any:
    return functools.partial(scale, x, offset=2), functools.partial(max, 3), x + 1


@program
def reducing(x: Tensor, y: Tensor) -> Any:
    return (
        functools.reduce(lambda a, b: a + b, [1, 2, 3]),
        functools.reduce(operator.mul, [x, x], 2),
        functools.reduce(max, [1, 5, 2]),
        functools.reduce(lambda a, b: a, [], 7),
        failures(lambda: functools.reduce(max, [])),
        x + 1,
    )


@program
def caches(x: Tensor, y: Tensor) -> Any:
    return fibonacci(8), window(3), window(3, kind="b"), x * window(2)[0]


@program(reason="class _lru_cache_wrapper is instantiated by C code")
def caches_made_inside(x: Tensor, y: Tensor) -> Any:
    calls = []

    @functools.lru_cache
    def twice(n: int) -> int:
        calls.append(n)
        return n * 2

    return twice(2), twice(2), twice(3), calls, x + 1


@program
def dispatching_on_the_first_argument(x: Tensor, y: Tensor) -> Any:
    return kind_of(1), kind_of(True), kind_of([1, "a", [x]]), kind_of(x), kind_of(None), x + 1


@program(
    graphs=0,
    peer=0,
    reason="attribute '__annotations__' of function Shapes.add is not modelled; the function looks at its own frame",
)
def methods_made_by_functools(x: Tensor, y: Tensor) -> Any:
    shapes = Shapes(4)
    return (
        shapes.square(),
        shapes.add(1),
        shapes.add("a"),
        shapes.area,
        shapes.area,
        vars(shapes),
        x * shapes.sides,
    )


@program
def orderings(x: Tensor, y: Tensor) -> Any:
    one, two = Version(1), Version(2)
    return (
        one <= two,
        one > two,
        two >= one,
        one != two,
        max(one, two).number,
        [v.number for v in sorted([two, one])],
        sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
        min(["b", "a"], key=functools.cmp_to_key(lambda a, b: (a > b) - (a < b))),
        x + 1,
    )


@program
def wrapped_functions(x: Tensor, y: Tensor) -> Any:
    @logged
    def inner(z: Tensor) -> Tensor:
        """Adds."""
        return z + 1

    return (
        described(x) + 1,
        described.__name__,
        described.__doc__,
        described.__wrapped__(y),
        inner(x),
        inner.__name__,
        inner.__doc__,
    )


@program
def functions_of_operator(x: Tensor, y: Tensor) -> Any:
    return (
        operator.add(x, 1),
        operator.matmul(x, y),
        operator.neg(3),
        operator.pos(-3),
        operator.not_([]),
        operator.truth("a"),
        operator.is_(None, None),
        operator.is_not(x, y),
        operator.index(3),
        operator.concat([1], [2]),
        operator.contains([1], 1),
        operator.countOf([1, 2, 1], 1),
        operator.indexOf([1, 2], 2),
        operator.length_hint([1, 2]),
        operator.floordiv(7, 2),
        operator.mod(7, 4),
        operator.pow(2, 3),
        operator.lshift(1, 3),
        operator.rshift(8, 1),
        operator.and_(6, 3),
        operator.or_(4, 1),
        operator.xor(6, 3),
        operator.invert(5),
        operator.truediv(1, 2),
        operator.sub(3, 1),
        operator.abs(-1),
        operator.lt(1, 2),
        operator.ge(1, 2),
        operator.eq("a", "a"),
        operator.__add__(1, 2),
    )


@program
def functions_of_operator_that_change(x: Tensor, y: Tensor) -> Any:
    values = [1, 2, 3]
    operator.setitem(values, 0, x)
    operator.delitem(values, 1)
    same = operator.iadd(values, [4])
    operator.iconcat(values, (5,))
    return (
        values,
        same is values,
        operator.getitem(values, slice(1, None)),
        operator.imul(3, 2),
        operator.ior({1}, {2}),
        operator.call(len, values),
        x + 1,
    )


@program
def getters_of_operator(x: Tensor, y: Tensor) -> Any:
    rows = [{"a": 2, "b": 1}, {"a": 1, "b": 3}]
    first, deep = operator.itemgetter("a"), operator.attrgetter("dtype.itemsize")
    return (
        sorted(rows, key=first),
        list(map(operator.itemgetter("b", "a"), rows)),
        deep(x),
        operator.attrgetter("shape", "ndim")(x),
        operator.methodcaller("reshape", -1)(x),
        operator.methodcaller("split", ",", maxsplit=1)("a,b,c"),
        operator.itemgetter(slice(1))([1, 2]),
        failures(lambda: operator.itemgetter(5)([]), lambda: operator.attrgetter("nope")(1)),
        x + 1,
    )


@program
def functions_of_torch_as_values(x: Tensor, y: Tensor) -> Any:
    table = {"sum": torch.sum, "mean": torch.Tensor.mean, "relu": torch.relu}
    return (
        {name: fn(x) for name, fn in table.items()},
        functools.reduce(torch.add, [x, x]),
        list(map(torch.neg, [y])),
        functools.partial(torch.sum, dim=0)(x),
        operator.methodcaller("sum", 0)(x),
    )
