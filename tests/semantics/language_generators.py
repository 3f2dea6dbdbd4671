"""Small programs about generators and comprehensions, each of which has to become one graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from tests.semantics.language_table import program


def _doubled(rows: Tensor, log: list[Any]) -> Iterator[Tensor]:
    try:
        for row in rows:
            sent = yield row * 2
            log.append(sent)
    except KeyError as error:
        log.append(("caught", str(error)))
        yield rows.sum()
    finally:
        log.append("closed")
    return len(log)  # type: ignore[return-value]


@program(peer=0)
def values_are_sent_through_a_delegating_generator(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    def outer() -> Iterator[Any]:
        log.append(("returned", (yield from _doubled(x, log))))
        log.append(("from a tuple", (yield from (1, y))))

    generator = outer()
    first = next(generator)
    second = generator.send("a")  # type: ignore[attr-defined]
    return first, second, [*generator], log


@program(peer=0)
def exceptions_are_thrown_into_what_a_generator_delegates_to(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    def outer() -> Iterator[Any]:
        try:
            log.append((yield from _doubled(x, log)))
        except ValueError as error:
            log.append(repr(error))
        yield y + 1
        try:
            yield from (1, 2, 3)
        except LookupError:
            log.append("thrown where a tuple is delegated to")

    generator: Any = outer()
    first = next(generator)
    handled = generator.throw(KeyError("k"))
    second = generator.throw(ValueError("v"))
    one = next(generator)
    try:
        generator.throw(LookupError())
    except StopIteration as stop:
        log.append(("stopped", stop.value))
    return first, handled, second, one, log


@program(peer=0)
def a_delegating_generator_goes_on_when_what_it_delegates_to_returns_on_throw(x: Tensor, y: Tensor) -> Any:
    def inner() -> Iterator[Any]:
        try:
            yield x
        except KeyError:
            return "returned"  # type: ignore[return-value]  # noqa: B901

    def outer() -> Iterator[Any]:
        result = yield from inner()
        yield result, y * 3

    generator: Any = outer()
    return next(generator), generator.throw(KeyError()), list(generator)


@program
def closing_a_generator_closes_what_it_delegates_to(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    def outer() -> Iterator[Any]:
        try:
            yield from _doubled(x, log)
        finally:
            log.append("outer")

    generator: Any = outer()
    row = next(generator)
    generator.close()
    return row, log, y + 1


@program
def exceptions_leave_generators(x: Tensor, y: Tensor) -> Any:
    found = []

    def failing(error: BaseException) -> Iterator[Any]:
        yield x + 1
        raise error

    for error in (KeyError("k"), StopIteration(1), RuntimeError("r")):
        try:
            for row in failing(error):
                found.append(row)
        except Exception as caught:
            found.append(repr(caught))
            found.append(repr(caught.__cause__))
    return found, y * 2


@program
def comprehensions_keep_variables_of_their_names(x: Tensor, y: Tensor) -> Any:
    row = "kept"
    rows = [row for row in x]  # noqa: C416
    inner = {key: [row + key for row in rows] for key in range(2)}
    functions = [lambda: row for row in x]
    late = [function() for function in functions]
    try:
        print(key)  # type: ignore[name-defined]  # noqa: F821
    except NameError as error:
        return row, rows, inner, late, str(error), sum(v for v in range(4)), y + 1
    return None


@program
def comprehensions_of_class_variables_and_cells(x: Tensor, y: Tensor) -> Any:
    scale = 2

    def scaled() -> list[Tensor]:
        return [row * scale for row in x]

    before = scaled()
    scale = 3
    pairs = [(lambda n=n: n * scale, n) for n in range(3)]
    adders = [lambda v, n=n: v + n + scale for n in range(2)]
    return before, scaled(), [f() + n for f, n in pairs], [add(y) for add in adders]


@program
def an_exception_leaves_a_comprehension(x: Tensor, y: Tensor) -> Any:
    n = "kept"
    try:
        [10 / n for n in (2, 1, 0)]
    except ZeroDivisionError as error:
        return n, repr(error), x + 1
    return None
