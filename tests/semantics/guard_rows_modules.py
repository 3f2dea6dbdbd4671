"""Guard rows about `nn.Module`: flags, parameters, buffers, submodules, hooks, and patched classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.semantics.guard_rows_tensors import ramp
from tests.semantics.guard_table import Call, Table, call

MODULES = Table()


class Net(nn.Module):
    """Two linear layers, a list, a buffer and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.register_buffer("offset", ramp(3))
        self.scale = 2

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x)) * self.scale + self.offset
        for layer in self.layers:
            x = layer(x)
        return self.second(F.dropout(x, 0.5, self.training))


def net(seed: int = 0) -> Net:
    """A `Net` whose weights come from the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Net()


def ones() -> Tensor:
    return torch.ones(2, 3)


def _set_training(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.eval()


def _set_submodule_training(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.first.training = False  # not read by Linear.forward: any program is right, so read it below


def _replace_parameter(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.first.weight = nn.Parameter(torch.eye(3, dtype=torch.float32)[:2].repeat(2, 1)[:3] * 2)


def _parameter_to_none(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.first.bias = None  # type: ignore[assignment]


def _parameter_dtype(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.double()


def _data_shape(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.offset.data = torch.ones(1, 3)


def _data_dtype(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.offset.data = torch.ones(3, dtype=torch.float64)


def _freeze(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.first.weight.requires_grad_(False)


def _buffer_replaced_by_another_shape(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.offset = torch.ones(1, 3)


def _buffer_to_number(model: Net, patch: pytest.MonkeyPatch) -> None:
    del model.offset
    model.offset = 5  # type: ignore[assignment]


def _submodule_swapped(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.second = nn.Identity()  # type: ignore[assignment]


def _submodule_appended(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.layers.append(nn.Tanh())


def _submodule_deleted(model: Net, patch: pytest.MonkeyPatch) -> None:
    del model.layers[0]


def _submodule_shadowed(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.__dict__["second"] = torch.tanh


def _forward_shadowed(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.second.forward = lambda x: x * 50  # type: ignore[method-assign]


def _own_forward_shadowed(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.forward = lambda x: x * 50  # type: ignore[method-assign]


def _attribute(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.scale = 3


def _forward_hook(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.second.register_forward_hook(lambda module, args, output: output * 10)


def _pre_hook(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.second.register_forward_pre_hook(lambda module, args: (args[0] * 10,))


def _own_forward_hook(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.register_forward_hook(lambda module, args, output: output * 10)


def _own_pre_hook(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.register_forward_pre_hook(lambda module, args: (args[0] * 10,))


def _global_forward_hook(model: Net, patch: pytest.MonkeyPatch) -> None:
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: output * 10 if module is model.second else None
    )
    patch.callbacks.append(handle.remove)  # type: ignore[attr-defined]


def _global_pre_hook(model: Net, patch: pytest.MonkeyPatch) -> None:
    handle = nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: (args[0] * 10,) if module is model.second else None
    )
    patch.callbacks.append(handle.remove)  # type: ignore[attr-defined]


def _class_forward(model: Net, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nn.Linear, "forward", lambda self, x: x * 3)


def _class_call(model: Net, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nn.Linear, "__call__", lambda self, x: x * 4, raising=False)


def _module_call(model: Net, patch: pytest.MonkeyPatch) -> None:
    original = nn.Module.__call__
    patch.setattr(
        nn.Module,
        "__call__",
        lambda self, *args: original(self, *args) * (2 if isinstance(self, nn.Linear) else 1),
    )


def _own_class_forward(model: Net, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Net, "forward", lambda self, x: self.first(x) * 7)


def _relu(model: Net, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(F, "relu", torch.tanh)


def _linear(model: Net, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(F, "linear", lambda x, weight, bias: x @ weight)


def _module_class(model: Net, patch: pytest.MonkeyPatch) -> None:
    model.second.__class__ = type("Shifted", (nn.Linear,), {"forward": lambda self, x: x + 3})


CHANGES = {
    "training": _set_training,
    "parameter_to_none": _parameter_to_none,
    "parameter_dtype": _parameter_dtype,
    "data_shape": _data_shape,
    "requires_grad": _freeze,
    "buffer_shape": _buffer_replaced_by_another_shape,
    "buffer_to_number": _buffer_to_number,
    "submodule_swapped": _submodule_swapped,
    "submodule_appended": _submodule_appended,
    "submodule_deleted": _submodule_deleted,
    "submodule_shadowed": _submodule_shadowed,
    "forward_shadowed": _forward_shadowed,
    "own_forward_shadowed": _own_forward_shadowed,
    "attribute": _attribute,
    "forward_hook": _forward_hook,
    "pre_hook": _pre_hook,
    "own_forward_hook": _own_forward_hook,
    "own_pre_hook": _own_pre_hook,
    "global_forward_hook": _global_forward_hook,
    "global_pre_hook": _global_pre_hook,
    "class_forward": _class_forward,
    "class_call": _class_call,
    "module_call": _module_call,
    "own_class_forward": _own_class_forward,
    "functional_relu": _relu,
    "functional_linear": _linear,
    "module_class": _module_class,
}


class _Callbacks:
    """A `MonkeyPatch` with callbacks that run when the row ends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.setattr = patch.setattr
        self.callbacks: list[Any] = []


