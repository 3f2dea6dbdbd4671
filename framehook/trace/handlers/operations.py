"""Operators, comparisons, subscripts and string formatting."""

from __future__ import annotations

from typing import Any

from framehook.trace import operators
from framehook.values.base import ConstantValue, fold, to_constant
from framehook.values.sequences import SliceValue
from framehook.values.tensor import TensorValue


def _binary_op(tr: Any, frame: Any, inst: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operators.binary(tr, inst.argval, left, right))


def _unary(op: str) -> Any:
    def handler(tr: Any, frame: Any, inst: Any) -> None:
        frame.push(operators.unary(tr, op, frame.pop()))

    return handler


def _unary_not(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ConstantValue(not tr.truth(frame.pop())))


def _to_bool(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ConstantValue(tr.truth(frame.pop())))


def _compare_op(tr: Any, frame: Any, inst: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operators.compare(tr, inst.argval, left, right))


def _is_op(tr: Any, frame: Any, inst: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ConstantValue(operators.is_same(tr, left, right) is (inst.argval == "is")))


def _contains_op(tr: Any, frame: Any, inst: Any) -> None:
    container, item = frame.pop().realize(tr), frame.pop()
    frame.push(ConstantValue(container.contains(tr, item) is (inst.argval == "in")))


def _binary_subscr(tr: Any, frame: Any, inst: Any) -> None:
    key, owner = frame.pop(), frame.pop().realize(tr)
    if not (isinstance(owner, TensorValue) and tr.is_changing(key)):
        key = key.realize(tr)
    frame.push(owner.get_item(tr, key))


def _store_subscr(tr: Any, frame: Any, inst: Any) -> None:
    key, owner, value = frame.pop(), frame.pop().realize(tr), frame.pop()
    owner.set_item(tr, key.realize(tr), value)


def _delete_subscr(tr: Any, frame: Any, inst: Any) -> None:
    key, owner = frame.pop(), frame.pop().realize(tr)
    owner.del_item(tr, key.realize(tr))


def _make_slice(tr: Any, parts: list[Any]) -> Any:
    value = SliceValue(parts)
    if any(map(tr.is_changing, parts)):
        return value
    known, obj = to_constant(tr, value)
    return ConstantValue(obj) if known else value


def _build_slice(tr: Any, frame: Any, inst: Any) -> None:
    parts = frame.pop_many(inst.arg)
    if len(parts) == 2:
        parts.append(ConstantValue(None))
    frame.push(_make_slice(tr, parts))


def _binary_slice(tr: Any, frame: Any, inst: Any) -> None:
    start, stop = frame.pop_many(2)
    owner = frame.pop().realize(tr)
    frame.push(owner.get_item(tr, _make_slice(tr, [start, stop, ConstantValue(None)])))


def _store_slice(tr: Any, frame: Any, inst: Any) -> None:
    start, stop = frame.pop_many(2)
    owner, value = frame.pop().realize(tr), frame.pop()
    owner.set_item(tr, _make_slice(tr, [start, stop, ConstantValue(None)]), value)


def _format_value(tr: Any, frame: Any, inst: Any) -> None:
    conversion, has_spec = inst.argval
    spec = frame.pop() if has_spec else ConstantValue("")
    value = frame.pop()
    if conversion is not None:
        value = tr.call(
            tr.constant_object({"str": str, "repr": repr, "ascii": ascii}[conversion]), [value], {}
        )
    frame.push(tr.call(tr.constant_object(format), [value, spec], {}))


def _convert_value(tr: Any, frame: Any, inst: Any) -> None:
    convert = {"str": str, "repr": repr, "ascii": ascii}[inst.argval]
    frame.push(tr.call(tr.constant_object(convert), [frame.pop()], {}))


def _build_string(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(fold(tr, lambda *parts: "".join(parts), frame.pop_many(inst.arg), {}))


HANDLERS = {
    "BINARY_OP": _binary_op,
    "UNARY_NEGATIVE": _unary("-"),
    "UNARY_POSITIVE": _unary("+"),
    "UNARY_INVERT": _unary("~"),
    "UNARY_NOT": _unary_not,
    "TO_BOOL": _to_bool,
    "COMPARE_OP": _compare_op,
    "IS_OP": _is_op,
    "CONTAINS_OP": _contains_op,
    "BINARY_SUBSCR": _binary_subscr,
    "STORE_SUBSCR": _store_subscr,
    "DELETE_SUBSCR": _delete_subscr,
    "BUILD_SLICE": _build_slice,
    "BINARY_SLICE": _binary_slice,
    "STORE_SLICE": _store_slice,
    "FORMAT_VALUE": _format_value,
    "CONVERT_VALUE": _convert_value,
    "BUILD_STRING": _build_string,
}
