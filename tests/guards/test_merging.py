"""One guard for each object: what is merged, what is dropped, and what a failure then says."""

from __future__ import annotations

import collections
import types

import torch

from framehook import _C
from framehook.guards.guard import Check, GuardSet
from framehook.guards.lowering import lower
from framehook.guards.merging import merged
from framehook.guards.words import failure, say
from framehook.source import LocalSource


class Box:
    """Something with attributes."""


def record_of(*slots: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(slots=slots, globals={}, builtins={}, closure=None)


def guards_of_a_box() -> GuardSet:
    """Class, two names that it lacks, a number and an empty dict."""
    guards = GuardSet()
    box = LocalSource("box", 0)
    guards.add(box, Check.TYPE, Box)
    guards.add(box, Check.NOT_NONE)
    guards.add(box.instance_dict(), Check.NO_KEY, "forward")
    guards.add(box.instance_dict(), Check.NO_KEY, "call")
    guards.add(box.instance_dict(), Check.HAS_KEY, "number")
    guards.add(box.attr("number"), Check.EQUALS, 3)
    guards.add(box.attr("hooks"), Check.TYPE, collections.OrderedDict)
    guards.add(box.attr("hooks"), Check.LENGTH, 0)
    return guards


def box(**attributes: object) -> Box:
    made = Box()
    made.__dict__.update({"number": 3, "hooks": collections.OrderedDict(), **attributes})
    return made


def test_an_object_is_one_guard_without_what_follows_from_the_rest() -> None:
    guards = merged(guards_of_a_box())
    assert len(guards) == 1
    assert guards.checks == 6  # neither "not None" nor "has number"


def test_merged_guards_hold_and_fail_like_single_ones() -> None:
    single, joined = lower(guards_of_a_box(), ()), lower(merged(guards_of_a_box()), ())
    lacking = box()
    del lacking.number
    for case in (
        box(),
        box(number=4),
        box(number=3.0),
        box(forward=1),
        box(call=None),
        box(hooks={}),
        box(hooks=collections.OrderedDict(a=1)),
        lacking,
        None,
        torch.ones(1),
    ):
        expected = single.check((case,), {}, {}, None)
        assert joined.check((case,), {}, {}, None) == expected


def test_the_failing_part_is_named() -> None:
    guards = merged(guards_of_a_box())
    program = lower(guards, ())
    assert isinstance(program, _C.GuardProgram)
    said = failure(program, list(guards), record_of(box(number=4)))
    assert said == "L['box'].number: expected 3, got 4"
    said = failure(program, list(guards), record_of(box(forward=1)))
    assert said == "L['box'].forward: expected not to exist, is present"


def test_a_merged_guard_in_words_says_all_of_it() -> None:
    (guard,) = merged(guards_of_a_box())
    words = say(guard)
    assert "type of L['box'] is" in words
    assert "L['box'].call does not exist" in words
    assert "length of L['box'].hooks is 0" in words


def test_relations_and_tensors_stand_alone() -> None:
    guards = GuardSet()
    first, second = LocalSource("a", 0), LocalSource("b", 1)
    guards.add(first, Check.SAME, second)
    guards.add(None, Check.DISTINCT, (first, second))
    guards.add(first, Check.TYPE, list)
    guards.add(first, Check.LENGTH, 2)
    assert sorted(guard.check.name for guard in merged(guards)) == ["ALL", "DISTINCT", "SAME"]
