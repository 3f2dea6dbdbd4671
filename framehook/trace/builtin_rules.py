"""What builtin functions and classes do with symbolic values: types, attributes, containers, operators."""

from __future__ import annotations

import abc
import collections
import functools
import inspect
import itertools
import operator
import os
import sys
import sysconfig
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import torch

from framehook.guards.guard import Check
from framehook.polyfills import reversing
from framehook.trace import operators, text_rules  # noqa: F401  (the rules of numbers and strings enter the table)
from framehook.trace.c_calls import attribute_name, partial_parts
from framehook.trace.capture import GraphBreak, Unsupported
from framehook.trace.classes import is_mutable_class
from framehook.trace.rules import RULES, Rule, positional, rule
from framehook.values.base import (
    ConstantValue,
    ObservedException,
    Value,
    fold,
    to_constant,
)
from framehook.values.classes import CallableValue, ClassValue, SuperValue, UnionValue
from framehook.values.exceptions import ExceptionValue
from framehook.values.functions import (
    BoundMethodValue,
    FunctionValue,
    GeneratorValue,
)
from framehook.values.iterators import MAKERS, CallIterator, ConstantIterator, make_chain_of
from framehook.values.mappings import DictValue
from framehook.values.numbers import guard_types, is_deferred, is_untouched_number
from framehook.values.objects import MISSING, ObjectValue, hides_class
from framehook.values.real_classes import derives, has_registered, module_of, namespace_of
from framehook.values.sequences import (
    ListValue,
    ReversedIterator,
    SequenceValue,
    SliceValue,
    TupleValue,
    as_index,
    ask_for_length,
    check_length,
    drain,
)
from framehook.values.sets import SetValue, make_set
from framehook.values.shared_iterators import make_groupby, make_tee
from framehook.values.sorting import sort_list
from framehook.values.tensor import TensorValue

# -- types of values ---------------------------------------------------------------------------------------


def _class_of(tr: Any, value: Value) -> type:
    return value.realize(tr).python_type()


def _is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


