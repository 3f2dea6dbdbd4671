"""Memory that is in use after the first call of a model and was not before, in a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compilers import FRAMEHOOK, PEER

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3

SOURCE = """
import gc, torch, framehook
from tests.models.zoo import by_name
from tests.resident_memory import resident_bytes

zoo = by_name("bert")
model, kwargs = zoo.build(layers=LAYERS).eval(), zoo.inference()
with torch.no_grad():
    model(**kwargs)
    gc.collect()
    before = resident_bytes()
    compiled = COMPILE(model, backend="eager")
    compiled(**kwargs)
    gc.collect()
print(resident_bytes() - before)
"""
COMPILE = {PEER.name: "torch.compile", FRAMEHOOK.name: "framehook.compile"}


def _grown(name: str, layers: int) -> int:
    source = SOURCE.replace("LAYERS", str(layers)).replace("COMPILE", COMPILE[name])
    ran = subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True, capture_output=True, text=True)
    return int(ran.stdout)


@pytest.mark.parametrize("layers", [12])
def test_memory(layers: int, smoke: bool, benchmark: Any) -> None:
    if smoke:
        pytest.skip("a smoke run is quick")
    grown: dict[str, list[int]] = {name: [] for name in COMPILE}

    def in_turns() -> None:
        for name in COMPILE:
            grown[name].append(_grown(name, layers))

    benchmark.pedantic(in_turns, rounds=ROUNDS)
    medians = {name: statistics.median(values) for name, values in grown.items()}
    row = f"first call of BERT, {layers} layers"
    benchmark.extra_info.update(table="memory", rows={row: (medians, 1, "bytes")})
