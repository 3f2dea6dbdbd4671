"""Guards and their failures in words, with values: `size of L['x'] at dim 0: expected 32, got 48 (train.py:41)`."""

from __future__ import annotations

import enum
import os
import reprlib
from collections import deque
from collections.abc import Callable, Sequence
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, Protocol

import torch

from framehook import _C
from framehook.guards.guard import Check, Guard, GuardSet, TensorSpec, WeakIdentity
from framehook.guards.lowering import lower
from framehook.source import InstanceDictSource, MemberSource, Source

_PLAIN_TYPES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    tuple,
    list,
    dict,
    set,
    frozenset,
    slice,
    range,
)

#: Integers of more bits are told by their size: Python refuses to write some of them (`sys.set_int_max_str_digits`).
_MOST_BITS = 512


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= _MOST_BITS else f"an int of {x.bit_length()} bits"


_short = _Short()
_short.maxstring = _short.maxother = 80
_short.maxtuple = _short.maxlist = 12


class Record(Protocol):
    """The part of a `FrameRecord` that guards are evaluated on."""

    @property
    def slots(self) -> tuple[Any, ...]: ...
    @property
    def globals(self) -> dict[str, Any]: ...
    @property
    def builtins(self) -> dict[str, Any]: ...
    @property
    def closure(self) -> object: ...


def line_of(location: tuple[CodeType, int] | None) -> str:
    """`train.py:41` for a place in user code, or an empty string."""
    if location is None:
        return ""
    code, offset = location
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return f"{os.path.basename(code.co_filename)}:{line}"
    return os.path.basename(code.co_filename)


def value(obj: Any) -> str:
    """A value as people should see it; runs no code of user classes, and raises nothing."""
    # By the type itself: `isinstance` asks `__class__`, which may be a property of the user's.
    cls = type(obj)
    if cls is LookupError:  # of the guard program
        return str(obj)
    if issubclass(cls, WeakIdentity):
        held = obj.get()
        return "an object that has died" if held is None and obj.address != id(None) else value(held)
    if issubclass(cls, type):
        return _type_name(obj)
    if cls is FunctionType:
        return f"function {obj.__qualname__}"
    if cls is ModuleType:
        return f"module {vars(obj).get('__name__', '?')}"
    if cls in _PLAIN_TYPES:
        return _plain(obj)
    if cls in _TORCH_CONSTANTS:
        return str(obj)
    if type(cls) is enum.EnumType:
        return f"{_type_name(cls)}.{_instance_dict(obj).get('_name_', '?')}"
    if cls in _CALLABLES:
        name = getattr(obj, "__qualname__", None)
        if isinstance(name, str):
            return name
    return f"{_type_name(cls)} object at {id(obj):#x}"


_TORCH_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
#: Methods are not among them: their `__qualname__` is that of the callable behind them.
_CALLABLES = (
    BuiltinFunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
    MethodWrapperType,
    ClassMethodDescriptorType,
)


def _type_name(cls: Any) -> str:
    # A metaclass may have a `__qualname__` of its own.
    name = type.__dict__["__qualname__"].__get__(cls)
    return name if isinstance(name, str) else "?"


def _instance_dict(obj: object) -> dict[str, Any]:
    return _C.instance_dict(obj) or {}


def _plain(obj: Any) -> str:
    if not _is_harmless(obj):
        return (
            f"a {type(obj).__name__} of {len(obj)}" if hasattr(obj, "__len__") else f"a {type(obj).__name__}"
        )
    try:
        return _short.repr(obj)
    except Exception:
        # Integers in a range or slice that are too long to write.
        return f"a {type(obj).__name__}"


def _is_harmless(obj: object, depth: int = 4) -> bool:
    """Whether `repr` of this value runs no code of user classes."""
    if depth == 0 or type(obj) not in _PLAIN_TYPES:
        return False
    if isinstance(obj, slice):
        return all(_is_harmless(part, depth - 1) for part in (obj.start, obj.stop, obj.step))
    if isinstance(obj, dict):
        return all(_is_harmless(k, depth - 1) and _is_harmless(v, depth - 1) for k, v in obj.items())
    if isinstance(obj, tuple | list | set | frozenset):
        return all(_is_harmless(item, depth - 1) for item in obj)
    return True


