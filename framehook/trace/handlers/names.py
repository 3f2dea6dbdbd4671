"""Loads and stores: locals, cells, globals, attributes, and the stack itself."""

from __future__ import annotations

import weakref
from typing import Any

from framehook.bytecode.opcodes import NULL_COMES_FIRST
from framehook.bytecode.resume import is_resume_code
from framehook.source import LocalSource
from framehook.values.base import NULL, ConstantValue, LazyValue, Value, is_constant
from framehook.values.endings import KEPT_ELSEWHERE
from framehook.values.endings import check_let_go as check_ends
from framehook.values.functions import CellValue
from framehook.values.sequences import TupleValue


def _nop(tr: Any, frame: Any, inst: Any) -> None:
    pass


def _load_const(tr: Any, frame: Any, inst: Any) -> None:
    value = inst.argval
    frame.stack.append(_constant_tuple(tr, value) if type(value) is tuple else _constant(tr, value))


def _constant_tuple(tr: Any, obj: tuple[Any, ...]) -> Value:
    """A tuple of the code's constants: the same object wherever it is loaded."""
    known: TupleValue | None = tr.constant_tuples.get(id(obj))
    if known is None:
        items = [_constant_tuple(tr, part) if type(part) is tuple else _constant(tr, part) for part in obj]
        known = tr.constant_tuples[id(obj)] = TupleValue(items, constant=obj)
    return known


def _constant(tr: Any, value: Any) -> Value:
    return ConstantValue(value) if is_constant(value) else tr.constant_object(value)


def _load_fast(tr: Any, frame: Any, inst: Any) -> None:
    # Inlined comprehensions keep plain values in slots that are cells outside of them.
    value = (frame.cells if inst.variable_kind == "cell" else frame.locals).get(inst.argval)
    if value is None:
        name = inst.argval
        tr.throw(
            UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )
    frame.stack.append(value)


def _store_fast(tr: Any, frame: Any, inst: Any) -> None:
    name = inst.argval
    is_cell = inst.variable_kind == "cell"
    old = None if is_cell else frame.locals.get(name)
    if old is not None:
        check_let_go(tr, old)
    slots = frame.cells if is_cell else frame.locals
    value = frame.stack.pop()
    if value is NULL:
        # An inlined comprehension gives its variables back as they were: unbound.
        slots.pop(name, None)
    else:
        slots[name] = value


def check_let_go(tr: Any, value: Value) -> None:
    """An object whose end somebody sees has to go where the program lets go of it."""
    check_ends(tr, value)
    if not isinstance(value, LazyValue):
        return
    tr.has_let_go = True
    cls = type(value.obj)
    if (
        isinstance(value.source, LocalSource)
        and is_resume_code(tr.record.code)
        and not issubclass(cls, KEPT_ELSEWHERE)
        and cls.__weakrefoffset__
        and weakref.getweakrefcount(value.obj)
    ):
        tr.graph_break("finalizer", f"an object of class {cls.__qualname__}, which is watched, is let go")


def _delete_fast(tr: Any, frame: Any, inst: Any) -> None:
    old = frame.locals.get(inst.argval)
    if old is not None:
        check_let_go(tr, old)
    if frame.locals.pop(inst.argval, None) is None:
        name = inst.argval
        tr.throw(
            UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )


def _load_fast_and_clear(tr: Any, frame: Any, inst: Any) -> None:
    if inst.variable_kind == "cell":
        frame.stack.append(frame.cells.pop(inst.argval, NULL))
    else:
        frame.stack.append(frame.locals.pop(inst.argval, NULL))


def _make_cell(tr: Any, frame: Any, inst: Any) -> None:
    name = inst.argval
    frame.cells[name] = CellValue(frame.locals.pop(name, None))


def _copy_free_vars(tr: Any, frame: Any, inst: Any) -> None:
    for name, cell in zip(frame.code.co_freevars, frame.closure, strict=True):
        frame.cells[name] = cell


def _load_closure(tr: Any, frame: Any, inst: Any) -> None:
    frame.stack.append(frame.cells[inst.argval])


def _load_deref(tr: Any, frame: Any, inst: Any) -> None:
    name = inst.argval
    contents = frame.cells[name].contents
    if contents is None:
        if name in frame.code.co_freevars:
            tr.throw(
                NameError,
                f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
            )
        tr.throw(
            UnboundLocalError,
            f"cannot access local variable '{name}' where it is not associated with a value",
        )
    frame.stack.append(contents)


def _store_deref(tr: Any, frame: Any, inst: Any) -> None:
    frame.cells[inst.argval].store(tr, frame.stack.pop())


