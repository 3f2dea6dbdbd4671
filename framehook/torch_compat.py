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
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch._guards
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes

from framehook.torch_state import TorchState, restore_state, save_state

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

#: The package of `torch.compile`'s own front end, whose functions are never traced.
PEER = "torch._dynamo"

#: The torch releases on which every interface below was tried.
CHECKED_VERSIONS = ("2.13.0", "2.14.1")

# -- fake tensors ------------------------------------------------------------------------------------------


class _NoStack:
    """In the place of the module `traceback`: a mode reads the caller's stack, with all source files, as it is made."""

    extract_stack = staticmethod(traceback.StackSummary)
    format_list = staticmethod(traceback.format_list)


def make_fake_mode() -> FakeTensorMode:
    """Return a mode for static shapes, without a `ShapeEnv`.

    `torch._subclasses.fake_tensor.FakeTensorMode`: tensors with metadata and no data.  Without a `ShapeEnv`,
    operations whose output shape or value depends on data raise instead of inventing symbols, which is what
    static tracing wants.  Checked: 2.13.0, 2.14.1.
    """
    # static_shapes stays True when `ensure_shape_env` adds an environment later.
    module: Any = fake_tensor
    known = module.traceback
    try:
        module.traceback = _NoStack
        return FakeTensorMode(static_shapes=True)
    finally:
        module.traceback = known


def ensure_shape_env(mode: FakeTensorMode) -> ShapeEnv:
    """Return the mode's `ShapeEnv`, creating it if there is none.

    `FakeTensorMode.shape_env` may be assigned after construction.  AOTAutograd works without one, but
    Inductor's and AOTAutograd's disk caches are bypassed ("no shape env"), so the backends ask for it.
    Checked: 2.13.0, 2.14.1.
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
    and view relations, and memoises per tensor (weakly).  With `static=False` sizes become symbols named
    after `source`.  Checked: 2.13.0, 2.14.1.

    Raises:
        torch._subclasses.fake_tensor.UnsupportedFakeTensorException: for quantized and other exotic tensors.
    """
    if tensor._is_view() and not tensor.requires_grad and not _shares_memory_with_base(tensor):
        tensor = tensor.detach()
    # Under a user's dispatch mode (FlopCounterMode, ...) the metadata reads would be counted as operations.
    if static:
        fake = mode.from_tensor(tensor, static_shapes=True)
    else:
        ensure_shape_env(mode)
        fake = mode.from_tensor(tensor, static_shapes=False, source=GraphSource(source))
    if tensor.dim() == 0 and isinstance(fake, FakeTensor):
        # The fake remembers the number in it (2.14; 2.13 where a source is given): data, which no guard covers.
        fake.item_memo = None
    return fake


def _shares_memory_with_base(view: torch.Tensor) -> bool:
    """Whether a view still is one; setting `view.data` leaves `_base` behind as it was.  Checked: 2.13.0, 2.14.1."""
    base = view._base
    return base is None or base.untyped_storage()._cdata == view.untyped_storage()._cdata


def is_fake(value: object) -> bool:
    """Whether `value` is a fake tensor (`FakeTensor`; a fake Parameter is one too).  Checked: 2.13.0, 2.14.1."""
    return isinstance(value, FakeTensor)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether this is a tensor with memory of its own, not one that functorch or functionalisation wraps.

    `torch._C._functorch.is_functorch_wrapped_tensor` covers vmap, grad and jvp levels;
    `torch._is_functional_tensor` the C++ functionalisation wrapper.  Checked: 2.13.0, 2.14.1.
    """
    return not (
        torch._C._functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor)
    )


def is_stale(fake: torch.Tensor, real: torch.Tensor) -> bool:
    """Whether tracing changed the metadata of an input's fake, so that it no longer describes the input.

    In-place operations change the fake itself: `x.t_()` its strides, `x.mul_(weight)` its `requires_grad`.
    AOTAutograd must see inputs as they are before the graph runs.  Checked: 2.13.0, 2.14.1.
    """
    return _metadata(fake) != _metadata(real)


def _metadata(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What operations in place may change; of symbols the numbers of this call, without a guard (`SymNode.hint`)."""
    sizes: Any = tuple(tensor.size())
    if tensor.layout is torch.strided:
        sizes = (*sizes, *tensor.stride(), tensor.storage_offset())
    numbers = [size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes]
    return tensor.requires_grad, tensor.is_leaf, tensor.dtype, tensor.dim(), numbers


