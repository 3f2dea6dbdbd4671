"""Lists, tuples, ranges and slices."""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from framehook.guards.guard import Check
from framehook.values.base import CONSTANT_TYPES, ConstantValue, ObservedException, Tracer, Value, to_constant
from framehook.values.real_classes import derives
from framehook.values.wording import no_place, type_name

if TYPE_CHECKING:
    from framehook.source import Source


class BuiltinMethod(Value):
    """A method of a C type, bound to a symbolic value."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Value, name: str) -> None:
        self.source = None
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        raw = inspect.getattr_static(self.owner.python_type(), self.name, None)
        return types.MethodWrapperType if isinstance(raw, types.WrapperDescriptorType) else type([].append)

    def describe(self) -> str:
        return f"method '{self.name}' of {self.owner.describe()}"

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return ConstantValue(self.name)
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.call_method(tr, self.name, args, kwargs)


Method = Callable[[Tracer, Any, Sequence[Value], dict[str, Value]], Value]


class BuiltinContainer(Value):
    """A container of a C type: methods come from a table, attributes from the type."""

    __slots__ = ()
    methods: dict[str, Method]

    def get_attr(self, tr: Tracer, name: str) -> Value:
        cls = self.python_type()
        if name in self.methods and hasattr(cls, name):
            return BuiltinMethod(self, name)
        if name == "__class__":
            return tr.constant_object(cls)
        if hasattr(cls, name):
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
        tr.throw(AttributeError, f"'{type_name(cls)}' object has no attribute '{name}'")

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        cls = self.python_type()
        tr.throw(AttributeError, no_place(cls, name, hasattr(cls, name)))

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        method = self.methods.get(name)
        if method is None:
            return super().call_method(tr, name, args, kwargs)
        return method(tr, self, args, kwargs)


def check_arguments(
    tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value], least: int, most: int
) -> None:
    """Raise TypeError in the traced program unless the number of positional arguments fits."""
    if kwargs or not least <= len(args) <= most:
        # The exact wording differs from method to method; the native call says it.
        tr.graph_break("call", f"{name}() is called with arguments that do not fit")


def as_index(tr: Tracer, value: Value) -> int | None:
    """Return the int that a value is as an index, or None."""
    value = value.realize(tr)
    if isinstance(value, ConstantValue) and isinstance(value.value, int):
        return int(value.value)
    special = getattr(value, "special", None)
    if special is not None and derives(value.python_type(), int):
        # An int is the number that it is, whatever its class defines (CPython: PyNumber_Index).
        number = getattr(value.base if value.base is not None else value, "value", None)  # type: ignore[attr-defined]
        if number is None and derives(value.python_type(), enum.Enum):
            number = value.obj  # type: ignore[attr-defined]
        if isinstance(number, int):
            return int.__int__(number)
        tr.graph_break("call", f"the number that {value.describe()} is")
    method = special(tr, "__index__") if special is not None else None
    if method is not None:
        known, number = to_constant(tr, tr.call(method, [], {}))
        if known and isinstance(number, int):
            return int(number)
    return None


def as_slice(tr: Tracer, value: Value) -> slice | None:
    """Return the constant slice that a value is, or None."""
    known, obj = to_constant(tr, value)
    return obj if known and type(obj) is slice else None


def resolve_slice(tr: Tracer, part: slice, size: int) -> range:
    """The positions that a slice names in a sequence of so many elements."""
    try:
        return range(*part.indices(size))
    except (TypeError, ValueError) as error:
        tr.throw(type(error), *error.args)


class SequenceValue(BuiltinContainer):
    """What lists and tuples share.  `items` holds the elements as they are now."""

    __slots__ = ("items", "length_guarded")

    def __init__(self, items: list[Value], source: Source | None = None) -> None:
        self.source = source
        self.items = items
        self.length_guarded = source is None

    def guard_length(self, tr: Tracer) -> None:
        """The trace depends on the number of elements."""
        if not self.length_guarded:
            self.length_guarded = True
            tr.guard(self.source, Check.LENGTH, len(self.items))

    def truth(self, tr: Tracer) -> bool:
        return self.length(tr) > 0

    def length(self, tr: Tracer) -> int:
        self.guard_length(tr)
        return len(self.items)

    def make(self, items: list[Value]) -> Value:
        """Return a new container of the plain kind of this one."""
        raise NotImplementedError

    def get_item(self, tr: Tracer, key: Value) -> Value:
        index = as_index(tr, key)
        if index is not None:
            size = len(self.items)
            if index < 0 or index >= size:
                self.guard_length(tr)
                if not -size <= index < size:
                    tr.throw(IndexError, f"{self.python_type().__name__} index out of range")
            return tr.found(self.items[index]) if not self.length_guarded else self.items[index]
        part = as_slice(tr, key)
        if part is not None:
            self.guard_length(tr)
            bounds = resolve_slice(tr, part, len(self.items))
            return self.make([self.items[position] for position in bounds])
        return self.bad_index(tr, key)

    def bad_index(self, tr: Tracer, key: Value) -> NoReturn:
        """The index is no constant: say why this ends the graph, or raise what Python raises."""
        key = key.realize(tr)
        if isinstance(key, ConstantValue):
            name = self.python_type().__name__
            tr.throw(TypeError, f"{name} indices must be integers or slices, not {type(key.value).__name__}")
        tr.graph_break("data_dependent", f"{self.describe()} is indexed by {key.describe()}")

    def iterate(self, tr: Tracer) -> Value:
        from_items: Value = SequenceIterator(self)
        return from_items

    def constant_parts(self, tr: Tracer) -> tuple[bool, Any]:
        return False, None


class ListValue(SequenceValue):
    """A list.  One that came from outside keeps its real object's identity; changes are replayed.

    `was_filled` says that it had elements when it was changed.  If it was empty before and is again, it has memory
    of its own all the same, and from that `list.sort` knows that the list has been changed.
    """

    __slots__ = ("appended", "began_empty", "changed", "is_looked_through", "was_filled")

    def __init__(self, items: list[Value], source: Source | None = None) -> None:
        super().__init__(items, source)
        #: How many of the last elements came to a list of which nobody asked how long it is.
        self.appended = 0
        self.is_looked_through = False
        self.changed = False
        self.began_empty = not items
        self.was_filled = False

    def python_type(self) -> type:
        return list

    def make(self, items: list[Value]) -> Value:
        return ListValue(items)

    def guard_length(self, tr: Tracer) -> None:
        if not self.length_guarded:
            self.length_guarded = True
            tr.guard(self.source, Check.LENGTH, len(self.items) - self.appended)
            self.appended = 0

    def append(self, tr: Tracer, value: Value) -> None:
        """Add an element; how many there are need not be known."""
        if self.length_guarded or self.is_looked_through:
            self.touch(tr)
        else:
            self.appended += 1
            self.was_filled = True
            if not self.changed:
                self.changed = True
                tr.mutated(self)
        self.items.append(value)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        if self.appended:
            self.guard_length(tr)
        return super().get_item(tr, key)

    def iterate(self, tr: Tracer) -> Value:
        if self.appended:
            self.guard_length(tr)
        self.is_looked_through = True
        return super().iterate(tr)

    def touch(self, tr: Tracer) -> None:
        """The list is about to change."""
        self.guard_length(tr)
        self.was_filled |= bool(self.items)
        if not self.changed:
            self.changed = True
            tr.mutated(self)

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        index = as_index(tr, key)
        if index is not None:
            self.touch(tr)
            size = len(self.items)
            if not -size <= index < size:
                tr.throw(IndexError, "list assignment index out of range")
            tr.let_go(self, self.items[index])
            self.items[index] = value
            return
        part = as_slice(tr, key)
        if part is None:
            self.bad_index(tr, key)
        resolve_slice(tr, part, len(self.items))
        elements = drain(tr, value)
        self.touch(tr)
        tr.let_go(self, *self.items[part])
        try:
            self.items[part] = elements
        except ValueError as error:
            tr.throw(ValueError, *error.args)

    def del_item(self, tr: Tracer, key: Value) -> None:
        index = as_index(tr, key)
        part: Any = index if index is not None else as_slice(tr, key)
        if part is None:
            self.bad_index(tr, key)
        if index is None:
            resolve_slice(tr, part, len(self.items))
        self.touch(tr)
        if index is None:
            tr.let_go(self, *self.items[part])
        elif -len(self.items) <= index < len(self.items):
            tr.let_go(self, self.items[index])
        try:
            del self.items[part]
        except IndexError:
            tr.throw(IndexError, "list assignment index out of range")


class TupleValue(SequenceValue):
    """A tuple, a torch.Size, or another tuple of C level (`cls` says which)."""

    __slots__ = ("cls", "constant", "is_part")

    def __init__(
        self,
        items: list[Value],
        source: Source | None = None,
        cls: type = tuple,
        constant: tuple[Any, ...] | None = None,
    ) -> None:
        super().__init__(items, source)
        self.cls = cls
        self.constant = constant  # the very tuple, where it is a constant of the code
        self.is_part = False  # what an object of a subclass stores

    def is_exact(self) -> bool:
        """Whether it is a plain tuple, which an operation that changes nothing gives back as it is."""
        return self.cls is tuple and not self.is_part

    def get_item(self, tr: Tracer, key: Value) -> Value:
        part = as_slice(tr, key) if self.is_exact() else None
        if part is not None:
            bounds = resolve_slice(tr, part, self.length(tr))
            if bounds == range(len(self.items)) and bounds.step == 1:
                return self  # CPython: tuplesubscript
        return super().get_item(tr, key)

    def python_type(self) -> type:
        return self.cls

    def make(self, items: list[Value]) -> Value:
        # A slice of a torch.Size is a torch.Size; of any other tuple it is a tuple.
        return TupleValue(items, cls=self.cls if self.cls.__name__ == "Size" else tuple)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if self.cls is not tuple and name not in self.methods:
            position = STRUCT_FIELDS.get(self.cls, {}).get(name)
            if position is None and getattr(self.cls, "n_sequence_fields", None) is not None:
                fields = struct_fields(self.cls)
                position = fields.get(name)
            if position is not None:
                return self.items[position]
        return super().get_attr(tr, name)

    def constant_parts(self, tr: Tracer) -> tuple[bool, Any]:
        if self.cls is not tuple and self.cls.__name__ != "Size":
            return False, None
        parts = []
        self.guard_length(tr)
        for item in self.items:
            known, obj = to_constant(tr, item)
            if not known:
                return False, None
            parts.append(obj)
        return True, self.cls(parts)


STRUCT_FIELDS: dict[type, dict[str, int]] = {}


def struct_fields(cls: type) -> dict[str, int]:
    """Field positions of a C struct sequence class (`torch.return_types.max`, `os.stat_result`)."""
    fields = STRUCT_FIELDS.get(cls)
    if fields is None:
        # The match args of a struct sequence name its visible fields in order (CPython structseq.c).
        names = getattr(cls, "__match_args__", ())
        fields = STRUCT_FIELDS[cls] = {name: position for position, name in enumerate(names)}
    return fields


class SliceValue(Value):
    """A slice whose parts are not all constants."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Value]) -> None:
        self.source = None
        self.parts = parts

    def python_type(self) -> type:
        return slice

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().get_attr(tr, name)

    def constant_parts(self, tr: Tracer) -> tuple[bool, Any]:
        parts = []
        for item in self.parts:
            known, obj = to_constant(tr, item)
            if not known:
                return False, None
            parts.append(obj)
        return True, slice(*parts)


