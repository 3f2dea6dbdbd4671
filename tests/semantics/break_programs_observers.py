"""Programs that break where somebody looks: at frames, warnings, finalizers, aliases, types."""

# ruff: noqa: E742, E731, E741, F821, F841, F842, B904, B006, B011, B012, B015, B018, B023, B905, SIM, UP, PIE, RUF
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import collections
import dataclasses
import inspect
import sys
import warnings
import weakref

import torch
from torch import nn

import framehook
from framehook import graph_break as brk
from tests.semantics.break_table import Programs

PROGRAMS = Programs()
program = PROGRAMS.program


# -- observers
@program(0)
def frame_name(x):
    y = x + 1
    f = sys._getframe()
    brk()
    return (
        f.f_code.co_name,
        sys._getframe().f_code.co_name,
        sys._getframe().f_lineno - f.f_code.co_firstlineno,
        y,
    )


def who():
    f = sys._getframe(1)
    return (
        f.f_code.co_name,
        f.f_code.co_qualname,
        f.f_lineno - f.f_code.co_firstlineno,
        f.f_code.co_filename.endswith(".py"),
        f.f_globals["__name__"],
    )


who = framehook.disable(who)


def who2():
    f = sys._getframe(1)
    return f.f_code.co_name, f.f_lineno - f.f_code.co_firstlineno


@program(2)
def caller_seen(x):
    y = x + 1
    a = who2()
    y = y * 2
    b = (who2(), who2())
    return a, b, y


@program(1)
def warn_levels(x):
    y = x + 1
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        warnings.warn("here", stacklevel=1)
        brk()
        warnings.warn("caller", stacklevel=2)
    return [(str(a.message), a.filename == __file__, a.lineno if a.filename == __file__ else 0) for a in w], y


@program(1)
def stack_depth(x):
    y = x + 1

    def names():
        return [f.function for f in inspect.stack(0)][1:3]

    a = names()
    brk()
    b = names()
    return a, b, y


@program(0)
def locals_call(x):
    y = x + 1
    brk()
    z = 3
    return sorted(locals()), sorted(vars()), dir()


@program(0)
def eval_exec(x):
    y = x + 1
    exec("q = 1")
    n = eval("y.dim()")
    return n, y


@program(1)
def globals_use(x):
    global GLOBAL_COUNTER
    GLOBAL_COUNTER = 1
    brk()
    GLOBAL_COUNTER += 1
    y = x + GLOBAL_COUNTER
    brk()
    v = GLOBAL_COUNTER
    del GLOBAL_COUNTER
    return y, v, "GLOBAL_COUNTER" in globals()


@program(1)
def imports(x):
    import math
    import os.path as p
    from collections import OrderedDict as OD
    from collections import deque

    brk()
    import math as m2

    return m2 is math, p.join("a", "b"), OD, x + 1, type(deque()).__name__


@program(None)
def class_body(x):
    s = 3

    class L:
        k = s

        def f(self, z):
            return z * self.k

    brk()
    return L().f(x), L.__qualname__


@program(1)
def del_timing(x):
    log = []

    class D:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

    a = D("a")
    y = x + 1
    brk()
    log.append("before")
    del a
    log.append("after")
    b = D("b")
    b = None
    log.append("b gone")
    brk()
    c = D("c")
    brk()
    c = D("d")
    log.append("c replaced")
    brk()
    return y, log[:]


@program(1)
def weakref_timing(x):
    y = x + 1
    r = weakref.ref(y)
    brk()
    a = r() is y
    del y
    b = r() is None
    return a, b


@program(1)
def weakref_temp(x):
    def f(t):
        return weakref.ref(t)

    r = f(x + 1)
    brk()
    return r() is None


@program(2)
def arg_mutation(x):
    l = [x]
    d = {"a": l}
    l.append(x + 1)
    brk()
    d["a"].append(x + 2)
    l[0] = 5
    print(len(l))
    d["b"] = d
    l.pop()
    return l, len(d), d["b"] is d


@program(0)
def list_alias(x):
    a = b = [x]
    brk()
    a.append(1)
    brk()
    c = a
    c += [2]
    return a, b is a, c is b


