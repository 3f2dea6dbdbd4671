"""Who keeps what alive: entries keep no model and no tensor, handles keep their entries and see nobody else's."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook.testing import CompileCounter
from tests.resident_memory import measures_memory, resident_bytes


@pytest.fixture(autouse=True)
def no_cycle_collector() -> Iterator[None]:
    """What has to die here dies by reference counting alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class RememberingBackend:
    """Keeps weak references to the graphs' callables that it returns."""

    def __init__(self) -> None:
        self.compiled: list[weakref.ref[Any]] = []

    def __call__(self, graph: Any, example_inputs: Any) -> Any:
        forward = graph.forward

        def run(*inputs: Any) -> Any:
            return forward(*inputs)

        self.compiled.append(weakref.ref(run))
        return run

    def alive(self) -> int:
        """How many of the compiled graphs still exist."""
        return sum(reference() is not None for reference in self.compiled)


class Thing:
    """A weakly referenceable object with a tensor."""

    def __init__(self) -> None:
        self.weight = torch.ones(3)


def test_a_model_and_its_inputs_die_when_deleted() -> None:
    backend = RememberingBackend()
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    @framehook.compile(backend=backend)
    def fn(model: nn.Module, x: Tensor) -> Tensor:
        return model(x) + 1

    x = torch.ones(2, 3)
    fn(model, x)
    fn(model, x)
    watched = [weakref.ref(model), weakref.ref(model[0]), weakref.ref(model[0].weight), weakref.ref(x)]
    del model, x
    assert [reference() for reference in watched] == [None] * 4


def test_a_compiled_module_dies_with_its_view() -> None:
    backend = RememberingBackend()
    model = nn.Linear(3, 3)
    compiled = framehook.compile(model, backend=backend)
    compiled(torch.ones(2, 3)).sum().backward()
    compiled(torch.ones(2, 3))
    assert backend.alive() == 1
    watched = [weakref.ref(model), weakref.ref(compiled), weakref.ref(model.weight)]
    del model, compiled
    gc.collect()
    assert [reference() for reference in watched] == [None] * 3
    assert backend.alive() == 0


def test_the_entry_goes_with_an_object_whose_identity_it_guards() -> None:
    backend = RememberingBackend()

    keep = Thing()
    known = Thing()
    holder = {"known": known}

    @framehook.compile(backend=backend)
    def compares(thing: Thing, x: Tensor) -> Tensor:
        return x + 1 if thing is holder["known"] else x - 1

    compares(known, torch.ones(3))
    assert backend.alive() == 1
    reference = weakref.ref(known)
    del known
    holder["known"] = keep
    assert reference() is None
    torch.testing.assert_close(compares(keep, torch.ones(3)), torch.full((3,), 2.0))
    torch.testing.assert_close(compares(Thing(), torch.ones(3)), torch.zeros(3))


def test_a_tensor_in_a_closure_dies_with_the_function() -> None:
    backend = RememberingBackend()

    def make() -> tuple[Any, weakref.ref[Tensor]]:
        weight = torch.ones(3)

        def fn(x: Tensor) -> Tensor:
            return x * weight

        return framehook.compile(fn, backend=backend), weakref.ref(weight)

    fn, weight = make()
    fn(torch.ones(3))
    fn(torch.ones(3))
    assert weight() is not None
    del fn
    gc.collect()
    assert weight() is None
    assert backend.alive() == 0


def test_a_result_is_not_kept() -> None:
    fn = framehook.compile(lambda x: x * 2, backend="eager")
    fn(torch.ones(3))
    result = fn(torch.ones(3))
    reference = weakref.ref(result)
    del result
    assert reference() is None


def test_arguments_are_not_kept_after_the_first_call() -> None:
    fn = framehook.compile(lambda x, things: x * len(things), backend="eager")
    x, thing = torch.ones(3), Thing()
    fn(x, [thing])
    references = [weakref.ref(x), weakref.ref(thing), weakref.ref(thing.weight)]
    del x, thing
    assert [reference() for reference in references] == [None] * 3


def test_an_exception_leaves_nothing_behind() -> None:
    @framehook.compile(backend="eager")
    def fn(x: Tensor, thing: Thing) -> Tensor:
        if thing is not None:
            raise ValueError("no")
        return x

    def provoke() -> weakref.ref[Thing]:
        thing = Thing()
        with pytest.raises(ValueError, match="no"):
            fn(torch.ones(3), thing)
        return weakref.ref(thing)

    provoke()
    reference = provoke()
    gc.collect()
    assert reference() is None


def test_deleting_a_handle_frees_everything_it_compiled() -> None:
    backend = RememberingBackend()

    def fn(x: Tensor, scale: int) -> Tensor:
        return x * scale

    first = framehook.compile(fn, backend=backend, dynamic=False)
    second = framehook.compile(fn, backend=backend, dynamic=False)
    for scale in range(3):
        first(torch.ones(3), scale)
        second(torch.ones(3), scale)
    assert backend.alive() == 6
    del first
    gc.collect()
    assert backend.alive() == 3
    second(torch.ones(3), 2)
    assert len(backend.compiled) == 6, "the other handle lost its entries"
    del second
    gc.collect()
    assert backend.alive() == 0


