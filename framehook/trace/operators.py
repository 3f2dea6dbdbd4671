"""Operators on symbolic values: arithmetic, comparison, identity, truth."""

from __future__ import annotations

import collections
import enum
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from framehook.guards.guard import Check
from framehook.trace.shown import as_shown
from framehook.values.base import (
    ConstantValue,
    LazyValue,
    Tracer,
    Value,
    call_now,
    check_nan,
    fold,
    from_plain,
    to_constant,
)
from framehook.values.classes import (
    CallableValue,
    ClassValue,
    GenericAliasValue,
    ModuleObjectValue,
    UnionValue,
)
from framehook.values.deques import DequeValue
from framehook.values.functions import FunctionValue, GeneratorValue, NestedFunctionValue
from framehook.values.identity import IdentityNumber
from framehook.values.mappings import DictValue, DictView
from framehook.values.numbers import defer, defer_negative, is_untouched_number
from framehook.values.objects import InstanceDictValue, ObjectValue
from framehook.values.proxies import MappingProxyValue
from framehook.values.real_classes import derives, module_of
from framehook.values.sequences import (
    BuiltinContainer,
    ListValue,
    SequenceValue,
    SliceValue,
    TupleValue,
    drain,
)
from framehook.values.sets import SetValue, is_set_like, operand, set_change, set_combine
from framehook.values.tensor import TensorValue, check_method
from framehook.values.wording import INVERTING_BOOL_WARNS, type_name

#: Symbol -> (function, forward method, reflected method).
BINARY: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "+": (operator.add, "__add__", "__radd__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
}
#: In-place symbol -> (function, method).
INPLACE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+=": (operator.iadd, "__iadd__"),
    "-=": (operator.isub, "__isub__"),
    "*=": (operator.imul, "__imul__"),
    "/=": (operator.itruediv, "__itruediv__"),
    "//=": (operator.ifloordiv, "__ifloordiv__"),
    "%=": (operator.imod, "__imod__"),
    "**=": (operator.ipow, "__ipow__"),
    "@=": (operator.imatmul, "__imatmul__"),
    "<<=": (operator.ilshift, "__ilshift__"),
    ">>=": (operator.irshift, "__irshift__"),
    "&=": (operator.iand, "__iand__"),
    "|=": (operator.ior, "__ior__"),
    "^=": (operator.ixor, "__ixor__"),
}
COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}

#: Results larger than this are not computed while tracing (bits of an int, items of a sequence).
_MAX_FOLDED = 1 << 16


def binary(tr: Tracer, op: str, left: Value, right: Value) -> Value:
    """`left op right`, in-place symbols included."""
    deferred = defer(tr, op, left, right)
    if deferred is not None:
        return deferred
    left, right = _operands(tr, left, right)
    symbol = op
    if op in INPLACE:
        result = _in_place(tr, op, left, right)
        if result is not None:
            return result
        op = op[:-1]
    fn, forward, reflected = BINARY[op]
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        _check_size(tr, op, left.value, right.value)
        return fold(tr, _function(symbol), [left, right], {})
    if op == "%" and isinstance(left, ConstantValue) and isinstance(left.value, str):
        if not isinstance(right, ObjectValue) or right.special(tr, reflected) is None:
            return format_percent(tr, left.value, right)
    if isinstance(left, ObjectValue) or isinstance(right, ObjectValue):
        return _by_methods(tr, op, left, right, forward, reflected, symbol)
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        _check_methods(tr, (left, forward), (right, reflected))
        return tr.graph_call(fn, [left, right], {})
    return _containers(tr, op, fn, shown_mapping(tr, left), shown_mapping(tr, right), symbol)


def _operands(tr: Tracer, left: Value, right: Value) -> tuple[Value, Value]:
    """The operands of an operator; a number that changes stays unknown beside a tensor."""
    for value, other in ((left, right), (right, left)):
        if tr.is_changing(value) and isinstance(other.realize(tr), TensorValue):
            return (value, other.realize(tr)) if value is left else (other.realize(tr), value)
    return left.realize(tr), right.realize(tr)


