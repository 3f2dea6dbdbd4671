"""Classes, modules and namespaces under attack: what is changed behind the trace's back must be seen.

Each row builds a function and changes that may happen between calls.  The compiled function must give what the
plain one gives: called twice, then twice after every change.
"""

from __future__ import annotations

import abc
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
import torch

import framehook

X = torch.ones(2)
Row = tuple[Callable[..., Any], tuple[Any, ...], list[Callable[[], Any]]]
ROWS: dict[str, Callable[[], Row]] = {}


def row(make: Callable[[], Row]) -> Callable[[], Row]:
    ROWS[make.__name__] = make
    return make


def _module(source: str) -> types.ModuleType:
    """A fresh module, importable under its name."""
    module = types.ModuleType("attacked_module")
    sys.modules["attacked_module"] = module
    module.torch = torch  # type: ignore[attr-defined]
    exec(source, module.__dict__)
    return module


# -- one namespace, several ways to it -----------------------------------------------------------------------


@row
def global_stored_then_read_as_attribute() -> Row:
    m = _module("K = 1\ndef put(v):\n    global K\n    K = v\n")

    def fn(x: Any) -> Any:
        before = m.K
        m.put(5)
        after = m.K
        m.put(1)
        return x * after + before

    return fn, (X,), []


@row
def own_global_stored_then_read_through_sys_modules() -> Row:
    m = _module(
        "import sys\nK = 1\ndef fn(x):\n    global K\n    K = 7\n    y = x * sys.modules[__name__].K\n    K = 1\n    return y\n"
    )
    return m.fn, (X,), []


@row
def own_global_stored_then_read_as_attribute() -> Row:
    m = _module("K = 1\ndef fn(x, m):\n    global K\n    K = 7\n    y = x * m.K\n    K = 1\n    return y\n")
    return m.fn, (X, m), []


@row
def own_global_deleted_then_read_as_attribute() -> Row:
    m = _module(
        "K = 1\ndef fn(x, m):\n    global K\n    del K\n    y = x * getattr(m, 'K', 3)\n    K = 1\n    return y\n"
    )
    return m.fn, (X, m), []


@row
def new_global_read_as_attribute() -> Row:
    m = _module("def fn(x, m):\n    global K\n    K = 4\n    y = x * m.K\n    del K\n    return y\n")
    return m.fn, (X, m), []


@row
def global_stored_then_read_as_item() -> Row:
    m = _module(
        "K = 1\ndef fn(x, d):\n    global K\n    K = 7\n    y = x * d['K']\n    K = 1\n    return y\n"
    )
    return m.fn, (X, m.__dict__), []


@row
def item_stored_then_read_as_global() -> Row:
    m = _module("K = 1\ndef fn(x, d):\n    d['K'] = 7\n    y = x * K\n    d['K'] = 1\n    return y\n")
    return m.fn, (X, m.__dict__), []


@row
def item_stored_then_read_by_a_callee() -> Row:
    m = _module("K = 1\ndef get():\n    return K\n")

    def fn(x: Any, d: Any) -> Any:
        d["K"] = 7
        y = x * m.get()
        d["K"] = 1
        return y

    return fn, (X, m.__dict__), []


@row
def item_stored_then_read_as_attribute() -> Row:
    m = _module("K = 1\n")

    def fn(x: Any, d: Any) -> Any:
        d["K"] = 7
        y = x * m.K
        d["K"] = 1
        return y

    return fn, (X, m.__dict__), []


@row
def the_dict_becomes_the_globals() -> Row:
    m = _module(
        "K = 1\ndef fn(x, box):\n    global K\n    K = 7\n    y = x * box[0]['K']\n    K = 1\n    return y\n"
    )
    box = [{"K": 2}]
    return m.fn, (X, box), [lambda: box.__setitem__(0, m.__dict__)]


@row
def the_changed_dict_becomes_the_globals() -> Row:
    m = _module(
        "K = 1\ndef fn(x, box):\n    box[0]['K'] = 7\n    y = x * K\n    box[0]['K'] = 1\n    return y\n"
    )
    box: list[dict[str, Any]] = [dict.fromkeys(m.__dict__, 1)]
    return m.fn, (X, box), [lambda: box.__setitem__(0, m.__dict__)]


