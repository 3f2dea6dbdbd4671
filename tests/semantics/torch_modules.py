"""Modules of many kinds, collected as programs: see `torch_programs`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch.nn.utils.parametrizations
from torch import Tensor, nn

from tests.semantics.torch_programs import program, rand


def images() -> tuple[Any, ...]:
    """A batch of images."""
    return (rand(2, 3, 8, 8),)


def rows() -> tuple[Any, ...]:
    """A batch of vectors."""
    return (rand(5, 4),)


@program(arguments=images)
class ConvNet(nn.Module):
    """Convolutions, batch norm with running statistics, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.norm(self.body(x)), 1).flatten(1))  # type: ignore[no-any-return]


@program(arguments=images)
class UpsamplingNet(nn.Module):
    """Transposed convolution, interpolation, pixel shuffle, padding."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 2, stride=2)
        self.shuffle = nn.PixelShuffle(2)
        self.norm = nn.InstanceNorm2d(1, affine=True, track_running_stats=True)

    def forward(self, x: Tensor) -> Tensor:
        y = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        z = self.norm(self.shuffle(self.up(x)))
        return F.pad(y, (1, 1, 1, 1), mode="reflect").mean() + z.sigmoid()  # type: ignore[no-any-return]


@program(arguments=rows)
class Tied(nn.Module):
    """Two layers with one weight, lists and dicts of modules and parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.named = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Linear(4, 4)})
        self.scales = nn.ParameterList([torch.ones(4), torch.zeros(4)])
        self.more = nn.ParameterDict({"x": nn.Parameter(torch.ones(4))})

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.first(x))
        for i, layer in enumerate(self.layers):
            x = layer(x) * self.scales[i]
        for name, module in self.named.items():
            x = module(x) + len(name)
        for layer in self.layers[1:]:
            x = layer(x)
        return self.layers[-1](x) * self.more["x"] + len(self.layers)  # type: ignore[no-any-return]


@program(arguments=rows, graphs=None)
class Counting(nn.Module):
    """Counts its calls in an attribute, a buffer, and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))
        self.history: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen += x.shape[0]
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.history.append(x.shape[0])
        self.last = x
        return self.linear(x - self.mean)  # type: ignore[no-any-return]


def _add_one(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (args[0] + 1,)


def _double(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
    return output * 2


def _triple_gradient(module: nn.Module, grads: Any, outputs: Any) -> Any:
    return tuple(None if grad is None else grad * 3 for grad in grads)


@program(arguments=rows)
class Hooked(nn.Module):
    """A forward pre-hook and a forward hook."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.register_forward_pre_hook(_add_one)
        self.linear.register_forward_hook(_double)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + 1  # type: ignore[no-any-return]


@program(arguments=rows, graphs=None)
class HookedBackwards(nn.Module):
    """A full backward hook."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.register_full_backward_hook(_triple_gradient)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x * 2) + 1  # type: ignore[no-any-return]


@program(arguments=rows, graphs=None)
class Parametrized(nn.Module):
    """Weight and spectral norm, as parametrizations."""

    def __init__(self) -> None:
        super().__init__()
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.spectral(self.normed(x))  # type: ignore[no-any-return]


@program(arguments=lambda: (rand(2, 5, 4),))
class Recurrent(nn.Module):
    """Cells in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)
        self.lstm = nn.LSTMCell(4, 3)
        self.plain = nn.RNNCell(4, 3)

    def forward(self, x: Tensor) -> tuple[Any, ...]:
        h, state, p = x.new_zeros(2, 3), None, None
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            state = self.lstm(x[:, t], state)
            p = self.plain(x[:, t], p)
        return h, state, p


@program(arguments=lambda: (rand(2, 5, 4),), graphs=None)
class WholeSequences(nn.Module):
    """GRU and RNN over sequences, multi-head attention, embedding bag."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 3, batch_first=True, bidirectional=True)
        self.rnn = nn.RNN(4, 3, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.bag = nn.EmbeddingBag(6, 4)

    def forward(self, x: Tensor) -> tuple[Any, ...]:
        y, weights = self.attention(x, x, x)
        return self.gru(x), self.rnn(x)[0], y, weights, self.bag(torch.tensor([[1, 2], [3, 4]]))


@program(arguments=rows)
class Nested(nn.Module):
    """A submodule called twice, a method, a property, a container output, a constant tensor attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.constant = torch.arange(4.0)
        self.dropout = nn.Dropout(0.3)

    @property
    def scale(self) -> float:
        return 2.0 if self.training else 1.0

    def block(self, x: Tensor, *, extra: Tensor | None = None) -> Tensor:
        y = self.dropout(self.norm(self.linear(x)))
        return y if extra is None else y + extra

    def forward(self, x: Tensor) -> dict[str, Any]:
        y = self.block(self.block(x), extra=self.constant)
        return {"out": y * self.scale, "list": [y, (x, self.constant)], "none": None}


@program(arguments=rows, graphs=None)
class Introspective(nn.Module):
    """Looks at its own parameters and submodules."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        penalty = sum(p.pow(2).sum() for p in self.parameters())
        names = [name for name, _ in self.named_children()]
        for module in self.children():
            x = module(x)
        return x + penalty + len(names) + next(self.parameters()).dtype.itemsize
