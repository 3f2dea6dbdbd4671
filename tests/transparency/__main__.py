"""Holds framehook against CPython's own regression tests: `python -m tests.transparency [-j N] [module ...]`.

Every frame is captured (`framehook.testing.every_frame`): the standard library's, unittest's, and those without
tensors.  Each module runs twice, in processes of their own, with and without that; each test has to end in the same
way.  Printed are, for each module, how many functions and frames were traced whole (`check.py` says what counts as
one), failures of framehook itself, and processor time; with `--reasons N`, the N reasons that left most functions.
The exit status is 0 if there is no difference, no internal error, and enough was traced at all.

`modules.py` lists the modules, and the few tests that are left out, each with its reason.  `--keep FILE` adds the results
to those in FILE, by version of Python, and `--write docs/transparency.md` writes the page from all that is there.
"""

from __future__ import annotations

import argparse
import json
import platform
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.transparency import page
from tests.transparency.check import Comparison, Worker, compare, missing
from tests.transparency.modules import EXCEPTIONS, LEAST_SHARE, MODULES


def _most_frequent(results: list[Comparison], count: int) -> list[tuple[int, str]]:
    """The reasons that left most functions in the middle of a frame, in all modules, and how many."""
    functions: dict[str, set[tuple[str, str]]] = {}
    for each in results:
        for reason, stack in each.breaks:
            functions.setdefault(reason, set()).add((each.module, stack[-1]))
    ordered = sorted(((len(left), reason) for reason, left in functions.items()), reverse=True)
    return ordered[:count]


def _keep(result: Comparison, place: Path) -> None:
    kept = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    kept.setdefault(platform.python_version(), {})[result.module] = result.to_dict()
    place.write_text(json.dumps(kept, indent=1), encoding="utf-8")


def main() -> int:
    """See the text of the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="names like test_grammar; all of the list without any")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="modules at a time")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds that one run of a module may take"
    )
    parser.add_argument("--reasons", type=int, default=0, help="how many reasons to print")
    parser.add_argument("--only", action="append", default=[], help="part of the ids of the tests to run")
    parser.add_argument("--keep", type=Path, help="file to add the results to")
    parser.add_argument("--write", type=Path, help="page to write from all results in the file to keep")
    options = parser.parse_args()
    runnable = []
    for module in options.modules or MODULES:
        reason = missing(module)
        if reason:
            print(f"{module}: not run: {reason}")
        else:
            runnable.append(module)
    workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for _ in range(options.jobs):
        workers.put(Worker())

    def run(module: str) -> Comparison:
        worker = workers.get()
        try:
            return compare(worker, module, options.limit, options.only)
        finally:
            workers.put(worker)

    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(run, runnable):
            print(result, flush=True)
            results.append(result)
            if options.keep:
                _keep(result, options.keep)
    for _ in range(options.jobs):
        workers.get().close()
    for count, reason in _most_frequent(results, options.reasons):
        print(f"{count:6} {reason}")
    if options.write:
        kept = json.loads(options.keep.read_text(encoding="utf-8"))
        options.write.write_text(page.of(kept), encoding="utf-8")
    whole = sum(each.whole for each in results)
    attempted = sum(each.attempted for each in results)
    whole_frames = sum(each.whole_frames for each in results)
    frames = sum(each.frames for each in results)
    share = whole_frames / frames if frames else 0.0
    noticed = [each.module for each in results if not each.is_transparent]
    print(
        f"{len(results)} modules, {sum(each.tests for each in results)} tests ({len(EXCEPTIONS)} left out); "
        f"{whole_frames} of {frames} frames traced whole ({share:.1%}); "
        f"each frame of {whole} of {attempted} functions ({whole / max(1, attempted):.1%}); "
        f"noticed by: {', '.join(noticed) or 'none'}"
    )
    return int(bool(noticed) or share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
