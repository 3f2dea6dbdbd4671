"""What a caller can see of a value, as plain data: for comparing an eager run with a compiled one.

`observe(value)` is taken right after a call, so that later changes do not reach it.  Objects met twice are named by
the order of their first appearance: two observations are equal only when their aliasing is equal too.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_PLAIN = (type(None), bool, int, complex, str, bytes, torch.dtype, torch.device, type(Ellipsis), torch.Size)
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)


class TensorView:
    """A tensor's visible properties and a copy of its data."""

    def __init__(self, tensor: Tensor, memo: dict[int, Any]) -> None:
        self.properties = {
            "class": type(tensor).__qualname__,
            "dtype": tensor.dtype,
            "device": tensor.device,
            "size": tuple(tensor.shape),
            "stride": tuple(tensor.stride()) if tensor.layout is torch.strided else None,
            "requires_grad": tensor.requires_grad,
            "is_leaf": tensor.is_leaf,
        }
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            self.data = None if tensor.is_meta else tensor.detach().clone()
        gradient = tensor.grad if tensor.is_leaf else None
        self.gradient = None if gradient is None else _observe(gradient, memo)


def observe(value: Any) -> Any:
    """`value` as nested tuples of plain data and `TensorView`s."""
    return _observe(value, {})


def _observe(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, _PLAIN) and type(value) in _PLAIN:
        return (type(value).__name__, value)
    if isinstance(value, _NAMED):
        return ("named", getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    if isinstance(value, BaseException):
        return ("exception", type(value).__qualname__, str(value))
    if id(value) in memo:
        return ("again", memo[id(value)][0])
    memo[id(value)] = (len(memo), value)
    if isinstance(value, Tensor):
        return TensorView(value, memo)
    name = type(value).__qualname__
    if isinstance(value, dict):
        items = tuple((_observe(key, memo), _observe(item, memo)) for key, item in value.items())
        return (name, "items", *items)
    if isinstance(value, list | tuple):
        return (name, "elements", *(_observe(item, memo) for item in value))
    if isinstance(value, set | frozenset):
        return (name, "members", *sorted(repr(_observe(item, memo)) for item in value))
    if isinstance(value, range | slice):
        return (name, repr(value))
    attributes = getattr(value, "__dict__", None)
    if isinstance(value, torch.nn.Module):
        # Hooks are kept under numbers from a process-wide counter.
        attributes = {k: list(v.values()) if "_hooks" in k and v else v for k, v in value.__dict__.items()}
    return (name, "attributes", _observe(dict(attributes), memo) if attributes is not None else None)


def assert_same(actual: Any, expected: Any, *, exact: bool = True, where: str = "result") -> None:
    """Fail, naming the place, unless two observations are equal; tensor data bit for bit when `exact`."""
    if isinstance(expected, TensorView):
        assert isinstance(actual, TensorView), f"{where}: expected a tensor, got {actual!r}"
        assert actual.properties == expected.properties, where
        if expected.data is not None:
            _assert_data(actual.data, expected.data, exact, where)
        assert_same(actual.gradient, expected.gradient, exact=exact, where=f"{where}.grad")
    elif isinstance(expected, tuple):
        assert isinstance(actual, tuple), f"{where}: expected {expected!r}, got {actual!r}"
        assert len(actual) == len(expected), f"{where}: expected {expected!r}, got {actual!r}"
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_same(left, right, exact=exact, where=f"{where}[{index}]")
    else:
        assert type(actual) is type(expected), f"{where}: expected {expected!r}, got {actual!r}"
        assert actual == expected, f"{where}: expected {expected!r}, got {actual!r}"


def _assert_data(actual: Tensor | None, expected: Tensor, exact: bool, where: str) -> None:
    assert actual is not None, where
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        if exact:
            torch.testing.assert_close(
                actual, expected, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{where}: {m}"
            )
            if expected.is_floating_point() and expected.layout is torch.strided:
                assert torch.equal(actual.signbit(), expected.signbit()), f"{where}: signs differ"
        else:
            torch.testing.assert_close(actual, expected, equal_nan=True, msg=lambda m: f"{where}: {m}")


def outcome(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the call gives: its result, or the exception that it raises."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return error
