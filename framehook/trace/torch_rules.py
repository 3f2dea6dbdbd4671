"""What torch's functions do in a trace: which go into the graph, which are state, which stay native."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.overrides

from framehook import directives, functional_compat, polyfills, torch_compat
from framehook.guards.guard import Check
from framehook.trace import (  # noqa: F401  (their rules enter the table)
    autograd_rules,
    compiling_rules,
    distribution_rules,
    inference_rules,
    optimizer_rules,
    state_rules,
    transforms,
)
from framehook.trace.c_calls import call_c_method, call_unbound, check_implementation
from framehook.trace.classes import new_instance
from framehook.trace.rules import RULES, Rule, fold_plain, late_rule, positional, rule
from framehook.values.base import CONSTANT_TYPES, ConstantValue, Value
from framehook.values.classes import ClassValue
from framehook.values.functions import FunctionValue
from framehook.values.objects import ObjectValue
from framehook.values.real_classes import derives
from framehook.values.sequences import ListValue, SequenceValue, drain
from framehook.values.tensor import TensorValue

CONSTANT_TYPES.update({torch.finfo, torch.iinfo})

# -- which functions are operations ----------------------------------------------------------------------------

#: Functions that make tensors from nothing; torch.overrides does not list them.
_FACTORIES = [
    "arange",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "scalar_tensor",
    "tensor",
    "as_tensor",
    "asarray",
    "zeros",
    "zeros_like",
    "tril_indices",
    "triu_indices",
    "hann_window",
    "hamming_window",
    "blackman_window",
    "bartlett_window",
    "kaiser_window",
    "vander",
    "complex",
    "polar",
    "as_strided",
    "empty_permuted",
    "result_type",
    "promote_types",
    "can_cast",
    "broadcast_shapes",
]
#: Overridable functions that are no operations on tensors or that hide state.
_NOT_OPERATIONS = frozenset(
    {"save", "load", "is_tensor", "is_storage", "set_printoptions", "handle_torch_function", "typename"}
)
#: C modules whose functions are operations.
_OPERATION_OWNERS = (
    "torch._C._nn",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._special",
    "torch._C._nested",
)


@functools.cache
def _operations() -> frozenset[int]:
    found: set[int] = set()
    for namespace, functions in torch.overrides.get_overridable_functions().items():
        if isinstance(namespace, types.ModuleType):
            found.update(id(fn) for fn in functions if getattr(fn, "__name__", "") not in _NOT_OPERATIONS)
    found.update(id(getattr(torch, name)) for name in _FACTORIES if hasattr(torch, name))
    return frozenset(found)


def is_operation(fn: Any) -> bool:
    """Whether a call of `fn` is one node of the graph."""
    return id(fn) in _operations() or directives.treatment(fn) == "allow_in_graph"


def _is_c_operation(fn: Any) -> bool:
    # The functions of `torch` itself are static methods of this class.
    if getattr(fn, "__qualname__", "").startswith("_VariableFunctionsClass."):
        return True
    return getattr(getattr(fn, "__self__", None), "__name__", None) in _OPERATION_OWNERS


# -- what stays native ---------------------------------------------------------------------------------------------

_NATIVE_PACKAGES = (
    *(
        torch_compat.PEER,
        "torch._inductor",
        "torch._export",
        "torch.jit",
        "torch.distributed",
        "torch.utils.data",
    ),
    *("torch.multiprocessing", "torch.onnx", "torch.export", "torch.profiler", "torch.autograd.function"),
    *("torch.autograd.gradcheck", "torch._functorch", "torch.func", "torch.package", "torch.fx", "torch.hub"),
    *(
        "torch.utils.checkpoint",
        "torch.serialization",
        "torch.cuda",
        "torch._higher_order_ops",
        "torch._tensor_str",
    ),
    *(
        "torch.nn.modules.lazy",
        "torch.random",
        "torch.testing",
        "torch._subclasses",
        "torch.masked",
        "torch.sparse",
        "torch.nested",
    ),
    *(
        "logging",
        "warnings",
        "threading",
        "importlib",
        "unittest.mock",
        "random",
        "tempfile",
        "subprocess",
        "asyncio",
    ),
    *("concurrent", "multiprocessing", "socket", "ctypes", "numpy", "traceback", "linecache", "pdb"),
    *("bdb", "gc", "weakref", "atexit", "signal", "pickle", "copyreg", "shutil", "pathlib", "json", "time"),
    "framehook",
)


@functools.cache
def _is_native_module(name: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in _NATIVE_PACKAGES)


def check_inlinable(tr: Any, fn: Value) -> None:
    """Break at functions that are told, or known, to run natively."""
    if not isinstance(fn, FunctionValue):
        return
    real = fn.fn
    if getattr(real, "_torchdynamo_disable", False):
        tr.graph_break("disabled", f"{real.__qualname__}() is disabled for compilers")
    treatment = directives.treatment(real)
    if treatment is not None and treatment != "allow_in_graph":
        tr.graph_break("disabled", f"{real.__qualname__}() is told to run eagerly")
    module = real.__module__ or ""
    if real in functional_compat.TRACED or (
        module in functional_compat.TRACED_MODULES and real not in functional_compat.NOT_TRACED
    ):
        return
    if _is_native_module(module) and not module.startswith("framehook.polyfills."):
        tr.graph_break("call", f"{real.__module__}.{real.__qualname__}() is not traced")


@late_rule(torch_compat.PEER + ".decorators", "graph_break")
@rule(directives.graph_break)
def _graph_break(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    if optimizer_rules.is_in_optimizer(tr):
        return ConstantValue(None)  # AOTAutograd sees by itself that an optimizer's graph records nothing
    message = args[0] if args else kwargs.get("msg")
    text = message.realize(tr) if message is not None else None
    words = (
        text.value if isinstance(text, ConstantValue) and text.value else "framehook.graph_break() was called"
    )
    tr.graph_break("requested", str(words), "remove the call of graph_break()")
    raise AssertionError


# -- state -----------------------------------------------------------------------------------------------------------


def _always(answer: Any) -> Rule:
    return lambda tr, args, kwargs: ConstantValue(answer)


_NEVER: tuple[Any, ...] = (
    *(torch.compiler.is_exporting, torch._C._is_tracing),
    *(torch.jit.is_scripting, torch.jit.is_tracing),  # type: ignore[attr-defined]
)
for _fn in _NEVER:
    RULES[id(_fn)] = _always(False)
RULES[id(torch._C._get_tracing_state)] = _always(None)
RULES[id(torch._C._log_api_usage_once)] = _always(None)


@rule(torch.jit.annotate)
@positional(2)
def _annotate(tr: Any, annotation: Value, value: Value) -> Value:
    return value


def _torch_function_check(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """`has_torch_function`: objects that override are not handed to operations, so they break there."""
    for arg in args:
        value = arg.realize(tr)
        items = value.items if isinstance(value, SequenceValue) else [value]
        for item in items:
            plain = item.realize(tr)
            if isinstance(plain, ObjectValue) and hasattr(plain.cls, "__torch_function__"):
                tr.graph_break("subclass", f"{plain.describe()} overrides torch functions")
    return ConstantValue(False)


for _name in ("_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"):
    if hasattr(torch._C, _name):
        RULES[id(getattr(torch._C, _name))] = _torch_function_check
for _name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
    RULES[id(getattr(torch.overrides, _name))] = _torch_function_check


def _read_state(fn: Callable[..., Any]) -> Rule:
    """State that the STATE guard covers, or that is fixed while the process lives."""
    return lambda tr, args, kwargs: fold_plain(tr, fn, args, kwargs)


_READERS: tuple[Any, ...] = (
    *(torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype),
    *(torch.is_autocast_enabled, torch.get_autocast_dtype),
    *(torch.are_deterministic_algorithms_enabled, torch.get_float32_matmul_precision),
    *(torch.is_autocast_cpu_enabled, torch.get_autocast_gpu_dtype, torch.get_autocast_cpu_dtype),
    *(torch.is_deterministic_algorithms_warn_only_enabled, torch.is_anomaly_enabled),
    *(torch.cuda.is_available, torch.cuda.is_initialized, torch._C._is_torch_function_enabled),
    *(torch._C._is_torch_function_mode_enabled, torch._C._is_torch_function_all_disabled),
    *(torch.finfo, torch.iinfo, torch.device, torch.Size, torch.amp.is_autocast_available),
    *(
        torch._C._is_autocast_available,
        torch._C._get_privateuse1_backend_name,
        torch._C._len_torch_function_stack,
    ),
    *(torch.cuda.is_bf16_supported, torch.backends.mps.is_available, torch._C._has_mkldnn),
    *(torch.cuda.amp.common.amp_definitely_not_available,),
)
for _fn in _READERS:
    if callable(_fn):
        rule(_fn)(_read_state(_fn))


@rule(torch.is_autocast_cache_enabled)
def _is_autocast_cache_enabled(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(tr.is_autocast_cache_enabled)


@rule(torch._C._set_grad_enabled)
def _set_grad_enabled(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    tr.set_grad_enabled(tr.truth(args[0]))
    return ConstantValue(None)


def _set_state(fn: Any) -> Rule:
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        plain: list[Any] = []
        for arg in [*args, *kwargs.values()]:
            value = arg.realize(tr)
            if not isinstance(value, ConstantValue):
                tr.graph_break("call", f"{fn.__name__}() with {value.describe()}")
                raise AssertionError
            plain.append(value.value)
        return ConstantValue(tr.change_state(fn, plain))

    return apply


_SETTERS: tuple[Any, ...] = (
    *(torch.set_autocast_enabled, torch.set_autocast_dtype, torch.set_autocast_cache_enabled),
    *(torch.autocast_increment_nesting, torch.autocast_decrement_nesting, torch.clear_autocast_cache),
)
for _fn in _SETTERS:
    RULES[id(_fn)] = _set_state(_fn)


# -- calling what is not a Python function -----------------------------------------------------------------------------

_POLYFILLS = {id(fn): polyfill for fn, polyfill in polyfills.TABLE.items()}
_TENSOR_OWNERS = (torch.Tensor, torch._C.TensorBase)


def call_real(tr: Any, fn: Any, value: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a callable of C level."""
    found = RULES.get(id(fn))
    if found is not None:
        return found(tr, args, kwargs)
    treatment = directives.treatment(fn)
    if treatment is not None and treatment != "allow_in_graph":
        tr.graph_break("disabled", f"{value.describe()} is told to run eagerly")
    if is_operation(fn) or _is_c_operation(fn) or type(fn).__module__ == "torch._ops":
        return tr.graph_call(fn, args, kwargs)
    polyfill = _POLYFILLS.get(id(fn))
    if polyfill is not None:
        if fn in polyfills.OF_LISTS and not (args and type(args[0].realize(tr)) is ListValue):
            tr.graph_break("call", f"{value.describe()}() of what is no list")
        return tr.inline(tr.constant_object(polyfill), args, kwargs)
    owner = getattr(fn, "__objclass__", None)
    if (
        isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType))
        and args
        and owner is not None
    ):
        first = args[0].realize(tr)
        if isinstance(first, TensorValue):
            if owner in _TENSOR_OWNERS:
                return first.call_method(tr, fn.__name__, args[1:], kwargs)
        elif isinstance(first, ConstantValue):
            return call_unbound(tr, fn, first, args, kwargs)
        elif derives(first.python_type(), owner):
            check_implementation(tr, first, fn)
            return call_c_method(tr, first, fn.__name__, args[1:], kwargs)
    if isinstance(fn, types.BuiltinFunctionType) and fn.__name__ == "__new__" and args:
        cls = args[0].realize(tr)
        if isinstance(cls, ClassValue):
            if issubclass(cls.fn, StopIteration):
                tr.graph_break("exception", "a StopIteration is made and not initialised")
            return new_instance(tr, cls.fn, fn, args[1:], len(args) > 1 or bool(kwargs))
    bound = getattr(fn, "__self__", None)
    if bound in (str, bytes, int, float) or (isinstance(bound, type) and bound.__module__ == "torch"):
        return fold_plain(tr, fn, args, kwargs)
    tr.graph_break(
        "call",
        f"{value.describe()}() is C code that is not known to be an operation",
        "if it only computes tensors, say framehook.allow_in_graph(fn); else call it outside",
    )
    raise AssertionError


