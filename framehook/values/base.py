"""The symbolic value: what the tracer holds in place of a real object, and how values speak to the tracer.

Values are small.  They know what Python would do with the object they stand for; whatever needs the graph,
guards or the frame they ask of the tracer that is handed to them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import torch

from framehook.values.real_classes import namespace_of
from framehook.values.wording import type_name

if TYPE_CHECKING:
    from framehook.guards.guard import Check
    from framehook.source import Source


class BreakGraph(Exception):
    """A point that cannot go into the graph.  Caught by the tracer at the root frame."""

    def __init__(self, kind: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.hint = hint
        self.frames: list[tuple[Any, int]] | None = None  # (code, byte offset), innermost last
        self.step = 0  # where the trace has to stop


class ObservedException(Exception):
    """An exception that the traced program raises, as a symbolic value."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value
        self.step = 0  # of the instruction that it left first


class Tracer(Protocol):
    """What values may ask of the tracer."""

    #: The innermost frame.
    frame: Any
    #: ids of objects from outside whose end nobody sees.
    silent: set[int]
    #: id of the `__dict__` of an object, a function or a module -> the value whose attributes it holds.
    namespaces: dict[int, Any]
    #: id of a globals dict -> what the trace knows of it.
    views: dict[int, Any]
    #: id of an object -> (the object, its value).
    known: dict[int, tuple[Any, Value]]

    def wrap(self, obj: object, source: Source) -> Value:
        """Return the value for a real object reached by `source`, guarded as needed."""

    def lazy(self, obj: object, source: Source | None) -> Value:
        """Return a value for a real object that is guarded only when it is looked at."""

    def found(self, value: Value) -> Value:
        """Note that a lookup gave this value: even if nobody uses it, it has to be there next time."""

    def constant_object(self, obj: object) -> Value:
        """Return the value of an object that no user code can replace (a builtin, a torch function)."""

    def guard(self, source: Source | None, check: Check, constant: Any = None) -> Any:
        """Add a guard and return it."""

    def from_plain(self, obj: Any) -> Value:
        """Return a value for a fresh plain object; parts of it may be values already."""

    def iterate(self, value: Value) -> Value:
        """`iter(value)`."""

    def drain(self, value: Value) -> list[Value]:
        """All elements of an iterable."""

    def truth(self, value: Value) -> bool:
        """`bool(value)`."""

    # Classes and attributes.

    def class_attr(self, cls: type, name: str) -> Any:
        """The raw attribute along the MRO, or MISSING; guarded."""

    def class_value_attr(self, cls: type, name: str) -> Value:
        """The same as a value."""

    def stored_class_attr(self, cls: type, name: str) -> Value | None:
        """A class attribute along the MRO that the frame has stored, or None."""

    def store_class_attr(self, cls: type, name: str, value: Value | None) -> None:
        """Store a class attribute; None deletes it."""

    def class_value(self, cls: type, owner: Value | None) -> Value:
        """The class of an object whose type is guarded."""

    def super_attr(self, start: type, bases: Sequence[type], owner: type, name: str) -> Value:
        """What `super()` finds on `owner`, one of `bases`."""

    def getset_value(self, owner: Value, raw: Any, name: str) -> Value | None:
        """An attribute served by a getset descriptor, or None if it is not modelled."""

    def module_getattr(self, owner: Any, fallback: Any, name: str) -> Value | None:
        """What `nn.Module.__getattr__` finds, or None if the class has another `__getattr__`."""

    # Calls that need more than the value itself.

    def construct(self, value: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """`cls(*args, **kwargs)`."""

    def call_real(self, fn: Any, value: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call a callable of C level."""

    def call_object(self, value: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call an object whose `__call__` is C code, or that has none."""

    def call_c_method(
        self, owner: Value, name: str, args: Sequence[Value], kwargs: dict[str, Value]
    ) -> Value:
        """Call a method that a builtin base class serves."""

    def call_constant_method(self, value: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call a method of a constant."""

    def special_method(self, owner: Value, name: str) -> Value | None:
        """A special method written in Python, bound; None if there is none."""

    def note_birth(self, value: Value) -> Value:
        """Note when a value was made that cannot be rebuilt once it is in use."""

    def is_checked(self, value: Any) -> bool:
        """Whether the program goes on only if this tensor is true, and the graph now sees to it."""

    def call_given(self, function: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call a function that an operation of the graph has given."""

    def call_until_stop(self, method: Value) -> Value | None:
        """Call `__next__`; None when it raises StopIteration."""

    def get_item_until_stop(self, owner: Value, key: Value) -> Value | None:
        """`owner[key]`; None when it raises IndexError or StopIteration."""

    def resume_generator(self, generator: Any, sent: Value) -> Value | None:
        """`next(generator)`; None when it returned."""

    def generator_method(self, generator: Any, name: str, args: Sequence[Value]) -> Value:
        """`send`, `throw` or `close` of a generator."""

    def is_changing(self, value: Value) -> bool:
        """Whether it is a number that nobody has looked at and that is known to differ between calls."""

    def compare_symbols(self, compare: Callable[[Any, Any], Any], left: Value, right: Value) -> bool | None:
        """Compare two integers one of which is a symbol, guarded; None where neither is."""

    def note_specialised(self) -> None:
        """A size has become a number: see whether it may."""

    def note_risky(self, value: Value) -> None:
        """Note a number that generated code computes first of all, as doing so may raise."""

    def is_held(self, value: Value) -> bool:
        """Whether a variable of a frame of the trace holds the object for sure."""

    def need_requires_grad(self, value: Any) -> None:
        """The trace depends on `requires_grad` of an input."""

    def call(self, fn: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call `fn` as Python would."""

    def inline(self, fn: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Inline a Python function value."""

    def graph_break(self, kind: str, reason: str, hint: str = "") -> NoReturn:
        """Raise BreakGraph."""

    def throw(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raise ObservedException with a new exception of `cls`; args may be values or plain constants."""

    def graph_call(
        self, target: Any, args: Sequence[Value], kwargs: dict[str, Value], *, method: bool = False
    ) -> Value:
        """Put a call into the graph and return its (symbolic) result."""

    def mutated(self, value: Value) -> None:
        """Note that a value that exists outside the frame was changed."""

    def let_go(self, container: Value, *values: Value) -> None:
        """Break where a container that exists outside the frame drops an object whose end somebody sees."""

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """Apply a binary operator (`+`, `+=`, `@`, ...)."""

    def compare(self, op: str, left: Value, right: Value) -> Value:
        """Apply a rich comparison."""

    def is_same(self, left: Value, right: Value) -> bool:
        """Answer `left is right`, guarded."""

    def equals(self, left: Value, right: Value) -> bool:
        """Answer `left is right or left == right` as containers ask it."""

    def forget_birth(self, value: Value) -> None:
        """From now on the value can be rebuilt wherever the trace stops."""

    def record_effect(self, effect: Any) -> None:
        """Note an effect that is replayed after the graph."""

    def current_exception(self) -> Value | None:
        """The exception that a frame of the trace handles, if any."""

    def traceback_value(self) -> Value:
        """The traceback of an exception that the trace has raised."""

    def nothing_handled_outside(self) -> bool:
        """Whether no caller of the trace's frames handles an exception; guarded."""


def defines(cls: type, name: str) -> bool:
    """Whether a class has an attribute of its own or an inherited one, its metaclass aside."""
    return any(name in namespace_of(base) for base in cls.__mro__)


class Value:
    """Base of all symbolic values."""

    __slots__ = ("source",)

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def realize(self, tr: Tracer) -> Value:
        """Return the value itself, or what a lazy value stands for (this adds its guards)."""
        return self

    def python_type(self) -> type:
        """The exact class of the object that this value stands for."""
        raise NotImplementedError(type(self).__name__)

    def describe(self) -> str:
        """The value in words, for reasons of graph breaks."""
        return f"a {self.python_type().__name__}"

    # -- protocol of Python objects; the defaults say that the operation is not understood ----------
    def lacks(self, tr: Tracer, special: str, message: str) -> NoReturn:
        """Raise TypeError if the class has no such special method; if it has one, it is not modelled."""
        if defines(self.python_type(), special):
            tr.graph_break("call", f"{special} of {self.describe()} is not modelled")
        tr.throw(TypeError, message)

    def truth(self, tr: Tracer) -> bool:
        """`bool(self)`."""
        cls = self.python_type()
        if defines(cls, "__bool__") or defines(cls, "__len__"):
            tr.graph_break("call", f"the truth of {self.describe()} is not modelled")
        return True

    def get_attr(self, tr: Tracer, name: str) -> Value:
        """`self.name`."""
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        """`self.name = value`."""
        tr.graph_break("attribute", f"setting attribute '{name}' of {self.describe()} is not modelled")

    def del_attr(self, tr: Tracer, name: str) -> None:
        """`del self.name`."""
        tr.graph_break("attribute", f"deleting attribute '{name}' of {self.describe()} is not modelled")

    def get_item(self, tr: Tracer, key: Value) -> Value:
        """`self[key]`."""
        self.lacks(tr, "__getitem__", f"'{type_name(self.python_type())}' object is not subscriptable")

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        """`self[key] = value`."""
        self.lacks(
            tr, "__setitem__", f"'{type_name(self.python_type())}' object does not support item assignment"
        )

    def del_item(self, tr: Tracer, key: Value) -> None:
        """`del self[key]`."""
        self.lacks(
            tr, "__delitem__", f"'{type_name(self.python_type())}' object doesn't support item deletion"
        )

    def length(self, tr: Tracer) -> int:
        """`len(self)`."""
        self.lacks(tr, "__len__", f"object of type '{type_name(self.python_type())}' has no len()")

    def iterate(self, tr: Tracer) -> Value:
        """`iter(self)`: a value with `next`."""
        self.lacks(tr, "__iter__", f"'{type_name(self.python_type())}' object is not iterable")

    def next(self, tr: Tracer) -> Value | None:
        """`next(self)`; None when exhausted."""
        self.lacks(tr, "__next__", f"'{type_name(self.python_type())}' object is not an iterator")

    def contains(self, tr: Tracer, item: Value) -> bool:
        """`item in self`."""
        iterator = self.iterate(tr)
        while (element := iterator.next(tr)) is not None:
            if tr.equals(element, item):
                return True
        return False

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """`self(*args, **kwargs)`."""
        self.lacks(tr, "__call__", f"'{type_name(self.python_type())}' object is not callable")

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """`self.name(*args, **kwargs)`."""
        return tr.call(self.get_attr(tr, name), args, kwargs)


class LazyValue(Value):
    """A real object that nobody has looked at yet: passed through, it is not guarded at all."""

    __slots__ = ("actual", "obj")
    source: Source

    def __init__(self, obj: object, source: Source) -> None:
        super().__init__(source)
        self.obj = obj
        self.actual: Value | None = None

    def realize(self, tr: Tracer) -> Value:
        actual = self.actual
        if actual is None:
            actual = self.actual = tr.wrap(self.obj, self.source)
        return actual

    def python_type(self) -> type:
        return type(self.obj)

    def _forward(self, name: str) -> NoReturn:
        raise AssertionError(
            f"lazy value of {self.source.name()} was asked for {name} before it was realized"
        )


class ChangingNumber(LazyValue):
    """A number out of native code that differs from call to call: whoever looks at it stays native."""

    __slots__ = ()

    def realize(self, tr: Tracer) -> Value:
        tr.graph_break(
            "data_dependent",
            f"the {type(self.obj).__name__} at {self.source.name()} comes out of native code and differs between calls",
            "keep it as a tensor",
        )


class NullValue(Value):
    """The NULL that CPython pushes below a callable."""

    __slots__ = ()


NULL = NullValue()


class ConstantValue(Value):
    """An immutable object known by value: numbers, strings, None, dtypes, ..."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.source = source
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return repr(self.value)

    def truth(self, tr: Tracer) -> bool:
        return bool(self.value)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        value = self.value
        if name == "__class__":
            return tr.constant_object(type(value))
        try:
            found = getattr(value, name)
        except AttributeError as error:
            tr.throw(AttributeError, *error.args)
        if is_constant(found):
            return ConstantValue(found)
        if isinstance(found, enum.Enum):
            return tr.constant_object(found)
        if callable(found):
            return MethodOfConstant(self, name, found)
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        if type(self.value) in _BARE_TYPES and name != "__class__":
            try:
                setattr(self.value, name, None)
            except AttributeError as error:
                tr.throw(AttributeError, *error.args)
        super().set_attr(tr, name, value)

    def del_attr(self, tr: Tracer, name: str) -> None:
        if type(self.value) in _BARE_TYPES:
            try:
                delattr(self.value, name)
            except AttributeError as error:
                tr.throw(AttributeError, *error.args)
        super().del_attr(tr, name)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        return fold(tr, lambda a, b: a[b], [self, key], {})

    def length(self, tr: Tracer) -> int:
        try:
            return len(self.value)
        except TypeError as error:
            tr.throw(TypeError, *error.args)

    def contains(self, tr: Tracer, item: Value) -> bool:
        if type(self.value) is tuple:
            check_nan(tr, self.value, to_constant(tr, item)[1])
        result = fold(tr, lambda a, b: b in a, [self, item], {})
        assert isinstance(result, ConstantValue)
        return bool(result.value)


class MethodOfConstant(Value):
    """A method bound to a constant: `"a".join`, `(1).bit_length`, `torch.float32.to_real`."""

    __slots__ = ("fn", "name", "owner")

    def __init__(self, owner: ConstantValue, name: str, fn: Callable[..., Any]) -> None:
        self.source = None
        self.owner = owner
        self.name = name
        self.fn = fn

    def python_type(self) -> type:
        return type(self.fn)

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call_constant_method(self, args, kwargs)


#: Types whose objects are constants: immutable, compared by value, safe to put into generated code.
CONSTANT_TYPES: set[type] = {
    int, float, bool, str, bytes, complex, type(None), type(Ellipsis), type(NotImplemented), range,
}  # fmt: skip


#: Types whose objects have no attributes that could be set.
_BARE_TYPES = (int, float, bool, str, bytes, complex, type(None), range, tuple, frozenset)


def is_constant(obj: object) -> bool:
    """Whether an object may stand in generated code and be folded: immutable all the way down."""
    cls = type(obj)
    if type(cls) is not type:
        return False  # whose metaclass may define what the hash of a class is
    if cls is torch.Size:
        return all(type(size) is int for size in obj)  # type: ignore[attr-defined]
    if cls in CONSTANT_TYPES:
        return True
    if cls is tuple or cls is frozenset:
        return all(is_constant(item) for item in obj)  # type: ignore[attr-defined]
    if cls is slice:
        return is_constant((obj.start, obj.stop, obj.step))  # type: ignore[attr-defined]
    return False


def has_nan(obj: object) -> bool:
    """Whether a constant is or holds a NaN: containers tell it from another one by which object it is."""
    cls = type(obj)
    if cls is float or cls is complex:
        return bool(obj != obj)
    if cls is tuple or cls is frozenset:
        return any(has_nan(item) for item in obj)  # type: ignore[attr-defined]
    return cls is slice and has_nan((obj.start, obj.stop, obj.step))  # type: ignore[attr-defined]


def check_nan(tr: Tracer, *objects: object) -> None:
    """Break where constants are compared that all hold a NaN: guards go by value, not by which object it is."""
    if all(map(has_nan, objects)):
        tr.graph_break("call", "which object a NaN is decides")


def to_constant(tr: Tracer, value: Value) -> tuple[bool, Any]:
    """Return (True, object) when the value is a constant all the way down, else (False, None)."""
    value = value.realize(tr)
    if isinstance(value, ConstantValue):
        return True, value.value
    unpack = getattr(value, "constant_parts", None)
    if unpack is not None:
        return unpack(tr)
    return False, None


def fold(tr: Tracer, fn: Callable[..., Any], args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Run a pure function on constants now; an exception it raises is the traced program's."""
    return call_now(tr, fn, args, kwargs, to_constant)


#: Containers in containers that a folded call may go through.  What native code can follow depends on the stack at
#: the time of the call, and the tracer has a deeper one.
_MAX_NESTING = 50


def _is_deep(obj: Any) -> bool:
    """Whether an object is a container of containers of containers, and so on for too long."""
    level = [obj]
    for _ in range(_MAX_NESTING):
        parts: dict[int, Any] = {}
        for each in level:
            if type(each) in (list, tuple):
                parts.update((id(part), part) for part in each if type(part) in (list, tuple, dict))
            elif type(each) is dict:
                parts.update((id(part), part) for part in each.values() if type(part) in (list, tuple, dict))
        if not parts:
            return False
        level = list(parts.values())
    return True


def call_now(
    tr: Tracer,
    fn: Callable[..., Any],
    args: Sequence[Value],
    kwargs: dict[str, Value],
    read: Callable[[Tracer, Value], tuple[bool, Any]],
) -> Value:
    """Run a pure function now, on what `read` knows its arguments to be; where it does not know, the graph breaks."""

    def plain(arg: Value) -> Any:
        known, obj = read(tr, arg)
        if not known:
            name = getattr(fn, "__qualname__", str(fn))
            tr.graph_break("call", f"{name}() is called with {arg.realize(tr).describe()}")
        return obj

    positional = [plain(arg) for arg in args]
    named = {name: plain(arg) for name, arg in kwargs.items()}
    if any(_is_deep(obj) for obj in (*positional, *named.values())):
        tr.graph_break("limit", "values are nested so deeply that native code may not be able to follow")
    try:
        result = fn(*positional, **named)
    except (ObservedException, BreakGraph):
        raise  # what the trace was asked for in between
    except (RecursionError, MemoryError) as error:
        tr.graph_break("limit", f"{type(error).__name__} while tracing")
        raise AssertionError from None
    except Exception as error:
        tr.throw(type(error), *error.args)
    for arg, obj in zip(args, positional, strict=True):
        if result is obj:  # `(1, 2) * 1` is the tuple itself
            return arg.realize(tr)
    return from_plain(tr, result)


def from_plain(tr: Tracer, result: Any) -> Value:
    """Make a value from a fresh plain object (constants and containers of constants)."""
    return tr.from_plain(result)
