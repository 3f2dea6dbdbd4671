"""Programs that break inside inlined functions: at any depth, in loops, with, try, handlers, methods and modules."""

# mypy: ignore-errors

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import logging
import sys
import traceback
import warnings
import weakref

import torch
from torch import nn

import framehook
from framehook import graph_break as brk
from tests.semantics.break_table import CM, BreakingCM, Programs, cfail

PROGRAMS = Programs()
program = PROGRAMS.program


def look():
    """Names and lines of the frames from the caller outwards, up to the frame that the test calls."""
    found, frame = [], sys._getframe(1)
    while frame is not None and "nested_break_programs" in frame.f_code.co_filename:
        found.append((frame.f_code.co_name, frame.f_code.co_qualname, frame.f_lineno))
        frame = frame.f_back
    return found


# -- depth -----------------------------------------------------------------------------------------------------


def p3(x):
    y = x + 1
    print("three deep", y.shape[0])
    return y * 2


def p2(x):
    return p3(x - 1) + 3


def p1(x):
    z = p2(x * 2)
    return z - 1


@program(2)
def print_three_deep(x):
    return p1(x) * 2


@program(2)
def print_in_two_places(x):
    def inner(v):
        print("one")
        return v

    return inner(x + 1) * 2


@program(3)
def breaks_in_different_frames(x):
    def deep(v):
        v = v + 1
        brk()
        return v * 2

    def middle(v):
        v = deep(v) + 1
        brk()
        return v + 1

    return middle(x) * 3


@program(4)
def break_in_each_frame_in_turn(x):
    def deep(v):
        v = v + 1
        brk()
        return v * 2

    def middle(v):
        v = deep(v) + 1
        brk()
        return v + 1

    y = middle(x) * 3
    brk()
    return y + 1


def d5(x):
    brk()
    return x + 1


def d4(x):
    return d5(x + 1) + 1


def d3(x):
    return d4(x + 1) + 1


def d2(x):
    return d3(x + 1) + 1


@program(2)
def break_five_deep(x):
    return d2(x + 1) + 1


@program(2)
def frames_seen_from_within(x):
    def inner(v):
        v = v + 1
        seen = look()
        return v * 2, seen

    def middle(v):
        w, seen = inner(
            v + 1,
        )
        return w + 1, seen

    return middle(x)


@program(None)
def frames_after_the_break(x):
    seen = []

    def inner(v):
        v = v + 1
        seen.append(look())
        v = v * 2
        seen.append(look())
        return v

    def middle(v):
        w = inner(v + 1)
        seen.append(look())
        return w + 1

    y = middle(x) + 1
    seen.append(look())
    return y, seen


@program(None)
def stack_of_inspect(x):
    def names():
        return [(f.function, f.lineno) for f in inspect.stack()[1:4]]

    def inner(v):
        v = v + 1
        return v * 2, names()

    def middle(v):
        w, seen = inner(v)
        return w + 1, seen

    return middle(x)