@MODULES.miss(cases={name: (change,) for name, change in CHANGES.items()})
def module_changed(patch: pytest.MonkeyPatch, change: Any) -> Iterator[Call]:
    model = net()
    steps = _Callbacks(patch)
    try:
        yield call(model, ones().to(model.first.weight.dtype))
        change(model, steps)
        yield call(model, ones().to(model.first.weight.dtype))
    finally:
        for callback in steps.callbacks:
            callback()


@MODULES.miss(cases={name: (change,) for name, change in CHANGES.items() if not name.startswith("own_")})
def module_in_a_closure_changed(patch: pytest.MonkeyPatch, change: Any) -> Iterator[Call]:
    model = net()
    steps = _Callbacks(patch)

    def fn(x: Tensor) -> Tensor:
        return model(x).relu()

    try:
        yield call(fn, ones().to(model.first.weight.dtype))
        change(model, steps)
        yield call(fn, ones().to(model.first.weight.dtype))
    finally:
        for callback in steps.callbacks:
            callback()


@MODULES.any(cases={"replaced": (_replace_parameter,), "submodule_flag": (_set_submodule_training,)})
def module_changed_but_nothing_used(patch: pytest.MonkeyPatch, change: Any) -> Iterator[Call]:
    model = net().eval()
    yield call(model, ones())
    change(model, patch)
    yield call(model, ones())


@MODULES.any
def buffer_replaced(patch: object) -> Iterator[Call]:
    model = net().eval()
    yield call(model, ones())
    model.offset = ramp(3) * 9
    yield call(model, ones())


@MODULES.miss
def buffer_data_of_another_dtype(patch: pytest.MonkeyPatch) -> Iterator[Call]:
    model = nn.BatchNorm1d(3).eval()

    def fn(x: Tensor) -> Tensor:
        return x * model.running_mean + 1

    yield call(fn, ones())
    _running(model).data = torch.ones(3, dtype=torch.float64)
    yield call(fn, ones())


def _running(model: nn.BatchNorm1d) -> Tensor:
    assert model.running_mean is not None
    return model.running_mean


@MODULES.any(cases={"tied": (True,), "untied": (False,)})
def parameters_tied(patch: object, tie: bool) -> Iterator[Call]:
    model = net()
    if not tie:
        model.second.weight = model.first.weight
    yield call(model, ones())
    model.second.weight = model.first.weight if tie else nn.Parameter(model.first.weight.detach().clone())
    yield call(model, ones())


@MODULES.miss(cases={"tied": (True,), "untied": (False,)})
def mutated_parameters_tied(patch: object, tie: bool) -> Iterator[Call]:
    model = net()
    if not tie:
        model.second.weight = model.first.weight

    def fn(x: Tensor) -> Tensor:
        with torch.no_grad():
            model.first.weight.mul_(2)
            return x @ model.second.weight

    yield call(fn, ones())
    model.second.weight = model.first.weight if tie else nn.Parameter(model.first.weight.detach().clone())
    yield call(fn, ones())


@MODULES.miss(cases={"forward": (_forward_hook,), "pre": (_pre_hook,)})
def hook_removed(patch: pytest.MonkeyPatch, add: Any) -> Iterator[Call]:
    model = net()
    add(model, patch)
    yield call(model, ones())
    model.second._forward_hooks.clear()
    model.second._forward_pre_hooks.clear()
    yield call(model, ones())


@MODULES.any
def backward_hook_added_and_removed(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    handle = model.second.register_full_backward_hook(lambda module, gin, gout: (gin[0] * 3,))
    yield call(model, ones())
    handle.remove()
    yield call(model, ones())


@MODULES.any
def backward_pre_hook_added(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    model.second.register_full_backward_pre_hook(lambda module, gout: (gout[0] * 3,))
    yield call(model, ones())


@MODULES.any
def tensor_hook_added(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    model.first.weight.register_hook(lambda grad: grad * 3)
    yield call(model, ones())


@MODULES.any
def global_backward_hook(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    handle = nn.modules.module.register_module_full_backward_hook(lambda module, gin, gout: None)
    try:
        yield call(model, ones())
    finally:
        handle.remove()
    yield call(model, ones())


@MODULES.hit
def parameters_updated_by_an_optimizer(patch: object) -> Iterator[Call]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    yield call(model, ones())
    for _ in range(3):
        optimizer.step()
        optimizer.zero_grad()
        yield call(model, ones())


@MODULES.hit
def state_dict_loaded(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    model.load_state_dict(net(seed=1).state_dict())
    yield call(model, ones())


@MODULES.hit(cases={"same_weights": (0,), "other_weights": (1,)})
def another_module_of_the_same_structure(patch: object, seed: int) -> Iterator[Call]:
    def fn(model: nn.Module, x: Tensor) -> Tensor:
        return model(x) + 1

    yield call(fn, net(), ones())
    yield call(fn, net(seed), ones())


@MODULES.hit(through="capture")
def another_captured_module_of_the_same_structure(patch: object) -> Iterator[Call]:
    yield call(net(), ones())
    yield call(net(1), ones())


@MODULES.hit
def unrelated_module_attribute(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    model.unrelated = 5
    model.first.note = "text"
    yield call(model, ones())


@MODULES.hit
def parameter_replaced_by_one_of_equal_metadata(patch: object) -> Iterator[Call]:
    model = net()
    yield call(model, ones())
    model.first.weight = nn.Parameter(torch.eye(3))
    yield call(model, ones())


@MODULES.hit
def training_flag_of_a_module_that_does_not_read_it(patch: object) -> Iterator[Call]:
    model = net().first
    yield call(model, ones())
    model.eval()
    yield call(model, ones())
