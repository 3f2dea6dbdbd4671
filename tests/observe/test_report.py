"""`report`: one page that needs nothing else."""

from __future__ import annotations

import html.parser
import json
import pathlib
import re
import time
from typing import Any

import pytest
import torch

import framehook
from framehook.observe.history import history
from tests.observe import programs


class Page(html.parser.HTMLParser):
    """What a page loads, its tags, and its data."""

    VOID = frozenset({"meta", "link", "br", "input", "img", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.data = ""
        self._is_data = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        self._is_data = found.get("id") == "data"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag:
            # Tags whose end may be left out are not used.
            raise AssertionError(f"</{tag}> ends <{self.open[-1]}>")
        self.open.pop()
        self._is_data = False

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data += data


def written(tmp_path: pathlib.Path) -> tuple[str, Page, dict[str, Any]]:
    path = tmp_path / "report.html"
    framehook.report(path, "a <title>")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert page.loads == ["data:,"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "<title>framehook: a &lt;title&gt;</title>" in text
    return text, page, json.loads(page.data)


def rows_of(text: str, function: str) -> list[tuple[str, str]]:
    """(what became of it, text) of each line of a function's source."""
    part = text[text.index(f'<b class="mono">{function}</b>') :].split("</details>")[0]
    return re.findall(r'<tr class="(\w*)"><td class="at">\d+</td><td class="text">([^<]*)', part)


def test_an_empty_report(tmp_path: pathlib.Path) -> None:
    framehook.reset()
    text, _, data = written(tmp_path)
    assert "nothing was compiled" in text
    assert data == {"timeline": [], "latency": {}, "graphs": []}


def test_a_report_of_everything(tmp_path: pathlib.Path) -> None:
    framehook.reset()
    compiled = framehook.compile(programs.outer, backend="eager", dynamic=False, warmup_calls=1)
    for size in (2, 2, 2, 3, 4):
        compiled(torch.ones(size))
    plain = framehook.compile(programs.small, backend="eager")
    plain(3)
    text, _, data = written(tmp_path)
    assert [kind for kind, line in rows_of(text, "outer")] == ["traced", "graph", "graph"]
    assert rows_of(text, "inner") == [
        ("traced", "def inner(x: torch.Tensor) -&gt; torch.Tensor:"),
        ("native", "    if x.sum() &gt; 0:"),
        ("graph", "        return x - 1"),
        ("unreached", "    return x + 1"),
    ]
    assert {kind for kind, _ in rows_of(text, "small")} == {"eager"}
    assert "a branch depends on the value of a tensor" in text
    assert "expected 2, got 3" in text
    assert [row["again"] for row in data["timeline"]].count(True) >= 2
    assert any("outer" in name for name in data["latency"])
    operations = [node[0] for graph in data["graphs"] for node in graph if node[1] == "operation"]
    assert {"mul", "sum", "gt", "sub", "truediv"} <= set(operations)
    for stage in ("frame", "lookup", "guards", "trace", "graph", "bytecode"):
        assert f'<div class="stage" data-stage="{stage}">' in text
    assert "| generated" in text
    assert "L[&#39;x&#39;] is a Tensor" in text


def test_what_is_gone_is_said_to_be_gone(tmp_path: pathlib.Path) -> None:
    framehook.reset()
    framehook.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
    text, _, _ = written(tmp_path)
    assert "is gone" in text


def test_history_is_bounded_and_keeps_no_code() -> None:
    import gc
    import weakref

    framehook.reset()
    compiled = framehook.compile(lambda x: x * 3, backend="eager")
    compiled(torch.ones(2))
    code = weakref.ref(compiled.fn.__code__)
    assert history.compiles.maxlen is not None
    del compiled
    gc.collect()
    assert len(history.compiles) == 1
    assert history.compiles[0].original() is code()


@pytest.mark.slow
def test_a_thousand_operations_are_quick_to_write(tmp_path: pathlib.Path) -> None:
    def long(x: torch.Tensor) -> torch.Tensor:
        for _ in range(500):
            x = x * 2 + 1
        return x

    framehook.reset()
    framehook.compile(long, backend="eager")(torch.ones(2))
    start = time.perf_counter()
    text, _, data = written(tmp_path)
    assert len(data["graphs"][0]) == 1001
    assert time.perf_counter() - start < 5
    assert len(text) < 2_000_000
