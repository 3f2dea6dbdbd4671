"""What newer Pythons have or do otherwise: inlined comprehensions, type parameters, `locals()`, `super()`, new warnings."""

from __future__ import annotations

import contextlib
import sys
import textwrap
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook import graph_break
from framehook.testing import CompileCounter, assert_same, snapshot


def made(source: str, name: str) -> Callable[..., Any]:
    """A function of a text; newer syntax cannot stand in a file that older Pythons read."""
    namespace: dict[str, Any] = {
        "torch": torch,
        "graph_break": graph_break,
        "typing": typing,
        "__name__": __name__,
    }
    exec(textwrap.dedent(source), namespace)
    return namespace[name]  # type: ignore[no-any-return]


def check_same(fn: Callable[..., Any], *, calls: int = 3) -> int:
    """Compiled as eager, call by call; returns the number of graphs."""
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter)
    for call in range(calls):
        x = torch.arange(6.0).reshape(2, 3) - call
        assert_same(outcome(compiled, x.clone()), outcome(fn, x.clone()))
    return counter.frame_count


def outcome(fn: Callable[..., Any], x: Tensor) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = snapshot((fn(x), x))
        except Exception as error:
            result = (type(error), str(error))
    return result, [(str(each.message), each.category, each.filename, each.lineno) for each in caught]


# -- comprehensions --------------------------------------------------------------------------------------------


def breaks_in_comprehension(x: Tensor) -> Any:
    return [row * (graph_break() or 2) for row in x], x + 1


def breaks_with_an_outer_variable_of_the_name(x: Tensor) -> Any:
    row = x.sum()
    rows = [row * (graph_break() or 2) for row in x]
    return row + 1, rows


def breaks_with_an_unbound_variable_of_the_name(x: Tensor) -> Any:
    if len(x) > 5:
        row = x
    rows = [row * (graph_break() or 2) for row in x]
    try:
        return row, rows
    except UnboundLocalError as error:
        return str(error), rows


def breaks_beside_cells(x: Tensor) -> Any:
    row = x.sum()
    rows = [row * (graph_break() or 2) for row in x]
    late = [lambda: row for row in x if graph_break() is None]
    here = lambda: row
    return here(), rows, [f() for f in late], row + 1


def breaks_in_nested_comprehensions(x: Tensor) -> Any:
    by = 3
    inner = [[value * by + (graph_break() or 1) for value in row] for row in x]
    table = {n: {m: graph_break() for m in range(n)} for n in range(3)}
    return inner, table, {n for n in range(3) if graph_break() is None}, by


def raises_in_a_comprehension_after_a_break(x: Tensor) -> Any:
    row: Any = "kept"
    try:
        [(graph_break() or 1) / (1 - row) for row in range(3)]
    except ZeroDivisionError as error:
        return row, str(error), x + 1
    return None


def locals_in_a_comprehension(x: Tensor) -> Any:
    y = x + 1
    names = [sorted(locals()) for _ in range(1)]
    return names, y


def a_comprehension_of_a_lambda_default(x: Tensor) -> Any:
    functions = [lambda by=by: (graph_break() or x) * by for by in range(3)]
    return [function() for function in functions]


COMPREHENSIONS = (
    breaks_in_comprehension,
    breaks_with_an_outer_variable_of_the_name,
    breaks_with_an_unbound_variable_of_the_name,
    breaks_beside_cells,
    breaks_in_nested_comprehensions,
    raises_in_a_comprehension_after_a_break,
    locals_in_a_comprehension,
    a_comprehension_of_a_lambda_default,
)


@pytest.mark.parametrize("fn", COMPREHENSIONS)
def test_comprehension(fn: Callable[[Tensor], Any]) -> None:
    check_same(fn)


# -- locals() and frames (PEP 667) -----------------------------------------------------------------------------


def locals_are_changed(x: Tensor) -> Any:
    y = 1
    graph_break()
    seen = locals()
    seen["y"] = 5
    z = y + 1
    graph_break()
    return y, z, seen["y"], locals()["y"], x * y


def f_locals_are_changed(x: Tensor) -> Any:
    y = 1
    z = x * 2
    graph_break()
    sys._getframe().f_locals["y"] = 5
    graph_break()
    w = x * y
    sys._getframe().f_locals["w"] = "changed"
    return y, z, w


def change_caller(name: str, value: Any) -> None:
    sys._getframe(1).f_locals[name] = value


def a_callee_changes_the_locals(x: Tensor) -> Any:
    y, z = 1, x * 2
    change_caller("y", 7)
    change_caller("z", "changed")
    return x * y, z


def exec_sees_the_locals(x: Tensor) -> Any:
    y = 2
    exec("y = y + 1; new = y")
    exec("found.append(y)", {"found": (found := [])}, locals())
    return y, found, "new" in locals(), eval("y * 2"), x * y


