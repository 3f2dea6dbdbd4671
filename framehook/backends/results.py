"""What compiled graphs of other people's backends return, when it is not what the graph returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch.fx

from framehook.errors import BackendError


def refusal(backend: str, gm: torch.fx.GraphModule, outputs: int) -> Callable[[Any], NoReturn]:
    """Return what is called with a wrong result, and raises.

    A graph that raises is dropped, and its frame runs eagerly; a wrong result is the backend's fault, and is told.

    Args:
        backend: its name.
        gm: the graph that it was given, for the error.
        outputs: how many values it has to return.
    """

    def refuse(result: Any) -> NoReturn:
        if not isinstance(result, list | tuple):
            raise BackendError(
                f"its compiled graph returned {type(result).__name__} instead of a list or tuple", backend, gm
            )
        raise BackendError(
            f"its compiled graph returned {len(result)} values instead of {outputs}", backend, gm
        )

    return refuse
