"""Emitting symbolic values: bytecode that leaves the real object on the stack.

`EMITTERS` maps a class of values to its emitter.  Objects from outside come from the list that the guard program
hands over; objects made inside the frame are built once and kept in hidden variables, so that aliases stay
aliases.
"""

from __future__ import annotations

import collections
import functools
import inspect
import operator
import re
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from framehook import _C, torch_compat, torch_symbols
from framehook.bytecode.assemble import CodeBuilder
from framehook.codegen.generators import arguments_of
from framehook.codegen.iterators import ITERATORS
from framehook.codegen.refusals import CycleFound, NotRebuildable
from framehook.source import LocalSource, ObjectSource, Source
from framehook.trace.capture import Capture
from framehook.trace.classes import native_base
from framehook.trace.symbols import Root
from framehook.values.base import ConstantValue, LazyValue, MethodOfConstant, Value, is_constant
from framehook.values.classes import (
    CallableValue,
    ClassDictValue,
    ClassValue,
    GenericAliasValue,
    SuperMethod,
    UnionValue,
)
from framehook.values.deques import DequeValue
from framehook.values.descriptors import DescriptorValue
from framehook.values.exceptions import ExceptionValue, native_exception
from framehook.values.frame_classes import FrameClassValue
from framehook.values.functions import (
    BoundMethodValue,
    CellValue,
    FunctionDict,
    FunctionGet,
    GeneratorValue,
    NestedFunctionValue,
)
from framehook.values.getters import GetterValue
from framehook.values.identity import IdentityNumber
from framehook.values.mappings import DictValue, DictView
from framehook.values.numbers import DeferredNumber, is_deferred
from framehook.values.objects import InstanceDictSnapshot, InstanceDictValue, ObjectValue, is_data_descriptor
from framehook.values.proxies import MappingProxyValue
from framehook.values.sequences import (
    BuiltinMethod,
    ListValue,
    SliceValue,
    TupleValue,
)
from framehook.values.sets import SetValue, set_with_room
from framehook.values.symbolic import SymbolicInteger
from framehook.values.tensor import TensorValue
from framehook.values.weak_references import WeakReferenceValue

#: Containers with more elements are built in pieces, as every element takes a stack slot.
_PIECE = 500


