"""The table of models (`make zoo`): graphs, operations and trace seconds, framehook and the peer, and who is right.

python -m benchmarks.zoo [--training] [--backend aot_eager] [--markdown] [MODEL …]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.compilers import FRAMEHOOK, PEER, Compiler
from framehook.testing import assert_same, snapshot
from tests.models.zoo import ZOO, ZooModel, by_name, fields, loss_of

HEADER = ("model", "graphs", "peer", "operations", "peer", "trace s", "peer", "result", "peer")


class Counting:
    """A backend that counts graphs and operations and the seconds that it takes itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graphs = 0
        self.operations = 0
        self.seconds = 0.0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        start = time.perf_counter()
        self.graphs += 1
        self.operations += sum(node.op.startswith("call_") for node in graph.graph.nodes)
        compiled: Callable[..., Any] = graph.forward
        if self.name != "eager":
            import framehook

            compiled = framehook.backends.get(self.name)(graph, inputs)
        self.seconds += time.perf_counter() - start
        return compiled


@dataclass(frozen=True)
class Capture:
    """What one compiler made of one model; `verdict` is "right", or what is wrong."""

    graphs: int
    operations: int
    seconds: float
    verdict: str


def run(fn: Callable[..., Any], module: nn.Module, model: ZooModel, training: bool) -> dict[str, Any]:
    """The fields of one output; in training, gradients too."""
    torch.manual_seed(3)
    if not training:
        with torch.no_grad():
            return fields(fn(**model.inference()))
    module.zero_grad()
    output = fn(**model.training())
    loss_of(output).backward()
    return fields(output) | {name: parameter.grad for name, parameter in module.named_parameters()}


def capture(compiler: Compiler, model: ZooModel, training: bool, backend: str) -> Capture:
    """Compile a new instance, call it twice, compare both results with eager's."""
    compiler.reset()
    reference, module = (model.build().train(training) for _ in range(2))
    expected = run(reference, reference, model, training)
    counting = Counting(backend)
    compiled = compiler.compile(module, backend=counting)
    start = time.perf_counter()
    try:
        first = run(compiled, module, model, training)
        # Includes one run of the graph (and of its backward), the same for both.
        seconds = time.perf_counter() - start - counting.seconds
        results = [(first, expected)]
        if not training:  # buffers of a model in training differ in the second step
            results.append((run(compiled, module, model, training), expected))
        for actual, wanted in results:
            assert_same(snapshot(_plain(actual)), snapshot(_plain(wanted)), exact=False, where=model.name)
        verdict = "right"
    except Exception as error:
        seconds = time.perf_counter() - start - counting.seconds
        verdict = "WRONG: " + (str(error).splitlines() or [type(error).__name__])[0][:60]
    return Capture(counting.graphs, counting.operations, seconds, verdict)


def _plain(value: Any) -> Any:
    return {
        key: item.detach() if isinstance(item, Tensor) else type(item).__name__ for key, item in value.items()
    }


def table(models: Sequence[ZooModel], training: bool, backend: str) -> list[tuple[str, ...]]:
    """The rows, made one by one with a line of progress on a terminal."""
    rows = []
    for compiler in (FRAMEHOOK, PEER):  # what a process pays once is not a model's
        compiler.compile(nn.Linear(2, 2), backend=Counting(backend))(torch.ones(1, 2)).sum().backward()
    for model in models:
        if sys.stderr.isatty():
            print(f"\r{model.name} …\x1b[K", end="", file=sys.stderr, flush=True)
        ours, theirs = (capture(compiler, model, training, backend) for compiler in (FRAMEHOOK, PEER))
        rows.append(
            (
                model.name,
                str(ours.graphs),
                str(theirs.graphs),
                str(ours.operations),
                str(theirs.operations),
                f"{ours.seconds:.2f}",
                f"{theirs.seconds:.2f}",
                ours.verdict,
                theirs.verdict,
            )
        )
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return rows


def render(rows: Sequence[tuple[str, ...]], markdown: bool) -> str:
    """A table for people, or in Markdown."""
    if markdown:
        lines = [HEADER, ("---",) * len(HEADER), *rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in (0, 7, 8) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in (HEADER, *rows)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(model.name for model in ZOO))
    parser.add_argument("--training", action="store_true", help="with labels, and gradients compared")
    parser.add_argument("--backend", default="eager", help="what runs the graphs")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    unknown = set(options.models) - {model.name for model in ZOO}
    if unknown:
        parser.error(f"unknown model: {', '.join(sorted(unknown))}")
    models = [by_name(name) for name in options.models] or ZOO
    # The peer captures recurrent layers only when asked to.
    with torch._dynamo.config.patch(allow_rnn=True):
        rows = table(models, options.training, options.backend)
    print(render(rows, options.markdown))
    return 1 if any(row[7] != "right" for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
