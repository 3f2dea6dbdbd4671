"""Classes, modules, `super()`, and callables of C level."""

from __future__ import annotations

import enum
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch.backends import ContextProp, PropModule

from framehook.guards.guard import Check
from framehook.source import ObjectSource
from framehook.values.base import ConstantValue, Tracer, Value, is_constant, to_constant
from framehook.values.descriptors import part_of
from framehook.values.functions import BoundMethodValue
from framehook.values.objects import (
    MISSING,
    SLOT_WRAPPERS,
    ObjectValue,
    bind_classmethod,
    bind_raw,
    is_data_descriptor,
)
from framehook.values.real_classes import derives, module_of, namespace_of
from framehook.values.sequences import BuiltinMethod

if TYPE_CHECKING:
    from framehook.source import Source


#: What `type` itself serves of a class, from the class alone.
_TYPE_FIELDS = frozenset(name for name, raw in vars(type).items() if is_data_descriptor(raw))
#: Those of them that it finds in the `__dict__` of the class.
_KEPT_BY_CLASS = frozenset({"__annotations__", "__doc__", "__module__"})


class CallableValue(Value):
    """A real callable of C level, or any object that is only its identity to the trace (a torch function)."""

    __slots__ = ("fn",)

    def __init__(self, fn: Any, source: Source | None = None) -> None:
        self.source = source
        self.fn = fn

    def python_type(self) -> type:
        return type(self.fn)

    def describe(self) -> str:
        return f"{getattr(self.fn, '__module__', None) or ''}.{getattr(self.fn, '__qualname__', self.fn)}".lstrip(
            "."
        )

    def hash_key(self, tr: Tracer) -> Any:
        kind: Any = type(self.fn)
        if isinstance(self.fn, type):
            is_plain = tr.class_attr(kind, "__hash__") is object.__hash__ is kind.__hash__
        else:
            owner = getattr(self.fn, "__self__", None)
            is_function = kind is types.BuiltinFunctionType and isinstance(owner, types.ModuleType | None)
            is_plain = kind.__hash__ is object.__hash__ or is_function or module_of(kind).startswith("torch")
        if not is_plain:
            tr.graph_break("call", f"{self.describe()} is hashed by its own __hash__")
        return ("object", id(self.fn))

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call_real(self.fn, self, args, kwargs)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        try:
            found = getattr(self.fn, name)
        except AttributeError as error:
            tr.throw(AttributeError, *error.args)
        if is_constant(found):
            return ConstantValue(found)
        if callable(found) and isinstance(found, (types.BuiltinMethodType, types.MethodWrapperType)):
            return CallableValue(found)
        if module_of(type(self.fn)) == module_of(type(found)) == "torch._ops":
            return tr.constant_object(found)  # an overload of an operator
        if isinstance(self.fn, types.UnionType) and name == "__args__":
            return tr.wrap(found, ObjectSource(found, self.source))
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")


#: Whose `[]` makes a `types.GenericAlias` and does nothing else.
_BUILTIN_GENERICS = frozenset({list, tuple, dict, set, frozenset, type})


