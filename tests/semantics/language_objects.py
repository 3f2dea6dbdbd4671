"""Small programs about objects: attributes, descriptors, special methods, inheritance, metaclasses."""

from __future__ import annotations

import abc
import collections.abc
import functools
import numbers
import operator
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from tests.semantics.language_table import program, tensors

# -- attributes and descriptors -----------------------------------------------------------------------------


class Temperature:
    """Properties that are read, set and deleted."""

    unit = "C"
    made: ClassVar[int] = 0

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def value(self) -> Any:
        """The value."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value + 1

    @value.deleter
    def value(self) -> None:
        del self._value

    @property
    def fixed(self) -> str:
        return "fixed"

    @functools.cached_property
    def doubled(self) -> Any:
        self.computed = getattr(self, "computed", 0) + 1
        return self._value * 2

    @classmethod
    def zero(cls) -> Temperature:
        return cls(torch.zeros(4))

    @staticmethod
    def scale(value: Any) -> Any:
        return value * 1.8

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.unit})"


@program
def properties_set_and_deleted(x: Tensor, y: Tensor) -> Any:
    box = Temperature(x)
    first = box.value
    box.value = y
    box.value += 1
    second = box.value
    del box.value
    found = [hasattr(box, "value")]
    try:
        box.value
    except AttributeError as error:
        found.append(str(error))
    for act in (lambda: setattr(box, "fixed", 1), lambda: delattr(box, "fixed")):
        try:
            act()
        except AttributeError as error:
            found.append(str(error))
    return first, second, found, box.fixed, Temperature.value.__doc__


@program
def cached_properties(x: Tensor, y: Tensor) -> Any:
    box = Temperature(x)
    before = "doubled" in box.__dict__
    same = box.doubled is box.doubled
    first = box.doubled
    del box.doubled
    return before, same, first, box.doubled, box.computed


@program
def class_methods_and_static_methods(x: Tensor, y: Tensor) -> Any:
    zero = Temperature.zero()
    other = zero.zero()
    return zero.value + y, Temperature.scale(x), zero.scale(y), type(other).__name__, repr(other), str(zero)


@program(arguments=lambda: (*tensors(), Temperature(torch.ones(4))), in_all=2)
def attributes_of_an_argument(x: Tensor, y: Tensor, box: Temperature) -> Any:
    box.value = box.value + y
    box.label = "l"
    box.unit = "K"
    del box.label
    return box.doubled, box.unit, Temperature.unit, vars(box).keys() - {"_value"}, getattr(box, "nope", 3)


class Typed:
    """A descriptor that checks, with a default."""

    def __init__(self, kind: type, default: Any = None) -> None:
        self.kind = kind
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        if owner is None:
            return self
        return owner.__dict__.get(self.name, self.default)

    def __set__(self, owner: Any, value: Any) -> None:
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} must be {self.kind.__name__}")
        owner.__dict__[self.name] = value


class Config:
    size = Typed(int, 4)
    name = Typed(str)
    weight = Typed(Tensor)

    def __init__(self, **named: Any) -> None:
        for name, value in named.items():
            setattr(self, name, value)


@program
def descriptors_that_check(x: Tensor, y: Tensor) -> Any:
    config = Config(name="n", weight=x)
    config.size += 1
    try:
        config.name = 3
    except TypeError as error:
        return (
            str(error),
            config.size,
            config.name,
            config.weight * config.size,
            Config.size.name,
            config.__dict__,
        )


class NonData:
    """A descriptor that instance attributes hide."""

    def __get__(self, owner: Any, cls: Any) -> Any:
        return ("from", None if owner is None else "instance", cls.__name__)


class WithNonData:
    field = NonData()


@program
def a_descriptor_that_is_hidden(x: Tensor, y: Tensor) -> Any:
    box = WithNonData()
    before = box.field, WithNonData.field
    box.field = x
    return before, box.field + 1


class Dynamic:
    """Attributes made on demand."""

    def __init__(self, **known: Any) -> None:
        object.__setattr__(self, "known", known)
        object.__setattr__(self, "log", [])

    def __getattr__(self, name: str) -> Any:
        self.log.append(f"get {name}")
        try:
            return self.known[name]
        except KeyError:
            raise AttributeError(f"no {name}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append(f"set {name}")
        self.known[name] = value

    def __delattr__(self, name: str) -> None:
        self.log.append(f"del {name}")
        del self.known[name]


@program
def attributes_made_on_demand(x: Tensor, y: Tensor) -> Any:
    box = Dynamic(a=x)
    box.b = y
    box.b += 1
    del box.a
    return hasattr(box, "a"), getattr(box, "a", "default"), box.b, box.log, list(box.known)


@program(arguments=lambda: (*tensors(), Dynamic(a=1)), in_all=2)
def attributes_made_on_demand_of_an_argument(x: Tensor, y: Tensor, box: Dynamic) -> Any:
    box.b = x
    try:
        box.missing
    except AttributeError as error:
        return str(error), box.a, box.b * 2


class Watched:
    """Every attribute is asked for here."""

    def __init__(self) -> None:
        self.a = 1

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("no_"):
            raise AttributeError(name)
        if name == "twice":
            return object.__getattribute__(self, "a") * 2
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        return f"fallback {name}"


@program(peer=0)
def getattribute(x: Tensor, y: Tensor) -> Any:
    box = Watched()
    box.a = x
    return box.a + 1, box.twice, box.no_such, getattr(box, "no_other", 1)


class Slots:
    __slots__ = ("__dict__", "a")

    def __init__(self) -> None:
        self.a = 1


class OnlySlots:
    __slots__ = ("a", "b")


class MoreSlots(OnlySlots):
    __slots__ = ("c",)


@program
def slots_of_every_kind(x: Tensor, y: Tensor) -> Any:
    mixed, only, more = Slots(), OnlySlots(), MoreSlots()
    mixed.b = x
    only.a = y
    more.a, more.c = 1, 2
    more.a += 1
    found = []
    for act in (lambda: only.b, lambda: setattr(only, "z", 1), lambda: delattr(only, "b")):
        try:
            act()
        except AttributeError as error:
            found.append(str(error))
    return mixed.__dict__, only.a + 1, more.a, more.c, found, hasattr(only, "b"), MoreSlots.__slots__


# -- inheritance ---------------------------------------------------------------------------------------------


class Base:
    kind = "base"

    def __init__(self, value: Any) -> None:
        self.value = value
        self.trail = ["base"]

    def run(self, x: Any) -> Any:
        return x + self.value

    @classmethod
    def make(cls, value: Any) -> Base:
        return cls(value)

    @property
    def shown(self) -> str:
        return f"base {self.kind}"


class Left(Base):
    kind = "left"

    def __init__(self, value: Any, extra: Any = 1) -> None:
        super().__init__(value)
        self.extra = extra
        self.trail.append("left")

    def run(self, x: Any) -> Any:
        return super().run(x) * 2


class Right(Base):
    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.trail.append("right")

    def run(self, x: Any) -> Any:
        return super().run(x) - 1

    @classmethod
    def make(cls, value: Any) -> Base:
        made = super().make(value)
        made.trail.append("made")
        return made

    @property
    def shown(self) -> str:
        return super().shown + "!"


class Both(Left, Right):
    pass


@program(peer=3)
def diamonds_of_super(x: Tensor, y: Tensor) -> Any:
    both = Both.make(y)
    return (
        both.run(x),
        both.trail,
        both.extra,
        both.shown,
        both.kind,
        [cls.__name__ for cls in Both.__mro__],
        Base.run(both, x),
        super(Left, both).run(x),
    )


@program
def class_attributes_and_instances(x: Tensor, y: Tensor) -> Any:
    left = Left(1)
    found = [left.kind, Left.kind, Base.kind]
    left.kind = "own"
    found.append(left.kind)
    del left.kind
    return found, left.kind, "kind" in vars(left), "kind" in Left.__dict__, x * left.extra


class Registered:
    registry: ClassVar[list[str]] = []

    def __init_subclass__(cls, /, tag: str = "none", **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.tag = tag
        Registered.registry.append(cls.__name__)


class Tagged(Registered, tag="t"):
    pass


@program
def subclasses_that_are_registered(x: Tensor, y: Tensor) -> Any:
    return Tagged.tag, Tagged().tag, "Tagged" in Registered.registry, x + len(Tagged.tag)


class Counted(type):
    """A metaclass with attributes, methods and a property."""

    level = 3

    @property
    def doubled(cls) -> int:
        return cls.level * 2

    def describe(cls) -> str:
        return f"class {cls.__name__}"

    def __call__(cls, *args: Any, **named: Any) -> Any:
        made = super().__call__(*args, **named)
        made.label = cls.describe()
        return made


class WithMeta(metaclass=Counted):
    def __init__(self, value: Any) -> None:
        self.value = value


class Single(type):
    _made: ClassVar[dict[type, Any]] = {}

    def __call__(cls, *args: Any) -> Any:
        if cls not in cls._made:
            cls._made[cls] = super().__call__(*args)
        return cls._made[cls]


@program(peer=0)
def metaclass_attributes_and_calls(x: Tensor, y: Tensor) -> Any:
    box = WithMeta(x)
    return (
        box.label,
        WithMeta.level,
        WithMeta.doubled,
        WithMeta.describe(),
        box.value + 1,
        type(WithMeta).__name__,
    )


class Made:
    """A class with a `__new__` of its own."""

    def __new__(cls, *args: Any) -> Any:
        if args and args[0] is None:
            return "not an instance"
        made = super().__new__(cls)
        made.by = "new"
        return made

    def __init__(self, value: Any = 0) -> None:
        self.value = value


@program
def new_of_ones_own(x: Tensor, y: Tensor) -> Any:
    bare = object.__new__(Made)
    return Made(x).value + 1, Made().by, Made(None), hasattr(bare, "by"), Made.__new__(Made, y).by


class Plain:
    pass


@program
def objects_changed_through_their_dict(x: Tensor, y: Tensor) -> Any:
    box = Plain()
    box.a = x
    box.__dict__["b"] = y
    vars(box).update(c=1, d=2)
    del box.__dict__["c"]
    return box.b + 1, list(vars(box)), box.__dict__.get("z"), "a" in box.__dict__, len(vars(box))


@program(
    graphs=2,
    in_all=2,
    reason="the dict that is assigned stays another name for the attributes",
)
def a_dict_is_made_the_attributes(x: Tensor, y: Tensor) -> Any:
    box = Plain()
    box.a = x + 1
    box.__dict__ = table = {"b": y}
    box.c = 1
    return box.b * 2, table


@program
def identity_and_equality_of_objects(x: Tensor, y: Tensor) -> Any:
    a, b = Plain(), Plain()
    a.me, a.other = a, b
    rows = [a, b, a]
    return (
        a == b,
        a != b,
        a is a.me,
        a in [b],
        rows.index(b),
        rows.count(a),
        len({a, b, a}),
        a.me.me.other is b,
        x + 1,
    )


@program(arguments=lambda: (*tensors(), Plain(), Plain()), in_all=2)
def objects_that_are_arguments(x: Tensor, y: Tensor, a: Plain, b: Plain) -> Any:
    a.next, b.next = b, a
    a.value, b.value = x + 1, y
    table = {a: 1, b: 2}
    return a.next.value, a.next.next is a, table[a], a == b, len({a, b}), b.next.value * 2


@program
def hasattr_getattr_setattr_delattr(x: Tensor, y: Tensor) -> Any:
    box = Plain()
    for name in ("a", "b"):
        setattr(box, name, x)
    delattr(box, "a")
    names = [name for name in ("a", "b", "__class__", "__dict__") if hasattr(box, name)]
    return names, getattr(box, "b") * 2, getattr(box, "q", None)  # noqa: B009


# -- special methods -----------------------------------------------------------------------------------------


class Vector:
    """Arithmetic with reflected and in-place forms."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return Vector(*(a + b for a, b in zip(self.values, other.values, strict=True)))
        return Vector(*(a + other for a in self.values))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return Vector(*(other - a for a in self.values))

    def __mul__(self, other: Any) -> Any:
        return Vector(*(a * other for a in self.values))

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __matmul__(self, other: Any) -> Any:
        return sum(a * b for a, b in zip(self.values, other.values, strict=True))

    def __imul__(self, other: Any) -> Any:
        self.values = tuple(a * other for a in self.values)
        return self

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return Vector(*reversed(self.values))

    def __abs__(self) -> Any:
        return Vector(*(abs(a) for a in self.values))

    def __divmod__(self, other: Any) -> Any:
        return ("divmod", other)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return ("pow", other, modulo)

    def __floordiv__(self, other: Any) -> Any:
        return ("floordiv", other)

    def __rtruediv__(self, other: Any) -> Any:
        return ("rtruediv", other)

    def __lshift__(self, other: Any) -> Any:
        return ("lshift", other)

    def __eq__(self, other: Any) -> Any:
        return isinstance(other, Vector) and len(self.values) == len(other.values)

    __hash__ = None  # type: ignore[assignment]


