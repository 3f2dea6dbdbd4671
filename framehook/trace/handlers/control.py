"""Jumps, loops, returns and yields."""

from __future__ import annotations

from typing import Any

from framehook.bytecode.resume import is_resume_code
from framehook.trace import loops, operators
from framehook.trace.handlers.names import check_let_go
from framehook.values.base import ConstantValue, ObservedException
from framehook.values.functions import GeneratorValue


def _jump(tr: Any, frame: Any, inst: Any) -> None:
    frame.index = inst.target


def _pop_jump_if(wanted: bool) -> Any:
    def handler(tr: Any, frame: Any, inst: Any) -> None:
        if tr.truth(frame.pop()) is wanted:
            frame.index = inst.target

    return handler


def _pop_jump_if_none(wanted: bool) -> Any:
    none = ConstantValue(None)

    def handler(tr: Any, frame: Any, inst: Any) -> None:
        if operators.is_same(tr, frame.pop(), none) is wanted:
            frame.index = inst.target

    return handler


def _jump_or_pop(wanted: bool) -> Any:
    def handler(tr: Any, frame: Any, inst: Any) -> None:
        if tr.truth(frame.stack[-1]) is wanted:
            frame.index = inst.target
        else:
            frame.pop()

    return handler


def _get_iter(tr: Any, frame: Any, inst: Any) -> None:
    iterable = frame.pop()
    iterator = tr.iterate(iterable)
    loops.note_loop(tr, frame, iterable, iterator)
    frame.push(iterator)


def _for_iter(tr: Any, frame: Any, inst: Any) -> None:
    iterator = frame.stack[-1].realize(tr)
    item = iterator.next(tr)
    if item is None:
        frame.pop()
        frame.index = inst.target
    else:
        frame.push(item)


def _return_value(tr: Any, frame: Any, inst: Any) -> None:
    if frame.caller is not None and is_resume_code(frame.code):
        # What it holds came from outside, and may be nobody else's.
        for value in frame.locals.values():
            check_let_go(tr, value)
    frame.result = frame.pop()


def _return_generator(tr: Any, frame: Any, inst: Any) -> None:
    # The generator value stands for what is returned here; its frame starts behind this.
    frame.push(ConstantValue(None))


def _yield_value(tr: Any, frame: Any, inst: Any) -> None:
    if not frame.is_generator:
        tr.graph_break("generator", "a yield outside of an inlined generator")
    frame.yielded = frame.pop()


def _get_yield_from_iter(tr: Any, frame: Any, inst: Any) -> None:
    value = frame.pop().realize(tr)
    frame.push(value if isinstance(value, GeneratorValue) else tr.iterate(value))


def _send(tr: Any, frame: Any, inst: Any) -> None:
    sent = frame.pop()
    receiver = frame.stack[-1].realize(tr)
    plain = sent.realize(tr)
    if isinstance(receiver, GeneratorValue):
        item = tr.send(receiver, sent)
        result = receiver.frame.result if item is None else None
    else:
        method = tr.special_method(receiver, "__next__")
        result = None
        try:
            if not (isinstance(plain, ConstantValue) and plain.value is None):
                item = tr.call(receiver.get_attr(tr, "send"), [sent], {})
            elif method is not None:
                item = tr.call(method, [], {})
            else:
                item = receiver.next(tr)
        except ObservedException as observed:
            if not issubclass(observed.value.python_type(), StopIteration):
                raise
            item = None
            result = observed.value.realize(tr).get_attr(tr, "value")
    if item is not None:
        frame.push(item)
        return
    tr.finish_send(frame, result if result is not None else ConstantValue(None))
    frame.index = inst.target


def _end_send(tr: Any, frame: Any, inst: Any) -> None:
    result = frame.pop()
    frame.pop()  # the receiver
    frame.push(result)


def _cleanup_throw(tr: Any, frame: Any, inst: Any) -> None:
    # Stack: receiver, what was sent last, the exception that was thrown in.
    exception = frame.pop().realize(tr)
    if not issubclass(exception.python_type(), StopIteration):
        raise ObservedException(exception)
    frame.pop()
    frame.push(exception.get_attr(tr, "value"))


HANDLERS = {
    "JUMP": _jump,
    "POP_JUMP_IF_TRUE": _pop_jump_if(True),
    "POP_JUMP_IF_FALSE": _pop_jump_if(False),
    "POP_JUMP_IF_NONE": _pop_jump_if_none(True),
    "POP_JUMP_IF_NOT_NONE": _pop_jump_if_none(False),
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop(True),
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop(False),
    "GET_ITER": _get_iter,
    "FOR_ITER": _for_iter,
    "RETURN_VALUE": _return_value,
    "RETURN_GENERATOR": _return_generator,
    "YIELD_VALUE": _yield_value,
    "GET_YIELD_FROM_ITER": _get_yield_from_iter,
    "SEND": _send,
    "END_SEND": _end_send,
    "CLEANUP_THROW": _cleanup_throw,
}
