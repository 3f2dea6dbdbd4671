"""A transient line in the terminal while a compile takes long: phase, operations so far, time.

A thread draws it, as the compile itself has other things to do; there is none where standard error is no terminal,
with `config.progress` off (FRAMEHOOK_PROGRESS=0), or for compiles shorter than two seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

from framehook import events
from framehook.config import config
from framehook.observe.terminal import is_terminal

_QUIET_SECONDS = 2.0
_INTERVAL = 0.2
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WORDS = {
    "imports": "importing torch's compiler",
    "trace": "tracing",
    "backend": "compiling",
    "codegen": "writing bytecode",
    "guards": "building guards",
}


class Line:
    """Draws one line over and over until it is stopped, and then takes it away."""

    def __init__(
        self, record: events.CompileStart, stream: TextIO, quiet_seconds: float = _QUIET_SECONDS
    ) -> None:
        self._record = record
        self._stream = stream
        self._quiet = quiet_seconds
        self._stopped = threading.Event()
        self._started = time.perf_counter()
        self._width = 0
        self._thread = threading.Thread(target=self._draw, name="framehook progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the line away."""
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def text(self, seconds: float) -> str:
        """What the line says."""
        progress = self._record.progress
        phase = "" if progress is None else progress.phase
        operations = 0 if progress is None else progress.operations
        name = self._record.function
        return f"framehook: {_WORDS.get(phase, phase)} {name}, {operations:,} operations, {seconds:.0f} s"

    def _draw(self) -> None:
        if self._stopped.wait(self._quiet):
            return
        step = 0
        try:
            while not self._stopped.is_set():
                text = f"{_SPINNER[step % len(_SPINNER)]} {self.text(time.perf_counter() - self._started)}"
                self._stream.write("\r" + text.ljust(self._width))
                self._stream.flush()
                self._width = len(text)
                step += 1
                self._stopped.wait(_INTERVAL)
        finally:
            if step:
                self._stream.write("\r" + " " * self._width + "\r")
                self._stream.flush()


# One compile at a time in the process: at most one line.
_line: list[Line] = []


def _on_compile_start(record: events.CompileStart) -> None:
    if config.progress and not _line and is_terminal(sys.stderr):
        _line.append(Line(record, sys.stderr))


def _on_compile_end(record: events.CompileEnd) -> None:
    while _line:
        _line.pop().stop()


events.on("compile_start", _on_compile_start)
events.on("compile_end", _on_compile_end)
__all__ = ["Line"]
