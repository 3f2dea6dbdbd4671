"""Functions that share no entries with others, and what their calls give."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


def copied(fn: Any) -> Any:
    """The same function with code of its own, and so with entries of its own."""
    code = fn.__code__.replace(co_name=f"{fn.__name__}_copy")
    return types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def result_or_error(fn: Callable[..., Any], *args: Any) -> Any:
    """What the call returns, or the name and the text of what it raises."""
    try:
        return fn(*args)
    except Exception as error:
        return type(error).__name__, str(error)
