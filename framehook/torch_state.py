"""The state of torch that a traced frame may change, read and put back: grad mode, autocast, defaults, flags.

Public interfaces of torch, but for `torch._C._set_grad_enabled` and the flags.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class AutocastState(NamedTuple):
    """Autocast of one device type."""

    device: str
    is_enabled: bool
    dtype: torch.dtype


class TorchState(NamedTuple):
    """Thread and process state of torch that a traced frame may change; inference mode is a C++ guard object
    that can only be left by whoever entered it, so it is recorded but not restored."""

    grad_enabled: bool
    inference_mode: bool
    autocast: tuple[AutocastState, ...]
    autocast_cache: bool
    autocast_nesting: int
    flags: tuple[Any, ...]
    deterministic: int
    matmul_precision: str


#: A reader and a setter for each flag: the default dtype, and which kernels `scaled_dot_product_attention` may choose
#: (`torch.nn.attention.sdpa_kernel`): those are chosen where the operation is called, so a graph can set the flags.
#: Matmul precision and deterministic algorithms are looked at while kernels run; setting them ends a graph.
#: Checked: 2.13.0, 2.14.1.
FLAGS: list[tuple[Callable[[], Any], Callable[[Any], None]]] = [
    (torch.get_default_dtype, torch._C._set_default_dtype)
]
for _name in ("flash", "math", "mem_efficient", "cudnn", "overrideable"):
    _reader = getattr(torch._C, f"_get_{_name}_sdp_enabled", None)
    _setter = getattr(torch._C, f"_set_sdp_use_{_name}", None)
    if _reader is not None and _setter is not None:
        FLAGS.append((_reader, _setter))


def flag_difference(entry: TorchState) -> list[tuple[Callable[[Any], None], Any, Any]]:
    """The setters of flags that are others now than in `entry`, each with the value there and the value now."""
    found = []
    for (reader, setter), value in zip(FLAGS, entry.flags, strict=True):
        now = reader()
        if now != value:
            found.append((setter, value, now))
    return found


@functools.cache
def autocast_devices() -> tuple[str, ...]:
    """The device types whose autocast state can differ in this build."""
    devices = ["cpu"]
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is not None and accelerator.type != "cpu":
        devices.append(accelerator.type)
    return tuple(devices)


def save_state() -> TorchState:
    """Read the state that `restore_state` puts back.

    `torch.autocast_increment_nesting` has no reader of its own: it returns the new level.  Checked: 2.13.0, 2.14.1.
    """
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return TorchState(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple(
            AutocastState(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in autocast_devices()
        ),
        torch.is_autocast_cache_enabled(),
        nesting,
        tuple(reader() for reader, _ in FLAGS),
        torch.get_deterministic_debug_mode(),
        torch.get_float32_matmul_precision(),
    )


def restore_state(state: TorchState) -> None:
    """Put back what `save_state` read, except inference mode; writes only what differs."""
    now = save_state()
    for old, new in zip(state.autocast, now.autocast, strict=True):
        if old != new:
            torch.set_autocast_enabled(old.device, old.is_enabled)
            torch.set_autocast_dtype(old.device, old.dtype)
    if now.autocast_cache != state.autocast_cache:
        torch.set_autocast_cache_enabled(state.autocast_cache)
    for _ in range(now.autocast_nesting - state.autocast_nesting):
        torch.autocast_decrement_nesting()
    for _ in range(state.autocast_nesting - now.autocast_nesting):
        torch.autocast_increment_nesting()
    for setter, value, _ in flag_difference(state):
        setter(value)
    if now.deterministic != state.deterministic:
        torch.set_deterministic_debug_mode(state.deterministic)
    if now.matmul_precision != state.matmul_precision:
        torch.set_float32_matmul_precision(state.matmul_precision)
    # Last: `torch.inference_mode` changes grad mode behind a guard object, set_grad_enabled does not.
    if torch.is_grad_enabled() != state.grad_enabled:
        torch._C._set_grad_enabled(state.grad_enabled)


StateCalls = list[tuple[Callable[..., Any], tuple[Any, ...]]]


def autocast_difference(
    entry: TorchState, nesting: int, is_cache_enabled: bool
) -> tuple[StateCalls, StateCalls]:
    """Return the calls that lead from the present autocast state back to `entry`, and those that lead here.

    `nesting` is how much deeper autocast regions are nested now; `is_cache_enabled` is what the traced program
    set (tracing itself keeps the cache off).  Setters: `torch.set_autocast_enabled`, `set_autocast_dtype`,
    `set_autocast_cache_enabled`, `autocast_increment_nesting`.  Checked: 2.13.0, 2.14.1.
    """
    back: StateCalls = []
    here: StateCalls = []
    for state in entry.autocast:
        is_enabled = torch.is_autocast_enabled(state.device)
        dtype = torch.get_autocast_dtype(state.device)
        if is_enabled != state.is_enabled:
            back.append((torch.set_autocast_enabled, (state.device, state.is_enabled)))
            here.append((torch.set_autocast_enabled, (state.device, is_enabled)))
        if dtype != state.dtype:
            back.append((torch.set_autocast_dtype, (state.device, state.dtype)))
            here.append((torch.set_autocast_dtype, (state.device, dtype)))
    if is_cache_enabled != entry.autocast_cache:
        back.append((torch.set_autocast_cache_enabled, (entry.autocast_cache,)))
        here.append((torch.set_autocast_cache_enabled, (is_cache_enabled,)))
    deeper, shallower = torch.autocast_increment_nesting, torch.autocast_decrement_nesting
    for _ in range(abs(nesting)):
        back.append((shallower if nesting > 0 else deeper, ()))
        here.append((deeper if nesting > 0 else shallower, ()))
    return back, here