@row
def objects_share_a_dict() -> Row:
    class Borg:
        pass

    a, b = Borg(), Borg()
    b.__dict__ = a.__dict__
    a.k = 1  # type: ignore[attr-defined]

    def fn(x: Any) -> Any:
        before = b.k  # type: ignore[attr-defined]
        a.k = 5  # type: ignore[attr-defined]
        after = b.k  # type: ignore[attr-defined]
        a.k = 1  # type: ignore[attr-defined]
        return x * after + before

    return fn, (X,), []


@row
def objects_come_to_share_a_dict() -> Row:
    class Borg:
        def __init__(self) -> None:
            self.k = 1

    class Other:
        def __init__(self) -> None:
            self.k = 1

    a, b, c = Borg(), Borg(), Other()

    def fn(x: Any) -> Any:
        a.k = 5
        after = b.k + 10 * c.k
        a.k = 1
        return x * after

    def share_b() -> None:
        b.__dict__ = a.__dict__

    def share_c() -> None:
        c.__dict__ = a.__dict__

    return fn, (X,), [share_b, share_c]


@row
def attribute_dict_of_a_function() -> Row:
    def h() -> None:
        pass

    h.k = 1  # type: ignore[attr-defined]

    def fn(x: Any) -> Any:
        h.__dict__["k"] = 5
        y = x * h.k  # type: ignore[attr-defined]
        h.__dict__["k"] = 1
        return y

    return fn, (X,), []


@row
def a_dict_becomes_that_of_a_function() -> Row:
    def h() -> None:
        pass

    h.k = 1  # type: ignore[attr-defined]
    box: list[dict[str, Any]] = [{"k": 1}]

    def fn(x: Any) -> Any:
        d = box[0]
        d["k"] = 5
        y = x * h.k  # type: ignore[attr-defined]
        d["k"] = 1
        return y

    return fn, (X,), [lambda: box.__setitem__(0, h.__dict__)]


# -- isinstance and issubclass --------------------------------------------------------------------------------


@row
def class_is_a_property() -> Row:
    class Real:
        pass

    class Proxy:
        @property
        def __class__(self) -> Any:
            return Real

    p = Proxy()

    def fn(x: Any) -> Any:
        return x + isinstance(p, Real) + 2 * isinstance(p, Proxy) + 4 * (p.__class__ is Real)

    return fn, (X,), []


@row
def class_is_claimed_by_getattribute() -> Row:
    class Real:
        pass

    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            return Real if name == "__class__" else object.__getattribute__(self, name)

    p = Proxy()

    def fn(x: Any) -> Any:
        return x + isinstance(p, Real) + 2 * isinstance(p, Proxy)

    return fn, (X,), []


@row
def metaclass_gets_an_instance_check() -> Row:
    class Meta(type):
        pass

    class Asked(metaclass=Meta):
        pass

    def fn(x: Any) -> Any:
        return x + isinstance(3, Asked) + 2 * issubclass(int, Asked)

    def put(name: str) -> Callable[[], None]:
        return lambda: setattr(Meta, name, lambda self, other: True)

    return fn, (X,), [put("__instancecheck__"), put("__subclasscheck__")]


@row
def class_with_its_own_subclass_hook() -> Row:
    answers = [True]

    class Base(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other: type) -> bool:
            return answers[0]

    class Thing:
        pass

    t = Thing()

    def fn(x: Any) -> Any:
        return x + isinstance(t, Base) + 2 * isinstance(3, Base)

    return fn, (X,), []


@row
def class_is_registered_with_an_abc() -> Row:
    class Base(abc.ABC):
        pass

    class Thing:
        pass

    t = Thing()

    def fn(x: Any) -> Any:
        return x + isinstance(t, Base) + 2 * issubclass(Thing, Base) + 4 * isinstance(t, (int, Mapping))

    return fn, (X,), [lambda: Base.register(Thing), lambda: Mapping.register(Thing)]


@row
def builtin_class_is_registered_with_an_abc() -> Row:
    class Base(abc.ABC):
        pass

    def fn(x: Any) -> Any:
        return x + isinstance(3, Base) + 2 * isinstance([x], Base)

    return fn, (X,), [lambda: Base.register(int), lambda: Base.register(list)]