def _classes(tr: Any, value: Value) -> list[type]:
    value = value.realize(tr)
    if isinstance(value, TupleValue):
        return [cls for item in drain(tr, value) for cls in _classes(tr, item)]
    if isinstance(value, ClassValue):
        return [value.fn]
    if isinstance(value, UnionValue):
        parts = [item.realize(tr) for item in value.parts]
        return [cls for part in parts for cls in (_classes(tr, part) if not _is_none(part) else [type(None)])]
    if isinstance(value, CallableValue) and isinstance(value.fn, types.UnionType):
        if not all(isinstance(cls, type) for cls in value.fn.__args__):
            tr.graph_break("exception", "isinstance() of a union of generic types")
        return list(value.fn.__args__)
    if not isinstance(value, ConstantValue):
        tr.graph_break("call", f"isinstance() or issubclass() of {value.describe()}")
    tr.throw(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    raise AssertionError


def _is_instance(tr: Any, value: Value, cls: type) -> bool:
    # A number that nobody has looked at stays so: its type is guarded.
    if is_untouched_number(value) and (is_deferred(value) or tr.is_changing(value)):
        guard_types(tr, value)
        value = ConstantValue(value.obj)
    value = value.realize(tr)
    own = value.python_type()
    if isinstance(value, TensorValue):
        sample = value.example if value.example is not None else value.fake
        meta_check = type(cls).__instancecheck__
        if meta_check is not type.__instancecheck__ and value.example is None:
            # torch's own tensor classes answer from the tensor; a fresh tensor is a plain one.
            return (
                module_of(cls).startswith("torch") and isinstance(sample, cls) and cls.__name__ != "Parameter"
            )
        return isinstance(sample, cls) if value.example is not None else issubclass(own, cls)
    if own is cls:
        return True
    meta = type(cls)
    _guard_metaclass(tr, meta, "__instancecheck__")
    check = getattr(meta, "__instancecheck__", None)
    if not isinstance(check, types.FunctionType) and cls in own.__mro__:
        return _is_subclass(tr, own, cls)  # nobody asks the object for its __class__
    if isinstance(value, ObjectValue) and claims_class(tr, own):
        tr.graph_break("call", f"isinstance() of {value.describe()}, which has a __class__ of its own")
    if not isinstance(check, types.FunctionType) or check is abc.ABCMeta.__instancecheck__:
        return _is_subclass(tr, own, cls)
    if meta is _PROTOCOL_META:
        if cls not in own.__mro__ and is_mutable_class(own) and getattr(cls, "_is_protocol", False):
            return _has_protocol(tr, value, own, cls)
        return _is_subclass(tr, own, cls)
    if _is_torch_meta(cls):
        return issubclass(own, cls)
    real = getattr(value, "obj", None)
    if real is not None and module_of(meta) in ("typing", "enum"):
        try:
            return isinstance(real, cls)
        except TypeError as error:
            tr.graph_break("exception", f"isinstance(): {error}")
    return _ask_metaclass(tr, cls, "__instancecheck__", value)


def _ask_metaclass(tr: Any, cls: type, name: str, asked: Value) -> bool:
    """The answer of a check that a metaclass defines in Python."""
    method = BoundMethodValue(tr.class_value_attr(type(cls), name), tr.constant_object(cls))
    return bool(tr.truth(tr.call(method, [asked], {})))


def _has_protocol(tr: Any, value: Value, own: type, cls: type) -> bool:
    """Whether an object has all members of a protocol that it does not inherit from."""
    hook = tr.class_attr(cls, "__subclasshook__")
    hook_module = getattr(getattr(hook, "__func__", hook), "__module__", "")
    if (
        not isinstance(value, ObjectValue)
        or not getattr(cls, "_is_runtime_protocol", False)
        or hook_module != "typing"
        or tr.class_attr(own, "__getattr__") is not MISSING
        or tr.class_attr(own, "__getattribute__") is not object.__getattribute__
        or module_of(cls) in ("typing", "typing_extensions")
        or has_registered(cls)
    ):
        tr.graph_break("call", f"isinstance() of {value.describe()} and a protocol ({cls.__qualname__})")
        raise AssertionError
    members = frozenset(_protocol_members(cls))
    tr.guard(None, Check.PREDICATE, (functools.partial(_still_protocol, members), (tr.absolute(cls, None),)))
    if _is_subclass_unguarded(cls, own):
        tr.guard(None, Check.PREDICATE, (_still_subclass, (tr.absolute(own, None), tr.absolute(cls, None))))
        return True
    for name in sorted(members):
        raw = tr.class_attr(own, name)
        if raw is None:
            tr.graph_break("call", f"'{name}' of a protocol is None")
        if raw is MISSING:
            found = value.instance_attr(tr, name)
            if found is None:
                return False
            if _is_none(found.realize(tr)):
                tr.graph_break("call", f"'{name}' of a protocol is None")
    return True


def _protocol_members(cls: Any) -> set[str]:
    # Since 3.12 a protocol keeps what its members were when it was made.
    kept = namespace_of(cls).get("__protocol_attrs__")
    return typing._get_protocol_attrs(cls) if kept is None else kept  # type: ignore[attr-defined]


def _still_protocol(members: frozenset[str], cls: type) -> bool:
    return members == _protocol_members(cls) and not has_registered(cls)


def _is_subclass_unguarded(cls: type, own: type) -> bool:
    try:
        return issubclass(own, cls)
    except TypeError:  # a protocol with members that are no methods
        return False


def claims_class(tr: Any, cls: type) -> bool:
    """Whether code of a class answers what `__class__` its instances have."""
    if hides_class(cls):
        return True
    return getattr(tr.class_attr(cls, "__getattribute__"), "__objclass__", None) is None


_PROTOCOL_META: Any = type(typing.Protocol)


def _guard_metaclass(tr: Any, meta: type, name: str) -> None:
    """User code may give its metaclass a check of its own."""
    if is_mutable_class(meta) and not _is_library(meta):
        tr.class_attr(meta, name)


def _is_library(cls: type) -> bool:
    """Whether a class of the standard library or of torch, whose ways nobody changes while a program runs."""
    root = module_of(cls).partition(".")[0]
    return root == "torch" or (root in sys.stdlib_module_names and root != "__main__")


_INSTALLED = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib")})


@functools.cache
def _is_installed(module: str) -> bool:
    """Whether a module comes from the standard library or from an installed package."""
    return (getattr(sys.modules.get(module), "__file__", None) or "").startswith(_INSTALLED)


def _guard_bases(tr: Any, cls: type) -> None:
    """`cls.__bases__` can be assigned."""
    if is_mutable_class(cls) and not _is_library(cls):
        tr.guard(tr.absolute(cls, None).member("__mro__"), Check.IDENTITY, cls.__mro__)


def _is_subclass(tr: Any, own: type, cls: type) -> bool:
    """`issubclass(own, cls)`, guarded where that can change."""
    meta = type(cls)
    _guard_metaclass(tr, meta, "__subclasscheck__")
    check = getattr(meta, "__subclasscheck__", None)
    if not isinstance(check, types.FunctionType):
        _guard_bases(tr, own)
        return issubclass(own, cls)
    if check is not abc.ABCMeta.__subclasscheck__:
        if meta is not _PROTOCOL_META and not _is_torch_meta(cls):
            if _is_library(meta):
                tr.graph_break("call", f"a class with its own __subclasscheck__ ({cls.__qualname__})")
            return _ask_metaclass(tr, cls, "__subclasscheck__", tr.constant_object(own))
    else:
        hook = tr.class_attr(cls, "__subclasshook__") if not _is_library(cls) else None
        asks = getattr(hook, "__func__", None)
        if isinstance(asks, types.FunctionType) and not (
            meta is _PROTOCOL_META or asks.__module__ in sys.stdlib_module_names
        ):
            tr.graph_break("call", f"a class with its own __subclasshook__ ({cls.__qualname__})")
    try:
        answer = issubclass(own, cls)
    except TypeError as error:
        tr.graph_break("exception", f"issubclass(): {error}")
    if answer and cls in own.__mro__:
        _guard_bases(tr, own)
        return True
    if _is_library(cls):
        if not is_mutable_class(own) or _is_library(own):
            return answer
        if answer and any(
            issubclass(base, cls) for base in own.__mro__ if base is not object and not is_mutable_class(base)
        ):
            _guard_bases(tr, own)
            return True
    if _is_installed(module_of(own)) and _is_installed(module_of(cls)):
        return answer  # packages register their own classes when they are imported
    # Whether the one is registered with the other, or has what the other asks for, can change.
    predicate = _still_subclass if answer else _still_no_subclass
    tr.guard(None, Check.PREDICATE, (predicate, (tr.absolute(own, None), tr.absolute(cls, None))))
    return answer


def _still_subclass(own: type, cls: type) -> bool:
    return issubclass(own, cls)


def _still_no_subclass(own: type, cls: type) -> bool:
    return not issubclass(own, cls)


def _is_torch_meta(cls: type) -> bool:
    return module_of(type(cls)).startswith("torch.")


@rule(isinstance)
@positional(2)
def _isinstance(tr: Any, value: Value, classes: Value) -> bool:
    return any(_is_instance(tr, value, cls) for cls in _classes(tr, classes))


@rule(issubclass)
@positional(2)
def _issubclass(tr: Any, cls: Value, classes: Value) -> bool:
    cls = cls.realize(tr)
    if not isinstance(cls, ClassValue):
        tr.throw(TypeError, "issubclass() arg 1 must be a class")
        raise AssertionError
    return any(_is_subclass(tr, cls.fn, other) for other in _classes(tr, classes))


@rule(callable)
@positional(1)
def _callable(tr: Any, value: Value) -> bool:
    value = value.realize(tr)
    if isinstance(value, ObjectValue):
        return tr.class_attr(value.cls, "__call__") is not MISSING
    return any("__call__" in namespace_of(base) for base in value.python_type().__mro__)


@rule(super)
def _super(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2:
        cls = args[0].realize(tr)
        if isinstance(cls, ClassValue):
            return _super_of(tr, cls.fn, args[1])
    if args:
        tr.graph_break("call", "super() with one argument")
    frame = tr.frame
    code = frame.code
    owner: Any = None
    if code.co_argcount:
        name = code.co_varnames[0]
        owner = frame.locals.get(name)
        if owner is None and name in frame.cells:
            owner = frame.cells[name].contents
    if owner is None:
        if frame is tr.root:
            # Generated code has arguments that the frame has not, where the native call would look.
            place = GraphBreak("exception", "super() without arguments", "", tuple(tr.frames()))
            raise Unsupported(place)
        tr.throw(RuntimeError, "super(): arg[0] deleted" if code.co_argcount else "super(): no arguments")
    if "__class__" not in code.co_freevars:
        tr.throw(RuntimeError, "super(): __class__ cell not found")
    held = frame.cells["__class__"].contents
    found = None if held is None else held.realize(tr)
    if not isinstance(found, ClassValue):
        tr.graph_break("exception", "super() without a class in its cell")
        raise AssertionError
    return _super_of(tr, found.fn, owner)


def _super_of(tr: Any, cls: type, owner: Value) -> Value:
    value = owner.realize(tr)
    is_class = isinstance(value, ClassValue) and derives(value.fn, cls)
    if not is_class and not derives(value.python_type(), cls):
        tr.graph_break("exception", f"super() of {value.describe()}, which is no {cls.__qualname__}")
    return SuperValue(cls, owner)


# -- attributes --------------------------------------------------------------------------------------------


@rule(getattr)
@positional(2, 3)
def _getattr(tr: Any, owner: Value, name: Value, *default: Value) -> Value:
    owner = owner.realize(tr)
    if not default:
        return owner.get_attr(tr, attribute_name(tr, name))
    try:
        return owner.get_attr(tr, attribute_name(tr, name))
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), AttributeError):
            return default[0]
        raise


