"""One of CPython's test modules with and without framehook, each in a process of its own, compared test by test.

How much was traced is counted twice, both times from `stats()`.  A frame is one activation of a function that may be
captured on its own (no generators, class or module bodies); it is whole if one trace has followed it from its first
to its last instruction, as a frame of its own or inlined in another.  What a frame is resumed with behind a graph break
is no frame.  As the guards of one frame may fail again and again, and what it inlines is then traced again, the share
that is asked for is that of the functions: each counts once, and is whole only if every frame of it was.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_LAST_LINES = 25


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What one module's two runs gave.

    Attributes:
        differences: what ended otherwise with framehook, or that a run crashed or took too long.
        tests: tests that were run.
        whole, attempted: functions each of whose frames was traced whole, and all of which frames were traced.
        whole_frames, frames: the same in frames.
        breaks: reasons of graph breaks and of frames that stay eager; each with the functions that were left there.
        internal_errors: failures of framehook itself, one line each.
        seconds: both runs together, start of the processes included.
    """

    module: str
    differences: list[str]
    tests: int = 0
    whole: int = 0
    attempted: int = 0
    whole_frames: int = 0
    frames: int = 0
    breaks: list[tuple[str, list[str]]] = dataclasses.field(default_factory=list)
    internal_errors: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_transparent(self) -> bool:
        """Whether nobody could have noticed."""
        return not self.differences and not self.internal_errors

    @property
    def share(self) -> float:
        """Functions of which every frame was traced whole, of all."""
        return self.whole / self.attempted if self.attempted else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.module}: {self.tests} tests, {len(self.differences)} differ; {self.whole} of {self.attempted} "
            f"functions whole ({self.share:.0%}), {self.whole_frames} of {self.frames} frames; {len(self.internal_errors)} internal errors; {self.seconds:.0f} s",
            *(f"  differs: {each}" for each in self.differences),
            *(f"  internal error: {each}" for each in self.internal_errors),
        ]
        return "\n".join(lines)


def missing(module: str) -> str:
    """Why a module cannot be run with this interpreter; empty if it can."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.support") is None:
        return "this interpreter comes without CPython's own tests (the package `test`)"
    if importlib.util.find_spec(f"test.{module}") is None:
        return f"this Python has no test.{module}"
    return ""


def compare(module: str, limit: float = 600.0) -> Comparison:
    """Run a module's tests twice and compare how each of them ended.

    Args:
        module: a name in `test`, as `test_grammar`.
        limit: seconds that each run may take.
    """
    started = time.perf_counter()
    plain = _run(module, limit)
    captured = _run(module, limit, "--captured")
    differences = []
    for words, run in (("without framehook", plain), ("with framehook", captured)):
        if isinstance(run, str):
            differences.append(f"the run {words} ended with {run}")
    if isinstance(plain, str) or isinstance(captured, str):
        return Comparison(module, differences, seconds=time.perf_counter() - started)
    if plain["load_errors"] != captured["load_errors"]:
        differences.append(f"loading: {captured['load_errors']}")
    absent = ("absent", "")
    for test in {**plain["outcomes"], **captured["outcomes"]}:
        expected, _ = plain["outcomes"].get(test, absent)
        actual, text = captured["outcomes"].get(test, absent)
        if actual != expected:
            differences.append(f"{test}: {expected}, with framehook {actual}\n{text}")
    stats = captured["stats"]
    functions = [each for each in map(_frames, stats["functions"].values()) if each[1]]
    return Comparison(
        module,
        differences,
        len(plain["outcomes"]),
        sum(whole == frames for whole, frames in functions),
        len(functions),
        *_frames(stats),
        [(reason, places) for reason, places in stats["breaks"]],
        stats["internal"],
        time.perf_counter() - started,
    )


def _frames(stats: dict[str, Any]) -> tuple[int, int]:
    """Frames that were traced whole, and all that were traced."""
    return stats["whole_frames"], stats["whole_frames"] + stats["partial_frames"] + stats["eager_frames"]


def _run(module: str, limit: float, *options: str) -> Any:
    """What the worker wrote, or in words how it ended."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "outcomes.json"
        command = [sys.executable, "-m", "tests.transparency.worker", module, str(output), *options]
        try:
            done = subprocess.run(
                [*command, "--limit", str(limit)],
                cwd=_ROOT,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit + 30,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {limit:.0f} s"
        if done.returncode or not output.exists():
            last = "\n".join(done.stderr.splitlines()[-_LAST_LINES:])
            return f"exit status {done.returncode}:\n{last}"
        return json.loads(output.read_text(encoding="utf-8"))
