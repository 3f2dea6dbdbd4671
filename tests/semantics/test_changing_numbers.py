"""Numbers that differ from call to call: a recompile makes them inputs of the graph, and the values are eager's.

Each row is a program of a tensor and a number.  It is run with many numbers, wherever the number comes from, and
compared bit for bit; the number of graphs says whether the number became an input or stayed a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

import framehook
from framehook.testing import CompileCounter
from tests.semantics.fresh_code import copied, result_or_error

FLOATS = (0.1, 0.25, 3.5, 1e-300, math.inf, -0.0, 0.0, -7.125, math.nan, 1e38)
INTEGERS = (3, 5, 0, -2, 1, 7, 1 << 20, -(1 << 62), 11, 12)

Program = Callable[[torch.Tensor, Any], Any]


def _same(expected: Any, got: Any) -> bool:
    """Equal to the last bit, NaN and the sign of zero included."""
    if type(expected) is not type(got):
        return False
    if isinstance(expected, torch.Tensor):
        return (
            expected.dtype is got.dtype
            and expected.shape == got.shape
            and expected.detach().contiguous().flatten().view(torch.uint8).tolist()
            == got.detach().contiguous().flatten().view(torch.uint8).tolist()
        )
    if isinstance(expected, (tuple, list)):
        return len(expected) == len(got) and all(map(_same, expected, got))
    if isinstance(expected, dict):
        return list(expected) == list(got) and all(map(_same, expected.values(), got.values()))
    return repr(expected) == repr(got)


def _runs_alike(
    fn: Program, numbers: tuple[Any, ...], dtype: torch.dtype = torch.float32, backend: Any = "eager"
) -> int:
    """Compare all runs; returns how many graphs were compiled."""
    counter = CompileCounter(backend)
    compiled = framehook.compile(copied(fn), backend=counter)
    for number in numbers:
        x = (torch.arange(-3.0, 4.0) * 1.7).to(dtype)
        y = x.clone()
        expected, got = result_or_error(fn, x, number), result_or_error(compiled, y, number)
        assert _same(expected, got), f"{number!r}: expected {expected}, got {got}"
        assert _same(x, y), f"{number!r}: the argument became {y}, not {x}"
    return counter.frame_count


def _inlined(x: torch.Tensor, factor: float, power: float = 2.0) -> torch.Tensor:
    return x * factor - power


def _in_a_loop(x: torch.Tensor, s: float) -> torch.Tensor:
    for _ in range(3):
        x = x * s + 1
        s = s * 0.5
    return x


def _through_a_break(x: torch.Tensor, s: float) -> Any:
    y = x * s
    framehook.graph_break()
    return y + s, s * 2


def _keeps(x: torch.Tensor, s: float) -> Any:
    state = {"lr": s, "twice": s * 2}
    state["lr"] = state["lr"] * 0.9
    return x * state["lr"], state


def _changes(x: torch.Tensor, s: float) -> Any:
    x.mul_(s)
    x += s
    x.add_(x.clone(), alpha=-s)
    return x.sum()


def _schedule(x: torch.Tensor, s: float) -> Any:
    step = 0.1 * (1 + math.cos(math.pi * s / 10)) / 2
    return x * step, step


def _adam(x: torch.Tensor, s: float) -> Any:
    correction = 1 - 0.9**s
    return x / correction, s / correction


def _rescued(x: torch.Tensor, s: float) -> Any:
    try:
        factor = 1 / s
    except ZeroDivisionError:
        factor = 42.0
    return x * factor


class Row(NamedTuple):
    """A program, and how many graphs the numbers may lead to: two where they become inputs, many where not."""

    program: Program
    graphs: int
    numbers: tuple[Any, ...] = FLOATS


MANY = 8  # max_entries_per_code

ROWS = {
    "product": Row(lambda x, s: x * s, 2),
    "reflected": Row(lambda x, s: (s * x, s - x, s / (x + 0.1), s**x), 2),
    "in place": Row(_changes, 2),
    "scaled sum": Row(lambda x, s: torch.add(x, x, alpha=s), 2),
    "power": Row(lambda x, s: x**s, 2),
    "comparison of tensors": Row(lambda x, s: (x > s, s >= x, x == s), 2),
    "clamp": Row(lambda x, s: x.clamp(min=s), 2),
    "fill": Row(lambda x, s: (torch.full((2,), s), x.clone().fill_(s), torch.full_like(x, s)), 2),
    "a tensor of it": Row(lambda x, s: torch.tensor(s) * x, 2),
    "where": Row(lambda x, s: torch.where(x > 0, x, s), 2),
    "lerp": Row(lambda x, s: torch.lerp(x, x + 1, s), 2),
    "addcdiv": Row(lambda x, s: x.addcdiv(x, x + 0.5, value=s), 2),
    "foreach": Row(lambda x, s: (torch._foreach_mul([x, x + 1], s), torch._foreach_add([x], [x], alpha=-s)), 2),
    "layer norm": Row(lambda x, s: F.layer_norm(x, (7,), eps=s), 2),
    "leaky relu": Row(lambda x, s: F.leaky_relu(x, s), 2),
    "arithmetic": Row(lambda x, s: (x * (s * 2 - 1), -s, s * s, abs(s), +s), 2),
    "inlined": Row(lambda x, s: _inlined(x, s) + _inlined(x, 2.0, s), 2),
    "loop": Row(_in_a_loop, 2),
    "container": Row(_keeps, 2),
    "break": Row(_through_a_break, 4),
    "only returned": Row(lambda x, s: (x + 1, s), 1),
    "none test": Row(lambda x, s: x * s if s is not None else x, 2),
    "type test": Row(lambda x, s: x * float(s) if isinstance(s, float) and type(s) is not int else x, 2),
    "schedule": Row(_schedule, 2, (1.0, 2.0, 3.5, 4.0, 1e9)),
    "correction": Row(_adam, 2, (1.0, 2.0, 3.0, 4.0)),
    "division by zero": Row(lambda x, s: x * (1 / s), 2, (0.5, 0.25, 0.0, 2.0)),
    "math domain": Row(lambda x, s: x * math.sqrt(s), 2, (0.5, 0.25, -1.0, 2.0)),
    "complex power": Row(lambda x, s: x * s**0.5, 2, (0.5, 0.25, 2.0)),
    "maximum": Row(lambda x, s: (x * max(s, 0.5), min(s, 1.0)), 2, FLOATS),
    "branch": Row(lambda x, s: x * s if s > 1 else x + s, MANY),
    "rounding": Row(lambda x, s: x * int(s), MANY, (0.1, 1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7)),
    "text": Row(lambda x, s: (x + 1, f"{s:.3f}"), MANY, (0.1, 1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7)),
    "shape": Row(lambda x, s: torch.arange(0, s), MANY, (1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5)),
    "interpolation": Row(
        lambda x, s: F.interpolate(x[None, None], scale_factor=s), MANY, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    ),
    "integer factor": Row(lambda x, s: (x * s, x + s, s - x), 2, INTEGERS),
    "integer arithmetic": Row(lambda x, s: (x * (s * 3 + 1), s + 1), 2, INTEGERS),
    "counter": Row(lambda x, s: (x + 1, s + 1), 1, INTEGERS),
    "huge": Row(lambda x, s: x * s, 2, (1, 2, 1 << 63, 3, 1 << 2000)),
    "mean": Row(lambda x, s: (x * (s / 3), s // 2, s % 5), 2, (1, 2, 3, 8)),
    "flag": Row(lambda x, s: x * s, 3, (True, False, True)),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_results_are_eagers(name: str) -> None:
    row = ROWS[name]
    graphs = _runs_alike(row.program, row.numbers)
    if name == "flag":
        assert graphs == 2  # True and False are no numbers that change
    elif row.graphs == MANY:
        assert graphs == MANY
    else:
        assert graphs == row.graphs


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("name", ["product", "reflected", "power", "scaled sum", "integer factor", "where"])
def test_dtypes_follow_the_rules_for_numbers(name: str, dtype: torch.dtype) -> None:
    row = ROWS[name]
    _runs_alike(row.program, row.numbers, dtype)


def _foreign(gm: Any, inputs: Any) -> Any:
    return gm.forward


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize(
    "name", ["product", "reflected", "in place", "foreach", "fill", "lerp", "arithmetic"]
)
def test_a_backend_that_knows_no_numbers_gets_tensors_and_gives_the_same(
    name: str, dtype: torch.dtype
) -> None:
    _runs_alike(ROWS[name].program, FLOATS, dtype, _foreign)


@pytest.mark.parametrize("backend", [_foreign, "aot_eager"])
def test_other_backends_compile_twice_at_most(backend: Any) -> None:
    assert _runs_alike(lambda x, s: (x * s, x / s, (x + s) * 0.5), FLOATS, torch.float32, backend) == 2


# -- where the number comes from ---------------------------------------------------------------------------------

RATE = 0.1


class Holder:
    """An object with a number."""

    rate = 0.1

    def __init__(self) -> None:
        self.rate = 0.1


class Scale(torch.nn.Module):
    """A module with a number."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.rate + self.rate


