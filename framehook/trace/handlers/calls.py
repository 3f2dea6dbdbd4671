"""Calls and the making of functions."""

from __future__ import annotations

from typing import Any

from framehook.trace.calls import await_call
from framehook.trace.handlers.containers import check_mapping, spread
from framehook.values.base import NULL
from framehook.values.functions import NestedFunctionValue
from framehook.values.mappings import DictValue
from framehook.values.sequences import drain


def _call(tr: Any, frame: Any, inst: Any) -> None:
    args = frame.pop_many(inst.arg)
    second, first = frame.pop(), frame.pop()
    if first is NULL:
        fn = second
    elif second is NULL:
        fn = first
    else:
        fn = first
        args.insert(0, second)
    kwargs = {}
    if inst.kwnames:
        count = len(inst.kwnames)
        kwargs = dict(zip(inst.kwnames, args[-count:], strict=True))
        del args[-count:]
    await_call(tr, frame, fn)
    frame.push(tr.call(fn, args, kwargs))


def _call_function_ex(tr: Any, frame: Any, inst: Any) -> None:
    kwargs = {}
    if inst.arg & 1:
        mapping = DictValue()
        given = frame.pop()
        check_mapping(tr, given)
        mapping.update_from(tr, given)
        for key, (_, value) in mapping.items.items():
            if type(key) is not str:
                tr.graph_break("exception", "keywords must be strings")
            kwargs[key] = value
    args = spread(tr, frame.pop())
    second, first = frame.pop(), frame.pop()
    fn = second if first is NULL else first
    if first is not NULL and second is not NULL:
        args.insert(0, second)
    await_call(tr, frame, fn)
    frame.push(tr.call(fn, args, kwargs))


def _make_function(tr: Any, frame: Any, inst: Any) -> None:
    code = frame.pop().fn
    closure = frame.pop() if inst.arg & 8 else None
    annotations = frame.pop() if inst.arg & 4 else None
    kwdefaults = frame.pop() if inst.arg & 2 else None
    defaults = frame.pop() if inst.arg & 1 else None
    function = NestedFunctionValue(code, frame.globals, defaults, kwdefaults, closure)
    if annotations is not None:
        _annotate(tr, function, annotations)
    frame.push(function)


def _annotate(tr: Any, function: NestedFunctionValue, annotations: Any) -> None:
    """A function takes its annotations as a tuple of names and values, or as a dict."""
    value = annotations.realize(tr)
    if value.python_type() is tuple:
        flat = drain(tr, value)
        value = DictValue()
        for name, item in zip(flat[::2], flat[1::2], strict=True):
            value.set_item(tr, name, item)
    function.attrs["__annotations__"] = value


def _set_function_attribute(tr: Any, frame: Any, inst: Any) -> None:
    function, value = frame.pop(), frame.pop()
    if inst.arg == 1:
        function.defaults = value
    elif inst.arg == 2:
        function.kwdefaults = value
    elif inst.arg == 4:
        _annotate(tr, function, value)
    else:
        function.closure = value
    frame.push(function)


def _load_assertion_error(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(tr.constant_object(AssertionError))


HANDLERS = {
    "CALL": _call,
    "CALL_FUNCTION_EX": _call_function_ex,
    "MAKE_FUNCTION": _make_function,
    "SET_FUNCTION_ATTRIBUTE": _set_function_attribute,
    "LOAD_ASSERTION_ERROR": _load_assertion_error,
}
