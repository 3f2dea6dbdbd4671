"""The evaluation function: flattened-signature calls, exceptions, generators, what is left alone."""

from __future__ import annotations

import inspect
import sys
import traceback
from typing import Any

import pytest

from framehook import _C
from tests.native.capturing import capture, replace


def flat(*slots: Any) -> tuple[Any, ...]:
    return ("generated", *slots)


def generated_for(fn: Any) -> Any:
    """A function with as many plain parameters as `fn` has argument slots."""
    code = fn.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = ", ".join(code.co_varnames[:count])
    scope: dict[str, Any] = {}
    exec(f"def {fn.__name__}({names}): return 'generated', {names}", scope)
    return scope[fn.__name__]


def plain(a, b): ...
def nothing(): ...
def defaults(a, b=2, c=3): ...
def keyword_only(a, *, k, m=5): ...
def everything(a, b=2, *rest, k=3, **others): ...
def positional_only(a, /, b, **others): ...
def starred(*rest): ...
def double_starred(**others): ...


CALLS = [
    (plain, (1, 2), {}, (1, 2)),
    (plain, (1,), {"b": 2}, (1, 2)),
    (plain, (), {"b": 2, "a": 1}, (1, 2)),
    (defaults, (1,), {}, (1, 2, 3)),
    (defaults, (1,), {"c": 9}, (1, 2, 9)),
    (keyword_only, (1,), {"k": 2}, (1, 2, 5)),
    (keyword_only, (1,), {"m": 7, "k": 2}, (1, 2, 7)),
    (everything, (1,), {}, (1, 2, 3, (), {})),
    (everything, (1, 2, 3, 4), {"k": 5, "z": 6}, (1, 2, 5, (3, 4), {"z": 6})),
    (positional_only, (1, 2), {"a": 3}, (1, 2, {"a": 3})),
    (starred, (1, 2), {}, ((1, 2),)),
    (starred, (), {}, ((),)),
    (double_starred, (), {"x": 1}, ({"x": 1},)),
]


@pytest.mark.parametrize(("fn", "args", "kwargs", "slots"), CALLS)
def test_entry_gets_all_argument_slots_in_order(handle, fn, args, kwargs, slots):
    entry = replace(handle, fn, generated_for(fn))
    with capture(handle):
        assert fn(*args, **kwargs) == ("generated", *slots)
    assert entry.hits == 1
    assert fn(*args, **kwargs) is None


def test_call_without_arguments(handle):
    replace(handle, nothing, lambda: "generated")
    with capture(handle):
        assert nothing() == "generated"


def test_cells_are_made_by_the_generated_code(handle):
    def outer(x):
        return lambda: x

    def generated(x):
        return lambda: ("cell", x)

    replace(handle, outer, generated)
    with capture(handle):
        inner = outer(3)
    assert inner() == ("cell", 3)


def test_closure_of_the_call_is_used(handle):
    def make(n):
        def add(x):
            return x + n

        return add

    one, ten = make(1), make(10)
    entry = replace(handle, one, make(0))
    with capture(handle):
        assert (one(1), ten(1), one(2)) == (2, 11, 3)
    assert entry.hits == 3


def test_globals_and_builtins_of_the_call_are_used(handle):
    source = "def fn(x): return (name, len(x))"
    scopes: list[dict[str, Any]] = [
        {"name": "first"},
        {"name": "second", "__builtins__": {"len": lambda x: -1}},
    ]
    code = compile(source, "<scope>", "exec").co_consts[0]
    functions = [type(replace)(code, scope) for scope in scopes]
    generated = compile(source, "<scope>", "exec").co_consts[0]
    _C.add_entry(handle, code, _C.Entry(None, generated))
    with capture(handle):
        got = [fn("abc") for fn in functions * 2]
    assert got == [("first", 3), ("second", -1)] * 2


def test_super_works_in_generated_code(handle):
    class Base:
        def who(self):
            return "base"

    class Derived(Base):
        def who(self):
            return "derived of " + super().who()

    class Template(Base):
        def who(self):
            return "generated of " + super().who()

    replace(handle, Derived.who, Template.who)
    with capture(handle):
        # The closure of the call holds the class, slot 0 the instance.
        assert Derived().who() == "generated of base"


def test_exception_of_generated_code_passes_through(handle):
    def fn(x):
        return x

    def generated(x):
        raise ValueError(f"boom {x}")

    replace(handle, fn, generated)

    def caller():
        fn(1)

    with capture(handle):
        with pytest.raises(ValueError, match="boom 1") as caught:
            caller()
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["caller", "generated"]
    assert caught.value.__context__ is None


def test_exception_context_is_eagers(handle):
    def fn():
        raise KeyError("inner")

    def generated():
        raise KeyError("inner")

    replace(handle, fn, generated)

    def caller():
        try:
            raise ValueError("outer")
        except ValueError:
            fn()

    with capture(handle):
        with pytest.raises(KeyError) as caught:
            caller()
    assert isinstance(caught.value.__context__, ValueError)
    assert sys.exc_info() == (None, None, None)


def test_caller_of_generated_code_is_the_callers_frame(handle):
    def fn():
        return None

    def generated():
        return sys._getframe(1).f_code.co_name, len(inspect.stack())

    replace(handle, fn, generated)

    def caller():
        return fn()

    def direct():
        return generated()

    expected = direct()[1]
    with capture(handle):
        name, depth = caller()
    assert name == "caller"
    assert depth == expected


