"""Runs one of CPython's test modules in this process and writes how each of its tests ended.

`python -m tests.transparency.worker MODULE OUTPUT [--captured]`: the tests of `test.MODULE` run as `python -m test`
runs them, with capture on for every frame when asked to.  OUTPUT is a JSON file with the outcome and the text of
each test, and what `stats()` counted.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import json
import logging
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from typing import Any

from tests.transparency.modules import is_left_out


class Outcomes(unittest.TestResult):
    """How each test ended: the worst that happened to it or to one of its subtests."""

    def __init__(self, is_loud: bool) -> None:
        super().__init__()
        self.ended: dict[str, tuple[str, str]] = {}
        self.is_loud = is_loud

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        if self.is_loud:
            print(test.id(), file=sys.stderr, flush=True)

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
    # Torch's own objects would be gone through each time that a test collects garbage.
    gc.collect()
    gc.freeze()
    with every_frame() as capture:
        yield counted
    stop_noting()
    stop_noting_breaks()
    counted.update(capture.stats().to_dict(), internal=internal, breaks=breaks)


def main() -> None:
    """See the text of the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("output")
    parser.add_argument("--captured", action="store_true")
    parser.add_argument("--only", action="append", default=[], help="part of a test's id; for looking at one")
    parser.add_argument("--loud", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds until the stacks are written")
    options = parser.parse_args()
    faulthandler.enable()
    faulthandler.dump_traceback_later(options.limit, exit=True)
    from test import support

    support.use_resources = []  # nothing big, slow or on the network
    import framehook  # noqa: F401  # and torch, which replaces functions of the standard library

    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        loader = unittest.TestLoader()
        module = __import__(f"test.{options.module}", fromlist=["*"])
        suite = loader.loadTestsFromModule(module)
        suite = unittest.TestSuite(
            test
            for test in _tests(suite)
            if not is_left_out(test.id())
            and (not options.only or any(part in test.id() for part in options.only))
        )
        outcomes = Outcomes(options.loud)
        gc.collect()
        context = captured() if options.captured else contextlib.nullcontext({})
        started = time.perf_counter()
        with context as counted:
            suite.run(outcomes)
        seconds = time.perf_counter() - started
    faulthandler.cancel_dump_traceback_later()
    written = {
        "seconds": seconds,
        "load_errors": [str(error) for error in loader.errors],
        "outcomes": outcomes.ended,
        "stats": counted,
    }
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(written, file)


def _tests(suite: Any) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


if __name__ == "__main__":
    main()
