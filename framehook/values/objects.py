"""Objects of Python classes, their `__dict__`, and exceptions."""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import threading
import types
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from framehook import _C
from framehook.guards.guard import Check
from framehook.values.base import ConstantValue, ObservedException, Tracer, Value, to_constant
from framehook.values.descriptors import part_of
from framehook.values.endings import check_let_go, check_object_let_go, goes_unseen
from framehook.values.functions import BoundMethodValue
from framehook.values.iterators import ItemIterator
from framehook.values.mappings import DictValue, OwnKey, hash_key
from framehook.values.purity import is_pure_method
from framehook.values.real_classes import derives, namespace_of
from framehook.values.sequences import (
    BuiltinContainer,
    BuiltinMethod,
    TupleValue,
    operator_methods,
)
from framehook.values.wording import no_place, type_name, unset_slot

if TYPE_CHECKING:
    from framehook.source import Source


class Missing(enum.Enum):
    """The answer of a class lookup that found nothing."""

    MISSING = 0


MISSING: Final = Missing.MISSING

SLOT_WRAPPERS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)


def is_data_descriptor(raw: object) -> bool:
    """Whether a class attribute takes precedence over the instance `__dict__`."""
    cls = type(raw)
    return hasattr(cls, "__set__") or hasattr(cls, "__delete__")


#: C implementations of attribute stores that store like `object` does.
_PLAIN_SETTERS = (
    object.__setattr__,
    functools.partial.__setattr__,
    BaseException.__setattr__,
    types.SimpleNamespace.__setattr__,
)


#: Classes of C code that keep attributes elsewhere than in the `__dict__` of the object.
_OWN_LOOKUP = (threading.local, weakref.ProxyType, weakref.CallableProxyType)


_NONE: frozenset[str] = frozenset()


