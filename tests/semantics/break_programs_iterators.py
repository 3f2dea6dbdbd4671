"""Programs that break while iterators, views and state of torch are in use."""

# ruff: noqa: E742, E731, E741, F821, F841, F842, B904, B006, B011, B012, B015, B018, B023, B905, SIM, UP, PIE, RUF
# mypy: ignore-errors

from __future__ import annotations

import itertools
import sys
import types

import torch

from framehook import graph_break as brk
from tests.semantics.break_table import Programs, cfail

PROGRAMS = Programs()
program = PROGRAMS.program


@program(2)
def genexp_in_call_break(x):
    return torch.stack(tuple(r + (brk() or 1) for r in x)), "".join(str(i) for i in range(3) if not brk())


@program(1)
def zip_gen(x):
    def g():
        for i in range(3):
            yield i

    return [(a, b * 2) for a, b in zip(g(), x) if brk() is None]


@program(1)
def gen_in_local_break(x):
    def g():
        yield x + 1
        yield x + 2

    it = g()
    y = x * 2
    brk()
    return list(it), y


@program(0)
def gen_attr(x):
    def g():
        yield x + 1
        yield x + 2

    o = types.SimpleNamespace(it=g())
    a = next(o.it)
    brk()
    return a, next(o.it), next(o.it, None)


@program(1)
def gen_in_list_in_inlined(x):
    def mk():
        def g():
            yield from (x, x + 1)

        it = g()
        next(it)
        return [it]

    l = mk()
    y = x * 3
    brk()
    return list(l[0]), y


@program(3)
def map_filter_lazy(x):
    m = map(lambda v: v * 2, x)
    f = filter(lambda v: v.sum().item() > 1, x)
    a = next(m)
    brk()
    return a, list(m), list(f)


@program(1)
def enumerate_obj(x):
    e = enumerate(x)
    next(e)
    brk()
    return next(e), list(e)


@program(1)
def zip_obj(x):
    z = zip(x, range(3))
    a = next(z)
    y = x + 1
    brk()
    return a, list(z), y


@program(1)
def reversed_obj(x):
    r = reversed([x, x + 1, x + 2])
    a = next(r)
    brk()
    return a, list(r)


@program(0)
def accumulate_obj(x):
    a = itertools.accumulate([x, x, x])
    b = next(a)
    brk()
    return b, list(a)


@program(0)
def repeat_count(x):
    r = itertools.repeat(x, 3)
    next(r)
    c = itertools.count(5)
    next(c)
    brk()
    return list(r), next(c), next(c)


@program(0)
def product_obj(x):
    p = itertools.product([1, 2], [x])
    a = next(p)
    brk()
    return a, list(p)


@program(1)
def set_iter_obj(x):
    it = iter({1, 2, 3})
    a = next(it)
    brk()
    return a, sorted(it), x + 1


@program(1)
def dict_items_obj(x):
    d = {"a": x, "b": 2}
    it = iter(d.items())
    a = next(it)
    y = x + 1
    brk()
    return a, list(it), y


@program(1)
def str_iter_obj(x):
    it = iter("abc")
    next(it)
    r = iter(range(10))
    next(r)
    brk()
    return list(it), list(r), x + 1


@program(1)
def view_then_break(x):
    d = {"a": x}
    k, v, i = d.keys(), d.values(), d.items()
    brk()
    d["b"] = x + 1
    return list(k), list(v), len(i)


@program(1)
def slice_obj(x):
    s = slice(brk() or 0, 2)
    brk()
    return x[s], s, s.stop


@program(1)
def bound_method_var(x):
    m = x.add
    l = []
    ap = l.append
    y = x + 1
    brk()
    ap(3)
    return m(1), l, y


@program(1)
def super_obj(x):
    class A:
        def f(self):
            return 1

    class B(A):
        def f(self):
            s = super()
            brk()
            return s.f() + 1

    return B().f(), x + 1


@program(1)
def nonlocal_deep(x):
    def a():
        n = 0

        def b():
            nonlocal n
            brk()
            n += 1

            def c():
                nonlocal n
                n += 10
                brk()
                return n

            return c()

        return b(), n

    return a(), x + 1


@program(1)
def comp_scope(x):
    y = [i for i in range(3)]
    i = 5
    z = [i * (brk() or j) for j in range(2)]
    return y, i, z, x + i


@program(0)
def star_expr(x):
    a, *b = [1, *(brk() or [2, 3]), x]
    print(*b[:2], sep="-", end="!\n")
    return a, b


