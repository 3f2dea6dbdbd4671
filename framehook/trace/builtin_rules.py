"""What builtin functions and classes do with symbolic values: a table keyed by the callable itself."""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import inspect
import itertools
import math
import operator
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from framehook import _C
from framehook.guards.guard import Check
from framehook.source import Source
from framehook.trace import operators
from framehook.trace.classes import make_instance
from framehook.values.base import (
    CONSTANT_TYPES,
    ConstantValue,
    MethodOfConstant,
    ObservedException,
    Value,
    fold,
    to_constant,
)
from framehook.values.functions import (
    BoundMethodValue,
    FunctionValue,
    GeneratorValue,
    NestedFunctionValue,
)
from framehook.values.iterators import MAKERS, ConstantIterator, IteratorValue, ListedIterator, make_chain_of
from framehook.values.mappings import DictValue, DictView, SetValue, hash_key
from framehook.values.objects import (
    MISSING,
    CallableValue,
    ClassValue,
    ExceptionValue,
    InstanceDictValue,
    ObjectValue,
    SuperValue,
    UnionValue,
)
from framehook.values.plain import as_plain
from framehook.values.sequences import (
    BuiltinMethod,
    ListValue,
    SequenceValue,
    SliceValue,
    TupleValue,
    drain,
    sort_values,
)
from framehook.values.tensor import TensorValue

Rule = Callable[[Any, Sequence[Value], dict[str, Value]], Value]

#: Rules by `id` of the callable.  All of these live as long as the process.
RULES: dict[int, Rule] = {}
#: What a table entry costs nothing to keep alive.
_RULED: list[Any] = []


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    """Register a rule for these callables."""

    def register(fn: Rule) -> Rule:
        for target in targets:
            RULES[id(target)] = fn
            _RULED.append(target)
        return fn

    return register


def positional(count: int, most: int | None = None) -> Callable[[Callable[..., Any]], Rule]:
    """Make a rule of a function that takes `count` (to `most`) positional values."""

    def make(fn: Callable[..., Any]) -> Rule:
        def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
            if kwargs or not count <= len(args) <= (most if most is not None else count):
                tr.graph_break("exception", f"{fn.__name__.lstrip('_')}() is called with other arguments")
            result = fn(tr, *args)
            return result if isinstance(result, Value) else ConstantValue(result)

        return apply

    return make


