"""Guard rows about tensors: metadata, class, identity, overlap, and the containers that they arrive in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tests.semantics.guard_table import Call, Table, call

TENSORS = Table()


class Tagged(Tensor):
    """A subclass that changes nothing."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            return self.detach().as_subclass(Tensor).clone().as_subclass(type(self))


class Negating(Tagged):
    """A subclass whose every function negates."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return -result if isinstance(result, Tensor) else result


def ramp(*sizes: int, **options: Any) -> Tensor:
    """0, 1, 2, … in the given shape; float32 unless asked otherwise."""
    count = 1
    for size in sizes:
        count *= size
    options.setdefault("dtype", torch.float32)
    requires_grad = options.pop("requires_grad", False)
    return torch.arange(count, **options).reshape(sizes).requires_grad_(requires_grad)


@TENSORS.miss(
    cases={
        "size": (ramp(2, 3), ramp(4, 3)),
        "size_to_one": (ramp(2, 3), ramp(1, 3)),
        "size_to_empty": (ramp(2, 3), ramp(0, 3)),
        "rank": (ramp(2, 3), ramp(6)),
        "rank_to_scalar": (ramp(2, 3), ramp(1).sum()),
        "stride": (ramp(3, 3), ramp(3, 3).t()),
        "stride_of_step": (ramp(4), ramp(8)[::2]),
        "stride_expanded": (ramp(3, 3), ramp(3).expand(3, 3)),
        "channels_last": (ramp(1, 2, 3, 3), ramp(1, 2, 3, 3).contiguous(memory_format=torch.channels_last)),
        "dtype_double": (ramp(3), ramp(3, dtype=torch.float64)),
        "dtype_int": (ramp(3), ramp(3, dtype=torch.int64)),
        "dtype_bool": (ramp(3), ramp(3) > 1),
        "device": (ramp(3), ramp(3).to("meta")),
        "requires_grad_on": (ramp(3), ramp(3, requires_grad=True)),
        "requires_grad_off": (ramp(3, requires_grad=True), ramp(3)),
        "class_parameter": (ramp(3, requires_grad=True), nn.Parameter(ramp(3))),
        "class_subclass": (ramp(3), ramp(3).as_subclass(Tagged)),
        "class_overriding": (ramp(3), ramp(3).as_subclass(Negating)),
    }
)
def tensor_argument(patch: object, before: Tensor, after: Tensor) -> Iterator[Call]:
    def fn(x: Tensor) -> tuple[Any, ...]:
        return x + x, tuple(x.shape), x.stride(), x.dtype, x.requires_grad, type(x).__name__, x.device

    yield call(fn, before)
    yield call(fn, after)


@TENSORS.miss
def conjugate_argument(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> tuple[Any, ...]:
        return x + x, x.is_conj(), x.dtype

    # A deep copy is no conjugate, so it is made here.
    z = ramp(3).to(torch.complex64) * 1j
    yield call(fn, z)
    yield call(fn, z.conj())


@TENSORS.miss(
    cases={
        "shape_arithmetic": (lambda x: x * x.shape[0], ramp(2, 3), ramp(4, 3)),
        "len": (lambda x: x * len(x), ramp(2, 3), ramp(5, 3)),
        "view_of_stride": (lambda x: x * x.stride(0), ramp(3, 3), ramp(3, 3).t()),
        "numel": (lambda x: x / x.numel(), ramp(3), ramp(4)),
        "is_contiguous": (lambda x: x + x.is_contiguous(), ramp(3, 3), ramp(3, 3).t()),
        "storage_offset_same": (lambda x: x * x.dim(), ramp(4), ramp(2, 2)),
        "dtype_branch": (
            lambda x: x if x.dtype is torch.float32 and x.sum is None else x + 1,
            ramp(2),
            ramp(2).half(),
        ),
    }
)
def tensor_property(patch: object, fn: Any, before: Tensor, after: Tensor) -> Iterator[Call]:
    yield call(fn, before)
    yield call(fn, after)


@TENSORS.miss(cases={"conjugate": (torch.Tensor.conj,), "negative": (lambda x: x.conj().imag,)})
def lazy_bits_of_a_tensor(patch: object, transform: Any) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x + x

    x = ramp(3).to(torch.complex64) * 1j
    yield call(fn, transform(x).resolve_conj().resolve_neg())
    yield call(fn, transform(x))


@TENSORS.miss
def tensor_attribute_set(patch: object) -> Iterator[Call]:
    x = ramp(3)
    x.scale = 2  # type: ignore[attr-defined]

    def fn(x: Tensor) -> Tensor:
        return x * x.scale

    yield call(fn, x)
    x.scale = 5  # type: ignore[attr-defined]
    yield call(fn, x)


@TENSORS.any
def same_tensor_twice(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x * 2 + y

    yield call(fn, ramp(3), ramp(3))
    x = ramp(3, requires_grad=True)
    yield call(fn, x, x)


@TENSORS.miss
def same_tensor_twice_mutated(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x + y

    yield call(fn, ramp(3), ramp(3))
    x = ramp(3)
    yield call(fn, x, x)


@TENSORS.miss
def same_tensor_no_longer(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x + y

    x = ramp(3)
    yield call(fn, x, x)
    yield call(fn, ramp(3), ramp(3))


@TENSORS.miss
def tensor_identity_compared(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x + 1 if x is y else x - 1

    yield call(fn, ramp(3), ramp(3))
    x = ramp(3)
    yield call(fn, x, x)


@TENSORS.any
def inputs_returned_by_identity(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, y, x + y

    yield call(fn, ramp(3), ramp(3))
    x = ramp(3)
    yield call(fn, x, x)


@TENSORS.any
def overlapping_views(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    yield call(fn, ramp(3), ramp(3))
    base = ramp(5)
    yield call(fn, base[:3], base[2:])


@TENSORS.miss(cases={"shifted": (0, 2), "same_range": (1, 1)})
def overlapping_views_mutated(patch: object, first: int, second: int) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y

    yield call(fn, ramp(3), ramp(3))
    base = ramp(6)
    yield call(fn, base[first : first + 3], base[second : second + 3])


@TENSORS.any
def views_of_one_base_that_do_not_overlap(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y

    yield call(fn, ramp(3), ramp(3))
    base = ramp(6)
    yield call(fn, base[:3], base[3:])


@TENSORS.miss
def mutated_input_becomes_the_parameter(patch: object) -> Iterator[Call]:
    model = nn.Linear(3, 3, bias=False)

    def fn(x: Tensor) -> Tensor:
        with torch.no_grad():
            x.add_(1)
            return x @ model.weight

    yield call(fn, torch.eye(3))
    yield call(fn, model.weight.data)


@TENSORS.miss
def two_lists_become_one(patch: object) -> Iterator[Call]:
    def fn(a: list[Tensor], b: list[Tensor], x: Tensor) -> int:
        a.append(x + 1)
        return len(b)

    yield call(fn, [], [], ramp(3))
    shared: list[Tensor] = []
    yield call(fn, shared, shared, ramp(3))


@TENSORS.miss
def two_dicts_become_one(patch: object) -> Iterator[Call]:
    def fn(a: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Tensor:
        a["x"] = x + 1
        return b["x"] * 2

    yield call(fn, {}, {"x": ramp(3)}, ramp(3))
    shared = {"x": ramp(3)}
    yield call(fn, shared, shared, ramp(3))


@TENSORS.miss
def none_becomes_a_tensor(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, bias: Tensor | None = None) -> Tensor:
        return x * 2 if bias is None else x * 2 + bias

    yield call(fn, ramp(3))
    yield call(fn, ramp(3), ramp(3))


@TENSORS.miss
def a_tensor_becomes_none(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, bias: Tensor | None) -> Tensor:
        return x * 2 if bias is None else x * 2 + bias

    yield call(fn, ramp(3), ramp(3))
    yield call(fn, ramp(3), None)


@TENSORS.miss
def a_tensor_becomes_a_number(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, y: Any) -> Tensor:
        return x * y

    yield call(fn, ramp(3), ramp(3))
    yield call(fn, ramp(3), 7)


@TENSORS.miss
def requires_grad_set_in_place(patch: object) -> Iterator[Call]:
    x = ramp(3)

    def fn() -> Tensor:
        return x * 2

    yield call(fn)
    x.requires_grad_(True)
    yield call(fn)


@TENSORS.miss(cases={"shape": (ramp(2, 3),), "dtype": (ramp(3, dtype=torch.float64),)})
def data_of_a_closed_over_tensor(patch: object, data: Tensor) -> Iterator[Call]:
    x = ramp(3)

    def fn() -> Tensor:
        return x * 2

    yield call(fn)
    x.data = data
    yield call(fn)


@TENSORS.hit(
    cases={
        "values": (ramp(3), -ramp(3)),
        "layout_same": (ramp(2, 3), ramp(3, 2).reshape(2, 3)),
        "storage_offset": (ramp(3), ramp(6)[3:]),
        "random": (torch.ones(4), torch.full((4,), float("nan"))),
    }
)
def other_tensor_of_equal_metadata(patch: object, before: Tensor, after: Tensor) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x * 2 + 1

    yield call(fn, before)
    yield call(fn, after)


@TENSORS.hit
def requires_grad_is_not_used_under_no_grad(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        with torch.no_grad():
            return x * 2

    yield call(fn, ramp(3))
    yield call(fn, ramp(3, requires_grad=True))


@TENSORS.hit
def unused_tensor_argument(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, unused: Any) -> Tensor:
        return x + 1

    yield call(fn, ramp(3), ramp(3))
    yield call(fn, ramp(3), ramp(7, dtype=torch.float64))
    yield call(fn, ramp(3), "text")


@TENSORS.hit
def tensors_mutated_in_place_between_calls(patch: object) -> Iterator[Call]:
    x = ramp(3)

    def fn(x: Tensor) -> Tensor:
        return x * 2

    yield call(fn, x)
    x.add_(5)
    yield call(fn, x)
