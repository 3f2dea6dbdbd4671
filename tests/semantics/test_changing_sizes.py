"""Sizes and integers that differ from call to call: symbols from the first recompile on, and results as eager's.

Each row is a program of a tensor with a changing number of rows.  It is run with many sizes, 0 and 1 among them, and
compared bit for bit; the number of graphs says whether the size became a symbol or stayed a number.
"""

from __future__ import annotations

import math
import random
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

import framehook
from framehook.testing import CompileCounter
from tests.semantics.fresh_code import copied, result_or_error

SIZES = (8, 6, 10, 13, 64, 7, 5, 18, 33, 12, 1, 0, 9, 2, 3, 16)
STATE = types.SimpleNamespace()


def _same(expected: Any, got: Any, is_exact: bool = True) -> bool:
    if type(expected) is not type(got):
        return False
    if isinstance(expected, torch.Tensor):
        if (expected.dtype, expected.shape, expected.stride()) != (got.dtype, got.shape, got.stride()):
            return (
                is_exact is False
                and expected.shape == got.shape
                and torch.allclose(expected, got, equal_nan=True)
            )
        return torch.allclose(expected, got, 0 if is_exact else 1e-5, 0 if is_exact else 1e-6, equal_nan=True)
    if isinstance(expected, (tuple, list)):
        return len(expected) == len(got) and all(
            _same(a, b, is_exact) for a, b in zip(expected, got, strict=True)
        )
    if isinstance(expected, dict):
        return list(expected) == list(got) and _same(list(expected.values()), list(got.values()), is_exact)
    return bool(expected == got)


def _rows(count: int) -> torch.Tensor:
    return torch.arange(count * 4.0).reshape(count, 4) / 3


def _runs_alike(fn: Any, sizes: tuple[int, ...] = SIZES, backend: Any = "eager", **options: Any) -> list[int]:
    """Compare all runs; returns how many graphs had been compiled after each."""
    counter = CompileCounter(backend)
    compiled = framehook.compile(copied(fn), backend=counter, **options)
    counts = []
    for size in sizes:
        x = _rows(size)
        y = x.clone()
        expected, got = result_or_error(fn, x), result_or_error(compiled, y)
        assert _same(expected, got, backend == "eager"), f"{size}: expected {expected}, got {got}"
        assert _same(x, y, backend == "eager"), f"{size}: the argument became {y}, not {x}"
        counts.append(counter.frame_count)
    return counts


def _padded(x: Any) -> Any:
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, (8 - n % 8) % 8)).view(-1, 8, x.shape[1])


def _unpacked(x: Any) -> Any:
    b, d = x.shape
    return x.reshape(b * d), x.view(b, -1, 2), b, d * 2 - b, x.size(0) // 2, -b


