"""Small programs about dicts and their kin, and sets."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from torch import Tensor

from tests.semantics.language_lists import failures
from tests.semantics.language_table import program, tensors


class Defaults(dict):  # type: ignore[type-arg]
    """A dict that makes what is missing."""

    def __missing__(self, key: Any) -> Any:
        self[key] = made = [key]
        return made


class Lower(dict):  # type: ignore[type-arg]
    """A dict that changes its keys."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key.lower(), value)

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key.lower())


class AttributeDict(dict):  # type: ignore[type-arg]
    """The attribute access that many configurations have."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Table(MutableMapping):  # type: ignore[type-arg]
    """A mapping by its abstract base class."""

    def __init__(self, **rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, key: str) -> Any:
        return self.rows[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.rows[key] = value

    def __delitem__(self, key: str) -> None:
        del self.rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Point:
    """A key with an equality of its own."""

    def __init__(self, a: int, b: int) -> None:
        self.a = a
        self.b = b

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.a, self.b) == (other.a, other.b)

    def __hash__(self) -> int:
        return hash((self.a, self.b))


@program
def dict_methods(x: Tensor, y: Tensor) -> Any:
    table: dict[Any, Any] = {"a": 1, "b": x}
    table.update({"c": 3}, d=4)
    table.update([("e", 5)])
    table |= {"f": 6}
    found = (
        table.get("a"),
        table.get("z"),
        table.get("z", 0),
        table.setdefault("g", 7),
        table.setdefault("a", 0),
    )
    popped = table.pop("b"), table.pop("nope", None), table.popitem()
    return table, found, popped, list(table), len(table), "c" in table, table.copy() == table, x + 1


@program
def dict_construction(x: Tensor, y: Tensor) -> Any:
    return (
        dict(a=1),
        dict([("a", x)], b=2),
        dict({1: 2}),
        dict(zip("ab", [1, 2])),
        {**{"a": 1}, "b": 2},
        dict.fromkeys("ab"),
        {"a": 1} | {"b": 2},
        {k: v for k, v in [(1, y)]},
        x + 1,
    )  # noqa: B905


@program
def dict_errors(x: Tensor, y: Tensor) -> Any:
    table: dict[Any, Any] = {"a": 1}
    return (
        failures(
            lambda: table["b"],
            lambda: table.pop("b"),
            lambda: {}.popitem(),
            lambda: table[[]],
            lambda: {}[1, 2],
            lambda: table.missing,  # type: ignore[attr-defined]
            lambda: table < table,  # type: ignore[operator]
            lambda: table + table,  # type: ignore[operator]
            lambda: dict([(1, 2, 3)]),  # type: ignore[list-item]
            lambda: dict([1]),  # type: ignore[list-item]
        ),
        x + 1,
    )


@program
def views_and_their_algebra(x: Tensor, y: Tensor) -> Any:
    left, right = {"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5}
    keys = left.keys()
    left["e"] = 6
    return (
        sorted(keys & right.keys()),
        sorted(keys | right.keys()),
        sorted(keys - right.keys()),
        sorted(keys ^ right.keys()),
        sorted(left.items() & right.items()),
        keys == {"a", "b", "c", "e"},
        keys >= {"a"},
        keys.isdisjoint({"z"}),
        2 in left.values(),
        ("a", 1) in left.items(),
        len(keys),
        list(reversed(keys)),
        x + 1,
    )


@program
def views_are_handed_out(x: Tensor, y: Tensor) -> Any:
    table = {"a": x, "b": 2}
    keys, values, items = table.keys(), table.values(), table.items()
    table["c"] = 3
    return list(keys), list(values), list(items), type(keys), keys, x + 1


@program
def insertion_order(x: Tensor, y: Tensor) -> Any:
    table = {"a": 1, "b": 2, "c": 3}
    del table["a"]
    table["a"] = 4
    table["b"] = 5
    return list(table), list(table.items()), next(iter(table)), next(reversed(table)), x + 1


@program
def a_dict_changed_while_it_is_looked_through(x: Tensor, y: Tensor) -> Any:
    def grow(table: dict[str, int]) -> None:
        for key in table:
            table[key + "x"] = 1

    def shrink(table: dict[str, int]) -> None:
        for key in table.keys():
            del table[key]

    def items(table: dict[str, int]) -> None:
        for key, value in table.items():
            table[key * 2] = value

    kept = {"a": 1, "b": 2}
    for key in kept:
        kept[key] += 10
    for key in list(kept):
        if kept[key] == 11:
            del kept[key]
    return (
        failures(lambda: grow({"a": 1}), lambda: shrink({"a": 1, "b": 2}), lambda: items({"a": 1})),
        kept,
        x + 1,
    )


@program
def keys_of_many_types(x: Tensor, y: Tensor) -> Any:
    table: dict[Any, Any] = {
        1: "a",
        1.0: "b",  # noqa: F601
        True: "c",  # noqa: F601
        "1": "d",
        None: "e",
        (1, 2): "f",
        frozenset({1}): "g",
        b"": "h",
    }
    return table, table[1], table[(1, 2)], table[None], table[frozenset([1])], {int: 1, str: 2}[str], x + 1


@program(peer=0)
def plain_objects_as_keys(x: Tensor, y: Tensor) -> Any:
    here, there = object(), object()
    table = {here: 1, there: 2}
    names = {len: "len", max: "max"}
    return table[here], there in table, names[max], names.get(min), x + 1


@program(peer=0)
def keys_with_their_own_equality(x: Tensor, y: Tensor) -> Any:
    table = {Point(1, 2): "a"}
    table[Point(1, 2)] = "b"
    table[Point(2, 1)] = "c"
    points = {Point(0, 0), Point(0, 0), Point(0, 1)}
    return (
        len(table),
        table[Point(1, 2)],
        Point(2, 1) in table,
        table.get(Point(9, 9)),
        len(points),
        Point(0, 1) in points,
        x + 1,
    )


@program
def tensors_as_keys(x: Tensor, y: Tensor) -> Any:
    table = {x: "x", y: "y"}
    return table[x], table[y], x in table, len({x, y, x}), x + 1


@program
def an_ordered_dict(x: Tensor, y: Tensor) -> Any:
    table = collections.OrderedDict([("a", 1), ("b", x)])
    table["c"] = 3
    table.move_to_end("a")
    table.move_to_end("c", last=False)
    first = table.popitem(last=False)
    table.update(d=4)
    return (
        table,
        first,
        list(reversed(table)),
        list(table.values()),
        table.copy(),
        table | {"z": 0},
        table == {"a": 1, "d": 4, "b": x},
        x + 1,
    )


@program
def errors_of_an_ordered_dict(x: Tensor, y: Tensor) -> Any:
    table = collections.OrderedDict(a=1)
    return (
        failures(
            lambda: table.move_to_end("z"),
            lambda: table.pop("z"),
            lambda: collections.OrderedDict().popitem(),
            lambda: table["q"],
        ),
        table.pop("z", 5),
        x + 1,
    )


@program
def a_defaultdict(x: Tensor, y: Tensor) -> Any:
    groups: Any = collections.defaultdict(list)
    for name, value in [("a", 1), ("b", x), ("a", 2)]:
        groups[name].append(value)
    counts: Any = collections.defaultdict(int, a=5)
    counts["a"] += 1
    counts["b"] += 1
    nested: Any = collections.defaultdict(lambda: collections.defaultdict(int))
    nested["p"]["q"] += 3
    return (
        groups,
        counts,
        counts.get("z"),
        "z" in counts,
        nested["p"]["q"],
        groups.default_factory,
        failures(lambda: collections.defaultdict(None)["k"]),
        x + 1,
    )


@program(peer=0)
def copies_of_a_defaultdict(x: Tensor, y: Tensor) -> Any:
    counts: Any = collections.defaultdict(int, a=1)
    copied = counts.copy()
    copied["z"] += 1
    return counts, copied, counts | {"b": 2}, dict(counts), counts == {"a": 1}, list(counts.items()), x + 1


@program(peer=0)
def a_counter(x: Tensor, y: Tensor) -> Any:
    counted = collections.Counter("mississippi")
    counted.update("pp")
    counted.subtract({"i": 1})
    other = collections.Counter(s=1, z=2)
    return (
        counted,
        counted.most_common(2),
        sorted(counted.elements()),
        counted.total(),
        counted + other,
        counted - other,
        counted & other,
        counted | other,
        counted["none"],
        +collections.Counter(a=1, b=-1),
        counted == collections.Counter(counted),
        x + 1,
    )


@program
def counting_in_a_loop(x: Tensor, y: Tensor) -> Any:
    counted: Any = collections.Counter()
    for tensor in (x, y, x):
        counted[tensor.dim()] += 1
    del counted[1]
    counted.update({2: 3})
    return counted, sum(counted.values()), counted.most_common(), x + 1


@program
def a_chain_map(x: Tensor, y: Tensor) -> Any:
    chain = collections.ChainMap({"a": 1}, {"a": 2, "b": x})
    child = chain.new_child({"c": 3})
    child["b"] = 4
    return (
        child["a"],
        child["b"],
        chain["b"],
        "c" in chain,
        list(child),
        len(child),
        child.maps,
        chain.parents.maps,
        dict(child),
        child.get("z", 0),
        failures(lambda: chain["z"]),
        x + 1,
    )


@program(peer=0)
def a_mapping_proxy(x: Tensor, y: Tensor) -> Any:
    table = {"a": 1, "b": x}
    proxy: Any = types.MappingProxyType(table)
    table["c"] = 3

    def store() -> None:
        proxy["d"] = 1

    return (
        proxy["a"],
        list(proxy),
        len(proxy),
        "c" in proxy,
        proxy.get("z"),
        list(proxy.items()),
        dict(proxy),
        proxy | {"q": 1},
        failures(store, lambda: proxy["nope"]),
        x + 1,
    )


@program(arguments=lambda: (*tensors(), types.MappingProxyType({"a": 2, "b": 3})))
def a_mapping_proxy_of_the_caller(x: Tensor, y: Tensor, proxy: Any) -> Any:
    return x * proxy["a"], list(proxy), proxy.get("z", 1), "b" in proxy


@program
def a_user_dict(x: Tensor, y: Tensor) -> Any:
    table: Any = collections.UserDict(a=1)
    table["b"] = x
    names: Any = collections.UserList([1, 2])
    names.append(3)
    text = collections.UserString("abc")
    return (
        table["a"],
        list(table),
        len(table),
        "b" in table,
        table.data,
        names[0],
        list(names),
        names + [4],
        text.upper().data,
        x + 1,
    )


@program
def a_dict_that_fills_itself(x: Tensor, y: Tensor) -> Any:
    table = Defaults(a=1)
    table["b"].append(2)
    return table, table["a"], table.get("z"), "z" in table, len(table), x + 1


@program
def a_dict_with_its_own_items(x: Tensor, y: Tensor) -> Any:
    table = Lower()
    table["ABC"] = 1
    return table["Abc"], list(table), table, x + 1


@program
def a_dict_with_attributes(x: Tensor, y: Tensor) -> Any:
    config = AttributeDict(size=3, name="n")
    config.depth = 2
    config["extra"] = x
    return (
        config.size * x,
        config.depth,
        config.extra,
        hasattr(config, "nope"),
        config,
        {**config},
        dict(config),
        x + 1,
    )


@program(arguments=lambda: (*tensors(), AttributeDict(size=2, deep=AttributeDict(scale=3))), in_all=2)
def a_dict_with_attributes_from_outside(x: Tensor, y: Tensor, config: Any) -> Any:
    config.seen = config.get("seen", 0) + 1
    return x * config.size * config.deep.scale, list(config), "size" in config


@program
def a_mapping_by_its_base_class(x: Tensor, y: Tensor) -> Any:
    table = Table(a=1)
    table["b"] = x
    table.update(c=3)
    del table["a"]
    return (
        dict(table),
        list(table.keys()),
        list(table.items()),
        table.get("z"),
        table.pop("c"),
        table.setdefault("d", 4),
        "b" in table,
        isinstance(table, Mapping),
        len(table),
        {**table},
        table == {"b": x, "d": 4},
        x + 1,
    )


@program
def set_methods(x: Tensor, y: Tensor) -> Any:
    numbers = {1, 2, 3}
    numbers.add(4)
    numbers.discard(9)
    numbers.remove(1)
    numbers.update([5], (6,))
    numbers.difference_update({6})
    numbers.intersection_update(range(10))
    numbers.symmetric_difference_update({2, 7})
    copied = numbers.copy()
    copied.clear()
    return (
        numbers,
        copied,
        numbers.union([8]),
        numbers.intersection({3}),
        numbers.difference({3}),
        numbers.symmetric_difference({3, 9}),
        numbers.issubset(range(9)),
        numbers.issuperset({3}),
        numbers.isdisjoint({3}),
        x + 1,
    )


@program
def set_operators(x: Tensor, y: Tensor) -> Any:
    left, right = {1, 2, 3}, frozenset({2, 3, 4})
    grown = set(left)
    grown |= {9}
    grown &= {1, 9}
    grown ^= {1, 5}
    grown -= {9}
    return (
        left | right,
        left & right,
        left - right,
        left ^ right,
        right | left,
        left <= {1, 2, 3, 4},
        left < left,
        left >= {1},
        left == {3, 2, 1},
        left != right,
        grown,
        2 in left,
        len(right),
        x + 1,
    )


@program
def set_errors(x: Tensor, y: Tensor) -> Any:
    numbers: Any = {1}

    def grow() -> None:
        for number in numbers:
            numbers.add(number + 1)

    return failures(
        lambda: numbers.remove(9),
        lambda: set().pop(),
        lambda: {[]},
        lambda: numbers | [1],
        lambda: frozenset().add,
        grow,
    ), x + 1  # type: ignore[type-var, attr-defined]


@program
def frozen_sets(x: Tensor, y: Tensor) -> Any:
    frozen = frozenset([1, 2])
    return (
        frozen,
        frozen | {3},
        hash(frozen) == hash(frozenset([2, 1])),
        {frozen: 1}[frozenset({1, 2})],
        frozen.union([3]),
        frozen & {1},
        sorted(frozen),
        frozen == {1, 2},
        x + 1,
    )


@program
def order_of_a_set(x: Tensor, y: Tensor) -> Any:
    return (
        [n for n in {3, 1, 2}],
        list({8, 0, 16}),
        sum({1, 2, 3}),
        max({1, 5}),
        {7}.pop(),
        list(set("a")),
        sorted({"b", "a"}),
        x + 1,
    )


@program
def popping_from_a_set(x: Tensor, y: Tensor) -> Any:
    numbers = {1, 2, 3}
    taken = []
    while numbers:
        taken.append(numbers.pop())
    return sorted(taken), numbers, x + 1


@program(arguments=lambda: (*tensors(), {1, 2}, frozenset("ab")), in_all=2)
def sets_of_the_caller(x: Tensor, y: Tensor, numbers: set[int], letters: frozenset[str]) -> Any:
    numbers.add(3)
    numbers.discard(1)
    return x * len(numbers), 2 in numbers, "a" in letters, numbers | {9}, sorted(letters)


@program(arguments=lambda: (*tensors(), {"a": 1, "b": [2]}), in_all=3)
def a_dict_of_the_caller(x: Tensor, y: Tensor, table: dict[str, Any]) -> Any:
    table["b"].append(x + 1)
    table["c"] = table.pop("a")
    table.setdefault("d", {})["e"] = y
    return x * table["c"], list(table)


@program(
    arguments=lambda: (
        *tensors(),
        collections.OrderedDict(a=1, b=2),
        collections.defaultdict(list),
        collections.Counter("aab"),
    ),
    in_all=5,
)
def kin_of_dict_from_outside(x: Tensor, y: Tensor, ordered: Any, groups: Any, counted: Any) -> Any:
    ordered.move_to_end("a")
    ordered["c"] = 3
    groups["k"].append(x + 1)
    counted["a"] += 1
    counted.update("bz")
    return x * ordered["b"], list(ordered), counted["none"], counted.most_common(1)


@program(arguments=lambda: (*tensors(), collections.ChainMap({"a": 1}, {"b": 2})), in_all=2)
def a_chain_map_from_outside(x: Tensor, y: Tensor, chain: Any) -> Any:
    chain["c"] = 3
    return x * chain["b"], "a" in chain, sorted(chain)


@program
def nested_containers(x: Tensor, y: Tensor) -> Any:
    tree: dict[str, Any] = {"a": [1, {"b": (x, {2})}]}
    tree["a"][1]["b"][1].add(3)
    tree["self"] = tree["a"]
    tree["a"].append(y)
    return tree, tree["self"] is tree["a"], x + 1


@program
def iterators_over_dicts_handed_out(x: Tensor, y: Tensor) -> Any:
    table = {"a": 1, "b": x, "c": 3}
    keys, values, items = iter(table), iter(table.values()), iter(table.items())
    next(keys), next(values)
    return list(keys), list(values), next(items), x + 1


@program(
    arguments=lambda: (*tensors(), iter({"a": 1, "b": 2})),
    reason="__next__ of an object of class dict_keyiterator is served by C code",
)
def an_iterator_over_a_dict_of_the_caller(x: Tensor, y: Tensor, keys: Any) -> Any:
    return x + 1, next(keys), list(keys)


@program
def merging_dicts(x: Tensor, y: Tensor) -> Any:
    first, second = {"a": 1, "b": 2}, {"b": x, "c": 3}
    merged = first | second
    first |= second
    first |= [("d", 4)]
    return merged, first, {**second, **{"a": 0}}, failures(lambda: {} | [1]), x + 1  # type: ignore[operator]


@program
def special_methods_of_dicts_by_name(x: Tensor, y: Tensor) -> Any:
    table = {"a": 1}
    table.__setitem__("b", x)
    table.__delitem__("a")
    return (
        table.__contains__("b"),
        table.__len__(),
        table.__getitem__("b"),
        table.__eq__({"b": x}),
        table.__or__({"c": 1}),
        dict.__getitem__(table, "b"),
        list(dict.items(table)),
        {1}.__contains__(1),
        {1}.__or__({2}),
        x + 1,
    )


@program
def comparing_mappings(x: Tensor, y: Tensor) -> Any:
    return (
        {"a": 1, "b": 2} == {"b": 2, "a": 1},
        {"a": 1} != {"a": 2},
        {"a": [1]} == {"a": [1]},
        {"a": x} == {"a": x},
        {} == [],
        {1: 2}.keys() == {1},
        {1: 2}.items() == {(1, 2)},
        x + 1,
    )
