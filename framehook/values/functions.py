"""Functions, methods, cells and generators."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framehook.guards.guard import Check
from framehook.source import BuiltinsSource, GlobalsSource, ObjectSource
from framehook.values.base import ConstantValue, Tracer, Value, defines
from framehook.values.endings import check_let_go, check_object_let_go
from framehook.values.mappings import DictValue
from framehook.values.sequences import IteratorValue, TupleValue

if TYPE_CHECKING:
    from framehook.source import Source


def is_persistent(source: Source | None) -> bool:
    """Whether a place outlives the call: a global, a class attribute, an absolute object.

    Functions found at such places are guarded by identity.  Elsewhere (arguments, cells, instance attributes)
    a new function object of the same code is as good, so only what is used of it is guarded.
    """
    return source is not None and isinstance(source.root(), (GlobalsSource, BuiltinsSource, ObjectSource))


class CellValue(Value):
    """A cell object; `contents` is None while it is empty."""

    __slots__ = ("contents",)

    def __init__(self, contents: Value | None, source: Source | None = None) -> None:
        self.source = source
        self.contents = contents

    def python_type(self) -> type:
        return types.CellType

    def store(self, tr: Tracer, contents: Value | None) -> None:
        """Set what the cell holds."""
        if self.source is not None:
            check_let_go(tr, self.contents)
            tr.mutated(self)
        self.contents = contents

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "cell_contents":
            if self.contents is None:
                tr.throw(ValueError, "Cell is empty")
            return self.contents
        return super().get_attr(tr, name)


class GlobalsView:
    """One globals dict as the trace sees it: what was read, what was stored."""

    __slots__ = ("builtins", "builtins_source", "changed", "namespace", "read", "source", "stored")

    def __init__(
        self,
        namespace: dict[str, Any],
        source: Source,
        builtins: dict[str, Any],
        builtins_source: Source,
    ) -> None:
        self.namespace = namespace
        self.source = source
        self.builtins = builtins
        self.builtins_source = builtins_source
        self.read: dict[str, Value] = {}
        self.stored: dict[str, Value | None] = {}  # None: deleted
        self.changed = False

    def load(self, tr: Tracer, name: str) -> Value:
        """The value of a global or builtin name."""
        if name in self.stored:
            found = self.stored[name]
            if found is not None:
                return found
        else:
            found = self.read.get(name)
            if found is not None:
                return found
            if name in self.namespace:
                found = self.read[name] = tr.found(tr.lazy(self.namespace[name], self.source.item(name)))
                return found
            tr.guard(self.source, Check.NO_KEY, name)
        if name not in self.builtins:
            tr.guard(self.builtins_source, Check.NO_KEY, name)
            tr.throw(NameError, f"name '{name}' is not defined")
        value = tr.found(tr.lazy(self.builtins[name], self.builtins_source.item(name)))
        if name not in self.stored:
            self.read[name] = value
        return value

    def store(self, tr: Tracer, name: str, value: Value | None) -> None:
        """Set or delete a global."""
        if value is None and self.stored.get(name) is None:
            if name not in self.namespace or name in self.stored:
                tr.throw(NameError, f"name '{name}' is not defined")
        if name not in self.stored:
            # Storing moves the dict's version; the key's presence decides its order.
            tr.guard(self.source, Check.HAS_KEY if name in self.namespace else Check.NO_KEY, name)
        if name not in self.stored:
            check_object_let_go(tr, self.namespace.get(name))
        self.stored[name] = value
        if not self.changed:
            self.changed = True
            tr.record_effect(self)


class FunctionValue(Value):
    """A Python function that exists outside the frame.

    `attrs` holds attributes that the frame has stored (None: deleted).
    """

    __slots__ = ("attrs", "fn")
    source: Source

    def __init__(self, fn: types.FunctionType, source: Source) -> None:
        self.source = source
        self.fn = fn
        self.attrs: dict[str, Value | None] = {}

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"function {self.fn.__qualname__}"

    def hash_key(self, tr: Tracer) -> Any:
        """Functions hash by identity."""
        tr.guard(self.source, Check.IDENTITY, self.fn)
        return ("object", id(self.fn))

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.inline(self, args, kwargs)

    def _owner(self, tr: Tracer) -> FunctionValue:
        """The value that keeps the attributes: the function may be reached by several ways."""
        namespace = self.fn.__dict__
        owner = tr.namespaces.setdefault(id(namespace), self)
        if not isinstance(owner, FunctionValue) or owner.fn is not self.fn:
            tr.graph_break("container", f"{self.describe()} shares its __dict__")
        alias = tr.known.get(id(namespace))
        if alias is not None and getattr(alias[1], "changed", False):
            tr.graph_break("attribute", f"the __dict__ of {self.describe()} was changed as a dict")
        return owner

    def get_attr(self, tr: Tracer, name: str) -> Value:
        fn = self.fn
        stored = self._owner(tr).attrs
        if name in stored:
            found = stored[name]
            if found is None:
                tr.throw(AttributeError, f"'function' object has no attribute '{name}'")
            return found
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__type_params__") and hasattr(
            fn, name
        ):
            return tr.wrap(getattr(fn, name), self.source.member(name))
        if name in ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__dict__", "__globals__"):
            return tr.lazy(getattr(fn, name), self.source.member(name))
        if name == "__class__":
            return tr.constant_object(types.FunctionType)
        # Only behind those that the type serves: `update_wrapper` may have put some of the same name here.
        if name in fn.__dict__:
            return tr.found(tr.lazy(fn.__dict__[name], self.source.attr(name)))
        if name == "__get__":
            return FunctionGet(self)
        if defines(types.FunctionType, name):
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
        tr.guard(self.source.instance_dict(), Check.NO_KEY, name)
        tr.throw(AttributeError, f"'function' object has no attribute '{name}'")

    def _store(self, tr: Tracer, name: str, value: Value | None) -> None:
        owner = self._owner(tr)
        if id(self.fn.__dict__) in tr.known:
            tr.graph_break("attribute", f"the __dict__ of {self.describe()} is also used as a dict")
        if not owner.attrs:
            tr.mutated(owner)
        owner.attrs[name] = value

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        if hasattr(types.FunctionType, name):
            super().set_attr(tr, name, value)
        owner = self._owner(tr)
        if name in owner.attrs:
            if owner.attrs[name] is None:
                tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is deleted and set")
            owner.attrs[name] = value
            return
        # Whether it was there decides the order.
        present = name in self.fn.__dict__
        tr.guard(self.source.instance_dict(), Check.HAS_KEY if present else Check.NO_KEY, name)
        self._store(tr, name, value)

    def del_attr(self, tr: Tracer, name: str) -> None:
        if hasattr(types.FunctionType, name):
            super().del_attr(tr, name)
        present = name in self.fn.__dict__
        attrs = self._owner(tr).attrs
        if name in attrs:
            if attrs[name] is None:
                tr.throw(AttributeError, f"'function' object has no attribute '{name}'")
            if present:
                attrs[name] = None
            else:
                del attrs[name]
            return
        tr.guard(self.source.instance_dict(), Check.HAS_KEY if present else Check.NO_KEY, name)
        if not present:
            tr.throw(AttributeError, f"'function' object has no attribute '{name}'")
        self._store(tr, name, None)


class FunctionGet(Value):
    """`function.__get__`."""

    __slots__ = ("fn",)

    def __init__(self, fn: Value) -> None:
        self.source = None
        self.fn = fn

    def python_type(self) -> type:
        return types.MethodWrapperType

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        owner = args[0].realize(tr)
        if isinstance(owner, ConstantValue) and owner.value is None:
            return self.fn
        return BoundMethodValue(self.fn, owner)


class NestedFunctionValue(Value):
    """A function made inside the frame."""

    __slots__ = ("attrs", "closure", "code", "defaults", "globals", "kwdefaults", "name", "qualname")

    def __init__(
        self,
        code: types.CodeType,
        globals_view: GlobalsView,
        defaults: Value | None,
        kwdefaults: Value | None,
        closure: TupleValue | None,
    ) -> None:
        self.source = None
        self.code = code
        self.globals = globals_view
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.closure = closure
        self.name: Value = ConstantValue(code.co_name)
        self.qualname: Value = ConstantValue(code.co_qualname)
        self.attrs: dict[str, Value | None] = {}

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"function {self.code.co_qualname}"

    def hash_key(self, tr: Tracer) -> Any:
        """Functions hash by identity."""
        return self

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.inline(self, args, kwargs)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        stored = self.attrs.get(name)
        if stored is not None:
            return stored
        if name == "__name__":
            return self.name
        if name == "__qualname__":
            return self.qualname
        if name == "__code__":
            return tr.constant_object(self.code)
        if name == "__defaults__":
            return self.defaults if self.defaults is not None else ConstantValue(None)
        if name == "__kwdefaults__":
            return self.kwdefaults if self.kwdefaults is not None else ConstantValue(None)
        if name == "__closure__":
            return self.closure if self.closure is not None else ConstantValue(None)
        if name == "__doc__":
            doc = self.code.co_consts[0] if self.code.co_consts else None
            return ConstantValue(doc if isinstance(doc, str) else None)
        if name == "__type_params__" and hasattr(types.FunctionType, name):
            return TupleValue([])  # unless it was set
        if name == "__module__":
            return self.globals.load(tr, "__name__")
        if name == "__class__":
            return tr.constant_object(types.FunctionType)
        if name == "__get__":
            return FunctionGet(self)
        if name == "__dict__":
            items: dict[Any, tuple[Value, Value]] = {
                key: (ConstantValue(key), value)
                for key, value in self.attrs.items()
                if value is not None and not defines(types.FunctionType, key)
            }
            return FunctionDict(self, items)
        if name == "__annotations__":
            self.attrs[name] = DictValue()  # made at first sight
            return self.attrs[name]  # type: ignore[return-value]
        if defines(types.FunctionType, name):
            tr.graph_break("attribute", f"attribute '{name}' of {self.describe()} is not modelled")
        tr.throw(AttributeError, f"'function' object has no attribute '{name}'")

    def set_attr(self, tr: Tracer, name: str, value: Value) -> None:
        if name == "__name__":
            self.name = value
        elif name == "__qualname__":
            self.qualname = value
        elif name == "__defaults__":
            self.defaults = value
        elif name == "__kwdefaults__":
            self.kwdefaults = value
        elif (
            name in ("__code__", "__globals__", "__closure__", "__dict__", "__builtins__")
            or (name == "__annotations__" and value.realize(tr).python_type() is not dict)
            or (name == "__type_params__" and value.realize(tr).python_type() is not tuple)
        ):
            super().set_attr(tr, name, value)
        else:
            self.attrs[name] = value

    def del_attr(self, tr: Tracer, name: str) -> None:
        if self.attrs.pop(name, None) is None:
            super().del_attr(tr, name)


class FunctionDict(DictValue):
    """`__dict__` of a function made inside the frame: changes reach the function."""

    __slots__ = ("owner",)

    def __init__(self, owner: NestedFunctionValue, items: dict[Any, tuple[Value, Value]]) -> None:
        super().__init__(items)
        self.owner = owner

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        super().set_item(tr, key, value)
        name = key.realize(tr)
        if not isinstance(name, ConstantValue) or type(name.value) is not str:
            tr.graph_break("attribute", "a function attribute whose name is not a constant string")
        if defines(types.FunctionType, name.value):
            tr.graph_break("attribute", f"'{name.value}' is put into the __dict__ of a function")
        self.owner.attrs[name.value] = value

    def del_item(self, tr: Tracer, key: Value) -> None:
        tr.graph_break("attribute", "deleting from a function's __dict__ is not modelled")


class BoundMethodValue(Value):
    """A method: a function with its first argument."""

    __slots__ = ("fn", "owner")

    def __init__(self, fn: Value, owner: Value, source: Source | None = None) -> None:
        self.source = source
        self.fn = fn
        self.owner = owner

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return f"bound {self.fn.describe()}"

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call(self.fn, [self.owner, *args], kwargs)

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.fn
        return self.fn.realize(tr).get_attr(tr, name)


class GeneratorValue(IteratorValue):
    """A generator of a function that was called inside the frame; its frame lives in the trace."""

    __slots__ = ("finished", "frame", "running", "started")

    def __init__(self, frame: Any) -> None:
        self.source = None
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False

    def python_type(self) -> type:
        return types.GeneratorType

    def next(self, tr: Tracer) -> Value | None:
        return tr.resume_generator(self, ConstantValue(None))

    def get_attr(self, tr: Tracer, name: str) -> Value:
        if name in ("send", "throw", "close"):
            return GeneratorMethod(self, name)
        return super().get_attr(tr, name)

    def call_method(self, tr: Tracer, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        if name in ("send", "throw", "close"):
            return tr.generator_method(self, name, args)
        return super().call_method(tr, name, args, kwargs)


class GeneratorMethod(Value):
    """`send`, `throw` or `close` of a generator."""

    __slots__ = ("generator", "name")

    def __init__(self, generator: GeneratorValue, name: str) -> None:
        self.source = None
        self.generator = generator
        self.name = name

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def call(self, tr: Tracer, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        return self.generator.call_method(tr, self.name, args, kwargs)
