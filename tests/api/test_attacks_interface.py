"""The interface under attack: values without words, threads that look on, peers, backends that return nonsense."""

from __future__ import annotations

import gc
import linecache
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook
from framehook import events, handle
from framehook.guards import words
from framehook.observe import counters
from framehook.observe.history import history

X = torch.ones(1)
HUGE = 10**5000


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + 1, x * 2


class Hostile:
    """Every way in runs code of the user's, and fails."""

    @property
    def __class__(self) -> Any:
        raise ValueError("no class")

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __call__(self) -> None:
        raise RuntimeError("no call")


class Meta(type):
    def __repr__(cls) -> str:
        raise RuntimeError("no words")

    def __getattr__(cls, name: str) -> Any:
        raise KeyError(name)


class Shy(metaclass=Meta):
    pass


class HostileList(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("no length")


class HostileError(LookupError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


# -- words ---------------------------------------------------------------------------------------------------


def select(x: torch.Tensor, n: Any) -> torch.Tensor:
    return x * 2 if n else x + 1


@pytest.mark.parametrize(
    "value",
    [HUGE, -HUGE, [HUGE], (1, HUGE), {HUGE: 1}, {HUGE}, range(HUGE), slice(HUGE), HostileList([1])],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_words_breaks_no_call(value: Any) -> None:
    compiled = framehook.compile(select, backend="eager")
    for n in (value, 1, None, value, "a", value, 2.5):
        try:
            expected: Any = select(X, n)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                compiled(X, n)
            continue
        assert torch.equal(compiled(X, n), expected)
    assert framehook.stats(compiled).internal_errors == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: HUGE,
        lambda: [[HUGE]],
        lambda: slice(Hostile(), 1),
        lambda: [Hostile()],
        lambda: {1: Hostile()},
        lambda: Hostile(),
        lambda: Shy,
        lambda: Shy(),
        lambda: HostileError(),
        lambda: HostileList(),
        lambda: print,
        lambda: torch.float32,
        lambda: range(HUGE),
    ],
)
def test_words_run_nothing_and_raise_nothing(make: Callable[[], Any]) -> None:
    text = words.value(make())
    assert isinstance(text, str) and len(text) < 400


def test_huge_integers_are_told_by_their_size() -> None:
    assert words.value(HUGE) == f"an int of {HUGE.bit_length()} bits"
    assert words.value(12) == "12"


# -- counters and threads ------------------------------------------------------------------------------------


def test_handles_that_end_while_counts_are_added_up() -> None:
    def end_one() -> None:
        compiled = framehook.compile(double, backend="eager")
        compiled(X)

    end_one()
    gc.collect()
    # What a finalizer does in the middle of reading, made to happen at each step.
    before = framehook.stats().misses
    original = counters.FunctionStats.add
    serials = iter(range(10**6, 10**6 + 20))

    def add(self: counters.FunctionStats, other: counters.FunctionStats) -> None:
        serial = next(serials, None)
        if serial is not None:
            events.emit(events.HandleEnd(serial, "", "", 0, 0, 1, {("f", f"file{serial}", 1): (0, 1)}))
        original(self, other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters.FunctionStats, "add", add)
        framehook.stats()
    assert framehook.stats().misses > before
    assert not counters._ended


def test_looking_on_from_other_threads() -> None:
    is_over = threading.Event()
    errors: list[BaseException] = []
    kept = framehook.compile(double, backend="eager")

    def look() -> None:
        try:
            while not is_over.is_set():
                str(framehook.stats())
                framehook.stats(kept)
                kept.entries()
                repr(kept)
                list(handle.live_handles())
                framehook.reset()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for size in range(1, 25):
            x = torch.ones(size)
            compiled = framehook.compile(pair, backend="eager")
            assert torch.equal(compiled(x)[1], x * 2)
            assert torch.equal(kept(x), double(x))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not errors


# -- what is left behind -------------------------------------------------------------------------------------


def _use(rounds: int) -> None:
    for _ in range(rounds):
        framehook.compile(double, backend="eager")(X)


def _objects() -> Counter[str]:
    # torch.fx notes the source of each module it writes.
    for name in [name for name in linecache.cache if name.startswith("<eval_with_key>")]:
        del linecache.cache[name]
    history.clear()  # reports keep the last compiles as plain data, so many at most
    gc.collect()
    return Counter(type(each).__qualname__ for each in gc.get_objects())


def test_handles_of_one_function_leave_nothing_behind() -> None:
    _use(5)
    records, live = len(weakref.finalize._registry), len(handle._live)  # type: ignore[attr-defined]
    before = _objects()
    _use(60)
    more = _objects() - before
    assert len(weakref.finalize._registry) == records  # type: ignore[attr-defined]
    assert len(handle._live) == live
    assert max(more.values(), default=0) < 60, more


def test_states_go_with_the_code() -> None:
    own = framehook.capture(backend="eager").handle
    code = compile("1 + 1", "made", "eval")
    own.state(code, None)
    assert set(own._code_deaths) == set(own._states) == {id(code)}
    del code
    assert not own._states and not own._code_deaths
    kept = weakref.ref(own)
    own.state(double.__code__, None)
    del own
    assert kept() is None


# -- torch.compile around it ---------------------------------------------------------------------------------


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def test_torch_compile_around_a_module_view() -> None:
    module = Scale()
    peer: Any = torch.compile(framehook.compile(module, backend="eager"), backend="eager")
    for _ in range(2):
        assert torch.equal(peer(X), module(X))
    assert framehook.stats().internal_errors == 0


def test_torch_compile_of_a_function_that_calls_compiled_ones() -> None:
    function = framehook.compile(double, backend="eager")
    module = Scale()
    view = framehook.compile(module, backend="eager")

    @torch.compile(backend="eager")
    def outer(x: torch.Tensor) -> torch.Tensor:
        return function(x) + view(x)

    for _ in range(2):
        assert torch.equal(outer(X), double(X) + module(X))
    assert framehook.stats().internal_errors == 0


# -- small promises ------------------------------------------------------------------------------------------


def test_docstrings_are_those_of_what_was_compiled() -> None:
    def documented(x: torch.Tensor) -> torch.Tensor:
        """Words."""
        return x

    assert framehook.compile(double, backend="eager").__doc__ is None
    assert framehook.compile(documented, backend="eager").__doc__ == "Words."


Backend = Callable[[torch.fx.GraphModule, Any], Any]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "NoneType instead of a list or tuple"),
        (torch.ones(2), "Tensor instead of a list or tuple"),
        ((X,), "1 values instead of 2"),
        ([X, X, X], "3 values instead of 2"),
    ],
    ids=["none", "tensor", "one", "three"],
)
def test_a_backend_whose_graph_returns_the_wrong_thing(result: Any, text: str) -> None:
    def careless(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return lambda *args: result

    compiled = framehook.compile(pair, backend=careless)
    for _ in range(2):
        with pytest.raises(framehook.BackendError, match=text) as caught:
            compiled(X)
        assert caught.value.backend == "careless"
        assert isinstance(caught.value.graph, torch.fx.GraphModule)


def test_a_graph_is_looked_at_until_it_was_right() -> None:
    calls: list[int] = []

    def wavering(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("not yet")
            return list(gm(*args))

        return run

    compiled = framehook.compile(pair, backend=wavering)
    for _ in range(3):
        assert torch.equal(compiled(X)[1], X * 2)
    assert len(calls) == 3
    assert compiled.handle.counters()["graph_failures"] == 1  # type: ignore[attr-defined]
