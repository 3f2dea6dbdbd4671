"""Functions that are split at each of their instructions; each row: function, arguments, keyword arguments."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

LOG: list[str] = []


def log(text: object) -> object:
    LOG.append(str(text))
    return text


class Manager:
    """A context manager that logs, and swallows ValueError when told to."""

    def __init__(self, name: str, swallows: bool = False) -> None:
        self.name = name
        self.swallows = swallows

    def __enter__(self) -> str:
        log(f"enter {self.name}")
        return self.name

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        log(f"exit {self.name} {kind and kind.__name__} {error}")
        return self.swallows and kind is ValueError


def loops(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        for j in (1, 2, 3):
            if j == 3:
                break
            total += i * j
        else:
            log("never")
    while total > 3:
        total -= log(2)
    else:
        log("else")
    return total, i, j


def nested_with(x):
    with Manager("A") as a:
        for i in range(3):
            with Manager("B", swallows=True) as b:
                y = x + log(i)
                if i == 1:
                    raise ValueError(i)
    return y, a, b


def with_raises(x):
    with Manager("A"), Manager("B"):
        x = x / 0
    return x


def with_returns(x):
    with Manager("A"):
        for i in range(3):
            with Manager("B"):
                if i == 1:
                    return x + i
    return None


def handlers(x):
    try:
        try:
            log("body")
            x / 0
        except ZeroDivisionError as e:
            log(e)
            kept = str(e) + str(sys.exc_info()[1])
        else:
            log("else")
        finally:
            log("finally")
    except KeyError:
        log("never")
    return kept, sys.exc_info()[1]


def bare_raise(x):
    try:
        x[5]
    except (KeyError, IndexError):
        log(sys.exc_info()[1])
        try:
            int("q")
        except ValueError as inner:
            log(repr(inner.__context__))
            log(repr(sys.exc_info()[1]))
        log(repr(sys.exc_info()[1]))
        raise


def raise_from(x):
    try:
        try:
            x["k"]
        except KeyError as e:
            raise RuntimeError("outer") from e
    except RuntimeError as error:
        log(repr(error.__cause__))
        raise ValueError("last")


def finally_raises(x):
    for i in range(2):
        try:
            if i:
                raise KeyError(x)
            continue
        finally:
            log(f"cleanup {i} {sys.exc_info()[0]}")
    return x


def finally_returns(x):
    try:
        raise KeyError(x)
    finally:
        log("swallowed")
        return x + 1


def as_is_deleted(x):
    try:
        raise KeyError(x)
    except KeyError as x:
        log(x)
    return x


def comprehensions(x):
    a = [i * x for i in range(3) if i != 1]
    b = {k: v for k, v in zip("ab", a)}
    c = {i % 2 for i in range(4)}
    d = sum(i + x for i in a)
    e = [[i * j for j in range(i)] for i in range(3)]
    f = [lambda: (i, x) for i in range(2)]
    return a, b, c, d, e, [g() for g in f]


def comprehension_shadows(i):
    a = [i for i in range(3)]
    try:
        b = [1 // i for i in (1, 0)]
    except ZeroDivisionError as error:
        b = str(error)
    return a, b, i


def mid_expression(x):
    return [
        log(x),
        (x + log(1)) * log(2),
        {"k": log(3), **{"m": log(4)}},
        f"{log(5)!r:>4}{x}",
        log(6) < log(7) < log(8),
        x and log(9) or log(10),
    ]


def calls(x):
    def inner(*args, **kwargs):
        return args, kwargs

    text = "a,b".split(log(","))
    return (
        inner(log(1), *[log(2), x], k=log(3), **{"m": log(4)}),
        inner(1, k=log(5)),
        text,
        max(log(1), log(2), key=lambda v: -v),
    )


def cells(x, y=2):
    total = 0

    def add(n):
        nonlocal total
        total += n * x
        return total

    for i in range(3):
        add(i)
    x = log(7)
    add(1)
    late = lambda: unset
    unset = y
    return total, late(), x


def cell_is_unset(x):
    def inner():
        return later  # noqa: F821

    log("before")
    try:
        inner()
    except NameError as e:
        log(e)
    if x:
        later = 1
    del later
    return inner()


def unbound_local(x):
    if not x:
        y = 1
    log("soon")
    return y


def star_arguments(a, /, b, *args, c=3, **kwargs):
    args = args + (log(a),)
    kwargs["b"] = b
    return a, b, args, c, kwargs


def sees_locals(x):
    if not x:
        early = 1
    for i in range(2):
        z = log(i)
    early = list(locals().items())
    q = lambda: early
    return early, sorted(locals()), q()


def unpack(x):
    a, (b, *c), d = x, (1, 2, 3), {4}
    a, b = b, a
    c[0] += 1
    c[:1] = [a, log(b)]
    x = not a
    del b
    return a, c, d, x, c[0:1], -a, +a, ~a, a is None, a in c


def matches(x):
    out = []
    for case in (x, [1, 2, 3], {"k": 5, "z": 1}, "text", None):
        match case:
            case int(n) if n > 0:
                out.append(n)
            case [first, *rest]:
                out.append((first, rest))
            case {"k": value, **others}:
                out.append((value, others))
            case None:
                out.append("none")
            case _:
                out.append(log(case))
    return out


def asserts(x):
    assert x, log("fine")
    import os.path as p
    from os import sep

    assert p and sep
    assert not x, log("message")


def exception_groups(x):
    try:
        raise ExceptionGroup("g", [ValueError(x), KeyError(x), TypeError(x)])
    except* ValueError as e:
        log(repr(e))
    except* KeyError as e:
        log(repr(e))
        raise IndexError("from handler")


def long_jumps(x):
    for i in range(3):
        if i == 1:
            log("middle")
            continue
        a = x + 1
        a = x + 2
        a = x + 3
        a = x + 4
        a = x + 5
        a = x + 6
        a = x + 7
        a = x + 8
        a = x + 9
        a = log(a) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a))
        a = log(a) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a))
        a = log(a) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a))
        a = log(a) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a)) + len(str(a))
    return a


class Base:
    def value(self, n):
        log(f"base {n}")
        return n


class Derived(Base):
    def value(self, n):
        first = super().value(n)
        second = super(Derived, self).value(n + 1)
        keep = lambda: self
        return first + second, keep() is self, __class__

    def plain(self, n):
        m = n + 1
        del n
        return super().value(m)

    def lost(self):
        copy = self
        del self
        log("gone")
        return super().value(copy)


def wraps(x):
    def decorate(fn):
        log(fn.__name__)
        return fn

    @decorate
    def inner(a: int, b=x, *, c: str = "c") -> int:
        "documented"
        return a + b

    class Local:
        field = x

        def method(self):
            return self.field

    return (
        inner(1),
        inner.__doc__,
        inner.__kwdefaults__,
        inner.__annotations__,
        Local().method(),
        Local.__qualname__,
    )


def lambda_default(x):
    return (lambda a, b=log(2): (a, b, x))(log(1))


def global_store(x):
    global COUNTER
    COUNTER = x
    COUNTER += log(1)
    return COUNTER


Row = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

d = Derived()
ROWS: list[Row] = [
    (loops, (4,), {}),
    (nested_with, (10,), {}),
    (with_raises, (1,), {}),
    (with_returns, (1,), {}),
    (handlers, (1,), {}),
    (bare_raise, ([],), {}),
    (raise_from, ({},), {}),
    (finally_raises, (1,), {}),
    (finally_returns, (1,), {}),
    (as_is_deleted, (1,), {}),
    (comprehensions, (3,), {}),
    (comprehension_shadows, (7,), {}),
    (mid_expression, (3,), {}),
    (calls, (9,), {}),
    (cells, (2,), {}),
    (cell_is_unset, (1,), {}),
    (unbound_local, (1,), {}),
    (star_arguments, (1, 2, 3, 4), {"c": 5, "z": 6}),
    (sees_locals, (1,), {}),
    (unpack, (1,), {}),
    (matches, (1,), {}),
    (asserts, (1,), {}),
    (exception_groups, (1,), {}),
    (long_jumps, (1,), {}),
    (Derived.value, (d, 1), {}),
    (Derived.plain, (d, 1), {}),
    (Derived.lost, (d,), {}),
    (wraps, (1,), {}),
    (lambda_default, (1,), {}),
    (global_store, (1,), {}),
]
FUNCTIONS: list[types.FunctionType] = [row[0] for row in ROWS]  # type: ignore[misc]
