"""`with capture():` follows the context, does not leak, and can be entered again."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest
import torch

import framehook
from framehook import _C
from framehook.testing import CompileCounter


def work(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def make() -> tuple[framehook.api.Capture, CompileCounter]:
    counter = CompileCounter()
    return framehook.capture(backend=counter, warmup_calls=0), counter


def test_frames_inside_are_compiled_and_frames_outside_are_not() -> None:
    capture, counter = make()
    x = torch.ones(2)
    work(x)
    assert counter.frame_count == 0
    with capture:
        assert torch.equal(work(x), torch.full((2,), 3.0))
    assert counter.frame_count == 1
    work(torch.ones(3))
    assert counter.frame_count == 1
    assert not _C.is_hook_installed()


def test_what_was_compiled_is_used_again() -> None:
    capture, counter = make()
    for _ in range(3):
        with capture:
            work(torch.ones(2))
    assert counter.frame_count == 1
    assert capture.stats().hits == 2


def test_the_first_call_is_eager_by_default() -> None:
    counter = CompileCounter()
    capture = framehook.capture(backend=counter)
    with capture:
        work(torch.ones(2))
        assert counter.frame_count == 0
        work(torch.ones(2))
        assert counter.frame_count == 1


def test_entered_within_itself() -> None:
    capture, counter = make()
    with capture:
        with capture:
            work(torch.ones(2))
        work(torch.ones(2))
    assert counter.frame_count == 1
    assert not _C.is_hook_installed()


def test_the_inner_capture_has_the_frames_inside_it() -> None:
    outer, outer_counter = make()
    inner, inner_counter = make()
    with outer:
        with inner:
            work(torch.ones(2))
        assert (outer_counter.frame_count, inner_counter.frame_count) == (0, 1)
        work(torch.ones(2))
    assert (outer_counter.frame_count, inner_counter.frame_count) == (1, 1)


def test_left_by_an_exception() -> None:
    capture, _ = make()
    with pytest.raises(KeyError), capture:
        raise KeyError
    assert not _C.is_hook_installed()


def test_generators_may_leave_in_another_order() -> None:
    outer, outer_counter = make()
    inner, inner_counter = make()

    def inside(capture: framehook.api.Capture) -> Iterator[None]:
        with capture:
            yield

    first, second = inside(outer), inside(inner)
    next(first)
    next(second)
    next(first, None)
    work(torch.ones(2))
    assert (outer_counter.frame_count, inner_counter.frame_count) == (0, 1)
    next(second, None)
    work(torch.ones(3))
    assert (outer_counter.frame_count, inner_counter.frame_count) == (0, 1)
    assert not _C.is_hook_installed()


def test_decorator() -> None:
    capture, counter = make()

    @capture
    def run(x: torch.Tensor) -> torch.Tensor:
        """Documented."""
        return work(x)

    for _ in range(3):
        assert torch.equal(run(torch.ones(2)), torch.full((2,), 3.0))
    assert run.__doc__ == "Documented."
    assert counter.frame_count == 1
    with pytest.raises(TypeError):
        capture(3)  # type: ignore[type-var]


def test_a_decorated_coroutine_function_captures_while_it_runs() -> None:
    capture, counter = make()

    @capture
    async def run(x: torch.Tensor) -> torch.Tensor:
        await asyncio.sleep(0)
        return work(x)

    assert asyncio.iscoroutinefunction(run)
    assert torch.equal(asyncio.run(run(torch.ones(2))), torch.full((2,), 3.0))
    assert counter.frame_count == 1


def test_capture_does_not_leak_across_await() -> None:
    capture, counter = make()
    inside, outside = asyncio.Event(), asyncio.Event()

    async def captured() -> None:
        with capture:
            inside.set()
            await outside.wait()
            work(torch.ones(2))

    async def other() -> int:
        await inside.wait()
        work(torch.ones(3))  # while the other task is inside its capture
        seen = counter.frame_count
        outside.set()
        return seen

    async def main() -> int:
        _, seen = await asyncio.gather(captured(), other())
        work(torch.ones(4))
        return seen

    assert asyncio.run(main()) == 0
    assert counter.frame_count == 1


def test_tasks_interleaved_in_one_capture() -> None:
    capture, counter = make()

    async def one(size: int) -> None:
        with capture:
            await asyncio.sleep(0)
            work(torch.ones(size))
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(one(size) for size in (2, 3, 4)))

    asyncio.run(main())
    assert counter.frame_count == 2  # the second one is for any size
    assert not _C.is_hook_installed()


def test_a_task_started_inside_is_captured() -> None:
    capture, counter = make()

    async def child() -> None:
        work(torch.ones(2))

    async def main() -> None:
        with capture:
            await asyncio.create_task(child())

    asyncio.run(main())
    assert counter.frame_count == 1


def test_another_thread_is_not_captured() -> None:
    capture, counter = make()
    with capture:
        thread = threading.Thread(target=work, args=(torch.ones(2),))
        thread.start()
        thread.join()
    assert counter.frame_count == 0


def test_a_copied_context_keeps_capture() -> None:
    capture, counter = make()
    with capture:
        context = contextvars.copy_context()
    work(torch.ones(2))
    assert counter.frame_count == 0
    context.run(work, torch.ones(2))
    assert counter.frame_count <= 1  # whether a context that outlived its capture still captures is left open


def test_disable_inside_capture() -> None:
    capture, counter = make()

    @framehook.disable
    def quiet(x: torch.Tensor) -> torch.Tensor:
        return work(x)

    with capture:
        assert torch.equal(quiet(torch.ones(2)), torch.full((2,), 3.0))
        with framehook.disable():
            work(torch.ones(2))
        assert counter.frame_count == 0
        work(torch.ones(2))
    assert counter.frame_count == 1


def test_disable_not_recursive_lets_callees_be_captured() -> None:
    capture, counter = make()

    @framehook.disable(recursive=False)
    def frame(x: torch.Tensor) -> torch.Tensor:
        return work(x * 3)

    with capture:
        assert torch.equal(frame(torch.ones(2)), torch.full((2,), 7.0))
    assert (counter.frame_count, counter.op_count) == (1, 2)


def test_disable_binds_as_a_method_and_keeps_the_name() -> None:
    class Holder:
        @framehook.disable
        def method(self, x: torch.Tensor) -> torch.Tensor:
            """Documented."""
            return x + 1

    assert torch.equal(Holder().method(torch.zeros(1)), torch.ones(1))
    assert Holder.method.__name__ == "method"
    assert Holder.method.__doc__ == "Documented."


def test_torch_compiler_disable_is_honoured() -> None:
    capture, counter = make()
    quiet = torch.compiler.disable(work)
    with capture:
        assert torch.equal(quiet(torch.ones(2)), torch.full((2,), 3.0))
    assert counter.frame_count == 0
