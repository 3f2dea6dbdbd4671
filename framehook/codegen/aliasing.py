"""Guards on aliasing: where the graph or the frame changes things, which objects are the same must not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from framehook import _C
from framehook.guards.guard import Check
from framehook.source import AttrSource, MemberSource, Source
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.values.base import Value
from framehook.values.classes import ModuleObjectValue
from framehook.values.deques import DequeValue
from framehook.values.functions import CellValue, FunctionValue
from framehook.values.mappings import DictValue
from framehook.values.objects import ObjectValue, instance_dict
from framehook.values.sequences import ListValue
from framehook.values.sets import SetValue

#: The dicts in which `nn.Module` keeps its parts: no object has one of them as its `__dict__`.
_MODULE_TABLES = frozenset(vars(torch.nn.Module()))


def guard_aliasing(capture: Capture, mutated: Sequence[Any]) -> None:
    """Guard what the trace took for granted about objects that it changes.

    Args:
        capture: a finished trace.
        mutated: the graph inputs that the graph changes in place.

    Raises:
        Unsupported: when two values of the trace stand for the same memory.
    """
    guards = capture.guards
    if mutated and len(capture.inputs) > 1:
        _guard_overlaps(capture, mutated)
        everything = tuple(each.source for each in capture.inputs)
        guards.add(None, Check.DISJOINT, (tuple(each.source for each in mutated), everything))
        guards.add(None, Check.DISTINCT, everything)
    changed: dict[type, list[Source]] = {}
    for effect in capture.effects:
        if (
            isinstance(effect, (ListValue, DictValue, SetValue, DequeValue, ObjectValue, CellValue))
            and effect.source
        ):
            changed.setdefault(effect.python_type(), []).append(effect.source)
    _guard_namespaces(capture, changed)
    if not changed:
        return
    groups: dict[type, list[Source]] = {}
    for _, value in capture.known.values():
        cls = value.python_type()
        if cls in changed and value.source is not None:
            groups.setdefault(cls, []).append(value.source)
    for sources in groups.values():
        if len(sources) > 1:
            guards.add(None, Check.DISTINCT, tuple(sources))
    _guard_shared_dicts(capture, changed)
    _guard_instance_dicts(capture, changed)


def _guard_overlaps(capture: Capture, mutated: Sequence[Any]) -> None:
    """Inputs that overlap one that the graph changes have to overlap it just so at every call."""
    for changed in mutated:
        for other in capture.inputs:
            if other is changed or (other in mutated and other.name < changed.name):
                continue
            if _C.tensors_overlap(changed.example, other.example):
                for each in (changed, other):
                    for size in each.fake.size():
                        int(size)  # how they overlap depends on it: no symbol stays one
                distance = _C.tensors_distance(changed.example, other.example)
                capture.guards.add(None, Check.OVERLAPS, (changed.source, other.source, distance))


def _guard_namespaces(capture: Capture, changed: dict[type, list[Source]]) -> None:
    """The globals of a function may be what a module or a dict of the frame is about."""
    views = capture.tracer.views
    for view in views.values():
        if view.changed:
            others = [
                value.source.instance_dict() if isinstance(value, ModuleObjectValue) else value.source
                for obj, value in capture.known.values()
                if (isinstance(value, ModuleObjectValue) and vars(obj) is not view.namespace)
                or (type(value) is DictValue and value.cls is dict and value.source is not None)
            ]
            others.extend(each.source for each in views.values() if each is not view)
            for other in others:
                capture.guards.add(None, Check.DISTINCT, (view.source, other))
    for source in changed.get(dict, ()):
        if isinstance(source, AttrSource) and source.key in _MODULE_TABLES:
            continue
        for view in views.values():
            capture.guards.add(None, Check.DISTINCT, (source, view.source))
        for owner in capture.tracer.namespaces.values():
            if isinstance(owner, (FunctionValue, ModuleObjectValue)) and not _is_place_of(source, owner):
                capture.guards.add(None, Check.DISTINCT, (source, owner.source.instance_dict()))


def _is_place_of(source: Source, owner: Value) -> bool:
    return isinstance(source, MemberSource) and source.key == "__dict__" and source.base is owner.source


def _guard_shared_dicts(capture: Capture, changed: dict[type, list[Source]]) -> None:
    """Two objects may come to have one `__dict__`."""
    owners = {source for cls, sources in changed.items() if cls.__dictoffset__ for source in sources}
    if not owners:
        return
    others = [
        value.source
        for value in capture.tracer.namespaces.values()
        if isinstance(value, ObjectValue)
        and value.source is not None
        and (value.cls in changed or not issubclass(value.cls, torch.nn.Module))
    ]
    sources = tuple(source.instance_dict() for source in dict.fromkeys((*owners, *others)))
    if len(sources) > 1:
        capture.guards.add(None, Check.DISTINCT, sources)


def _guard_instance_dicts(capture: Capture, changed: dict[type, list[Source]]) -> None:
    """A dict that the frame has may be the `__dict__` of an object that it has."""
    dicts: dict[int, Source] = {}
    objects: dict[int, Source] = {}
    for obj, value in capture.known.values():
        if value.source is None:
            continue
        if type(value) is DictValue and value.cls is dict:
            if not (isinstance(value.source, AttrSource) and value.source.key in _MODULE_TABLES):
                dicts[id(obj)] = value.source
        elif isinstance(value, ObjectValue) and (namespace := instance_dict(obj)) is not None:
            objects[id(namespace)] = value.source
    owners = list(objects.values())
    if dict not in changed:
        owners = [source for cls, sources in changed.items() if cls.__dictoffset__ for source in sources]
    if not dicts or not owners:
        return
    if dicts.keys() & objects.keys():
        place = (capture.frame.where(),)
        raise Unsupported(
            GraphBreak("container", "an object and its __dict__ are changed side by side", "", place)
        )
    capture.guards.add(
        None, Check.DISTINCT, (*dicts.values(), *(source.instance_dict() for source in owners))
    )
