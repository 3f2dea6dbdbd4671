"""Where torch's own code asks whether it is compiled, and gives another result if so: see `training_table`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.semantics.training_table import Running, contents, rows, script

Compile = Callable[[Any], Any]


class _Refusing(nn.Module):
    """Raises in every other call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, is_refused: bool) -> Tensor:
        if is_refused:
            raise ValueError("refused")
        out: Tensor = self.linear(x)
        return out


def _outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except (ValueError, AssertionError) as error:
        return type(error).__name__, str(error)


def _always_called(compile: Compile, register: Callable[[nn.Module, Any], Any]) -> Running:
    module = _Refusing()
    compiled = compile(module)
    log: list[bool] = []

    def hook(module: nn.Module, args: Any, output: Tensor | None) -> None:
        log.append(output is None)

    def step(call: int) -> Any:
        handle = register(module, hook) if call < 4 else None
        try:
            return _outcome(compiled, rows(call), call % 2 == 1), list(log)
        finally:
            if handle is not None:
                handle.remove()

    return Running(step, lambda: contents(module))


@script(in_all=3, calls=6, reason="the peer does not see hooks that come later")
def hook_called_after_an_exception(compile: Compile) -> Running:
    return _always_called(compile, lambda m, hook: m.register_forward_hook(hook, always_call=True))


@script(in_all=3, calls=6, reason="the peer does not see hooks that come later")
def global_hook_called_after_an_exception(compile: Compile) -> Running:
    def register(module: nn.Module, hook: Any) -> Any:
        return nn.modules.module.register_module_forward_hook(hook, always_call=True)

    return _always_called(compile, register)


def _encoder(compile: Compile, *, is_frozen: bool) -> Running:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).eval().requires_grad_(not is_frozen)
    compiled = compile(module)
    hidden = torch.tensor([[False] * 5, [False, False, True, True, True]])

    def step(call: int) -> Any:
        x = torch.linspace(-1, 1, 80).reshape(2, 5, 8) * (1 + call)
        return compiled(x, src_key_padding_mask=hidden)

    return Running(step, lambda: module)


@script(graphs=2, reason="eager takes the path of nested tensors, which gives zeros at hidden positions")
def frozen_encoder_with_padding(compile: Compile) -> Running:
    return _encoder(compile, is_frozen=True)


@script()
def encoder_with_padding(compile: Compile) -> Running:
    return _encoder(compile, is_frozen=False)


def _capturable(compile: Compile, make: Callable[[Any], torch.optim.Optimizer]) -> Running:
    """Refused on the CPU."""
    module = nn.Linear(4, 4)
    optimizer = make(module.parameters())
    compiled = compile(optimizer.step)

    def step(call: int) -> Any:
        optimizer.zero_grad()
        module(rows(call)).square().sum().backward()
        return _outcome(compiled)

    return Running(step, lambda: (module, optimizer.state_dict()))


for _name in ("Adam", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD"):
    for _foreach in (False, True):

        def _make(
            compile: Compile, kind: Any = getattr(torch.optim, _name), foreach: bool = _foreach
        ) -> Running:
            return _capturable(compile, lambda p: kind(p, capturable=True, foreach=foreach))

        _make.__name__ = f"capturable_{_name.lower()}{'_foreach' if _foreach else ''}"
        script(graphs=0, peer=(1, 1), reason="eager refuses it")(_make)
