"""Odd things to compile and odd things to call them with: eager's behaviour, or a clear error, never a crash."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook.errors import BackendError, UnknownBackendError
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics.guard_table import outcome


@pytest.mark.parametrize(
    "thing", [3, "text", [1], {"a": 1}, torch.ones(2), object()], ids=lambda thing: type(thing).__name__
)
def test_what_cannot_be_called_is_a_type_error(thing: Any) -> None:
    with pytest.raises(TypeError):
        framehook.compile(thing)


def test_the_decorator_form_refuses_what_cannot_be_called() -> None:
    with pytest.raises(TypeError):
        framehook.compile(backend="eager")(3)


def signature(a: Tensor, b: int = 1, /, c: int = 2, *, d: int, e: int = 5) -> Tensor:
    return a * b + c * d + e


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((), {"d": 1}),
        ((1,), {}),
        ((1, 2, 3, 4), {"d": 1}),
        ((1,), {"d": 1, "nope": 2}),
        ((1, 2, 3), {"c": 3, "d": 1}),
        ((), {"a": 1, "d": 1}),
        ((1,), {"b": 1, "d": 1}),
    ],
)
def test_a_call_that_does_not_fit_gets_eagers_type_error(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    compiled = framehook.compile(signature, backend="eager")
    for _ in range(2):
        with pytest.raises(TypeError) as expected:
            signature(*args, **kwargs)
        with pytest.raises(TypeError) as actual:
            compiled(*args, **kwargs)
        assert str(actual.value) == str(expected.value)
        compiled(torch.ones(2), d=3)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {"d": 1}), ((2,), {"d": 1}), ((2, 3), {"d": 1, "e": 7}), ((2,), {"c": 9, "d": 1})],
)
def test_every_way_of_passing_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    compiled = framehook.compile(signature, backend="eager")
    for _ in range(2):
        assert_same(
            snapshot(compiled(torch.ones(2), *args, **kwargs)),
            snapshot(signature(torch.ones(2), *args, **kwargs)),
        )


def recursive(x: Tensor, n: int) -> Tensor:
    return x if n == 0 else recursive(x + 1, n - 1) * 2


def endless(x: Tensor) -> Tensor:
    return endless(x + 1)


def raising(x: Tensor) -> Tensor:
    raise LookupError("mine")


def without_tensors(a: int, b: list[int]) -> list[int]:
    b.append(a)
    return b[::-1]


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Callable_:
    def __call__(self, x: Tensor) -> Tensor:
        return x * 3

    def method(self, x: Tensor) -> Tensor:
        return x * 4

    @classmethod
    def of_class(cls, x: Tensor) -> Tensor:
        return x * 5

    @staticmethod
    def static(x: Tensor) -> Tensor:
        return x * 6


CASES: dict[str, tuple[Any, Callable[[], tuple[Any, ...]]]] = {
    "module_without_parameters": (Plain(), lambda: (torch.ones(2),)),
    "empty_module": (nn.Sequential(), lambda: (torch.ones(2),)),
    "identity": (nn.Identity(), lambda: (torch.ones(2),)),
    "module_without_forward": (nn.Module(), lambda: (torch.ones(2),)),
    "function_without_tensors": (without_tensors, lambda: (1, [2, 3])),
    "empty_batch": (lambda x: (x * 2).sum(0), lambda: (torch.ones(0, 3),)),
    "empty_batch_through_a_layer": (nn.Linear(3, 2), lambda: (torch.ones(0, 3),)),
    "scalar_tensor": (lambda x: x * 2 + 1, lambda: (torch.tensor(3.0),)),
    "python_scalars": (lambda x, y: x * 2 + y, lambda: (3, 4.5)),
    "raises": (raising, lambda: (torch.ones(2),)),
    "wrong_shapes": (lambda x, y: x @ y, lambda: (torch.ones(2, 3), torch.ones(2, 3))),
    "wrong_dtypes": (lambda x, y: x @ y, lambda: (torch.ones(2, 2), torch.ones(2, 2, dtype=torch.int64))),
    "wrong_type": (lambda x: x.relu() + 1, lambda: ("text",)),
    "none_for_a_tensor": (lambda x: x + 1, lambda: (None,)),
    "returns_nothing": (lambda x: None, lambda: (torch.ones(2),)),
    "returns_its_argument": (lambda x: x, lambda: (torch.ones(2),)),
    "recursive": (recursive, lambda: (torch.ones(2), 5)),
    "endless_recursion": (endless, lambda: (torch.ones(2),)),
    "builtin": (len, lambda: ([1, 2],)),
    "builtin_type": (int, lambda: ("7",)),
    "torch_function": (torch.add, lambda: (torch.ones(2), torch.ones(2))),
    "functional": (nn.functional.relu, lambda: (torch.ones(2),)),
    "class": (Callable_, lambda: ()),
    "partial": (functools.partial(lambda x, y: x * y, torch.ones(2)), lambda: (3,)),
    "partial_of_builtin": (functools.partial(max, 3), lambda: (4,)),
    "callable_object": (Callable_(), lambda: (torch.ones(2),)),
    "bound_method": (Callable_().method, lambda: (torch.ones(2),)),
    "class_method": (Callable_.of_class, lambda: (torch.ones(2),)),
    "static_method": (Callable_.static, lambda: (torch.ones(2),)),
    "bound_builtin": ([1].append, lambda: (2,)),
    "cached": (functools.lru_cache(lambda n: n + 1), lambda: (2,)),
    "sparse_tensor": (lambda x: x.to_dense() + 1, lambda: (torch.eye(2).to_sparse(),)),
    "meta_tensor": (lambda x: x + 1, lambda: (torch.ones(2, device="meta"),)),
    "complex_tensor": (lambda x: x * 2, lambda: (torch.ones(2, dtype=torch.complex64),)),
    "huge_number": (lambda x, n: x + (n > 0), lambda: (torch.ones(2), 2**200)),
    "lone_surrogate": (lambda x, s: (x + len(s), s), lambda: (torch.ones(2), "\ud800")),
    "long_string": (lambda x, s: x + len(s), lambda: (torch.ones(2), "a" * 100_000)),
    "deeply_nested_list": (lambda x, n: x + len(n), lambda: (torch.ones(2), _nested(500))),
    "list_in_itself": (lambda x, n: x + len(n), lambda: (torch.ones(2), _cyclic())),
    "many_arguments": (lambda *xs: sum(xs), lambda: tuple(torch.ones(2) for _ in range(300))),
    "non_string_keys": (lambda x, table: x + table[(1, None)] + table[2.5], lambda: (torch.ones(2), {(1, None): 1, 2.5: 2})),
}  # fmt: skip


def _nested(depth: int) -> list[Any]:
    result: list[Any] = []
    for _ in range(depth):
        result = [result]
    return result


def _cyclic() -> list[Any]:
    result: list[Any] = []
    result.append(result)
    return result


@pytest.mark.parametrize("name", CASES)
def test_eagers_behaviour(name: str) -> None:
    thing, make = CASES[name]
    compiled = framehook.compile(thing, backend="eager")
    for _ in range(3):
        actual, expected = outcome(compiled, *make()), outcome(thing, *make())
        if name in ("class", "endless_recursion"):  # the text of a RecursionError depends on where it strikes
            assert type(actual) is type(expected)
        else:
            assert_same(snapshot(actual), snapshot(expected))


def test_generator_function() -> None:
    def rows(x: Tensor) -> Iterator[Tensor]:
        for index in range(2):
            got = yield x * index
            if got is not None:
                yield x + got

    compiled = framehook.compile(rows, backend="eager")
    for _ in range(2):
        generator = compiled(torch.ones(2))
        assert next(generator).tolist() == [0.0, 0.0]
        assert generator.send(5).tolist() == [6.0, 6.0]
        assert [row.tolist() for row in generator] == [[1.0, 1.0]]


def test_coroutine_function() -> None:
    async def work(x: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return x * 2

    async def stream(x: Tensor) -> AsyncIterator[Tensor]:
        yield x
        yield x + 1

    async def both() -> list[Any]:
        first = await framehook.compile(work, backend="eager")(torch.ones(2))
        rest = [item.tolist() async for item in framehook.compile(stream, backend="eager")(torch.ones(2))]
        return [first.tolist(), *rest]

    assert asyncio.run(both()) == [[2.0, 2.0], [1.0, 1.0], [2.0, 2.0]]


def test_capture_does_not_leak_into_other_tasks() -> None:
    counter = CompileCounter()
    capture = framehook.capture(backend=counter, warmup_calls=0)

    def inside(x: Tensor) -> Tensor:
        return x * 2

    def outside(x: Tensor) -> Tensor:
        return x * 3

    async def capturing(started: asyncio.Event, done: asyncio.Event) -> None:
        with capture:
            inside(torch.ones(2))
            started.set()
            await done.wait()
            inside(torch.ones(2))

    async def bystander(started: asyncio.Event, done: asyncio.Event) -> None:
        await started.wait()
        outside(torch.ones(2))
        done.set()

    async def main() -> None:
        started, done = asyncio.Event(), asyncio.Event()
        await asyncio.gather(capturing(started, done), bystander(started, done))

    asyncio.run(main())
    assert counter.frame_count == 1
    inside(torch.ones(2))
    outside(torch.ones(2))
    assert counter.frame_count == 1


def test_unknown_backend_names_the_nearest() -> None:
    with pytest.raises(UnknownBackendError, match="inductor"):
        framehook.compile(lambda x: x, backend="inducter")
    assert issubclass(UnknownBackendError, ValueError)


def test_a_backend_that_raises() -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        raise ZeroDivisionError("inside the backend")

    compiled = framehook.compile(lambda x: x + 1, backend=backend)
    for _ in range(2):
        with pytest.raises(BackendError) as caught:
            compiled(torch.ones(2))
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert isinstance(caught.value.graph, torch.fx.GraphModule)


@pytest.mark.parametrize("result", [None, 3, "text"])
def test_a_backend_that_returns_something_else(result: Any) -> None:
    compiled = framehook.compile(lambda x: x + 1, backend=lambda graph, inputs: result)
    with pytest.raises(BackendError) as caught:
        compiled(torch.ones(2))
    assert caught.value.graph is not None


def test_a_graph_that_raises_is_run_again_eagerly() -> None:
    def backend(graph: Any, inputs: Any) -> Callable[..., Any]:
        def fails(*inputs: Any) -> Any:
            raise RuntimeError("a kernel is missing")

        return fails

    compiled = framehook.compile(lambda x: x + 1, backend=backend)
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_warm_frame_that_is_called_with_anything() -> None:
    def fn(x: Any, y: Any) -> Any:
        return x + y

    compiled = framehook.compile(fn, backend="eager")
    values = [
        torch.ones(2),
        1,
        2.5,
        "a",
        None,
        [1],
        (1,),
        {},
        b"b",
        1j,
        torch.tensor(1),
        nn.Linear(1, 1),
        ...,
        fn,
    ]
    for _ in range(2):
        for left in values:
            for right in values:
                if not (isinstance(left, Tensor | int | float | complex) or isinstance(right, type(left))):
                    continue
                expected, actual = (
                    snapshot(outcome(fn, left, right)),
                    snapshot(outcome(compiled, left, right)),
                )
                assert_same(actual, expected, where=f"{left!r} + {right!r}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        # Deep recursion with a raised limit: a result or RecursionError.
        """
        sys.setrecursionlimit(100_000)
        def deep(x, n):
            return x if n == 0 else deep(x, n - 1)
        with framehook.capture(backend="eager", warmup_calls=10**9):
            try:
                deep(torch.ones(2), 50_000)
            except RecursionError:
                pass
        """,
        # An endless recursion under a compile.
        """
        def endless(x):
            return endless(x + 1)
        try:
            framehook.compile(endless, backend="eager")(torch.ones(2))
        except RecursionError:
            pass
        """,
        # The interpreter ends while capture is on.
        """
        framehook.capture(backend="eager", warmup_calls=0).__enter__()
        def fn(x):
            return x * 2
        fn(torch.ones(2))
        """,
        # A finalizer that calls compiled code at the end of the process.
        """
        fn = framehook.compile(lambda x: x * 2, backend="eager")
        class Last:
            def __del__(self, fn=fn, x=torch.ones(2)):
                fn(x)
        fn(torch.ones(2))
        last = Last()
        """,
        # Threads that are alive at the end.
        """
        import threading, time
        fn = framehook.compile(lambda x: x * 2, backend="eager")
        def work():
            for _ in range(100_000):
                fn(torch.ones(2))
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
        """,
        # The code of a function is replaced while its entry runs.
        """
        def fn(x):
            fn.__code__ = other.__code__
            return x + 1
        def other(x):
            return x - 1
        compiled = framehook.compile(fn, backend="eager")
        for _ in range(3):
            compiled(torch.ones(2))
        """,
    ],
    ids=["deep", "endless", "exit_in_capture", "finalizer", "daemon", "code_replaced"],
)
def test_the_process_does_not_crash(program: str) -> None:
    source = "import sys, torch, framehook\n" + textwrap.dedent(program) + "\nprint('end')\n"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("end\n")