@row
def class_becomes_iterable() -> Row:
    class Thing:
        pass

    def items(self: Any) -> Iterator[Any]:
        return iter(())

    t = Thing()

    def fn(x: Any) -> Any:
        return x + isinstance(t, Iterable) + 2 * isinstance(t, Mapping)

    def become() -> None:
        Thing.__iter__ = items  # type: ignore[attr-defined]

    return fn, (X,), [become, lambda: Mapping.register(Thing)]


@row
def bases_are_replaced() -> Row:
    class P:
        pass

    class Q:
        pass

    class Z(P):
        pass

    z = Z()

    def fn(x: Any) -> Any:
        return x + isinstance(z, Q) + 2 * issubclass(Z, Q) + 4 * isinstance(z, P)

    return fn, (X,), [lambda: setattr(Z, "__bases__", (Q,))]


@row
def bases_are_replaced_issubclass_only() -> Row:
    class P:
        pass

    class Q:
        pass

    class Z(P):
        pass

    def fn(x: Any) -> Any:
        return x + 2 * issubclass(Z, Q) + 4 * (Q in Z.__mro__)

    return fn, (X,), [lambda: setattr(Z, "__bases__", (Q,))]


# -- descriptors ----------------------------------------------------------------------------------------------


@row
def descriptor_becomes_a_data_descriptor() -> Row:
    class D:
        def __get__(self, obj: Any, cls: Any) -> int:
            return 7

    class A:
        k = D()

    a = A()
    a.__dict__["k"] = 1

    def fn(x: Any) -> Any:
        return x + a.k

    return fn, (X,), [lambda: setattr(D, "__set__", lambda self, obj, value: None)]


@row
def descriptor_becomes_deletable() -> Row:
    class D:
        def __get__(self, obj: Any, cls: Any) -> int:
            return 7

    class A:
        k = D()

    a = A()
    a.__dict__["k"] = 1

    def fn(x: Any) -> Any:
        return x + a.k

    return fn, (X,), [lambda: setattr(D, "__delete__", lambda self, obj: None)]


@row
def class_value_becomes_a_descriptor() -> Row:
    class V:
        n = 3

    class A:
        v = V()

    a = A()

    def fn(x: Any) -> Any:
        return x + a.v.n + A.v.n

    class Other:
        n = 4

    return fn, (X,), [lambda: setattr(V, "__get__", lambda self, obj, cls: Other())]


# -- modules and tensors ----------------------------------------------------------------------------------------


@row
def module_changes_class() -> Row:
    m = _module("K = 1\n")

    class Loud(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            return 9 if name == "K" else super().__getattribute__(name)

    def fn(x: Any) -> Any:
        return x + m.K

    return fn, (X,), [lambda: setattr(m, "__class__", Loud)]


@row
def module_of_a_class_with_properties() -> Row:
    class WithProperty(types.ModuleType):
        @property
        def K(self) -> int:
            return 9

    m = _module("K = 1\nL = 2\n")
    m.__class__ = WithProperty

    def fn(x: Any) -> Any:
        return x + m.K + m.L

    return fn, (X,), [lambda: setattr(WithProperty, "L", property(lambda self: 20))]


@row
def tensor_class_gets_an_attribute() -> Row:
    def fn(x: Any) -> Any:
        y = x * 2
        return y + getattr(x, "attacked_name", 1) + hasattr(y, "attacked_name")

    def put(value: Any) -> Callable[[], None]:
        return lambda: setattr(torch.Tensor, "attacked_name", value)

    return fn, (X,), [put(9), put(10), lambda: delattr(torch.Tensor, "attacked_name")]


@pytest.mark.parametrize("name", ROWS)
def test_attack(name: str) -> None:
    fn, arguments, changes = ROWS[name]()
    compiled = framehook.compile(fn, backend="eager")
    for change in [lambda: None, *changes]:
        change()
        expected = fn(*arguments)
        for _ in range(2):
            torch.testing.assert_close(compiled(*arguments), expected, rtol=0, atol=0)
