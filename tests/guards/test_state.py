"""State of process and thread that changes results."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from framehook import _C
from framehook.guards.guard import Check

from .programs import Program


class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def setting(change: Callable[[], object], back: Callable[[], object]) -> Iterator[None]:
    change()
    try:
        yield
    finally:
        back()


@contextlib.contextmanager
def flag(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def deterministic(**options: Any) -> Any:
    return setting(
        lambda: torch.use_deterministic_algorithms(True, **options),
        lambda: torch.use_deterministic_algorithms(False),
    )


CHANGES: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast on cpu": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast to another dtype": lambda: setting(
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
    ),
    "autocast cache": lambda: setting(
        lambda: torch.set_autocast_cache_enabled(False), lambda: torch.set_autocast_cache_enabled(True)
    ),
    "autocast on cuda": lambda: setting(
        lambda: torch.set_autocast_enabled("cuda", True), lambda: torch.set_autocast_enabled("cuda", False)
    ),
    "default dtype": lambda: setting(
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
    ),
    "default device": lambda: setting(
        lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)
    ),
    "device context": lambda: torch.device("meta"),
    "deterministic": deterministic,
    "deterministic, warnings": lambda: deterministic(warn_only=True),
    "fill uninitialized memory": lambda: flag(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "matmul precision": lambda: setting(
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    "cudnn": lambda: flag(torch.backends.cudnn, "enabled", False),
    "cudnn benchmark": lambda: flag(torch.backends.cudnn, "benchmark", True),
    "mkldnn": lambda: setting(
        lambda: torch._C._set_mkldnn_enabled(False), lambda: torch._C._set_mkldnn_enabled(True)
    ),
    "flash attention": lambda: setting(
        lambda: torch.backends.cuda.enable_flash_sdp(False),
        lambda: torch.backends.cuda.enable_flash_sdp(True),
    ),
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True),
    "forward AD": torch.autograd.forward_ad.dual_level,
    "saved-tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "saved-tensor hooks disabled": lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"),
    "torch function mode": FunctionMode,
    "torch dispatch mode": DispatchMode,
    "torch function disabled": torch._C.DisableTorchFunctionSubclass,
    "all torch function disabled": torch._C.DisableTorchFunction,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHANGES)
def test_changed_state_fails_and_comes_back(name: str) -> None:
    torch.set_float32_matmul_precision("highest")  # said once, it is no longer the unsaid default
    program = Program((None, Check.STATE, _C.StateSnapshot()))
    assert program.holds()
    with CHANGES[name]():
        assert not program.holds()
        guard, got = program.failing()
        assert guard is program.guards[0]
        assert got and all(len(row) == 3 for row in got)
        inside = _C.StateSnapshot()
        assert inside.matches()
    assert program.holds()
    assert not inside.matches()


def test_functorch_transform_never_matches() -> None:
    outside = _C.StateSnapshot()
    seen = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        inside = _C.StateSnapshot()
        seen.append((outside.matches(), inside.matches(), inside.is_plain))
        return x

    torch.vmap(inner)(torch.zeros(2, 2))
    assert seen == [(False, False, False)]
    assert outside.matches() and outside.is_plain


def test_device_context_is_known_by_its_device() -> None:
    with torch.device("meta"):
        snapshot = _C.StateSnapshot()
    with torch.device("meta"):
        assert snapshot.matches()
    with torch.device("cpu"):
        assert not snapshot.matches()
    assert not snapshot.matches()


def test_mode_is_known_by_identity_and_not_kept_alive() -> None:
    mode = FunctionMode()
    with mode:
        snapshot = _C.StateSnapshot()
        assert snapshot.matches() and not snapshot.is_plain
    with FunctionMode():
        assert not snapshot.matches()
    with mode, FunctionMode():
        assert not snapshot.matches()
    with mode:
        assert snapshot.matches()


def test_threads_have_their_own() -> None:
    answers = []
    with torch.no_grad():
        snapshot = _C.StateSnapshot()
        thread = threading.Thread(target=lambda: answers.append(snapshot.matches()))
        thread.start()
        thread.join()
        assert snapshot.matches()
    assert answers == [False]


def test_difference_in_words() -> None:
    snapshot = _C.StateSnapshot()
    assert snapshot.difference() == []
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        names = {row[0]: row[1:] for row in snapshot.difference()}
    assert names["grad mode"] == (True, False)
    assert names["autocast on cpu"] == (False, True)
    assert names["autocast dtype on cpu"] == (torch.bfloat16, torch.float16)
