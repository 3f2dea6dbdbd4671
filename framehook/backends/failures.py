"""Graphs that fail, compiled or running: what eager would have changed before its exception, and eager's exception."""

from __future__ import annotations

from typing import Any

import torch.fx

from framehook import torch_compat
from framehook.backends.graph import CompiledGraph


def run_again_on_failure(compiled: CompiledGraph, gm: torch.fx.GraphModule) -> CompiledGraph:
    """Let a graph that changes inputs, and writes to them last, run operation by operation when it raised.

    Where an index is out of range, say, eager has changed some inputs already, and the functionalised graph none.
    Graphs that change nothing need none of this: their whole frame runs again eagerly.

    Args:
        compiled: what the backend gave.
        gm: the graph that it was given.
    """
    run, is_boxed = compiled.callable, compiled.is_boxed

    def run_or_run_again(inputs: list[Any]) -> Any:
        kept = list(inputs)
        try:
            return run(inputs) if is_boxed else run(*inputs)
        except Exception:
            pass  # left here, so that eager's exception has no other as its context
        return torch_compat.plain_forward(gm)(*kept)

    return compiled._replace(callable=run_or_run_again, is_boxed=True)


def is_operation_failure(error: BaseException) -> bool:
    """Whether an operation raised while AOTAutograd traced the graph with fake tensors.

    It was raised below `torch/_functorch`, and not in a compiler that AOTAutograd called: Inductor, or one of
    somebody else, whose failures are their own.  Checked: 2.13.0, 2.14.1.
    """
    if type(error) not in (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return False
    traced = error.__traceback__
    is_below = False
    while traced is not None:
        filename = traced.tb_frame.f_code.co_filename.replace("\\", "/")
        if "torch/_functorch/" in filename:
            is_below = True
        elif "torch/_inductor/" in filename or ("/torch/" not in filename and filename[:1] != "<"):
            is_below = False
        traced = traced.tb_next
    return is_below
