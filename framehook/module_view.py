"""A module that is another module in everything but calling.

A view is an instance of a dynamic subclass that shares the `__dict__` object of the original, so parameters,
buffers, hooks, flags and attributes are the same objects, read and written both ways.  `__call__` is a slot of
the subclass that holds what is called instead; Python finds it through the type, without a frame of ours.
"""

from __future__ import annotations

import copy
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

#: `rebuild(module, *args)` makes a view of another module like this one: for copies and pickles.
Rebuild = tuple[Callable[..., Any], tuple[Any, ...]]

_classes: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()


def make_view(module: torch.nn.Module, call: object, rebuild: Rebuild, extras: tuple[str, ...] = ()) -> Any:
    """Return a view of `module` that runs `call` when called.

    Args:
        module: the original; the view keeps it alive.
        call: what `view(...)` calls, with the arguments alone.
        rebuild: how `copy` and `pickle` make the view again from the copied module.
        extras: attributes of `call` that the view has too, where the module has none of that name.
    """
    view: Any = object.__new__(_view_class(type(module)))
    object.__setattr__(view, "__dict__", module.__dict__)
    object.__setattr__(view, "__call__", call)
    object.__setattr__(view, "__framehook_view__", View(module, rebuild, extras))
    return view


class View:
    """What a view knows besides the module's own attributes."""

    __slots__ = ("extras", "module", "rebuild")

    def __init__(self, module: torch.nn.Module, rebuild: Rebuild, extras: tuple[str, ...]) -> None:
        self.module = module
        self.rebuild = rebuild
        self.extras = extras

    def again(self, module: torch.nn.Module) -> Any:
        """A view of another module, made like this one."""
        function, args = self.rebuild
        return function(module, *args)


def view_of(obj: object) -> View | None:
    """What a view knows, or None when `obj` is not a view."""
    found: View | None = getattr(obj, "__framehook_view__", None) if is_view_class(type(obj)) else None
    return found


def original(obj: Any) -> Any:
    """The module behind a view; anything else unchanged."""
    view = view_of(obj)
    return obj if view is None else view.module


def is_view_class(cls: type) -> bool:
    """Whether `cls` is the dynamic subclass of a view."""
    return "__framehook_view__" in cls.__dict__


def _view_class(cls: type) -> type:
    known = _classes.get(cls)
    found = known() if known is not None else None
    if found is None:
        found = _make_class(cls)
        # The subclass keeps its base alive, so the table may hold neither.
        _classes[cls] = weakref.ref(found)
    return found


def _make_class(cls: type) -> type:
    namespace = _namespace(cls)
    try:
        # A view is no subclass that anyone declared: `__init_subclass__` and the metaclass, which may keep
        # registers or ask for arguments, are not to hear of it.  Assigning `__bases__` calls neither.
        found = type.__new__(type(cls), cls.__name__, (torch.nn.Module,), namespace)
        found.__bases__ = (cls,)
    except TypeError:  # a base with slots of its own has another layout
        found = type.__new__(type(cls), cls.__name__, (cls,), _namespace(cls))
    return found


def _namespace(cls: type) -> dict[str, Any]:
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__slots__": ("__call__", "__framehook_view__"),
        "__class__": property(_get_class, _set_class),
        "__getattr__": _get_missing,
        "__reduce_ex__": _reduce,
        "__copy__": _copy,
        "__deepcopy__": _deepcopy,
    }
    # Values in slots do not live in the shared dict; reach them in the original.
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and name not in namespace["__slots__"]:
                namespace.setdefault(name, _through(member))
    return namespace


def _through(member: types.MemberDescriptorType) -> property:
    def read(self: Any) -> Any:
        return member.__get__(self.__framehook_view__.module)

    def write(self: Any, value: Any) -> None:
        member.__set__(self.__framehook_view__.module, value)

    def delete(self: Any) -> None:
        member.__delete__(self.__framehook_view__.module)

    return property(read, write, delete)


def _get_class(self: Any) -> type:
    # A lazy module changes its class at its first call: ask each time.
    return type(self.__framehook_view__.module)


def _set_class(self: Any, cls: type) -> None:
    self.__framehook_view__.module.__class__ = cls


def _get_missing(self: Any, name: str) -> Any:
    view = type(self).__framehook_view__.__get__(self)
    try:
        return type(view.module).__getattr__(self, name)
    except AttributeError:
        if name in view.extras:
            return getattr(type(self).__call__.__get__(self), name)
        raise


def _reduce(self: Any, protocol: Any) -> Any:
    view = self.__framehook_view__
    return _rebuild, (view.rebuild, view.module)


def _rebuild(rebuild: Rebuild, module: torch.nn.Module) -> Any:
    function, args = rebuild
    return function(module, *args)


def _copy(self: Any) -> Any:
    view = self.__framehook_view__
    return view.again(copy.copy(view.module))


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    view = self.__framehook_view__
    copied = memo[id(self)] = view.again(copy.deepcopy(view.module, memo))
    return copied