def is_mutated(fake: torch.Tensor) -> bool:
    """Whether tracing changed this input in place; inference tensors do not count their changes.

    `Tensor._version`; a fake begins at 0.  Checked: 2.13.0, 2.14.1.
    """
    return fake.is_inference() or fake._version > 0


def is_mutated_with_gradient(fake: torch.Tensor) -> bool:
    """Whether tracing changed this input in place in a way that autograd records.

    AOTAutograd may save such an input for backward and then overwrite it: backward raises "modified by an
    inplace operation" where eager does not (`x.mul_(weight)`).  `Tensor._version` counts changes; a fake
    begins at 0.  Checked: 2.13.0, 2.14.1.
    """
    return fake.requires_grad and not fake.is_leaf and fake._version > 0


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
    thread.  A filter survives torch's own handler set-up.  Checked: 2.13.0, 2.14.1.
    """
    logging.getLogger("torch._subclasses.fake_tensor").addFilter(_QuietWhileTracing())


def enter_inference_mode(mode: bool) -> Any:
    """Enter inference mode and return the guard for `exit_inference_mode`.

    `torch.autograd.grad_mode._enter_inference_mode`, the form that graphs carry.  Checked: 2.13.0, 2.14.1.
    """
    return torch.autograd.grad_mode._enter_inference_mode(mode)


def exit_inference_mode(guard: Any) -> None:
    """Leave what `enter_inference_mode` entered; guards must be left in reverse order.  Checked: 2.13.0, 2.14.1."""
    torch.autograd.grad_mode._exit_inference_mode(guard)


@contextlib.contextmanager
def preserve_rng() -> Iterator[None]:
    """Leave the random state of torch (CPU and every initialised CUDA device) and `random` as it was.

    Reading a generator under a fake or dispatch mode would be intercepted, so both ends run with
    `torch.utils._python_dispatch._disable_current_modes`.  Checked: 2.13.0, 2.14.1.
    """
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        cpu = torch.random.get_rng_state()
        # Without initialisation no device generator exists whose state could change.
        has_cuda = torch.cuda.is_initialized()
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
def no_user_modes() -> Iterator[None]:
    """No user's torch-function or dispatch mode sees the operations inside.

    `torch.overrides._get_current_function_mode_stack`, `_pop_mode`, `_push_mode`; default devices
    (`torch.utils._device.DeviceContext` is a function mode) stay, because they decide what factories return.
    Dispatch modes: `torch.utils._python_dispatch._disable_current_modes`.  Checked: 2.13.0, 2.14.1.
    """
    modes = torch.overrides._get_current_function_mode_stack()
    kept = [mode for mode in modes if isinstance(mode, DeviceContext)]
    is_changed = len(kept) != len(modes)
    if is_changed:
        _replace_function_modes(kept)
    try:
        with _disable_current_modes():
            yield
    finally:
        if is_changed:
            _replace_function_modes(modes)


def is_only_device_modes() -> bool:
    """Whether default devices are all that is active of modes, functorch transforms and saved-tensor hooks.

    `_get_current_function_mode_stack`, `_len_torch_dispatch_stack`, `peek_interpreter_stack`,
    `_top_saved_tensors_default_hooks`.  Checked: 2.13.0, 2.14.1.
    """
    return (
        all(type(mode) is DeviceContext for mode in torch.overrides._get_current_function_mode_stack())
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    )


def put_back(tensor: torch.Tensor, values: torch.Tensor, version: int | None) -> None:
    """Undo changes in place that autograd did not record: the values, and the version unless it is None.

    `torch._C._autograd._unsafe_set_version_counter`; inference tensors have no version.  Checked: 2.13.0, 2.14.1.
    """
    with torch._C.DisableTorchFunctionSubclass(), torch.inference_mode(version is None), torch.no_grad():
        tensor.copy_(values)
    if version is not None:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@contextlib.contextmanager
def keeping_versions(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Changes inside are not counted as changes of these tensors; inference tensors count none anyway.

    `torch._C._autograd._unsafe_set_version_counter`.  Checked: 2.13.0, 2.14.1.
    """
    counted = tuple(tensor for tensor in tensors if not tensor.is_inference())
    versions = tuple(tensor._version for tensor in counted)
    try:
        yield
    finally:
        torch._C._autograd._unsafe_set_version_counter(counted, versions)


def _replace_function_modes(modes: Sequence[Any]) -> None:
    while torch._C._len_torch_function_stack():
        torch.overrides._pop_mode()
    for mode in modes:
        torch.overrides._push_mode(mode)


