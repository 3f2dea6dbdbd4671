"""`framehook.verify` finds whatever a wrong backend changes, and leaves the user's own objects alone."""

from __future__ import annotations

import random
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import framehook
from framehook.verification import Verification

LOG: list[Any] = []
COUNT = 0


def wrong(change: Callable[[Callable[..., Any], tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """A backend whose graphs do `change(run, inputs)` instead of `run(*inputs)`."""

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *args: change(gm, args)

    return backend


def _each(change: Callable[[Tensor], Any]) -> Callable[..., Any]:
    return wrong(lambda run, args: [change(each) for each in run(*args)])


def _doubled_first(run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    result = run(*args)
    with torch.no_grad():
        args[0].mul_(2)
    return result


def _raising(run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    raise KeyError("wrong")


def _effect(effect: Callable[[], Any]) -> Callable[..., Any]:
    return wrong(lambda run, args: (effect(), run(*args))[1])


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 2


def doubled(x: Tensor) -> Tensor:
    return x * 2


def viewed(x: Tensor) -> Tensor:
    return x.view(-1)


def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    return y, y.t()


def changed(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 1


def logged(x: Tensor) -> Tensor:
    global COUNT
    COUNT += 1
    LOG.append(x.sum())
    return x + COUNT


KINDS = {
    "result": (doubled, _each(lambda t: t + 1), "result", "value"),
    "dtype": (doubled, _each(lambda t: t.double()), "result", "value"),
    "stride": (doubled, _each(lambda t: t.t().contiguous().t()), "result", "value"),
    "class": (doubled, _each(torch.nn.Parameter), "result", "value"),
    "detached": (doubled, _each(lambda t: t.detach()), "result", "value"),
    "gradient": (doubled, _each(_WrongGradient.apply), "gradients", "value"),
    "mutation": (doubled, wrong(_doubled_first), "arguments", "value"),
    "mutation not made": (changed, wrong(lambda run, args: run(args[0].clone())), "arguments", "value"),
    "memory no longer shared": (viewed, _each(lambda t: t.clone()), "result", "aliasing"),
    "memory shared": (
        doubled,
        wrong(lambda run, args: [args[0].mul_(2).div_(2).view_as(each) for each in run(*args)]),
        "result",
        "aliasing",
    ),
    "global": (logged, _each(lambda t: t + 1), "globals", "value"),
    "torch's random state": (doubled, _effect(lambda: torch.rand(1)), "random", "value"),
    "random's state": (doubled, _effect(random.random), "random", "value"),
    "stdout": (doubled, _effect(lambda: print("wrong")), "stdout", "value"),
    "stderr": (doubled, _effect(lambda: print("wrong", file=sys.stderr)), "stderr", "value"),
    "warning": (doubled, _effect(lambda: warnings.warn("wrong", stacklevel=1)), "warnings", "value"),
    "torch's state": (
        doubled,
        _effect(lambda: torch.set_float32_matmul_precision("medium")),
        "state",
        "value",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_difference_is_found(name: str) -> None:
    fn, backend, part, kind = KINDS[name]
    x = torch.arange(6.0).reshape(3, 2)
    x.requires_grad_(fn not in (changed, viewed) and "mutation" not in name and "shared" not in name)
    precision = torch.get_float32_matmul_precision()
    report = framehook.verify(fn, backend=backend)(x)
    assert not report
    assert (part, kind) in {(each.part, each.kind) for each in report.differences}, report
    assert part in str(report)
    assert str(report.differences[0]) in str(report)
    assert framehook.verify(fn, backend="eager")(x), "the right backend"
    assert torch.equal(x, torch.arange(6.0).reshape(3, 2))
    assert torch.get_float32_matmul_precision() == precision


def test_another_exception_is_found() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x + 1
        raise ValueError(f"of {len(x)}")

    def raising_elsewhere(x: Tensor) -> Tensor:
        framehook.graph_break()
        raise ValueError(f"of {len(x)}")

    assert framehook.verify(fn, backend="eager")(torch.ones(2))
    assert framehook.verify(raising_elsewhere, backend="eager")(torch.ones(2))
    # It has changed its input, so it cannot be run again in eager's way.
    backend = wrong(lambda run, args: (args[0].add_(1), _raising(run, args)))
    report = framehook.verify(changed, backend=backend)(torch.ones(300_000))
    assert "exception" in {each.part for each in report.differences}, report


def test_a_backend_that_fails_is_a_difference() -> None:
    def failing(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("no luck")

    report = framehook.verify(doubled, backend=failing)(torch.ones(2))
    assert [each.part for each in report.differences if each.call == 0] == ["exception", "result"]
    assert "no luck" in str(report)


def test_the_report_says_what_was_compiled() -> None:
    def fn(x: Tensor, scale: int) -> Tensor:
        y = x * scale
        print("between")
        return y + 1

    report = framehook.verify(fn, backend="eager").in_turn([(torch.ones(2), 1), (torch.ones(3), 2)])
    assert isinstance(report, Verification)
    assert (bool(report), report.calls, report.graphs, report.operations) == (True, 2, 4, 4)
    assert "print()" in report.graph_breaks[0]
    assert "L['scale']: expected 1, got 2" in " ".join(report.recompiles)
    assert "the same (2 calls each, 4 graphs, 4 operations)" in str(report)


def test_guards_that_do_not_notice_are_found() -> None:
    seen: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            seen.append(seen[0] if seen else gm(*args))
            return seen[-1]

        return run

    verified = framehook.verify(doubled, backend=backend)
    assert verified(torch.ones(2))
    seen.clear()
    report = verified.in_turn([(torch.ones(2),), (torch.zeros(2),)])
    assert [each.call for each in report.differences] == [1]


def test_the_users_own_objects_stay_as_they_are() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5))
    before = {name: item.clone() for name, item in model.state_dict().items()}
    x = torch.randn(4, 2)
    rng, python_rng = torch.get_rng_state(), random.getstate()
    held: list[Any] = []
    count = 0

    def fn(x: Tensor, kept: list[Any], *, more: dict[str, Any], seen: list[Any] = held) -> Tensor:  # noqa: B006
        nonlocal count
        count += 1
        kept.append(count)
        more["x"] = model(x)
        seen.append(random.random())
        x.add_(1)
        return more["x"].sum()

    kept: list[Any] = []
    more: dict[str, Any] = {}
    assert framehook.verify(fn, backend="eager", calls=3)(x, kept, more=more)
    assert framehook.verify(model, backend="eager")(x)
    assert (kept, more, held, count) == ([], {}, [], 0)
    assert fn.__kwdefaults__ == {"seen": held}
    for name, item in model.state_dict().items():
        assert torch.equal(item, before[name]), name
    assert all(each.grad is None for each in model.parameters())
    assert torch.equal(torch.get_rng_state(), rng)
    assert random.getstate() == python_rng
    assert framehook.verify(logged, backend="eager")(x)
    assert (LOG, COUNT) == ([], 0)


def test_what_both_have_in_common_stays_in_common() -> None:
    shared = torch.zeros(2)

    def fn(x: Tensor) -> tuple[bool, Tensor]:
        x.add_(1)
        return x is shared, shared * 2

    report = framehook.verify(fn, backend="eager")(shared)
    assert report, report
    assert torch.equal(shared, torch.zeros(2))


class Counter:
    def __init__(self) -> None:
        self.total = 0

    def add(self, x: Tensor) -> Tensor:
        self.total += 1
        return x + self.total

    def __call__(self, x: Tensor) -> Tensor:
        return self.add(x) * 2


@pytest.mark.parametrize("make", [lambda each: each, lambda each: each.add], ids=["object", "method"])
def test_objects_and_bound_methods_are_copied(make: Callable[[Counter], Any]) -> None:
    counter = Counter()
    assert framehook.verify(make(counter), backend="eager", calls=3)(torch.ones(2))
    assert counter.total == 0


def test_values_that_cannot_be_copied_are_named() -> None:
    lock = threading.Lock()
    with pytest.raises(framehook.CannotCopyError, match=r"argument 1, of type lock.*cannot pickle"):
        framehook.verify(lambda x, lock: x + 1, backend="eager")(torch.ones(2), lock)
    made = types.SimpleNamespace(x=torch.ones(2, requires_grad=True) * 2)
    with pytest.raises(framehook.CannotCopyError, match=r"argument 'made', of type SimpleNamespace"):
        framehook.verify(lambda made: made.x + 1, backend="eager")(made=made)

    def fn(x: Tensor) -> Tensor:
        with lock:
            return x + 1

    report = framehook.verify(fn, backend="eager")(torch.ones(2))
    assert report
    assert report.shared == (f"{fn.__qualname__} cell lock",)
    assert "not compared" in str(report)


def test_it_raises_if_asked() -> None:
    @framehook.verify(backend=_each(lambda t: t + 1), raise_on_difference=True)
    def fn(x: Tensor) -> Tensor:
        return x * 2

    assert fn.__name__ == "fn"
    with pytest.raises(framehook.VerificationError, match=r"result: expected tensor\(\[2") as caught:
        fn(torch.ones(1))
    assert isinstance(caught.value, AssertionError)
    assert caught.value.verification.differences[0].part == "result"


def test_tolerances() -> None:
    off = _each(lambda t: t * (1 + 4e-6))
    x = torch.ones(3)
    assert framehook.verify(doubled, backend=off)(x)
    assert not framehook.verify(doubled, backend=off, exact=True)(x)
    assert not framehook.verify(doubled, backend=off, rtol=1e-6, atol=0.0)(x)
    assert not framehook.verify(doubled, backend=off)(x.double())
    assert framehook.verify(doubled, backend=_each(lambda t: t * (1 + 2e-3)))(x.bfloat16())
    item = framehook.verify(lambda x: (x * 2).sum().item(), backend=off)
    assert item(x)


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"calls": 0}, ValueError),
        ({"rtol": -1.0}, ValueError),
        ({"exact": True, "atol": 1.0}, ValueError),
        ({"backend": "nothing of that name"}, framehook.UnknownBackendError),
        ({"mode": "no such mode"}, framehook.BackendOptionError),
    ],
)
def test_bad_options_are_refused_at_once(keywords: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        framehook.verify(doubled, **keywords)


def test_what_is_compiled_already_is_taken_as_it_was() -> None:
    model = torch.nn.Linear(2, 2)
    for each in (framehook.compile(doubled, backend="eager"), framehook.compile(model, backend="eager")):
        assert framehook.verify(each, backend="eager")(torch.ones(2, 2))
    with pytest.raises(TypeError):
        framehook.verify(3)
    with framehook.config.patch(disable=True):
        assert framehook.verify(doubled, backend="eager")(torch.ones(2)).graphs == 1


def test_arguments_that_are_results_of_other_operations() -> None:
    made = torch.ones(2, requires_grad=True) * 3
    report = framehook.verify(lambda x, more: (x * 2, more["a"][0].add_(1)), backend="eager")(
        made, {"a": [torch.ones(2, requires_grad=True) + 1]}
    )
    assert report, str(report)
    assert made.tolist() == [3.0, 3.0]


def test_the_line_of_an_unbound_variable_does_not_depend_on_how_often_code_has_run() -> None:
    def program(x: Tensor) -> Any:
        def unbound(v: Tensor) -> None:
            doubled = v + v
            missing += doubled  # type: ignore[name-defined, used-before-def]  # noqa: F821, F841

        return unbound(x + 1)

    for _ in range(6):
        report = framehook.verify(program, backend="eager")(*[torch.ones(2)])
        assert report, str(report)
