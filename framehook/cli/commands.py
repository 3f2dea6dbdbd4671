"""`run`, `explain`, `report` and `doctor`.

Exit codes: those of the script that is run; 1 when something of the user's went wrong (the script raises, a function
breaks where it may not, `doctor` finds a problem), 2 for a command line that makes no sense, 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

import framehook
from framehook import backends, errors
from framehook.cli import doctor
from framehook.observe.report import Report

_DYNAMIC = {"auto": None, "true": True, "false": False}


class _Refused(Exception):
    """A command line that cannot be carried out; the text says why, and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line, and return the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        code: int = given.command(given)
    except (_Refused, errors.UnknownBackendError, errors.BackendOptionError) as refused:
        print(f"framehook {given.name}: {refused}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone (`| head`); nothing more can be written, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m framehook",
        description="A compiler front end for PyTorch: compile programs as they run.",
    )
    parser.add_argument("--version", action="version", version=f"framehook {framehook.__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="command")

    run = commands.add_parser(
        "run", help="run a script with every call of a module captured", description="Run a script, unmodified, with "
        "everything that it calls captured; its exit code is the script's.",
    )  # fmt: skip
    _add_capture_options(run)
    run.add_argument("--report", metavar="OUT.html", help="write a report when the script has ended")
    run.add_argument("--stats", action="store_true", help="print the counts to standard error at the end")
    _add_script(run)
    run.set_defaults(command=_run)

    report = commands.add_parser(
        "report", help="run a script and write a page about it",
        description="Run a script as `run` does, and write a page about what was compiled and what broke.",
    )  # fmt: skip
    _add_capture_options(report)
    report.add_argument("-o", "--output", default="framehook-report.html", metavar="OUT.html", dest="report")
    report.add_argument("--stats", action="store_true", help="print the counts to standard error at the end")
    _add_script(report)
    report.set_defaults(command=_run)

    explain = commands.add_parser(
        "explain", help="call one function and tell what becomes of it",
        description="Call one function compiled, and tell about graphs, graph breaks, guards and times.",
    )  # fmt: skip
    explain.add_argument("target", metavar="script.py:function", help="or package.module:function")
    explain.add_argument(
        "--args", default="", metavar="EXPRESSIONS",
        help="arguments, as in a call; names of the script and torch are known: --args 'torch.ones(2), 3'",
    )  # fmt: skip
    explain.add_argument(
        "--backend", default="eager", metavar="NAME", help="what compiles (default: eager, which is quick)"
    )
    explain.add_argument("--json", action="store_true", help="print JSON")
    explain.add_argument("--html", metavar="OUT.html", help="write a page")
    explain.add_argument("--fullgraph", action="store_true", help="exit with 1 unless it becomes one graph")
    explain.set_defaults(command=_explain)

    check = commands.add_parser(
        "doctor", help="look the installation over",
        description="Look at Python, torch, the extension, the compiler, OpenMP, GPUs, other users of the frame "
        "evaluation hook, and cache folders; exit with 1 when there is a problem.",
    )  # fmt: skip
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(command=lambda given: doctor.main(is_json=given.json))
    return parser


def _add_capture_options(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(backends.list())
    parser.add_argument(
        "--backend", default="inductor", metavar="NAME", help=f"what compiles: {known} (default: inductor)"
    )
    parser.add_argument(
        "--dynamic",
        default="auto",
        choices=sorted(_DYNAMIC),
        help="whether sizes are symbols (default: auto)",
    )
    parser.add_argument("--fullgraph", action="store_true", help="raise at the first graph break")
    parser.add_argument(
        "--warmup-calls", type=int, default=1, metavar="N",
        help="eager calls of each function before it is compiled (default: 1)",
    )  # fmt: skip


def _add_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="the script is the name of a module, as for python -m",
    )
    parser.add_argument("script", metavar="script.py")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="args…", help="what the script is given")


def _run(given: argparse.Namespace) -> int:
    if not given.is_module and not Path(given.script).is_file():
        raise _Refused(f"there is no file {given.script}")
    if given.warmup_calls < 0:
        raise _Refused("--warmup-calls cannot be negative")
    if given.report and not Path(given.report).resolve().parent.is_dir():
        raise _Refused(f"there is no folder for {given.report}")
    capture = framehook.capture(
        backend=given.backend,
        dynamic=_DYNAMIC[given.dynamic],
        fullgraph=given.fullgraph,
        warmup_calls=given.warmup_calls,
    )
    report = Report() if given.report else None
    argv, path = sys.argv, list(sys.path)
    sys.argv = [given.script, *given.args]
    sys.path[0] = os.getcwd() if given.is_module else str(Path(given.script).resolve().parent)
    code = 0
    try:
        with capture:
            if given.is_module:
                runpy.run_module(given.script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(given.script, run_name="__main__")
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _print_error(error, given.script)
        code = 1
    finally:
        sys.argv, sys.path[:] = argv, path
        if given.stats:
            print(capture.stats(), file=sys.stderr)
        if report is not None:
            report.write(given.report, title=Path(given.script).name)
            print(f"report: {given.report}", file=sys.stderr)
    return code


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    print(leaving.code, file=sys.stderr)
    return 1


def _print_error(error: BaseException, script: str) -> None:
    """As the interpreter does for a script: without the frames that started it."""
    first: TracebackType | None = error.__traceback__
    own = (
        os.path.dirname(__file__),
        os.path.dirname(os.path.abspath(runpy.__file__)) + os.sep + "runpy.py",
        "<frozen runpy>",
    )
    while first is not None and first.tb_frame.f_code.co_filename.startswith(own):
        first = first.tb_next
    traceback.print_exception(type(error), error, first or error.__traceback__)


def _explain(given: argparse.Namespace) -> int:
    fn, names = _find(given.target)
    try:
        args, kwargs = eval(
            f"(lambda *args, **kwargs: (args, kwargs))({given.args})", {"torch": torch, **names}
        )
    except Exception as error:
        raise _Refused(f"--args {given.args!r}: {type(error).__name__}: {error}") from None
    found = framehook.explain(fn, backend=given.backend)(*args, **kwargs)
    if given.html:
        found.to_html(given.html)
        print(f"page: {given.html}", file=sys.stderr)
    print(found.to_json() if given.json else found)
    if found.error:
        hint = (
            "; give arguments with --args" if not given.args and found.error.startswith("TypeError") else ""
        )
        print(f"framehook explain: the call raised {found.error}{hint}", file=sys.stderr)
        return 1
    return int(given.fullgraph and (len(found.graphs) != 1 or bool(found.breaks)))


def _find(target: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that `script.py:name` or `package.module:name` means, and the names around it."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise _Refused(f"{target!r} names no function: say script.py:function or package.module:function")
    if where.endswith(".py"):
        if not Path(where).is_file():
            raise _Refused(f"there is no file {where}")
        sys.path.insert(0, str(Path(where).resolve().parent))
        names = runpy.run_path(where, run_name=Path(where).stem)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            names = vars(importlib.import_module(where))
        except ImportError as error:
            raise _Refused(f"{where} cannot be imported: {error}") from None
    first, *rest = name.split(".")
    found: Any = names.get(first)
    for part in rest:
        found = getattr(found, part, None)
    if found is None:
        likely = [key for key, value in names.items() if callable(value) and not key.startswith("_")]
        raise _Refused(f"{where} has no {name}; it has {', '.join(sorted(likely)[:20]) or 'no functions'}")
    if not callable(found):
        raise _Refused(f"{name} cannot be called: it is of type {type(found).__name__}")
    return found, names


__all__ = ["main"]
