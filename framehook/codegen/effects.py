"""Replaying side effects: what the frame changed outside of itself, made real after the graph has run."""

from __future__ import annotations

import collections
import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

from framehook.codegen.emitter import (
    Emitter,
    NotRebuildable,
    has_plain_setattr,
    store_attribute,
    store_in_namespace,
)
from framehook.source import GlobalsSource
from framehook.trace.classes import ClassStores
from framehook.values.base import ConstantValue, LazyValue, Value
from framehook.values.deques import DequeValue
from framehook.values.functions import CellValue, FunctionValue, GlobalsView
from framehook.values.mappings import DictValue
from framehook.values.objects import ObjectValue, is_data_descriptor, is_slot
from framehook.values.sequences import ListValue
from framehook.values.sets import SetValue


def replay(e: Emitter, effect: Any) -> None:
    """Emit what brings one changed object into its final state."""
    replayer = _REPLAYERS.get(type(effect))
    if replayer is None:
        raise NotRebuildable(f"a change of {effect!r} cannot be replayed")
    replayer(e, effect)


def _owner(e: Emitter, value: Value) -> Callable[[], None]:
    assert value.source is not None
    return functools.partial(e.emit_source, value.source)


def _list(e: Emitter, value: ListValue) -> None:
    if value.appended:
        e.call(list.extend, _owner(e, value), lambda: e.emit_items(value.items[-value.appended :]))
        e.builder.pop_top()
        return
    if value.began_empty and value.was_filled and not value.items:
        e.call(list.append, _owner(e, value), e.const(None))
        e.builder.pop_top()
    e.call(
        list.__setitem__,
        _owner(e, value),
        e.const(slice(None)),
        lambda: e.emit_items(value.items),
    )
    e.builder.pop_top()


def _is_original(value: DictValue, key: Any, item: Value) -> bool:
    return isinstance(item, LazyValue) and value.source is not None and item.source is value.source.item(key)


def _dict(e: Emitter, value: DictValue) -> None:
    assert value.original_keys is not None
    owner = _owner(e, value)
    cls: Any = value.cls
    # What was taken out and put in again comes behind these, unless it was moved to the front.
    kept = [key for key in value.original_keys if key in value.items and key not in value.gone]
    if list(value.items)[: len(kept)] == kept:
        # Only what has gone is deleted, as it was done: an iterator over the dict must see it as the program left it.
        original = set(value.original_keys)
        gone = {key: how for key, how in value.gone.items() if key in original}
        if "clear" in gone.values():
            e.call(cls.clear, owner)
            e.builder.pop_top()
            gone = {}
        for key, how in gone.items():
            if how == "popitem":
                e.call(dict.popitem, owner)
            else:
                e.call(cls.__delitem__, owner, e.const(key))
            e.builder.pop_top()
    else:
        e.call(cls.clear, owner)
        e.builder.pop_top()
        kept = []
    untouched = set(kept)
    for known, (key, item) in value.items.items():
        if known in untouched and _is_original(value, known, item):
            continue
        e.call(cls.__setitem__, owner, functools.partial(e.emit, key), functools.partial(e.emit, item))
        e.builder.pop_top()


def _set(e: Emitter, value: SetValue) -> None:
    owner = _owner(e, value)
    gone: list[Value] = [ConstantValue(key) for key in value.original if key not in value.found]
    new = [item for key, item in value.found.items() if key not in value.original]
    for change, items in ((set.difference_update, gone), (set.update, new)):
        if items:
            e.call(change, owner, functools.partial(e.emit_items, items))
            e.builder.pop_top()


def _store_elements(deque: collections.deque[Any], elements: Iterable[Any]) -> None:
    for index, element in enumerate(elements):
        if collections.deque.__getitem__(deque, index) is not element:
            collections.deque.__setitem__(deque, index, element)


def _deque(e: Emitter, value: DequeValue) -> None:
    owner = _owner(e, value)
    if not value.version:
        # Elements in the places of others: iterators over the deque go on.
        e.call(_store_elements, owner, functools.partial(e.emit_items, value.items))
        e.builder.pop_top()
        return
    # The new elements come together before the old ones go.
    e.emit_items(value.items)
    items = e.keep_top()
    e.builder.pop_top()
    e.call(collections.deque.clear, owner)
    e.builder.pop_top()
    e.call(collections.deque.extend, owner, functools.partial(e.builder.load_fast, items))
    e.builder.pop_top()


def _load_namespace(e: Emitter, owner: Callable[[], None]) -> None:
    owner()
    e.builder.load_attr("__dict__")


def _object(e: Emitter, value: ObjectValue) -> None:
    owner = _owner(e, value)
    plain = has_plain_setattr(value.cls)
    for name, goes_first in value.stored.items():
        item = value.attrs.get(name)
        raw = inspect.getattr_static(value.cls, name, None)
        if raw is not None and is_data_descriptor(raw) and not isinstance(raw, types.MemberDescriptorType):
            # The frame stored past the descriptor, through `__dict__`.
            if goes_first:
                e.call(dict.pop, functools.partial(_load_namespace, e, owner), e.const(name))
                e.builder.pop_top()
            if item is not None:
                store_in_namespace(e, owner, name, item)
            continue
        if goes_first and (item is None or raw is None or not is_data_descriptor(raw)):
            if is_slot(value.cls, name):
                # It may have been empty at entry.
                store_attribute(e, owner, name, ConstantValue(None))
            e.call(object.__delattr__, owner, e.const(name))
            e.builder.pop_top()
        if item is None:
            continue
        if plain:
            e.emit(item)
            owner()
            e.builder.store_attr(name)
        else:
            store_attribute(e, owner, name, item)


def _cell(e: Emitter, value: CellValue) -> None:
    owner = _owner(e, value)
    if value.contents is None:
        owner()
        e.builder.emit("DELETE_ATTR", "cell_contents")
    else:
        e.emit(value.contents)
        owner()
        e.builder.store_attr("cell_contents")


def _function(e: Emitter, value: FunctionValue) -> None:
    owner = _owner(e, value)
    for name, item in value.attrs.items():
        if item is None:
            owner()
            e.builder.emit("DELETE_ATTR", name)
        else:
            e.emit(item)
            owner()
            e.builder.store_attr(name)


def _class(e: Emitter, stores: ClassStores) -> None:
    e.store_in_class(functools.partial(e.emit_source, stores.source), stores.values)


def _globals(e: Emitter, view: GlobalsView) -> None:
    is_own = isinstance(view.source, GlobalsSource)

    def namespace() -> None:
        if is_own:
            e.call(globals)
        else:
            e.emit_source(view.source)

    for name, item in view.stored.items():
        if item is None:
            e.call(dict.pop, namespace, e.const(name), e.const(None))
            e.builder.pop_top()
        else:
            e.emit(item)
            namespace()
            e.builder.load_const(name)
            e.builder.emit("STORE_SUBSCR")


_REPLAYERS: dict[type, Callable[[Emitter, Any], None]] = {
    ListValue: _list,
    DictValue: _dict,
    SetValue: _set,
    DequeValue: _deque,
    ObjectValue: _object,
    CellValue: _cell,
    FunctionValue: _function,
    ClassStores: _class,
    GlobalsView: _globals,
}
