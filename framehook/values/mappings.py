"""Dicts and their views."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from framehook.guards.guard import Check, WeakIdentity
from framehook.values.base import (
    ConstantValue,
    LazyValue,
    ObservedException,
    Tracer,
    Value,
    check_nan,
    is_constant,
)
from framehook.values.real_classes import derives
from framehook.values.sequences import (
    BuiltinContainer,
    IteratorValue,
    Method,
    SequenceValue,
    TupleValue,
    check_arguments,
    drain,
    operator_methods,
)

if TYPE_CHECKING:
    from framehook.source import Source


class ObjectKey(tuple[Any, ...]):
    """Stands for an object that is hashed by identity; no tuple of the program equals it."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectKey and tuple.__eq__(self, other)


def is_hashed_by_identity(obj: object) -> bool:
    """Whether an object equals no other, whatever that is."""
    if derives(type(obj), type):
        meta: Any = type(obj)
        return meta.__hash__ is type.__hash__ and meta.__eq__ is type.__eq__
    cls: Any = type(obj)
    if issubclass(cls, torch.Tensor):
        return cls.__hash__ is torch.Tensor.__hash__
    return cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__


def hash_key(tr: Tracer, value: Value) -> Hashable:
    """Return what stands for a value as a dict key or set element: equal exactly when Python says equal."""
    value = value.realize(tr)
    if isinstance(value, ConstantValue):
        check_nan(tr, value.value)
        try:
            hash(value.value)
        except TypeError as error:  # a slice, until 3.12
            tr.throw(TypeError, *error.args)
        return value.value
    if isinstance(value, TupleValue):
        value.guard_length(tr)
        return tuple(hash_key(tr, item) for item in value.items)
    custom = getattr(value, "hash_key", None)
    if custom is not None:
        found = custom(tr)
        return ObjectKey(found) if type(found) is tuple else found
    if isinstance(value, BuiltinContainer) and value.python_type().__hash__ is None:
        tr.throw(TypeError, f"unhashable type: '{value.python_type().__name__}'")
    tr.graph_break("call", f"{value.describe()} is used as a key")


class OwnKey:
    """Stands for an object whose class defines its hash and its equality: dicts ask it as they would for real."""

    __slots__ = ("hash", "tr", "value")

    def __init__(self, tr: Tracer, value: Value, number: int) -> None:
        self.tr = tr
        self.value = value
        self.hash = number

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OwnKey):
            return self.tr.equals(self.value, other.value)
        if not is_constant(other):
            self.tr.graph_break("call", f"{self.value.describe()} is compared with another key")
        return self.tr.equals(self.value, ConstantValue(other))