@rule(hasattr)
@positional(2)
def _hasattr(tr: Any, owner: Value, name: Value) -> bool:
    try:
        found = owner.realize(tr).get_attr(tr, attribute_name(tr, name))
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), AttributeError):
            return False
        raise
    found.realize(tr)  # its presence is what was asked for
    return True


@rule(setattr)
@positional(3)
def _setattr(tr: Any, owner: Value, name: Value, value: Value) -> None:
    owner.realize(tr).set_attr(tr, attribute_name(tr, name), value)


@rule(delattr)
@positional(2)
def _delattr(tr: Any, owner: Value, name: Value) -> None:
    owner.realize(tr).del_attr(tr, attribute_name(tr, name))


# -- containers and iteration --------------------------------------------------------------------------------


@rule(len)
@positional(1)
def _len(tr: Any, value: Value) -> Value:
    value = value.realize(tr)
    return value.size_of_first(tr) if isinstance(value, TensorValue) else ConstantValue(value.length(tr))


@rule(iter)
@positional(1, 2)
def _iter(tr: Any, value: Value, *sentinel: Value) -> Value:
    if sentinel:
        if not tr.truth(_callable(tr, [value], {})):
            tr.throw(TypeError, "iter(v, w): v must be callable")
        return tr.note_birth(CallIterator(value, sentinel[0]))
    return tr.iterate(value)


