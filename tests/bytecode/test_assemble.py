"""What the assembler builds runs, keeps its source positions, and has a stack that adds up."""

from __future__ import annotations

import _thread
import functools
import inspect
import itertools
import operator
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest

from framehook.bytecode import CodeBuilder, StackItem, decode, make_resume_code
from framehook.bytecode.effects import StackError, verify
from framehook.bytecode.encoding import encode_exception_table, encode_locations, parse_exception_table
from framehook.bytecode.resume import emit_body

from . import split_cases
from .test_decode import LIBRARY


def template(x: int) -> int:
    """The docstring of the template."""
    return x


CODE = template.__code__


def run(build: Callable[[CodeBuilder], None], *args: Any, names: tuple[str, ...] = ()) -> Any:
    builder = CodeBuilder(CODE, names)
    builder.set_line(CODE.co_firstlineno)
    builder.begin()
    build(builder)
    code = builder.build()
    verify(code)
    return types.FunctionType(code, globals())(*args)


def reassembled(code: types.CodeType) -> types.CodeType:
    decoded = decode(code)
    cells = tuple(n for n, kind in zip(decoded.variables, decoded.kinds, strict=True) if kind == "cell")
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    builder = CodeBuilder(code, code.co_varnames[:count], cells=cells, free=code.co_freevars)
    for name in code.co_varnames:
        builder.locals.setdefault(name)
    labels = [builder.label() for _ in range(len(decoded.instructions) + 1)]
    emit_body(builder, decoded, labels, range(len(decoded.instructions)))
    return builder.build()


def is_plain_function(code: types.CodeType) -> bool:
    generator = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_flags & generator


def test_library_functions_survive_reassembly() -> None:
    functions = [code for code in LIBRARY if is_plain_function(code)]
    assert len(functions) > 700
    for code in functions:
        again = reassembled(code)
        verify(again)
        before, after = decode(code).instructions, decode(again).instructions
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            assert (old.opname, old.kwnames, old.push_null) == (new.opname, new.kwnames, new.push_null)
            assert old.argval is new.argval or old.argval == new.argval
            assert old.positions == new.positions
            assert (old.target, old.variable_kind) == (new.target, new.variable_kind)
            assert (old.handler is None) == (new.handler is None)
            if old.handler is not None and new.handler is not None:
                assert old.handler.target == new.handler.target
                assert (old.handler.depth, old.handler.lasti) == (new.handler.depth, new.handler.lasti)
        # RETURN_CONST needs no stack, what replaces it does.
        assert again.co_stacksize <= max(code.co_stacksize, 1)
        assert again.co_varnames == code.co_varnames
        assert again.co_cellvars == code.co_cellvars


def test_names_and_lines_are_the_templates() -> None:
    builder = CodeBuilder(CODE, ["x"])
    builder.begin()
    builder.set_line(1234)
    builder.load_fast("x")
    builder.load_attr("missing")
    builder.return_value()
    function = types.FunctionType(builder.build(), {})
    assert function.__doc__ == template.__doc__
    assert function.__qualname__ == "template"
    with pytest.raises(AttributeError) as caught:
        function(3)
    (frame,) = traceback.extract_tb(caught.value.__traceback__)[1:]
    assert (frame.filename, frame.lineno, frame.name) == (__file__, 1234, "template")


def test_constants_keep_their_identity() -> None:
    objects: list[Any] = [1.0, True, 1, [], {}, object(), (1, 2), frozenset({3}), -0.0, 0.0, float("nan")]
    # Equal to names that are interned, yet other objects.
    strange = "".join(["temp", "late"])
    assert strange == template.__name__ and strange is not template.__name__
    objects += [strange, (strange,), frozenset({strange}), "no name"]

    def build(builder: CodeBuilder) -> None:
        for value in objects:
            builder.load_const(value)
        builder.build_list(len(objects))
        builder.return_value()

    assert all(a is b for a, b in zip(run(build), objects, strict=True))


