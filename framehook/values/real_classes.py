"""What classes are, without asking their metaclasses: those may define `__dict__`, `__module__` and subclass checks."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
from collections.abc import Callable, Mapping
from typing import Any

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE; the other classes keep their module in their name

#: The namespace of a class.
namespace_of: Callable[[type], Mapping[str, Any]] = vars(type)["__dict__"].__get__


def derives(cls: type, *bases: type) -> bool:
    """Whether `cls` is one of `bases` or inherits from one.

    With the type of an object this is `isinstance`, but that asks the object's `__class__` as well: code of the
    program's, and for a weak proxy the object that it stands for.
    """
    for base in bases:  # noqa: SIM110  # it is asked all the time
        if type.__subclasscheck__(base, cls):
            return True
    return False


def module_of(cls: type) -> str:
    """Name of the module of a class; empty when that is no string, or nothing."""
    name = namespace_of(cls).get("__module__") if cls.__flags__ & _HEAP_TYPE else cls.__module__
    return name if isinstance(name, str) else ""


def has_registered(cls: type) -> bool:
    """Whether other classes were registered with an abstract one (CPython's `_abc`, as `abc` shows it)."""
    return bool(_abc._get_dump(cls)[0])


__all__ = ["derives", "has_registered", "module_of", "namespace_of"]