class DictValue(BuiltinContainer):
    """A dict.  `items` maps what stands for the key to (key value, value), in order.

    A dict from outside starts with lazy values for every key; `keys_guarded` says that the trace depends
    on the whole set of keys, `known` are keys whose presence or absence is guarded one by one.
    """

    __slots__ = (
        "changed",
        "cls",
        "default_factory",
        "gone",
        "items",
        "keys_guarded",
        "original_keys",
        "plain_keys",
        "version",
    )

    def __init__(
        self,
        items: dict[Hashable, tuple[Value, Value]] | None = None,
        source: Source | None = None,
        cls: type = dict,
    ) -> None:
        self.source = source
        self.items: dict[Hashable, tuple[Value, Value]] = {} if items is None else items
        self.cls = cls
        self.keys_guarded = source is None
        self.changed = False
        self.default_factory: Value | None = None
        self.original_keys: tuple[Any, ...] | None = None
        self.plain_keys: bool | None = None
        self.version = 0  # moves whenever a key comes or goes
        #: Keys that were taken out, even if they came back, in order, with the method that did it first: the real dict
        #: must see that, for iterators over it. `popitem` gives the place of the last entry back, `del` does not.
        self.gone: dict[Hashable, str] = {}

    def python_type(self) -> type:
        return self.cls

    # -- guards ------------------------------------------------------------------------------------
    def guard_keys(self, tr: Tracer) -> None:
        """The trace depends on which keys there are, and in which order."""
        if not self.keys_guarded:
            self.keys_guarded = True
            keys = self.original_keys
            assert keys is not None
            if not is_constant(keys):
                tr.graph_break("container", "a dict with keys that are not plain constants is looked through")
            tr.guard(self.source, Check.KEYS, keys)

    def lookup(self, tr: Tracer, key: Value) -> Value | None:
        """Return the value under `key`, or None; either answer is guarded."""
        known = hash_key(tr, key)
        if not self.keys_guarded and not self.changed:
            example = getattr(known, "example", None)
            if example is not None:  # a tensor from outside: an optimizer's state has its parameters as keys
                tr.guard(key.realize(tr).source, Check.IDENTITY, example)
                known = ObjectKey(("object", id(example)))
            if type(known) is ObjectKey:
                return self._lookup_object(tr, key.realize(tr), known)
        found = self.items.get(known)
        if found is not None:
            value = found[1]
            is_untouched = isinstance(value, LazyValue) and value.actual is None
            if not self.keys_guarded and self.source is not None:
                if is_untouched or not isinstance(value, LazyValue) or value.source is None:
                    tr.guard(self.source, Check.HAS_KEY, known)
            return found[1]
        if not self.keys_guarded and not self.changed:
            assert self.source is not None
            if is_constant(known):
                tr.guard(self.source, Check.NO_KEY, known)
            else:
                self.guard_keys(tr)
        return None

    def _lookup_object(self, tr: Tracer, key: Value, known: ObjectKey) -> Value | None:
        """The same in a dict from outside, for a class or a function, whose identity is guarded."""
        assert self.original_keys is not None and self.source is not None
        obj = getattr(key, "fn", None)
        if obj is None:
            obj = getattr(key, "example", None)
        if obj is None or not self._has_plain_keys():
            self.guard_keys(tr)
            return None
        found = self.items.get(known)
        tr.guard(self.source, Check.NO_KEY if found is None else Check.HAS_KEY, WeakIdentity(obj))
        return None if found is None else found[1]

    def _has_plain_keys(self) -> bool:
        """Whether no key that it came with can equal an object but itself."""
        if self.plain_keys is None:
            assert self.original_keys is not None
            self.plain_keys = all(
                is_constant(key) or is_hashed_by_identity(key) for key in self.original_keys
            )
        return self.plain_keys

    def touch(self, tr: Tracer) -> None:
        """The dict is about to change."""
        self.guard_keys(tr)
        if not self.changed:
            self.changed = True
            tr.mutated(self)

    # -- protocol ----------------------------------------------------------------------------------
    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "default_factory" and issubclass(self.cls, collections.defaultdict):
            return self.default_factory if self.default_factory is not None else ConstantValue(None)
        return super().get_attr(tr, name)

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        if name == "default_factory" and issubclass(self.cls, collections.defaultdict):
            if self.source is not None:
                tr.graph_break("side_effect", "the default_factory of a dict from outside is set")
            plain = value.realize(tr)
            is_none = isinstance(plain, ConstantValue) and plain.value is None
            self.default_factory = None if is_none else plain
            return
        super().set_attr(tr, name, value)

    def truth(self, tr: Tracer) -> bool:
        return self.length(tr) > 0

    def length(self, tr: Tracer) -> int:
        if not self.keys_guarded:
            assert self.source is not None
            tr.guard(self.source, Check.LENGTH, len(self.items))
        return len(self.items)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        found = self.lookup(tr, key)
        if found is None:
            if self.default_factory is not None:
                made = tr.call(self.default_factory, [], {})
                self.set_item(tr, key, made)
                return made
            tr.throw(KeyError, key)
        return found

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        known = hash_key(tr, key)
        self.touch(tr)
        old = self.items.get(known)
        if old is None:
            self.version += 1
        else:
            tr.let_go(self, old[1])
        self.items[known] = (old[0] if old is not None else key, value)

    def del_item(self, tr: Tracer, key: Value) -> None:
        known = hash_key(tr, key)
        self.touch(tr)
        if known not in self.items:
            tr.throw(KeyError, key)
        tr.let_go(self, *self.items[known])
        self.take_out(known)

    def take_out(self, known: Hashable, how: str = "__delitem__") -> tuple[Value, Value]:
        """Remove a key that is there by this method, and return key and value."""
        self.version += 1
        self.gone.setdefault(known, how)
        return self.items.pop(known)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self.lookup(tr, item) is not None

    def key_values(self, tr: Tracer) -> list[Value]:
        """The keys as values, in order."""
        self.guard_keys(tr)
        return [key for key, _ in self.items.values()]

    def iterate(self, tr: Tracer) -> Value:
        self.guard_keys(tr)
        return DictIterator(self, "keys", self)

    def update_from(self, tr: Tracer, other: Value) -> None:
        """`self.update(other)`."""
        other = other.realize(tr)
        base = getattr(other, "base", None)
        if isinstance(base, DictValue) and _is_read_directly(tr, other.python_type()):
            other = base
        if isinstance(other, DictValue):
            other.guard_keys(tr)
            for key, value in list(other.items.values()):
                self.set_item(tr, key, value)
            return
        if hasattr(other.python_type(), "keys"):
            for key in drain(tr, tr.call(other.get_attr(tr, "keys"), [], {})):
                self.set_item(tr, key, other.get_item(tr, key))
            return
        iterator = tr.iterate(other)
        position = 0
        while (pair := iterator.next(tr)) is not None:
            parts = _pair(tr, pair, position)
            self.set_item(tr, parts[0], parts[1])
            position += 1

    def plain_copy(self, tr: Tracer) -> DictValue:
        """A new dict of the same class and contents."""
        self.guard_keys(tr)
        copy = DictValue(dict(self.items), cls=self.cls)
        copy.default_factory = self.default_factory
        return copy


