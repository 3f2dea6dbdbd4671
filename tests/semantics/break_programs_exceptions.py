"""Programs that break around exceptions: handlers, `finally`, tracebacks."""

# ruff: noqa: E742, E731, E741, F821, F841, F842, B904, B006, B011, B012, B015, B018, B023, B905, SIM, UP, PIE, RUF
# mypy: ignore-errors

from __future__ import annotations

import sys
import traceback
import types

import torch

from framehook import graph_break as brk
from tests.semantics.break_table import Programs, cfail

PROGRAMS = Programs()
program = PROGRAMS.program


# -- try
@program(0)
def try_native_raise(x):
    y = x + 1
    try:
        types.MappingProxyType({})["k"]
    except (ValueError, KeyError) as e:
        z = y * 2
        s = repr(e)
    else:
        z = y
    finally:
        z = z + 1
    return z, s, "e" in dir()


@program(2)
def try_op_error(x):
    try:
        return x @ torch.ones(7)
    except RuntimeError as e:
        brk()
        return str(e)[:40], x + 1


@program(2)
def try_py_raise_inlined(x):
    def f(z):
        z = z + 1
        if z.dim() == 2:
            raise ValueError("dim")
        return z

    try:
        return f(x * 2)
    except ValueError as e:
        brk()
        return str(e), x * 3, len(traceback.extract_tb(e.__traceback__))


@program(1)
def handler_as_e_deleted(x):
    try:
        cfail()
    except KeyError as e:
        brk()
        y = x + 1
    try:
        e
    except UnboundLocalError as u:
        return str(u), y


@program(1)
def handler_reraise(x):
    try:
        try:
            cfail(ValueError)
        except ValueError:
            brk()
            x = x + 1
            raise
    except ValueError as e:
        return repr(e), x, e.__context__ is None


@program(2)
def handler_raise_from(x):
    try:
        try:
            cfail()
        except KeyError as k:
            y = x + 1
            brk()
            raise RuntimeError("from") from k
    except RuntimeError as e:
        brk()
        return repr(e), repr(e.__cause__), e.__suppress_context__, y * 2


@program(1)
def handler_raise_from_none(x):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            brk()
            raise RuntimeError("n") from None
    except RuntimeError as e:
        return repr(e.__cause__), e.__suppress_context__, repr(e.__context__), x + 1


@program(1)
def handler_context(x):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            brk()
            x = x + 1
            raise ValueError(2)
    except ValueError as e:
        return repr(e.__context__), x


@program(1)
def handlers_nested(x):
    log = []
    try:
        raise KeyError("a")
    except KeyError as a:
        brk()
        try:
            raise ValueError("b")
        except ValueError as b:
            brk()
            log.append((repr(a), repr(b), repr(b.__context__), repr(sys.exc_info()[1])))
            x = x + 1
        brk()
        log.append(repr(sys.exc_info()[1]))
    log.append(repr(sys.exc_info()[1]))
    return x, log


@program(1)
def handler_bare_raise_nested(x):
    try:
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                raise ValueError("inner")
            except ValueError:
                brk()
            x = x + 1
            raise
    except KeyError as e:
        return repr(e), x


@program(1)
def bare_raise_in_callee(x):
    def re():
        brk()
        raise

    try:
        try:
            raise KeyError("c")
        except KeyError:
            x = x + 1
            re()
    except KeyError as e:
        return repr(e), x


@program(1)
def bare_raise_nothing(x):
    y = x + 1
    brk()
    raise


@program(2)
def finally_return(x):
    def f():
        try:
            brk()
            raise ValueError
        finally:
            brk()
            return x + 1

    def g():
        for _ in range(2):
            try:
                brk()
                return 1
            finally:
                continue
        return x * 2

    return f(), g()


@program(1)
def finally_order(x):
    log = []

    def f():
        try:
            log.append("t")
            brk()
            return log.append("r") or x + 1
        finally:
            log.append("f")
            brk()
            log.append("f2")

    return f(), log


@program(1)
def finally_raise_override(x):
    try:
        try:
            raise KeyError("one")
        finally:
            brk()
            y = x + 1
            raise ValueError("two")
    except ValueError as e:
        return repr(e), repr(e.__context__), y


@program(1)
def else_raises(x):
    log = []
    try:
        try:
            brk()
        except ValueError:
            log.append("no")
        else:
            brk()
            raise ValueError("else")
        finally:
            log.append("fin")
    except ValueError as e:
        return repr(e), log, x + 1


@program(0)
def except_group(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError as eg:
        brk()
        a = repr(eg.exceptions)
    except* KeyError as eg:
        b = repr(eg.exceptions)
    return a, b, x + 1


@program(1)
def uncaught_native(x):
    y = x + 1
    cfail()
    return y


@program(2)
def uncaught_after_mutation(x):
    x.add_(1)
    brk()
    x.mul_(2)
    raise LookupError("after")


@program(2)
def assert_msg(x):
    brk()
    assert x.sum().item() < 0, f"sum {x.sum().item()}"


@program(2)
def custom_exc(x):
    class E(Exception):
        def __init__(self, t):
            super().__init__("custom")
            self.t = t

    try:
        raise E(x + 1)
    except E as e:
        brk()
        return e.t * 2, str(e), e.args


@program(1)
def exc_stored(x):
    errs = []
    for i in range(3):
        try:
            if i == 1:
                raise ValueError(i)
            brk()
        except ValueError as e:
            errs.append(e)
    return [repr(e) for e in errs], errs[0].__traceback__ is not None, x + 1


@program(1)
def exc_tb_lines(x):
    try:
        y = x + 1
        brk()
        cfail(RuntimeError)
    except RuntimeError as e:
        return [(f.name, f.line) for f in traceback.extract_tb(e.__traceback__)], y


@program(2)
def exc_tb_inlined(x):
    def a(z):
        return b(z + 1)

    def b(z):
        brk()
        raise ValueError("deep")

    try:
        a(x)
    except ValueError as e:
        return [(f.name, f.line) for f in traceback.extract_tb(e.__traceback__)], x * 2


@program(1)
def exc_info_in_callee(x):
    def look():
        return repr(sys.exc_info()[1])

    try:
        raise KeyError(5)
    except KeyError:
        s = look()
        brk()
        t = look()
        y = x + 1
        u = look()
    return s, t, u, look(), y


@program(1)
def stop_iteration(x):
    it = iter([x])
    a = next(it)
    try:
        next(it)
    except StopIteration:
        brk()
        return a + 1


@program(1)
def keyboard(x):
    try:
        brk()
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        return x + 1


@program(1)
def sysexit_like(x):
    try:
        brk()
        sys.exit(3)
    except SystemExit as e:
        return e.code, x + 1
