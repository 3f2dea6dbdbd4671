"""Where the time of a backend goes, as torch itself counts it."""

from __future__ import annotations

import sys


def inductor_seconds() -> float:
    """Seconds that Inductor has compiled in this process, without AOTAutograd around it.

    `torch._dynamo.utils.compilation_time_metrics` has a list of durations for each step; `compile_fx_inner` is what
    AOTAutograd calls for each forward and backward graph.  Checked: 2.13.0, 2.14.1.
    """
    module = sys.modules.get("torch._dynamo.utils")
    metrics = getattr(module, "compilation_time_metrics", {})
    return sum(metrics.get("compile_fx_inner", ()))


__all__ = ["inductor_seconds"]
