"""Small programs about comprehensions, generators and iterators of one's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from tests.semantics.language_table import program, tensors


def _numbers(count: int) -> Iterator[int]:
    yield from range(count)


def _rows(x: Tensor) -> Iterator[Tensor]:
    for row in x:
        yield row * 2


@program
def comprehensions_of_every_kind(x: Tensor, y: Tensor) -> Any:
    return (
        [a + b for a in x for b in (y, 1)],
        {n: row for n, row in enumerate(x) if n != 1},
        {n % 2 for n in range(5)},
        [[row[i] for row in x] for i in range(2)],
        [n for n in range(20) if n % 2 if n % 3],
        {k: v for d in ({"a": x}, {"b": y}) for k, v in d.items()},
        [(lambda: n)() for n in range(3)],
        [b for a in range(3) for b in [a * 2] if b],
    )


@program
def generator_expressions_are_lazy(x: Tensor, y: Tensor) -> Any:
    log: list[int] = []

    def note(n: int) -> int:
        log.append(n)
        return n

    lazy = (y * note(n) for n in range(5))
    before = list(log)
    first = next(lazy)
    then = list(log)
    return before, first, then, list(itertools.islice(lazy, 2)), list(log), next(lazy), next(lazy, "end")


@program
def generators_into_every_consumer(x: Tensor, y: Tensor) -> Any:
    return (
        list(_rows(x)),
        tuple(_numbers(3)),
        sum(_rows(x)),
        dict(zip(_numbers(3), _rows(x), strict=False)),
        set(_numbers(4)),
        max(_numbers(4)),
        sorted(_numbers(3), reverse=True),
        any(n > 2 for n in _numbers(9)),
        all(n < 3 for n in _numbers(9)),
        [*_rows(x)],
        "".join(str(n) for n in _numbers(3)),
        list(map(lambda a, b: a + b, _rows(x), _numbers(3))),
        list(filter(None, _numbers(3))),
        3 in _numbers(5),
        list(enumerate(_numbers(2), 5)),
    )


@program
def unpacking_from_a_generator(x: Tensor, y: Tensor) -> Any:
    a, b, c = _rows(x)
    first, *rest = _numbers(4)
    return a + b, c, first, rest


@program
def a_generator_with_state(x: Tensor, y: Tensor) -> Any:
    def running() -> Iterator[Tensor]:
        total = y
        for row in x:
            total = total + row
            yield total
        yield total * 2

    steps = []
    for step in running():
        steps.append(step)
        if len(steps) == 3:
            break
    return steps


@program(peer=0)
def generators_that_return_values(x: Tensor, y: Tensor) -> Any:
    def inner(n: int) -> Any:
        yield x * n
        return n * 10

    def outer() -> Any:
        total = 0
        for n in range(3):
            total += yield from inner(n)
        return total

    items, generator = [], outer()
    while True:
        try:
            items.append(next(generator))
        except StopIteration as stop:
            return items, stop.value, y + 1


@program
def a_coroutine_by_send(x: Tensor, y: Tensor) -> Any:
    def averager() -> Any:
        total, count = 0.0, 0
        average = None
        while True:
            value = yield average
            if value is None:
                return total
            total = total + value
            count += 1
            average = total / count

    generator = averager()
    next(generator)
    found = [generator.send(row) for row in x]
    try:
        generator.send(None)
    except StopIteration as stop:
        return found, stop.value


@program
def generators_closed_and_thrown_into(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    def guarded() -> Any:
        try:
            while True:
                try:
                    yield x + len(log)
                except ValueError as error:
                    log.append(str(error))
        finally:
            log.append("end")

    generator = guarded()
    first = next(generator)
    second = generator.throw(ValueError("thrown"))
    generator.close()
    generator.close()
    try:
        next(generator)
    except StopIteration:
        log.append("stopped")
    try:
        generator.throw(KeyError("after the end"))
    except KeyError as error:
        log.append(repr(error))
    return first, second, log


@program
def a_generator_that_ignores_its_end(x: Tensor, y: Tensor) -> Any:
    def stubborn() -> Any:
        try:
            yield x + 1
        except GeneratorExit:
            yield y

    generator = stubborn()
    first = next(generator)
    try:
        generator.close()
    except RuntimeError as error:
        return first, str(error)


@program
def a_generator_is_not_started_by_a_value(x: Tensor, y: Tensor) -> Any:
    generator = (n for n in range(2))
    try:
        generator.send(1)
    except TypeError as error:
        return str(error), list(generator), x + 1


@program
def pipelines_of_generators(x: Tensor, y: Tensor) -> Any:
    def scaled(rows: Any, by: float) -> Any:
        for row in rows:
            yield row * by

    def paired(rows: Any) -> Any:
        before = None
        for row in rows:
            if before is not None:
                yield before, row
            before = row

    return [a + b for a, b in paired(scaled(scaled(iter(x), 2.0), 0.5))], sum(scaled(_rows(x), 3.0))


@program
def a_recursive_generator(x: Tensor, y: Tensor) -> Any:
    def flat(node: Any) -> Any:
        if isinstance(node, list):
            for each in node:
                yield from flat(each)
        else:
            yield node + 1

    return list(flat([x, [y, [1, [2]]], 3]))


@program(graphs=0, reason="the generator that is returned holds the frame's state")
def a_generator_left_half_consumed_and_returned(x: Tensor, y: Tensor) -> Any:
    generator = _rows(x)
    next(generator)
    return generator


@program
def an_iterator_left_half_consumed_and_returned(x: Tensor, y: Tensor) -> Any:
    iterator = iter([x + 1, y, 3])
    first = next(iterator)
    pairs = zip("abc", iterator, strict=False)
    next(pairs)
    return first, list(pairs), iter([y * 2]).__next__()


class Countdown:
    """An iterator written as a class."""

    def __init__(self, start: int) -> None:
        self.n = start

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Rows:
    """An iterable whose iterator is a generator."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __iter__(self) -> Iterator[Tensor]:
        for row in self.x:
            yield row + 1

    def __reversed__(self) -> Iterator[Tensor]:
        return iter([self.x[2], self.x[1]])

    def __len__(self) -> int:
        return 3


