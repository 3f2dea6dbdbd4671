"""Private torch interfaces about values that are not known while tracing; `torch_compat` has all others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from framehook.torch_compat import GraphSource, ensure_shape_env


def forget_contents(tensor: torch.Tensor) -> None:
    """Let a fake tensor no longer know the numbers in it.

    `FakeTensor.constant` is set on what `torch.tensor(1.0)` gives, and by operations on such tensors; `item_memo`
    and its like on tensors of which a number was read.  Checked: 2.13.0, 2.14.1.
    """
    if isinstance(tensor, FakeTensor):
        tensor.constant = None
        tensor.item_memo = None


def is_any_autocast_enabled() -> bool:
    """Whether autocast is on for some device: `torch._C._is_any_autocast_enabled`.  Checked: 2.13.0, 2.14.1."""
    return torch._C._is_any_autocast_enabled()


# -- sizes and integers that are symbols ---------------------------------------------------------------------


def symbolic_fake(
    mode: FakeTensorMode, tensor: torch.Tensor, name: str, dims: Collection[int]
) -> torch.Tensor:
    """Return a fake whose sizes in `dims` are symbols; 0 and 1 stay numbers, and equal sizes get one symbol.

    `FakeTensorMode.from_tensor` with a `StatelessSymbolicContext`: static dimensions, and duck-shaped ones.  Strides
    are expressions of the sizes where they can be.  Checked: 2.13.0, 2.14.1.
    """
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    ensure_shape_env(mode)
    sizes = [DimDynamic.DUCK if dim in dims else DimDynamic.STATIC for dim in range(tensor.dim())]
    context: Any = StatelessSymbolicContext(dynamic_sizes=sizes)
    return mode.from_tensor(tensor, static_shapes=False, source=GraphSource(name), symbolic_context=context)


def symbols_in_kernels(is_symbolic: bool) -> contextlib.AbstractContextManager[Any]:
    """Around operations on symbols: C++ kernels that only know numbers are gone around.

    `torch._dispatch.python.enable_python_dispatcher`.  Checked: 2.13.0, 2.14.1.
    """
    if not is_symbolic:
        return contextlib.nullcontext()
    from torch._dispatch.python import enable_python_dispatcher

    return enable_python_dispatcher()


def symbolic_integer(mode: FakeTensorMode, value: int, name: str) -> torch.SymInt:
    """Return a symbol for an integer: `ShapeEnv.create_symbol` and `create_symintnode`.  Checked: 2.13.0, 2.14.1."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    environment = ensure_shape_env(mode)
    source = GraphSource(name)
    symbol = environment.create_symbol(value, source, dynamic_dim=DimDynamic.DYNAMIC, positive=None)
    made: Any = environment.create_symintnode(symbol, hint=value, source=source)
    return made


def is_symbolic(value: object) -> bool:
    """Whether a size is more than a number: a `SymInt` whose expression has symbols.  Checked: 2.13.0, 2.14.1."""
    return isinstance(value, torch.SymInt) and bool(value.node.expr.free_symbols)


def expression(value: int | torch.SymInt) -> Any:
    """The sympy expression of a size as it was made: `SymNode._expr`, before later replacements.

    Checked: 2.13.0, 2.14.1.
    """
    return value.node._expr if isinstance(value, torch.SymInt) else value


def hint_of(value: int | torch.SymInt) -> int:
    """The number that a size has in the call that is being traced: `SymNode.hint`.  Checked: 2.13.0, 2.14.1."""
    return int(value.node.hint) if isinstance(value, torch.SymInt) else value


def assumptions(mode: FakeTensorMode) -> list[Any]:
    """What tracing and backends assumed about symbols: `ShapeEnv.guards`, as sympy expressions.

    Checked: 2.13.0, 2.14.1.
    """
    environment = mode.shape_env
    return [] if environment is None else [guard.expr for guard in environment.guards]