class Emitter:
    """One pass over what a generated function has to bring about.

    A first pass with `outputs` and `extras` empty finds them; the second writes the code.
    """

    def __init__(self, capture: Capture, builder: CodeBuilder) -> None:
        self.capture = capture
        self.builder = builder
        self.outputs: dict[int, TensorValue] = {}
        self.extras: dict[Source, int] = {}
        self.memo: dict[int, str] = {}
        self.hidden: list[str] = []
        self._in_progress: dict[int, Value] = {}
        self._keep: list[Any] = []

    # -- pieces --------------------------------------------------------------------------------------
    def new_variable(self) -> str:
        """The name of a new hidden variable."""
        name = f".m{len(self.hidden)}"
        self.hidden.append(name)
        return name

    def keep_top(self) -> str:
        """Copy the top of the stack into a hidden variable and return its name."""
        name = self.new_variable()
        self.builder.copy()
        self.builder.store_fast(name)
        return name

    def call(self, fn: Any, *parts: Callable[[], None]) -> None:
        """Emit a call of a constant function; each part emits one argument."""
        self.builder.begin_call(lambda: self.builder.load_const(fn))
        for part in parts:
            part()
        self.builder.call(len(parts))

    def begin_method(self, load_owner: Callable[[], None], name: str) -> None:
        """Push a bound method; arguments and the builder's `call` follow."""

        def load() -> None:
            load_owner()
            self.builder.load_attr(name)

        self.builder.begin_call(load)

    def call_values(self, fn: Any, *values: Value) -> None:
        """Emit a call of a constant function with values."""
        self.call(fn, *(functools.partial(self.emit, value) for value in values))

    def store_in_class(self, load_owner: Callable[[], None], items: Mapping[str, Value | None]) -> None:
        """Set attributes of a class, and delete those without a value, past what its metaclass makes of it."""
        for name, item in items.items():
            if item is None:
                self.call(type.__delattr__, load_owner, self.const(name))
            else:
                self.call(type.__setattr__, load_owner, self.const(name), functools.partial(self.emit, item))
            self.builder.pop_top()

    def const(self, obj: Any) -> Callable[[], None]:
        """An argument that is a constant."""
        return lambda: self.builder.load_const(obj)

    def emit_source(self, source: Source) -> None:
        """Push the object at a source."""
        if isinstance(source, LocalSource):
            self.builder.load_fast(source.key)
            return
        if isinstance(source, ObjectSource):
            obj = source.get()
            if isinstance(obj, types.BuiltinFunctionType) or (
                isinstance(obj, type) and not obj.__flags__ & (1 << 9)
            ):
                self.builder.load_const(obj)
                return
        position = self.extras.setdefault(source, len(self.extras))
        self.builder.load_fast(f".x{position}")

    def emit(self, value: Value) -> None:
        """Push the object that a value stands for."""
        if isinstance(value, LazyValue):
            if is_deferred(value):
                self._emit_deferred(value)
                return
            if isinstance(value, SymbolicInteger) and value.actual is None:
                self._emit_symbolic(value)
                return
            if value.actual is None:
                if is_constant(value.obj) and isinstance(value.source, ObjectSource):
                    self.builder.load_const(value.obj)
                else:
                    self.emit_source(value.source)
                return
            value = value.actual
        if isinstance(value, ConstantValue):
            self._emit_constant(value)
            return
        if value.source is not None and type(value) is not FrameClassValue:
            self.emit_source(value.source)
            return
        name = self.memo.get(id(value))
        if name is not None:
            self.builder.load_fast(name)
            return
        emitter = EMITTERS.get(type(value))
        if emitter is None:
            raise NotRebuildable(f"{value.describe()} cannot be rebuilt", value)
        if id(value) in self._in_progress:
            self._cycle(value)
        self._in_progress[id(value)] = value
        self._keep.append(value)
        emitter(self, value)
        del self._in_progress[id(value)]
        if type(value) not in _STATELESS and id(value) not in self.memo:
            self.memo[id(value)] = self.keep_top()

    def _cycle(self, value: Value) -> None:
        """Choose the value of a cycle that is made first, empty."""
        path = list(self._in_progress.values())
        start = path.index(value)
        cycle = [
            each
            for before, each in zip([None, *path][start:], path[start:], strict=False)
            # The namespace of a class is complete before there is a class.
            if type(each) in _FILLED_LATER and type(before) is not FrameClassValue
        ]
        # A function needs its cells before it can be made, and takes only the rest later.
        for each in sorted(cycle, key=lambda each: isinstance(each, NestedFunctionValue)):
            if not self.is_cyclic(each):
                raise CycleFound(each)
        generator = next((each for each in path[start:] if isinstance(each, GeneratorValue)), None)
        raise NotRebuildable("a container that contains itself cannot be rebuilt", generator)

    def is_cyclic(self, value: Value) -> bool:
        """Whether a value is made empty and filled once it can be referred to."""
        return any(each is value for each in self.capture.cyclic)

    def _emit_deferred(self, value: DeferredNumber) -> None:
        name = self.memo.get(id(value))
        if name is not None:
            self.builder.load_fast(name)
            return
        kind: Any = type(value.obj)
        if value.is_risky:
            self.call(_checked(value.function, kind), lambda: self.emit_items(list(value.operands)))
            self.builder.unpack_sequence(1)
        else:
            for operand in value.operands:
                self.emit(operand)
            if value.symbol == "neg":
                self.builder.emit("UNARY_NEGATIVE")
            else:
                self.builder.emit("BINARY_OP", value.symbol)
        self.memo[id(value)] = self.keep_top()

    def _emit_symbolic(self, value: SymbolicInteger) -> None:
        """Compute a size from the sizes of inputs."""
        name = self.memo.get(id(value))
        if name is not None:
            self.builder.load_fast(name)
            return
        known = self.capture.builder.symbols
        expr = torch_symbols.expression(value.symbol)
        symbols = known.of(expr)
        if any(symbol not in known.roots for symbol in symbols):
            raise NotRebuildable("a size that does not follow from inputs", value)
        parts = [functools.partial(self._emit_root, known.roots[symbol]) for symbol in symbols]
        if expr.is_Symbol:
            parts[0]()
        else:
            self.call(torch_symbols.compute(expr, symbols), *parts)
        self.memo[id(value)] = self.keep_top()

    def _emit_root(self, root: Root) -> None:
        if root.kind == "INTEGER":
            self.emit_source(root.source)
            return
        for each in self.capture.inputs:
            if each.source is root.source and torch_compat.is_stale(each.fake, each.example):
                raise NotRebuildable("the size of a tensor whose shape changed meanwhile")
        method: Any = torch.Tensor.size if root.kind == "SIZE" else torch.Tensor.stride
        self.call(method, functools.partial(self.emit_source, root.source), self.const(root.dim))

    def remember(self, value: Value) -> None:
        """Keep the object on the stack under a value that is still being built (for cycles)."""
        self.memo[id(value)] = self.keep_top()

    def _emit_constant(self, value: ConstantValue) -> None:
        if type(value.value) is re.Match:
            raise NotRebuildable("a match of a pattern is a new object in every call", value)
        # The very object matters where it is not a singleton: `f(s) is s`.
        if value.source is not None and type(value.value) not in _SINGLETON_TYPES:
            self.emit_source(value.source)
        else:
            self.builder.load_const(value.value)

    def emit_items(self, values: list[Value]) -> None:
        """Push a list of the values."""
        if len(values) <= _PIECE:
            for item in values:
                self.emit(item)
            self.builder.build_list(len(values))
            return
        self.builder.build_list(0)
        for start in range(0, len(values), _PIECE):
            piece = values[start : start + _PIECE]
            for item in piece:
                self.emit(item)
            self.builder.build_tuple(len(piece))
            self.builder.emit("LIST_EXTEND", 1)