@program(None)
def warnings_levels(x):
    def deprecated(v, level):
        v = v + 1
        warnings.warn("old", stacklevel=level)
        return v * 2

    def middle(v, level):
        return deprecated(v, level) + 1

    found = []
    for level in (1, 2, 3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = middle(x, level)
        found += [(str(w.message), w.lineno, w.filename.endswith("nested_break_programs.py")) for w in caught]
    return x, found


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append((record.funcName, record.lineno, record.getMessage()))


@program(None)
def caller_of_logging(x):
    log = logging.getLogger("nested_break_programs")
    handler = Lines()
    log.addHandler(handler)
    log.propagate = False

    def inner(v):
        v = v + 1
        log.warning("inside %d", v.shape[0])
        return v * 2

    def middle(v):
        return inner(v) + 1

    y = middle(x)
    log.removeHandler(handler)
    return y, handler.seen


# -- the caller's expression -----------------------------------------------------------------------------------


@program(2)
def values_on_the_stack(x):
    def inner(v):
        v = v + 1
        brk()
        return v * 2

    return [x + 1, (x * 2, inner(x)), {"k": x - 1}]


@program(3)
def two_calls_in_one_expression(x):
    def inner(v, s):
        v = v + s
        brk()
        return v * s

    return inner(x, 1) + inner(x, 2) * 2


@program(3)
def call_as_an_argument(x):
    def inner(v, s=1):
        v = v + s
        brk()
        return v * 2

    return inner(inner(x), s=3)


@program(2)
def subscript_and_attribute(x):
    def inner(v):
        v = v + 1
        brk()
        return {"a": [v, v * 2]}

    return inner(x)["a"][1].shape, x + 1


@program(2)
def conditional_on_the_result(x):
    def inner(v):
        v = v + 1
        brk()
        return [v]

    return x * 2 if inner(x) else x * 3


@program(2)
def star_arguments(x):
    def inner(a, *args, k=2, **kwargs):
        a = a + 1
        brk()
        return a * k + sum(args), sorted(kwargs)

    more = {"z": 1, "y": x}
    return inner(x, *[x, x + 1], k=3, **more)


@program(2)
def forwarding_wrapper(x):
    def wrap(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) + 1

        return wrapper

    @wrap
    @wrap
    def inner(v, *, s):
        v = v * s
        brk()
        return v + 1

    return inner(x, s=2)


def decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2

    return wrapper


@decorated
def decorated_inner(v):
    v = v + 1
    brk()
    return v - 1


@program(2)
def decorated_from_outside(x):
    return decorated_inner(x) + 1


@program(2)
def partial_of_a_function(x):
    def inner(a, b, c=1):
        a = a + b
        brk()
        return a * c

    return functools.partial(inner, x, c=4)(x * 2)


@program(2)
def under_no_grad(x):
    @torch.no_grad()
    def inner(v):
        v = v + 1
        brk()
        return v * 2, torch.is_grad_enabled()

    y = inner(x)
    return y, torch.is_grad_enabled(), x * 2


@program(2)
def lambdas(x):
    f = lambda v: (brk(), v + 1)[1]  # noqa: E731
    g = lambda v: f(v * 2) * 3  # noqa: E731
    return g(x) + 1


# -- loops -----------------------------------------------------------------------------------------------------


@program(4)
def loop_in_the_callee(x):
    def inner(v):
        for _ in range(5):
            v = v + 1
            brk()
        return v

    return inner(x) * 2


@program(None)
def loop_in_the_caller(x):
    def inner(v, i):
        v = v + i
        brk()
        return v * 2

    for i in range(4):
        x = inner(x, i)
    return x


@program(None)
def loops_in_both(x):
    def inner(v, n):
        for i in range(n):
            v = v + i
            brk()
        return v

    out = []
    for n in (1, 2, 3):
        x = inner(x, n) + 1
        out.append(x)
    return out


@program(None)
def loop_over_an_iterator(x):
    def inner(items):
        total = 0
        for item in items:
            total = total + item
            brk()
        return total

    it = iter([x, x + 1, x + 2])
    first = next(it)
    return inner(it) + first, list(it)


@program(None)
def while_with_break_and_else(x):
    def inner(v):
        n = 0
        while n < 5:
            n += 1
            brk()
            if n == 3:
                break
        else:
            return v
        return v + n

    return inner(x) * 2


@program(None)
def comprehension_that_calls(x):
    def inner(v):
        v = v + 1
        brk()
        return v

    return [inner(x + i) for i in range(3)]


# -- with ------------------------------------------------------------------------------------------------------


@program(2)
def with_in_the_callee(x):
    log = []

    def inner(v):
        with CM(log, "a"):
            v = v + 1
            brk()
            v = v * 2
        return v

    return inner(x) + 1, log


@program(2)
def with_in_the_caller(x):
    log = []

    def inner(v):
        v = v + 1
        brk()
        return v * 2

    with CM(log, "a") as a, CM(log, "b"):
        y = inner(x)
        log.append(a.name)
    return y, log


@program(None)
def breaking_managers(x):
    log = []

    def inner(v):
        with BreakingCM(log, "in") as m:
            v = v + 1
            log.append(m.name)
        return v

    with BreakingCM(log, "out"):
        y = inner(x) * 2
    return y, log


@program(None)
def raising_through_breaking_managers(x):
    log = []

    def inner(v):
        with BreakingCM(log, "in"):
            v = v + 1
            raise ValueError("inner")
        return v

    try:
        with BreakingCM(log, "out"):
            inner(x)
    except ValueError as e:
        log.append(repr(e))
    with BreakingCM(log, "swallow", (ValueError,)):
        inner(x)
    return x * 2, log


@contextlib.contextmanager
def breaking_generator(log):
    log.append("before")
    brk()
    try:
        yield len(log)
    finally:
        brk()
        log.append("after")


@program(None)
def generator_managers(x):
    log = []

    def inner(v):
        with breaking_generator(log) as n:
            v = v + n
            brk()
        return v * 2

    return inner(x), log


@program(None)
def exit_stack(x):
    log = []

    def inner(v):
        with contextlib.ExitStack() as stack:
            stack.enter_context(CM(log, "a"))
            v = v + 1
            brk()
            stack.callback(log.append, "callback")
        return v * 2

    return inner(x), log


@program(None)
def grad_modes_across_frames(x):
    seen = []

    def inner(v):
        seen.append(torch.is_grad_enabled())
        brk()
        seen.append(torch.is_grad_enabled())
        with torch.enable_grad():
            brk()
            v = v + 1
            seen.append(torch.is_grad_enabled())
        return v

    with torch.no_grad():
        y = inner(x)
        seen.append(torch.is_grad_enabled())
    return y * 2, seen


@program(None)
def autocast_across_frames(x):
    def inner(v):
        v = v @ v
        brk()
        return v @ v, v.dtype

    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, kind = inner(x)
    return y, kind, (x @ x).dtype


# -- exceptions ------------------------------------------------------------------------------------------------


@program(None)
def raise_behind_the_break(x):
    def inner(v):
        v = v + 1
        brk()
        raise ValueError("behind")

    try:
        return inner(x)
    except ValueError as e:
        return x * 2, repr(e), [(f.name, f.lineno) for f in traceback.extract_tb(e.__traceback__)][-1]


@program(None)
def native_raise_in_the_callee(x):
    def inner(v):
        v = v + 1
        cfail()
        return v

    def middle(v):
        try:
            return inner(v)
        finally:
            brk()

    try:
        return middle(x)
    except KeyError as e:
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(e.__traceback__)]
        return x * 2, repr(e), lines


