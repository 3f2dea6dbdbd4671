"""Whether somebody sees when an object goes: such objects have to go where the program lets go of them."""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from framehook import _C
from framehook.values.base import LazyValue, Tracer, Value, defines
from framehook.values.mappings import DictValue
from framehook.values.real_classes import derives
from framehook.values.sequences import SequenceValue

#: Objects that live as long as the program does, or to which torch and framehook keep weak references of their own.
KEPT_ELSEWHERE = (
    *(torch.Tensor, torch.nn.Module, type, types.FunctionType, types.ModuleType, types.CodeType),
    *(types.BuiltinFunctionType, types.MethodType),
)
_SILENT = frozenset({int, float, bool, str, bytes, complex, type(None), range, slice})
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
#: Objects that are looked at for one answer: the content of more is taken to be plain data.
_MOST = 10_000
_DEEPEST = 8


def _is_watched(obj: object) -> bool:
    """Whether a weak reference tells somebody when the object goes."""
    if not type(obj).__weakrefoffset__:
        return False
    return any(_tells(reference, obj) for reference in weakref.getweakrefs(obj))


def _tells(reference: Any, obj: object) -> bool:
    """Whether a weak reference or proxy of an object has a callback."""
    if type(reference) in weakref.ProxyTypes:
        # A proxy shows nothing of itself.  The one that all share that have no callback is given out again.
        return weakref.proxy(obj) is not reference
    return reference.__callback__ is not None


def has_seen_end(obj: object) -> bool:
    """Whether code of the program runs when the object goes, or something that only it may hold."""
    left = _MOST
    level: list[Any] = [obj]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for each in level:
            cls = type(each)
            if cls in _SILENT or derives(cls, *KEPT_ELSEWHERE):
                continue
            if defines(cls, "__del__") or _is_watched(each):
                return True
            if derives(cls, *_SUSPENDED):
                if getattr(each, "gi_suspended", True):
                    return True  # it is closed: its handlers run
                continue
            left -= 1
            if left < 0:
                return False
            below.extend(_content(each))
        level = below
    return False


def goes_unseen(value: Value) -> bool:
    """Whether nobody sees when an object of this kind goes: a tensor, a number, or what is put together of them."""
    if isinstance(value, LazyValue):
        return type(value.obj) in _SILENT or derives(type(value.obj), torch.Tensor)
    if isinstance(value, SequenceValue):
        return value.source is None and all(map(goes_unseen, value.items))
    if isinstance(value, DictValue):
        return value.source is None and all(goes_unseen(item) for _, item in value.items.values())
    return value.python_type() in _SILENT or derives(value.python_type(), torch.Tensor)


def check_let_go(tr: Tracer, *values: Value | None) -> None:
    """Break the graph where these values may go, and somebody sees that."""
    for value in values:
        if isinstance(value, LazyValue):
            check_object_let_go(tr, value.obj)
        elif isinstance(value, SequenceValue) and value.source is None:
            check_let_go(tr, *(item for item in value.items if isinstance(item, LazyValue)))


def check_object_let_go(tr: Tracer, obj: object) -> None:
    """The same for a real object."""
    if id(obj) in tr.silent:
        return
    if has_seen_end(obj):
        name = type(obj).__qualname__
        tr.graph_break(
            "finalizer", f"somebody sees when an object of class {name}, or what it holds, is let go"
        )
    tr.silent.add(id(obj))


def _content(obj: Any) -> Iterable[Any]:
    cls = type(obj)
    if derives(cls, dict):
        yield from dict.values(obj)
    elif derives(cls, list, tuple, set, frozenset, deque):
        base: Any = next(each for each in (list, tuple, set, frozenset, deque) if derives(cls, each))
        yield from base.__iter__(obj)
    yield from (_C.instance_dict(obj) or {}).values()


__all__ = ["KEPT_ELSEWHERE", "check_let_go", "check_object_let_go", "has_seen_end"]