class IteratorValue(Value):
    """Base of iterators that run inside the trace."""

    __slots__ = ()

    def iterate(self, tr: Tracer) -> Value:
        return self

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name in ("__next__", "__iter__"):
            return BuiltinMethod(self, name)
        return super().get_attr(tr, name)

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return iterator_method(tr, self, name, args, kwargs)


class SequenceIterator(IteratorValue):
    """An iterator over a list or tuple; sees changes made while it runs, as CPython's does."""

    __slots__ = ("done", "position", "sequence")

    def __init__(self, sequence: SequenceValue) -> None:
        self.source = None
        self.sequence = sequence
        self.position = 0
        self.done = False

    def python_type(self) -> type:
        return type(iter(())) if isinstance(self.sequence, TupleValue) else type(iter([]))

    def next(self, tr: Tracer) -> Value | None:
        sequence = self.sequence
        sequence.guard_length(tr)
        if self.done or self.position >= len(sequence.items):
            self.done = True
            return None
        item = sequence.items[self.position]
        self.position += 1
        return item


class ReversedIterator(IteratorValue):
    """`reversed()` of a list or tuple; sees changes made while it runs, as CPython's does."""

    __slots__ = ("done", "position", "sequence")

    def __init__(self, sequence: SequenceValue) -> None:
        self.source = None
        self.sequence = sequence
        self.position = len(sequence.items) - 1
        self.done = False

    def python_type(self) -> type:
        return reversed if isinstance(self.sequence, TupleValue) else type(reversed([]))

    def next(self, tr: Tracer) -> Value | None:
        items = self.sequence.items
        if not 0 <= self.position < len(items):
            self.position = -1
            self.done = True
            return None
        self.position -= 1
        return items[self.position + 1]


