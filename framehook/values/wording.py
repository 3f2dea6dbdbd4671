"""How the running Python words errors that the trace raises itself; where its releases differ, it is asked."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any


class _Probe:
    __slots__ = ("field",)
    field: int


def _text(fail: Callable[[], Any]) -> str:
    try:
        fail()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")


def _warns(act: Callable[[], Any]) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return bool(caught)


#: Whether `~True` warns (since 3.12): the warning is the instruction's own, each time.
INVERTING_BOOL_WARNS = _warns(lambda: operator.invert(True))

_UNSET_SLOT = _text(lambda: _Probe().field)
_NO_PLACE = _text(lambda: setattr(_Probe(), "other", 1))


def type_name(cls: type) -> str:
    """A class as CPython's messages name it: C types outside of builtins come with their module (`tp_name`)."""
    is_immutable = cls.__flags__ & (1 << 8)  # Py_TPFLAGS_IMMUTABLETYPE
    if is_immutable and cls.__module__ != "builtins":
        return f"{cls.__module__}.{cls.__qualname__}"
    return cls.__name__


def unset_slot(cls: type, name: str) -> str:
    """AttributeError of an attribute in `__slots__` that is not set."""
    owner = cls.__name__
    if _Probe.__module__ in _UNSET_SLOT:
        own = cls.__module__ not in ("builtins", "__main__")
        owner = f"{cls.__module__}.{cls.__qualname__}" if own else cls.__qualname__
    return f"'{owner}' object has no attribute '{name}'"


def no_place(cls: type, name: str, is_found: bool) -> str:
    """AttributeError of storing to, or deleting, an attribute of an object without `__dict__`.

    `is_found`: whether the class has an attribute of that name.
    """
    if is_found:
        return f"'{type_name(cls)}' object attribute '{name}' is read-only"
    return _NO_PLACE.replace("_Probe", type_name(cls), 1).replace("'other'", f"'{name}'", 1)