def test_attributes_items_cells_globals_defaults_and_keywords() -> None:
    holder, groups, rate = Holder(), [{"lr": 0.1}], 0.1

    def of_cell(x: torch.Tensor) -> torch.Tensor:
        return x * rate + rate

    def of_default(x: torch.Tensor, s: float = 0.1) -> torch.Tensor:
        return x * s

    def of_keyword(x: torch.Tensor, *, s: float) -> torch.Tensor:
        return x * s

    def of_class(x: torch.Tensor) -> torch.Tensor:
        return x * Holder.rate

    def of_global(x: torch.Tensor) -> torch.Tensor:
        return x * RATE

    def of_attribute(x: torch.Tensor) -> torch.Tensor:
        return x * holder.rate

    def of_item(x: torch.Tensor) -> torch.Tensor:
        return x * groups[0]["lr"]

    module = Scale()

    def set_all(value: float) -> None:
        nonlocal rate
        rate = groups[0]["lr"] = holder.rate = module.rate = value
        Holder.rate = value
        globals()["RATE"] = value
        of_default.__defaults__ = (value,)

    x = torch.randn(5)
    cases: list[tuple[Any, bool]] = [
        (of_cell, False), (of_default, False), (of_class, False), (of_global, False), (of_attribute, False),
        (of_item, False), (module, False), (of_keyword, True),
    ]  # fmt: skip
    for fn, by_keyword in cases:
        counter = CompileCounter()
        compiled = framehook.compile(fn, backend=counter)
        for value in (0.1, 0.2, 0.3, -0.0, math.inf):
            set_all(value)
            keywords = {"s": value} if by_keyword else {}
            assert _same(fn(x, **keywords), compiled(x, **keywords)), (fn, value)
        assert counter.frame_count == 2, fn
    set_all(0.1)