@contextlib.contextmanager
def trace_session() -> Iterator[TorchState]:
    """Everything around one trace: yields the state at entry and restores it.

    Inside: no user mode and no `__torch_function__` override runs (`torch._C.DisableTorchFunctionSubclass`),
    the autocast cache is off (fake casts must not enter it), failing propagation is not logged, and random
    state is preserved.  Checked: 2.13.0, 2.14.1.
    """
    _install_log_filter()
    state = save_state()
    _quiet.depth = getattr(_quiet, "depth", 0) + 1
    try:
        with preserve_rng(), no_user_modes(), torch._C.DisableTorchFunctionSubclass():
            torch.set_autocast_cache_enabled(False)
            yield state
    finally:
        _quiet.depth -= 1
        restore_state(state)


@contextlib.contextmanager
def no_dispatch_modes() -> Iterator[None]:
    """No torch dispatch mode is active inside: `torch.utils._python_dispatch._disable_current_modes`.

    Used to run real operations from within a trace.  Checked: 2.13.0, 2.14.1.
    """
    with _disable_current_modes():
        yield


class propagating:
    """Run operations on fake tensors: enters the mode, and keeps torch from logging what fails.

    Entered once per operation, so that the tracer's own Python never makes fake tensors by accident; a class
    because `contextlib` costs more than the mode itself.  Errors pass through unchanged.
    """

    __slots__ = ("_mode",)

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        _install_log_filter()
        _quiet.depth = getattr(_quiet, "depth", 0) + 1
        self._mode.__enter__()

    def __exit__(self, *raised: Any) -> None:
        _quiet.depth -= 1
        self._mode.__exit__(*raised)


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The raw dispatch key set of a tensor, as guards compare it.

    `torch._C._dispatch_keys` returns a `DispatchKeySet`; its `raw_repr` is the bit set.  Checked: 2.13.0, 2.14.1.
    """
    return int(torch._C._dispatch_keys(tensor).raw_repr())


# -- handing a graph over ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GraphSource(torch._guards.Source):
    """The name of a graph input, in the class that AOTAutograd wants for placeholders.

    `torch._guards.Source`: AOTAutograd compares and hashes sources, puts them into its guards, pickles them
    into its cache key and reads `.name`.  Checked: 2.13.0, 2.14.1.
    """

    local_name: str

    @functools.cached_property
    def guard_source(self) -> torch._guards.GuardSource:
        return torch._guards.GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.local_name


def make_graph_module(root: torch.nn.Module | dict[str, Any], graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A `GraphModule` that writes its Python code only when `forward` is first used.

    `torch.fx._lazy_graph_module._LazyGraphModule`: AOTAutograd interprets the graph, so the code of a graph
    that goes there is never needed.  Checked: 2.13.0, 2.14.1.
    """
    return _GraphModule(root, graph, class_name="GraphModule")


class _GraphModule(_LazyGraphModule):
    """Its `forward` is the plain function: the base class goes through `nn.Module.__call__`, where global hooks
    (and whoever has replaced it) would see a module that is not in the program.
    """

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        return plain_forward(self)(*args, **kwargs)

    forward = _lazy_forward


