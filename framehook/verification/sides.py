"""Two of everything: one copy for eager, one for the compiled function, and a run of each."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import logging
import random
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from framehook import torch_state
from framehook.errors import CannotCopyError
from framehook.verification.differences import Difference, Tolerance, compare
from framehook.verification.places import ABSENT, Variable, variables_of
from framehook.verification.snapshots import (
    Leaf,
    Node,
    Snapshots,
    is_foreign_file,
    snapshot,
    without_addresses,
)

#: The parts of an outcome, in the order in which differences are told.
PARTS = (
    "exception", "result", "arguments", "self", "globals", "gradients", "stdout", "stderr", "warnings", "random",
    "state",
)  # fmt: skip
#: What torch's own warnings end with; some of them come once in a process only.
_FROM_TORCH = "(Triggered internally at"


class Side:
    """A function with copies of its own of all that it may change.

    Args:
        fn: a function or another callable; a module, a bound method and an object are copied.
        variables: from `variables_of(fn)`.
        compiling: makes what is called of what was copied.

    Raises:
        CannotCopyError: when `fn` cannot be copied.
    """

    def __init__(
        self, fn: Any, variables: Sequence[Variable], compiling: Callable[[Any], Any] | None = None
    ) -> None:
        self._variables = variables
        values = [variable.read() for variable in variables]
        #: Indices of the variables whose values could not be copied, and are the user's own.
        self.shared: list[int] = []
        try:
            self._copy(fn, values)
        except CannotCopyError:
            self.shared = [index for index, value in enumerate(values) if not _can_be_copied(value)]
            self._copy(fn, values)
        self.owner = self.fn.__self__ if isinstance(self.fn, MethodType) else self.fn
        self.call = self.fn if compiling is None else compiling(self.fn)

    def _copy(self, fn: Any, values: Sequence[Any]) -> None:
        # One memo for all, so that what they have in common is one object in the copies, too.
        self._memo: dict[int, Any] = {id(values[index]): values[index] for index in self.shared}
        self._memo[id(ABSENT)] = ABSENT
        self.fn = _copied(fn, self._memo, "the function")
        self.values = [
            _copied(value, self._memo, variable.label)
            for variable, value in zip(self._variables, values, strict=True)
        ]

    def arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies for one call; what is a global too, is this side's copy of it.

        Raises:
            CannotCopyError: naming the argument.
        """
        memo = dict(self._memo)
        # Where torch notes which storages it has copied: those of this call are nobody else's.
        memo["torch"] = dict(memo.get("torch", {}))  # type: ignore[index, call-overload]
        copied = tuple(_copied(each, memo, f"argument {index}") for index, each in enumerate(args))
        return copied, {name: _copied(each, memo, f"argument {name!r}") for name, each in kwargs.items()}

    def values_now(self) -> dict[str, Any]:
        """What the variables are, inside `in_place`, by their labels, but for those that both sides share."""
        values = {variable.label: variable.read() for variable in self._variables}
        return {
            variable.label: values[variable.label]
            for index, variable in enumerate(self._variables)
            if index not in self.shared and values[variable.label] is not ABSENT
        }

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the variables be this side's copies for a while; what they then are is kept for the next time."""
        before = [variable.read() for variable in self._variables]
        for index, variable in enumerate(self._variables):
            _put(variable, self.values[index])
        try:
            yield
        finally:
            for index, variable in enumerate(self._variables):
                self.values[index] = variable.read()
                _put(variable, before[index])


def _put(variable: Variable, value: Any) -> None:
    if variable.read() is not value:
        variable.write(value)


def _can_be_copied(value: Any) -> bool:
    if value is ABSENT:
        return True
    try:
        copy.deepcopy(value)
    except Exception:
        return False
    return True


def _copy_results(value: Any, memo: dict[int, Any]) -> None:
    """Copy tensors that other operations have made, which `deepcopy` refuses: without what they were made of."""
    if type(value) is torch.Tensor and not value.is_leaf and id(value) not in memo:
        memo[id(value)] = value.detach().clone().requires_grad_().clone()
    elif type(value) in (list, tuple):
        for each in value:
            _copy_results(each, memo)
    elif type(value) is dict:
        _copy_results([*value.values()], memo)


def _copied(value: Any, memo: dict[int, Any], name: str) -> Any:
    _copy_results(value, memo)
    try:
        return copy.deepcopy(value, memo)
    except Exception as error:
        raise CannotCopyError(name, value, error) from error


@dataclasses.dataclass
class Outcome:
    """What one call left behind, each part as a snapshot."""

    value: Any
    parts: dict[str, Any]


def run(side: Side, args: tuple[Any, ...], kwargs: Mapping[str, Any], has_backward: bool) -> Outcome:
    """Call a side with copies of the arguments.

    The random state and torch's state go on from what they are; the caller puts them back.

    Raises:
        CannotCopyError: naming the argument.
    """
    copied, named = side.arguments(args, kwargs)
    value, error = None, None
    output, errors = io.StringIO(), io.StringIO()
    with side.in_place():
        with (
            _own_log_elsewhere(),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            warnings.catch_warnings(record=True) as warned,
            _unraisable_errors_printed(),
        ):
            try:
                value = side.call(*copied, **named)
            except Exception as raised:
                error = raised
        state = torch_state.save_state()
        random_state = _random_state()
        owner = None if side.owner is side.fn and not _has_state(side.fn) else side.owner
        variables = side.values_now()
        # Objects are told apart in all parts together: a result that is an argument is seen to be one.
        taking = Snapshots()
        parts = {
            "arguments": taking.take([*copied, named] if named else list(copied), "arguments"),
            "self": taking.take(owner, "self"),
            "globals": taking.take_all(variables, "globals"),
            "result": taking.take(value, "result"),
            "exception": taking.take(error, "exception"),
        }
        gradients = None
        if has_backward and error is None:
            gradients = _gradients(value, (copied, named, owner, variables))
        # What the frames of an exception hold ends now, not while the other side has the variables.
        _let_go_of_frames(error, set())
    parts |= {
        "gradients": gradients,
        "stdout": snapshot(without_addresses(output.getvalue())),
        "stderr": snapshot(without_addresses(errors.getvalue())),
        "warnings": snapshot([_as_text(each) for each in warned if _is_the_users(each)]),
        "random": _random_snapshot(random_state),
        "state": snapshot(state),
    }
    return Outcome(value, parts)


