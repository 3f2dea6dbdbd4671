"""Numbers from outside that are not looked at: generated code computes with them, and the graph may take them.

A step counter must not cost a compile at every step, nor a learning rate that a scheduler sets.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

from framehook.guards.guard import Check
from framehook.values.base import ChangingNumber, ConstantValue, LazyValue, Tracer, Value

#: Operators that cannot raise on two integers or two floats, and those that can: the latter are deferred only
#: where a number is known to change.
_SAFE: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_RISKY: dict[str, Callable[[Any, Any], Any]] = {
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
#: Functions of C code that only compute, and of which the type of the result follows from the types of the arguments.
_FUNCTIONS = (
    *(math.sqrt, math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.pow, math.hypot),
    *(
        math.sin,
        math.cos,
        math.tan,
        math.asin,
        math.acos,
        math.atan,
        math.atan2,
        math.sinh,
        math.cosh,
        math.tanh,
    ),
    *(math.erf, math.fabs, math.copysign, math.degrees, math.radians, math.fmod),
)
PURE_FUNCTIONS: frozenset[Callable[..., Any]] = frozenset(_FUNCTIONS)
#: Sums of sums of ... deeper than this become constants.
_MAX_DEPTH = 20
_MAX_BITS = 1 << 12


class DeferredNumber(LazyValue):
    """`function(*operands)`, computed by generated code.  Only the operands' types are guarded.

    Whoever looks at the value realizes it: then the operands are guarded by value, and it is a constant.

    Attributes:
        symbol: the operator, as bytecode names it; empty: `function` is called.
        is_risky: it may raise for other values: it is computed before anything else, and where it raises, the frame
            runs eagerly.
    """

    __slots__ = ("depth", "function", "is_risky", "operands", "symbol")

    def __init__(
        self,
        symbol: str,
        function: Callable[..., Any],
        operands: Sequence[Value],
        result: int | float,
        is_risky: bool,
    ) -> None:
        super().__init__(result, None)  # type: ignore[arg-type]
        self.symbol = symbol
        self.function = function
        self.operands = tuple(operands)
        self.is_risky = is_risky
        self.depth = 1 + max(map(_depth, operands))

    def realize(self, tr: Tracer) -> Value:
        if self.actual is None:
            for operand in self.operands:
                operand.realize(tr)
            self.actual = ConstantValue(self.obj)
        return self.actual


def _depth(value: Value) -> int:
    return value.depth if isinstance(value, DeferredNumber) else 0


def is_deferred(value: Value) -> TypeGuard[DeferredNumber]:
    """Whether generated code will compute this number."""
    return isinstance(value, DeferredNumber) and value.actual is None


def is_untouched_number(value: Value) -> TypeGuard[LazyValue]:
    """Whether it is a number that nobody has looked at."""
    return isinstance(value, LazyValue) and type(value.obj) in (int, float) and value.actual is None


def leaves(value: Value) -> Iterator[LazyValue]:
    """The numbers from outside that a number is computed of."""
    if is_deferred(value):
        for operand in value.operands:
            yield from leaves(operand)
    elif is_untouched_number(value):
        yield value


def comes_from_native_code(value: Value) -> bool:
    """Whether a number that differs from call to call is part of it."""
    return any(isinstance(leaf, ChangingNumber) for leaf in leaves(value))


def _number(value: Value) -> int | float | None:
    if isinstance(value, LazyValue):
        value = value.actual if value.actual is not None else ConstantValue(value.obj)
    if isinstance(value, ConstantValue) and type(value.value) in (int, float):
        return value.value
    return None


def guard_types(tr: Tracer, *values: Value) -> None:
    """Guard the types of numbers that nobody looks at."""
    for value in values:
        if is_untouched_number(value) and value.source is not None:
            tr.guard(value.source, Check.TYPE, type(value.obj))


def defer(tr: Tracer, op: str, left: Value, right: Value) -> Value | None:
    """Return `left op right` as a number that is computed later, or None where it has to be known now."""
    symbol = op.removesuffix("=")
    if symbol in _SAFE:
        if not (is_untouched_number(left) or is_untouched_number(right)):
            return None
        # An integer may be too large for a float.
        is_risky = any(
            is_untouched_number(value) and type(value.obj) is int and type(_number(other)) is float
            for value, other in ((left, right), (right, left))
        )
        return _defer(tr, symbol, _SAFE[symbol], (left, right), is_risky)
    if symbol in _RISKY and (tr.is_changing(left) or tr.is_changing(right)):
        return _defer(tr, symbol, _RISKY[symbol], (left, right), True)
    return None


def defer_negative(tr: Tracer, value: Value) -> Value | None:
    """`-value` of a number that changes."""
    return _defer(tr, "neg", operator.neg, (value,), False) if tr.is_changing(value) else None


def defer_call(tr: Tracer, function: Callable[..., Any], args: Sequence[Value]) -> Value | None:
    """`function(*args)` of numbers, one of which changes."""
    if not any(map(tr.is_changing, args)):
        return None
    return _defer(tr, "", function, args, True)


def _defer(
    tr: Tracer, symbol: str, function: Callable[..., Any], operands: Sequence[Value], is_risky: bool
) -> Value | None:
    numbers = [_number(value) for value in operands]
    if any(number is None for number in numbers) or max(map(_depth, operands)) >= _MAX_DEPTH:
        return None
    if symbol == "**" and all(type(number) is int for number in numbers):
        return None  # it may be huge, and its type depends on a sign
    try:
        result = function(*numbers)
    except (ArithmeticError, ValueError):
        return None
    if type(result) not in (int, float) or (type(result) is int and result.bit_length() > _MAX_BITS):
        return None
    guard_types(tr, *operands)
    value = DeferredNumber(symbol, function, operands, result, is_risky)
    if is_risky:
        tr.note_risky(value)
    return value