@program(None)
def uncaught_in_the_callee(x):
    def inner(v):
        v = v + 1
        brk()
        cfail(ValueError)

    def middle(v):
        return inner(v) + 1

    return middle(x)


@program(None)
def uncaught_python_error(x):
    def inner(v):
        v = v + 1
        brk()
        return v.no_such_attribute

    def middle(v):
        return inner(v) + 1

    return middle(x)


@program(None)
def try_in_the_callee(x):
    def inner(v):
        try:
            v = v + 1
            brk()
            cfail()
        except KeyError as e:
            brk()
            return v * 2, repr(e), repr(sys.exc_info()[1])
        finally:
            brk()
        return v

    return inner(x), repr(sys.exc_info()[1])


@program(None)
def call_from_a_handler(x):
    def inner(v):
        v = v + 1
        brk()
        return v * 2, repr(sys.exc_info()[1])

    try:
        cfail(ValueError)
    except ValueError as e:
        y = inner(x)
        return y, repr(e), repr(sys.exc_info()[1])


@program(None)
def bare_raise_in_the_callee(x):
    def inner(v):
        v = v + 1
        brk()
        raise

    try:
        try:
            cfail(ValueError)
        except ValueError:
            inner(x)
    except ValueError as e:
        return x * 2, repr(e), repr(e.__context__)