def _function(symbol: str) -> Callable[[Any, Any], Any]:
    return INPLACE[symbol][0] if symbol in INPLACE else BINARY[symbol][0]


def _unsupported(tr: Tracer, symbol: str, left: Value, right: Value) -> NoReturn:
    """Raise the TypeError of operands that do not go together, in the words that their types have for it."""
    try:
        _function(symbol)(_stand_in(tr, left), _stand_in(tr, right))
    except TypeError as error:
        tr.throw(TypeError, str(error))
    tr.graph_break("exception", f"operator {symbol} of {left.describe()} and {right.describe()}")


#: Types whose empty instance stands for every other where operands do not go together.
_STAND_INS = (list, tuple, dict, set, frozenset, collections.deque, object)


def _stand_in(tr: Tracer, value: Value) -> Any:
    if isinstance(value, ConstantValue):
        return value.value
    cls = value.python_type()
    if isinstance(value, ObjectValue) and value.base is None and not derives(type(value.obj), enum.Enum):
        return type(cls.__name__, (), {})()
    if cls not in _STAND_INS:
        # The native instruction words it.
        tr.graph_break("exception", f"an operator does not take {value.describe()}")
    return cls()


def _check_methods(tr: Tracer, *pairs: tuple[Value, str]) -> None:
    """The special methods of tensors that an operator calls are torch's own."""
    for value, method in pairs:
        if isinstance(value, TensorValue):
            check_method(tr, value, method)


def _check_size(tr: Tracer, op: str, left: Any, right: Any) -> None:
    """Do not fold what would take long or fill the memory."""
    huge = False
    if op == "**" and isinstance(left, int) and isinstance(right, int):
        huge = left.bit_length() * max(right, 0) > _MAX_FOLDED
    elif op == "<<" and isinstance(left, int) and isinstance(right, int):
        huge = right > _MAX_FOLDED
    elif op == "*":
        for text, count in ((left, right), (right, left)):
            if isinstance(text, (str, bytes, tuple)) and isinstance(count, int):
                huge = len(text) * count > _MAX_FOLDED
    if huge:
        tr.graph_break("call", f"the constant of {op} is too large to compute while tracing")


def _in_place(tr: Tracer, op: str, left: Value, right: Value) -> Value | None:
    fn, method = INPLACE[op]
    if isinstance(left, TensorValue):
        _check_methods(tr, (left, method))
        return tr.graph_call(fn, [left, right], {})
    if isinstance(left, ListValue):
        if op == "+=":
            left.call_method(tr, "extend", [right], {})
            return left
        if op == "*=":
            repeated = _containers(tr, "*", operator.mul, left, right)
            assert isinstance(repeated, ListValue)
            left.touch(tr)
            left.items[:] = repeated.items
            return left
    if isinstance(left, DequeValue) and op == "+=":
        left.call_method(tr, "extend", [right], {})
        return left
    if isinstance(left, DequeValue) and op == "*=":
        changed = _deque(tr, "*", left, right)
        left.moved(tr)
        left.items[:] = changed.items
        return left
    if isinstance(left, DictValue) and op == "|=":
        left.update_from(tr, right)
        return left
    if isinstance(left, SetValue) and left.cls is set and op in ("|=", "&=", "-=", "^="):
        if is_set_like(right):
            set_change(tr, op[:-1], left, right)
            return left
        return _unsupported(tr, op, left, right)
    if isinstance(left, ObjectValue):
        special = left.special(tr, method)
        if special is not None:
            result = tr.call(special, [right], {}).realize(tr)
            if not _is_not_implemented(result):
                return result
        elif left.base is not None and left.has_c_special(tr, method):
            other = right.base if isinstance(right, ObjectValue) and right.base is not None else right
            changed_base = _in_place(tr, op, left.base, other)
            if changed_base is not left.base:
                tr.graph_break("call", f"{method} of {left.describe()} is served by C code")
            return left
    return None


