"""Calls of objects whose methods are C code, and `import` inside a function."""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import inspect
import operator
import re
import sys
import types
import weakref
from collections.abc import Sequence
from typing import Any

from framehook import _C
from framehook.bytecode.resume import is_resume_code
from framehook.guards.guard import Check
from framehook.source import Source
from framehook.trace import functools_rules, library_folds, operators
from framehook.trace.classes import make_instance
from framehook.trace.rules import fold_plain
from framehook.trace.shown import as_shown
from framehook.values.base import (
    CONSTANT_TYPES,
    ConstantValue,
    MethodOfConstant,
    Value,
    call_now,
    check_nan,
    to_constant,
)
from framehook.values.classes import CallableValue, ClassValue
from framehook.values.deques import DequeValue
from framehook.values.exceptions import ExceptionValue
from framehook.values.functions import (
    BoundMethodValue,
    FunctionValue,
    NestedFunctionValue,
)
from framehook.values.mappings import DictValue
from framehook.values.objects import (
    MISSING,
    SLOT_WRAPPERS,
    InstanceDictValue,
    ObjectValue,
    has_instance_dict,
    shows_instance_dict,
)
from framehook.values.real_classes import namespace_of
from framehook.values.sequences import (
    BuiltinContainer,
    TupleValue,
    drain,
)


def attribute_name(tr: Any, value: Value) -> str:
    known, name = to_constant(tr, value)
    if not known or type(name) is not str:
        tr.graph_break("attribute", "an attribute whose name is not a constant string")
    return name


def partial_parts(tr: Any, value: ObjectValue) -> tuple[list[Value], dict[str, Value]]:
    args, keywords = value.attrs["args"], value.attrs["keywords"]
    assert args is not None and keywords is not None
    mapping = keywords.realize(tr)
    assert isinstance(mapping, DictValue)
    mapping.guard_keys(tr)
    return drain(tr, args), {str(key): item for key, (_, item) in mapping.items.items()}


def see_through(tr: Any, obj: Any, source: Source) -> Value | None:
    """`compile` inside `compile` is inlined under the outer handle."""
    if issubclass(type(obj), _C.CompiledCallable):
        tr.guard(source, Check.IDENTITY, obj)
        wrapped = obj.fn
        return tr.wrap(wrapped, tr.absolute(wrapped, source))
    if issubclass(type(obj), _C.DisabledCallable):
        tr.guard(source, Check.IDENTITY, obj)
        return CallableValue(obj, tr.absolute(obj, source))
    return None


