"""Train a small GPT on English text, eager and compiled from the same seed, and show what compiling gives.

The text is the Python language reference that ships with CPython (`pydoc_data.topics`), read character by character.
Both runs see the same batches.  At the end: losses side by side, tokens per second, what was compiled, the step at
which compiling has paid for itself, and a picture with both loss curves and throughputs.

    python examples/train_gpt.py                       framehook with Inductor
    python examples/train_gpt.py --compiler torch      torch.compile instead, to compare
    python examples/train_gpt.py --steps 40 --backend eager
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor, nn

#: Losses of both runs are compared over so many steps, and may differ by so much.
COMPARED_STEPS = 50
TOLERANCE = 1e-3


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.query_key_value(x).split(width, dim=-1)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a norm and around it a residual."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


@dataclass
class Output:
    """Scores for the next character at every place, and the loss where targets were given."""

    logits: Tensor
    loss: Tensor | None = None


class GPT(nn.Module):
    """A decoder-only transformer over characters, with tied input and output embeddings."""

    def __init__(
        self, vocabulary: int, context: int, layers: int, width: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.context = context
        self.characters = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self._initialize)
        self.head.weight = self.characters.weight

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, characters: Tensor, targets: Tensor | None = None) -> Output:
        length = characters.shape[1]
        if length > self.context:
            raise ValueError(f"{length} characters do not fit into a context of {self.context}")
        x = self.characters(characters) + self.positions(torch.arange(length, device=characters.device))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        output = Output(self.head(self.norm(x)))
        if targets is not None:
            output.loss = F.cross_entropy(output.logits.flatten(0, 1), targets.flatten())
        return output


@dataclass(frozen=True)
class Text:
    """Text as numbers, and the characters that they stand for."""

    data: Tensor
    characters: str

    @classmethod
    def of_python_topics(cls) -> Text:
        """All topics of the language reference, one after the other."""
        text = "\n\n".join(topics[name] for name in sorted(topics))
        # Rare typographic signs would cost an embedding each and teach nothing.
        text = text.encode("ascii", errors="ignore").decode()
        characters = "".join(sorted(set(text)))
        number = {character: index for index, character in enumerate(characters)}
        return cls(torch.tensor([number[character] for character in text]), characters)

    def batches(self, size: int, context: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Random pieces and the same pieces one character further, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        while True:
            starts = torch.randint(len(self.data) - context - 1, (size,), generator=generator)
            pieces = torch.stack([self.data[start : start + context + 1] for start in starts.tolist()])
            yield pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


@dataclass
class Run:
    """One training run: a loss and the seconds of every step, and what the compiler did."""

    name: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def steady_seconds(self) -> float:
        """Median seconds of a step, the first ones, in which things are compiled, left out."""
        late = sorted(self.seconds[min(5, len(self.seconds) - 1) :])
        return late[len(late) // 2]


class CountedGraphs:
    """A backend that counts graphs and operations and hands them on to another."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self.inner = inner
        self.graphs = 0
        self.operations = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        self.graphs += 1
        self.operations += sum(node.op.startswith("call_") for node in graph.graph.nodes)
        return self.inner(graph, inputs, **options)


Compiled = tuple[Callable[..., Any], Callable[[], dict[str, Any]]]


def compile_with_framehook(fn: Callable[..., Any], backend: str) -> Compiled:
    """`framehook.compile`, and a function that tells what it did."""
    import framehook

    compiled = framehook.compile(fn, backend=backend)

    def facts() -> dict[str, Any]:
        stats = framehook.stats(compiled)
        return {
            "graphs": stats.graphs,
            "operations": stats.operations,
            "hit rate": stats.hit_rate,
            "graph breaks": len(stats.graph_breaks),
            "compile seconds, of them": stats.total_seconds,
            **{f"  {phase}": seconds for phase, seconds in stats.seconds.items() if seconds >= 0.01},
        }

    return compiled, facts


def compile_with_torch(fn: Callable[..., Any], backend: str) -> Compiled:
    """`torch.compile`, for comparison."""
    counted = CountedGraphs(torch._TorchCompileInductorWrapper("default", None, None))
    compiled = torch.compile(fn, backend=counted if backend == "inductor" else backend)
    return compiled, lambda: {"graphs": counted.graphs, "operations": counted.operations}


COMPILERS = {"framehook": compile_with_framehook, "torch": compile_with_torch}


def train(
    run: Run,
    options: argparse.Namespace,
    text: Text,
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    progress: Progress,
) -> GPT:
    """Train from the seed; fill in `run`."""
    torch.manual_seed(options.seed)
    model = GPT(
        len(text.characters), options.context, options.layers, options.width, options.heads, options.dropout
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.95))

    def loss_of(model: GPT, characters: Tensor, targets: Tensor) -> Tensor:
        loss = model(characters, targets).loss
        assert loss is not None
        return loss

    step = wrap(loss_of)
    tokens = options.batch * options.context
    task = progress.add_task(run.name, total=options.steps, loss="", rate="")
    batches = text.batches(options.batch, options.context, options.seed)
    for index, (characters, targets) in enumerate(itertools.islice(batches, options.steps)):
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(index, options)
        loss = step(model, characters, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        run.losses.append(loss.item())
        run.seconds.append(time.perf_counter() - start)
        rate = f"{tokens / run.steady_seconds():,.0f} tokens/s"
        progress.update(task, advance=1, loss=f"loss {run.losses[-1]:.3f}", rate=rate)
    return model


def learning_rate(step: int, options: argparse.Namespace) -> float:
    """Linear warm-up, then a cosine down to a tenth."""
    if step < options.warmup:
        return float(options.learning_rate * (step + 1) / options.warmup)
    part = (step - options.warmup) / max(1, options.steps - options.warmup)
    return float(options.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * part))))