def test_generators_and_coroutines_run_eagerly_but_their_callees_do_not(handle):
    seen = []

    def callee(x):
        return x

    def generator():
        for i in range(3):
            got = yield callee(i)
            seen.append(got)
        return "done"

    async def coroutine():
        return callee(7)

    replace(handle, callee, lambda x: x + 100)
    replace(handle, generator, lambda: "never")
    replace(handle, coroutine, lambda: "never")
    with capture(handle):
        running = generator()
        assert next(running) == 100
        assert running.send("a") == 101
        assert running.send("b") == 102
        with pytest.raises(StopIteration) as stop:
            running.send("c")
        waiting = coroutine()
        with pytest.raises(StopIteration) as returned:
            waiting.send(None)
    assert stop.value.value == "done"
    assert returned.value.value == 107
    assert seen == ["a", "b", "c"]


def test_throw_and_close_of_generators(handle):
    log = []

    def generator():
        try:
            yield 1
        except KeyError:
            yield "caught"
        finally:
            log.append("closed")

    with capture(handle):
        running = generator()
        next(running)
        assert running.throw(KeyError("x")) == "caught"
        running.close()
        unstarted = generator()
        with pytest.raises(KeyError):
            unstarted.throw(KeyError("early"))
        dropped = generator()
        next(dropped)
        del dropped
    assert log == ["closed", "closed"]


def test_generator_made_in_a_replaced_function(handle):
    def fn(n):
        return list(range(n))

    def generated(n):
        return [i * i for i in (j for j in range(n))]

    replace(handle, fn, generated)
    with capture(handle):
        assert fn(4) == [0, 1, 4, 9]


def test_class_and_module_bodies_run_eagerly(handle):
    asked = []
    _C.set_miss_callback(lambda handle, record: asked.append(record.code.co_name))
    with capture(handle):

        class Body:
            x = 1

        exec(compile("y = 2", "<module>", "exec"), scope := {})
    assert (Body.x, scope["y"]) == (1, 2)
    # The capture block's own `__exit__` is asked about, and audit hooks that packages have installed.
    assert not {"Body", "<module>"} & set(asked)


def test_miss_callback_sees_the_record(handle):
    records = []

    def fn(a, *rest, k=3):
        return a

    _C.set_miss_callback(lambda handle, record: records.append((handle, record)))
    with capture(handle):
        assert fn(1, 2) == 1
    record = next(r for _, r in records if r.code is fn.__code__)
    assert all(h is handle for h, _ in records)
    assert record.slots == (1, 3, (2,))
    assert record.globals is globals()
    assert record.builtins is __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
    assert record.closure is None
    assert record.function is fn


def test_entry_made_on_a_miss_runs_for_that_very_call(handle):
    def fn(x):
        return x

    def miss(handle, record):
        if record.code is not fn.__code__:
            return None
        entry = _C.Entry(None, (lambda x: x + 1).__code__)
        _C.add_entry(handle, record.code, entry)
        return entry

    _C.set_miss_callback(miss)
    with capture(handle):
        assert (fn(1), fn(2)) == (2, 3)
    counters = _C.record_counters(fn.__code__, handle)
    assert counters == {"lookups": 2, "hits": 1, "misses": 1}


def test_error_in_the_miss_callback_reaches_the_caller(handle):
    def fn(x):
        return x

    def miss(handle, record):
        if record.code is fn.__code__:
            raise LookupError("no graph")

    _C.set_miss_callback(miss)
    with capture(handle):
        with pytest.raises(LookupError, match="no graph"):
            fn(1)
        assert not _C.is_capture_off()
        assert _C.is_hook_installed()


def test_miss_callback_must_return_an_entry(handle):
    def fn(x):
        return x

    _C.set_miss_callback(lambda handle, record: 3 if record.code is fn.__code__ else None)
    with capture(handle):
        with pytest.raises(TypeError, match="must return an Entry or None, not int"):
            fn(1)


def test_nothing_is_captured_inside_the_miss_callback(handle):
    asked = []

    def helper():
        return 1

    def fn():
        return helper()

    def miss(handle, record):
        asked.append(record.code.co_name)
        assert _C.is_capture_off()
        assert not _C.is_hook_installed()  # no other thread needs it
        helper()
        return None

    _C.set_miss_callback(miss)
    with capture(handle):
        fn()
        assert _C.is_hook_installed()
    assert asked.count("fn") == 1
    assert asked.count("helper") == 1


def test_callees_of_eager_frames_are_captured(handle):
    def inner(x):
        return x

    def outer(x):
        return inner(x)

    replace(handle, inner, lambda x: "inner generated")
    with capture(handle):
        assert outer(1) == "inner generated"


def test_generated_code_may_call_captured_functions(handle):
    def inner(x):
        return x

    def outer(x):
        return x

    replace(handle, inner, lambda x: x * 10)
    scope = {"inner": inner}
    exec("def generated(x): return inner(x), inner(x + 1)", scope)
    outer = type(outer)(outer.__code__, scope)
    replace(handle, outer, scope["generated"])
    with capture(handle):
        assert outer(1) == (10, 20)


def test_more_slots_than_the_stack_array(handle):
    names = ", ".join(f"a{i}" for i in range(150))
    scope: dict[str, Any] = {}
    exec(f"def fn({names}): return 0\ndef generated({names}, inputs): return a0, a149, inputs", scope)
    replace(handle, scope["fn"], scope["generated"], takes_inputs=True, is_whole=True)
    compiled = _C.CompiledCallable(handle, scope["fn"])
    assert compiled(*range(150)) == (0, 149, [])
    with capture(handle):
        assert scope["fn"](*range(150)) == (0, 149, [])
