"""Building and unpacking containers."""

from __future__ import annotations

import functools
from typing import Any

from framehook.guards.guard import Check
from framehook.trace.classes import is_mutable_class
from framehook.values.base import ConstantValue, ObservedException, to_constant
from framehook.values.classes import ClassValue
from framehook.values.mappings import DictValue, hash_key
from framehook.values.objects import MISSING, ObjectValue
from framehook.values.sequences import ListValue, SequenceValue, TupleValue, drain
from framehook.values.sets import SetValue
from framehook.values.wording import type_name


def _build_tuple(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(TupleValue(frame.pop_many(inst.arg)))


def _build_list(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ListValue(frame.pop_many(inst.arg)))


def _build_set(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(SetValue.of(tr, frame.pop_many(inst.arg)))


def _build_map(tr: Any, frame: Any, inst: Any) -> None:
    flat = frame.pop_many(2 * inst.arg)
    result = DictValue()
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        result.set_item(tr, key, value)
    frame.push(result)


def _build_const_key_map(tr: Any, frame: Any, inst: Any) -> None:
    keys = drain(tr, frame.pop())
    result = DictValue()
    for key, value in zip(keys, frame.pop_many(inst.arg), strict=True):
        result.set_item(tr, key, value)
    frame.push(result)


def _target(tr: Any, frame: Any, inst: Any) -> Any:
    """The container that is being filled; after a graph break it comes from outside."""
    return frame.stack[-inst.arg].realize(tr)


def _list_append(tr: Any, frame: Any, inst: Any) -> None:
    item = frame.pop()
    _target(tr, frame, inst).call_method(tr, "append", [item], {})


def _set_add(tr: Any, frame: Any, inst: Any) -> None:
    item = frame.pop()
    _target(tr, frame, inst).call_method(tr, "add", [item], {})


def _map_add(tr: Any, frame: Any, inst: Any) -> None:
    value, key = frame.pop(), frame.pop()
    _target(tr, frame, inst).set_item(tr, key, value)


def spread(tr: Any, value: Any) -> list[Any]:
    """All elements of an iterable where an instruction of its own words the error for what is none."""
    value = value.realize(tr)
    if isinstance(value, SequenceValue):
        return drain(tr, value)
    return drain(tr, _iterator(tr, value))


def _iterator(tr: Any, value: Any) -> Any:
    try:
        return tr.iterate(value)
    except ObservedException:
        tr.graph_break("exception", f"{value.describe()} is not iterable")


def _unpacked(tr: Any, value: Any) -> Any:
    """The iterator over what is unpacked."""
    cls = value.python_type()
    if (
        not isinstance(value, ObjectValue)
        and not hasattr(cls, "__iter__")
        and not hasattr(cls, "__getitem__")
    ):
        tr.throw(TypeError, f"cannot unpack non-iterable {type_name(cls)} object")
    return _iterator(tr, value)


def check_mapping(tr: Any, value: Any) -> None:
    """Break at what `**` does not take: the native instruction words the TypeError."""
    value = value.realize(tr)
    if isinstance(value, DictValue):
        return
    if isinstance(value, ObjectValue):
        is_mapping = tr.class_attr(value.cls, "keys") is not MISSING
    else:
        is_mapping = hasattr(value.python_type(), "keys")
    if not is_mapping:
        tr.graph_break("exception", f"{value.describe()} is no mapping")


def _list_extend(tr: Any, frame: Any, inst: Any) -> None:
    iterable = frame.pop()
    _target(tr, frame, inst).call_method(tr, "extend", [ListValue(spread(tr, iterable))], {})


def _set_update(tr: Any, frame: Any, inst: Any) -> None:
    iterable = frame.pop()
    _target(tr, frame, inst).call_method(tr, "update", [iterable], {})


def _dict_update(tr: Any, frame: Any, inst: Any) -> None:
    other = frame.pop()
    check_mapping(tr, other)
    _target(tr, frame, inst).update_from(tr, other)


def _dict_merge(tr: Any, frame: Any, inst: Any) -> None:
    other = frame.pop().realize(tr)
    target = _target(tr, frame, inst)
    mapping = DictValue()
    check_mapping(tr, other)
    mapping.update_from(tr, other)
    for known, (key, value) in mapping.items.items():
        if type(known) is not str or known in target.items:
            # The native call words the TypeError.
            tr.graph_break("exception", "keyword arguments are given twice or are not strings")
        target.set_item(tr, key, value)


def _unpack_sequence(tr: Any, frame: Any, inst: Any) -> None:
    value = frame.pop().realize(tr)
    items = unpack(tr, value, inst.arg)
    frame.stack.extend(reversed(items))


def unpack(tr: Any, value: Any, count: int) -> list[Any]:
    """The `count` elements of an iterable; ValueError if there are fewer or more."""
    if isinstance(value, SequenceValue):
        items = drain(tr, value)
    else:
        iterator = _unpacked(tr, value)
        items = []
        while len(items) <= count and (item := iterator.next(tr)) is not None:
            items.append(item)
    if len(items) < count:
        tr.throw(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    if len(items) > count:
        tr.throw(ValueError, f"too many values to unpack (expected {count})")
    return items


def _unpack_ex(tr: Any, frame: Any, inst: Any) -> None:
    before, after = inst.arg & 0xFF, inst.arg >> 8
    value = frame.pop().realize(tr)
    items = drain(tr, value if isinstance(value, SequenceValue) else _unpacked(tr, value))
    if len(items) < before + after:
        tr.throw(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    tail = items[len(items) - after :] if after else []
    middle = items[before : len(items) - after]
    frame.stack.extend(reversed([*items[:before], ListValue(middle), *tail]))


def _get_len(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ConstantValue(frame.stack[-1].realize(tr).length(tr)))


_SEQUENCE, _MAPPING, _MATCH_SELF = 1 << 5, 1 << 6, 1 << 22  # Py_TPFLAGS_..., all of them inherited


def _has_flag(cls: type, flag: int) -> bool:
    return bool(cls.__flags__ & flag)


def _lacks_flag(cls: type, flag: int) -> bool:
    return not cls.__flags__ & flag


def _match_flag(flag: int) -> Any:
    """Whether the class of the subject is a sequence, or a mapping, to patterns."""

    def handler(tr: Any, frame: Any, inst: Any) -> None:
        subject = frame.stack[-1].realize(tr)
        cls = subject.python_type()
        answer = _has_flag(cls, flag)
        if (
            isinstance(subject, ObjectValue)
            and is_mutable_class(cls)
            and not issubclass(cls, (list, tuple, dict))
        ):
            # It comes with being registered with an abstract class.
            check = _has_flag if answer else _lacks_flag
            tr.guard(None, Check.PREDICATE, (functools.partial(check, flag=flag), (tr.absolute(cls, None),)))
        frame.push(ConstantValue(answer))

    return handler


def _match_keys(tr: Any, frame: Any, inst: Any) -> None:
    keys, subject = drain(tr, frame.stack[-1]), frame.stack[-2].realize(tr)
    if len({hash_key(tr, key) for key in keys}) < len(keys):
        tr.graph_break("exception", "a mapping pattern checks a key twice")
    found = []
    for key in keys:
        if isinstance(subject, DictValue):
            value = subject.lookup(tr, key)
        else:
            absent = ObjectValue(object, None)
            value = tr.call(subject.get_attr(tr, "get"), [key, absent], {}).realize(tr)
            value = None if value is absent else value
        if value is None:
            frame.push(ConstantValue(None))
            return
        found.append(value)
    frame.push(TupleValue(found))


def _match_class(tr: Any, frame: Any, inst: Any) -> None:
    """Class patterns (CPython: match_class in ceval.c)."""
    names, cls, subject = frame.pop(), frame.pop().realize(tr), frame.pop()
    _, keyword_names = to_constant(tr, names)
    if not isinstance(cls, ClassValue):
        tr.throw(TypeError, "called match pattern must be a class")
    if not tr.truth(tr.call(tr.constant_object(isinstance), [subject, cls], {})):
        frame.push(ConstantValue(None))
        return
    subject = subject.realize(tr)
    attributes, found = list(keyword_names), []
    if inst.arg:
        own = _match_args(tr, cls)
        is_itself = own is None and _has_flag(cls.fn, _MATCH_SELF)
        allowed = 1 if is_itself else len(own or ())
        if allowed < inst.arg:
            places = f"{allowed} positional sub-pattern{'' if allowed == 1 else 's'}"
            tr.throw(TypeError, f"{type_name(cls.fn)}() accepts {places} ({inst.arg} given)")
        if is_itself:
            found.append(subject)
        else:
            attributes = [*(own or ())[: inst.arg], *attributes]
    for number, name in enumerate(attributes):
        if name in attributes[:number]:
            words = f"{type_name(cls.fn)}() got multiple sub-patterns for attribute {name!r}"
            tr.throw(TypeError, words)
        try:
            found.append(subject.get_attr(tr, name))
        except ObservedException as observed:
            if not issubclass(observed.value.python_type(), AttributeError):
                raise
            frame.push(ConstantValue(None))
            return
    frame.push(TupleValue(found))


def _match_args(tr: Any, cls: ClassValue) -> tuple[str, ...] | None:
    """`__match_args__` of a class, None without one."""
    try:
        value = cls.get_attr(tr, "__match_args__").realize(tr)
    except ObservedException as observed:
        if issubclass(observed.value.python_type(), AttributeError):
            return None
        raise
    known, own = to_constant(tr, value)
    if not known or type(own) is not tuple or not all(type(name) is str for name in own):
        tr.graph_break("exception", f"__match_args__ of {cls.describe()} are no names")
    return own


HANDLERS = {
    "BUILD_TUPLE": _build_tuple,
    "BUILD_LIST": _build_list,
    "BUILD_SET": _build_set,
    "BUILD_MAP": _build_map,
    "BUILD_CONST_KEY_MAP": _build_const_key_map,
    "LIST_APPEND": _list_append,
    "SET_ADD": _set_add,
    "MAP_ADD": _map_add,
    "LIST_EXTEND": _list_extend,
    "SET_UPDATE": _set_update,
    "DICT_UPDATE": _dict_update,
    "DICT_MERGE": _dict_merge,
    "UNPACK_SEQUENCE": _unpack_sequence,
    "UNPACK_EX": _unpack_ex,
    "GET_LEN": _get_len,
    "MATCH_SEQUENCE": _match_flag(_SEQUENCE),
    "MATCH_MAPPING": _match_flag(_MAPPING),
    "MATCH_KEYS": _match_keys,
    "MATCH_CLASS": _match_class,
}