@program(1)
def dict_merge_ops(x):
    return {"a": 1} | {"b": brk()} | dict(c=x + 1), {**{"z": brk()}, "y": x}


@program(2)
def global_list(x):
    STATE.append(1)
    brk()
    STATE.append(x.sum().item())
    n = len(STATE)
    STATE.clear()
    return n, x + 1


STATE = []


@program(2)
def module_attr_set(x):
    torch_mod_holder.value = x + 1
    brk()
    return torch_mod_holder.value * 2


torch_mod_holder = types.ModuleType("holder")


@program(2)
def type_checks(x):
    y = x.sum().item()
    brk()
    return (
        isinstance(y, (int, float)),
        type(y) is float,
        callable(y),
        hasattr(y, "hex"),
        y.is_integer(),
        y.hex(),
        x + 1,
    )


@program(2)
def deep_inline_mutation(x):
    class Box:
        pass

    b = Box()
    b.items = []

    def a(box):
        box.items.append(x + 1)
        c(box)
        box.items.append("after")

    def c(box):
        box.items.append("c")
        brk()
        box.items.append("d")

    a(b)
    return b.items


@program(None)
def cond_expr_stack(x):
    return torch.where(x > 0, x, x * 2) + (x if x.sum() > 5 else -x) * (2 if x.mean().item() > 1 else 3)


@program(2)
def in_place_args_alias(x):
    y = x
    y += 1
    brk()
    y *= 2
    z = y.view(-1)
    z[0] = 9
    brk()
    return x is y, z


@program(2)
def out_kw(x):
    o = torch.empty(3, 3)
    torch.add(x, 1, out=o)
    brk()
    torch.mul(o, 2, out=o)
    return o


@program(4)
def no_grad_decorated(x):
    @torch.no_grad()
    def f(z):
        z = z * 2
        brk()
        return z + 1, torch.is_grad_enabled()

    w = x.clone().requires_grad_()
    return f(w)[0].requires_grad, f(w)[1], (w * 2).requires_grad


@program(None)
def saved_hooks(x):
    w = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = w * w
        brk()
        z = y * w
    z.sum().backward()
    return w.grad


@program(3)
def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    try:
        a = torch.ones(2)
        brk()
        b = torch.ones(2)
    finally:
        torch.set_default_dtype(torch.float32)
    return a.dtype, b.dtype, torch.ones(1).dtype


@program(3)
def device_ctx(x):
    with torch.device("meta"):
        a = torch.ones(2)
        brk()
        b = torch.ones(2)
    return a.device.type, b.device.type, torch.ones(1).device.type


@program(2)
def print_tensor(x):
    print(x + 1)
    print(x.shape, x.dtype, sep="|")
    return x * 2


@program(2)
def assert_after(x):
    y = x + 1
    assert y.shape[0] == 3, print("no")
    assert y.sum().item() > -100, "m"
    return y * 2


@program(1)
def try_import(x):
    try:
        import does_not_exist_xyz  # noqa: F401
    except ImportError as e:
        return str(e), x + 1


@program(1)
def big_args(x):
    def f(*a):
        return sum(a)

    return f(*[x] * 70, brk() or 0)


@program(1)
def many_stack(x):
    return [x + i for i in range(20)] + [brk()] + [(x, i, brk()) for i in range(3)]


@program(4)
def kwonly_method(x):
    class M:
        def f(self, a, /, b=2, *, c, **k):
            brk()
            return a * b + c, k

    return M().f(x, c=brk() or 1, d=4), M().f(x, 3, c=x)


@program(1)
def conditional_del(x):
    a = x + 1
    if x.sum() > 0:
        del a
    try:
        return a
    except UnboundLocalError as e:
        return str(e)


@program(1)
def exec_info_nested_fn(x):
    def h():
        try:
            cfail(ValueError)
        except ValueError:
            brk()
            return repr(sys.exc_info()[1])

    try:
        raise KeyError(0)
    except KeyError:
        a = h()
        b = repr(sys.exc_info()[1])
        brk()
        c = repr(sys.exc_info()[1])
    return a, b, c, sys.exc_info(), x + 1


@program(1)
def lambda_rec(x):
    f = lambda n: x if n == 0 else (brk(), f(n - 1) + 1)[1]
    return f(3)


@program(2)
def counter_attr(x):
    COUNT.n += 1
    y = x + COUNT.n
    brk()
    COUNT.n += 1
    r = y * COUNT.n
    COUNT.n = 0
    return r


class COUNT:
    n = 0
