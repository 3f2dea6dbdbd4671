"""Small programs about containers, iterators and texts, each of which has to become one graph."""

from __future__ import annotations

import collections
import itertools
import operator
import types
from typing import Any

from torch import Tensor

from tests.semantics.language_table import program, tensors


@program
def deque_methods(x: Tensor, y: Tensor) -> Any:
    queue = collections.deque([1, 2, 3], maxlen=3)
    queue.append(x)
    queue.appendleft(0)
    queue.rotate(1)
    queue.extend([7, 8])
    queue.extendleft([9])
    letters = collections.deque("abc")
    letters.insert(1, "z")
    letters.remove("c")
    letters.reverse()
    letters[0] = "q"
    del letters[1]
    return (
        queue,
        list(reversed(queue)),
        queue.maxlen,
        8 in queue,
        letters + letters.copy(),
        letters * 2,
        x + 1,
    )


@program
def deque_errors(x: Tensor, y: Tensor) -> Any:
    found = []
    for change in (
        lambda q: q.pop(),
        lambda q: q[3],
        lambda q: [q.append(v) for v in q],
        lambda q: q.insert(0, 1),
    ):
        try:
            change(collections.deque([1][len(found) // 3 :] if found else [], maxlen=1))
        except (IndexError, RuntimeError) as error:
            found.append(repr(error))
    return found, x + 1


@program
def values_of_a_dict_are_read_as_they_are_reached(x: Tensor, y: Tensor) -> Any:
    table = {"a": 1, "b": 2}
    seen = []
    for _, value in table.items():
        table["b"] = 100
        seen.append(value)
    backwards = reversed(table.values())
    table["a"] = 9
    return seen, list(backwards), x + 1


@program
def a_dict_that_grows_under_its_iterator(x: Tensor, y: Tensor) -> Any:
    table = {"a": 1}
    try:
        for key in table:
            table[key + "x"] = 1
    except RuntimeError as error:
        return str(error), table, x + 1


@program
def order_matters_between_ordered_dicts(x: Tensor, y: Tensor) -> Any:
    ordered = collections.OrderedDict
    return ordered(a=1, b=2) == ordered(b=2, a=1), ordered(a=1, b=2) == {"b": 2, "a": 1}, x + 1


@program(peer=0)
def counters_and_keys(x: Tensor, y: Tensor) -> Any:
    counted = collections.Counter("abca")
    counted["z"] += 2
    return counted, counted["nope"], counted.most_common(1), dict.fromkeys("ab", x), x + 1


@program
def combinatorics(x: Tensor, y: Tensor) -> Any:
    return (
        list(itertools.combinations([x, 1, 2], 2)),
        list(itertools.permutations("ab")),
        list(itertools.zip_longest([1], [2, 3], fillvalue=0)),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 3, 1])),
        list(itertools.filterfalse(None, [0, 1, ""])),
        list(itertools.starmap(pow, [(2, 3)])),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.pairwise([x, y, 3])),
        list(itertools.islice(itertools.cycle("ab"), 5)),
        list(itertools.chain.from_iterable([[1], "a"])),
        x + 1,
    )


@program
def iterators_that_are_handed_out_unused(x: Tensor, y: Tensor) -> Any:
    iterators = (
        itertools.accumulate([1, 2, 3], operator.mul),
        itertools.product([1, 2], repeat=2),
        itertools.repeat(7, 2),
        itertools.combinations(iter([1, 2, 3]), 2),
    )
    return [list(each) for each in iterators], x + 1


@program
def getters(x: Tensor, y: Tensor) -> Any:
    return (
        operator.itemgetter(1, 0)([x, 1]),
        operator.attrgetter("shape", "dtype")(x),
        operator.methodcaller("split", ",")("a,b"),
        operator.methodcaller("sum", dim=0)(x),
        sorted([(1, "b"), (0, "z")], key=operator.itemgetter(1)),
        operator.methodcaller("mul", 2),
    )[:5]


@program(peer=0)
def texts_of_exceptions(x: Tensor, y: Tensor) -> Any:
    found = []
    for fail in (
        lambda: 1 / 0,
        lambda: {}["k"],
        lambda: [][1],
        lambda: int("z"),
        lambda: None.missing,  # type: ignore[attr-defined]
        lambda: missing_name,  # type: ignore[name-defined] # noqa: F821
        lambda: [1] < ["a"],  # type: ignore[operator]
        lambda: len(3),  # type: ignore[arg-type]
    ):
        try:
            fail()
        except Exception as error:
            found.append((str(error), repr(error), error.args))
    return found, x + 1


@program
def formatted_by_a_mapping(x: Tensor, y: Tensor) -> Any:
    return "%(a)s-%(b)d" % {"a": 1, "b": 2}, f"{10:#x}{3.14159:{5}.{2}}", x + 1


@program(peer=0)
def namespaces(x: Tensor, y: Tensor) -> Any:
    space = types.SimpleNamespace(a=1)
    space.b = x
    del space.a
    space.a = 3
    return space, list(vars(space)), space.b + 1


@program(arguments=lambda: (*tensors(), slice(0, 2)))
def a_slice_as_argument(x: Tensor, y: Tensor, part: slice) -> Any:
    return x[part] + 1, [1, 2, 3][part], part.stop
