"""Programs that break while numbers out of tensors and exceptions are in use."""

# ruff: noqa: E742, E731, E741, F821, F841, F842, B904, B006, B011, B012, B015, B018, B023, B905, SIM, UP, PIE, RUF
# mypy: ignore-errors

from __future__ import annotations

import collections
import traceback
import types

import torch

from framehook import graph_break as brk
from tests.semantics.break_table import CM, BreakingCM, Programs, cfail

PROGRAMS = Programs()
program = PROGRAMS.program


@program(3)
def range_loop_items(x):
    s = 0
    for i in range(30):
        x = x + 1
        s += x.sum().item()
    return s, x


@program(6)
def train_loop(x):
    w = x.clone().requires_grad_()
    opt = torch.optim.SGD([w], lr=0.1)
    losses = []
    for i in range(6):
        opt.zero_grad()
        loss = ((w * x) ** 2).mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return w.detach(), losses


@program(None)
def scheduler_like(x):
    lr = 1.0
    for i in range(12):
        x = x - lr * 0.01
        if x.mean().item() < 0.5:
            lr = lr * 0.5
        print(i, f"{lr:.3f}")
    return x


@program(3)
def convergence(x):
    err, n = float("inf"), 0
    while err > 1e-3 and n < 40:
        y = (x + 2 / x.clamp(min=0.5)) / 2
        err = (y - x).abs().max().item()
        x = y
        n += 1
    return x, n


@program(3)
def early_stop(x):
    best = None
    for i in range(10):
        v = (x * i).sum().item()
        if best is None or v > best:
            best = v
        else:
            break
    return best, i


@program(None)
def mask_counts(x):
    out = []
    for t in (0.2, 0.5, 1.0, 1.4):
        n = int((x > t).sum())
        out.append(x.flatten()[:n] * n)
    return out


@program(None)
def beam(x):
    toks = []
    for _ in range(5):
        i = x.flatten().argmax().item()
        toks.append(i)
        x = x.clone()
        x.view(-1)[i] = -1
    return toks, x


@program(4)
def str_build(x):
    s = ""
    for r in x:
        s += f"{r.sum().item():.1f},"
    return s, x + 1


@program(None)
def dict_counter(x):
    c = collections.Counter()
    for v in x.flatten().tolist():
        c[v > 1] += 1
    return dict(c), x * c[True]


@program(2)
def stack_deep(x):
    return (1, (2, [3, (4, {5: (x + 1, brk(), [6, (7, brk(), x * 2)])})]))


@program(3)
def call_chain_kw(x):
    return torch.cat(
        tensors=[torch.add(input=x, other=x, alpha=(brk() or 2)), x * (brk() or 1)], dim=(brk() or 0)
    ).sum(dim=brk() or 1)


@program(2)
def cmp_swap(x):
    a, b = x.sum().item(), x.mean().item()
    a, b = (b, a) if a > b else (a, b)
    return a, b, min(a, b), max(a, b, 3), sorted([a, b, 1.5]), round(a, 1), abs(-b), divmod(a, 2)


@program(2)
def float_ops(x):
    v = x.sum().item()
    return (
        v + 1,
        1 + v,
        -v,
        v**2,
        v // 2,
        v % 2,
        int(v),
        str(v),
        f"{v}",
        v == v,
        v is v,
        [v][0],
        {"a": v}["a"],
        not v,
        v and 1,
        (v, 1)[1],
        isinstance(v, float),
        type(v),
        x * v,
        v * x,
        torch.full((2,), v),
        x.add(v),
        x.add(x, alpha=v),
        {v: 1},
        v in [v],
        hash(v) == hash(v),
        float(v),
        bool(v),
        math_floor(v),
    )


def math_floor(v):
    import math

    return math.floor(v), math.sqrt(abs(v))


@program(None)
def float_attr(x):
    o = types.SimpleNamespace()
    o.v = x.sum().item()
    brk()
    o.v += 1
    brk()
    return o.v, x + o.v


@program(None)
def float_closure(x):
    v = x.sum().item()

    def f():
        return x * v

    brk()
    return f(), v


@program(None)
def float_default(x):
    v = x.sum().item()

    def f(a=v, *, b=v):
        return a + b

    return f(), f(1), f(b=2), x + 1


@program(None)
def float_unpack(x):
    a, b = x[0, :2].tolist()
    c = [a, b]
    [d, e] = c
    return a + b, x * d, e


