"""Tracing: from a frame record to a capture."""

from __future__ import annotations

from framehook.trace.budget import Budget
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.trace.number_policy import NumberPolicy
from framehook.trace.session import Stop, stop_at_once, trace_frame
from framehook.trace.symbols import UnknownSymbol

__all__ = [
    "Budget",
    "Capture",
    "GraphBreak",
    "NumberPolicy",
    "Stop",
    "UnknownSymbol",
    "Unsupported",
    "stop_at_once",
    "trace_frame",
]
