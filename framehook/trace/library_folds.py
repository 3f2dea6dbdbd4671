"""Functions of the standard library that are computed while tracing, where their arguments are constants."""

from __future__ import annotations

import cmath
import json
import logging
import operator
import os
import posixpath
import re
import string
import sys
import textwrap
import types
from collections.abc import Sequence
from typing import Any

from framehook.guards.guard import Check
from framehook.trace import operators
from framehook.trace.rules import Rule, fold_plain, positional, rule
from framehook.values.base import CONSTANT_TYPES, ConstantValue, Value, to_constant
from framehook.values.classes import ClassValue
from framehook.values.iterators import ListedIterator
from framehook.values.objects import ObjectValue
from framehook.values.sequences import BuiltinContainer, ListValue

# Patterns are immutable, and compiled once for the process.
CONSTANT_TYPES.update({re.Pattern, re.Match})


def _fold(fn: Any) -> Rule:
    return lambda tr, args, kwargs: fold_plain(tr, fn, args, kwargs)


_PURE: tuple[Any, ...] = (
    *(re.compile, re.match, re.search, re.fullmatch, re.split, re.findall, re.escape),
    *(json.dumps, json.loads, string.capwords, str.maketrans, bytes.maketrans, sys.intern),
    *(textwrap.dedent, textwrap.fill, textwrap.indent, textwrap.shorten, textwrap.wrap),
    *(posixpath.join, posixpath.basename, posixpath.dirname, posixpath.split, posixpath.splitext),
    *(posixpath.normpath, posixpath.isabs, posixpath.commonprefix, posixpath.commonpath),
    *(getattr(cmath, name) for name in dir(cmath) if callable(getattr(cmath, name)) and name[0] != "_"),
)
for _fn in _PURE:
    rule(_fn)(_fold(_fn))


@rule(os.fspath)
@positional(1)
def _fspath(tr: Any, path: Value) -> Value:
    value = path.realize(tr)
    if isinstance(value, ObjectValue):
        method = value.special(tr, "__fspath__")
        if method is not None:
            return tr.call(method, [], {})
    return fold_plain(tr, os.fspath, [value], {})


# -- regular expressions -----------------------------------------------------------------------------------


def _substitute(
    tr: Any, pattern: re.Pattern[Any], args: Sequence[Value], kwargs: dict[str, Value]
) -> Value | None:
    """`pattern.sub(function, text)`: the function is called in the trace; None where the replacement is a text."""
    named = dict(zip(("repl", "string", "count"), args, strict=False)) | kwargs
    replace = named.get("repl")
    if replace is None or "string" not in named or to_constant(tr, replace)[0]:
        return None
    known, text = to_constant(tr, named["string"])
    known_count, count = to_constant(tr, named.get("count", ConstantValue(0)))
    if not known or not known_count or not isinstance(text, (str, bytes)):
        tr.graph_break("call", "a pattern is replaced in what is no constant string")
    pieces, end = [], 0
    for number, found in enumerate(pattern.finditer(text)):
        if count and number >= count:
            break
        known, new = to_constant(tr, tr.call(replace, [ConstantValue(found)], {}))
        if not known or type(new) is not type(text):
            tr.graph_break("call", "a pattern is replaced by what is no constant string")
        pieces += [text[end : found.start()], new]
        end = found.end()
    return ConstantValue(type(text)().join([*pieces, text[end:]]))