@program(peer=0)
def arithmetic_of_objects(x: Tensor, y: Tensor) -> Any:
    v, w = Vector(x, y), Vector(1, 2)
    total = (v + w + 1).values, (2 + w).values, (3 * w).values, (w @ w), (10 - w).values
    same = w
    w *= 5
    w += 1
    return total, same.values, w.values, (-w).values, (+w) is w, (~w).values, abs(Vector(-1)).values


@program
def rarer_arithmetic_of_objects(x: Tensor, y: Tensor) -> Any:
    v = Vector(1, 2)
    found: list[Any] = [divmod(v, 3), v**2, pow(v, 2, 5), v // 2, 1 / v, v << 1, sum([v, v], v).values]
    for act in (lambda: v - 1, lambda: v % 2, lambda: 1 // v, lambda: v & v, lambda: v < 1, lambda: v[0]):
        try:
            found.append(act())
        except TypeError as error:
            found.append(str(error))
    return found, x + 1


@program
def equality_without_a_hash(x: Tensor, y: Tensor) -> Any:
    v = Vector(1)
    found = [v == Vector(2), v != Vector(2), v == 1, v in [Vector(3)], [v] == [Vector(9)]]
    try:
        {v: 1}
    except TypeError as error:
        return found, str(error), x + 1


@functools.total_ordering
class Version:
    """Ordering by one method and the decorator."""

    def __init__(self, major: int, minor: int = 0) -> None:
        self.key = (major, minor)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, Version):
            return NotImplemented
        return self.key == other.key

    def __lt__(self, other: Any) -> Any:
        if not isinstance(other, Version):
            return NotImplemented
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"v{self.key[0]}.{self.key[1]}"


@program
def ordering_of_objects(x: Tensor, y: Tensor) -> Any:
    a, b, c = Version(1), Version(1, 2), Version(1)
    found = [a < b, a <= c, b > a, b >= a, a == c, a != b, sorted([b, a]), max(a, b), min([b, a])]
    try:
        a < 1
    except TypeError as error:
        return [repr(each) for each in found[6]], str(found[7]), found[:6], str(error), a == 1, x + 1


@program(peer=0)
def objects_as_keys(x: Tensor, y: Tensor) -> Any:
    table = {Version(1): x, Version(2): y}
    table[Version(1)] = x + 1
    return (
        len(table),
        table[Version(1)],
        Version(2) in table,
        Version(3) in table,
        len({Version(1), Version(1), Version(2)}),
        table.pop(Version(2)),
        hash(Version(1)) == hash(Version(1)),
    )


class Grid:
    """Items and length."""

    def __init__(self) -> None:
        self.cells: dict[Any, Any] = {}
        self.log: list[Any] = []

    def __getitem__(self, key: Any) -> Any:
        self.log.append(("get", key))
        if key not in self.cells:
            return self.__missing__(key)
        return self.cells[key]

    def __missing__(self, key: Any) -> Any:
        return f"missing {key}"

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append(("set", key))
        self.cells[key] = value

    def __delitem__(self, key: Any) -> None:
        self.log.append(("del", key))
        del self.cells[key]

    def __len__(self) -> int:
        return len(self.cells)

    def __contains__(self, key: Any) -> bool:
        return key in self.cells

    def __iter__(self) -> Any:
        return iter(self.cells)


@program
def items_of_objects(x: Tensor, y: Tensor) -> Any:
    grid = Grid()
    empty = bool(grid)
    grid[1, 2] = x
    grid["k"] = y
    grid["k"] += 1
    found = grid[...], grid[1, 2] * 2, grid["none"]
    try:
        grid[[1]]
    except TypeError as error:
        grid.log.append(str(error))
    del grid[1, 2]
    return empty, found, "k" in grid, len(grid), list(grid), bool(grid), grid.log[:3]


class Answers:
    """Truth, length, index, formatting, calling."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __bool__(self) -> bool:
        return self.n > 0

    def __len__(self) -> int:
        return self.n

    def __index__(self) -> int:
        return self.n

    def __int__(self) -> int:
        return self.n * 10

    def __float__(self) -> float:
        return self.n / 2

    def __format__(self, spec: str) -> str:
        return f"<{self.n}:{spec}>"

    def __str__(self) -> str:
        return f"str {self.n}"

    def __repr__(self) -> str:
        return f"Answers({self.n})"

    def __call__(self, value: Any, *, by: Any = 1) -> Any:
        return value * self.n + by

    def __round__(self, digits: Any = None) -> Any:
        return ("round", digits)


@program
def conversions_of_objects(x: Tensor, y: Tensor) -> Any:
    two, zero = Answers(2), Answers(0)
    return (
        bool(two),
        not zero,
        "yes" if two else "no",
        len(two),
        int(two),
        float(two),
        f"{two} {two!r} {two:>5} {two!s:>8}",
        str(two),
        repr(zero),
        "%s %r" % (two, two),
        two(x, by=y),
        callable(two),
        round(two),
        round(two, 1),
        zero or "zero",
    )


@program
def an_index_of_ones_own(x: Tensor, y: Tensor) -> Any:
    two = Answers(2)
    return [1, 2, 3][two], (x, y, x + 1)[two], list(range(two)), operator.index(two)


class Callable_:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return sum(args)


@program(arguments=lambda: (*tensors(), Callable_()))
def a_callable_argument(x: Tensor, y: Tensor, fn: Callable_) -> Any:
    return fn(x, y), list(map(fn, (1, 2))), fn.calls, functools.reduce(fn, [1, 2, 3])


class Special:
    """Special methods on the instance are not asked."""

    def __init__(self) -> None:
        self.__len__ = lambda: 5

    def __len__(self) -> int:
        return 1


@program
def special_methods_are_the_classes(x: Tensor, y: Tensor) -> Any:
    box = Special()
    return len(box), box.__len__(), Special.__len__(box), x + 1


# -- isinstance, ABCs, protocols, generics ------------------------------------------------------------------


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> Any: ...

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    def describe(self) -> Any:
        return self.name, self.area()


class Square(Shape):
    name = "square"

    def __init__(self, side: Any) -> None:
        self.side = side

    def area(self) -> Any:
        return self.side * self.side


class Virtual:
    pass


Shape.register(Virtual)


class Even(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, int) and instance % 2 == 0

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is bool


class EvenNumber(metaclass=Even):
    pass


@runtime_checkable
class HasArea(Protocol):
    def area(self) -> Any: ...


@program(peer=0)
def abstract_classes(x: Tensor, y: Tensor) -> Any:
    square = Square(x)
    found = [
        isinstance(square, Shape),
        issubclass(Square, Shape),
        isinstance(Virtual(), Shape),
        issubclass(Virtual, Shape),
        isinstance(3, Shape),
    ]
    try:
        Shape()
    except TypeError as error:
        return found, type(error).__name__, square.describe()


@program
def checks_of_a_metaclass(x: Tensor, y: Tensor) -> Any:
    return (
        isinstance(4, EvenNumber),
        isinstance(3, EvenNumber),
        issubclass(bool, EvenNumber),
        issubclass(int, EvenNumber),
        x + 1,
    )


@program
def abstract_classes_of_the_library(x: Tensor, y: Tensor) -> Any:
    abcs = collections.abc
    return (
        isinstance([], abcs.Sequence),
        isinstance({}, abcs.Mapping),
        isinstance({1}, abcs.Set),
        isinstance((n for n in ()), abcs.Generator),
        isinstance(Grid(), abcs.Sized),
        isinstance(Grid(), abcs.Iterable),
        isinstance(len, abcs.Callable),
        isinstance(Version(1), abcs.Hashable),
        isinstance(Vector(), abcs.Hashable),
        isinstance(3, numbers.Number),
        isinstance(True, numbers.Integral),
        isinstance(2.5, numbers.Integral),
        isinstance(x, abcs.Iterable),
        x + 1,
    )


@program
def protocols(x: Tensor, y: Tensor) -> Any:
    return isinstance(Square(1), HasArea), isinstance(3, HasArea), Square(y).area()


T = TypeVar("T")


class Stack(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []

    def push(self, item: T) -> Stack[T]:
        self.items.append(item)
        return self

    def pop(self) -> T:
        return self.items.pop()


@program(reason="a generic class is subscripted through a cache")
def generic_classes(x: Tensor, y: Tensor) -> Any:
    stack = Stack[Tensor]()
    stack.push(x).push(y + 1)
    return stack.pop(), len(stack.items), isinstance(stack, Stack), type(stack).__name__


class Mixin:
    def twice(self, x: Any) -> Any:
        return self.once(self.once(x))  # type: ignore[attr-defined]


class Mixed(Mixin, list):
    def once(self, x: Any) -> Any:
        self.append("once")
        return x * 2


@program
def a_mixin_over_a_list(x: Tensor, y: Tensor) -> Any:
    mixed = Mixed([1])
    return (
        mixed.twice(x),
        list(mixed),
        len(mixed),
        mixed[1:],
        isinstance(mixed, list),
        mixed == [1, "once", "once"],
    )


class Defaulting(dict):
    def __missing__(self, key: Any) -> Any:
        self[key] = made = [key]
        return made


@program
def a_dict_with_missing(x: Tensor, y: Tensor) -> Any:
    table = Defaulting(a=x)
    table["b"].append(y)
    return table["a"] + 1, table.get("c"), dict(table), sorted(table), "c" in table


@program
def builder_methods_that_chain(x: Tensor, y: Tensor) -> Any:
    return Stack().push(x + 1).push(y).push(1).items


class Node:
    def __init__(self, value: Any, *children: Any) -> None:
        self.value = value
        self.children = list(children)
        self.parent: Any = None
        for child in children:
            child.parent = self

    def total(self) -> Any:
        return sum((child.total() for child in self.children), self.value)

    def __iter__(self) -> Any:
        yield self
        for child in self.children:
            yield from child


@program
def a_tree_of_objects(x: Tensor, y: Tensor) -> Any:
    tree = Node(y, Node(1), Node(y * 2, Node(3)))
    leaf = list(tree)[-1]
    return tree.total(), len(list(tree)), leaf.parent.parent is tree, leaf


CALLS: list[str] = []


class Recorder:
    count = 0

    def record(self, name: str) -> None:
        type(self).count += 1
        CALLS.append(name)


@program(state=("CALLS",), in_all=2)  # the first call finds it empty
def class_attributes_that_are_written(x: Tensor, y: Tensor) -> Any:
    CALLS.clear()
    before = Recorder.count
    Recorder().record("a")
    Recorder.count += 1
    after = Recorder.count
    Recorder.count = before
    return after - before, x + 1
