"""The symbols of a trace: where each comes from, and the guards for what was assumed about them.

A size that differs between calls is a symbol of torch's `ShapeEnv`, made with the fake of the input that has it.  What
tracing and the backend ask about symbols, `ShapeEnv` answers for the sizes of this call and notes.  In the end each
note becomes a relation that the guard program evaluates; one that cannot be translated exactly makes its symbols
constants.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import torch

from framehook import _C, torch_symbols
from framehook.errors import CodeLocation, DynamicDimensionError
from framehook.guards.guard import Check, GuardSet, Relation
from framehook.source import Source

_OPERATIONS = _C.RELATION_OPERATIONS


class Root(NamedTuple):
    """What a symbol stands for: an integer, or a size or stride of a tensor."""

    source: Source
    kind: str  # "INTEGER", "SIZE" or "STRIDE"
    dim: int
    hint: int

    def words(self) -> str:
        """The root as people write it."""
        if self.kind == "INTEGER":
            return self.source.name()
        return f"{self.source.name()}.{self.kind.lower()}({self.dim})"


class UnknownSymbol(Exception):
    """A symbol of which nobody knows what it stands for: the frame has to be traced without symbols."""


class Symbols:
    """The symbols of one trace."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        self.roots: dict[Any, Root] = {}
        #: Places whose value is an expression of symbols: (place, expression).
        self._places: list[tuple[Root, Any]] = []
        self._marked: set[Any] = set()

    def add_tensor(self, source: Source, tensor: torch.Tensor, dims: Collection[int]) -> torch.Tensor:
        """Return a fake whose sizes in `dims` are symbols."""
        fake = torch_symbols.symbolic_fake(self.mode, tensor, source.name(), dims)
        for kind, made, real in (
            ("SIZE", fake.size(), tensor.size()),
            ("STRIDE", fake.stride(), tensor.stride()),
        ):
            for dim, (value, hint) in enumerate(zip(made, real, strict=True)):
                if torch_symbols.is_symbolic(value):
                    self._add_place(Root(source, kind, dim, hint), torch_symbols.expression(value))
        return fake

    def mark(self, source: Source, dims: Collection[int]) -> None:
        """Note that these dimensions of an input must not become numbers."""
        marked = {symbol for symbol, root in self.roots.items() if root.source is source and root.dim in dims}
        self._marked.update(symbol for symbol in marked if self.roots[symbol].kind == "SIZE")

    def check_marked(self, operation: str, where: tuple[Any, int] | None) -> None:
        """See whether an operation has made a number of a marked dimension.

        Raises:
            DynamicDimensionError: if it has.
        """
        for symbol in self._marked:
            if not torch_symbols.replaced(self.mode, symbol).free_symbols:
                root = self.roots[symbol]
                location = None if where is None else CodeLocation.of(*where)
                raise DynamicDimensionError(root.words(), root.hint, operation, location)

    def add_integer(self, source: Source, value: int) -> torch.SymInt:
        """Return a symbol for an integer from outside."""
        made = torch_symbols.symbolic_integer(self.mode, value, source.name())
        if torch_symbols.is_symbolic(made):
            self._add_place(Root(source, "INTEGER", 0, value), torch_symbols.expression(made))
        return made

    def _add_place(self, root: Root, expr: Any) -> None:
        if expr.is_Symbol and expr not in self.roots:
            self.roots[expr] = root
        else:
            self._places.append((root, expr))

    def of(self, expr: Any) -> list[Any]:
        """The symbols of an expression, in a fixed order."""
        return sorted(expr.free_symbols, key=str)

    def add_guards(self, guards: GuardSet) -> None:
        """Guard what was assumed about the symbols; called when the backend is through.

        Raises:
            UnknownSymbol: when something depends on a symbol that has no root.
        """
        self.check_marked("the backend", None)
        if self.has_unknown():
            raise UnknownSymbol
        constants: set[Any] = set()
        for symbol in self.roots:
            known = torch_symbols.replaced(self.mode, symbol)
            if known != symbol:
                self._add(guards, constants, "EQUAL", symbol, known)
            least, most = torch_symbols.bounds(self.mode, symbol)
            if least is not None:
                self._add(guards, constants, "LESS_EQUAL", least, symbol)
            if most is not None:
                self._add(guards, constants, "LESS_EQUAL", symbol, most)
        for root, expr in self._places:
            try:
                code, sources = self._start(root)
                code += torch_symbols.encode(expr, _OPERATIONS, lambda each: self._load(each, sources))  # noqa: B023
            except torch_symbols.NotTranslatable:
                constants.update(expr.free_symbols)
                code, sources = self._start(root)
                code += [_OPERATIONS["CONSTANT"], root.hint]
            text = f"{root.words()} == {self._words(expr)}"
            guards.add(None, Check.RELATION, Relation((*code, _OPERATIONS["EQUAL"]), tuple(sources), text))
        for expr in torch_symbols.assumptions(self.mode):
            self._add(guards, constants, "", expr, None)
        for symbol in constants:
            root = self.roots[symbol]
            code, sources = self._start(root)
            code += [_OPERATIONS["CONSTANT"], root.hint, _OPERATIONS["EQUAL"]]
            guards.add(
                None, Check.RELATION, Relation(tuple(code), tuple(sources), f"{root.words()} == {root.hint}")
            )

    def _add(self, guards: GuardSet, constants: set[Any], operation: str, left: Any, right: Any) -> None:
        """Guard a relation; where it cannot be translated its symbols become constants."""
        sources: list[Source] = []
        try:
            code = torch_symbols.encode(left, _OPERATIONS, lambda each: self._load(each, sources))
            if operation:
                code += torch_symbols.encode(right, _OPERATIONS, lambda each: self._load(each, sources))
                code.append(_OPERATIONS[operation])
        except torch_symbols.NotTranslatable:
            for expr in (left, right):
                constants.update(getattr(expr, "free_symbols", ()))
            return
        text = self._words(left)
        if operation:
            text += {"EQUAL": " == ", "LESS_EQUAL": " <= "}[operation] + self._words(right)
        guards.add(None, Check.RELATION, Relation(tuple(code), tuple(sources), text))

    def _start(self, root: Root) -> tuple[list[int], list[Source]]:
        code = [_OPERATIONS[root.kind], 0]
        return (code if root.kind == "INTEGER" else [*code, root.dim]), [root.source]

    def _load(self, symbol: Any, sources: list[Source]) -> list[int]:
        root = self.roots[symbol]
        if root.source not in sources:
            sources.append(root.source)
        code = [_OPERATIONS[root.kind], sources.index(root.source)]
        return code if root.kind == "INTEGER" else [*code, root.dim]

    def _words(self, expr: Any) -> str:
        text = str(expr)
        for symbol in sorted(
            self.of(expr) if hasattr(expr, "free_symbols") else (), key=lambda s: -len(str(s))
        ):
            text = text.replace(str(symbol), self.roots[symbol].words())
        return text

    def has_unknown(self) -> bool:
        """Whether there is a symbol of which nobody knows where it comes from."""
        exprs = [*torch_symbols.assumptions(self.mode), *(expr for _, expr in self._places)]
        exprs += [torch_symbols.replaced(self.mode, symbol) for symbol in self.roots]
        return any(symbol not in self.roots for expr in exprs for symbol in getattr(expr, "free_symbols", ()))