@functools.cache
def _checked(function: Callable[..., Any], cls: Any) -> Any:
    """What computes a number of this type; where it raises, or gives another type, the frame runs eagerly."""

    def compute(*operands: Any) -> tuple[Any]:
        result = function(*operands)
        if type(result) is not cls:
            raise ArithmeticError(f"{function.__name__} gives a {type(result).__name__}")
        return (result,)

    return _C.GraphCallable(compute, False, False, function.__name__)


_SINGLETON_TYPES = frozenset({type(None), bool, type(Ellipsis), type(NotImplemented)})


def _list(e: Emitter, value: ListValue) -> None:
    if not e.is_cyclic(value):
        e.emit_items(value.items)
        return
    e.builder.build_list(0)
    e.remember(value)
    e.emit_items(value.items)
    e.builder.emit("LIST_EXTEND", 1)


def _tuple(e: Emitter, value: TupleValue) -> None:
    if value.constant is not None and is_constant(value.constant):
        e.builder.load_const(value.constant)
    elif value.cls is not tuple:
        e.call(value.cls, lambda: _plain_tuple(e, value))
    else:
        _plain_tuple(e, value)


def _plain_tuple(e: Emitter, value: TupleValue) -> None:
    if len(value.items) > _PIECE:
        e.call(tuple, lambda: e.emit_items(value.items))
        return
    for item in value.items:
        e.emit(item)
    e.builder.build_tuple(len(value.items))


def _dict(e: Emitter, value: DictValue) -> None:
    if value.cls is dict and not e.is_cyclic(value):
        _plain_dict(e, value)
        return
    # defaultdict takes its factory first.
    parts: list[Callable[[], None]] = []
    if value.default_factory is not None:
        factory = value.default_factory
        parts.append(lambda: e.emit(factory))
    elif value.cls.__name__ == "defaultdict":
        parts.append(e.const(None))
    if not e.is_cyclic(value):
        e.call(value.cls, *parts, lambda: _plain_dict(e, value))
        return
    e.call(value.cls, *parts)
    e.remember(value)
    update: Any = value.cls.update  # type: ignore[attr-defined]
    e.call(update, functools.partial(e.builder.load_fast, e.memo[id(value)]), lambda: _plain_dict(e, value))
    e.builder.pop_top()


