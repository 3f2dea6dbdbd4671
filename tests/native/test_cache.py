"""Entries on code objects: by handle, most recently used first, states, counters, removal."""

from __future__ import annotations

import gc
import threading
import types
import weakref

import pytest

from framehook import _C
from framehook.guards.guard import Check, GuardSet
from framehook.guards.lowering import lower
from framehook.source import LocalSource
from tests.native.capturing import capture, replace


def fn(x):
    return ("eager", x)


def other(x):
    return ("other", x)


@pytest.fixture(autouse=True)
def clean_records():
    yield
    for code in (fn.__code__, other.__code__):
        _C.reset_record(code)


def predicate_program(predicate):
    """A guard program that asks a Python function about argument 0."""
    collected = GuardSet()
    local = LocalSource("x", 0)
    collected.add(None, Check.PREDICATE, (predicate, (local,)))
    return lower(collected, [])


def equals_program(value):
    """A guard program that compares argument 0, and hands it on."""
    collected = GuardSet()
    local = LocalSource("x", 0)
    collected.add(local, Check.EQUALS, value)
    return lower(collected, [local])


def entry_for(value, result, **options):
    scope: dict[str, object] = {}
    exec(f"def generated(x, inputs): return ({result!r}, inputs)", scope)
    return _C.Entry(equals_program(value), scope["generated"].__code__, takes_inputs=True, **options)


def test_handles_do_not_see_each_others_entries():
    first, second = _C.Handle(), _C.Handle()
    replace(first, fn, lambda x: "first")
    replace(second, fn, lambda x: "second", is_whole=True)
    with capture(first):
        assert fn(1) == "first"
        with capture(second):
            assert fn(1) == "second"
        assert fn(1) == "first"
    assert _C.CompiledCallable(first, fn)(1) == "first"
    assert _C.CompiledCallable(second, fn)(1) == "second"
    assert fn(1) == ("eager", 1)
    del first
    assert _C.CompiledCallable(second, fn)(1) == "second"


def test_first_entry_that_holds_wins_and_moves_to_the_front(handle):
    entries = [entry_for(i, f"entry {i}", is_whole=True) for i in range(3)]
    for entry in entries:
        _C.add_entry(handle, fn.__code__, entry)
    compiled = _C.CompiledCallable(handle, fn)
    assert _C.record_entries(fn.__code__, handle) == entries[::-1]
    assert compiled(0) == ("entry 0", [0])
    assert _C.record_entries(fn.__code__, handle) == [entries[0], entries[2], entries[1]]
    assert compiled(2) == ("entry 2", [2])
    assert compiled(9) == ("eager", 9)
    assert _C.record_entries(fn.__code__, handle) == [entries[2], entries[0], entries[1]]
    assert [entry.hits for entry in entries] == [1, 0, 1]
    assert entries[2].last_hit_lookup == 2
    assert _C.record_counters(fn.__code__, handle) == {"lookups": 3, "hits": 2, "misses": 1}
    assert handle.counters()["eager_frames"] == 1


def test_discriminator_is_asked_first(handle):
    asked = []
    guards = predicate_program(lambda x: asked.append(x) is None)
    entry = _C.Entry(guards, (lambda x: "generated").__code__)
    _C.add_entry(handle, fn.__code__, entry, equals_program(1))
    with capture(handle):
        assert fn(2) == ("eager", 2)
        assert asked == []
        assert fn(1) == "generated"
    assert asked == [1]
    assert entry.discriminator is not None


def test_entry_whose_guards_named_a_dead_object_is_removed(handle):
    class Thing:
        pass

    def entry_naming(thing):
        collected = GuardSet()
        collected.add(LocalSource("x", 0), Check.IDENTITY, thing)
        return _C.Entry(lower(collected, []), (lambda x: "generated").__code__, is_whole=True)

    first, second = Thing(), Thing()
    for thing in (first, second):
        _C.add_entry(handle, fn.__code__, entry_naming(thing))
    compiled = _C.CompiledCallable(handle, fn)
    assert compiled(first) == "generated"
    dead = weakref.ref(handle.entries()[1])
    del second, thing
    gc.collect()
    assert not dead().is_valid
    assert compiled(first) == "generated"
    assert dead() is None
    del first
    gc.collect()
    assert handle.entries() == []