@rule(next)
@positional(1, 2)
def _next(tr: Any, iterator: Value, *default: Value) -> Value:
    iterator = iterator.realize(tr)
    method = tr.special_method(iterator, "__next__")
    if method is not None and not default:
        return tr.call(method, [], {})  # its StopIteration may have a value
    item = iterator.next(tr)
    if item is not None:
        return item
    if default:
        return default[0]
    if isinstance(iterator, GeneratorValue):
        result = iterator.frame.result
        plain = isinstance(result, ConstantValue) and result.value is None
        raise ObservedException(ExceptionValue(StopIteration, [] if result is None or plain else [result]))
    tr.throw(StopIteration)
    raise AssertionError


def _iterator_rule(maker: Rule, least: int = 0) -> Rule:
    def make(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) < least:
            tr.graph_break("exception", "an iterator is made of other arguments")
        return tr.note_birth(maker(tr, args, kwargs))

    return make


#: Makers that take any number of positional arguments, or all as keywords.
_TAKES_NONE = (zip, enumerate, itertools.chain, itertools.product, itertools.count, itertools.zip_longest)
for _target, _maker in {**MAKERS, itertools.groupby: make_groupby}.items():
    RULES[id(_target)] = _iterator_rule(_maker, 0 if _target in _TAKES_NONE else 1)