def _plain_dict(e: Emitter, value: DictValue) -> None:
    rows = list(value.items.values())
    first = rows[: _PIECE // 2]
    for key, item in first:
        e.emit(key)
        e.emit(item)
    e.builder.build_map(len(first))
    for start in range(len(first), len(rows), _PIECE // 2):
        piece = rows[start : start + _PIECE // 2]
        for key, item in piece:
            e.emit(key)
            e.emit(item)
        e.builder.build_map(len(piece))
        e.builder.emit("DICT_UPDATE", 1)


def _view(e: Emitter, value: DictView) -> None:
    e.begin_method(functools.partial(e.emit, value.mapping), value.kind)
    e.builder.call(0)


def _set(e: Emitter, value: SetValue) -> None:
    building = value.building()
    if building is None:
        raise NotRebuildable("a set of this order cannot be rebuilt", value)
    items, room, dropped = building
    parts: list[Callable[[], None]] = [functools.partial(e.emit_items, items)]
    if room or dropped:
        parts = [e.const(value.cls), *parts, e.const(room), functools.partial(e.emit_items, dropped)]
    e.call(set_with_room if room or dropped else value.cls, *parts)


def _slice(e: Emitter, value: SliceValue) -> None:
    e.call_values(slice, *value.parts)


def _function(e: Emitter, value: NestedFunctionValue) -> None:
    none = ConstantValue(None)
    is_own = value.globals is e.capture.frame.globals

    def namespace() -> None:
        if is_own:
            e.call(globals)
        else:
            e.emit_source(value.globals.source)

    e.call(
        types.FunctionType,
        e.const(value.code),
        namespace,
        lambda: e.emit(value.name),
        lambda: e.emit(value.defaults or none),
        lambda: e.emit(value.closure or none),
    )
    e.remember(value)
    _store(e, "__qualname__", value.qualname)
    if value.kwdefaults is not None:
        _store(e, "__kwdefaults__", value.kwdefaults)
    for name, item in value.attrs.items():
        if item is not None:
            _store(e, name, item)


def _store(e: Emitter, name: str, item: Value) -> None:
    """Set an attribute of the object on top of the stack, which stays."""
    owner = e.keep_top()
    e.emit(item)
    e.builder.load_fast(owner)
    e.builder.store_attr(name)


def _cell(e: Emitter, value: CellValue) -> None:
    e.call(types.CellType)
    e.remember(value)
    if value.contents is not None:
        _store(e, "cell_contents", value.contents)


def _bound_method(e: Emitter, value: BoundMethodValue) -> None:
    e.call_values(types.MethodType, value.fn, value.owner)


def _builtin_method(e: Emitter, value: BuiltinMethod) -> None:
    e.emit(value.owner)
    e.builder.load_attr(value.name)


def _super_method(e: Emitter, value: SuperMethod) -> None:
    descriptor = value.base.__dict__[value.name]
    e.call(descriptor.__get__, lambda: e.emit(value.owner))


def _constant_method(e: Emitter, value: MethodOfConstant) -> None:
    e.emit(value.owner)
    e.builder.load_attr(value.name)


def _function_get(e: Emitter, value: FunctionGet) -> None:
    e.emit(value.fn)
    e.builder.load_attr("__get__")


def _callable(e: Emitter, value: CallableValue) -> None:
    e.builder.load_const(value.fn)


def _class_dict(e: Emitter, value: ClassDictValue) -> None:
    e.emit(value.owner)
    e.builder.load_attr("__dict__")


def _instance_dict(e: Emitter, value: InstanceDictValue | InstanceDictSnapshot | FunctionDict) -> None:
    e.emit(value.owner)
    e.builder.load_attr("__dict__")


def _tensor(e: Emitter, value: TensorValue) -> None:
    if not e.capture.builder.is_open(value.node.graph):
        raise NotRebuildable("a tensor made inside of a transformed function leaves it", value)
    e.outputs.setdefault(id(value), value)
    if value.subclass is not None:
        _class_place(e, value.subclass)
    position = list(e.outputs).index(id(value))
    e.builder.load_fast(f".g{position}")


def _class_place(e: Emitter, cls: type) -> None:
    """Have the class at hand when the graph's outputs are unpacked."""
    e.extras.setdefault(class_source(e, cls), len(e.extras))


def _object(e: Emitter, value: ObjectValue) -> None:
    cls = value.cls
    if cls is functools.partial:
        _partial(e, value)
        return
    base = value.base
    own_class = functools.partial(_class, e, cls)
    if base is None:
        e.call(native_base(cls).__new__, own_class)
    elif isinstance(base, TupleValue):
        e.call(tuple.__new__, own_class, lambda: _plain_tuple(e, base))
    elif isinstance(base, ConstantValue):
        e.call(base.python_type().__new__, own_class, e.const(base.value))
    else:
        e.call(base.python_type().__new__, own_class)
    e.remember(value)
    if base is not None and not isinstance(base, (TupleValue, ConstantValue)):
        e.memo[id(base)] = e.memo[id(value)]
        _fill(e, value, base)
    _attributes(e, value)


def _frame_class(e: Emitter, value: FrameClassValue) -> None:
    if e.capture.graph_break is not None:
        # What comes after the break would be compiled for this one class, and never run again.
        raise NotRebuildable("a class is defined in the frame, another one in each call", value)
    _call_with(e, value.maker, value.args, value.kwargs)
    e.remember(value)
    owner = functools.partial(e.builder.load_fast, e.memo[id(value)])
    for decorator, args in value.decorators:
        e.call(decorator, owner, *(functools.partial(e.emit, arg) for arg in args))
        e.builder.pop_top()
    e.store_in_class(owner, value.later)


def _descriptor(e: Emitter, value: DescriptorValue) -> None:
    e.call_values(value.cls, *value.arguments())


def _class(e: Emitter, cls: type) -> None:
    template = e.capture.templates.get(id(cls))
    if template is not None:
        e.emit(template)
        return
    e.emit_source(class_source(e, cls))


def class_source(e: Emitter, cls: type) -> Source:
    """The absolute source of a class, one per capture."""
    found = e.capture.absolute.get(id(cls))
    if found is None:
        found = e.capture.absolute[id(cls)] = ObjectSource(cls, None)
    return found


def _fill(e: Emitter, value: ObjectValue, base: Value) -> None:
    """Put the contents into the object on top of the stack, by the builtin base's own methods."""
    owner = e.memo[id(value)]
    load = functools.partial(e.builder.load_fast, owner)
    if isinstance(base, DictValue):
        factory = base.default_factory
        if factory is not None:
            e.call(collections.defaultdict.__init__, load, lambda: e.emit(factory))
            e.builder.pop_top()
        store: Any = base.cls.__setitem__  # type: ignore[index]
        for key, item in base.items.values():
            e.call(store, load, functools.partial(e.emit, key), functools.partial(e.emit, item))
            e.builder.pop_top()
    elif isinstance(base, ListValue):
        e.call(list.extend, load, lambda: e.emit_items(base.items))
        e.builder.pop_top()
    elif isinstance(base, SetValue):
        e.call(set.update, load, lambda: _set(e, base))
        e.builder.pop_top()
    elif isinstance(base, DequeValue):
        e.call(collections.deque.__init__, load, lambda: e.emit_items(base.items), e.const(base.maxlen))
        e.builder.pop_top()


def _attributes(e: Emitter, value: ObjectValue) -> None:
    """Set the attributes of the object on top of the stack, which stays."""
    owner = e.memo[id(value)]
    plain = has_plain_setattr(value.cls)
    for name in value.stored:
        item = value.attrs.get(name)
        if item is None:
            continue
        raw = inspect.getattr_static(value.cls, name, None)
        if is_data_descriptor(raw) and not isinstance(
            raw, (types.MemberDescriptorType, types.GetSetDescriptorType)
        ):
            # The frame stored past the descriptor, through `__dict__`.
            store_in_namespace(e, functools.partial(e.builder.load_fast, owner), name, item)
        elif plain:
            e.emit(item)
            e.builder.load_fast(owner)
            e.builder.store_attr(name)
        else:
            store_attribute(e, functools.partial(e.builder.load_fast, owner), name, item)


def has_plain_setattr(cls: Any) -> bool:
    """Whether setting an attribute of an instance runs nothing of the class."""
    return cls.__setattr__ is object.__setattr__


def store_attribute(e: Emitter, load_owner: Callable[[], None], name: str, item: Value) -> None:
    """Set an attribute past the class's own `__setattr__`."""
    e.call(object.__setattr__, load_owner, e.const(name), lambda: e.emit(item))
    e.builder.pop_top()


def store_in_namespace(e: Emitter, load_owner: Callable[[], None], name: str, item: Value) -> None:
    """Set an attribute in the instance `__dict__`, past a data descriptor of the class."""
    e.emit(item)
    load_owner()
    e.builder.load_attr("__dict__")
    e.builder.load_const(name)
    e.builder.emit("STORE_SUBSCR")


def _partial(e: Emitter, value: ObjectValue) -> None:
    fn, args, keywords = (value.attrs[name] for name in ("func", "args", "keywords"))
    assert fn is not None and args is not None and keywords is not None
    e.builder.begin_call(lambda: e.builder.load_const(functools.partial))
    e.builder.build_list(0)
    e.emit(fn)
    e.builder.emit("LIST_APPEND", 1)
    e.emit(args)
    e.builder.emit("LIST_EXTEND", 1)
    e.builder.emit("LIST_TO_TUPLE")
    e.emit(keywords)
    e.builder.call_function_ex(has_kwargs=True)
    e.remember(value)
    _attributes(e, value)


def _exception(e: Emitter, value: ExceptionValue) -> None:
    if id(value) in e.capture.births:
        raise NotRebuildable("an exception was raised and handled before it", value)
    # A `__new__` and an `__init__` in Python have run already.
    native: Any = native_exception(value.cls)
    e.call(native.__new__, functools.partial(_class, e, value.cls))
    e.remember(value)
    load = functools.partial(e.builder.load_fast, e.memo[id(value)])
    e.call(native.__init__, load, *(functools.partial(e.emit, item) for item in value.args))
    e.builder.pop_top()
    for name, item in (("__context__", value.context), ("__cause__", value.cause)):
        if not (isinstance(item, ConstantValue) and item.value is None) or (
            name == "__cause__" and value.suppress_context
        ):
            _store(e, name, item)
    _attributes(e, value)


def _generator(e: Emitter, value: GeneratorValue) -> None:
    arguments = arguments_of(value)
    if arguments is None:
        raise NotRebuildable(f"{value.describe()} cannot be rebuilt", value)
    e.builder.begin_call(lambda: e.emit(value.frame.function))
    _plain_tuple(e, arguments[0])
    e.emit(arguments[1])
    e.builder.call_function_ex(has_kwargs=True)


def _deque(e: Emitter, value: DequeValue) -> None:
    if not e.is_cyclic(value):
        e.call(collections.deque, lambda: e.emit_items(value.items), e.const(value.maxlen))
        return
    e.call(collections.deque, e.const(()), e.const(value.maxlen))
    e.remember(value)
    owner = functools.partial(e.builder.load_fast, e.memo[id(value)])
    e.call(collections.deque.extend, owner, lambda: e.emit_items(value.items))
    e.builder.pop_top()


def _getter(e: Emitter, value: GetterValue) -> None:
    _call_with(e, value.cls, value.args, value.kwargs)


def _call_with(e: Emitter, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
    named = DictValue({name: (ConstantValue(name), item) for name, item in kwargs.items()})
    e.builder.begin_call(lambda: e.builder.load_const(fn))
    _plain_tuple(e, TupleValue(args))
    e.emit(named)
    e.builder.call_function_ex(has_kwargs=True)


def _identity_number(e: Emitter, value: IdentityNumber) -> None:
    if value.owner is None:
        e.call(threading.get_ident)
    else:
        e.call_values(id, value.owner)


def _weak_reference(e: Emitter, value: WeakReferenceValue) -> None:
    e.call_values(weakref.ref, value.owner)


def _mapping_proxy(e: Emitter, value: MappingProxyValue) -> None:
    e.call_values(types.MappingProxyType, value.mapping)


def _union(e: Emitter, value: UnionValue) -> None:
    e.call_values(operator.or_, *value.parts)


def _generic_alias(e: Emitter, value: GenericAliasValue) -> None:
    e.call_values(operator.getitem, value.owner, value.key)


EMITTERS: dict[type, Callable[[Emitter, Any], None]] = {
    ListValue: _list,
    TupleValue: _tuple,
    DictValue: _dict,
    DictView: _view,
    SetValue: _set,
    SliceValue: _slice,
    NestedFunctionValue: _function,
    CellValue: _cell,
    BoundMethodValue: _bound_method,
    BuiltinMethod: _builtin_method,
    SuperMethod: _super_method,
    MethodOfConstant: _constant_method,
    FunctionGet: _function_get,
    CallableValue: _callable,
    ClassValue: _callable,
    InstanceDictValue: _instance_dict,
    InstanceDictSnapshot: _instance_dict,
    FunctionDict: _instance_dict,
    ClassDictValue: _class_dict,
    FrameClassValue: _frame_class,
    DescriptorValue: _descriptor,
    TensorValue: _tensor,
    ObjectValue: _object,
    ExceptionValue: _exception,
    GeneratorValue: _generator,
    DequeValue: _deque,
    **ITERATORS,
    GetterValue: _getter,
    MappingProxyValue: _mapping_proxy,
    WeakReferenceValue: _weak_reference,
    UnionValue: _union,
    GenericAliasValue: _generic_alias,
    IdentityNumber: _identity_number,
}

#: Values that can be made empty and be filled once others refer to them.
_FILLED_LATER = frozenset(
    {ListValue, DictValue, DequeValue, ObjectValue, NestedFunctionValue, CellValue, ExceptionValue}
)

#: Values that are built anew wherever they are needed: nobody can tell, or they are in a variable already.
_STATELESS = frozenset({TensorValue, CallableValue, ClassValue, MethodOfConstant})

__all__ = ["EMITTERS", "CycleFound", "Emitter", "NotRebuildable", "store_attribute"]
