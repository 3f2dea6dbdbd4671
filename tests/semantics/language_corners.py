"""Small programs in the corners of the language: what is changed where, how often methods run, in which order."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import sys
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from tests.semantics.language_table import program

LOG: list[Any] = []


class Parent:
    number = 1
    rows = [1]  # noqa: RUF012

    def __init__(self) -> None:
        self.v = 0


class Heir(Parent):
    pass


# -- class attributes ------------------------------------------------------------------------------------------


@program(peer=0)
def class_attributes_are_stored_and_inherited(x: Tensor, y: Tensor) -> Any:
    heir = Heir()
    Parent.number = x + 1
    found = [heir.number, Heir.number, "number" in vars(heir)]
    heir.number = 5
    found.append(heir.number)
    Heir.number = 7
    found.append((Heir.number, Parent.number))
    Parent.number = 1
    del Heir.number
    return found


@program(peer=0, reason="an exception that leaves the frame is raised natively")
def a_class_attribute_is_stored_before_an_exception(x: Tensor, y: Tensor) -> Any:
    Parent.number = 3
    z = x + 1
    Parent.number = 1
    raise ValueError(Parent.rows, z.shape)


@program
def a_class_attribute_is_stored_and_restored(x: Tensor, y: Tensor) -> Any:
    Parent.number = 2
    try:
        raise KeyError(Parent.number)
    except KeyError as error:
        found = error.args
    finally:
        Parent.number = 1
    return found, x + Parent.number


class Noting(type):
    """A metaclass that notes what is stored."""

    def __setattr__(cls, name: str, value: Any) -> None:
        LOG.append(name)
        super().__setattr__(name, value)


class Noted(metaclass=Noting):
    field = 0


@program
def a_metaclass_sees_what_is_stored(x: Tensor, y: Tensor) -> Any:
    LOG.clear()
    Noted.field = x + 1
    found = Noted.field * 2
    Noted.field = 0
    names = list(LOG)
    LOG.clear()
    return found, names


# -- hashes, comparisons -------------------------------------------------------------------------------------


class Counting:
    """A key that counts how often it is hashed and compared."""

    hashed = 0
    compared = 0

    def __init__(self, key: Any) -> None:
        self.key = key

    def __hash__(self) -> int:
        Counting.hashed += 1
        return hash(self.key)

    def __eq__(self, other: Any) -> bool:
        Counting.compared += 1
        return isinstance(other, Counting) and self.key == other.key


@program(reason="how often a method with effects runs is seen")
def keys_that_count(x: Tensor, y: Tensor) -> Any:
    Counting.hashed = Counting.compared = 0
    table = {Counting(1): x, Counting(2): 1}
    table[Counting(1)] = x + 1
    return list(table.values()), Counting.hashed, Counting.compared, len(table)


@program(peer=0)
def keys_that_equal_constants(x: Tensor, y: Tensor) -> Any:
    class Key:
        def __hash__(self) -> int:
            return hash("a")

        def __eq__(self, other: Any) -> bool:
            return isinstance(other, str | Key)

    table = {"a": 1}
    table[Key()] = x + 1
    return table, "a" in {Key(): 1}, Key() in ["a"], len({Key(), "a"})


@program
def sorting_compares_in_the_order_of_the_real_one(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    class Ranked:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def __lt__(self, other: Any) -> bool:
            log.append((self.rank, other.rank))
            return self.rank < other.rank

    up = sorted([Ranked(3), Ranked(1), Ranked(2)])
    down = sorted([Ranked(1), Ranked(2), Ranked(1)], reverse=True)
    pairs = sorted([(Ranked(2), 1), (Ranked(1), 2)], key=lambda pair: pair[0])
    return [each.rank for each in up + down], [n for _, n in pairs], log, x + 1


@program(peer=0)
def unhashable_and_comparable(x: Tensor, y: Tensor) -> Any:
    class Value:
        def __init__(self, v: int) -> None:
            self.v = v

        def __eq__(self, other: Any) -> bool:
            return isinstance(other, Value) and self.v == other.v

        def __lt__(self, other: Any) -> bool:
            return self.v < other.v

    try:
        hash(Value(1))
    except TypeError as error:
        return Value(1) == Value(1), Value(1) != Value(2), str(error), x + 1, max(Value(1), Value(2)).v


@program
def ids_tell_objects_apart(x: Tensor, y: Tensor) -> Any:
    a, b = Parent(), Parent()
    seen = {id(a)}
    seen.add(id(b))
    known = {id(Parent): 1}
    return (
        id(a) == id(a),
        id(a) == id(b),
        id(a) in seen,
        len(seen),
        isinstance(id(a), int),
        id(Parent) in known,
        x + 1,
    )


# -- exceptions ------------------------------------------------------------------------------------------------


@program
def contexts_of_exceptions_that_are_raised_again(x: Tensor, y: Tensor) -> Any:
    first, second = KeyError("a"), KeyError("b")
    try:
        try:
            raise first
        except KeyError:
            try:
                raise second
            except KeyError:
                raise first  # noqa: B904
    except KeyError as error:
        found = [error is first, repr(error.__context__), repr(error.__context__.__context__)]
    try:
        try:
            raise IndexError("i")
        except IndexError:
            raise first  # noqa: B904
    except KeyError as error:
        found.append(repr(error.__context__))
    return found, x + 1


@program
def contexts_that_are_set(x: Tensor, y: Tensor) -> Any:
    first, second = KeyError("a"), KeyError("b")
    first.__context__ = second
    found = [first.__context__ is second, first.__suppress_context__, first.__cause__]
    try:
        raise first
    except KeyError as error:
        found.append(error.__context__ is second)
    return found, x + 1


@program
def contexts_come_from_the_caller(x: Tensor, y: Tensor) -> Any:
    def inner() -> str:
        try:
            raise ValueError(1)
        except ValueError as error:
            return repr(error.__context__)

    alone = inner()
    try:
        raise KeyError(0)
    except KeyError:
        return alone, inner(), x + 1


@program
def what_is_handled_here(x: Tensor, y: Tensor) -> Any:
    found: list[Any] = [sys.exc_info()[0]]
    try:
        raise KeyError(1)
    except KeyError as error:
        cls, value, traceback = sys.exc_info()
        found += [cls.__name__, value is error, traceback is None]
        try:
            raise ValueError
        except ValueError:
            found.append(sys.exc_info()[0].__name__)
        found.append(sys.exc_info()[0].__name__)
    return found, sys.exc_info(), x + 1


def _handling() -> Iterator[Any]:
    try:
        yield sys.exc_info()[0]
    except KeyError:
        yield sys.exc_info()[0]
    yield sys.exc_info()[0]


@program
def what_a_generator_handles(x: Tensor, y: Tensor) -> Any:
    generator: Any = _handling()
    found = [next(generator)]
    try:
        raise IndexError
    except IndexError:
        found.append(generator.throw(KeyError(1)))
        found.append(next(generator))
    return [cls and cls.__name__ for cls in found], x + 1


@program
def an_exit_stack_chains_exceptions(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    def fails(*exc: Any) -> None:
        raise ValueError("bad")

    try:
        with contextlib.ExitStack() as stack:
            stack.push(fails)
            stack.push(lambda *exc: log.append(exc[0]))
            raise KeyError("k")
    except ValueError as error:
        found = repr(error), repr(error.__context__), [cls.__name__ for cls in log]
    with contextlib.ExitStack() as outer, contextlib.ExitStack() as inner:
        outer.enter_context(contextlib.suppress(KeyError))
        inner.callback(log.clear)
        raise KeyError
    return found, log, x + 1


@program(peer=0)
def notes_that_are_no_strings(x: Tensor, y: Tensor) -> Any:
    error = ValueError("v")
    try:
        error.add_note(3)
    except TypeError as wrong:
        return str(wrong), hasattr(error, "__notes__"), x + 1


@program(reason="an exception that leaves the frame is raised natively")
def an_exception_with_notes_leaves(x: Tensor, y: Tensor) -> Any:
    error = ValueError("v")
    error.add_note("n")
    z = x + 1
    error.add_note(str(z.shape))
    raise error


# -- attributes of functions -----------------------------------------------------------------------------------


def helper() -> None:
    """A function with attributes."""


@program(in_all=2)  # the second call finds an attribute
def a_function_from_outside_takes_attributes(x: Tensor, y: Tensor) -> Any:
    helper.last = x + 1
    found = helper.last * 2
    del helper.last
    helper.calls = 1
    return found, hasattr(helper, "last"), helper.calls


# -- classes of the frame ------------------------------------------------------------------------------------


@program
def methods_write_to_the_frame(x: Tensor, y: Tensor) -> Any:
    n = 0

    class Step:
        at = n

        def run(self) -> int:
            nonlocal n
            n += 1
            return n

    step = Step()
    step.run()
    step.run()
    return n, Step.at, x + n, step


@program
def tensors_in_a_class_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Holder:
        value = x + 1
        rows = [x]  # noqa: RUF012

        def doubled(self) -> Tensor:
            return self.value * 2

    Holder.rows.append(Holder.value)
    return Holder().doubled(), Holder.rows, Holder


@program
def classes_of_the_frame_as_values(x: Tensor, y: Tensor) -> Any:
    class Upper:
        pass

    class Lower(Upper):
        pass

    table = {Upper: 1, Lower: x + 1}
    return (
        table[Lower],
        [Upper, Lower],
        issubclass(Lower, Upper),
        Upper in (Upper,),
        Upper == Lower,
        Lower.__bases__[0] is Upper,
    )


@program
def every_special_method_in_a_class_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Every:
        def __getattr__(self, name: str) -> Any:
            if name == "none":
                raise AttributeError(name)
            return name

        def __call__(self, value: Any) -> Any:
            return value + 1

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: Any) -> Any:
            return index * 2

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc: Any) -> bool:
            return True

        def __iter__(self) -> Any:
            yield from range(2)

        def __contains__(self, value: Any) -> bool:
            return value == 9

    every = Every()
    with every as entered:
        raise KeyError
    return (
        every.some,
        hasattr(every, "none"),
        every(x),
        len(every),
        every[4],
        list(every),
        9 in every,
        entered is every,
    )


@program
def new_and_slots_in_a_class_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Made:
        def __new__(cls, *args: Any) -> Any:
            made = super().__new__(cls)
            made.args = args
            return made

    class Slotted:
        __slots__ = ("a",)

        def __init__(self) -> None:
            self.a = x + 1

    box = Slotted()
    try:
        box.b = 1
    except AttributeError as error:
        return Made(1, 2).args, box.a, str(error), box


@program
def a_descriptor_in_a_class_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Stored:
        def __get__(self, owner: Any, cls: Any) -> Any:
            return self if owner is None else owner.__dict__["_v"] + 1

        def __set__(self, owner: Any, value: Any) -> None:
            owner.__dict__["_v"] = value

    class Box:
        field = Stored()

    box = Box()
    box.field = x
    return box.field, box.__dict__["_v"]


@program(peer=0)
def calls_that_do_not_fit_a_class_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Box:
        def __init__(self, a: Any, *, b: Any) -> None:
            pass

    found = []
    for make in (lambda: Box(), lambda: Box(1), lambda: Box(1, 2, b=3), lambda: Box(1, b=2, c=3)):
        try:
            make()
        except TypeError as error:
            found.append(str(error))
    return found, x + 1


@program
def builtin_classes_extended_in_the_frame(x: Tensor, y: Tensor) -> Any:
    class Table(dict):
        def __missing__(self, key: Any) -> Any:
            return key + "!"

    class Rows(list):
        def total(self) -> Any:
            return sum(self)

    table, rows = Table(a=x), Rows([x, x])
    rows.append(x + 1)
    return table["a"] + 1, table["b"], rows.total(), len(rows), rows, table


@program(peer=0, reason="an exception that leaves the frame is raised natively")
def an_exception_of_the_frame_leaves_it(x: Tensor, y: Tensor) -> Any:
    class Gone(Exception):
        pass

    z = x + 1
    raise Gone(tuple(z.shape))


@program
def dataclasses_of_the_frame(x: Tensor, y: Tensor) -> Any:
    @dataclasses.dataclass(frozen=True)
    class Fixed:
        a: int
        b: float = 2.0

    @dataclasses.dataclass
    class Loose:
        t: Any
        rows: list[Any] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            self.rows.append(1)

    fixed = Fixed(1)
    try:
        fixed.a = 3
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    return (
        Loose(x + 1),
        fixed,
        text,
        hash(fixed) == hash(Fixed(1)),
        dataclasses.replace(fixed, a=4),
        {fixed: 1}[Fixed(1)],
    )


@program(peer=0)
def dataclasses_and_named_tuples_that_are_wrong(x: Tensor, y: Tensor) -> Any:
    found = []
    try:

        @dataclasses.dataclass
        class Wrong:
            a: int = 3
            b: int  # noqa: RUF009

    except TypeError as error:
        found.append(str(error))
    try:
        collections.namedtuple("Wrong", "a a")  # noqa: PYI024
    except ValueError as error:
        found.append(str(error))
    return found, x + 1


@program(peer=2)
def decorated_classes_of_the_frame(x: Tensor, y: Tensor) -> Any:
    def tagged(cls: type) -> type:
        cls.tag = "t"
        return cls

    @tagged
    class Box:
        @functools.cached_property
        def value(self) -> Any:
            return x + 1

        @property
        def half(self) -> Any:
            return self.value / 2

        @half.setter
        def half(self, value: Any) -> None:
            self.value = value * 2

    box = Box()
    first = box.half
    box.half = y
    return Box.tag, first, box.value
