"""Tensors: a node of the graph with a fake tensor that says what it will look like."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framehook.guards.guard import Check
from framehook.values.base import CONSTANT_TYPES, ConstantValue, Tracer, Value, is_constant
from framehook.values.iterators import ListedIterator
from framehook.values.sequences import BuiltinMethod, ListValue, TupleValue

if TYPE_CHECKING:
    from framehook.source import Source

CONSTANT_TYPES.update(
    {torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme, torch.Size}
)

#: Methods that look at data; only the real tensor can answer.
DATA_METHODS = frozenset(
    {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "is_nonzero"}
    | {"equal", "allclose", "__contains__", "__array__", "__dlpack__", "__str__", "__repr__", "__format__"}
)
#: Methods that see how autograd has come to a tensor: behind a break at one, the graph runs operation by operation.
AUTOGRAD_METHODS = frozenset({"register_hook", "retain_grad"})
#: Methods that reach behind the tensor, or that concern autograd's bookkeeping.
NATIVE_METHODS = frozenset(
    {"backward", "register_post_accumulate_grad_hook", "requires_grad_"}
    | {"data_ptr", "storage", "untyped_storage", "share_memory_", "resize_", "resize_as_", "set_", "_make_subclass"}
    | {"record_stream", "pin_memory", "apply_", "map_", "__reduce__", "__reduce_ex__", "__deepcopy__", "__setstate__"}
    | {"swap_", "as_subclass", "__torch_function__", "__torch_dispatch__", "__dlpack_device__", "detach_"}
    | {"_backward_hooks", "rename_", "refine_names", "is_shared", "module_load", "__dir__"}
)  # fmt: skip
#: Attributes that follow from the metadata that tensor guards compare.
GUARDED_ATTRIBUTES = frozenset(
    {"dtype", "device", "ndim", "layout", "itemsize", "nbytes", "names", "is_cuda", "is_cpu", "is_sparse"}
    | {"is_sparse_csr", "is_quantized", "is_meta", "is_nested", "is_mkldnn", "is_mps", "is_xpu", "is_xla"}
    | {"is_ort", "is_ipu", "is_maia", "is_mtia", "is_vulkan"}
)  # fmt: skip
#: Attributes that are tensors computed from the tensor.
TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})


Predicate = Callable[[torch.Tensor], bool]


def is_leaf_tensor(tensor: torch.Tensor) -> bool:
    """A guard: no operation has made it."""
    return tensor.is_leaf


def is_no_leaf(tensor: torch.Tensor) -> bool:
    """A guard: an operation has made it."""
    return not tensor.is_leaf


def retains_grad(tensor: torch.Tensor) -> bool:
    """A guard: its gradient is kept although it is no leaf."""
    return tensor.retains_grad


def does_not_retain_grad(tensor: torch.Tensor) -> bool:
    """A guard: its gradient is not kept, or it is a leaf."""
    return not tensor.retains_grad


def check_method(tr: Tracer, value: TensorValue, name: str) -> None:
    """Guard that a method of tensors is torch's own; one that a program has put in its place runs natively."""
    raw = tr.class_attr(value.python_type(), name)
    if isinstance(raw, types.FunctionType) and not (raw.__module__ or "").startswith("torch"):
        tr.graph_break("call", f"tensor.{name}() is replaced by {raw.__qualname__}()")


def break_at_backward(tr: Tracer, name: str, given: dict[str, Value]) -> NoReturn:
    """End the graph at a backward pass.

    What AOTAutograd makes of a graph is one operation to autograd, which cannot be differentiated twice and has nothing
    in its middle: where that is asked for, the graph before is run operation by operation.
    """
    again = given.get("create_graph")
    inputs = given.get("inputs")
    known = again is None or (isinstance(again := again.realize(tr), ConstantValue) and not again.value)
    kind = "call" if known and (inputs is None or _all_given(tr, inputs)) else "autograd"
    tr.graph_break(kind, f"{name}() does not go into a graph", "call it outside of the compiled function")


