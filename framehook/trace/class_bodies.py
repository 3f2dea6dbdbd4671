"""Classes that the frame defines: class statements, `type(name, bases, namespace)`, `namedtuple` and `dataclass`."""

from __future__ import annotations

import abc
import builtins
import collections
import dataclasses
import functools
import sys
import types
from collections.abc import Sequence
from typing import Any

from framehook.trace.classes import is_mutable_class, native_base
from framehook.trace.frame import Frame
from framehook.trace.rules import RULES, rule
from framehook.values.base import ConstantValue, Value, is_constant, to_constant
from framehook.values.classes import ClassValue
from framehook.values.descriptors import DescriptorValue, make_descriptor
from framehook.values.frame_classes import FrameClassValue
from framehook.values.functions import CellValue, FunctionValue, NestedFunctionValue
from framehook.values.mappings import DictValue
from framehook.values.numbers import guard_types
from framehook.values.objects import MISSING, ObjectValue
from framehook.values.plain import as_plain
from framehook.values.real_classes import module_of
from framehook.values.sequences import TupleValue, drain

_METACLASSES = (type, abc.ABCMeta)

for _cls in (property, classmethod, staticmethod, functools.cached_property):
    RULES[id(_cls)] = make_descriptor(_cls)


class _StandIn:
    """What the template has for a value that only the running program has."""


def _break(tr: Any, why: str) -> Any:
    tr.graph_break("class_body", f"a class is defined in the frame: {why}")