def iterator_method(
    tr: Tracer, iterator: Value, name: str, args: Sequence[Value], kwargs: dict[str, Value]
) -> Value:
    """`__iter__` and `__next__` of any iterator value."""
    if name == "__iter__":
        return iterator
    if name == "__next__":
        item = iterator.next(tr)
        if item is None:
            tr.throw(StopIteration)
        return item
    tr.graph_break("call", f"method '{name}' of {iterator.describe()} is not modelled")


def drain(tr: Tracer, value: Value) -> list[Value]:
    """Return all elements of an iterable."""
    value = value.realize(tr)
    if isinstance(value, SequenceValue):
        value.guard_length(tr)
        return list(value.items)
    iterator = tr.iterate(value)
    elements = []
    while (item := iterator.next(tr)) is not None:
        elements.append(item)
        check_length(tr, elements)
    return elements


#: Elements that one loop inside of native code may collect while tracing.
_MAX_COLLECTED = 1 << 17


def check_length(tr: Tracer, elements: list[Value]) -> None:
    """Break when an iterable turns out to be that long, or endless."""
    if len(elements) > _MAX_COLLECTED:
        tr.graph_break("limit", f"an iterable of more than {_MAX_COLLECTED} elements is gone through")


def ask_for_length(tr: Tracer, value: Value) -> None:
    """What `list(value)` and the like do first (PyObject_LengthHint): the object's own code may say how long it is."""
    value = value.realize(tr)
    for name in ("__len__", "__length_hint__"):
        method = tr.special_method(value, name)
        if method is None:
            continue
        try:
            answer = tr.call(method, [], {}).realize(tr)
        except ObservedException as observed:
            if not issubclass(observed.value.python_type(), TypeError):
                raise
            continue
        size = answer.value if isinstance(answer, ConstantValue) else None
        if size is NotImplemented and name == "__length_hint__":
            return
        if type(size) is not int or size < 0:
            tr.graph_break("exception", f"{name} of {value.describe()} gives something else than a length")
        return