class ClassValue(CallableValue):
    """A class."""

    __slots__ = ()
    fn: type

    def describe(self) -> str:
        return f"class {self.fn.__qualname__}"

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.construct(self, args, kwargs)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        cls = self.fn
        if type(cls) is not type and isinstance(
            tr.class_attr(type(cls), "__getattribute__"), types.FunctionType
        ):
            tr.graph_break("attribute", f"attribute '{name}' comes from the metaclass of {self.describe()}")
        if name in ("__name__", "__qualname__", "__module__"):
            return self._own_text(tr, name)
        if name in ("__mro__", "__bases__") and not cls.__flags__ & (1 << 8):  # Py_TPFLAGS_IMMUTABLETYPE
            assert self.source is not None
            tr.guard(self.source.member(name), Check.IDENTITY, getattr(cls, name))
        if name == "__bases__":
            return tr.from_plain(tuple(tr.constant_object(base) for base in cls.__bases__))
        if name == "__mro__":
            return tr.from_plain(tuple(tr.constant_object(base) for base in cls.__mro__))
        if name == "__class__":
            return tr.constant_object(type(cls))
        meta = tr.class_attr(type(cls), name) if type(cls) is not type else MISSING
        is_served = is_data_descriptor(meta) and hasattr(type(meta), "__get__")
        if meta is not MISSING and is_served and vars(type).get(name) is not meta:
            return self._bind_meta(tr, meta, name)
        stored = tr.stored_class_attr(cls, name)
        if stored is not None:
            return stored
        if name == "__dict__":
            return ClassDictValue(self)
        if name in _TYPE_FIELDS and (name not in _KEPT_BY_CLASS or name not in namespace_of(cls)):
            # Never what a base class has under that name.
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
        raw = tr.class_attr(cls, name)
        if raw is MISSING:
            if meta is not MISSING:
                return self._bind_meta(tr, meta, name)
            if hasattr(type, name):
                if name in ("mro", "__subclasses__") or not callable(getattr(type, name)):
                    tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
                return BuiltinMethod(self, name)
            if tr.class_attr(type(cls), "__getattr__") is not MISSING:
                tr.graph_break(
                    "attribute", f"attribute '{name}' comes from the metaclass of {self.describe()}"
                )
            tr.throw(AttributeError, f"type object '{cls.__name__}' has no attribute '{name}'")
        value = tr.class_value_attr(cls, name)
        kind = type(raw)
        if kind is staticmethod or kind is classmethod:
            fn = part_of(tr, raw, value, "__func__")
            assert fn is not None
            return fn if kind is staticmethod else bind_classmethod(tr, fn, self)
        if kind is types.FunctionType or kind is property or not hasattr(kind, "__get__"):
            return value
        if isinstance(raw, types.ClassMethodDescriptorType):
            return CallableValue(getattr(cls, name))
        if isinstance(raw, (*SLOT_WRAPPERS, types.GetSetDescriptorType, types.MemberDescriptorType)):
            try:
                found = getattr(cls, name)
            except AttributeError as error:
                tr.throw(AttributeError, *error.args)
            return ConstantValue(found) if is_constant(found) else CallableValue(found)
        if isinstance(getattr(kind, "__get__", None), types.FunctionType):
            method = tr.class_value_attr(kind, "__get__")
            return tr.call(method, [value, ConstantValue(None), self], {})
        tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is served by C code")

    def _own_text(self, tr: Tracer, name: str) -> Value:
        """What the class is called; anybody can rename a class that is not of C code."""
        text = getattr(self.fn, name)
        meta = tr.class_attr(type(self.fn), name)
        is_own = meta is not vars(type)[name] and is_data_descriptor(meta)
        if type(text) is not str or is_own:
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
        if not self.fn.__flags__ & (1 << 8):  # Py_TPFLAGS_IMMUTABLETYPE
            assert self.source is not None
            place = self.source.class_attr(name) if name == "__module__" else self.source.member(name)
            tr.guard(place, Check.EQUALS, text)
        return ConstantValue(text)

    def _bind_meta(self, tr: Tracer, raw: object, name: str) -> Value:
        value = tr.class_value_attr(type(self.fn), name)
        return bind_raw(tr, raw, value, self, type(self.fn), name)

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        self._change(tr, "__setattr__", name, value)

    def del_attr(self, tr: Tracer, name: str) -> None:
        self._change(tr, "__delattr__", name, None)

    def _change(self, tr: Tracer, special: str, name: str, value: Value | None) -> None:
        meta = type(self.fn)
        raw = tr.class_attr(meta, special)
        if isinstance(raw, types.FunctionType):
            rest = [] if value is None else [value]
            tr.call(tr.class_value_attr(meta, special), [self, ConstantValue(name), *rest], {})
        elif raw is type.__setattr__ or raw is type.__delattr__:
            self.generic_change(tr, name, value)
        else:
            tr.graph_break("side_effect", f"class attribute '{self.fn.__qualname__}.{name}' is set")

    def generic_change(self, tr: Tracer, name: str, value: Value | None) -> None:
        """`type.__setattr__` and (with None) `type.__delattr__`."""
        of_meta = tr.class_attr(type(self.fn), name) if type(self.fn) is not type else MISSING
        if of_meta is not MISSING and is_data_descriptor(of_meta):
            tr.graph_break("side_effect", f"class attribute '{self.fn.__qualname__}.{name}' is set")
        tr.store_class_attr(self.fn, name, value)

    def meta_special(self, tr: Tracer, name: str) -> Value | None:
        """A special method that the metaclass defines in Python, bound to the class."""
        meta = type(self.fn)
        if meta is type or not isinstance(tr.class_attr(meta, name), types.FunctionType):
            return None
        return BoundMethodValue(tr.class_value_attr(meta, name), self)

    def length(self, tr: Tracer) -> int:
        method = self.meta_special(tr, "__len__")
        if method is not None and not issubclass(self.fn, enum.Enum):
            known, size = to_constant(tr, tr.call(method, [], {}))
            if known and type(size) is int:
                return size
        if issubclass(self.fn, enum.Enum):
            return len(self.fn)
        return super().length(tr)

    def iterate(self, tr: Tracer) -> Value:
        method = self.meta_special(tr, "__iter__")
        if method is not None and not issubclass(self.fn, enum.Enum):
            return tr.call(method, [], {}).realize(tr)
        if issubclass(self.fn, enum.Enum):
            members = tuple(tr.wrap(member, self.source.class_attr(member.name)) for member in self.fn)  # type: ignore[union-attr]
            return tr.from_plain(members).iterate(tr)
        tr.graph_break("call", f"iterating over {self.describe()}")

    def get_item(self, tr: Tracer, key: Value) -> Value:
        method = self.meta_special(tr, "__getitem__")
        if method is not None and not issubclass(self.fn, enum.Enum):
            return tr.call(method, [key], {})
        maker = tr.class_attr(self.fn, "__class_getitem__")
        if (
            method is None
            and isinstance(maker, classmethod)
            and isinstance(maker.__func__, types.FunctionType)
        ):
            return tr.call(self.get_attr(tr, "__class_getitem__"), [key], {})
        if method is None and type(self) is ClassValue and self.fn in _BUILTIN_GENERICS:
            return GenericAliasValue(self, key)
        if issubclass(self.fn, enum.Enum):
            known, name = to_constant(tr, key)
            if known and name not in self.fn._member_map_:
                tr.throw(KeyError, name)
            if known:
                return tr.wrap(self.fn[name], self.source.class_attr(self.fn[name].name))  # type: ignore[union-attr]
        tr.graph_break("call", f"subscripting {self.describe()}")

    def contains(self, tr: Tracer, item: Value) -> bool:
        method = self.meta_special(tr, "__contains__")
        if method is not None and not issubclass(self.fn, enum.Enum):
            return tr.truth(tr.call(method, [item], {}))
        value = item.realize(tr)
        if (
            issubclass(self.fn, enum.Enum)
            and isinstance(value, ObjectValue)
            and issubclass(value.cls, self.fn)
        ):
            return True
        tr.graph_break("call", f"membership in {self.describe()}")

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(tr, args, kwargs)
        if name == "__instancecheck__":
            return tr.call(tr.constant_object(isinstance), [args[0], self], {})
        tr.graph_break("call", f"method '{name}' of {self.describe()} is not modelled")


