"""`verify` and what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from framehook import module_view
from framehook.api import CompiledFunction
from framehook.api import compile as compile_
from framehook.config import config
from framehook.errors import VerificationError
from framehook.verification.differences import Difference, Tolerance
from framehook.verification.sides import Pair, random_state_kept


@dataclasses.dataclass(frozen=True)
class Verification:
    """Whether eager and compiled were the same; true when they were.

    Attributes:
        name: of the function.
        differences: one for each thing that was not as eager leaves it, call by call.
        calls: how often each was called.
        graphs, operations: graphs compiled, and tensor operations in them.
        graph_breaks, recompiles, eager_reasons: why there is more than one graph, or none.
        shared: variables that could not be copied, which both sides had in common and nobody compared.
    """

    name: str
    differences: tuple[Difference, ...]
    calls: int
    graphs: int
    operations: int
    graph_breaks: tuple[str, ...]
    recompiles: tuple[str, ...]
    eager_reasons: tuple[str, ...]
    shared: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        found = len(self.differences)
        what = "the same" if not found else f"{found} difference{'s' if found > 1 else ''}"
        lines = [
            f"{self.name}: eager and compiled, {what} ({self.calls} calls each, {self.graphs} graphs, "
            f"{self.operations} operations)"
        ]
        lines += [f"    {each}" for each in self.differences]
        lines += [f"    graph break: {reason}" for reason in self.graph_breaks]
        lines += [f"    recompiled: {reason}" for reason in self.recompiles]
        lines += [f"    eager: {reason}" for reason in self.eager_reasons]
        lines += [f"    not copied, not compared: {name}" for name in self.shared]
        return "\n".join(lines)


class Verifier:
    """What `verify(fn)` returns: called like `fn`, it runs eager and compiled and returns a `Verification`."""

    def __init__(
        self,
        fn: Any,
        compiling: Callable[[Any], Any],
        calls: int,
        tolerance: Tolerance,
        backward: bool,
        raise_on_difference: bool,
    ) -> None:
        self._fn = fn
        self._compiling = compiling
        self._calls = calls
        self._tolerance = tolerance
        self._backward = backward
        self._raises = raise_on_difference
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(fn, name):
                setattr(self, name, getattr(fn, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Verification:
        """Call `fn` eagerly and compiled, as often as `calls` says, with copies of the arguments for each call.

        Raises:
            CannotCopyError: when `fn` or an argument cannot be copied.
            VerificationError: at a difference, with `raise_on_difference`.
        """
        return self._verify([(args, kwargs)] * self._calls)

    def in_turn(self, arguments: Iterable[tuple[Any, ...]]) -> Verification:
        """The same with one call for each tuple of positional arguments, so that guards have something to notice.

        Raises:
            CannotCopyError, VerificationError: as when it is called.
        """
        return self._verify([(args, {}) for args in arguments])

    def _verify(self, calls: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> Verification:
        pair = Pair(self._fn, self._compiling, self._tolerance, self._backward)
        differences: list[Difference] = []
        with random_state_kept():
            for args, kwargs in calls:
                differences += pair.run(args, kwargs)[0]
        stats = pair.compiled.call.stats()
        report = Verification(
            getattr(self._fn, "__qualname__", None) or type(self._fn).__qualname__,
            tuple(differences),
            pair.calls,
            stats.graphs,
            stats.operations,
            tuple(stats.graph_breaks),
            tuple(stats.recompile_reasons),
            tuple(stats.eager_reasons),
            pair.shared,
        )
        if differences and self._raises:
            raise VerificationError(report)
        return report


def verify(
    fn: Any = None,
    *,
    backend: str | Callable[..., Any] = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    calls: int = 2,
    exact: bool | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    backward: bool = True,
    raise_on_difference: bool = False,
) -> Any:
    """Return a function that is called like `fn`, runs it eagerly and compiled, and reports what is not the same.

    Both run on copies, several times: of the arguments (for each call anew), of `fn` itself if it is a module, a
    bound method or an object, and of the globals, cells and defaults that the function, and the functions that it names
    in the same module, have in use.  The user's own stay as they are, and so do the random generators.

    Compared are the result (values, classes, strides, aliasing, shared memory), the exception (type, text, lines,
    cause, context), all of the copies after the call, the gradients of a backward pass from every differentiable
    output, standard output and error, warnings, the random generators (torch, `random`, numpy), and grad mode, autocast
    and other state of torch.  Objects are compared attribute by attribute, not by their own `__eq__`.

    Args:
        fn: a function, any callable, or a module; compiled ones are taken as what was compiled. Without it, a
            decorator.
        backend, fullgraph, dynamic, mode, options: as for `framehook.compile`.
        calls: how often each is called; the second call finds what the first compiled.
        exact: compare numbers bit for bit; None: only for the eager backend. Otherwise floating-point numbers
            may be apart as far as their dtype asks for (float32: 1e-5 of the value plus 1e-5, float64 1e-7 and 1e-8,
            float16 2e-3 and 1e-3, bfloat16 1.6e-2 and 1e-2).
        rtol, atol: other tolerances, relative and absolute, for all dtypes.
        backward: whether to compare gradients.
        raise_on_difference: raise instead of returning a report that is false.

    Returns:
        A callable that returns a `Verification`: true when nothing differs, `print()` says what does; its method
        `in_turn([args, ...])` makes one call for each tuple of arguments.

    Raises:
        TypeError, UnknownBackendError, BackendOptionError: as `framehook.compile`.
        ValueError: when `calls` is less than one, or a tolerance is negative or given with `exact=True`.
    """
    if calls < 1:
        raise ValueError(f"verify() needs at least one call, not {calls}")
    if any(each is not None and each < 0 for each in (rtol, atol)):
        raise ValueError(f"tolerances cannot be negative: rtol={rtol}, atol={atol}")
    is_tolerant = rtol is not None or atol is not None
    if exact and is_tolerant:
        raise ValueError("exact=True leaves no room for rtol and atol")
    if exact is None:
        exact = backend == "eager" and not is_tolerant

    @config.patch(disable=False)  # or else there is nothing to compare with
    def compiling(target: Any) -> Any:
        return compile_(
            target, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options
        )

    tolerance = Tolerance(exact, rtol, atol)

    def make(target: Any) -> Verifier:
        target = module_view.original(target)
        if isinstance(target, CompiledFunction):
            target = target.__wrapped__
        compiling(target)  # what cannot be compiled is an error here, not at the first call
        return Verifier(target, compiling, calls, tolerance, backward, raise_on_difference)

    return make if fn is None else make(fn)
