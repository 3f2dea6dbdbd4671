"""A whole program: helper functions, and `main(x, y, n, items, table, box)`, which returns all of its variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tests.semantics.generator.expressions import number, tensor
from tests.semantics.generator.prelude import Box
from tests.semantics.generator.scope import Draw, Scope
from tests.semantics.generator.statements import statements


@dataclasses.dataclass(frozen=True)
class Program:
    """Source text, and whether it may break."""

    text: str
    has_breaks: bool

    def __repr__(self) -> str:
        return f"# breaks: {self.has_breaks}\n{self.text}"


@st.composite
def programs(draw: Callable[[Any], Any], has_breaks: bool | None = None) -> Program:
    """Strategy for programs; `has_breaks` None: with and without."""
    d = Draw(draw, draw(st.booleans()) if has_breaks is None else has_breaks)
    for _ in range(d.number(0, 2)):
        _helper(d)
    has_class = d.chance(40)
    if has_class:
        _class(d)
    d.line("def main(x, y, n, items, table, box):")
    d.indent = 1
    scope = d.scope = Scope()
    if d.chance(25):
        d.line("global COUNT")
        d.line("COUNT += 1")
        scope.add("int", "COUNT")
    for kind, name in (
        ("int", "n"), ("tensors", "items"), ("table", "table"), ("box", "box"), ("tensor", "y"), ("tensor", "x"),
    ):  # fmt: skip
        scope.add(kind, name)
    if has_class:
        d.line(f"own = Own(y, n, {d.choice(('[1, 2]', 'box.items'))})")
        scope.add("box", "own")
    size = d.choice((8, 18, 18, 40))
    d.budget = size
    statements(d, 3, size // 2 + 2)
    names = [
        name
        for kind, names in scope.variables.items()
        for name in names
        if kind not in ("function", "iterator")
    ]
    names += [d.choice((name, f"[*zip({name}, range(3))]")) for name in scope.variables["iterator"]]
    called = [f"{name}({tensor(d, 0)})" for name in scope.variables["function"]]
    d.line(f"return {', '.join([*names, *called])}")
    return Program("\n".join(d.lines) + "\n", d.has_breaks)


def _helper(d: Draw) -> None:
    name = f"helper{len(d.helpers)}"
    d.scope = Scope()
    d.scope.is_nested = True
    d.line(f"def {name}(a, b={d.number(0, 3)}):")
    d.indent = 1
    d.scope.add("int", "b")
    d.scope.add("tensor", "a")
    d.budget = 4
    statements(d, 1, 3)
    d.line(f"return {tensor(d, 1)} * {number(d, 0)}")
    d.indent = 0
    d.helpers.append(name)


def _class(d: Draw) -> None:
    """A class of the program's own, whose methods have bodies like other functions."""
    d.line(f"class Own({d.choice(('Box', 'Crate'))}):")
    methods = ("__call__(self, x)", "__add__(self, x)", "grow(self, by=1)", "total(self)", "__len__(self)",
               "__bool__(self)", "__contains__(self, item)", "__exit__(self, kind, error, trace)",
               "__iter__(self)", "__getitem__(self, index)")  # fmt: skip
    for method in dict.fromkeys(d.choice(methods) for _ in range(d.number(1, 3))):
        d.indent = 1
        if method.startswith("total"):
            d.line("@property")
        d.line(f"def {method}:")
        d.indent = 2
        d.scope = Scope()
        d.scope.is_nested = True
        for kind, name in (("ints", "self.items"), ("int", "self.count"), ("tensor", "self.value")):
            d.scope.add(kind, name)
        if "(self, x)" in method:
            d.scope.add("tensor", "x")
        d.budget = 3
        statements(d, 1, 2)
        returns = {
            "grow": "self", "__len__": f"len(self.items) + {d.number(0, 2)}", "__bool__": "self.count > 1",
            "__contains__": "item == 2", "__exit__": f"{d.choice((True, False))}", "__iter__": "iter([self.count, 1])",
            "__add__": f"type(self)({tensor(d, 1)}, self.count)",
        }  # fmt: skip
        d.line(f"return {returns.get(method.partition('(')[0]) or tensor(d, 1)}")
    d.indent = 0


def arguments(variant: int) -> tuple[Any, ...]:
    """Arguments of `main`: other values, lengths and aliasing with each variant."""
    sign = -1.0 if variant % 2 else 1.0
    x = sign * torch.tensor([0.5, -1.5, 2.0])
    y = torch.tensor([1.0, 2.0, -0.25]) * (1 + variant)
    if variant == 2:
        y.requires_grad_()
    items = [x, torch.full((3,), 0.5)] if variant < 2 else [x, x, torch.ones(3)]
    table = {"a": y, "b": items[1]}
    return x, y, 2 + variant, items, table, Box(x if variant else torch.ones(3), variant, [1, 2])