# -- what a guard says -----------------------------------------------------------------------------------------


def _place(guard: Guard) -> str:
    return guard.source.name() if guard.source is not None else ""


def _key_place(guard: Guard) -> str:
    source = guard.source
    if isinstance(source, InstanceDictSource) or (
        isinstance(source, MemberSource) and source.key == "__dict__"
    ):
        assert source.base is not None
        return f"{source.base.name()}.{guard.constant}"
    return f"{_place(guard)}[{value(guard.constant)}]"


def _names(sources: Sequence[Source]) -> str:
    names = [source.name() for source in sources]
    if len(names) > 6:
        names = [*names[:5], f"{len(names) - 5} more"]
    return ", ".join(names)


def _tensor_words(spec: TensorSpec) -> str:
    parts = [f"{value(spec.cls)} of {spec.dtype} on {spec.device}", f"sizes {_dimensions(spec.sizes)}"]
    if spec.strides is not None:
        parts.append(f"strides {_dimensions(spec.strides)}")
    if spec.requires_grad is not None:
        parts.append("requires grad" if spec.requires_grad else "requires no grad")
    return ", ".join(parts)


def _dimensions(numbers: Sequence[int | None]) -> str:
    return "[" + ", ".join("any" if number is None else str(number) for number in numbers) + "]"


_SAYINGS: dict[Check, Callable[[Guard], str]] = {
    Check.TYPE: lambda g: f"type of {_place(g)} is {value(g.constant)}",
    Check.IDENTITY: lambda g: f"{_place(g)} is the very {value(g.constant).removeprefix('a ')}",
    Check.NOT_NONE: lambda g: f"{_place(g)} is not None",
    Check.EQUALS: lambda g: f"{_place(g)} is {value(g.constant)}",
    Check.LENGTH: lambda g: f"length of {_place(g)} is {g.constant}",
    Check.KEYS: lambda g: f"keys of {_place(g)} are {value(list(g.constant))}",
    Check.MEMBERS: lambda g: f"members of {_place(g)} are {value(list(g.constant))}",
    Check.HAS_KEY: lambda g: f"{_key_place(g)} exists",
    Check.NO_KEY: lambda g: f"{_key_place(g)} does not exist",
    Check.NO_CLASS_ATTR: lambda g: f"class {_place(g)} has no attribute {g.constant}",
    Check.TENSOR: lambda g: f"{_place(g)} is a {_tensor_words(g.constant)}",
    Check.STATE: lambda g: "state of torch is as it was",
    Check.SAME: lambda g: f"{_place(g)} is {g.constant.name()}",
    Check.DISTINCT: lambda g: f"{_names(g.constant)} are different objects",
    Check.DISJOINT: lambda g: f"memory of {_names(g.constant[0])} overlaps that of no other input",
    Check.OVERLAPS: lambda g: (
        f"memory of {g.constant[1].name()} starts {g.constant[2]} bytes after {g.constant[0].name()}"
    ),
    Check.RELATION: lambda g: g.constant.text,
    Check.CELL_EMPTY: lambda g: f"{_place(g)} is unbound",
    Check.PREDICATE: lambda g: f"{value(g.constant[0])}({_names(g.constant[1])}) holds",
    Check.ENVIRONMENT: lambda g: f"environment variable {g.constant[0]} is {_variable(g.constant[1])}",
    Check.ALL: lambda g: "; ".join(_SAYINGS[part.check](part) for part in g.constant),
}


def _variable(text: str | None) -> str:
    return "not set" if text is None else repr(text)


def say(guard: Guard) -> str:
    """One guard in words, with its place in user code: `type of L['x'] is Linear (train.py:41)`."""
    try:
        return _located(_SAYINGS[guard.check](guard), guard)
    except Exception as error:
        return _wordless(guard, error)


