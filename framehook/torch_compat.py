"""Every private torch interface that framehook uses, a sentence each.

The tracer propagates shapes through `FakeTensorMode`, and the backends hand graphs to AOTAutograd and
Inductor under a shared `TracingContext`.  None of this is public API, so nothing else in the package touches
it.  "Checked" names the torch versions that the sentence was tried on.

Importing this module costs nothing beyond `import torch`.  Constructing the first `FakeTensorMode` of a
process makes torch import `torch._dynamo` and sympy by itself (1.0-1.8 s, once).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch._guards
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

#: The torch releases on which every interface below was tried.
CHECKED_VERSIONS = ("2.13.0",)

# -- fake tensors ------------------------------------------------------------------------------------------


def make_fake_mode() -> FakeTensorMode:
    """Return a mode for static shapes, without a `ShapeEnv`.

    `torch._subclasses.fake_tensor.FakeTensorMode`: tensors with metadata and no data.  Without a `ShapeEnv`,
    operations whose output shape or value depends on data raise instead of inventing symbols, which is what
    static tracing wants.  Checked: 2.13.0.
    """
    # static_shapes stays True when `ensure_shape_env` adds an environment later.
    return FakeTensorMode(static_shapes=True)


def ensure_shape_env(mode: FakeTensorMode) -> ShapeEnv:
    """Return the mode's `ShapeEnv`, creating it if there is none.

    `FakeTensorMode.shape_env` may be assigned after construction.  AOTAutograd works without one, but
    Inductor's and AOTAutograd's disk caches are bypassed ("no shape env"), so the backends ask for it.
    Checked: 2.13.0.
    """
    if mode.shape_env is None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        mode.shape_env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    return mode.shape_env


def fakify(
    mode: FakeTensorMode, tensor: torch.Tensor, *, static: bool = True, source: str = ""
) -> torch.Tensor:
    """Return the fake tensor that stands for `tensor` in `mode`; the same one each time it is asked for.

    `FakeTensorMode.from_tensor` keeps class `Parameter`, `requires_grad`, leaf-ness, strides, storage sharing
    and view relations, and memoises per tensor (weakly).  With `static=False` sizes become symbols named after
    `source`.  Checked: 2.13.0.

    Raises:
        torch._subclasses.fake_tensor.UnsupportedFakeTensorException: for quantized and other exotic tensors.
    """
    # Under a user's dispatch mode (FlopCounterMode, ...) the metadata reads would be counted as operations.
    if static:
        return mode.from_tensor(tensor, static_shapes=True)
    ensure_shape_env(mode)
    return mode.from_tensor(tensor, static_shapes=False, source=GraphSource(source))


def is_fake(value: object) -> bool:
    """Whether `value` is a fake tensor (`FakeTensor`; a fake Parameter is one too).  Checked: 2.13.0."""
    return isinstance(value, FakeTensor)


def is_traceable_subclass(tensor: torch.Tensor) -> bool:
    """Whether a subclass can be flattened into inner tensors (`__tensor_flatten__`).

    `torch.utils._python_dispatch.is_traceable_wrapper_subclass` is the test AOTAutograd uses.  Checked: 2.13.0.
    """
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return bool(is_traceable_wrapper_subclass(tensor))


# -- the state that tracing must not disturb -----------------------------------------------------------------

# Per thread: whether the errors that torch logs during failing propagation are ours to handle.
_quiet = threading.local()


class _QuietWhileTracing(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_quiet, "depth", 0)


@functools.cache
def _install_log_filter() -> None:
    """`torch._subclasses.fake_tensor` logs "failed while attempting to run meta" with a traceback.

    A failing propagation is an ordinary graph break for us, so these records are dropped in the tracing
    thread.  A filter survives torch's own handler set-up.  Checked: 2.13.0.
    """
    logging.getLogger("torch._subclasses.fake_tensor").addFilter(_QuietWhileTracing())


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
    default_dtype: torch.dtype
    deterministic: int
    matmul_precision: str


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

    `torch.autocast_increment_nesting` has no reader of its own: it returns the new level.  Checked: 2.13.0.
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
        torch.get_default_dtype(),
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
    if now.default_dtype != state.default_dtype:
        torch.set_default_dtype(state.default_dtype)
    if now.deterministic != state.deterministic:
        torch.set_deterministic_debug_mode(state.deterministic)
    if now.matmul_precision != state.matmul_precision:
        torch.set_float32_matmul_precision(state.matmul_precision)
    # Last: `torch.inference_mode` changes grad mode behind a guard object, set_grad_enabled does not.
    if torch.is_grad_enabled() != state.grad_enabled:
        torch._C._set_grad_enabled(state.grad_enabled)


def set_grad_enabled(is_enabled: bool) -> None:
    """Set grad mode; `torch._C._set_grad_enabled` is also the form that graphs carry.

    AOTAutograd recognises exactly this callable in a graph.  Checked: 2.13.0.
    """
    torch._C._set_grad_enabled(is_enabled)


def enter_inference_mode(mode: bool) -> Any:
    """Enter inference mode and return the guard for `exit_inference_mode`.

    `torch.autograd.grad_mode._enter_inference_mode`, the form that graphs carry.  Checked: 2.13.0.
    """
    return torch.autograd.grad_mode._enter_inference_mode(mode)  # type: ignore[no-untyped-call]


def exit_inference_mode(guard: Any) -> None:
    """Leave what `enter_inference_mode` entered; guards must be left in reverse order.  Checked: 2.13.0."""
    torch.autograd.grad_mode._exit_inference_mode(guard)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def preserve_rng() -> Iterator[None]:
    """Leave the random state of torch (CPU and every initialised CUDA device) and `random` as it was.

    Reading a generator under a fake or dispatch mode would be intercepted, so both ends run with
    `torch.utils._python_dispatch._disable_current_modes`.  Checked: 2.13.0.
    """
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        cpu = torch.random.get_rng_state()
        # Without initialisation no device generator exists whose state could change.
        has_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        cuda = torch.cuda.get_rng_state_all() if has_cuda else None
    python = random.getstate()
    try:
        yield
    finally:
        random.setstate(python)
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            torch.random.set_rng_state(cpu)
            if cuda is not None:
                torch.cuda.set_rng_state_all(cuda)


@contextlib.contextmanager
def trace_session() -> Iterator[TorchState]:
    """Everything around one trace: yields the state at entry and restores it.

    Inside: no torch-function override or mode runs (`torch._C.DisableTorchFunction`), no user dispatch mode
    sees our operations (`_disable_current_modes`), the autocast cache is off (fake casts must not enter it),
    failing propagation is not logged, and random state is preserved.  Checked: 2.13.0.
    """
    _install_log_filter()
    state = save_state()
    _quiet.depth = getattr(_quiet, "depth", 0) + 1
    try:
        with preserve_rng(), _disable_current_modes(), torch._C.DisableTorchFunction():
            torch.set_autocast_cache_enabled(False)
            yield state
    finally:
        _quiet.depth -= 1
        restore_state(state)


@contextlib.contextmanager
def no_torch_function() -> Iterator[None]:
    """No `__torch_function__` override or mode runs inside, in this thread.

    `torch._C.DisableTorchFunction` (all) rather than `DisableTorchFunctionSubclass` (overrides only).
    Checked: 2.13.0.
    """
    with torch._C.DisableTorchFunction():
        yield


@contextlib.contextmanager
def no_dispatch_modes() -> Iterator[None]:
    """No torch dispatch mode is active inside: `torch.utils._python_dispatch._disable_current_modes`.

    Used to run real operations from within a trace.  Checked: 2.13.0.
    """
    with _disable_current_modes():
        yield


def call_fake(
    mode: FakeTensorMode, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None
) -> Any:
    """Call `fn` under `mode`; to be used within `trace_session`, once per operation.

    The mode is entered only for the call, so that the tracer's own Python never makes fake tensors by
    accident.  Errors of `fn` pass through unchanged and are not logged.
    """
    with mode:
        return fn(*args, **kwargs) if kwargs else fn(*args)


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The raw dispatch key set of a tensor, as guards compare it: `torch._C._dispatch_keys`.  Checked: 2.13.0."""
    return int(torch._C._dispatch_keys(tensor).raw_repr())


