"""A new process: importing, and the first trace with everything that it imports.  Whole processes are timed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compilers import EAGER, FRAMEHOOK, PEER, Compiler

ROOT = Path(__file__).resolve().parent.parent

IMPORT = {EAGER.name: "import torch", PEER.name: "import torch", FRAMEHOOK.name: "import torch, framehook"}
COMPILE = {EAGER.name: "", PEER.name: "torch.compile", FRAMEHOOK.name: "framehook.compile"}

ROWS = {
    "import": "",
    "first call of two operations": "x = torch.ones(4)\nCOMPILE(lambda x: x * 2 + 1)(x)",
    "first call of BERT, 12 layers": (
        "from tests.models.zoo import by_name\n"
        "zoo = by_name('bert')\n"
        "model = zoo.build(layers=12).eval()\n"
        "with torch.no_grad():\n"
        "    COMPILE(model)(**zoo.inference())"
    ),
}


@pytest.mark.parametrize("title", ROWS)
def test_cold_start(title: str, smoke: bool, side_by_side: Callable[..., None]) -> None:
    if smoke and "BERT" in title:
        pytest.skip("a smoke run is quick")

    def process(compiler: Compiler) -> Callable[[], Any]:
        # Its backend does nothing: what is timed is the front end.
        call = "(lambda fn: fn)"
        if compiler is not EAGER:
            call = f"(lambda fn: {COMPILE[compiler.name]}(fn, backend='eager'))"
        source = f"{IMPORT[compiler.name]}\n{ROWS[title].replace('COMPILE', call)}"
        return partial(
            subprocess.run, [sys.executable, "-c", source], cwd=ROOT, check=True, capture_output=True
        )

    columns = {compiler.name: partial(process, compiler) for compiler in (EAGER, PEER, FRAMEHOOK)}
    side_by_side("cold_start", title, columns, rounds=5)
