"""What graphs of other people's backends return, looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from framehook.errors import BackendError


def check_first_result(
    make_call: Callable[[Callable[..., Any], bool], Callable[[list[Any]], Any]],
    run: Callable[..., Any],
    is_boxed: bool,
    backend: str,
    gm: torch.fx.GraphModule,
    outputs: int,
) -> Callable[[list[Any]], Any]:
    """Look at what a graph returns until it has once been right; afterwards it is called as it is.

    A graph that raises is dropped, and its frame runs eagerly; a wrong result is the backend's fault, and is told.

    Args:
        make_call: makes the call of a graph, of a function and whether it takes one list.
        run: the graph as the backend compiled it.
        is_boxed: whether `run` takes one list.
        backend: its name.
        gm: the graph that it was given, for the error.
        outputs: how many values it has to return.
    """

    def run_and_look(inputs: list[Any]) -> Any:
        result = run(inputs) if is_boxed else run(*inputs)
        if not isinstance(result, list | tuple):
            raise BackendError(
                f"its compiled graph returned {type(result).__name__} instead of a list or tuple", backend, gm
            )
        if len(result) != outputs:
            raise BackendError(
                f"its compiled graph returned {len(result)} values instead of {outputs}", backend, gm
            )
        return result

    looking, plain = make_call(run_and_look, True), make_call(run, is_boxed)
    call = looking

    def graph(inputs: list[Any]) -> Any:
        nonlocal call
        if call is plain:
            return plain(inputs)
        try:
            result = looking(inputs)
        except BackendError as error:
            if error.graph is not gm:
                raise
            # What a graph raises makes its frame run eagerly; another exception is not the graph's.
            raise BackendError(error.args[0], backend, gm) from None
        call = plain
        return result

    return graph
