"""The table of rules: what a callable does with symbolic values, by the callable itself."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from framehook.values.base import ConstantValue, Value, call_now
from framehook.values.mappings import DictView
from framehook.values.plain import as_plain
from framehook.values.sequences import (
    IteratorValue,
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


#: Rules of functions in modules that are imported late, by module and name.
_LATE: dict[tuple[str, str], Rule] = {}


def late_rule(module: str, name: str) -> Callable[[Rule], Rule]:
    """Register a rule for a function that need not be there yet."""

    def register(fn: Rule) -> Rule:
        _LATE[module, name] = fn
        return fn

    return register


def rule_of(fn: types.FunctionType) -> Rule | None:
    """The rule of a function."""
    found = RULES.get(id(fn))
    if found is None and (late := _LATE.get((fn.__module__, fn.__qualname__))) is not None:
        module = sys.modules.get(fn.__module__)
        if getattr(module, fn.__name__, None) is fn:
            found = RULES[id(fn)] = late
            _RULED.append(fn)
    return found


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
    """Call a pure function now; lists and dicts of constants, and iterators over them, may be among its arguments."""
    return call_now(tr, fn, args, kwargs, _as_plain_or_drained)


def _as_plain_or_drained(tr: Any, arg: Value) -> tuple[bool, Any]:
    known, obj = as_plain(tr, arg)
    if not known:
        value = arg.realize(tr)
        if isinstance(value, (IteratorValue, DictView)):
            return as_plain(tr, ListValue(drain(tr, value)))
    return known, obj