def _broken(x: Any) -> Any:
    n = x.shape[0]
    y = x * n
    framehook.graph_break()
    return y[: n // 2] + n, n


def _stored(x: Any) -> Any:
    STATE.n, STATE.shape = x.shape[0], x.shape
    return x.sum(), dict(vars(STATE))


def _changed(x: Any) -> Any:
    x.add_(1)
    x[: x.shape[0] // 2] = 0
    return x.mul_(x.shape[0]).sum()


def _two_halves(x: Any) -> Any:
    half = x.shape[0] // 2
    return torch.cat([x[half:], x[:half]]), x[:half].sum(0)


def _intermediate(x: Any) -> Any:
    y = torch.cat([x, x, x[:1]])
    return y.reshape(-1), y.shape[0], len(y) + 1, y.numel() // 3


def _masked(x: Any) -> Any:
    n = x.size(0)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return (x @ x.T).masked_fill(~mask, -math.inf).softmax(-1) @ x


def _looped(x: Any) -> Any:
    total = x * 0
    for index in range(x.shape[0]):
        total = total + index
    return total


def _attention(x: Any) -> Any:
    q = x.view(1, x.shape[0], 2, 2).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(x.shape)


class Row(NamedTuple):
    """A program, and the graphs for sizes of two or more."""

    program: Any
    graphs: int = 2


ROWS = {
    "elementwise": Row(lambda x: x * 2 + 1),
    "matrices": Row(lambda x: (x @ x.T).softmax(-1) @ x),
    "reductions": Row(lambda x: (x.sum(), x.mean(0), x.sum(1, keepdim=True) / x.shape[0])),
    "unpacked": Row(_unpacked),
    "flattened": Row(lambda x: (x.flatten(), x.reshape(-1, x.shape[1], 1), x[None].expand(2, -1, -1))),
    "padded": Row(_padded),
    "made": Row(lambda x: (torch.zeros(x.shape[0], 3), x.new_ones(x.size()), torch.full((len(x),), 2.0))),
    "arange": Row(lambda x: x + torch.arange(x.shape[0]).unsqueeze(1)),
    "sliced": Row(lambda x: (x[1:], x[:-1], x[-1], x[::2], x[: x.shape[0] - 1])),
    "halves": Row(_two_halves),
    "chunks": Row(lambda x: x.chunk(2)),
    "columns": Row(lambda x: (x.split(2, dim=1), x.unbind(1), [column * 2 for column in x.T])),
    "stacked": Row(_intermediate),
    "masked": Row(_masked),
    "attention": Row(_attention),
    "means": Row(lambda x: (x.sum() * (1 / len(x)), x / math.sqrt(x.shape[0]), x.sum() / (x.numel() * 0.5))),
    "stored": Row(_stored),
    "changed": Row(_changed),
    "broken": Row(_broken, 4),
    "compared": Row(lambda x: x + 1 if x.shape[0] > 10 else x - 1, 3),
    "two kinds": Row(lambda x: x * 2 if x.shape[0] % 2 == 0 else x + 2, 3),
    "equal shapes": Row(lambda x: x + 1 if x.shape == (x.shape[0], 4) else x),
    "truth": Row(lambda x: x + 1 if x.shape[0] and len(x) else x),
    "type": Row(lambda x: x * x.shape[0] if isinstance(x.shape[0], int) else x),
    "looped": Row(_looped, 8),
    "text": Row(lambda x: (x + 1, f"{x.shape[0]} rows"), 8),
    "pieces": Row(lambda x: x.split(2), 8),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_results_are_eagers(name: str) -> None:
    row = ROWS[name]
    counts = _runs_alike(row.program)
    before_one = counts[SIZES.index(1) - 1]
    assert before_one <= row.graphs if row.graphs == 8 else before_one == row.graphs, counts


@pytest.mark.parametrize(
    "name", ["unpacked", "padded", "halves", "changed", "means", "masked", "broken", "stacked"]
)
def test_the_graph_of_symbols_goes_through_autograd_tracing(name: str) -> None:
    counts = _runs_alike(ROWS[name].program, backend="aot_eager")
    # Whether padding adds nothing is a case of its own there.
    assert counts[SIZES.index(1) - 1] == ROWS[name].graphs + (name == "padded")


def test_a_size_that_is_zero_or_one_gets_a_graph_of_its_own() -> None:
    assert _runs_alike(lambda x: x * 2 + x.shape[0], (4, 5, 1, 0, 1, 7, 9, 0)) == [1, 2, 3, 4, 4, 4, 4, 4]


def test_only_the_dimension_that_changes_becomes_a_symbol() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(lambda x: x * 2, backend=counter)
    for shape in ((3, 4), (5, 4), (7, 4), (9, 4)):
        compiled(torch.ones(shape))
    assert counter.frame_count == 2
    compiled(torch.ones(9, 6))  # the other one
    assert counter.frame_count == 3
    compiled(torch.ones(11, 8))
    assert counter.frame_count == 3


def test_equal_sizes_are_one_symbol_until_they_differ() -> None:
    def joined(x: Any, y: Any) -> Any:
        return x.sum() + y.sum(), x.shape[0] == y.shape[0], torch.cat([x, y])

    counter = CompileCounter()
    compiled = framehook.compile(joined, backend=counter)
    for a, b in ((3, 3), (4, 4), (5, 5), (6, 9), (7, 2), (9, 9), (2, 30)):
        x, y = torch.randn(a, 2), torch.randn(b, 2)
        assert _same(joined(x, y), compiled(x, y)), (a, b)
    assert counter.frame_count == 3


def test_strides_follow_the_sizes_or_get_another_graph() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(lambda x: (x * 2, x.is_contiguous(), x.stride()), backend=counter)
    for n in (3, 5, 6, 9):
        x = torch.randn(n, 4)
        assert _same(compiled.fn(x), compiled(x))  # type: ignore[attr-defined]
    assert counter.frame_count == 2
    for n in (3, 5, 6, 9):
        for x in (torch.randn(4, n).t(), torch.randn(n, 8)[:, ::2], torch.randn(n, 1).expand(n, 4)):
            assert _same(compiled.fn(x), compiled(x))  # type: ignore[attr-defined]


def test_dynamic_true_and_false() -> None:
    sizes = (8, 6, 10, 16)
    assert _runs_alike(lambda x: x * 2, sizes, dynamic=True) == [1, 1, 1, 1]
    assert _runs_alike(lambda x: x * 2, sizes, dynamic=False) == [1, 2, 3, 4]


def test_marked_dimensions() -> None:
    def double(x: Any) -> Any:
        return x * 2

    counter = CompileCounter()
    compiled = framehook.compile(double, backend=counter)
    for n in (3, 4, 5):
        x = torch.ones(n, 4)
        framehook.mark_dynamic(x, 0, min=2, max=64)
        assert torch.equal(compiled(x), x * 2)
    assert counter.frame_count == 1

    counter = CompileCounter()
    compiled = framehook.compile(double, backend=counter, dynamic=True)
    for n in (3, 4, 5):
        x = torch.ones(n, 4)
        framehook.mark_static(x, 0)
        assert torch.equal(compiled(x), x * 2)
    assert counter.frame_count == 3


def test_a_marked_dimension_that_has_to_be_a_number_is_an_error() -> None:
    def looped(x: Any) -> Any:
        return sum(x[index] for index in range(x.shape[0]))

    def joined(x: Any, y: Any) -> Any:
        return x + y

    x = torch.ones(3, 4)
    framehook.mark_dynamic(x, 0)
    with pytest.raises(
        framehook.DynamicDimensionError, match=r"L\['x'\]\.size\(0\) .* looks at its value .* be 3"
    ) as one:
        framehook.compile(looped, backend="eager")(x)
    assert one.value.location is not None and one.value.location.function.endswith("looped")
    with pytest.raises(framehook.DynamicDimensionError, match=r"add\(\) needs it to be 3"):
        framehook.compile(joined, backend="eager")(x, torch.ones(3, 4))


def test_a_relation_that_does_not_hold_is_told(caplog: pytest.LogCaptureFixture) -> None:
    compiled = framehook.compile(lambda x: x + 1 if x.shape[0] > 10 else x - 1, backend="eager")
    with caplog.at_level("INFO", "framehook.recompiles"):
        for n in (3, 4, 20):
            compiled(torch.ones(n))
    assert any("L['x'].size(0) <= 10: expected to hold" in message for message in caplog.messages)


# -- integers ----------------------------------------------------------------------------------------------------

INTEGER_ROWS: dict[str, tuple[Callable[[Any, int], Any], int]] = {
    "made": (lambda x, n: (torch.zeros(n, 2), torch.arange(n), x.new_full((n, 3), 1.0)), 2),
    "sliced": (lambda x, n: (x[:n], x[n:], x[: n + 1].sum()), 2),
    "shaped": (lambda x, n: x.flatten()[: n * 2].view(n, 2), 2),
    "narrowed": (lambda x, n: x.narrow(0, 0, n) * n, 2),
    "compared": (lambda x, n: x + 1 if n < 100 else x - 1, 2),
    "arithmetic": (lambda x, n: (x * (n // 2) + n % 3, n * 2, -n), 2),
    "expanded": (lambda x, n: x[0].expand(n, 4).sum(0), 2),
    "repeated": (lambda x, n: [0] * n + [x.sum()], 8),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", INTEGER_ROWS)
def test_integers_that_change(name: str, backend: str) -> None:
    program, graphs = INTEGER_ROWS[name]
    counter = CompileCounter(backend)
    compiled = framehook.compile(copied(program), backend=counter)
    numbers = (3, 5, 2, 7, 4, 9, 8, 6)
    for number in (*numbers, 1, 0, -1, 3):
        x = _rows(12)
        assert _same(
            result_or_error(program, x, number), result_or_error(compiled, x, number), backend == "eager"
        ), number
        if number == numbers[-1]:
            assert counter.frame_count == graphs


def test_an_integer_of_a_module_and_of_a_global() -> None:
    class Window(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.width = 4

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[: self.width].sum(0) / self.width

    module = Window()
    counter = CompileCounter()
    compiled = framehook.compile(module, backend=counter)
    for width in (4, 5, 6, 7, 3):
        module.width = width
        x = _rows(9)
        assert _same(module(x), compiled(x))
    assert counter.frame_count == 2


# -- aliases, memory, backends -------------------------------------------------------------------------------------


def test_inputs_that_overlap_keep_their_sizes() -> None:
    def shift(x: Any, y: Any) -> Any:
        x.mul_(2)
        return y + 1

    counter = CompileCounter()
    compiled = framehook.compile(shift, backend=counter)
    for n in (4, 6, 8, 10):
        for offset in (0, 1, n // 2):
            pair = [torch.arange(20.0), torch.arange(20.0)]
            results = [
                fn(base[:n], base[offset : offset + n])
                for fn, base in zip((shift, compiled), pair, strict=True)
            ]
            assert _same(*results) and _same(*pair)


def test_a_backend_of_somebody_else_never_sees_symbols() -> None:
    seen: list[Any] = []

    def traced(gm: Any, inputs: Any) -> Any:
        seen.append([tuple(each.shape) for each in inputs])
        return gm.forward

    assert _runs_alike(lambda x: x.view(x.shape[0] * 2, 2) + 1, (8, 6, 10), traced) == [1, 2, 3]
    assert seen == [[(8, 4)], [(6, 4)], [(10, 4)]]


def test_gradients_through_symbolic_graphs() -> None:
    layer = torch.nn.Linear(4, 3)

    def loss(x: Any) -> Any:
        y = layer(x).relu().reshape(x.shape[0] * 3)
        return (y / x.shape[0]).sum()

    for backend in ("eager", "aot_eager"):
        counter = CompileCounter(backend)
        compiled = framehook.compile(copied(loss), backend=counter)
        for n in (4, 6, 9, 2):
            x, y = (_rows(n).requires_grad_() for _ in range(2))
            loss(x).backward()
            compiled(y).backward()
            assert torch.allclose(x.grad, y.grad)  # type: ignore[arg-type]
        assert counter.frame_count == 2


@pytest.mark.slow
def test_inductor_compiles_at_most_three_times_for_all_batch_sizes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    counter = CompileCounter("inductor")
    compiled = framehook.compile(model, backend=counter)
    sizes = list(range(1, 65))
    random.Random(0).shuffle(sizes)
    with torch.no_grad():
        for n in sizes:
            x = torch.randn(n, 8)
            assert torch.allclose(model(x), compiled(x), atol=1e-5)
    assert counter.frame_count <= 3