def largest_difference(eager: Run, compiled: Run) -> float:
    """The largest relative difference of the losses over the first steps."""
    pairs = list(zip(eager.losses, compiled.losses, strict=True))[:COMPARED_STEPS]
    return max(abs(left - right) / abs(left) for left, right in pairs)


def break_even_step(eager: Run, compiled: Run) -> int | None:
    """The first step at which the compiled run is ahead and stays so, extrapolated past the end if need be."""
    ahead = 0.0
    found: int | None = None
    for index, (left, right) in enumerate(zip(eager.seconds, compiled.seconds, strict=True), 1):
        ahead += left - right
        if ahead < 0:
            found = None
        elif found is None:
            found = index
    if found is not None:
        return found
    gain = eager.steady_seconds() - compiled.steady_seconds()
    return None if gain <= 0 else len(eager.seconds) + math.ceil(-ahead / gain)


@torch.no_grad()
def sample(model: GPT, text: Text, count: int = 160) -> str:
    """Let the model write."""
    model.eval()
    generator = torch.Generator().manual_seed(0)
    written = [text.characters.index("T")]
    for _ in range(count):
        logits = model(torch.tensor([written[-model.context :]])).logits[0, -1]
        chances = F.softmax(logits / 0.8, dim=-1)
        written.append(int(torch.multinomial(chances, 1, generator=generator)))
    return "".join(text.characters[number] for number in written)


def draw(path: Path, eager: Run, compiled: Run, tokens: int) -> None:
    """Both loss curves and both throughputs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    left.plot(eager.losses, label="eager", linewidth=3, alpha=0.4)
    left.plot(compiled.losses, label=compiled.name, linewidth=1)
    left.set(xlabel="step", ylabel="loss (nats per character)", title="The same losses")
    left.legend()
    for run in (eager, compiled):
        right.plot([tokens / seconds for seconds in run.seconds], label=run.name, linewidth=1)
    right.set(xlabel="step", ylabel="tokens per second", title="Throughput", ylim=(0, None))
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report(console: Console, eager: Run, compiled: Run, options: argparse.Namespace) -> bool:
    """Print the table; return whether the losses agree."""
    tokens = options.batch * options.context
    difference = largest_difference(eager, compiled)
    agree = difference <= TOLERANCE
    table = Table(title="eager and compiled, side by side")
    table.add_column("")
    table.add_column("eager", justify="right")
    table.add_column(compiled.name, justify="right")
    for step in sorted({1, min(COMPARED_STEPS, options.steps), options.steps}):
        table.add_row(f"loss at step {step}", *(f"{run.losses[step - 1]:.5f}" for run in (eager, compiled)))
    rates = [tokens / run.steady_seconds() for run in (eager, compiled)]
    table.add_row("tokens per second", *(f"{rate:,.0f}" for rate in rates))
    table.add_row("seconds in all", *(f"{sum(run.seconds):.1f}" for run in (eager, compiled)))
    table.add_row("seconds of the first step", *(f"{run.seconds[0]:.1f}" for run in (eager, compiled)))
    for name, value in compiled.facts.items():
        shown = (
            f"{value:.1%}" if name == "hit rate" else f"{value:.2f}" if isinstance(value, float) else value
        )
        table.add_row(name, "", str(shown))
    step = break_even_step(eager, compiled)
    table.add_row("paid for itself at step", "", "never" if step is None else str(step))
    table.add_row("speed", "1.00", f"{rates[1] / rates[0]:.2f}")
    console.print(table)
    verdict = "[green]agree[/]" if agree else "[red]DIFFER[/]"
    compared = min(COMPARED_STEPS, options.steps)
    console.print(f"Losses {verdict}: largest relative difference over {compared} steps {difference:.1e}.")
    return agree


def parse_options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", choices=sorted(COMPILERS), default="framehook")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=96)
    parser.add_argument("--batch", type=int, default=12, help="pieces of text per step")
    # Eager and Inductor draw different random numbers: with dropout the losses could not be compared.
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=20, help="steps over which the learning rate rises")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("train_gpt.png"), help="the picture")
    parser.add_argument("--json", type=Path, help="write all numbers here too")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps must be at least 2")
    if options.width % options.heads:
        parser.error("--width must be a multiple of --heads")
    return options


def main() -> int:
    options = parse_options()
    console = Console()
    text = Text.of_python_topics()
    console.print(
        f"{len(text.data):,} characters of the Python language reference, {len(text.characters)} different; "
        f"GPT with {options.layers} layers of width {options.width}"
    )
    eager, compiled = Run("eager"), Run("framehook" if options.compiler == "framehook" else "torch.compile")
    facts: Callable[[], dict[str, Any]] = dict

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        nonlocal facts
        wrapped, facts = COMPILERS[options.compiler](fn, options.backend)
        return wrapped

    columns = (
        TextColumn("{task.description:>13}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        train(eager, options, text, lambda fn: fn, progress)
        model = train(compiled, options, text, wrap, progress)
    compiled.facts = facts()
    agree = report(console, eager, compiled, options)
    console.print(f"\nThe model writes: [dim]{sample(model, text)!r}[/]")
    draw(options.out, eager, compiled, options.batch * options.context)
    console.print(f"Picture: {options.out}")
    if options.json:
        numbers = {
            run.name: {"losses": run.losses, "seconds": run.seconds, **run.facts} for run in (eager, compiled)
        }
        options.json.write_text(json.dumps(numbers, indent=1))
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
