"""Holds framehook against CPython's own regression tests: `python -m tests.transparency [-j N] [module ...]`.

Every frame is captured (`framehook.testing.every_frame`): the standard library's, unittest's, and those without
tensors.  Each module runs twice, in processes of their own, with and without that; each test has to end in the same
way.  Printed are, for each module, how many functions and frames were traced whole (`check.py` says what counts as
one), failures of framehook itself, and seconds; with `--reasons N`, the N reasons that left most functions.
The exit status is 0 if there is no difference, no internal error, and enough was traced at all.

`modules.py` lists the modules, and the few tests that are left out, each with its reason.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.transparency.check import Comparison, compare, missing
from tests.transparency.modules import EXCEPTIONS, LEAST_SHARE, MODULES


def _most_frequent(results: list[Comparison], count: int) -> list[tuple[int, str]]:
    """The reasons that left most functions in the middle of a frame, in all modules, and how many."""
    functions: dict[str, set[tuple[str, str]]] = {}
    for each in results:
        for reason, stack in each.breaks:
            functions.setdefault(reason, set()).add((each.module, stack[-1]))
    ordered = sorted(((len(left), reason) for reason, left in functions.items()), reverse=True)
    return ordered[:count]


def main() -> int:
    """See the text of the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="names like test_grammar; all of the list without any")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="modules at a time")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds that one run of a module may take"
    )
    parser.add_argument("--reasons", type=int, default=0, help="how many reasons to print")
    options = parser.parse_args()
    runnable = []
    for module in options.modules or MODULES:
        reason = missing(module)
        if reason:
            print(f"{module}: not run: {reason}")
        else:
            runnable.append(module)
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda module: compare(module, options.limit), runnable):
            print(result, flush=True)
            results.append(result)
    for count, reason in _most_frequent(results, options.reasons):
        print(f"{count:6} {reason}")
    whole = sum(each.whole for each in results)
    attempted = sum(each.attempted for each in results)
    share = whole / attempted if attempted else 0.0
    noticed = [each.module for each in results if not each.is_transparent]
    print(
        f"{len(results)} modules, {sum(each.tests for each in results)} tests ({len(EXCEPTIONS)} left out); "
        f"{whole} of {attempted} functions traced whole ({share:.0%}), "
        f"{sum(each.whole_frames for each in results)} of {sum(each.frames for each in results)} frames; noticed by: {', '.join(noticed) or 'none'}"
    )
    return int(bool(noticed) or share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