class Indexed:
    """Something that is iterated over by its items."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __getitem__(self, index: int) -> Tensor:
        if index >= 3:
            raise IndexError(index)
        return self.x[index]


@program
def iterators_that_are_classes(x: Tensor, y: Tensor) -> Any:
    rows, indexed = Rows(x), Indexed(x)
    return (
        list(Countdown(3)),
        [n for n in Countdown(2)],
        sum(Countdown(4)),
        list(rows),
        list(reversed(rows)),
        len(rows),
        list(indexed),
        [*indexed][0],
        list(zip(rows, indexed, Countdown(9), strict=False)),
        2 in Countdown(5),
        max(Countdown(3)),
        dict(enumerate(Countdown(2))),
    )


@program
def an_iterator_is_used_twice(x: Tensor, y: Tensor) -> Any:
    iterator = iter(range(6))
    pairs = list(zip(iterator, iterator, strict=True))
    rows = iter(x)
    return pairs, list(iterator), [a + b for a, b in zip(rows, rows, strict=False)], next(rows, "end")


@program
def iter_with_a_sentinel(x: Tensor, y: Tensor) -> Any:
    stack = [1, 2, 3, 0, 4]
    return list(iter(stack.pop, 0)), stack, x + 1


@program
def next_of_every_iterator(x: Tensor, y: Tensor) -> Any:
    iterators = [iter([1]), iter((2,)), iter({"k": 1}), iter("s"), iter(range(1)), zip([1]), reversed([5])]  # noqa: B905
    found = [next(each) for each in iterators]
    return found, [next(each, None) for each in iterators], y * 2


def generator_argument(variant: int) -> tuple[Any, ...]:
    x, y = tensors()
    return x, y, (x * n for n in range(3)), iter([1, 2, 3]), zip("ab", (1, 2), strict=True)


@program(peer=0, arguments=generator_argument, reason="iterators of the caller are advanced natively")
def iterators_of_the_caller(x: Tensor, y: Tensor, lazy: Any, numbers: Any, pairs: Any) -> Any:
    first = next(lazy, None)
    return first, [n + 1 for n in numbers], list(pairs), x + y


@program
def a_generator_of_a_method(x: Tensor, y: Tensor) -> Any:
    class_less = Rows(x)
    first, *rest = class_less
    return first, len(rest), [a * b for a, b in zip(class_less, class_less, strict=True)]


@program
def generators_meet_exceptions(x: Tensor, y: Tensor) -> Any:
    log = []

    def failing() -> Any:
        yield x + 1
        try:
            yield y
            raise KeyError("inside")
        finally:
            log.append("finally")

    found = []
    try:
        for item in failing():
            found.append(item)
    except KeyError as error:
        log.append(str(error))
    return found, log


@program
def a_with_statement_in_a_generator(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []

    class_manager = Logged(log)

    def managed() -> Any:
        with class_manager:
            yield x * 2
            yield y * 2

    found = list(managed())
    generator = managed()
    next(generator)
    generator.close()
    return found, log


class Logged:
    """A context manager that notes when it is entered and left."""

    def __init__(self, log: list[str], swallow: bool = False) -> None:
        self.log = log
        self.swallow = swallow

    def __enter__(self) -> Logged:
        self.log.append("enter")
        return self

    def __exit__(self, cls: Any, value: Any, traceback: Any) -> bool:
        self.log.append("exit" if cls is None else f"exit {cls.__name__} {value}")
        return self.swallow


@program
def generators_compared_and_asked(x: Tensor, y: Tensor) -> Any:
    a, b = _numbers(2), _numbers(2)
    return a is a, a == b, iter(a) is a, bool(a), hasattr(a, "send"), callable(a), x + 1


@program
def a_generator_in_a_generator_expression(x: Tensor, y: Tensor) -> Any:
    rows = ((n, row) for n, row in enumerate(r * 2 for r in x if r.shape[0] == 4))
    return {n: row for n, row in rows if n}, sum(n for n in _numbers(4) if n % 2)
