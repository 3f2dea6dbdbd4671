"""Functions that `functools` makes: those with a cache, and those that dispatch on the class of an argument."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from framehook import torch_compat
from framehook.guards.guard import Check
from framehook.trace.rules import Rule
from framehook.values.base import ConstantValue, Value, is_constant, to_constant
from framehook.values.classes import ClassValue
from framehook.values.functions import FunctionValue
from framehook.values.objects import ObjectValue
from framehook.values.sequences import TupleValue

_HINT = "call it outside of the compiled function and pass the result"


def call_cached(tr: Any, value: ObjectValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a function with a cache (`functools.lru_cache`).

    Where the arguments and the result are constants and the body changes nothing, nobody can tell whether the result
    comes out of the cache: the real function gives it now, and the body, traced, says what it depends on.  A cache that
    knows something else than the body says (what the body reads has changed since) is left to the native call.
    """
    real: Any = value.obj
    if real.__wrapped__.__module__ == "typing" and not kwargs:
        made = _typing_object(tr, real, args)
        if made is not None:
            return made
    name = f"{real.__wrapped__.__qualname__}() has a cache (functools.lru_cache)"
    plain = [to_constant(tr, arg) for arg in args]
    named = {key: to_constant(tr, arg) for key, arg in kwargs.items()}
    if not all(known for known, _ in [*plain, *named.values()]) or value.source is None:
        tr.graph_break("call", f"{name} that the call would pass by", _HINT)
    tr.guard(value.source, Check.IDENTITY, real)
    if torch_compat.is_assumed_constant(real.__wrapped__):
        return assumed_constant(tr, real, args, kwargs)
    effects = len(tr.effects)
    operations = tr.builder.count()
    wrapped = tr.wrap(real.__wrapped__, tr.absolute(real.__wrapped__, value.source))
    known, result = to_constant(tr, tr.call(wrapped, args, kwargs))
    if not known or len(tr.effects) != effects or tr.builder.count() != operations:
        tr.graph_break("call", f"{name}, and does more than compute constants", _HINT)
    kept = real(*(obj for _, obj in plain), **{key: obj for key, (_, obj) in named.items()})
    if type(kept) is not type(result) or repr(kept) != repr(result):
        tr.graph_break("call", f"{name} that holds another result than the function gives now", _HINT)
    return ConstantValue(kept)


def _typing_object(tr: Any, real: Any, args: Sequence[Value]) -> Value | None:
    """`Optional[Tensor]` and the like: the cache gives the same object again, and nobody can change it."""
    plain = [_annotation(tr, arg) for arg in args]
    if any(each is None for each in plain):
        return None
    try:
        made = real(*(obj for (obj,) in plain))  # type: ignore[misc]
    except Exception:  # a text that is no expression is a SyntaxError
        return None
    found: Value = tr.wrap(made, tr.absolute(made, None))
    return found


def _annotation(tr: Any, value: Value) -> tuple[Any] | None:
    """The part of an annotation that a value stands for, in a tuple; None if it is none."""
    value = value.realize(tr)
    if isinstance(value, TupleValue) and value.cls is tuple:
        value.guard_length(tr)
        parts = [_annotation(tr, item) for item in value.items]
        return None if None in parts else (tuple(part[0] for part in parts if part is not None),)
    if type(value) is ClassValue:
        return (value.fn,)
    if isinstance(value, ConstantValue):
        return (value.value,)
    if isinstance(value, ObjectValue) and value.cls.__module__ == "typing" and value.obj is not None:
        assert value.source is not None
        tr.guard(value.source, Check.IDENTITY, value.obj)
        return (value.obj,)
    return None


def assumed_constant(tr: Any, real: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a function now whose user vouches that its result does not change (`assume_constant_result`)."""
    plain = [to_constant(tr, arg) for arg in args]
    named = {key: to_constant(tr, arg) for key, arg in kwargs.items()}
    name = f"{real.__qualname__}(), whose result is assumed to be constant,"
    if not all(known for known, _ in [*plain, *named.values()]):
        tr.graph_break("call", f"{name} is called with what is no constant", _HINT)
    try:
        result = real(*(obj for _, obj in plain), **{key: obj for key, (_, obj) in named.items()})
    except Exception as error:
        tr.graph_break("call", f"{name} raises {type(error).__name__}", _HINT)
    if not is_constant(result):
        tr.graph_break("call", f"{name} gives an object of class {type(result).__name__}", _HINT)
    return ConstantValue(result)


# -- functools.singledispatch --------------------------------------------------------------------------------


def _inner_code(fn: Callable[..., Any], name: str) -> types.CodeType | None:
    for each in fn.__code__.co_consts:
        if isinstance(each, types.CodeType) and each.co_name == name:
            return each
    return None


_DISPATCH = _inner_code(functools.singledispatch, "dispatch")


class Dispatches:
    """A guard on what a generic function does with a class."""

    __slots__ = ("target",)

    def __init__(self, target: Any) -> None:
        self.target = target

    def __call__(self, dispatch: Callable[[type], Any], cls: type) -> bool:
        return dispatch(cls) is self.target

    def __repr__(self) -> str:
        return f"dispatches to {getattr(self.target, '__qualname__', self.target)}"


def rule_of(tr: Any, fn: FunctionValue) -> Rule | None:
    """The rule of a function that `functools` made, by its code."""
    if fn.fn.__code__ is not _DISPATCH:
        return None

    def dispatch(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        cls = args[0].realize(tr) if len(args) == 1 and not kwargs else None
        if not isinstance(cls, ClassValue):
            tr.graph_break("call", "a generic function is asked for what is no class")
            raise AssertionError
        cells = dict(zip(fn.fn.__code__.co_freevars, fn.fn.__closure__ or (), strict=True))
        if type(cells["dispatch_cache"].cell_contents) is not weakref.WeakKeyDictionary:
            tr.graph_break("call", "the cache of a generic function is one of the program's")
        try:
            target = fn.fn(cls.fn)
        except RuntimeError as error:
            tr.graph_break("exception", f"{cls.describe()} is dispatched: {error}")
        tr.guard(None, Check.PREDICATE, (Dispatches(target), (fn.source, tr.absolute(cls.fn, None))))
        found: Value = tr.wrap(target, tr.absolute(target, None))
        return found

    return dispatch
