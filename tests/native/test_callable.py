"""CompiledCallable, GraphCallable and DisabledCallable as objects that user code calls."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import sys
import weakref

import pytest

from framehook import _C
from tests.native.capturing import capture, replace
from tests.native.test_evaluation import CALLS, defaults, everything, generated_for, keyword_only, plain

MISFITS = [
    (plain, (1,), {}),
    (plain, (1, 2, 3), {}),
    (plain, (1,), {"a": 1}),
    (plain, (1, 2), {"c": 3}),
    (plain, (1, 2), {"b": 3}),
    (keyword_only, (1,), {}),
    (keyword_only, (1, 2), {"k": 3}),
    (everything, (), {"z": 1}),
    (everything, (1,), {"a": 1}),
    (defaults, (), {}),
]


@pytest.mark.parametrize(("fn", "args", "kwargs", "slots"), CALLS)
def test_binding_is_eagers_without_the_hook(handle, fn, args, kwargs, slots):
    replace(handle, fn, generated_for(fn), is_whole=True)
    compiled = _C.CompiledCallable(handle, fn)
    assert compiled(*args, **kwargs) == ("generated", *slots)
    assert handle.counters()["hits"] == 1


@pytest.mark.parametrize(("fn", "args", "kwargs"), MISFITS)
def test_call_that_does_not_fit_raises_eagers_type_error(handle, fn, args, kwargs):
    replace(handle, fn, generated_for(fn), is_whole=True)
    compiled = _C.CompiledCallable(handle, fn)
    with pytest.raises(TypeError) as expected:
        fn(*args, **kwargs)
    with pytest.raises(TypeError) as got:
        compiled(*args, **kwargs)
    assert str(got.value) == str(expected.value)
    assert handle.counters()["hits"] == 0


def test_keyword_names_that_are_equal_but_not_identical(handle):
    replace(handle, plain, generated_for(plain), is_whole=True)
    compiled = _C.CompiledCallable(handle, plain)
    name = "".join(["", "b"])
    assert compiled(1, **{name: 2}) == ("generated", 1, 2)

    class Name(str):
        pass

    # Names of odd types may run Python when compared: CPython binds those, and the hook finds the entry.
    assert compiled(1, **{Name("b"): 2}) == ("generated", 1, 2)


def test_changed_defaults_are_seen(handle):
    def fn(a, b=2, *, k=3):
        return a

    replace(handle, fn, generated_for(fn), is_whole=True)
    compiled = _C.CompiledCallable(handle, fn)
    assert compiled(1) == ("generated", 1, 2, 3)
    fn.__defaults__ = (20,)
    fn.__kwdefaults__ = {"k": 30}
    assert compiled(1) == ("generated", 1, 20, 30)
    fn.__defaults__ = None
    with pytest.raises(TypeError):
        compiled(1)


def test_changed_code_is_seen(handle):
    def fn(a):
        return "old"

    replace(handle, fn, generated_for(fn), is_whole=True)
    compiled = _C.CompiledCallable(handle, fn)
    assert compiled(1) == ("generated", 1)
    fn.__code__ = (lambda a: "new").__code__
    assert compiled(1) == "new"


class Model:
    def __init__(self, n):
        self.n = n

    def method(self, x, *, k=1):
        return ("eager", self.n, x, k)

    def __call__(self, x):
        return self.method(x)


def test_bound_method(handle):
    model = Model(5)
    replace(handle, Model.method, lambda self, x, k: ("generated", self.n, x, k), is_whole=True)
    compiled = _C.CompiledCallable(handle, model.method)
    assert compiled(2) == ("generated", 5, 2, 1)
    assert compiled(x=2, k=3) == ("generated", 5, 2, 3)
    with pytest.raises(TypeError):
        compiled()
    handle.clear()
    assert compiled(2) == ("eager", 5, 2, 1)


def test_descriptor_binds_functions_only(handle):
    def method(self, x):
        return (self, x)

    class Holder:
        compiled = _C.CompiledCallable(handle, method)
        twice = _C.CompiledCallable(handle, _C.CompiledCallable(handle, method))
        disabled = _C.DisabledCallable(method)
        bound = _C.CompiledCallable(handle, Model(7).method)
        instance = _C.CompiledCallable(handle, Model(8))
        builtin = _C.CompiledCallable(handle, len)

    holder = Holder()
    assert holder.compiled(1) == holder.twice(1) == holder.disabled(1) == (holder, 1)
    assert Holder.compiled(holder, 1) == (holder, 1)
    assert holder.bound(1) == ("eager", 7, 1, 1)
    assert holder.instance(1) == ("eager", 8, 1, 1)
    assert holder.builtin([1, 2]) == 2
    replace(handle, method, lambda self, x: ("generated", x), is_whole=True)
    assert holder.compiled(1) == holder.twice(1) == ("generated", 1)


def test_callable_objects_are_captured_inside(handle):
    replace(handle, Model.method, lambda self, x, k: ("generated", x))
    assert _C.CompiledCallable(handle, Model(1))(3) == ("generated", 3)
    assert _C.CompiledCallable(handle, functools.partial(Model(1).method, 3))() == ("generated", 3)


def test_whole_entries_run_without_the_hook_and_others_with_it(handle):
    def seen(x):
        return x

    scope = {"is_hook_installed": _C.is_hook_installed}
    exec("def generated(x): return is_hook_installed()", scope)
    fn = type(seen)(seen.__code__, scope)
    entry = replace(handle, fn, scope["generated"], is_whole=True)
    compiled = _C.CompiledCallable(handle, fn)
    assert compiled(1) is False
    _C.remove_entry(entry)
    replace(handle, fn, scope["generated"])
    assert compiled(1) is True
    assert handle.counters() == {
        "hits": 2,
        "misses": 0,
        "fresh_misses": 0,
        "graph_failures": 0,
        "eager_frames": 0,
        "resumes": 0,
    }


def test_calls_under_an_outer_handle_belong_to_it(handle):
    inner_handle = _C.Handle()

    def inner(x):
        return ("eager", x)

    compiled = _C.CompiledCallable(inner_handle, inner)
    replace(inner_handle, inner, lambda x: "inner handle", is_whole=True)

    def outer(x):
        return compiled(x)

    assert outer(1) == "inner handle"
    assert _C.CompiledCallable(handle, outer)(1) == ("eager", 1)
    replace(handle, inner, lambda x: "outer handle")
    assert _C.CompiledCallable(handle, outer)(1) == "outer handle"
    assert inner_handle.counters()["hits"] == 1


def test_capture_off_makes_a_compiled_function_the_function(handle):
    replace(handle, plain, generated_for(plain), is_whole=True)
    compiled = _C.CompiledCallable(handle, plain)
    state = _C.capture_off()
    assert compiled(1, 2) is None
    _C.capture_on(state)
    assert compiled(1, 2) == ("generated", 1, 2)


def test_disabled_callable(handle):
    def inner(x):
        return ("eager", x)

    def outer(x):
        return inner(x), _C.is_capture_off()

    replace(handle, inner, lambda x: "generated")
    disabled = _C.DisabledCallable(outer)
    with capture(handle):
        assert outer(1) == ("generated", False)
        assert disabled(x=1) == (("eager", 1), True)
        with pytest.raises(TypeError):
            disabled()
        assert not _C.is_capture_off()
    compiled = _C.CompiledCallable(handle, lambda x: disabled(x))
    assert compiled(1) == (("eager", 1), True)


def test_subclass_keeps_the_fast_call_and_may_override_it(handle):
    class Compiled(_C.CompiledCallable):
        def __init__(self, handle, fn, extra):
            self.extra = extra

        def __new__(cls, handle, fn, extra):
            return super().__new__(cls, handle, fn)

    class Counting(Compiled):
        calls = 0

        def __call__(self, *args):
            self.calls += 1
            return super().__call__(*args)

    replace(handle, plain, generated_for(plain), is_whole=True)
    compiled, counting = Compiled(handle, plain, "e"), Counting(handle, plain, "e")
    assert compiled(1, 2) == counting(1, 2) == ("generated", 1, 2)
    assert (compiled.extra, counting.calls) == ("e", 1)
    have_vectorcall = 1 << 11
    assert Compiled.__flags__ & have_vectorcall
    assert not Counting.__flags__ & have_vectorcall


def test_init_subclass_cooperates(handle):
    seen = []

    class Mixin:
        def __init_subclass__(cls, *, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            seen.append(tag)

    class Both(_C.CompiledCallable, Mixin, tag="t"):
        pass

    assert seen == ["t"]


def test_attributes_weak_references_and_wrapping(handle):
    compiled = functools.update_wrapper(_C.CompiledCallable(handle, defaults), defaults)
    assert compiled.fn is defaults
    assert compiled.handle is handle
    assert compiled.__name__ == "defaults"
    assert inspect.signature(compiled) == inspect.signature(defaults)
    assert weakref.ref(compiled)() is compiled
    assert repr(compiled).startswith("<framehook compiled <function defaults")
    assert callable(compiled)


def test_compiled_callable_in_a_cycle_is_collected():
    own = _C.Handle()
    model = Model(1)
    model.compiled = _C.CompiledCallable(own, model.method)
    model.compiled.back = model.compiled
    alive = weakref.ref(model.compiled), weakref.ref(own)
    del model, own
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


@pytest.mark.parametrize("boxed", [False, True])
def test_graph_callable(handle, boxed):
    def unboxed(*inputs):
        return (_C.is_capture_off(), _C.is_hook_installed(), *inputs)

    def emptied(inputs):
        values = list(inputs)
        inputs.clear()
        return [_C.is_capture_off(), _C.is_hook_installed(), *values]

    graph = _C.GraphCallable(emptied if boxed else unboxed, boxed, False, "graph_0")
    with capture(handle):
        inputs = [1, 2]
        assert list(graph(inputs)) == [True, False, 1, 2]
        assert inputs == ([] if boxed else [1, 2])
        assert _C.is_hook_installed()
    assert (graph.__name__, repr(graph)) == ("graph_0", "<compiled graph graph_0>")
    for wrong in ((), (1,), ([1], [2])):
        with pytest.raises(TypeError, match="graph_0 is called with one list"):
            graph(*wrong)
    bad = _C.GraphCallable(lambda inputs: 3, True, True, "graph_1")
    with pytest.raises(TypeError, match="graph_1 returned int instead of a list or tuple"):
        bad([])


class Cloned:
    """Something with `clone()`, which is all that a graph's outputs are asked for."""

    def clone(self):
        return Cloned()


