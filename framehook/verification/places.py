"""What a function keeps between its calls besides its arguments: globals, cells and defaults."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch

from framehook.verification.snapshots import is_foreign_file

#: In place of the value of a name that is not bound.
ABSENT: Any = object()
_NAMING = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"})


class Variable(NamedTuple):
    """One variable outside of the function: a global, a cell, or an attribute of a function."""

    holder: Any
    key: str
    label: str

    def read(self) -> Any:
        """The value, or `ABSENT`."""
        if isinstance(self.holder, dict):
            return self.holder.get(self.key, ABSENT)
        if isinstance(self.holder, CellType):
            try:
                return self.holder.cell_contents
            except ValueError:
                return ABSENT
        return getattr(self.holder, self.key)

    def write(self, value: Any) -> None:
        """Set it, or unbind it."""
        if isinstance(self.holder, dict):
            if value is ABSENT:
                self.holder.pop(self.key, None)
            else:
                self.holder[self.key] = value
        elif isinstance(self.holder, CellType):
            if value is ABSENT:
                del self.holder.cell_contents
            else:
                self.holder.cell_contents = value
        else:
            setattr(self.holder, self.key, value)


def variables_of(fn: object) -> list[Variable]:
    """The variables that `fn` and the functions that it names may read or change.

    Functions, and methods of classes, are followed as far as they are in the modules of `fn`, or in its cells.  Values
    that are modules, classes or functions are shared by everyone and stay what they are.
    """
    waiting = list(_functions_of(fn))
    modules = {id(function.__globals__) for function in waiting}
    found: dict[tuple[int, str], Variable] = {}
    followed: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function) in followed or is_foreign_file(function.__code__.co_filename):
            continue
        followed.add(id(function))
        for variable in _variables_of(function):
            value = variable.read()
            is_cell = isinstance(variable.holder, CellType)
            waiting += [each for each in _functions_of(value) if is_cell or id(each.__globals__) in modules]
            if not isinstance(value, type | ModuleType | FunctionType):
                found.setdefault((id(variable.holder), variable.key), variable)
    return list(found.values())


def _functions_of(value: object) -> Iterable[FunctionType]:
    """The functions that a call of `value` runs, or those of its class."""
    while isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        return [value]
    if isinstance(value, torch.nn.Module):
        return [each for cls in {type(module) for module in value.modules()} for each in _methods_of(cls)]
    return _methods_of(value if isinstance(value, type) else type(value))


def _methods_of(cls: type) -> list[FunctionType]:
    return [each for each in vars(cls).values() if isinstance(each, FunctionType)]


def _variables_of(function: FunctionType) -> Iterator[Variable]:
    variables = function.__globals__
    builtins = (
        vars(variables["__builtins__"]) if isinstance(variables.get("__builtins__"), ModuleType) else {}
    )
    for name in sorted(_global_names(function.__code__)):
        if name in variables or name not in builtins:
            yield Variable(variables, name, f"globals[{name!r}]")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield Variable(cell, name, f"{function.__qualname__} cell {name}")
    for attribute in ("__defaults__", "__kwdefaults__"):
        if getattr(function, attribute):
            yield Variable(function, attribute, f"{function.__qualname__}.{attribute}")


@functools.lru_cache(maxsize=1024)
def _global_names(code: CodeType) -> frozenset[str]:
    names = {each.argval for each in dis.get_instructions(code) if each.opname in _NAMING}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return frozenset(names)
