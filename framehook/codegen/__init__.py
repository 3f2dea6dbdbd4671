"""Code generation: from a capture to the code object that takes the frame's place.

`plan` finds out what the graph must hand out and closes the graph; `emit` writes the code once the backend has
compiled it.
"""

from __future__ import annotations

from framehook.codegen.emitter import NotRebuildable
from framehook.codegen.frame_code import Plan, earlier_stop, emit, plan

__all__ = ["NotRebuildable", "Plan", "earlier_stop", "emit", "plan"]
