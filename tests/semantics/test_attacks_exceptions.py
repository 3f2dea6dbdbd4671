"""Exceptions with fields of their own, errors that CPython words itself, and classes that lie."""

from __future__ import annotations

import collections
import json  # noqa: F401  (the programs use it)
import re  # noqa: F401
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook

_FIELDS = (
    "args", "value", "code", "name", "path", "obj", "msg", "errno", "strerror", "filename", "lineno", "offset",
    "text", "encoding", "object", "start", "end", "reason", "message", "exceptions", "extra", "made",
)  # fmt: skip


def shown(value: Any) -> Any:
    """What can be compared of a result."""
    if isinstance(value, BaseException):
        fields = [(name, shown(getattr(value, name))) for name in _FIELDS if hasattr(value, name)]
        return type(value), str(value), fields, shown(value.__cause__), value.__suppress_context__
    if isinstance(value, (tuple, list)):
        return type(value), [shown(item) for item in value]
    if isinstance(value, Tensor):
        return value.tolist()
    return value


def outcome(fn: Callable[[Tensor], Any]) -> Any:
    """The result or the exception of a call."""
    try:
        return "returns", shown(fn(torch.ones(1)))
    except BaseException as error:
        return "raises", shown(error)


class Plain(ValueError):
    pass


class Extra(ValueError):
    def __init__(self, extra: Any) -> None:
        self.extra = extra


class Initialised(RuntimeError):
    def __init__(self, first: Any, second: Any) -> None:
        super().__init__(first)
        self.extra = second


class MadeInPython(Exception):
    made: int

    def __new__(cls, *args: Any) -> MadeInPython:
        instance = super().__new__(cls, "of __new__")
        MADE.append(args)
        instance.made = len(args)
        return instance


class Keyword(Exception):
    def __init__(self, *, extra: Any) -> None:
        super().__init__(extra)


class NoKeywords(Exception):
    pass


class Stop(StopIteration):
    pass


class StopWithInit(StopIteration):
    def __init__(self, value: Any) -> None:
        super().__init__(value, "second")


class Both(LookupError, StopIteration):
    pass


class Failed(OSError):
    pass


class Exits(SystemExit):
    def __init__(self, code: Any) -> None:
        super().__init__(code)


class NotFound(AttributeError):
    def __init__(self, text: str) -> None:
        super().__init__(text, name="n", obj=3)


MADE: list[Any] = []

#: Expressions that make an exception: it is returned, raised, and raised and caught.
CONSTRUCTED = [
    "Exception(1, 2)",
    "ValueError()",
    "KeyError('k')",
    "RuntimeError('a', 'b')",
    "UserWarning('w')",
    "UnicodeError('u')",
    "KeyboardInterrupt('k')",
    "StopIteration(5)",
    "StopIteration()",
    "StopIteration(1, 2)",
    "StopAsyncIteration(5)",
    "GeneratorExit(1)",
    "SystemExit(3)",
    "SystemExit(1, 2)",
    "SystemExit()",
    "ImportError('m', name='n', path='p')",
    "ModuleNotFoundError('m', name='n')",
    "ImportError('m')",
    "AttributeError('a', name='n', obj=3)",
    "AttributeError('a')",
    "NameError('a', name='n')",
    "NameError('a')",
    "UnboundLocalError('a')",
    "UnicodeDecodeError('utf-8', b'abc', 0, 1, 'why')",
    "UnicodeEncodeError('utf-8', 'abc', 0, 1, 'why')",
    "UnicodeTranslateError('abc', 0, 1, 'why')",
    "UnicodeDecodeError('utf-8')",
    "SyntaxError('m', ('f', 1, 2, 't'))",
    "SyntaxError('m')",
    "OSError(2, 'm')",
    "OSError(2, 'm', 'f')",
    "OSError('m')",
    "FileNotFoundError(2, 'm')",
    "MemoryError('m')",
    "ExceptionGroup('g', [ValueError(1)])",
    "ValueError(a=1)",
    "Plain(1)",
    "Extra(1)",
    "Initialised(1, 2)",
    "MadeInPython(1, 2)",
    "Keyword(extra=1)",
    "NoKeywords(extra=1)",
    "Stop(7)",
    "StopWithInit(7)",
    "Both(7)",
    "Failed(2, 'm')",
    "Exits(4)",
    "NotFound('a')",
]


def program(body: str) -> Callable[[Tensor], Any]:
    """A function of `x` with the given lines."""
    namespace: dict[str, Any] = dict(globals())
    exec("def fn(x):\n" + "".join(f"    {line}\n" for line in body.splitlines()), namespace)
    fn: Callable[[Tensor], Any] = namespace["fn"]
    return fn


def check(fn: Callable[[Tensor], Any]) -> None:
    """Two calls of the compiled function give what eager gives."""
    MADE.clear()
    expected = outcome(fn)
    made = list(MADE)
    compiled = framehook.compile(fn, backend="eager")
    for _ in range(2):
        MADE.clear()
        assert outcome(compiled) == expected
        assert made == MADE


