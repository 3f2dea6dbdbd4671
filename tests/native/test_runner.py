"""Continuations: pieces of a frame run one after the other in its place."""

from __future__ import annotations

import inspect
import sys

import pytest

from framehook import _C
from tests.native.capturing import capture, continue_in, replace


def pieces(source: str, **names):
    """Functions defined by `source` in a scope of their own, which has make() and what is named."""
    scope = {"make": _C.make_continuation, "sys": sys, "refs": {}, **names}
    exec(source, scope)
    return scope


def test_resume_code_runs_natively_when_nobody_compiles_it(handle):
    scope = pieces("""
def original(x): return "eager"
def generated(x): return make(refs["next"], x, x + 1)
def resumed(a, b): return (a, b)
""")
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    asked = []
    _C.set_miss_callback(
        lambda handle, record: asked.append((record.code.co_name, record.slots, record.function))
    )
    with capture(handle):
        assert scope["original"](1) == (1, 2)
    assert ("resumed", (1, 2), None) in asked
    assert [name for name, *_ in asked].count("resumed") == 1
    assert handle.counters()["resumes"] == 1
    assert _C.CompiledCallable(handle, scope["original"])(1) == (1, 2)


def test_resume_code_has_entries_of_its_own(handle):
    scope = pieces("""
def original(x): return "eager"
def generated(x): return make(refs["next"], x)
def resumed(a): return ("native", a)
def resumed_generated(a): return ("generated", a)
""")
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    entry = replace(handle, scope["resumed"], scope["resumed_generated"])
    with capture(handle):
        assert scope["original"](1) == ("generated", 1)
        assert scope["original"](2) == ("generated", 2)
    assert entry.hits == 2
    _C.mark(scope["resumed"].__code__, handle, "skip")
    with capture(handle):
        assert scope["original"](3) == ("native", 3)


def test_stack_and_caller_are_the_same_at_the_ten_thousandth_break(handle):
    scope = pieces("""
def original(n): return "eager"
def generated(n): return make(refs["next"], n, [])
def resumed(n, seen): return "native"
def resumed_generated(n, seen):
    frame, depth = sys._getframe(1), 0
    seen.append((frame, frame.f_lineno))
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    seen.append(depth)
    if n == 0:
        return seen
    return make(refs["next"], n - 1, seen)
""")
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    replace(handle, scope["resumed"], scope["resumed_generated"])

    def caller():
        return scope["original"](10_000)

    with capture(handle):
        seen = caller()
    assert len(seen) == 2 * 10_001
    assert len(set(seen[1::2])) == 1
    assert len(set(seen[::2])) == 1
    assert seen[0][0].f_code is caller.__code__
    del seen
    assert handle.counters()["resumes"] == 10_001


def test_native_resume_code_sees_the_callers_frame(handle):
    scope = pieces("""
def original(x): return "eager"
def generated(x): return make(refs["next"], x)
def resumed(x): return sys._getframe(1).f_code.co_name, helper(x)
def helper(x): return "helper"
""")
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    replace(handle, scope["helper"], lambda x: "captured helper")

    def caller():
        return scope["original"](1)

    with capture(handle):
        assert caller() == ("caller", "captured helper")


def test_closure_reaches_every_piece(handle):
    scope = pieces("""
def make_original(cell):
    def original(x): return cell, x
    return original
def make_pieces(cell):
    def generated(x):
        cell  # as the original, so that a call's closure fits
        return make(refs["next"], x)
    def resumed(x): return ("resumed", cell, x)
    return generated, resumed
""")
    original = scope["make_original"]("of the call")
    generated, resumed = scope["make_pieces"]("unused")
    scope["refs"]["next"] = continue_in(resumed, original)
    replace(handle, original, generated)
    with capture(handle):
        assert original(1) == ("resumed", "of the call", 1)


def test_exception_in_a_piece_passes_through(handle):
    scope = pieces("""
def original(x): return "eager"
def generated(x): return make(refs["next"], x)
def resumed(x): raise KeyError(x)
""")
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    with capture(handle):
        with pytest.raises(KeyError) as caught:
            scope["original"](5)
    names = [frame.frame.f_code.co_name for frame in inspect.getinnerframes(caught.tb)]
    assert names[-1] == "resumed"
    assert "generated" not in names


def test_failed_graph_in_a_resume_function_runs_it_natively(handle):
    def fails(inputs):
        raise ValueError

    scope = pieces(
        """
def original(x): return "eager"
def generated(x): return make(refs["next"], x)
def resumed(x): return ("native", x)
def resumed_generated(x): return graph([x])
""",
        graph=_C.GraphCallable(fails, True, False, "graph"),
    )
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    replace(handle, scope["resumed"], scope["resumed_generated"])
    with capture(handle):
        assert scope["original"](1) == ("native", 1)
    assert handle.counters()["graph_failures"] == 1


def test_dead_resume_code_is_an_error_not_a_crash(handle):
    scope = pieces("""
def original(x): return "eager"
def generated(x): return make(refs["next"], x)
""")
    orphan = {}
    exec("def resumed(x): return x", orphan)
    scope["refs"]["next"] = _C.CodeRef(orphan["resumed"].__code__)
    orphan.clear()
    replace(handle, scope["original"], scope["generated"])
    with capture(handle):
        with pytest.raises(RuntimeError, match="nobody owns it"):
            scope["original"](1)


def test_wrong_number_of_values_is_a_type_error(handle):
    scope = pieces("""
def original(x): return "eager"
def generated(x): return make(refs["next"], x, x)
def resumed(x): return x
""")
    scope["refs"]["next"] = continue_in(scope["resumed"], scope["original"])
    replace(handle, scope["original"], scope["generated"])
    with capture(handle):
        with pytest.raises(TypeError, match="takes 1 positional argument"):
            scope["original"](1)


def test_continuation_shows_what_it_holds():
    def resumed(x):
        return x

    reference = _C.CodeRef(resumed.__code__)
    continuation = _C.make_continuation(reference, 1, "two")
    assert continuation.code_ref is reference
    assert continuation.values == (1, "two")
    assert reference.get() is resumed.__code__
    with pytest.raises(TypeError, match="needs a CodeRef"):
        _C.make_continuation(3)
    with pytest.raises(TypeError):
        _C.make_continuation()
    with pytest.raises(TypeError):
        _C.CodeRef(3)
