"""What a caller can see of a value, as plain data: for comparing an eager run with a compiled one.

A snapshot copies, so later changes do not reach it.  An object that was met before is named by the place where it was
met first, and a tensor names the one whose memory it shares: two snapshots are equal only when their aliasing is too.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import traceback
import types
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from framehook.bytecode import opcodes

#: A label, and the place of what it is a label in (None: the root): `((None, "result"), "[0]")`.
Place: TypeAlias = tuple[Any, str]

_PLAIN = frozenset(
    {type(None), bool, int, complex, str, bytes, type(...), torch.dtype, torch.device, torch.Size, range}
)
_NAMED = (types.BuiltinFunctionType, types.MethodWrapperType, types.ModuleType, type)
#: Modules of types written in C whose state `__reduce_ex__` gives: iterators, slices, dates, …
_REDUCIBLE_MODULES = frozenset({"builtins", "itertools", "collections", "datetime", "decimal", "fractions"})
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
#: Files whose frames are no part of the user's program, which runs with or without them.
_FOREIGN_FILES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parents[1]),
    "<eval_with_key>",
    "<framehook",
)
#: How names in a tensor's `__dict__` begin that compilers leave there.
_MARKS = ("_dynamo", "_framehook")


class Leaf(NamedTuple):
    """A value without parts, compared by type and value."""

    kind: str
    value: Any


class Alias(NamedTuple):
    """An object that was met before, at the place `of`."""

    of: Place


class Node(NamedTuple):
    """A value with parts, each under its label, such as `[0]` or `.weight`."""

    kind: str
    name: str
    parts: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class TensorSnapshot:
    """A tensor's visible properties, a copy of its data, and its gradient if it has one.

    Attributes:
        offset: its place in its storage.
        shares_with: where a tensor of the same storage was met; None for the first.
        attributes: what was stored on it.
    """

    properties: dict[str, Any]
    data: torch.Tensor | None
    offset: int
    shares_with: Place | None
    gradient: Any
    attributes: Any


class Snapshots:
    """Takes snapshots of several values that may have objects in common."""

    def __init__(self) -> None:
        # With the objects themselves, so that no id is used again.
        self._met: dict[int, tuple[Place, object]] = {}
        self._storages: dict[int, tuple[Place, object]] = {}

    def take(self, value: object, name: str = "") -> Any:
        """Return `value`, to be called `name`, as plain data."""
        return self._take(value, (None, name))

    def take_all(self, values: Mapping[str, object], name: str) -> Node:
        """Take several under names of their own."""
        return Node(
            name, "", tuple((label, self._take(value, (None, label))) for label, value in values.items())
        )

    def _take(self, value: Any, place: Place) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return Leaf(kind.__name__, without_addresses(value) if kind is str else value)
        if kind is float:
            return Leaf("float", value.hex())  # tells -0.0 from 0.0, and NaN equals itself
        if isinstance(value, _NAMED):
            return Leaf("named", getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
        if isinstance(value, enum.Enum):
            return Leaf(kind.__qualname__, value.name)
        known = self._met.get(id(value))
        if known is not None:
            return Alias(known[0])
        self._met[id(value)] = (place, value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, place)
        node_kind, parts = self._parts(value)
        return Node(
            node_kind,
            kind.__qualname__,
            tuple((label, self._take(part, (place, label))) for label, part in parts)
            if node_kind != "set"
            else tuple(
                sorted(((label, self._take(part, (place, label))) for label, part in parts), key=repr)
            ),
        )

    def _parts(self, value: Any) -> tuple[str, Iterator[tuple[str, Any]]]:
        """What kind of thing it is, and its labelled parts."""
        if isinstance(value, dict):
            return "dict", _of_mapping(value)
        if isinstance(value, list | tuple | deque):
            return "sequence", _of_sequence(value)
        if isinstance(value, set | frozenset):
            return "set", _of_set(value)
        if isinstance(value, BaseException):
            return "exception", _of_exception(value)
        if isinstance(value, torch.nn.Module):
            shown = ((key, item) for key, item in vars(value).items() if not key.startswith("_forward_"))
            return "module", ((f".{key}", item) for key, item in shown)
        if isinstance(value, types.FunctionType):
            return "function", _of_function(value)
        if isinstance(value, types.MethodType):
            return "method", iter(((".__func__", value.__func__), (".__self__", value.__self__)))
        if isinstance(value, types.CellType):
            return "cell", iter(_cell_contents(value))
        if isinstance(value, functools.partial):
            return "partial", ((f".{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
        if isinstance(value, types.MappingProxyType):
            return "view", _items(value.items())
        if isinstance(value, weakref.ref):
            return "reference", iter((("()", value()),))
        if isinstance(value, torch.Generator):
            return "generator", iter(((".get_state()", value.get_state()),))
        if type(value).__module__ in _REDUCIBLE_MODULES and not _is_class_of_python(type(value)):
            return "state", _of_state(value)
        if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            parts = ((".dtype", str(value.dtype)), (".shape", value.shape), (".tobytes()", value.tobytes()))
            return "array", iter(parts)
        return "object", _of_object(value)

    def _tensor(self, tensor: torch.Tensor, place: Place) -> TensorSnapshot:
        shares_with = None
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            is_strided = tensor.layout is torch.strided
            properties = {
                "class": type(tensor).__qualname__,
                "dtype": tensor.dtype,
                "device": tensor.device,
                "shape": tuple(tensor.shape),
                "stride": tuple(tensor.stride()) if is_strided else None,
                "requires_grad": tensor.requires_grad,
                "is_leaf": tensor.is_leaf,
                "is_inference": tensor.is_inference(),
            }
            has_storage = torch._C._has_storage(tensor)
            if has_storage:
                storage = tensor.untyped_storage()
                first = self._storages.setdefault(storage._cdata, (place, storage))[0]
                shares_with = None if first is place else first
            data = None if tensor.is_meta else tensor.detach().clone()
            gradient = tensor.grad if tensor.is_leaf else None
            attributes = {key: item for key, item in vars(tensor).items() if not key.startswith(_MARKS)}
        return TensorSnapshot(
            properties,
            data,
            int(tensor.storage_offset()) if has_storage and is_strided else 0,
            shares_with,
            None if gradient is None else self._take(gradient, (place, ".grad")),
            self._take(attributes, (place, ".__dict__")) if attributes else None,
        )


def snapshot(value: object) -> Any:
    """Return `value` as plain data: `Leaf`, `Node`, `Alias` and `TensorSnapshot`."""
    return Snapshots().take(value)


def is_foreign_file(filename: str) -> bool:
    """Whether it is torch's or framehook's, or a graph's, whose frames eager and compiled need not have in common."""
    return filename.startswith(_FOREIGN_FILES)