# -- methods -----------------------------------------------------------------------------------------


def _list_append(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "append", args, kwargs, 1, 1)
    self.append(tr, args[0])
    return ConstantValue(None)


def _list_extend(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "extend", args, kwargs, 1, 1)
    source = args[0].realize(tr)
    self.touch(tr)
    if isinstance(source, SequenceValue):
        self.items.extend(drain(tr, source))
        return ConstantValue(None)
    iterator = tr.iterate(source)
    ask_for_length(tr, source)
    while (item := iterator.next(tr)) is not None:
        self.items.append(item)
        check_length(tr, self.items)
    return ConstantValue(None)


def _list_insert(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "insert", args, kwargs, 2, 2)
    index = as_index(tr, args[0])
    if index is None:
        self.bad_index(tr, args[0])
    self.touch(tr)
    self.items.insert(index, args[1])
    return ConstantValue(None)


def _list_pop(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "pop", args, kwargs, 0, 1)
    index = as_index(tr, args[0]) if args else -1
    if index is None:
        self.bad_index(tr, args[0])
    self.touch(tr)
    if not self.items:
        tr.throw(IndexError, "pop from empty list")
    try:
        return self.items.pop(index)
    except IndexError:
        tr.throw(IndexError, "pop index out of range")


def _list_clear(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "clear", args, kwargs, 0, 0)
    self.touch(tr)
    tr.let_go(self, *self.items)
    self.items.clear()
    return ConstantValue(None)


def _list_reverse(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "reverse", args, kwargs, 0, 0)
    self.touch(tr)
    self.items.reverse()
    return ConstantValue(None)