def fold_plain(tr: Any, fn: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a pure function now; lists and dicts of constants may be among its arguments."""
    plain = []
    for arg in args:
        known, obj = as_plain(tr, arg)
        if not known:
            value = arg.realize(tr)
            if isinstance(value, (IteratorValue, DictView)):
                known, obj = as_plain(tr, ListValue(drain(tr, value)))
        if not known:
            name = getattr(fn, "__qualname__", str(fn))
            tr.graph_break("call", f"{name}() is called with {arg.realize(tr).describe()}")
        plain.append(obj)
    named = {}
    for name, arg in kwargs.items():
        known, obj = as_plain(tr, arg)
        if not known:
            tr.graph_break("call", f"{getattr(fn, '__name__', fn)}() is called with {arg.realize(tr).describe()}")
        named[name] = obj
    try:
        result = fn(*plain, **named)
    except Exception as error:
        tr.throw(type(error), *error.args)
    return tr.from_plain(result)


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
    tr.throw(
        TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union"
    )
    raise AssertionError


def _is_instance(tr: Any, value: Value, cls: type) -> bool:
    value = value.realize(tr)
    own = value.python_type()
    if isinstance(value, TensorValue):
        sample = value.example if value.example is not None else value.fake
        meta_check = type(cls).__instancecheck__
        if meta_check is not type.__instancecheck__ and value.example is None:
            # torch's own tensor classes answer from the tensor; a fresh tensor is a plain one.
            return cls.__module__.startswith("torch") and isinstance(sample, cls) and cls.__name__ != "Parameter"
        return isinstance(sample, cls) if value.example is not None else issubclass(own, cls)
    check = getattr(type(cls), "__instancecheck__", None)
    if isinstance(check, types.FunctionType) and own is not cls and not _is_abc(cls):
        if isinstance(value, (ConstantValue, SequenceValue, DictValue, SetValue)):
            return issubclass(own, cls)
        if _is_torch_meta(cls):
            return issubclass(own, cls)
        real = getattr(value, "obj", None)
        if real is not None and type(cls).__module__ in ("typing", "enum", "torch.nn.parameter"):
            return isinstance(real, cls)
        tr.graph_break("call", f"isinstance() of a class with its own __instancecheck__ ({cls.__qualname__})")
    return issubclass(own, cls)


def _is_abc(cls: type) -> bool:
    return type(cls).__module__ == "abc" or type(cls).__name__ in ("ABCMeta", "_ProtocolMeta", "EnumType")


def _is_torch_meta(cls: type) -> bool:
    return type(cls).__module__.startswith("torch.")


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
    return any(issubclass(cls.fn, other) for other in _classes(tr, classes))


@rule(type)
@positional(1)
def _type(tr: Any, value: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, ClassValue):
        return tr.constant_object(type(value.fn))
    return tr.constant_object(value.python_type())


@rule(callable)
@positional(1)
def _callable(tr: Any, value: Value) -> bool:
    value = value.realize(tr)
    if isinstance(value, ObjectValue):
        return tr.class_attr(value.cls, "__call__") is not MISSING
    return any("__call__" in base.__dict__ for base in value.python_type().__mro__)


@rule(super)
def _super(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2:
        cls = args[0].realize(tr)
        if isinstance(cls, ClassValue):
            return SuperValue(cls.fn, args[1])
    if args:
        tr.graph_break("call", "super() with one argument")
    frame = tr.frame
    name = frame.code.co_varnames[0]
    owner = frame.locals.get(name)
    if owner is None:
        owner = frame.cells[name].contents
    cls = frame.cells["__class__"].contents.realize(tr)
    return SuperValue(cls.fn, owner)


# -- attributes --------------------------------------------------------------------------------------------


def _name(tr: Any, value: Value) -> str:
    known, name = to_constant(tr, value)
    if not known or type(name) is not str:
        tr.graph_break("attribute", "an attribute whose name is not a constant string")
    return name


@rule(getattr)
@positional(2, 3)
def _getattr(tr: Any, owner: Value, name: Value, *default: Value) -> Value:
    owner = owner.realize(tr)
    if not default:
        return owner.get_attr(tr, _name(tr, name))
    try:
        return owner.get_attr(tr, _name(tr, name))
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), AttributeError):
            return default[0]
        raise


@rule(hasattr)
@positional(2)
def _hasattr(tr: Any, owner: Value, name: Value) -> bool:
    try:
        found = owner.realize(tr).get_attr(tr, _name(tr, name))
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), AttributeError):
            return False
        raise
    found.realize(tr)  # its presence is what was asked for
    return True


@rule(setattr)
@positional(3)
def _setattr(tr: Any, owner: Value, name: Value, value: Value) -> None:
    owner.realize(tr).set_attr(tr, _name(tr, name), value)


@rule(delattr)
@positional(2)
def _delattr(tr: Any, owner: Value, name: Value) -> None:
    owner.realize(tr).del_attr(tr, _name(tr, name))


# -- containers and iteration --------------------------------------------------------------------------------


@rule(len)
@positional(1)
def _len(tr: Any, value: Value) -> int:
    return value.realize(tr).length(tr)


@rule(iter)
@positional(1)
def _iter(tr: Any, value: Value) -> Value:
    return tr.iterate(value)


@rule(next)
@positional(1, 2)
def _next(tr: Any, iterator: Value, *default: Value) -> Value:
    iterator = iterator.realize(tr)
    item = iterator.next(tr)
    if item is not None:
        return item
    if default:
        return default[0]
    if isinstance(iterator, GeneratorValue):
        result = iterator.frame.result
        plain = isinstance(result, ConstantValue) and result.value is None
        raise ObservedException(
            ExceptionValue(StopIteration, [] if result is None or plain else [result])
        )
    tr.throw(StopIteration)
    raise AssertionError


def _iterator_rule(maker: Rule) -> Rule:
    return lambda tr, args, kwargs: tr.note_birth(maker(tr, args, kwargs))


for _target, _maker in MAKERS.items():
    RULES[id(_target)] = _iterator_rule(_maker)


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
    return ListValue(drain(tr, tr.iterate(iterable[0])) if iterable else [])


@rule(tuple)
@positional(0, 1)
def _tuple(tr: Any, *iterable: Value) -> Value:
    if iterable:
        value = iterable[0].realize(tr)
        if isinstance(value, TupleValue) and value.cls is tuple:
            return value
        return TupleValue(drain(tr, tr.iterate(value)))
    return TupleValue([])


@rule(set, frozenset)
def _never(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    raise AssertionError


def _set_rule(cls: type) -> Rule:
    @positional(0, 1)
    def make(tr: Any, *iterable: Value) -> Value:
        items = drain(tr, tr.iterate(iterable[0])) if iterable else []
        return SetValue({hash_key(tr, item): item for item in items}, cls=cls)

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
        return ListedIterator(drain(tr, value)[::-1], reversed)
    if isinstance(value, ConstantValue):
        return ConstantIterator(tuple(reversed(value.value)))
    if isinstance(value, ObjectValue):
        method = value.special(tr, "__reversed__")
        if method is not None:
            return tr.call(method, [], {})
        if value.base is not None:
            return _reversed_value(tr, value.base)
        count = value.length(tr)
        items = [value.get_item(tr, ConstantValue(index)) for index in range(count - 1, -1, -1)]
        return ListedIterator(items, reversed)
    return value.call_method(tr, "__reversed__", [], {})


def _reversed_value(tr: Any, value: Value) -> Value:
    if isinstance(value, SequenceValue):
        return ListedIterator(drain(tr, value)[::-1], reversed)
    return value.call_method(tr, "__reversed__", [], {})


@rule(sorted)
def _sorted(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize(tr)
    if isinstance(value, SetValue):
        # The order of a set does not matter to what sorting gives, unless keys are equal.
        if "key" not in kwargs:
            value = ListValue(list(value.elements.values()))
    return ListValue(sort_values(tr, ListValue(drain(tr, tr.iterate(value))), kwargs))


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
    iterator = tr.iterate(args[0])
    while (item := iterator.next(tr)) is not None:
        total = operators.binary(tr, "+", total, item)
    return total


def _extreme(op: str) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        key = kwargs.get("key")
        if key is not None:
            plain = key.realize(tr)
            key = None if isinstance(plain, ConstantValue) and plain.value is None else plain
        items = list(args) if len(args) > 1 else drain(tr, tr.iterate(args[0]))
        if not items:
            if "default" in kwargs:
                return kwargs["default"]
            name = "max" if op == ">" else "min"
            tr.throw(ValueError, f"{name}() arg is an empty sequence")
        best = items[0]
        best_key = tr.call(key, [best], {}) if key is not None else best
        for item in items[1:]:
            item_key = tr.call(key, [item], {}) if key is not None else item
            if tr.truth(operators.compare(tr, op, item_key, best_key)):
                best, best_key = item, item_key
        return best

    return apply


RULES[id(max)] = _extreme(">")
RULES[id(min)] = _extreme("<")


@rule(range)
def _range(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    return fold(tr, range, args, kwargs)


@rule(slice)
def _slice(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    parts: list[Value] = list(args)
    if len(parts) == 1:
        parts.insert(0, ConstantValue(None))
    if len(parts) == 2:
        parts.append(ConstantValue(None))
    value = SliceValue(parts)
    known, obj = to_constant(tr, value)
    return ConstantValue(obj) if known else value


# -- numbers and strings ---------------------------------------------------------------------------------------


def _number(cls: type, special: str) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) == 1:
            value = args[0].realize(tr)
            if isinstance(value, TensorValue):
                tr.graph_break(
                    "data_dependent",
                    f"{cls.__name__}() of a tensor needs its value",
                    "keep the value a tensor, or read it outside the compiled function",
                )
            if isinstance(value, ObjectValue) and value.obj.__class__.__module__ != "enum":
                method = value.special(tr, special)
                if method is not None:
                    return tr.call(method, [], {})
        return fold_plain(tr, cls, args, kwargs)

    return apply


RULES[id(int)] = _number(int, "__int__")
RULES[id(float)] = _number(float, "__float__")
RULES[id(complex)] = _number(complex, "__complex__")


@rule(bool)
@positional(0, 1)
def _bool(tr: Any, *value: Value) -> bool:
    return tr.truth(value[0]) if value else False


#: Exceptions of C code whose texts follow from their arguments alone.
_PLAIN_EXCEPTIONS = frozenset(
    cls
    for cls in vars(builtins).values()
    if isinstance(cls, type)
    and issubclass(cls, BaseException)
    and not issubclass(cls, (OSError, SyntaxError, UnicodeError, ImportError, BaseExceptionGroup))
)


def _exception_text(tr: Any, name: str, value: ExceptionValue) -> Value:
    """`str`, `repr` and `format` of an exception (CPython: BaseException_str, BaseException_repr)."""
    if name == "__format__":
        name = "__str__"
    method = value.special(tr, name)
    if method is not None:
        return tr.call(method, [], {})
    raw = tr.class_attr(value.cls, name)
    is_plain = getattr(raw, "__objclass__", None) in _PLAIN_EXCEPTIONS
    shown = TupleValue(list(value.args))
    if is_plain and name == "__repr__":
        args = RULES[id(repr)](tr, [value.args[0] if len(value.args) == 1 else shown], {})
        words = fold(tr, lambda text: f"({text})" if len(value.args) == 1 else text, [args], {})
        return fold(tr, lambda text: value.cls.__name__ + text, [words], {})
    if is_plain:
        if not value.args:
            return ConstantValue("")
        if len(value.args) > 1:
            return RULES[id(str)](tr, [shown], {})
        return RULES[id(repr if raw.__objclass__ is KeyError else str)](tr, [value.args[0]], {})
    tr.graph_break("call", f"{name}() of {value.describe()}")
    raise AssertionError


def _text(name: str, fn: Any) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if args:
            value = args[0].realize(tr)
            if isinstance(value, TensorValue):
                tr.graph_break("data_dependent", f"{fn.__name__}() of a tensor shows its values")
            if isinstance(value, ObjectValue) and not isinstance(value, ExceptionValue):
                for special in (name, "__repr__") if name == "__str__" else (name,):
                    method = value.special(tr, special)
                    if method is not None:
                        return tr.call(method, list(args[1:]), {})
                if name == "__format__" and value.has_c_special(tr, "__format__"):
                    known, spec = to_constant(tr, args[1]) if len(args) > 1 else (True, "")
                    if known and spec == "":
                        return RULES[id(str)](tr, [value], {})
                tr.graph_break("call", f"{fn.__name__}() of {value.describe()}")
            if isinstance(value, ExceptionValue):
                return _exception_text(tr, name, value)
        return fold_plain(tr, fn, args, kwargs)

    return apply


RULES[id(str)] = _text("__str__", str)
RULES[id(repr)] = _text("__repr__", repr)
RULES[id(format)] = _text("__format__", format)

for _fn in (
    *(abs, divmod, round, chr, ord, hex, bin, oct, ascii, bytes),
    *(getattr(math, _name_) for _name_ in dir(math) if callable(getattr(math, _name_)) and _name_[0] != "_"),
):
    RULES[id(_fn)] = functools.partial(lambda fn, tr, args, kwargs: fold_plain(tr, fn, args, kwargs), _fn)


@rule(abs)
@positional(1)
def _abs(tr: Any, value: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, TensorValue):
        return tr.graph_call("abs", [value], {}, method=True)
    if isinstance(value, ObjectValue):
        method = value.special(tr, "__abs__")
        if method is not None:
            return tr.call(method, [], {})
    return fold(tr, abs, [value], {})


def _or_special(fn: Any, special: str) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        value = args[0].realize(tr) if args else None
        if isinstance(value, ObjectValue):
            method = value.special(tr, special)
            if method is not None:
                return tr.call(method, args[1:], kwargs)
        return fold_plain(tr, fn, args, kwargs)

    return apply


_SPECIALS = ((round, "__round__"), (math.floor, "__floor__"), (math.ceil, "__ceil__"), (math.trunc, "__trunc__"))
for _fn, _special in _SPECIALS:
    RULES[id(_fn)] = _or_special(_fn, _special)


@rule(pow)
def _pow(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2 and not kwargs:
        return operators.binary(tr, "**", args[0], args[1])
    return fold(tr, pow, args, kwargs)


@rule(hash)
@positional(1)
def _hash(tr: Any, value: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, ObjectValue):
        method = value.special(tr, "__hash__")
        if method is not None:
            return tr.call(method, [], {})
        if isinstance(value.base, TupleValue):
            return fold(tr, hash, [value.base], {})
    return fold(tr, hash, [value], {})


# -- operator, functools -----------------------------------------------------------------------------------


def _operator_rule(apply: Callable[..., Any], count: int) -> Rule:
    @positional(count)
    def run(tr: Any, *args: Value) -> Value:
        return apply(tr, *args)

    return run


for _symbol, (_fn, _, _) in operators.BINARY.items():
    RULES[id(_fn)] = _operator_rule(functools.partial(lambda op, tr, a, b: operators.binary(tr, op, a, b), _symbol), 2)
for _symbol, (_fn, _) in operators.INPLACE.items():
    RULES[id(_fn)] = _operator_rule(functools.partial(lambda op, tr, a, b: operators.binary(tr, op, a, b), _symbol), 2)
for _symbol, (_fn, _, _) in operators.COMPARE.items():
    RULES[id(_fn)] = _operator_rule(functools.partial(lambda op, tr, a, b: operators.compare(tr, op, a, b), _symbol), 2)
for _symbol, (_fn, _) in operators.UNARY.items():
    RULES[id(_fn)] = _operator_rule(functools.partial(lambda op, tr, a: operators.unary(tr, op, a), _symbol), 1)
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
RULES[id(operator.index)] = _operator_rule(lambda tr, a: fold(tr, operator.index, [a], {}), 1)
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
    fn = args[0].realize(tr)
    positional_args, named = list(args[1:]), dict(kwargs)
    if isinstance(fn, ObjectValue) and fn.cls is functools.partial:
        inner_args, inner_kwargs = _partial_parts(tr, fn)
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


def _partial_parts(tr: Any, value: ObjectValue) -> tuple[list[Value], dict[str, Value]]:
    args, keywords = value.attrs["args"], value.attrs["keywords"]
    assert args is not None and keywords is not None
    mapping = keywords.realize(tr)
    assert isinstance(mapping, DictValue)
    mapping.guard_keys(tr)
    return drain(tr, args), {str(key): item for key, (_, item) in mapping.items.items()}


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


# -- calls of objects and C methods ---------------------------------------------------------------------------


def see_through(tr: Any, obj: Any, source: Source) -> Value | None:
    """`compile` inside `compile` is inlined under the outer handle."""
    if isinstance(obj, _C.CompiledCallable):
        tr.guard(source, Check.IDENTITY, obj)
        wrapped = obj.fn
        return tr.wrap(wrapped, tr.absolute(wrapped, source))
    if isinstance(obj, _C.DisabledCallable):
        tr.guard(source, Check.IDENTITY, obj)
        return CallableValue(obj, tr.absolute(obj, source))
    return None


def call_object(tr: Any, value: ObjectValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call an object whose class has no `__call__` in Python."""
    if value.cls is functools.partial:
        first, named = _partial_parts(tr, value)
        fn = value.attrs["func"]
        assert fn is not None
        return tr.call(fn, [*first, *args], {**named, **kwargs})
    if isinstance(value.obj, functools._lru_cache_wrapper):
        wrapped = value.obj.__wrapped__
        assert value.source is not None
        return tr.call(tr.wrap(wrapped, value.source.attr("__wrapped__")), args, kwargs)
    if isinstance(value.obj, (operator.itemgetter, operator.attrgetter)):
        keys = value.obj.__reduce__()[1]
        assert value.source is not None
        tr.guard(value.source, Check.IDENTITY, value.obj)
        return _getter(tr, isinstance(value.obj, operator.itemgetter), keys, args[0])
    if isinstance(value.obj, weakref.ReferenceType) and value.cls is weakref.ReferenceType:
        assert value.source is not None
        tr.guard(value.source, Check.IDENTITY, value.obj)
        referent = value.obj()
        if referent is None:
            return ConstantValue(None)
        return tr.wrap(referent, tr.absolute(referent, None))
    if tr.class_attr(value.cls, "__call__") is MISSING:
        tr.throw(TypeError, f"'{value.cls.__name__}' object is not callable")
    tr.graph_break("call", f"{value.describe()} is called: its __call__ is C code")
    raise AssertionError


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


def call_c_method(tr: Any, owner: Value, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """A method that the class of `owner` inherits from C code."""
    none = ConstantValue(None)
    owner = owner.realize(tr)
    if isinstance(owner, ExceptionValue):
        if name == "__init__":
            owner.args = list(args)
            return none
    if isinstance(owner, ObjectValue):
        if name == "__setattr__" and len(args) == 2:
            owner.generic_set_attr(tr, _name(tr, args[0]), args[1])
            return none
        if name == "__delattr__" and len(args) == 1:
            owner.generic_del_attr(tr, _name(tr, args[0]))
            return none
        if name == "__getattribute__" and len(args) == 1:
            attribute = _name(tr, args[0])
            if attribute == "__dict__":
                return InstanceDictValue(owner)
            if attribute == "__class__":
                return tr.class_value(owner.cls, owner)
            found = owner.find_attr(tr, attribute)
            if found is None:
                tr.throw(AttributeError, f"'{owner.cls.__name__}' object has no attribute '{attribute}'")
            return found  # type: ignore[return-value]
        if isinstance(owner.obj, enum.Enum) and isinstance(owner.obj, (str, int, float)):
            # A member of an enum of strings or numbers is a constant.
            return fold_plain(tr, getattr(owner.obj, name), args, kwargs)
        if owner.base is not None and name in getattr(owner.base, "methods", {}):
            return owner.base.call_method(tr, name, args, kwargs)
        if owner.base is None:
            if name == "__init__" and not args and not kwargs:
                return none
            if name in ("__eq__", "__ne__") and len(args) == 1:
                same = operators.is_same(tr, owner, args[0])
                if same:
                    return ConstantValue(name == "__eq__")
                return ConstantValue(NotImplemented)
            if name == "__call__":
                return call_object(tr, owner, args, kwargs)
    elif isinstance(owner, ClassValue):
        if name == "__call__":  # type.__call__
            return make_instance(tr, owner, args, kwargs)
        if name in ("__setattr__", "__init_subclass__"):
            return none if name == "__init_subclass__" else tr.graph_break("side_effect", "a class attribute is set")
        return owner.call_method(tr, name, args, kwargs)
    elif not isinstance(owner, (FunctionValue, NestedFunctionValue, BoundMethodValue)):
        return owner.call_method(tr, name, args, kwargs)
    tr.graph_break("call", f"{name}() of {owner.describe()} is C code that is not modelled")
    raise AssertionError


_PURE_OWNERS = frozenset(CONSTANT_TYPES) | {int, float, bool, str, bytes, complex, range, tuple, frozenset}


def call_constant_method(
    tr: Any, value: MethodOfConstant, args: Sequence[Value], kwargs: dict[str, Value]
) -> Value:
    """Methods of immutable builtin objects are pure."""
    if type(value.owner.value).__module__ not in ("builtins", "torch"):
        tr.graph_break("call", f"method '{value.name}' of {value.owner.describe()}")
    if value.name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__") and len(args) == 1:
        known, _ = to_constant(tr, args[0])
        if not known:
            return ConstantValue(NotImplemented)
    if value.name == "format" and isinstance(value.owner.value, str):
        args = [_formattable(tr, arg) for arg in args]
        kwargs = {name: _formattable(tr, arg) for name, arg in kwargs.items()}
    return fold_plain(tr, value.fn, args, kwargs)


def _formattable(tr: Any, value: Value) -> Value:
    known, _ = as_plain(tr, value)
    return value if known else RULES[id(str)](tr, [value], {})


def getset_value(tr: Any, owner: Value, raw: Any, name: str) -> Value | None:
    """Attributes served by getset descriptors that are known to be plain reads."""
    if name == "__dict__" and isinstance(owner, ObjectValue):
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
    if getattr(getattr(modules[name], "__spec__", None), "_initializing", False):
        tr.graph_break("call", f"module {name} is being imported")
    for attribute in names or ():
        if attribute != "*" and not hasattr(modules[name], attribute):
            tr.graph_break("call", f"{name}.{attribute} is imported for the first time")
    place = tr.absolute(sys, None).attr("modules")
    tr.guard(place, Check.IDENTITY, modules)
    return tr.wrap(modules[target], place.item(target))


__all__ = ["RULES", "BuiltinMethod"]