# -- handing a graph over ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GraphSource(torch._guards.Source):
    """The name of a graph input, in the class that AOTAutograd wants for placeholders.

    `torch._guards.Source`: AOTAutograd compares and hashes sources, puts them into its guards, pickles them
    into its cache key and reads `.name`.  Checked: 2.13.0.
    """

    local_name: str

    @functools.cached_property
    def guard_source(self) -> torch._guards.GuardSource:
        return torch._guards.GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.local_name


@contextlib.contextmanager
def tracing_context(mode: FakeTensorMode) -> Iterator[torch._guards.TracingContext]:
    """Install a fresh `TracingContext` for `mode` in this thread, for one trace or one backend compile.

    `torch._guards.TracingContext` is how AOTAutograd finds the shared fake mode and where it leaves
    `fw_metadata` and its guards; `torch._guards.tracing` installs it.  Checked: 2.13.0.
    """
    context = torch._guards.TracingContext(mode)
    with torch._guards.tracing(context):
        yield context


def mark_inputs(
    gm: torch.fx.GraphModule, fakes: Sequence[Any], sources: Sequence[str], static_flags: Sequence[bool]
) -> None:
    """Tell AOTAutograd and Inductor where the graph inputs come from and which are parameters.

    AOTAutograd honours static inputs only of graphs that carry `meta['dynamo_compile_id']` (any value),
    `_param_name_to_source` (may be empty), and on every placeholder `_dynamo_source` (distinct) and
    `meta['tensor_dict']['_dynamo_static_input_type']` for the static ones.  Inductor's pre-grad passes and
    AOTAutograd's cache read `meta['example_value']`.  Checked: 2.13.0.
    """
    gm.meta["dynamo_compile_id"] = None
    gm._param_name_to_source = {}  # type: ignore[assignment]
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, fake, source, is_static in zip(placeholders, fakes, sources, static_flags, strict=True):
        node.meta["example_value"] = fake
        # Inputs that are updated in place keep their address too, so "unguarded" fits parameters and buffers.
        node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"} if is_static else {}
        node._dynamo_source = GraphSource(source)


