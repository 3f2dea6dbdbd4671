"""Calling Python functions inside a trace: binding arguments, inlining, generators."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Sequence
from typing import Any, NoReturn

from framehook.guards.guard import Check
from framehook.source import ObjectSource, Source
from framehook.trace.frame import Frame
from framehook.trace.wrap import make_cell
from framehook.values.base import ConstantValue, ObservedException, Value
from framehook.values.classes import ClassValue
from framehook.values.exceptions import ExceptionValue
from framehook.values.functions import (
    BoundMethodValue,
    CellValue,
    FunctionValue,
    GeneratorValue,
    GlobalsView,
    NestedFunctionValue,
)
from framehook.values.mappings import DictValue
from framehook.values.objects import ObjectValue
from framehook.values.sequences import TupleValue

_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


class Callee:
    """What is needed to activate a function: code, defaults, cells, globals."""

    __slots__ = ("closure", "code", "defaults", "globals", "kwdefaults", "name")

    def __init__(
        self,
        code: types.CodeType,
        globals_view: GlobalsView,
        closure: list[CellValue],
        defaults: list[Value],
        kwdefaults: dict[str, Value],
    ) -> None:
        self.code = code
        self.globals = globals_view
        self.closure = closure
        self.defaults = defaults
        self.kwdefaults = kwdefaults


def callee_of(tr: Any, fn: Value, count: int, names: frozenset[str]) -> Callee:
    """Read what a call with `count` positional arguments and these keywords uses of a function."""
    if isinstance(fn, NestedFunctionValue):
        cells = [cell.realize(tr) for cell in fn.closure.items] if fn.closure is not None else []
        defaults = _plain_items(tr, fn.defaults)
        kwdefaults = _plain_dict(tr, fn.kwdefaults)
        return Callee(fn.code, fn.globals, cells, defaults, kwdefaults)  # type: ignore[arg-type]
    assert isinstance(fn, FunctionValue)
    real = fn.fn
    code = real.__code__
    source = fn.source
    found: Callee | None = tr.callees.get(id(real))
    if found is None:
        tr.guard(source.member("__code__"), Check.IDENTITY, code)
        view = tr.globals_of(real, source)
        closure = closure_of(tr, real, source)
        found = tr.callees[id(real)] = Callee(code, view, closure, [], {})
        tr.keep_alive.append(real)
    if count < code.co_argcount and not set(code.co_varnames[count : code.co_argcount]) <= names:
        if not found.defaults and real.__defaults__:
            place = source.member("__defaults__")
            if isinstance(source, ObjectSource) and len(real.__defaults__) == 0:
                tr.guard(place, Check.LENGTH, len(real.__defaults__))
            defaults_value = tr.wrap(real.__defaults__, place)
            found.defaults = _plain_items(tr, defaults_value)
        elif not real.__defaults__:
            tr.guard(place_of(source, "__defaults__"), Check.EQUALS, real.__defaults__)
    if code.co_kwonlyargcount and not found.kwdefaults:
        wanted = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        if not set(wanted) <= names:
            if real.__kwdefaults__:
                value = tr.wrap(real.__kwdefaults__, source.member("__kwdefaults__"))
                found.kwdefaults = _plain_dict(tr, value)
            else:
                tr.guard(source.member("__kwdefaults__"), Check.EQUALS, None)
    return found


def closure_of(tr: Any, fn: types.FunctionType, source: Source) -> list[CellValue]:
    """The cells that a function from outside closes over."""
    cells = fn.__closure__ or ()
    place = source.member("__closure__")
    return [make_cell(tr, cell, place.item(index)) for index, cell in enumerate(cells)]


def place_of(source: Any, name: str) -> Any:
    """The source of a function's member."""
    return source.member(name)


def _plain_items(tr: Any, value: Value | None) -> list[Value]:
    if value is None:
        return []
    value = value.realize(tr)
    if isinstance(value, TupleValue):
        value.guard_length(tr)
        return list(value.items)
    if isinstance(value, ConstantValue):
        return [ConstantValue(item) for item in value.value or ()]
    tr.graph_break("call", "a function's defaults are no tuple")
    raise AssertionError


def _plain_dict(tr: Any, value: Value | None) -> dict[str, Value]:
    if value is None:
        return {}
    value = value.realize(tr)
    if isinstance(value, DictValue):
        value.guard_keys(tr)
        return {str(key): item for key, (_, item) in value.items.items()}
    return {}


