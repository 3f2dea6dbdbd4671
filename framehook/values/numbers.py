"""Arithmetic on numbers from outside that nobody looks at: a step counter must not cost a compile at every step."""

from __future__ import annotations

from typing import Any, TypeGuard

from framehook.guards.guard import Check
from framehook.values.base import ChangingNumber, ConstantValue, LazyValue, Tracer, Value

#: Operators that cannot raise on two numbers.
_OPERATORS: dict[str, Any] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}
#: Sums of sums of ... deeper than this become constants.
_MAX_DEPTH = 20
_MAX_BITS = 1 << 12


class DeferredNumber(LazyValue):
    """`left op right`, computed by generated code.  Only the operands' types are guarded.

    Whoever looks at the value realizes it: then the operands are guarded by value, and it is a constant.
    """

    __slots__ = ("depth", "left", "op", "right")

    def __init__(self, op: str, left: Value, right: Value, result: int | float) -> None:
        super().__init__(result, None)  # type: ignore[arg-type]
        self.op = op
        self.left = left
        self.right = right
        self.depth = 1 + max(_depth(left), _depth(right))

    def realize(self, tr: Tracer) -> Value:
        if self.actual is None:
            self.left.realize(tr)
            self.right.realize(tr)
            self.actual = ConstantValue(self.obj)
        return self.actual


def _depth(value: Value) -> int:
    return value.depth if isinstance(value, DeferredNumber) else 0


def is_deferred(value: Value) -> TypeGuard[DeferredNumber]:
    """Whether generated code will compute this number."""
    return isinstance(value, DeferredNumber) and value.actual is None


def is_untouched_number(value: Value) -> bool:
    """Whether it is a number that nobody has looked at."""
    is_number = isinstance(value, LazyValue) and type(value.obj) in (int, float)
    return is_number and value.actual is None and not isinstance(value, ChangingNumber)  # type: ignore[attr-defined]


def _number(value: Value) -> int | float | None:
    if isinstance(value, ChangingNumber):
        return None
    if isinstance(value, LazyValue):
        value = value.actual if value.actual is not None else ConstantValue(value.obj)
    if isinstance(value, ConstantValue) and type(value.value) in (int, float):
        return value.value
    return None


def defer(tr: Tracer, op: str, left: Value, right: Value) -> Value | None:
    """Return `left op right` as a number that is computed later, or None where it has to be known now."""
    compute = _OPERATORS.get(op.removesuffix("="))
    if compute is None or not (is_untouched_number(left) or is_untouched_number(right)):
        return None
    a, b = _number(left), _number(right)
    if a is None or b is None or max(_depth(left), _depth(right)) >= _MAX_DEPTH:
        return None
    result = compute(a, b)
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        return None
    for value in (left, right):
        if is_untouched_number(value) and value.source is not None:
            tr.guard(value.source, Check.TYPE, type(_number(value)))
    return DeferredNumber(op.removesuffix("="), left, right, result)