@pytest.mark.parametrize("count", [2, 9, 300])
@pytest.mark.parametrize("place", [0, -2])
def test_an_output_that_comes_twice_is_copied(count, place):
    values = [Cloned() for _ in range(count)]
    values[-1] = values[place]
    graph = _C.GraphCallable(lambda inputs: values, True, False, "graph")
    given = graph([])
    assert len({id(each) for each in given}) == count
    assert list(given[:-1]) == values[:-1]
    assert values[-1] is values[place], "what the graph returned is its own"
    distinct = tuple(Cloned() for _ in range(count))
    assert _C.GraphCallable(lambda inputs: distinct, True, False, "graph")([]) is distinct


@pytest.mark.parametrize("result", [None, (), (1, 2), [1, 2, 3], 7])
def test_a_result_that_does_not_fit_is_refused_at_any_call(result):
    def refuse(given):
        assert given is result and _C.is_capture_off()
        raise LookupError("refused")

    results = [(1,), result, [1]]
    graph = _C.GraphCallable(lambda inputs: results.pop(0), True, False, "graph", 1, refuse)
    assert graph([]) == (1,)
    with pytest.raises(LookupError, match="refused"):
        graph([])
    assert graph([]) == [1]


def failing_victim(graph, inputs="[x]"):
    def victim(x):
        return ("eager", x)

    scope = {"graph": graph, "note": []}
    exec(f"def generated(x): return graph({inputs})", scope)
    victim = type(victim)(victim.__code__.replace(), scope)
    return victim, scope["generated"]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("mutates", [False, True])
