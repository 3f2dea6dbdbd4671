"""Tensor metadata, identity patterns and memory overlap."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from framehook import _C
from framehook.guards.guard import Check
from framehook.source import LocalSource

from .programs import Program, X, Y
from .tensors import spec_of


class Sub(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    """Answers for its sizes itself, from Python."""

    calls = 0

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, dispatch_sizes_strides_policy="sizes", dispatch_device=True
        )

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Wrapper.calls += 1
        raise AssertionError("guards do not dispatch")


BASE = torch.zeros(4, 6)

FAILING = {
    "size": lambda: torch.zeros(4, 7),
    "fewer dimensions": lambda: torch.zeros(24),
    "more dimensions": lambda: torch.zeros(1, 4, 6),
    "stride": lambda: torch.zeros(6, 4).t(),
    "dtype": lambda: torch.zeros(4, 6, dtype=torch.float64),
    "device": lambda: torch.zeros(4, 6, device="meta"),
    "requires_grad": lambda: torch.zeros(4, 6, requires_grad=True),
    "result with grad": lambda: torch.zeros(4, 6, requires_grad=True) * 2,
    "parameter": lambda: torch.nn.Parameter(torch.zeros(4, 6), requires_grad=False),
    "subclass": lambda: torch.zeros(4, 6).as_subclass(Sub),
    "sparse": lambda: torch.zeros(4, 6).to_sparse(),
    "compressed": lambda: torch.zeros(4, 6).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(4, 6)]),
    "negated view": lambda: torch.zeros(4, 6, dtype=torch.complex64).conj().imag,
    "inference": lambda: inference_tensor(),
    "quantized": lambda: torch.quantize_per_tensor(torch.zeros(4, 6), 1.0, 0, torch.qint8),
    "fake": lambda: FakeTensorMode().from_tensor(torch.zeros(4, 6)),
    "wrapper": lambda: Wrapper(torch.zeros(4, 6)),
    "not a tensor": lambda: [0],
    "none": lambda: None,
    "class": lambda: torch.Tensor,
}


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(4, 6)


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.filterwarnings("ignore")
def test_another_tensor_fails(name: str) -> None:
    program = Program((X, Check.TENSOR, spec_of(BASE)), inputs=[X])
    assert program.inputs(torch.ones(4, 6)) is not None
    other = FAILING[name]()
    assert not program.holds(other)
    guard, got = program.failing(other)
    assert guard is program.guards[0] and got is other
    assert Wrapper.calls == 0


@pytest.mark.parametrize(
    "make", [lambda: torch.zeros(()), lambda: torch.zeros(0, 3), lambda: torch.zeros(2, 0)]
)
def test_scalars_and_empty_tensors(make: Any) -> None:
    program = Program((X, Check.TENSOR, spec_of(make())))
    assert program.holds(make())
    assert not program.holds(BASE)


def test_symbolic_dimension() -> None:
    program = Program((X, Check.TENSOR, spec_of(BASE, symbolic=[0])))
    assert program.holds(torch.zeros(9, 6)) and program.holds(BASE)
    assert not program.holds(torch.zeros(9, 7)) and not program.holds(torch.zeros(6, 9).t())


def test_requires_grad_that_is_not_used() -> None:
    program = Program((X, Check.TENSOR, spec_of(BASE, uses_grad=False)))
    assert program.holds(BASE)
    # Having a grad_fn shows in no dispatch key.
    assert program.holds(torch.zeros(4, 6, requires_grad=True))


@pytest.mark.filterwarnings("ignore")
def test_layout_without_strides() -> None:
    sparse = torch.eye(4).to_sparse()
    spec = spec_of(sparse, strides=False)
    program = Program((X, Check.TENSOR, spec))
    assert program.holds(torch.zeros(4, 4).to_sparse())
    assert not program.holds(torch.zeros(4, 5).to_sparse()) and not program.holds(torch.eye(4))


def test_data_replaced() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4, 6))
    program = Program((X, Check.TENSOR, spec_of(parameter)))
    assert program.holds(parameter)
    with torch.no_grad():
        parameter.add_(1)
    parameter.data = torch.ones(4, 6)
    assert program.holds(parameter)
    parameter.data = torch.ones(4, 7)
    assert not program.holds(parameter)
    parameter.data = torch.ones(4, 6, dtype=torch.float64)
    assert not program.holds(parameter)
    parameter.data = torch.ones(4, 6)
    assert program.holds(parameter)
    parameter.requires_grad_(False)
    assert not program.holds(parameter)


def test_wrapped_by_a_functorch_transform() -> None:
    program = Program((X, Check.TENSOR, spec_of(torch.zeros(6))))
    seen = []
    torch.vmap(lambda row: seen.append(program.holds(row)) or row)(BASE)
    torch.func.grad(lambda row: seen.append(program.holds(row)) or row.sum())(torch.zeros(6))
    assert seen == [False, False]
    assert program.holds(torch.zeros(6))


def test_grad_member() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    is_none = Program((X.member("grad"), Check.EQUALS, None))
    has_grad = Program((X.member("grad"), Check.TENSOR, spec_of(torch.zeros(2))), inputs=[X.member("grad")])
    for _ in range(2):
        assert is_none.holds(parameter) and not has_grad.holds(parameter)
        parameter.grad = torch.ones(2)
        assert not is_none.holds(parameter)
        found = has_grad.inputs(parameter)
        assert found is not None and found[0] is parameter.grad
        del found
        parameter.grad = None
    product = parameter * 2
    assert is_none.holds(product)  # without the warning that reading `.grad` of a non-leaf gives


def test_buffer_replaced_in_a_module() -> None:
    module = torch.nn.BatchNorm1d(3)
    mean = X.attr("_buffers").item("running_mean")
    program = Program(
        (X, Check.TYPE, torch.nn.BatchNorm1d), (mean, Check.TENSOR, spec_of(torch.zeros(3))), inputs=[mean]
    )
    found = program.inputs(module)
    assert found is not None and found[0] is module.running_mean
    module.running_mean = torch.ones(3)
    found = program.inputs(module)
    assert found is not None and found[0] is module.running_mean
    module.running_mean = torch.ones(4)
    assert not program.holds(module)
    module.running_mean = None
    assert not program.holds(module)


# -- memory ----------------------------------------------------------------------------------------------------

base = torch.zeros(6, 8)
flat = torch.zeros(20)

OVERLAPS = [
    ("same tensor", base, base, True),
    ("view of all", base, base.view(48), True),
    ("other storage", base, torch.zeros(6, 8), False),
    ("rows", base[:3], base[3:], False),
    ("rows that meet", base[:4], base[3:], True),
    ("columns", base[:, 0], base[:, 1], False),
    ("column with itself", base[:, 2], base[1:, 2], True),
    ("chunks of the last dimension", base[:, :4], base[:, 4:], False),
    ("three chunks", base[:, :3], base[:, 3:5], False),
    ("chunks that meet", base[:, :5], base[:, 4:], True),
    ("even and odd", flat[::2], flat[1::2], False),
    ("every second and third", flat[::2], flat[1::3], True),
    ("column and row", base[:, 0], base[0], True),
    ("row and later column", base[0, 1:], base[:, 0], False),
    ("transposed halves", base.t()[:4], base.t()[4:], False),
    ("empty", base[:0], base, False),
    ("expanded", base[:1].expand(6, 8), base[1:], False),
    ("expanded over itself", base[:1].expand(6, 8), base[0], True),
    ("meta of one storage", (m := torch.zeros(6, device="meta"))[:3], m[2:], True),
    ("meta apart", m[:3], m[3:], False),
    ("meta of two storages", m, torch.zeros(6, device="meta"), False),
    ("other dtype of one storage", base, base.view(torch.int32), True),
]


@pytest.mark.parametrize("row", OVERLAPS, ids=[row[0] for row in OVERLAPS])
def test_overlap(row: Any) -> None:
    _, a, b, overlaps = row
    assert _C.tensors_overlap(a, b) == overlaps
    assert _C.tensors_overlap(b, a) == overlaps
    # As a guard the predicate is the same.
    disjoint = Program((None, Check.DISJOINT, ((X,), (X, Y))))
    assert disjoint.holds(a, b) == (not overlaps)
    if overlaps:
        exempt = Program(
            (None, Check.DISJOINT, ((X,), (X, Y))), (None, Check.OVERLAPS, (X, Y, _C.tensors_distance(a, b)))
        )
        assert exempt.holds(a, b)


def test_memory_shared_with_numpy() -> None:
    array = torch.zeros(6).numpy()
    a, b = torch.from_numpy(array), torch.from_numpy(array[3:])
    assert a.untyped_storage()._cdata != b.untyped_storage()._cdata
    assert _C.tensors_overlap(a, b) and not _C.tensors_overlap(a[:3], b)


def test_overlap_says_may_for_tensors_without_storage() -> None:
    sparse = torch.eye(3).to_sparse()
    assert _C.tensors_overlap(sparse, torch.zeros(3))


def test_disjoint_among_many() -> None:
    count = 60
    sources = tuple(LocalSource(f"x{i}", i) for i in range(count))
    program = Program((None, Check.DISJOINT, (sources[:5], sources)))
    tensors = [torch.zeros(7) for _ in range(count)]
    assert program.holds(*tensors)
    memory = torch.zeros(100)
    tensors[20], tensors[30] = memory[:10], memory[5:15]
    assert program.holds(*tensors)  # they overlap, but neither is mutated
    tensors[2] = memory[14:16]
    assert not program.holds(*tensors)
    tensors[2] = memory[15:16]
    assert program.holds(*tensors)
    tensors[59] = tensors[0]
    assert not program.holds(*tensors)
    tensors[59] = torch.zeros(7)
    assert program.holds(*tensors)
    tensors[40] = 3  # type: ignore[call-overload]
    assert not program.holds(*tensors)


def test_disjoint_follows_strides_under_equal_addresses() -> None:
    memory = torch.zeros(100)
    a, b = memory[0:10:2], memory[1:11:2]
    program = Program((None, Check.DISJOINT, ((X,), (X, Y))))
    assert program.holds(a, b)
    assert not program.holds(a, memory[1:10])
    assert program.holds(a, b)


def test_overlap_at_trace_time() -> None:
    memory = torch.zeros(10)
    rows = [(None, Check.OVERLAPS, (X, Y, 8)), (None, Check.DISJOINT, ((X,), (X, Y)))]
    program = Program(*rows)
    assert program.holds(memory[:5], memory[2:7])
    assert not program.holds(memory[:5], memory[1:6])
    assert not program.holds(memory[:5], torch.zeros(5))
    assert not program.holds(memory[2:7], memory[:5])
    assert not program.holds(None, None)


def test_same_tensor_twice() -> None:
    tensor = torch.zeros(3)
    same = Program((X, Check.SAME, Y), (None, Check.DISJOINT, ((X,), (X, Y))))
    assert same.holds(tensor, tensor) and not same.holds(tensor, torch.zeros(3))
    apart = Program((None, Check.DISTINCT, (X, Y)), (None, Check.DISJOINT, ((X,), (X, Y))))
    assert apart.holds(tensor, torch.zeros(3)) and not apart.holds(tensor, tensor)
    assert not apart.holds(tensor, tensor.view(3))


def test_wrong_constants_are_errors() -> None:
    with pytest.raises(TypeError):
        Program((X, Check.TENSOR, spec_of(BASE)._replace(dtype="float32")))
    with pytest.raises(ValueError):
        Program((X, Check.TENSOR, spec_of(BASE)._replace(strides=(1,))))
    with pytest.raises(TypeError):
        Program((None, Check.STATE, 3))
