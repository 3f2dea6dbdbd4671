"""Programs that break in closures, methods and other functions."""

# ruff: noqa: E742, E731, E741, F821, F841, F842, B904, B006, B011, B012, B015, B018, B023, B905, SIM, UP, PIE, RUF
# mypy: ignore-errors

from __future__ import annotations

import functools

import numpy as np
import torch

from framehook import graph_break as brk
from tests.semantics.break_table import Programs

PROGRAMS = Programs()
program = PROGRAMS.program


# -- cells
@program(1)
def cell_modified(x):
    n = 0

    def inc(k):
        nonlocal n
        n += k
        return n

    a = inc(1)
    brk()
    b = inc(2)
    n = n * 10
    brk()
    c = inc(3)
    return x + n, a, b, c


@program(1)
def cell_loop_closures(x):
    fs = []
    for i in range(3):
        fs.append(lambda j=i: x + i + j)
        brk()
    return [f() for f in fs]


@program(2)
def cell_shared(x):
    a = x + 1

    def get():
        return a

    def put(v):
        nonlocal a
        a = v

    brk()
    put(get() * 2)
    brk()
    return a, get() is a


@program(1)
def cell_unbound(x):
    def f():
        return late

    try:
        f()
    except NameError as e:
        s = str(e)
    brk()
    late = x + 1
    return f(), s


@program(1)
def cell_del(x):
    a = x

    def f():
        return a

    brk()
    del a
    brk()
    try:
        f()
    except NameError as e:
        return str(e), x + 1


@program(2)
def cell_arg(x):
    def f():
        nonlocal x
        x = x + 1
        return x

    f()
    brk()
    f()
    return x


@program(2)
def nested_def_after_break(x):
    brk()

    def outer(a):
        brk()

        def inner(b):
            return a + b + x

        return inner

    return outer(x + 1)(2), outer.__qualname__, outer(x).__qualname__


@program(1)
def recursive_closure(x):
    def f(n):
        if n == 0:
            brk()
            return x
        return f(n - 1) * 2

    return f(3)


@program(None)
def class_cell(x):
    class A:
        def f(self, z):
            return z + 1

    class B(A):
        def f(self, z):
            brk()
            z = super().f(z)
            brk()
            return super().f(z) * 2, __class__.__name__

    return B().f(x)


class Base:
    scale = 3

    def f(self, z):
        brk()
        return z * self.scale

    @property
    def prop(self):
        brk()
        return self.scale

    @classmethod
    def make(cls):
        brk()
        return cls()

    @staticmethod
    def st(z):
        brk()
        return z + 1

    def __call__(self, z):
        brk()
        return z - 1

    def __getitem__(self, i):
        brk()
        return i

    def __len__(self):
        brk()
        return 4

    def __bool__(self):
        brk()
        return False

    def __add__(self, o):
        brk()
        return o * 2

    def __radd__(self, o):
        brk()
        return o * 3

    def __eq__(self, o):
        brk()
        return True

    def __hash__(self):
        return 1

    def __contains__(self, o):
        brk()
        return True

    def __iter__(self):
        brk()
        return iter([1, 2])

    def __enter__(self):
        brk()
        return self

    def __exit__(self, *a):
        brk()
        return True

    def __getattr__(self, n):
        if n.startswith("__"):
            raise AttributeError(n)
        brk()
        return "dyn " + n


class Sub(Base):
    scale = 5

    def f(self, z):
        z = super().f(z) + 1
        brk()
        return super().f(z)


@program(4)
def methods(x):
    b = Sub.make()
    return b.f(x), b.prop, b.st(x), b(x), b[3], len(b), bool(b), b.nope


@program(1)
def dunders(x):
    b = Base()
    return b + x, 1 + b, b == 3, 5 in b, list(b), [*b], not b


@program(2)
def with_obj(x):
    with Base() as b:
        y = b(x)
        raise ValueError("gone")
    return y + 1


def deco(fn):
    @functools.wraps(fn)
    def w(*a, **k):
        brk()
        r = fn(*a, **k)
        brk()
        return r

    return w


@deco
def decorated_helper(z, k=2):
    return z * k


@program(3)
def decorated(x):
    return decorated_helper(x + 1), decorated_helper(x, k=brk() or 4), decorated_helper.__name__


@program(2)
def recursion(x):
    def fact(n):
        if n <= 1:
            return x
        r = fact(n - 1) * n
        if n == 3:
            brk()
        return r

    return fact(5)


@program(4)
def partial_break(x):
    return functools.partial(Base.st)(x + 1), functools.reduce(lambda a, b: (brk(), a + b)[1], [x, x, x])


@program(1)
def sort_key(x):
    return sorted([3, 1, 2], key=lambda v: (brk(), -v)[1]), x + 1


@program(2)
def match_stmt(x):
    out = []
    for s in [1, [1, 2, 3], {"k": x}, (x, brk()), "str", Base()]:
        match s:
            case int(n):
                out.append(n + (brk() or 1))
            case [a, *rest] if brk() is None and len(rest) == 2:
                out.append(rest)
            case {"k": v, **o}:
                brk()
                out.append(v + 1)
            case (a, None):
                out.append(a * 2)
            case str():
                brk()
                out.append("s")
            case _:
                out.append("d")
    return out


@program(1)
def last_instruction(x):
    y = x + 1
    return brk()


@program(1)
def last_expr(x):
    y = x * 2
    print("end")


@program(0)
def first_instruction(x):
    brk()
    return x


@program(0)
def only_breaks(x):
    brk()
    brk()
    brk()


@program(0)
def print_everything(x):
    print("a")
    print("b", end="")
    print(x.shape)
    print()
    print(sum([1, 2]))


@program(2)
def args_defaults(x):
    def f(a, b=(brk() or 3), *c, d=(brk() or 5), **e):
        brk()
        return a + b + d + sum(c)

    return f(x), f(x, 1, 2, d=3)


# -- numpy, item, tolist
@program(1)
def numpy_roundtrip(x):
    a = np.asarray(x.numpy()) * 2
    return torch.from_numpy(a) + x, a.shape, float(a.sum())


@program(2)
def numpy_mid(x):
    return x + float(np.sqrt(4.0)) + torch.tensor(np.array([1.0, 2.0, 3.0]), dtype=torch.float32)


@program(None)
def item_arith(x):
    n = int(x.sum().item()) % 3 + 1
    m = x.max().item() * 2
    return x[:n], x * m, n, m, [x] * n, torch.full((n,), m)


@program(None)
def nonzero_len(x):
    i = (x > 1).nonzero()
    return len(i), i.shape, x[x > 1].sum(), x[i[0, 0], i[0, 1]]


@program(None)
def tensor_index(x):
    i = x.sum(1).argmax()
    return x[i], x[int(i)], [10, 20, 30][i]


@program(4)
def tensor_bool_ops(x):
    a = x.sum() > 0
    return a and x + 1, a or x, not a, (x > 5).any().item(), bool(a) is True, x.sum() if a else None


@program(2)
def tensor_range(x):
    n = (x > 1).sum()
    y = x
    for i in range(n):
        y = y + i
    return y