def test_guard_that_changes_the_cache_while_it_is_searched(handle):
    def removes_everything(x):
        handle.clear()
        return True

    entry = _C.Entry(predicate_program(removes_everything), (lambda x: "generated").__code__, is_whole=True)
    for _ in range(3):
        _C.add_entry(handle, fn.__code__, _C.Entry(equals_program("never"), (lambda x, i: 0).__code__))
    _C.add_entry(handle, fn.__code__, entry)
    assert _C.CompiledCallable(handle, fn)(1) == "generated"
    assert handle.entries() == []


def test_guard_that_adds_entries_forever(handle):
    def adds(x):
        _C.add_entry(handle, fn.__code__, _C.Entry(program, (lambda x: 0).__code__, is_whole=True))
        return False

    program = predicate_program(adds)
    adds(0)
    assert _C.CompiledCallable(handle, fn)(1) == ("eager", 1)
    handle.clear()


def test_guard_that_replaces_the_code_of_the_function(handle):
    def victim(x):
        return "old"

    def swaps(x):
        victim.__code__ = (lambda x: "new").__code__
        gc.collect()
        return False

    _C.add_entry(
        handle, victim.__code__, _C.Entry(predicate_program(swaps), (lambda x: 0).__code__, is_whole=True)
    )
    assert _C.CompiledCallable(handle, victim)(1) == "new"


def test_skip_for_one_handle_and_for_all():
    first, second = _C.Handle(), _C.Handle()
    for own in (first, second):
        replace(own, fn, lambda x: "generated", is_whole=True)
    assert _C.state(fn.__code__, first) == "active"
    _C.mark(fn.__code__, first, "skip", "because")
    assert _C.state(fn.__code__, first) == "skip"
    assert _C.state(fn.__code__, second) == _C.state(fn.__code__) == "active"
    for own, expected in ((first, ("eager", 1)), (second, "generated")):
        assert _C.CompiledCallable(own, fn)(1) == expected
        with capture(own):
            assert fn(1) == expected
    _C.mark(fn.__code__, None, "skip", "for everybody")
    with capture(second):
        assert fn(1) == ("eager", 1)
    assert _C.CompiledCallable(second, fn)(1) == ("eager", 1)
    info = _C.code_record_info(fn.__code__)
    assert (info["state"], info["reason"]) == ("skip", "for everybody")
    assert info["handles"][0]["reason"] == "because"
    _C.mark(fn.__code__, None, "active")
    assert _C.CompiledCallable(second, fn)(1) == "generated"


def test_skipped_frames_still_have_their_callees_captured(handle):
    def inner(x):
        return x

    def outer(x):
        return inner(x)

    replace(handle, inner, lambda x: "generated")
    _C.mark(outer.__code__, handle, "skip")
    with capture(handle):
        assert outer(1) == "generated"
    assert _C.CompiledCallable(handle, outer)(1) == "generated"
    _C.mark(outer.__code__, handle, "skip_recursive")
    with capture(handle):
        assert outer(1) == 1
        assert inner(1) == "generated"
    assert _C.CompiledCallable(handle, outer)(1) == 1
    _C.mark(outer.__code__, handle, "active")
    _C.mark(outer.__code__, None, "skip_recursive")
    with capture(handle):
        assert outer(1) == 1


def test_frozen_code_hits_but_never_asks(handle):
    asked = []
    _C.set_miss_callback(lambda handle, record: asked.append(record.code))
    _C.add_entry(handle, fn.__code__, entry_for(1, "generated"))
    _C.mark(fn.__code__, handle, "frozen", "at the limit")
    with capture(handle):
        assert fn(1) == ("generated", [1])
        assert fn(2) == ("eager", 2)
    assert fn.__code__ not in asked


def test_unknown_states_and_wrong_arguments_are_refused(handle):
    with pytest.raises(ValueError, match="unknown state 'asleep'"):
        _C.mark(fn.__code__, handle, "asleep")
    with pytest.raises(TypeError):
        _C.mark(fn, handle, "skip")
    with pytest.raises(TypeError, match="expected a Handle or None"):
        _C.mark(fn.__code__, 3, "skip")
    with pytest.raises(TypeError, match="guards must be a GuardProgram or None"):
        _C.Entry(3, fn.__code__)
    with pytest.raises(TypeError):
        _C.add_entry(handle, fn.__code__, 3)
    with pytest.raises(TypeError):
        _C.enter_capture(3)
    with pytest.raises(TypeError):
        _C.exit_capture(3)
    with pytest.raises(TypeError, match="expected a callable"):
        _C.CompiledCallable(handle, 3)
    with pytest.raises(TypeError, match="expected a callable"):
        _C.set_miss_callback(3)
    with pytest.raises(ValueError, match="not a state"):
        _C.capture_on(5)


