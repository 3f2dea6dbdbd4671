"""`explain`: graphs, breaks, guards, frames and times of one call, for people and for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framehook
from framehook.observe.explanation import Explanation
from tests.observe import programs


def lambda_of(x: torch.Tensor) -> torch.Tensor:
    return (lambda v: v + 1)(x)


#: what, arguments, graphs, operations, break kinds, what the text says
CASES: list[tuple[str, Any, tuple[Any, ...], int, int, list[str], list[str]]] = [
    ("one operation", programs.double, (torch.ones(2),), 1, 1, [],
     ["double with eager: 1 graph, 1 operation, no graph breaks", "L['x']", "return x * 2", "trace"]),
    ("a break", programs.broken, (torch.ones(2),), 2, 2, ["requested"],
     ["1 graph break", "on purpose", "^^^", "remove the call", "frames compiled partly: broken"]),
    ("a break in an inlined function", programs.outer, (torch.ones(2),), 2, 5, ["data_dependent"],
     ["if x.sum() > 0:", "called through outer", "torch.where"]),
    ("nothing to compile", programs.small, (1,), 0, 0, [],
     ["nothing was compiled", "min_graph_ops is 1", "small", "stays eager"]),
    ("a generator", programs.generator, (torch.ones(2),), 0, 0, [], ["nothing was compiled", "a generator"]),
    ("a coroutine", programs.coroutine, (torch.ones(2),), 0, 0, [], ["nothing was compiled", "a coroutine"]),
    ("a builtin", len, ([1],), 0, 0, [], ["nothing was compiled", "C code"]),
    ("a module", programs.model(), (torch.ones(2, 4),), 1, 3, [],
     ["6 parameters or buffers", "L['args'][0]", "Linear.forward (linear.py", "x3"]),
    ("a call that raises", programs.double, (), 0, 0, [], ["the call raised TypeError", "missing 1 required"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "args", "graphs", "operations", "breaks", "texts"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)  # fmt: skip
def test_what_it_says(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    graphs: int,
    operations: int,
    breaks: list[str],
    texts: list[str],
) -> None:
    found = framehook.explain(fn)(*args)
    if fn is programs.coroutine:
        found.result.close()
    assert isinstance(found, Explanation)
    assert (len(found.graphs), found.operations) == (graphs, operations)
    assert [each.kind for each in found.breaks] == breaks
    text = str(found)
    for part in texts:
        assert part in text
    assert "\x1b[" not in text
    assert len(text.splitlines()) < (40 if breaks else 30)
    data = json.loads(found.to_json())
    assert data == json.loads(json.dumps(found.to_dict()))
    assert (len(data["graphs"]), len(data["breaks"])) == (graphs, len(breaks))
    page = found.to_html()
    assert page.startswith("<!DOCTYPE html>")
    assert "http://" not in page and "https://" not in page


def test_colours_are_for_terminals() -> None:
    found = framehook.explain(programs.double)(torch.ones(2))
    assert "\x1b[" in found.text(is_coloured=True)
    assert "\x1b[" not in found.text(is_coloured=False)


def test_the_result_is_the_calls_and_what_was_compiled_before_stays() -> None:
    compiled = framehook.compile(programs.broken, backend="eager", fullgraph=False)
    compiled(torch.ones(2))
    before = compiled.stats()
    found = compiled.explain(torch.ones(2))
    assert torch.equal(found.result, programs.broken(torch.ones(2)))
    assert found.backend == "eager"
    assert len(found.graphs) == 2
    after = compiled.stats()
    assert (after.hits, after.misses, after.compiles) == (before.hits, before.misses, before.compiles)


def test_options_of_what_was_compiled_are_kept_but_for_fullgraph_and_warm_up() -> None:
    compiled = framehook.compile(programs.broken, backend="eager", fullgraph=True, warmup_calls=3)
    assert len(compiled.explain(torch.ones(2)).breaks) == 1


def test_modules_have_it_too() -> None:
    model = framehook.compile(programs.model(), backend="eager")
    assert model.explain(torch.ones(2, 4)).operations == 3


def test_it_says_what_cannot_be_called() -> None:
    with pytest.raises(TypeError, match="int"):
        framehook.explain(3)  # type: ignore[arg-type]
    with framehook.config.patch(disable=True):
        assert "FRAMEHOOK_DISABLE" in framehook.explain(programs.double)(torch.ones(2)).nothing


class Holder:
    @framehook.compile(backend="eager")
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_compiled_methods_and_calls_inside_of_a_capture() -> None:
    holder = Holder()
    assert framehook.explain(holder.method)(torch.ones(2)).operations == 1
    assert framehook.warmup(holder.method, [torch.ones(2)]).compiles == 1
    assert framehook.stats(holder.method).compiles == 1
    with framehook.capture(backend="eager"):
        found = framehook.explain(holder.method)(torch.ones(2))
    assert "a capture or a compiled function around it" in found.nothing
    assert torch.equal(found.result, torch.full((2,), 2.0))
    framehook.reset(holder.method)


def test_guards_are_grouped_by_what_they_are_about() -> None:
    found = framehook.explain(programs.model())(torch.ones(2, 4))
    assert {"L['self']", "L['args']", "state"} <= set(found.guards)
    [tensor] = [text for text in found.guards["L['args']"] if "sizes" in text]
    assert "[2, 4]" in tensor


def test_lines_of_the_graph_are_the_users() -> None:
    [graph, _] = framehook.explain(programs.outer)(torch.ones(2)).graphs
    assert "code: y = inner(x * 3)" in graph.source
    assert "code: if x.sum() > 0:" in graph.source
    assert "original" in graph.bytecode and "generated" in graph.bytecode


def test_a_page_is_written_where_it_is_wanted(tmp_path: Any) -> None:
    path = tmp_path / "explanation.html"
    text = framehook.explain(programs.outer)(torch.ones(2)).to_html(str(path))
    assert path.read_text(encoding="utf-8") == text
    assert "&lt;" not in text or "L[&#39;x&#39;]" in text


def test_phases_of_inductor_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    from framehook import engine

    ticks = iter([1.0, 3.5, 3.5, 9.0])
    monkeypatch.setattr(engine, "inductor_seconds", lambda: next(ticks))
    clock = engine._Clock()
    with clock.inductor(True):
        time.sleep(0.01)
    # Torch's clock has counted more than has passed: no phase is negative but what is left of the backend's.
    assert clock.seconds["inductor"] >= 0.01
    assert clock.seconds["aotautograd"] == 0
    assert clock.seconds["backend"] == -clock.seconds["inductor"]
    before = dict(clock.seconds)
    with clock.inductor(False):
        pass
    assert clock.seconds == before
