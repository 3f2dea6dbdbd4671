"""The pytest plug-in of framehook: fixtures, marks and a summary line.

A module of its own, outside of the package, as pytest imports it in every run: neither framehook nor torch is imported
before a test asks for them.

fixtures   `assert_one_graph(fn, *args)` calls `fn` compiled and fails, with the breaks, unless it is one graph;
           `with no_recompile():` fails when something is compiled again inside.
marks      `@pytest.mark.assert_one_graph` and `@pytest.mark.no_recompile` say so of a whole test;
           `@pytest.mark.eager_and_compiled` runs a test twice, eager and under `framehook.capture`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_MODE = "framehook_mode"
_MARKS = (
    "assert_one_graph: fail when a graph breaks in this test",
    "no_recompile: fail when something is compiled again in this test",
    "eager_and_compiled(backend='eager', **options): run this test eagerly, and again under framehook.capture",
)


class Observer:
    """What happened to the code of the tests: counts by package, for the summary."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_listening = False
        self.breaks: list[Any] = []
        self.recompiles: list[Any] = []

    def listen(self) -> None:
        """Listen to framehook once somebody has imported it."""
        framehook = sys.modules.get("framehook")
        events = getattr(framehook, "events", None)
        if self._is_listening or events is None:
            return
        self._is_listening = True
        events.on("graph_break", self.breaks.append)
        events.on("recompile", self.recompiles.append)

    def summary(self) -> str:
        """One line: how many breaks and recompiles, and in whose code; empty when there were none."""
        if not self.breaks and not self.recompiles:
            return ""
        places = Counter(self._owner(each.stack[-1].filename) for each in self.breaks)
        again = Counter(self._owner(each.filename) for each in self.recompiles)
        return f"framehook: {_counted(places, 'graph break')}, {_counted(again, 'recompile')}"

    def _owner(self, filename: str) -> str:
        """The package that a file belongs to: a folder or module of the project, or an installed package."""
        path = Path(filename)
        with contextlib.suppress(ValueError):
            parts = path.relative_to(self._root).parts
            if "site-packages" not in parts:
                parts = parts[1:] if parts[0] == "src" and len(parts) > 1 else parts
                return parts[0].removesuffix(".py")
        parts = path.parts
        for marker in ("site-packages", "dist-packages", f"python{sys.version[:4]}"):
            if marker in parts[:-1]:
                return parts[parts.index(marker) + 1].removesuffix(".py")
        return path.parent.name or filename


def _counted(counts: Counter[str], thing: str) -> str:
    total = sum(counts.values())
    owners = ", ".join(f"{name} {count}" for name, count in counts.most_common(5))
    return f"{total} {thing}{'' if total == 1 else 's'}" + (f" ({owners})" if owners else "")


_OBSERVER = pytest.StashKey[Observer]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    config.stash[_OBSERVER] = Observer(config.rootpath)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with the mark twice."""
    if metafunc.definition.get_closest_marker("eager_and_compiled") is not None:
        metafunc.fixturenames.append(_MODE)
        metafunc.parametrize(_MODE, ["eager", "compiled"], indirect=True)


@pytest.fixture(name=_MODE)
def _framehook_mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Listen from now on, if somebody has imported framehook meanwhile."""
    item.config.stash[_OBSERVER].listen()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Run the test under capture, and look at what happened, as its marks say."""
    marks = {name: pyfuncitem.get_closest_marker(name) for name in ("assert_one_graph", "no_recompile")}
    callspec = getattr(pyfuncitem, "callspec", None)
    is_compiled = callspec is not None and callspec.params.get(_MODE) == "compiled"
    if not is_compiled and not any(marks.values()):
        return (yield)
    import framehook

    observer = pyfuncitem.config.stash[_OBSERVER]
    observer.listen()
    original = pyfuncitem.obj
    if is_compiled:
        mark = pyfuncitem.get_closest_marker("eager_and_compiled")
        options = {"backend": "eager", "warmup_calls": 0, **(mark.kwargs if mark is not None else {})}
        pyfuncitem.obj = framehook.capture(**options)(original)
    breaks, recompiles = len(observer.breaks), len(observer.recompiles)
    try:
        result = yield
    finally:
        pyfuncitem.obj = original
    if marks["assert_one_graph"] is not None:
        _refuse_breaks(observer.breaks[breaks:])
    if marks["no_recompile"] is not None:
        _refuse_recompiles(observer.recompiles[recompiles:])
    return result


def _refuse_breaks(breaks: list[Any]) -> None:
    if breaks:
        texts = [f"{each.reason}\n{each.stack[-1].format()}\n  hint: {each.hint}" for each in breaks]
        pytest.fail(f"{_number(breaks, 'graph break')}:\n" + "\n".join(texts), pytrace=False)


def _refuse_recompiles(recompiles: list[Any]) -> None:
    if recompiles:
        texts = [
            f"{each.function} ({os.path.basename(each.filename)}:{each.line}) is compiled again: "
            f"{'; '.join(each.reasons)}\n  hint: {each.cure}"
            for each in recompiles
        ]
        pytest.fail(f"{_number(recompiles, 'recompile')}:\n" + "\n".join(texts), pytrace=False)


def _number(found: list[Any], thing: str) -> str:
    return f"{len(found)} {thing}{'' if len(found) == 1 else 's'}"


@pytest.fixture
def assert_one_graph() -> Callable[..., Any]:
    """`assert_one_graph(fn, *args, **kwargs)`: call it compiled, and fail unless it is one graph without breaks.

    `fn` may be compiled already; its backend is used then, and "eager" otherwise.  Returns what the call returned.
    """
    import framehook

    def check(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = framehook.explain(fn)(*args, **kwargs)
        if found.error:
            pytest.fail(f"the call raised {found.error}")
        if found.breaks or len(found.graphs) != 1:
            pytest.fail(f"expected one graph, got {len(found.graphs)}:\n{found.text(is_coloured=False)}")
        return found.result

    return check


@pytest.fixture
def no_recompile() -> Callable[[], Any]:
    """`with no_recompile():` fails when something is compiled again inside; compile before it, or inside once."""
    import framehook

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        seen: list[Any] = []
        off = framehook.events.on("recompile", seen.append)
        try:
            yield
        finally:
            off()
        _refuse_recompiles(seen)

    return block


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line, when there is something to say."""
    text = config.stash[_OBSERVER].summary()
    if text:
        terminalreporter.write_line(text)