def test_an_entry_is_filed_once(handle):
    entry = replace(handle, fn, lambda x: x)
    assert entry.key_code is fn.__code__
    with pytest.raises(ValueError, match="filed already"):
        _C.add_entry(handle, other.__code__, entry)
    _C.remove_entry(entry)
    _C.remove_entry(entry)
    assert entry.key_code is None
    _C.add_entry(handle, other.__code__, entry)
    assert handle.entries() == [entry]


def test_reset_forgets_entries_states_and_counters(handle):
    def original(x):
        return x

    def resumed(x):
        return x

    _C.own_resume_code(original.__code__, resumed.__code__)
    second = _C.Handle()
    for own in (handle, second):
        replace(own, original, lambda x: "generated")
        replace(own, resumed, lambda x: "generated")
        _C.mark(original.__code__, own, "frozen")
    _C.reset_record(original.__code__, handle)
    assert handle.entries() == []
    assert len(second.entries()) == 2
    assert _C.state(original.__code__, handle) == "active"
    assert _C.state(original.__code__, second) == "frozen"
    _C.reset_record(original.__code__)
    assert second.entries() == []
    assert _C.code_record_info(original.__code__)["resume_codes"] == [resumed.__code__]


def test_code_is_classified_once(handle):
    asked = []

    def classify(code):
        assert _C.is_capture_off()
        asked.append(code)
        return code is not other.__code__

    misses = []
    _C.set_classify_callback(classify)
    _C.set_miss_callback(lambda handle, record: misses.append(record.code))
    with capture(handle):
        for _ in range(3):
            fn(1)
            other(1)
    assert asked.count(fn.__code__) == asked.count(other.__code__) == 1
    assert misses.count(fn.__code__) == 3
    assert other.__code__ not in misses
    assert _C.code_record_info(other.__code__)["kind"] == "excluded"
    _C.reset_record(other.__code__)
    assert _C.code_record_info(other.__code__)["kind"] == "unknown"


def test_what_the_user_compiles_by_name_needs_no_classification(handle):
    _C.set_classify_callback(lambda code: False)
    misses = []
    _C.set_miss_callback(lambda handle, record: misses.append(record.code))
    assert _C.CompiledCallable(handle, fn)(1) == ("eager", 1)
    assert misses == [fn.__code__]


def test_failing_classification_excludes(handle, monkeypatch):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)

    def classify(code):
        raise LookupError("broken")

    _C.set_classify_callback(classify)
    with capture(handle):
        assert fn(1) == ("eager", 1)
    assert any(isinstance(each.exc_value, LookupError) for each in reported)


def test_entry_that_does_not_hold_for_its_own_call_is_counted(handle):
    def miss(handle, record):
        if record.code is fn.__code__:
            return entry_for("something else", "never")

    _C.set_miss_callback(miss)
    with capture(handle):
        assert fn(1) == ("eager", 1)
    assert handle.counters()["fresh_misses"] == 1


def test_two_threads_with_two_handles(handle):
    def work(own, expected, wrong):
        compiled = _C.CompiledCallable(own, fn)
        for i in range(3000):
            with capture(own):
                if fn(i) != expected:
                    wrong.append(i)
            if compiled(i) != expected:
                wrong.append(i)

    wrong: list[int] = []
    handles = [_C.Handle() for _ in range(4)]
    threads = []
    for i, own in enumerate(handles):
        code = (lambda x: None).__code__.replace(co_consts=(f"thread {i}",), co_name="generated")
        template = types.FunctionType(code, {})
        replace(own, fn, template, is_whole=i % 2 == 0)
        threads.append(threading.Thread(target=work, args=(own, f"thread {i}", wrong)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(own.counters()["hits"] for own in handles) == 4 * 6000


def test_subclass_of_handle_keeps_its_own_attributes():
    class Owner(_C.Handle):
        def __init__(self, options, *, name):
            self.options = options
            self.name = name

    owner = Owner({"a": 1}, name="n")
    assert (owner.options, owner.name, owner.entries()) == ({"a": 1}, "n", [])
    assert weakref.ref(owner)() is owner
