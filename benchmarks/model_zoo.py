"""The table of models (`make zoo`): graphs, operations and trace seconds of framehook and the peer, and who is right.

python -m benchmarks.model_zoo [--write docs/models.md] [--keep FILE] [--backend aot_eager] [MODEL …]

Every model runs twice, in inference and in training with the gradients compared.  A run of all takes long: with
`--keep`, what was measured is kept in a file of JSON lines, and a later run measures only what is not in it.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import framehook
from benchmarks.compilers import FRAMEHOOK, PEER, Compiler
from framehook.testing import assert_same, snapshot
from tests.models.architectures import TEXT_MODELS
from tests.models.architectures_media import MEDIA_MODELS
from tests.models.zoo import ZOO, ZooModel, fields, loss_of

COMPILERS = {"framehook": FRAMEHOOK, "peer": PEER}
MODES = ("inference", "training")
#: The models of the test-suite that are no architecture of transformers, and all architectures.
MODELS = {model.name: model for model in [*ZOO, *TEXT_MODELS, *MEDIA_MODELS]}
HEADER = ("model", "graphs", "peer", "operations", "peer", "trace s", "peer", "result", "peer", "first break")


class Counting:
    """A backend that counts graphs and operations and the seconds that it takes itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graphs = 0
        self.operations = 0
        self.seconds = 0.0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        start = time.process_time()
        self.graphs += 1
        self.operations += sum(node.op.startswith("call_") for node in graph.graph.nodes)
        compiled: Callable[..., Any] = graph.forward
        if self.name != "eager":
            compiled = framehook.backends.get(self.name)(graph, inputs)
        self.seconds += time.process_time() - start
        return compiled


@dataclass(frozen=True)
class Capture:
    """What one compiler made of one model; `verdict` is "right", or what is wrong."""

    model: str
    mode: str
    compiler: str
    graphs: int
    operations: int
    seconds: float | None  # None: not timed
    verdict: str
    breaks: list[str] = field(default_factory=list)


def run(fn: Callable[..., Any], module: nn.Module, model: ZooModel, training: bool) -> dict[str, Any]:
    """The fields of one output; in training, gradients too."""
    torch.manual_seed(3)
    random.seed(3)
    if not training:
        with torch.no_grad():
            return fields(fn(**model.inference()))
    module.zero_grad()
    output = fn(**model.training())
    loss_of(output).backward()
    return fields(output) | {name: parameter.grad for name, parameter in module.named_parameters()}


def capture(name: str, model: ZooModel, training: bool, backend: str) -> Capture:
    """Compile a new instance, call it twice, compare both results with eager's."""
    compiler: Compiler = COMPILERS[name]
    compiler.reset()
    reference, module = (model.build().train(training) for _ in range(2))
    expected = [_plain(run(reference, reference, model, training)) for _ in range(2)]
    counting = Counting(backend)
    breaks: list[str] = []
    off = framehook.events.on("graph_break", lambda event: breaks.append(event.reason))
    compiled = compiler.compile(module, backend=counting)
    start = time.process_time()
    seconds = 0.0
    actual = []
    try:
        for _ in expected:
            actual.append(_plain(run(compiled, module, model, training)))
            # Includes one run of the graph (and of its backward), the same for both.
            seconds = seconds or time.process_time() - start - counting.seconds
        verdict = _difference(actual, expected, model)
        if verdict != "right" and _difference(actual, _as_if_compiling(model, training), model) == "right":
            verdict = "right, as if compiling"
    except Exception as error:
        verdict = f"raises {type(error).__name__}"
    off()
    seconds = seconds or time.process_time() - start - counting.seconds
    mode = MODES[training]
    reasons = list(dict.fromkeys(breaks))
    return Capture(
        model.name, mode, name, counting.graphs, counting.operations, round(seconds, 3), verdict, reasons
    )


def _difference(actual: list[Any], expected: list[Any], model: ZooModel) -> str:
    """ "right", or what is wrong."""
    try:
        assert_same(snapshot(actual), snapshot(expected), exact=False, where=model.name)
    except AssertionError as error:
        return f"WRONG: {_first_line(error)}"
    return "right"


def _as_if_compiling(model: ZooModel, training: bool) -> list[Any]:
    """What eager gives where the model is told that it is being compiled."""
    module = model.build().train(training)
    with mock.patch.object(torch.compiler, "is_compiling", lambda: True):
        return [_plain(run(module, module, model, training)) for _ in range(2)]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:60]


def _plain(value: Any) -> Any:
    return {
        key: item.detach() if isinstance(item, Tensor) else type(item).__name__ for key, item in value.items()
    }