def _pair(tr: Tracer, pair: Value, position: int) -> list[Value]:
    """The two elements of what becomes a row of a dict (CPython: PyDict_MergeFromSeq2)."""
    words = f"dictionary update sequence element #{position}"
    try:
        parts = drain(tr, pair)
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), TypeError):
            tr.throw(TypeError, f"cannot convert {words} to a sequence")
        raise
    if len(parts) != 2:
        tr.throw(ValueError, f"{words} has length {len(parts)}; 2 is required")
    return parts


def _is_read_directly(tr: Tracer, cls: type) -> bool:
    """Whether CPython reads a dict of this class as it is: what it asks for that is `__iter__` (PyDict_Merge)."""
    iterate = tr.class_attr(cls, "__iter__")
    if iterate is vars(dict)["__iter__"]:
        return True
    native = (dict, collections.OrderedDict)
    return iterate is vars(collections.OrderedDict)["__iter__"] and all(
        any(tr.class_attr(cls, name) is vars(base).get(name) for base in native)
        for name in ("keys", "__getitem__")
    )


class DictIterator(IteratorValue):
    """An iterator over a dict: values are read when they are reached, and changes of the keys are noticed."""

    __slots__ = (
        "is_broken",
        "is_done",
        "is_reversed",
        "keys",
        "kind",
        "mapping",
        "origin",
        "position",
        "version",
    )

    def __init__(self, mapping: DictValue, kind: str, origin: Value, *, is_reversed: bool = False) -> None:
        self.source = None
        self.mapping = mapping
        self.kind = kind
        self.origin = origin  # the dict or the view that the real iterator would run over
        self.is_reversed = is_reversed
        self.keys = list(mapping.items)
        if is_reversed:
            self.keys.reverse()
        self.version = mapping.version
        self.position = 0
        self.is_done = False
        self.is_broken = False

    def python_type(self) -> type:
        view = getattr(_sample(self.mapping.cls), self.kind)()
        return type(reversed(view) if self.is_reversed else iter(view))

    def is_intact(self) -> bool:
        """Whether an iterator like this one can be made of the dict as it is now."""
        return self.is_done or (not self.is_broken and self.version == self.mapping.version)

    def next(self, tr: Tracer) -> Value | None:
        if self.is_done:
            return None
        mapping = self.mapping
        mapping.guard_keys(tr)
        if self.version != mapping.version or self.is_broken:
            if issubclass(mapping.cls, collections.OrderedDict):
                self.is_done = True
                tr.throw(RuntimeError, "OrderedDict mutated during iteration")
            if len(mapping.items) != len(self.keys) or self.is_broken:
                self.is_broken = True
                tr.throw(RuntimeError, "dictionary changed size during iteration")
            # What comes now depends on where the new keys are in memory.
            tr.graph_break("container", "the keys of a dict are replaced while it is looked through")
        if self.position >= len(self.keys):
            self.is_done = True
            return None
        key, value = mapping.items[self.keys[self.position]]
        self.position += 1
        if self.kind == "keys":
            return key
        return value if self.kind == "values" else TupleValue([key, value])


def _sample(cls: type) -> dict[Any, Any]:
    return collections.OrderedDict() if issubclass(cls, collections.OrderedDict) else {}


class DictView(BuiltinContainer):
    """`d.keys()`, `d.values()`, `d.items()`: sees changes of the dict."""

    __slots__ = ("kind", "mapping")

    def __init__(self, mapping: DictValue, kind: str) -> None:
        self.source = None
        self.mapping = mapping
        self.kind = kind

    def python_type(self) -> type:
        return type(getattr(_sample(self.mapping.cls), self.kind)())

    def elements(self, tr: Tracer) -> list[Value]:
        """What iterating over the view gives now."""
        self.mapping.guard_keys(tr)
        rows = self.mapping.items.values()
        if self.kind == "keys":
            return [key for key, _ in rows]
        if self.kind == "values":
            return [value for _, value in rows]
        return [TupleValue([key, value]) for key, value in rows]

    def truth(self, tr: Tracer) -> bool:
        return self.mapping.length(tr) > 0

    def length(self, tr: Tracer) -> int:
        return self.mapping.length(tr)

    def iterate(self, tr: Tracer) -> Value:
        self.mapping.guard_keys(tr)
        return DictIterator(self.mapping, self.kind, self)

    def contains(self, tr: Tracer, item: Value) -> bool:
        if self.kind == "keys":
            return self.mapping.contains(tr, item)
        return super().contains(tr, item)