@program(None)
def raise_from_in_the_callee(x):
    def inner(v):
        brk()
        raise RuntimeError("new") from KeyError("cause")

    try:
        inner(x)
    except RuntimeError as e:
        return x + 1, repr(e.__cause__), repr(e.__context__), e.__suppress_context__


@program(None)
def context_of_an_error_in_a_handler(x):
    def inner(v):
        brk()
        raise RuntimeError("second")

    try:
        try:
            cfail()
        except KeyError:
            inner(x)
    except RuntimeError as e:
        return x + 1, repr(e), repr(e.__context__)


@program(None)
def finally_of_the_caller(x):
    log = []

    def inner(v):
        v = v + 1
        brk()
        if v.shape[0] == 3:
            raise KeyError("k")
        return v

    def middle(v):
        try:
            return inner(v)
        finally:
            log.append("finally")
            brk()

    try:
        middle(x)
    except KeyError as e:
        log.append(repr(e))
    return x * 2, log


@program(None)
def finally_that_returns(x):
    def inner(v):
        brk()
        raise KeyError("lost")

    def middle(v):
        try:
            inner(v)
        finally:
            return v + 1  # noqa: B012

    return middle(x) * 2


@program(None)
def error_groups(x):
    def inner(v):
        brk()
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])

    try:
        inner(x)
    except* ValueError as group:
        seen = repr(group.exceptions)
    except* TypeError:
        pass
    return x + 1, seen


@program(None)
def whole_traceback(x):
    def inner(v):
        v = v + 1
        brk()
        v = v * 2
        cfail(ValueError)

    def middle(v):
        w = inner(v)
        return w

    try:
        middle(x)
    except ValueError:
        lines = [
            line.strip()
            for line in traceback.format_exc().splitlines()
            if "nested_break_programs" in line or "py" in line
        ]
        return x * 2, [line for line in lines if "File" in line]


# -- shared objects --------------------------------------------------------------------------------------------


@program(None)
def one_list_in_three_frames(x):
    log = []

    def inner(items, v):
        items.append(v + 1)
        brk()
        items.append(v * 2)
        return items

    def middle(items, v):
        items.append("m")
        same = inner(items, v)
        same.append("n")
        return same is items

    is_same = middle(log, x)
    return log, is_same, len(log)


@program(None)
def an_argument_that_is_changed(x):
    state = {"n": 0, "x": [x]}

    def inner(d, items):
        d["n"] += 1
        items.append(d["n"])
        brk()
        d["n"] += 1
        items[0] = items[0] + 1
        return d

    d = inner(state, state["x"])
    return d is state, state


@program(None)
def aliases_of_new_objects(x):
    def inner(a, b):
        a.append(1)
        brk()
        return a is b, a, b

    new = [x]
    same, a, b = inner(new, new)
    return same, a is new, b is new, new


@program(1)
def cells_of_several_frames(x):
    count = 0
    seen = []

    def outer(v):
        scale = 2

        def inner(w):
            nonlocal count, scale
            count += 1
            scale += 1
            brk()
            count += 10
            seen.append((count, scale))
            return w * scale

        y = inner(v) + scale
        return y, scale

    y = outer(x)
    return y, count, seen


@program(None)
def closure_returned_across_frames(x):
    def make(v):
        n = 0

        def step():
            nonlocal n
            n += 1
            brk()
            return v + n

        return step

    step = make(x)
    return step(), step(), step()


GLOBAL = 0


@program(None)
def globals_of_the_module(x):
    global GLOBAL
    GLOBAL = 1

    def inner(v):
        global GLOBAL
        GLOBAL += 1
        brk()
        GLOBAL += 10
        return v * GLOBAL

    return inner(x), GLOBAL