@program(2)
def float_return_branch(x):
    v = x.sum().item()
    return (x + 1 if v else x - 1), (v or 3), (v if v > 2 else None)


@program(2)
def match_float(x):
    match x.sum().item():
        case 0.0:
            return "zero"
        case float() as f if f > 100:
            return "big"
        case float(f):
            return f, x + 1


@program(1)
def nested_try_finally_loop(x):
    log = []

    def f():
        for i in range(3):
            try:
                try:
                    brk()
                    if i == 1:
                        continue
                    if i == 2:
                        return x + i
                finally:
                    log.append(("in", i))
                    brk()
            finally:
                log.append(("out", i))

    return f(), log


@program(1)
def finally_swallow_break(x):
    log = []
    for i in range(3):
        try:
            raise ValueError(i)
        finally:
            brk()
            log.append(i)
            break
    return log, x + 1


@program(1)
def exception_in_exit_chain(x):
    log = []
    try:
        with CM(log, "a"):
            with BreakingCM(log, "b"):
                try:
                    raise KeyError("in")
                finally:
                    brk()
                    raise ValueError("fin")
    except ValueError as e:
        return repr(e.__context__), log, x + 1


@program(1)
def raise_in_except_native(x):
    try:
        try:
            {}["a"]
        except KeyError:
            types.MappingProxyType({})["b"]
    except KeyError as e:
        return repr(e), repr(e.__context__), x + 1


@program(1)
def raise_class_noargs(x):
    try:
        brk()
        raise StopIteration
    except StopIteration as e:
        return e.value, x + 1


@program(1)
def with_traceback(x):
    try:
        raise ValueError("a").with_traceback(None)
    except ValueError as e:
        brk()
        e.add_note("n")
        return e.__notes__, x + 1


@program(1)
def exc_chain_text(x):
    try:
        try:
            brk()
            cfail()
        except KeyError as e:
            raise ValueError("b") from e
    except ValueError as e:
        lines = traceback.format_exception(e)
        return [
            l for l in "".join(lines).splitlines() if "framehook" not in l and "  ^" not in l and "~" not in l
        ], x + 1


@program(1)
def uncaught_chain(x):
    y = x + 1
    try:
        cfail()
    except KeyError as e:
        brk()
        raise ValueError("outer") from e


@program(1)
def uncaught_context(x):
    y = x + 1
    try:
        raise KeyError(1)
    except KeyError:
        raise ValueError("outer")


@program(1)
def uncaught_in_inlined(x):
    def a(z):
        z = z + 1
        return b(z)

    def b(z):
        return z.nope

    return a(x)


@program(1)
def uncaught_native_deep(x):
    def a(z):
        return [b(v) for v in (z, z)]

    def b(z):
        try:
            return z + 1
        finally:
            cfail()

    return a(x)


@program(1)
def uncaught_zero_div(x):
    y = x + 1
    return y * (1 / 0)


@program(1)
def uncaught_index(x):
    l = [x + 1]
    return l[3]


@program(1)
def uncaught_shape(x):
    y = x + 1
    z = y * 2
    return z @ torch.ones(5, 5)


@program(2)
def uncaught_user_msg(x):
    if (x + 1).sum() > -1000:
        raise RuntimeError(f"bad {x.shape} {x.sum().item()}")


@program(0)
def uncaught_unbound(x):
    brk()
    if x is None:
        q = 1
    return x + q


@program(1)
def uncaught_name(x):
    y = x + 1
    brk()
    return undefined_name + y


@program(1)
def uncaught_attr_tensor(x):
    y = x + 1
    brk()
    return y.foo.bar


@program(1)
def uncaught_call_args(x):
    def f(a, b):
        return a

    y = x + 1
    return f(y)


@program(1)
def uncaught_star(x):
    y = x + 1
    return torch.add(*[y], **{"nope": 1})


@program(2)
def caught_type_errors(x):
    out = []
    for f in (
        lambda: x + "a",
        lambda: x[5],
        lambda: x.view(7),
        lambda: torch.cat([x, torch.ones(2)]),
        lambda: len(3),
        lambda: None.x,
        lambda: int("q"),
        lambda: [][0],
        lambda: {}["k"],
        lambda: (1, 2)[5],
        lambda: next(iter([])),
        lambda: x.nope,
    ):
        try:
            f()
        except Exception as e:
            out.append((type(e).__name__, str(e)[:60]))
            brk()
    return out, x + 1