def _delete_deref(tr: Any, frame: Any, inst: Any) -> None:
    cell = frame.cells[inst.argval]
    if cell.contents is None:
        _load_deref(tr, frame, inst)
    cell.store(tr, None)


def _load_global(tr: Any, frame: Any, inst: Any) -> None:
    value = frame.globals.load(tr, inst.argval)
    if inst.push_null:
        push_with_null(frame, value)
    else:
        frame.stack.append(value)


def push_with_null(frame: Any, value: Value) -> None:
    """Push a callable that has no self."""
    if NULL_COMES_FIRST:
        frame.stack.append(NULL)
        frame.stack.append(value)
    else:
        frame.stack.append(value)
        frame.stack.append(NULL)


def _store_global(tr: Any, frame: Any, inst: Any) -> None:
    frame.globals.store(tr, inst.argval, frame.stack.pop())


def _delete_global(tr: Any, frame: Any, inst: Any) -> None:
    frame.globals.store(tr, inst.argval, None)


def _load_attr(tr: Any, frame: Any, inst: Any) -> None:
    owner = frame.stack.pop().realize(tr)
    frame.stack.append(owner.get_attr(tr, inst.argval))


def _load_method(tr: Any, frame: Any, inst: Any) -> None:
    owner = frame.stack.pop().realize(tr)
    push_with_null(frame, owner.get_attr(tr, inst.argval))


def _store_attr(tr: Any, frame: Any, inst: Any) -> None:
    owner = frame.stack.pop().realize(tr)
    value = frame.stack.pop()
    owner.set_attr(tr, inst.argval, value)


def _delete_attr(tr: Any, frame: Any, inst: Any) -> None:
    frame.stack.pop().realize(tr).del_attr(tr, inst.argval)


def _load_super_attr(tr: Any, frame: Any, inst: Any) -> None:
    owner, cls, super_class = frame.pop(), frame.pop(), frame.pop()
    proxy = tr.call(super_class, [cls, owner], {}).realize(tr)
    value = proxy.get_attr(tr, inst.argval)
    if inst.push_null:
        push_with_null(frame, value)
    else:
        frame.stack.append(value)


def _pop_top(tr: Any, frame: Any, inst: Any) -> None:
    check_let_go(tr, frame.stack[-1])
    frame.stack.pop()


def _push_null(tr: Any, frame: Any, inst: Any) -> None:
    frame.stack.append(NULL)


def _copy(tr: Any, frame: Any, inst: Any) -> None:
    frame.stack.append(frame.stack[-inst.arg])


def _swap(tr: Any, frame: Any, inst: Any) -> None:
    stack = frame.stack
    stack[-1], stack[-inst.arg] = stack[-inst.arg], stack[-1]


def _import_name(tr: Any, frame: Any, inst: Any) -> None:
    names = frame.stack.pop()
    level = frame.stack.pop()
    frame.stack.append(tr.import_module(inst.argval, names.realize(tr), level.realize(tr)))


def _import_from(tr: Any, frame: Any, inst: Any) -> None:
    frame.stack.append(frame.stack[-1].realize(tr).get_attr(tr, inst.argval))


def _list_to_tuple(tr: Any, frame: Any, inst: Any) -> None:
    frame.stack.append(TupleValue(tr.drain(frame.stack.pop())))


HANDLERS = {
    "NOP": _nop,
    "RESUME": _nop,
    "LOAD_CONST": _load_const,
    "LOAD_FAST": _load_fast,
    "STORE_FAST": _store_fast,
    "DELETE_FAST": _delete_fast,
    "LOAD_FAST_AND_CLEAR": _load_fast_and_clear,
    "MAKE_CELL": _make_cell,
    "COPY_FREE_VARS": _copy_free_vars,
    "LOAD_CLOSURE": _load_closure,
    "LOAD_DEREF": _load_deref,
    "STORE_DEREF": _store_deref,
    "DELETE_DEREF": _delete_deref,
    "LOAD_GLOBAL": _load_global,
    "STORE_GLOBAL": _store_global,
    "DELETE_GLOBAL": _delete_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": _load_method,
    "STORE_ATTR": _store_attr,
    "DELETE_ATTR": _delete_attr,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "POP_TOP": _pop_top,
    "PUSH_NULL": _push_null,
    "COPY": _copy,
    "SWAP": _swap,
    "IMPORT_NAME": _import_name,
    "IMPORT_FROM": _import_from,
    "LIST_TO_TUPLE": _list_to_tuple,
}
