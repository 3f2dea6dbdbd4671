"""Programs that break in the middle of expressions, loops and `with` statements."""

# ruff: noqa: E742, E731, E741, F821, F841, F842, B904, B006, B011, B012, B015, B018, B023, B905, SIM, UP, PIE, RUF
# mypy: ignore-errors

from __future__ import annotations

import array
import contextlib
import io
import itertools
import types

import torch

from framehook import graph_break as brk
from tests.semantics.break_table import CM, BreakingCM, Programs, cfail, gcm

PROGRAMS = Programs()
program = PROGRAMS.program


# -- expression positions
@program(2)
def mid_binary(x):
    return (x + 1) * (x.sum().item()) + (x - 1)


@program(3)
def mid_call_args(x):
    return torch.stack([x, x * 2, x + (brk() or 1)], dim=brk() or 0)


@program(2)
def mid_kwargs(x):
    return torch.sum(x * 2, dim=(brk() or 0), keepdim=(brk() is None))


@program(3)
def star_args(x):
    def f(*a, **k):
        return sum(a) + sum(k.values())

    return f(*[x, x + 1, brk() or 2], **{"u": x * 2, "v": brk() or 3})


@program(1)
def star_args_many(x):
    def f(a, *r, k, **kw):
        return a + sum(r) * k, sorted(kw)

    a = [x, x]
    return f(*a, *(brk() or (x,)), k=brk() or 3, **dict(z=1), **(brk() or dict(y=2)))


@program(2)
def method_on_stack(x):
    return (x + 1).reshape(brk() or -1).sum()


@program(1)
def chained(x):
    v = x.sum().item()
    return (0 < v < 100), (v < 0 < 100), (0 < (brk() or 5) <= 5 != 6)


@program(None)
def ternary_tensor(x):
    return (x + 1 if x.sum() > 0 else x - 1) if x.mean() < 100 else None


@program(2)
def boolop_values(x):
    return (brk() or x + 1), (x.sum().item() and x + 2), (None or brk() or 3)


@program(3)
def walrus(x):
    if (n := x.sum().item()) > 3:
        y = x * 2
    else:
        y = x
    return [z := brk(), n, y, (w := x + 1), w * 2, z]


@program(2)
def fstring(x):
    y = x + 1
    return f"{brk()!r:>10}|{y.shape[0] + (brk() or 1):0{brk() or 5}d}|{x.sum().item():.3f}"


@program(3)
def slices(x):
    y = x.clone()
    y[(brk() or 0) : (brk() or 2), :: (brk() or 1)] = brk() or 7
    y[brk() or 0] *= 2
    del (l := [1, 2, 3, 4])[(brk() or 1) :]
    return y, l


@program(1)
def augassign_attr(x):
    class O:
        pass

    o = types.SimpleNamespace(a=x, l=[1])
    o.a += brk() or 1
    o.l += [brk()]
    o.l[brk() or 0] += 5
    return o.a, o.l


@program(2)
def display_mix(x):
    return (
        {"a": x + 1, (brk() or "b"): [*range(brk() or 3)], **{"c": brk()}},
        {brk(), 1, 2},
        (*[brk()], x * 2),
    )


@program(2)
def lambda_default(x):
    f = lambda a, b=(brk() or 4): a * b
    return f(x), f(x, b=brk() or 2)


@program(4)
def comp_nested(x):
    return [[r + c for c in range(2) if brk() is None] for r in x if r.sum().item() >= 0]


@program(4)
def comp_dict(x):
    return {i: row * (brk() or 2) for i, row in enumerate(x)}


@program(1)
def comp_set_cond(x):
    return sorted({int(v.item()) for v in x.flatten() if v.item() > 0.5})


@program(2)
def genexp_any(x):
    return (
        any(v.item() > 1 for v in x.flatten()),
        all((brk() or 1) for _ in range(2)),
        max(v.item() for v in x.flatten()),
    )


@program(2)
def genexp_partial(x):
    g = (r * 2 for r in x)
    a = next(g)
    brk()
    b = next(g)
    return a + b, list(g)


@program(0)
def started_islice(x):
    it = itertools.islice(x, 0, 3)
    a = next(it)
    brk()
    return a, list(it)


@program(3)
def started_chain(x):
    it = itertools.chain([x], [x + 1, x + 2])
    a = next(it)
    y = a * 2
    brk()
    return y, [t * 2 for t in it]


@program(3)
def zip_strict_started(x):
    out = []
    for a, b in zip(x, [1, 2, 3], strict=True):
        brk()
        out.append(a * b)
    return out


@program(3)
def enum_started(x):
    out = []
    for i, r in enumerate(x, start=brk() or 10):
        if i == 11:
            brk()
        out.append(r + i)
    return out


@program(4)
def zip_map_filter(x):
    out = []
    for a, b in zip(map(lambda t: t + 1, x), filter(None, [1, 0, 2, 3])):
        brk()
        out.append(a * b)
    return out


@program(4)
def dict_iter_break(x):
    d = {"a": 1, "b": 2}
    out = []
    for k in d:
        brk()
        out.append((k, x + d[k]))
    for k, v in d.items():
        print(k)
        out.append(x * v)
    for v in reversed(list(d.values())):
        print(v)
    return out


@program(1)
def dict_changed_during(x):
    d = {1: x}
    try:
        for k in d:
            brk()
            d[k + 1] = x
    except RuntimeError as e:
        return str(e), len(d), x + 1


@program(2)
def gen_user_inline(x):
    def g(n):
        for i in range(n):
            yield x + i

    s = 0
    for t in g(3):
        s = s + t
        brk()
    return s