def _is_not_implemented(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is NotImplemented


def _name(value: Value) -> str:
    return f"'{type_name(value.python_type())}'"


def _by_methods(
    tr: Tracer, op: str, left: Value, right: Value, forward: str, reflected: str, symbol: str
) -> Value:
    """The special-method protocol of binary operators (Python data model, 3.3.8)."""
    if op == "%" and isinstance(left, ConstantValue) and isinstance(left.value, str):
        if isinstance(right, ObjectValue) and isinstance(right.base, TupleValue):
            return _containers(tr, op, operator.mod, left, right.base, symbol)
    known_left, a = to_constant(tr, left)
    known_right, b = to_constant(tr, right)
    if (
        known_left
        and known_right
        and _computes_in_c(tr, left, forward)
        and _computes_in_c(tr, right, reflected)
    ):
        # Members of enums that are strings or numbers.
        _check_size(tr, op, a, b)
        return fold(tr, BINARY[op][0], [left, right], {})
    if op == "*":
        for sequence, number, count in ((left, right, b), (right, left, a)):
            if isinstance(sequence, (SequenceValue, DequeValue)) and isinstance(count, int):
                if _computes_in_c(tr, number, forward) and _computes_in_c(tr, number, reflected):
                    return _containers(tr, op, BINARY[op][0], sequence, ConstantValue(int(count)))
    if isinstance(left, TensorValue) and _is_number(tr, right, b, reflected):
        return tr.graph_call(BINARY[op][0], [left, ConstantValue(b.value)], {})
    if isinstance(right, TensorValue) and _is_number(tr, left, a, forward):
        return tr.graph_call(BINARY[op][0], [ConstantValue(a.value), right], {})
    order = [(left, forward, right), (right, reflected, left)]
    left_type, right_type = left.python_type(), right.python_type()
    if left_type is right_type:
        order.pop()
    elif derives(right_type, left_type):
        # CPython's `method_is_overloaded`: a class below that inherits the method does not come first.
        if tr.class_attr(right_type, reflected) is not tr.class_attr(left_type, reflected):
            order.reverse()
    for receiver, method, argument in order:
        if isinstance(receiver, ObjectValue):
            special = receiver.special(tr, method)
            if special is not None:
                result = tr.call(special, [argument], {}).realize(tr)
                if not _is_not_implemented(result):
                    return result
            elif receiver.has_c_special(tr, method):
                if isinstance(receiver.base, DequeValue) or getattr(receiver.base, "cls", None) in (
                    collections.OrderedDict,
                    collections.defaultdict,
                ):
                    tr.graph_break(
                        "call", f"operator {op} of {receiver.describe()} makes another such object"
                    )
                if receiver.base is not None and not isinstance(argument, TensorValue):
                    other = argument.base if isinstance(argument, ObjectValue) and argument.base else argument
                    pair = (receiver.base, other) if method == forward else (other, receiver.base)
                    return binary(tr, op, *pair)
                tr.graph_break("call", f"{method} of {receiver.describe()} is served by C code")
        elif isinstance(receiver, TensorValue):
            tr.graph_break("call", f"operator {op} of a tensor and {argument.describe()}")
        elif not isinstance(receiver, ConstantValue):
            tr.graph_break("call", f"operator {op} of {left.describe()} and {right.describe()}")
    return _unsupported(tr, symbol, left, right)


def shown_mapping(tr: Tracer, value: Value) -> Value:
    """What an operator takes for a value: of a mapping proxy the mapping."""
    if is_untouched_number(value):
        return value
    value = value.realize(tr)
    return value.mapping.realize(tr) if isinstance(value, MappingProxyValue) else value


def _containers(
    tr: Tracer, op: str, fn: Callable[[Any, Any], Any], left: Value, right: Value, symbol: str = ""
) -> Value:
    if isinstance(left, SequenceValue) and isinstance(right, SequenceValue) and op == "+":
        same = isinstance(left, ListValue) is isinstance(right, ListValue)
        if same:
            items = drain(tr, left) + drain(tr, right)
            if isinstance(left, TupleValue) and isinstance(right, TupleValue):
                for one, other in ((left, right), (right, left)):  # CPython: tupleconcat
                    if not one.items and other.is_exact():
                        return other
                size = left.cls.__name__ == "Size" or right.cls.__name__ == "Size"
                if size and left.cls is not right.cls:
                    known_left, a = to_constant(tr, left)
                    known_right, b = to_constant(tr, right)
                    if known_left and known_right:
                        return from_plain(tr, a + b)
                return TupleValue(items, cls=left.cls if left.cls is right.cls else tuple)
            return left.make(items)
    if op == "*":
        for sequence, count in ((left, right), (right, left)):
            if isinstance(sequence, SequenceValue) and isinstance(count, ConstantValue):
                if isinstance(count.value, int):
                    if sequence.length(tr) * count.value > _MAX_FOLDED:
                        tr.graph_break("call", "a sequence too long to build while tracing")
                    if isinstance(sequence, TupleValue) and sequence.is_exact() and count.value == 1:
                        return sequence
                    return sequence.make(drain(tr, sequence) * count.value)
    if isinstance(left, TupleValue) or isinstance(right, TupleValue):
        known_left, a = to_constant(tr, left)
        known_right, b = to_constant(tr, right)
        if known_left and known_right:
            return fold(tr, fn, [ConstantValue(a), ConstantValue(b)], {})
    if op in ("|", "&", "-", "^"):
        # A view takes any iterable on its right.
        if is_set_like(left) and (is_set_like(right) or isinstance(left, DictView)):
            return set_combine(tr, op, left, right)
    if isinstance(left, DictValue) and isinstance(right, DictValue) and op == "|":
        if right.cls is not left.cls and issubclass(right.cls, left.cls):
            tr.graph_break("call", f"operator | of {left.describe()} and {right.describe()}")
        merged = left.plain_copy(tr)
        merged.update_from(tr, right)
        return merged
    if isinstance(left, DequeValue) or (isinstance(right, DequeValue) and op == "*"):
        return _deque(tr, op, left, right)
    if op == "|" and _is_union_part(tr, left) and _is_union_part(tr, right):
        return UnionValue([left, right])
    if isinstance(left, CallableValue) or isinstance(right, CallableValue):
        tr.graph_break("call", f"operator {op} of {left.describe()} and {right.describe()}")
    return _unsupported(tr, symbol or op, left, right)


def format_percent(tr: Tracer, text: str, right: Value) -> Value:
    """`text % right`."""
    if isinstance(right, ObjectValue) and isinstance(right.base, TupleValue):
        right = right.base  # it is taken apart
    return call_now(
        tr, lambda operand: text % operand, [right], {}, lambda tr, arg: (True, as_shown(tr, arg))
    )


def _deque(tr: Tracer, op: str, left: Value, right: Value) -> DequeValue:
    """`deque + deque`, `deque * number`, `number * deque`."""
    if op == "+" and isinstance(left, DequeValue) and isinstance(right, DequeValue):
        return DequeValue(left.items + right.items, left.maxlen)
    for deque, count in ((left, right), (right, left)):
        if op == "*" and isinstance(deque, DequeValue) and isinstance(count, ConstantValue):
            if isinstance(count.value, int) and len(deque.items) * count.value <= _MAX_FOLDED:
                return DequeValue(deque.items * count.value, deque.maxlen)
    # The native operation words the TypeError.
    tr.graph_break("exception", f"operator {op} of {left.describe()} and {right.describe()}")


def _is_union_part(tr: Tracer, value: Value) -> bool:
    """Whether `|` of this value and another such makes a union type (None and None never come here)."""
    if isinstance(value, ClassValue):
        return getattr(tr.class_attr(type(value.fn), "__or__"), "__objclass__", None) is type
    return isinstance(value, UnionValue | GenericAliasValue) or (
        isinstance(value, ConstantValue) and value.value is None
    )


def unary(tr: Tracer, op: str, value: Value) -> Value:
    """`-value`, `+value`, `~value`."""
    if op != "~" and tr.is_changing(value):
        deferred = value if op == "+" else defer_negative(tr, value)
        if deferred is not None:
            return deferred
    value = value.realize(tr)
    fn, method = UNARY[op]
    if op == "~" and INVERTING_BOOL_WARNS and isinstance(value, ConstantValue) and type(value.value) is bool:
        tr.graph_break("call", "~ of a bool warns")
    if isinstance(value, TensorValue):
        _check_methods(tr, (value, method))
        return tr.graph_call(fn, [value], {})
    if isinstance(value, ConstantValue):
        return fold(tr, fn, [value], {})
    if isinstance(value, ObjectValue):
        special = value.special(tr, method)
        if special is not None:
            return tr.call(special, [], {})
        value.c_special(tr, method)
    tr.throw(TypeError, f"bad operand type for unary {op}: {_name(value)}")


def compare(tr: Tracer, op: str, left: Value, right: Value) -> Value:
    """Rich comparison."""
    known = tr.compare_symbols(COMPARE[op][0], left, right)
    if known is not None:
        return ConstantValue(known)
    left, right = _operands(tr, left, right)
    left, right = shown_mapping(tr, left), shown_mapping(tr, right)
    fn, forward, reflected = COMPARE[op]
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        if type(left.value) is tuple:
            check_nan(tr, left.value, right.value)
        return fold(tr, fn, [left, right], {})
    if isinstance(left, IdentityNumber) and isinstance(right, IdentityNumber) and op in ("==", "!="):
        if left.owner is None or right.owner is None:
            return ConstantValue((left.owner is right.owner) is (op == "=="))
        return ConstantValue(is_same(tr, left.owner, right.owner) is (op == "=="))
    _check_metaclass(tr, left, forward)
    _check_metaclass(tr, right, reflected)
    if isinstance(left, ObjectValue) or isinstance(right, ObjectValue):
        return _compare_by_methods(tr, op, left, right, forward, reflected)
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        _check_methods(tr, (left, forward), (right, reflected))
        return tr.graph_call(fn, [left, right], {})
    if isinstance(left, SequenceValue) and isinstance(right, SequenceValue):
        if isinstance(left, ListValue) is isinstance(right, ListValue):
            return _compare_sequences(tr, op, left, right)
    elif isinstance(left, DequeValue) and isinstance(right, DequeValue):
        return _compare_sequences(tr, op, ListValue(list(left.items)), ListValue(list(right.items)))
    elif isinstance(left, SliceValue) and isinstance(right, SliceValue):
        # slice_richcompare in CPython's sliceobject.c
        return _compare_sequences(tr, op, TupleValue(left.parts), TupleValue(right.parts))
    elif is_set_like(left) and is_set_like(right):
        return ConstantValue(fn(set(operand(tr, left)[0]), set(operand(tr, right)[0])))
    elif isinstance(left, DictValue) and isinstance(right, DictValue) and op in ("==", "!="):
        return ConstantValue(_dicts_equal(tr, left, right) is (op == "=="))
    elif _is_bound_in_c(left) and _is_bound_in_c(right) and op in ("==", "!="):
        return ConstantValue(fn(left.fn, right.fn))  # type: ignore[attr-defined]
    elif _by_identity(left) and _by_identity(right) and op in ("==", "!="):
        return ConstantValue(is_same(tr, left, right) is (op == "=="))
    if op in ("==", "!="):
        known_left, a = to_constant(tr, left)
        known_right, b = to_constant(tr, right)
        if known_left and known_right:
            check_nan(tr, a, b)
            return ConstantValue(fn(a, b))
        if left.python_type() is not right.python_type():
            return ConstantValue(op == "!=")
        tr.graph_break("call", f"{left.describe()} {op} {right.describe()}")
    tr.throw(TypeError, f"'{op}' not supported between instances of {_name(left)} and {_name(right)}")


def _computes_in_c(tr: Tracer, value: Value, method: str) -> bool:
    """Whether an arithmetic method is missing or a builtin type's own."""
    return not isinstance(value, ObjectValue) or value.special(tr, method) is None


def _is_number(tr: Tracer, value: Value, obj: Any, method: str) -> bool:
    """Whether a value is a member of an enum of numbers: a tensor takes it as the number that it is."""
    if not issubclass(type(obj), enum.Enum) or not issubclass(type(obj), (int, float)):
        return False
    return type(obj.value) in (int, float) and _computes_in_c(tr, value, method)


def _check_metaclass(tr: Tracer, value: Value, method: str) -> None:
    """Break where a metaclass has a comparison of its own."""
    if isinstance(value, ClassValue) and type(value.fn) is not type:
        raw = tr.class_attr(type(value.fn), method)
        if getattr(raw, "__objclass__", None) not in (object, type):
            tr.graph_break("call", f"{method} of {value.describe()} comes from its metaclass")


def _compares_in_c(tr: Tracer, value: Value, method: str) -> bool:
    """Whether a comparison method is a builtin type's own."""
    return not isinstance(value, ObjectValue) or value.special(tr, method) is None


def _is_bound_in_c(value: Value) -> bool:
    """Whether the object is a bound method of C code: equal to another one of the same object."""
    return isinstance(value, CallableValue) and isinstance(
        value.fn, (types.BuiltinMethodType, types.MethodWrapperType)
    )


def _by_identity(value: Value) -> bool:
    """Whether == of the object is identity."""
    if isinstance(value, CallableValue) and not isinstance(value, ClassValue):
        kind: Any = type(value.fn)
        return kind.__eq__ is object.__eq__ or module_of(kind).startswith("torch")
    return isinstance(
        value, (FunctionValue, NestedFunctionValue, CallableValue, ModuleObjectValue, GeneratorValue)
    )


def _dicts_equal(tr: Tracer, left: DictValue, right: DictValue) -> bool:
    left.guard_keys(tr)
    right.guard_keys(tr)
    if len(left.items) != len(right.items):
        return False
    ordered = collections.OrderedDict
    if (
        issubclass(left.cls, ordered)
        and issubclass(right.cls, ordered)
        and list(left.items) != list(right.items)
    ):
        return False
    for known, (_, value) in left.items.items():
        row = right.items.get(known)
        if row is None or not equals(tr, value, row[1]):
            return False
    return True


def _compare_sequences(tr: Tracer, op: str, left: SequenceValue, right: SequenceValue) -> Value:
    left.guard_length(tr)
    right.guard_length(tr)
    mine, other = left.items, right.items
    if op in ("==", "!=") and len(mine) != len(other):
        return ConstantValue(op == "!=")
    # Not of copies: a comparison may change the sequences.
    for position, (a, b) in enumerate(zip(mine, other, strict=False)):
        if not equals(tr, a, b):
            if position >= min(len(mine), len(other)):
                break  # the comparison has made one of them shorter, and their lengths decide
            if op in ("==", "!="):
                return ConstantValue(op == "!=")
            return compare(tr, op, mine[position], other[position])
    return ConstantValue(COMPARE[op][0](len(mine), len(other)))


def _compare_by_methods(
    tr: Tracer, op: str, left: Value, right: Value, forward: str, reflected: str
) -> Value:
    known_left, _a = to_constant(tr, left)
    known_right, _b = to_constant(tr, right)
    if (
        known_left
        and known_right
        and _compares_in_c(tr, left, forward)
        and _compares_in_c(tr, right, reflected)
    ):
        # Members of enums that are strings or numbers.
        return fold(tr, COMPARE[op][0], [left, right], {})
    order = [(left, forward, right), (right, reflected, left)]
    left_type, right_type = left.python_type(), right.python_type()
    if left_type is not right_type and derives(right_type, left_type):
        order.reverse()
    for receiver, method, argument in order:
        if not isinstance(receiver, ObjectValue):
            if isinstance(receiver, TensorValue):
                tr.graph_break("call", f"a tensor is compared with {argument.describe()}")
            base = getattr(argument, "base", None)
            if isinstance(receiver, BuiltinContainer) and base is not None:
                return (
                    compare(tr, op, receiver, base) if receiver is left else compare(tr, op, base, receiver)
                )
            continue
        special = receiver.special(tr, method)
        if special is None and method == "__ne__" and tr.class_attr(receiver.cls, method) is object.__ne__:
            # That of a builtin base compares by itself.  object.__ne__ inverts __eq__ unless that is NotImplemented.
            inverse = receiver.special(tr, "__eq__")
            if inverse is not None:
                result = tr.call(inverse, [argument], {}).realize(tr)
                if not _is_not_implemented(result):
                    return ConstantValue(not result.truth(tr))
                continue
        if special is not None:
            result = tr.call(special, [argument], {}).realize(tr)
            if not _is_not_implemented(result):
                return result
            continue
        raw = tr.class_attr(receiver.cls, method)
        if getattr(raw, "__objclass__", object) is object:
            continue
        if raw is vars(types.SimpleNamespace).get(method) and op in ("==", "!="):
            if argument.python_type() is types.SimpleNamespace:
                mine, theirs = (InstanceDictValue(each).snapshot(tr) for each in (receiver, argument))  # type: ignore[arg-type]
                return compare(tr, op, mine, theirs)
            continue
        if receiver.base is not None:
            other = argument.base if isinstance(argument, ObjectValue) and argument.base else argument
            pair = (receiver.base, other) if receiver is left else (other, receiver.base)
            return compare(tr, op, *pair)
        tr.graph_break("call", f"{method} of {receiver.describe()} is served by C code")
    if op in ("==", "!="):
        return ConstantValue(is_same(tr, left, right) is (op == "=="))
    tr.throw(TypeError, f"'{op}' not supported between instances of {_name(left)} and {_name(right)}")


_SINGLETONS = (type(None), bool, type(Ellipsis), type(NotImplemented))


def is_same(tr: Tracer, left: Value, right: Value) -> bool:
    """`left is right`."""
    for value, other in ((left, right), (right, left)):
        if isinstance(value, LazyValue) and value.actual is None:
            plain = other.realize(tr) if not isinstance(other, LazyValue) else other
            if isinstance(plain, ConstantValue) and plain.value is None:
                if value.obj is None:
                    return value.realize(tr) is value.realize(tr)
                if value.source is not None:
                    tr.guard(value.source, Check.NOT_NONE)
                return False
    left, right = left.realize(tr), right.realize(tr)
    if left is right:
        return True
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        if type(left.value) is not type(right.value):
            return False
        if isinstance(left.value, _SINGLETONS) or type(left.value).__module__ == "torch":
            return left.value is right.value
        check_nan(tr, left.value, right.value)
        if left.value != right.value:
            return False
        tr.graph_break("call", f"identity of the constant {left.describe()}")
    if left.python_type() is right.python_type() and left.python_type() in (tuple, frozenset):
        _check_distinct(tr, left, right)
    if isinstance(left, ConstantValue) or isinstance(right, ConstantValue):
        return False
    if left.python_type() is right.python_type() is weakref.ref and (
        left.source is None or right.source is None
    ):
        tr.graph_break("call", "an object has one weak reference without a callback: is this one it?")
    if isinstance(left, FunctionValue) and isinstance(right, FunctionValue):
        tr.guard(left.source, Check.IDENTITY, left.fn)
        tr.guard(right.source, Check.IDENTITY, right.fn)
        return left.fn is right.fn
    if isinstance(left, CallableValue) and isinstance(right, CallableValue):
        return left.fn is right.fn
    if left.source is not None and right.source is not None:
        if left.python_type() is right.python_type():
            tr.guard(None, Check.DISTINCT, (left.source, right.source))
    return False


def _check_distinct(tr: Tracer, left: Value, right: Value) -> None:
    """Break unless two immutable containers are different objects for sure.

    There is one empty tuple, and what stands in the program as a constant may be one object in several places.
    """
    if left.length(tr) != right.length(tr):
        return
    if left.length(tr) == 0 or left.source is None or right.source is None:
        tr.graph_break("call", f"identity of {left.describe()} and {right.describe()}")


def equals(tr: Tracer, left: Value, right: Value) -> bool:
    """What containers ask: identity first, then ==."""
    known = tr.compare_symbols(operator.eq, left, right)
    if known is not None:
        return known
    left, right = left.realize(tr), right.realize(tr)
    if left is right:
        return True
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        check_nan(tr, left.value, right.value)
        return bool(left.value == right.value)
    return compare(tr, "==", left, right).realize(tr).truth(tr)


def truth(tr: Tracer, value: Value) -> bool:
    """`bool(value)`."""
    known = tr.compare_symbols(operator.ne, value, ConstantValue(0))
    if known is not None:
        return known
    return value.realize(tr).truth(tr)
