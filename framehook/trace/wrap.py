"""Real objects to symbolic values: what is guarded about an object when it is first looked at."""

from __future__ import annotations

import collections
import enum
import functools
import gc
import types
from collections.abc import Callable
from typing import Any

import torch

from framehook import torch_compat, torch_symbols
from framehook.guards.guard import Check, TensorSpec, WeakIdentity
from framehook.source import ObjectSource, Source
from framehook.values.base import (
    CONSTANT_TYPES,
    ConstantValue,
    LazyValue,
    Tracer,
    Value,
    check_nan,
    is_constant,
)
from framehook.values.classes import CallableValue, ClassValue, ModuleObjectValue, module_name
from framehook.values.deques import DequeValue
from framehook.values.functions import BoundMethodValue, CellValue, FunctionValue, is_persistent
from framehook.values.mappings import DictValue, ObjectKey, hash_key, is_hashed_by_identity
from framehook.values.objects import ObjectValue
from framehook.values.proxies import MappingProxyValue
from framehook.values.real_classes import module_of
from framehook.values.sequences import ListValue, SliceValue, TupleValue
from framehook.values.sets import SetValue
from framehook.values.tensor import TensorValue

Wrapper = Callable[[Any, Any, Source], Value]

TENSOR_CLASSES: set[type] = {torch.Tensor, torch.nn.Parameter}
if hasattr(torch.nn, "Buffer"):
    TENSOR_CLASSES.add(torch.nn.Buffer)

# Objects of C level whose identity stands for all they do.
_IDENTITY_TYPES: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
    types.CodeType,
    types.UnionType,
)


def wrap(tr: Any, obj: Any, source: Source) -> Value:
    """Return the value for a real object at `source`; the same object gives the same value."""
    cls = type(obj)
    if type(cls) is type and cls in CONSTANT_TYPES and is_constant(obj):
        tr.guard(source, Check.EQUALS, obj)
        return ConstantValue(obj, source)
    known = tr.known.get(id(obj))
    if known is not None:
        value: Value = known[1]
        if value.source is not source and value.source is not None:
            if isinstance(value, (CallableValue, ModuleObjectValue)) or (
                isinstance(value, FunctionValue) and isinstance(value.source, ObjectSource)
            ):
                if not isinstance(source, ObjectSource):
                    tr.guard(source, Check.IDENTITY, obj)
            else:
                tr.guard(source, Check.SAME, value.source)
        return value
    value = _make(tr, obj, cls, source)
    tr.known[id(obj)] = (obj, value)
    return value


def _make(tr: Any, obj: Any, cls: type, source: Source) -> Value:
    maker = _MAKERS_BY_ID.get(id(cls))
    if maker is not None:
        return maker(tr, obj, source)
    # By its class: `__class__` of the object may be a property.
    if issubclass(cls, torch.Tensor):
        if cls in TENSOR_CLASSES:
            return _tensor(tr, obj, source)
        if changes_nothing(cls) and not obj.requires_grad:
            tr.guard(None, Check.PREDICATE, (changes_nothing, (source.type(),)))
            value = _tensor(tr, obj, source)
            value.subclass = cls
            return value
        tr.graph_break("subclass", f"a tensor of class {cls.__name__} is not traced")
    if issubclass(cls, type):
        if vars(type)["__mro__"].__get__(obj) is None:
            tr.graph_break("call", "a class that is being made has no bases yet")
        return ClassValue(obj, _absolute(tr, obj, source))
    if issubclass(cls, types.ModuleType):
        if id(object.__getattribute__(obj, "__dict__")) in tr.known:
            tr.graph_break("container", f"the __dict__ of module {module_name(obj)} is also used as a dict")
        return ModuleObjectValue(obj, _absolute(tr, obj, source))
    if issubclass(cls, _IDENTITY_TYPES) or module_of(cls) in ("torch._ops", "torch.jit._builtins"):
        return CallableValue(obj, _absolute(tr, obj, source))
    unwrapped = tr.see_through(obj, source)
    if unwrapped is not None:
        return unwrapped
    if issubclass(cls, enum.Enum):
        tr.guard(source, Check.IDENTITY, obj)
        return ObjectValue(cls, obj, tr.absolute(obj, source))
    tr.guard(source, Check.TYPE, cls)
    return ObjectValue(cls, obj, source, _builtin_part(tr, obj, cls, source))


