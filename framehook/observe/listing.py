"""Graphs as Python source, each operation under the user's line that it comes from."""

from __future__ import annotations

import os
from typing import Any

import torch.fx

from framehook.errors import CodeLocation

#: File, line and name of each frame, outermost first, as the tracer notes them on a node.
Lines = tuple[tuple[str, int, str], ...]

_TORCH = os.path.dirname(torch.__file__) + os.sep


def lines_of(node: torch.fx.Node) -> Lines:
    """Where an operation comes from; empty where nobody noted it."""
    found: Lines = node.meta.get("lines", ())
    return found


def user_line(lines: Lines) -> tuple[str, int, str] | None:
    """The innermost of some frames that is not torch's own."""
    return next((each for each in reversed(lines) if not each[0].startswith(_TORCH)), None)


def graph_text(graph: torch.fx.GraphModule) -> str:
    """Python source of a graph, with shapes, each group of operations under its line."""
    for node in graph.graph.nodes:
        place = user_line(lines_of(node))
        if place is not None and "stack_trace" not in node.meta:
            filename, line, name = place
            source = CodeLocation(filename, line, name).source_line().strip()
            node.meta["stack_trace"] = f'  File "{filename}", line {line}, in {name}\n    {source}\n'
    text: Any = graph.print_readable(print_output=False)
    return "\n".join(line for line in str(text).splitlines() if line.strip())


__all__ = ["Lines", "graph_text", "lines_of", "user_line"]