def call_object(tr: Any, value: ObjectValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call an object whose class has no `__call__` in Python."""
    if value.cls is functools.partial:
        first, named = partial_parts(tr, value)
        fn = value.attrs["func"]
        assert fn is not None
        return tr.call(fn, [*first, *args], {**named, **kwargs})
    obj: Any = value.obj
    if issubclass(type(obj), functools._lru_cache_wrapper):
        return functools_rules.call_cached(tr, value, args, kwargs)
    if issubclass(type(value.obj), (operator.itemgetter, operator.attrgetter)):
        keys = value.obj.__reduce__()[1]
        assert value.source is not None
        tr.guard(value.source, Check.IDENTITY, value.obj)
        return _getter(tr, isinstance(value.obj, operator.itemgetter), keys, args[0])
    if type(value.obj) is weakref.ReferenceType and value.cls is weakref.ReferenceType:
        assert value.source is not None
        tr.guard(value.source, Check.IDENTITY, value.obj)
        referent = value.obj()
        if referent is None:
            return ConstantValue(None)
        if not _outlives_the_trace(tr, referent):
            tr.graph_break(
                "finalizer",
                f"whether a {type(referent).__qualname__} still lives is asked of a weak reference",
            )
        return tr.wrap(referent, tr.absolute(referent, None))
    if tr.class_attr(value.cls, "__call__") is MISSING:
        tr.throw(TypeError, f"'{value.cls.__name__}' object is not callable")
    tr.graph_break("call", f"{value.describe()} is called: its __call__ is C code")
    raise AssertionError


def _outlives_the_trace(tr: Any, referent: Any) -> bool:
    """Whether an object that lives while the trace is made also does at this point of the program.

    The real objects still hold what the program has let go of since the trace began, and the slots of a resumed frame
    what was on its stack or belongs to an exception.
    """
    if not tr.effects and not tr.has_let_go and not is_resume_code(tr.record.code):
        return True
    frame = tr.frame
    while frame is not None:
        if any(getattr(value, "obj", None) is referent for value in frame.locals.values()):
            return True
        frame = frame.caller
    return False


def _getter(tr: Any, is_item: bool, keys: Sequence[Any], owner: Value) -> Value:
    found: list[Value] = []
    for key in keys:
        value = owner.realize(tr)
        if is_item:
            found.append(value.get_item(tr, ConstantValue(key)))
        else:
            for name in key.split("."):
                value = value.realize(tr).get_attr(tr, name)
            found.append(value)
    return found[0] if len(found) == 1 else TupleValue(found)


#: Methods that do the same for every object, whatever its class stores.
_OF_ANY_OBJECT = frozenset(
    {"__setattr__", "__delattr__", "__getattribute__", "__init__", "__init_subclass__"}
)


def check_implementation(tr: Any, owner: Value, method: Any) -> None:
    """Break at the method of a base class that the C class of the owner has another one for (`dict.pop(ordered)`)."""
    if isinstance(owner, ObjectValue):
        if owner.base is None or method.__name__ in _OF_ANY_OBJECT:
            return
        owner = owner.base
    is_class_change = isinstance(owner, ClassValue) and method.__name__ in ("__setattr__", "__delattr__")
    if not isinstance(owner, BuiltinContainer) and not is_class_change:
        return
    if is_class_change and method.__objclass__ is type:
        return  # past the metaclass, which calls it itself
    if inspect.getattr_static(owner.python_type(), method.__name__, None) is not method:
        tr.graph_break(
            "call", f"{method.__objclass__.__name__}.{method.__name__}() is called on {owner.describe()}"
        )


def check_ordered(tr: Any, owner: ObjectValue, name: str) -> None:
    """Break where a method of an OrderedDict asks its subclass for what that defines itself."""
    if getattr(owner.base, "cls", None) is not collections.OrderedDict or name in _DIRECT:
        return
    for asked in (
        "__setitem__",
        "__getitem__",
        "__delitem__",
        "__contains__",
        "__missing__",
        "keys",
        "__iter__",
    ):
        if tr.class_attr(owner.cls, asked) not in (MISSING, getattr(collections.OrderedDict, asked, MISSING)):
            tr.graph_break("call", f"{name}() of {owner.describe()} asks for its own {asked}")


#: Methods that ask nothing else of the object.
_DIRECT = frozenset(
    {
        "__setitem__",
        "__getitem__",
        "__delitem__",
        "__contains__",
        "__len__",
        "__iter__",
        "__reversed__",
        "clear",
        "get",
        "items",
        "keys",
        "move_to_end",
        "values",
    }
)


def call_c_method(tr: Any, owner: Value, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """A method that the class of `owner` inherits from C code."""
    none = ConstantValue(None)
    owner = owner.realize(tr)
    if isinstance(owner, ExceptionValue):
        if name == "with_traceback" and len(args) == 1 and not kwargs:
            owner.drop_traceback(tr, args[0])
            return owner
        if name == "__init__":
            owner.initialise(tr, args, kwargs)
            return none
        if name == "add_note" and len(args) == 1 and not kwargs:
            owner.add_note(tr, args[0].realize(tr))
            return none
    if isinstance(owner, ObjectValue):
        if name == "__setattr__" and len(args) == 2:
            owner.generic_set_attr(tr, attribute_name(tr, args[0]), args[1])
            return none
        if name == "__delattr__" and len(args) == 1:
            owner.generic_del_attr(tr, attribute_name(tr, args[0]))
            return none
        if name == "__getattribute__" and len(args) == 1:
            attribute = attribute_name(tr, args[0])
            if attribute == "__dict__" and shows_instance_dict(owner.cls):
                return InstanceDictValue(owner)
            if attribute == "__class__":
                return tr.class_value(owner.cls, owner)
            found = owner.find_attr(tr, attribute)
            if found is None:
                tr.throw(AttributeError, f"'{owner.cls.__name__}' object has no attribute '{attribute}'")
            return found  # type: ignore[return-value]
        if issubclass(type(owner.obj), enum.Enum) and issubclass(type(owner.obj), (str, int, float)):
            # A member of an enum of strings or numbers is a constant.
            native = next(base for base in (str, int, float) if issubclass(type(owner.obj), base))
            # Not what the enum has by that name: a method in Python that asks for the inherited one comes here.
            fn = (
                getattr(native, name).__get__(owner.obj)
                if hasattr(native, name)
                else getattr(owner.obj, name)
            )
            return fold_plain(tr, fn, args, kwargs)
        if isinstance(owner.base, DequeValue) and name in ("copy", "__copy__"):
            tr.graph_break("call", f"{name}() of {owner.describe()} makes another such object")
        if name == "__getitem__" and isinstance(owner.base, DictValue) and len(args) == 1 and not kwargs:
            # dict's own method asks a subclass for what is missing.
            missing = owner.special(tr, "__missing__")
            if missing is not None and owner.base.lookup(tr, args[0]) is None:
                return tr.call(missing, args, {})
        if owner.base is not None and name in getattr(owner.base, "methods", {}):
            if args or kwargs or name != "__init__":
                check_ordered(tr, owner, name)
            result = owner.base.call_method(tr, name, args, kwargs)
            return owner if result is owner.base else result  # `super().__iadd__(...)` gives the object
        if isinstance(owner.base, ConstantValue) and hasattr(owner.base.value, name):
            plain = [_content(arg) for arg in args]
            return tr.call(owner.base.get_attr(tr, name), plain, kwargs)
        if owner.base is None:
            if name == "__init__" and not args and not kwargs and _comes_from_object(owner.cls, name):
                return none
            if name in ("__eq__", "__ne__") and len(args) == 1 and _comes_from_object(owner.cls, name):
                same = operators.is_same(tr, owner, args[0])
                if same:
                    return ConstantValue(name == "__eq__")
                return ConstantValue(NotImplemented)
            if name == "__call__":
                return call_object(tr, owner, args, kwargs)
    elif isinstance(owner, ClassValue):
        if name == "__call__":  # type.__call__
            return make_instance(tr, owner, args, kwargs)
        if name == "__setattr__" and len(args) == 2:
            owner.generic_change(tr, attribute_name(tr, args[0]), args[1])
            return none
        if name == "__delattr__" and len(args) == 1:
            owner.generic_change(tr, attribute_name(tr, args[0]), None)
            return none
        if name == "__init_subclass__":
            return none
        return owner.call_method(tr, name, args, kwargs)
    elif not isinstance(owner, (FunctionValue, NestedFunctionValue, BoundMethodValue)):
        return owner.call_method(tr, name, args, kwargs)
    tr.graph_break("call", f"{name}() of {owner.describe()} is C code that is not modelled")
    raise AssertionError


def _comes_from_object(cls: type, name: str) -> bool:
    """Whether no builtin class between this one and `object` has the method in C code of its own."""
    return not any(isinstance(namespace_of(base).get(name), SLOT_WRAPPERS) for base in cls.__mro__[:-1])


def _content(value: Value) -> Value:
    """Of an object of a subclass of `str` and the like, the string that it is."""
    if isinstance(value, ObjectValue) and isinstance(value.base, ConstantValue):
        return value.base
    return value


def call_unbound(
    tr: Any, fn: Any, first: ConstantValue, args: Sequence[Value], kwargs: dict[str, Value]
) -> Value:
    """A method taken from a builtin class (`int.__add__`), called with a constant as its first argument."""
    name, obj = fn.__name__, first.value
    if not isinstance(obj, fn.__objclass__):
        return fold_plain(tr, fn, args, kwargs)  # it says that it does not take the object
    if inspect.getattr_static(type(obj), name, None) is fn:
        return tr.call(first.get_attr(tr, name), args[1:], kwargs)
    if fn.__objclass__ is object:
        # They go by which object it is, and by where it is in memory.
        tr.graph_break("call", f"object.{name}() is called on {first.describe()}")
    return tr.call(MethodOfConstant(first, name, fn.__get__(obj)), args[1:], kwargs)


_PURE_OWNERS = frozenset(CONSTANT_TYPES) | {int, float, bool, str, bytes, complex, range, tuple, frozenset}


def call_constant_method(
    tr: Any, value: MethodOfConstant, args: Sequence[Value], kwargs: dict[str, Value]
) -> Value:
    """Methods of immutable builtin objects are pure."""
    if type(value.owner.value) is re.Pattern:
        done = library_folds.pattern_method(tr, value.owner.value, value.name, args, kwargs)
        if done is not None:
            return done
    if type(value.owner.value).__module__ not in ("builtins", "torch", "re"):
        tr.graph_break("call", f"method '{value.name}' of {value.owner.describe()}")
    if value.name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__") and len(args) == 1:
        known, _ = to_constant(tr, args[0])
        if not known:
            return ConstantValue(NotImplemented)
    if type(value.owner.value) is tuple:
        check_nan(tr, value.owner.value, tuple(to_constant(tr, arg)[1] for arg in args))
    if value.name in ("format", "format_map") and isinstance(value.owner.value, str):
        return call_now(tr, value.fn, args, kwargs, lambda tr, arg: (True, as_shown(tr, arg)))
    return fold_plain(tr, value.fn, args, kwargs)


def getset_value(tr: Any, owner: Value, raw: Any, name: str) -> Value | None:
    """Attributes served by getset descriptors that are known to be plain reads."""
    if name == "__dict__" and isinstance(owner, ObjectValue) and has_instance_dict(owner.cls):
        return InstanceDictValue(owner)
    if isinstance(owner, ObjectValue) and owner.obj is not None and owner.source is not None:
        if owner.cls in (functools._lru_cache_wrapper, types.SimpleNamespace):
            return None
        if type(owner.obj).__module__ == "builtins" and owner.cls in (types.TracebackType, types.FrameType):
            return None
    return None


def import_module(tr: Any, name: str, from_names: Value, level: Value) -> Value:
    """`import name` inside a function: a module that is there already is a lookup in sys.modules."""
    import_function = tr.frame.globals.load(tr, "__import__").realize(tr)
    if not isinstance(import_function, CallableValue) or import_function.fn is not builtins.__import__:
        tr.graph_break("call", "__import__ is replaced")
    known_names, names = to_constant(tr, from_names)
    known_level, depth = to_constant(tr, level)
    package = tr.frame.globals.namespace.get("__package__")
    if depth:
        if not package:
            tr.graph_break("call", f"a relative import of {name}")
        parent = package.rsplit(".", depth - 1)[0] if depth > 1 else package
        name = f"{parent}.{name}" if name else parent
    target = name if names else name.partition(".")[0]

    modules = sys.modules
    if not known_names or not known_level or name not in modules or target not in modules:
        tr.graph_break("call", f"module {name} is imported for the first time")
    module = modules[name]
    if not isinstance(module, types.ModuleType):
        tr.graph_break("call", f"what stands for module {name} in sys.modules is none")
    # Not by `getattr`: what a module makes on demand, it makes once the program asks.
    namespace = object.__getattribute__(module, "__dict__")
    if getattr(namespace.get("__spec__"), "_initializing", False):
        tr.graph_break("call", f"module {name} is being imported")
    for attribute in names or ():
        if attribute != "*" and attribute not in namespace:
            tr.graph_break("call", f"{name}.{attribute} is imported for the first time")
    place = tr.absolute(sys, None).attr("modules")
    tr.guard(place, Check.IDENTITY, modules)
    return tr.wrap(modules[target], place.item(target))