#: What the namespace of a class holds that only gives it another name.
_NAMES_ONLY = frozenset(
    {"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__annotations__", "__firstlineno__"}
    | {"__static_attributes__", "__deepcopy__", "__slotnames__"}
)


def changes_nothing(cls: type) -> bool:
    """Whether a subclass of Tensor has nothing of its own, `torch.Tensor.__torch_function__` included."""
    position = cls.__mro__.index(torch.Tensor)
    return type(cls) is type(torch.Tensor) and all(
        vars(base).keys() <= _NAMES_ONLY for base in cls.__mro__[:position]
    )


def _absolute(tr: Any, obj: Any, source: Source) -> Source:
    """Guard the identity of an object and return the source by which all its uses go."""
    if not isinstance(source, ObjectSource):
        tr.guard(source, Check.IDENTITY, obj)
    return tr.absolute(obj, source)


#: Elements of a container from outside that a trace looks at; each becomes a value of its own.
_MAX_ELEMENTS = 1 << 17


def _check_length(tr: Any, obj: Any, length: int) -> None:
    if length > _MAX_ELEMENTS:
        tr.graph_break("limit", f"a {type(obj).__name__} of {length} elements is too long to be traced")


def _builtin_part(tr: Any, obj: Any, cls: type, source: Source) -> Value | None:
    """What the builtin base class of an object stores."""
    if issubclass(cls, dict):
        # Not the subclass: what its methods are is another matter.
        native = next((base for base in cls.__mro__ if _MAKERS_BY_ID.get(id(base)) is _dict), dict)
        return _dict_of(tr, obj, source, native)
    if issubclass(cls, list):
        _check_length(tr, obj, list.__len__(obj))
        items = list.__iter__(obj)
        return ListValue([tr.lazy(item, source.item(index)) for index, item in enumerate(items)], source)
    if issubclass(cls, collections.deque):
        return _deque_of(tr, obj, source)
    if issubclass(cls, tuple):
        _check_length(tr, obj, tuple.__len__(obj))
        parts = tuple.__iter__(obj)
        return TupleValue([tr.lazy(item, source.item(index)) for index, item in enumerate(parts)], source)
    return None


def _tensor(tr: Any, obj: torch.Tensor, source: Source) -> TensorValue:
    if obj.layout is not torch.strided or obj.is_quantized or obj.is_nested:
        tr.graph_break("subclass", f"a tensor of layout {obj.layout} is not traced")
    if torch_compat.is_fake(obj) or not torch_compat.is_plain(obj):
        tr.graph_break("subclass", "a fake, batched or otherwise wrapped tensor is not traced")
    if obj._is_view() and type(obj._base) not in TENSOR_CLASSES:
        tr.graph_break("subclass", f"a view of a tensor of class {type(obj._base).__name__} is not traced")
    value = tr.builder.add_input(source, obj)
    spec = TensorSpec(
        WeakIdentity(type(obj)),
        torch_compat.dispatch_keys(obj),
        obj.dtype,
        obj.device,
        _numbers(value.fake.size()),
        _numbers(value.fake.stride()),
        None,  # until an operation under grad mode uses it
    )
    guard = tr.guard(source, Check.TENSOR, spec)
    tr.gradient_guards[id(value)] = (guard, value)
    return value


def _numbers(sizes: Any) -> tuple[int | None, ...]:
    """Sizes or strides as a guard compares them: None where they are symbols."""
    return tuple(None if torch_symbols.is_symbolic(size) else int(size) for size in sizes)