@rule(itertools.tee)
def _tee(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    made = make_tee(tr, args, kwargs)
    for each in made.items:
        tr.note_birth(each)
    return made


#: Rules of class methods of C classes, which are new objects whenever they are looked up.
CLASS_METHOD_RULES: dict[tuple[type, str], Rule] = {
    (itertools.chain, "from_iterable"): _iterator_rule(make_chain_of),
}


def class_method_rule(fn: Any) -> Rule | None:
    """The rule of a class method of a C class."""
    owner = getattr(fn, "__self__", None)
    return CLASS_METHOD_RULES.get((owner, fn.__name__)) if isinstance(owner, type) else None


@rule(list)
@positional(0, 1)
def _list(tr: Any, *iterable: Value) -> Value:
    return ListValue(_all_of(tr, iterable[0]) if iterable else [])


def _all_of(tr: Any, iterable: Value) -> list[Value]:
    iterator = tr.iterate(iterable)
    ask_for_length(tr, iterable)
    return drain(tr, iterator)


@rule(tuple)
@positional(0, 1)
def _tuple(tr: Any, *iterable: Value) -> Value:
    if iterable:
        value = iterable[0].realize(tr)
        if isinstance(value, TupleValue) and value.cls is tuple:
            return value
        return TupleValue(_all_of(tr, value))
    return TupleValue([])


@rule(set, frozenset)
def _never(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    raise AssertionError


def _set_rule(cls: type) -> Rule:
    @positional(0, 1)
    def make(tr: Any, *iterable: Value) -> Value:
        return make_set(tr, cls, iterable[0] if iterable else None)

    return make


RULES[id(set)] = _set_rule(set)
RULES[id(frozenset)] = _set_rule(frozenset)


@rule(dict, collections.OrderedDict)
def _dict_never(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    raise AssertionError


def _dict_rule(cls: type) -> Rule:
    def make(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        result = DictValue(cls=cls)
        result.call_method(tr, "__init__", args, kwargs)
        return result

    return make


@rule(vars)
def _vars(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 or kwargs:
        tr.graph_break("call", "vars() shows the local variables")
    owner = args[0].realize(tr)
    if not isinstance(owner, ObjectValue):
        tr.graph_break("call", f"vars() of {owner.describe()}")
    return owner.get_attr(tr, "__dict__")


for _cls in (dict, collections.OrderedDict, collections.defaultdict):
    RULES[id(_cls)] = _dict_rule(_cls)


def _from_keys(cls: type) -> Rule:
    @positional(1, 2)
    def make(tr: Any, keys: Value, *value: Value) -> Value:
        result = DictValue(cls=cls)
        iterator = tr.iterate(keys)
        while (key := iterator.next(tr)) is not None:
            result.set_item(tr, key, value[0] if value else ConstantValue(None))
        return result

    return make


CLASS_METHOD_RULES[dict, "fromkeys"] = _from_keys(dict)
CLASS_METHOD_RULES[collections.OrderedDict, "fromkeys"] = _from_keys(collections.OrderedDict)


@rule(reversed)
@positional(1)
def _reversed(tr: Any, value: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, SequenceValue):
        return _reversed_value(tr, value)
    if isinstance(value, ConstantValue):
        if not isinstance(value.value, (str, bytes, tuple, range)):
            tr.throw(TypeError, f"'{type(value.value).__name__}' object is not reversible")
        return ConstantIterator(tuple(reversed(value.value)))
    if isinstance(value, ObjectValue):
        method = value.special(tr, "__reversed__")
        if method is not None:
            return tr.call(method, [], {})
        if value.base is not None:
            return _reversed_value(tr, value.base)
        if issubclass(value.cls, torch.nn.Module) and value.special(tr, "__getitem__") is not None:
            return tr.inline(tr.constant_object(reversing.reversed_sequence), [value], {})
        # It is asked for each element when that is wanted, not before.
        tr.graph_break("call", f"reversed() of {value.describe()}")
    return _reversed_value(tr, value)


def _reversed_value(tr: Any, value: Value) -> Value:
    if isinstance(value, SequenceValue):
        value.guard_length(tr)
        return tr.note_birth(ReversedIterator(value))
    cls = value.python_type()
    if not hasattr(cls, "__reversed__") and not hasattr(cls, "__getitem__"):
        tr.throw(TypeError, f"'{cls.__name__}' object is not reversible")
    return value.call_method(tr, "__reversed__", [], {})


@rule(sorted)
def _sorted(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1:
        tr.graph_break("exception", "sorted() is called with other arguments")
    value = args[0].realize(tr)
    if isinstance(value, SetValue):
        # The order of a set does not matter to what sorting gives, unless keys are equal.
        if "key" not in kwargs:
            value = ListValue(list(value.found.values()))
    made = ListValue(_all_of(tr, value))
    sort_list(tr, made, kwargs)
    return made


@rule(any)
@positional(1)
def _any(tr: Any, iterable: Value) -> bool:
    iterator = tr.iterate(iterable)
    while (item := iterator.next(tr)) is not None:
        if tr.truth(item):
            return True
    return False


@rule(all)
@positional(1)
def _all(tr: Any, iterable: Value) -> bool:
    iterator = tr.iterate(iterable)
    while (item := iterator.next(tr)) is not None:
        if not tr.truth(item):
            return False
    return True


@rule(sum)
def _sum(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    total = args[1] if len(args) > 1 else kwargs.get("start", ConstantValue(0))
    if not args or len(args) > 2 or set(kwargs) - {"start"}:
        tr.graph_break("exception", "sum() is called with other arguments")
    if issubclass(total.realize(tr).python_type(), (str, bytes, bytearray)):
        return fold(tr, sum, [ConstantValue(()), total], {})  # it says what to use
    iterator = tr.iterate(args[0])
    item = iterator.next(tr)
    if _is_plain_number(tr, total):
        # Floats are not just added one by one (3.12 compensates what is lost in between).
        numbers: list[Value] = []
        while item is not None and _is_plain_number(tr, item):
            numbers.append(item.realize(tr))
            check_length(tr, numbers)
            item = iterator.next(tr)
        total = fold(tr, sum, [TupleValue(numbers), total], {})
    while item is not None:
        total = operators.binary(tr, "+", total, item)
        item = iterator.next(tr)
    return total


def _is_plain_number(tr: Any, value: Value) -> bool:
    plain = value.realize(tr)
    return isinstance(plain, ConstantValue) and type(plain.value) in (int, float, bool)


@rule(range)
def _range(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    return fold(tr, range, [_as_number(tr, arg) for arg in args], kwargs)


def _as_number(tr: Any, value: Value) -> Value:
    """An object with `__index__` is the number that it gives."""
    value = value.realize(tr)
    number = as_index(tr, value) if isinstance(value, ObjectValue) else None
    return value if number is None else ConstantValue(number)


@rule(slice)
def _slice(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    parts: list[Value] = list(args)
    if kwargs or not 1 <= len(parts) <= 3:
        tr.graph_break("exception", "slice() is called with other arguments")
    if len(parts) == 1:
        parts.insert(0, ConstantValue(None))
    if len(parts) == 2:
        parts.append(ConstantValue(None))
    value = SliceValue(parts)
    known, obj = to_constant(tr, value)
    return ConstantValue(obj) if known else value


# -- operator, functools -----------------------------------------------------------------------------------


def _operator_rule(apply: Callable[..., Any], count: int) -> Rule:
    @positional(count)
    def run(tr: Any, *args: Value) -> Value:
        return apply(tr, *args)

    return run


for _symbol, (_fn, _, _) in operators.BINARY.items():
    RULES[id(_fn)] = _operator_rule(
        functools.partial(lambda op, tr, a, b: operators.binary(tr, op, a, b), _symbol), 2
    )
for _symbol, (_fn, _) in operators.INPLACE.items():
    RULES[id(_fn)] = _operator_rule(
        functools.partial(lambda op, tr, a, b: operators.binary(tr, op, a, b), _symbol), 2
    )
for _symbol, (_fn, _, _) in operators.COMPARE.items():
    RULES[id(_fn)] = _operator_rule(
        functools.partial(lambda op, tr, a, b: operators.compare(tr, op, a, b), _symbol), 2
    )
for _symbol, (_negate, _) in operators.UNARY.items():
    RULES[id(_negate)] = _operator_rule(
        functools.partial(lambda op, tr, a: operators.unary(tr, op, a), _symbol), 1
    )
RULES[id(operator.getitem)] = _operator_rule(lambda tr, a, b: a.realize(tr).get_item(tr, b), 2)
RULES[id(operator.setitem)] = _operator_rule(
    lambda tr, a, b, c: a.realize(tr).set_item(tr, b, c) or ConstantValue(None), 3
)
RULES[id(operator.delitem)] = _operator_rule(
    lambda tr, a, b: a.realize(tr).del_item(tr, b) or ConstantValue(None), 2
)
RULES[id(operator.contains)] = _operator_rule(
    lambda tr, a, b: ConstantValue(a.realize(tr).contains(tr, b)), 2
)
RULES[id(operator.not_)] = _operator_rule(lambda tr, a: ConstantValue(not tr.truth(a)), 1)
RULES[id(operator.truth)] = _operator_rule(lambda tr, a: ConstantValue(tr.truth(a)), 1)
RULES[id(operator.is_)] = _operator_rule(lambda tr, a, b: ConstantValue(tr.is_same(a, b)), 2)
RULES[id(operator.is_not)] = _operator_rule(lambda tr, a, b: ConstantValue(not tr.is_same(a, b)), 2)
RULES[id(operator.abs)] = RULES[id(abs)]


@rule(functools.reduce)
@positional(2, 3)
def _reduce(tr: Any, fn: Value, iterable: Value, *initial: Value) -> Value:
    items = drain(tr, tr.iterate(iterable))
    if initial:
        items.insert(0, initial[0])
    if not items:
        tr.throw(TypeError, "reduce() of empty iterable with no initial value")
    total = items[0]
    for item in items[1:]:
        total = tr.call(fn, [total, item], {})
    return total


@rule(functools.partial)
def _partial(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if not args:
        tr.graph_break("exception", "partial() is called without a function")
    fn = args[0].realize(tr)
    positional_args, named = list(args[1:]), dict(kwargs)
    if isinstance(fn, ObjectValue) and fn.cls is functools.partial:
        inner_args, inner_kwargs = partial_parts(tr, fn)
        positional_args = [*inner_args, *positional_args]
        named = {**inner_kwargs, **named}
        inner_fn = fn.attrs["func"]
        assert inner_fn is not None
        fn = inner_fn
    value = ObjectValue(functools.partial, None)
    value.attrs["func"] = fn
    value.attrs["args"] = TupleValue(positional_args)
    value.attrs["keywords"] = DictValue({key: (ConstantValue(key), item) for key, item in named.items()})
    return value


@rule(object)
@positional(0)
def _object(tr: Any) -> Value:
    return ObjectValue(object, None)


@rule(inspect.signature)
def _signature(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    fn = args[0].realize(tr)
    is_bound = isinstance(fn, BoundMethodValue)
    target = fn.fn.realize(tr) if isinstance(fn, BoundMethodValue) else fn
    if kwargs or len(args) != 1 or not isinstance(target, FunctionValue):
        tr.graph_break("call", f"the signature of {fn.describe()} is asked for")
        raise AssertionError
    tr.guard(target.source.member("__code__"), Check.IDENTITY, target.fn.__code__)
    tr.guard(target.source.member("__defaults__"), Check.IDENTITY, target.fn.__defaults__)
    tr.guard(target.source.member("__kwdefaults__"), Check.IDENTITY, target.fn.__kwdefaults__)
    for name in ("__wrapped__", "__signature__", "__text_signature__"):
        if name in target.fn.__dict__:
            tr.graph_break("call", f"the signature of the wrapper {fn.describe()} is asked for")
        tr.guard(target.source.instance_dict(), Check.NO_KEY, name)
    found = inspect.signature(target.fn)
    parameters = list(found.parameters.values())[int(is_bound) :]
    value = ObjectValue(inspect.Signature, None)
    value.attrs["_parameters"] = DictValue(
        {each.name: (ConstantValue(each.name), ConstantValue(each)) for each in parameters}
    )
    return value


@rule(print)
def _print(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    tr.graph_break("side_effect", "print() writes to the outside", "print outside the compiled function")
    raise AssertionError