@pytest.mark.parametrize("made", CONSTRUCTED)
@pytest.mark.parametrize(
    "body",
    [
        "y = x + 1\nreturn {}, y",
        "y = x + 1\nraise {}",
        "y = x + 1\ntry:\n    raise {}\nexcept BaseException as error:\n    return error, y * 2",
        "e = {}\ny = x + 1\nOUTSIDE.get('k')\nreturn e, y",
    ],
    ids=["returned", "raised", "caught", "kept"],
)
def test_constructed(made: str, body: str) -> None:
    check(program(body.format(made)))


OUTSIDE: Any = type(type.__dict__)({"k": 1})


def delegating(x: Tensor) -> Iterator[Any]:
    result = yield from Receiver(StopIteration(x + 1))
    yield result


class Receiver:
    """An iterator that raises what it was given."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self) -> Receiver:
        return self

    def __next__(self) -> Any:
        raise self.error


def make_stop(x: Tensor) -> Any:
    return StopIteration(x + 1)


def test_value_of_a_stop_iteration_that_is_delegated_to() -> None:
    compiled = framehook.compile(make_stop, backend="eager")

    def delegate() -> Iterator[Any]:
        return (yield from Receiver(compiled(torch.ones(1))))

    with pytest.raises(StopIteration) as raised:
        next(delegate())
    assert raised.value.value.tolist() == [2.0]
    check(lambda x: list(delegating(x)))


class Counting:
    """An iterator whose end has a value."""

    def __init__(self, end: Any) -> None:
        self.end = end
        self.left = 2

    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StopIteration(self.end)
        return self.left


def test_value_of_the_end_of_an_iterator() -> None:
    def fn(x: Tensor) -> Any:
        counting = Counting(x + 1)
        next(counting)
        next(counting)
        try:
            next(counting)
        except StopIteration as error:
            return error.value, next(counting, 3)

    def delegate(x: Tensor) -> Iterator[Any]:
        result = yield from Counting(x + 1)
        yield result

    check(fn)
    check(lambda x: list(delegate(x)))


def test_an_exception_that_holds_itself() -> None:
    def fn(x: Tensor) -> Any:
        held: list[Any] = [x + 1]
        error = ValueError(held)
        held.append(error)
        return error

    error = framehook.compile(fn, backend="eager")(torch.ones(1))
    assert error.args[0][1] is error


WORDED = [
    "z = [*3]",
    "z = [1, *3, 4]",
    "z = {*3}",
    "z = (*3,)",
    "z = {**3}",
    "z = {**[(1, 2)]}",
    "z = {'a': y, **3}",
    "helper(*3)",
    "helper(1, *3)",
    "helper(*helper)",
    "helper(**3)",
    "helper(**[(1, 2)])",
    "helper(a=y, **3)",
    "helper(**{1: 2})",
    "helper(a=y, **{1: 2})",
    "helper(a=y, **{'a': 2})",
    "helper(*[y], a=y, **{'a': 2})",
    "z = dict(**{1: 2})",
    "z = helper(1, helper(a=y, **{'a': 2}))",
    "a, b = 3",
    "a, *b = 3",
    "a, b = 1.5",
    "a, b = helper",
    "a, b = []",
    "a, b = y, y, y",
    "raise ValueError from 3",
    "raise ValueError(1) from y",
    "raise ValueError(1) from helper",
    "raise ValueError(1) from int",
    "raise ValueError(1) from KeyError",
    "raise ValueError(1) from None",
    "raise 3",
    "super()",
    "super().x",
    "z = len(3)",
]


@pytest.mark.parametrize("line", WORDED)
@pytest.mark.parametrize("is_caught", [False, True], ids=["raised", "caught"])
def test_errors_that_an_instruction_words(line: str, is_caught: bool) -> None:
    body = "def helper(*args, **kwargs):\n    return 1\ny = x + 1\n"
    if is_caught:
        body += f"try:\n    {line}\nexcept (TypeError, ValueError, RuntimeError) as error:\n    return error, y * 2\nreturn y"
    else:
        body += f"{line}\nreturn y"
    check(program(body))


def test_super_without_arguments() -> None:
    def fn() -> Any:
        return super()  # type: ignore[misc]

    with pytest.raises(RuntimeError, match="no arguments"):
        framehook.compile(fn, backend="eager")()


CALLS: list[str] = []


def _note(name: str, result: Any = None) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        CALLS.append(name)
        return iter(()) if result is None else result

    return method


_OVERRIDES = {name: _note(name) for name in ("__iter__", "keys", "items", "values")} | {
    "__len__": _note("len", 77)
}


class LyingDict(dict):  # type: ignore[type-arg]
    locals().update(_OVERRIDES)


class LyingOrdered(collections.OrderedDict):  # type: ignore[type-arg]
    locals().update(_OVERRIDES)


class LyingList(list):  # type: ignore[type-arg]
    locals().update({name: _OVERRIDES[name] for name in ("__iter__", "__len__")})


class LyingTuple(tuple):
    locals().update({name: _OVERRIDES[name] for name in ("__iter__", "__len__")})


@pytest.mark.parametrize("cls", [LyingDict, LyingOrdered, LyingList, LyingTuple])
def test_overrides_of_containers_do_not_run_while_tracing(cls: Any) -> None:
    held = cls({"a": 1}) if issubclass(cls, dict) else cls([1])
    key: Any = "a" if issubclass(cls, dict) else 0

    def fn(x: Tensor) -> Any:
        return x + held[key]

    CALLS.clear()
    assert framehook.compile(fn, backend="eager")(torch.ones(1)).tolist() == [2.0]
    assert CALLS == []


class Reversed(dict):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(["z"])

    def keys(self) -> Any:
        return ["y", "z"]

    def __getitem__(self, key: Any) -> Any:
        return key * 2


class OnlyKeys(dict):  # type: ignore[type-arg]
    def keys(self) -> Any:
        return ["y", "z"]


class OnlyIter(tuple):
    def __iter__(self) -> Any:
        return iter((7, 8))


class OrderedSubclass(collections.OrderedDict):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize("cls", [Reversed, OnlyKeys, LyingOrdered, OrderedSubclass])
def test_what_is_read_of_a_dict_of_a_subclass(cls: Any) -> None:
    held = cls({"a": 1})

    def helper(**kwargs: Any) -> Any:
        return kwargs

    def fn(x: Tensor) -> Any:
        return x + 1, str({**held}), str(dict(held)), str(helper(**held)), list(held), [*held], "a" in held

    check(fn)


def test_membership_in_a_tuple_of_a_subclass() -> None:
    held = OnlyIter((1, 2))

    def fn(x: Tensor) -> Any:
        return x + 1, 1 in held, 7 in held, list(held), [*held]

    check(fn)


@pytest.mark.parametrize(
    "line",
    [
        "e = StopIteration(1); e.value = 2; return e, x + 1",
        "e = StopIteration(1); e.args = (2,); return e, x + 1",
        "e = StopIteration(1); e.__init__(5); return e, x + 1",
        "e = StopIteration.__new__(StopIteration, 1); return e, x + 1",
        "e = BaseException.__new__(StopIteration, 1); return e, x + 1",
        "e = OSError.__new__(OSError, 2, 'a'); return e, x + 1",
        "e = ValueError(1); e.args = [1, x]; return e",
        "e = ValueError(1); e.__init__(5, x); return e",
        "e = OwnCause(1); return e.__cause__, e, x + 1",
    ],
)
def test_fields_that_are_set(line: str) -> None:
    check(program(line))


@pytest.mark.parametrize(
    "line",
    [
        "json.loads('{')",
        "re.compile('(')",
        "b'\\xff'.decode()",
        "import a_module_that_is_not_there",
        "a_name_that_is_not_there",
        "x.an_attribute_that_is_not_there",
    ],
)
def test_fields_of_errors_of_the_library(line: str) -> None:
    check(program(f"y = x + 1\ntry:\n    {line}\nexcept Exception as error:\n    return error, y"))


class OwnCause(Exception):
    __cause__ = 5  # type: ignore[assignment]


def test_order_of_an_ordered_dict_that_was_moved() -> None:
    held = collections.OrderedDict(a=1, b=2)
    held.move_to_end("a")

    def fn(x: Tensor) -> Any:
        return x + 1, list(held), list(held.items())

    check(fn)


class ClaimsTensor:
    @property
    def __class__(self) -> Any:
        CALLS.append("__class__")
        return Tensor

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise AssertionError


class ClaimsInt:
    __class__ = int  # type: ignore[assignment]


@pytest.mark.parametrize("cls", [ClaimsTensor, ClaimsInt])
def test_class_of_an_object_that_claims_another(cls: Any) -> None:
    held = cls()

    def fn(x: Tensor) -> Any:
        return isinstance(held, Tensor), isinstance(held, int), isinstance(held, cls), x + 1, held.__class__

    check(fn)
    CALLS.clear()
    fn(torch.ones(1))
    eager = list(CALLS)
    CALLS.clear()
    framehook.compile(fn, backend="eager")(torch.ones(1))
    assert eager == CALLS


class Unhashable(type):
    def __hash__(cls) -> int:
        raise TypeError("no hash")


class OfUnhashable(metaclass=Unhashable):
    factor = 3

    def __init__(self, own: Any = 1) -> None:
        self.own = own


class UnhashableError(ValueError, metaclass=Unhashable):
    pass


def test_class_whose_metaclass_has_no_hash() -> None:
    held = OfUnhashable(2)
    other = OfUnhashable(3)

    def fn(x: Tensor) -> Any:
        made = OfUnhashable(x)
        return x * held.factor * held.own + made.own * made.factor * OfUnhashable.factor * other.own

    compiled = framehook.compile(fn, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).tolist() == fn(torch.ones(1)).tolist()

    def make(x: Tensor) -> Any:
        return OfUnhashable(x + 1), UnhashableError(x)

    made, error = framehook.compile(make, backend="eager")(torch.ones(1))
    assert made.own.tolist() == [2.0] and type(made) is OfUnhashable
    assert error.args[0].tolist() == [1.0]
