"""Small programs in plain Python, each of which has to become one graph."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.semantics.language_table import program, tensors

# Functions: calls, arguments, closures, wrappers.


def scaled(x: Tensor, scale: float = 2.0, *, offset: float = 0.0) -> Tensor:
    return x * scale + offset


def gather(*args: Tensor, **named: Tensor) -> tuple[int, list[str], Tensor]:
    return len(args), sorted(named), sum(args, start=torch.zeros(())) + sum(named.values())


@program
def call_a_function(x: Tensor, y: Tensor) -> Tensor:
    return scaled(x) + scaled(y, 3.0) + scaled(x, offset=1.0) + scaled(scale=4.0, x=y)


@program
def star_arguments(x: Tensor, y: Tensor) -> Any:
    args, named = [x, y], {"a": x, "b": y}
    return gather(*args, **named), gather(x, *args[1:], c=x), gather(**{"z": y})


@program(arguments=lambda: (*tensors(), 3, 4))
def own_star_arguments(x: Tensor, *rest: Any, **named: Any) -> Any:
    y, first, second = rest
    return x * first + y * second, len(rest), named


@program
def a_closure(x: Tensor, y: Tensor) -> Tensor:
    scale = 3

    def inner(z: Tensor) -> Tensor:
        return z * scale + y

    scale = 4
    return inner(x)


@program
def a_closure_that_writes(x: Tensor, y: Tensor) -> tuple[Tensor, int]:
    count = 0

    def inner(z: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return z + count

    return inner(inner(x)), count


@program
def a_lambda_and_map(x: Tensor, y: Tensor) -> list[Tensor]:
    return list(map(lambda a: a * 2, [x, y])) + list(filter(lambda a: a.dim() == 1, [x, y]))


@program
def recursion(x: Tensor, y: Tensor) -> Tensor:
    def power(z: Tensor, n: int) -> Tensor:
        return z if n == 1 else z * power(z, n - 1)

    return power(x, 5)


def doubling(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Tensor:
        return fn(*args, **kwargs) * 2

    return wrapper


@doubling
def decorated(x: Tensor, offset: float = 1.0) -> Tensor:
    return x + offset


@program
def a_wrapped_function(x: Tensor, y: Tensor) -> tuple[Tensor, str]:
    return decorated(x, offset=2.0), decorated.__name__


@program
def a_partial(x: Tensor, y: Tensor) -> Tensor:
    triple = functools.partial(scaled, scale=3.0)
    return triple(x) + functools.partial(triple, y, offset=2.0)()


@program(arguments=lambda: (functools.partial(scaled, scale=5.0), *tensors()))
def a_partial_argument(fn: Any, x: Tensor, y: Tensor) -> Tensor:
    return fn(x) + y


@program
def a_reduce(x: Tensor, y: Tensor) -> Tensor:
    return functools.reduce(operator.add, [x, y, x])


@functools.lru_cache
def table(n: int) -> tuple[int, ...]:
    return tuple(range(n))


@program
def early_returns(x: Tensor, y: Tensor) -> Tensor:
    for index in range(10):
        if index == 3:
            return x + index
    return y


# Objects: methods, properties, descriptors, dataclasses, named tuples, enums.


class Base:
    scale = 3.0

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def apply(self, x: Tensor) -> Tensor:
        return x * self.scale + self.offset

    @property
    def total(self) -> float:
        return self.scale + self.offset

    @staticmethod
    def halve(x: Tensor) -> Tensor:
        return x / 2

    @classmethod
    def rescale(cls, x: Tensor) -> Tensor:
        return x * cls.scale

    def __call__(self, x: Tensor) -> Tensor:
        return self.apply(x)

    def __getitem__(self, index: int) -> float:
        return self.offset + index

    def __len__(self) -> int:
        return 5

    def __add__(self, other: float) -> Base:
        return Base(self.offset + other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Base) and other.offset == self.offset

    def __contains__(self, item: float) -> bool:
        return item == self.offset

    def __iter__(self) -> Iterator[float]:
        return iter([self.offset, self.scale])


class Derived(Base):
    scale = 5.0

    def apply(self, x: Tensor) -> Tensor:
        return super().apply(x) - 1


@program(arguments=lambda: (Derived(1.0), *tensors()))
def methods(thing: Base, x: Tensor, y: Tensor) -> Any:
    bound = thing.apply
    return (
        thing.apply(x),
        bound(y),
        Base.apply(thing, x),
        thing.halve(x),
        thing.rescale(y),
        thing(x),
        thing.total * x,
    )


@program(arguments=lambda: (Derived(1.0), *tensors()))
def operators_of_an_object(thing: Base, x: Tensor, y: Tensor) -> Any:
    first, second = thing
    other = thing + 2.0
    return (
        x * thing[2] + len(thing),
        x * other.offset,
        thing == Base(1.0),
        1.0 in thing,
        first * x + second * y,
    )


@program
def an_object_made_inside(x: Tensor, y: Tensor) -> tuple[Tensor, Derived]:
    thing = Derived(2.0)
    thing.offset += 1
    thing.extra = y * 2
    return thing(x), thing


class Lazy:
    def __init__(self) -> None:
        self.known = {"a": 2}

    def __getattr__(self, name: str) -> int:
        try:
            return self.__dict__["known"][name]
        except KeyError:
            raise AttributeError(name) from None


@program(arguments=lambda: (Lazy(), *tensors()))
def getattr_methods(lazy: Lazy, x: Tensor, y: Tensor) -> Any:
    return x * lazy.a, hasattr(lazy, "b"), getattr(lazy, "b", 7) * y


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value


@program
def slots(x: Tensor, y: Tensor) -> Tensor:
    thing = Slotted(x)
    thing.value = thing.value + y
    return thing.value * 2


@dataclasses.dataclass
class Pair:
    left: Tensor
    right: Tensor
    scale: float = 2.0
    notes: list[str] = dataclasses.field(default_factory=list)

    def combined(self) -> Tensor:
        return self.left * self.scale + self.right


@program
def dataclass_made_inside(x: Tensor, y: Tensor) -> Any:
    pair = Pair(x, y)
    pair.notes.append("made")
    other = dataclasses.replace(pair, scale=3.0)
    return pair.combined() + other.combined(), pair


@program(arguments=lambda: (Pair(*tensors()),))
def dataclass_argument(pair: Pair) -> Any:
    return pair.combined(), [field.name for field in dataclasses.fields(pair)]


class Point(NamedTuple):
    a: Tensor
    b: Tensor
    n: int = 3


@program
def named_tuples(x: Tensor, y: Tensor) -> Any:
    point = Point(x, b=y)
    a, b, n = point
    return point, point._replace(n=4), a * n + b, point.a is a, point[1] + 1


class Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@program(arguments=lambda: (*tensors(), Kind.MEAN))
def enums(x: Tensor, y: Tensor, kind: Kind) -> Any:
    if kind is Kind.SUM:
        return x.sum()
    return x.mean(), Kind("sum").name, kind.value, kind == Kind.MEAN


class Output(collections.OrderedDict[str, Any]):
    """Dict-like, with its items as attributes, like the outputs of model libraries."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self)