class Kept:
    """Captures by (model, mode, compiler), in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[tuple[str, str, str], Capture] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                row = Capture(**json.loads(line))
                self.rows[row.model, row.mode, row.compiler] = row

    def add(self, row: Capture) -> None:
        """Note a capture."""
        self.rows[row.model, row.mode, row.compiler] = row
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")


def measure(kept: Kept, models: Sequence[ZooModel], compilers: Sequence[str], backend: str) -> None:
    """Capture what is not there yet, with a line of progress on a terminal."""
    for name in compilers:  # what a process pays once is not a model's
        warm = COMPILERS[name].compile(nn.Linear(2, 2), backend=Counting(backend))
        warm(torch.ones(1, 2)).sum().backward()
    for model in models:
        for training, mode in enumerate(MODES):
            for name in compilers:
                if (model.name, mode, name) in kept.rows:
                    continue
                if sys.stderr.isatty():
                    print(f"\r{model.name} {mode} {name} …\x1b[K", end="", file=sys.stderr, flush=True)
                kept.add(capture(name, model, bool(training), backend))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def rows_of(kept: Kept, models: Sequence[ZooModel], mode: str) -> Iterator[tuple[str, ...]]:
    """The cells of a table."""
    nothing = Capture("", mode, "", 0, 0, 0.0, "not measured")
    for model in models:
        ours, theirs = (kept.rows.get((model.name, mode, name), nothing) for name in COMPILERS)
        yield (
            model.name,
            str(ours.graphs),
            str(theirs.graphs),
            str(ours.operations),
            str(theirs.operations),
            *("-" if row.seconds is None else f"{row.seconds:.2f}" for row in (ours, theirs)),
            ours.verdict,
            theirs.verdict,
            ours.breaks[0] if ours.breaks else "",
        )


def render(rows: Sequence[tuple[str, ...]], markdown: bool) -> str:
    """A table for people, or in Markdown."""
    if markdown:
        lines = [HEADER, ("---",) * len(HEADER), *rows]
        return "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines
        )
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 0 < index < 7 else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in (HEADER, *rows)
    )


PAGE = """\
# Models

What framehook and `torch.compile` ("peer") make of {count} models with tiny random configurations; `make zoo` writes
this page.  torch {torch}, transformers {transformers}, backend `{backend}`, Python {python}.

Each model is called twice.  *graphs* and *operations* count what reached the backend in both calls together; one
graph means that the whole call was captured and that the second call compiled nothing.  *trace s* is processor time
of the first call without that of the backend ("-": not timed).  *result* compares both calls with eager's: outputs,
and in training all gradients; a model that computes something else where `torch.compiler.is_compiling()` is true is
"right, as if compiling" when it gives what eager gives there.  *first break* is framehook's reason for more than one
graph.  Some of them are in the models: layers that are dropped at random (`layerdrop`), attention to positions and
experts that are found by value, `if mask.any():`, and what a model writes into itself in its first call depend on
data or on the call, and break or compile again for both.

## Summary

{summary}
"""


def summary(kept: Kept, models: Sequence[ZooModel]) -> str:
    """Figures over all models."""
    lines = []
    for mode in MODES:
        pairs = [
            [kept.rows[model.name, mode, name] for name in COMPILERS]
            for model in models
            if all((model.name, mode, name) in kept.rows for name in COMPILERS)
        ]
        single = [pair for pair in pairs if all(map(_is_timed_in_one_graph, pair))]
        ours, theirs = (sum(row.seconds or 0.0 for row in column) for column in zip(*single, strict=True))
        lines.append(
            f"- {mode}: of {len(pairs)} models framehook is right for {_right(pairs, 0)} (peer: {_right(pairs, 1)}) "
            f"and captures\n  {_single(pairs, 0)} in one graph (peer: {_single(pairs, 1)}).  The {len(single)} that "
            f"both capture so and that are timed for both take\n  {ours:.1f} s to trace (peer: {theirs:.1f} s)."
        )
    return "\n".join(lines)


def _is_timed_in_one_graph(row: Capture) -> bool:
    return row.graphs == 1 and row.verdict.startswith("right") and row.seconds is not None


def _right(pairs: list[list[Capture]], side: int) -> int:
    return sum(pair[side].verdict.startswith("right") for pair in pairs)


def _single(pairs: list[list[Capture]], side: int) -> int:
    return sum(pair[side].verdict.startswith("right") and pair[side].graphs == 1 for pair in pairs)


def write_page(path: Path, kept: Kept, models: Sequence[ZooModel], backend: str) -> None:
    """Write the page of the documentation."""
    import transformers

    text = PAGE.format(
        count=len(models),
        torch=torch.__version__.split("+")[0],
        transformers=transformers.__version__,
        backend=backend,
        python=".".join(map(str, sys.version_info[:3])),
        summary=summary(kept, models),
    )
    for mode in MODES:
        text += f"\n## {mode.capitalize()}\n\n{render(list(rows_of(kept, models, mode)), markdown=True)}\n"
    path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--backend", default="eager", help="what runs the graphs")
    parser.add_argument("--only", choices=list(COMPILERS), help="measure one of the two")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep what is measured, measure what is not there"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the page of the documentation")
    options = parser.parse_args()
    unknown = set(options.models) - set(MODELS)
    if unknown:
        parser.error(f"unknown model: {', '.join(sorted(unknown))}")
    models = [MODELS[name] for name in options.models or MODELS]
    kept = Kept(options.keep)
    # What models and the peer say about themselves would hide the table.
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    # The peer captures recurrent layers only when asked to.
    with torch._dynamo.config.patch(allow_rnn=True):
        measure(kept, models, [options.only] if options.only else list(COMPILERS), options.backend)
    for mode in MODES:
        print(f"{mode}\n{render(list(rows_of(kept, models, mode)), markdown=False)}\n")
    if options.write is not None:
        write_page(options.write, kept, models, options.backend)
    ours = [
        row
        for row in kept.rows.values()
        if row.compiler == "framehook" and row.model in {m.name for m in models}
    ]
    return 1 if any(not row.verdict.startswith("right") for row in ours) else 0


if __name__ == "__main__":
    raise SystemExit(main())