class ObjectValue(Value):
    """An object whose class decides what it does.

    `obj` is the real object, or None for one made inside the frame.  `attrs` holds attributes as they are now,
    as far as the trace has read or changed them (None: deleted).  `base` models what a builtin base class
    stores (the dict in a dict subclass).
    """

    __slots__ = ("attrs", "base", "changed", "cls", "obj", "stored", "unseen", "version")

    def __init__(
        self, cls: type, obj: object | None, source: Source | None = None, base: Value | None = None
    ) -> None:
        self.source = source
        self.cls = cls
        self.obj = obj
        self.base = base
        if isinstance(base, TupleValue):
            base.is_part = True
        self.attrs: dict[str, Value | None] = {}
        #: Names stored or deleted by the frame, in order; True: what was there at entry goes first.
        self.stored: dict[str, bool] = {}
        #: Names stored whatever was there.
        self.unseen: frozenset[str] | set[str] = _NONE
        self.changed = False
        self.version = 0  # moves with every attribute stored or deleted

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"an object of class {self.cls.__qualname__}"

    # -- attributes --------------------------------------------------------------------------------
    def instance_attr(self, tr: Tracer, name: str) -> Value | None:
        """What the instance `__dict__` holds under `name`, or None; either answer is guarded."""
        if name in self.attrs:
            return self.attrs[name]
        namespace = self._namespace(tr)
        if namespace is None:
            return None
        assert self.source is not None
        if name in namespace:
            found = self.attrs[name] = tr.found(tr.lazy(namespace[name], self.source.attr(name)))
            return found
        tr.guard(self.source.instance_dict(), Check.NO_KEY, name)
        return None

    def _namespace(self, tr: Tracer) -> dict[str, Any] | None:
        """The real `__dict__`, or None if the object has none."""
        if self.obj is None:
            return None
        if any(derives(self.cls, each) for each in _OWN_LOOKUP):
            tr.graph_break("attribute", f"the attributes of {self.describe()} are served by C code")
        namespace = instance_dict(self.obj)
        if namespace is None:
            return None
        owner = tr.namespaces.get(id(namespace))
        if owner is None:
            if not has_plain_names(namespace):
                tr.graph_break("container", f"the __dict__ of {self.describe()} has keys that are no strings")
            owner = tr.namespaces[id(namespace)] = self
        if owner is not self and getattr(owner, "obj", None) is not self.obj:
            tr.graph_break("container", f"{self.describe()} shares its __dict__")
        return namespace

    def get_attr(self, tr: Tracer, name: str) -> Value:
        cls = self.cls
        custom = tr.class_attr(cls, "__getattribute__")
        if isinstance(custom, types.FunctionType):
            asked = [self, ConstantValue(name)]
            try:
                return tr.call(tr.class_value_attr(cls, "__getattribute__"), asked, {})
            except ObservedException as observed:
                if not issubclass(observed.value.python_type(), AttributeError) or (
                    tr.class_attr(cls, "__getattr__") is MISSING
                ):
                    raise
            return tr.call(tr.class_value_attr(cls, "__getattr__"), asked, {})
        if not isinstance(custom, types.WrapperDescriptorType):
            tr.graph_break("attribute", f"__getattribute__ of {self.describe()} is no function")
        if name == "__class__" and not hides_class(cls):
            return tr.class_value(cls, self)
        if name == "__dict__" and shows_instance_dict(cls):
            return InstanceDictValue(self)
        try:
            found = self.find_attr(tr, name)
        except ObservedException as observed:
            # A property of the class has raised it.
            is_missing = issubclass(observed.value.python_type(), AttributeError)
            if not is_missing or tr.class_attr(cls, "__getattr__") is MISSING:
                raise
            found = None
        if found is not None:
            return found
        fallback = tr.class_attr(cls, "__getattr__")
        if fallback is not MISSING:
            shortcut = tr.module_getattr(self, fallback, name)
            if shortcut is not None:
                return shortcut
            return tr.call(tr.class_value_attr(cls, "__getattr__"), [self, ConstantValue(name)], {})
        tr.throw(AttributeError, f"'{type_name(cls)}' object has no attribute '{name}'")

    def find_attr(self, tr: Tracer, name: str) -> Value | None:
        """`object.__getattribute__`, None instead of AttributeError."""
        stored = tr.stored_class_attr(self.cls, name)
        if stored is not None:
            found = self.instance_attr(tr, name)
            return stored if found is None else found
        raw = tr.class_attr(self.cls, name)
        if raw is not MISSING and is_data_descriptor(raw) and hasattr(type(raw), "__get__"):
            return self.bind(tr, raw, name)
        found = self.instance_attr(tr, name)
        if found is not None:
            return found
        if raw is not MISSING:
            return self.bind(tr, raw, name)
        return None

    def _raw(self, tr: Tracer, name: str) -> Any:
        """The raw class attribute; what the frame has stored to a class is none that takes stores."""
        return MISSING if tr.stored_class_attr(self.cls, name) is not None else tr.class_attr(self.cls, name)

    def bind(self, tr: Tracer, raw: object, name: str) -> Value:
        """Bind a raw class attribute to this object, as its `__get__` would."""
        value = tr.class_value_attr(self.cls, name)
        return bind_raw(tr, raw, value, self, self.cls, name)

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        custom = tr.class_attr(self.cls, "__setattr__")
        if isinstance(custom, types.FunctionType):
            tr.call(tr.class_value_attr(self.cls, "__setattr__"), [self, ConstantValue(name), value], {})
            return
        if custom not in _PLAIN_SETTERS:
            super().set_attr(tr, name, value)
        self.generic_set_attr(tr, name, value)

    def generic_set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        """`object.__setattr__`."""
        raw = self._raw(tr, name)
        if raw is not MISSING and is_data_descriptor(raw):
            self.set_through_descriptor(tr, raw, name, value)
            return
        if not has_instance_dict(self.cls):
            tr.throw(AttributeError, no_place(self.cls, name, raw is not MISSING))
        if self.obj is not None and name not in self.attrs:
            if goes_unseen(value) and self._namespace(tr) is not None:
                self._store_unseen(tr, name, value)
                return
            self.instance_attr(tr, name)  # guards whether the name was there: what is there, goes
        if self.obj is not None and self.attrs.get(name) is not None and name not in self.stored:
            assert self.source is not None
            tr.guard(self.source.instance_dict(), Check.HAS_KEY, name)
        self.store(tr, name, value)

    def _store_unseen(self, tr: Tracer, name: str, value: Value) -> None:
        """Store an attribute whether it is there or not: as it is the same kind of thing each time, so is what goes."""
        check_object_let_go(tr, (instance_dict(self.obj) or {}).get(name))
        self.store(tr, name, value)
        self.unseen = {*self.unseen, name}

    def set_through_descriptor(self, tr: Tracer, raw: object, name: str, value: Value | None) -> None:
        """Store to (or, with None, delete through) a data descriptor of the class."""
        if isinstance(raw, property):
            descriptor = tr.class_value_attr(self.cls, name)
            fn = part_of(tr, raw, descriptor, "fset" if value is not None else "fdel")
            if fn is None:
                act = type(raw).__delete__ if value is None else type(raw).__set__
                throw_descriptor_error(tr, raw, self.cls, act, *([] if value is None else [None]))
            tr.call(fn, [self] if value is None else [self, value], {})
            return
        if isinstance(raw, types.MemberDescriptorType) and "__slots__" in namespace_of(raw.__objclass__):
            if value is None:
                try:
                    _slot_value(tr, raw, self, name)
                except ObservedException:
                    tr.throw(AttributeError, name)
            if self.obj is not None and name not in self.attrs:
                check_object_let_go(tr, _content_of_slot(raw, self.obj))
            self.store(tr, name, value)
            return
        method = "__set__" if value is not None else "__delete__"
        if type(raw).__name__ == "_tuplegetter":
            throw_descriptor_error(
                tr, raw, self.cls, getattr(type(raw), method), *([] if value is None else [None])
            )
        if isinstance(getattr(type(raw), method, None), types.FunctionType):
            descriptor = tr.class_value_attr(self.cls, name).realize(tr)
            bound = descriptor.special(tr, method) if isinstance(descriptor, ObjectValue) else None
            if bound is not None:
                tr.call(bound, [self] if value is None else [self, value], {})
                return
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is served by C code")

    def store(self, tr: Tracer, name: str, value: Value | None) -> None:
        """Note the new value of an attribute, or that it is deleted."""
        check_let_go(tr, self.attrs.get(name))
        self.version += 1
        self.attrs[name] = value
        if self.obj is None:
            if value is None:
                del self.attrs[name]
                self.stored.pop(name, None)
            else:
                self.stored.setdefault(name, False)
            return
        if value is None:
            self.stored.pop(name, None)
            if name in self.unseen:
                self.unseen = self.unseen - {name}
                is_there = name in (instance_dict(self.obj) or ())
                assert self.source is not None
                tr.guard(self.source.instance_dict(), Check.HAS_KEY if is_there else Check.NO_KEY, name)
            if name in (instance_dict(self.obj) or ()) or is_slot(self.cls, name):
                self.stored[name] = True
        elif self.stored.get(name):
            # Deleted before and stored anew: it comes last now.
            del self.stored[name]
            self.stored[name] = True
        else:
            self.stored.setdefault(name, False)
        if not self.changed:
            self.changed = True
            tr.mutated(self)

    def del_attr(self, tr: Tracer, name: str) -> None:
        custom = tr.class_attr(self.cls, "__delattr__")
        if isinstance(custom, types.FunctionType):
            tr.call(tr.class_value_attr(self.cls, "__delattr__"), [self, ConstantValue(name)], {})
            return
        self.generic_del_attr(tr, name)

    def generic_del_attr(self, tr: Tracer, name: str) -> None:
        """`object.__delattr__`."""
        raw = self._raw(tr, name)
        if raw is not MISSING and is_data_descriptor(raw):
            self.set_through_descriptor(tr, raw, name, None)
            return
        if not has_instance_dict(self.cls):
            tr.throw(AttributeError, no_place(self.cls, name, raw is not MISSING))
        if self.instance_attr(tr, name) is None:
            tr.throw(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")
        self.store(tr, name, None)

    # -- special methods ---------------------------------------------------------------------------
    def special(self, tr: Tracer, name: str) -> Value | None:
        """The special method `name` written in Python, bound to this object; None if there is none.

        Special methods are looked up on the class only (Python data model, 3.3.12).
        """
        raw = tr.class_attr(self.cls, name)
        if raw is MISSING:
            return None
        if isinstance(raw, SLOT_WRAPPERS):
            check_place(tr, raw, self.cls, name)
            return None
        if raw is None:
            tr.graph_break("exception", f"{name} of {self.describe()} is None")
        return self.bind(tr, raw, name)

    def has_c_special(self, tr: Tracer, name: str) -> bool:
        """Whether the class serves a special method from C."""
        raw = tr.class_attr(self.cls, name)
        return isinstance(raw, SLOT_WRAPPERS)

    def c_special(self, tr: Tracer, name: str) -> None:
        """Break when a special method is served by C code that is not modelled."""
        if self.has_c_special(tr, name):
            tr.graph_break("call", f"{name} of {self.describe()} is served by C code")

    def truth(self, tr: Tracer) -> bool:
        method = self.special(tr, "__bool__")
        if method is not None:
            answer = tr.call(method, [], {}).realize(tr)
            if answer.python_type() is not bool:
                tr.graph_break("exception", f"__bool__ of {self.describe()} returns {answer.describe()}")
            return tr.truth(answer)
        if derives(type(self.obj), enum.Enum) and derives(type(self.obj), int, str):
            return bool(self.obj)  # a member of an enum of numbers or strings is a constant
        self.c_special(tr, "__bool__")
        if (
            self.special(tr, "__len__") is None
            and self.base is None
            and not self.has_c_special(tr, "__len__")
        ):
            return True
        return self.length(tr) > 0

    def length(self, tr: Tracer) -> int:
        method = self.special(tr, "__len__")
        if method is not None:
            known, size = to_constant(tr, tr.call(method, [], {}))
            if not known:
                tr.graph_break("data_dependent", f"len() of {self.describe()} is not constant")
            if not isinstance(size, int) or not 0 <= size <= sys.maxsize:
                tr.graph_break(
                    "exception", f"__len__ of {self.describe()} gives something else than a length"
                )
            return int(size)
        if self.base is not None:
            return self.base.length(tr)
        self.c_special(tr, "__len__")
        return super().length(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        method = self.special(tr, "__getitem__")
        if method is not None:
            return tr.call(method, [key], {})
        if isinstance(self.base, DictValue):
            if self.base.lookup(tr, key) is None:
                missing = self.special(tr, "__missing__")
                if missing is not None:
                    return tr.call(missing, [key], {})
        if self.base is not None:
            return self.base.get_item(tr, key)
        self.c_special(tr, "__getitem__")
        return super().get_item(tr, key)

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        method = self.special(tr, "__setitem__")
        if method is not None:
            tr.call(method, [key, value], {})
        elif self.base is not None:
            self.base.set_item(tr, key, value)
        else:
            self.c_special(tr, "__setitem__")
            super().set_item(tr, key, value)

    def del_item(self, tr: Tracer, key: Value) -> None:
        method = self.special(tr, "__delitem__")
        if method is not None:
            tr.call(method, [key], {})
        elif self.base is not None:
            self.base.del_item(tr, key)
        else:
            self.c_special(tr, "__delitem__")
            super().del_item(tr, key)

    def contains(self, tr: Tracer, item: Value) -> bool:
        method = self.special(tr, "__contains__")
        if method is not None:
            return tr.truth(tr.call(method, [item], {}))
        if self.base is not None:
            return self.base.contains(tr, item)
        return super().contains(tr, item)

    def iterate(self, tr: Tracer) -> Value:
        method = self.special(tr, "__iter__")
        if method is not None:
            return tr.call(method, [], {}).realize(tr)
        if self.base is not None:
            return tr.iterate(self.base)
        self.c_special(tr, "__iter__")
        if self.special(tr, "__getitem__") is not None:
            return ItemIterator(self)
        return super().iterate(tr)

    def next(self, tr: Tracer) -> Value | None:
        method = self.special(tr, "__next__")
        if method is not None:
            return tr.call_until_stop(method)
        self.c_special(tr, "__next__")
        return super().next(tr)

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        method = self.special(tr, "__call__")
        if method is not None:
            return tr.call(method, args, kwargs)
        return tr.call_object(self, args, kwargs)

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Only reached through a `BuiltinMethod`: the C implementation of `name`."""
        return tr.call_c_method(self, name, args, kwargs)

    def hash_key(self, tr: Tracer) -> Any:
        raw = tr.class_attr(self.cls, "__hash__")
        eq = tr.class_attr(self.cls, "__eq__")
        is_member = issubclass(self.cls, enum.Enum) and eq is object.__eq__
        if (raw is object.__hash__ and eq is object.__eq__) or is_member:
            return ("object", id(self.obj)) if self.obj is not None else self
        if isinstance(raw, SLOT_WRAPPERS) and isinstance(eq, SLOT_WRAPPERS):
            if self.base is not None:
                return hash_key(tr, self.base)
            if issubclass(self.cls, enum.Enum):
                # A member of an enum of strings or numbers is found where its value is.
                for plain in (str, int, float):
                    if raw is vars(plain)["__hash__"] and eq is vars(plain)["__eq__"]:
                        member: Any = self.obj
                        return str.__str__(member) if plain is str else plain(member)
        if raw is None:
            tr.throw(TypeError, f"unhashable type: '{type_name(self.cls)}'")
        if not all(is_pure_method(self.cls, name) for name in ("__hash__", "__eq__")):
            # Not just once where the program does: a dict of such keys may have to be made anew.
            tr.graph_break("call", f"{self.describe()} is hashed by code that may have effects")
        method = self.special(tr, "__hash__")
        if method is not None:
            known, number = to_constant(tr, tr.call(method, [], {}))
            if known and isinstance(number, int):
                return OwnKey(tr, self, number)
        tr.graph_break("call", f"{self.describe()} is hashed by its own __hash__")

    def constant_parts(self, tr: Tracer) -> tuple[bool, Any]:
        """Members of enums are constants to C code that is handed them."""
        if issubclass(self.cls, enum.Enum):
            return True, self.obj
        return False, None


def instance_dict(obj: object) -> dict[str, Any] | None:
    """The real instance `__dict__`, without running user code."""
    namespace = _C.instance_dict(obj)
    return namespace if type(namespace) is dict else None


def has_plain_names(namespace: Mapping[Any, Any]) -> bool:
    """Whether a namespace is keyed by plain strings, so that looking a name up runs no code of the program."""
    return {str}.issuperset(map(type, namespace))


def is_slot(cls: type, name: str) -> bool:
    """Whether the class keeps this attribute in a slot."""
    return isinstance(inspect.getattr_static(cls, name, None), types.MemberDescriptorType)


def hides_class(cls: type) -> bool:
    """Whether `obj.__class__` is anything but `type(obj)`; a class that exists cannot come to do so."""
    for base in cls.__mro__:
        if "__class__" in namespace_of(base):
            return base is not object
    return False


def has_instance_dict(cls: type) -> bool:
    """Whether instances of the class have a `__dict__`."""
    return cls.__dictoffset__ != 0


def shows_instance_dict(cls: type) -> bool:
    """Whether the attribute `__dict__` of instances is their real one: a class may define a property of that name."""
    if not has_instance_dict(cls):
        return False
    raw = next(
        (found["__dict__"] for base in cls.__mro__ if "__dict__" in (found := namespace_of(base))), None
    )
    return isinstance(raw, (types.GetSetDescriptorType, types.MemberDescriptorType))


def throw_descriptor_error(tr: Tracer, raw: Any, cls: type, act: Any, *args: Any) -> NoReturn:
    """Raise what a descriptor that refuses raises, in its own words; it sees no more of its owner than the class."""
    stand_in = type(cls.__name__, (), {"__qualname__": cls.__qualname__})()
    try:
        act(raw, stand_in, *args)
    except AttributeError as error:
        tr.throw(AttributeError, *error.args)
    tr.graph_break("exception", f"a {type(raw).__name__} of class {cls.__qualname__} refuses")


def bind_classmethod(tr: Tracer, fn: Value, owner: Value) -> Value:
    """Bind what a class method wraps to the class `owner`."""
    kind = fn.realize(tr).python_type()
    if hasattr(kind, "__get__") and kind is not types.FunctionType:
        # Python 3.9 to 3.12 ask it for what it gives, others bind it as it is.
        tr.graph_break("attribute", f"a class method of an object of class {kind.__qualname__}")
    return BoundMethodValue(fn, owner)


def check_place(tr: Tracer, raw: object, cls: type, name: str) -> None:
    """Break where a class keeps a method of a builtin class under another name, or one of a class that is no base."""
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        if raw.__name__ != name or not derives(cls, raw.__objclass__):
            tr.graph_break("call", f"{name} of class {cls.__qualname__} is {raw.__qualname__} of C code")


#: What serves fields of objects of C code.
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def bind_raw(tr: Tracer, raw: object, value: Value, owner: Value, cls: type, name: str) -> Value:
    """Bind the raw class attribute `raw` (as a value: `value`) to `owner`, an instance of `cls`."""
    kind = type(raw)
    if kind in _FIELDS and isinstance(owner, ObjectValue) and owner.base is not None:
        if derives(owner.base.python_type(), raw.__objclass__):  # type: ignore[attr-defined]
            return owner.base.get_attr(tr, name)
    if kind is types.FunctionType:
        return BoundMethodValue(value, owner)
    if isinstance(raw, property) and type(raw).__get__ is property.__get__:
        getter_fn = part_of(tr, raw, value, "fget")
        if getter_fn is None:
            throw_descriptor_error(tr, raw, cls, property.__get__)
        return tr.call(getter_fn, [owner], {})
    if kind is staticmethod or kind is classmethod:
        fn = part_of(tr, raw, value, "__func__")
        assert fn is not None
        return fn if kind is staticmethod else bind_classmethod(tr, fn, tr.class_value(cls, owner))
    if kind is types.MemberDescriptorType:
        return _slot_value(tr, raw, owner, name)
    if kind is functools.cached_property and isinstance(owner, ObjectValue):
        assert isinstance(raw, functools.cached_property)
        fn = part_of(tr, raw, value, "func")
        assert fn is not None
        made = tr.call(fn, [owner], {})
        owner.store(tr, raw.attrname or name, made)
        return made
    if isinstance(raw, SLOT_WRAPPERS):
        check_place(tr, raw, cls, name)
        return BuiltinMethod(owner, name)
    if kind.__name__ == "_tuplegetter" and isinstance(owner, ObjectValue):
        if not isinstance(owner.base, TupleValue):
            tr.graph_break(
                "attribute", f"attribute '{name}' of {owner.describe()}, which is also an enum's member"
            )
        return owner.base.items[raw.__reduce__()[1][0]]  # type: ignore[index]
    if kind is types.GetSetDescriptorType:
        served = tr.getset_value(owner, raw, name)
        if served is not None:
            return served
        tr.graph_break("attribute", f"attribute '{name}' of {owner.describe()} is served by C code")
    getter = getattr(kind, "__get__", None)
    if getter is None:
        return value
    if isinstance(getter, types.FunctionType):
        method = tr.class_value_attr(kind, "__get__")
        return tr.call(method, [value, owner, tr.class_value(cls, owner)], {})
    tr.graph_break("attribute", f"attribute '{name}' of {owner.describe()} is served by C code")


def _content_of_slot(slot: types.MemberDescriptorType, obj: object) -> object:
    try:
        return slot.__get__(obj)
    except AttributeError:
        return None


def _slot_value(tr: Tracer, raw: object, owner: Value, name: str) -> Value:
    """The value of a `__slots__` attribute."""
    assert isinstance(owner, ObjectValue)
    found = owner.attrs.get(name)
    if found is not None:
        return found
    if name in owner.attrs or owner.obj is None:
        tr.throw(AttributeError, unset_slot(owner.cls, name))
    try:
        obj = raw.__get__(owner.obj, owner.cls)  # type: ignore[attr-defined]
    except AttributeError:
        tr.graph_break("exception", f"slot '{name}' of {owner.describe()} is empty")
    assert owner.source is not None
    value = owner.attrs[name] = tr.found(tr.lazy(obj, owner.source.member(name)))
    return value


class InstanceDictValue(BuiltinContainer):
    """`obj.__dict__`: a view of the object's attributes."""

    __slots__ = ("owner",)

    def __init__(self, owner: ObjectValue) -> None:
        self.source = owner.source.instance_dict() if owner.source is not None else None
        self.owner = owner

    def python_type(self) -> type:
        return dict

    def snapshot(self, tr: Tracer) -> DictValue:
        """The attributes as a dict value; the whole set of names is guarded."""
        owner = self.owner
        names = list(instance_dict(owner.obj) or ()) if owner.obj is not None else []
        if owner.obj is not None:
            tr.guard(self.source, Check.KEYS, tuple(names))
        for name, goes_first in owner.stored.items():
            if goes_first and name in names:
                names.remove(name)
            if owner.attrs.get(name) is not None and name not in names and not is_slot(owner.cls, name):
                names.append(name)
        items: dict[Any, tuple[Value, Value]] = {}
        for name in names:
            value = owner.instance_attr(tr, name)
            assert value is not None
            items[name] = (ConstantValue(name), value)
        return InstanceDictSnapshot(owner, items)

    def _name(self, tr: Tracer, key: Value) -> str:
        known, name = to_constant(tr, key)
        if not known or type(name) is not str:
            tr.graph_break("attribute", "an attribute whose name is not a constant string")
        if is_slot(self.owner.cls, name):
            tr.graph_break("attribute", f"'{name}' is a slot of {self.owner.describe()}, not in its __dict__")
        return name

    def truth(self, tr: Tracer) -> bool:
        return self.snapshot(tr).truth(tr)

    def length(self, tr: Tracer) -> int:
        return self.snapshot(tr).length(tr)

    def iterate(self, tr: Tracer) -> Value:
        return self.snapshot(tr).iterate(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        found = self.owner.instance_attr(tr, self._name(tr, key))
        if found is None:
            tr.throw(KeyError, key)
        return found

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        name = self._name(tr, key)
        self.owner.instance_attr(tr, name)
        self.owner.store(tr, name, value)

    def del_item(self, tr: Tracer, key: Value) -> None:
        name = self._name(tr, key)
        if self.owner.instance_attr(tr, name) is None:
            tr.throw(KeyError, key)
        self.owner.store(tr, name, None)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self.owner.instance_attr(tr, self._name(tr, item)) is not None


def _dict_get(tr: Tracer, self: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    found = self.owner.instance_attr(tr, self._name(tr, args[0]))
    if found is not None:
        return found
    return args[1] if len(args) > 1 else ConstantValue(None)


def _dict_pop(tr: Tracer, self: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    found = self.owner.instance_attr(tr, self._name(tr, args[0]))
    if found is None:
        if len(args) > 1:
            return args[1]
        tr.throw(KeyError, args[0])
    self.del_item(tr, args[0])
    return found


def _dict_setdefault(tr: Tracer, self: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    found = self.owner.instance_attr(tr, self._name(tr, args[0]))
    if found is None:
        found = args[1] if len(args) > 1 else ConstantValue(None)
        self.set_item(tr, args[0], found)
    return found


def _dict_update(tr: Tracer, self: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    changes = DictValue()
    if args:
        changes.update_from(tr, args[0])
    for name, value in kwargs.items():
        changes.set_item(tr, ConstantValue(name), value)
    for key, value in changes.items.values():
        self.set_item(tr, key, value)
    return ConstantValue(None)


def _dict_snapshot(name: str) -> Any:
    def method(tr: Tracer, self: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return self.snapshot(tr).call_method(tr, name, args, kwargs)

    return method


InstanceDictValue.methods = {
    **operator_methods({}),
    "get": _dict_get,
    "pop": _dict_pop,
    "setdefault": _dict_setdefault,
    "update": _dict_update,
    **{name: _dict_snapshot(name) for name in ("keys", "values", "items", "copy")},
}


class InstanceDictSnapshot(DictValue):
    """The attributes as they were when a view of `obj.__dict__` was made; it may not be used once they changed."""

    __slots__ = ("owner", "owner_version")

    def __init__(self, owner: ObjectValue, items: dict[Any, tuple[Value, Value]]) -> None:
        super().__init__(items)
        self.owner = owner
        self.owner_version = owner.version

    def guard_keys(self, tr: Tracer) -> None:
        if self.owner.version != self.owner_version:
            tr.graph_break("container", f"the __dict__ of {self.owner.describe()} changes under a view of it")

    def lookup(self, tr: Tracer, key: Value) -> Value | None:
        self.guard_keys(tr)
        return super().lookup(tr, key)

    def length(self, tr: Tracer) -> int:
        self.guard_keys(tr)
        return super().length(tr)
