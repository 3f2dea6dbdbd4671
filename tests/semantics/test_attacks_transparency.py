"""Programs without tensors that CPython's own tests found wrong: small forms of them, with every frame captured."""

from __future__ import annotations

import collections
import collections.abc
import copy
import enum
import functools
import gc
import itertools
import sys
import traceback
import types
import typing
import unittest
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from framehook.testing import every_frame

PROGRAMS: list[Callable[[], Any]] = []


def program(fn: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS.append(fn)
    return fn


class Base:
    attr: int
    made = 0


class Derived(Base):
    pass


class CountingDict(collections.OrderedDict):
    """A subclass whose own methods must not be asked when its changes are replayed."""

    def __setitem__(self, key, value):
        log.append(("set", key))
        super().__setitem__(key, value)

    def __delitem__(self, key):
        log.append(("del", key))
        super().__delitem__(key)


log: list[Any] = []


class Wrong:
    """Special methods that give what they may not."""

    def __int__(self):
        return None

    __float__ = __str__ = __repr__ = __bool__ = __len__ = __hash__ = __int__


class Slots:
    __slots__ = ("x",)


class SetOnly:
    def __set__(self, owner, value):
        owner.__dict__["a"] = value


class WithSetOnly:
    a = SetOnly()


class Season(str, enum.Enum):
    SPRING = "spring"


def outcome(fn: Callable[[], Any]) -> Any:
    log.clear()
    try:
        return "returned", repr(fn()), list(log)
    except Exception as error:
        return type(error).__name__, str(error), repr(error.__context__), list(log)


@program
def annotations_are_not_inherited():
    return Base.__annotations__, Derived.__annotations__


@program
def annotations_of_functions():
    def first(x: int, y: "str") -> None: ...

    def second(): ...

    functools.update_wrapper(second, first)
    return first.__annotations__, second.__annotations__ is first.__annotations__, second.__dict__.keys()


@program
def slice_of_nothing():
    return slice()


@program
def slice_without_step():
    return [1, 2, 3][::0]


@program
def deletion_without_step():
    items = [1, 2, 3]
    del items[::0]


@program
def bad_truth():
    return bool(Wrong())


@program
def bad_length():
    return len(Wrong())


@program
def bad_number():
    return int(Wrong())


@program
def bad_text():
    return str(Wrong())


@program
def bad_hash():
    return hash(Wrong())


@program
def frozenset_is_itself():
    made = frozenset("ab")
    made.__init__("cd")
    return frozenset(made) is made, made.copy() is made, sorted(made)


@program
def frozenset_has_no_add():
    return frozenset().add(1)


@program
def tuple_times_one():
    made = tuple(range(3))
    return made * 1 is made


@program
def list_equality_while_it_changes():
    class Clearing:
        def __eq__(self, other):
            del first[:]
            return NotImplemented

    first, second = [Clearing()], [1]
    return first == second


@program
def list_index_while_it_changes():
    class Clearing:
        def __eq__(self, other):
            del items[:]
            return False

    items = [Clearing(), 1, 2]
    return items.index(7)


@program
def list_remove_while_it_changes():
    class Clearing:
        def __eq__(self, other):
            del items[:]
            return True

    items = [Clearing(), 1, 2]
    items.remove(7)
    return items


@program
def bad_cause():
    error = ValueError(1)
    try:
        error.__cause__ = 1
    except TypeError as refused:
        return str(refused), error.__cause__, error.__suppress_context__


@program
def circle_of_contexts():
    try:
        raise KeyError(1)
    except KeyError as first:
        try:
            raise ValueError(2)
        except ValueError as second:
            first.__context__ = second
            try:
                raise IndexError(3)
            except IndexError as third:
                return repr(third.__context__), repr(second.__context__), repr(first.__context__)


@program
def reversed_sees_changes():
    items = [1, 2, 3]
    backwards = reversed(items)
    items[:] = [7, 8, 9, 10]
    return list(backwards)


@program
def reversed_asks_late():
    class Items:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            log.append(index)
            return index

    return next(reversed(Items()))


@program
def key_deleted_and_put_back():
    numbers = {}
    numbers[0] = 0
    for key in numbers:
        del numbers[0]
        numbers[0] = 0
    return numbers


@program
def deque_changed_by_comparison():
    class Clearing:
        def __eq__(self, other):
            items.clear()
            return NotImplemented

    items = collections.deque([Clearing(), Clearing()])
    return items.count(3)


@program
def list_changed_while_sorted():
    items = [3, 1, 2]

    def key(value):
        items.append(value)
        return value

    items.sort(key=key)


@program
def subclass_is_not_asked_by_replay():
    counted = CountingDict(a=1)
    counted["b"] = 2
    del counted["a"]
    return counted


@program
def method_of_another_base():
    ordered = collections.OrderedDict(a=1, b=2)
    dict.__setitem__(ordered, "c", 3)
    return dict.__len__(ordered), collections.OrderedDict.__len__(ordered)


@program
def merge_keeps_the_class():
    ordered = collections.OrderedDict(a=1)
    return type(ordered | {"b": 2}), type({"b": 2} | ordered), type(CountingDict(a=1) | {"b": 1})


@program
def defaultdict_subclass():
    class Numbers(collections.defaultdict):
        pass

    made = Numbers(int)
    made["a"] += 1
    return made["b"], made


@program
def counter_equals_dict():
    return collections.Counter("ab") == {"a": 1, "b": 1}, {"a": 1} == collections.Counter("a")


@program
def not_instantiable():
    return type({}.keys())(), type(sys.flags)()


@program
def excess_arguments_of_new():
    return object.__new__(Base, 5)


@program
def iterator_that_is_none():
    class Bad:
        def __iter__(self):
            return Base()

    return iter(Bad())


@program
def list_asks_for_the_length():
    class Bad:
        def __iter__(self):
            return iter(())

        def __len__(self):
            raise RuntimeError("hello")

    return list(Bad())


@program
def misfit_islice():
    return itertools.islice([1])


@program
def misfit_accumulate():
    return itertools.accumulate()


@program
def misfit_filter():
    return filter()


@program
def iterator_asked_by_itself():
    def numbers():
        yield next(holder[0])

    holder = []
    holder.append(map(int, numbers()))
    return next(holder[0])


@program
def no_instance_dict():
    return hasattr(object(), "__dict__"), hasattr(Slots(), "__dict__")


@program
def descriptor_that_only_sets():
    owner = WithSetOnly()
    owner.a = 42
    return owner.a


@program
def super_of_another():
    class Child(Base):
        def method(self):
            super()

    Child.method(types.CellType(Child()))


@program
def classmethod_of_a_property():
    class Odd:
        @classmethod
        @property
        def name(cls):
            return "odd"

    return type(Odd.name).__name__


@program
def bound_methods_are_equal():
    items = []
    return items.append == items.append, items.__add__ == items.__add__, items.__add__ == [].__add__


@program
def unions_are_equal():
    return (int | str) == (str | int), hash(int | str) == hash(str | int), {int | str: 1}.get(str | int)


@program
def nan_is_itself():
    values = [float("nan")]
    return values[0] is values[0], values == values[:]


@program
def enum_members_have_no_order():
    return Season.SPRING < 3


@program
def objects_as_keys():
    known = {Base: 1}
    found = Base in known, Derived in known
    known[Derived] = 2
    return found, Derived in known, ("object", id(Base)) in known


@program
def function_iterates_over_a_frozenset():
    total = []
    for each in frozenset({1}):
        total.append(each)
        log.append(str(sys.getrecursionlimit()))
    return total


class Case(unittest.TestCase):
    """Traced with what it asserts: the exception is real afterwards, without a traceback."""


def fails(value):
    raise ValueError(value)


@program
def assert_raises():
    with Case().assertRaises(ValueError) as seen:
        fails(3)
    error = seen.exception
    return error, error.__traceback__, error.__context__


@program
def assert_raises_in_a_handler():
    try:
        raise KeyError(1)
    except KeyError:
        with Case().assertRaises(ValueError) as seen:
            fails(3)
    return repr(seen.exception.__context__), seen.exception.__traceback__


@program
def lists_emptied_by_comparisons():
    class First:
        def __eq__(self, other):
            second.clear()
            return NotImplemented

    class Second:
        def __eq__(self, other):
            first.clear()
            return NotImplemented

    first, second = [First()], [Second()]
    return first == second


@program
def text_of_deep_lists():
    nested: Any = []
    for _ in range(sys.getrecursionlimit() + 100):
        nested = [nested]
    return repr(nested)


@program
def reversed_iterators_let_go_at_the_end():
    class Held(list):
        pass

    held = Held()
    watch = weakref.ref(held)
    iterator = reversed(held)
    del held
    for _ in iterator:
        pass
    gc.collect()
    return type(iterator), watch()


@program
def long_containers():
    return len(repr([0] * 300_000)), sum(dict.fromkeys(range(200_000)))


@program
def new_of_a_class_below():
    class Upper:
        def __new__(cls, arg):
            return object.__new__(Lower) if arg else object.__new__(cls)

    class Lower(Upper):
        def __init__(self, arg):
            self.arg = arg

    return Upper(1).arg, type(Upper(0)).__name__


@program
def inherited_reflected_operator():
    class Upper:
        def __floordiv__(self, other):
            return "forward"

        def __rfloordiv__(self, other):
            return "reflected"

    class Same(Upper):
        pass

    class Own(Upper):
        def __rfloordiv__(self, other):
            return "own"

    return Upper() // Same(), Upper() // Own(), Same() // Upper()


@program
def hook_that_is_a_descriptor():
    class Hook:
        def __get__(self, owner, cls=None):
            def get(name):
                log.append(name)
                raise AttributeError(name)

            return get

    class Hooked:
        __getattribute__ = Hook()

    return getattr(Hooked(), "name", "default")


@program
def method_of_another_class():
    class Number(int):
        __eq__ = str.__eq__
        __hash__ = int.__hash__

    return Number() == Number()


@program
def keywords_for_a_tuple():
    class Row(tuple):
        pass

    return Row(iterable=())


@program
def new_that_was_deleted():
    class Cls:
        def __new__(cls, *args):
            return object.__new__(cls)

        def __init__(self, arg):
            self.arg = arg

    del Cls.__new__
    return Cls(1).arg


@program
def pattern_that_is_no_class():
    try:
        raise ValueError
    except (ValueError, 42):  # type: ignore[misc]
        return "caught"


class AsksBack(type):
    def __subclasscheck__(cls, other):
        raise ValueError("asked")

    __instancecheck__ = __subclasscheck__

    @property
    def __dict__(cls):
        log.append("dict")
        return None


class Asked(Exception, metaclass=AsksBack):
    pass


@program
def metaclass_is_not_asked():
    made = Asked()
    made.name = 1
    try:
        raise made
    except Asked as caught:
        return caught.name


@program
def class_of_a_number_is_set():
    number: Any = 1
    number.__class__ = bool
    return number


@program
def module_that_is_a_number():
    class Cls(Exception):
        __module__ = 3  # type: ignore[assignment]

    return isinstance(Cls(), ValueError)


@program
def ordered_dict_changed_by_dict():
    rows = collections.OrderedDict(a=1, b=2)
    print_nothing(rows)
    dict.__delitem__(rows, "a")
    return "NULL" in repr(rows)


def print_nothing(value: Any) -> None:
    sys.getrefcount(value)


@program
def ambiguous_generic_function():
    @functools.singledispatch
    def generic(arg):
        return "base"

    class Both:
        def __iter__(self):
            return iter(())

        def __contains__(self, item):
            return False

    collections.abc.Iterable.register(Both)
    collections.abc.Container.register(Both)
    generic.register(collections.abc.Iterable, lambda arg: "iterable")
    generic.register(collections.abc.Container, lambda arg: "container")
    return generic(Both())


@program
def error_initialised_again():
    error = ImportError("text", name="name")
    error.__init__()  # type: ignore[misc]
    return error.args, error.name


class Shape(typing.Protocol):
    sides: int


class NoProtocol(Shape):
    sides = 3


class LooksAlike:
    sides = 4


@program
def class_below_a_protocol():
    return isinstance(LooksAlike(), NoProtocol)


class Finalized:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append(self.name)
        rows.clear()


rows: dict[str, Any] = {}


@program
def finalizers_of_what_a_dict_drops():
    rows.update(a=Finalized("a"), b=Finalized("b"))
    seen = []
    try:
        for key in rows:
            seen.append(key)
            rows[key] = None
    except RuntimeError as error:
        seen.append(str(error))
    return seen


@program
def finalizers_of_what_a_list_holds():
    held = [Finalized("a"), Finalized("b")]
    try:
        (_,) = iter(held)
    except ValueError:
        pass
    del held
    return list(log)


@program
def generators_are_not_copied():
    return copy.copy(each for each in (1, 2))


class Iron(enum.IntFlag):
    ONE = 1
    TWO = 2


class Simple(enum.IntFlag, boundary=enum.KEEP):
    SINGLE = 1


@program
def text_of_mixed_flags():
    return repr(Simple.SINGLE | Iron.TWO)


class Queue(collections.deque):
    pass


@program
def deques_of_a_class_of_ones_own():
    queue = Queue("ab", 3)
    return [type(each) for each in (queue.copy(), copy.copy(queue), queue * 2, queue + queue)], queue


queue = collections.deque("abc")


@program
def iterator_over_a_deque_whose_elements_are_replaced():
    iterator = iter(queue)
    print_nothing(iterator)
    for index, element in enumerate("xyz"):
        queue[index] = element
    print_nothing(queue)
    return list(iterator)


@program
def order_of_a_set_from_outside():
    chosen = set("gallahad")
    print_nothing(chosen)
    return str(weakref.proxy(chosen)) == str(chosen)


@program
def suggestions_of_a_name_error():
    def misspelt():
        colour = 1
        del colour
        colour = 2
        return color  # type: ignore[name-defined]  # noqa: F821

    try:
        misspelt()
    except NameError as error:
        return "".join(traceback.TracebackException.from_exception(error).format_exception_only())


@program
def traceback_made_by_hand():
    frame = sys._getframe()
    error = ValueError("text")
    error.__traceback__ = types.TracebackType(None, frame, 0, frame.f_code.co_firstlineno)
    return traceback.format_tb(error.__traceback__)


@typing.runtime_checkable
class Named(typing.Protocol):
    name: str

    def call(self) -> None: ...


class Registered:
    pass


class WithoutCall:
    name = ""

    def __init__(self) -> None:
        self.call = None


Named.register(Registered)  # type: ignore[attr-defined]


@program
def registered_with_a_protocol():
    return isinstance(Registered(), Named), isinstance(WithoutCall(), Named)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_program(fn: Callable[[], Any]) -> None:
    expected = outcome(fn)
    with every_frame() as capture:
        seen = [outcome(fn) for _ in range(3)]
    assert seen == [expected] * 3
    assert capture.stats().internal_errors == 0


def test_deep_values_are_no_internal_error() -> None:
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]

    def nest(items: list[Any]) -> list[Any]:
        for _ in range(500):
            items = [items]
        return items

    with every_frame() as capture:
        made = nest(nest(deep))
    depth = 0
    while made:
        made, depth = made[0], depth + 1
    assert depth == 21_000
    assert capture.stats().internal_errors == 0


def test_compiling_at_the_recursion_limit() -> None:
    def leaf(n: int) -> int:
        return n + 1

    def down(n: int) -> int:
        try:
            return down(n + 1)
        except RecursionError:
            return leaf(n)

    limit = sys.getrecursionlimit()
    expected = down(0)
    with every_frame() as capture:
        reached = down(0)
    assert sys.getrecursionlimit() == limit
    assert abs(reached - expected) < 10
    assert capture.stats().internal_errors == 0


def test_library_frames_are_given_back() -> None:
    import shlex  # which no other test has had reason to leave eager

    with every_frame() as capture:
        shlex.quote("a b")
    assert any("shlex.py" in name for name in capture.stats().functions)
    from framehook import _C

    assert (_C.code_record_info(shlex.quote.__code__) or {}).get("kind") != "candidate"
