"""What a compiled frame leaves behind: results with their aliases, changes of the world, tracebacks."""

from __future__ import annotations

import collections
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics.guard_table import namespace, outcome


class Pair(NamedTuple):
    left: Any
    right: Any


class Box:
    """An object with a value."""

    total = 0

    def __init__(self, value: Any = 0) -> None:
        self.value = value


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}


def sample() -> Tensor:
    return torch.arange(6.0).reshape(2, 3)


def program(*make: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Collect a function of a tensor and of what the makers make."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__] = (fn, lambda: (sample(), *(maker() for maker in make)))
        return fn

    return add


# Results.


@program()
def nested_structures(x: Tensor) -> Any:
    y = x + 1
    return {"a": [y, (x * 2, Pair(y, {"n": 3})), None], 5: ((), [], {}), "t": (True, 1.5, "s", b"b", 1j, ...)}


@program()
def one_object_in_many_places(x: Tensor) -> Any:
    y, shared = x + 1, [1]
    holder = {"a": shared, "b": (shared, y)}
    return y, y, [y], holder, holder, shared


@program()
def a_list_that_contains_itself(x: Tensor) -> Any:
    items: list[Any] = [x + 1]
    items.append(items)
    return items


@program()
def views_of_one_result(x: Tensor) -> Any:
    y = x + 1
    return y, y[0], y.t(), y.view(-1), y.detach()


@program(sample)
def inputs_returned_as_themselves(x: Tensor, y: Tensor) -> Any:
    return y, x, x + y, (x, y)


@program(lambda: [sample()], lambda: {"k": sample()})
def containers_returned_as_themselves(x: Tensor, items: Any, table: Any) -> Any:
    return items, table, items[0] + table["k"], table["k"]


@program(Box)
def an_object_returned_as_itself(x: Tensor, box: Box) -> Any:
    return box, x + 1


@program()
def functions_made_inside(x: Tensor) -> Any:
    def add(z: Tensor, n: int = 2, *, k: int = 3) -> Tensor:
        return z + n + k

    return add(x), add.__name__, add.__defaults__, add.__kwdefaults__


@program()
def nothing(x: Tensor) -> None:
    x + 1


@program()
def generators_returned(x: Tensor) -> Any:
    y = x + 1
    return list(row * 2 for row in y), next(iter([y]))


@program()
def iterators_half_used(x: Tensor) -> Any:
    iterator = iter([1, 2, 3])
    first = next(iterator)
    return x + first, list(iterator)


# Changes of arguments.


@program(Box)
def attributes_set_and_deleted(x: Tensor, box: Box) -> Any:
    box.value = x + 1
    box.extra = [box.value]  # type: ignore[attr-defined]
    box.gone = 5  # type: ignore[attr-defined]
    del box.gone  # type: ignore[attr-defined]
    box.total += 3
    return box.value * 2


@program(Box)
def an_attribute_that_moves_to_the_end(x: Tensor, box: Box) -> Any:
    box.extra = 1  # type: ignore[attr-defined]
    value = box.value
    del box.value
    box.value = value
    return list(vars(box)), "gone" in box.__dict__, x + 1


@program(lambda: {"a": 1, "b": 2})
def a_key_that_moves_to_the_end(x: Tensor, table: dict[str, Any]) -> Any:
    table["a"] = table.pop("a")
    table["z"] = x
    table |= {"w": 1}
    return list(table), table.popitem(), x * 2


@program(lambda: [[]])
def containers_in_circles(x: Tensor, items: list[Any]) -> Any:
    table: dict[str, Any] = {"x": x + 1}
    pair = (table, [table])
    table["pair"] = pair
    items[0] = pair
    return pair


@program(lambda: {"a": 1, "b": 2})
def an_iterator_over_a_dict_half_way(x: Tensor, table: dict[str, Any]) -> Any:
    rows = iter(table.items())
    first = next(rows)
    return first, list(rows), next(rows, None), x + 1


@program(lambda: [1, 2, 3])
def a_list_changed(x: Tensor, items: list[Any]) -> Any:
    items.append(x + 1)
    items[0] = x
    items.insert(1, "in")
    del items[2]
    items.extend((7, 8))
    items.reverse()
    items += [9]
    return items.pop(), x * 2


@program(lambda: {"a": 1, "b": 2})
def a_dict_changed(x: Tensor, table: dict[str, Any]) -> Any:
    table["c"] = x + 1
    table["a"] = x
    del table["b"]
    table["b"] = "last"
    table.update(d=4)
    return table.pop("d"), table.setdefault("e", []), x * 2


@program(lambda: {1, 2})
def a_set_changed(x: Tensor, members: set[Any]) -> Any:
    members.add(3)
    members.discard(1)
    return x + len(members)


@program(lambda: collections.deque([1], maxlen=2))
def a_deque_changed(x: Tensor, queue: Any) -> Any:
    queue.append(2)
    queue.append(3)
    return x + queue[0]


@program(lambda: [1])
def a_list_swapped_into_an_object(x: Tensor, items: list[Any]) -> Any:
    box = Box(items)
    items.append(box)
    box.value.append(x + 1)
    return box


@program()
def an_input_changed_in_place(x: Tensor) -> Any:
    x.add_(1)
    y = x * 2
    x[0] = 7
    x.t_()
    return y


@program(lambda: torch.ones(3))
def an_input_written_through_a_view(x: Tensor, row: Tensor) -> Any:
    view = x[1]
    view.copy_(row)
    row.zero_()
    return x.sum()


@program(lambda: [sample(), sample()])
def tensors_replaced_in_a_list(x: Tensor, items: list[Tensor]) -> Any:
    for index in range(len(items)):
        items[index] = items[index] + x
    return items[-1]


@program(Box)
def changes_in_program_order(x: Tensor, box: Box) -> Any:
    log: list[Any] = []
    box.value = log
    log.append(1)
    box.value = x + 1
    log.append(2)
    return log


@program(Box)
def changes_before_an_exception(x: Tensor, box: Box) -> Any:
    box.value = x + 1
    x.mul_(2)
    if box is not None:
        raise ValueError("after the changes")
    box.value = None


class Counting(nn.Module):
    """Counts its calls and keeps its last output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        nn.init.eye_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.register_buffer("mean", torch.zeros(3))
        self.calls = 0
        self.last: Any = None
        self.history: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.history.append(self.calls)
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.last = self.linear(x)
        return self.last + self.mean


@program(Counting)
def a_module_that_counts(x: Tensor, model: Counting) -> Any:
    return model(x) + model(x * 2)


@program(Counting)
def a_parameter_made_inside(x: Tensor, model: Counting) -> Any:
    model.mean = x[0] * 1
    return model.mean + 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    fn, make = PROGRAMS[name]
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    actual_args, expected_args = make(), make()
    for attempt in range(3):
        actual = snapshot((outcome(compiled, *actual_args), actual_args))
        expected = snapshot((outcome(fn, *expected_args), expected_args))
        assert_same(actual, expected, where=f"call {attempt + 1}")
        if attempt == 0:  # new objects of the same kind, and then the same objects again, changed
            actual_args, expected_args = make(), make()
    assert counter.frame_count >= (0 if name == "changes_before_an_exception" else 1)


def test_an_object_and_its_dict_are_changed_side_by_side() -> None:
    def fn(x: Tensor, box: Any, table: dict[str, Any]) -> Any:
        before = x + 1
        box.total = 7
        table["extra"] = before
        return table["total"], box.extra, list(table)

    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        box, expected = Box(), Box()
        actual = snapshot((compiled(sample(), box, vars(box)), box))
        assert_same(actual, snapshot((fn(sample(), expected, vars(expected)), expected)))


def test_views_share_memory_with_what_they_view() -> None:
    compiled = framehook.compile(views_of_one_result, backend="eager")
    for _ in range(2):
        y, row, transposed, flat, detached = compiled(sample())
        y.zero_()
        assert not row.any() and not transposed.any() and not flat.any() and not detached.any()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_alias_of_an_input_is_an_alias(backend: str) -> None:
    compiled = framehook.compile(lambda x: (x[0], x + 1, x.view(-1)), backend=backend)
    for _ in range(2):
        x = sample()
        row, _, flat = compiled(x)
        x.fill_(9)
        assert row.tolist() == [9.0] * 3
        assert flat.tolist() == [9.0] * 6


def test_globals_are_changed() -> None:
    source = (
        "COUNT = 0\nITEMS = []\nLAST = None\n\n"
        "def fn(x):\n"
        "    global COUNT, LAST\n"
        "    COUNT += 1\n"
        "    LAST = x + COUNT\n"
        "    ITEMS.append(COUNT)\n"
        "    return LAST * 2\n"
    )
    eager, compiled = namespace(source), namespace(source)
    fn = framehook.compile(compiled["fn"], backend="eager")
    for _ in range(4):
        assert_same(snapshot(fn(sample())), snapshot(eager["fn"](sample())))
    for name in ("COUNT", "ITEMS", "LAST"):
        assert_same(snapshot(compiled[name]), snapshot(eager[name]))


def test_a_global_is_deleted_and_made() -> None:
    source = "def fn(x):\n    global MADE, GONE\n    MADE = x + 1\n    del GONE\n    return MADE\n"
    eager, compiled = namespace(source, GONE=1), namespace(source, GONE=1)
    fn = framehook.compile(compiled["fn"], backend="eager")
    for _ in range(2):
        assert_same(snapshot(outcome(fn, sample())), snapshot(outcome(eager["fn"], sample())))
        assert ("GONE" in compiled) == ("GONE" in eager)
        assert_same(snapshot(compiled["MADE"]), snapshot(eager["MADE"]))


def test_cells_are_changed() -> None:
    def make() -> tuple[Callable[[Tensor], Tensor], Callable[[], Any]]:
        count, last = 0, None

        def fn(x: Tensor) -> Tensor:
            nonlocal count, last
            count += 1
            last = x * count
            return last + 1

        return fn, lambda: (count, last)

    (eager, eager_state), (fn, state) = make(), make()
    compiled = framehook.compile(fn, backend="eager")
    for _ in range(4):
        assert_same(snapshot(compiled(sample())), snapshot(eager(sample())))
        assert_same(snapshot(state()), snapshot(eager_state()))


def test_a_closure_that_escapes_shares_its_cell_with_the_frame() -> None:
    def fn(x: Tensor) -> Any:
        total = x.sum()

        def add(n: int) -> Tensor:
            nonlocal total
            total = total + n
            return total

        def get() -> Tensor:
            return total

        return add, get, add(1)

    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        add, get, first = compiled(sample())
        assert first.item() == 16
        assert add(5).item() == 21
        assert get().item() == 21


def test_a_setter_and_a_slot_are_written() -> None:
    class Checked:
        __slots__ = ("_value", "log")

        def __init__(self) -> None:
            self._value = 0
            self.log: list[Any] = []

        @property
        def value(self) -> Any:
            return self._value

        @value.setter
        def value(self, new: Any) -> None:
            self.log.append("set")
            self._value = new

    def fn(x: Tensor, thing: Checked) -> Tensor:
        thing.value = x + 1
        return thing.value * 2

    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        thing, other = Checked(), Checked()
        assert_same(snapshot(compiled(sample(), thing)), snapshot(fn(sample(), other)))
        assert_same(snapshot((thing.value, thing.log)), snapshot((other.value, other.log)))


def test_a_class_attribute_is_changed() -> None:
    class Total:
        value = 0

    def fn(x: Tensor) -> Tensor:
        Total.value += 1
        return x + Total.value

    compiled = framehook.compile(fn, backend="eager")
    for step in range(3):
        assert_same(snapshot(compiled(sample())), snapshot(sample() + step + 1))
    assert Total.value == 3


def _lines(call: Callable[..., Any], *args: Any) -> tuple[str, str, list[tuple[str, int | None]]]:
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011
        call(*args)
    frames = traceback.extract_tb(caught.value.__traceback__)
    here = [(f.name, f.lineno) for f in frames if f.filename == __file__ and f.name.startswith("fails")]
    return type(caught.value).__name__, str(caught.value), here


def fails_in_python(x: Tensor) -> Tensor:
    y = x + 1
    z = {"a": y}
    return z["b"]


def fails_in_an_operation(x: Tensor) -> Tensor:
    y = x + 1
    return y @ y


def fails_deep(x: Tensor) -> Tensor:
    return (
        x
        + 1
        + fails_in_an_operation(x)
        + 2
    )  # fmt: skip


def fails_on_raise(x: Tensor) -> Tensor:
    x = x * 2
    if x.dim() == 2:
        raise RuntimeError("mine")
    return x


def fails_in_a_comprehension(x: Tensor) -> list[Any]:
    y = x + 1
    return [y[index] for index in range(5)]


def fails_at_run_time(x: Tensor) -> Tensor:
    index = torch.tensor([0, 99])
    y = x * 2
    return y[index] + 1


@pytest.mark.parametrize(
    "fn",
    [
        fails_in_python,
        fails_in_an_operation,
        fails_deep,
        fails_on_raise,
        fails_in_a_comprehension,
        fails_at_run_time,
    ],
)
def test_tracebacks_are_eagers(fn: Callable[[Tensor], Any]) -> None:
    compiled = framehook.compile(fn, backend="eager")
    expected = _lines(fn, sample())
    for _ in range(2):
        assert _lines(compiled, sample()) == expected


def test_an_exception_between_changes_leaves_the_earlier_ones() -> None:
    def fn(x: Tensor, items: list[Any]) -> Tensor:
        items.append("before")
        y = x @ x
        items.append("after")
        return y

    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        items: list[Any] = []
        with pytest.raises(RuntimeError):
            compiled(sample(), items)
        assert items == ["before"]


def test_generated_frames_keep_the_names_of_the_users_code() -> None:
    names: list[str] = []

    @framehook.disable
    def note() -> None:
        import sys

        frame = sys._getframe(1)
        while frame.f_code.co_filename != __file__:
            assert frame.f_back is not None
            frame = frame.f_back
        names.append(f"{frame.f_code.co_name} {frame.f_code.co_qualname}")

    def fn(x: Tensor) -> Tensor:
        x = x + 1
        note()
        return x * 2

    fn(sample())
    compiled = framehook.compile(fn, backend="eager")
    compiled(sample())
    compiled(sample())
    assert len(names) == 3
    assert len(set(names)) == 1


def test_a_module_is_called_through_its_view_with_hooks() -> None:
    log: list[str] = []
    model = Counting()
    model.register_forward_hook(lambda module, args, output: log.append(type(module).__name__) or output * 2)
    reference = Counting()
    reference.register_forward_hook(lambda module, args, output: output * 2)
    compiled = framehook.compile(model, backend="eager")
    for _ in range(3):
        assert_same(snapshot(compiled(sample())), snapshot(reference(sample())))
    assert log == ["Counting"] * 3
    assert (model.calls, model.history) == (3, [1, 2, 3])
    assert_same(snapshot(model.mean), snapshot(reference.mean))


def _generator(x: Tensor) -> Iterator[Tensor]:
    yield x + 1


def test_a_generator_object_survives_the_frame() -> None:
    def fn(x: Tensor) -> Any:
        return _generator(x * 2), x + 1

    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        generator, _ = compiled(sample())
        assert_same(snapshot(next(generator)), snapshot(sample() * 2 + 1))
        with pytest.raises(StopIteration):
            next(generator)
