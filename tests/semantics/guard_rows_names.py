"""Guard rows about names and code: globals, builtins, cells, functions, classes, and the environment."""

from __future__ import annotations

import builtins
import os
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.semantics.guard_rows_tensors import ramp
from tests.semantics.guard_table import Call, Table, call, namespace

NAMES = Table()


@NAMES.miss(cases={"value": (2, 3), "type": (1, 1.0), "to_tensor": (2, torch.tensor([1.0, 2.0, 3.0]))})
def global_changed(patch: object, before: Any, after: Any) -> Iterator[Call]:
    module = namespace("def fn(x):\n    return x * SCALE", SCALE=before)
    yield call(module["fn"], ramp(3))
    module["SCALE"] = after
    yield call(module["fn"], ramp(3))


@NAMES.miss
def global_function_replaced(patch: object) -> Iterator[Call]:
    module = namespace("def helper(x):\n    return x + 1\n\ndef fn(x):\n    return helper(x) * 2")
    yield call(module["fn"], ramp(3))
    exec("def helper(x):\n    return x - 1", module)
    yield call(module["fn"], ramp(3))


@NAMES.miss
def global_module_replaced(patch: object) -> Iterator[Call]:
    first, second = types.ModuleType("first"), types.ModuleType("second")
    first.scale, second.scale = 2, 3  # type: ignore[attr-defined]
    module = namespace("def fn(x):\n    return x * library.scale", library=first)
    yield call(module["fn"], ramp(3))
    module["library"] = second
    yield call(module["fn"], ramp(3))


@NAMES.miss
def module_attribute_replaced(patch: object) -> Iterator[Call]:
    library = types.ModuleType("library")
    library.scale = 2  # type: ignore[attr-defined]
    module = namespace("def fn(x):\n    return x * library.scale", library=library)
    yield call(module["fn"], ramp(3))
    library.scale = 3  # type: ignore[attr-defined]
    yield call(module["fn"], ramp(3))


@NAMES.miss
def global_shadows_a_builtin(patch: object) -> Iterator[Call]:
    module = namespace("def fn(x):\n    return x * abs(-2)")
    yield call(module["fn"], ramp(3))
    module["abs"] = lambda value: 10
    yield call(module["fn"], ramp(3))
    del module["abs"]
    yield call(module["fn"], ramp(3))


@NAMES.miss
def builtin_monkeypatched(patch: pytest.MonkeyPatch) -> Iterator[Call]:
    module = namespace("def fn(x):\n    return x * abs(-2)")
    yield call(module["fn"], ramp(3))
    patch.setattr(builtins, "abs", lambda value: 10)
    yield call(module["fn"], ramp(3))


@NAMES.miss
def name_added_to_builtins(patch: pytest.MonkeyPatch) -> Iterator[Call]:
    module = namespace(
        "def fn(x):\n    try:\n        return x * framehook_test_scale\n    except NameError:\n        return x + 1"
    )
    yield call(module["fn"], ramp(3))
    patch.setattr(builtins, "framehook_test_scale", 5, raising=False)
    yield call(module["fn"], ramp(3))


@NAMES.miss
def torch_function_monkeypatched(patch: pytest.MonkeyPatch) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return F.relu(x - 1)

    yield call(fn, ramp(3))
    patch.setattr(F, "relu", lambda x: x * 100)
    yield call(fn, ramp(3))


@NAMES.miss
def torch_attribute_monkeypatched(patch: pytest.MonkeyPatch) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return torch.sin(x)

    yield call(fn, ramp(3))
    patch.setattr(torch, "sin", torch.cos)
    yield call(fn, ramp(3))


@NAMES.miss
def closure_cell_changed(patch: object) -> Iterator[Call]:
    scale = 2

    def fn(x: Tensor) -> Tensor:
        return x * scale

    yield call(fn, ramp(3))
    scale = 3
    yield call(fn, ramp(3))


@NAMES.miss
def closure_cell_of_a_callee_changed(patch: object) -> Iterator[Call]:
    scale = 2

    def helper(x: Tensor) -> Tensor:
        return x * scale

    def fn(x: Tensor) -> Tensor:
        return helper(x) + 1

    yield call(fn, ramp(3))
    scale = 3
    yield call(fn, ramp(3))


def _with_closure(scale: int) -> Any:
    def fn(x: Tensor) -> Tensor:
        return x * scale

    return fn


@NAMES.miss(through="capture")
def same_code_with_another_closure(patch: object) -> Iterator[Call]:
    yield call(_with_closure(2), ramp(3))
    yield call(_with_closure(3), ramp(3))


