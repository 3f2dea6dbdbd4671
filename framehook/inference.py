"""Inference mode in graphs: the calls that enter and leave it, and graphs that are in it from end to end.

Inference mode is a C++ guard, left by whoever has entered it; a graph that raises half-way must leave it, too.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.fx

from framehook import torch_compat

_entered = threading.local()


def _guards() -> list[Any]:
    guards: list[Any] | None = getattr(_entered, "guards", None)
    if guards is None:
        guards = _entered.guards = []
    return guards


def enter(mode: bool) -> Any:
    """Enter inference mode, or leave it for a while; the target of a node."""
    guard = torch_compat.enter_inference_mode(mode)
    _guards().append(guard)
    return guard


def leave(guard: Any) -> None:
    """Go back to what was before `enter`; the target of a node."""
    _guards().remove(guard)
    torch_compat.exit_inference_mode(guard)


def depth() -> int:
    """How many guards are open in this thread."""
    return len(_guards())


def leave_down_to(depth: int) -> None:
    """Leave all guards but the outermost `depth`."""
    guards = _guards()
    while len(guards) > depth:
        leave(guards[-1])


def take_out(gm: torch.fx.GraphModule) -> bool:
    """Where all of a graph happens in inference mode, take the calls out, for the caller to enter it.

    Returns:
        Whether it was so.
    """
    nodes = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
    calls = [node for node in nodes if node.target in (enter, leave)]
    if len(calls) != 2 or calls != [nodes[0], nodes[-1]] or calls[0].args != (True,):
        return False
    for node in reversed(calls):
        gm.graph.erase_node(node)
    return True
