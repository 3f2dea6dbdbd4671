"""`compile(module)`: the module in everything but calling."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import framehook
from framehook.testing import CompileCounter


class Net(nn.Module):
    """A module with a buffer, a method, a property and a name that compiled modules have too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))
        self.tag = "original"

    @property
    def width(self) -> int:
        return self.linear.in_features

    def reset(self) -> str:
        return "the module's own reset"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale


class Registered(nn.Module):
    """A base class that keeps a register of its subclasses and asks them for an argument."""

    register: list[type] = []

    def __init_subclass__(cls, *, flag: int) -> None:
        cls.register.append(cls)


class Declared(Registered, flag=1):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Slotted(nn.Module):
    __slots__ = ("extra",)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.extra


class OwnCall(nn.Module):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 3)


def view(module: nn.Module, backend: Any = "eager") -> Any:
    return framehook.compile(module, backend=backend)


def test_calls_are_compiled_and_equal_to_eager(net: Net, x: torch.Tensor) -> None:
    counter = CompileCounter()
    compiled = view(net, counter)
    for _ in range(3):
        assert torch.equal(compiled(x), net(x))
    assert counter.frame_count == 1
    assert compiled.stats().hits == 2


def test_class_and_name(net: Net) -> None:
    compiled = view(net)
    assert isinstance(compiled, Net)
    assert isinstance(compiled, nn.Module)
    assert type(compiled).__name__ == "Net"
    assert compiled.__class__ is Net
    assert repr(compiled) == repr(net)
    assert compiled._get_name() == "Net"


def test_attributes_go_both_ways(net: Net) -> None:
    compiled = view(net)
    compiled.tag = "from the view"
    assert net.tag == "from the view"
    net.other = 5
    assert compiled.other == 5
    del compiled.other
    assert not hasattr(net, "other")
    compiled.added = nn.Linear(1, 1)
    assert "added" in dict(net.named_children())
    assert compiled.width == 3
    assert compiled.__dict__ is net.__dict__
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nope'"):
        compiled.nope  # noqa: B018


def test_a_changed_attribute_changes_the_result(net: Net, x: torch.Tensor) -> None:
    compiled = view(net)
    compiled(x)
    compiled.scale = torch.full((3,), 2.0)
    assert torch.equal(compiled(x), net(x))
    net.linear = nn.Linear(3, 3)
    assert torch.equal(compiled(x), net(x))


def test_names_of_the_module_win(net: Net) -> None:
    assert view(net).reset() == "the module's own reset"
    net.stats = nn.Linear(1, 1)
    assert view(net).stats is net.stats
    assert isinstance(view(net).entries(), list)


def test_parameters_and_state(net: Net, x: torch.Tensor) -> None:
    compiled = view(net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(compiled.parameters(), net.parameters(), strict=True))
    other = Net()
    compiled.load_state_dict(other.state_dict())
    assert torch.equal(net(x), other(x))


def test_train_eval_and_to() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    compiled = view(model)
    x = torch.ones(2, 3)
    assert compiled.eval() is compiled
    assert not model.training
    assert not model[1].training
    assert torch.equal(compiled(x), model(x))
    compiled.train()
    assert model.training
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), expected)
    assert compiled.to(torch.float64) is compiled
    assert model[0].weight.dtype == torch.float64
    assert compiled(x.double()).dtype == torch.float64


def test_hooks_on_the_view_and_on_the_original_run(net: Net, x: torch.Tensor) -> None:
    compiled = view(net)
    compiled(x)
    handles = [
        compiled.register_forward_hook(lambda module, args, result: result + 1),
        net.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    ]
    assert torch.equal(compiled(x), net(x))
    assert not torch.equal(net(x), net.forward(x))
    for handle in handles:
        handle.remove()
    assert torch.equal(compiled(x), net.forward(x))


def test_hooks_see_the_module_that_eager_hooks_see(net: Net, x: torch.Tensor) -> None:
    seen: list[object] = []
    net.register_forward_hook(lambda module, args, result: seen.append(module))
    view(net)(x)
    assert seen == [net]
    assert seen[0] is net


def test_use_as_a_submodule(net: Net, x: torch.Tensor) -> None:
    counter = CompileCounter()
    parent = nn.Sequential(view(net, counter), nn.ReLU())
    assert torch.equal(parent(x), torch.relu(net(x)))
    assert counter.frame_count == 1
    assert list(parent.state_dict()) == [f"0.{key}" for key in net.state_dict()]
    assert repr(parent) == repr(nn.Sequential(net, nn.ReLU()))


def test_training_through_the_view(net: Net, x: torch.Tensor) -> None:
    other = copy.deepcopy(net)
    for model in (view(net), other):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    for mine, theirs in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_deepcopy_is_a_compiled_copy(net: Net, x: torch.Tensor) -> None:
    counter = CompileCounter()
    compiled = view(net, counter)
    compiled(x)
    other = copy.deepcopy(compiled)
    assert isinstance(other, Net)
    assert other.linear.weight is not net.linear.weight
    assert torch.equal(other(x), net(x))
    assert framehook.stats(other).misses == 1
    with torch.no_grad():
        other.linear.weight.zero_()
    assert not torch.equal(other(x), compiled(x))


