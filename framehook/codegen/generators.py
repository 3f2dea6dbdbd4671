"""Generators that have not begun: what their functions were called with, so that the call can be made again."""

from __future__ import annotations

import inspect
from typing import Any

from framehook.values.base import ConstantValue, Value
from framehook.values.functions import GeneratorValue
from framehook.values.mappings import DictValue
from framehook.values.sequences import TupleValue


def arguments_of(generator: GeneratorValue) -> tuple[TupleValue, DictValue] | None:
    """The arguments, by position and by name; None once the generator has begun or was closed."""
    if generator.started or generator.finished:
        return None
    code, bound = generator.frame.code, generator.frame.locals
    names = code.co_varnames
    count = code.co_argcount
    end = count + code.co_kwonlyargcount
    args = [bound[name] for name in names[:count]]
    named: dict[Any, tuple[Value, Value]] = {
        name: (ConstantValue(name), bound[name]) for name in names[count:end]
    }
    if code.co_flags & inspect.CO_VARARGS:
        args += bound[names[end]].items
        end += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        named.update(bound[names[end]].items)
    return TupleValue(args), DictValue(named)
