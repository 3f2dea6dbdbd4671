"""Every kind of graph break stands in docs/graph-breaks.md, with an example that breaks so and a rewrite that does not."""

from __future__ import annotations

import ast
import linecache
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import framehook
from framehook import events
from framehook.break_kinds import KINDS
from framehook.testing import CompileCounter, assert_same, snapshot
from tests.semantics.guard_table import outcome

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "graph-breaks.md").read_text()
_, *_parts = re.split(r"^### (\w+)$", PAGE, flags=re.MULTILINE)
#: Kind -> the blocks of Python in its section.
SECTIONS = {
    kind: re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for kind, text in zip(_parts[::2], _parts[1::2], strict=True)
}


def kinds_in_source() -> set[str]:
    """The first arguments of all calls that break the graph."""
    found = set()
    for path in (ROOT / "framehook").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0] if node.args else None
            # What is not one word is the message of `framehook.graph_break`.
            if name in ("graph_break", "BreakGraph", "GraphBreak") and isinstance(first, ast.Constant):
                found.update(re.findall(r"^\w+$", str(first.value)))
    return found


def test_every_kind_is_listed() -> None:
    assert kinds_in_source() <= set(KINDS)
    assert list(SECTIONS) == list(KINDS) == sorted(KINDS)
    assert re.findall(r"^\| \[`(\w+)`\]\(#\1\) \| (.+) \|$", PAGE, flags=re.MULTILINE) == [
        (kind, about.summary) for kind, about in KINDS.items()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_hint(kind: str) -> None:
    assert KINDS[kind].hint
    assert len(SECTIONS[kind]) == 2


def _run(source: str, name: str) -> tuple[Any, tuple[Any, ...]]:
    filename = f"<graph-breaks.md {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"torch": torch, "framehook": framehook, "__name__": "example"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["fn"], namespace.get("args", ())


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_breaks_with_this_kind(kind: str) -> None:
    fn, args = _run(SECTIONS[kind][0], kind)
    seen: list[events.GraphBreak] = []
    off = events.on("graph_break", seen.append)
    compiled = framehook.compile(fn, backend="eager")
    try:
        for _ in range(2):
            assert_same(
                snapshot(outcome(compiled, torch.ones(3), *args)),
                snapshot(outcome(fn, torch.ones(3), *args)),
            )
    finally:
        off()
    # What cannot be rebuilt at a break moves it: both are said.
    if kind == "rebuild":
        assert "a generator cannot be rebuilt" in seen[0].reason
    else:
        assert seen[0].break_kind == kind
    assert seen[0].hint
    assert "\n" not in seen[0].reason
    place = seen[0].stack[-1]
    assert place.filename.startswith("<graph-breaks.md")
    if kind != "raises":
        whole = framehook.compile(fn, backend="eager", fullgraph=True)
        with pytest.raises(framehook.GraphBreakError) as caught:
            whole(torch.ones(3), *args)
        assert f"\n    {place.source_line().strip()}\n" in str(caught.value)
        assert re.search(r"^ +\^+$", str(caught.value), flags=re.MULTILINE)
        assert f"hint: {caught.value.hint}" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rewrite_is_one_graph(kind: str) -> None:
    fn, args = _run(SECTIONS[kind][1], f"{kind}, instead")
    counter = CompileCounter()
    compiled = framehook.compile(fn, backend=counter, fullgraph=True)
    for _ in range(2):
        shape = (3,) if kind != "raises" else (1, 3)
        actual, expected = compiled(torch.ones(shape), *args), fn(torch.ones(shape), *args)
        assert_same(snapshot(actual), snapshot(expected))
    assert counter.frame_count == 1


def test_the_log_shows_kind_line_and_hint(caplog: pytest.LogCaptureFixture) -> None:
    fn, args = _run(SECTIONS["disabled"][0], "log")
    framehook.set_logs("graph_breaks")
    try:
        with caplog.at_level("INFO", "framehook.graph_breaks"):
            framehook.compile(fn, backend="eager")(torch.ones(3), *args)
    finally:
        framehook.set_logs()
    text = caplog.text
    assert "(disabled): example.halve is told to run eagerly; hint: take the decorator off" in text
    assert "    return halve(x * 3) + 1\n           ^^^^^^^^^^^^" in text