@NAMES.hit(through="capture")
def same_code_with_an_equal_closure(patch: object) -> Iterator[Call]:
    yield call(_with_closure(2), ramp(3))
    yield call(_with_closure(2), ramp(3))


@NAMES.miss(through="capture")
def same_code_under_other_globals(patch: object) -> Iterator[Call]:
    fn = namespace("def fn(x):\n    return x * SCALE", SCALE=2)["fn"]
    yield call(fn, ramp(3))
    yield call(types.FunctionType(fn.__code__, {"SCALE": 3}), ramp(3))


@NAMES.miss(through="capture")
def same_code_under_other_builtins(patch: object) -> Iterator[Call]:
    fn = namespace("def fn(x):\n    return x * abs(-2)")["fn"]
    yield call(fn, ramp(3))
    yield call(types.FunctionType(fn.__code__, {"__builtins__": {"abs": lambda value: 10}}), ramp(3))


@NAMES.miss
def callee_of_the_same_code_with_other_globals(patch: object) -> Iterator[Call]:
    helper = namespace("def helper(x):\n    return x * SCALE", SCALE=2)["helper"]

    def fn(helper: Any, x: Tensor) -> Tensor:
        return helper(x) + 1

    yield call(fn, helper, ramp(3))
    yield call(fn, types.FunctionType(helper.__code__, {"SCALE": 3}), ramp(3))


@NAMES.miss
def callee_of_the_same_code_with_another_closure(patch: object) -> Iterator[Call]:
    def fn(helper: Any, x: Tensor) -> Tensor:
        return helper(x) + 1

    yield call(fn, _with_closure(2), ramp(3))
    yield call(fn, _with_closure(3), ramp(3))


@NAMES.hit
def callee_that_was_only_called_through(patch: object) -> Iterator[Call]:
    def make() -> Any:
        return lambda x: x * 2

    def fn(helper: Any, x: Tensor) -> Tensor:
        return helper(x) + 1

    yield call(fn, make(), ramp(3))
    yield call(fn, make(), ramp(3))


@NAMES.miss(cases={"own": (True,), "callee": (False,)})
def code_replaced(patch: object, own: bool) -> Iterator[Call]:
    def helper(x: Tensor) -> Tensor:
        return x + 1

    def fn(x: Tensor) -> Tensor:
        return helper(x) * (2 if helper is not None else 3)

    def other(x: Tensor) -> Tensor:
        return x - 1

    def other_fn(x: Tensor) -> Tensor:
        return helper(x) * 50

    yield call(fn, ramp(3))
    if own:
        fn.__code__ = other_fn.__code__
    else:
        helper.__code__ = other.__code__
    yield call(fn, ramp(3))


@NAMES.miss(cases={"own": (True,), "callee": (False,)})
def defaults_replaced(patch: object, own: bool) -> Iterator[Call]:
    def helper(x: Tensor, scale: int = 2) -> Tensor:
        return x * scale

    def fn(x: Tensor, offset: int = 1) -> Tensor:
        return helper(x) + offset

    yield call(fn, ramp(3))
    (fn if own else helper).__defaults__ = (7,)
    yield call(fn, ramp(3))


@NAMES.miss(cases={"own": (True, False), "callee": (False, False), "changed_in_place": (False, True)})
def keyword_defaults_replaced(patch: object, own: bool, in_place: bool) -> Iterator[Call]:
    def helper(x: Tensor, *, scale: int = 2) -> Tensor:
        return x * scale

    def fn(x: Tensor, *, scale: int = 1) -> Tensor:
        return helper(x) + scale

    yield call(fn, ramp(3))
    target = fn if own else helper
    if in_place:
        assert target.__kwdefaults__ is not None
        target.__kwdefaults__["scale"] = 7
    else:
        target.__kwdefaults__ = {"scale": 7}
    yield call(fn, ramp(3))


@NAMES.miss
def default_list_changed_in_place(patch: object) -> Iterator[Call]:
    def fn(x: Tensor, scales: list[int] = [2]) -> Tensor:  # noqa: B006
        return x * scales[0]

    yield call(fn, ramp(3))
    assert fn.__defaults__ is not None
    fn.__defaults__[0][0] = 3
    yield call(fn, ramp(3))


@NAMES.miss
def function_attribute_changed(patch: object) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x * fn.scale  # type: ignore[attr-defined]

    fn.scale = 2  # type: ignore[attr-defined]
    yield call(fn, ramp(3))
    fn.scale = 3  # type: ignore[attr-defined]
    yield call(fn, ramp(3))