@rule(re.sub)
def _re_sub(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    known, source = to_constant(tr, args[0]) if args else (False, None)
    if known and isinstance(source, (str, re.Pattern)) and not set(kwargs) - {"count"}:
        done = _substitute(tr, re.compile(source), args[1:4], kwargs)
        if done is not None:
            return done
    return fold_plain(tr, re.sub, args, kwargs)


def pattern_method(
    tr: Any, pattern: re.Pattern[Any], name: str, args: Sequence[Value], kwargs: dict[str, Value]
) -> Value | None:
    """Methods of a pattern that do more than compute; None for all others."""
    if name == "sub":
        return _substitute(tr, pattern, args, kwargs)
    if name == "finditer":
        known = [to_constant(tr, arg) for arg in args]
        if kwargs or not known or not all(each[0] for each in known):
            tr.graph_break("call", "finditer() over what is no constant string")
        found = [ConstantValue(each) for each in pattern.finditer(*(each[1] for each in known))]
        return tr.note_birth(ListedIterator(list(found), type(pattern.finditer(pattern.pattern[:0]))))
    return None


@rule(re.finditer)
@positional(2)
def _finditer(tr: Any, source: Value, text: Value) -> Value:
    known, pattern = to_constant(tr, source)
    if not known or not isinstance(pattern, (str, re.Pattern)):
        tr.graph_break("call", "finditer() of what is no constant pattern")
    made = pattern_method(tr, re.compile(pattern), "finditer", [text], {})
    assert made is not None
    return made


# -- builtins ----------------------------------------------------------------------------------------------


@rule(eval)
@positional(1)
def _eval(tr: Any, source: Value) -> Value:
    known, text = to_constant(tr, source)
    if not known or type(text) is not str:
        tr.graph_break("call", "eval() of what is no constant string")
    try:
        code = compile(text.lstrip(" \t"), "<string>", "eval")
    except SyntaxError:
        tr.graph_break("exception", "eval() of what is no expression")
    if code.co_names or any(isinstance(each, types.CodeType) for each in code.co_consts):
        tr.graph_break("call", "eval() looks at the variables of the frame")
    return fold_plain(tr, lambda: eval(code, {}), [], {})


@rule(__import__)
@positional(1)
def _import(tr: Any, name: Value) -> Value:
    known, text = to_constant(tr, name)
    if not known or type(text) is not str:
        tr.graph_break("call", "__import__() of what is no constant string")
    return tr.import_module(text, ConstantValue(None), ConstantValue(0))


@rule(dir)
@positional(1)
def _dir(tr: Any, owner: Value) -> Value:
    value = owner.realize(tr)
    if isinstance(value, ObjectValue):
        method = value.special(tr, "__dir__")
        if method is not None:
            made = ListValue(tr.drain(tr.call(method, [], {})))
            tr.call(made.get_attr(tr, "sort"), [], {})
            return made
    if isinstance(value, ConstantValue):
        return tr.from_plain(dir(value.value))
    cls = value.fn if isinstance(value, ClassValue) else value.python_type()
    if isinstance(value, (ClassValue, BuiltinContainer)) and all(
        base.__flags__ & (1 << 8) for base in cls.__mro__
    ):  # Py_TPFLAGS_IMMUTABLETYPE
        return tr.from_plain(dir(cls))
    tr.graph_break("call", f"dir() of {value.describe()}")
    raise AssertionError


# -- operator, functools -----------------------------------------------------------------------------------


@rule(operator.indexOf)
@positional(2)
def _index_of(tr: Any, iterable: Value, item: Value) -> Value:
    iterator = tr.iterate(iterable)
    position = 0
    while (element := iterator.next(tr)) is not None:
        if tr.equals(element, item):
            return ConstantValue(position)
        position += 1
    tr.throw(ValueError, "sequence.index(x): x not in sequence")
    raise AssertionError


@rule(operator.iconcat)
@positional(2)
def _iconcat(tr: Any, left: Value, right: Value) -> Value:
    return operators.binary(tr, "+=", left, right)


@rule(operator.length_hint)
@positional(1, 2)
def _length_hint(tr: Any, value: Value, *default: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, (BuiltinContainer, ConstantValue)) and hasattr(value.python_type(), "__len__"):
        return ConstantValue(value.length(tr))
    tr.graph_break("call", f"operator.length_hint() of {value.describe()}")
    raise AssertionError


# -- logging -----------------------------------------------------------------------------------------------


class IsLogged:
    """A guard on whether a logger takes messages of a level."""

    __slots__ = ("answer", "level")

    def __init__(self, level: int, answer: bool) -> None:
        self.level = level
        self.answer = answer

    def __call__(self, logger: logging.Logger) -> bool:
        return logger.isEnabledFor(self.level) is self.answer

    def __repr__(self) -> str:
        return f"{'takes' if self.answer else 'ignores'} messages of level {self.level}"


def _takes(tr: Any, logger: Value, level: Any) -> bool:
    value = logger.realize(tr)
    if (
        not isinstance(value, ObjectValue)
        or value.obj is None
        or value.source is None
        or value.changed
        or value.cls not in (logging.Logger, logging.RootLogger)
        or type(level) is not int
    ):
        tr.graph_break("side_effect", "what is logged may be seen outside")
        raise AssertionError
    real: Any = value.obj
    answer = bool(real.isEnabledFor(level))
    tr.guard(None, Check.PREDICATE, (IsLogged(level, answer), (value.source,)))
    return answer


def _log(level: int) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) < 2 or _takes(tr, args[0], level):
            tr.graph_break(
                "side_effect", "a message is logged", "log outside the compiled function, or raise the level"
            )
        return ConstantValue(None)

    return apply


for _name in ("debug", "info", "warning", "error", "critical"):
    rule(getattr(logging.Logger, _name))(_log(getattr(logging, _name.upper())))


@rule(logging.Logger.isEnabledFor)
@positional(2)
def _is_enabled_for(tr: Any, logger: Value, level: Value) -> Value:
    known, number = to_constant(tr, level)
    return ConstantValue(_takes(tr, logger, number if known else None))