def _wordless(guard: Guard, error: Exception) -> str:
    # Words are for people; a call is never to fail for want of them.
    return f"a guard of kind {guard.check.name} (no words for it: {type(error).__name__})"


def _located(text: str, guard: Guard) -> str:
    line = line_of(guard.location)
    return f"{text} ({line})" if line else text


# -- why a guard failed ----------------------------------------------------------------------------------------


def _is_number(obj: object) -> bool:
    return type(obj) in (int, float, bool)


def _expected(subject: str, expected: object, got: object) -> str:
    first, second = value(expected), value(got)
    if isinstance(expected, WeakIdentity):
        expected = expected.get()
    if first == second or (_is_number(expected) and _is_number(got) and expected == got):
        # 1, True and 1.0, or two objects of one name.
        first, second = f"{first} ({type(expected).__name__})", f"{second} ({type(got).__name__})"
        if first == second:
            second = "another one"
    return f"{subject}: expected {first}, got {second}"


def _tensor_failure(guard: Guard, got: Any) -> str:
    spec, place = guard.constant, _place(guard)
    if type(got) is LookupError or type(got) is not spec.cls.get():
        return _expected(f"type of {place}", spec.cls, got if type(got) is LookupError else type(got))
    for name, expected, found in (
        ("dtype", spec.dtype, got.dtype),
        ("device", spec.device, got.device),
        ("number of dimensions", len(spec.sizes), got.dim()),
    ):
        if expected != found:
            return f"{name} of {place}: expected {expected}, got {found}"
    for dim, (expected, found) in enumerate(zip(spec.sizes, got.shape, strict=True)):
        if expected is not None and expected != found:
            return f"size of {place} at dim {dim}: expected {expected}, got {found}"
    if spec.requires_grad is not None and spec.requires_grad != got.requires_grad:
        return f"requires_grad of {place}: expected {spec.requires_grad}, got {got.requires_grad}"
    keys = _C.dispatch_keys(got)
    if keys != spec.dispatch_keys:
        return f"dispatch keys of {place}: expected {spec.dispatch_keys:#x}, got {keys:#x}"
    for dim, (expected, found) in enumerate(zip(spec.strides or (), got.stride(), strict=False)):
        if expected is not None and expected != found:
            return f"stride of {place} at dim {dim}: expected {expected}, got {found}"
    return f"{place}: expected a {_tensor_words(spec)}, got another tensor"


def _state_failure(guard: Guard, got: Any) -> str:
    if not got:
        return "state of torch: expected as it was"
    return "; ".join(_expected(name, before, now) for name, before, now in got)


_SIZED: tuple[Any, ...] = (tuple, list, dict, set, frozenset, str, bytes, range, deque)


def _length_failure(guard: Guard, got: Any) -> str:
    # The built-in's own length: that of a subclass is code of the user's.
    base = next((cls for cls in _SIZED if issubclass(type(got), cls)), None)
    found: object = got if base is None else base.__len__(got)
    return _expected(f"length of {_place(guard)}", guard.constant, found)


def _keys_failure(guard: Guard, got: Any) -> str:
    found = list(dict.keys(got)) if issubclass(type(got), dict) else got
    return _expected(f"keys of {_place(guard)}", list(guard.constant), found)


def _members_failure(guard: Guard, got: Any) -> str:
    base = next((cls for cls in (set, frozenset) if issubclass(type(got), cls)), None)
    found = got if base is None else list(base.__iter__(got))
    return _expected(f"members of {_place(guard)}", list(guard.constant), found)


def _environment_failure(guard: Guard, got: Any) -> str:
    name, expected = guard.constant
    return (
        f"environment variable {name}: expected {_variable(expected)}, got {_variable(os.environ.get(name))}"
    )