def test_graph_that_fails_before_it_changes_anything_runs_eagerly(handle, whole, mutates):
    def fails(inputs):
        raise ValueError("from the graph")

    victim, generated = failing_victim(_C.GraphCallable(fails, True, mutates, "graph"))
    replace(handle, victim, generated, is_whole=whole)
    compiled = _C.CompiledCallable(handle, victim)
    for call, context in ((compiled, contextlib.nullcontext()), (victim, capture(handle))):
        with context:
            if mutates:
                with pytest.raises(ValueError, match="from the graph"):
                    call(1)
            else:
                assert call(1) == ("eager", 1)
    assert handle.counters()["graph_failures"] == (0 if mutates else 2)
    assert sys.exc_info() == (None, None, None)


def test_other_exceptions_after_a_failed_graph_are_not_swallowed(handle):
    def fails(inputs):
        raise ValueError("from the graph")

    graph = _C.GraphCallable(fails, True, False, "graph")

    def victim(x):
        return "eager"

    scope = {"graph": graph}
    exec(
        "def generated(x):\n"
        "    try:\n"
        "        graph([x])\n"
        "    except ValueError:\n"
        "        raise KeyError('from generated code')\n",
        scope,
    )
    victim = type(victim)(victim.__code__, scope)
    replace(handle, victim, scope["generated"], is_whole=True)
    with pytest.raises(KeyError):
        _C.CompiledCallable(handle, victim)(1)


def test_failed_graph_in_an_inner_frame_does_not_rerun_the_outer(handle):
    def fails(inputs):
        raise ValueError("from the graph")

    inner, inner_generated = failing_victim(_C.GraphCallable(fails, True, False, "graph"))
    log = []
    scope = {"inner": inner, "log": log}
    exec(
        "def outer(x):\n    log.append('eager')\n"
        "def generated(x):\n    log.append('generated')\n    return inner(x)",
        scope,
    )
    outer = scope["outer"]
    replace(handle, inner, inner_generated)
    replace(handle, outer, scope["generated"])
    with capture(handle):
        assert outer(1) == ("eager", 1)
    assert log == ["generated"]
    assert handle.counters()["graph_failures"] == 1
