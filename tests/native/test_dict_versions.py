"""What a dict's version proves on each Python: the facts that guard programs rely on, and do not."""

from __future__ import annotations

import builtins
import ctypes
import sys

import pytest

from framehook import _C


class Plain:
    pass


def fresh():
    thing = Plain()
    thing.first = object()
    thing.second = object()
    thing.third = object()
    return thing


def warm(function, count=100, make=fresh):
    """Let the interpreter specialize the store in `function`."""
    for _ in range(count):
        function(make())


def store_attribute(thing):
    thing.second = object()


def store_on_dictless(thing):
    thing.second = object()


def with_dict():
    thing = fresh()
    thing.__dict__  # noqa: B018  (from now on there is a dict object)
    return thing


warm(store_attribute, make=with_dict)
warm(store_on_dictless)

CHANGES = {
    "setattr": lambda thing: setattr(thing, "first", object()),
    "object.__setattr__": lambda thing: object.__setattr__(thing, "first", object()),
    "cold store": lambda thing: exec("thing.first = object()", {"thing": thing, "object": object}),
    "store specialized on objects with dicts": store_attribute,
    "store specialized on objects without": store_on_dictless,
    "delattr": lambda thing: delattr(thing, "third"),
    "new attribute": lambda thing: setattr(thing, "fourth", 2),
    "d[key] = value": lambda thing: thing.__dict__.__setitem__("first", object()),
    "d.update": lambda thing: thing.__dict__.update(first=object()),
    "d.pop": lambda thing: thing.__dict__.pop("first"),
    "d.clear": lambda thing: thing.__dict__.clear(),
    "d |= other": lambda thing: thing.__dict__.__ior__({"first": object()}),
    "d.setdefault": lambda thing: thing.__dict__.setdefault("fourth", object()),
    "d.popitem": lambda thing: thing.__dict__.popitem(),
    "many new attributes": lambda thing: [setattr(thing, f"a{i}", i) for i in range(100)],
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("warmth", [0, 1, 50])
def test_reliable_version_moves_with_every_change(name, warmth):
    for _ in range(warmth + 1):
        thing = with_dict()
        namespace = thing.__dict__
        before = dict(namespace)
        version = _C.dict_version(namespace)
        CHANGES[name](thing)
        assert thing.__dict__ is namespace
        assert dict(namespace) != before
        if version is not None:
            assert _C.dict_version(namespace) != version


def test_when_versions_are_reliable():
    split = _C.dict_version(with_dict().__dict__)
    if sys.version_info >= (3, 13):
        # Values embedded in the instance change without a new version.
        assert split is None
    else:
        assert isinstance(split, int)
    assert isinstance(_C.dict_version({"a": 1}), int)
    assert isinstance(_C.dict_version(globals()), int)
    assert isinstance(_C.dict_version(vars(builtins)), int)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="values are embedded since 3.13")
def test_embedded_values_do_change_behind_the_version():
    """If this ever fails the exception for embedded values is no longer needed."""

    def raw(namespace):
        return ctypes.c_uint64.from_address(id(namespace) + 24).value

    thing = with_dict()
    before = raw(thing.__dict__)
    thing.first = object()
    assert raw(thing.__dict__) == before


def test_globals_and_builtins_move():
    scope = {"name": 1}
    exec("def store(value):\n    global name\n    name = value", scope)
    for value in range(100):
        version = _C.dict_version(scope)
        scope["store"](object())
        assert _C.dict_version(scope) != version


def test_versions_are_unique_among_live_dicts():
    dicts = [{"a": i} for i in range(1000)]
    assert len({_C.dict_version(each) for each in dicts}) == 1000


def test_copy_and_equal_contents_have_their_own_version():
    first = {"a": 1}
    assert _C.dict_version(first) != _C.dict_version(dict(first))


def test_version_stays_while_nothing_changes():
    namespace = {"a": [1]}
    version = _C.dict_version(namespace)
    namespace["a"].append(2)  # not the dict's business: lists are checked in full
    list(namespace.items())
    namespace.get("b")
    assert _C.dict_version(namespace) == version


def test_writes_that_no_version_shows():
    """Re-reading type and __dict__ of each object on every call is what catches these."""
    thing = with_dict()
    namespace = thing.__dict__
    version = _C.dict_version(namespace)
    thing.__dict__ = {"first": 1}
    assert _C.dict_version(namespace) == version
    assert _C.existing_instance_dict(thing) is not namespace

    class Other:
        pass

    thing = with_dict()
    version = _C.dict_version(thing.__dict__)
    thing.__class__ = Other
    if version is not None:
        assert _C.dict_version(thing.__dict__) == version


def test_reading_an_instance_dict_makes_none():
    thing = fresh()
    assert _C.existing_instance_dict(thing) is None
    assert _C.existing_instance_dict(thing) is None
    namespace = thing.__dict__
    assert _C.existing_instance_dict(thing) is namespace
    assert _C.existing_instance_dict(3) is None

    class Slotted:
        __slots__ = ("a",)

    assert _C.existing_instance_dict(Slotted()) is None

    class Error(Exception):
        pass

    error = Error()
    assert _C.existing_instance_dict(error) is None
    error.note = 1
    assert _C.existing_instance_dict(error) == {"note": 1}


def test_dict_version_wants_a_dict():
    with pytest.raises(TypeError, match="expected a dict"):
        _C.dict_version([])
