"""What a guard is, and the set that a trace collects.

A guard is plain data: (source, check, constant).  From this one form come the C++ program, the words shown
to people, and the recompile reason.  Objects that a guard names are held weakly.
"""

from __future__ import annotations

import enum
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

from framehook.source import Source


class Check(enum.Enum):
    """What a guard says about the value at its source; the comment gives the constant."""

    TYPE = "type"  # WeakIdentity of a class: exact type
    IDENTITY = "identity"  # WeakIdentity: the very object
    NOT_NONE = "not_none"  # None: anything but None
    EQUALS = (
        "equals"  # immutable value: same exact type and value, recursively (0.0 and -0.0 differ, NaN by bits)
    )
    LENGTH = "length"  # int: len() of an exact list, tuple, dict, set (or C subclass layout)
    KEYS = "keys"  # tuple: the keys of a dict, in order, by exact type and value
    MEMBERS = "members"  # tuple: the members of a set, in its order, by exact type and value
    HAS_KEY = "has_key"  # key: present in the dict (source is the dict)
    NO_KEY = "no_key"  # key: absent from the dict (source is the dict); an object without a dict has no keys
    NO_CLASS_ATTR = "no_class_attr"  # str: absent along the MRO of the class (source is the class)
    TENSOR = "tensor"  # TensorSpec
    STATE = "state"  # State: process and thread state; source is None
    SAME = "same"  # Source: both sources hold the same object
    DISTINCT = "distinct"  # tuple of Sources: pairwise different objects; source is None
    # (mutated sources, all sources): the memory of no mutated tensor may overlap that of another one, as
    # `_C.tensors_overlap` judges it (exact for dense tensors and slices along one base, else "may").  Pairs that a
    # SAME or OVERLAPS guard of the same set names are exempt.  Source is None.
    DISJOINT = "disjoint"
    # (first source, second source, bytes from the start of the first to the start of the second): the tensors
    # overlap just so (`_C.tensors_distance`).  With both TENSOR guards this is the pattern of trace time.
    OVERLAPS = "overlaps"
    RELATION = "relation"  # Relation between integers and sizes; source is None
    CELL_EMPTY = "cell_empty"  # None: the cell holds nothing
    PREDICATE = "predicate"  # (callable, arguments as Sources): Python fallback, counted; source is None
    ENVIRONMENT = "environment"  # (name, str value or None): os.environ item; source is None
    ALL = "all"  # tuple of Guards about one object, which is the source of the first

    # Members are singletons; Enum's own hash runs Python, once for every key of a guard set.
    __hash__ = object.__hash__


#: Whatever the constant is: a place has one value while a trace lasts.
_ONE_PER_PLACE = frozenset({Check.EQUALS, Check.TENSOR, Check.LENGTH, Check.KEYS, Check.MEMBERS})


def _getter(obj: object) -> Callable[[], object]:
    """A call that returns `obj`, or None once it has died, and keeps it alive only where there is no other way."""
    try:
        return weakref.ref(obj)
    except TypeError:
        pass
    if type(obj) is tuple and all(isinstance(item, type) for item in obj):
        # The MRO or the bases of a class: the tuple would keep the class alive.  Who asks gets an equal one.
        classes = [weakref.ref(cls) for cls in obj]

        def bases() -> object:
            found = tuple(get() for get in classes)
            return None if any(cls is None for cls in found) else found

        return bases
    if type(obj) is dict:
        name = obj.get("__name__")
        module = sys.modules.get(name) if type(name) is str else None
        if module is not None and getattr(module, "__dict__", None) is obj:
            # The namespace of a module lives with it.
            owner = weakref.ref(module)
            return lambda: getattr(owner(), "__dict__", None)
    return lambda: obj


class WeakIdentity:
    """An object held weakly where a weak reference exists; equal when the object is the same."""

    __slots__ = ("_get", "address")

    def __init__(self, obj: object) -> None:
        self.address = id(obj)
        self._get = _getter(obj)

    def get(self) -> object:
        """The object, or None when it has died."""
        return self._get()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeakIdentity) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        obj = self.get()
        return getattr(obj, "__qualname__", None) or f"{type(obj).__name__} at {self.address:#x}"


class TensorSpec(NamedTuple):
    """Tensor metadata that a guard compares.  Sizes and strides are None per dimension where symbolic."""

    cls: WeakIdentity
    dispatch_keys: int  # raw DispatchKeySet
    dtype: Any
    device: Any
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None  # None: layout without strides
    requires_grad: bool | None  # None: not used


class Relation(NamedTuple):
    """A relation between integers and sizes of tensors, as code of `_C.RELATION_OPERATIONS`.

    Attributes:
        code: operations, each with its operands behind it; INTEGER, SIZE and STRIDE name a place among `sources`.
        sources: of integers and tensors.
        text: the relation in words.
    """

    code: tuple[int, ...]
    sources: tuple[Source, ...]
    text: str


class Guard:
    """One condition; `location` is (code, instruction offset) of the user code that made it."""

    __slots__ = ("check", "constant", "location", "source")

    def __init__(
        self, source: Source | None, check: Check, constant: Any, location: tuple[CodeType, int] | None
    ) -> None:
        self.source = source
        self.check = check
        self.constant = constant
        self.location = location

    def __repr__(self) -> str:
        where = self.source.name() if self.source is not None else ""
        return f"<Guard {where} {self.check.value} {self.constant!r}>"


class GuardSet:
    """The guards of one trace, deduplicated on insertion, in the order they were added."""

    __slots__ = ("_guards", "location")

    def __init__(self) -> None:
        self._guards: dict[Any, Guard] = {}
        self.location: tuple[CodeType, int] | None = None

    @classmethod
    def of(cls, guards: Iterable[Guard]) -> GuardSet:
        """The set of these guards."""
        made = cls()
        made._guards.update((id(guard), guard) for guard in guards)
        return made

    @property
    def checks(self) -> int:
        """How many conditions the guards consist of."""
        return sum(len(guard.constant) if guard.check is Check.ALL else 1 for guard in self)

    def add(self, source: Source | None, check: Check, constant: Any = None) -> Guard:
        """Add a guard and return it; a guard that is there already is not added twice."""
        if check is Check.TYPE or check is Check.IDENTITY:
            key: Any = (source, check)
            found = self._guards.get(key)
            if found is not None:
                return found
            constant = WeakIdentity(constant)
        elif check in _ONE_PER_PLACE:
            key = (source, check)
        else:
            key = (source, check, constant)
        found = self._guards.get(key)
        if found is None:
            found = self._guards[key] = Guard(source, check, constant, self.location)
        return found

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards.values())

    def __len__(self) -> int:
        return len(self._guards)
