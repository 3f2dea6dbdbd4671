"""Guard rows about process and thread state that changes what an operation does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.semantics.guard_rows_tensors import ramp
from tests.semantics.guard_table import Call, Table, call

STATE = Table()


class Doubling(TorchFunctionMode):
    """Doubles what every torch function returns."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if isinstance(result, Tensor) else result


class Counting(TorchDispatchMode):
    """Counts operations."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def affine(x: Tensor) -> Tensor:
    """The program of most rows."""
    return x @ x + 1


@contextlib.contextmanager
def _restored(get: Any, put: Any, value: Any) -> Iterator[None]:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


@STATE.miss(
    cases={
        "no_grad": (torch.no_grad,),
        "inference_mode": (torch.inference_mode,),
        "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16),),
    }
)
def mode_entered(patch: object, mode: Any) -> Iterator[Call]:
    x = ramp(3, 3, requires_grad=True)
    yield call(affine, x)
    with mode():
        yield call(affine, x)


@STATE.miss(
    cases={
        "no_grad": (torch.no_grad,),
        "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16),),
    }
)
def mode_left(patch: object, mode: Any) -> Iterator[Call]:
    x = ramp(3, 3, requires_grad=True)
    with mode():
        yield call(affine, x)
    yield call(affine, x)


@STATE.miss
def autocast_dtype(patch: object) -> Iterator[Call]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield call(affine, ramp(3, 3))
    with torch.autocast("cpu", dtype=torch.float16):
        yield call(affine, ramp(3, 3))


@STATE.miss
def grad_mode_between_no_grad_and_inference(patch: object) -> Iterator[Call]:
    with torch.no_grad():
        yield call(affine, ramp(3, 3))
    with torch.inference_mode():
        yield call(affine, ramp(3, 3))


@STATE.miss
def grad_mode_read(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x + 1 if torch.is_grad_enabled() else x - 1

    yield call(fn, ramp(3))
    with torch.no_grad():
        yield call(fn, ramp(3))


@STATE.miss
def default_dtype(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x + torch.ones(3)

    yield call(fn, ramp(3))
    with _restored(torch.get_default_dtype, torch.set_default_dtype, torch.float64):
        yield call(fn, ramp(3))


@STATE.miss
def default_device(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.ones(3)

    yield call(fn, ramp(3))
    with torch.device("meta"):
        yield call(fn, ramp(3))


@STATE.miss(
    cases={
        "deterministic": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
            True,
        ),
        "matmul_precision": (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
            "medium",
        ),
        "anomaly": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, True),
        "autocast_cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, False),
    }
)
def flag(patch: object, get: Any, put: Any, value: Any) -> Iterator[Call]:
    yield call(affine, ramp(3, 3))
    with _restored(get, put, value):
        yield call(affine, ramp(3, 3))


@STATE.miss
def deterministic_flag_read(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x + 1 if torch.are_deterministic_algorithms_enabled() else x - 1

    yield call(fn, ramp(3))
    with _restored(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True):
        yield call(fn, ramp(3))


@STATE.any
def torch_function_mode(patch: object) -> Iterator[Call]:
    yield call(affine, ramp(3, 3))
    with Doubling():
        yield call(affine, ramp(3, 3))
    yield call(affine, ramp(3, 3))


@STATE.any
def torch_dispatch_mode(patch: object) -> Iterator[Call]:
    yield call(affine, ramp(3, 3))
    mode = Counting()
    with mode:
        yield call(affine, ramp(3, 3))
    assert len(mode.seen) >= 2, "the mode saw nothing of the call"
    yield call(affine, ramp(3, 3))


@STATE.any
def saved_tensor_hooks(patch: object) -> Iterator[Call]:
    x = ramp(3, 3, requires_grad=True)
    yield call(affine, x)
    packed: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
        yield call(affine, x)
    assert packed, "nothing was packed"


@STATE.hit(
    cases={
        "no_grad": (torch.no_grad,),
        "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16),),
    }
)
def same_mode_again(patch: object, mode: Any) -> Iterator[Call]:
    x = ramp(3, 3, requires_grad=True)
    with mode():
        yield call(affine, x)
    with mode():
        yield call(affine, x)


@STATE.hit
def random_state_moved(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x + torch.rand(3)

    yield call(fn, ramp(3))
    torch.rand(5)
    yield call(fn, ramp(3))
