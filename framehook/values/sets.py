"""Sets and frozensets, and what is combined of sets and of the views of dicts.

The order in which a set gives its elements depends on how it grew.  So a set of the trace has a real one beside it
that does what the program does; where the hashes of all elements are known, both have the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from framehook.values.base import ConstantValue, Tracer, Value, is_constant
from framehook.values.iterators import ListedIterator
from framehook.values.mappings import DictValue, DictView, OwnKey, hash_key
from framehook.values.real_classes import derives
from framehook.values.sequences import (
    BuiltinContainer,
    Method,
    TupleValue,
    check_arguments,
    drain,
    operator_methods,
)

if TYPE_CHECKING:
    from framehook.source import Source


#: As many earlier states of a set are kept.
_MOST_PASTS = 8


def has_known_hash(key: Hashable) -> bool:
    """Whether what stands for an element has the hash of the element."""
    return is_constant(key) or type(key) is OwnKey


class SetValue(BuiltinContainer):
    """A set or frozenset.  Elements from outside are guarded as a whole, in their order, when the value is made.

    `table` is the real set of what stands for the elements, `found` gives the element that each stands for.
    """

    __slots__ = ("changed", "cls", "found", "gone", "original", "pasts", "table", "version")

    def __init__(self, source: Source | None = None, cls: type = set) -> None:
        self.source = source
        self.cls = cls
        self.table: Any = set()
        self.found: dict[Hashable, Value] = {}
        #: Elements in the order in which sets had them that this one was made of, and those that it has no more.
        self.pasts: list[list[Hashable]] = []
        self.gone: dict[Hashable, Value] = {}
        self.original: tuple[Any, ...] = ()  # of a set from outside: its elements, in order
        self.changed = False
        self.version = 0  # moves with every change

    @classmethod
    def of(cls, tr: Tracer, items: Iterable[Value], kind: type = set) -> SetValue:
        """A set to which the items are added one by one."""
        made = cls(cls=kind)
        for item in items:
            made.put(hash_key(tr, item), item)
        made.close()
        return made

    @classmethod
    def wrapping(cls, table: Any, kind: type, *sources: Value | dict[Hashable, Value]) -> SetValue:
        """A set of keys, all of which stand for elements of `sources`; the first that has an element gives it."""
        made = cls(cls=kind)
        made.table = table
        for source in sources:
            found = source.found if isinstance(source, SetValue) else source
            assert isinstance(found, dict)
            for key, item in found.items():
                (made.found if key in table else made.gone).setdefault(key, item)
        return made

    def note_past(self, more: Iterable[Hashable]) -> None:
        """The set is about to lose elements, after others came."""
        if len(self.pasts) < _MOST_PASTS:
            self.pasts.append([*self.table, *more])

    def put(self, key: Hashable, item: Value) -> None:
        """Add an element."""
        if key not in self.found:
            self.table.add(key)
            self.found[key] = item

    def close(self) -> None:
        """All elements are there: a frozenset is built like a set and never changes again."""
        self.version = 0

    def python_type(self) -> type:
        return self.cls

    def touch(self, tr: Tracer) -> None:
        """The set is about to change."""
        self.version += 1
        if not self.changed:
            self.changed = True
            tr.mutated(self)

    def replace(self, tr: Tracer, table: Any, *sources: Value | dict[Hashable, Value]) -> None:
        """Let the set have other elements; `table` is what the real operation left."""
        made = SetValue.wrapping(table, self.cls, self.found, *sources)
        if made.found.keys() != self.found.keys():
            self.touch(tr)
        self.table, self.found = made.table, made.found
        self.gone |= made.gone

    def truth(self, tr: Tracer) -> bool:
        return bool(self.table)

    def length(self, tr: Tracer) -> int:
        return len(self.table)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return element_key(tr, item) in self.found

    def order(self, tr: Tracer) -> list[Value]:
        """The elements in the order in which the real set gives them.

        Small integers hash to themselves on every run; the order of strings depends on the hash seed of the
        process, which is fixed while this process lives.  The order of other objects is not known.
        """
        if len(self.table) > 1:
            if self.source is not None:
                if self.changed:
                    tr.graph_break("container", "the order of a set from outside that has changed")
                return [self.found[key] for key in self.original]
            if not all(map(has_known_hash, self.table)):
                tr.graph_break("container", "the order of a set of objects is not known before it exists")
        return [self.found[key] for key in self.table]

    def iterate(self, tr: Tracer) -> Value:
        size = len(self.table)
        version = self.version

        def check(tr: Tracer) -> None:
            if len(self.table) != size:
                tr.throw(RuntimeError, "Set changed size during iteration")
            if self.version != version:
                tr.graph_break("container", "the elements of a set are replaced while it is looked through")

        return ListedIterator(self.order(tr), type(iter(set())), check, self, version)

    def constant_parts(self, tr: Tracer) -> tuple[bool, Any]:
        if self.cls is frozenset and all(isinstance(item, ConstantValue) for item in self.found.values()):
            return True, frozenset(self.table)
        return False, None

    def hash_key(self, tr: Tracer) -> Hashable:
        """What stands for a frozenset as a key."""
        if self.cls is set:
            tr.throw(TypeError, "unhashable type: 'set'")
        return frozenset(self.table)

    def building(self) -> tuple[list[Value], int, list[Value]] | None:
        """How to make a set of this order: elements to add, one by one, to a set that had room for more, that room, and
        which of them to remove then.  None: there is no way.
        """
        keys: list[Hashable] = list(self.found)
        if not all(map(has_known_hash, keys)):
            return list(self.found.values()), 0, []
        wanted = list(self.table)
        everything = {**self.gone, **self.found}
        for past in (keys, wanted, *self.pasts):
            for room in (0, 5, 20, 80, 320, 1280):
                for added in {tuple(past), tuple(key for key in past if key in self.found)}:
                    dropped = [key for key in added if key not in self.found]
                    if list(set_with_room(self.cls, added, room, dropped)) == wanted:
                        return [everything[key] for key in added], room, [everything[key] for key in dropped]
        return None


def set_with_room(cls: type, elements: Sequence[Any], room: int, dropped: Sequence[Any] = ()) -> Any:
    """A set of the elements but those dropped, whose table once held as many more."""
    made = set(elements)
    if room:
        others = range(-2 - room, -2)
        made.update(others)
        made.difference_update(set(others) - set(elements))
    made.difference_update(dropped)
    return made if cls is set else cls(made)


def element_key(tr: Tracer, item: Value) -> Hashable:
    """What stands for an object that is asked for in a set: a set is looked for as a frozenset."""
    value = item.realize(tr)
    if isinstance(value, SetValue):
        return frozenset(value.table)
    return hash_key(tr, value)


def _is_set_object(value: Value) -> bool:
    """Whether a value is a set for C code, which then does not iterate over it."""
    return any(derives(value.python_type(), kind) for kind in (set, frozenset))


def operand(tr: Tracer, value: Value, iterates: bool = False) -> tuple[Any, dict[Hashable, Value]]:
    """What stands for an iterable in an operation of sets, and its elements by what stands for them.

    Of a set of a subclass the interpreter takes the table, whatever its `__iter__` is, but where it `iterates`.
    """
    value = value.realize(tr)
    base = getattr(value, "base", None)
    if isinstance(base, SetValue) and not iterates:
        value = base
    if isinstance(value, SetValue):
        return value.table, value.found
    if isinstance(value, DictView) and value.kind != "values":
        found = {hash_key(tr, item): item for item in value.elements(tr)}
        return (found.keys() if value.kind == "keys" else dict.fromkeys(found).keys()), found
    if isinstance(value, DictValue):
        found = {hash_key(tr, item): item for item in value.key_values(tr)}
        return found, found
    if isinstance(value, ConstantValue) and type(value.value) is frozenset:
        return value.value, {key: ConstantValue(key) for key in value.value}
    if not iterates and _is_set_object(value):
        tr.graph_break("container", f"the table of {value.describe()} is not known")
    keys, found = [], {}
    for item in drain(tr, value):
        key = hash_key(tr, item)
        keys.append(key)
        found.setdefault(key, item)
    return keys, found


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "|": lambda left, right: left | right,
    "&": lambda left, right: left & right,
    "-": lambda left, right: left - right,
    "^": lambda left, right: left ^ right,
}
_IN_PLACE = {
    "|": set.update,
    "&": set.intersection_update,
    "-": set.difference_update,
    "^": set.symmetric_difference_update,
}


def is_set_like(value: Value) -> bool:
    """Whether a value is a set or a view that acts like one."""
    return (
        isinstance(value, SetValue)
        or (isinstance(value, DictView) and value.kind != "values")
        or (isinstance(value, ConstantValue) and type(value.value) is frozenset)
    )


def set_combine(tr: Tracer, op: str, left: Value, right: Value) -> SetValue:
    """`|`, `&`, `-`, `^` of sets and views; the result of sets has the left one's class."""
    mine, own = operand(tr, left)
    other, others = operand(tr, right)
    if isinstance(left, DictView) and left.kind == "items":
        mine = set(mine)
    pasts = [list(mine), list(other)]
    table = _OPERATORS[op](mine, other)
    kind = frozenset if left.python_type() is frozenset else set
    made = SetValue.wrapping(set(table) if type(table) is frozenset else table, kind, own, others)
    made.pasts = [*pasts, pasts[0] + pasts[1]]
    return made


