"""`doctor`: what an installation needs, each thing looked at, and each problem with its cure."""

from __future__ import annotations

import ctypes
import getpass
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from framehook import _C, supported, torch_compat
from framehook.api import compile as compile_
from framehook.config import Config, config
from framehook.observe.terminal import escaped, to_text


class Finding(NamedTuple):
    """One thing that was looked at: "ok", "note" (works, but) or "problem", and what to do about it."""

    name: str
    verdict: str
    text: str
    cure: str = ""


def findings() -> list[Finding]:
    """Look at everything."""
    found = []
    for name, look in _CHECKS:
        try:
            verdict, text, cure = look()
        except Exception as error:
            verdict, text, cure = "problem", f"{type(error).__name__}: {error}", "please report this"
        found.append(Finding(name, verdict, text, cure))
    return found


def main(is_json: bool = False) -> int:
    """Print the findings; 1 when there is a problem."""
    found = findings()
    if is_json:
        print(json.dumps([each._asdict() for each in found], indent=2))
    else:
        colours = {"ok": "green", "note": "yellow", "problem": "bold red"}
        for each in found:
            mark = f"[{colours[each.verdict]}]{each.verdict:<8}[/]"
            cure = f"\n{'':<9}{'':<14}cure: {escaped(each.cure)}" if each.cure else ""
            print(to_text(f"{mark} {each.name:<13} {escaped(each.text)}{cure}"))
    return int(any(each.verdict == "problem" for each in found))


_Looked = tuple[str, str, str]


def _python() -> _Looked:
    problem = supported.problem()
    text = f"CPython {sys.version.split()[0]} ({sys.executable})"
    return ("problem", text, problem) if problem else ("ok", text, "")


def _torch() -> _Looked:
    text = f"torch {torch.__version__}"
    release = torch.__version__.split("+")[0]
    checked = torch_compat.CHECKED_VERSIONS
    if release in checked:
        return "ok", text, ""
    return (
        "note",
        f"{text}; checked with {', '.join(checked)}",
        f"pip install torch=={checked[0]} for a checked one",
    )


def _extension() -> _Looked:
    built = _C.build_info()
    text = f"built for Python {built['python']} and torch {built['torch']} ({Path(str(_C.__file__)).name})"
    return "ok", text, ""


def _self_test() -> _Looked:
    compiled: Any = compile_(lambda x: x * 2 + 1, backend="eager")
    x = torch.ones(3)
    results = [compiled(x) for _ in range(2)]
    stats = compiled.stats()
    if all(torch.equal(result, x * 3) for result in results) and (stats.compiles, stats.hits) == (1, 1):
        return "ok", "a function was captured, compiled with the eager backend, and found in the cache", ""
    cure = (
        "end debuggers and profilers; unset FRAMEHOOK_DISABLE and FRAMEHOOK_STANCE"
        if not stats.compiles
        else ""
    )
    return (
        "problem",
        stats.nothing or "a captured function did not give eager's result",
        cure or "please report this",
    )


def _compiler() -> _Looked:
    name = os.environ.get("CXX") or next(
        (each for each in ("g++", "clang++", "c++") if shutil.which(each)), ""
    )
    path = shutil.which(name) if name else None
    cure = 'apt-get install g++ (or set CXX); backends "eager" and "aot_eager" need none'
    if path is None:
        return (
            "problem",
            f"no C++ compiler{f' named {name}' if name else ''}: Inductor needs one on CPU",
            cure,
        )
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=20
    ).stdout.splitlines()
    return "ok", version[0] if version else path, ""


def _openmp() -> _Looked:
    name = os.environ.get("CXX") or "g++"
    if shutil.which(name) is None:
        return "note", "not looked at, as there is no compiler", ""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.cpp"
        source.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
        built = subprocess.run(
            [name, "-fopenmp", str(source), "-o", str(source.with_suffix(""))],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if (
            built.returncode == 0
            and subprocess.run([str(source.with_suffix(""))], timeout=20).returncode == 0
        ):
            return "ok", f"{name} -fopenmp builds, {torch.get_num_threads()} threads", ""
    return (
        "problem",
        f"{name} -fopenmp fails: Inductor's CPU kernels need OpenMP",
        "apt-get install libgomp1 g++",
    )


def _gpu() -> _Looked:
    if not torch.cuda.is_available():
        why = "torch is built without CUDA" if torch.version.cuda is None else "no device, or no driver"
        return "ok", f"none: {why}", ""
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    if importlib.util.find_spec("triton") is None:
        return "problem", f"{names}, but Triton is missing: Inductor needs it on GPUs", "pip install triton"
    return "ok", names, ""


def _evaluation_function() -> _Looked:
    """Other users of PEP 523, debuggers and profilers."""
    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = ctypes.c_void_p
    python._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
    python._PyInterpreterState_GetEvalFrameFunc.argtypes = [ctypes.c_void_p]
    now = python._PyInterpreterState_GetEvalFrameFunc(python.PyInterpreterState_Get())
    default = ctypes.cast(python._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    others = [name for name in ("pydevd", "debugpy", "coverage", "viztracer") if name in sys.modules]
    if now != default and not _C.is_hook_installed():
        who = f" (loaded: {', '.join(others)})" if others else ""
        return (
            "note",
            f"another frame evaluation function is installed{who}: it is chained to",
            "leave it out, if calls are slow",
        )
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return (
            "note",
            "a debugger, profiler or coverage tool traces this thread: its frames run eagerly",
            "run without it",
        )
    return "ok", "no other user of PEP 523, no debugger or profiler", ""


def _caches() -> _Looked:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    folder = Path(
        os.environ.get("TORCHINDUCTOR_CACHE_DIR") or Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    )
    existing = folder
    while not existing.exists():
        existing = existing.parent
    cure = "set TORCHINDUCTOR_CACHE_DIR to a folder that can be written to"
    if not os.access(existing, os.W_OK):
        return "problem", f"{folder} cannot be written to: Inductor keeps kernels there", cure
    free = shutil.disk_usage(existing).free / 2**30
    if free < 1:
        return "problem", f"{folder}: {free:.2f} GiB left", f"empty it, or {cure}"
    return "ok", f"{folder}, {free:.0f} GiB left", ""


def _settings() -> _Looked:
    known = {f"FRAMEHOOK_{name.upper()}" for name in vars(Config())}
    given = sorted(name for name in os.environ if name.startswith("FRAMEHOOK_"))
    unknown = [name for name in given if name not in known]
    if unknown:
        return (
            "note",
            f"{', '.join(unknown)} set, which nothing reads",
            f"there are {', '.join(sorted(known))}",
        )
    changed = [
        f"{name}={value!r}" for name, value in vars(config).items() if value != getattr(Config(), name)
    ]
    if config.disable or config.stance == "force_eager":
        return (
            "note",
            f"{', '.join(changed)}: nothing is compiled",
            "unset FRAMEHOOK_DISABLE or FRAMEHOOK_STANCE",
        )
    return "ok", ", ".join(changed) or "defaults", ""


_CHECKS: tuple[tuple[str, Callable[[], _Looked]], ...] = (
    ("Python", _python),
    ("torch", _torch),
    ("extension", _extension),
    ("capture", _self_test),
    ("C++ compiler", _compiler),
    ("OpenMP", _openmp),
    ("GPU", _gpu),
    ("evaluation", _evaluation_function),
    ("caches", _caches),
    ("settings", _settings),
)

__all__ = ["Finding", "findings", "main"]
