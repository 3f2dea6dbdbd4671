"""Frames without tensors that one trace has to follow to their end, whatever they hand out."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import pytest

from framehook.testing import every_frame

log: list[Any] = []


def report(a, b=2, *rest, c=3, **named):
    log.append("begins")
    yield a, b, rest, c, named
    yield from rest


@contextlib.contextmanager
def entered(value):
    log.append("enters")
    yield value
    log.append("exits")


def _unused_generator():
    return report(1)


def _generator_with_all_arguments():
    return report(1, 5, *range(600), c=8, d=9)


def _generator_of_what_changes_behind():
    items = [1]
    generator = report(items, b=items)
    items.append(2)
    return items, generator, generator


def _generator_of_a_closure():
    count = 3

    def inner():
        nonlocal count
        count += 1
        yield count

    generator = inner()
    count = 10
    return generator, inner


def _generator_expression():
    return (item * 2 for item in [1, 2, 3])


def _generator_inside_of_its_argument():
    box = []
    box.append(report(box))
    return box


def _generator_that_refers_to_itself():
    def loop():
        yield it

    it = loop()
    return it


def _context_manager():
    return entered([1])


def _comparisons_of_slices():
    one, other = slice([1], 2), slice([1], 3, None)
    try:
        one < slice([1], None)
    except TypeError as error:
        text = str(error)
    same = slice([1], 2)
    return one == other, one != other, one < other, one >= other, one == same, one <= one, one == 3, text


def _looked_at(value, depth=0):
    if depth > 3:
        return ...
    if isinstance(value, types.GeneratorType):
        state = inspect.getgeneratorstate(value)
        return value.__qualname__, state, [_looked_at(item, depth + 1) for item in value]
    if isinstance(value, contextlib.AbstractContextManager):
        with value as inner:
            return inner
    if isinstance(value, (list, tuple)):
        return [*(_looked_at(item, depth + 1) for item in value), bool(value) and value[0] is value[-1]]
    return getattr(value, "__name__", value)


@pytest.mark.parametrize(
    "fn",
    [
        _unused_generator,
        _generator_with_all_arguments,
        _generator_of_what_changes_behind,
        _generator_of_a_closure,
        _generator_expression,
        _generator_inside_of_its_argument,
        _generator_that_refers_to_itself,
        _context_manager,
        _comparisons_of_slices,
    ],
    ids=lambda fn: fn.__name__,
)
def test_frame_is_traced_whole(fn: Callable[[], Any]) -> None:
    """Generators that have not begun are made again where they leave the frame."""

    def run() -> Any:
        log.clear()
        return _looked_at(fn()), list(log)

    expected = run()
    with every_frame() as capture:
        seen = [run() for _ in range(3)]
    assert seen == [expected] * 3
    stats = capture.stats()
    [counts] = [each for name, each in stats.functions.items() if name.startswith(f"{fn.__name__} (")]
    assert (counts.partial_frames, counts.eager_frames, stats.internal_errors) == (0, 0, 0)
    assert counts.whole_frames
