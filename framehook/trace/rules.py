"""The table of rules: what a callable does with symbolic values, by the callable itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framehook.values.base import (
    ConstantValue,
    Value,
)
from framehook.values.iterators import IteratorValue
from framehook.values.mappings import DictView
from framehook.values.plain import as_plain
from framehook.values.sequences import (
    ListValue,
    drain,
)

Rule = Callable[[Any, Sequence[Value], dict[str, Value]], Value]

#: Rules by `id` of the callable.  All of these live as long as the process.
RULES: dict[int, Rule] = {}
#: The callables themselves, kept alive so that an id names one of them for good.
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
            tr.graph_break(
                "call", f"{getattr(fn, '__name__', fn)}() is called with {arg.realize(tr).describe()}"
            )
        named[name] = obj
    try:
        result = fn(*plain, **named)
    except (RecursionError, MemoryError) as error:
        tr.graph_break("limit", f"{type(error).__name__} while tracing")
        raise AssertionError from None
    except Exception as error:
        tr.throw(type(error), *error.args)
    return tr.from_plain(result)