def set_change(tr: Tracer, op: str, left: SetValue, right: Value) -> None:
    """`|=`, `&=`, `-=`, `^=` of a set."""
    other, others = operand(tr, right)
    table = left.table
    left.note_past(other)
    _IN_PLACE[op](table, set(other) if op == "^" and other is table else other)
    left.replace(tr, table, others)


# -- methods -----------------------------------------------------------------------------------------


def _combine(name: str, op: str) -> Method:
    def method(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if kwargs or (op == "^" and len(args) != 1):
            tr.graph_break("exception", f"{name}() is called with other arguments")
        operands = [operand(tr, arg) for arg in args]
        past = list(self.table)
        table = getattr(set(self.table) if self.cls is frozenset else self.table, name)(
            *(other for other, _ in operands)
        )
        made = SetValue.wrapping(table, self.cls, self.found, *(found for _, found in operands))
        made.pasts = [past, [*past, *(key for other, _ in operands for key in other)]]
        return made

    return method


def _change(op: str) -> Method:
    def method(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if kwargs or (op == "^" and len(args) != 1):
            tr.graph_break("exception", "a set is changed with other arguments")
        for arg in args:
            set_change(tr, op, self, arg)
        return ConstantValue(None)

    return method


def _relation(test: Callable[[set[Any], Any], bool]) -> Method:
    def method(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        check_arguments(tr, test.__name__, args, kwargs, 1, 1)
        other, _ = operand(tr, args[0], iterates=test is set.isdisjoint)
        return ConstantValue(test(set(self.table), other))

    return method


def _add(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "add", args, kwargs, 1, 1)
    key = hash_key(tr, args[0])
    if key not in self.found:
        self.touch(tr)
        self.put(key, args[0])
    return ConstantValue(None)


def _discard(strict: bool) -> Method:
    def method(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        check_arguments(tr, "discard", args, kwargs, 1, 1)
        key = element_key(tr, args[0])
        if key in self.found:
            self.touch(tr)
            self.note_past(())
            self.table.discard(key)
            self.gone[key] = self.found.pop(key)
        elif strict:
            tr.throw(KeyError, args[0])
        return ConstantValue(None)

    return method


def _pop(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "pop", args, kwargs, 0, 0)
    if not self.table:
        tr.throw(KeyError, "pop from an empty set")
    if len(self.table) > 1:
        if self.source is not None:
            tr.graph_break("container", "which element a set from outside gives depends on how it grew")
        self.order(tr)
    self.touch(tr)
    return self.found.pop(self.table.pop())


def _clear(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "clear", args, kwargs, 0, 0)
    self.touch(tr)
    self.table.clear()
    self.found.clear()
    return ConstantValue(None)


def copy_of(value: SetValue) -> SetValue:
    """A new set of the same elements."""
    return SetValue.wrapping(value.table.copy(), value.cls, value.found)


def _copy(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "copy", args, kwargs, 0, 0)
    return self if self.cls is frozenset else copy_of(self)


def _init(tr: Tracer, self: SetValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "__init__", args, kwargs, 0, 1)
    if self.cls is frozenset:
        return ConstantValue(None)
    self.touch(tr)
    self.table.clear()
    self.found.clear()
    if args:
        set_change(tr, "|", self, args[0])
    return ConstantValue(None)


def make_set(tr: Tracer, cls: type, items: Value | None) -> SetValue:
    """`set(items)` or `frozenset(items)`."""
    if items is None:
        return SetValue(cls=cls)
    value = items.realize(tr)
    if cls is frozenset and isinstance(value, SetValue) and value.python_type() is frozenset:
        return value
    if not isinstance(value, (SetValue, DictValue, DictView)) and not _is_set_object(value):
        value = TupleValue(drain(tr, tr.iterate(value)))
    other, found = operand(tr, value)
    return SetValue.wrapping(set(other), cls, found)


def _view_is_disjoint(tr: Tracer, self: DictView, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "isdisjoint", args, kwargs, 1, 1)
    return ConstantValue(set(operand(tr, self)[0]).isdisjoint(operand(tr, args[0], iterates=True)[0]))


DictView.methods["isdisjoint"] = _view_is_disjoint

SetValue.methods = {
    **{
        name: method
        for name, method in operator_methods({}).items()
        if name not in ("__getitem__", "__setitem__", "__delitem__")
    },
    **{
        name: _combine(name, op)
        for name, op in (
            ("union", "|"),
            ("intersection", "&"),
            ("difference", "-"),
            ("symmetric_difference", "^"),
        )
    },
    "update": _change("|"),
    "intersection_update": _change("&"),
    "difference_update": _change("-"),
    "symmetric_difference_update": _change("^"),
    "issubset": _relation(set.issubset),
    "issuperset": _relation(set.issuperset),
    "isdisjoint": _relation(set.isdisjoint),
    "add": _add,
    "discard": _discard(strict=False),
    "remove": _discard(strict=True),
    "pop": _pop,
    "clear": _clear,
    "copy": _copy,
    "__init__": _init,
}

__all__ = ["SetValue", "copy_of", "is_set_like", "make_set", "set_change", "set_combine", "set_with_room"]