class ClassDictValue(Value):
    """`cls.__dict__`."""

    __slots__ = ("owner",)

    def __init__(self, owner: ClassValue) -> None:
        self.source = None
        self.owner = owner

    def python_type(self) -> type:
        return types.MappingProxyType

    def describe(self) -> str:
        return f"the __dict__ of {self.owner.describe()}"

    def _has(self, tr: Tracer, name: str) -> bool:
        cls = self.owner.fn
        if tr.stored_class_attr(cls, name) is not None:
            tr.graph_break("attribute", f"{self.describe()} is read after a change")
        if not cls.__flags__ & (1 << 8):  # Py_TPFLAGS_IMMUTABLETYPE
            assert self.owner.source is not None
            place = self.owner.source.member("__dict__")
            tr.guard(place, Check.HAS_KEY if name in namespace_of(cls) else Check.NO_KEY, name)
        return name in namespace_of(cls)

    def contains(self, tr: Tracer, item: Value) -> bool:
        known, name = to_constant(tr, item)
        if not known or type(name) is not str:
            tr.graph_break("attribute", f"{self.describe()} is asked for {item.describe()}")
        return self._has(tr, name)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        if not self.contains(tr, key):
            tr.throw(KeyError, key)
        _, name = to_constant(tr, key)
        raw = tr.class_attr(self.owner.fn, name)
        if raw is not self.owner.fn.__dict__[name]:
            tr.graph_break("attribute", f"{self.describe()} is read")
        return tr.class_value_attr(self.owner.fn, name)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "get":
            return BuiltinMethod(self, name)
        return super().get_attr(tr, name)

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if name == "get" and 1 <= len(args) <= 2 and not kwargs:
            if self.contains(tr, args[0]):
                return self.get_item(tr, args[0])
            return args[1] if len(args) > 1 else ConstantValue(None)
        return super().call_method(tr, name, args, kwargs)