class InputGuard(NamedTuple):
    """A fact about the graph inputs that AOTAutograd relied on; the members are source names.

    "duplicate": the two inputs are the same tensor.  "overlap": the first group shares memory, and none of
    the second group overlaps any other input.
    """

    kind: Literal["duplicate", "overlap"]
    first: tuple[str, ...]
    second: tuple[str, ...]


def input_guards(context: torch._guards.TracingContext) -> tuple[InputGuard, ...]:
    """The aliasing guards of AOTAutograd, in plain form.

    `guards_context.aotautograd_guards` holds `DuplicateInputs` and `StorageOverlap`.  Checked: 2.13.0.

    Raises:
        NotImplementedError: for a kind of guard that this release of torch should not have.
    """
    found: list[InputGuard] = []
    for guard in context.guards_context.aotautograd_guards:
        if isinstance(guard, torch._guards.DuplicateInputs):
            found.append(InputGuard("duplicate", (guard.input_source_a.name,), (guard.input_source_b.name,)))
        elif isinstance(guard, torch._guards.StorageOverlap):
            found.append(
                InputGuard(
                    "overlap",
                    tuple(source.name for source in guard.overlapping_sources),
                    tuple(source.name for source in guard.non_overlapping_sources),
                )
            )
        else:
            raise NotImplementedError(f"torch {torch.__version__} added an AOTAutograd guard: {guard!r}")
    return tuple(found)


def static_input_indices(context: torch._guards.TracingContext) -> tuple[int, ...]:
    """Which inputs AOTAutograd took as static: `TracingContext.fw_metadata`.  Checked: 2.13.0."""
    metadata = context.fw_metadata
    return () if metadata is None else tuple(metadata.static_input_indices)