def replaced(mode: FakeTensorMode, symbol: Any) -> Any:
    """What a symbol was found to be equal to: `ShapeEnv.replace`.  Checked: 2.13.0, 2.14.1."""
    environment = mode.shape_env
    assert environment is not None
    return environment.replace(symbol)


def bounds(mode: FakeTensorMode, symbol: Any) -> tuple[int | None, int | None]:
    """The least and the greatest value that a symbol may have: `ShapeEnv.var_to_range`.  Checked: 2.13.0, 2.14.1."""
    environment = mode.shape_env
    assert environment is not None
    known = environment.var_to_range[symbol]
    return tuple(int(end) if end.is_finite and end.is_Integer else None for end in (known.lower, known.upper))  # type: ignore[return-value]


class NotTranslatable(Exception):
    """An expression that the stack machine of guards cannot compute exactly."""


def encode(expr: Any, operations: Mapping[str, int], operand: Callable[[Any], list[int]]) -> list[int]:
    """Translate a sympy expression of integers into the code of a relation.

    sympy's own classes, and `FloorDiv`, `Mod`, `PythonMod`, `Max`, `Min` of `torch.utils._sympy.functions`.
    Checked: 2.13.0, 2.14.1.

    Raises:
        NotTranslatable: for anything else.
    """
    import sympy  # type: ignore[import-untyped]
    from torch.utils._sympy import functions

    binary = {
        sympy.Eq: "EQUAL", sympy.Ne: "NOT_EQUAL", sympy.Lt: "LESS", sympy.Le: "LESS_EQUAL",
        functions.FloorDiv: "FLOOR_DIVIDE", functions.CleanDiv: "FLOOR_DIVIDE",
        functions.Mod: "MODULO", functions.PythonMod: "MODULO",
    }  # fmt: skip
    swapped = {sympy.Gt: "LESS", sympy.Ge: "LESS_EQUAL"}
    joined = {
        sympy.Add: "ADD", sympy.Mul: "MULTIPLY", sympy.And: "AND", sympy.Or: "OR",
        functions.Max: "MAXIMUM", functions.Min: "MINIMUM", sympy.Max: "MAXIMUM", sympy.Min: "MINIMUM",
    }  # fmt: skip

    def walk(part: Any) -> list[int]:
        cls = type(part)
        if isinstance(part, (int, sympy.Integer)):
            if not -(1 << 63) <= int(part) < 1 << 63:
                raise NotTranslatable(str(part))
            return [operations["CONSTANT"], int(part)]
        if part is sympy.true or part is sympy.false:
            return [operations["CONSTANT"], int(part is sympy.true)]
        if isinstance(part, sympy.Symbol):
            return operand(part)
        if cls in binary and len(part.args) == 2:
            return [*walk(part.args[0]), *walk(part.args[1]), operations[binary[cls]]]
        if cls in swapped:
            return [*walk(part.args[1]), *walk(part.args[0]), operations[swapped[cls]]]
        if cls in joined and part.args:
            code = walk(part.args[0])
            for each in part.args[1:]:
                code += [*walk(each), operations[joined[cls]]]
            return code
        if cls is sympy.Not:
            return [*walk(part.args[0]), operations["NOT"]]
        if cls is sympy.Pow and isinstance(part.args[1], sympy.Integer) and 1 <= int(part.args[1]) <= 8:
            code = walk(part.args[0])
            return code + [*code, operations["MULTIPLY"]] * (int(part.args[1]) - 1)
        raise NotTranslatable(str(part))

    return walk(expr)


def compute(expr: Any, symbols: Sequence[Any]) -> Callable[..., int]:
    """A Python function that computes an expression of integers from values of its symbols.

    `torch.utils._sympy.printers.PythonPrinter` writes it.  Checked: 2.13.0, 2.14.1.
    """
    import math

    from torch.utils._sympy.printers import PythonPrinter

    names = ", ".join(str(symbol) for symbol in symbols)
    made: Any = eval(f"lambda {names}: {PythonPrinter().doprint(expr)}", {"math": math})
    return made