FRAMES = (locals_are_changed, f_locals_are_changed, a_callee_changes_the_locals, exec_sees_the_locals)


@pytest.mark.parametrize("fn", FRAMES)
def test_frame(fn: Callable[[Tensor], Any]) -> None:
    check_same(fn)


# -- classes ---------------------------------------------------------------------------------------------------


class Base:
    scale = 3

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def times(self, by: int) -> Tensor:
        return self.x * by

    @property
    def total(self) -> Tensor:
        return self.x.sum()

    @classmethod
    def made(cls, x: Tensor) -> Any:
        return cls(x)


class Derived(Base):
    def __init__(self, x: Tensor) -> None:
        super().__init__(x + 1)
        self.more = super().total

    def times(self, by: int) -> Any:
        return super().times(by) + super().scale, super(Derived, self).times(by + 1)

    @classmethod
    def made(cls, x: Tensor) -> Any:
        return super().made(x * 2)

    def missing(self) -> Any:
        try:
            return super().missing()  # type: ignore[misc]
        except AttributeError as error:
            return str(error)

    def breaks(self, x: Tensor) -> Any:
        graph_break()
        first = super().times((graph_break() or 2))
        return first, [super(Derived, self).times(n) for n in range(2)], super().total


def supers(x: Tensor) -> Any:
    made = Derived.made(x)
    return made.x, made.more, made.times(2), made.missing(), made.total


def supers_and_breaks(x: Tensor) -> Any:
    return Derived(x).breaks(x)


def super_is_something_else(x: Tensor) -> Any:
    def super(*arguments: Any) -> Any:
        return Base(x * 10)

    class Local:
        pass

    return super().times(2), super(int, 3).total  # type: ignore[arg-type]


class Guarded(types.ModuleType):
    seen: Any

    def __getattribute__(self, name: str) -> Any:
        if name == "seen":
            return "guarded"
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        return super().__setattr__(name, value)


class Number(int):
    @property
    def real(self) -> Any:
        return super().real, super().bit_length(), super(Number, self).conjugate()


GUARDED = Guarded("guarded")


def super_of_c_classes(x: Tensor) -> Any:
    GUARDED.found = x + 1
    graph_break()
    known = [hasattr(GUARDED, name) for name in ("found", "other", "__name__", "seen")]
    return GUARDED.found, GUARDED.seen, known, Number(3).real, x * 2


@pytest.mark.parametrize("entry", [True, False])
def test_super_of_c_classes(entry: bool) -> None:
    check_same(super_of_c_classes)
    # The frames of the methods are captured on their own as well.
    compiled = framehook.compile(Guarded.__getattribute__, backend="eager")
    with framehook.capture(backend="eager") if entry else contextlib.nullcontext():
        assert compiled(GUARDED, "__name__") == "guarded"
        with pytest.raises(AttributeError):
            compiled(GUARDED, "other")
        assert Number(3).real == (3, 2, 3)


def test_super() -> None:
    assert check_same(supers) == 1
    check_same(supers_and_breaks)
    check_same(super_is_something_else)


# -- attributes of objects that are seen again and again (3.13 keeps them inside of the object) -----------------


class Held:
    def __init__(self) -> None:
        self.first, self.by, self.last = "first", 2.5, ["last"]
        self.__dict__  # there is a dict, and the values stay in the object  # noqa: B018

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


class Tail(Held):
    def __init__(self) -> None:
        super().__init__()
        self.by = self.__dict__.pop("by")  # the last one


def _delete_and_set(held: Held) -> None:
    by = held.by
    del held.by
    held.by = by + 1


CHANGES: dict[str, Callable[[Held], Any]] = {
    "set": lambda held: setattr(held, "by", 4.25),
    "set_to_an_equal_value": lambda held: setattr(held, "by", float("2.5")),
    "set_in_the_dict": lambda held: held.__dict__.update(by=7),
    "replaced_dict": lambda held: setattr(held, "__dict__", {"by": 8}),
    "deleted": lambda held: delattr(held, "by"),
    "deleted_and_set": _delete_and_set,
    "added": lambda held: setattr(held, "more", 1),
    "cleared": lambda held: held.__dict__.clear(),
    "shadowed_method": lambda held: setattr(held, "forward", lambda x: x + 100),
    "class": lambda held: setattr(held, "__class__", Tail),
}


def call_forward(held: Held, x: Tensor) -> Tensor:
    return held.forward(x) + 1


