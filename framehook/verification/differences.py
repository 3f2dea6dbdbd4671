"""What differs between two snapshots, said in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from framehook.verification.snapshots import Alias, Leaf, Node, Place, TensorSnapshot, written

#: How far results may be apart when a backend computes in another order: (relative, absolute), by dtype.
TOLERANCES = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (1e-5, 1e-5),
    torch.float64: (1e-7, 1e-8),
    torch.complex64: (1e-5, 1e-5),
    torch.complex128: (1e-7, 1e-8),
}
_LONGEST = 300
_FORMS = (Leaf, Node, Alias, TensorSnapshot)


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How far numbers may be apart.

    Attributes:
        is_exact: bit for bit; the rest is not looked at.
        rtol, atol: relative and absolute; None: those of `TOLERANCES`.
    """

    is_exact: bool = True
    rtol: float | None = None
    atol: float | None = None

    def of(self, dtype: torch.dtype) -> tuple[float, float]:
        """Relative and absolute tolerance for one dtype."""
        if self.is_exact:
            return 0.0, 0.0
        rtol, atol = TOLERANCES.get(dtype, (0.0, 0.0))
        return (rtol if self.rtol is None else self.rtol), (atol if self.atol is None else self.atol)


@dataclasses.dataclass(frozen=True)
class Difference:
    """One thing that is not as eager leaves it.

    Attributes:
        part: what it is a part of: "result", "exception", "arguments", "self", "globals", "gradients", "stdout",
            "stderr", "warnings", "random", "state".
        call: in which call, counted from 0.
        where: the place, as written in Python: `result[0]`.
        kind: "value", or "aliasing" where something is not the same object, or not in the same memory.
        expected, actual: what eager and the compiled function gave, in words.
    """

    part: str
    call: int
    where: str
    kind: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.part} of call {self.call}: {self.where}: expected {self.expected}, got {self.actual}"


def compare(
    actual: Any, expected: Any, name: str, tolerance: Tolerance
) -> Iterator[tuple[str, str, str, str]]:
    """Yield place, kind, expected and actual for each difference of two snapshots."""
    root = (None, "" if isinstance(expected, Node) and expected.kind == name else name)
    for place, kind, wanted, got in _compare(actual, expected, root, tolerance):
        yield written(place), kind, _shortened(wanted), _shortened(got)


_Found = tuple[Place, str, str, str]


def _compare(actual: Any, expected: Any, place: Place, tolerance: Tolerance) -> Iterator[_Found]:
    if isinstance(expected, TensorSnapshot) and isinstance(actual, TensorSnapshot):
        yield from _compare_tensors(actual, expected, place, tolerance)
    elif isinstance(expected, Node) and isinstance(actual, Node):
        yield from _compare_nodes(actual, expected, place, tolerance)
    elif isinstance(expected, Alias) and isinstance(actual, Alias):
        # Places are in both as deep as the values are.
        left, right = written(actual.of), written(expected.of)
        if left != right:
            yield place, "aliasing", f"the object that is {right}", f"the object that is {left}"
    elif isinstance(expected, Alias) or isinstance(actual, Alias):
        yield place, "aliasing", _said(expected), _said(actual)
    elif isinstance(expected, Leaf) and isinstance(actual, Leaf):
        if expected != actual and not _is_close(actual, expected, tolerance):
            yield place, "value", _said(expected), _said(actual)
    elif type(expected) is type(actual) and type(expected) in (tuple, list):
        # Snapshots may come together with other things.
        if len(expected) != len(actual):
            yield place, "value", f"{len(expected)} parts", f"{len(actual)} parts"
        for index, (left, right) in enumerate(zip(actual, expected, strict=False)):
            yield from _compare(left, right, (place, f"[{index}]"), tolerance)
    elif isinstance(expected, _FORMS) or isinstance(actual, _FORMS):
        yield place, "value", _said(expected), _said(actual)
    elif type(expected) is not type(actual) or expected != actual:
        yield place, "value", repr(expected), repr(actual)


