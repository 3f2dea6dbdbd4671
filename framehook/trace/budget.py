"""What one frame may cost to trace."""

from __future__ import annotations

import time

from framehook.values.base import BreakGraph

#: Instructions after which a trace gives up: a loop that long does not become one graph.
MAX_INSTRUCTIONS = 2_000_000

#: The same for a trace that has not met a single operation: it computes something else than tensors.
MAX_INSTRUCTIONS_BEFORE_OPERATIONS = 1_000_000
MAX_SECONDS_BEFORE_OPERATIONS = 10.0


class OverBudget(BreakGraph):
    """The frame costs more than it may: it stays eager, and what it calls is captured on its own."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__("limit", reason, hint)


class Budget:
    """Operations, instructions and seconds for one frame, all attempts at it together."""

    __slots__ = ("_deadline", "_operations", "_seconds", "_started", "reached")

    def __init__(self, operations: int, seconds: float) -> None:
        #: Operations when it was last looked at, for whoever watches.
        self.reached = 0
        self._operations = operations
        self._seconds = seconds
        self._started = time.perf_counter()
        self._deadline = self._started + seconds

    def check(self, instructions: int, operations: int) -> None:
        """Stop a trace that has come, or is about to come, so far.

        Raises:
            OverBudget: when that is too far.
        """
        self.reached = operations
        hint = "compile what it calls, or raise {} in framehook.config"
        if operations > self._operations:
            raise OverBudget(
                f"more than {self._operations} operations in one graph (max_trace_ops)",
                hint.format("max_trace_ops"),
            )
        if not operations and (
            instructions > MAX_INSTRUCTIONS_BEFORE_OPERATIONS
            or time.perf_counter() > self._started + MAX_SECONDS_BEFORE_OPERATIONS
        ):
            raise OverBudget("the trace is long and has no operation", "compile what it calls")
        if instructions > MAX_INSTRUCTIONS:
            raise OverBudget(
                f"more than {MAX_INSTRUCTIONS} instructions in one trace", "compile what it calls"
            )
        if time.perf_counter() > self._deadline:
            raise OverBudget(
                f"tracing takes longer than {self._seconds:g} s (max_trace_seconds)",
                hint.format("max_trace_seconds"),
            )


__all__ = ["Budget", "OverBudget"]