_FAILURES: dict[Check, Callable[[Guard, Any], str]] = {
    Check.TYPE: lambda g, got: _expected(
        f"type of {_place(g)}", g.constant, got if type(got) is LookupError else type(got)
    ),
    Check.NOT_NONE: lambda g, got: f"{_place(g)}: expected anything but None, got {value(got)}",
    Check.LENGTH: _length_failure,
    Check.KEYS: _keys_failure,
    Check.MEMBERS: _members_failure,
    Check.HAS_KEY: lambda g, got: f"{_key_place(g)}: expected to exist, is missing",
    Check.NO_KEY: lambda g, got: f"{_key_place(g)}: expected not to exist, is present",
    Check.NO_CLASS_ATTR: lambda g, got: (
        f"attribute {g.constant} of class {_place(g)}: expected none, is present"
    ),
    Check.TENSOR: _tensor_failure,
    Check.STATE: _state_failure,
    Check.SAME: lambda g, got: (
        f"{_place(g)}: expected the same object as {g.constant.name()}, got another one"
    ),
    Check.DISTINCT: lambda g, got: f"{_names(g.constant)}: expected different objects, got one object twice",
    Check.DISJOINT: lambda g, got: (
        f"memory of {_names(g.constant[0])}: expected apart from all other inputs, overlaps one"
    ),
    Check.OVERLAPS: lambda g, got: (
        f"memory of {g.constant[1].name()}: expected {g.constant[2]} bytes after the start of "
        f"{g.constant[0].name()} and overlapping it, is elsewhere"
    ),
    Check.RELATION: lambda g, got: f"{g.constant.text}: expected to hold",
    Check.CELL_EMPTY: lambda g, got: f"{_place(g)}: expected unbound, has a value",
    Check.PREDICATE: lambda g, got: f"{value(g.constant[0])}({_names(g.constant[1])}): expected to hold",
    Check.ENVIRONMENT: _environment_failure,
}


def say_failure(guard: Guard, got: object) -> str:
    """Why a guard failed, with values.

    Args:
        guard: the guard.
        got: what `GuardProgram.failure` found: the value, or a LookupError that says why there is none.
    """
    by_check = _FAILURES.get(guard.check)
    try:
        text = by_check(guard, got) if by_check is not None else _expected(_place(guard), guard.constant, got)
        return _located(text, guard)
    except Exception as error:
        return _wordless(guard, error)


class Failure(NamedTuple):
    """Why a program does not hold for a frame.

    Attributes:
        text: all of it, in words: `size of L['x'] at dim 0: expected 32, got 48 (train.py:41)`.
        subject: what it is about: `size of L['x'] at dim 0`.
        expected, got: the values, where the words name both; else empty.
        guard: the guard that failed; None when no guard does.
    """

    text: str
    subject: str
    expected: str
    got: str
    guard: Guard | None


def failure(program: _C.GuardProgram, guards: Sequence[Guard], record: Record) -> str:
    """Why a program does not hold for a frame, in words; see `explain`."""
    return explain(program, guards, record).text


def explain(program: _C.GuardProgram, guards: Sequence[Guard], record: Record) -> Failure:
    """Why a program does not hold for a frame.

    Args:
        program: lowered from `guards`.
        guards: in the order of the guard set.
        record: arguments and namespaces of the frame.
    """
    found = program.failure(record.slots, record.globals, record.builtins, record.closure)
    if found is None:
        return Failure(_NONE_FAILS, _NONE_FAILS, "", "", None)
    index, got = found
    if index < 0:
        return Failure(f"an input of the graph: {value(got)}", "an input of the graph", "", value(got), None)
    guard = guards[index]
    if guard.check is Check.ALL:
        for part in guard.constant:
            found = lower(GuardSet.of([part]), ()).failure(
                record.slots, record.globals, record.builtins, record.closure
            )
            if found is not None:
                return _failure_of(part, found[1])
        return Failure(_NONE_FAILS, _NONE_FAILS, "", "", guard)
    return _failure_of(guard, got)


_NONE_FAILS = "no guard fails any more"


def _failure_of(guard: Guard, got: object) -> Failure:
    text = say_failure(guard, got)
    line = line_of(guard.location)
    bare = text.removesuffix(f" ({line})") if line else text
    subject, _, values = bare.partition(": expected ")
    expected, _, seen = values.partition(", got ")
    return Failure(text, subject, expected if seen else "", seen, guard)
