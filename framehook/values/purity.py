"""Methods that may run once more without anybody noticing.

Generated code puts keys into dicts natively, and so runs the `__hash__` and `__eq__` that the trace has run already.
"""

from __future__ import annotations

import builtins
import inspect
import types
from typing import Any

from framehook.bytecode.decode import decode

#: What such a method may call.
_CALLED = (hash, isinstance, issubclass, type, len, tuple, frozenset, str, int, float, bool, repr, id)
_CHANGES = ("STORE_ATTR", "STORE_S", "STORE_GLOBAL", "STORE_DEREF", "DELETE_", "IMPORT_", "YIELD_")
_CALLS = frozenset(
    {"LOAD_METHOD", "MAKE_FUNCTION", "LOAD_SUPER_ATTR", "PUSH_NULL", "CALL_FUNCTION_EX", "BEFORE_WITH"}
)


def is_pure_method(cls: type, name: str) -> bool:
    """Whether the code of a method only reads: it stores nothing, and calls nothing but builtins that only read."""
    fn = inspect.getattr_static(cls, name)
    if not isinstance(fn, types.FunctionType):
        return isinstance(fn, types.WrapperDescriptorType)
    for inst in decode(fn.__code__).instructions:
        if inst.opname in _CALLS or inst.opname.startswith(_CHANGES):
            return False
        if inst.opname == "LOAD_ATTR" and _is_computed(cls, inst.argval):
            return False
        if inst.opname == "LOAD_GLOBAL" and inst.push_null:
            found: Any = fn.__globals__.get(inst.argval, getattr(builtins, inst.argval, None))
            if not any(found is each for each in _CALLED):
                return False
    return True


def _is_computed(cls: type, name: str) -> bool:
    """Whether reading the attribute runs code of the class."""
    raw = inspect.getattr_static(cls, name, None)
    plain = (types.MemberDescriptorType, types.GetSetDescriptorType, types.FunctionType)
    return (hasattr(type(raw), "__get__") and not isinstance(raw, plain)) or hasattr(cls, "__getattr__")