def _all_given(tr: Tracer, inputs: Value) -> bool:
    """Whether these are inputs of the graph, and none of its results."""
    value = inputs.realize(tr)
    if isinstance(value, TensorValue):
        return value.example is not None
    if isinstance(value, (ListValue, TupleValue)):
        return all(_all_given(tr, each) for each in value.items)
    return isinstance(value, ConstantValue) and value.value is None


class TensorValue(Value):
    """A tensor of the graph; with a source it is one of the graph's inputs."""

    __slots__ = ("example", "fake", "node", "subclass")

    def __init__(self, node: Any, fake: torch.Tensor, source: Source | None, example: torch.Tensor | None):
        self.source = source
        self.node = node
        self.fake = fake
        self.example = example  # the real tensor of an input
        self.subclass: type | None = (
            None  # a subclass that changes nothing, which results are made members of
        )

    def python_type(self) -> type:
        if self.subclass is not None:
            return self.subclass
        return type(self.example) if self.example is not None else torch.Tensor

    def describe(self) -> str:
        return f"a tensor of shape {tuple(self.fake.shape)}"

    def hash_key(self, tr: Tracer) -> Any:
        return self

    def truth(self, tr: Tracer) -> bool:
        if tr.is_checked(self):
            return True
        tr.graph_break(
            "data_dependent",
            "a branch depends on the value of a tensor",
            "keep the choice inside the graph (torch.where), or move the branch out of the compiled function",
        )

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "shape":
            if is_constant(self.fake.shape):
                return tr.from_plain(self.fake.shape)
            return tr.graph_call("size", [self], {}, method=True)
        if name in TENSOR_ATTRIBUTES:
            return tr.graph_call(getattr, [self, ConstantValue(name)], {})
        if name == "data":
            # Not `detach()`: changes of it are not counted as changes of this tensor.
            return tr.graph_call(getattr, [self, ConstantValue(name)], {})
        if name == "grad":
            return self._grad(tr)
        if name in ("requires_grad", "is_leaf", "grad_fn", "retains_grad"):
            return self._autograd_fact(tr, name)
        if name == "__class__":
            return tr.constant_object(self.python_type())
        if self.example is not None and name in getattr(self.example, "__dict__", {}):
            assert self.source is not None
            return tr.lazy(self.example.__dict__[name], self.source.attr(name))
        raw = getattr(torch.Tensor, name, None)
        if not callable(raw):
            tr.class_attr(self.python_type(), name)  # user code may give all tensors one, or take it away
        if raw is None:
            if self.example is not None and name in ("__dict__", "__slots__"):
                tr.graph_break("attribute", f"attribute '{name}' of a tensor")
            if self.example is not None and self.source is not None:
                tr.guard(self.source.instance_dict(), Check.NO_KEY, name)
            tr.throw(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")
        if callable(raw):
            check_method(tr, self, name)
            if name not in ("requires_grad_", "backward", "detach_"):
                self._check_native(tr, name)
            return BuiltinMethod(self, name)
        if name in GUARDED_ATTRIBUTES:
            found = getattr(self.fake, name)
            if is_constant(found):
                return ConstantValue(found)
        tr.graph_break("attribute", f"attribute '{name}' of a tensor does not go into a graph")

    def _grad(self, tr: Tracer) -> Value:
        if self.example is None or self.source is None:
            tr.graph_break("autograd", "the gradient of a tensor made inside the graph is read")
        return tr.lazy(self.example.grad, self.source.member("grad"))

    def _autograd_fact(self, tr: Tracer, name: str) -> Value:
        if name == "requires_grad":
            tr.need_requires_grad(self)
            return ConstantValue(self.fake.requires_grad)
        if name == "retains_grad":
            # Of results, `retain_grad()` ends the graph.
            return ConstantValue(self._guarded(tr, retains_grad, does_not_retain_grad))
        is_leaf = self.fake.is_leaf
        if self.example is not None:
            if not self._is_as_given():
                tr.graph_break("autograd", f"'{name}' of an input that was changed is read")
            is_leaf = self._guarded(tr, is_leaf_tensor, is_no_leaf)
        if name == "is_leaf":
            return ConstantValue(is_leaf)
        if is_leaf:
            return ConstantValue(None)
        tr.graph_break("autograd", "'grad_fn' of a tensor is read")

    def _is_as_given(self) -> bool:
        """Whether it is an input to which nothing has been done so far."""
        return self.example is not None and (self.fake.is_inference() or not self.fake._version)

    def _guarded(self, tr: Tracer, yes: Predicate, no: Predicate) -> bool:
        """Ask an input, and guard the answer; of results it is no."""
        if self.example is None or self.source is None:
            return False
        answer = yes(self.example)
        tr.guard(None, Check.PREDICATE, (yes if answer else no, (self.source,)))
        return answer

    def _requires_grad_(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """`requires_grad_()`, where it changes nothing."""
        given = [*args, *kwargs.values()]
        wanted = tr.truth(given[0]) if given else True
        tr.need_requires_grad(self)
        if len(given) > 1 or bool(self.fake.requires_grad) is not wanted:
            tr.graph_break(
                "call",
                "tensor.requires_grad_() does not go into a graph",
                "say it outside of the compiled function",
            )
        return self

    def _check_native(self, tr: Tracer, name: str) -> None:
        if name in AUTOGRAD_METHODS:
            tr.graph_break("autograd", f"tensor.{name}() does not go into a graph")
        if name in NATIVE_METHODS:
            tr.graph_break("call", f"tensor.{name}() does not go into a graph")

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        tr.graph_break("side_effect", f"attribute '{name}' of a tensor is set")

    def get_item(self, tr: Tracer, key: Value) -> Value:
        check_method(tr, self, "__getitem__")
        return tr.graph_call(operator.getitem, [self, key], {})

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        check_method(tr, self, "__setitem__")
        tr.graph_call(operator.setitem, [self, key, value], {})

    def length(self, tr: Tracer) -> int:
        if self.fake.dim() == 0:
            tr.throw(TypeError, "len() of a 0-d tensor")
        size = int(self.fake.shape[0])
        if not is_constant(self.fake.shape):
            tr.note_specialised()
        return size

    def size_of_first(self, tr: Tracer) -> Value:
        """`len(self)`, as a symbol where it is one."""
        if self.fake.dim() == 0 or is_constant(self.fake.shape):
            return ConstantValue(self.length(tr))
        return tr.graph_call("size", [self, ConstantValue(0)], {}, method=True)

    def iterate(self, tr: Tracer) -> Value:
        if self.fake.dim() == 0:
            tr.throw(TypeError, "iteration over a 0-d tensor")
        parts = tr.graph_call("unbind", [self, ConstantValue(0)], {}, method=True)
        return ListedIterator(list(parts.items), type(iter(())))  # type: ignore[attr-defined]

    def contains(self, tr: Tracer, item: Value) -> bool:
        tr.graph_break("data_dependent", "membership in a tensor depends on its values")

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if name in DATA_METHODS:
            tr.graph_break(
                "data_dependent",
                f"tensor.{name}() needs the values of the tensor",
                "do it outside the compiled function, or keep the result a tensor",
            )
        if name == "requires_grad_":
            return self._requires_grad_(tr, args, kwargs)
        if name == "backward":
            names = ("gradient", "retain_graph", "create_graph", "inputs")
            break_at_backward(tr, "tensor.backward", dict(zip(names, args, strict=False)) | kwargs)
        if name == "detach_" and self.example is None:
            return tr.graph_call(name, [self], {}, method=True)
        self._check_native(tr, name)
        special = _SPECIAL_METHODS.get(name)
        if special is not None:
            return special(tr, self, args)
        return tr.graph_call(name, [self, *args], kwargs, method=True)


_SPECIAL_METHODS = {
    "__len__": lambda tr, self, args: self.size_of_first(tr),
    "__iter__": lambda tr, self, args: self.iterate(tr),
    "__getitem__": lambda tr, self, args: self.get_item(tr, args[0]),
    "__setitem__": lambda tr, self, args: self.set_item(tr, args[0], args[1]) or ConstantValue(None),
}
