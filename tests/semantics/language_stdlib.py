"""Small programs about the pure parts of the standard library: math, copy, enum, types, typing, inspect, numbers."""

from __future__ import annotations

import cmath
import collections.abc
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import math
import numbers
import os.path
import statistics
import types
import typing
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from tests.semantics.language_lists import failures
from tests.semantics.language_table import program


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    CRIMSON = 1

    @property
    def short(self) -> str:
        return self.name[0]

    @classmethod
    def first(cls) -> Color:
        return cls.RED


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Mode(str, enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


class Kept:
    """Says how it is copied."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __copy__(self) -> Kept:
        return Kept(("copied", self.value))

    def __deepcopy__(self, memo: Any) -> Kept:
        return Kept(("deep", copy.deepcopy(self.value, memo)))


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.parts = [value]


class Position(NamedTuple):
    row: int
    column: int = 0

    def moved(self, by: int) -> Position:
        return self._replace(row=self.row + by)


@dataclasses.dataclass
class Options:
    size: int
    names: list[str] = dataclasses.field(default_factory=list)
    nested: Any = None


class Sized(typing.Protocol):
    size: int


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


def annotated(a: int, b: str = "x", *rest: float, key: Optional[int] = None, **more: Any) -> list[int]:  # noqa: UP045
    return []


@program
def mathematics(x: Tensor, y: Tensor) -> Any:
    return (
        math.sqrt(2),
        math.floor(2.7),
        math.ceil(2.1),
        math.trunc(-2.7),
        math.gcd(12, 18),
        math.lcm(4, 6),
        math.factorial(5),
        math.comb(5, 2),
        math.perm(5, 2),
        math.prod([1, 2, 3]),
        math.prod((2, 3), start=2),
        math.fsum([0.1] * 10),
        math.log(8, 2),
        math.log2(8),
        math.log10(100),
        math.log1p(0.5),
        math.exp(1),
        math.pow(2, 3),
        math.isqrt(17),
        math.hypot(3, 4),
        math.dist((0, 0), (3, 4)),
        math.fabs(-1),
        math.fmod(7, 3),
        math.modf(1.5),
        math.frexp(8.0),
        math.ldexp(0.5, 3),
        math.copysign(1, -0.0),
        x + 1,
    )


@program
def more_mathematics(x: Tensor, y: Tensor) -> Any:
    return (
        math.sin(1),
        math.cos(1),
        math.tan(1),
        math.asin(1),
        math.acos(1),
        math.atan(1),
        math.atan2(1, 2),
        math.sinh(1),
        math.cosh(1),
        math.tanh(1),
        math.degrees(math.pi),
        math.radians(180),
        math.erf(0.5),
        math.gamma(5),
        math.lgamma(3),
        math.isclose(0.1 + 0.2, 0.3),
        math.isnan(math.nan),
        math.isinf(-math.inf),
        math.isfinite(1),
        math.nextafter(1, 2),
        math.ulp(1),
        math.remainder(7, 4),
        math.expm1(1),
        math.e,
        math.tau,
        cmath.sqrt(-1),
        failures(
            lambda: math.sqrt(-1),
            lambda: math.log(0),
            lambda: math.factorial(-1),
            lambda: math.sqrt("a"),
            lambda: math.exp(1000),
        ),
        x * math.pi,
    )  # type: ignore


@program
def sizes_by_mathematics(x: Tensor, y: Tensor) -> Any:
    rows, columns = x.shape
    return (
        x / math.sqrt(columns),
        math.ceil(rows / 2),
        math.prod(x.shape),
        math.log2(columns),
        math.floor(columns * 0.7),
        2 ** math.ceil(math.log2(rows)),
        x.reshape(math.prod(x.shape)) + 1,
    )


@program
def copies(x: Tensor, y: Tensor) -> Any:
    rows = [[1], x]
    table = {"a": rows}
    shallow, deep = copy.copy(rows), copy.deepcopy({"a": [1, (2, [3])]})
    rows[0].append(2)  # type: ignore[union-attr]
    return (
        shallow,
        shallow[0] is rows[0],
        shallow[1] is x,
        deep,
        copy.copy(table)["a"] is rows,
        copy.copy({1}),
        copy.copy((1, x)),
        copy.copy("a"),
        copy.copy(1),
        copy.copy(len) is len,
        x + 1,
    )


@program(peer=0)
def copies_of_objects(x: Tensor, y: Tensor) -> Any:
    plain = Plain([x])
    shallow = copy.copy(plain)
    deep = copy.deepcopy(Plain([1]))
    kept = copy.copy(Kept(1)), copy.deepcopy(Kept([2]))
    return (
        shallow is plain,
        shallow.parts is plain.parts,
        shallow.value[0] is x,
        deep,
        kept,
        copy.copy(Position(1, 2)),
        copy.deepcopy(Options(1, ["a"])),
        copy.copy(Color.RED) is Color.RED,
        copy.deepcopy(Color.RED) is Color.RED,
        x + 1,
    )


@program
def copies_keep_aliases_and_cycles(x: Tensor, y: Tensor) -> Any:
    inner = [1]
    pair = [inner, inner]
    copied = copy.deepcopy(pair)
    copied[0].append(2)
    loop: list[Any] = []
    loop.append(loop)
    again = copy.deepcopy(loop)
    return copied, copied[0] is copied[1], inner, again[0] is again, x + 1


@program(peer=0)
def copies_of_kin_of_containers(x: Tensor, y: Tensor) -> Any:
    deque = collections.deque([1, [2]], maxlen=4)
    groups = collections.defaultdict(list, a=[1])
    counted = collections.Counter("aab")
    ordered = collections.OrderedDict(a=[1])
    return (
        copy.copy(deque),
        copy.deepcopy(deque),
        copy.copy(groups),
        copy.deepcopy(groups),
        copy.copy(counted),
        copy.deepcopy(counted),
        copy.copy(ordered),
        copy.deepcopy(ordered),
        copy.deepcopy({1, 2}),
        copy.deepcopy(frozenset({1})),
        copy.deepcopy(Position(1)),
        x + 1,
    )


@program(graphs=3, peer=3, reason="copy.deepcopy() of a tensor of shape (3, 4)")
def copies_of_tensors(x: Tensor, y: Tensor) -> Any:
    copied = copy.deepcopy(x)
    copied += 1
    both = copy.deepcopy([y, y])
    return copied, both, both[0] is both[1], copy.copy(y) is y, copy.deepcopy(x.detach()) + 1


@program
def enum_members(x: Tensor, y: Tensor) -> Any:
    color = Color.RED
    return (
        color,
        color.name,
        color.value,
        Color["GREEN"],
        Color("g"),
        Color.CRIMSON is Color.RED,
        list(Color),
        len(Color),
        color in Color,
        color.short,
        Color.first(),
        isinstance(color, Color),
        color == Color.GREEN,
        {Color.RED: 1}[Color.CRIMSON],
        repr(color),
        str(color),
        f"{color}",
        list(Color.__members__),
        x + 1,
    )


@program(peer=0, reason="attribute 'NOPE' comes from the metaclass of class Color")
def errors_of_enums(x: Tensor, y: Tensor) -> Any:
    return failures(lambda: Color(9), lambda: Color["NOPE"], lambda: Color.NOPE), x + 1  # type: ignore[attr-defined]


@program(in_all=2)
def flags_and_their_operators(x: Tensor, y: Tensor) -> Any:
    both = Access.READ | Access.WRITE
    return (
        both is Access.BOTH,
        Access.READ in both,
        both & Access.READ,
        ~Access.READ,
        bool(Access.READ & Access.WRITE),
        both.value,
        Access(2),
        Access.READ ^ Access.BOTH,
        x + 1,
    )


@program
def enums_of_numbers_and_strings(x: Tensor, y: Tensor) -> Any:
    level, mode = Level.HIGH, Mode("train")
    return (
        level + 1,
        level > Level.LOW,
        max(Level),
        x * level,
        [0] * Level.LOW,
        int(level),
        sorted([Level.HIGH, Level.LOW]),
        mode == "train",
        mode.upper(),
        {"train": 1}[mode],
        f"{mode.value}",
        mode is Mode.TRAIN,
        level == 10,
        range(3)[Level.LOW],
        x + 1,
    )


@program(in_all=6, reason="class Enum is called")
def enums_made_inside(x: Tensor, y: Tensor) -> Any:
    made = enum.Enum("Made", "A B")
    return made.A.value, [m.name for m in made], x + 1  # type: ignore[attr-defined]


@program
def methods_of_named_tuples(x: Tensor, y: Tensor) -> Any:
    place = Position(1)
    row, column = place
    return (
        place,
        row,
        column,
        place.row,
        place[1],
        place.moved(2),
        place._asdict(),
        Position._fields,
        Position._make([5, 6]),
        place == (1, 0),
        Position(row=2, column=x).column is x,
        place._replace(column=9),
        Position._field_defaults,
        isinstance(place, tuple),
        repr(place),
        len(place),
        x + place.row,
    )


@program
def named_tuples_made_inside(x: Tensor, y: Tensor) -> Any:
    pair = collections.namedtuple("pair", "a b")
    one = pair(1, b=x)
    return one.a, one.b + 1, one._fields


@program
def namespaces_and_methods_of_types(x: Tensor, y: Tensor) -> Any:
    space = types.SimpleNamespace(a=1, b=x)
    space.c = 2
    bound = types.MethodType(lambda self, by: self.a + by, space)
    return (
        space.a,
        space.b + 1,
        bound(3),
        vars(space)["c"],
        space == types.SimpleNamespace(a=1, b=x, c=2),
        types.SimpleNamespace(a=1),
        isinstance(len, types.BuiltinFunctionType),
        isinstance(lambda: 0, types.FunctionType),
        types.FunctionType is type(failures),
    )


@program(reason="subscripting class list")
def generic_aliases(x: Tensor, y: Tensor) -> Any:
    return list[int]([1, 2]), dict[str, int](a=1), Box[int](3).item, isinstance(Box(1), Box), x + 1


@program(reason="attribute '__dict__' of module builtins is not modelled")
def typing_at_run_time(x: Tensor, y: Tensor) -> Any:
    count = typing.cast(int, 3)
    hints = typing.get_type_hints(Position)
    return (
        count,
        typing.cast("Tensor", x) is x,
        typing.TYPE_CHECKING,
        hints["row"] is int,
        typing.get_origin(list[int]) is list,
        typing.get_args(dict[str, int]),
        typing.assert_type(1, int),
        x + 1,
    )


@program
def annotations_of_variables(x: Tensor, y: Tensor) -> Any:
    size: int = 3
    names: "list[str]"
    names = ["a"]
    kind: Union[int, None] = None  # noqa: UP007
    return size, names, kind, x + size


@program
def signatures(x: Tensor, y: Tensor) -> Any:
    found = inspect.signature(annotated)
    parameter = found.parameters["key"]
    return (
        list(found.parameters),
        parameter.default,
        parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        "b" in found.parameters,
        len(inspect.signature(Plain.__init__).parameters),
        x + 1,
    )


@program
def questions_to_inspect(x: Tensor, y: Tensor) -> Any:
    return (
        inspect.isfunction(annotated),
        inspect.isclass(Plain),
        inspect.ismethod(Plain(1).__init__),
        inspect.isbuiltin(len),
        inspect.isgeneratorfunction(annotated),
        callable(Plain),
        annotated.__name__,
        annotated.__defaults__,
        annotated.__kwdefaults__,
        annotated.__code__.co_argcount,
        x + 1,
    )


@program
def abstract_classes_of_containers(x: Tensor, y: Tensor) -> Any:
    abcs = collections.abc
    return (
        isinstance([], abcs.Sequence),
        isinstance({}, abcs.Mapping),
        isinstance({1}, abcs.Set),
        isinstance("a", abcs.Iterable),
        isinstance(len, abcs.Callable),
        isinstance(1, abcs.Hashable),
        isinstance(iter([]), abcs.Iterator),
        isinstance(x, abcs.Iterable),
        isinstance(1, numbers.Number),
        isinstance(True, numbers.Integral),
        isinstance((), abcs.Sized),
        isinstance([], abcs.MutableMapping),
        issubclass(dict, abcs.MutableMapping),
        isinstance(collections.deque(), abcs.MutableSequence),
        isinstance({}.keys(), abcs.KeysView),
        x + 1,
    )


@program
def fractions_of_numbers(x: Tensor, y: Tensor) -> Any:
    half = fractions.Fraction(1, 2)
    return float(half + fractions.Fraction(1, 3)), half.numerator, half == 0.5, x * float(half)


@program(graphs=1, peer=0, reason="class Decimal is instantiated by C code")
def decimals(x: Tensor, y: Tensor) -> Any:
    price = decimal.Decimal("1.10") + decimal.Decimal("2.20")
    return str(price), float(price), price == decimal.Decimal("3.30"), x * float(price)


@program(peer=0, reason="class date is instantiated by C code")
def dates(x: Tensor, y: Tensor) -> Any:
    day = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    return (
        day.isoformat(),
        day.weekday(),
        (day - datetime.date(2024, 1, 1)).days,
        datetime.timedelta(hours=1).total_seconds(),
        x + day.month,
    )


@program
def paths_of_constants(x: Tensor, y: Tensor) -> Any:
    path = os.path.join("a", "b.txt")
    return (
        os.path.basename(path),
        os.path.splitext(path)[1],
        os.path.dirname(path),
        x + 1,
    )


@program
def statistics_of_constants(x: Tensor, y: Tensor) -> Any:
    return statistics.mean([1, 2, 3]), statistics.median([3, 1, 2]), x * statistics.mean([2, 4])


@program
def dtypes_devices_and_sizes(x: Tensor, y: Tensor) -> Any:
    return (
        x.dtype == torch.float32,
        x.dtype.is_floating_point,
        torch.finfo(x.dtype).eps,
        torch.iinfo(torch.int8).max,
        str(x.device),
        x.device.type,
        torch.device("cpu") == x.device,
        {torch.float32: "f"}[x.dtype],
        torch.Size([1, 2]),
        x.shape[:1] + (5,),
        torch.Size((3,)) == (3,),
        x.to(torch.float64) + 1,
    )


@program
def suppressing_and_nulls(x: Tensor, y: Tensor) -> Any:
    with contextlib.suppress(KeyError):
        {}["a"]
    with contextlib.nullcontext(3) as three:
        pass
    return three, x + 1


@program
def comparing_by_partial_methods(x: Tensor, y: Tensor) -> Any:
    table = {"double": functools.partial(torch.mul, other=2), "shift": functools.partial(torch.add, y)}
    return {name: fn(x) for name, fn in table.items()}
