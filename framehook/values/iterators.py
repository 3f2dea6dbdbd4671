"""Iterators of builtins and itertools over symbolic values."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from framehook.values.base import ConstantValue, ObservedException, Tracer, Value
from framehook.values.sequences import IteratorValue, TupleValue


class ConstantIterator(IteratorValue):
    """An iterator over a constant (a string, bytes, a range)."""

    __slots__ = ("iterable", "position", "values")

    def __init__(self, iterable: Any) -> None:
        self.source = None
        self.iterable = iterable
        self.position = 0
        self.values: Sequence[Any] = (
            iterable if isinstance(iterable, (str, bytes, range, tuple)) else tuple(iterable)
        )

    def python_type(self) -> type:
        return type(iter(self.iterable))

    def next(self, tr: Tracer) -> Value | None:
        if self.position >= len(self.values):
            return None
        item = self.values[self.position]
        self.position += 1
        return ConstantValue(item)


class ListedIterator(IteratorValue):
    """An iterator over values that were fixed when it was made (dict views, sets, reversed lists)."""

    __slots__ = ("check", "cls", "elements", "origin", "position", "version")

    def __init__(
        self,
        elements: list[Value],
        cls: type,
        check: Callable[[Tracer], None] | None = None,
        origin: Value | None = None,
        version: int = 0,
    ) -> None:
        self.source = None
        self.elements = elements
        self.cls = cls
        self.position = 0
        self.check = check  # raises when the container changed under the iterator
        self.origin = origin  # what the real iterator would run over
        self.version = version  # of the origin, when the iterator was made

    def python_type(self) -> type:
        return self.cls

    def next(self, tr: Tracer) -> Value | None:
        if self.check is not None:
            self.check(tr)
        if self.position >= len(self.elements):
            return None
        item = self.elements[self.position]
        self.position += 1
        return item


class ComposedIterator(IteratorValue):
    """zip, map, enumerate, chain, islice, ...: a Python generator over symbolic values drives it.

    `parts` are the values it was made from, so that it can be rebuilt while untouched.
    """

    __slots__ = ("cls", "has_raised", "is_running", "is_strict", "parts", "run", "started")

    def __init__(self, cls: type, parts: list[Value], run: Iterator[Value], is_strict: bool = False) -> None:
        self.source = None
        self.is_strict = is_strict
        self.cls = cls
        self.parts = parts
        self.run = run
        self.started = False
        self.has_raised = False
        self.is_running = False

    def python_type(self) -> type:
        return self.cls

    def next(self, tr: Tracer) -> Value | None:
        self.started = True
        if self.is_running:
            tr.graph_break("call", f"{self.describe()} is asked for an element by what it runs over")
        if self.has_raised:
            tr.graph_break("exception", f"{self.describe()} goes on after an exception")
        self.is_running = True
        try:
            return next(self.run, None)
        except ObservedException:
            self.has_raised = True
            raise
        finally:
            self.is_running = False


class ItemIterator(Value):
    """The iterator that Python makes of an object with `__getitem__` only."""

    __slots__ = ("owner", "position")

    def __init__(self, owner: Value) -> None:
        self.source = None
        self.owner = owner
        self.position = 0

    def python_type(self) -> type:
        return type(iter(type("", (), {"__getitem__": None})()))

    def iterate(self, tr: Tracer) -> Value:
        return self

    def next(self, tr: Tracer) -> Value | None:
        position = self.position
        self.position += 1
        return tr.get_item_until_stop(self.owner, ConstantValue(position))


class CallIterator(IteratorValue):
    """`iter(fn, sentinel)`."""

    __slots__ = ("fn", "is_done", "sentinel")

    def __init__(self, fn: Value, sentinel: Value) -> None:
        self.source = None
        self.fn = fn
        self.sentinel = sentinel
        self.is_done = False

    def python_type(self) -> type:
        return type(iter(int, 1))

    def next(self, tr: Tracer) -> Value | None:
        item = None if self.is_done else tr.call_until_stop(self.fn)
        if item is None or tr.equals(self.sentinel, item):
            self.is_done = True
            return None
        return item


def _iterators(tr: Tracer, values: Sequence[Value]) -> list[Value]:
    return [tr.iterate(value) for value in values]


def make_zip(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """zip(*iterables, strict=False)."""
    if set(kwargs) - {"strict"}:
        tr.graph_break("exception", "zip() is called with other arguments")
    strict = "strict" in kwargs and kwargs["strict"].realize(tr).truth(tr)
    sources = _iterators(tr, args)

    def run() -> Iterator[Value]:
        from_tuple = tr.from_plain
        while sources:
            row: list[Value] = []
            for number, source in enumerate(sources):
                item = source.next(tr)
                if item is None:
                    if strict:
                        _check_ends(tr, sources, number)
                    return
                row.append(item)
            yield from_tuple(tuple(row))

    return ComposedIterator(zip, list(sources), run(), is_strict=strict)


def _check_ends(tr: Tracer, sources: list[Value], ended: int) -> None:
    """Raise what zip(strict=True) raises when one iterable has ended (CPython: zip_next)."""

    def differ(number: int, how: str) -> None:
        others = " 1" if number == 1 else f"s 1-{number}"
        tr.throw(ValueError, f"zip() argument {number + 1} is {how} than argument{others}")

    if ended:
        differ(ended, "shorter")
    for number, source in enumerate(sources[1:], 1):
        if source.next(tr) is not None:
            differ(number, "longer")


def make_map(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """map(fn, *iterables)."""
    if kwargs or len(args) < 2:
        tr.graph_break("exception", "map() is called with other arguments")
    fn = args[0]
    sources = _iterators(tr, args[1:])

    def run() -> Iterator[Value]:
        while True:
            row = []
            for source in sources:
                item = source.next(tr)
                if item is None:
                    return
                row.append(item)
            yield tr.call(fn, row, {})

    return ComposedIterator(map, [fn, *sources], run())


def make_filter(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """filter(fn or None, iterable)."""
    if kwargs or len(args) != 2:
        tr.graph_break("exception", "filter() is called with other arguments")
    fn, iterable = args
    source = tr.iterate(iterable)
    predicate = fn.realize(tr)
    keep_true = isinstance(predicate, ConstantValue) and predicate.value is None

    def run() -> Iterator[Value]:
        while (item := source.next(tr)) is not None:
            answer = item if keep_true else tr.call(fn, [item], {})
            if tr.truth(answer):
                yield item

    return ComposedIterator(filter, [fn, source], run())


def make_enumerate(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """enumerate(iterable, start=0)."""
    if (
        set(kwargs) - {"iterable", "start"}
        or not 1 <= len(args) + len(kwargs) <= 2
        or not (args or "iterable" in kwargs)
    ):
        tr.graph_break("exception", "enumerate() is called with other arguments")
    iterable = args[0] if args else kwargs["iterable"]
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantValue(0))
    first = start.realize(tr)
    if not isinstance(first, ConstantValue) or not isinstance(first.value, int):
        tr.graph_break("call", "enumerate() starts at a number that is not constant")
    source = tr.iterate(iterable)
    parts: list[Value] = [source, first]

    def run() -> Iterator[Value]:
        number = first.value
        while (item := source.next(tr)) is not None:
            parts[1] = ConstantValue(number + 1)
            yield tr.from_plain((ConstantValue(number), item))
            number += 1

    return ComposedIterator(enumerate, parts, run())


def make_chain(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.chain(*iterables)."""
    parts = list(args)

    def run() -> Iterator[Value]:
        while parts:
            parts[0] = source = tr.iterate(parts[0])
            while (item := source.next(tr)) is not None:
                yield item
            del parts[0]

    return ComposedIterator(itertools.chain, parts, run())