# -- methods of dict -----------------------------------------------------------------------------------


def _get(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "get", args, kwargs, 1, 2)
    found = self.lookup(tr, args[0])
    if found is not None:
        return found
    return args[1] if len(args) > 1 else ConstantValue(None)


def _dict_pop(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "pop", args, kwargs, 1, 2)
    found = self.lookup(tr, args[0])
    if found is not None:
        self.del_item(tr, args[0])
        return found
    if len(args) > 1:
        return args[1]
    tr.throw(KeyError, args[0])


def _popitem(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    last = True
    is_ordered = issubclass(self.cls, collections.OrderedDict)
    if args or kwargs:
        if not is_ordered or len(args) + len(kwargs) > 1 or set(kwargs) - {"last"}:
            tr.graph_break("exception", "popitem() is called with arguments that do not fit")
        flag = (args[0] if args else kwargs["last"]).realize(tr)
        last = flag.truth(tr)
    self.touch(tr)
    if not self.items:
        tr.throw(KeyError, "dictionary is empty" if is_ordered else "popitem(): dictionary is empty")
    key, value = self.take_out(
        list(self.items)[-1 if last else 0], "__delitem__" if is_ordered else "popitem"
    )
    return TupleValue([key, value])


def _setdefault(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "setdefault", args, kwargs, 1, 2)
    found = self.lookup(tr, args[0])
    if found is not None:
        return found
    value = args[1] if len(args) > 1 else ConstantValue(None)
    self.set_item(tr, args[0], value)
    return value


def _update(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "update", args, {}, 0, 1)
    if args:
        self.update_from(tr, args[0])
    for name, value in kwargs.items():
        self.set_item(tr, ConstantValue(name), value)
    return ConstantValue(None)


def _dict_init(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if self.cls is collections.defaultdict and args:
        factory = args[0].realize(tr)
        is_none = isinstance(factory, ConstantValue) and factory.value is None
        self.default_factory = None if is_none else factory
        args = args[1:]
    return _update(tr, self, args, kwargs)


def _dict_clear(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "clear", args, kwargs, 0, 0)
    self.touch(tr)
    for known in list(self.items):
        tr.let_go(self, *self.items[known])
        self.take_out(known, "clear")
    return ConstantValue(None)


def _dict_copy(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "copy", args, kwargs, 0, 0)
    return self.plain_copy(tr)


def _view(kind: str) -> Method:
    def method(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        check_arguments(tr, kind, args, kwargs, 0, 0)
        return DictView(self, kind)

    return method


def _reversed(tr: Tracer, self: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "__reversed__", args, kwargs, 0, 0)
    mapping, kind = (self.mapping, self.kind) if isinstance(self, DictView) else (self, "keys")
    mapping.guard_keys(tr)
    return DictIterator(mapping, kind, self, is_reversed=True)


def _move_to_end(tr: Tracer, self: DictValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    flag = args[1] if len(args) > 1 else kwargs.get("last", ConstantValue(True))
    last = flag.realize(tr).truth(tr)
    self.touch(tr)
    known = hash_key(tr, args[0])
    if known not in self.items:
        tr.throw(KeyError, args[0])
    row = self.take_out(known)
    if last:
        self.items[known] = row
    else:
        self.items = {known: row, **self.items}
    return ConstantValue(None)


DictValue.methods = {
    **operator_methods({}),
    "get": _get,
    "pop": _dict_pop,
    "popitem": _popitem,
    "setdefault": _setdefault,
    "update": _update,
    "clear": _dict_clear,
    "copy": _dict_copy,
    "keys": _view("keys"),
    "values": _view("values"),
    "items": _view("items"),
    "move_to_end": _move_to_end,
    "__reversed__": _reversed,
    "__init__": _dict_init,
}

DictView.methods = {
    name: method
    for name, method in {**operator_methods({}), "__reversed__": _reversed}.items()
    if name not in ("__getitem__", "__setitem__", "__delitem__")
}


__all__ = ["DictValue", "DictView", "SequenceValue", "hash_key"]