def test_deepcopy_of_a_parent_keeps_sharing(net: Net) -> None:
    compiled = view(net)
    first, second = copy.deepcopy([compiled, compiled])
    assert first is second
    holder = copy.deepcopy([net, compiled])
    assert holder[0].linear is holder[1].linear


def test_shallow_copy_shares_the_parts_but_not_the_dict(net: Net, x: torch.Tensor) -> None:
    other = copy.copy(view(net))
    other.tag = "the copy's"
    assert net.tag == "original"
    assert other.linear is net.linear
    assert torch.equal(other(x), net(x))


def test_pickle_gives_a_compiled_view_with_the_same_options(net: Net, x: torch.Tensor) -> None:
    compiled = framehook.compile(net, backend="eager", dynamic=False)
    other = pickle.loads(pickle.dumps(compiled))
    assert isinstance(other, Net)
    assert torch.equal(other(x), net(x))
    stats = framehook.stats(other)
    assert (stats.misses, stats.whole) == (1, 1)
    assert type(other).__call__.__get__(other).handle.options.dynamic is False


def test_torch_save_and_load(net: Net, x: torch.Tensor) -> None:
    compiled = view(net)
    for saved in (compiled, compiled.state_dict()):
        buffer = io.BytesIO()
        torch.save(saved, buffer)
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=saved is not compiled)
        if saved is not compiled:
            fresh = Net()
            fresh.load_state_dict(loaded)
            loaded = fresh
        assert torch.equal(loaded(x), net(x))


def test_subclasses_are_not_registered() -> None:
    count = len(Registered.register)
    compiled = view(Declared())
    assert len(Registered.register) == count
    assert isinstance(compiled, Declared)
    assert torch.equal(compiled(torch.zeros(1)), torch.ones(1))


def test_slots_of_the_module_are_reached() -> None:
    module = Slotted()
    module.extra = 3
    compiled = view(module)
    assert compiled.extra == 3
    compiled.extra = 4
    assert module.extra == 4
    assert torch.equal(compiled(torch.ones(1)), torch.full((1,), 4.0))


def test_a_call_of_its_own_is_honoured(x: torch.Tensor) -> None:
    module = OwnCall()
    assert torch.equal(view(module)(x), module(x))


def test_lazy_modules_become_what_they_become_in_eager(x: torch.Tensor) -> None:
    compiled = view(nn.LazyLinear(4))
    assert compiled(x).shape == (2, 4)
    assert compiled.__class__ is nn.Linear
    assert "in_features=3" in repr(compiled)
    assert compiled(x).shape == (2, 4)


@pytest.mark.parametrize("owner", ["forward", "call"])
def test_monkeypatched_methods_are_noticed(
    owner: str, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net()
    compiled = view(net)
    compiled(x)
    if owner == "forward":
        monkeypatch.setattr(Net, "forward", lambda self, x: x * 100)
    else:
        monkeypatch.setattr(nn.Module, "__call__", lambda self, x: x * 200)
    assert torch.equal(compiled(x), x * (100 if owner == "forward" else 200))
    monkeypatch.undo()
    assert torch.equal(compiled(x), net(x))


def test_compiling_a_view_compiles_the_original(net: Net, x: torch.Tensor) -> None:
    inner, outer = CompileCounter(), CompileCounter()
    compiled = framehook.compile(view(net, inner), backend=outer)
    compiled(x)
    assert (inner.frame_count, outer.frame_count) == (0, 1)


def test_the_original_stays_eager(net: Net, x: torch.Tensor) -> None:
    counter = CompileCounter()
    view(net, counter)
    net(x)
    assert counter.frame_count == 0
    assert type(net) is Net
    assert "__call__" not in vars(net)


def test_a_view_outlives_the_name_of_its_original(x: torch.Tensor) -> None:
    compiled = view(Net())
    gc.collect()
    assert compiled(x).shape == (2, 3)


def test_everything_is_freed_without_the_collector(x: torch.Tensor) -> None:
    net = Net()
    compiled = view(net)
    compiled(x)
    compiled(x)
    weight, module = weakref.ref(net.linear.weight), weakref.ref(net)
    gc.collect()
    gc.disable()
    try:
        del net, compiled
        assert module() is None
        assert weight() is None
    finally:
        gc.enable()


def test_disable_on_a_module_gives_a_view_that_is_not_captured(net: Net, x: torch.Tensor) -> None:
    counter = CompileCounter()
    disabled = framehook.disable(net)
    assert isinstance(disabled, Net)
    assert disabled.__dict__ is net.__dict__
    with framehook.capture(backend=counter, warmup_calls=0):
        disabled(x)
    assert counter.frame_count == 0
    assert torch.equal(copy.deepcopy(disabled)(x), net(x))