def make_chain_of(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.chain.from_iterable(iterables)."""
    if kwargs or len(args) != 1:
        tr.graph_break("call", "from_iterable() is called with other arguments")
    iterables = tr.iterate(args[0])

    def run() -> Iterator[Value]:
        while (each := iterables.next(tr)) is not None:
            source = tr.iterate(each)
            while (item := source.next(tr)) is not None:
                yield item

    # An unused one is `chain(*iterables)` only once the iterables are known, so it is never rebuilt.
    return ComposedIterator(itertools.chain, [], run(), is_strict=True)


def make_islice(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.islice(iterable, [start,] stop[, step])."""
    bounds = []
    for arg in args[1:]:
        bound = arg.realize(tr)
        if not isinstance(bound, ConstantValue):
            tr.graph_break("call", "islice() with bounds that are not constant")
        bounds.append(bound.value)
    places: list[Value] = []

    def elements() -> Iterator[Value]:
        source = places[0]
        while (item := source.next(tr)) is not None:
            yield item

    try:
        run = itertools.islice(elements(), *bounds)
    except (TypeError, ValueError) as error:
        tr.throw(type(error), *error.args)
    places.append(tr.iterate(args[0]))
    return ComposedIterator(itertools.islice, [*places, *args[1:]], run)


def make_repeat(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.repeat(object[, times])."""
    times = args[1] if len(args) > 1 else kwargs.get("times")
    if times is None:
        return ComposedIterator(itertools.repeat, list(args), itertools.repeat(args[0]))
    count = times.realize(tr)
    if not isinstance(count, ConstantValue) or not isinstance(count.value, int) or count.value > sys.maxsize:
        tr.graph_break("call", "repeat() a number of times that is not constant")
    parts: list[Value] = [args[0], count]

    def run() -> Iterator[Value]:
        for left in range(count.value - 1, -1, -1):
            parts[1] = ConstantValue(left)
            yield args[0]

    return ComposedIterator(itertools.repeat, parts, run())


def make_product(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.product(*iterables, repeat=1)."""
    repeat = kwargs["repeat"].realize(tr) if "repeat" in kwargs else ConstantValue(1)
    if (
        not isinstance(repeat, ConstantValue)
        or not isinstance(repeat.value, int)
        or not 0 <= repeat.value < 100
    ):
        tr.graph_break("call", "product() with a repeat that is not constant")
    pools = [tr.drain(arg) for arg in args]
    rows = (tr.from_plain(row) for row in itertools.product(*pools, repeat=repeat.value))
    parts: list[Value] = [TupleValue(pool) for pool in pools]
    return ComposedIterator(itertools.product, parts * max(repeat.value, 0), rows)


def make_count(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.count(start=0, step=1)."""
    first, step = ConstantValue(0), ConstantValue(1)
    given = dict(zip(("start", "step"), args, strict=False))
    plain = [
        ({**given, **kwargs}).get(name, value).realize(tr)
        for name, value in (("start", first), ("step", step))
    ]
    if set(kwargs) - {"start", "step"} or len(args) > 2 or set(given) & set(kwargs):
        tr.graph_break("exception", "count() is called with other arguments")
    numbers = [value.value for value in plain if isinstance(value, ConstantValue)]
    if len(numbers) < 2 or not all(type(number) in (int, float) for number in numbers):
        tr.graph_break("call", "count() from a number that is not constant")
    counter = itertools.count(*numbers)

    def run() -> Iterator[Value]:
        # What it gives next is known without asking: so it can be rebuilt at any time.
        for number in counter:
            plain[0] = ConstantValue(number + numbers[1])
            yield ConstantValue(number)

    return ComposedIterator(itertools.count, plain, run())


def make_accumulate(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.accumulate(iterable[, func, *, initial=None])."""
    source = tr.iterate(args[0])
    fn = args[1] if len(args) > 1 else kwargs.get("func")
    initial = kwargs.get("initial")

    def run() -> Iterator[Value]:
        total = initial
        if total is not None:
            yield total
        while (item := source.next(tr)) is not None:
            if total is None:
                total = item
            else:
                total = tr.binary("+", total, item) if fn is None else tr.call(fn, [total, item], {})
            yield total

    parts = [source] if fn is None else [source, fn]
    return ComposedIterator(itertools.accumulate, parts, run(), is_strict=initial is not None)


def _eager_rows(fn: Any) -> Callable[[Tracer, Sequence[Value], dict[str, Value]], Value]:
    """An iterator that reads its whole iterable when it is made (combinations and the like)."""

    def make(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        count = args[1] if len(args) > 1 else kwargs.get("r", ConstantValue(None))
        length = count.realize(tr)
        if not args or len(args) > 2 or set(kwargs) - {"r"} or not isinstance(length, ConstantValue):
            tr.graph_break("call", f"{fn.__name__}() is called with other arguments")
        if type(length.value) is not int and not (length.value is None and fn is itertools.permutations):
            tr.graph_break("exception", f"{fn.__name__}() of a length that is no number")
        if type(length.value) is int and length.value < 0:
            tr.throw(ValueError, "r must be non-negative")
        pool = tr.drain(args[0])
        rows = (tr.from_plain(row) for row in fn(pool, length.value))
        return ComposedIterator(fn, [TupleValue(pool), length], rows)

    return make


def _over(
    fn: Any, takes_function: bool, run: Callable[[Tracer, Value, Value], Iterator[Value]]
) -> Callable[[Tracer, Sequence[Value], dict[str, Value]], Value]:
    """An iterator over one other: `run(tr, function or second argument, source)` drives it."""

    def make(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if kwargs or len(args) != 2:
            tr.graph_break("call", f"{fn.__name__}() is called with other arguments")
        if takes_function:
            source = tr.iterate(args[1])
            return ComposedIterator(fn, [args[0], source], run(tr, args[0], source))
        source, chosen = tr.iterate(args[0]), tr.iterate(args[1])
        return ComposedIterator(fn, [source, chosen], run(tr, chosen, source))

    return make


def _take_while(tr: Tracer, predicate: Value, source: Value) -> Iterator[Value]:
    while (item := source.next(tr)) is not None and tr.truth(tr.call(predicate, [item], {})):
        yield item


def _drop_while(tr: Tracer, predicate: Value, source: Value) -> Iterator[Value]:
    while (item := source.next(tr)) is not None:
        if not tr.truth(tr.call(predicate, [item], {})):
            yield item
            break
    while (item := source.next(tr)) is not None:
        yield item


def _filter_false(tr: Tracer, predicate: Value, source: Value) -> Iterator[Value]:
    test = predicate.realize(tr)
    keeps_false = isinstance(test, ConstantValue) and test.value is None
    while (item := source.next(tr)) is not None:
        if not tr.truth(item if keeps_false else tr.call(test, [item], {})):
            yield item


def _star_map(tr: Tracer, fn: Value, source: Value) -> Iterator[Value]:
    while (item := source.next(tr)) is not None:
        yield tr.call(fn, tr.drain(item), {})


def _compress(tr: Tracer, selectors: Value, source: Value) -> Iterator[Value]:
    while (item := source.next(tr)) is not None and (choice := selectors.next(tr)) is not None:
        if tr.truth(choice):
            yield item


def make_pairwise(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.pairwise(iterable)."""
    if kwargs or len(args) != 1:
        tr.graph_break("call", "pairwise() is called with other arguments")
    source = tr.iterate(args[0])

    def run() -> Iterator[Value]:
        before = source.next(tr)
        while before is not None and (item := source.next(tr)) is not None:
            yield tr.from_plain((before, item))
            before = item

    return ComposedIterator(itertools.pairwise, list(args), run())


def make_zip_longest(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.zip_longest(*iterables, fillvalue=None)."""
    fill = kwargs.get("fillvalue", ConstantValue(None))
    if set(kwargs) - {"fillvalue"}:
        tr.graph_break("call", "zip_longest() is called with other arguments")
    sources: list[Value | None] = list(_iterators(tr, args))

    def run() -> Iterator[Value]:
        while True:
            row: list[Value] = []
            for number, source in enumerate(sources):
                item = source.next(tr) if source is not None else None
                if item is None:
                    sources[number] = None
                    if not any(sources):
                        return
                row.append(fill if item is None else item)
            if not row:
                return
            yield tr.from_plain(tuple(row))

    return ComposedIterator(itertools.zip_longest, list(args), run(), is_strict="fillvalue" in kwargs)


def make_batched(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.batched(iterable, n)."""
    given = args[1] if len(args) > 1 else kwargs.get("n")
    if set(kwargs) - {"n"} or len(args) + len(kwargs) != 2 or given is None:
        tr.graph_break("exception", "batched() is called with other arguments")
    size = given.realize(tr)
    if not isinstance(size, ConstantValue) or type(size.value) is not int:
        tr.graph_break("call", "batched() of a length that is no constant")
    if size.value < 1:
        tr.throw(ValueError, "n must be at least one")
    source = tr.iterate(args[0])

    def run() -> Iterator[Value]:
        while True:
            batch: list[Value] = []
            while len(batch) < size.value and (item := source.next(tr)) is not None:
                batch.append(item)
            if batch:
                yield TupleValue(batch)
            if len(batch) < size.value:
                return

    return ComposedIterator(itertools.batched, [source, size], run())  # type: ignore[attr-defined]


def make_cycle(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """itertools.cycle(iterable)."""
    if kwargs or len(args) != 1:
        tr.graph_break("call", "cycle() is called with other arguments")
    source = tr.iterate(args[0])

    def run() -> Iterator[Value]:
        seen = []
        while (item := source.next(tr)) is not None:
            seen.append(item)
            yield item
        while seen:
            yield from seen

    return ComposedIterator(itertools.cycle, list(args), run())


Maker = Callable[[Tracer, Sequence[Value], dict[str, Value]], Value]


def _taking(least: int, most: int | None, names: str, make: Maker) -> Maker:
    """A maker that is called with so many positional arguments and these keywords only; else the native call."""
    known = frozenset(names.split())

    def checked(tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if not least <= len(args) <= (len(args) if most is None else most) or not known.issuperset(kwargs):
            tr.graph_break(
                "exception", f"{make.__name__.removeprefix('make_')}() is called with other arguments"
            )
        return make(tr, args, kwargs)

    return checked


#: Constructors by the class that the traced program calls.
MAKERS: dict[Any, Maker] = {
    zip: _taking(0, None, "strict", make_zip),
    map: _taking(2, None, "", make_map),
    filter: _taking(2, 2, "", make_filter),
    enumerate: _taking(0, 2, "iterable start", make_enumerate),
    itertools.chain: _taking(0, None, "", make_chain),
    itertools.islice: _taking(2, 4, "", make_islice),
    itertools.repeat: _taking(1, 2, "times", make_repeat),
    itertools.product: _taking(0, None, "repeat", make_product),
    itertools.count: _taking(0, 2, "start step", make_count),
    itertools.accumulate: _taking(1, 2, "func initial", make_accumulate),
    itertools.combinations: _eager_rows(itertools.combinations),
    itertools.combinations_with_replacement: _eager_rows(itertools.combinations_with_replacement),
    itertools.permutations: _eager_rows(itertools.permutations),
    itertools.takewhile: _over(itertools.takewhile, True, _take_while),
    itertools.dropwhile: _over(itertools.dropwhile, True, _drop_while),
    itertools.filterfalse: _over(itertools.filterfalse, True, _filter_false),
    itertools.starmap: _over(itertools.starmap, True, _star_map),
    itertools.compress: _over(itertools.compress, False, _compress),
    itertools.pairwise: make_pairwise,
    itertools.zip_longest: make_zip_longest,
    itertools.cycle: make_cycle,
}
if hasattr(itertools, "batched"):
    MAKERS[itertools.batched] = make_batched