def _list(tr: Any, obj: list[Any], source: Source) -> Value:
    _check_length(tr, obj, len(obj))
    tr.guard(source, Check.TYPE, list)
    return ListValue([LazyValue(item, source.item(index)) for index, item in enumerate(obj)], source)


def _tuple(tr: Any, obj: tuple[Any, ...], source: Source) -> Value:
    _check_length(tr, obj, len(obj))
    tr.guard(source, Check.TYPE, type(obj))
    items: list[Value] = [LazyValue(item, source.item(index)) for index, item in enumerate(obj)]
    value = TupleValue(items, source)
    return value


def _dict_of(tr: Any, obj: dict[Any, Any], source: Source, cls: type) -> DictValue:
    _check_length(tr, obj, dict.__len__(obj))
    items: dict[Any, tuple[Value, Value]] = {}
    # Past whatever a subclass defines.  An OrderedDict hashes its keys anew when it is looked through.
    keys = tuple(dict.keys(obj))
    if cls is collections.OrderedDict and is_constant(keys):
        try:
            ordered: tuple[Any, ...] = tuple(collections.OrderedDict.keys(obj))  # type: ignore[arg-type]
        except KeyError:
            ordered = ()
        if len(ordered) != len(keys) or set(ordered) != set(keys):
            tr.graph_break("container", "an OrderedDict was changed by the methods of dict")
        keys = ordered
    for key in keys:
        if is_constant(key):
            items[key] = (ConstantValue(key), tr.lazy(dict.__getitem__(obj, key), source.item(key)))
        else:
            # The key itself is reached only by whoever looks at all keys, and that breaks; so does whoever
            # looks for an object among keys that are compared by code of their own.
            found: Value = ConstantValue(None)
            if is_hashed_by_identity(key):
                found = tr.lazy(dict.__getitem__(obj, key), source.item(WeakIdentity(key)))
            items[ObjectKey(("object", id(key)))] = (ConstantValue(None), found)
    value = DictValue(items, source, cls=cls)
    value.original_keys = keys
    if cls is collections.defaultdict:
        factory = vars(collections.defaultdict)["default_factory"].__get__(obj)
        place = source.member("default_factory")
        value.default_factory = None if factory is None else tr.lazy(factory, place)
        if factory is None:
            tr.guard(place, Check.EQUALS, None)
    return value


def _dict(tr: Any, obj: dict[Any, Any], source: Source) -> Value:
    if id(obj) in tr.views or isinstance(tr.namespaces.get(id(obj)), ModuleObjectValue):
        tr.graph_break("container", "a dict that holds the globals of a module is used as a dict")
    tr.guard(source, Check.TYPE, type(obj))
    return _dict_of(tr, obj, source, type(obj))


def _set(tr: Any, obj: Any, source: Source) -> Value:
    if type(obj) is frozenset and is_persistent(source) and all(map(_is_plain_class, obj)):
        # It cannot change, and neither can what its classes are equal to.
        tr.guard(source, Check.IDENTITY, obj)
        classes = SetValue(source, frozenset)
        for cls in obj:
            member = tr.constant_object(cls)
            classes.put(hash_key(tr, member), member)
        classes.original = tuple(classes.found)
        return classes
    _check_length(tr, obj, len(obj))
    if not is_constant(tuple(obj)):
        tr.graph_break("container", "a set of objects that are not plain constants")
    check_nan(tr, tuple(obj))
    tr.guard(source, Check.TYPE, type(obj))
    tr.guard(source, Check.MEMBERS, tuple(obj))
    value = SetValue(source, type(obj))
    value.original = tuple(obj)
    for item in value.original:
        value.put(item, ConstantValue(item))
    return value


def _deque(tr: Any, obj: collections.deque[Any], source: Source) -> Value:
    tr.guard(source, Check.TYPE, type(obj))
    return _deque_of(tr, obj, source)


def _deque_of(tr: Any, obj: collections.deque[Any], source: Source) -> DequeValue:
    _check_length(tr, obj, collections.deque.__len__(obj))
    items = list(collections.deque.__iter__(obj))
    tr.guard(source, Check.LENGTH, len(items))
    tr.guard(source.member("maxlen"), Check.EQUALS, obj.maxlen)
    return DequeValue(
        [tr.lazy(item, source.item(index)) for index, item in enumerate(items)], obj.maxlen, source
    )


