"""`warmup`, the progress line, and `testing.dump`."""

from __future__ import annotations

import io
import pathlib
import time
from typing import Any

import pytest
import torch

import framehook
from framehook.observe import progress
from framehook.testing import CompileCounter, dump
from tests.observe import programs


def two(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    return x * 2 if y is None else x + y


#: inputs, options, what was compiled, hits
INPUTS: list[tuple[str, list[Any], dict[str, Any], int, int]] = [
    ("one argument", [torch.ones(2), torch.ones(3)], {}, 2, 0),
    ("tuples", [(torch.ones(2),), (torch.ones(2), torch.ones(2)), (torch.ones(2),)], {}, 2, 1),
    ("keywords", [{"x": torch.ones(2)}, {"x": torch.ones(2), "y": torch.ones(2)}], {}, 2, 0),
    ("none", [], {}, 0, 0),
    ("warm-up calls are not waited for", [torch.ones(2)], {"warmup_calls": 5}, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "options", "compiles", "hits"), [i[1:] for i in INPUTS], ids=[i[0] for i in INPUTS]
)
def test_warmup(inputs: list[Any], options: dict[str, Any], compiles: int, hits: int) -> None:
    counter = CompileCounter()
    compiled = framehook.compile(two, backend=counter, dynamic=False, **options)
    done = framehook.warmup(compiled, iter(inputs))
    assert (done.inputs, done.compiles, done.hits) == (len(inputs), compiles, hits)
    assert counter.frame_count == compiles
    assert len(done.seconds) == len(inputs)
    assert f"{compiles} compiled" in str(done)
    with framehook.stance("fail_on_recompile"):
        for each in inputs:
            if isinstance(each, dict):
                compiled(**each)
            else:
                compiled(*each if isinstance(each, tuple) else (each,))


def test_warmup_compiles_under_a_serving_stance_and_tells_of_breaks() -> None:
    model = framehook.compile(programs.model(), backend="eager")
    broken = framehook.compile(programs.broken, backend="eager")
    with framehook.stance("fail_on_recompile"):
        assert framehook.warmup(model, [torch.ones(2, 4)]).compiles == 1
        done = framehook.warmup(broken, [torch.ones(2)])
        model(torch.ones(2, 4))
    assert len(done.graph_breaks) == 1
    assert "on purpose" in str(done)
    with pytest.raises(TypeError, match="not compiled"):
        framehook.warmup(two, [])


def test_a_bar_where_it_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = framehook.compile(two, backend="eager")
    framehook.warmup(compiled, [torch.ones(2)])
    assert capfd.readouterr().err == ""
    assert framehook.warmup(compiled, [torch.ones(2)], progress=True).hits == 1


# -- progress --------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def slow_backend(gm: Any, inputs: Any) -> Any:
    time.sleep(0.3)
    return gm


#: is it a terminal, is it switched on, seconds of quiet, whether a line is drawn
LINES = [
    (True, True, 0.05, True),
    (True, True, 5.0, False),
    (True, False, 0.05, False),
    (False, True, 0.05, False),
]


@pytest.mark.parametrize(("is_terminal", "is_on", "quiet", "is_drawn"), LINES)
def test_the_progress_line(
    is_terminal: bool, is_on: bool, quiet: float, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress.Line.__init__, "__defaults__", (quiet,))
    with framehook.config.patch(progress=is_on):
        framehook.compile(two, backend=slow_backend)(torch.ones(2))
    text = stream.getvalue()
    assert bool(text) == is_drawn
    if is_drawn:
        assert "compiling two, " in text
        assert text.endswith("\r")
        assert text.rsplit("\r", 2)[1].strip() == ""
        assert "\n" not in text
    assert progress._line == []


def test_the_line_goes_when_a_compile_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(gm: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    ends: list[framehook.events.CompileEnd] = []
    off = framehook.events.on("compile_end", ends.append)
    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(KeyboardInterrupt):
        framehook.compile(two, backend=interrupted)(torch.ones(2))
    off()
    assert progress._line == []
    assert [each.outcome for each in ends] == ["error"]


# -- dump ------------------------------------------------------------------------------------------------------


def test_dump_writes_graphs_guards_and_code_and_no_contents(tmp_path: pathlib.Path) -> None:
    secret = torch.tensor([12345.678, 2.0])
    place = dump(programs.outer, tmp_path / "for" / "report")(secret)
    names = {path.name for path in place.iterdir()}
    assert names == {
        "explanation.txt", "explanation.json", "environment.txt", "graph_1.py", "graph_2.py",
        "guards_1.txt", "guards_2.txt", "bytecode_1.txt", "bytecode_2.txt",
    }  # fmt: skip
    texts = {path.name: path.read_text() for path in place.iterdir()}
    assert "def forward" in texts["graph_1.py"]
    assert "L['x']" in texts["guards_1.txt"]
    assert "generated" in texts["bytecode_1.txt"]
    assert torch.__version__ in texts["environment.txt"]
    assert "if x.sum() > 0" in texts["explanation.txt"]
    assert not any("12345" in text for text in texts.values())
    dump(programs.double, place)(secret)
    assert "graph_2.py" not in {path.name for path in place.iterdir()}


def test_generated_code_shows_the_users_lines_in_tracebacks() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        raise ValueError("here")

    compiled = framehook.compile(fails, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError, match="here") as caught:
            compiled(torch.ones(2))
        last = caught.traceback[-1]
        assert str(last.path) == __file__
        assert last.lineno == fails.__code__.co_firstlineno + 1
