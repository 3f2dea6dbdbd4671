"""Building and unpacking containers."""

from __future__ import annotations

from typing import Any

from framehook.values.base import ConstantValue, ObservedException, to_constant
from framehook.values.mappings import DictValue, SetValue, hash_key
from framehook.values.objects import MISSING, ObjectValue
from framehook.values.sequences import ListValue, SequenceValue, TupleValue, drain


def _build_tuple(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(TupleValue(frame.pop_many(inst.arg)))


def _build_list(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ListValue(frame.pop_many(inst.arg)))


def _build_set(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(SetValue({hash_key(tr, item): item for item in frame.pop_many(inst.arg)}))


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
        iterator = _iterator(tr, value)
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
    items = spread(tr, frame.pop())
    if len(items) < before + after:
        tr.throw(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    tail = items[len(items) - after :] if after else []
    middle = items[before : len(items) - after]
    frame.stack.extend(reversed([*items[:before], ListValue(middle), *tail]))


def _get_len(tr: Any, frame: Any, inst: Any) -> None:
    frame.push(ConstantValue(frame.stack[-1].realize(tr).length(tr)))


def _match_sequence(tr: Any, frame: Any, inst: Any) -> None:
    subject = frame.stack[-1].realize(tr)
    if not isinstance(subject, (ListValue, TupleValue, DictValue, SetValue, ConstantValue)):
        tr.graph_break("opcode", f"matching {subject.describe()} against a sequence pattern")
    frame.push(ConstantValue(isinstance(subject, (ListValue, TupleValue))))


def _match_mapping(tr: Any, frame: Any, inst: Any) -> None:
    subject = frame.stack[-1].realize(tr)
    if not isinstance(subject, (ListValue, TupleValue, DictValue, SetValue, ConstantValue)):
        tr.graph_break("opcode", f"matching {subject.describe()} against a mapping pattern")
    frame.push(ConstantValue(isinstance(subject, DictValue)))


def _match_keys(tr: Any, frame: Any, inst: Any) -> None:
    keys, subject = frame.stack[-1], frame.stack[-2].realize(tr)
    found = []
    for key in drain(tr, keys):
        value = subject.lookup(tr, key)
        if value is None:
            frame.push(ConstantValue(None))
            return
        found.append(value)
    frame.push(TupleValue(found))


def _match_class(tr: Any, frame: Any, inst: Any) -> None:
    names, cls, subject = frame.pop(), frame.pop().realize(tr), frame.pop()
    known, keyword_names = to_constant(tr, names)
    is_instance = tr.truth(tr.call(tr.constant_object(isinstance), [subject, cls], {}))
    if not is_instance:
        frame.push(ConstantValue(None))
        return
    if inst.arg or not known:
        own = getattr(cls.fn, "__match_args__", None)
        if own is None and cls.fn in (int, float, str, bytes, bool, list, tuple, dict, set, frozenset):
            if inst.arg == 1 and not keyword_names:
                frame.push(TupleValue([subject]))
                return
        if not isinstance(own, tuple) or len(own) < inst.arg:
            tr.graph_break("opcode", "a class pattern with positional parts is not traced")
        tr.class_attr(cls.fn, "__match_args__")
        assert own is not None
        attributes = [*own[: inst.arg], *keyword_names]
    else:
        attributes = list(keyword_names)
    subject = subject.realize(tr)
    frame.push(TupleValue([subject.get_attr(tr, name) for name in attributes]))


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
    "MATCH_SEQUENCE": _match_sequence,
    "MATCH_MAPPING": _match_mapping,
    "MATCH_KEYS": _match_keys,
    "MATCH_CLASS": _match_class,
}