def _classes() -> tuple[Any, Any]:
    class Base:
        scale = 2

        def apply(self, x: Tensor) -> Tensor:
            return x * self.scale

    class Derived(Base):
        pass

    return Base, Derived


@NAMES.miss(cases={"own": (True,), "base": (False,)})
def class_attribute_changed(patch: object, own: bool) -> Iterator[Call]:
    base, derived = _classes()
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return thing.apply(x)

    yield call(fn, ramp(3))
    (derived if own else base).scale = 3
    yield call(fn, ramp(3))


@NAMES.miss(cases={"own": (True,), "base": (False,)})
def method_monkeypatched(patch: object, own: bool) -> Iterator[Call]:
    base, derived = _classes()
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return thing.apply(x)

    yield call(fn, ramp(3))
    (derived if own else base).apply = lambda self, x: x - 9
    yield call(fn, ramp(3))


@NAMES.miss
def class_attribute_deleted(patch: object) -> Iterator[Call]:
    base, derived = _classes()
    derived.scale = 5
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return thing.apply(x)

    yield call(fn, ramp(3))
    del derived.scale
    yield call(fn, ramp(3))


@NAMES.miss
def bases_assigned(patch: object) -> Iterator[Call]:
    base, derived = _classes()
    other, _ = _classes()
    other.scale = 11
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return thing.apply(x)

    yield call(fn, ramp(3))
    derived.__bases__ = (other,)
    yield call(fn, ramp(3))


@NAMES.miss
def getattr_hook_added_to_the_class(patch: object) -> Iterator[Call]:
    base, derived = _classes()
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return x * getattr(thing, "extra", 4)

    yield call(fn, ramp(3))
    base.__getattr__ = lambda self, name: 8
    yield call(fn, ramp(3))


@NAMES.miss
def property_put_over_an_instance_attribute(patch: object) -> Iterator[Call]:
    base, derived = _classes()
    thing = derived()
    thing.scale = 5

    def fn(x: Tensor) -> Tensor:
        return x * thing.scale

    yield call(fn, ramp(3))
    base.scale = property(lambda self: 6, lambda self, value: None)
    yield call(fn, ramp(3))


@NAMES.miss
def dunder_added_to_the_class(patch: object) -> Iterator[Call]:
    base, derived = _classes()
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return x * 2 if thing else x * 3

    yield call(fn, ramp(3))
    base.__bool__ = lambda self: False
    yield call(fn, ramp(3))


@NAMES.miss
def class_read_as_a_name(patch: object) -> Iterator[Call]:
    base, _ = _classes()

    def fn(x: Tensor) -> Tensor:
        return x * base.scale

    yield call(fn, ramp(3))
    base.scale = 3
    yield call(fn, ramp(3))


@NAMES.miss(cases={"set": ("1", "2"), "appears": (None, "2"), "disappears": ("1", None)})
def environment_variable(patch: pytest.MonkeyPatch, before: str | None, after: str | None) -> Iterator[Call]:
    def put(value: str | None) -> None:
        if value is None:
            patch.delenv("FRAMEHOOK_TEST_SCALE", raising=False)
        else:
            patch.setenv("FRAMEHOOK_TEST_SCALE", value)

    def fn(x: Tensor) -> Tensor:
        return x * int(os.environ.get("FRAMEHOOK_TEST_SCALE", "5"))

    put(before)
    yield call(fn, ramp(3))
    put(after)
    yield call(fn, ramp(3))


@NAMES.hit
def unrelated_global_changed(patch: object) -> Iterator[Call]:
    module = namespace("def fn(x):\n    return x * SCALE", SCALE=2, OTHER=1)
    yield call(module["fn"], ramp(3))
    module["OTHER"] = 7
    module["NEW"] = 8
    yield call(module["fn"], ramp(3))
    del module["OTHER"]
    yield call(module["fn"], ramp(3))


@NAMES.hit
def unrelated_class_attribute_changed(patch: object) -> Iterator[Call]:
    base, derived = _classes()
    thing = derived()

    def fn(x: Tensor) -> Tensor:
        return thing.apply(x)

    yield call(fn, ramp(3))
    base.unrelated = 1
    derived.other = lambda self: None
    yield call(fn, ramp(3))


@NAMES.hit
def unrelated_environment_variable(patch: pytest.MonkeyPatch) -> Iterator[Call]:
    def fn(x: Tensor) -> Tensor:
        return x * int(os.environ.get("FRAMEHOOK_TEST_SCALE", "5"))

    yield call(fn, ramp(3))
    patch.setenv("FRAMEHOOK_TEST_UNRELATED", "1")
    yield call(fn, ramp(3))
