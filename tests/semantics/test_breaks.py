"""Graph breaks: wherever the frame is split, what it leaves behind is what eager leaves behind."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import framehook
from framehook.errors import GraphBreakError
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics.guard_table import outcome


def opaque(value: Any) -> Any:
    """`value`, through a C function that no tracer knows."""
    return types.MappingProxyType({"value": value})["value"]


class Suppressing:
    """A context manager that notes what happens and swallows `KeyError`."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name

    def __enter__(self) -> Suppressing:
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        self.log.append(f"exit {self.name} {kind.__name__ if kind else None}")
        return kind is KeyError


@contextmanager
def noting(log: list[str], name: str) -> Iterator[str]:
    """The same as a generator."""
    log.append(f"enter {name}")
    try:
        yield name
    finally:
        log.append(f"leave {name}")


@dataclasses.dataclass(frozen=True)
class Program:
    """A function of a tensor, and how many graphs it becomes; None where that is left open."""

    fn: Callable[[Tensor], Any]
    graphs: int | None


PROGRAMS: dict[str, Program] = {}


def program(graphs: int | None) -> Callable[[Callable[[Tensor], Any]], Callable[[Tensor], Any]]:
    """Collect a program."""

    def add(fn: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        PROGRAMS[fn.__name__] = Program(fn, graphs)
        return fn

    return add


@program(2)
def one_break(x: Tensor) -> Tensor:
    x = x + 1
    framehook.graph_break()
    return x * 2


@program(3)
def two_breaks(x: Tensor) -> Tensor:
    x = x + 1
    framehook.graph_break()
    x = x * 2
    framehook.graph_break("again")
    return x - 3


@program(1)
def break_before_the_first_operation(x: Tensor) -> Tensor:
    framehook.graph_break()
    return x * 2


@program(1)
def break_after_the_last_operation(x: Tensor) -> Tensor:
    x = x * 2
    framehook.graph_break()
    return x


@program(2)
def item_branch(x: Tensor) -> Tensor:
    total = x.sum()
    if total.item() > 0:
        return x + 1
    return x - 1


@program(2)
def tensor_branch(x: Tensor) -> Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@program(None)
def tensor_while(x: Tensor) -> Tensor:
    while x.sum() < 50:
        x = x * 2
    return x


@program(None)
def tensor_in_boolean_operators(x: Tensor) -> Any:
    a = x.sum() > 0 and x.mean() > 100
    b = x.sum() > 0 or x.mean() > 100
    c = not x.sum() > 0
    return a, b, c, x + (1 if x.max() > 0 else 2)


@program(None)
def numbers_out_of_tensors(x: Tensor) -> Any:
    return (
        int(x.sum()),
        float(x.mean()),
        bool(x.sum() > 0),
        x.tolist(),
        x.argmax().item(),
        x * len(x.nonzero()),
    )


@program(None)
def assertion_on_a_tensor(x: Tensor) -> Tensor:
    assert (x * x).sum() >= 0, "never"
    return x + 1


@program(2)
def printing(x: Tensor) -> Tensor:
    y = x * 2
    print("mean is", y.mean().item() if False else "unknown")
    return y + 1


@program(2)
def unknown_c_function(x: Tensor) -> Tensor:
    y = x * 2
    process = os.getpid()
    return y + (1 if process > 0 else 2)


@program(None)
def unknown_c_type_with_a_graph_value(x: Tensor) -> Any:
    y = x * 2
    proxy = types.MappingProxyType({"y": y})
    return proxy["y"] + 1, len(proxy)


@program(2)
def break_with_values_on_the_stack(x: Tensor) -> Tensor:
    return (x * 2) + pick(x + 1, framehook.graph_break(), scale=3)


def pick(x: Tensor, nothing: None, *, scale: int) -> Tensor:
    return x * scale


@program(None)
def break_inside_a_display(x: Tensor) -> Any:
    y = x + 1
    return [y, {"k": y * 2, "n": framehook.graph_break()}, (x, *[y, framehook.graph_break()])], {y.dim(), 7}


@program(None)
def break_inside_an_f_string(x: Tensor) -> Any:
    y = x + 1
    return f"{y.dim()} {framehook.graph_break()} {y.shape}", y * 2


@program(None)
def break_inside_a_subscript(x: Tensor) -> Any:
    y = x.clone()
    y[0 if framehook.graph_break() is None else 1] = 5
    y[1] += 2 if framehook.graph_break() is None else 1
    return y[:, 0 if framehook.graph_break() is None else 1]


@program(None)
def break_inside_a_chained_comparison(x: Tensor) -> Any:
    y = x + 1
    return 1 < (2 if framehook.graph_break() is None else 0) < 3, y * 2


@program(None)
def break_inside_a_comprehension(x: Tensor) -> Any:
    y = x + 1
    return [row * 2 for row in y if framehook.graph_break() is None], y


@program(None)
def break_inside_a_generator_expression(x: Tensor) -> Any:
    y = x + 1
    return sum(row * 2 for row in y if framehook.graph_break() is None), y


@program(None)
def break_inside_a_lambda(x: Tensor) -> Any:
    y = x + 1
    return sorted([3, 1, 2], key=lambda n: (framehook.graph_break(), -n)), y * 2


@program(None)
def break_in_a_loop(x: Tensor) -> Tensor:
    for index in range(5):
        x = x + index
        framehook.graph_break()
        x = x * 2
    return x


@program(None)
def break_in_a_while_loop(x: Tensor) -> Any:
    n = 0
    while n < 5:
        n += 1
        if n == 2:
            continue
        x = x + n
        framehook.graph_break()
        if n == 4:
            break
    else:
        x = x * 100
    return x, n


@program(None)
def break_in_nested_loops(x: Tensor) -> Any:
    seen = []
    for row in range(2):
        for column, name in enumerate("ab"):
            x = x + row * column
            framehook.graph_break()
            seen.append((row, name))
        x = x * 2
    return x, seen


@program(None)
def break_in_a_loop_over_many_kinds(x: Tensor) -> Any:
    seen = []
    for pair in zip([1, 2], (3, 4), strict=True):
        framehook.graph_break()
        seen.append(pair)
        x = x + pair[0]
    for key, value in {"a": 1, "b": 2}.items():
        framehook.graph_break()
        seen.append((key, value))
        x = x + value
    for row in x:
        framehook.graph_break()
        seen.append(row * 2)
    for value in map(lambda n: n * 2, reversed([1, 2])):
        framehook.graph_break()
        seen.append(value)
        x = x + value
    return x, seen


@program(2)
def break_in_a_with(x: Tensor) -> Any:
    with torch.no_grad():
        x = x + 1
        framehook.graph_break()
        enabled = torch.is_grad_enabled()
        x = x * 2
    return x, enabled, torch.is_grad_enabled()


@program(None)
def break_in_nested_with(x: Tensor) -> Any:
    log: list[str] = []
    with Suppressing(log, "a"), noting(log, "b") as name:
        x = x + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            framehook.graph_break()
            y = x @ x.t()
            log.append(name)
            framehook.graph_break()
        x = x * 2
    return x, y, log


@program(None)
def exception_through_a_broken_with(x: Tensor) -> Any:
    log: list[str] = []
    with Suppressing(log, "a"):
        with noting(log, "b"):
            x = x + 1
            framehook.graph_break()
            raise KeyError("swallowed")
    framehook.graph_break()
    return x * 2, log


@program(None)
def return_out_of_a_broken_with(x: Tensor) -> Any:
    log: list[str] = []
    for index in range(3):
        with Suppressing(log, str(index)):
            framehook.graph_break()
            x = x + 1
            if index == 1:
                return x, log
    return x, log


@program(None)
def break_in_try(x: Tensor) -> Any:
    log = []
    try:
        x = x + 1
        framehook.graph_break()
        log.append("try")
    except ValueError:
        log.append("except")
    else:
        framehook.graph_break()
        log.append("else")
    finally:
        framehook.graph_break()
        log.append("finally")
        x = x * 2
    return x, log


@program(None)
def raise_after_a_break_in_try(x: Tensor) -> Any:
    log = []
    try:
        x = x + 1
        framehook.graph_break()
        raise ValueError("after the break")
    except ValueError as error:
        x = x * 2
        log.append(str(error))
    return x, log


@program(None)
def break_in_a_handler(x: Tensor) -> Any:
    log = []
    try:
        x = x + 1
        raise ValueError("first")
    except ValueError as error:
        framehook.graph_break()
        log.append(repr(error))
        log.append(repr(sys.exc_info()[1]))
        x = x * 2
    log.append(repr(sys.exc_info()[1]))
    return x + 1, log


@program(None)
def reraise_in_a_broken_handler(x: Tensor) -> Any:
    log = []
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            framehook.graph_break()
            x = x + 1
            raise KeyError("second") from error
    except KeyError as error:
        framehook.graph_break()
        log += [repr(error), repr(error.__cause__), repr(error.__context__)]
    return x * 2, log


@program(None)
def bare_raise_in_a_broken_handler(x: Tensor) -> Any:
    try:
        try:
            x = x + 1
            raise ValueError("again")
        except ValueError:
            framehook.graph_break()
            raise
        finally:
            framehook.graph_break()
            x = x * 2
    except ValueError as error:
        return x + 1, str(error)
    return x, None


@program(None)
def return_in_a_broken_finally(x: Tensor) -> Any:
    def inner(x: Tensor) -> Tensor:
        try:
            framehook.graph_break()
            raise ValueError("lost")
        finally:
            framehook.graph_break()
            return x * 3  # noqa: B012

    return inner(x + 1)


@program(None)
def an_error_of_the_breaking_call(x: Tensor) -> Any:
    y = x + 1
    try:
        opaque_error()
    except LookupError as error:
        return y * 2, repr(error)
    return y, None


def opaque_error() -> None:
    types.MappingProxyType({})["missing"]


@program(None)
def break_in_an_inlined_function(x: Tensor) -> Tensor:
    def inner(z: Tensor, scale: int = 3) -> Tensor:
        z = z + 1
        framehook.graph_break()
        return z * scale

    return inner(x * 2) + inner(x, scale=4)


@program(None)
def break_three_calls_deep(x: Tensor) -> Any:
    def one(z: Tensor) -> Tensor:
        return two(z + 1) * 2

    def two(z: Tensor) -> Tensor:
        with torch.no_grad():
            return three(z + 2) * 3

    def three(z: Tensor) -> Tensor:
        z = z + 3
        framehook.graph_break()
        return z * 4

    return one(x), torch.is_grad_enabled()


@program(None)
def cells_across_breaks(x: Tensor) -> Any:
    count = 0

    def bump() -> int:
        nonlocal count
        count += 1
        return count

    x = x + bump()
    framehook.graph_break()
    x = x * bump()
    framehook.graph_break()
    count += 10
    return x + bump(), count, bump


@program(None)
def class_body_and_imports(x: Tensor) -> Any:
    import math as mathematics

    class Local:
        scale = 2

        def apply(self, z: Tensor) -> Tensor:
            return z * self.scale

    return Local().apply(x + 1) * mathematics.floor(2.5)


@program(None)
def mutations_before_a_break_are_seen(x: Tensor) -> Any:
    table: dict[str, Any] = {"x": x}
    items = [x]
    table["y"] = x + 1
    items.append(x * 2)
    alias = items
    opaque(None)
    framehook.graph_break()
    alias.append(x * 3)
    table["z"] = items[0] is x
    return table, items, alias is items


@program(None)
def deleted_and_unbound_locals(x: Tensor) -> Any:
    y = x + 1
    del y
    if x.dim() == 7:
        never = 1
    framehook.graph_break()
    try:
        return x * y  # type: ignore[name-defined]  # noqa: F821
    except UnboundLocalError as error:
        first = str(error)
    try:
        return x * never
    except UnboundLocalError as error:
        return x * 2, first, str(error)


@program(None)
def in_place_operations_around_breaks(x: Tensor) -> Any:
    y = x.clone()
    view = y[0]
    y.add_(1)
    framehook.graph_break()
    view.mul_(2)
    framehook.graph_break()
    y[1] = 0
    return y, view


@program(None)
def random_numbers_around_breaks(x: Tensor) -> Any:
    a = torch.rand(3)
    framehook.graph_break()
    b = torch.rand(3)
    return a, b, torch.nn.functional.dropout(x, 0.5)


@program(None)
def yielding(x: Tensor) -> Any:
    def rows() -> Iterator[Tensor]:
        for row in x:
            framehook.graph_break()
            yield row * 2

    return [row + 1 for row in rows()]


@program(None)
def dynamic_code(x: Tensor) -> Any:
    scope = {"x": x}
    exec("y = x + 1", scope)
    return eval("x * 2", scope) + scope["y"], sorted(locals())


@program(None)
def frame_inspection(x: Tensor) -> Any:
    y = x + 1
    frame = sys._getframe()
    names = [frame.f_code.co_name, frame.f_code.co_qualname, sorted(frame.f_locals)]
    return y * 2, names


def sample() -> Tensor:
    return torch.arange(9.0).reshape(3, 3) / 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAMS[name]
    counter = CompileCounter()
    compiled = framehook.compile(program.fn, backend=counter)
    graphs = []
    for attempt in range(3):
        torch.manual_seed(attempt)
        expected = snapshot(outcome(program.fn, sample()))
        printed = capsys.readouterr().out
        torch.manual_seed(attempt)
        actual = snapshot(outcome(compiled, sample()))
        assert_same(actual, expected, where=f"call {attempt + 1}")
        assert capsys.readouterr().out == printed
        graphs.append(counter.frame_count)
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    if name != "class_body_and_imports":  # whose class is another one in each call
        # What differs between rounds of a loop may become an input of a graph in the second call.
        assert graphs[1] == graphs[2], f"graphs after each call: {graphs}"
    if program.graphs is not None:
        assert graphs[0] == program.graphs


@pytest.mark.parametrize("negative", [False, True])
def test_an_item_branch_takes_the_side_of_the_data(negative: bool) -> None:
    counter = CompileCounter()
    compiled = framehook.compile(item_branch, backend=counter)
    first = -sample() if negative else sample()
    for x in (first, -first, first):
        torch.testing.assert_close(compiled(x), item_branch(x))
    assert counter.frame_count == 3  # the sum, and one graph for each side


def test_gradients_flow_through_breaks() -> None:
    def fn(x: Tensor, weight: Tensor) -> Tensor:
        y = torch.tanh(x @ weight)
        framehook.graph_break()
        y = y * weight.sum()
        if y.sum().item() > 1e9:
            return y
        return (y @ weight).relu()

    compiled = framehook.compile(fn, backend="aot_eager")
    results = []
    for call in (fn, compiled, compiled):
        x, weight = sample().requires_grad_(), (sample() / 3 - 1).requires_grad_()
        call(x, weight).sum().backward()
        results.append((x.grad, weight.grad))
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


def test_ten_thousand_breaks_do_not_grow_the_stack() -> None:
    depths: list[int] = []

    def note() -> None:
        depth, frame = 0, sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        depths.append(depth)

    @framehook.compile(backend="eager")
    def fn(x: Tensor, steps: int) -> Tensor:
        step = 0
        while step < steps:
            x = x + 1
            framehook.graph_break()
            if step in (0, 10, steps - 1):
                note()
            step += 1
        return x

    torch.testing.assert_close(fn(torch.zeros(2), 10_000), torch.full((2,), 10_000.0))
    assert len(depths) == 3
    assert len(set(depths)) == 1


def test_callers_see_eagers_frames() -> None:
    def look() -> list[str]:
        names, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "test_callers_see_eagers_frames":
            names.append(f"{frame.f_code.co_name}:{frame.f_lineno - frame.f_code.co_firstlineno}")
            frame = frame.f_back
        return names

    def inner(x: Tensor, seen: list[Any]) -> Tensor:
        x = x + 1
        seen.append(framehook.disable(look)())
        return x * 2

    def fn(x: Tensor, seen: list[Any]) -> Tensor:
        x = inner(x, seen)
        seen.append(framehook.disable(look)())
        return x

    def user_frames(lines: list[list[str]]) -> list[list[str]]:
        return [[line for line in names if line.split(":")[0] in ("fn", "inner")] for names in lines]

    eager: list[Any] = []
    fn(sample(), eager)
    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        seen: list[Any] = []
        compiled(sample(), seen)
        assert user_frames(seen) == user_frames(eager)


def test_the_traceback_names_the_users_line_after_a_break() -> None:
    def fn(x: Tensor) -> Tensor:
        x = x + 1
        framehook.graph_break()
        x = x * 2
        return x.no_such_method()  # type: ignore[no-any-return, operator]

    def lines(call: Callable[[Tensor], Tensor]) -> tuple[str, list[tuple[str, int | None]]]:
        with pytest.raises(AttributeError) as caught:
            call(sample())
        frames = traceback.extract_tb(caught.value.__traceback__)
        return str(caught.value), [(f.name, f.lineno) for f in frames if f.name == "fn"]

    compiled = framehook.compile(fn, backend="eager")
    expected = lines(fn)
    assert lines(compiled) == expected
    assert lines(compiled) == expected


def test_a_submodule_that_breaks_leaves_the_others_captured() -> None:
    class Printing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            framehook.graph_break()
            return x * 2

    model = nn.Sequential(nn.Linear(3, 3), Printing(), nn.Linear(3, 3))
    counter = CompileCounter()
    compiled = framehook.compile(model, backend=counter)
    for _ in range(2):
        torch.testing.assert_close(compiled(sample()), model(sample()))
    assert counter.op_count == 3


def test_a_disabled_function_runs_as_it_is() -> None:
    seen: list[bool] = []

    @framehook.disable
    def outside(x: Tensor) -> Tensor:
        seen.append(framehook.is_compiling())
        return x.relu() if x.sum().item() > 0 else -x

    def fn(x: Tensor) -> Tensor:
        return outside(x + 1) * (2 if framehook.is_compiling() else 2)

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for _ in range(2):
        torch.testing.assert_close(compiled(sample()), outside(sample() + 1) * 2)
    assert counter.frame_count == 2
    assert not any(seen)


def test_what_other_compilers_call_disabled_is_honoured() -> None:
    @torch.compiler.disable
    def outside(x: Tensor) -> Tensor:
        return x * 3

    counter = CompileCounter()
    compiled = framehook.compile(lambda x: outside(x + 1) + 1, backend=counter)
    torch.testing.assert_close(compiled(sample()), (sample() + 1) * 3 + 1)
    assert counter.frame_count == 2


def test_compile_inside_compile_is_inlined() -> None:
    inner_counter, outer_counter = CompileCounter(), CompileCounter()
    inner = framehook.compile(lambda x: x * 2, backend=inner_counter)
    outer = framehook.compile(lambda x: inner(x + 1) + 1, backend=outer_counter)
    for _ in range(2):
        torch.testing.assert_close(outer(sample()), (sample() + 1) * 2 + 1)
    assert (outer_counter.frame_count, outer_counter.op_count) == (1, 3)
    assert inner_counter.frame_count == 0
    inner(sample())
    assert inner_counter.frame_count == 1


# fullgraph=True


def _break_error(fn: Callable[..., Any], *args: Any) -> GraphBreakError:
    compiled = framehook.compile(fn, backend="eager", fullgraph=True)
    with pytest.raises(GraphBreakError) as caught:
        compiled(*args)
    return caught.value


def test_fullgraph_says_why_and_where() -> None:
    def fn(x: Tensor) -> Tensor:
        total = x.sum()
        if total.item() > 0:  # here
            return x + 1
        return x

    error = _break_error(fn, sample())
    text = str(error)
    assert error.reason and error.reason in text
    assert "if total.item() > 0:" in text
    assert "test_breaks.py" in text
    assert "^" in text
    assert error.hint and error.hint in text
    assert error.stack[-1].line == fn.__code__.co_firstlineno + 2


def test_fullgraph_shows_the_inlined_call_stack() -> None:
    def innermost(x: Tensor) -> Tensor:
        x = x + 1
        framehook.graph_break("because I say so")
        return x

    def middle(x: Tensor) -> Tensor:
        return innermost(x * 2)

    def fn(x: Tensor) -> Tensor:
        return middle(x) + 1

    error = _break_error(fn, sample())
    assert [location.function.split(".")[-1] for location in error.stack] == ["fn", "middle", "innermost"]
    assert "because I say so" in str(error)


@pytest.mark.parametrize("name", ["one_break", "printing", "tensor_branch", "break_in_a_loop", "break_in_a_handler", "item_branch", "break_three_calls_deep"])  # fmt: skip
def test_fullgraph_refuses_every_call(name: str) -> None:
    compiled = framehook.compile(PROGRAMS[name].fn, backend="eager", fullgraph=True)
    for _ in range(2):
        with pytest.raises(GraphBreakError):
            compiled(sample())


def test_fullgraph_has_no_effects_before_it_refuses() -> None:
    log: list[int] = []

    def fn(x: Tensor) -> Tensor:
        log.append(1)
        x.add_(1)
        framehook.graph_break()
        return x

    x = sample()
    state = torch.get_rng_state()
    _break_error(fn, x)
    assert log == []
    torch.testing.assert_close(x, sample())
    assert torch.equal(torch.get_rng_state(), state)


def test_fullgraph_lets_the_users_own_exception_through() -> None:
    def fn(x: Tensor) -> Tensor:
        x = x + 1
        if x.dim() == 2:
            raise ValueError("mine")
        return x

    with pytest.raises(ValueError, match="mine"):
        framehook.compile(fn, backend="eager", fullgraph=True)(sample())


def test_fullgraph_of_a_graph_is_quiet() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(lambda x: (x * 2).relu(), backend=counter, fullgraph=True)
    torch.testing.assert_close(compiled(sample()), (sample() * 2).relu())
    assert (counter.frame_count, counter.op_count) == (1, 2)
