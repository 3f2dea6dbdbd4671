"""Decoding agrees with `dis`, names operations alike in all versions, and keeps no code alive."""

from __future__ import annotations

import argparse
import ast
import collections
import dis
import gc
import inspect
import sys
import textwrap
import types
import typing
import weakref
from collections.abc import Iterator

import pytest

from framehook.bytecode import decode
from framehook.bytecode.opcodes import OPMAP, ROW_BY_NATIVE, ROWS, VERSION

MODULES = [argparse, ast, collections, dis, inspect, textwrap, typing]


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def library_codes() -> list[types.CodeType]:
    codes = []
    for module in MODULES:
        path = module.__file__
        assert path is not None
        with open(path, encoding="utf-8") as file:
            codes.extend(code_objects(compile(file.read(), path, "exec")))
    return codes


LIBRARY = library_codes()


def test_rows_name_operations_of_their_versions() -> None:
    for native, row in ROW_BY_NATIVE.items():
        assert native in OPMAP, row
    assert all(row.first <= row.last for row in ROWS)


def test_jump_targets_lines_and_regions_agree_with_dis() -> None:
    for code in LIBRARY:
        decoded = decode(code)
        native = {i.offset: i for i in dis.get_instructions(code)}
        for instruction in decoded.instructions:
            reference = native[instruction.offset]
            assert instruction.positions == tuple(reference.positions or ())
            assert instruction.opcode in (reference.opcode, *OPMAP.values())
            if instruction.target >= 0 and instruction.opname != "FOR_ITER":
                assert decoded.index_of(reference.argval) == instruction.target
            if instruction.opname == "FOR_ITER":
                tail = decoded.instructions[decoded.index_of(reference.argval) : instruction.target]
                assert [i.opname for i in tail] == {
                    (3, 11): [],
                    (3, 12): ["END_FOR"],
                    (3, 13): ["END_FOR", "POP_TOP"],
                }[VERSION]
        entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        for entry in entries:
            for instruction in decoded.instructions:
                if entry.start <= instruction.offset < entry.end:
                    assert instruction.handler is not None
                    assert instruction.handler.depth == entry.depth
                    assert instruction.handler.lasti == entry.lasti
                    assert instruction.handler.target == decoded.index_of(entry.target)


def test_no_encoding_detail_is_left() -> None:
    hidden = {"EXTENDED_ARG", "CACHE", "PRECALL", "KW_NAMES", "CALL_KW", "RETURN_CONST", "LOAD_FAST_CHECK"}
    seen = {i.opname for code in LIBRARY for i in decode(code).instructions}
    assert not seen & hidden
    assert not {name for name in seen if "JUMP_FORWARD" in name or "JUMP_BACKWARD" in name}
    assert {"CALL", "LOAD_METHOD", "LOAD_GLOBAL", "JUMP", "POP_JUMP_IF_FALSE", "FORMAT_VALUE"} <= seen


def f(a: int, b: int, *args: int, key: int = 0, **kwargs: int) -> object:
    cell = a

    def inner() -> int:
        return cell

    g(a, b, key=key)
    a += 1
    if a < b and a is not None and a in args:
        return f"{a!r:>3}{b}"
    return not +a, inner


def g(*args: object, **kwargs: object) -> None:
    pass


def named(name: str) -> list[typing.Any]:
    return [i for i in decode(f.__code__).instructions if i.opname == name]


def test_arguments_are_resolved() -> None:
    (call,) = (i for i in named("CALL") if i.kwnames)
    assert call.arg == 3
    assert call.kwnames == ("key",)
    assert any(i.argval == "g" and i.push_null for i in named("LOAD_GLOBAL"))
    assert {i.argval for i in named("COMPARE_OP")} == {"<"}
    assert {i.argval for i in named("IS_OP")} <= {"is not", "is"}
    assert {i.argval for i in named("CONTAINS_OP")} == {"in"}
    assert {i.argval for i in named("BINARY_OP")} == {"+="}
    assert {(i.argval, i.variable_kind) for i in named("STORE_DEREF")} == {("cell", "cell")}
    assert {(i.argval, i.variable_kind) for i in named("LOAD_CLOSURE")} == {("cell", "cell")}
    assert (None, False) in {i.argval for i in named("FORMAT_VALUE")}
    assert len(named("UNARY_POSITIVE")) == 1
    assert not any("cell" in i.opname.lower() for i in decode(g.__code__).instructions)


def test_code_that_compares_equal_is_decoded_on_its_own() -> None:
    twin = f.__code__.replace()
    assert twin == f.__code__
    assert twin is not f.__code__
    assert decode(twin) is not decode(f.__code__)
    assert decode(twin) is decode(twin)


def test_decoded_form_keeps_no_code_alive() -> None:
    code = compile("x = 1\ny = 2", "<gone>", "exec")
    decoded = weakref.ref(code)
    held = decode(code)
    del code
    gc.collect()
    assert decoded() is None
    with pytest.raises(ReferenceError):
        held.code  # noqa: B018


def test_running_version_is_supported() -> None:
    assert sys.version_info[:2] == VERSION