def plain_forward(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """The function that fx wrote for the graph, bound; no hooks, and no error text around it.

    `_LazyGraphModule.force_recompile` writes the code and makes it the class's `forward`.  Checked: 2.13.0, 2.14.1.
    """
    _LazyGraphModule.force_recompile(gm)
    return gm.forward


@contextlib.contextmanager
def tracing_context(mode: FakeTensorMode) -> Iterator[torch._guards.TracingContext]:
    """Install a fresh `TracingContext` for `mode` in this thread, for one trace or one backend compile.

    `torch._guards.TracingContext` is how AOTAutograd finds the shared fake mode and where it leaves
    `fw_metadata` and its guards; `torch._guards.tracing` installs it.  Checked: 2.13.0, 2.14.1.
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
    AOTAutograd's cache read `meta['example_value']`.  Checked: 2.13.0, 2.14.1.
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

    `guards_context.aotautograd_guards` holds `DuplicateInputs` and `StorageOverlap`.  Checked: 2.13.0, 2.14.1.

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
    """Which inputs AOTAutograd took as static: `TracingContext.fw_metadata`.  Checked: 2.13.0, 2.14.1."""
    metadata = context.fw_metadata
    return () if metadata is None else tuple(metadata.static_input_indices)


@contextlib.contextmanager
def backend_session(mode: FakeTensorMode) -> Iterator[torch._guards.TracingContext]:
    """Everything around one backend compile: a fresh `TracingContext`; torch's state is as before afterwards.

    AOTAutograd traces under the grad mode, inference mode and autocast state that it finds, which must be
    those of the frame at entry.
    """
    ensure_shape_env(mode)
    state = save_state()
    try:
        with preserve_rng(), no_user_modes(), tracing_context(mode) as context:
            yield context
    finally:
        restore_state(state)


# -- AOTAutograd and Inductor --------------------------------------------------------------------------------


def boxed_forward(gm: torch.fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The graph as plain Python that takes one list and empties it: `torch.fx.graph._BoxedCodeGen`.

    AOTAutograd calls a compiled graph with a list if it has the attribute `_boxed_call`.  Checked: 2.13.0, 2.14.1.
    """
    from torch.fx.graph import _BoxedCodeGen

    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    forward = gm.forward

    def run(inputs: list[Any]) -> Any:
        return forward(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def aot_autograd(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compiler: Any,
) -> Callable[..., Any]:
    """Split `gm` into functional forward and backward graphs of ATen operations and compile both.

    `torch._functorch.aot_autograd.aot_module_simplified` finds fake mode, sources and static inputs through
    the current `TracingContext` and the marks of `mark_inputs`.  The partitioner is the one that Inductor
    uses too, `min_cut_rematerialization_partition`.  `compiler` gets each graph with its fake inputs.
    Checked: 2.13.0, 2.14.1.
    """
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    compiled = aot_module_simplified(
        gm,
        inputs,
        fw_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return compiled


def inductor_modes() -> tuple[str, ...]:
    """The names that `mode` may have: `torch._inductor.list_mode_options`.  Checked: 2.13.0, 2.14.1."""
    from torch._inductor import list_mode_options

    return tuple(list_mode_options())


def inductor_option_types() -> dict[str, Any]:
    """Every Inductor option with its type: `torch._inductor.config.get_config_copy` and `get_type`.

    Importing it does not import the compiler.  Checked: 2.13.0, 2.14.1.
    """
    from torch._inductor import config

    return {name: config.get_type(name) for name in config.get_config_copy()}  # type: ignore[attr-defined]


def inductor_compiler(
    mode: str | None, options: dict[str, Any] | None, dynamic: bool | None
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """The compiler that `torch.compile(mode=mode, options=options)` uses: a function of graph and inputs.

    `torch._TorchCompileInductorWrapper` turns mode and options into configuration patches (and sets the
    environment variables that CUDA graphs need), then calls `torch._inductor.compile_fx.compile_fx`.
    Without a patch `compile_fx` is entered directly.  Checked: 2.13.0, 2.14.1.
    """
    return torch._TorchCompileInductorWrapper(mode, options, dynamic)


def is_backward_failure(error: BaseException) -> bool:
    """Whether AOTAutograd, which traces backward at once, met an error that eager meets only in backward.

    Saved tensors that were overwritten, and operations without a derivative; autograd has no classes of its own
    for them, so the text decides.  Checked: 2.13.0, 2.14.1.
    """
    text = str(error) if isinstance(error, RuntimeError) else ""
    return "has been modified by an inplace operation" in text or (
        text.startswith("derivative for ") and text.endswith(" is not implemented")
    )


def is_skip_request(error: BaseException) -> bool:
    """Whether a backend asked to run this graph eagerly: `torch._dynamo.exc.SkipFrame`.

    Inductor raises it, after a warning, for devices without bfloat16.  Checked: 2.13.0, 2.14.1.
    """
    module = sys.modules.get("torch._dynamo.exc")
    return module is not None and isinstance(error, module.SkipFrame)


def boxed_call(compiled: Callable[..., Any], gm: torch.fx.GraphModule) -> tuple[Callable[..., Any], bool]:
    """Strip wrappers from a compiled graph; returns it and whether it takes its inputs as one list.

    `aot_module_simplified` hides a function of one list under `forward(*args)`, which prepends the module's
    own parameters, and `compile_fx` hides that under `torch._dynamo.disable`.  Both are known by
    `__wrapped__` and name; below them the convention is boxed.  Only graphs without parameters and buffers of
    their own may skip `forward`.  Checked: 2.13.0, 2.14.1.
    """
    if next(gm.parameters(), None) is not None or next(gm.buffers(), None) is not None:
        return compiled, False
    inner: Any = compiled
    if getattr(inner, "_torchdynamo_disable", False):
        inner = getattr(inner, "_torchdynamo_orig_callable", inner)
    code = getattr(inner, "__code__", None)
    if code is not None and code.co_qualname == "aot_module_simplified.<locals>.forward":
        inner = getattr(inner, "__wrapped__", None)
        if getattr(inner, "_boxed_call", False):
            return inner, True
    return compiled, False


def uncapturable_roots() -> tuple[CodeType, ...]:
    """Code objects below which nothing may be captured.

    `torch.autograd.function.BackwardCFunction.apply` runs the backward of a compiled graph, and compiles it
    the first time (AOTAutograd compiles backward graphs lazily).  Checked: 2.13.0, 2.14.1.
    """
    backward = torch.autograd.function.BackwardCFunction
    return (backward.apply.__code__, backward.apply_boxed.__code__)


def mark_cudagraph_step() -> None:
    """Tell Inductor's CUDA graph trees that a new call of a compiled function begins.

    They read `torch._dynamo.mutation_guard.GenerationTracker.generation`, and reuse memory of an earlier
    generation.  Checked: 2.13.0, 2.14.1 (by reading; needs a GPU to try).
    """
    module = sys.modules.get("torch._dynamo.mutation_guard")
    if module is not None:
        module.GenerationTracker.generation += 1


#: Wrappers that the peer puts around functions it is told to leave alone, and around those it compiles itself.
_PEER_WRAPPERS = frozenset(
    {"DisableContext.__call__.<locals>._fn", "_TorchDynamoContext.__call__.<locals>.compile_wrapper"}
)


def is_peer_wrapper(code: CodeType) -> bool:
    """Whether `code` runs a function under `torch.compiler.disable` or `torch.compile`.

    Both are closures in `torch/_dynamo/eval_frame.py`; below them nothing is ours to capture.  Checked: 2.13.0, 2.14.1.
    """
    return code.co_qualname in _PEER_WRAPPERS and code.co_filename.endswith("_dynamo/eval_frame.py")


def behind_generation_tag(fn: FunctionType) -> FunctionType | None:
    """The original of `nn.Module.__init__` or `__setstate__` where the peer has put its own in their place.

    `torch._dynamo.mutation_guard.install_generation_tagging_init` replaces both, once `torch.compile` has run,
    by closures that call the original and note the new module in a table of the peer.  Modules made while a
    frame is traced are not noted: they are made anew, without `__init__`, by generated code.  Checked: 2.13.0, 2.14.1.
    """
    name, _, method = fn.__qualname__.rpartition(".<locals>.patched_")
    if not name.endswith("install_generation_tagging_init") or not fn.__code__.co_filename.endswith(
        "_dynamo/mutation_guard.py"
    ):
        return None
    for cell in fn.__closure__ or ():
        original = cell.cell_contents
        if isinstance(original, FunctionType) and original.__name__.strip("_") == method:
            return original
    return None


def behind_optimizer_patch(fn: FunctionType) -> FunctionType | None:
    """The original of a function of `torch.optim` that the peer has disabled (`_init_group`, `_fused_adam`).

    `torch._dynamo.eval_frame.TorchPatcher.patch` does so once `torch.compile` has run; programs do not.
    Checked: 2.13.0, 2.14.1.
    """
    original = getattr(fn, "_torchdynamo_orig_callable", None)
    if (
        isinstance(original, FunctionType)
        and original.__name__.startswith(("_init_group", "_fused_"))
        and original.__module__.startswith("torch.optim.")
        and is_peer_wrapper(fn.__code__)
    ):
        return original
    return None


def hide_from_peer(code: CodeType, is_recursive: bool = True) -> None:
    """Keep `torch.compile` off frames of `code`, and off all that they call if `is_recursive`.

    Its frame hook is active while one of its functions runs, and would compile our tracer, and what a backend
    does, frame by frame.  `torch._C._dynamo.eval_frame.set_code_exec_strategy` with SKIP for the frame and below;
    it is part of torch's extension module and loads nothing.  Checked: 2.13.0, 2.14.1.
    """
    from torch._C._dynamo import eval_frame

    action = eval_frame._FrameAction
    below = action.SKIP if is_recursive else action.DEFAULT
    eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(action.SKIP, below))


def is_marked_disabled(fn: object) -> bool:
    """Whether a function's own frame is to stay eager: `torch._dynamo.decorators.skip` sets
    `_torchdynamo_disable` on it.  Checked: 2.13.0, 2.14.1.
    """
    return getattr(fn, "_torchdynamo_disable", False) is True


def is_assumed_constant(fn: object) -> bool:
    """Whether `assume_constant_result` (`_dynamo_marked_constant`) was said of a function.  Checked: 2.13.0."""
    return getattr(fn, "_dynamo_marked_constant", False) is True
