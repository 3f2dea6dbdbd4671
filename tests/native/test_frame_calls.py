"""Frames below a frame that was left: pieces that return continuations, rests that are run, continuations joined."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from framehook import _C
from tests.native.capturing import capture, replace


def scope_of(source: str):
    scope = {"C": _C, "sys": sys, "refs": {}}
    exec(source, scope)
    return scope


def test_a_rest_runs_once_as_a_frame_of_its_function():
    cell = 5

    def function(a):
        return a + cell

    def rest(a, b):
        return sys._getframe(1).f_code.co_name, a + b + cell

    call = _C.make_rest_call(rest.__code__, function, 1, 2)
    assert call() == ("test_a_rest_runs_once_as_a_frame_of_its_function", 8)
    with pytest.raises(TypeError, match="once"):
        call()
    with pytest.raises(TypeError, match="once"):
        _C.make_rest_call(rest.__code__, function, 1, 2)(3)


def test_what_they_are_made_of_is_checked():
    def function():
        pass

    for wrong in ((), (function.__code__,), (function, function), (function.__code__, 3)):
        with pytest.raises(TypeError, match="code"):
            _C.make_piece_call(*wrong)
    with pytest.raises(TypeError, match="join_continuation"):
        _C.join_continuation((), 3)
    ref = _C.CodeRef(function.__code__)
    with pytest.raises(SystemError, match="does not know"):
        _C.join_continuation((ref, ref), _C.make_continuation(ref))
    with pytest.raises(SystemError, match="has to return a continuation"):
        _C.make_piece_call(function.__code__, function)()


def test_the_values_of_a_piece_live_in_its_frame_alone(handle):
    class Token:
        pass

    seen = []

    def function():
        pass

    def piece(token):
        watch = weakref.ref(token)
        del token
        seen.append(watch())
        return _C.make_continuation(_C.CodeRef(function.__code__))

    with capture(handle):
        _C.make_piece_call(piece.__code__, piece, Token())()
    assert seen == [None]


def test_a_chain_goes_on_as_one_continuation(handle):
    scope = scope_of("""
def inner(x): return "eager"
def outer(x): return "eager"
def rest_of_inner(a): return ("inner", a)
def rest_of_both(b, function, a): return (b, function.__name__, a)
def piece(a): return C.make_continuation(refs["inner"], a + 1)
def generated(x):
    below = C.make_piece_call(piece.__code__, inner, x)()
    return C.join_continuation((refs["inner"], refs["both"]), below, x * 10)
""")
    for name, code in (("inner", "rest_of_inner"), ("both", "rest_of_both")):
        scope["refs"][name] = _C.CodeRef(scope[code].__code__)
    replace(handle, scope["outer"], scope["generated"])
    with capture(handle):
        assert scope["outer"](3) == (30, "inner", 4)


def test_calls_and_joined_continuations_keep_nothing(handle):
    class Token:
        pass

    def function():
        pass

    ref = _C.CodeRef(function.__code__)
    token = Token()
    watch = weakref.ref(token)
    calls = [_C.make_piece_call(function.__code__, function, token), token]
    calls.append(calls)
    token.cycle = _C.make_rest_call(function.__code__, function, token)
    with pytest.raises(SystemError):
        _C.join_continuation((ref, ref), _C.make_continuation(ref, token), token)
    del token, calls
    gc.collect()
    assert watch() is None