class UnionValue(Value):
    """`int | str`, made inside the frame."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Value]) -> None:
        self.source = None
        self.parts = parts

    def python_type(self) -> type:
        return types.UnionType


class GenericAliasValue(Value):
    """`list[int]`, made inside the frame."""

    __slots__ = ("key", "owner")

    def __init__(self, owner: Value, key: Value) -> None:
        self.source = None
        self.owner = owner
        self.key = key

    def python_type(self) -> type:
        return types.GenericAlias


def module_name(module: types.ModuleType) -> str:
    """The name of a module, asked past what its class may do; a module that nobody has initialised has none."""
    return str(object.__getattribute__(module, "__dict__").get("__name__", "?"))


class ModuleObjectValue(Value):
    """A Python module (a file), identity guarded."""

    __slots__ = ("module", "read", "stored")
    source: Source

    def __init__(self, module: types.ModuleType, source: Source) -> None:
        self.source = source
        self.module = module
        self.read: dict[str, Value] = {}

    def python_type(self) -> type:
        return types.ModuleType

    def describe(self) -> str:
        return f"module {module_name(self.module)}"

    def hash_key(self, tr: Tracer) -> Any:
        return ("object", id(self.module))

    def get_attr(self, tr: Tracer, name: str) -> Value:
        namespace = object.__getattribute__(self.module, "__dict__")
        self._guard_class(tr, name)
        owner = tr.namespaces.setdefault(id(namespace), self)
        if owner is not self and getattr(owner, "module", None) is not self.module:
            tr.graph_break("container", f"{self.describe()} shares its __dict__")
        view = tr.views.get(id(namespace))
        if view is not None and name in view.stored:
            # The frame changed the same dict as a global.
            tr.guard(self.source.instance_dict(), Check.SAME, view.source)
            current = view.stored[name]
            if current is None:
                tr.graph_break(
                    "attribute", f"attribute '{name}' of {self.describe()} was deleted as a global"
                )
            return current
        found = self.read.get(name)
        if found is not None:
            return found
        if name in namespace:
            found = self.read[name] = tr.found(tr.lazy(namespace[name], self.source.attr(name)))
            return found
        if module_name(self.module) == "torch._VF" and hasattr(self.module, name):
            # A module object that looks everything up among torch's operations.
            return tr.constant_object(getattr(self.module, name))
        if isinstance(self.module, PropModule):
            return self._flag(tr, name)
        if type(self.module) is not types.ModuleType or "__getattr__" in namespace:
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is made on demand")
        if hasattr(types.ModuleType, name):
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
        tr.guard(self.source.instance_dict(), Check.NO_KEY, name)
        tr.throw(AttributeError, f"module '{module_name(self.module)}' has no attribute '{name}'")

    def _flag(self, tr: Tracer, name: str) -> Value:
        """An attribute of a module of `torch.backends`: a flag, or what the real module has."""
        raw = tr.class_attr(type(self.module), name)
        if isinstance(raw, ContextProp):
            getter = raw.getter  # type: ignore[no-untyped-call, unused-ignore]
            return tr.call(tr.constant_object(getter), [], {})
        return self.get_attr(tr, "m").realize(tr).get_attr(tr, name)

    def _guard_class(self, tr: Tracer, name: str) -> None:
        """The class of a module can be replaced; one of its own may serve the attribute."""
        cls = type(self.module)
        if module_name(self.module).partition(".")[0] == "torch":
            return
        tr.guard(self.source, Check.TYPE, cls)
        if cls is types.ModuleType:
            return
        raw = tr.class_attr(cls, name)
        if tr.class_attr(cls, "__getattribute__") is not types.ModuleType.__getattribute__ or (
            raw is not MISSING and is_data_descriptor(raw)
        ):
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is served by its class")

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        tr.graph_break("side_effect", f"attribute '{name}' of {self.describe()} is set")


class SuperValue(Value):
    """`super(cls, owner)`."""

    __slots__ = ("cls", "owner")

    def __init__(self, cls: type, owner: Value) -> None:
        self.source = None
        self.cls = cls
        self.owner = owner

    def python_type(self) -> type:
        return super

    def get_attr(self, tr: Tracer, name: str) -> Value:
        owner = self.owner.realize(tr)
        # `super(cls, subclass)` looks for class methods; a class that is an instance of `cls` is an object.
        is_class = isinstance(owner, ClassValue) and derives(owner.fn, self.cls)
        start = owner.fn if isinstance(owner, ClassValue) and is_class else owner.python_type()
        mro = start.__mro__
        if self.cls not in mro:
            tr.graph_break("exception", f"super() of {owner.describe()}, which is no {self.cls.__qualname__}")
        position = mro.index(self.cls) + 1
        for base in mro[position:]:
            if name in namespace_of(base):
                raw = namespace_of(base)[name]
                # The guard is on the class that has it, and on those before it that have it not.
                value = tr.super_attr(start, mro[position:], base, name)
                if is_class:
                    if isinstance(raw, types.FunctionType):
                        return value
                    if isinstance(raw, classmethod | staticmethod):
                        fn = part_of(tr, raw, value, "__func__")
                        assert fn is not None
                        return fn if isinstance(raw, staticmethod) else bind_classmethod(tr, fn, owner)
                    if isinstance(raw, SLOT_WRAPPERS):
                        return CallableValue(getattr(base, name))
                    tr.graph_break("attribute", f"super().{name} on a class is not modelled")
                if isinstance(raw, SLOT_WRAPPERS):
                    if isinstance(raw, types.BuiltinFunctionType):  # object.__new__ and the like
                        return CallableValue(raw)
                    return SuperMethod(owner, base, name)
                return bind_raw(tr, raw, value, owner, start, name)
        tr.throw(AttributeError, f"'super' object has no attribute '{name}'")


class SuperMethod(BuiltinMethod):
    """A C method of a base class, bound through `super()`."""

    __slots__ = ("base",)

    def __init__(self, owner: Value, base: type, name: str) -> None:
        super().__init__(owner, name)
        self.base = base

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        descriptor = self.base.__dict__[self.name]
        return tr.call_real(descriptor, CallableValue(descriptor), [self.owner, *args], kwargs)