@dataclasses.dataclass
class ModelOutput(Output):
    logits: Tensor | None = None
    loss: Tensor | None = None


@program
def dict_like_output(x: Tensor, y: Tensor) -> Any:
    output = ModelOutput(logits=x * y)
    return output, output["logits"] + 1, output.logits + 2, output.to_tuple(), "loss" in output


@program
def type_tests(x: Tensor, y: Tensor) -> Any:
    return (
        isinstance(x, Tensor),
        type(x) is Tensor,
        isinstance(3, int | str),
        issubclass(Derived, Base),
        callable(x),
        x + 1,
    )


# Modules.


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("offset", torch.ones(width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return self.dropout(self.norm(F.gelu(self.linear(x)))) * scale + self.offset


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A module with weights from a fixed seed."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def hooked() -> nn.Module:
    """A block with forward hooks of every kind."""
    block = seeded(Block)
    block.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    block.register_forward_hook(lambda module, args, output: output + args[0])
    block.linear.register_forward_hook(  # type: ignore[union-attr, operator]
        lambda module, args, kwargs, output: output * 3, with_kwargs=True
    )
    block.register_forward_pre_hook(lambda module, args, kwargs: (args, {"scale": 5.0}), with_kwargs=True)
    return block


@program(arguments=lambda: (seeded(Block), *tensors()))
def a_module(block: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return block(x) + block(y, scale=2.0)


@program(arguments=lambda: (hooked(), *tensors()), in_all=4)  # other hooks each time
def a_module_with_hooks(block: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return block(x)


@program(arguments=lambda: (seeded(lambda: nn.Sequential(Block(), nn.ReLU(), Block())), *tensors()))
def a_sequential(model: nn.Sequential, x: Tensor, y: Tensor) -> Any:
    return model(x), model[0](y), len(model), [type(child).__name__ for child in model]


@program(arguments=lambda: (seeded(lambda: nn.ModuleList([Block(), Block()])), *tensors()))
def a_module_list(layers: nn.ModuleList, x: Tensor, y: Tensor) -> Any:
    for index, layer in enumerate(layers):
        x = layer(x) + index
    return x, layers[-1](y)


@program(arguments=lambda: (seeded(lambda: nn.ModuleDict({"a": Block(), "b": nn.Tanh()})), *tensors()))
def a_module_dict(layers: nn.ModuleDict, x: Tensor, y: Tensor) -> Any:
    return layers["a"](x), "b" in layers, [layer(y) for layer in layers.values()], list(layers.keys())


@program(arguments=lambda: (seeded(lambda: nn.ParameterList([torch.ones(4), torch.zeros(4)])), *tensors()))
def a_parameter_list(parameters: nn.ParameterList, x: Tensor, y: Tensor) -> Tensor:
    return x * parameters[0] + parameters[1]


@program(arguments=lambda: (seeded(Block), *tensors()))
def parameters_walked(block: nn.Module, x: Tensor, y: Tensor) -> Any:
    total = sum(p.pow(2).sum() for p in block.parameters())
    names = [name for name, _ in block.named_parameters()]
    return (
        total,
        names,
        next(block.parameters()).dtype,
        block.training,
        block.get_submodule("linear").out_features,
    )


@program(arguments=lambda: (nn.BatchNorm1d(4), *tensors()))
def batch_norm_in_training(norm: nn.BatchNorm1d, x: Tensor, y: Tensor) -> Any:
    return norm(x), norm.num_batches_tracked


@program(arguments=lambda: (seeded(lambda: nn.MultiheadAttention(4, 2, batch_first=True)), *tensors()))
def attention(layer: nn.MultiheadAttention, x: Tensor, y: Tensor) -> Any:
    z = x.unsqueeze(0)
    return layer(z, z, z, need_weights=False)[0]


@program(
    peer=0, arguments=lambda: (seeded(lambda: nn.LSTM(4, 5, batch_first=True)), *tensors()), in_all=4
)  # other weights
def lstm(layer: nn.LSTM, x: Tensor, y: Tensor) -> Any:
    return layer(x.unsqueeze(0))


# Control flow, comprehensions, generators.


@program
def comprehensions(x: Tensor, y: Tensor) -> Any:
    rows = [row * index for index, row in enumerate(x) if index != 1]
    by_name = {f"row{index}": row for index, row in zip(range(2), x, strict=False)}
    nested = [[a + b for a in range(2)] for b in range(2)]
    return rows, by_name, nested, {n % 2 for n in range(5)}, sum(row.sum() for row in rows)


@program
def generators(x: Tensor, y: Tensor) -> Any:
    def rows() -> Iterator[Tensor]:
        for index in range(3):
            yield x[index] * 2
        yield from (y, y + 1)

    total = torch.zeros(4)
    for row in rows():
        total = total + row
    first, *rest = rows()
    return total, first, len(rest), max(len(row) for row in rows())


@program
def loops(x: Tensor, y: Tensor) -> Any:
    seen = []
    n = 0
    while True:
        n += 1
        if n % 2:
            continue
        if n > 6:
            break
        seen.append(n)
    else:
        seen.append(-1)
    for _ in range(2):
        x = x + n
    else:
        seen.append(100)
    return x, seen


@program
def iteration_tools(x: Tensor, y: Tensor) -> Any:
    pairs = list(itertools.product([1, 2], [3]))
    chained = [a for a in itertools.chain([x], [y])]
    counted = list(itertools.islice(itertools.count(2), 3))
    return (
        pairs,
        chained[0] + chained[1],
        counted,
        list(reversed([1, 2])),
        sorted([3, 1, 2], key=lambda n: -n),
        any([0, 1]),
        all([]),
    )


@program
def unpacking(x: Tensor, y: Tensor) -> Any:
    a, (b, *c), *d = 1, (x, 2, 3), y, 4
    rows = (*x, y)
    merged = {**{"a": a}, "b": b, **{"c": c}}
    p, q = x[0], x[1]
    p, q = q, p
    return merged, d, [*rows], p - q


@program
def conditional_expressions(x: Tensor, y: Tensor) -> Any:
    n = x.shape[0]
    z = x if n > 2 and not n > 5 else y
    w = None or z
    return w + (1 if w.dim() == 2 else 2), 1 < n <= 3, n != 3, x is not None


@program
def walrus_and_match(x: Tensor, y: Tensor) -> Any:
    if (n := x.shape[1]) > 3:
        x = x * n
    match x.shape:
        case (3, width):
            x = x + width
        case _:
            x = x - 1
    match {"kind": "sum", "n": 2}:
        case {"kind": "sum", "n": int(count), **rest}:
            x = x + count + len(rest)
    return x


@program
def exceptions_inside(x: Tensor, y: Tensor) -> Any:
    log = []
    try:
        log.append("try")
        {}["missing"]
    except (IndexError, KeyError) as error:
        log.append(repr(error))
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        raise ValueError("no") from None
    except ValueError as error:
        x = x + len(str(error))
    return x, log


# Strings.


@program
def f_strings(x: Tensor, y: Tensor) -> Any:
    n, name, ratio = x.shape[0], "width", 1 / 3
    return (
        x + len(f"{name}={n}"),
        f"{name!r:>10} {ratio:.3f} {n:03d} {n=} {x.dtype}",
        "%s-%d" % (name, n),
        "{}:{k}".format(n, k=2),
    )  # noqa: UP031, UP032


@program
def string_methods(x: Tensor, y: Tensor) -> Any:
    parts = "a.b.c".split(".")
    return (
        x * len(parts),
        ".".join(reversed(parts)),
        "Abc".lower().startswith("ab"),
        "b" in "abc",
        "x" * 3,
        parts[-1].upper(),
    )


# Modes.


@program(arguments=lambda: (tensors()[0].requires_grad_(), tensors()[1]))
def grad_modes(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        enabled = torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        c = x * 4
    return a.requires_grad, b.requires_grad, c.requires_grad, enabled, torch.is_grad_enabled(), a + b + c


@torch.no_grad()
def under_no_grad(x: Tensor) -> Tensor:
    return x * 2


@program(arguments=lambda: (tensors()[0].requires_grad_(), tensors()[1]))
def grad_mode_decorator(x: Tensor, y: Tensor) -> Any:
    z = under_no_grad(x)
    return z, z.requires_grad, (x * y).requires_grad


@program
def autocast(x: Tensor, y: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            w = x @ x.t()
    return z, w, z.dtype, x @ x.t()


@contextmanager
def scaling(factor: float) -> Iterator[float]:
    yield factor * 2


class Guarded:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> Guarded:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        self.log.append("exit" if kind is None else kind.__name__)
        return True


@program
def context_managers(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []
    with scaling(3.0) as factor, nullcontext(y) as same:
        x = x * factor + same
    with Guarded(log) as guarded:
        x = x + 1
    with guarded:
        raise KeyError("suppressed")
    return x, log


# Shapes, indexing and numbers.


@program
def slices(x: Tensor, y: Tensor) -> Any:
    middle = slice(1, 3)
    return (
        x[1:],
        x[:, ::2],
        x[..., -1],
        x[None, 0, middle],
        x[x.shape[0] // 2 :],
        x[[0, 2]],
        x[torch.tensor([2, 0])],
        y[-2:],
    )


@program
def shape_arithmetic(x: Tensor, y: Tensor) -> Any:
    rows, columns = x.shape
    batch, *rest = x.unsqueeze(0).size()
    flat = x.view(rows * columns)
    return (
        flat.reshape(-1, columns // 2),
        x.view(*rest[:-1], 2, -1),
        torch.zeros(rows, max(rows, columns)) + math.sqrt(columns),
        x.new_empty(0, rows).shape,
        x.shape[:-1] + (7,),
        x.numel() // batch,
        tuple(x.shape) == (3, 4),
        x.size(dim=-1) ** -0.5 * y,
        torch.Size([1, 2]).numel(),
    )


@program
def item_stores(x: Tensor, y: Tensor) -> Any:
    x = x.clone()
    x[0] = 5
    x[:, 1] = y[:3]
    x[1, 2] += 3
    x *= 2
    x -= y
    return x


@program
def numbers(x: Tensor, y: Tensor) -> Any:
    a = divmod(17, 5)
    b = (
        round(2.567, 1),
        abs(-3),
        min(4, 2),
        max([1, 5]),
        sum([1, 2]),
        pow(2, 5),
        int("7"),
        float("0.5"),
        bool([]),
    )
    c = 7 // 2, 7 % 3, -7 // 2, 2**-1, 5 & 3, 5 | 8, 5 ^ 1, ~5, 1 << 4, 7 / 2
    d = math.ceil(2.1), math.pi, math.prod([2, 3]), math.inf, math.log2(8)
    return a, b, c, d, x * a[0] + sum(c)


@program
def operator_functions(x: Tensor, y: Tensor) -> Any:
    return (
        operator.mul(x, 2),
        operator.itemgetter(1)([x, y]),
        operator.attrgetter("shape")(x),
        operator.matmul(x, y),
    )


@program
def tensor_operators(x: Tensor, y: Tensor) -> Any:
    return (
        -x,
        +x,
        abs(x),
        x @ y,
        2 - x,
        2**x,
        x // 2,
        x % 2,
        1 / (x + 1),
        x > y,
        (x > 0) & (x < 1),
        ~(x > 0),
        x.T,
        x == x,
    )


@program
def tensor_methods(x: Tensor, y: Tensor) -> Any:
    values, indices = x.topk(2, dim=-1)
    best = x.max(dim=0)
    return values, indices, best.values, x.chunk(2, dim=1), x.split([1, 3], dim=1), torch.where(x > 1, x, 0.0), x.to(torch.float64), x.masked_fill(x > 1, 0), torch.cat([x, x]), torch.stack([y, y], dim=1), F.softmax(x, dim=-1), torch.einsum("ij,j->i", x, y)  # fmt: skip


@program
def tensors_made_inside(x: Tensor, y: Tensor) -> Any:
    mask = torch.tril(torch.ones(3, 3, dtype=torch.bool))
    return (
        torch.arange(x.shape[0]),
        torch.full((2,), 3.0),
        mask,
        torch.tensor([1.0, 2.0]),
        torch.zeros_like(x),
        x.new_ones(2),
        torch.tensor(3),
        torch.rand(3, generator=None),
    )


@program
def random_numbers(x: Tensor, y: Tensor) -> Any:
    return torch.rand(3) + x[:, 0], F.dropout(x, 0.5), torch.randn_like(y), torch.randint(0, 5, (2,))


@program
def dtypes_and_devices(x: Tensor, y: Tensor) -> Any:
    return (
        x.dtype,
        x.device.type,
        torch.finfo(x.dtype).min,
        x.is_floating_point(),
        torch.float32 == x.dtype,
        torch.zeros(2, device=x.device, dtype=x.dtype),
        x.dtype.itemsize,
    )


# Containers built and changed inside the frame.


@program
def lists(x: Tensor, y: Tensor) -> Any:
    items = [x]
    items.append(y)
    items.insert(0, x + 1)
    items.extend([1, 2])
    last = items.pop()
    items += [last]
    items[3] = "three"
    del items[3]
    other = items
    other.append(x)
    return items, items is other, [1, 2].index(2), len(items), items[::-1], [0] * 3, items[1:2] + [4]


@program
def dicts(x: Tensor, y: Tensor) -> Any:
    table: dict[Any, Any] = {"x": x, 2: y}
    table["sum"] = x + y
    table.update(a=1)
    table.setdefault("list", []).append(x)
    popped = table.pop(2)
    missing = table.get("nothing", 5)
    del table["a"]
    return table, popped, missing, list(table), list(table.items())[0], "x" in table, {**table} | {"n": 1}


@program
def sets(x: Tensor, y: Tensor) -> Any:
    names = {"a", "b"}
    names.add("c")
    names.discard("a")
    return x + len(names), names, names & {"b"}, names | {"z"}, frozenset([1]), "c" in names


@program
def other_containers(x: Tensor, y: Tensor) -> Any:
    queue = collections.deque([x], maxlen=2)
    queue.append(y)
    queue.append(x)
    grouped: collections.defaultdict[str, list[Any]] = collections.defaultdict(list)
    grouped["a"].append(x)
    ordered = collections.OrderedDict(b=1, a=2)
    ordered.move_to_end("b")
    return queue[0] + 1, len(queue), grouped["a"], dict(grouped), ordered, x + 1


@program
def tuples(x: Tensor, y: Tensor) -> Any:
    t = (x, y) + (1,)
    return (
        x + 1,
        t,
        t[0] is x,
        (1, 2, 1).count(1),
        t[-1],
        tuple(v for v in t[:2]),
        (1, 2) < (1, 3),
        zip((1,), (2,), strict=True).__next__(),
    )


@program
def identities(x: Tensor, y: Tensor) -> Any:
    shared = [x]
    z = x + 1
    return shared, shared, z, [z, z], (x, x is shared[0])


@program
def sorting_and_zipping(x: Tensor, y: Tensor) -> Any:
    items = [("b", 2), ("a", 1)]
    items.sort()
    names, values = zip(*items, strict=True)
    return x * values[1], names, dict(items), list(enumerate(names, 1)), dict(zip(names, values, strict=True))