def test_stores_of_numbers_that_change() -> None:
    class Optimizer:
        def __init__(self) -> None:
            self.rate, self.steps = 0.1, 0

    def step(self: Optimizer, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.rate = self.rate * 0.5 / (1 + self.steps)
        return x * self.rate + self.steps

    counter = CompileCounter()
    compiled = framehook.compile(step, backend=counter)
    ours, theirs = Optimizer(), Optimizer()
    for _ in range(8):
        x = torch.randn(3)
        assert _same(step(theirs, x), compiled(ours, x))
        assert _same(vars(theirs), vars(ours))
    assert counter.frame_count == 2


class Celsius(float):
    """A float of its own class."""

    def __mul__(self, other: Any) -> Any:
        return other * 1000.0


class Whole(int):
    """An int of its own class."""


def test_numbers_of_other_classes_are_none() -> None:
    numpy = pytest.importorskip("numpy")

    def scaled(x: torch.Tensor, s: Any) -> Any:
        return x * s, s * 2

    for make in (Celsius, Whole, numpy.float64, numpy.float32, numpy.int64):
        _runs_alike(scaled, tuple(make(value) for value in (1, 2, 3, 4)))
    # One place, several classes.
    _runs_alike(scaled, (0.5, 0.25, 1, True, Celsius(2.0), 3, 0.125, False, None))


def test_what_keeps_a_number_constant_is_said(caplog: pytest.LogCaptureFixture) -> None:
    compiled = framehook.compile(copied(ROWS["rounding"].program), backend="eager")
    with caplog.at_level("INFO", "framehook.recompiles"):
        for number in (0.1, 1.1, 2.2):
            compiled(torch.ones(2), number)
    told = [message for message in caplog.messages if "stays a constant" in message]
    assert told and all(
        "L['s'] changes" in message and "test_changing_numbers.py:" in message for message in told
    )


def test_dynamic_false_keeps_numbers_constant() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(lambda x, s: x * s, backend=counter, dynamic=False)
    for number in (0.1, 0.2, 0.3, 0.4):
        assert _same(compiled(torch.ones(2), number), torch.ones(2) * number)
    assert counter.frame_count == 4


def test_a_number_out_of_a_tensor_goes_on_in_the_graph_behind_the_break() -> None:
    def fn(x: torch.Tensor) -> Any:
        mean = x.mean().item()
        scale = mean * 2 + 1
        return x * scale - mean, scale

    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for seed in range(6):
        x = torch.randn(4, generator=torch.Generator().manual_seed(seed))
        assert _same(fn(x), compiled(x))
    assert counter.frame_count == 2


def test_gradients_of_scaled_losses() -> None:
    def loss(x: torch.Tensor, s: float) -> torch.Tensor:
        return ((x * s).sin() / (s + 3)).sum()

    for backend in ("eager", "aot_eager"):
        compiled = framehook.compile(copied(loss), backend=backend)
        for s in (0.1, 0.2, 0.7, 1.5):
            x, y = (torch.linspace(0, 1, 5).requires_grad_() for _ in range(2))
            loss(x, s).backward()
            compiled(y, s).backward()
            assert torch.allclose(x.grad, y.grad, rtol=1e-6, atol=0)  # type: ignore[arg-type]


def test_sgd_with_a_schedule_is_compiled_twice() -> None:
    def step(parameters: list[torch.Tensor], gradients: list[torch.Tensor], group: dict[str, float]) -> None:
        rate = group["lr"]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
            parameter.add_(gradient, alpha=-rate)

    counter = CompileCounter()
    compiled = framehook.compile(step, backend=counter)
    ours, theirs = ([torch.ones(3), torch.full((2,), 2.0)] for _ in range(2))
    group = {"lr": 0.1, "weight_decay": 0.01}
    for epoch in range(6):
        gradients = [torch.full((3,), float(epoch)), torch.full((2,), 0.5)]
        step(theirs, gradients, group)
        compiled(ours, gradients, group)
        assert _same(theirs, ours)
        group["lr"] = 0.05 * (1 + math.cos(math.pi * epoch / 6))
    assert counter.frame_count == 2


# -- numbers that an operation does not take ---------------------------------------------------------------------


def _told(operation: Callable[[torch.Tensor, Any], Any]) -> Program:
    """The operation as a program that changes something before it, and looks what error there is."""

    def told(x: torch.Tensor, k: Any) -> Any:
        LARGE.add_(1)  # beyond what is copied before a graph runs, to be put back
        try:
            return operation(x, k)
        except (RuntimeError, ArithmeticError, ValueError) as error:
            return type(error).__name__, str(error)

    return told


LARGE = torch.zeros(1 << 19)
HUGE = 1 << 64

#: With how many graphs: of the backend that takes numbers, and of the one that takes tensors.  A number that is refused
#: where there is no graph yet for others costs more.
REFUSED: dict[str, tuple[Program, torch.dtype, tuple[Any, ...], tuple[int, int]]] = {
    "alpha": (lambda x, k: torch.add(x, x, alpha=k), torch.uint8, (1, 2, 3, 300, 4), (2, 2)),
    "alpha in place": (lambda x, k: x.add_(x, alpha=k), torch.uint8, (1, 2, 3, 300, 4), (2, 2)),
    "a float for alpha": (lambda x, k: x.sub_(x, alpha=k), torch.int64, (1, 2, 2.5, 3), (3, 3)),
    "alpha of halves": (lambda x, k: x.add_(x, alpha=k), torch.float16, (0.5, 0.25, 7e4, 2.0, math.inf), (2, 2)),
    "alpha of floats": (lambda x, k: x.add_(x, alpha=k), torch.float32, (0.5, 0.25, 1e39, 2.0), (2, 2)),
    "alpha of doubles": (lambda x, k: x.add_(x, alpha=k), torch.float64, (0.5, 0.25, 1e39, math.nan), (2, 2)),
    "first of all": (lambda x, k: x.add_(x, alpha=k), torch.uint8, (300, 2, 3, 4), (1, 1)),
    "fill": (lambda x, k: x.fill_(k), torch.bfloat16, (0.5, 0.25, 1e39, 2.0), (2, 2)),
    "fill of integers": (lambda x, k: x.fill_(k), torch.int8, (1, 2, 300, 3), (2, 3)),
    "addcmul": (lambda x, k: x.addcmul_(x, (x > 0).to(x.dtype), value=k), torch.float32, (0.5, 0.25, 1e39, 2.0), (2, 2)),
    "lerp": (lambda x, k: x.lerp_(x + 1, k), torch.bfloat16, (0.5, 0.25, 1e39, 0.75), (2, 2)),
    "foreach": (lambda x, k: torch._foreach_add_([x], [x], alpha=k), torch.float16, (0.5, 0.25, 7e4, 2.0), (2, 2)),
    "power": (lambda x, k: x.__ipow__(k), torch.bfloat16, (0.5, 0.25, 1e39), (2, 3)),
    "negative power": (lambda x, k: x.__ipow__(k), torch.int64, (1, 2, 3, -1), (2, 3)),
    "no divisor": (lambda x, k: x.__ifloordiv__(k), torch.int64, (1, 2, 3, 0), (2, 3)),
    "huge": (lambda x, k: x * k, torch.float32, (1, 2, 3, HUGE, 4), (2, 2)),
    "huge in place": (lambda x, k: x.__iadd__(k), torch.int64, (1, 2, 3, HUGE, 1 << 63), (2, 2)),
    "huge power": (lambda x, k: x**k, torch.float64, (1, 2, HUGE, 3), (2, 2)),
    "a tensor of a large one": (lambda x, k: torch.tensor(k, dtype=x.dtype), torch.float32, (1, 2, 3, 1 << 40), (2, 5)),
    "setitem": (lambda x, k: x.__setitem__(0, k), torch.uint8, (300,), (1, 1)),
    "clamp": (lambda x, k: x.clamp_(max=k), torch.int8, (1, 2, 3, 300), (2, 3)),
    "list of integers": (lambda x, k: torch._foreach_mul_([x], k), torch.int64, (1.5, 2.5), (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_are_refused(name: str, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    """The program sees the error, the tensors are what they were, and the graph serves all the other numbers."""
    operation, dtype, numbers, graphs = REFUSED[name]
    program = _told(operation)
    LARGE.zero_()
    found = _runs_alike(program, numbers, dtype, backend)
    assert LARGE[0] == LARGE[-1] == 2 * len(numbers)
    assert found == graphs[backend == "aot_eager"]
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