@program(2)
def swap_unpack(x):
    a, (b, *c), d = x + 1, (2, brk(), 4), x
    a, d = d, a
    brk()
    [e, f, g] = x
    return a, b, c, d, e + f + g


@program(2)
def global_state_rng(x):
    torch.manual_seed(3)
    a = torch.rand(2)
    brk()
    b = torch.rand(2)
    return a, b, torch.randn(1).item()


@program(3)
def tensor_inplace_views(x):
    v = x[0]
    v += 1
    brk()
    v *= 2
    x[1] = v.sum().item()
    brk()
    x.t_()
    return x, v


@program(1)
def tensor_attr(x):
    x.tag = "t"
    brk()
    y = x + 1
    return x.tag, hasattr(y, "tag"), y


@program(3)
def grad_across(x):
    w = x.clone().requires_grad_()
    y = (w * 2).sum()
    brk()
    (y * y).backward()
    return w.grad


@program(1)
def async_called(x):
    async def co(z):
        await asyncio.sleep(0)
        brk()
        return z + 1

    return asyncio.run(co(x)) * 2


@program(None)
def module_hooks(x):
    m = nn.Linear(3, 3)
    with torch.no_grad():
        m.weight.fill_(0.5)
        m.bias.zero_()
    seen = []
    h = m.register_forward_hook(lambda mod, i, o: (brk(), seen.append(o.shape), o * 2)[2])
    y = m(x)
    h.remove()
    return y.detach(), m(x).detach(), seen


@program(1)
def defaultdict_break(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    brk()
    d["b"].append(x + 1)
    return dict(d), list(d)


@program(None)
def namedtuple_dc(x):
    N = collections.namedtuple("N", "a b")
    n = N(x, brk())
    m = n._replace(b=x + 1)

    @dataclasses.dataclass
    class D:
        a: int = 1

    return n.a + m.b, D(3).a


@program(3)
def many_locals(x):
    a = b = c = d = e = f = g = h = x
    i, j, k, l = 1, 2, 3, 4
    brk()
    a = a + i
    brk()
    b = b + j
    print(k)
    c = c * l
    return a, b, c, d is e, f is g, h is x


@program(None)
def both_branches(x):
    if x.sum() > 10:
        y = x * 2
    else:
        y = x * 3
    if y.mean() > 2:
        brk()
        return y + 1
    return y - 1


@program(2)
def nan_float(x):
    v = (x.sum() * float("nan")).item()
    brk()
    return v != v, str(v), x + 1, -0.0 * x.sum().item()


@program(1)
def int_obj_identity(x):
    a = object()
    b = [a]
    brk()
    c = a
    return c is b[0], x + 1


@program(2)
def property_set_break(x):
    class Q:
        @property
        def v(self):
            brk()
            return self._v

        @v.setter
        def v(self, n):
            brk()
            self._v = n * 2

    q = Q()
    q.v = x
    return q.v + 1


@program(1)
def descriptor_getattr(x):
    class D:
        def __get__(self, o, t):
            brk()
            return 4

    class Q:
        d = D()

    return x * Q().d, Q.d


@program(0)
def setattr_break(x):
    class Q:
        def __setattr__(self, n, v):
            brk()
            object.__setattr__(self, n, v)

        def __delattr__(self, n):
            brk()
            object.__delattr__(self, n)

    q = Q()
    q.a = x + 1
    del q.a
    q.b = 3
    return vars(q)


@program(1)
def ann_assign(x):
    y: int = brk() or 3
    z: "float"
    return x * y


@program(4)
def long_or(x):
    return x.sum().item() > 100 or x.mean().item() > 100 or brk() or (x.max().item() > 0 and x + 1)


@program(0)
def try_in_loop_many(x):
    log = []
    for i, e in enumerate([KeyError, ValueError, None, IndexError]):
        try:
            try:
                if e:
                    raise e(i)
                brk()
            except KeyError as k:
                log.append(repr(k))
                brk()
            except ValueError:
                brk()
                raise RuntimeError("r")
            else:
                log.append("else")
            finally:
                log.append("f")
                brk()
        except (RuntimeError, IndexError) as r:
            log.append((repr(r), repr(r.__context__)))
    return log, x + 1