class Holder:
    def __init__(self, x):
        self.x = x
        self.log = []


@program(None)
def attributes_of_new_objects(x):
    def inner(h):
        h.log.append(h.x.shape[0])
        h.y = h.x + 1
        brk()
        h.z = h.y * 2
        return h

    h = Holder(x)
    same = inner(h) is h
    return same, h.y, h.z, h.log


@program(None)
def break_in_init(x):
    class Made:
        def __init__(self, v):
            self.a = v + 1
            brk()
            self.b = self.a * 2

    made = Made(x)
    return made.a, made.b


@program(None)
def in_place_changes(x):
    def inner(v):
        v.add_(1)
        brk()
        v.mul_(2)
        return v

    y = inner(x)
    return y is x, x + 1


@program(2)
def a_view_is_shared(x):
    def inner(v, row):
        row.add_(1)
        brk()
        return v + row

    y = x.clone()
    return inner(y, y[0]), y


# -- methods and modules -----------------------------------------------------------------------------------------


class Base:
    scale = 2

    def run(self, v):
        v = v + 1
        brk()
        return v * self.scale

    @property
    def breaking(self):
        brk()
        return 3

    def __getitem__(self, i):
        brk()
        return i + 1

    def __add__(self, other):
        brk()
        return other + 5

    def __call__(self, v):
        v = v * 2
        brk()
        return v + 1


class Derived(Base):
    scale = 3

    def run(self, v):
        return super().run(v * 2) + 1

    @classmethod
    def make(cls, v):
        v = v + 1
        brk()
        return v * cls.scale

    @staticmethod
    def static(v):
        brk()
        return v * 7


class Third(Derived):
    def run(self, v):
        brk()
        y = super().run(v)
        brk()
        return y


@program(2)
def methods_with_super(x):
    return Derived().run(x) + 1


@program(None)
def breaks_around_super(x):
    return Third().run(x) + 1


@program(None)
def class_and_static_methods(x):
    return Derived.make(x) + Derived().make(x) + Derived.static(x) + Derived().static(x)


@program(None)
def special_methods(x):
    d = Derived()
    return x + d.breaking, x + d[1], d + x, d(x)


@program(None)
def callbacks_from_c(x):
    def key(v):
        brk()
        return -v

    order = sorted([1, 3, 2], key=key)
    mapped = list(map(lambda v: (brk(), v + 1)[1], order))
    best = max([1, 2, 3], key=lambda v: (brk(), -v)[1])
    return x + 1, order, mapped, best


@program(None)
def generators_in_callees(x):
    def numbers(n):
        for i in range(n):
            brk()
            yield i

    def inner(v):
        for i in numbers(3):
            v = v + i
            brk()
        return v

    return inner(x) * 2, list(numbers(2)), sum(numbers(3))


@program(None)
def generator_around_a_call(x):
    def inner(v):
        brk()
        return v + 1

    def produce():
        yield inner(x)
        yield inner(x * 2)

    return list(produce()), [inner(v) for v in produce()]


@program(None)
def recursion_with_breaks(x):
    def down(v, n):
        if n == 0:
            return v
        v = v + n
        brk()
        return down(v, n - 1) * 2

    return down(x, 12)


@program(None)
def recursion_that_breaks_on_the_way_up(x):
    def down(v, n):
        if n == 0:
            brk()
            return v
        w = down(v + 1, n - 1)
        brk()
        return w + n

    return down(x, 5)


@program(None)
def mutual_recursion(x):
    def even(v, n):
        brk()
        return v if n == 0 else odd(v + 1, n - 1)

    def odd(v, n):
        return even(v * 2, n - 1) if n else v

    return even(x, 6), odd(x, 5)


class Printing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        with torch.no_grad():
            self.linear.weight.fill_(0.5)
            self.linear.bias.fill_(1)

    def forward(self, x):
        x = self.linear(x)
        print("in forward", x.shape[0])
        return x.relu()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Printing()

    def forward(self, x):
        return self.inner(x + 1) * 2