@rule(builtins.__build_class__)
def _build_class(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Run the body of a class and make the class (CPython: builtin___build_class__ in bltinmodule.c)."""
    body, name, *bases = (arg.realize(tr) for arg in args)
    if kwargs:
        _break(tr, "it has keywords")
    if not isinstance(body, NestedFunctionValue) or not isinstance(name, ConstantValue):
        _break(tr, "its body is no function of the frame")
        raise AssertionError
    frame = Frame(body.code, body.globals, tr.frame)
    frame.closure = [cell.realize(tr) for cell in body.closure.items] if body.closure is not None else []  # type: ignore[misc]
    frame.function = body
    tr.frame.awaited = (0, None)
    result = tr.run_inner(frame).realize(tr)
    made = make_class(tr, _metaclass(tr, bases), name.value, bases, dict(frame.locals))
    if isinstance(result, CellValue):
        result.store(tr, made)  # `__class__`
    return made


def _metaclass(tr: Any, bases: Sequence[Value]) -> type:
    if not all(isinstance(base, ClassValue) for base in bases):
        _break(tr, "a base is no class")
    metas = {type(base.fn) for base in bases if isinstance(base, ClassValue)}
    if not metas <= set(_METACLASSES):
        _break(tr, "a base has a metaclass")
    return abc.ABCMeta if abc.ABCMeta in metas else type


def make_class(
    tr: Any, meta: type, name: str, bases: Sequence[Value], namespace: dict[str, Value]
) -> FrameClassValue:
    """`meta(name, bases, namespace)`."""
    real_bases = tuple(base.fn for base in bases if isinstance(base, ClassValue))
    for base in real_bases:
        hook = tr.class_attr(base, "__init_subclass__")
        if hook is not object.__dict__["__init_subclass__"]:
            _break(tr, "a base is told of its subclasses")
        if not _takes_templates(tr, base):
            _break(tr, "__subclasses__() of a base would tell of the template")
    if "__classcell__" in namespace:
        namespace = {key: value for key, value in namespace.items() if key != "__classcell__"}
    template_namespace: dict[str, Any] = {}
    functions: dict[str, Value] = {}
    is_exact = True
    for key, value in namespace.items():
        value = value.realize(tr)
        _check_member(tr, key, value)
        known, template_namespace[key] = _stand_in(tr, value)
        is_exact = is_exact and known
        if not isinstance(value, ConstantValue):
            functions[key] = value
    try:
        template = meta(name, real_bases, template_namespace)
    except Exception:
        _break(tr, "it cannot be made")
        raise AssertionError from None
    namespace_value = DictValue({key: (ConstantValue(key), value) for key, value in namespace.items()})
    args: list[Value] = [ConstantValue(name), TupleValue(list(bases)), namespace_value]
    made = FrameClassValue(template, tr.absolute(template, None), meta, args, {})
    made.functions = functions
    made.is_exact = is_exact
    return tr.add_template(made)


def _takes_templates(tr: Any, base: type) -> bool:
    """Whether nobody looks for the subclasses of a class: it is one of the library, or of the frame itself."""
    if id(base) in tr.templates or not is_mutable_class(base):
        return True
    name = module_of(base)
    return name.partition(".")[0] in sys.stdlib_module_names and name != "__main__"


def _check_member(tr: Any, name: str, value: Value) -> None:
    kind = value.python_type()
    if kind is dataclasses.Field:
        return
    if hasattr(kind, "__set_name__") and not isinstance(value, DescriptorValue | FunctionValue):
        _break(tr, f"'{name}' is told its name")
    if name in ("__del__", "__init_subclass__", "__class_getitem__", "__slots__"):
        if name != "__slots__" or not to_constant(tr, value)[0]:
            _break(tr, f"it has {name}")
    is_understood = isinstance(value, FunctionValue | NestedFunctionValue | DescriptorValue | ObjectValue)
    is_strange = isinstance(value, ObjectValue) and (
        native_base(kind) is not object or hasattr(kind, "__del__")
    )
    if (is_strange or not is_understood) and hasattr(kind, "__get__"):
        _break(tr, f"'{name}' is a descriptor")


def _stand_in(tr: Any, value: Value) -> tuple[bool, Any]:
    """Whether the template can have the very value, and what it has."""
    if isinstance(value, ClassValue):
        return not isinstance(value, FrameClassValue), value.fn
    if isinstance(value, FunctionValue):
        return True, value.fn
    if isinstance(value, NestedFunctionValue):
        cells = tuple(types.CellType() for _ in value.code.co_freevars)
        return True, types.FunctionType(value.code, value.globals.namespace, value.code.co_name, None, cells)
    if isinstance(value, DescriptorValue):
        parts = [_stand_in(tr, part) for part in value.arguments()]
        return all(known for known, _ in parts), value.cls(*(part for _, part in parts))
    if isinstance(value, ObjectValue) and value.cls is dataclasses.Field and value.obj is None:
        return _field(tr, value)
    if (
        isinstance(value, ObjectValue)
        and native_base(value.cls) is object
        and not hasattr(value.cls, "__del__")
    ):
        return False, object.__new__(value.cls)  # nothing is asked of it but its class
    known, obj = as_plain(tr, value)
    return (True, obj) if known else (False, _StandIn())


def _field(tr: Any, value: ObjectValue) -> tuple[bool, Any]:
    """A `dataclasses.field(...)` of the body."""
    given: dict[str, Any] = {}
    for name in ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only"):
        item = value.attrs.get(name)
        actual = getattr(item, "obj", None) if item is not None else None
        if actual is dataclasses.MISSING or item is None:
            continue
        plain = item.realize(tr)
        if getattr(plain, "obj", None) is dataclasses.MISSING:
            continue
        known, given[name] = _stand_in(tr, plain)
        if not known or isinstance(plain, NestedFunctionValue):
            return False, _StandIn()
    return True, dataclasses.field(**given)


@rule(type)
def _type(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 1 and not kwargs:
        if tr.is_changing(args[0]):
            guard_types(tr, args[0])
            return tr.constant_object(args[0].python_type())
        value = args[0].realize(tr)
        if isinstance(value, ClassValue):
            return tr.constant_object(type(value.fn))
        return tr.constant_object(value.python_type())
    if len(args) != 3 or kwargs:
        tr.graph_break("exception", "type() is called with other arguments")
    name, bases, namespace = (arg.realize(tr) for arg in args)
    parts = [base.realize(tr) for base in drain(tr, bases)]
    if (
        not isinstance(name, ConstantValue)
        or not isinstance(namespace, DictValue)
        or namespace.cls is not dict
    ):
        _break(tr, "its namespace is no dict")
        raise AssertionError
    namespace.guard_keys(tr)
    members = {str(key): value for key, (_, value) in namespace.items.items()}
    if "__classcell__" in members:
        _break(tr, "its namespace holds the cell of another class")
    module = tr.frame.globals.load(tr, "__name__")
    members.setdefault("__module__", module)
    return make_class(tr, _metaclass(tr, parts), name.value, parts, members)


@rule(collections.namedtuple)
def _namedtuple(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    plain = [as_plain(tr, value) for value in args]
    named = {name: as_plain(tr, value) for name, value in kwargs.items()}
    if not all(known and is_constant_tree(obj) for known, obj in (*plain, *named.values())):
        tr.graph_break("class_body", "a named tuple is defined with arguments that are no constants")
    given = {name: obj for name, (_, obj) in named.items()}
    if given.get("module") is None:
        _, given["module"] = to_constant(tr, tr.frame.globals.load(tr, "__name__"))
    try:
        template = collections.namedtuple(*(obj for _, obj in plain), **given)  # type: ignore[misc]
    except (TypeError, ValueError) as error:
        tr.throw(type(error), *error.args)
    values: dict[str, Value] = {**kwargs, "module": ConstantValue(given["module"])}
    made = FrameClassValue(template, tr.absolute(template, None), collections.namedtuple, list(args), values)
    return tr.add_template(made)


def is_constant_tree(obj: Any) -> bool:
    """Whether an object is a constant, or a list or tuple of such."""
    return all(map(is_constant_tree, obj)) if type(obj) in (list, tuple) else is_constant(obj)


_process: Any = dataclasses._process_class  # type: ignore[attr-defined]


@rule(_process)
def _dataclass(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """What `dataclass` does to a class."""
    cls = args[0].realize(tr)
    options = [to_constant(tr, arg) for arg in args[1:]]
    if not isinstance(cls, FrameClassValue) or kwargs or not all(known for known, _ in options):
        tr.graph_break("class_body", "a class from outside becomes a dataclass")
        raise AssertionError
    if not cls.is_exact or tr.births[id(cls)][0] is not cls:
        _break(tr, "a field of the dataclass is no constant")
    before = dict(vars(cls.fn))
    try:
        made = _process(cls.fn, *(option for _, option in options))
    except (TypeError, ValueError) as error:
        tr.throw(type(error), *error.args)
    if made is not cls.fn:
        _break(tr, "a dataclass with slots is another class")
    tr.forget_class(cls.fn)
    for name, raw in vars(cls.fn).items():
        if before.get(name, MISSING) is not raw:
            cls.functions.pop(name, None)
    cls.decorators.append((_process, list(args[1:])))
    return cls


# -- instructions of class bodies, whose variables are in a dict ---------------------------------------------


def _load_name(tr: Any, frame: Any, inst: Any) -> None:
    found = frame.locals.get(inst.argval)
    frame.push(frame.globals.load(tr, inst.argval) if found is None else found)


def _store_name(tr: Any, frame: Any, inst: Any) -> None:
    frame.locals[inst.argval] = frame.pop()


def _delete_name(tr: Any, frame: Any, inst: Any) -> None:
    if frame.locals.pop(inst.argval, None) is None:
        tr.throw(NameError, f"name '{inst.argval}' is not defined")


def _load_class_deref(tr: Any, frame: Any, inst: Any) -> None:
    found = frame.locals.get(inst.argval)
    if found is None:
        found = frame.cells[inst.argval].contents
    if found is None:
        _break(tr, f"'{inst.argval}' is not bound yet")
    frame.push(found)


def _load_locals(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ConstantValue(None))  # only the two instructions below take it, and they ask the frame


def _load_from_dict_or_deref(tr: Any, frame: Any, inst: Any) -> None:
    frame.pop()
    _load_class_deref(tr, frame, inst)


def _load_from_dict_or_globals(tr: Any, frame: Any, inst: Any) -> None:
    frame.pop()
    _load_name(tr, frame, inst)


def _setup_annotations(tr: Any, frame: Any, inst: Any) -> None:
    frame.locals.setdefault("__annotations__", DictValue())


def _load_build_class(tr: Any, frame: Any, inst: Any) -> None:
    view = frame.globals
    found = view.builtins.get("__build_class__")
    if found is not builtins.__build_class__:
        _break(tr, "__build_class__ is replaced")
    tr.wrap(found, view.builtins_source.item("__build_class__"))
    frame.push(tr.constant_object(found))


HANDLERS = {
    "LOAD_BUILD_CLASS": _load_build_class,
    "LOAD_NAME": _load_name,
    "STORE_NAME": _store_name,
    "DELETE_NAME": _delete_name,
    "LOAD_CLASSDEREF": _load_class_deref,
    "LOAD_LOCALS": _load_locals,
    "LOAD_FROM_DICT_OR_DEREF": _load_from_dict_or_deref,
    "LOAD_FROM_DICT_OR_GLOBALS": _load_from_dict_or_globals,
    "SETUP_ANNOTATIONS": _setup_annotations,
}