@rule(torch._C._group_tensors_by_device_and_dtype)
@positional(2)
def _group_tensors(tr: Any, lists: Value, with_indices: Value) -> Value:
    """The lists that `torch._foreach_*` functions are given in turn."""
    rows = [[item.realize(tr) for item in drain(tr, row)] for row in drain(tr, lists)]
    found = {id(value.fake): value for row in rows for value in row if isinstance(value, TensorValue)}
    plain = [[value.fake if isinstance(value, TensorValue) else value for value in row] for row in rows]
    if any(
        value.value is not None for row in plain for value in row if isinstance(value, ConstantValue)
    ) or any(
        isinstance(value, Value) and not isinstance(value, ConstantValue) for row in plain for value in row
    ):
        tr.graph_break("call", "what is grouped by device and dtype is no list of tensors")
    fakes = [[None if isinstance(value, Value) else value for value in row] for row in plain]
    groups = torch._C._group_tensors_by_device_and_dtype(fakes, tr.truth(with_indices))
    none = ConstantValue(None)
    return tr.from_plain(
        {
            key: (
                [[none if fake is None else found[id(fake)] for fake in row] for row in group],
                list(indices),
            )
            for key, (group, indices) in groups.items()
        }
    )


# -- modules ---------------------------------------------------------------------------------------------------

_MODULE_GETATTR: Any = torch.nn.Module.__getattr__
_TABLES = ("_parameters", "_buffers", "_modules")


def module_getattr(tr: Any, owner: ObjectValue, fallback: Any, name: str) -> Value | None:
    """What `nn.Module.__getattr__` finds in a module's tables; None leaves it to the interpreter."""
    if fallback is not _MODULE_GETATTR:
        return None
    _guard_once(tr, fallback)
    for table in _TABLES:
        mapping = owner.instance_attr(tr, table)
        if mapping is None:
            continue
        found = mapping.realize(tr).lookup(tr, ConstantValue(name))  # type: ignore[attr-defined]
        if found is not None:
            return found
    tr.throw(AttributeError, f"'{owner.cls.__name__}' object has no attribute '{name}'")
    raise AssertionError


def _guard_once(tr: Any, fn: types.FunctionType) -> None:
    """The code of a function that is modelled rather than interpreted."""
    tr.guard(tr.absolute(fn, None).member("__code__"), Check.IDENTITY, fn.__code__)
