"""Sources: how to reach a value again from a frame.

A source is a node of a tree whose roots are the frame's own places (argument slots, globals, builtins,
closure cells) and absolute objects.  Children are interned in their parent, so within one tree equal means
identical and the whole tree dies with the trace or the guards that hold it.  Lowering turns sources into
fetch instructions of a guard program; code generation turns the same sources into bytecode.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, TypeVar

S = TypeVar("S", bound="Source")


class Source:
    """One step from `base` (None for roots) by `key`."""

    __slots__ = ("__weakref__", "_children", "base", "key")
    #: Whether a value found here can be replaced without its owner's dict version moving.
    kind: ClassVar[str] = "source"

    def __init__(self, base: Source | None, key: Any) -> None:
        self.base = base
        self.key = key
        self._children: dict[tuple[type[Source], Hashable], Source] | None = None

    def child(self, cls: type[S], key: Hashable) -> S:
        """Return the interned child of class `cls` for `key`."""
        children = self._children
        if children is None:
            children = self._children = {}
        # 1, True and 1.0 are equal but name different things; the type keeps them apart.
        slot = (cls, (type(key), key))
        found = children.get(slot)
        if found is None:
            found = children[slot] = cls(self, key)
        return found  # type: ignore[return-value]

    # -- the steps -------------------------------------------------------------------------------
    def attr(self, name: str) -> AttrSource:
        """The value under `name` in the instance `__dict__` of this object."""
        return self.child(AttrSource, name)

    def item(self, key: Hashable) -> ItemSource:
        """Item `key` of an exact (or C-level) list, tuple or dict."""
        return self.child(ItemSource, key)

    def member(self, name: str) -> MemberSource:
        """Attribute `name` served by C code of the type: `__slots__`, `func.__code__`, `tensor.grad`."""
        return self.child(MemberSource, name)

    def class_attr(self, name: str) -> ClassAttrSource:
        """The raw value of `name` along the MRO of this class (no descriptor is called)."""
        return self.child(ClassAttrSource, name)

    def type(self) -> TypeSource:
        """The exact type of this object."""
        return self.child(TypeSource, None)

    def instance_dict(self) -> InstanceDictSource:
        """The `__dict__` object of this object."""
        return self.child(InstanceDictSource, None)

    def cell_contents(self) -> CellContentsSource:
        """The contents of this cell."""
        return self.child(CellContentsSource, None)

    def name(self) -> str:
        """The source in words, as guards and reports print it."""
        raise NotImplementedError

    def root(self) -> Source:
        """The root of the tree that this source hangs on."""
        source = self
        while source.base is not None:
            source = source.base
        return source

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name()}>"


class LocalSource(Source):
    """Argument slot number `slot` of the frame, raw as at entry."""

    __slots__ = ("slot",)
    kind = "local"

    def __init__(self, name: str, slot: int) -> None:
        super().__init__(None, name)
        self.slot = slot

    def name(self) -> str:
        # Resume functions name the variables of frames below like this.
        name = str(self.key)
        depth = 0
        while name.startswith(".>"):
            name, depth = name[2:], depth + 1
        if not depth:
            return f"L[{name!r}]"
        what = repr(name) if name else "function"
        return f"L[{what}, {depth} call{'s' if depth > 1 else ''} below]"


class GlobalsSource(Source):
    """The globals dict of the frame; `item(name)` reaches one global."""

    __slots__ = ()
    kind = "globals"

    def __init__(self) -> None:
        super().__init__(None, "globals")

    def name(self) -> str:
        return "G"


class BuiltinsSource(Source):
    """The builtins dict of the frame; `item(name)` reaches one builtin."""

    __slots__ = ()
    kind = "builtins"

    def __init__(self) -> None:
        super().__init__(None, "builtins")

    def name(self) -> str:
        return "B"


class ClosureSource(Source):
    """The cell object number `key` of the frame's closure."""

    __slots__ = ("variable",)
    kind = "closure"

    def __init__(self, index: int, variable: str) -> None:
        super().__init__(None, index)
        self.variable = variable

    def name(self) -> str:
        return f"closure[{self.variable!r}]"


def _gone() -> None:
    return None


class ObjectSource(Source):
    """An object reached absolutely, held weakly; `via` is the guarded way it was first reached by.

    Used once the object's identity is guarded, so that everything found through it is guarded once,
    however many ways lead to it.  `via` is None for objects that no user code can replace.
    """

    __slots__ = ("_get", "via")
    kind = "object"

    def __init__(self, obj: object, via: Source | None) -> None:
        super().__init__(None, id(obj))
        self.via = via
        self._get: Callable[[], object]
        try:
            self._get = weakref.ref(obj)
        except TypeError:
            self._get = lambda: obj

    def get(self) -> object:
        """The object, or None when it has died."""
        return self._get()

    def release(self) -> None:
        """Let go of an object that cannot be held weakly: the trace is over, and its guards hold what they need.

        A source and those that it is the base of are a cycle, which would keep the object until it is collected.
        """
        if self.via is not None and type(self._get) is not weakref.ref:
            self._get = _gone

    def name(self) -> str:
        if self.via is not None:
            return self.via.name()
        obj = self.get()
        return (
            getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or repr(type(obj).__name__)
        )


class AttrSource(Source):
    """A value in the instance `__dict__`."""

    __slots__ = ()
    kind = "attr"

    def name(self) -> str:
        assert self.base is not None
        return f"{self.base.name()}.{self.key}"


class ItemSource(Source):
    """An item of a list or tuple (int key) or of a dict (any immutable key)."""

    __slots__ = ()
    kind = "item"

    def name(self) -> str:
        assert self.base is not None
        return f"{self.base.name()}[{self.key!r}]"


class MemberSource(Source):
    """An attribute that the type serves from C without running Python."""

    __slots__ = ()
    kind = "member"

    def name(self) -> str:
        assert self.base is not None
        return f"{self.base.name()}.{self.key}"


class ClassAttrSource(Source):
    """A raw class attribute, looked up along the MRO of the class `base`."""

    __slots__ = ()
    kind = "class_attr"

    def name(self) -> str:
        assert self.base is not None
        return f"{self.base.name()}.{self.key}"


class TypeSource(Source):
    """The exact type of `base`."""

    __slots__ = ()
    kind = "type"

    def name(self) -> str:
        assert self.base is not None
        return f"type({self.base.name()})"


class InstanceDictSource(Source):
    """The instance dict object itself."""

    __slots__ = ()
    kind = "instance_dict"

    def name(self) -> str:
        assert self.base is not None
        return f"{self.base.name()}.__dict__"


class CellContentsSource(Source):
    """What a cell holds."""

    __slots__ = ()
    kind = "cell_contents"

    def name(self) -> str:
        assert self.base is not None
        base = self.base
        if isinstance(base, ClosureSource):
            return base.variable
        return f"{base.name()}.cell_contents"
