"""Classes: looking attributes up along the MRO, and making instances."""

from __future__ import annotations

import abc
import collections
import enum
import types
from collections.abc import Sequence
from typing import Any

import torch

from framehook.guards.guard import Check
from framehook.source import Source
from framehook.values.base import ConstantValue, Value, fold, is_constant, to_constant
from framehook.values.classes import ClassValue
from framehook.values.deques import DequeValue
from framehook.values.descriptors import part_of
from framehook.values.exceptions import ExceptionValue, native_exception
from framehook.values.mappings import DictValue
from framehook.values.numbers import is_untouched_number
from framehook.values.objects import MISSING, ObjectValue, has_plain_names
from framehook.values.real_classes import derives, namespace_of
from framehook.values.sequences import ListValue, TupleValue, drain
from framehook.values.sets import SetValue

_IMMUTABLE_CLASS = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: nobody can change its attributes


def is_mutable_class(cls: type) -> bool:
    """Whether user code can set attributes of the class."""
    return not cls.__flags__ & _IMMUTABLE_CLASS


def native_base(cls: type) -> type:
    """The nearest class of C code: its `__new__` makes the object."""
    return next(base for base in cls.__mro__ if not base.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE


class ClassStores:
    """What the frame stored to one class."""

    __slots__ = ("cls", "source", "values")

    def __init__(self, cls: type, source: Source) -> None:
        self.cls = cls
        self.source = source
        self.values: dict[str, Value | None] = {}


class ClassLookup:
    """Class attributes as one trace sees them, each guarded once."""

    def __init__(self, tr: Any) -> None:
        self.tr = tr
        # By id: a metaclass may define what the hash of a class is.
        self._raw: dict[tuple[int, str], Any] = {}
        self._values: dict[tuple[int, str], Value] = {}
        # Classes whose names are strings.
        self._plain: set[int] = set()
        #: What the frame stored to classes, by class and name; None: deleted.
        self._stores: dict[int, ClassStores] = {}
        self._stored_names: set[str] = set()

    def stored(self, cls: type, name: str) -> Value | None:
        """The class attribute along the MRO if the frame has stored it."""
        if name not in self._stored_names:
            return None
        for base in cls.__mro__:
            stores = self._stores.get(id(base))
            if stores is not None and name in stores.values:
                found = stores.values[name]
                if found is not None:
                    return found
            elif name in namespace_of(base):
                return None
        return None

    def store(self, cls: type, name: str, value: Value | None) -> None:
        """`type.__setattr__`, and with None `type.__delattr__`."""
        tr = self.tr
        what = f"class attribute '{cls.__qualname__}.{name}'"
        if not is_mutable_class(cls) or (name.startswith("__") and name.endswith("__")):
            tr.graph_break("side_effect", f"{what} is set")
        if value is not None:
            value = value.realize(tr) if not is_untouched_number(value) else value
            kind = value.python_type()
            if any(hasattr(kind, special) for special in ("__get__", "__set__", "__delete__")):
                tr.graph_break("side_effect", f"{what} is set to a descriptor")
        stores = self._stores.get(id(cls))
        template = tr.templates.get(id(cls))
        if stores is None:
            stores = self._stores[id(cls)] = ClassStores(cls, tr.absolute(cls, None))
            if template is None:
                tr.record_effect(stores)
            else:
                template.later = stores.values
        if name not in stores.values:
            namespace = tr.absolute(cls, None).member("__dict__")
            is_there = name in namespace_of(cls)
            tr.guard(namespace, Check.HAS_KEY if is_there else Check.NO_KEY, name)
        else:
            is_there = stores.values[name] is not None
        if value is None and not is_there:
            tr.graph_break("exception", f"{what}, which is not there, is deleted")
        self._stored_names.add(name)
        if value is None and name not in namespace_of(cls):
            del stores.values[name]
        else:
            stores.values[name] = value

    def raw(self, cls: type, name: str) -> Any:
        """The raw attribute along the MRO, or MISSING; guarded."""
        if name in self._stored_names and any(
            name in self._stores[id(base)].values for base in cls.__mro__ if id(base) in self._stores
        ):
            self.tr.graph_break("side_effect", f"class attribute '{cls.__qualname__}.{name}' has changed")
        key = (id(cls), name)
        found = self._raw.get(key)
        if found is None:
            self.tr.keep_alive.append(cls)
            found = MISSING
            for base in cls.__mro__:
                namespace = namespace_of(base)
                if id(base) not in self._plain:
                    if not has_plain_names(namespace):
                        self.tr.graph_break(
                            "container", f"class {base.__name__} has names that are no strings"
                        )
                    self._plain.add(id(base))
                if name in namespace:
                    found = namespace[name]
                    break
            self._raw[key] = found
            if is_mutable_class(cls):
                self._guard(cls, name, found)
        return found

    def _guard(self, cls: type, name: str, raw: Any) -> None:
        tr = self.tr
        source = tr.absolute(cls, None)
        kind = type(raw)
        if raw is not MISSING and is_mutable_class(kind) and not issubclass(kind, (type, torch.Tensor)):
            # Whether it is a descriptor can change.
            for special in ("__get__", "__set__", "__delete__"):
                self.raw(kind, special)
        if raw is MISSING:
            tr.guard(source, Check.NO_CLASS_ATTR, name)
        elif type(raw) in (int, float):
            # Numbers may only be counted with: the value is guarded by whoever looks at it.
            tr.guard(source.class_attr(name), Check.TYPE, type(raw))
        elif is_constant(raw):
            tr.guard(source.class_attr(name), Check.EQUALS, raw)
        elif hasattr(type(raw), "__get__"):
            tr.guard(source.class_attr(name), Check.IDENTITY, raw)
        else:
            tr.guard(source.class_attr(name), Check.TYPE, type(raw))

    def value(self, cls: type, name: str) -> Value:
        """The raw attribute as a value; the caller knows that there is one."""
        key = (id(cls), name)
        value = self._values.get(key)
        if value is None:
            raw = self.raw(cls, name)
            tr = self.tr
            made = self._made_by_frame(cls, name)
            if made is not None:
                return made
            source: Source = tr.absolute(cls, None).class_attr(name)
            if hasattr(type(raw), "__get__") or not is_mutable_class(cls):
                # Its identity is guarded already.
                source = tr.absolute(raw, source)
            value = self._values[key] = tr.lazy_or_raw(raw, source)
        return value

    def _made_by_frame(self, cls: type, name: str) -> Value | None:
        """What the body of a class defined by the frame bound to the name, unless the template has the very thing."""
        if self.tr.templates:
            for base in cls.__mro__:
                template = self.tr.templates.get(id(base))
                if name in namespace_of(base):
                    return None if template is None else template.functions.get(name)
        return None

    def forget(self, cls: type) -> None:
        """Forget what was looked up in a class."""
        for table in (self._raw, self._values):
            for key in [key for key in table if key[0] == id(cls)]:
                del table[key]

    def super_value(self, start: type, bases: Sequence[type], owner: type, name: str) -> Value:
        """The attribute that `super()` finds on `owner`; none of the classes before it may get one."""
        tr = self.tr
        for base in bases:
            if base is owner:
                break
            if is_mutable_class(base):
                tr.guard(tr.absolute(base, None).member("__dict__"), Check.NO_KEY, name)
        tr.guard(tr.absolute(start, None).member("__mro__"), Check.IDENTITY, start.__mro__)
        return self.value(owner, name)


# -- making instances ------------------------------------------------------------------------------------

_BASE_PARTS: tuple[tuple[type, Any], ...] = (
    (dict, lambda cls: DictValue(cls=cls)),
    (list, lambda cls: ListValue([])),
    (collections.deque, lambda cls: DequeValue([], None)),
    (set, lambda cls: SetValue()),
    (frozenset, lambda cls: SetValue(cls=frozenset)),
)


def construct(tr: Any, value: ClassValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """`cls(*args, **kwargs)` for a class without a rule of its own."""
    cls = value.fn
    meta = type(cls)
    if issubclass(cls, enum.Enum):
        return _enum_member(tr, value, args)
    if meta is not type and meta is not abc.ABCMeta:
        call = tr.class_attr(meta, "__call__")
        if isinstance(call, types.FunctionType):
            return tr.call(tr.class_value_attr(meta, "__call__"), [value, *args], kwargs)
        if not hasattr(type(call), "__get__"):
            # A class, say (`typing.TypedDict` has `dict`): it is not told which class is called.
            return tr.call(tr.class_value_attr(meta, "__call__"), args, kwargs)
        if not isinstance(call, types.WrapperDescriptorType):
            tr.graph_break("call", f"the metaclass of {value.describe()} has a __call__ that is no function")
    if getattr(cls, "__abstractmethods__", None):
        if tr.class_attr(cls, "__new__") is object.__new__ and tr.class_attr(cls, "__abstractmethods__"):
            try:
                object.__new__(cls)
            except TypeError as error:
                tr.throw(TypeError, *error.args)
        tr.graph_break("exception", f"the abstract {value.describe()} is instantiated")
    return make_instance(tr, value, args, kwargs)


def make_instance(tr: Any, value: ClassValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """`type.__call__`: `__new__`, then `__init__` if that gave an instance."""
    cls = value.fn
    if tr.class_attr(cls, "__del__") is not MISSING:
        tr.graph_break("finalizer", f"an object of class {cls.__qualname__}, which has __del__, is made")
    new = tr.class_attr(cls, "__new__")
    if isinstance(new, staticmethod):
        new = new.__func__
    if isinstance(new, types.FunctionType):
        fn = tr.class_value_attr(cls, "__new__").realize(tr)
        if not isinstance(fn, ClassValue) and fn.python_type() is staticmethod:
            found = part_of(tr, tr.class_attr(cls, "__new__"), fn, "__func__")
            assert found is not None
            fn = found.realize(tr)
        instance = tr.call(fn, [value, *args], kwargs).realize(tr)
    else:
        if (
            kwargs
            and new is not object.__new__
            and not derives(cls, BaseException)
            and not _ignores_keywords(new)
        ):
            tr.graph_break("call", f"{value.describe()} is made by C code, with keyword arguments")
        instance = new_instance(tr, cls, new, args, bool(args or kwargs))
    if not derives(instance.python_type(), cls):
        return instance
    if instance.python_type() is not cls:
        # `__new__` has made an instance of a class below: that one's `__init__` it is.
        cls = instance.python_type()
    init = tr.class_attr(cls, "__init__")
    if isinstance(init, types.FunctionType):
        result = tr.call(tr.class_value_attr(cls, "__init__"), [instance, *args], kwargs).realize(tr)
        if not (isinstance(result, ConstantValue) and result.value is None):
            tr.throw(TypeError, f"__init__() should return None, not '{result.python_type().__name__}'")
    elif isinstance(instance, ExceptionValue):
        instance.initialise(tr, args, kwargs)
    elif isinstance(instance, ObjectValue):
        if init is not object.__init__:
            if instance.base is None or isinstance(instance.base, TupleValue):
                if not isinstance(instance.base, TupleValue):
                    tr.graph_break("call", f"{value.describe()} is initialised by C code")
            else:
                tr.call_c_method(instance, "__init__", args, kwargs)
    return instance


def _ignores_keywords(new: Any) -> bool:
    """Whether a `__new__` of C code leaves the arguments to `__init__`."""
    return any(new is base.__new__ for base in (dict, list, set, collections.deque, collections.OrderedDict))


def new_instance(tr: Any, cls: type, new: Any, args: Sequence[Value], has_arguments: bool) -> Value:
    """`new(cls, *args)` where `new` is the `__new__` of a builtin class."""
    if issubclass(cls, BaseException):
        if native_exception(cls) is None:
            tr.graph_break(
                "exception", f"an exception of class {cls.__qualname__} keeps more than its arguments"
            )
        return ExceptionValue(cls, list(args))
    if new is object.__new__:
        if cls.__flags__ & (1 << 7):  # Py_TPFLAGS_DISALLOW_INSTANTIATION
            tr.graph_break("exception", f"class {cls.__qualname__} cannot be instantiated")
        if has_arguments:
            if tr.class_attr(cls, "__new__") is not new:
                tr.throw(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
            if tr.class_attr(cls, "__init__") is object.__init__:
                tr.throw(TypeError, f"{cls.__name__}() takes no arguments")
            try:
                object.__new__(cls, None)
            except TypeError as error:
                # A `__new__` that the class once had has left its mark.
                tr.throw(TypeError, *error.args)
        return ObjectValue(cls, None)
    if new is tuple.__new__:
        return ObjectValue(cls, None, base=TupleValue(drain(tr, args[0]) if args else []))
    for plain in (str, int, float, bytes):
        if (
            new is plain.__new__
            and native_base(cls) is plain
            and tr.class_attr(cls, "__init__") is object.__init__
        ):
            content = fold(tr, plain, list(args), {})
            if type(content) is ConstantValue:
                return ObjectValue(cls, None, base=content)
    for base, part in _BASE_PARTS:
        if issubclass(cls, base):
            if cls in (dict, list, set, frozenset, collections.OrderedDict, collections.defaultdict):
                return part(cls)
            storage = part(collections.OrderedDict if issubclass(cls, collections.OrderedDict) else base)
            if issubclass(cls, collections.defaultdict):
                storage.cls = collections.defaultdict
            if base is frozenset:
                tr.graph_break("call", f"a subclass of frozenset: {cls.__name__}")
            return ObjectValue(cls, None, base=storage)
    tr.graph_break("call", f"class {cls.__qualname__} is instantiated by C code")
    raise AssertionError


def _enum_member(tr: Any, value: ClassValue, args: Sequence[Value]) -> Value:
    cls: Any = value.fn
    if len(args) != 1:
        tr.graph_break("call", f"{value.describe()} is called")
    arg = args[0].realize(tr)
    if isinstance(arg, ObjectValue) and derives(arg.cls, cls):
        return arg
    known, obj = to_constant(tr, arg)
    if not known or type(obj).__hash__ is None:
        tr.graph_break("exception", f"{arg.describe()} is no value of {value.describe()}")
    if obj not in cls._value2member_map_:
        missing = tr.class_attr(cls, "_missing_")
        code = getattr(getattr(missing, "__func__", None), "__module__", None)
        if code != "enum":
            return _missing_member(tr, value, arg)
        try:
            cls(obj)  # a member of a flag is made when it is asked for the first time, and kept
        except ValueError as error:
            tr.throw(ValueError, *error.args)
        except TypeError:  # since 3.12: an enum without members has no values
            tr.graph_break("exception", f"{arg.describe()} is no value of {value.describe()}")
    member = cls._value2member_map_.get(obj)
    if member is None:
        tr.graph_break("exception", f"{arg.describe()} is no value of {value.describe()}")
    return tr.wrap(member, tr.absolute(member, value.source))


def _missing_member(tr: Any, value: ClassValue, arg: Value) -> Value:
    """What a `_missing_` of one's own makes of a value."""
    found = tr.call(value.get_attr(tr, "_missing_"), [arg], {}).realize(tr)
    if isinstance(found, ObjectValue) and derives(found.cls, value.fn):
        return found
    if isinstance(found, ConstantValue) and found.value is None:
        _, obj = to_constant(tr, arg)
        tr.throw(ValueError, f"{obj!r} is not a valid {value.fn.__qualname__}")
    tr.graph_break("exception", f"_missing_() of {value.describe()} returns {found.describe()}")
    raise AssertionError
