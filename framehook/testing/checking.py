"""Eager and compiled side by side: everything that a caller could see must be the same."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from framehook.api import compile as compile_
from framehook.testing.counting import CompileCounter
from framehook.testing.snapshots import assert_same, snapshot


@dataclasses.dataclass(frozen=True)
class Checked:
    """What a successful check saw.

    Attributes:
        graphs, operations: what the backend was given in all calls.
        result: what the last compiled call returned (None if it raised).
        compiled: the compiled function, for a look at its `stats()`.
    """

    graphs: int
    operations: int
    result: Any
    compiled: Any


def check(
    fn: Callable[..., Any],
    *args: Any,
    graphs: int | None = None,
    backend: str | Callable[..., Any] = "eager",
    calls: int = 3,
    exact: bool | None = None,
    backward: bool = True,
    fullgraph: bool = False,
    **kwargs: Any,
) -> Checked:
    """Call `fn` eagerly and compiled, several times, on copies of the arguments, and compare what can be seen.

    Compared are the result (values, classes, aliasing, strides), the exception's type and text, the arguments and,
    for a module, the module itself after the call, what was printed, all gradients after a backward pass from every
    differentiable output, and the state of the random generators.

    Args:
        fn: a function, or a module, which is copied so that both runs have one of their own.
        args, kwargs: copied deeply for every call, all together, so that aliasing among them is kept.
        graphs: how many graphs the backend must have been given in all calls; None: any number.
        backend: what compiles; its graphs are counted.
        calls: how often each is called.
        exact: bit for bit; None: for the eager backend only.
        backward: whether to run the backward pass.
        fullgraph: passed to `compile`.

    Raises:
        AssertionError: at the first difference, or when the number of graphs is another.
    """
    if exact is None:
        exact = backend == "eager"
    counter = CompileCounter(backend)
    is_module = isinstance(fn, torch.nn.Module)
    eager = copy.deepcopy(fn) if is_module else fn
    inner = copy.deepcopy(fn) if is_module else fn
    compiled: Any = compile_(inner, backend=counter, fullgraph=fullgraph)
    run = None
    for call in range(calls):
        state = _random_state()
        expected = _run(eager, eager, args, kwargs, backward)
        _set_random_state(state)
        run = _run(compiled, inner, args, kwargs, backward)
        for part in ("error", "result", "arguments", "module", "gradients", "printed", "random"):
            where = f"{part} of call {call}"
            assert_same(getattr(run, part), getattr(expected, part), exact=exact, where=where)
    if graphs is not None and counter.frame_count != graphs:
        reasons = "; ".join(compiled.stats().graph_breaks) or "no graph breaks"
        raise AssertionError(f"expected {graphs} graphs, got {counter.frame_count} ({reasons})")
    return Checked(counter.frame_count, counter.op_count, run.value if run else None, compiled)


@dataclasses.dataclass(frozen=True)
class _Run:
    value: Any
    result: Any
    error: Any
    arguments: Any
    module: Any
    gradients: Any
    printed: str
    random: Any


def _run(
    fn: Callable[..., Any], owner: object, args: tuple[Any, ...], kwargs: dict[str, Any], backward: bool
) -> _Run:
    args, kwargs = copy.deepcopy((args, kwargs))
    value, error = None, None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            value = fn(*args, **kwargs)
        except Exception as raised:
            error = raised
    module = vars(owner) if isinstance(owner, torch.nn.Module) else None
    # One snapshot for all, so that a result that is an argument is seen to be one.
    seen_arguments, seen_module, seen_value = (
        snapshot((args, kwargs)),
        snapshot(module),
        snapshot((args, kwargs, value)),
    )
    state = snapshot(_random_state())
    gradients = None
    if backward and error is None:
        gradients = _backward(value, (args, kwargs, module))
    return _Run(
        value, seen_value, snapshot(error), seen_arguments, seen_module, gradients, printed.getvalue(), state
    )


def _backward(value: object, holders: object) -> Any:
    outputs = [each for each in _tensors(value, set()) if each.requires_grad and each.grad_fn is not None]
    if not outputs:
        return None
    outputs = [each for each in outputs if each.is_floating_point() or each.is_complex()]
    total = sum(each.abs().sum() if each.is_complex() else each.sum() for each in outputs)
    try:
        torch.as_tensor(total).backward()
    except RuntimeError as error:
        return snapshot(error)
    return snapshot([each.grad for each in _tensors(holders, set()) if each.is_leaf])


def _tensors(value: Any, met: set[int]) -> Iterator[torch.Tensor]:
    if id(value) in met:
        return
    met.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, met)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _tensors(item, met)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        yield from _tensors(vars(value), met)
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()


def _random_state() -> tuple[Any, ...]:
    return (torch.get_rng_state(), random.getstate())


def _set_random_state(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])