def _list_remove(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "remove", args, kwargs, 1, 1)
    self.guard_length(tr)
    for position, item in enumerate(self.items):
        if tr.equals(item, args[0]):
            self.touch(tr)
            tr.let_go(self, *self.items[position : position + 1])
            del self.items[position : position + 1]  # a comparison may have made it shorter
            return ConstantValue(None)
    tr.throw(ValueError, "list.remove(x): x not in list")


def _reversed(tr: Tracer, self: SequenceValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "__reversed__", args, kwargs, 0, 0)
    self.guard_length(tr)
    return ReversedIterator(self)


def _copy(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "copy", args, kwargs, 0, 0)
    self.guard_length(tr)
    return ListValue(list(self.items))


def _index(tr: Tracer, self: SequenceValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "index", args, kwargs, 1, 3)
    self.guard_length(tr)
    bounds = [as_index(tr, arg) for arg in args[1:]]
    if None in bounds:
        self.bad_index(tr, args[1])
    for position in range(*slice(*[*bounds, None, None][:2]).indices(len(self.items))):
        if position >= len(self.items):
            break  # a comparison has made it shorter
        if tr.equals(self.items[position], args[0]):
            return ConstantValue(position)
    if isinstance(self, ListValue) and isinstance(args[0].realize(tr), ConstantValue):
        tr.throw(ValueError, f"{args[0].realize(tr).describe()} is not in list")
    tr.throw(ValueError, "tuple.index(x): x not in tuple")


def _count(tr: Tracer, self: SequenceValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "count", args, kwargs, 1, 1)
    self.guard_length(tr)
    return ConstantValue(sum(tr.equals(item, args[0]) for item in self.items))


def operator_methods(unary: dict[str, Callable[[Tracer, Value], Value]]) -> dict[str, Method]:
    """Special methods that read: `__len__`, `__iter__`, `__getitem__`, ... in terms of the protocol."""

    def make(name: str, fn: Callable[..., Any], count: int) -> Method:
        def method(tr: Tracer, self: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
            check_arguments(tr, name, args, kwargs, count, count)
            result = fn(tr, self, *args)
            if result is None:
                return ConstantValue(None)
            return result if isinstance(result, Value) else ConstantValue(result)

        return method

    table: dict[str, Method] = {
        "__len__": make("__len__", lambda tr, self: self.length(tr), 0),
        "__iter__": make("__iter__", lambda tr, self: self.iterate(tr), 0),
        "__getitem__": make("__getitem__", lambda tr, self, key: self.get_item(tr, key), 1),
        "__setitem__": make("__setitem__", lambda tr, self, key, value: self.set_item(tr, key, value), 2),
        "__delitem__": make("__delitem__", lambda tr, self, key: self.del_item(tr, key), 1),
        "__contains__": make("__contains__", lambda tr, self, item: self.contains(tr, item), 1),
    }
    for name, fn in unary.items():
        table[name] = make(name, fn, 0)
    return table


def _init_list(tr: Tracer, self: ListValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    check_arguments(tr, "__init__", args, kwargs, 0, 1)
    elements = drain(tr, args[0]) if args else []
    self.touch(tr)
    self.items[:] = elements
    return ConstantValue(None)


ListValue.methods = {
    **operator_methods({}),
    "append": _list_append,
    "extend": _list_extend,
    "insert": _list_insert,
    "pop": _list_pop,
    "clear": _list_clear,
    "reverse": _list_reverse,
    "remove": _list_remove,
    "copy": _copy,
    "index": _index,
    "count": _count,
    "__reversed__": _reversed,
    "__init__": _init_list,
}


def _init_nothing(tr: Tracer, self: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(None)


def _numel(tr: Tracer, self: TupleValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    known, size = self.constant_parts(tr)
    if self.cls is tuple or not known:
        tr.graph_break("call", f"numel() of {self.describe()}")
    return ConstantValue(size.numel())


TupleValue.methods = {
    **{k: v for k, v in operator_methods({}).items() if k not in ("__setitem__", "__delitem__")},
    "index": _index,
    "count": _count,
    "numel": _numel,
    "__init__": _init_nothing,
}

CONSTANT_TYPES.add(range)
