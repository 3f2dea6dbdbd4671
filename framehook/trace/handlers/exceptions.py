"""try, except, finally, with, raise."""

from __future__ import annotations

from typing import Any

from framehook.trace.calls import await_call, stopiteration_error
from framehook.trace.frame import PreviousException
from framehook.values.base import ConstantValue, ObservedException
from framehook.values.classes import ClassValue
from framehook.values.exceptions import ExceptionValue
from framehook.values.objects import ObjectValue
from framehook.values.real_classes import derives
from framehook.values.sequences import TupleValue, drain


def _push_exc_info(tr: Any, frame: Any, inst: Any) -> None:
    exception = frame.pop()
    frame.push(PreviousException(exception))
    frame.push(exception)
    frame.handling.append(exception)


def _pop_except(tr: Any, frame: Any, inst: Any) -> None:
    frame.pop().is_active = False
    frame.handling.pop()


def _matches(tr: Any, exception: Any, pattern: Any) -> bool:
    pattern = pattern.realize(tr)
    patterns: list[Any] = (
        [item.realize(tr) for item in drain(tr, pattern)] if isinstance(pattern, TupleValue) else [pattern]
    )
    # All of them are looked at first.  A metaclass is not asked, neither here nor for the match.
    for each in patterns:
        if not isinstance(each, ClassValue) or not derives(each.fn, BaseException):
            tr.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    return any(derives(exception.realize(tr).python_type(), each.fn) for each in patterns)


def _check_exc_match(tr: Any, frame: Any, inst: Any) -> None:
    pattern = frame.pop()
    frame.push(ConstantValue(_matches(tr, frame.stack[-1], pattern)))


def _reraise(tr: Any, frame: Any, inst: Any) -> None:
    exception = frame.pop().realize(tr)
    raise ObservedException(exception)


def _stopiteration_error(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(stopiteration_error(frame.pop().realize(tr)))


def _raise_varargs(tr: Any, frame: Any, inst: Any) -> None:
    if inst.arg == 0:
        current = tr.current_exception()
        if current is None:
            # A caller may be handling one.
            tr.graph_break("exception", "raise without an exception that the frame handles")
        raise ObservedException(current)
    cause = frame.pop().realize(tr) if inst.arg == 2 else None
    exception = tr.as_exception(frame.pop())
    cls = exception.python_type()
    check: Any = type(cls).__subclasscheck__
    if check is not type.__subclasscheck__:
        tr.graph_break("exception", f"raising {cls.__qualname__} asks its metaclass what it derives from")
    if cause is not None:
        is_none = isinstance(cause, ConstantValue) and cause.value is None
        given = cause.fn if isinstance(cause, ClassValue) else cause.python_type()
        if not is_none and not issubclass(given, BaseException):
            tr.graph_break("exception", f"{cause.describe()} is the cause of an exception")
        value = cause if is_none else tr.as_exception(cause)
        if not isinstance(exception, ExceptionValue):
            tr.graph_break("exception", "an exception from outside is raised with a cause")
        exception.cause = value
        exception.suppress_context = True
    if isinstance(exception, ObjectValue) and not isinstance(exception, ExceptionValue):
        tr.graph_break("exception", "an exception object from outside is raised")
    if isinstance(exception, ExceptionValue):
        exception.note_raised(tr, anew=True)
    raise ObservedException(exception)


def _before_with(tr: Any, frame: Any, inst: Any) -> None:
    manager = frame.pop().realize(tr)
    enter = tr.special_method(manager, "__enter__")
    leave = tr.special_method(manager, "__exit__")
    if enter is None or leave is None:
        name = type(manager).__name__ if not hasattr(manager, "cls") else manager.cls.__qualname__
        if all(hasattr(manager.python_type(), special) for special in ("__enter__", "__exit__")):
            tr.graph_break("call", f"the context of a '{name}' object is entered and left by C code")
        tr.graph_break("exception", f"'{name}' object does not support the context manager protocol")
    frame.push(leave)
    await_call(tr, frame, enter)
    frame.push(tr.call(enter, [], {}))


def _with_except_start(tr: Any, frame: Any, inst: Any) -> None:
    # Stack: exit function, lasti, previous exception, exception.
    exception = frame.stack[-1].realize(tr)
    leave = frame.stack[-4]
    cls = tr.constant_object(exception.python_type())
    await_call(tr, frame, leave)
    frame.push(tr.call(leave, [cls, exception, tr.traceback_value()], {}))


HANDLERS = {
    "PUSH_EXC_INFO": _push_exc_info,
    "POP_EXCEPT": _pop_except,
    "CHECK_EXC_MATCH": _check_exc_match,
    "RERAISE": _reraise,
    "STOPITERATION_ERROR": _stopiteration_error,
    "RAISE_VARARGS": _raise_varargs,
    "BEFORE_WITH": _before_with,
    "WITH_EXCEPT_START": _with_except_start,
}
