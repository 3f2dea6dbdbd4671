"""What the builtin functions on numbers and strings do with symbolic values."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

from framehook.trace import operators
from framehook.trace.rules import RULES, Rule, fold_plain, positional, rule
from framehook.trace.shown import as_shown, is_shown_by_parts
from framehook.values.base import (
    ConstantValue,
    Value,
    call_now,
    fold,
    to_constant,
)
from framehook.values.exceptions import ExceptionValue
from framehook.values.mappings import DictView, hash_key
from framehook.values.numbers import PURE_FUNCTIONS, defer_call
from framehook.values.objects import ObjectValue
from framehook.values.real_classes import derives
from framehook.values.sequences import BuiltinContainer, IteratorValue, TupleValue, as_index, drain
from framehook.values.sets import has_known_hash
from framehook.values.tensor import TensorValue
from framehook.values.wording import type_name


def returned(tr: Any, result: Value, special: str, *classes: type) -> Value:
    """What a special method has returned, if it is of a class that the interpreter takes from it without a word."""
    result = result.realize(tr)
    if result.python_type() not in classes:
        tr.graph_break("exception", f"{special}() returns {result.describe()}")
    return result


def _number(cls: type, special: str) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) == 1:
            if cls is float and not kwargs and tr.is_changing(args[0]):
                if args[0].python_type() is float:
                    return args[0]
                deferred = defer_call(tr, float, args)
                if deferred is not None:
                    return deferred
            value = args[0].realize(tr)
            if isinstance(value, TensorValue):
                tr.graph_break(
                    "data_dependent",
                    f"{cls.__name__}() of a tensor needs its value",
                    "keep the value a tensor, or read it outside the compiled function",
                )
            if isinstance(value, ObjectValue) and type(value.obj).__module__ != "enum":
                method = value.special(tr, special)
                if method is not None:
                    return returned(tr, tr.call(method, [], {}), special, cls)
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
        return returned(tr, tr.call(method, [], {}), name, str)
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


def _object_text(tr: Any, name: str, fn: Any, value: ObjectValue, args: Sequence[Value]) -> Value:
    """`str`, `repr` and `format` of an object of a Python class."""
    raw = tr.class_attr(value.cls, name)
    if name == "__str__" and raw is object.__str__:
        name = "__repr__"
        raw = tr.class_attr(value.cls, name)
    method = value.special(tr, name)
    if method is not None:
        return returned(tr, tr.call(method, list(args[1:]), {}), name, str)
    if name == "__format__" and raw is object.__format__:
        known, spec = to_constant(tr, args[1]) if len(args) > 1 else (True, "")
        if known and spec == "":
            return RULES[id(str)](tr, [value], {})
        tr.throw(TypeError, f"unsupported format string passed to {type_name(value.cls)}.__format__")
    if raw is tuple.__repr__ and isinstance(value.base, TupleValue):
        return RULES[id(repr)](tr, [value.base], {})
    if isinstance(value.base, ConstantValue) and raw is getattr(value.base.python_type(), name):
        if name == "__format__":
            known, spec = to_constant(tr, args[1]) if len(args) > 1 else (True, "")
            if not known:
                tr.graph_break("call", f"format() of {value.describe()} in a form that is not constant")
            if spec == "":
                # Numbers and strings of a subclass are asked for their text then.
                return RULES[id(str)](tr, [value], {})
        return fold(tr, fn, [value.base, *args[1:]], {})
    known, obj = to_constant(tr, value)
    if known:
        # A member of an enum of strings or numbers shows itself as one of these.
        return fold_plain(tr, getattr(obj, name), args[1:], {})
    tr.graph_break("call", f"{fn.__name__}() of {value.describe()}")
    raise AssertionError


def _text(name: str, fn: Any) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if args:
            value = args[0].realize(tr)
            if isinstance(value, TensorValue):
                tr.graph_break("data_dependent", f"{fn.__name__}() of a tensor shows its values")
            if isinstance(value, ObjectValue) and not isinstance(value, ExceptionValue):
                return _object_text(tr, name, fn, value, args)
            if isinstance(value, ExceptionValue):
                return _exception_text(tr, name, value)
            if is_shown_by_parts(value) and not kwargs:
                return call_now(tr, fn, args, kwargs, lambda tr, arg: (True, as_shown(tr, arg)))
            if isinstance(value, (IteratorValue, DictView)):
                tr.graph_break("call", f"{fn.__name__}() of {value.describe()}")
        return fold_plain(tr, fn, args, kwargs)

    return apply


RULES[id(str)] = _text("__str__", str)
RULES[id(repr)] = _text("__repr__", repr)
RULES[id(format)] = _text("__format__", format)


@rule(ascii)
@positional(1)
def _ascii(tr: Any, value: Value) -> Value:
    return fold(
        tr,
        lambda text: text.encode("ascii", "backslashreplace").decode(),
        [RULES[id(repr)](tr, [value], {})],
        {},
    )


def _pure(tr: Any, fn: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """A function of numbers; of numbers that change it is computed later, where that is known to be the same."""
    deferred = defer_call(tr, fn, args) if fn in PURE_FUNCTIONS and not kwargs else None
    return fold_plain(tr, fn, args, kwargs) if deferred is None else deferred


for _fn in (
    *(abs, divmod, round, chr, ord, hex, bin, oct, bytes),
    *(getattr(math, _name_) for _name_ in dir(math) if callable(getattr(math, _name_)) and _name_[0] != "_"),
):
    RULES[id(_fn)] = functools.partial(lambda fn, tr, args, kwargs: _pure(tr, fn, args, kwargs), _fn)


@rule(abs)
@positional(1)
def _abs(tr: Any, value: Value) -> Value:
    deferred = defer_call(tr, abs, [value])
    if deferred is not None:
        return deferred
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


def _by_index(fn: Any) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        value = args[0].realize(tr) if len(args) == 1 and not kwargs else None
        if isinstance(value, ObjectValue):
            if derives(value.cls, int):
                return fold(tr, fn, [ConstantValue(as_index(tr, value))], {})
            method = value.special(tr, "__index__")
            if method is not None:
                return fold(tr, fn, [tr.call(method, [], {})], {})
        return fold_plain(tr, fn, args, kwargs)

    return apply


for _fn in (hex, oct, bin, chr, operator.index):
    RULES[id(_fn)] = _by_index(_fn)
_SPECIALS = (
    (round, "__round__"),
    (math.floor, "__floor__"),
    (math.ceil, "__ceil__"),
    (math.trunc, "__trunc__"),
)
for _fn, _special in _SPECIALS:
    RULES[id(_fn)] = _or_special(_fn, _special)


@rule(divmod)
@positional(2)
def _divmod(tr: Any, left: Value, right: Value) -> Value:
    left, right = left.realize(tr), right.realize(tr)
    for value, other, name in ((left, right, "__divmod__"), (right, left, "__rdivmod__")):
        if isinstance(value, ObjectValue) and left.python_type() is not right.python_type():
            method = value.special(tr, name)
            if method is not None and not isinstance(other, ObjectValue):
                result = tr.call(method, [other], {}).realize(tr)
                if not (isinstance(result, ConstantValue) and result.value is NotImplemented):
                    return result
    return fold(tr, divmod, [left, right], {})


@rule(pow)
def _pow(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2 and not kwargs:
        return operators.binary(tr, "**", args[0], args[1])
    base = args[0].realize(tr) if len(args) == 3 and not kwargs else None
    if isinstance(base, ObjectValue):
        method = base.special(tr, "__pow__")
        if method is not None:
            result = tr.call(method, args[1:], {}).realize(tr)
            if not (isinstance(result, ConstantValue) and result.value is NotImplemented):
                return result
    return fold(tr, pow, args, kwargs)


@rule(hash)
@positional(1)
def _hash(tr: Any, value: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, BuiltinContainer) and not to_constant(tr, value)[0]:
        key = hash_key(tr, value)  # raises what hash() raises
        if has_known_hash(key):
            return ConstantValue(hash(key))
    if isinstance(value, ObjectValue):
        if tr.class_attr(value.cls, "__hash__") is None:
            tr.throw(TypeError, f"unhashable type: '{type_name(value.cls)}'")
        method = value.special(tr, "__hash__")
        if method is not None:
            number = returned(tr, tr.call(method, [], {}), "__hash__", int, bool)
            known, plain = to_constant(tr, number)
            if not known:
                tr.graph_break("call", f"hash() of {value.describe()} is not constant")
            if not -sys.maxsize <= plain <= sys.maxsize:
                plain = hash(plain)
            return ConstantValue(-2 if plain == -1 else int(plain))
        if isinstance(value.base, TupleValue):
            return fold(tr, hash, [value.base], {})
    return fold(tr, hash, [value], {})


def _extreme(op: str) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if set(kwargs) - {"key", "default"} or (len(args) > 1 and "default" in kwargs):
            tr.graph_break("exception", "max() or min() is called with other arguments")
        if not args:
            return fold(tr, max if op == ">" else min, [], {})
        if len(args) > 1 and not kwargs:
            deferred = defer_call(tr, max if op == ">" else min, args)
            if deferred is not None:
                return deferred
        key = kwargs.get("key")
        if key is not None:
            plain = key.realize(tr)
            key = None if isinstance(plain, ConstantValue) and plain.value is None else plain
        items = list(args) if len(args) > 1 else drain(tr, tr.iterate(args[0]))
        if not items:
            if "default" in kwargs:
                return kwargs["default"]
            return fold(tr, max if op == ">" else min, [ConstantValue(())], {})
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
