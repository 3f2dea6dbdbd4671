"""`compile`: what it takes, what it gives back, and bad input."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import pickle
import weakref
from typing import Any

import pytest
import torch

import framehook
from framehook.testing import CompileCounter, check


def double(x: torch.Tensor) -> torch.Tensor:
    """Twice x."""
    return x * 2


@framehook.compile(backend="eager")
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Adder:
    def __init__(self, amount: float) -> None:
        self.amount = amount

    def add(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.amount

    @classmethod
    def make(cls, x: torch.Tensor) -> torch.Tensor:
        return x + 10

    @staticmethod
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.amount


CALLABLES: dict[str, Any] = {
    "function": double,
    "lambda": lambda x: x * 3,
    "bound method": Adder(2).add,
    "class method": Adder.make,
    "static method": Adder.twice,
    "callable object": Adder(4),
    "partial": functools.partial(torch.add, alpha=2, other=torch.ones(3)),
    "module": torch.nn.Linear(3, 3),
    "builtin": torch.relu,
    "torch function": torch.nn.functional.gelu,
}


@pytest.mark.parametrize("name", CALLABLES)
def test_every_kind_of_callable_gives_the_eager_result(name: str) -> None:
    fn = CALLABLES[name]
    x = torch.randn(3)
    compiled = framehook.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(x), fn(x))


@pytest.mark.parametrize(
    "name", ["function", "lambda", "bound method", "static method", "callable object", "module"]
)
def test_python_callables_become_one_graph_and_are_hit(name: str) -> None:
    counter = CompileCounter()
    compiled = framehook.compile(CALLABLES[name], backend=counter)
    for _ in range(4):
        compiled(torch.ones(3))
    assert counter.frame_count == 1
    stats = framehook.stats(compiled)
    assert (stats.hits, stats.misses) == (3, 1)


def test_decorator_with_and_without_arguments() -> None:
    @framehook.compile
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x

    assert plain.__name__ == "plain"
    assert torch.equal(decorated(torch.zeros(2)), torch.ones(2))


def test_decorated_method_binds() -> None:
    counter = CompileCounter()

    class Scale:
        factor = 3

        @framehook.compile(backend=counter)
        def scale(self, x: torch.Tensor, *, plus: float = 0.0) -> torch.Tensor:
            return x * self.factor + plus

    scale = Scale()
    assert torch.equal(scale.scale(torch.ones(2), plus=1.0), torch.full((2,), 4.0))
    assert torch.equal(Scale.scale(scale, torch.ones(2), plus=1.0), torch.full((2,), 4.0))
    assert counter.frame_count == 1


def test_metadata_of_the_function_is_kept() -> None:
    compiled = framehook.compile(double)
    assert compiled.__name__ == "double"
    assert compiled.__doc__ == "Twice x."
    assert compiled.__module__ == __name__
    assert compiled.__wrapped__ is double
    assert inspect.signature(compiled) == inspect.signature(double)
    assert "double" in repr(compiled)


@pytest.mark.parametrize("bad", [3, "text", [], object(), torch.ones(2)])
def test_what_cannot_be_called_is_a_type_error(bad: object) -> None:
    with pytest.raises(TypeError, match="framehook.compile"):
        framehook.compile(bad)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="framehook.compile"):
        framehook.compile(backend="eager")(bad)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"fullgraph": 1}, TypeError),
        ({"dynamic": "yes"}, TypeError),
        ({"mode": 3}, TypeError),
        ({"options": [1]}, TypeError),
        ({"warmup_calls": -1}, ValueError),
        ({"warmup_calls": 1.5}, TypeError),
        ({"backend": 3}, TypeError),
        ({"backend": "inducter"}, framehook.UnknownBackendError),
        ({"no_such": 1}, TypeError),
    ],
)
def test_bad_options_are_refused_at_once(keywords: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        framehook.compile(double, **keywords)
    with pytest.raises(error):
        framehook.compile(**keywords)
    with pytest.raises(error):
        framehook.capture(**keywords)


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((), {"y": 1})])
def test_a_call_that_does_not_fit_gets_eagers_type_error(
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
) -> None:
    args, kwargs = arguments
    with pytest.raises(TypeError) as expected:
        double(*args, **kwargs)
    with pytest.raises(TypeError) as found:
        framehook.compile(double, backend="eager")(*args, **kwargs)
    assert str(found.value) == str(expected.value)


def nothing(x: torch.Tensor) -> None:
    x + 1


def no_tensors(a: int, b: int) -> int:
    return a * b + 1


def raising(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    raise ValueError(f"bad shape {tuple(x.shape)}")


def recursive(x: torch.Tensor, depth: int) -> torch.Tensor:
    return x if depth == 0 else recursive(x + 1, depth - 1)


class Empty(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


ODD: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "module without parameters": (Empty(), (torch.ones(2),)),
    "function without tensors": (no_tensors, (3, 4)),
    "empty batch": (double, (torch.ones(0, 4),)),
    "0-d tensor": (double, (torch.tensor(2.5),)),
    "raises": (raising, (torch.ones(2),)),
    "returns nothing": (nothing, (torch.ones(2),)),
    "recursive": (recursive, (torch.ones(2), 5)),
    "not a tensor": (double, (3,)),
    "text": (double, ("ab",)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_input_behaves_as_eager(name: str) -> None:
    fn, args = ODD[name]
    check(fn, *args)


def test_builtins_classes_generators_and_coroutines_behave_as_eager() -> None:
    def counting(n: int) -> Any:
        for i in range(n):
            yield torch.ones(1) * i

    async def later(x: torch.Tensor) -> torch.Tensor:
        await asyncio.sleep(0)
        return x + 1

    async def stream(n: int) -> Any:
        for i in range(n):
            yield i

    async def collect() -> list[int]:
        return [i async for i in framehook.compile(stream)(3)]

    assert framehook.compile(len)([1, 2]) == 2
    assert isinstance(framehook.compile(Adder)(3), Adder)
    assert framehook.compile(Adder)(3).amount == 3
    assert [float(t) for t in framehook.compile(counting)(3)] == [0.0, 1.0, 2.0]
    assert torch.equal(asyncio.run(framehook.compile(later)(torch.zeros(1))), torch.ones(1))
    assert asyncio.run(collect()) == [0, 1, 2]


def test_deep_recursion_ends_as_eager_does() -> None:
    def endless(x: torch.Tensor) -> torch.Tensor:
        return endless(x)

    with pytest.raises(RecursionError):
        framehook.compile(endless, backend="eager")(torch.ones(1))


def test_compiling_a_compiled_function_compiles_the_function() -> None:
    inner, outer = CompileCounter(), CompileCounter()
    twice = framehook.compile(framehook.compile(double, backend=inner), backend=outer)
    twice(torch.ones(2))
    assert (inner.frame_count, outer.frame_count) == (0, 1)
    assert twice.__wrapped__ is double


def test_compile_inside_compile_is_inlined_under_the_outer_handle() -> None:
    inner_counter, outer_counter = CompileCounter(), CompileCounter()
    inner = framehook.compile(double, backend=inner_counter)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 1

    compiled = framehook.compile(outer, backend=outer_counter)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    assert (inner_counter.frame_count, outer_counter.frame_count, outer_counter.op_count) == (0, 1, 2)


def test_a_compiled_module_inside_a_compiled_function_is_inlined() -> None:
    inner_counter, outer_counter = CompileCounter(), CompileCounter()
    model = framehook.compile(torch.nn.Linear(2, 2), backend=inner_counter)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return model(x) + 1

    compiled = framehook.compile(outer, backend=outer_counter)
    x = torch.ones(1, 2)
    assert torch.equal(compiled(x), outer(x))
    assert outer_counter.frame_count == 1
    assert compiled.stats().graph_breaks == []


def test_functions_copy_and_pickle_as_functions_do() -> None:
    assert copy.copy(decorated) is decorated
    assert copy.deepcopy(decorated) is decorated
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    compiled = framehook.compile(double, backend="eager")
    again = pickle.loads(pickle.dumps(compiled))
    assert again is not compiled
    assert again.__wrapped__ is double
    assert torch.equal(again(torch.ones(1)), torch.full((1,), 2.0))


def test_a_copied_callable_object_has_state_of_its_own() -> None:
    compiled = framehook.compile(Adder(1), backend="eager")
    other = copy.deepcopy(compiled)
    other.__wrapped__.amount = 5
    assert torch.equal(compiled(torch.ones(1)), torch.zeros(1))
    assert torch.equal(other(torch.ones(1)), torch.full((1,), -4.0))


def test_defaults_keywords_and_stars_are_bound_as_python_binds_them() -> None:
    def odd(a, b=2, *rest, c, d=4, **more):  # type: ignore[no-untyped-def]
        return a + b + sum(rest) + c * d + sum(more.values())

    x = torch.ones(2)
    for args, kwargs in [
        ((x,), {"c": 1}),
        ((x, 5), {"c": x}),
        ((x, 5, 6, 7), {"c": 2, "d": 3}),
        ((x,), {"c": 1, "e": 5, "f": x}),
        ((), {"a": x, "c": 3, "b": 1}),
    ]:
        check(odd, *args, **kwargs)


def test_everything_a_handle_compiled_goes_with_it() -> None:
    def fresh(x: torch.Tensor) -> torch.Tensor:
        return x * 7

    counter = CompileCounter()
    compiled = framehook.compile(fresh, backend=counter)
    compiled(torch.ones(2))
    handle = weakref.ref(compiled.handle)
    graph = weakref.ref(counter.graphs.pop())
    del compiled
    gc.collect()
    assert handle() is None
    assert graph() is None


def test_two_handles_on_one_function_are_strangers() -> None:
    first, second = CompileCounter(), CompileCounter()
    one = framehook.compile(double, backend=first)
    two = framehook.compile(double, backend=second)
    one(torch.ones(2))
    one(torch.ones(2))
    two(torch.ones(2))
    assert (first.frame_count, second.frame_count) == (1, 1)
    one.reset()
    two(torch.ones(2))
    assert second.frame_count == 1
    one(torch.ones(2))
    assert first.frame_count == 2


def test_backend_errors_reach_the_user() -> None:
    def failing(gm: Any, inputs: Any) -> Any:
        raise RuntimeError("no code today")

    with pytest.raises(framehook.BackendError, match="no code today") as caught:
        framehook.compile(double, backend=failing)(torch.ones(2))
    assert caught.value.graph is not None
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_fullgraph_names_line_reason_and_hint() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        framehook.graph_break("here")
        return x

    with pytest.raises(framehook.GraphBreakError, match="here") as caught:
        framehook.compile(broken, fullgraph=True, backend="eager")(torch.ones(2))
    assert caught.value.location is not None
    assert caught.value.location.line == broken.__code__.co_firstlineno + 2
    assert "^^^" in str(caught.value)
