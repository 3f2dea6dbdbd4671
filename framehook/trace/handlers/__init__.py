"""Opcode handlers, grouped by kind.  `HANDLERS` maps an operation's canonical name to its handler.

A handler is called as `handler(tracer, frame, instruction)`; it changes the frame's stack, locals and index.
"""

from __future__ import annotations

from typing import Any

from framehook.trace import class_bodies
from framehook.trace.handlers import calls, containers, control, exceptions, names, operations


class _Handlers(dict[str, Any]):
    def __missing__(self, opname: str) -> Any:
        def unsupported(tr: Any, frame: Any, inst: Any) -> None:
            tr.graph_break("opcode", f"the instruction {opname} is not traced")

        self[opname] = unsupported
        return unsupported


HANDLERS: dict[str, Any] = _Handlers()
for _room in (names, operations, containers, control, calls, exceptions, class_bodies):
    HANDLERS.update(_room.HANDLERS)
