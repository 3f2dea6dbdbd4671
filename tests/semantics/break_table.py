"""What the break programs share: the table, a C function that raises, context managers that note what happens."""

# mypy: ignore-errors

from __future__ import annotations

import dis
import types
from contextlib import contextmanager

from framehook import graph_break as brk

#: From CPython 3.12 on a comprehension is part of the function it stands in (PEP 709), which breaks may divide.
COMPREHENSIONS_ARE_INLINED = "LOAD_FAST_AND_CLEAR" in dis.opmap


class Programs(dict):
    """Functions of one tensor by name, each with the number of graphs it becomes; None where data decide."""

    def program(self, graphs, inlined=None):
        """Collect a program; `inlined`: the number of graphs where comprehensions are no functions of their own."""

        def add(fn):
            expected = graphs if inlined is None or not COMPREHENSIONS_ARE_INLINED else inlined
            self[fn.__name__] = (fn, expected)
            return fn

        return add


def cfail(kind=KeyError):
    if kind is KeyError:
        types.MappingProxyType({})["missing"]
    raise kind("py")


class CM:
    def __init__(self, log, name, swallow=()):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append("enter " + self.name)
        return self

    def __exit__(self, t, v, tb):
        self.log.append(("exit", self.name, t.__name__ if t else None, str(v), tb is not None))
        return bool(t and issubclass(t, tuple(self.swallow)))


class BreakingCM(CM):
    def __enter__(self):
        brk()
        return super().__enter__()

    def __exit__(self, *a):
        brk()
        return super().__exit__(*a)


@contextmanager
def gcm(log, name):
    log.append("in " + name)
    try:
        yield name
    except ValueError as e:
        log.append("swallowed " + str(e))
    finally:
        log.append("out " + name)