PLAIN = Block()
HOOKED = Block()
HOOKED.inner.register_forward_hook(lambda module, args, output: output + 1)
HOOKED.inner.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
BREAKING_HOOK = Block()
BREAKING_HOOK.inner.register_forward_hook(lambda module, args, output: (brk(), output + 1)[1])


@program(2)
def print_in_a_submodule(x):
    with torch.no_grad():
        return PLAIN(x) + 1


@program(2)
def print_in_a_hooked_submodule(x):
    with torch.no_grad():
        return HOOKED(x) + 1


@program(None)
def break_in_a_hook(x):
    with torch.no_grad():
        return BREAKING_HOOK(x) + 1


@program(None)
def gradients_across_frames(x):
    weight = torch.full((3, 3), 0.5, requires_grad=True)

    def inner(v):
        v = v @ weight
        brk()
        return v * 2

    loss = inner(x).sum()
    return loss.detach(), torch.autograd.grad(loss, weight)[0]


# -- data, lifetimes, and what cannot be split ----------------------------------------------------------------------


@program(None)
def branch_on_data(x):
    def inner(v):
        if v.sum() > 0:
            return v + 1
        return v - 1

    def middle(v):
        return inner(v * 2) * 3

    return middle(x) + 1


@program(None)
def number_of_a_tensor(x):
    def size(v):
        return int(v.abs().sum().item()) + 1

    return x * size(x) + size(x + 1)


@program(None)
def error_that_data_bring(x):
    def inner(v):
        index = int(v.abs().max().item()) + 100
        return [1, 2][index]

    try:
        return inner(x + 1)
    except IndexError as e:
        return x * 2, str(e)


@program(None)
def callee_that_looks_at_its_frame(x):
    def inner(v):
        w = v + 1
        names = sorted(locals())
        brk()
        return w * 2, names

    return inner(x), x + 1


class Token:
    pass


@program(None)
def arguments_die_in_time(x):
    alive = []

    def inner(token, v):
        watch = weakref.ref(token)
        v = v + 1
        brk()
        del token
        brk()
        alive.append(watch() is not None)
        return v

    y = inner(Token(), x)
    return y, alive


class Finalized:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


@program(None)
def finalizers_run_when_the_callee_returns(x):
    log = []

    def inner(v):
        held = Finalized(log)  # noqa: F841
        v = v + 1
        brk()
        log.append("end of inner")
        return v * 2

    y = inner(x)
    log.append("after the call")
    return y, log


@program(None)
def weak_references_to_what_a_callee_held(x):
    @framehook.disable
    def make():
        class Token:
            pass

        token = Token()
        return token, weakref.ref(token)

    def inner(v):
        token, watch = make()
        v = v + 1
        brk()
        return v * 2, watch, token is None

    y, watch, _ = inner(x)
    gc.collect()
    return y, watch() is None


@program(None)
def tail_calls(x):
    def inner(v):
        v = v + 1
        return framehook.disable(lambda w: w * 2)(v)

    def middle(v):
        return inner(v)

    return middle(x)


@program(None)
def deleted_and_unbound_variables(x):
    def inner(v):
        a = v + 1
        del v
        brk()
        try:
            return v  # noqa: F821
        except UnboundLocalError as e:
            return a, str(e)

    return inner(x)


@program(None)
def default_arguments_and_keyword_only(x):
    def inner(a, b=[], *, c={}):  # noqa: B006
        b.append(1)
        c["n"] = len(b)
        brk()
        b.append(2)
        return a * len(b), c

    return inner(x), inner(x, [5]), inner(x, c={})


@program(None)
def a_function_whose_code_is_replaced(x):
    def first(v):
        v = v + 1
        swap()
        return v * 2

    def second(v):
        return v - 1

    def swap():
        brk()
        first.__code__ = second.__code__
        brk()

    y = first(x)
    return y, first(x)


