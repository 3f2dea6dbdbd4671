"""What C code of the standard library does with symbolic values: collections and operator."""

from __future__ import annotations

import collections
import functools
import operator
from typing import Any

from framehook.trace.builtin_rules import Rule
from framehook.values.deques import make_deque
from framehook.values.getters import make_getter

TABLE: dict[Any, Rule] = {
    collections.deque: make_deque,
    operator.itemgetter: functools.partial(make_getter, operator.itemgetter),
    operator.attrgetter: functools.partial(make_getter, operator.attrgetter),
    operator.methodcaller: functools.partial(make_getter, operator.methodcaller),
}
