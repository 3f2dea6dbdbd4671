"""What the entries of a frame's stack are, where a frame is left and continued."""

from __future__ import annotations

import enum
from typing import NamedTuple


class StackItem(enum.Enum):
    """What one stack entry is, and so how it is saved and brought back.

    VALUE  any object; it is saved as itself
    NULL   no object (as PUSH_NULL leaves it); nothing is saved
    EXC    the exception state of before that PUSH_EXC_INFO leaves below the exception, while the handler is
           active (until its POP_EXCEPT); saved is the exception being handled, on which PUSH_EXC_INFO is
           repeated. The exception itself, where it is on the stack too, is a VALUE of its own
    LASTI  the place of a raising instruction, as handlers with `lasti` have it; saved is its offset in code
           units (int) in the original code
    """

    VALUE = "value"
    NULL = "null"
    EXC = "exc"
    LASTI = "lasti"


class LoopOver(NamedTuple):
    """An iterator that only a loop has, over something that the frame keeps, `position` elements on.

    Saved are the iterator and what it runs over; only the iterator is brought back. The rest is for those who go on
    symbolically.
    """

    #: The method of a dict that gave what the iterator runs over, or "": a list or tuple.
    kind: str
    position: int
    #: The keys of the dict when the frame was left.
    keys: tuple[str, ...] = ()


#: What a stack entry is.
Item = StackItem | LoopOver