@program(None)
def match_in_the_callee(x):
    def inner(v, kind):
        match kind:
            case {"scale": s}:
                brk()
                return v * s
            case [a, *rest]:
                brk()
                return v + a + len(rest)
            case _:
                brk()
                return v

    return inner(x, {"scale": 2}), inner(x, [1, 2, 3]), inner(x, None)


# -- loops over modules ----------------------------------------------------------------------------------------------


class Scale(nn.Module):
    def __init__(self, by, breaks=False):
        super().__init__()
        self.by, self.breaks = by, breaks

    def forward(self, x):
        x = x * self.by
        if self.breaks:
            brk()
        return x + 1


FOUR = nn.Sequential(Scale(1), Scale(2, True), Scale(3), Scale(4))
LAYERS = nn.ModuleList([Scale(1), Scale(2, True), Scale(3), Scale(4)])
ALL_BREAK = nn.Sequential(*[Scale(i, True) for i in range(5)])


@program(2)
def one_layer_of_a_sequential(x):
    return FOUR(x) * 2


@program(2)
def one_layer_of_a_module_list(x):
    for layer in LAYERS:
        x = layer(x)
    return x * 2


@program(2)
def one_layer_of_a_plain_list(x):
    for layer in [Scale(1), Scale(2, True), Scale(3)]:
        x = layer(x)
    return x * 2


@program(2)
def modules_by_name(x):
    for name, layer in LAYERS._modules.items():
        x = layer(x) + int(name)
    return x * 2


@program(2)
def layer_that_breaks_last(x):
    for layer in (LAYERS[0], LAYERS[2], LAYERS[1]):
        x = layer(x)
    return x * 2


@program(None)
def every_layer_breaks(x):
    return ALL_BREAK(x) * 2


@program(None)
def numbered_layers(x):
    for i, layer in enumerate(LAYERS):
        x = layer(x) + i
    return x * 2


@program(None)
def layers_in_a_comprehension(x):
    return [layer(x) for layer in LAYERS]


@program(2)
def loops_over_layers_in_each_other(x):
    for outer in (LAYERS[0], LAYERS[2]):
        x = outer(x)
    for outer in LAYERS:
        x = outer(x)
        for inner in (LAYERS[2], LAYERS[3]):
            x = inner(x)
    return x


@program(None)
def layers_in_try_and_with(x):
    log = []
    for layer in LAYERS:
        with CM(log, "layer"):
            try:
                x = layer(x)
                if layer.breaks:
                    cfail()
            except KeyError:
                brk()
                continue
            finally:
                log.append(layer.by)
        if layer.by == 3:
            break
    else:
        log.append("else")
    return x, log


@program(None)
def layers_that_change_on_the_way(x):
    layers = nn.ModuleList([Scale(1), Scale(2), Scale(3)])
    items = [Scale(4), Scale(5), Scale(6)]
    log = []
    try:
        for layer in layers:
            x = layer(x)
            log.append(layer.by)
            framehook.disable(lambda: layers.append(Scale(9)))()
    except RuntimeError as e:
        log.append(str(e))
    for item in items:
        x = item(x)
        log.append(item.by)
        if item.by == 4:
            framehook.disable(lambda: items.insert(0, Scale(7)))()
        if len(log) > 9:
            break

    def replace():
        last = layers._modules.pop("2")
        layers._modules["x"] = last

    for number, (name, layer) in enumerate(layers._modules.items()):
        log.append((name, layer.by))
        if number == 0:
            framehook.disable(replace)()
    return x, log


@program(None)
def an_iterator_that_others_have(x):
    layers = [Scale(1), Scale(2, True), Scale(3), Scale(4)]
    it = iter(layers)
    for layer in it:
        x = layer(x)
        x = next(it)(x)
    holder = [iter(layers)]
    for layer in holder[0]:
        x = layer(x)
        brk()
        x = next(holder[0])(x)
    return x
