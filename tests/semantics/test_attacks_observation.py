"""What a program can look at besides results: ids, memory of lists, weak proxies, replaced builtins, ends of objects."""

from __future__ import annotations

import builtins
import collections
import copy
import enum
import functools
import gc
import itertools
import linecache
import reprlib
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.testing import CompileCounter, every_frame

PROGRAMS: list[Callable[[], Any]] = []


def program(fn: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS.append(fn)
    return fn


class Plain:
    pass


class Masked:
    """Asked for its class, it says so."""

    asked = 0

    @property
    def __class__(self):
        Masked.asked += 1
        return dict


class Nested:
    def __init__(self, *items):
        self.items = items

    @reprlib.recursive_repr()
    def __repr__(self):
        parts = [repr(Plain.__name__)]
        parts.extend(repr(each) for each in self.items)
        return f"Nested({', '.join(parts)})"


@program
def ids_of_rows_that_nobody_keeps():
    made = (
        *(zip("abc", "def", strict=True), itertools.zip_longest("abc", "def")),
        *(itertools.product("abc", "def"), itertools.permutations("abcde", 3)),
        *(itertools.combinations("abcde", 3), itertools.combinations_with_replacement("abcde", 3)),
    )
    return [len(set(map(id, rows))) for rows in made]


@program
def ids_of_rows_that_are_kept():
    rows = list(zip("abc", "def", strict=True))
    return len(set(map(id, rows))), len({id(row) for row in rows})


@program
def ids_of_tuples_in_variables():
    first = (Plain(), 1)
    second = first
    return id(first) == id(second), id(first) == id((first, 1))


@program
def sorted_list_is_changed_and_emptied_by_appending():
    def key(item):
        items.append(item)
        items.pop()
        return item

    items = [3, 1, 2]
    items.sort(key=key)
    return items


@program
def sorted_list_is_changed_and_emptied_by_a_slice():
    def compare(first, second):
        items.append(3)
        del items[:]
        return first - second

    items = [3, 1, 2]
    items.sort(key=functools.cmp_to_key(compare))
    return items


@program
def sorted_list_is_only_looked_at():
    def key(item):
        items.clear()
        items.extend([])
        return len(items), item

    items = [3, 1, 2]
    items.sort(key=key)
    return items


@program
def repr_of_what_contains_itself():
    made = Nested(1)
    made.items = (made, Nested(made))
    return repr(made)


RUNNING: set[Any] = set()


def leave_a_mark():
    RUNNING.add(threading.get_ident())


def has_left_a_mark():
    return threading.get_ident() in RUNNING


@program
def threads_in_a_set_from_outside():
    RUNNING.clear()
    leave_a_mark()
    answers = [has_left_a_mark()]
    other = threading.Thread(target=lambda: answers.append(has_left_a_mark()))
    other.start()
    other.join()
    return answers, has_left_a_mark()


@program
def proxies_of_the_dead():
    holder = Plain()
    owner = Plain()
    holder.proxy = weakref.proxy(owner)
    holder.items = [weakref.proxy(owner), {"a": holder.proxy}]
    del owner

    def let_go(holder):
        holder.proxy = None
        holder.items.clear()
        return len(holder.items)

    return let_go(holder)


@program
def proxies_with_the_living():
    owner = Plain()
    proxy = weakref.proxy(owner)
    holder = [owner]

    def let_go(holder):
        holder.clear()

    let_go(holder)
    owner.a = 3
    return proxy.a


@program
def nobody_is_asked_for_its_class():
    Masked.asked = 0
    holder = Plain()
    holder.items = [Masked(), (Masked(),)]
    holder.one = Masked()

    def let_go(holder):
        holder.items.pop()
        holder.items[0] = 1
        holder.one = {}
        return bool(holder.items)

    return let_go(holder), Masked.asked


@program
def length_is_replaced():
    calls = []

    def counted(items):
        calls.append(1)
        return kept(items)

    def measure(items):
        return len(items)

    kept = builtins.len
    builtins.len = counted
    try:
        found = [measure([1, 2]), measure("a"), measure([1, 2])]
    finally:
        builtins.len = kept
    return found, measure([1, 2, 3]), calls


@program
def iter_is_gone():
    def each(items):
        return [item for item in iter(items)]

    kept = builtins.iter
    del builtins.iter
    try:
        each([1, 2])
    except NameError as error:
        text = str(error)
    finally:
        builtins.iter = kept
    return text, each([1, 2])


@program
def a_name_among_the_builtins_compares_itself():
    class Name:
        asked = 0

        def __hash__(self):
            return hash("iter")

        def __eq__(self, other):
            Name.asked += 1
            return other == "iter"

    def add(a, b):
        return a + b

    kept = builtins.iter
    del builtins.iter
    odd = Name()
    builtins.__dict__[odd] = kept
    try:
        asked = Name.asked
        add(1, 2)
        asked = Name.asked - asked
    finally:
        del builtins.__dict__[odd]
        builtins.iter = kept
    return asked


class ShowsAnotherDict:
    asked = 0

    @property
    def __dict__(self):
        ShowsAnotherDict.asked += 1
        return {"shown": 1}


class DictThatShowsAnother(dict):
    __dict__ = ShowsAnotherDict.__dict__["__dict__"]  # type: ignore[assignment]


@program
def dict_of_an_object_is_something_else():
    def use(made):
        made.a = 3
        made.b = made.a + 1
        del made.a
        return made.b, hasattr(made, "a")

    ShowsAnotherDict.asked = 0
    first, second = ShowsAnotherDict(), DictThatShowsAnother()
    seen = use(first), use(second), ShowsAnotherDict.asked
    return (
        seen,
        first.__dict__,
        vars(second),
        object.__getattribute__(first, "__dict__"),
        ShowsAnotherDict.asked,
    )


@program
def copy_of_an_object_that_shows_another_dict():
    made = ShowsAnotherDict()
    made.a = 3
    try:
        copied = copy.copy(made)
    except AttributeError as error:
        return str(error)
    return copied.shown, hasattr(copied, "a")


@program
def source_lines_are_not_read():
    def add(a, b):
        return a + b

    linecache.clearcache()
    return add(1, 2), linecache.cache


class Equal:
    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 7


KNOWN = Equal()
REFERENCE = weakref.ref(KNOWN)


@program
def which_weak_reference_it_is():
    mine, other = Equal(), Equal()
    first, second = weakref.ref(mine), weakref.ref(other)
    return (
        first is weakref.ref(mine),
        first is second,
        first == second,
        weakref.ref(KNOWN) is REFERENCE,
        REFERENCE is weakref.ref(KNOWN, None),
        weakref.ref(KNOWN, print) is REFERENCE,
        hash(weakref.ref(KNOWN)),
    )


def attempts(owner, name):
    found = []
    for act in (lambda: setattr(owner, name, 1), lambda: delattr(owner, name)):
        try:
            act()
            found.append("done")
        except (AttributeError, TypeError) as error:
            found.append(str(error))
    return found


@program
def members_of_c_types_are_not_written():
    partial = functools.partial(len)
    return (
        *(attempts(partial, "func"), attempts(slice(1), "start"), attempts(REFERENCE, "__callback__")),
        *(attempts(property(), "fget"), attempts(1j, "real"), attempts([].append, "__self__")),
        *(attempts(KNOWN.__hash__, "__func__"), attempts(types.SimpleNamespace(), "__dict__")),
        partial.func is len,
    )


@program
def member_of_a_c_type_is_written_under_try():
    reference = weakref.ref(KNOWN, print)
    try:
        reference.__callback__ = len
    except AttributeError as error:
        return type(error).__name__
    return "written"


class Answering(type):
    def __getattribute__(cls, name):
        return name if name.startswith("z") else super().__getattribute__(name)


class Answered(metaclass=Answering):
    zz = 1
    y = 2


@program
def metaclass_answers_for_attributes():
    sys.modules["answered_as_a_module"] = Answered  # type: ignore[assignment]
    try:
        from answered_as_a_module import y, zz  # type: ignore[import-not-found]
    finally:
        del sys.modules["answered_as_a_module"]
    return Answered.zz, Answered.zq, Answered.y, getattr(Answered, "za", 3), hasattr(Answered, "b"), y, zz


def meta_with(call):
    return type("Meta", (type,), {"__call__": call})("Called", (), {})


class Largest:
    def __call__(self, *args):
        return max(args)


CALLED = [
    meta_with(call)
    for call in (
        dict,
        staticmethod(lambda *args: args),
        classmethod(lambda *args: args[1:]),
        Largest(),
    )
]


@program
def metaclass_says_what_a_call_is():
    by_dict, by_static, by_class, by_object = CALLED
    return by_dict([("a", 1)]), type(by_dict()), by_static(1, 2), by_class(3), by_object(4, 5)


class Empty(enum.Enum):
    pass


class Small(enum.Enum):
    ONE = 1


@program
def values_that_an_enum_has_not():
    def text(cls, value):
        try:
            return cls(value)
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    return text(Empty, 7), text(Small, 7), text(Small, slice(1)), text(Small, 1)


@typing.final
@typing.runtime_checkable
class Counted(typing.Protocol):
    count: int


class WithCount:
    count = 1


class WithOwnCount:
    def __init__(self):
        self.count = 1


@program
def protocols_that_got_attributes_later():
    return [isinstance(each, Counted) for each in (WithCount(), WithOwnCount(), Plain(), 3, "a", (1,))]


@program
def attributes_that_builtin_classes_have():
    def wrapped():
        pass

    functools.update_wrapper(wrapped, type)
    names = (
        "__annotations__",
        "__type_params__",
        "__module__",
        "__doc__",
        "__text_signature__",
        "__abstractmethods__",
    )
    found = [
        [getattr(cls, name, None) for name in names]
        for cls in (type, int, dict, types.SimpleNamespace, Plain)
    ]
    return wrapped.__name__, wrapped.__doc__, found


Pair = collections.namedtuple("Pair", "first second")


@program
def enums_of_named_tuples():
    class Held(enum.Enum):
        A = Pair(1, 2)

    class Derived(Pair, enum.Enum):
        A = (1, 2)
        B = (3, 4)

    return (
        Held.A.value.first,
        Derived.A.first,
        Derived.B.second,
        Derived.A.value,
        Derived((3, 4)),
        tuple(Derived.B),
    )


@framehook.disable
def natively(value):
    return value


class Refusing:
    def __init__(self, path):
        if natively(path):
            raise ImportError("no")


def first_that_takes(path):
    for make in (Refusing, str):
        try:
            return make(path)
        except ImportError:
            continue


def found_or_made(path, known):
    try:
        return known[path]
    except KeyError:
        return first_that_takes(path)


@program
def a_constructor_refuses_while_an_exception_is_handled():
    return [found_or_made(f"a{number}", {}) for number in range(3)]


@program
def annotations_that_are_refused():
    def text(make):
        try:
            return repr(make())
        except (SyntaxError, TypeError) as error:
            return f"{type(error).__name__}: {error}"

    nothing, number = "", 1
    return text(lambda: typing.Optional[nothing]), text(lambda: typing.Optional[number])


@program
def typed_dicts():
    Film = typing.TypedDict("Film", {"name": str})
    made = Film(name="a")
    try:
        return type(made), Film({"name": "b"}), isinstance(made, Film)
    except TypeError as error:
        return type(made), str(error)


def outcome(fn: Callable[[], Any]) -> Any:
    try:
        return "returned", repr(fn())
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_program(fn: Callable[[], Any]) -> None:
    expected = outcome(fn)
    with every_frame() as capture:
        seen = [outcome(fn) for _ in range(3)]
    assert seen == [expected] * 3
    assert capture.stats().internal_errors == 0


@pytest.mark.parametrize("name", ["print", "open", "input", "a_name_of_its_own"])
def test_what_programs_replace_for_themselves_is_no_hindrance(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = CompileCounter()
    monkeypatch.setattr(builtins, name, lambda *args: None, raising=False)
    compiled = framehook.compile(lambda x: x + 1, backend=counter)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", ["len", "isinstance", "tuple", "zip"])
def test_nothing_is_compiled_while_a_builtin_is_replaced(name: str) -> None:
    counter = CompileCounter()
    kept = getattr(builtins, name)
    calls = []

    def replaced(*args: Any) -> Any:
        calls.append(name)
        return kept(*args)

    def fn(x: Tensor) -> Tensor:
        return x + 1

    compiled = framehook.compile(fn, backend=counter)
    x = torch.ones(2)
    setattr(builtins, name, replaced)
    try:
        fn(x)
        by_eager = len(calls) if name != "len" else kept(calls)
        compiled(x)
        by_both = len(calls) if name != "len" else kept(calls)
    finally:
        setattr(builtins, name, kept)
    assert by_both == 2 * by_eager
    assert counter.frame_count == 0
    compiled(x)
    assert counter.frame_count == 1


def test_functions_of_a_class_of_the_frame_go_with_one_collection() -> None:
    def keep(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any) -> Any:
            return fn(*args)

        return wrapper

    def make() -> list[weakref.ref[Any]]:
        class Local:
            @staticmethod
            @keep
            def static(x: int) -> int:
                return x

            @classmethod
            @keep
            def of_class(cls, x: int) -> int:
                return x

            @property
            @keep
            def shown(self) -> int:
                return 1

        def use(cls: Any) -> int:
            return cls.static(1) + cls.of_class(2) + cls().shown

        assert use(Local) == 4
        found = vars(Local)
        return [
            weakref.ref(found["static"].__func__),
            weakref.ref(found["of_class"].__func__),
            weakref.ref(found["shown"].fget),
        ]

    with every_frame():
        references = make()
    gc.collect()
    assert [reference() for reference in references] == [None] * 3