@program(1)
def gen_breaking_body(x):
    def g(n):
        t = x
        for i in range(n):
            brk()
            got = yield t
            t = t + (got or 1)
        return "done"

    def outer():
        r = yield from g(2)
        yield r

    it = outer()
    return next(it), it.send(5), next(it), x * 2


@program(0)
def gen_close_finally(x):
    log = []

    def g():
        try:
            yield x + 1
        finally:
            log.append("closed")

    it = g()
    y = next(it)
    brk()
    it.close()
    return y, log


@program(0)
def gen_throw(x):
    def g():
        try:
            yield x + 1
        except ValueError as e:
            yield str(e)

    it = g()
    a = next(it)
    brk()
    b = it.throw(ValueError("t"))
    return a, b


@program(2)
def gen_returned(x):
    return list(r for r in x), (brk() or 1), [*(r + 1 for r in x)]


# -- loops
@program(6)
def for_else(x):
    for i in range(3):
        if x.sum().item() > 1e9:
            break
        x = x + i
    else:
        x = x * 10
    for i in range(3):
        brk()
        if i == 1:
            break
    else:
        x = x * 100
    return x


@program(None)
def while_else(x):
    n = 0
    while x.sum() < 60:
        x = x * 2
        n += 1
        if n > 50:
            break
    else:
        brk()
        x = x + 1
    return x, n


@program(1)
def loop_continue_try(x):
    log = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            brk()
            x = x + 1
        finally:
            log.append(i)
    return x, log


@program(6)
def nested_loop_labels(x):
    for i in range(2):
        for j in range(3):
            if j == 1:
                brk()
                continue
            if x.sum().item() < 0:
                return None
            x = x + i * j
        else:
            x = x + 100
    return x


@program(2)
def loop_with(x):
    log = []
    for i in range(2):
        with CM(log, str(i), [KeyError]):
            x = x * 2
            brk()
            if i:
                raise KeyError(i)
        log.append("after")
    return x, log


@program(6)
def big_loop(x):
    for i in range(60):
        x = x + 1
        if i % 20 == 0:
            brk()
    return x


# -- with
@program(5)
def with_torch_nested(x):
    x = x.clone().requires_grad_()
    out = []
    with torch.no_grad():
        y = x * 2
        out.append(torch.is_grad_enabled())
        brk()
        with torch.enable_grad():
            z = x * 3
            brk()
            out.append(torch.is_grad_enabled())
            z = z + 1
        brk()
        w = y + z
        out.append(torch.is_grad_enabled())
    return y.requires_grad, z.requires_grad, w.requires_grad, out, torch.is_grad_enabled()


@program(3)
def with_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        brk()
        z = x @ y
        with torch.autocast("cpu", enabled=False):
            q = x @ x
            brk()
            q2 = q @ x
        r = q @ x
    return y.dtype, z.dtype, q.dtype, q2.dtype, r.dtype, torch.is_autocast_enabled("cpu")


@program(3)
def with_exc_state(x):
    x = x.clone().requires_grad_()
    try:
        with torch.no_grad():
            y = x * 2
            brk()
            cfail()
    except KeyError:
        y = x * 3
        brk()
    return y.requires_grad, torch.is_grad_enabled()


@program(2)
def with_native_exc_autocast(x):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            array.array("i")[0]
    except IndexError as e:
        return (x @ x).dtype, torch.is_autocast_enabled("cpu"), y.dtype, repr(e)


@program(3)
def with_uncaught_state(x):
    with torch.no_grad():
        y = x * 2
        brk()
        y = y + 1
        raise ValueError("out")


@program(3)
def with_inference(x):
    with torch.inference_mode():
        y = x * 2
        brk()
        z = y + 1
    return z.is_inference(), (x + 1).is_inference()


@program(4)
def set_grad_call(x):
    x = x.clone().requires_grad_()
    torch.set_grad_enabled(False)
    y = x * 2
    brk()
    z = x * 3
    torch.set_grad_enabled(True)
    brk()
    return y.requires_grad, z.requires_grad, (x * 1).requires_grad


@program(2)
def with_multi(x):
    log = []
    with CM(log, "a", [ValueError]) as a, BreakingCM(log, "b"), gcm(log, "c") as c:
        x = x + 1
        brk()
        raise ValueError("v " + c)
    return x * 2, log


@program(2)
def with_breaking_exit(x):
    log = []
    with BreakingCM(log, "a", [KeyError]):
        x = x + 1
        raise KeyError("k")
    return x * 2, log


@program(1)
def with_return(x):
    log = []

    def f():
        with BreakingCM(log, "r"):
            brk()
            return x + 1

    return f(), log


@program(1)
def with_exit_raises(x):
    class E(CM):
        def __exit__(self, *a):
            brk()
            raise TypeError("exit")

    log = []
    try:
        with E(log, "e"):
            x = x + 1
            brk()
            raise ValueError("body")
    except TypeError as e:
        return x, repr(e), repr(e.__context__)


@program(1)
def with_suppress(x):
    with contextlib.suppress(KeyError):
        x = x + 1
        brk()
        cfail()
        x = x * 100
    return x


@program(1)
def exitstack(x):
    log = []
    with contextlib.ExitStack() as st:
        st.enter_context(CM(log, "1"))
        st.callback(log.append, "cb")
        brk()
        y = x + 1
    return y, log


@program(1)
def redirect(x):
    buf = io.StringIO()
    with contextlib.redirect_stdout(buf):
        print("hello")
        y = x * 2
        print("there")
    print("outside")
    return y, buf.getvalue()
