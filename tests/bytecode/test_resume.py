"""A function left before any instruction and continued by its resume function ends as if never interrupted."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import sys
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framehook.bytecode import CodeBuilder, StackItem, decode, layout_of, make_resume_code, origin
from framehook.bytecode.effects import verify
from framehook.bytecode.resume import CalleeToResume, emit_body, original_index, waits_for_callee

from . import split_cases
from .splitting import continue_split, run_until, shapes

VISITS = 3


def describe(error: BaseException | None, code: types.CodeType, depth: int = 0) -> Any:
    """Type, text, places in the function's own file, and the same for what led to it."""
    if error is None or depth > 3:
        return None
    places = [
        (frame.name, frame.lineno, frame.end_lineno, frame.colno, frame.end_colno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == code.co_filename
    ]
    return (
        type(error),
        str(error),
        places,
        describe(error.__cause__, code, depth + 1),
        describe(error.__context__, code, depth + 1),
        error.__suppress_context__,
    )


def simplify(value: Any) -> Any:
    """Results compare by value; exceptions have no useful equality."""
    if isinstance(value, BaseException):
        return (type(value), str(value))
    if isinstance(value, tuple | list):
        return type(value)(simplify(item) for item in value)
    return value


def outcome(code: types.CodeType, call: Callable[[], Any], is_handling: bool) -> tuple[Any, ...]:
    """What a caller sees of a call: result or exception, the log, and exception state left as it was."""
    split_cases.LOG.clear()

    def guarded() -> tuple[Any, ...]:
        around = sys.exc_info()[1]
        try:
            result: tuple[Any, ...] = ("returned", simplify(call()))
        except Exception as error:
            result = ("raised", describe(error, code))
        assert sys.exc_info()[1] is around
        return (*result, list(split_cases.LOG))

    if not is_handling:
        return guarded()
    # The caller may itself be in a handler: exception state is a chain.
    try:
        raise LookupError
    except LookupError:
        return guarded()


@pytest.mark.parametrize("row", split_cases.ROWS, ids=lambda row: row[0].__name__)
@pytest.mark.parametrize("is_handling", [False, True], ids=["plain", "while_handling"])
def test_every_instruction_can_be_resumed_at(row: split_cases.Row, is_handling: bool) -> None:
    function, args, kwargs = row
    assert isinstance(function, types.FunctionType)
    code = function.__code__

    def copied() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(type(a)(a) if isinstance(a, list | dict) else a for a in args), dict(kwargs)

    def eager() -> Any:
        plain, named = copied()
        return function(*plain, **named)

    expected = outcome(code, eager, is_handling)
    stack_shapes = shapes(code)
    reached = set()
    entry = next(i.index for i in decode(code).instructions if i.opname == "RESUME") + 1
    for index, shape in enumerate(stack_shapes):
        if shape is None or index < entry:
            continue
        for visit in range(1, 2 if is_handling else VISITS + 1):
            split = None

            def run() -> Any:
                nonlocal split
                plain, named = copied()
                split = run_until(function, index, visit, plain, named, shape)
                return None if split is None else continue_split(function, index, split)

            found = outcome(code, run, is_handling)
            if split is None:
                break
            reached.add(index)
            assert found == expected, (decode(code).instructions[index], visit)
    assert len(reached) > 5


def test_same_request_gives_the_same_code() -> None:
    code = split_cases.loops.__code__
    index = next(i.index for i in decode(code).instructions if i.opname == "FOR_ITER")
    first = make_resume_code(code, index, bound=["n", "total"], stack=[StackItem.VALUE])
    assert make_resume_code(code, index, bound=["total", "n"], stack=[StackItem.VALUE]) is first
    assert make_resume_code(code, index, bound=["n", "total", "i"], stack=[StackItem.VALUE]) is not first
    assert origin(first) == (code, index)
    assert origin(code) == (code, 0)
    assert layout_of(first).parameters == (("local", "n"), ("local", "total"), ("stack", 0))
    assert first.co_qualname == code.co_qualname
    assert first.co_firstlineno == code.co_firstlineno


def test_resume_of_resume_is_made_of_the_original() -> None:
    code = split_cases.loops.__code__
    instructions = decode(code).instructions
    index = next(i.index for i in instructions if i.opname == "FOR_ITER")
    first = make_resume_code(code, index, bound=["n", "total"], stack=[StackItem.VALUE])
    inner = decode(first).instructions
    for position in range(len(inner)):
        mapped = original_index(first, position)
        if mapped >= 0:
            assert instructions[mapped].opname == inner[position].opname
            assert instructions[mapped].positions == inner[position].positions
    again = next(p for p in range(len(inner)) if original_index(first, p) == index)
    assert make_resume_code(first, again, bound=["n", "total"], stack=[StackItem.VALUE]) is first
    with pytest.raises(ValueError, match="prologue"):
        make_resume_code(first, 0, bound=[], stack=[])


def test_resume_code_lives_as_long_as_its_original() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    y = x + 1\n    return y", namespace)
    code = namespace.pop("f").__code__
    resume = weakref.ref(make_resume_code(code, 1, bound=["x"], stack=[]))
    gc.collect()
    assert resume() is not None
    survivor = resume()
    original = weakref.ref(code)
    del code
    gc.collect()
    assert original() is None
    assert survivor is not None
    with pytest.raises(ReferenceError):
        origin(survivor)
    del survivor
    gc.collect()
    assert resume() is None


def generator() -> Any:
    yield 1


async def coroutine() -> None:
    pass


@pytest.mark.parametrize("function", [generator, coroutine])
def test_generators_have_no_resume_functions(function: Any) -> None:
    with pytest.raises(ValueError, match="generator or coroutine"):
        make_resume_code(function.__code__, 1, bound=[], stack=[])


def test_bad_requests_are_refused() -> None:
    code = split_cases.loops.__code__
    with pytest.raises(ValueError, match="nobody"):
        make_resume_code(code, 3, bound=["nobody"], stack=[])
    with pytest.raises(ValueError, match="no instruction"):
        make_resume_code(code, 100_000, bound=[], stack=[])
    with pytest.raises(ValueError, match="no function body"):
        make_resume_code(compile("x = 1", "<module>", "exec"), 1, bound=[], stack=[])
    with pytest.raises(ValueError, match="no resume function"):
        layout_of(code)


class Break:
    """What a piece returns instead of calling on: the values to go on with."""

    def __init__(self, *values: Any) -> None:
        self.values = values


def watched_loop() -> tuple[types.FunctionType, list[int], list[int]]:
    """A function that counts to n, and for each round the stack's depth and the identity of its caller."""
    depths: list[int] = []
    callers: list[int] = []

    def looks() -> None:
        frame: types.FrameType | None = sys._getframe(1)
        assert frame is not None
        callers.append(id(frame.f_back))
        depth = 0
        while frame is not None:
            depth += 1
            frame = frame.f_back
        depths.append(depth)

    def count(n):
        i = -1
        for i in range(n):
            looks()
        return i

    return count, depths, callers


def breaking_piece(
    code: types.CodeType, arguments: list[str], is_resumed: bool, emit_break: Callable[[CodeBuilder], None]
) -> types.CodeType:
    """`code`, from its start or from its loop, until it comes to the loop's head (again): there it breaks.

    `emit_break` pushes a callable that takes n, i and the iterator.
    """
    decoded = decode(code)
    loop = next(i for i in decoded.instructions if i.opname == "FOR_ITER")
    builder = CodeBuilder(code, arguments, free=code.co_freevars)
    builder.set_position(loop.positions)
    builder.begin(resumed=is_resumed)
    labels = [builder.label() for _ in range(len(decoded.instructions) + 1)]
    inside = builder.label()
    first = next(i.index for i in decoded.instructions if i.opname == "RESUME") + 1
    if is_resumed:
        first = loop.index
        builder.take_fast(".s0")
        builder.jump(inside)

    def stop() -> None:
        (iterator,) = builder.spill_stack([StackItem.VALUE])
        assert iterator is not None
        emit_break(builder)
        builder.begin_call_on_top()
        for name in ("n", "i"):
            builder.load_fast(name)
        builder.take_fast(iterator)
        builder.call(3)
        builder.return_value()
        builder.place(inside)

    emit_body(builder, decoded, labels, range(first, len(decoded.instructions)), before={loop.index: stop})
    piece = builder.build()
    verify(piece)
    return piece


def loop_resume(code: types.CodeType) -> types.CodeType:
    loop = next(i for i in decode(code).instructions if i.opname == "FOR_ITER")
    resume = make_resume_code(code, loop.index, bound=["n", "i"], stack=[StackItem.VALUE])
    assert layout_of(resume).parameters == (("local", "n"), ("local", "i"), ("stack", 0))
    return resume


def test_ten_thousand_breaks_leave_the_stack_as_deep_as_one() -> None:
    count, depths, callers = watched_loop()
    code = count.__code__
    start = breaking_piece(code, ["n"], False, lambda b: b.load_const(Break))
    again = breaking_piece(code, ["n", "i", ".s0"], True, lambda b: b.load_const(Break))

    def runner(state: Any) -> Any:
        breaks = 0
        function = types.FunctionType(again, globals(), "count", None, count.__closure__)
        while isinstance(state, Break):
            breaks += 1
            values = state.values
            del state
            state = function(*values)
        return state, breaks

    begun = types.FunctionType(start, globals(), "count", None, count.__closure__)(10_000)
    assert runner(begun) == (9_999, 10_001)
    assert len(depths) == 10_000
    assert set(depths) == {depths[0]}
    assert len(set(callers)) == 1


@pytest.fixture
def core() -> Iterator[Any]:
    """framehook._C, where it is built and, if it needs it, torch is there; nothing is compiled on a miss."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch")
    extension = pytest.importorskip("framehook._C", exc_type=ImportError)
    before = extension.set_miss_callback(lambda handle, record: None)
    yield extension
    extension.set_miss_callback(before)


def test_ten_thousand_breaks_through_the_runner(core: Any) -> None:
    count, depths, callers = watched_loop()
    code = count.__code__
    resume = loop_resume(code)
    core.own_resume_code(code, resume)
    go_on = functools.partial(core.make_continuation, core.CodeRef(resume))
    start = breaking_piece(code, ["n"], False, lambda b: b.load_const(go_on))
    again = breaking_piece(code, ["n", "i", ".s0"], True, lambda b: b.load_const(go_on))
    handle = core.Handle()
    for key, piece in ((code, start), (resume, again)):
        core.add_entry(handle, key, core.Entry(None, piece, takes_inputs=False, is_whole=False, payload=None))
    compiled = core.CompiledCallable(handle, count)
    assert compiled(10_000) == 9_999
    assert len(depths) == 10_000
    assert set(depths) == {depths[0]}
    assert len(set(callers)) == 1
    # Eager frames look the same from inside.
    broken = depths[0]
    depths.clear()
    assert count(2) == 1
    assert depths == [broken, broken]


def test_resume_function_itself_continues_through_the_runner(core: Any) -> None:
    count, depths, _ = watched_loop()
    code = count.__code__
    resume = loop_resume(code)
    core.own_resume_code(code, resume)
    go_on = functools.partial(core.make_continuation, core.CodeRef(resume))
    start = breaking_piece(code, ["n"], False, lambda b: b.load_const(go_on))
    handle = core.Handle()
    core.add_entry(handle, code, core.Entry(None, start, takes_inputs=False, is_whole=False, payload=None))
    assert core.CompiledCallable(handle, count)(5) == 4
    assert len(depths) == 5


def _call_maker(code: types.CodeType, function: types.FunctionType, *values: Any) -> Callable[[], Any]:
    resumed = types.FunctionType(code, function.__globals__, code.co_name, None, function.__closure__)
    return lambda: resumed(*values)


def test_a_frame_waits_for_the_frames_below_it() -> None:
    log: list[Any] = []

    def inner(a: int, b: int) -> int:
        log.append("inner")
        c = a + b
        if c > 10:
            raise ValueError(c)
        return c * 2

    def middle(a: int) -> int:
        try:
            return 1 + inner(a, 2)
        finally:
            log.append("finally")

    def outer(a: int) -> Any:
        try:
            return [a, middle(a)]
        except ValueError as error:
            places = traceback.extract_tb(error.__traceback__)
            return [str(error), [(place.name, place.lineno) for place in places if place.name != "<lambda>"]]

    start = next(each.index for each in decode(inner.__code__).instructions if each.opname == "RESUME") + 1
    innermost = make_resume_code(inner.__code__, start, bound=("a", "b"), stack=())
    calls = [each.index for each in decode(middle.__code__).instructions if each.opname == "CALL"]
    between = make_resume_code(
        middle.__code__,
        calls[0],
        bound=("a",),
        stack=(StackItem.VALUE,),
        callee=CalleeToResume(innermost, _call_maker),
    )
    calls = [each.index for each in decode(outer.__code__).instructions if each.opname == "CALL"]
    code = make_resume_code(
        outer.__code__,
        calls[0],
        bound=("a",),
        stack=(StackItem.VALUE,),
        callee=CalleeToResume(between, _call_maker),
    )
    assert layout_of(code).callee is between
    assert waits_for_callee(code) and waits_for_callee(between) and not waits_for_callee(innermost)
    assert origin(code) == (outer.__code__, calls[0])
    verify(code)
    same = make_resume_code(
        outer.__code__,
        calls[0],
        bound=("a",),
        stack=(StackItem.VALUE,),
        callee=CalleeToResume(between, _call_maker),
    )
    assert same is code
    resumed = types.FunctionType(code, outer.__globals__, "outer", None, outer.__closure__)
    for value in (3, 30):
        log.clear()
        expected, expected_log = outer(value), list(log)
        log.clear()
        # Variables, the value below the call; the function of the frame below, its own; and so on.
        assert resumed(value, value, middle, value, 1, inner, value, 2) == expected
        assert log == expected_log