def written(place: Place | None) -> str:
    """A place as it is written in Python: `result[0].weight`."""
    labels = []
    while place is not None:
        place, label = place
        labels.append(label)
    return "".join(reversed(labels))


def without_addresses(text: str) -> str:
    """`text` with the addresses that the `repr` of an object has, which differ from copy to copy, taken out."""
    return _ADDRESS.sub("0x…", text)


def _items(items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    for index, (key, item) in enumerate(items):
        if type(key) in (str, int, float, bool, bytes, type(None)):
            yield f"[{key!r}]", item
        else:  # its `repr` may be the user's
            yield f".keys()[{index}]", key
            yield f".values()[{index}]", item


def _of_mapping(value: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    # Not what a subclass says of itself; `OrderedDict` has an order of its own.
    yield from _items((OrderedDict if isinstance(value, OrderedDict) else dict).items(value))
    factory = getattr(value, "default_factory", None)
    if factory is not None:
        yield ".default_factory", factory
    yield from _own_attributes(value)


def _of_sequence(value: Any) -> Iterator[tuple[str, Any]]:
    # Of a subclass, what it holds, not what its own `__iter__` says.
    base = next(each for each in (list, tuple, deque) if isinstance(value, each))
    for index, item in enumerate(base.__iter__(value)):
        yield f"[{index}]", item
    if base is deque:
        yield ".maxlen", deque.maxlen.__get__(value)
    yield from _own_attributes(value)


def _of_set(value: Any) -> Iterator[tuple[str, Any]]:
    base = set if isinstance(value, set) else frozenset
    for item in base.__iter__(value):
        yield "{…}", item
    yield from _own_attributes(value)


def _line_depends_on_warmth(error: BaseException) -> bool:
    return opcodes.FUSES_LOADS_OF_VARIABLES and isinstance(error, UnboundLocalError)


def _of_exception(error: BaseException) -> Iterator[tuple[str, Any]]:
    yield ".args", BaseException.args.__get__(error)  # type: ignore[attr-defined]
    yield "text", str(error)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
        for frame in frames
        if not is_foreign_file(frame.filename)
    ]
    if lines and not is_foreign_file(frames[-1].filename) and _line_depends_on_warmth(error):
        lines[-1] = f"{Path(frames[-1].filename).name} in {frames[-1].name}"
    yield "traceback", lines
    for name in ("__cause__", "__context__", "__suppress_context__"):
        yield f".{name}", getattr(error, name)
    yield from _own_attributes(error)


def _of_function(fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    yield ".__qualname__", fn.__qualname__
    yield ".__defaults__", fn.__defaults__
    yield ".__kwdefaults__", fn.__kwdefaults__
    if not is_foreign_file(fn.__code__.co_filename):
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            yield f" cell {name}", cell
    yield from _own_attributes(fn)


def _cell_contents(cell: types.CellType) -> list[tuple[str, Any]]:
    try:
        return [(".cell_contents", cell.cell_contents)]
    except ValueError:
        return []


def _of_state(value: Any) -> Iterator[tuple[str, Any]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some types announce that they will lose it
            state = value.__reduce_ex__(2)
    except Exception:  # generators, coroutines, views: they have no state that could be read
        return
    yield " state", state


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            descriptor = cls.__dict__.get(_mangled(name, cls))
            if isinstance(descriptor, types.MemberDescriptorType) and name != "__weakref__":
                try:
                    item = descriptor.__get__(value)
                except AttributeError:
                    continue
                yield f".{name}", item
    yield from _own_attributes(value)


def _mangled(name: str, cls: type) -> str:
    return f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name


def _own_attributes(value: Any) -> Iterator[tuple[str, Any]]:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return
    for name, item in dict(attributes).items():
        yield f".{name}", item


def _is_class_of_python(cls: type) -> bool:
    return "__dict__" in cls.__dict__ or "__slots__" in cls.__dict__
