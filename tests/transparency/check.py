"""One of CPython's test modules with and without framehook, each in a process of its own, compared test by test.

How much was traced is counted twice, both times from `stats()`.  A frame is one activation of a function that may be
captured on its own (no generators, class or module bodies); it is whole if one trace has followed it from its first
to its last instruction, as a frame of its own or inlined in another.  What a frame is resumed with behind a graph break
is no frame.  As the guards of one frame may fail again and again, and what it inlines is then traced again, functions are
counted as well, a harder measure: each counts once, and is whole only if every frame of it was.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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
        plain_seconds, captured_seconds: processor time of the tests in each of the two runs.
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
    plain_seconds: float = 0.0
    captured_seconds: float = 0.0

    @property
    def is_transparent(self) -> bool:
        """Whether nobody could have noticed."""
        return not self.differences and not self.internal_errors

    def to_dict(self) -> dict[str, Any]:
        """All but the breaks."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "breaks"}

    @property
    def share(self) -> float:
        """Functions of which every frame was traced whole, of all."""
        return self.whole / self.attempted if self.attempted else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.module}: {self.tests} tests, {len(self.differences)} differ; {self.whole} of {self.attempted} "
            f"functions whole ({self.share:.0%}), {self.whole_frames} of {self.frames} frames; {len(self.internal_errors)} internal errors; {self.plain_seconds:.1f} s, with framehook {self.captured_seconds:.1f} s",
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


class Worker:
    """A process that runs test modules, each in a fork of it."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
        }
        self._place = tempfile.TemporaryDirectory()
        reading, writing = os.pipe()
        self._answers = os.fdopen(reading, encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.transparency.worker", str(writing)],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            pass_fds=(writing,),
        )
        os.close(writing)

    def run(self, module: str, limit: float, *, captured: bool, only: Sequence[str] = ()) -> Any:
        """What was written about one run of a module (`worker.py`), or in words how it ended."""
        output, errors = Path(self._place.name, "outcomes.json"), Path(self._place.name, "errors.txt")
        output.unlink(missing_ok=True)
        job = {
            **{"module": module, "output": str(output), "errors": str(errors)},
            **{"captured": captured, "limit": limit, "only": list(only)},
        }
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        ended = self._answers.readline().rstrip("\n")
        if ended or not output.exists():
            last = (
                errors.read_text(encoding="utf-8", errors="replace").splitlines() if errors.exists() else []
            )
            return "\n".join([f"{ended or 'nothing'}:", *last[-_LAST_LINES:]])
        return json.loads(output.read_text(encoding="utf-8"))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._answers.close()
        self._place.cleanup()


def compare(worker: Worker, module: str, limit: float = 600.0, only: Sequence[str] = ()) -> Comparison:
    """Run a module's tests twice and compare how each of them ended.

    Args:
        worker: runs them.
        module: a name in `test`, as `test_grammar`.
        limit: seconds that each run may take.
        only: parts of the ids of the tests to run; all without any.
    """
    plain = worker.run(module, limit, captured=False, only=only)
    captured = worker.run(module, limit, captured=True, only=only)
    differences = []
    for words, run in (("without framehook", plain), ("with framehook", captured)):
        if isinstance(run, str):
            differences.append(f"the run {words} ended with {run}")
    if isinstance(plain, str) or isinstance(captured, str):
        return Comparison(module, differences)
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
        plain["seconds"],
        captured["seconds"],
    )


def _frames(stats: dict[str, Any]) -> tuple[int, int]:
    """Frames that were traced whole, and all that were traced."""
    return stats["whole_frames"], stats["whole_frames"] + stats["partial_frames"] + stats["eager_frames"]