def test_calls() -> None:
    def record(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def build(builder: CodeBuilder) -> None:
        builder.begin_call(lambda: builder.load_const(record))
        builder.load_fast("a")
        builder.load_const(2)
        builder.call(2, ("k",))
        builder.load_const(record)
        builder.begin_call_on_top()
        builder.call(0)
        builder.begin_call(lambda: builder.load_const(record))
        builder.load_const((1, 2))
        builder.load_const({"z": 3})
        builder.call_function_ex(has_kwargs=True)
        builder.begin_call(lambda: builder.load_global("len"))
        builder.load_const("four")
        builder.call(1)
        builder.build_tuple(4)
        builder.return_value()

    assert run(build, 1, names=("a",)) == (
        ((1,), {"k": 2}),
        ((), {}),
        ((1, 2), {"z": 3}),
        4,
    )


@pytest.mark.parametrize("filler", [0, 1, 60, 300, 40_000])
def test_jumps_of_any_distance(filler: int) -> None:
    def build(builder: CodeBuilder) -> None:
        top, out, end = builder.label(), builder.label(), builder.label()
        builder.load_const(0)
        builder.store_fast("count")
        builder.place(top)
        builder.load_fast("count")
        builder.load_const(5)
        builder.emit("COMPARE_OP", "<")
        builder.emit("TO_BOOL") if sys.version_info >= (3, 13) else None
        builder.pop_jump_if("FALSE", out)
        for _ in range(filler):
            builder.emit("NOP")
        builder.load_fast("count")
        builder.load_const(1)
        builder.emit("BINARY_OP", "+")
        builder.store_fast("count")
        builder.load_fast("count")
        builder.load_const(3)
        builder.emit("COMPARE_OP", "==")
        builder.pop_jump_if("FALSE", top)  # backward
        builder.jump(top)
        builder.place(out)
        builder.load_fast("items")
        builder.emit("GET_ITER")
        again = builder.here()
        builder.for_iter(end)
        for _ in range(filler):
            builder.emit("NOP")
        builder.load_fast("count")
        builder.emit("BINARY_OP", "+")
        builder.store_fast("count")
        builder.jump(again)
        builder.end_for(end)
        builder.load_fast("count")
        builder.return_value()

    assert run(build, [10, 20], names=("items",)) == 35


def test_comparisons_stay_right_when_specialised() -> None:
    for symbol, function in (
        ("<", int.__lt__),
        ("<=", int.__le__),
        ("==", int.__eq__),
        ("!=", int.__ne__),
        (">", int.__gt__),
        (">=", int.__ge__),
    ):
        builder = CodeBuilder(CODE, ["a", "b"])
        builder.begin()
        no = builder.label()
        builder.load_fast("a")
        builder.load_fast("b")
        builder.emit("COMPARE_OP", symbol)
        builder.pop_jump_if("FALSE", no)
        builder.load_const(True)
        builder.return_value()
        builder.place(no)
        builder.load_const(False)
        builder.return_value()
        compare = types.FunctionType(builder.build(), {})
        for _ in range(50):
            for a, b in itertools.product((1, 2, 3), repeat=2):
                assert compare(a, b) is function(a, b)


def test_inner_region_applies_and_keeps_the_stack() -> None:
    def build(builder: CodeBuilder) -> None:
        outer, inner, done = builder.label(), builder.label(), builder.label()
        builder.load_const("kept")
        start = builder.here()
        first = builder.here()
        builder.load_fast("a")
        builder.load_attr("missing")
        last = builder.here()
        builder.jump(done)
        builder.place(inner)
        builder.emit("PUSH_EXC_INFO")
        builder.pop_top()
        builder.emit("POP_EXCEPT")
        builder.load_const(1)
        builder.load_const(0)
        builder.emit("BINARY_OP", "/")
        builder.place(done)
        end = builder.here()
        builder.build_tuple(2)
        builder.return_value()
        builder.place(outer)
        builder.emit("PUSH_EXC_INFO")
        builder.swap(2)
        builder.emit("POP_EXCEPT")
        builder.build_tuple(2)
        builder.return_value()
        builder.add_region(start, end, outer, 1)
        builder.add_region(first, last, inner, 1)

    kept, error = run(build, 3, names=("a",))
    assert kept == "kept"
    assert isinstance(error, ZeroDivisionError)
    assert sys.exc_info()[1] is None


def test_closures() -> None:
    def adder(n: int) -> Callable[[int], int]:
        return lambda x: x + n

    inner = next(c for c in adder.__code__.co_consts if isinstance(c, types.CodeType))

    def outer(builder: CodeBuilder) -> None:
        builder.make_function(inner, ["n"])
        builder.load_const(5)
        builder.store_deref("n")
        builder.load_deref("n")
        builder.build_tuple(2)
        builder.return_value()

    builder = CodeBuilder(CODE, ["n"], cells=["n"])
    builder.begin()
    outer(builder)
    function, value = types.FunctionType(builder.build(), {})(1)
    assert (function(2), value) == (7, 5)

    # The parameter is the cell itself.
    builder = CodeBuilder(CODE, ["n"], cells=["n"], arguments_are_cells=True)
    builder.begin()
    outer(builder)
    code = builder.build()
    verify(code)
    cell = types.CellType(1)
    types.FunctionType(code, {})(cell)
    assert cell.cell_contents == 5


def test_spilled_stack_with_nulls() -> None:
    def build(builder: CodeBuilder) -> None:
        builder.load_const(1)
        builder.emit("PUSH_NULL")
        builder.load_const(2)
        builder.pack_stack([StackItem.VALUE, StackItem.NULL, StackItem.VALUE])
        builder.return_value()

    assert run(build) == (1, 2)


def test_broken_stacks_are_refused() -> None:
    def underflow(builder: CodeBuilder) -> None:
        builder.pop_top()
        builder.load_const(1)
        builder.return_value()

    def uneven(builder: CodeBuilder) -> None:
        label = builder.label()
        builder.load_const(1)
        builder.load_const(2)
        builder.pop_jump_if("NONE", label)
        builder.load_const(3)
        builder.place(label)
        builder.return_value()

    def endless(builder: CodeBuilder) -> None:
        builder.load_const(1)

    for build in (underflow, uneven, endless):
        with pytest.raises(StackError):
            run(build)
    with pytest.raises(ValueError, match="never placed"):
        run(lambda builder: builder.jump(builder.label()))
    code = split_cases.mid_expression.__code__.replace(co_stacksize=2)
    with pytest.raises(StackError, match="co_stacksize"):
        verify(code)


def test_location_table_round_trip() -> None:
    rows = [
        (3, (10, 10, 0, 5)),
        (20, (10, 10, 70, 79)),
        (1, (12, 12, 100, 120)),
        (1, (9, 11, 3, 4)),
        (9, (None, None, None, None)),
        (2, (500, 500, None, None)),
        (1, (2, 90, 300, 1)),
        (1, (2, 2, 79, 95)),
    ]
    units = sum(count for count, _ in rows)
    code = CODE.replace(
        co_code=CODE.co_code[:2] * units, co_linetable=encode_locations(rows, CODE.co_firstlineno)
    )
    expected = [positions for count, positions in rows for _ in range(count)]
    assert list(code.co_positions()) == expected


def test_exception_table_round_trip() -> None:
    rows = [(0, 1, 2, 0, False), (5, 70, 5000, 31, True), (70, 400_000, 3, 32, False)]
    assert parse_exception_table(encode_exception_table(rows)) == rows


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need it")
def test_interrupt_between_pieces_finds_the_blocks_in_place() -> None:
    """A pending Ctrl-C is noticed only where the resumed `with` block already covers the code."""
    exits = []

    class Manager:
        def __enter__(self) -> None:
            pass

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            exits.append(kind)

    def function(manager, n):
        with manager:
            for i in range(n):
                pass
            return i

    code = function.__code__
    loop = next(i for i in decode(code).instructions if i.opname == "FOR_ITER")
    manager = Manager()
    resume = make_resume_code(
        code, loop.index, bound=["manager", "n"], stack=[StackItem.VALUE, StackItem.VALUE]
    )
    continued = types.FunctionType(resume, globals())
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            # Everything up to the resume function happens in C, where nothing notices the signal.
            any(
                map(
                    operator.call,
                    [
                        functools.partial(_thread.interrupt_main, signal.SIGINT),
                        functools.partial(continued, manager, 3, manager.__exit__, iter(range(3))),
                    ],
                )
            )
    finally:
        signal.signal(signal.SIGINT, old)
    assert exits == [KeyboardInterrupt]


def test_cases_of_the_resume_tests_reassemble() -> None:
    for function in split_cases.FUNCTIONS:
        if not function.__code__.co_freevars:
            verify(reassembled(function.__code__))