@pytest.mark.parametrize("calls", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("cls", [Held, Tail])
@pytest.mark.parametrize("change", CHANGES)
def test_an_attribute_changes_after_many_calls(change: str, cls: type[Held], calls: int) -> None:
    compiled = framehook.compile(call_forward, backend="eager")
    mine, other, x = cls(), cls(), torch.ones(2)
    for call in range(calls):
        assert torch.equal(compiled(mine, x), call_forward(other, x)), call
    for _ in range(3):
        for held in (mine, other):
            CHANGES[change](held)
        assert list(vars(mine)) == list(vars(other))
        for _ in range(20):
            assert_same(outcome(lambda x: compiled(mine, x), x), outcome(lambda x: call_forward(other, x), x))
        for held in (mine, other):
            held.by = 3.5
        assert torch.equal(compiled(mine, x), call_forward(other, x))


def test_an_object_whose_attributes_are_looked_through_meanwhile() -> None:
    compiled = framehook.compile(call_forward, backend="eager")
    held, x = Held(), torch.ones(2)
    seen = []
    for name, value in held.__dict__.items():
        for _ in range(40):
            compiled(held, x)
        seen.append((name, value))
    assert seen == list(vars(Held()).items())


# -- numbers, texts and warnings ---------------------------------------------------------------------------------


def sums(x: Tensor) -> Any:
    tenths = [0.1] * 10
    return (
        sum(tenths),
        sum(tenths, 0.5),
        sum([1, 0.1, 0.2, 10**20, -(10**20), 0.1]),
        sum([True, 0.1, 0.2, 0.7]),
        sum([0.1, 0.2, x, 0.3, 0.1]),
        sum([[1], [2]], []),
        sum(row.sum() for row in x),
        sum((n * 0.1 for n in range(10)), 1),
    )


def inverted(x: Tensor) -> Any:
    flag = len(x) > 1
    return ~flag, ~(x > 0), ~3, x + 1


def texts(x: Tensor) -> Any:
    n, name = 3, "name"
    return (
        f"{n}",
        f"{name!r:>10}",
        f"{n:03d}{name!s}{n!a}",
        f"{x.shape}",
        f"{n=}",
        "".join(f"{v}" for v in (n, name)),
    )


def truths(x: Tensor) -> Any:
    names = [name for name in ("a", "", "b") if name]
    found = not names, not [], bool(names), names and n_of(x), [] or x, (1 if "" else 2)
    while names and len(names) > 1:
        names.pop()
    return found, names, x + 1


def n_of(x: Tensor) -> int:
    return len(x)


def test_numbers_and_texts() -> None:
    assert check_same(sums) == 1
    check_same(inverted)
    assert check_same(texts) == 0
    assert check_same(truths) == 1


def data_decide(x: Tensor) -> Any:
    y = x.sum()
    if y > 3 and not (y > 100):
        x = x + 1
    while y > 0:
        y = y - 10
    return x, y, not y, (y or x), bool(y)


def test_truth_of_tensors() -> None:
    check_same(data_decide, calls=5)


# -- syntax ------------------------------------------------------------------------------------------------------

newer_syntax = pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are new in 3.12")

TYPE_PARAMETERS = {
    "generic": """
        def generic[T](x: T) -> T:
            return x * 2
    """,
    "aliases": """
        def aliases(x):
            type Pair[T] = tuple[T, T]
            y = x + 1
            return y, Pair.__name__, str(Pair.__value__), Pair.__type_params__[0].__name__
    """,
    "inner": """
        def inner(x):
            def first[T: (int, str)](values: list[T]) -> T:
                return values[0]
            class Box[T]:
                def __init__(self, held: T) -> None:
                    self.held = held
            graph_break()
            return first([x, 1]), Box(x + 1).held, first.__type_params__[0].__constraints__, Box.__type_params__
    """,
    "in_a_comprehension": """
        def in_a_comprehension(x):
            def scaled[T](row: T, by: int) -> T:
                return row * by
            return [scaled(row, by) for by, row in enumerate(x)], f"{'nested'} {f"{1 + 1}"}"
    """,
    "in_a_class": """
        class Holder[T]:
            def __init__(self, held: T) -> None:
                self.held = held
            def doubled(self) -> T:
                return self.held * 2
        def in_a_class(x):
            return Holder(x).doubled(), Holder[int].__args__
    """,
}


@newer_syntax
@pytest.mark.parametrize("name", TYPE_PARAMETERS)
def test_type_parameters(name: str) -> None:
    check_same(made(TYPE_PARAMETERS[name], name))


@newer_syntax
def test_generic_functions_are_one_graph() -> None:
    assert check_same(made(TYPE_PARAMETERS["generic"], "generic")) == 1
    assert check_same(made(TYPE_PARAMETERS["in_a_class"], "in_a_class")) == 1


def exception_groups(x: Tensor) -> Any:
    found = []
    try:
        try:
            raise ExceptionGroup("two", [ValueError("v"), KeyError("k")])
        except* ValueError as group:
            found.append([repr(each) for each in group.exceptions])
            graph_break()
        except* KeyError as group:
            found.append([repr(each) for each in group.exceptions])
            raise RuntimeError("new") from None
    except BaseException as error:
        found.append((type(error).__name__, str(error)))
    return found, x + 1


def test_exception_groups() -> None:
    check_same(exception_groups)