def test_deleting_a_capture_frees_everything_it_compiled() -> None:
    backend = RememberingBackend()

    def fn(x: Tensor) -> Tensor:
        return x * 2

    capture = framehook.capture(backend=backend, warmup_calls=0)
    for _ in range(2):
        with capture:
            fn(torch.ones(3))
    assert backend.alive() == 1
    del capture
    gc.collect()
    assert backend.alive() == 0


def test_a_function_dies_with_its_entries() -> None:
    backend = RememberingBackend()
    scope: dict[str, Any] = {}
    exec("def fn(x):\n    return x * 2", scope)
    compiled = framehook.compile(scope["fn"], backend=backend)
    compiled(torch.ones(3))
    code = weakref.ref(scope["fn"].__code__)
    scope.clear()
    del compiled
    gc.collect()
    assert code() is None
    assert backend.alive() == 0


def test_reset_frees_everything() -> None:
    backend = RememberingBackend()
    fn = framehook.compile(lambda x: x * 2, backend=backend)
    other = framehook.compile(lambda x: x * 3, backend=backend)
    fn(torch.ones(3))
    other(torch.ones(3))
    framehook.reset(fn)
    gc.collect()
    assert backend.alive() == 1
    framehook.reset()
    gc.collect()
    assert backend.alive() == 0
    torch.testing.assert_close(fn(torch.ones(3)), torch.full((3,), 2.0))
    assert len(backend.compiled) == 3


def test_two_handles_never_see_each_others_entries() -> None:
    def fn(x: Tensor) -> Tensor:
        return x * 2

    counters = [CompileCounter(), CompileCounter()]
    handles = [framehook.compile(fn, backend=counter) for counter in counters]
    for _ in range(3):
        for handle in handles:
            handle(torch.ones(3))
    assert [counter.frame_count for counter in counters] == [1, 1]
    with framehook.capture(backend=(third := CompileCounter()), warmup_calls=0):
        fn(torch.ones(3))
        fn(torch.ones(3))
    assert third.frame_count == 1
    assert [counter.frame_count for counter in counters] == [1, 1]


def test_options_belong_to_the_handle() -> None:
    def fn(x: Tensor) -> Tensor:
        framehook.graph_break()
        return x * 2

    loose = framehook.compile(fn, backend="eager")
    strict = framehook.compile(fn, backend="eager", fullgraph=True)
    loose(torch.ones(3))
    for _ in range(2):
        with pytest.raises(framehook.errors.GraphBreakError):
            strict(torch.ones(3))
        torch.testing.assert_close(loose(torch.ones(3)), torch.full((3,), 2.0))


def test_two_handles_in_two_threads() -> None:
    def fn(x: Tensor, scale: int) -> Tensor:
        return x * scale + 1

    wrong: list[str] = []
    counters = [CompileCounter(), CompileCounter()]
    barrier = threading.Barrier(2)

    def work(index: int) -> None:
        compiled = framehook.compile(fn, backend=counters[index], dynamic=False)
        barrier.wait()
        for step in range(300):
            scale = step % 3
            result = compiled(torch.ones(3), scale)
            if not torch.equal(result, torch.full((3,), scale + 1.0)):
                wrong.append(f"thread {index}, step {step}: {result}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [counter.frame_count for counter in counters] == [3, 3]


def test_one_handle_in_many_threads() -> None:
    counter = CompileCounter()

    @framehook.compile(backend=counter, dynamic=False)
    def fn(x: Tensor, scale: int) -> Tensor:
        return x * scale + 1

    wrong: list[int] = []

    def work() -> None:
        for step in range(200):
            if not torch.equal(fn(torch.ones(3), step % 4), torch.full((3,), step % 4 + 1.0)):
                wrong.append(step)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert counter.frame_count == 4


@measures_memory
def test_a_hundred_thousand_cached_calls_grow_memory_by_less_than_a_megabyte() -> None:
    stored = (torch.ones(3),)
    fn = framehook.compile(lambda x, y: x + y, backend=lambda graph, inputs: lambda *inputs: stored)
    x, y = torch.ones(3), torch.ones(3)
    for _ in range(2_000):
        fn(x, y)
    before = resident_bytes()
    for _ in range(100_000):
        fn(x, y)
    assert resident_bytes() - before < 1_000_000


def test_graphs_that_are_made_and_dropped_do_not_pile_up() -> None:
    def once() -> None:
        model = nn.Linear(4, 4)
        framehook.compile(model, backend="eager")(torch.ones(2, 4))

    for _ in range(5):
        once()
    gc.collect()
    before = sum(issubclass(type(obj), Tensor) for obj in gc.get_objects())
    for _ in range(5):
        once()
    gc.collect()
    assert sum(issubclass(type(obj), Tensor) for obj in gc.get_objects()) <= before