def bind(
    tr: Any, fn: Value, callee: Callee, args: Sequence[Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    """Return the initial locals of a call of `fn` (CPython: initialize_locals in ceval.c)."""
    code = callee.code

    def misfit() -> NoReturn:
        _throw_misfit(tr, fn, callee, len(args), list(kwargs))

    count = code.co_argcount
    keyword_only = code.co_kwonlyargcount
    names = code.co_varnames
    bound: dict[str, Value] = dict(zip(names[:count], args, strict=False))
    next_slot = count + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[next_slot]] = TupleValue(list(args[count:]))
        next_slot += 1
    elif len(args) > count:
        misfit()
    extra: DictValue | None = None
    if code.co_flags & inspect.CO_VARKEYWORDS:
        extra = DictValue()
        bound[names[next_slot]] = extra
    for name, value in kwargs.items():
        position = names.index(name) if name in names[: count + keyword_only] else -1
        if position >= code.co_posonlyargcount:
            if name in bound:
                misfit()
            bound[name] = value
        elif extra is not None:
            extra.items[name] = (ConstantValue(name), value)
        else:
            misfit()
    first_default = count - len(callee.defaults)
    for position in range(count):
        if names[position] not in bound:
            if position < first_default:
                misfit()
            bound[names[position]] = callee.defaults[position - first_default]
    for position in range(count, count + keyword_only):
        name = names[position]
        if name not in bound:
            default = callee.kwdefaults.get(name)
            if default is None:
                misfit()
            bound[name] = default
    return bound


_EMPTY = (lambda: None).__code__


def _throw_misfit(tr: Any, fn: Value, callee: Callee, count: int, names: list[str]) -> NoReturn:
    """Raise the TypeError of arguments that do not fit, in CPython's words: those of a function without a body."""
    code = callee.code.replace(
        co_code=_EMPTY.co_code,
        co_consts=_EMPTY.co_consts,
        co_linetable=_EMPTY.co_linetable,
        co_exceptiontable=b"",
    )
    cells = tuple(types.CellType() for _ in code.co_freevars)
    stub = types.FunctionType(code, {}, "stub", (None,) * len(callee.defaults), cells)
    stub.__kwdefaults__ = dict.fromkeys(callee.kwdefaults)
    qualname = fn.get_attr(tr, "__qualname__").realize(tr)
    if isinstance(qualname, ConstantValue):
        stub.__qualname__ = qualname.value
        try:
            stub(*[None] * count, **dict.fromkeys(names))
        except TypeError as error:
            tr.throw(TypeError, *error.args)
    tr.graph_break("exception", f"the arguments of a call do not fit {code.co_qualname}()")
    raise AssertionError


def identity(fn: Value) -> object:
    """What tells one function from another: the function itself, or the value of one made by the frame."""
    return fn.fn if isinstance(fn, FunctionValue) else fn


def await_call(tr: Any, frame: Frame, target: Value) -> None:
    """Note which function's result will be, as it is, the result of the instruction that calls `target`."""
    value = target.realize(tr)
    while True:
        if isinstance(value, BoundMethodValue):
            value = value.fn.realize(tr)
        elif isinstance(value, ObjectValue) and value.cls is functools.partial:
            value = value.attrs["func"].realize(tr)  # type: ignore[union-attr]
        else:
            break
    if isinstance(value, FunctionValue | NestedFunctionValue):
        frame.awaited = (frame.step, identity(value))
    elif isinstance(value, ObjectValue):
        method = inspect.getattr_static(value.cls, "__call__", None)
        if isinstance(method, types.FunctionType):
            frame.awaited = (frame.step, method)


def inline(tr: Any, fn: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Run a Python function symbolically."""
    tr.check_inlinable(fn)
    callee = callee_of(tr, fn, len(args), frozenset(kwargs))
    code = callee.code
    if code.co_flags & _COROUTINE:
        tr.graph_break("generator", f"{code.co_qualname} is a coroutine or an asynchronous generator")
    frame = Frame(code, callee.globals, tr.frame)
    frame.locals = bind(tr, fn, callee, args, kwargs)
    frame.closure = callee.closure
    frame.function = fn
    step, awaited = tr.frame.awaited
    tr.frame.awaited = (0, None)
    frame.is_replaceable = step == tr.frame.step and awaited is identity(fn)
    if code.co_flags & inspect.CO_GENERATOR:
        frame.is_generator = True
        return tr.note_birth(GeneratorValue(frame))
    try:
        result: Value = tr.run_inner(frame)
    except ObservedException:
        tr.ended.append(code)
        raise
    tr.ended.append(code)
    return result


def resume_generator(
    tr: Any, generator: GeneratorValue, sent: Value | None, thrown: Value | None = None
) -> Value | None:
    """Run a generator to its next yield; None when it returns (its value is kept in the frame)."""
    frame: Frame = generator.frame
    if generator.running:
        tr.throw(ValueError, "generator already executing")
    if generator.finished:
        if thrown is not None:
            raise ObservedException(thrown)
        return None
    if not generator.started and thrown is not None:
        generator.finished = True
        raise ObservedException(thrown)
    frame.caller = tr.frame
    if generator.started:
        assert sent is not None
        frame.stack.append(sent)
    generator.started = True
    generator.running = True
    frame.yielded = None
    try:
        if thrown is not None:
            frame.stack.pop()
            delegated = _throw_into_receiver(tr, frame, thrown)
            if delegated is None or isinstance(delegated, ObservedException):
                thrown = None if delegated is None else delegated.value
            else:
                frame.yielded = delegated
                return delegated
        tr.run_inner(frame, thrown)
    except ObservedException as observed:
        generator.finished = True
        if issubclass(observed.value.python_type(), StopIteration):
            # Where the generator's own code does not see to it.
            raise ObservedException(stopiteration_error(observed.value)) from None
        raise
    finally:
        generator.running = False
    if frame.yielded is None:
        generator.finished = True
        return None
    return frame.yielded


def stopiteration_error(exception: Value) -> Value:
    """What leaves a generator in place of an exception (PEP 479)."""
    if not issubclass(exception.python_type(), StopIteration):
        return exception
    error = ExceptionValue(RuntimeError, [ConstantValue("generator raised StopIteration")])
    error.cause = error.context = exception
    return error


def _throw_into_receiver(tr: Any, frame: Frame, thrown: Value) -> Value | ObservedException | None:
    """Throw into what a suspended `yield from` delegates to, if it does.

    Returns what that yields; None when it has returned, and the frame goes on behind the `yield from`; else the
    exception to raise in the frame.
    """
    instructions = frame.instructions
    send = instructions[frame.inst.index - 1]
    if frame.inst.opname != "YIELD_VALUE" or send.opname != "SEND":
        return ObservedException(thrown)
    receiver = frame.stack[-1].realize(tr)
    if not isinstance(receiver, GeneratorValue):
        if isinstance(receiver, ObjectValue) or hasattr(receiver.python_type(), "throw"):
            tr.graph_break("generator", f"an exception is thrown into {receiver.describe()}")
        return ObservedException(thrown)
    try:
        if issubclass(thrown.python_type(), GeneratorExit):
            generator_method(tr, receiver, "close", [])
            return ObservedException(thrown)
        item = resume_generator(tr, receiver, ConstantValue(None), thrown)
    except ObservedException as observed:
        return observed
    if item is None:
        tr.finish_send(frame, receiver.frame.result or ConstantValue(None))
        frame.index = send.target
    return item


def generator_method(tr: Any, generator: GeneratorValue, name: str, args: Sequence[Value]) -> Value:
    """`send`, `throw` and `close`."""
    if name == "send":
        sent = args[0].realize(tr)
        is_none = isinstance(sent, ConstantValue) and sent.value is None
        if not generator.started and not is_none:
            tr.throw(TypeError, "can't send non-None value to a just-started generator")
        item = resume_generator(tr, generator, args[0])
        if item is None:
            _stop(tr, generator)
        return item  # type: ignore[return-value]
    if name == "throw":
        if not 1 <= len(args) <= 3:
            tr.graph_break("generator", "generator.throw() with other arguments")
        raised = args[0]
        if len(args) > 1:
            # The form of old: class, instance, traceback.
            raised = args[1]
            if not issubclass(raised.realize(tr).python_type(), BaseException):
                tr.graph_break("generator", "generator.throw() of a class and arguments")
        given = raised.realize(tr)
        cls = given.fn if isinstance(given, ClassValue) else given.python_type()
        if not issubclass(cls, BaseException):
            tr.graph_break("exception", f"{given.describe()} is thrown")
        item = resume_generator(tr, generator, ConstantValue(None), tr.as_exception(given))
        if item is None:
            _stop(tr, generator)
        return item  # type: ignore[return-value]
    if not generator.started or generator.finished:
        generator.finished = True
        return ConstantValue(None)
    try:
        item = resume_generator(tr, generator, ConstantValue(None), ExceptionValue(GeneratorExit, []))
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), (GeneratorExit, StopIteration)):
            return ConstantValue(None)
        raise
    if item is not None:
        tr.throw(RuntimeError, "generator ignored GeneratorExit")
    return ConstantValue(None)


def _stop(tr: Any, generator: GeneratorValue) -> None:
    result = generator.frame.result
    is_none = result is None or (isinstance(result, ConstantValue) and result.value is None)
    raise ObservedException(ExceptionValue(StopIteration, [] if is_none else [result]))
