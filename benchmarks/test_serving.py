"""A service: requests of random sizes to a small encoder with Inductor, compiles included.

Both compilers get the same requests, in turns, one request each; neither has cached compiles of earlier runs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import Tensor, nn
from torch._inductor.compile_fx import compile_fx

import framehook
from benchmarks.compilers import FRAMEHOOK, PEER

REQUESTS = 2000
#: Requests before which misses and compiles are expected.
WARM_UP = 200
VOCABULARY = 1000


class Layer(nn.Module):
    """Attention and a feed-forward network, each with its norm and a way around."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.queries_keys_values, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.network = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        projected = self.queries_keys_values(self.before_attention(x))
        q, k, v = projected.view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, hidden)
        x = x + self.out(attended)
        return x + self.network(self.before_network(x))


class Encoder(nn.Module):
    """Tokens (batch, length) to one vector each (batch, hidden)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, hidden), nn.Embedding(128, hidden)
        self.layers = nn.ModuleList(Layer(hidden, 4) for _ in range(2))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(1)


class Mix(NamedTuple):
    """Sizes of requests, whether they are padded to powers of two, and the ratio of latencies that is asked for."""

    hidden: int
    batches: tuple[int, int]
    lengths: tuple[int, int]
    is_padded: bool
    goal: float

    def sizes(self, count: int) -> list[tuple[int, int]]:
        """The sizes (batch, length) of `count` requests, the same in each run."""
        draw = random.Random(0)
        drawn = [(draw.randint(*self.batches), draw.randint(*self.lengths)) for _ in range(count)]
        return [tuple(map(_power, each)) for each in drawn] if self.is_padded else drawn  # type: ignore[misc]


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


MIXES = {
    "batch 1 to 64, length 8 to 128": Mix(128, (1, 64), (8, 128), False, 0.98),
    "the same, padded to powers of two": Mix(128, (1, 64), (8, 128), True, 0.98),
    "batch 1 to 4, length 4 to 16": Mix(32, (1, 4), (4, 16), False, 1.25),
}


class Served:
    """One compiler with its model: seconds of each request, and how many graphs it compiled."""

    def __init__(self, model: nn.Module, name: str, smoke: bool) -> None:
        self.seconds: list[float] = []
        self.compiles_when_warm = 0
        self._graphs = 0
        self._is_peer = name == PEER.name
        if self._is_peer:
            self._fn: Any = torch.compile(model, backend=self._backend(smoke))
        else:
            self._fn = framehook.compile(model, backend="eager" if smoke else "inductor")

    def _backend(self, smoke: bool) -> Callable[..., Any]:
        def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
            self._graphs += 1
            return graph.forward if smoke else compile_fx(graph, inputs)

        return backend

    def request(self, tokens: Tensor) -> Tensor:
        """Answer, and remember how long it took."""
        start = time.perf_counter()
        answer = self._fn(tokens)
        self.seconds.append(time.perf_counter() - start)
        if len(self.seconds) == WARM_UP:
            self.compiles_when_warm = self.compiles
        return answer  # type: ignore[no-any-return]

    @property
    def compiles(self) -> int:
        """Graphs so far."""
        return self._graphs if self._is_peer else framehook.stats(self._fn).compiles

    @property
    def hit_rate(self) -> float:
        """Of the requests behind the first: those that needed no compile."""
        later = max(len(self.seconds) - WARM_UP, 1)
        return 1 - (self.compiles - self.compiles_when_warm) / later

    def percentile(self, share: float) -> float:
        """Of the seconds of requests behind the first."""
        later = sorted(self.seconds[WARM_UP:] or self.seconds)
        return later[min(int(share * len(later)), len(later) - 1)]


@pytest.mark.parametrize("title", MIXES)
def test_serving(title: str, smoke: bool, benchmark: Any) -> None:
    mix = MIXES[title]
    torch.manual_seed(0)
    model = Encoder(mix.hidden).eval()
    served = {name: Served(model, name, smoke) for name in (PEER.name, FRAMEHOOK.name)}

    def serve() -> None:
        for number, (batch, length) in enumerate(mix.sizes(12 if smoke else REQUESTS)):
            generator = torch.Generator().manual_seed(number)
            tokens = torch.randint(0, VOCABULARY, (batch, length), generator=generator)
            expected = model(tokens)
            for each in served.values():
                torch.testing.assert_close(each.request(tokens), expected, rtol=1e-3, atol=1e-3)

    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        benchmark.pedantic(serve, rounds=1)
    if smoke:
        return
    figures: dict[str, tuple[Callable[[Served], float], float | None, str]] = {
        "compiles": (lambda s: s.compiles, 1, "number"),
        f"hit rate behind {WARM_UP} requests": (lambda s: s.hit_rate, None, "number"),
        "p50": (lambda s: s.percentile(0.5), mix.goal, "seconds"),
        "p99": (lambda s: s.percentile(0.99), mix.goal, "seconds"),
        "longest": (lambda s: max(s.seconds), 1, "seconds"),
        "all requests": (lambda s: sum(s.seconds), 1, "seconds"),
    }
    rows = {
        f"{title}: {figure}": ({name: of(each) for name, each in served.items()}, goal, unit)
        for figure, (of, goal, unit) in figures.items()
    }
    benchmark.extra_info.update(table="serving", rows=rows)
