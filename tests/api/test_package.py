"""What an import costs and names, and what the sources may not say."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import framehook
from framehook import native

ROOT = pathlib.Path(framehook.__file__).parent


def run(program: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_brings_neither_sympy_nor_the_peer_and_installs_no_hook() -> None:
    program = """
import sys, json, torch
before = set(sys.modules)
import framehook
from framehook import _C
print(json.dumps([sorted(set(sys.modules) - before), _C.is_hook_installed()]))
"""
    modules, is_installed = json.loads(run(program))
    assert not is_installed
    for name in modules:
        assert name.split(".")[0] != "sympy", name
        assert not name.startswith(("torch._dynamo", "torch._inductor")), name


def test_import_is_quick() -> None:
    program = """
import time, torch
start = time.process_time()
import framehook
print(time.process_time() - start)
"""
    # With compiled files in place, as in any installation; processor time, because the machine may be busy.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    assert min(float(run(program, environment)) for _ in range(4)) < 0.15


def test_all_public_names_are_there() -> None:
    for name in framehook.__all__:
        assert hasattr(framehook, name)


@pytest.mark.parametrize(("component", "found"), [("torch", "1.0.0"), ("python", "3.8.1")])
def test_a_build_for_something_else_is_an_error_with_the_command(
    component: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = {**framehook._C.build_info(), component: found}
    monkeypatch.setattr(framehook._C, "build_info", lambda: info)
    with pytest.raises(framehook.BuildMismatchError, match=found) as caught:
        native.check()
    assert "pip install --no-build-isolation" in str(caught.value)


def test_only_two_rooms_name_the_peer() -> None:
    for path in ROOT.rglob("*.py"):
        allowed = path == ROOT / "torch_compat.py" or ROOT / "backends" in path.parents
        if not allowed:
            assert "torch._dynamo" not in path.read_text(), path


def test_only_three_rooms_ask_for_a_version_of_python() -> None:
    asking = re.compile(
        r"version_info|hexversion|python_version|\bV3\d\d\b|\bVERSION\b|PY_(MAJOR_|MINOR_)?VERSION_?"
    )
    # Whether it is supported at all, and whether it is the one built for.
    allowed = {"supported.py", "native.py", "cpython.h", "cpython.cpp"}
    stated = {"module.cpp": 'info["python"] = PY_VERSION;'}  # for native.py
    for path in (*ROOT.rglob("*.py"), *(ROOT.parent / "csrc").iterdir()):
        if path.name in allowed or ROOT / "bytecode" in path.parents:
            continue
        text = path.read_text().replace(stated.get(path.name, "\0"), "")
        assert not asking.search(text), path


def test_files_are_short_enough_to_read() -> None:
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 800, f"{path}: two rooms live in one"
