"""Ways to change the world behind the back of a program that skips what did not move."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framehook.guards.guard import Check
from framehook.source import ObjectSource

from .programs import G, Program, X


def fresh_classes() -> tuple[type, type]:
    class Box:
        shared = 1

    class Same:
        shared = 1

    return Box, Same


def boxed(cls: type, **attrs: Any) -> Any:
    obj = cls()
    for name, value in attrs.items():
        setattr(obj, name, value)
    return obj


def specialised_store(obj: Any, value: Any, template: type) -> None:
    """A store that the interpreter has specialised on objects without a dict of their own."""

    def store(o: Any) -> None:
        o.a = value

    for _ in range(200):
        store(boxed(template, a=0, b=0))
    store(obj)


Change = Callable[[Any, type, type], None]

CHANGES: dict[str, Change] = {
    "setattr": lambda o, c, d: setattr(o, "a", 2),
    "specialised store": lambda o, c, d: specialised_store(o, 2, c),
    "object.__setattr__": lambda o, c, d: object.__setattr__(o, "a", 2),
    "item of __dict__": lambda o, c, d: o.__dict__.__setitem__("a", 2),
    "update of __dict__": lambda o, c, d: o.__dict__.update(a=2),
    "dict.__setitem__": lambda o, c, d: dict.__setitem__(o.__dict__, "a", 2),
    "delattr": lambda o, c, d: delattr(o, "a"),
    "clear": lambda o, c, d: o.__dict__.clear(),
    "pop": lambda o, c, d: o.__dict__.pop("a"),
    "delete and add again": lambda o, c, d: (delattr(o, "a"), setattr(o, "a", 2)),
    "other __dict__": lambda o, c, d: setattr(o, "__dict__", {"a": 2, "b": o.b}),
    "no __dict__": lambda o, c, d: delattr(o, "__dict__"),
    "other class": lambda o, c, d: setattr(o, "__class__", d),
    "moved to the class": lambda o, c, d: (setattr(c, "a", o.a), delattr(o, "a")),
    "item of nested object": lambda o, c, d: setattr(o.b, "a", 2),
    "nested object replaced": lambda o, c, d: setattr(o, "b", boxed(c, a=2)),
    "class of nested object": lambda o, c, d: setattr(o.b, "__class__", d),
    "dict of nested object": lambda o, c, d: setattr(o.b, "__dict__", {"a": 2}),
    "added": lambda o, c, d: setattr(o, "late", 1),
    "added to __dict__": lambda o, c, d: o.__dict__.setdefault("late", 1),
    "class attribute": lambda o, c, d: setattr(c, "shared", 2),
    "class attribute deleted": lambda o, c, d: delattr(c, "shared"),
}


@pytest.mark.parametrize("warm", [1, 5])
@pytest.mark.parametrize("touch", [False, True], ids=["inline", "with dict"])
@pytest.mark.parametrize("name", CHANGES)
def test_change_is_seen(name: str, touch: bool, warm: int) -> None:
    cls, other = fresh_classes()
    obj = boxed(cls, a=1, b=boxed(cls, a=1))
    if touch:
        assert obj.__dict__ and obj.b.__dict__
    inner = X.attr("b")
    program = Program(
        (X, Check.TYPE, cls),
        (X.attr("a"), Check.EQUALS, 1),
        (X.instance_dict(), Check.NO_KEY, "late"),
        (X.type().class_attr("shared"), Check.EQUALS, 1),
        (inner, Check.TYPE, cls),
        (inner.attr("a"), Check.EQUALS, 1),
    )
    for _ in range(warm):
        assert program.holds(obj)
    CHANGES[name](obj, cls, other)
    assert not program.holds(obj)
    assert not program.holds(obj)


def test_unrelated_change_still_holds() -> None:
    cls, _ = fresh_classes()
    obj = boxed(cls, a=1, b=1)
    program = Program((X, Check.TYPE, cls), (X.attr("a"), Check.EQUALS, 1), inputs=[X.attr("a")])
    for number in range(50):
        obj.b = number
        setattr(obj, f"new{number}", number)
        cls.other = number  # type: ignore[attr-defined]
        assert program.holds(obj)
    del obj.a
    obj.a = 1
    assert program.holds(obj)


def test_dict_replaced_at_the_same_address() -> None:
    """A dict made where one was just freed has its address, but not its version."""
    program = Program((X.item("d").item("k"), Check.EQUALS, 1), inputs=[X.item("d").item("k")])
    holder: dict[str, Any] = {"d": {"k": 1}}
    assert program.holds(holder)
    addresses = {id(holder["d"])}
    reused = False
    for number in range(2, 40):
        del holder["d"]
        holder["d"] = {"k": number}
        reused |= id(holder["d"]) in addresses
        addresses.add(id(holder["d"]))
        assert not program.holds(holder)
    assert reused


def test_value_replaced_at_the_same_address() -> None:
    program = Program((X.attr("a"), Check.EQUALS, 1.5), inputs=[X.attr("a")])
    cls, _ = fresh_classes()
    obj = boxed(cls, a=float("1.5"), b=0)
    reused = False
    for number in range(30):
        assert program.holds(obj)
        address = id(obj.a)
        del obj.a
        obj.a = float(f"{number}.25")
        reused |= id(obj.a) == address
        assert not program.holds(obj)
        obj.a = float("1.5")
    assert reused


def test_instances_alternate_and_one_fails_half_way() -> None:
    """A failed evaluation of one object must not leave its pointers behind for another."""
    cls, _ = fresh_classes()
    good = boxed(cls, a="good", b=1, c=[1])
    bad = boxed(cls, a="bad", b=1, c=[1, 2])
    wrong = boxed(cls, a="wrong", b=2, c=[1])
    program = Program(
        (X, Check.TYPE, cls),
        (X.attr("b"), Check.EQUALS, 1),
        (X.attr("c"), Check.LENGTH, 1),
        inputs=[X.attr("a"), X.attr("c")],
    )
    for _ in range(4):
        assert program.program.check((good,), {}, {}, None) == ["good", [1]]
        assert program.program.check((bad,), {}, {}, None) is None
        assert program.program.check((wrong,), {}, {}, None) is None
        assert program.program.check((good,), {}, {}, None) == ["good", [1]]
        bad.c.pop()
        assert program.program.check((bad,), {}, {}, None) == ["bad", [1]]
        bad.c.append(1)


def test_key_sharing_dicts_are_told_apart() -> None:
    cls, _ = fresh_classes()
    program = Program((X, Check.TYPE, cls), (X.attr("a"), Check.EQUALS, 1), inputs=[X.attr("b")])
    objects = [boxed(cls, a=number % 2, b=number) for number in range(100)]
    for number, obj in enumerate(objects):
        assert program.inputs(obj) == (None if number % 2 == 0 else [number])
    objects[1].__dict__["a"] = 3
    del objects[3].a
    objects[5].zz = 1
    assert [program.holds(objects[n]) for n in (1, 3, 5, 7)] == [False, False, True, True]


def test_shared_keys_in_another_order() -> None:
    cls, _ = fresh_classes()
    program = Program((X.instance_dict(), Check.KEYS, ("a", "b")))
    assert program.holds(boxed(cls, a=1, b=2))
    assert not program.holds(boxed(cls, b=2, a=1))
    assert not program.holds(boxed(cls, a=2))
    assert not program.holds(boxed(cls, a=1, b=2, c=3))


def test_order_of_ordered_dict_moves_without_its_version() -> None:
    ordered = OrderedDict(a=1, b=2)
    program = Program((X, Check.KEYS, ("a", "b")), (X.item("a"), Check.EQUALS, 1))
    for _ in range(3):
        assert program.holds(ordered)
        ordered.move_to_end("a")
        assert not program.holds(ordered)
        ordered.move_to_end("b")


def test_order_of_dict() -> None:
    mapping = {"a": 1, "b": 2}
    program = Program((X, Check.KEYS, ("a", "b")))
    assert program.holds(mapping)
    mapping["a"] = mapping.pop("a")
    assert not program.holds(mapping)


@pytest.mark.parametrize("change", ["set", "delete", "base", "bases", "__class__"])
def test_type_modified(change: str) -> None:
    class Root:
        m = 1

    class Base(Root):
        n = 1

    class Sub(Base):
        pass

    class Else(Root):
        n = 1

    obj = Sub()
    of_class = X.type()
    program = Program(
        (of_class.class_attr("n"), Check.EQUALS, 1),
        (of_class.class_attr("m"), Check.EQUALS, 1),
        (of_class, Check.NO_CLASS_ATTR, "late"),
    )
    for _ in range(3):
        assert program.holds(obj)
    if change == "set":
        Sub.n = 2
    elif change == "delete":
        del Base.n
    elif change == "base":
        Root.late = 1  # type: ignore[attr-defined]
    elif change == "bases":
        Else.n = 3
        Sub.__bases__ = (Else,)
    else:
        Else.m = 2
        obj.__class__ = Else  # type: ignore[assignment]
    assert not program.holds(obj)


def test_type_modified_until_versions_run_out() -> None:
    """3.13 gives a class a thousand versions; after that a lookup is exact every time."""

    class Busy:
        n = 0

    program = Program((X.class_attr("n"), Check.EQUALS, 0))
    for number in range(1200):
        Busy.other = number  # type: ignore[attr-defined]
        assert program.program.check((Busy,), {}, {}, None) is not None
    Busy.n = 1
    assert not program.holds(Busy)


def test_attribute_moves_between_instance_and_class() -> None:
    cls, _ = fresh_classes()
    obj = boxed(cls, a=1)
    program = Program(
        (X, Check.TYPE, cls), (X.instance_dict(), Check.NO_KEY, "shared"),
        (X.type().class_attr("shared"), Check.EQUALS, 1), (X.type(), Check.NO_CLASS_ATTR, "a"),
    )  # fmt: skip
    assert program.holds(obj)
    obj.shared = 5
    assert not program.holds(obj)
    del obj.shared
    assert program.holds(obj)
    cls.a = 1  # type: ignore[attr-defined]
    assert not program.holds(obj)


def test_slot_changes_have_no_version() -> None:
    class Slotted:
        __slots__ = ("a",)

    obj = Slotted()
    obj.a = 1
    program = Program((X, Check.TYPE, Slotted), (X.member("a"), Check.EQUALS, 1), inputs=[X.member("a")])
    assert program.inputs(obj) == [1]
    obj.a = 2
    assert not program.holds(obj)
    del obj.a
    assert not program.holds(obj)
    obj.a = 1
    assert program.inputs(obj) == [1]


def test_class_with_a_property_over_the_member_name_fails() -> None:
    class Slotted:
        __slots__ = ("a",)

    class Covered(Slotted):
        @property
        def a(self) -> int:  # type: ignore[override]
            raise AssertionError("guards do not call properties")

    program = Program((X.member("a"), Check.EQUALS, 1))
    assert not program.holds(Covered())


class Colliding:
    """A key whose hash is that of "a" and whose `__eq__` must not run inside an evaluation."""

    def __init__(self, calls: list[int]) -> None:
        self.calls = calls

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        self.calls.append(1)
        return False


def test_foreign_keys_run_no_python() -> None:
    calls: list[int] = []
    mapping: dict[Any, Any] = {Colliding(calls): 0, "a": 1}
    calls.clear()
    program = Program((X.item("a"), Check.EQUALS, 1))
    assert not program.holds(mapping)  # only `__eq__` could tell: a miss, never a wrong hit
    assert not calls
    assert program.holds({Colliding(calls): 0} | {} if False else {"b": 0, "a": 1})
    other: dict[Any, Any] = {object(): 0, 1: 2, "a": 1, (1, "a"): 3}
    assert program.holds(other)


def test_str_subclass_key_runs_no_python() -> None:
    class Text(str):
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = str.__hash__

    program = Program((X.item("a"), Check.EQUALS, 1))
    assert not program.holds({Text("a"): 1})
    assert program.holds({Text("b"): 0, "a": 1})


def test_keys_that_are_equal_but_of_another_type() -> None:
    program = Program((X, Check.HAS_KEY, 1.0))
    assert program.holds({1: 0}) and program.holds({True: 0})
    assert not program.holds({2: 0})


def test_globals_swapped_and_changed() -> None:
    first, second = {"n": 1, "f": len}, {"n": 1, "f": len}
    program = Program((G.item("n"), Check.EQUALS, 1), (G.item("f"), Check.IDENTITY, len))
    for _ in range(3):
        assert program.holds(namespace=first)
        assert program.holds(namespace=second)
        second["n"] = 2
        assert program.holds(namespace=first)
        assert not program.holds(namespace=second)
        second["n"] = 1


# -- weakly held objects ---------------------------------------------------------------------------------------


def test_death_of_an_identity_invalidates() -> None:
    cls, _ = fresh_classes()
    held = boxed(cls)
    program = Program((X, Check.IDENTITY, held))
    assert program.holds(held) and program.program.is_valid
    alive = weakref.ref(held)
    del held
    assert alive() is None
    assert not program.program.is_valid
    for _ in range(50):  # one of these may well get the address
        assert not program.holds(boxed(cls))
    guard, got = program.failing(boxed(cls))
    assert guard is program.guards[0] and isinstance(got, LookupError)


def test_death_of_a_class_invalidates() -> None:
    cls, _ = fresh_classes()
    program = Program((X, Check.TYPE, cls), (X.type().member("__mro__"), Check.IDENTITY, cls.__mro__))
    assert program.holds(cls())
    del cls
    gc.collect()
    assert not program.program.is_valid


def test_death_of_an_absolute_object_invalidates() -> None:
    cls, _ = fresh_classes()
    obj = boxed(cls, a=1)
    source = ObjectSource(obj, None)
    program = Program((source.attr("a"), Check.EQUALS, 1), inputs=[source])
    assert program.inputs() == [obj]
    obj.a = 2
    assert not program.holds()
    obj.a = 1
    assert program.holds()
    del obj
    gc.collect()
    assert not program.program.is_valid
    assert not program.holds()


def test_object_dead_before_lowering_never_holds() -> None:
    from framehook.guards.guard import GuardSet
    from framehook.guards.lowering import lower

    cls, _ = fresh_classes()
    obj = boxed(cls)
    guards = GuardSet()
    guards.add(X, Check.IDENTITY, obj)
    del obj
    program = lower(guards, ())
    assert not program.is_valid
    assert program.check((None,), {}, {}, None) is None
    assert program.failure((None,), {}, {}, None) is not None


def test_program_dies_at_once_and_keeps_nothing_alive() -> None:
    cls, _ = fresh_classes()
    obj = boxed(cls, a=boxed(cls))
    program = Program((X, Check.IDENTITY, obj), (X.attr("a"), Check.TYPE, cls), inputs=[X.attr("a")])
    assert program.holds(obj)
    inner, program_alive = weakref.ref(obj.a), weakref.ref(program.program)
    obj.a = None
    assert inner() is None
    gc.disable()
    try:
        del program
        assert program_alive() is None
    finally:
        gc.enable()
    del obj


def test_program_outlives_a_callback_after_its_own_death() -> None:
    cls, _ = fresh_classes()
    obj = boxed(cls)
    program = Program((X, Check.IDENTITY, obj))
    del program
    del obj
    gc.collect()


def test_no_references_leak() -> None:
    cls, _ = fresh_classes()
    value = object()
    obj = boxed(cls, a=value, items=[value], b=1)
    program = Program(
        (X, Check.TYPE, cls), (X.attr("b"), Check.EQUALS, 1), (X.attr("items"), Check.LENGTH, 1),
        (X.type().member("__name__"), Check.EQUALS, "Box"),
        inputs=[X.attr("a"), X.attr("items").item(0)],
    )  # fmt: skip
    namespace: dict[str, Any] = {}

    def counts() -> list[int]:
        return [sys.getrefcount(each) for each in (value, obj, obj.__dict__, obj.items, cls, namespace)]

    program.holds(obj)
    before = counts()
    for _ in range(100):
        program.program.check((obj,), namespace, {}, None)
        program.program.failure((obj,), namespace, {}, None)
        obj.b = 2
        program.program.check((obj,), namespace, {}, None)
        program.program.failure((obj,), namespace, {}, None)
        obj.b = 1
    assert counts() == before


def test_collector_stays_as_it_was() -> None:
    program = Program((X, Check.EQUALS, 1))
    for enabled in (True, False, True):
        (gc.enable if enabled else gc.disable)()
        program.program.check((1,), {}, {}, None)
        program.program.check((2,), {}, {}, None)
        assert gc.isenabled() == enabled


# -- at random -------------------------------------------------------------------------------------------------

OPERATIONS = [
    "set", "set same", "delete", "dict set", "dict delete", "swap dict", "class", "child", "share", "class set",
    "class delete", "list", "clear", "store",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 3), st.integers(0, 3)), max_size=25))
def test_fast_and_exact_evaluation_agree(steps: list[tuple[str, int, int]]) -> None:
    """After any sequence of changes `check` says what the exact evaluation says, and what Python says."""
    cls, other = fresh_classes()

    def tree(depth: int) -> Any:
        obj = boxed(cls, a=1, b="b", items=[1])
        if depth:
            obj.child = tree(depth - 1)
        return obj

    trees = [tree(3), tree(3)]
    rows: list[Any] = []
    inputs = []
    source: Any = X
    for depth in range(4):
        rows += [
            (source, Check.TYPE, cls),
            (source.attr("a"), Check.EQUALS, 1),
            (source.attr("items"), Check.LENGTH, 1),
            (source.instance_dict(), Check.NO_KEY, "late"),
            (source.type().class_attr("shared"), Check.EQUALS, 1),
        ]
        inputs.append(source.attr("b"))
        if depth < 3:
            source = source.attr("child")
    program = Program(*rows, inputs=inputs)

    def expected(obj: Any) -> list[Any] | None:
        found = []
        for depth in range(4):
            namespace = obj.__dict__
            if type(obj) is not cls or "late" in namespace or cls.__dict__.get("shared") != 1:
                return None
            if namespace.get("a") != 1 or len(namespace.get("items", ())) != 1 or "b" not in namespace:
                return None
            found.append(namespace["b"])
            if depth < 3:
                if not isinstance(namespace.get("child"), object) or "child" not in namespace:
                    return None
                obj = namespace["child"]
                if not hasattr(obj, "__dict__"):
                    return None
        return found

    def store(obj: Any, value: Any) -> None:
        obj.a = value

    for operation, where, which in steps:
        for each in trees:
            assert program.inputs(each) == expected(each)
        obj = trees[which % 2]
        for _ in range(where):
            obj = getattr(obj, "child", obj)
        if operation == "set":
            setattr(obj, ["a", "b", "late", "items"][which], [2, "c", 1, [1, 2]][which])
        elif operation == "set same":
            setattr(obj, ["a", "b", "items", "a"][which], [1, "b", [1], 1][which])
        elif operation == "store":
            for _ in range(30):
                store(obj, which % 2)
        elif operation == "delete":
            obj.__dict__.pop(["a", "b", "late", "child"][which], None)
        elif operation == "dict set":
            obj.__dict__[["a", "b", "late", "items"][which]] = [1, "d", 1, []][which]
        elif operation == "dict delete":
            obj.__dict__.pop("late", None)
        elif operation == "swap dict":
            obj.__dict__ = dict(obj.__dict__) if which < 3 else {"a": 1}
        elif operation == "class":
            obj.__class__ = other if which == 0 else cls
        elif operation == "child":
            obj.child = tree(2 - min(where, 2))
        elif operation == "share":
            trees[which % 2] = trees[0]
        elif operation == "class set":
            cls.shared = 1 if which else 2
        elif operation == "class delete":
            cls.unrelated = which
        elif operation == "list":
            getattr(obj, "items", []).append(which)
        elif operation == "clear":
            getattr(obj, "items", []).clear()
            getattr(obj, "items", []).append(1)
        for each in trees:
            assert program.inputs(each) == expected(each)
