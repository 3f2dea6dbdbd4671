"""Runs CPython's test modules, each in a process of its own, and writes how each of its tests ended.

`python -m tests.transparency.worker FD` reads jobs from standard input, one JSON object a line: `module`, `output`,
`errors`, `captured`, `limit` (seconds), `only` (parts of ids of tests; all without any).  For each it forks, as importing
torch takes longer than most modules: the tests of `test.MODULE` run in the child as `python -m test` runs them, with
capture on for every frame if asked to.  `output` becomes a JSON file with the outcome and the text of each test, and what
`stats()` counted, `errors` a text file with what was written to standard error.  How the child ended is written to the
file descriptor FD, a line for each job.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from typing import Any

from tests.transparency.modules import is_left_out

#: Seconds that a process gets to write its stacks before it is killed.
_GRACE = 20.0


class Outcomes(unittest.TestResult):
    """How each test ended: the worst that happened to it or to one of its subtests."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[str, tuple[str, str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        # The last line tells in which test a process has crashed.
        os.write(2, f"{test.id()}\n".encode())

    def _end(self, test: Any, outcome: str, text: str = "") -> None:
        if self.ended.get(test.id(), ("pass",))[0] in ("pass", "skip"):
            self.ended[test.id()] = (outcome, text)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.ended.setdefault(test.id(), ("pass", ""))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._end(test, "skip", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._end(test, "fail", self._exc_info_to_string(err, test))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._end(test, "error", self._exc_info_to_string(err, test))

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._end(test, "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._end(test, "unexpected success")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            kind = "fail" if issubclass(err[0], test.failureException) else "error"
            self._end(test, kind, f"{subtest.id()}\n{self._exc_info_to_string(err, test)}")


def _nothing() -> None:
    pass


@contextlib.contextmanager
def captured() -> Iterator[dict[str, Any]]:
    """Capture every frame; what was counted is in the dict afterwards."""
    from framehook import events
    from framehook.testing import every_frame

    counted: dict[str, Any] = {}
    internal: list[str] = []
    breaks: list[tuple[str, list[str]]] = []

    def note(record: events.CompileEnd) -> None:
        if record.is_internal_error:
            internal.append(f"{record.function} ({record.filename}:{record.line}): {record.reason}")
        if any(outcome == "eager" for _, outcome in record.frames):
            breaks.append((record.reason, [record.function]))

    def note_break(record: events.GraphBreak) -> None:
        breaks.append((record.reason, [place.function for place in record.stack]))

    stop_noting = events.on("compile_end", note)
    stop_noting_breaks = events.on("graph_break", note_break)
    # Tests compare what is written to standard error; failures are counted all the same.
    logging.getLogger("framehook").disabled = True
    for name in ("engine", "events"):
        logging.getLogger(f"framehook.{name}").disabled = True
    with every_frame():
        _nothing()  # what the first compile of a process imports
    with every_frame() as capture:
        yield counted
    stop_noting()
    stop_noting_breaks()
    counted.update(capture.stats().to_dict(), internal=internal, breaks=breaks)


def run(job: dict[str, Any]) -> None:
    """Do one job in this process."""
    faulthandler.dump_traceback_later(job["limit"], exit=True)
    loader = unittest.TestLoader()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        module = __import__(f"test.{job['module']}", fromlist=["*"])
        suite = unittest.TestSuite(
            test
            for test in _tests(loader.loadTestsFromModule(module))
            if not is_left_out(test.id())
            and (not job["only"] or any(part in test.id() for part in job["only"]))
        )
        outcomes = Outcomes()
        with captured() if job["captured"] else contextlib.nullcontext({}) as counted:
            # Torch's own objects would be gone through each time that a test collects garbage.
            gc.collect()
            gc.freeze()
            started = time.process_time()
            suite.run(outcomes)
            seconds = time.process_time() - started
    faulthandler.cancel_dump_traceback_later()
    written = {
        "seconds": seconds,
        "load_errors": [str(error) for error in loader.errors],
        "outcomes": outcomes.ended,
        "stats": counted,
    }
    with open(job["output"], "w", encoding="utf-8") as file:
        json.dump(written, file)


def _tests(suite: Any) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


def _end_of(child: int, limit: float) -> str:
    """Wait for a process; how it ended, in words, or nothing if all went well."""
    deadline = time.monotonic() + limit + _GRACE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return f"exit status {code}" if code else ""
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"no answer in {limit:.0f} s"


def main() -> None:
    """See the text of the module."""
    answers = int(sys.argv[1])
    faulthandler.enable()
    from test import support

    support.use_resources = []  # nothing big, slow or on the network
    import framehook  # noqa: F401  # and torch, which replaces functions of the standard library
    from framehook import torch_compat

    torch_compat.make_fake_mode()  # and what torch imports with the first one
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child:
            os.write(answers, f"{_end_of(child, job['limit'])}\n".encode())
            continue
        os.close(answers)
        nothing = os.open(os.devnull, os.O_RDONLY)
        errors = os.open(job["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor, number in ((nothing, 0), (errors, 1), (errors, 2)):
            os.dup2(descriptor, number)
        try:
            run(job)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    main()
