"""The pytest plug-in, on tests of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import framehook_pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

HEAD = """
import pytest, torch, framehook

def good(x): return x * 2
def broken(x):
    x = x + 1
    framehook.graph_break("on purpose")
    return x * 2
"""

#: body, passed, failed, what the output says
CASES: list[tuple[str, str, int, int, list[str]]] = [
    ("one graph", """
def test(assert_one_graph):
    assert assert_one_graph(good, torch.ones(2)).tolist() == [2, 2]
    assert_one_graph(framehook.compile(good, backend="eager"), x=torch.ones(2))
""", 1, 0, []),
    ("two graphs", """
def test(assert_one_graph):
    assert_one_graph(broken, torch.ones(2))
""", 0, 1, ["expected one graph, got 2", "on purpose", "framehook.graph_break(\"on purpose\")"]),
    ("no graph", """
def test(assert_one_graph):
    assert_one_graph(lambda: 1)
""", 0, 1, ["*expected one graph, got 0*", "*nothing was compiled*"]),
    ("a call that raises", """
def test(assert_one_graph):
    assert_one_graph(good)
""", 0, 1, ["*the call raised TypeError*"]),
    ("no recompile", """
def test(no_recompile):
    compiled = framehook.compile(good, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    with no_recompile():
        compiled(torch.ones(2))
""", 1, 0, []),
    ("a recompile", """
def test(no_recompile):
    compiled = framehook.compile(good, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    with no_recompile():
        compiled(torch.ones(3))
""", 0, 1, ["*1 recompile:*", "*expected 2, got 3*", "framehook.mark_dynamic",
]),
    ("marks", """
compiled = framehook.compile(broken, backend="eager", dynamic=False)

@pytest.mark.assert_one_graph
def test_breaks(): compiled(torch.ones(2))

@pytest.mark.no_recompile
def test_again():
    compiled(torch.ones(3))

@pytest.mark.assert_one_graph
@pytest.mark.no_recompile
def test_fine(): framehook.compile(good, backend="eager")(torch.ones(2))
""", 1, 2, ["*1 graph break:*", "*2 recompiles:*"]),
    ("eager and compiled", """
graphs = []

def count(gm, inputs):
    graphs.append(gm)
    return gm

def run(x): return good(x).sum()

@pytest.mark.eager_and_compiled(backend=count)
@pytest.mark.parametrize("size", [2, 3])
def test(size):
    x = torch.ones(size)
    assert run(x) == 2 * size

def test_seen():
    assert len(graphs) == 2
""", 5, 0, []),
    ("eager and compiled, with options", """
@pytest.mark.eager_and_compiled(warmup_calls=100)
def test(tmp_path):
    assert good(torch.ones(1)).item() == 2
""", 2, 0, []),
]  # fmt: skip


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints about all cases: in a process of its own, as in a project that has framehook installed."""
    place = tmp_path_factory.mktemp("project")
    for index, (_, body, *_rest) in enumerate(CASES):
        (place / f"test_case_{index}.py").write_text(HEAD + body)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-rN",
        "-p",
        "framehook_pytest",
        "--strict-markers",
        str(place),
    ]
    kept = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=place, env=kept, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case[0] for case in CASES])
def test_fixtures_and_marks(index: int, output: str) -> None:
    _, _, passed, failed, texts = CASES[index]
    lines = [line for line in output.splitlines() if line.startswith(f"test_case_{index}.py::")]
    assert [sum(word in line for line in lines) for word in ("PASSED", "FAILED")] == [passed, failed]
    for text in texts:
        assert text.strip("*") in output


def test_the_summary_attributes_to_packages(output: str) -> None:
    [line] = [line for line in output.splitlines() if line.startswith("framehook: ")]
    breaks, _, recompiles = line.removeprefix("framehook: ").partition("), ")
    assert " graph breaks (" in breaks
    assert "test_case_6 2" in breaks
    assert recompiles == "3 recompiles (test_case_6 2, test_case_5 1)"


def test_neither_torch_nor_framehook_is_imported_by_it() -> None:
    code = (
        "import framehook_pytest, sys; print(sorted({'torch', 'framehook'} & set(sys.modules)), "
        "framehook_pytest.Observer(__import__('pathlib').Path('/p'))._owner('/p/src/pkg/a.py'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["[]", "pkg"]


@pytest.mark.parametrize(
    ("filename", "owner"),
    [
        ("/p/pkg/a.py", "pkg"),
        ("/p/src/pkg/sub/a.py", "pkg"),
        ("/p/script.py", "script"),
        ("/p/.venv/lib/python3.11/site-packages/transformers/models/a.py", "transformers"),
        ("/elsewhere/lib/thing.py", "lib"),
    ],
)
def test_whose_code_it_is(filename: str, owner: str, tmp_path: object) -> None:
    from pathlib import Path

    assert framehook_pytest.Observer(Path("/p"))._owner(filename) == owner
