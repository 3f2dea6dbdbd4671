"""What the tests of the core share: a capture block, entries without guards, replacement of a function."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from framehook import _C


@contextlib.contextmanager
def capture(handle: _C.Handle | None) -> Iterator[None]:
    token = _C.enter_capture(handle)
    try:
        yield
    finally:
        _C.exit_capture(token)


def replace(handle: _C.Handle, fn: Any, generated: Any, **options: Any) -> _C.Entry:
    """Whenever `fn` is called under `handle`, run `generated` (its signature flattened) instead."""
    # A copy: the code of an entry is never looked up, and a test may go on calling `generated` itself.
    entry = _C.Entry(None, generated.__code__.replace(), **options)
    _C.add_entry(handle, getattr(fn, "__code__", fn), entry)
    return entry


def continue_in(resume: Callable[..., Any], original: Callable[..., Any]) -> _C.CodeRef:
    """Make `resume` a resume function of `original` and return the reference that generated code holds."""
    _C.own_resume_code(original.__code__, resume.__code__)
    return _C.CodeRef(resume.__code__)


def run_script(script: str, *, timeout: float = 120) -> str:
    """Run a script with `_C` imported in a process of its own; a crash fails the test. Returns its output."""
    # Only the core: `framehook/__init__.py` would bring the engine along.
    prologue = f"""
import sys, types
try:
    import torch
except ImportError:
    pass  # then the extension was built without it
package = types.ModuleType("framehook")
package.__path__ = [{os.path.dirname(str(_C.__file__))!r}]
sys.modules["framehook"] = package
from framehook import _C
"""
    done = subprocess.run(
        [sys.executable, "-c", prologue + script],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
