"""What a caller can see of a value, as plain data: for comparing an eager run with a compiled one.

A snapshot copies, so later changes do not reach it.  Objects are named by the order in which they are met: two
snapshots are equal only when their aliasing is equal too.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import torch

_PLAIN = (type(None), bool, int, complex, str, bytes, type(Ellipsis), torch.dtype, torch.device, torch.Size)
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)


@dataclasses.dataclass(frozen=True)
class TensorSnapshot:
    """A tensor's visible properties, a copy of its data, and its gradient if it has one."""

    properties: dict[str, Any]
    data: torch.Tensor | None
    gradient: Any


def snapshot(value: object) -> Any:
    """Return `value` as nested tuples of plain data and `TensorSnapshot`s."""
    return _snapshot(value, {})


def _snapshot(value: Any, met: dict[int, tuple[int, object]]) -> Any:
    if isinstance(value, float):
        return ("float", value.hex())  # tells -0.0 from 0.0, and NaN equals itself
    if type(value) in _PLAIN:
        return (type(value).__name__, value)
    if isinstance(value, _NAMED):
        return ("named", getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    if id(value) in met:
        return ("met before", met[id(value)][0])
    met[id(value)] = (len(met), value)  # keeps the value, so that its id is not used again
    name = type(value).__qualname__
    if isinstance(value, torch.Tensor):
        return _tensor(value, met)
    if isinstance(value, BaseException):
        return ("exception", name, str(value))
    if isinstance(value, dict):
        items = tuple((_snapshot(key, met), _snapshot(item, met)) for key, item in value.items())
        return ("dict", name, *items)
    if isinstance(value, list | tuple):
        return ("sequence", name, *(_snapshot(item, met) for item in value))
    if isinstance(value, set | frozenset):
        return ("set", name, *sorted(repr(_snapshot(item, met)) for item in value))
    if isinstance(value, torch.nn.Module):
        shown = {key: item for key, item in vars(value).items() if not key.startswith("_forward_")}
        return ("module", name, _snapshot(shown, met))
    if hasattr(value, "__dict__"):
        return ("object", name, _snapshot(dict(vars(value)), met))
    return ("other", name, repr(value) if isinstance(value, range | slice) else "")


def _tensor(tensor: torch.Tensor, met: dict[int, tuple[int, object]]) -> TensorSnapshot:
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        properties = {
            "class": type(tensor).__qualname__,
            "dtype": tensor.dtype,
            "device": tensor.device,
            "shape": tuple(tensor.shape),
            "stride": tuple(tensor.stride()) if tensor.layout is torch.strided else None,
            "requires_grad": tensor.requires_grad,
            "is_leaf": tensor.is_leaf,
        }
        data = None if tensor.is_meta else tensor.detach().clone()
        gradient = tensor.grad if tensor.is_leaf else None
    return TensorSnapshot(properties, data, None if gradient is None else _snapshot(gradient, met))


def assert_same(actual: Any, expected: Any, *, exact: bool = True, where: str = "result") -> None:
    """Fail, naming the place, unless two snapshots are equal; tensor data bit for bit when `exact`.

    Raises:
        AssertionError: at the first difference.
    """
    if isinstance(expected, TensorSnapshot) and isinstance(actual, TensorSnapshot):
        if actual.properties != expected.properties:
            raise AssertionError(f"{where}: expected {expected.properties}, got {actual.properties}")
        if actual.data is not None and expected.data is not None:
            tolerance: dict[str, Any] = {"rtol": 0.0, "atol": 0.0} if exact else {}
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                torch.testing.assert_close(
                    actual.data,
                    expected.data,
                    equal_nan=True,
                    msg=lambda text: f"{where}: {text}",
                    **tolerance,
                )
        assert_same(actual.gradient, expected.gradient, exact=exact, where=f"{where}.grad")
    elif isinstance(expected, tuple) and isinstance(actual, tuple) and len(actual) == len(expected):
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_same(left, right, exact=exact, where=f"{where}[{index}]")
    elif type(actual) is not type(expected) or actual != expected:
        raise AssertionError(f"{where}: expected {expected!r}, got {actual!r}")
