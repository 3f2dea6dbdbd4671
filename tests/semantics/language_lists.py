"""Small programs about sequences: lists, tuples, ranges, slices, deques, bytes, sorting, heaps and bisection."""

from __future__ import annotations

import array
import bisect
import collections
import heapq
import operator
from typing import Any

from torch import Tensor

from tests.semantics.language_table import program, tensors


class Stack(list):  # type: ignore[type-arg]
    """A list with a method and an attribute of its own."""

    def push(self, value: Any) -> Stack:
        self.append(value)
        self.pushed = getattr(self, "pushed", 0) + 1
        return self


class Pair(tuple):  # type: ignore[type-arg]
    """A tuple with a property."""

    __slots__ = ()

    @property
    def first(self) -> Any:
        return self[0]


class Ring(collections.deque):  # type: ignore[type-arg]
    """A deque with a method."""

    def turn(self) -> Any:
        self.rotate(-1)
        return self[0]


class Ordered:
    """Objects that are ordered by `<` alone."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank = rank
        self.name = name

    def __lt__(self, other: Ordered) -> bool:
        return self.rank < other.rank


def failures(*actions: Any) -> list[tuple[str, str]]:
    """The class and the text of what each action raises."""
    found = []
    for action in actions:
        try:
            action()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
        else:
            found.append(("", ""))
    return found


@program
def list_methods(x: Tensor, y: Tensor) -> Any:
    values: list[Any] = [3, "a", x]
    values.append(y)
    values.extend((1, 2))
    values.insert(1, "b")
    values.insert(-1, "c")
    values.insert(100, "d")
    values.remove("a")
    popped = values.pop(), values.pop(0), values.pop(-2), values.pop(1)
    values.reverse()
    copied = values.copy()
    values.clear()
    return values, copied, popped, copied.index(1), [1, "a", 1].count(1), x + 1


@program
def list_operators(x: Tensor, y: Tensor) -> Any:
    values = [1, 2] + [x] * 2
    same = values
    values += (y,)
    values *= 2
    repeated = 2 * [0]
    return (
        same is values,
        values,
        repeated,
        [] * 3,
        [1] * -1,
        [1, 2] < [1, 3],
        [1] == [1.0],
        x in [x, y],
        x + 1,
    )


@program
def list_slices(x: Tensor, y: Tensor) -> Any:
    values = list(range(10))
    values[2:4] = "abc"
    values[::3] = [0] * len(values[::3])
    del values[-2:]
    del values[::4]
    values[1:1] = [x]
    values[:0] = (y,)
    return values, values[::-1], values[-3:-1], values[5:2], values[slice(None, None, 2)], x + 1


@program
def list_errors(x: Tensor, y: Tensor) -> Any:
    values = [1, 2, 3]

    def assign() -> None:
        values[::2] = [1]

    return (
        failures(
            lambda: values[3],
            lambda: values["a"],  # type: ignore[call-overload]
            lambda: values.remove(9),
            lambda: values.index(9),
            lambda: values.index(1, 1),
            lambda: [].pop(),
            lambda: values.pop(7),
            lambda: values + (1,),  # type: ignore[operator]
            lambda: operator.setitem(values, 5, 1),
            lambda: operator.delitem(values, -4),
            assign,
        ),
        values,
        x + 1,
    )


@program
def aliases_of_a_list(x: Tensor, y: Tensor) -> Any:
    inner = [x]
    outer = [inner, inner, [*inner]]
    inner.append(y)
    rows = [[0] * 2] * 2
    rows[0][1] = 1
    return outer, outer[0] is outer[1], outer[2] is inner, rows, x + 1


@program
def a_list_that_grows_while_it_is_looked_through(x: Tensor, y: Tensor) -> Any:
    values = [1, 2, 3]
    for value in values:
        if len(values) < 6:
            values.append(value * 10)
    shrinking = [1, 2, 3, 4]
    seen = []
    for value in shrinking:
        seen.append(value)
        shrinking.remove(value)
    return values, seen, shrinking, x + 1


@program
def sorting(x: Tensor, y: Tensor) -> Any:
    rows = [("b", 2), ("a", 2), ("c", 1)]
    by_number = sorted(rows, key=lambda row: row[1])
    rows.sort(key=operator.itemgetter(1), reverse=True)
    words = sorted({"pear", "fig", "apple"}, key=len)
    return (
        by_number,
        rows,
        words,
        sorted("hello", reverse=True),
        sorted([3, 1, 2]),
        sorted({2: 0, 1: 0}),
        x + 1,
    )


@program
def sorting_objects_by_their_own_order(x: Tensor, y: Tensor) -> Any:
    items = [Ordered(2, "a"), Ordered(1, "b"), Ordered(2, "c"), Ordered(0, "d")]
    names = [item.name for item in sorted(items)]
    items.sort(reverse=True)
    return names, [item.name for item in items], min(items).name, max(items).name, x + 1


@program
def sorting_lists_of_lists(x: Tensor, y: Tensor) -> Any:
    rows = [[2, "a"], [1, "z"], [1, "b"]]
    rows.sort()
    pairs = [(x, 2), (y, 1)]
    pairs.sort(key=lambda pair: pair[1])
    return rows, pairs, sorted([(1, [2]), (1, [1])]), x + 1


@program
def sorting_with_a_key_that_raises(x: Tensor, y: Tensor) -> Any:
    values = [3, 0, 1]
    try:
        values.sort(key=lambda value: 1 // value)
    except ZeroDivisionError as error:
        text = str(error)
    return (
        values,
        text,
        failures(lambda: sorted([1, "a"]), lambda: sorted([x, None], key=lambda v: v is x)),
        x + 1,
    )  # type: ignore[type-var, list-item]


@program(arguments=lambda: (*tensors(), [3, 1, 2], ["b", "a"]), in_all=2)
def sorting_a_list_of_the_caller(x: Tensor, y: Tensor, numbers: list[int], names: list[str]) -> Any:
    numbers.sort()
    names.sort(key=lambda name: -ord(name))
    return sorted(numbers, reverse=True), x * numbers[0]


@program
def tuple_methods(x: Tensor, y: Tensor) -> Any:
    pair = (1, 2) + (x,)
    return (
        pair,
        pair * 2,
        pair[1:],
        pair.index(2),
        (1, 2, 1).count(1),
        pair[-1],
        hash((1, "a")) == hash((1, "a")),
        (1, 2) < (1, 3),
        x + 1,
    )


@program
def tuple_errors(x: Tensor, y: Tensor) -> Any:
    pair: Any = (1, 2)
    return (
        failures(
            lambda: pair[2],
            lambda: pair.index(9),
            lambda: operator.setitem(pair, 0, 1),
            lambda: operator.delitem(pair, 0),
            lambda: pair + [1],
            lambda: pair.append,
            lambda: hash(([],)),
        ),
        x + 1,
    )


@program
def ranges(x: Tensor, y: Tensor) -> Any:
    steps = range(10, 0, -3)
    return (
        list(steps),
        steps[1],
        steps[1:],
        list(reversed(steps)),
        len(steps),
        4 in steps,
        5 in steps,
        steps.index(7),
        steps.count(1),
        (steps.start, steps.stop, steps.step),
        range(3) == range(0, 3, 1),
        sum(range(5)),
        bool(range(0)),
        x + 1,
    )


@program
def slice_objects(x: Tensor, y: Tensor) -> Any:
    part = slice(1, None, 2)
    return (
        part,
        part.start,
        part.stop,
        part.step,
        part.indices(6),
        [0, 1, 2, 3][part],
        "abcd"[part],
        part == slice(1, None, 2),
        x[:, part] + 1,
    )


@program
def unpacking_sequences(x: Tensor, y: Tensor) -> Any:
    first, *middle, last = [1, x, y, 4]
    (a, b), c = (1, 2), "c"
    [*letters] = "xyz"
    return first, middle, last, a, b, c, letters, [*range(2), *"ab", *{"k": 1}], x + 1


@program
def a_subclass_of_list(x: Tensor, y: Tensor) -> Any:
    stack = Stack([1]).push(x).push(2)
    stack += [3]
    stack.reverse()
    return (
        stack,
        stack.pushed,
        len(stack),
        stack[0],
        stack[1:],
        list(stack),
        2 in stack,
        stack == [3, 2, x, 1][:4],
        x + 1,
    )


@program
def a_subclass_of_tuple(x: Tensor, y: Tensor) -> Any:
    pair = Pair([x, 2])
    first, second = pair
    return pair, pair.first, second, pair[1], len(pair), pair + (1,), isinstance(pair, tuple), x + 1


@program(arguments=lambda: (*tensors(), Stack([5, 6])), in_all=2)
def a_subclass_of_list_from_outside(x: Tensor, y: Tensor, stack: Stack) -> Any:
    stack.push(7)
    stack[0] = 1
    stack.sort(reverse=True)
    return x * len(stack), stack.pop(), stack.index(6)


@program(arguments=lambda: (*tensors(), [1, [2], 3]), in_all=2)
def a_list_of_the_caller(x: Tensor, y: Tensor, values: list[Any]) -> Any:
    inner = values[1]
    inner.extend([4, x])
    values[0], values[2] = values[2], values[0]
    del values[1]
    values.insert(0, values)
    return inner, values is values[0], x + len(values)


@program
def a_deque_as_a_queue(x: Tensor, y: Tensor) -> Any:
    queue: collections.deque[Any] = collections.deque([x])
    total = y.sum()
    depth = 0
    while queue:
        item = queue.popleft()
        total = total + item.sum()
        depth += 1
        if depth < 4:
            queue.extend([item + 1] * (depth % 2 + 1))
    return total, depth


@program(arguments=lambda: (*tensors(), collections.deque([1, 2, 3], maxlen=3)))
def a_deque_of_the_caller(x: Tensor, y: Tensor, queue: collections.deque[Any]) -> Any:
    queue.append(x + 1)
    queue.rotate(1)
    first = queue[0]
    return first * 2, len(queue), queue.maxlen, list(queue)[1:], first in queue


@program(arguments=lambda: (*tensors(), collections.deque([1, 2, 3])))
def a_deque_of_the_caller_is_read(x: Tensor, y: Tensor, queue: collections.deque[Any]) -> Any:
    return (
        x * queue[1] + sum(queue),
        len(queue),
        [item for item in reversed(queue)],
        queue.copy(),
        queue == collections.deque([1, 2, 3]),
    )


@program
def a_subclass_of_deque(x: Tensor, y: Tensor) -> Any:
    ring = Ring([1, 2, 3], 3)
    ring.append(x)
    return ring.turn(), x + 1, list(ring), len(ring), ring.maxlen, isinstance(ring, collections.deque)


@program
def comparing_deques(x: Tensor, y: Tensor) -> Any:
    deque = collections.deque
    return (
        deque([1, 2]) == deque([1, 2]),
        deque([1]) == [1],
        deque([1]) < deque([2]),
        deque([1]) != deque([1], 3),
        x + 1,
    )


@program(peer=0)
def a_heap(x: Tensor, y: Tensor) -> Any:
    heap: list[Any] = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    smallest = heapq.heappop(heap), heapq.heappushpop(heap, 3), heapq.heapreplace(heap, 9)
    return (
        heap,
        smallest,
        heapq.nlargest(2, heap),
        heapq.nsmallest(2, heap),
        list(heapq.merge([1, 4], [2, 3])),
        x + 1,
    )


@program(peer=0)
def a_heap_of_pairs(x: Tensor, y: Tensor) -> Any:
    heap: list[Any] = []
    for number, tensor in enumerate([x, y, x]):
        heapq.heappush(heap, (tensor.dim(), number, tensor))
    order = []
    while heap:
        _, number, tensor = heapq.heappop(heap)
        order.append((number, tensor + 1))
    return order


@program
def bisection(x: Tensor, y: Tensor) -> Any:
    values = [1, 3, 3, 5]
    places = bisect.bisect(values, 3), bisect.bisect_left(values, 3), bisect.bisect_right(values, 4)
    bisect.insort(values, 4)
    bisect.insort_left(values, 0)
    return values, places, bisect.bisect_left([(1, "a"), (2, "b")], 2, key=lambda row: row[0]), x + 1


@program
def bytes_methods(x: Tensor, y: Tensor) -> Any:
    data = b"ab,cd"
    return (
        data.split(b","),
        data[0],
        data[1:],
        data.upper(),
        data.decode(),
        data.hex(),
        b"-".join([b"a", b"b"]),
        data.find(b"c"),
        bytes([1, 2]),
        bytes(2),
        list(data),
        b"%d" % 3,
        x + 1,
    )


@program(reason="class bytearray is instantiated by C code")
def a_bytearray(x: Tensor, y: Tensor) -> Any:
    data = bytearray(b"abc")
    data.append(100)
    data[0] = 65
    data.extend(b"ef")
    return data, bytes(data), len(data), data[1], data.decode(), x + 1


@program(reason="class array is instantiated by C code")
def arrays_and_memoryviews(x: Tensor, y: Tensor) -> Any:
    numbers = array.array("i", [1, 2, 3])
    view = memoryview(b"abc")
    return list(numbers), numbers[1], view[1], view.tolist(), x + 1


@program
def identity_of_containers(x: Tensor, y: Tensor) -> Any:
    values = [1]
    again = values
    return values is again, values is [1], [] is [], values is not again, x is x, x is y, (x,)[0] is x, x + 1  # noqa: F632


@program
def comparing_sequences(x: Tensor, y: Tensor) -> Any:
    return (
        [1, 2] == (1, 2),
        [1, [2]] == [1, [2]],
        (1, 2) >= (1,),
        [] < [0],
        [1, 2] != [2, 1],
        [x] == [x],
        "a" < "b",
        failures(lambda: [1] < (1,)),
        x + 1,
    )  # type: ignore[operator]


@program
def comprehensions_with_conditions(x: Tensor, y: Tensor) -> Any:
    rows = [[i * j for j in range(3) if j != 1] for i in range(3)]
    return (
        rows,
        {i: x + i for i in range(2)},
        {i % 2 for i in range(5)},
        list(i for row in rows for i in row),
        x + 1,
    )


@program
def a_list_reversed_while_it_changes(x: Tensor, y: Tensor) -> Any:
    values = [1, 2, 3]
    backwards = reversed(values)
    first = next(backwards)
    values.append(4)
    values[0] = 9
    return first, list(backwards), x + 1


@program
def iterators_over_sequences_handed_out(x: Tensor, y: Tensor) -> Any:
    values = [1, 2, 3]
    over = iter(values)
    next(over)
    backwards = reversed(values)
    next(backwards)
    letters = iter("abc")
    next(letters)
    numbers = iter(range(4))
    next(numbers)
    values.append(4)
    return over, backwards, letters, numbers, x + 1


@program(
    arguments=lambda: (*tensors(), iter([1, 2, 3]), iter((4, 5)), iter(range(3)), iter("abc")),
    reason="__next__ of an object of class list_iterator is served by C code",
)
def iterators_over_sequences_of_the_caller(x: Tensor, y: Tensor, a: Any, b: Any, c: Any, d: Any) -> Any:
    return x + next(a), next(b), next(c), next(d), list(zip(a, b, strict=False))


@program(
    arguments=lambda: (
        *tensors(),
        iter([1, 2]),
        enumerate("ab"),
        zip([1], [2], strict=False),
        map(abs, [-1]),
    ),
    in_all=2,
    reason="__next__ of an object of class enumerate is served by C code",
)
def composed_iterators_of_the_caller(x: Tensor, y: Tensor, a: Any, b: Any, c: Any, d: Any) -> Any:
    return x + next(b)[0], list(c), list(d), [item for item in a], next(a, "end")


@program(arguments=lambda: (*tensors(), [[1, 2], [3]]))
def the_callers_nested_lists_are_flattened(x: Tensor, y: Tensor, rows: list[list[int]]) -> Any:
    flat = sum(rows, [])
    total = 0
    for index, row in enumerate(rows):
        for value in row:
            total += index * value
    return flat, x * total, max(rows, key=len)


@program(peer=0)
def deleting_from_sequences(x: Tensor, y: Tensor) -> Any:
    values = [0, x, y, 3, 4]
    del values[1], values[-1]
    del values[:1]
    name = values
    del values
    return name, failures(lambda: values), x + 1  # noqa: F821


@program
def special_methods_of_lists_by_name(x: Tensor, y: Tensor) -> Any:
    values = [1, 2]
    values.__setitem__(0, 5)
    values.__iadd__([3])
    return (
        values.__len__(),
        values.__contains__(5),
        values.__getitem__(1),
        values.__add__([4]),
        values.__eq__([5, 2, 3]),
        list(values.__iter__()),
        list(values.__reversed__()),
        list.append(values, x),
        values,
        (1,).__add__((2,)),
        x + 1,
    )


@program
def methods_through_the_class(x: Tensor, y: Tensor) -> Any:
    values = [1]
    list.extend(values, [2])
    return (
        values,
        list.__len__(values),
        tuple.index((1, 2), 2),
        str.upper("a"),
        dict.get({1: 2}, 1),
        set.union({1}, {2}),
        list(map(str.upper, "ab")),
        x + 1,
    )
