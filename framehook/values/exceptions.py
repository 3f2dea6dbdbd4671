"""Exceptions that are made inside the frame."""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Sequence

from framehook.values.base import ConstantValue, Tracer, Value
from framehook.values.objects import ObjectValue
from framehook.values.sequences import BuiltinMethod, ListValue, SequenceValue, TupleValue
from framehook.values.wording import type_name

#: Exceptions of C code that store nothing but their arguments.
_SIMPLE_EXCEPTIONS = {
    id(cls)
    for cls in vars(builtins).values()
    if isinstance(cls, type)
    and issubclass(cls, BaseException)
    and not issubclass(
        cls,
        (
            *(OSError, SyntaxError, ImportError, SystemExit, MemoryError, BaseExceptionGroup),
            *(UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError),
        ),
    )
}


def native_exception(cls: type) -> type | None:
    """The class of C code that makes and initialises exceptions of class `cls`, if it keeps only their arguments."""
    native = [base for base in cls.__mro__ if not base.__flags__ & (1 << 9)]  # Py_TPFLAGS_HEAPTYPE
    if any(id(base) not in _SIMPLE_EXCEPTIONS for base in native if base is not object):
        return None
    if StopIteration in native:
        # It has a value as well, which it takes when it is initialised.
        parts = [base for base in cls.__mro__ if base.__flags__ & (1 << 9)]
        if native[0] is not StopIteration or any(
            name in vars(part) for part in parts for name in ("__new__", "__init__")
        ):
            return None
    return native[0]


def _is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


#: Fields that `BaseException` defines.
_EXCEPTION_FIELDS = ("args", "__cause__", "__context__", "__suppress_context__")


class ExceptionValue(ObjectValue):
    """An exception made inside the frame."""

    __slots__ = ("args", "cause", "context", "has_traceback", "is_raised", "suppress_context")

    def __init__(self, cls: type, args: list[Value]) -> None:
        super().__init__(cls, None)
        self.args = args
        self.cause: Value = ConstantValue(None)
        self.context: Value = ConstantValue(None)
        self.suppress_context = False
        self.is_raised = False
        self.has_traceback = False

    def add_note(self, tr: Tracer, note: Value) -> None:
        """`BaseException.add_note`: notes are a list among the attributes."""
        if note.python_type() is not str:
            tr.throw(TypeError, f"note must be a str, not '{type_name(note.python_type())}'")
        notes = self.instance_attr(tr, "__notes__")
        if notes is None:
            self.store(tr, "__notes__", ListValue([note]))
        else:
            notes.realize(tr).call_method(tr, "append", [note], {})

    def note_raised(self, tr: Tracer, *, anew: bool = False) -> None:
        """Being raised, it takes the exception that is being handled as its context (_PyErr_SetObject in errors.c).

        `anew`: by a `raise` statement, which may not be the first.
        """
        self.has_traceback = True
        if self.is_raised and not anew:
            return
        self.is_raised = True
        current = tr.current_exception()
        if current is None or current is self:
            return
        below = current
        met: set[int] = set()  # the program may have made a circle of contexts
        while isinstance(below, ExceptionValue) and not isinstance(below.context, ConstantValue):
            if id(below) in met:
                break
            met.add(id(below))
            if below.context is self:
                below.context = ConstantValue(None)
                break
            below = below.context
        self.context = current

    def drop_traceback(self, tr: Tracer, value: Value) -> None:
        """`with_traceback(None)`: without the traceback, the exception can be made anew wherever it is needed."""
        if not _is_none(value.realize(tr)):
            tr.graph_break("exception", f"{self.describe()} is given a traceback")
        self.find_attr(tr, "__context__")  # has to be known
        self.has_traceback = False
        tr.forget_birth(self)

    def initialise(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> None:
        """The `__init__` of the class of C code."""
        if kwargs:
            tr.graph_break("exception", f"{self.describe()} is initialised with keyword arguments")
        self.args = list(args)

    def find_attr(self, tr: Tracer, name: str) -> Value | None:
        if name in _EXCEPTION_FIELDS and tr.class_attr(self.cls, name) is not vars(BaseException)[name]:
            return super().find_attr(tr, name)
        if name == "args":
            return TupleValue(list(self.args))
        if name == "__cause__":
            return self.cause
        if name == "__context__":
            is_open = self.is_raised and isinstance(self.context, ConstantValue)
            if is_open and not tr.nothing_handled_outside():
                tr.graph_break("exception", "the context of an exception may be one that a caller handles")
            return self.context
        if name == "__suppress_context__":
            return ConstantValue(self.suppress_context)
        if name == "add_note" and tr.class_attr(self.cls, name) is vars(BaseException)[name]:
            return BuiltinMethod(self, name)
        if name == "__traceback__":
            return tr.traceback_value() if self.has_traceback else ConstantValue(None)
        if name == "with_traceback" and tr.class_attr(self.cls, name) is vars(BaseException)[name]:
            return BuiltinMethod(self, name)
        if issubclass(self.cls, StopIteration) and name == "value":
            return self.args[0] if self.args else ConstantValue(None)
        raw = inspect.getattr_static(self.cls, name, None)
        if isinstance(raw, (types.MemberDescriptorType, types.GetSetDescriptorType)) and (
            raw.__objclass__.__module__ == "builtins"
        ):
            tr.graph_break("exception", f"attribute '{name}' of an exception of the trace is read")
        return super().find_attr(tr, name)

    def generic_set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        if name == "args":
            value = value.realize(tr)
            if not isinstance(value, SequenceValue) or issubclass(self.cls, StopIteration):
                tr.graph_break("exception", f"the arguments of {self.describe()} are set")
            value.guard_length(tr)
            self.args = list(value.items)
        elif name == "__cause__":
            value = value.realize(tr)
            if not _is_none(value) and not issubclass(value.python_type(), BaseException):
                tr.graph_break("exception", f"the cause of an exception is set to {value.describe()}")
            self.cause = value
            self.suppress_context = True
        elif name == "__context__":
            value = value.realize(tr)
            if not isinstance(value, ExceptionValue) and not _is_none(value):
                tr.graph_break("exception", f"attribute '{name}' of an exception of the trace is set")
            self.context = value
        elif name == "__traceback__" and type(value.realize(tr)) is type(tr.traceback_value()):
            pass  # its own, which only the real exception has
        elif name in ("__suppress_context__", "__traceback__") or (
            name == "value" and issubclass(self.cls, StopIteration)
        ):
            tr.graph_break("exception", f"attribute '{name}' of an exception of the trace is set")
        else:
            super().generic_set_attr(tr, name, value)
