"""Backends by name: ours, the user's, and those that installed packages announce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from framehook.backends.aot_eager import AotEagerCompiler, aot_eager
from framehook.backends.eager import EagerCompiler, eager
from framehook.backends.foreign import BackendFunction, ForeignCompiler, entry_points
from framehook.backends.graph import Compiler
from framehook.backends.inductor import InductorCompiler, inductor
from framehook.errors import UnknownBackendError

F = TypeVar("F", bound=BackendFunction)

_OURS: dict[str, BackendFunction] = {"eager": eager, "aot_eager": aot_eager, "inductor": inductor}
_registered: dict[str, BackendFunction] = {}


@overload
def register(name: str) -> Callable[[F], F]: ...
@overload
def register(name: str, function: F) -> F: ...
def register(name: str, function: F | None = None) -> F | Callable[[F], F]:
    """Make `function(gm, example_inputs) -> callable` known as `name`; without `function`, a decorator.

    Raises:
        TypeError: if `name` is not a string or `function` cannot be called.
        ValueError: if the name belongs to a backend of framehook.
    """
    if not isinstance(name, str):
        raise TypeError(f"a backend's name is a string, not {name!r}; write @register('name')")
    if name in _OURS:
        raise ValueError(f"{name!r} is a backend of framehook; choose another name")
    if function is None:

        def decorate(decorated: F) -> F:
            return register(name, decorated)

        return decorate
    if not callable(function):
        raise TypeError(f"a backend is a function of graph and inputs, not {function!r}")
    _registered[name] = function
    return function


def list_backends() -> list[str]:
    """The names that `backend=` may have, sorted."""
    return sorted({*_OURS, *_registered, *entry_points()})


def get(name: str) -> BackendFunction:
    """Return the function `(gm, example_inputs) -> callable` behind `name`, loading its package if need be.

    Raises:
        UnknownBackendError: if there is no such backend.
    """
    for known in (_OURS, _registered):
        if name in known:
            return known[name]
    announced = entry_points()
    if name in announced:
        function: BackendFunction = announced[name].load()
        return function
    raise UnknownBackendError(name, {*_OURS, *_registered, *announced})


def resolve(
    backend: str | BackendFunction,
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Compiler:
    """Fix the options of a backend, as `compile()` and `capture()` do when they are called.

    Raises:
        TypeError: if `backend` is neither a name nor callable.
        UnknownBackendError: if there is no backend of that name.
        BackendOptionError: if the backend does not have this mode or these options.
    """
    function = get(backend) if isinstance(backend, str) else backend
    if not callable(function):
        raise TypeError(f"backend must be a name or a function of graph and inputs, not {backend!r}")
    if function is inductor:
        return InductorCompiler(mode, options, dynamic)
    if function is aot_eager:
        return AotEagerCompiler()
    if function is eager:
        return EagerCompiler()
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
    return ForeignCompiler(name, function, mode, options)
