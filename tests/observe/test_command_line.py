"""`python -m framehook`: what it does, says and returns."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

import framehook
from framehook import cli
from framehook.cli import doctor

SCRIPT = """
import sys, threading
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x).relu()

def double(x):
    return x * 2

def broken(x):
    x = x + 1
    print("in the middle")
    return x * 2

def fails(x):
    raise ValueError("of the script")

if __name__ == "__main__":
    import helper
    net = Net()
    for _ in range(3):
        net(torch.ones(2, 4))
    print("arguments", sys.argv[1:], helper.NAME)
    if sys.argv[1:] == ["exit"]: sys.exit(7)
    if sys.argv[1:] == ["text"]: sys.exit("a reason")
    if sys.argv[1:] == ["raise"]: fails(1)
    if sys.argv[1:] == ["break"]: broken(broken(torch.ones(2)))
    if sys.argv[1:] == ["interrupt"]: raise KeyboardInterrupt
"""


@pytest.fixture(autouse=True)
def project(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("NAME = 'helper'\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("helper", None)
    sys.modules.pop("script", None)


RUN = ["run", "--backend", "eager"]
#: command line, exit code, what standard output and standard error say
CASES: list[tuple[str, list[str], int, list[str], list[str]]] = [
    ("run", [*RUN, "script.py", "a", "--b"], 0, ["arguments ['a', '--b'] helper"], []),
    ("an exit code", [*RUN, "script.py", "exit"], 7, ["arguments"], []),
    ("an exit text", [*RUN, "script.py", "text"], 1, [], ["a reason"]),
    ("an exception", [*RUN, "script.py", "raise"], 1, [],
     ["Traceback (most recent call last):", "script.py", "in fails", "ValueError: of the script"]),
    ("Ctrl-C", [*RUN, "script.py", "interrupt"], 130, [], ["interrupted"]),
    ("a module", [*RUN, "-m", "script", "x"], 0, ["arguments ['x'] helper"], []),
    ("fullgraph", [*RUN, "--fullgraph", "--warmup-calls", "0", "script.py", "break"], 1, [], ["GraphBreakError"]),
    ("counts", [*RUN, "--stats", "--warmup-calls", "0", "script.py"], 0, [], ["hit rate", "Module._wrapped_call_impl"]),
    ("dynamic", [*RUN, "--dynamic", "false", "script.py"], 0, ["arguments"], []),
    ("no such file", ["run", "nothing.py"], 2, [], ["framehook run: there is no file nothing.py"]),
    ("no such backend", ["run", "--backend", "inductr", "script.py"], 2, [], ["did you mean 'inductor'"]),
    ("a negative number", ["run", "--warmup-calls", "-1", "script.py"], 2, [], ["cannot be negative"]),
    ("no such folder", [*RUN, "--report", "no/where.html", "script.py"], 2, [], ["no folder for no/where.html"]),
    ("explain", ["explain", "script.py:double", "--args", "torch.ones(2)"], 0,
     ["double with eager: 1 graph, 1 operation"], []),
    ("explain a method's class", ["explain", "script.py:Net.forward", "--args", "Net(), torch.ones(2, 4)"], 0,
     ["Net.forward with eager: 1 graph"], []),
    ("explain a module's function", ["explain", "script:double", "--args", "x=torch.ones(2)"], 0, ["1 graph"], []),
    ("explain JSON", ["explain", "script.py:double", "--json", "--args", "torch.ones(2)"], 0, ['"operations": 1'], []),
    ("explain without arguments", ["explain", "script.py:double"], 1, ["missing 1 required"], ["give arguments with --args"]),
    ("explain fullgraph", ["explain", "--fullgraph", "script.py:broken", "--args", "torch.ones(2)"], 1, ["graph break 1"], []),
    ("explain nonsense", ["explain", "script.py"], 2, [], ["say script.py:function"]),
    ("explain what is not there", ["explain", "script.py:doubble"], 2, [], ["has no doubble; it has", "double"]),
    ("explain what cannot be called", ["explain", "helper:NAME"], 2, [], ["cannot be called: it is of type str"]),
    ("explain wrong arguments", ["explain", "script.py:double", "--args", "torch.ones("], 2, [], ["SyntaxError"]),
    ("explain no module", ["explain", "no.such:thing"], 2, [], ["cannot be imported"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "code", "out", "err"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_commands(
    argv: list[str], code: int, out: list[str], err: list[str], capfd: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    before = list(sys.argv)
    assert cli.main(argv) == code
    printed = capfd.readouterr()
    for text in out:
        assert text in printed.out
    for text in err:
        assert text in printed.err
    assert "runpy" not in printed.err
    assert "framehook/cli" not in printed.err
    assert sys.argv == before


def test_a_report_of_a_script(project: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    framehook.reset()
    assert cli.main(["report", "--backend", "eager", "-o", "out.html", "script.py", "exit"]) == 7
    page = (project / "out.html").read_text()
    assert "framehook: script.py" in page
    assert "Net.forward" in page
    assert "report: out.html" in capfd.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--help"], ["run", "--help"], ["explain", "-h"], ["doctor", "-h"], ["--version"]]
)
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(argv)
    assert left.value.code == 0
    assert "framehook" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["fly"], ["run"], ["run", "--dynamic", "maybe", "script.py"]])
def test_a_command_line_that_makes_no_sense(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(argv)
    assert left.value.code == 2
    assert "usage: python -m framehook" in capsys.readouterr().err


# -- doctor ----------------------------------------------------------------------------------------------------


def test_the_doctor_looks_at_everything(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "--json"])
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(found) >= {
        "Python",
        "torch",
        "extension",
        "C++ compiler",
        "OpenMP",
        "GPU",
        "evaluation",
        "caches",
    }
    assert found["capture"]["verdict"] == "ok"
    for each in found.values():
        assert each["verdict"] in ("ok", "note", "problem")
        assert (each["verdict"] == "ok") == (not each["cure"]) or each["verdict"] == "note"
    cli.main(["doctor"])
    assert "capture" in capsys.readouterr().out


#: environment, what is looked at, verdict, what it says and the cure
PROBLEMS = [
    ({"PATH": "/nowhere", "CXX": ""}, "C++ compiler", "problem", "no C++ compiler", "apt-get install g++"),
    ({"CXX": "no-such-compiler"}, "C++ compiler", "problem", "named no-such-compiler", "set CXX"),
    ({"TORCHINDUCTOR_CACHE_DIR": "/proc/here"}, "caches", "problem", "cannot be written", "TORCHINDUCTOR_CACHE_DIR"),
    ({"FRAMEHOOK_STANCES": "default"}, "settings", "note", "FRAMEHOOK_STANCES set, which nothing reads", "FRAMEHOOK_STANCE"),
]  # fmt: skip


@pytest.mark.parametrize(("environment", "name", "verdict", "text", "cure"), PROBLEMS)
def test_problems_come_with_their_cure(
    environment: dict[str, str], name: str, verdict: str, text: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    if name == "caches" and os.geteuid() == 0:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    [found] = [each for each in doctor.findings() if each.name == name]
    assert found.verdict == verdict
    assert text in found.text
    assert cure in found.cure
    assert doctor.main() == (1 if verdict == "problem" else doctor.main())


def test_the_doctor_sees_settings_and_tools() -> None:
    with framehook.config.patch(disable=True):
        by_name = {each.name: each for each in doctor.findings()}
    assert by_name["settings"].verdict == "note"
    assert by_name["capture"].verdict == "problem"
    sys.setprofile(lambda *_: None)
    try:
        by_name = {each.name: each for each in doctor.findings()}
    finally:
        sys.setprofile(None)
    assert by_name["evaluation"].verdict == "note"
    assert "profiler" in by_name["evaluation"].text


@pytest.mark.slow
def test_as_a_process_and_into_a_closed_pipe(project: pathlib.Path) -> None:
    command = f"{sys.executable} -m framehook run --backend eager script.py exit"
    done = subprocess.run(command.split(), capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (7, "")
    piped = f"{sys.executable} -m framehook explain script.py:double --args 'torch.ones(2)' | head -c 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {piped}"], capture_output=True, text=True, timeout=100
    )
    assert "Traceback" not in done.stderr
