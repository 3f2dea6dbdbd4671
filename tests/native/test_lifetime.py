"""Objects live as long as in eager Python and no longer; memory does not grow."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from framehook import _C
from tests.native.capturing import capture, continue_in, replace
from tests.resident_memory import measures_memory, resident_bytes


class Thing:
    pass


def fn(x):
    return None


def test_arguments_die_with_the_call(handle):
    replace(handle, fn, lambda x: None)
    gc.disable()
    try:
        with capture(handle):
            thing = Thing()
            alive = weakref.ref(thing)
            fn(thing)
            del thing
            assert alive() is None
            fn(Thing())
    finally:
        gc.enable()


def test_arguments_die_after_an_exception(handle):
    def fails(x):
        return None

    scope: dict[str, object] = {}
    exec("def generated(x):\n    raise ValueError", scope)
    replace(handle, fails, scope["generated"])
    with capture(handle):
        thing = Thing()
        alive = weakref.ref(thing)
        with pytest.raises(ValueError):
            fails(thing)
        del thing
    gc.collect()
    assert alive() is None


def test_arguments_die_after_a_miss(handle):
    _C.set_miss_callback(lambda handle, record: None)
    with capture(handle):
        thing = Thing()
        alive = weakref.ref(thing)
        fn(thing)
        del thing
        assert alive() is None


def test_finalizers_run_while_a_frame_is_cleared(handle):
    log = []

    class Loud:
        def __del__(self):
            log.append(fn(1))
            raise RuntimeError("ignored")

    def takes(x):
        return None

    replace(handle, fn, lambda x: "generated")

    def taken(x):
        raise KeyError("kept")

    replace(handle, takes, taken)
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: log.append(unraisable.exc_type)
    try:
        with capture(handle):
            with pytest.raises(KeyError, match="kept") as caught:
                takes(Loud())
            caught.value.__traceback__ = None
            del caught
    finally:
        sys.unraisablehook = hook
    assert log == ["generated", RuntimeError]


def test_result_survives_its_argument(handle):
    replace(handle, fn, lambda x: [x, x])
    with capture(handle):
        result = fn(Thing())
    alike = [thing := Thing(), thing]
    del thing
    assert result[0] is result[1]
    references = sys.getrefcount(result[0]), sys.getrefcount(alike[0])
    assert references[0] == references[1]


def test_closures_are_not_kept(handle):
    def make(thing):
        def inner():
            return thing

        return inner

    code = make(None).__code__
    replace(handle, code, make(None))
    thing = Thing()
    alive = weakref.ref(thing)
    with capture(handle):
        inner = make(thing)
        assert inner() is thing
    del inner, thing
    gc.collect()
    assert alive() is None


def test_entry_does_not_outlive_its_code_object(handle):
    scope: dict[str, object] = {}
    exec("def victim(x): return x", scope)
    entry = replace(handle, scope["victim"], lambda x: x)
    alive = weakref.ref(entry)
    del entry
    assert len(handle.entries()) == 1
    scope.clear()
    gc.collect()
    assert handle.entries() == []
    assert alive() is None


def test_entries_die_with_the_handle():
    own = _C.Handle()
    entry = replace(own, fn, lambda x: x)
    alive = weakref.ref(entry)
    del entry, own
    assert alive() is None
    assert _C.code_record_info(fn.__code__)["handles"] == []


@pytest.mark.parametrize("code_first", [True, False])
def test_handle_and_code_may_go_in_either_order(code_first):
    own = _C.Handle()
    scope: dict[str, object] = {}
    exec("def victim(x): return x", scope)
    for _ in range(3):
        replace(own, scope["victim"], lambda x: x, payload=Thing())
    if code_first:
        scope.clear()
        del own
    else:
        del own
        scope.clear()
    gc.collect()


def test_cycle_through_payload_and_handle_is_collected():
    class Owner(_C.Handle):
        pass

    own = Owner()
    replace(own, fn, lambda x: x, payload=own)
    alive = weakref.ref(own)
    del own
    gc.collect()
    assert alive() is None


def test_cycle_through_globals_is_collected():
    scope: dict[str, object] = {}
    exec("def victim(x): return x\ndef generated(x): return x", scope)
    own = _C.Handle()
    replace(own, scope["victim"], scope["generated"], is_whole=True)
    scope["compiled"] = _C.CompiledCallable(own, scope["victim"])
    assert scope["compiled"](3) == 3  # the entry now holds a function with these globals
    alive = weakref.ref(own)
    del own, scope
    gc.collect()
    assert alive() is None


def test_payload_finalizer_may_use_the_cache(handle):
    log = []

    class Payload:
        def __del__(self):
            log.append(len(handle.entries()))
            replace(handle, fn, lambda x: "from finalizer")

    replace(handle, fn, lambda x: x, payload=Payload())
    handle.clear()
    assert log == [0]
    with capture(handle):
        assert fn(1) == "from finalizer"


def test_resume_codes_live_as_long_as_the_original():
    scope: dict[str, object] = {}
    exec("def victim(x): return x\ndef resumed(x): return x", scope)
    reference = continue_in(scope["resumed"], scope["victim"])
    del scope["resumed"]
    gc.collect()
    assert reference.get() is not None
    scope.clear()
    gc.collect()
    assert reference.get() is None


def test_deleted_local_dies_at_once_in_a_native_resume_function(handle):
    def victim(x):
        return None

    def resumed(x):
        alive = weakref.ref(x)
        del x
        return alive() is None

    reference = continue_in(resumed, victim)
    scope = {"reference": reference, "Thing": Thing, "make": _C.make_continuation, "weakref": weakref}
    exec("def generated(x): return make(reference, Thing())", scope)
    victim = type(victim)(victim.__code__, scope)
    replace(handle, victim, scope["generated"])
    with capture(handle):
        assert victim(1) is True


def grows(call) -> int:
    for _ in range(5_000):
        call()
    gc.collect()
    before = resident_bytes()
    for _ in range(100_000):
        call()
    gc.collect()
    return resident_bytes() - before


@measures_memory
def test_memory_does_not_grow(handle):
    def keyword(a, *rest, k=3, **others):
        return None

    def with_closure():
        return handle

    def broken(x):
        return x

    def resumed(x):
        return x

    replace(handle, keyword, lambda a, k, rest, others: None, is_whole=True, takes_inputs=False)
    replace(handle, with_closure, with_closure)
    reference = continue_in(resumed, broken)
    scope = {"make": _C.make_continuation, "reference": reference}
    exec("def generated(x): return make(reference, x)", scope)
    broken = type(broken)(broken.__code__, scope)
    replace(handle, broken, scope["generated"])
    compiled = _C.CompiledCallable(handle, keyword)
    compiled_broken = _C.CompiledCallable(handle, broken)
    missing = _C.CompiledCallable(handle, fn)
    raising = _C.CompiledCallable(handle, lambda x: 1 / 0)

    def raises():
        try:
            raising(1)
        except ZeroDivisionError:
            pass

    calls = {
        "direct": lambda: compiled(1, 2, k=4, z=5),
        "through the hook": lambda: compiled_broken(Thing()),
        "miss": lambda: missing(Thing()),
        "exception": raises,
    }
    assert {name: grown for name, call in calls.items() if (grown := grows(call)) >= 1 << 20} == {}
    with capture(handle):
        assert grows(with_closure) < 1 << 20