def _let_go_of_frames(error: BaseException | None, met: set[int]) -> None:
    while error is not None and id(error) not in met:
        met.add(id(error))
        traceback.clear_frames(error.__traceback__)
        _let_go_of_frames(error.__cause__, met)
        error = error.__context__


@contextlib.contextmanager
def _unraisable_errors_printed() -> Iterator[None]:
    """What generators and `__del__` raise when they are dropped is output like any other."""
    hook = sys.unraisablehook
    sys.unraisablehook = sys.__unraisablehook__
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextlib.contextmanager
def _own_log_elsewhere() -> Iterator[None]:
    """Where nobody has set up logging, what framehook logs would go to standard error, like what is compared."""
    logger = logging.getLogger("framehook")
    if logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _has_state(fn: object) -> bool:
    return not isinstance(fn, FunctionType | BuiltinFunctionType | type)


def _is_the_users(warning: warnings.WarningMessage) -> bool:
    return _FROM_TORCH not in str(warning.message) and not is_foreign_file(warning.filename)


def _as_text(warning: warnings.WarningMessage) -> str:
    return f"{warning.filename}:{warning.lineno}: {warning.category.__name__}: {warning.message}"


def _gradients(value: object, holders: object) -> Any:
    """Gradients of all leaves in `holders` after a backward pass from every differentiable output."""
    outputs = [
        each
        for each in _tensors(value, set())
        if each.requires_grad and each.grad_fn is not None and (each.is_floating_point() or each.is_complex())
    ]
    if not outputs:
        return None
    try:
        torch.autograd.backward(outputs, [_cotangent(each) for each in outputs])
    except RuntimeError as error:
        return snapshot((type(error).__name__, str(error)))
    return snapshot([each.grad for each in _tensors(holders, set()) if each.is_leaf])


def _cotangent(output: torch.Tensor) -> torch.Tensor:
    """Something else for each element: behind a softmax, ones would give gradients of zero."""
    with torch.no_grad():
        steps = torch.arange(output.numel(), device=output.device, dtype=torch.float64)
        return (1 + 0.5 * torch.cos(steps)).to(output.dtype).reshape(output.shape)


def _tensors(value: Any, met: set[int]) -> Iterator[torch.Tensor]:
    if id(value) in met:
        return
    met.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in dict.values(value):
            yield from _tensors(item, met)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        for item in value:
            yield from _tensors(item, met)
    elif not isinstance(value, type | ModuleType) and hasattr(value, "__dict__"):
        yield from _tensors(vars(value), met)


def _random_state() -> dict[str, Any]:
    state = {"torch": torch.get_rng_state(), "random": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    return state


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the random generators back in the end."""
    state = _random_state()
    try:
        yield
    finally:
        _set_random_state(state)


def _random_snapshot(state: Mapping[str, Any]) -> Any:
    """A hash of each generator's state: nobody would read where in it two states differ."""
    found: dict[str, object] = {
        "torch": state["torch"].numpy().tobytes(),
        "random": state["random"],
        "cuda": tuple(each.numpy().tobytes() for each in state.get("cuda", ())),
    }
    if "numpy" in state:
        kind, keys, *rest = state["numpy"]
        found["numpy"] = (kind, keys.tobytes(), *rest)
    parts = ((f" of {name}", Leaf("state", f"{hash(each):x}")) for name, each in found.items())
    return Node("random", "", tuple(parts))


def _set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["random"])
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])


class Pair:
    """`fn` on both sides.

    Args:
        fn: see `Side`.
        compiling: what `compile` does.
        tolerance: how far numbers may be apart.
        has_backward: whether to run a backward pass after each call.
    """

    def __init__(
        self, fn: Any, compiling: Callable[[Any], Any], tolerance: Tolerance, has_backward: bool = True
    ) -> None:
        variables = variables_of(fn)
        self.eager = Side(fn, variables)
        self.compiled = Side(fn, variables, compiling)
        self.shared = tuple(variables[index].label for index in self.eager.shared)
        self.calls = 0
        self._tolerance = tolerance
        self._has_backward = has_backward

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Difference], Any]:
        """Call both, from the same random state and torch state; return what differs, and the compiled result.

        Afterwards torch's state is that of before.
        """
        state = torch_state.save_state()
        random_state = _random_state()
        try:
            expected = run(self.eager, args, kwargs, self._has_backward)
        finally:
            torch_state.restore_state(state)
            _set_random_state(random_state)
        try:
            actual = run(self.compiled, args, kwargs, self._has_backward)
        finally:
            torch_state.restore_state(state)
        differences = [
            Difference(part, self.calls, *found)
            for part in PARTS
            for found in compare(actual.parts[part], expected.parts[part], part, self._tolerance)
        ]
        self.calls += 1
        return differences, actual.value