def _compare_nodes(actual: Node, expected: Node, place: Place, tolerance: Tolerance) -> Iterator[_Found]:
    if (actual.kind, actual.name) != (expected.kind, expected.name):
        yield place, "value", _said(expected), _said(actual)
        return
    theirs = dict(actual.parts)
    mine = dict(expected.parts)
    if len(mine) == len(expected.parts) and len(theirs) == len(actual.parts):
        missing = [label for label in mine if label not in theirs]
        added = [label for label in theirs if label not in mine]
        for label in missing:
            yield (place, label), "value", _said(mine[label]), "nothing"
        for label in added:
            yield (place, label), "value", "nothing", _said(theirs[label])
        pairs = [(label, theirs[label], mine[label]) for label in mine if label in theirs]
        if not missing and not added and list(mine) != list(theirs):
            yield place, "value", f"the order {', '.join(mine)}", f"the order {', '.join(theirs)}"
    else:
        if len(expected.parts) != len(actual.parts):
            yield place, "value", _said(expected), _said(actual)
        both = zip(actual.parts, expected.parts, strict=False)
        pairs = [(label, left, right) for (_, left), (label, right) in both]
    for label, left, right in pairs:
        yield from _compare(left, right, (place, label), tolerance)


def _compare_tensors(
    actual: TensorSnapshot, expected: TensorSnapshot, place: Place, tolerance: Tolerance
) -> Iterator[_Found]:
    if actual.properties != expected.properties:
        names = [name for name, item in expected.properties.items() if actual.properties[name] != item]
        wanted, got = (
            ", ".join(f"{name} {each.properties[name]}" for name in names) for each in (expected, actual)
        )
        yield place, "value", wanted, got
    elif actual.data is not None and expected.data is not None:
        rtol, atol = tolerance.of(expected.data.dtype)
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            try:
                torch.testing.assert_close(
                    actual.data, expected.data, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
                )
            except AssertionError as error:
                yield place, "value", f"{expected.data!r}", f"{actual.data!r} ({_extent(str(error))})"
    shared, shares = written(expected.shares_with), written(actual.shares_with)
    if shared != shares:
        yield (
            place,
            "aliasing",
            f"memory shared with {shared}" if shared else "memory of its own",
            f"memory shared with {shares}" if shares else "memory of its own",
        )
    elif tolerance.is_exact and shared and actual.offset != expected.offset:
        yield place, "aliasing", f"storage offset {expected.offset}", f"storage offset {actual.offset}"
    yield from _compare(actual.gradient, expected.gradient, (place, ".grad"), tolerance)
    yield from _compare(actual.attributes, expected.attributes, (place, ".__dict__"), tolerance)


def _is_close(actual: Leaf, expected: Leaf, tolerance: Tolerance) -> bool:
    if tolerance.is_exact or actual.kind != "float" or expected.kind != "float":
        return False
    # Numbers come out of tensors, of single precision more often than not.
    rtol, atol = tolerance.of(torch.float32)
    left, right = float.fromhex(actual.value), float.fromhex(expected.value)
    return abs(left - right) <= atol + rtol * abs(right)


def _said(each: Any) -> str:
    if each is None:
        return "nothing"
    if isinstance(each, Leaf):
        if each.kind == "float":
            return repr(float.fromhex(each.value))
        return str(each.value) if each.kind == "named" else repr(each.value)
    if isinstance(each, Alias):
        return f"the object that is {written(each.of)}"
    if isinstance(each, TensorSnapshot):
        return f"a tensor {each.properties['dtype']} {list(each.properties['shape'])}"
    if not isinstance(each, Node):
        return repr(each)
    if each.kind == "exception":
        text = dict(each.parts).get("text")
        return f"{each.name}: {text.value if isinstance(text, Leaf) else ''}"
    if each.kind in ("sequence", "set"):
        return f"{each.name}({', '.join(_said(part) for _, part in each.parts[:8])})"
    return f"{each.name} with {len(each.parts)} parts" if each.parts else each.name


def _extent(text: str) -> str:
    """How many elements, and how far, of what `assert_close` says."""
    told = [line for line in text.splitlines() if line.startswith(("Mismatched", "Greatest", "Absolute"))]
    return "; ".join(told) or text


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _shortened(text: str) -> str:
    text = _on_one_line(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def assert_same(actual: Any, expected: Any, *, exact: bool = True, where: str = "result") -> None:
    """Fail, naming the place, unless two snapshots, or tuples of them, are equal; bit for bit when `exact`.

    Raises:
        AssertionError: at the first difference.
    """
    for place, _, wanted, got in compare(actual, expected, where, Tolerance(exact)):
        raise AssertionError(f"{place}: expected {wanted}, got {got}")
