"""Lowering: guards become the flat instructions of a `_C.GuardProgram`.

Sources become nodes with one register each, so a common prefix is fetched once.  All keys wanted from one dict
(or attributes of one class) form a block that the program skips while the dict's version stands still; what can
change behind an unchanged dict is checked outside of it.  Order: arguments first, then state, then the object
graph from the top down, level by level, then what relates several values, predicates last.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from framehook import _C
from framehook.guards.guard import Check, Guard, GuardSet, WeakIdentity
from framehook.source import (
    AttrSource,
    BuiltinsSource,
    CellContentsSource,
    ClassAttrSource,
    ClosureSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    MemberSource,
    ObjectSource,
    Source,
    TypeSource,
)

_OP = _C.GUARD_OPERATIONS
_GLOBALS_REGISTER, _BUILTINS_REGISTER, _FIRST_FREE_REGISTER = 0, 1, 2

#: Compared by value; anything else that a guard calls equal is the same object.
_VALUE_TYPES = (
    type(None), bool, int, float, complex, str, bytes, tuple, frozenset, slice, range,
    type(Ellipsis), type(NotImplemented),
)  # fmt: skip

#: Follow from the pointer that a dict holds, so they may stand in its block.
_BLOCK_CHECKS = (Check.EQUALS, Check.IDENTITY, Check.NOT_NONE)
#: About the keys of a dict itself.
_KEY_CHECKS = (Check.NO_KEY, Check.HAS_KEY, Check.KEYS)
_NOT_AT_A_PLACE = (Check.STATE, Check.PREDICATE, Check.ENVIRONMENT, Check.ALL)
_RELATIONS = (Check.SAME, Check.DISTINCT, Check.DISJOINT, Check.OVERLAPS, Check.RELATION)

_IMMUTABLE_TYPE_FLAG = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: `__class__` of instances cannot be assigned


class _Node:
    """One place in the object graph and what is wanted of it."""

    __slots__ = (
        "attrs", "checks", "class_attrs", "guard", "instance_dict", "is_dict", "key", "keys", "register", "steps",
        "type_guard",
    )  # fmt: skip

    def __init__(self, register: int, key: Any, guard: int) -> None:
        self.register = register
        self.key = key
        self.guard = guard  # the first guard that needs this place
        self.is_dict = False
        self.type_guard: tuple[int, Any] | None = None  # (guard, class)
        self.checks: list[tuple[int, Check | str, Any]] = []
        self.instance_dict: _Node | None = None
        self.keys: dict[Any, _Node] = {}
        self.class_attrs: dict[Any, _Node] = {}
        self.steps: dict[Any, tuple[str, _Node]] = {}

    def wants_block(self) -> bool:
        """Whether this dict has keys to look at."""
        return bool(self.keys) or any(check in _KEY_CHECKS for _, check, _ in self.checks)


def _typed(key: Any) -> Any:
    return (type(key), key)


def _is_fixed_type(cls: Any) -> bool:
    return bool(cls.__flags__ & _IMMUTABLE_TYPE_FLAG) and not issubclass(cls, ModuleType)


class _Reached(enum.Enum):
    """How far a place was looked at when its turn comes."""

    FETCHED = 0
    IN_BLOCK = 1  # identity, equality and a fixed type were checked in the block that fetched it
    ENTERED = 2  # an instance dict whose block stands behind its object's


class _Lowering:
    def __init__(self, guards: Sequence[Guard]) -> None:
        self.guards = guards
        self.register_count = _FIRST_FREE_REGISTER
        self.main: list[tuple[int, int, int, int, Any, int]] = []
        #: Insides of blocks; they follow the main line, out of the way of calls that skip them.
        self.blocks: list[tuple[int, int, int, int, Any, int]] = []
        #: Where in `blocks` the block of an ENTER of the main line begins.
        self.begins: dict[int, int] = {}
        self.out = self.main
        self.objects: dict[int, object] = {}
        self.nodes: dict[Source, _Node] = {}
        self.locals: dict[Any, _Node] = {}
        self.cells: dict[Any, _Node] = {}
        self.absolute: dict[int, _Node] = {}
        self.globals = _Node(_GLOBALS_REGISTER, None, -1)
        self.builtins = _Node(_BUILTINS_REGISTER, None, -1)
        self.globals.is_dict = self.builtins.is_dict = True
        #: Guards about several values or none, in the order to emit.
        self.relations: list[int] = []
        self.states: list[int] = []
        self.predicates: list[int] = []
        self.dead: list[int] = []

    # -- nodes -----------------------------------------------------------------------------------
    def new(self, key: Any, guard: int) -> _Node:
        node = _Node(self.register_count, key, guard)
        self.register_count += 1
        return node

    def node(self, source: Source, guard: int) -> _Node:
        """The node of a source, made with all that leads to it."""
        found = self.nodes.get(source)
        if found is not None:
            return found
        path: list[Source] = []
        at: Source | None = source
        while at is not None and at not in self.nodes:
            path.append(at)
            at = at.base
        for step in reversed(path):
            self.nodes[step] = self.make(step, guard)
        return self.nodes[source]

    def make(self, source: Source, guard: int) -> _Node:
        if source.base is None:
            return self.root(source, guard)
        base = self.nodes[source.base]
        key = source.key
        if isinstance(source, AttrSource):
            return self.child(self.instance_dict(base, guard).keys, key, guard)
        if isinstance(source, InstanceDictSource) or (isinstance(source, MemberSource) and key == "__dict__"):
            return self.instance_dict(base, guard)
        if isinstance(source, ClassAttrSource):
            return self.child(base.class_attrs, key, guard)
        if isinstance(source, ItemSource):
            if isinstance(key, WeakIdentity):
                key = self.weak(key, guard)
            if base.is_dict or type(key) is not int:
                base.is_dict = True
                return self.child(base.keys, key, guard)
            return self.step(base, "ITEM", key, guard)
        if isinstance(source, MemberSource):
            return self.step(base, "MEMBER", key, guard)
        if isinstance(source, TypeSource):
            return self.step(base, "TYPE_OF", None, guard)
        if isinstance(source, CellContentsSource):
            return self.step(base, "CELL_CONTENTS", None, guard)
        raise TypeError(f"no instruction fetches {source!r}")

    def root(self, source: Source, guard: int) -> _Node:
        if isinstance(source, LocalSource):
            return self.child(self.locals, source.slot, guard)
        if isinstance(source, ClosureSource):
            return self.child(self.cells, source.key, guard)
        if isinstance(source, GlobalsSource):
            return self.globals
        if isinstance(source, BuiltinsSource):
            return self.builtins
        if isinstance(source, ObjectSource):
            return self.fixed(source.get(), source.key, guard)
        raise TypeError(f"no instruction fetches {source!r}")

    def fixed(self, obj: object, address: int, guard: int) -> _Node:
        """A register that holds an object for good."""
        if id(obj) != address:
            self.dead.append(guard)
        node = self.absolute.get(address)
        if node is None:
            node = self.absolute[address] = self.new(None, guard)
            self.objects[node.register] = obj
        return node

    def child(self, children: dict[Any, _Node], key: Any, guard: int) -> _Node:
        slot = _typed(key)
        found = children.get(slot)
        if found is None:
            found = children[slot] = self.new(key, guard)
        return found

    def step(self, base: _Node, operation: str, key: Any, guard: int) -> _Node:
        slot = (operation, _typed(key))
        found = base.steps.get(slot)
        if found is None:
            found = base.steps[slot] = (operation, self.new(key, guard))
        return found[1]

    def instance_dict(self, base: _Node, guard: int) -> _Node:
        found = base.instance_dict
        if found is None:
            found = base.instance_dict = self.new(None, guard)
            found.is_dict = True
        return found

    def weak(self, identity: WeakIdentity, guard: int) -> Any:
        """The object of a weak identity; when it has died the program can never hold."""
        obj = identity.get()
        if id(obj) != identity.address:
            self.dead.append(guard)
        return obj

    # -- guards ----------------------------------------------------------------------------------
    def collect(self, index: int, guard: Guard) -> None:
        check, constant = guard.check, guard.constant
        if check in _NOT_AT_A_PLACE or check in _RELATIONS:
            self.collect_other(index, guard)
            return
        assert guard.source is not None
        node = self.node(guard.source, index)
        if check is Check.TYPE:
            cls = self.weak(constant, index)
            if node.type_guard is None:
                node.type_guard = (index, cls)
                return
            constant = cls
        elif check is Check.IDENTITY:
            source = guard.source
            if isinstance(source, MemberSource) and source.key in ("__mro__", "__bases__"):
                # The classes, each held weakly: keeping the tuple would keep them alive.
                classes = constant.get()
                if classes is None:
                    self.dead.append(index)
                else:
                    node.checks.append((index, "ITEMS_ARE", classes))
                return
            constant = self.weak(constant, index)
        elif check is Check.TENSOR:
            constant = (self.weak(constant.cls, index), *constant[1:])
        elif check is Check.KEYS:
            constant = tuple(self.weak(k, index) if isinstance(k, WeakIdentity) else k for k in constant)
        elif check in _KEY_CHECKS and isinstance(constant, WeakIdentity):
            constant = self.weak(constant, index)
        if check in _KEY_CHECKS:
            node.is_dict = True
        node.checks.append((index, check, constant))

    def collect_other(self, index: int, guard: Guard) -> None:
        check, constant = guard.check, guard.constant
        if check is Check.ALL:
            for part in constant:
                self.collect(index, part)
            return
        if check is Check.STATE:
            self.states.append(index)
        elif check is Check.PREDICATE:
            for source in constant[1]:
                self.node(source, index)
            self.predicates.append(index)
        elif check is Check.ENVIRONMENT:
            self.environment(index, *constant)
        else:
            for source in self.related(guard):
                self.node(source, index)
            self.relations.append(index)

    @staticmethod
    def related(guard: Guard) -> Iterable[Source]:
        constant = guard.constant
        if guard.check is Check.SAME:
            assert guard.source is not None
            return (guard.source, constant)
        if guard.check is Check.DISTINCT:
            return tuple(constant)
        if guard.check is Check.OVERLAPS:
            return tuple(constant[:2])
        if guard.check is Check.RELATION:
            return constant.sources
        return (*constant[1], *constant[0])

    def environment(self, index: int, name: str, value: str | None) -> None:
        # os.environ keeps encoded names and values in a plain dict, which programs read like any other.
        environ = self.fixed(os.environ, id(os.environ), index)
        data = self.child(self.instance_dict(environ, index).keys, "_data", index)
        data.is_dict = True
        key = os.environ.encodekey(name)
        if value is None:
            data.checks.append((index, Check.NO_KEY, key))
            return
        stored = os.environ.encodevalue(value)
        self.child(data.keys, key, index).checks.append((index, Check.EQUALS, stored))

    # -- instructions ----------------------------------------------------------------------------
    def emit(self, operation: str, a: int, b: int, x: int, constant: Any, guard: int) -> int:
        self.out.append((_OP[operation], a, b, x, constant, guard))
        return len(self.out) - 1

    def emit_check(self, node: _Node, guard: int, check: Check | str, constant: Any) -> None:
        a = node.register
        if check is Check.EQUALS and not (isinstance(constant, _VALUE_TYPES) or _is_device(constant)):
            check = Check.IDENTITY
        operation = _CHECK_OPERATIONS[check] if isinstance(check, Check) else check
        self.emit(operation, a, a, 0, constant, guard)

    def emit_type(self, node: _Node) -> None:
        if node.type_guard is not None:
            guard, cls = node.type_guard
            self.emit("TYPE_IS", node.register, node.register, 0, cls, guard)

    def emit_block(self, owner: _Node, enter: int, fetch: str, children: dict[Any, _Node]) -> None:
        """The inside of a block: fetches, what follows from the pointers fetched, and the way back."""
        self.out = self.blocks
        self.begins[enter] = len(self.blocks)
        for guard, check, constant in owner.checks:
            if check is Check.NO_CLASS_ATTR or (
                owner.is_dict and (check in _KEY_CHECKS or check is Check.LENGTH)
            ):
                self.emit_check(owner, guard, check, constant)
        for child in children.values():
            self.emit(fetch, owner.register, child.register, 0, child.key, child.guard)
            if child.type_guard is not None and _is_fixed_type(child.type_guard[1]):
                self.emit_type(child)
            for guard, check, constant in child.checks:
                if check in _BLOCK_CHECKS:
                    self.emit_check(child, guard, check, constant)
        self.emit("LEAVE", owner.register, owner.register, enter, None, -1)
        self.out = self.main

    def emit_checks(self, node: _Node, reached: _Reached) -> None:
        """Type and checks of a place just fetched, as far as no block has them."""
        in_block = reached is _Reached.IN_BLOCK
        own_block = node.is_dict and node.wants_block()
        if self.waits_with_type(node, reached):
            cls = None
        else:
            cls = node.type_guard[1] if node.type_guard is not None else None
            if cls is not None and not (in_block and _is_fixed_type(cls)):
                self.emit_type(node)
        for guard, check, constant in node.checks:
            if in_block and check in _BLOCK_CHECKS:
                continue
            if check is Check.NO_CLASS_ATTR or (
                own_block and (check in _KEY_CHECKS or check is Check.LENGTH)
            ):
                continue
            if check is Check.LENGTH and cls is not None and issubclass(cls, dict):
                self.emit("DICT_LENGTH", node.register, node.register, 0, constant, guard)
            else:
                self.emit_check(node, guard, check, constant)

    @staticmethod
    def waits_with_type(node: _Node, reached: _Reached) -> bool:
        """Whether the type is checked by the instruction that enters the instance dict."""
        if node.instance_dict is None or not node.instance_dict.wants_block() or node.type_guard is None:
            return False
        return not (reached is _Reached.IN_BLOCK and _is_fixed_type(node.type_guard[1]))

    def emit_instance_dict(self, node: _Node, reached: _Reached) -> Iterable[tuple[_Node, _Reached]]:
        """Go into the instance dict; returns places to look at next."""
        dict_node = node.instance_dict
        if dict_node is None:
            return
        if not dict_node.wants_block():
            self.emit("DICT_OF", node.register, dict_node.register, 0, None, dict_node.guard)
            yield dict_node, _Reached.FETCHED
            return
        cls, guard = None, dict_node.guard
        if node.type_guard is not None and self.waits_with_type(node, reached):
            guard, cls = node.type_guard
        order = any(check is Check.KEYS for _, check, _ in dict_node.checks)
        constant = (cls,) if order else cls
        enter = self.emit("ENTER_OBJECT", node.register, dict_node.register, 0, constant, guard)
        self.emit_block(dict_node, enter, "KEY", dict_node.keys)
        yield dict_node, _Reached.ENTERED
        for child in dict_node.keys.values():
            yield child, _Reached.IN_BLOCK

    def emit_dict(self, node: _Node, reached: _Reached) -> Iterable[tuple[_Node, _Reached]]:
        """Go into a dict; returns places to look at next."""
        if not (node.is_dict and node.wants_block()) or reached is _Reached.ENTERED:
            return
        order = any(check is Check.KEYS for _, check, _ in node.checks)
        enter = self.emit("ENTER_DICT", node.register, node.register, 0, order, node.guard)
        self.emit_block(node, enter, "KEY", node.keys)
        for child in node.keys.values():
            yield child, _Reached.IN_BLOCK

    def emit_class(self, node: _Node, reached: _Reached) -> Iterable[tuple[_Node, _Reached]]:
        """Go into a class; returns places to look at next."""
        if not (node.class_attrs or any(check is Check.NO_CLASS_ATTR for _, check, _ in node.checks)):
            return
        enter = self.emit("ENTER_TYPE", node.register, node.register, 0, None, node.guard)
        self.emit_block(node, enter, "CLASS_ATTR", node.class_attrs)
        for child in node.class_attrs.values():
            yield child, _Reached.IN_BLOCK

    def emit_steps(self, node: _Node, reached: _Reached) -> Iterable[tuple[_Node, _Reached]]:
        """Single fetches; returns places to look at next."""
        for operation, child in node.steps.values():
            self.emit(operation, node.register, child.register, 0, child.key, child.guard)
            yield child, _Reached.FETCHED

    def walk(self, nodes: Iterable[tuple[_Node, _Reached]]) -> None:
        """Level by level: what is independent of each other stands together, and alike instructions in rows."""
        level = list(nodes)
        while level:
            begin = len(self.main)
            for node, reached in level:
                self.emit_checks(node, reached)
            self.main[begin:] = sorted(self.main[begin:], key=_rank)
            level = [
                place
                for enter in (self.emit_instance_dict, self.emit_dict, self.emit_class, self.emit_steps)
                for node, reached in level
                for place in enter(node, reached)
            ]

    def emit_relation(self, index: int) -> None:
        guard = self.guards[index]
        constant = guard.constant
        if guard.check is Check.SAME:
            a, b = (self.nodes[source].register for source in self.related(guard))
            if a != b:
                self.emit("SAME", a, b, 0, None, index)
        elif guard.check is Check.DISTINCT:
            self.emit("DISTINCT", 0, 0, 0, tuple(self.nodes[source].register for source in constant), index)
        elif guard.check is Check.RELATION:
            registers = [self.nodes[source].register for source in constant.sources]
            self.emit("RELATION", 0, 0, 0, _placed(constant.code, registers), index)
        elif guard.check is Check.OVERLAPS:
            a, b = (self.nodes[source].register for source in constant[:2])
            self.emit("OVERLAPS", a, b, 0, constant[2], index)
        else:
            mutated, everything = constant
            places: dict[int, int] = {}
            for source in (*everything, *mutated):
                places.setdefault(self.nodes[source].register, len(places))
            changed = tuple(sorted({places[self.nodes[source].register] for source in mutated}))
            self.emit("DISJOINT", 0, 0, 0, (tuple(places), changed, self.exempt(places)), index)

    def exempt(self, places: dict[int, int]) -> tuple[tuple[int, int], ...]:
        """Pairs of which other guards say how they relate."""
        pairs = []
        for index in self.relations:
            guard = self.guards[index]
            if guard.check is Check.SAME or guard.check is Check.OVERLAPS:
                a, b = (self.nodes[source].register for source in self.related(guard))
                if a != b and a in places and b in places:
                    pairs.append((places[a], places[b]))
        return tuple(pairs)

    def program(self, inputs: Sequence[Source], present: Iterable[Source]) -> _C.GuardProgram:
        for index, guard in enumerate(self.guards):
            self.collect(index, guard)
        for source in present:
            self.node(source, -1)
        input_registers = tuple(self.node(source, -1).register for source in inputs)
        for index in self.dead:
            self.emit("NEVER", 0, 0, 0, None, index)
        opened: list[tuple[_Node, _Reached]] = []
        deferred: list[tuple[_Node, _Reached]] = []
        for slot, node in self.locals.items():
            self.emit("LOCAL", 0, node.register, slot[1], None, node.guard)
            # A plain argument is checked at once; one with an object graph behind it waits for the others.
            is_deep = node.instance_dict or node.keys or node.steps or node.class_attrs
            (deferred if is_deep else opened).append((node, _Reached.FETCHED))
        self.walk(opened)
        for index in self.states:
            self.emit("STATE", 0, 0, 0, self.guards[index].constant, index)
        for index, node in self.cells.items():
            self.emit("CELL", 0, node.register, index[1], None, node.guard)
        self.walk(deferred)
        roots = (*self.cells.values(), *self.absolute.values(), self.globals, self.builtins)
        self.walk((node, _Reached.FETCHED) for node in roots)
        for index in self.relations:
            self.emit_relation(index)
        for index in self.predicates:
            function, sources = self.guards[index].constant
            registers = tuple(self.nodes[source].register for source in sources)
            self.emit("PREDICATE", 0, 0, 0, (function, registers), index)
        self.emit("END", 0, 0, 0, None, -1)
        for enter, begin in self.begins.items():
            operation, a, b, _, constant, index = self.main[enter]
            self.main[enter] = (operation, a, b, len(self.main) + begin, constant, index)
        instructions = self.main + self.blocks
        return _C.GuardProgram(instructions, self.register_count, input_registers, self.objects)


#: How many numbers follow an operation of a relation; the first one names a register, but for CONSTANT.
_FOLLOWING = {
    _C.RELATION_OPERATIONS[name]: count
    for name, count in (("CONSTANT", 1), ("INTEGER", 1), ("SIZE", 2), ("STRIDE", 2))
}


def _placed(code: Sequence[int], registers: Sequence[int]) -> tuple[int, ...]:
    """The code of a relation with registers in the place of positions among its sources."""
    made = list(code)
    at = 0
    while at < len(made):
        count = _FOLLOWING.get(made[at], 0)
        if count and made[at] != _C.RELATION_OPERATIONS["CONSTANT"]:
            made[at + 1] = registers[made[at + 1]]
        at += 1 + count
    return tuple(made)


_CHECK_OPERATIONS = {
    Check.TYPE: "TYPE_IS",
    Check.IDENTITY: "IS",
    Check.NOT_NONE: "NOT_NONE",
    Check.EQUALS: "EQUALS",
    Check.LENGTH: "LENGTH",
    Check.KEYS: "KEYS",
    Check.MEMBERS: "MEMBERS",
    Check.HAS_KEY: "HAS_KEY",
    Check.NO_KEY: "NO_KEY",
    Check.NO_CLASS_ATTR: "NO_CLASS_ATTR",
    Check.TENSOR: "TENSOR",
    Check.CELL_EMPTY: "CELL_EMPTY",
}

#: The order of the checks of one level: types first, which later ones may rely on, then from cheap to dear.
_RANKS = {_OP[name]: rank for rank, name in enumerate(("TYPE_IS", "IS", "NOT_NONE", "EQUALS", "DICT_LENGTH"))}


def _rank(instruction: tuple[int, int, int, int, Any, int]) -> int:
    operation = instruction[0]
    return _RANKS.get(operation, len(_RANKS) + operation)


def _is_device(constant: object) -> bool:
    cls = type(constant)
    return cls.__module__ == "torch" and cls.__qualname__ == "device"


def lower(guards: GuardSet, inputs: Sequence[Source], present: Iterable[Source] = ()) -> _C.GuardProgram:
    """Lower guards to a program that also fetches `inputs`, in this order.

    Args:
        guards: the guards; failures are reported by their index in iteration order.
        inputs: sources of the values that the program hands to the entry.
        present: sources that have to be there, whatever they hold.

    Returns:
        The program.  If an object that a guard names has died already, one that never holds.

    Raises:
        TypeError, ValueError: a guard's constant does not fit its check.
    """
    return _Lowering(tuple(guards)).program(inputs, present)
