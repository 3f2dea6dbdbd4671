"""Pieces of training scripts: each gives eager's results, gradients, buffers, state and random numbers, call after call."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

import framehook
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics import training_compiling, training_modules, training_optimizers, training_precision
from tests.semantics.training_table import SCRIPTS, Running, Script

#: They fill the table.
TABLES = (training_modules, training_precision, training_optimizers, training_compiling)


def run(script: Script, compile: Callable[[Any], Any], note: Callable[[], Any] = lambda: None) -> list[Any]:
    """All that can be seen of a script after each call; `note` is called then, too."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = script.make(compile)
        for call in range(script.calls):
            result = running.step(call)
            note()
            by_chance = (torch.get_rng_state(), random.random(), float(numpy.random.rand()))
            seen.append(snapshot((result, running.state(), by_chance)))
    return seen


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    script = SCRIPTS[name]
    expected = run(script, lambda fn: fn)
    counter = CompileCounter()
    counts: list[int] = []
    got = run(
        script, lambda fn: framehook.compile(fn, backend=counter), lambda: counts.append(counter.frame_count)
    )
    for call, (actual, wanted) in enumerate(zip(got, expected, strict=True)):
        assert_same(actual, wanted, exact=script.is_exact, where=f"call {call}")
    breaks = "; ".join(framehook.stats().graph_breaks)
    assert (counts[0], counts[-1]) == (script.graphs, script.in_all), breaks


def _lbfgs(compile: Callable[[Any], Any]) -> Running:
    module = training_optimizers.model()
    optimizer = torch.optim.LBFGS(module.parameters(), lr=0.5, max_iter=3, line_search_fn="strong_wolfe")

    def step(call: int) -> Any:
        def evaluate() -> Any:
            optimizer.zero_grad()
            loss = module(torch.randn(4, 4)).square().sum()
            loss.backward()
            return loss

        return optimizer.step(evaluate)

    return Running(compile(step), lambda: (module, optimizer.state_dict()))


def test_an_optimizer_that_breaks_many_times() -> None:
    """Its numbers of graphs are of no interest; its results are."""
    script = Script(_lbfgs, graphs=0, in_all=0, peer=None, calls=3, is_exact=True, reason="")
    actual = run(script, lambda fn: framehook.compile(fn, backend="eager"))
    assert_same(actual, run(script, lambda fn: fn), exact=True, where="LBFGS")
