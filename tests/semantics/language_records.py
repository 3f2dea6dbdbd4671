"""Small programs about dataclasses, named tuples, enums, and classes defined inside the frame."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import types
from typing import Any, NamedTuple

from torch import Tensor

from tests.semantics.language_table import program, tensors

# -- dataclasses ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0
    tags: list[Any] = dataclasses.field(default_factory=list)

    def shifted(self, by: Any) -> Point:
        return dataclasses.replace(self, x=self.x + by)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    a: Any
    b: Any = dataclasses.field(default=3, repr=False)


@dataclasses.dataclass(order=True)
class Ordered:
    rank: int
    name: str = dataclasses.field(compare=False, default="")


@dataclasses.dataclass
class Derived:
    base: Any
    scale: dataclasses.InitVar[float] = 2.0
    total: Any = dataclasses.field(init=False)
    kind: str = dataclasses.field(default="k", kw_only=True)

    def __post_init__(self, scale: float) -> None:
        self.total = self.base * scale


@dataclasses.dataclass
class Child(Point):
    z: Any = 5

    def __post_init__(self) -> None:
        self.tags.append("child")


@dataclasses.dataclass(unsafe_hash=True)
class Hashed:
    a: int
    b: str = "b"


@program
def a_dataclass(x: Tensor, y: Tensor) -> Any:
    a, b = Point(x), Point(x=1, y=y, tags=["t"])
    a.tags.append(1)
    a.y += 1
    return (
        a,
        b,
        a.tags is b.tags,
        x + a.y,
        Point(1) == Point(1),
        Point(1) == Point(2),
        Point(1) != 1,
        b.shifted(2).x,
    )


@program
def a_frozen_dataclass(x: Tensor, y: Tensor) -> Any:
    box = Frozen(x)
    found = []
    for act in (lambda: setattr(box, "a", 1), lambda: delattr(box, "b"), lambda: setattr(box, "new", 1)):
        try:
            act()
        except dataclasses.FrozenInstanceError as error:
            found.append((type(error).__name__, str(error)))
    changed = dataclasses.replace(box, b=7)
    return (
        found,
        changed.a + changed.b,
        box.b,
        hash(Frozen(1)) == hash(Frozen(1)),
        len({Frozen(1), Frozen(1)}),
    )


@program
def a_slotted_dataclass(x: Tensor, y: Tensor) -> Any:
    box = Slotted(x)
    box.b = y
    try:
        box.c = 1
    except AttributeError as error:
        return box.a + 1, box.b, str(error), Slotted(1) == Slotted(1), Slotted.__slots__


@program
def a_strict_dataclass(x: Tensor, y: Tensor) -> Any:
    box = Strict(a=x)
    return box.a + box.b, repr(Strict(a=1)), dataclasses.replace(box, b=1).b, box


@program
def dataclasses_in_order(x: Tensor, y: Tensor) -> Any:
    a, b = Ordered(1, "b"), Ordered(2, "a")
    return a < b, a >= b, sorted([b, a])[0].name, max(a, b).name, Ordered(1, "q") == a, x + a.rank


@program
def dataclasses_that_derive_fields(x: Tensor, y: Tensor) -> Any:
    a, b = Derived(x), Derived(y, 3.0, kind="other")
    return a.total, b.total, b.kind, hasattr(a, "scale"), repr(Derived(1, 2))


@program
def dataclasses_that_inherit(x: Tensor, y: Tensor) -> Any:
    child = Child(x, z=y)
    return child, isinstance(child, Point), child.shifted(1).x, [f.name for f in dataclasses.fields(child)]


@program
def dataclasses_as_data(x: Tensor, y: Tensor) -> Any:
    box = Point(1, 2)
    return (
        dataclasses.asdict(box),
        dataclasses.astuple(box),
        dataclasses.is_dataclass(box),
        repr(box),
        x + box.y,
    )


@program(peer=0)
def dataclasses_as_keys(x: Tensor, y: Tensor) -> Any:
    table = {Hashed(1): x, Hashed(2, "c"): y}
    return table[Hashed(1)] + 1, Hashed(2, "c") in table, Hashed(2) in table, len(table)


@program(arguments=lambda: (*tensors(), Point(1, 2), Frozen(3)), in_all=2)
def dataclasses_as_arguments(x: Tensor, y: Tensor, point: Point, frozen: Frozen) -> Any:
    point.x = x
    point.tags.append(len(point.tags) * 0)
    return point.y * x, dataclasses.replace(frozen, a=y).a, frozen.b, point == 1, point.tags[0]


@program
def fields_of_a_dataclass(x: Tensor, y: Tensor) -> Any:
    total = 0
    for field in dataclasses.fields(Frozen):
        total = total + getattr(Frozen(x), field.name)
    return total, [field.name for field in dataclasses.fields(Point)]


@program(peer=0)
def a_dataclass_without_an_argument(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    try:
        Frozen()
    except TypeError as error:
        return str(error), z


# -- named tuples --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: Any
    right: Any = 1

    @property
    def total(self) -> Any:
        return self.left + self.right

    def swapped(self) -> Pair:
        return Pair(self.right, self.left)


Triple = collections.namedtuple("Triple", "a b c", defaults=[3])


@program
def named_tuples_and_their_methods(x: Tensor, y: Tensor) -> Any:
    pair, triple = Pair(x), Triple(1, b=y)
    left, right = pair
    return (
        pair.total,
        pair.swapped().right,
        pair._replace(right=5),
        triple._asdict(),
        Triple._make([1, 2, 3]),
        Pair._fields,
        Pair._field_defaults,
        len(triple),
        triple[1:],
        triple + (1,),
        Triple(1, 2) == (1, 2, 3),
        repr(Triple(1, 2)),
        left + right,
        isinstance(pair, tuple),
        triple.index(1),
        triple.c,
    )


@program(arguments=lambda: (*tensors(), Pair(1, 2)))
def named_tuples_as_arguments(x: Tensor, y: Tensor, pair: Pair) -> Any:
    return pair.total * x, pair._replace(left=y), pair == (1, 2), {pair: 1}[pair], hash(pair) == hash((1, 2))


@program
def a_named_tuple_is_immutable(x: Tensor, y: Tensor) -> Any:
    pair = Pair(x)
    try:
        pair.left = y
    except AttributeError as error:
        return str(error), pair.left + 1


# -- enums ---------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def pretty(self) -> str:
        return self.name.lower()

    def mixed(self, other: Color) -> str:
        return f"{self.pretty}-{other.pretty}"

    @classmethod
    def default(cls) -> Color:
        return cls.GREEN


class Perm(enum.Flag):
    R = 4
    W = 2
    X = 1
    RW = R | W


class Auto(enum.IntFlag):
    A = enum.auto()
    B = enum.auto()


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Planet(enum.Enum):
    EARTH = (1.0, 2.0)
    MARS = (0.5, 1.0)

    def __init__(self, mass: float, radius: float) -> None:
        self.mass = mass
        self.radius = radius

    @property
    def gravity(self) -> float:
        return self.mass / self.radius**2


@program
def enums_of_every_kind(x: Tensor, y: Tensor) -> Any:
    red = Color.RED
    return (
        red.name,
        red.value,
        Color(2) is Color.GREEN,
        Color["RED"] is red,
        Color.CRIMSON is red,
        [each.name for each in Color],
        list(Color.__members__),
        red.pretty,
        red.mixed(Color.GREEN),
        Color.default().value,
        red in Color,
        len(Color),
        str(red),
        repr(red),
        red == Color.GREEN,
        {red: x}[Color.CRIMSON] + 1,
        isinstance(red, Color),
        Planet.MARS.gravity,
        Mode.FAST + "!",
        Mode("slow").value,
        f"{Mode.FAST} {red.name}",
        x * Planet.EARTH.mass,
    )


NOT_EXECUTABLE = ~Perm.X  # an enum remembers the inverse of a flag


@program
def flags(x: Tensor, y: Tensor) -> Any:
    both = Perm.R | Perm.W
    return (
        both is Perm.RW,
        Perm.R in both,
        Perm.X in both,
        bool(both & Perm.X),
        (both ^ Perm.R) is Perm.W,
        (~Perm.X) == both,
        both.value,
        (Auto.A | Auto.B) == 3,
        bool(Perm(0)),
        x + both.value,
    )


@program(arguments=lambda variant: (*tensors(), list(Color)[variant % 2]), in_all=2)
def enums_as_arguments(x: Tensor, y: Tensor, color: Color) -> Any:
    if color is Color.RED:
        return x + 1, color.pretty
    return x * color.value, {Color.GREEN: "g"}[color]


@program(peer=0)
def a_value_that_is_in_no_enum(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    try:
        Color(9)
    except ValueError as error:
        return str(error), z
    return None


# -- classes defined in the frame --------------------------------------------------------------------------


@program
def a_class_in_the_frame(x: Tensor, y: Tensor) -> Any:
    class Scaler:
        """Scales."""

        factor = 2

        def __init__(self, value: Any) -> None:
            self.value = value

        def run(self) -> Any:
            return self.value * self.factor

    box = Scaler(x)
    return box.run(), Scaler.__name__, Scaler.__doc__, isinstance(box, Scaler), Scaler.factor


@program
def a_class_in_the_frame_with_closures_and_super(x: Tensor, y: Tensor) -> Any:
    scale = 3

    class Base_:
        def run(self, value: Any) -> Any:
            return value * scale

    class Derived_(Base_):
        def run(self, value: Any) -> Any:
            return super().run(value) + y

    scale = 4
    return Derived_().run(x), Derived_.__mro__[1] is Base_


@program(in_all=3, reason="__subclasses__() of the base would tell of the template")
def a_class_in_the_frame_over_one_outside(x: Tensor, y: Tensor) -> Any:
    class Shifted(Point):
        def shifted(self, by: Any) -> Any:
            return super().shifted(by * 2)

    return Shifted(x).shifted(1).x, isinstance(Shifted(1), Point), Shifted(2) == Shifted(2)


@program
def a_class_made_by_type(x: Tensor, y: Tensor) -> Any:
    made = type("Made", (), {"factor": 2, "run": lambda self, v: v * self.factor})
    return made().run(x), made.__name__


@program
def a_dataclass_in_the_frame(x: Tensor, y: Tensor) -> Any:
    @dataclasses.dataclass
    class Local:
        a: Any
        b: int = 2

    return Local(x).a * Local(y).b, Local(1) == Local(1), repr(Local(1))


@program
def a_named_tuple_made_in_the_frame(x: Tensor, y: Tensor) -> Any:
    Local = collections.namedtuple("Local", "a b")  # noqa: PYI024
    box = Local(x, b=2)
    return box.a * box.b, box._fields, len(box)


@program
def an_exception_class_in_the_frame(x: Tensor, y: Tensor) -> Any:
    class Stop(Exception):
        pass

    found = []
    try:
        for row in x:
            found.append(row * 2)
            if len(found) == 2:
                raise Stop("enough")
    except Stop as stop:
        found.append(str(stop))
    return found


@program(peer=0)
def a_simple_namespace(x: Tensor, y: Tensor) -> Any:
    space = types.SimpleNamespace(a=x, n=1)
    space.b = y
    space.n += 1
    del space.a
    return space.b * space.n, hasattr(space, "a"), vars(space).keys()


# -- classes of the frame that leave it --------------------------------------------------------------------


@program
def a_class_of_the_frame_is_returned(x: Tensor, y: Tensor) -> Any:
    scale = 2.0

    class Scaler:
        limit = 3

        def __init__(self, value: Any) -> None:
            self.value = value

        def run(self) -> Any:
            return self.value * scale

        @property
        def doubled(self) -> Any:
            return self.value * 2

        @classmethod
        def make(cls, value: Any) -> Any:
            return cls(value)

        @staticmethod
        def one() -> int:
            return 1

    box = Scaler.make(x)
    return box.run(), box, Scaler.__name__, Scaler.one(), box.doubled, vars(box), type(box) is Scaler


@program(state=("LOCALS",), in_all=2)  # the first call finds it empty
def classes_of_the_frame_are_new_in_each_call(x: Tensor, y: Tensor) -> Any:
    class Local:
        def __eq__(self, other: Any) -> bool:
            return type(self) is type(other)

        def __hash__(self) -> int:
            return 1

    LOCALS.append(Local())
    first, last = LOCALS[0], LOCALS[-1]
    del LOCALS[1:]
    return len(LOCALS), first is last or first == last, x + 1


LOCALS: list[Any] = []


@program
def super_in_a_class_that_is_returned(x: Tensor, y: Tensor) -> Any:
    class First:
        def run(self, value: Any) -> Any:
            return value + y

    class Second(First):
        def run(self, value: Any) -> Any:
            return super().run(value) * 2

        def kind(self) -> Any:
            return __class__.__name__  # noqa: F821

    second = Second()
    return second.run(x), second.kind(), [cls.__name__ for cls in Second.__mro__], second, Second


@program
def a_dataclass_of_the_frame_is_returned(x: Tensor, y: Tensor) -> Any:
    @dataclasses.dataclass(order=True)
    class Local:
        rank: int
        name: str = "n"
        rows: list[Any] = dataclasses.field(default_factory=list, compare=False)

        def doubled(self) -> int:
            return self.rank * 2

    one, two = Local(1), Local(2, "m", [x])
    one.rows.append(y)
    return one, two, one < two, repr(Local(3)), x * two.doubled(), dataclasses.astuple(Local(4))


@program
def named_tuples_of_the_frame_are_returned(x: Tensor, y: Tensor) -> Any:
    Local = collections.namedtuple("Local", ["a", "b"], defaults=(7,))  # noqa: PYI024
    box = Local(x + 1)
    return box, box._replace(a=y), Local._fields, box._asdict(), Local.__module__, Local._make([1, 2]), box.b


@program(peer=0)
def class_attributes_of_a_class_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Counter:
        count = 0
        names: list[str] = []  # noqa: RUF012

        def __init__(self, name: str) -> None:
            type(self).count += 1
            self.names.append(name)
            self.index = Counter.count

    boxes = [Counter("a"), Counter("b")]
    Counter.label = "l"
    return (
        [box.index for box in boxes],
        Counter.count,
        Counter.names,
        boxes[0].label,
        boxes[1],
        x * boxes[1].count,
    )


@program
def class_bodies_are_code(x: Tensor, y: Tensor) -> Any:
    n = 2

    class Body:
        rows = [n * i for i in range(3)]  # noqa: RUF012
        n = n + 1 if (n := 5) else 0
        if n > 5:
            kind = "large"
        else:
            kind = "small"
        for i in range(2):
            last = i
        del i

        def read(self) -> Any:
            return n, self.n

        double = lambda self, v: v * self.n  # noqa: E731
        plus = torch_add

    body = Body()
    return (
        body.rows,
        Body.n,
        Body.kind,
        Body.last,
        body.read(),
        body.double(x),
        hasattr(Body, "i"),
        Body.plus is torch_add,
    )


def torch_add(self: Any, a: Any) -> Any:
    return a + 1


@program
def nested_and_abstract_classes_of_the_frame(x: Tensor, y: Tensor) -> Any:
    class Shape(abc.ABC):
        class Meta:
            units = "cm"

        @abc.abstractmethod
        def area(self) -> Any: ...

    class Square(Shape):
        def __init__(self, side: Any) -> None:
            self.side = side

        def area(self) -> Any:
            return self.side * self.side

    return Square(x).area(), Square.Meta.units, isinstance(Square(1), Shape), issubclass(Square, Shape)


@program(peer=2, graphs=2, in_all=2, reason="the class has a metaclass, and is another one in each call")
def an_enum_in_the_frame(x: Tensor, y: Tensor) -> Any:
    z = x + 1

    class Local(enum.Enum):
        A = 1

    return Local.A.name, Local(1) is Local.A, z * Local.A.value


@program(peer=0)
def an_exception_class_of_the_frame_is_caught_outside_a_function(x: Tensor, y: Tensor) -> Any:
    class Stop(ValueError):
        def __init__(self, value: Any) -> None:
            super().__init__("stop", value)
            self.value = value

    def run() -> Any:
        raise Stop(3)

    try:
        run()
    except ValueError as error:
        return error.args, error.value, isinstance(error, Stop), x * error.value


@program(peer=2, graphs=2, in_all=3, reason="print() between")
def a_class_of_the_frame_over_a_break(x: Tensor, y: Tensor) -> Any:
    class Local:
        def __init__(self, value: Any) -> None:
            self.value = value

        def run(self) -> Any:
            return self.value + y

    box = Local(x + 1)
    print("between")
    return box.run() * 2, type(box) is Local
