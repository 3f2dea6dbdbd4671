"""Optimizers, schedulers and whole steps: see `training_table`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.semantics.training_table import Running, rows, script

Compile = Callable[[Any], Any]
Optimizer = torch.optim.Optimizer


def model() -> nn.Module:
    """A small model."""
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def backward(module: nn.Module, call: int) -> Any:
    """Forward and backward of one step, eager."""
    loss = F.mse_loss(module(rows(0)), rows(call % 2))
    loss.backward()
    return loss


def step_alone(compile: Compile, make: Callable[[Any], Optimizer]) -> Running:
    """`optimizer.step` compiled."""
    module = model()
    optimizer = make(module.parameters())
    compiled = compile(optimizer.step)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        compiled()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


def step_in_a_function(compile: Compile, make: Callable[[Any], Optimizer]) -> Running:
    """A function that calls `optimizer.step`, compiled."""
    module = model()
    optimizer = make(module.parameters())

    @compile
    def update() -> None:
        optimizer.step()

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        update()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


def whole_step(compile: Compile, make: Callable[[Any], Optimizer]) -> Running:
    """Forward, backward and step in one compiled function."""
    module = model()
    optimizer = make(module.parameters())

    @compile
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Running(lambda call: train(rows(0), rows(call % 2)), lambda: (module, optimizer.state_dict()))


#: How each optimizer is made.
_KINDS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd_foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "sgd_single": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False),
    "sgd_fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True, weight_decay=0.1),
    "adam_foreach": lambda p: torch.optim.Adam(p, 0.01, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, 0.01, fused=True),
    "adam_tensor_lr": lambda p: torch.optim.Adam(p, torch.tensor(0.01)),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "adamw_maximize": lambda p: torch.optim.AdamW(p, 0.01, maximize=True, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "rmsprop_foreach": lambda p: torch.optim.RMSprop(p, 0.01, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "adagrad_foreach": lambda p: torch.optim.Adagrad(p, 0.1, foreach=True),
    "adadelta": lambda p: torch.optim.Adadelta(p, 1.0),
    "adamax": lambda p: torch.optim.Adamax(p, 0.01),
    "nadam": lambda p: torch.optim.NAdam(p, 0.01),
    "nadam_foreach": lambda p: torch.optim.NAdam(p, 0.01, foreach=True),
    "adamax_foreach": lambda p: torch.optim.Adamax(p, 0.01, foreach=True),
    "radam_foreach": lambda p: torch.optim.RAdam(p, 0.01, foreach=True),
    "radam": lambda p: torch.optim.RAdam(p, 0.01),
    "asgd": lambda p: torch.optim.ASGD(p, 0.01),
    "rprop": lambda p: torch.optim.Rprop(p, 0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, 0.01),
}
#: Whose first step makes no state: the second needs no graph of its own.
_WITHOUT_STATE = ("sgd", "adagrad", "adagrad_foreach")
#: What the peer's second step needs, where its first has made state inside of the graph.
_PEER_MAKES_STATE = ("sgd_momentum", "sgd_foreach", "sgd_single")
#: Those for which the peer's graph breaks before each operation.
_PEER_BREAKS = ("sgd_fused", "adam_fused", "adafactor")
#: Whose numbers are not eager's bit for bit: they compute with tensors where eager computes with numbers.
_INEXACT = ("nadam", "radam", "asgd", "adam_tensor_lr")

for _name, _make in _KINDS.items():
    for _way, _around in ((step_alone, 0), (step_in_a_function, 0), (whole_step, 1)):

        def _make_running(compile: Compile, way: Any = _way, make: Any = _make) -> Running:
            return way(compile, make)

        _make_running.__name__ = f"{_name}_{_way.__name__}"
        _is_broken = _name == "adafactor"  # its rates are read as numbers
        _graphs = 2 * _around if _is_broken else _around + 1
        # The peer captures the loss as a graph of its own.
        _peer = 2 * _around + (_name not in _PEER_BREAKS)
        script(
            graphs=_graphs,
            in_all=_graphs + (_name not in _WITHOUT_STATE and not _is_broken),
            peer=(_peer, _peer + (_name in _PEER_MAKES_STATE)),
            is_exact=not _name.startswith(_INEXACT),
            reason="the first step makes the optimizer's state",
        )(_make_running)


# -- groups, schedulers, hooks, closures ---------------------------------------------------------------------------------


@script(in_all=2, reason="the first step makes the optimizer's state")
def parameter_groups(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in module.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in module.parameters() if p.dim() <= 1], "weight_decay": 0.0, "lr": 0.1},
        ],
        lr=0.01,
    )
    compiled = compile(optimizer.step)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        compiled()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


def scheduled(compile: Compile, make: Callable[[Any], Optimizer], schedule: Callable[[Any], Any]) -> Running:
    """A scheduler beside a compiled `optimizer.step`."""
    module = model()
    optimizer = make(module.parameters())
    scheduler = schedule(optimizer)
    compiled = compile(optimizer.step)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        compiled()
        scheduler.step()
        return loss.detach(), scheduler.get_last_lr()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script(in_all=2, peer=(1, 2), calls=8)
def cosine_schedule_of_sgd(compile: Compile) -> Running:
    make = lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)  # noqa: E731
    return scheduled(compile, make, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 8))


@script(in_all=2, peer=(1, 2), calls=8)
def cosine_schedule_of_adam(compile: Compile) -> Running:
    make = lambda p: torch.optim.Adam(p, 0.1)  # noqa: E731
    return scheduled(compile, make, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 8))


@script(in_all=2, calls=8, is_exact=False, reason="the first step makes the optimizer's state")
def cosine_schedule_with_a_tensor(compile: Compile) -> Running:
    make = lambda p: torch.optim.Adam(p, torch.tensor(0.1))  # noqa: E731
    return scheduled(compile, make, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 8))


@script(in_all=2, peer=(1, 2), calls=8)
def warm_up_and_one_cycle(compile: Compile) -> Running:
    make = lambda p: torch.optim.AdamW(p, 0.1)  # noqa: E731
    return scheduled(compile, make, lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=9))


@script(in_all=2, peer=(1, 2))
def scheduler_step_inside(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)

    @compile
    def update() -> None:
        optimizer.step()
        scheduler.step()

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        update()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script()
def zero_grad_keeps_tensors(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    @compile
    def update() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    def step(call: int) -> Any:
        loss = backward(module, call)
        update()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script()
def zero_grad_inside(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    @compile
    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    def step(call: int) -> Any:
        loss = backward(module, call)
        update()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script(in_all=2, peer=(2, 3))
def clipped_step(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)

    @compile
    def update() -> Any:
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        optimizer.step()
        return norm

    def step(call: int) -> Any:
        optimizer.zero_grad()
        backward(module, call)
        return update()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script()
def clipped_values(compile: Compile) -> Running:
    module = model()

    @compile
    def clip() -> None:
        nn.utils.clip_grad_value_(module.parameters(), 0.01)

    def step(call: int) -> Any:
        module.zero_grad()
        backward(module, call)
        clip()

    return Running(step, lambda: module)


@script()
def step_hooks(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    calls: list[str] = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("after"))
    compiled = compile(optimizer.step)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        compiled()
        return loss.detach()

    return Running(step, lambda: (module, calls))


@script(graphs=3, peer=(2, 2), reason="the closure is called from inside of the step")
def closure(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    @compile
    def train(x: Any, y: Any) -> Any:
        def evaluate() -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(module(x), y)
            loss.backward()
            return loss

        return optimizer.step(evaluate)  # type: ignore[arg-type]

    return Running(lambda call: train(rows(0), rows(call % 2)).detach(), lambda: module)


@script(in_all=2, reason="the first step makes the optimizer's state")
def frozen_parameters(compile: Compile) -> Running:
    module = model()
    module[0].requires_grad_(False)  # type: ignore[index]
    optimizer = torch.optim.Adam(module.parameters(), 0.1)
    compiled = compile(optimizer.step)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        loss = backward(module, call)
        compiled()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script()
def gradient_scaler_disabled(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    @compile
    def update() -> None:
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    def step(call: int) -> Any:
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(module(rows(0)), rows(call % 2))).backward()
        update()
        return scaler.get_scale()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script()
def gradient_scaler(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    compiled = compile(module)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(compiled(rows(0)), rows(call % 2))).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale()

    return Running(step, lambda: (module, optimizer.state_dict()))


@script()
def moving_average_of_weights(compile: Compile) -> Running:
    module = model()
    average = copy.deepcopy(module)

    @compile
    def update() -> None:
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), module.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
            torch._foreach_lerp_(list(average.parameters()), list(module.parameters()), 0.1)

    def step(call: int) -> Any:
        with torch.no_grad():
            for p in module.parameters():
                p.add_(1)
        update()

    return Running(step, lambda: (module, average))


@script(graphs=7, in_all=12, peer=(0, 1))
def averaged_model(compile: Compile) -> Running:
    module = model()
    average = torch.optim.swa_utils.AveragedModel(
        module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    update = compile(average.update_parameters)

    def step(call: int) -> Any:
        with torch.no_grad():
            for p in module.parameters():
                p.add_(1)
        update(module)
        return average(rows(call))

    return Running(step, lambda: (module, average.module))


@script(in_all=2, peer=(1, 2))
def optimizer_written_by_hand(compile: Compile) -> Running:
    class Lion(Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr, "betas": (0.9, 0.99)})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = torch.zeros_like(p)
                    beta1, beta2 = group["betas"]
                    update = state["exp_avg"] * beta1 + p.grad * (1 - beta1)
                    p.add_(update.sign(), alpha=-group["lr"])
                    state["exp_avg"].mul_(beta2).add_(p.grad, alpha=1 - beta2)

    return step_alone(compile, lambda p: Lion(p, 0.01))


@script()
def gradients_accumulated(compile: Compile) -> Running:
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    compiled = compile(module)

    def step(call: int) -> Any:
        loss = F.mse_loss(compiled(rows(0)), rows(call % 2)) / 2
        loss.backward()
        if call % 2:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return Running(step, lambda: (module, optimizer.state_dict()))
