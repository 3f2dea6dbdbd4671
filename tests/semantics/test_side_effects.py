"""Everything that a frame changes is there afterwards, in order, once, whatever becomes of the frame."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook import engine
from framehook.config import config
from framehook.errors import BackendError
from framehook.testing import CompileCounter, assert_same, snapshot

COUNT = 0
NAMES: dict[str, Any] = {}


class Thing:
    total = 0

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    @property
    def doubled(self) -> Any:
        return self.value * 2

    @doubled.setter
    def doubled(self, value: Any) -> None:
        self.value = value / 2


class Slotted:
    __slots__ = ("value",)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.inner = nn.Linear(2, 2)
        self.calls = 0


def counter() -> tuple[Callable[[], int], Callable[[int], None]]:
    count = 0

    def read() -> int:
        return count

    def write(step: int) -> None:
        nonlocal count
        count += step

    return read, write


#: name -> (what makes the state, what changes it, what is looked at afterwards); each change runs twice in a call.
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any, Tensor], Any], Callable[[Any], Any]]] = {}


def change(make: Callable[[], Any], look: Callable[[Any], Any] = lambda state: state) -> Any:
    """Collect a change."""

    def add(fn: Callable[[Any, Tensor], Any]) -> Callable[[Any, Tensor], Any]:
        CHANGES[fn.__name__] = (make, fn, look)
        return fn

    return add


@change(lambda: Thing(value=1, old=2), lambda state: dict(vars(state)))
def attributes(state: Any, y: Tensor) -> None:
    state.value += 1
    state.tensor = y
    if hasattr(state, "old"):
        del state.old
    else:
        state.doubled = state.value


@change(Slotted, lambda state: getattr(state, "value", None))
def slots(state: Any, y: Tensor) -> None:
    state.value = y if not hasattr(state, "value") else state.value + y


@change(lambda: {"a": 1, "b": 2, "c": 3}, lambda state: list(state.items()))
def items(state: Any, y: Tensor) -> None:
    state["b"] = y
    state["d"] = state.pop("a", 0) + 1
    state["c"] += 1
    state["a"] = 5


@change(lambda: collections.OrderedDict(a=1, b=2, c=3), lambda state: list(state.items()))
def order_of_keys(state: Any, y: Tensor) -> None:
    state.move_to_end("a")
    state["n"] = y
    state.move_to_end("n", last=False)


@change(lambda: list(range(10)))
def slices(state: Any, y: Tensor) -> None:
    state[2:4] = [y, y, 7]
    del state[-1]
    state[::2] = list(range(len(state[::2])))


@change(lambda: [3, 1, 2])
def growth_and_order(state: Any, y: Tensor) -> None:
    state.append(0)
    state.insert(0, 9)
    state.extend((4, 5))
    state.sort()
    state.reverse()
    state.remove(4)
    state += [8]


@change(lambda: collections.deque([1, 2], maxlen=4), list)
def deque(state: Any, y: Tensor) -> None:
    state.append(y)
    state.rotate(1)


@change(lambda: {1, 2}, sorted)
def members(state: Any, y: Tensor) -> None:
    state.add(len(state) + 5)
    state.discard(1)
    state.update({3, 4})


@change(
    lambda: collections.defaultdict(list), lambda state: {key: list(value) for key, value in state.items()}
)
def default_factory(state: Any, y: Tensor) -> None:
    state["a"].append(y)
    state["b"].append(len(state["a"]))


def _reset_globals() -> None:
    global COUNT
    COUNT = 0
    NAMES.clear()
    Thing.total = 0


@change(_reset_globals, lambda state: (COUNT, dict(NAMES)))
def global_names(state: Any, y: Tensor) -> None:
    global COUNT
    COUNT += 1
    NAMES[f"call {COUNT}"] = y


@change(_reset_globals, lambda state: Thing.total)
def class_attribute(state: Any, y: Tensor) -> None:
    Thing.total += 1


@change(counter, lambda state: state[0]())
def cells(state: Any, y: Tensor) -> None:
    state[1](2)
    if state[0]() > 3:
        state[1](5)


def _shared() -> Any:
    inner: list[Any] = [1]
    return SimpleNamespace(left=inner, right=inner, both=[inner, inner])


@change(_shared, lambda state: (state, state.left is state.right, state.both[0] is state.left))
def aliases(state: Any, y: Tensor) -> None:
    state.left.append(y)
    state.right[0] += len(state.both[1])
    state.both[0] = [state.left]
    state.left = state.right


@change(lambda: [], lambda state: [(type(each).__name__, vars(each)) for each in state])
def new_objects(state: Any, y: Tensor) -> None:
    thing = Thing(value=y)
    state.append(thing)
    thing.doubled = len(state)
    thing.first = state[0]
    del thing.first


@change(lambda: iter([1, 2, 3, 4, 5, 6, 7, 8]), list)
def iterators(state: Any, y: Tensor) -> Any:
    return next(state)


@change(lambda: torch.ones(2), lambda state: (state, state._version))
def in_place(state: Any, y: Tensor) -> None:
    state.add_(1)
    state[0] = state[1] * 3
    state.mul_(y.sum())


@change(lambda: [torch.ones(4)], lambda state: state[0])
def views(state: Any, y: Tensor) -> None:
    state[0][1:3].add_(2)
    state[0].view(2, 2)[0].mul_(3)


@change(Layer, lambda state: (state.mean, state.calls, state.inner.weight.grad, list(state._buffers)))
def modules(state: Any, y: Tensor) -> None:
    state.mean = state.mean * 0.5 + y
    state.calls += 1
    state.mean.add_(state.calls)
    state.inner.requires_grad_(False)


@change(
    lambda: (nn.Linear(2, 2), []),
    lambda state: (len(state[0]._forward_hooks), state[0](torch.ones(2)).shape, len(state[1])),
)
def module_hooks(state: Any, y: Tensor) -> None:
    state[0].register_forward_hook(lambda module, args, output: state[1].append(1))


@change(
    lambda: (torch.ones(2, requires_grad=True), []),
    lambda state: (state[0].sum().backward(), state[0].grad, state[1]),
)
def tensor_hooks(state: Any, y: Tensor) -> None:
    state[0].register_hook(lambda gradient: (state[1].append(1), gradient * 2)[1])


class Watched:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("died")


@change(list)
def finalizers(state: Any, y: Tensor) -> None:
    watched = Watched(state)
    state.append("made")
    del watched
    state.append("deleted")


@change(list)
def weak_callbacks(state: Any, y: Tensor) -> None:
    thing = Thing(value=1)
    reference = weakref.ref(thing, lambda _: state.append("died"))
    state.append(reference() is thing)
    del thing
    state.append(reference() is None)


# -- what becomes of the frame ---------------------------------------------------------------------------------------

#: Changes are made before and after something; the answer says what that was.
SHAPES: dict[str, Callable[[Callable[[Any, Tensor], Any]], Callable[..., Any]]] = {}


def shape(make: Callable[[Any], Callable[..., Any]]) -> Any:
    """Collect a way to use a change."""
    SHAPES[make.__name__] = make
    return make


@shape
def twice(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        y = x * 2
        first = change(state, y)
        z = y + 1
        return first, change(state, z), z - 1

    return fn


@shape
def around_a_break(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        y = x * 2
        first = change(state, y)
        framehook.graph_break()
        z = y + 1
        return first, change(state, z), z - 1

    return fn


@shape
def before_an_exception(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        y = x * 2
        change(state, y)
        if y.dim() == 1:
            raise ValueError("half way")
        change(state, y)
        return y

    return fn


@shape
def before_an_exception_that_is_caught(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        y = x * 2
        try:
            change(state, y)
            raise ValueError("half way")
        except ValueError:
            y = y + 1
        finally:
            last = change(state, y)
        return y, last

    return fn


@shape
def before_an_operation_that_raises(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        y = x * 2
        change(state, y)
        z = y @ torch.ones(3, 3)
        change(state, z)
        return z

    return fn


@shape
def before_an_error_that_data_bring(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        y = x * 2
        change(state, y)
        z = y[(y.sum() * 0 + 7).to(torch.int64)]
        change(state, z)
        return z

    return fn


@shape
def in_a_callee_that_breaks(change: Any) -> Any:
    def inner(y: Tensor, state: Any) -> Any:
        first = change(state, y)
        framehook.graph_break()
        return first, y - 1

    def fn(x: Tensor, state: Any) -> Any:
        first, y = inner(x * 2, state)
        return first, change(state, y), y + 3

    return fn


@shape
def in_a_loop(change: Any) -> Any:
    def fn(x: Tensor, state: Any) -> Any:
        results = []
        for step in range(2):
            x = x * 2 + step
            results.append(change(state, x))
        return x, results

    return fn


def outcome(fn: Callable[..., Any], make: Any, look: Any, size: int) -> Any:
    """Two calls on one state: results, exceptions, and the state after each."""
    torch.manual_seed(0)
    state = make()
    found = []
    for _ in range(2):
        try:
            result = fn(torch.ones(size), state)
        except (ValueError, RuntimeError, IndexError, AttributeError, TypeError) as error:
            result = type(error).__name__, str(error)
        found.append(snapshot(result))
    return found, snapshot(look(state))


@pytest.mark.parametrize("use", SHAPES)
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_made_once_and_in_order(name: str, use: str) -> None:
    make, fn, look = CHANGES[name]
    fn = SHAPES[use](fn)
    compiled = framehook.compile(fn, backend="eager")
    # The third and fourth compile anew: another size.
    for size in (2, 2, 1, 2):
        assert_same(outcome(compiled, make, look, size), outcome(fn, make, look, size))


@pytest.mark.parametrize("name", CHANGES)
def test_a_backend_that_fails_changes_nothing(name: str) -> None:
    make, fn, look = CHANGES[name]
    fn = SHAPES["twice"](fn)

    def failing(graph: Any, inputs: Any) -> Any:
        raise OSError("no compiler")

    torch.manual_seed(0)
    state = make()
    compiled = framehook.compile(fn, backend=failing)
    with pytest.raises(BackendError):
        compiled(torch.ones(2), state)
    changed = snapshot(look(state))
    torch.manual_seed(0)
    assert_same(changed, snapshot(look(make())))


@pytest.mark.parametrize("name", CHANGES)
def test_a_failed_trace_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, fn, look = CHANGES[name]
    fn = SHAPES["twice"](fn)

    def failing(*args: Any) -> Any:
        raise OSError("a fault of framehook")

    # After the trace, before the code.
    monkeypatch.setattr(engine.codegen, "emit", failing)
    compiled = framehook.compile(fn, backend="eager")
    with config.patch(raise_internal_errors=False):
        assert_same(outcome(compiled, make, look, 2), outcome(fn, make, look, 2))


#: The most graphs of one call that makes a change twice; one for those that are not named.
GRAPHS = {
    "slots": 2,  # whether a slot is empty is not guarded
    "iterators": 3,
    "modules": 3,  # requires_grad_() of parameters
    "module_hooks": 3,  # hooks refer to their module weakly
    "tensor_hooks": 3,
    "finalizers": 3,
    "weak_callbacks": 3,
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_do_not_divide_the_graph(name: str) -> None:
    make, fn, _ = CHANGES[name]
    counting = CompileCounter()
    compiled = framehook.compile(SHAPES["twice"](fn), backend=counting)
    compiled(torch.ones(2), make())
    assert 1 <= counting.frame_count <= GRAPHS.get(name, 1), compiled.stats().graph_breaks
