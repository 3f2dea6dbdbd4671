"""From the conditions that a trace collects to the guards of an entry: one guard for each object.

What is said of one object (its class, which names it has and lacks, plain values and empty containers among its
attributes, what a class or a namespace holds under the names that were looked up) is one guard with several
parts.  Conditions that follow from others are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framehook.guards.guard import Check, Guard, GuardSet
from framehook.source import (
    AttrSource,
    BuiltinsSource,
    ClassAttrSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    MemberSource,
    ObjectSource,
    Source,
)

#: Each of these says that there is something, and not None unless None is what it says.
_DECISIVE = frozenset({Check.TYPE, Check.IDENTITY, Check.EQUALS, Check.TENSOR})
#: Conditions about one value, which may belong to the object that holds it.
_OF_ONE_VALUE = frozenset({Check.TYPE, Check.LENGTH, Check.IDENTITY, Check.EQUALS, Check.NOT_NONE})
#: Parts of a function.
_FUNCTION_PARTS = frozenset({"__code__", "__defaults__", "__kwdefaults__", "__builtins__"})


def merged(guards: GuardSet) -> GuardSet:
    """Return an equivalent set with one guard for each object."""
    facts = _Facts(guards)
    groups: dict[Any, list[Guard]] = {}
    for guard in guards:
        if not facts.follows(guard):
            groups.setdefault(facts.owner(guard) or guard, []).append(guard)
    return GuardSet.of(group[0] if len(group) == 1 else _join(group) for group in groups.values())


def _join(group: list[Guard]) -> Guard:
    first = group[0]
    return Guard(first.source, Check.ALL, tuple(group), first.location)


class _Facts:
    """What the whole set says about each place."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.checks: dict[Source, set[Check]] = {}
        self.empty: set[Source] = set()
        #: (dict, type of key, key) that have to be there because something behind them is looked at.
        self.present: set[tuple[Source, type, Any]] = set()
        seen: set[Source] = set()
        for guard in guards:
            source = guard.source
            if source is None:
                continue
            self.checks.setdefault(source, set()).add(guard.check)
            if guard.check is Check.LENGTH and guard.constant == 0:
                self.empty.add(source)
            while source is not None and source not in seen:
                seen.add(source)
                base = source.base
                if isinstance(source, ItemSource) and base is not None:
                    self.present.add((base, type(source.key), source.key))
                elif isinstance(source, AttrSource) and base is not None:
                    self.present.add((base.instance_dict(), type(source.key), source.key))
                source = base

    def follows(self, guard: Guard) -> bool:
        """Whether a condition is implied by others."""
        source, check = guard.source, guard.check
        if source is None:
            return False
        others = self.checks[source]
        if check is Check.NOT_NONE:
            return bool(others & _DECISIVE)
        if check is Check.HAS_KEY:
            key = (source, type(guard.constant), guard.constant)
            return Check.KEYS in others or key in self.present
        return check in (Check.NO_KEY, Check.LENGTH) and Check.KEYS in others

    def owner(self, guard: Guard) -> Source | None:
        """The object that a condition is about; None if it stands alone."""
        source, check = guard.source, guard.check
        if source is None:
            return None
        if check in (Check.HAS_KEY, Check.NO_KEY, Check.KEYS):
            return source.base if isinstance(source, InstanceDictSource) else source
        if check is Check.NO_CLASS_ATTR:
            return source
        if check not in _OF_ONE_VALUE:
            return None
        base = source.base
        if isinstance(source, ClassAttrSource) or (
            isinstance(source, MemberSource) and source.key in _FUNCTION_PARTS
        ):
            return base
        if isinstance(source, ItemSource) and isinstance(base, MemberSource) and base.key in _FUNCTION_PARTS:
            return base.base
        if isinstance(source, AttrSource) and (check is Check.EQUALS or source in self.empty):
            return base
        if isinstance(source, AttrSource | ItemSource) and check is Check.IDENTITY and _is_namespace(base):
            return base
        return source


def _is_namespace(source: Source | None) -> bool:
    """Whether a place is a module, or a dict of globals or builtins."""
    if isinstance(source, InstanceDictSource):
        source = source.base
    return isinstance(source, ObjectSource | GlobalsSource | BuiltinsSource) or (
        isinstance(source, MemberSource) and source.key == "__globals__"
    )