def _mapping_proxy(tr: Any, obj: Any, source: Source) -> Value:
    tr.guard(source, Check.TYPE, types.MappingProxyType)
    (mapping,) = gc.get_referents(obj)
    return MappingProxyValue(tr.lazy(mapping, source.member("<mapping>")), source)


def _is_plain_class(obj: Any) -> bool:
    meta: Any = type(obj)
    return issubclass(meta, type) and meta.__hash__ is type.__hash__ and meta.__eq__ is type.__eq__


def _function(tr: Any, obj: types.FunctionType, source: Source) -> Value:
    if isinstance(source, ObjectSource):
        return FunctionValue(obj, source)
    if is_persistent(source):
        tr.guard(source, Check.IDENTITY, obj)
        return FunctionValue(obj, tr.absolute(obj, source))
    tr.guard(source, Check.TYPE, types.FunctionType)
    return FunctionValue(obj, source)


def _method(tr: Any, obj: types.MethodType, source: Source) -> Value:
    tr.guard(source, Check.TYPE, types.MethodType)
    fn = tr.wrap(obj.__func__, source.member("__func__"))
    return BoundMethodValue(fn, tr.wrap(obj.__self__, source.member("__self__")), source)


def _cell(tr: Any, obj: types.CellType, source: Source) -> Value:
    return make_cell(tr, obj, source)


def make_cell(tr: Any, obj: types.CellType, source: Source) -> CellValue:
    """The value of a cell object that exists outside the frame."""
    known = tr.known.get(id(obj))
    if known is not None:
        value = known[1]
        if value.source is not source:
            tr.guard(source, Check.SAME, value.source)
        return value
    try:
        contents = LazyValue(obj.cell_contents, source.cell_contents())
    except ValueError:
        tr.guard(source, Check.CELL_EMPTY)
        cell = CellValue(None, source)
    else:
        cell = CellValue(contents, source)
    tr.known[id(obj)] = (obj, cell)
    return cell


def _slice(tr: Any, obj: slice, source: Source) -> Value:
    tr.guard(source, Check.TYPE, slice)
    value = SliceValue(
        [tr.lazy(getattr(obj, name), source.member(name)) for name in ("start", "stop", "step")]
    )
    value.source = source
    return value


def _partial(tr: Any, obj: functools.partial[Any], source: Source) -> Value:
    tr.guard(source, Check.TYPE, functools.partial)
    value = ObjectValue(functools.partial, obj, source)
    value.attrs["func"] = tr.lazy(obj.func, source.member("func"))
    value.attrs["args"] = tr.wrap(obj.args, source.member("args"))
    value.attrs["keywords"] = tr.wrap(obj.keywords, source.member("keywords"))
    return value


def _enum_of_c(tr: Any, obj: Any, source: Source) -> Value:
    """A member of an enumeration of C++ code."""
    tr.guard(source, Check.IDENTITY, obj)
    return ConstantValue(obj, source)


_MAKERS: dict[type, Wrapper] = {
    list: _list,
    tuple: _tuple,
    dict: _dict,
    collections.OrderedDict: _dict,
    collections.defaultdict: _dict,
    set: _set,
    frozenset: _set,
    collections.deque: _deque,
    types.MappingProxyType: _mapping_proxy,
    types.FunctionType: _function,
    types.MethodType: _method,
    types.CellType: _cell,
    functools.partial: _partial,
    slice: _slice,
    torch.Tensor: _tensor,
    torch.nn.Parameter: _tensor,
    torch._C._SDPBackend: _enum_of_c,
}

#: By id: a metaclass may define what the hash of a class is.
_MAKERS_BY_ID = {id(cls): maker for cls, maker in _MAKERS.items()}

__all__ = ["Tracer", "make_cell", "wrap"]
