"""Small programs about classes and their objects, each of which has to become one graph."""

from __future__ import annotations

import enum
from typing import Any

from torch import Tensor

from tests.semantics.language_table import program, tensors


class Stored:
    """A data descriptor written in Python."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.place = "_" + name

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        return self if owner is None else getattr(owner, self.place, "unset")

    def __set__(self, owner: Any, value: Any) -> None:
        setattr(owner, self.place, value)

    def __delete__(self, owner: Any) -> None:
        delattr(owner, self.place)


class Holder:
    stored = Stored()


def holder() -> tuple[Any, ...]:
    """Tensors and an object."""
    return (*tensors(), Holder())


@program(arguments=holder)
def a_descriptor_in_python(x: Tensor, y: Tensor, box: Holder) -> Any:
    before = box.stored
    box.stored = x
    value = box.stored + 1
    del box.stored
    return before, value, box.stored


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


@program(peer=0, arguments=lambda: (*tensors(), Slotted(1)))
def slots_filled_and_emptied(x: Tensor, y: Tensor, box: Slotted) -> Any:
    box.b = x
    del box.b
    try:
        del box.b
    except AttributeError as error:
        text = str(error)
    try:
        box.b
    except AttributeError as error:
        return text, str(error), x + 1


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.tag = "made"
        return made

    def __len__(cls) -> int:
        return 5

    def __iter__(cls) -> Any:
        return iter([1])

    def __getitem__(cls, key: Any) -> Any:
        return key

    def __contains__(cls, key: Any) -> bool:
        return key == 3


class Made(metaclass=Meta):
    def __init__(self, a: Any) -> None:
        self.a = a


class Subscripted:
    def __class_getitem__(cls, key: Any) -> Any:
        return cls.__name__, key


@program(peer=0)
def metaclasses(x: Tensor, y: Tensor) -> Any:
    return Made(1).tag, len(Made), list(Made), Made["q"], 3 in Made, Subscripted[3], x + 1  # type: ignore


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):
    YES = "yes"


@program
def enums_that_are_numbers_and_strings(x: Tensor, y: Tensor) -> Any:
    return (
        Level.LOW + 1,
        2 * Level.HIGH,
        Word.YES.upper(),
        Word.YES + "!",
        Level.LOW in Level,
        len(Level),
        x * Level.HIGH,
    )


class Hashed:
    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value) + 1

    def __round__(self, digits: int | None = None) -> Any:
        return "rounded", digits


@program
def special_methods_of_builtin_functions(x: Tensor, y: Tensor) -> Any:
    return (
        hash(Hashed(3)),
        round(Hashed(1)),
        round(Hashed(1), 2),
        callable(Hashed),
        callable(Hashed(1)),
        x + 1,
    )


@program
def union_types(x: Tensor, y: Tensor) -> Any:
    kinds = int | str | None
    return (
        isinstance(3, kinds),
        isinstance(None, kinds),
        isinstance(2.0, kinds),
        isinstance(x, kinds | Tensor),
        x + 1,
    )
