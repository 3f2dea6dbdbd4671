"""Capture of every frame, tensors or not: for tests that hold the tracer against ordinary Python programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from framehook import policy
from framehook.api import Capture, capture
from framehook.config import config


@contextlib.contextmanager
def every_frame(*, max_entries_per_handle: int = 10_000) -> Iterator[Capture]:
    """Compile each frame that runs inside at its first call, the standard library's and those without tensors too.

    Graphs run with the eager backend.  Generators, coroutines, class bodies and module bodies stay eager as frames of
    their own, and so does torch's own code.  Whether code is compiled is settled when it first runs under any
    capture, so enter this one before others.

    Args:
        max_entries_per_handle: room for all the functions that run inside.

    Yields:
        The capture, whose `stats()` tells how many frames were traced whole.
    """
    with config.patch(every_frame=True, min_graph_ops=0, max_entries_per_handle=max_entries_per_handle):
        captured = capture(backend="eager", warmup_calls=0)
        try:
            with captured:
                yield captured
        finally:
            policy.give_back_frames()
