"""Run random programs for a while: `python -m tests.semantics.generator --seconds 3600`; prints shrunken failures."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.semantics.generator.programs import Program, programs
from tests.semantics.generator.running import run

_ROUND = 100


class Search:
    """What has been run and found so far."""

    def __init__(self) -> None:
        self.programs = 0
        self.operations = [0, 0]
        self.known: Counter[str] = Counter()

    def round(self, number: int, until: float) -> None:
        """One seed; a failure is shrunk and printed, and the next ones like it are only counted."""
        smallest: dict[str, tuple[Program, list[str]]] = {}
        known = set(self.known)

        @seed(number)
        @settings(
            max_examples=_ROUND,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(programs())
        def search(program: Program) -> None:
            if time.monotonic() > until and not smallest:
                return
            self.programs += 1
            ran = run(program)
            self.operations[0] += ran.operations
            self.operations[1] += ran.inside
            if not ran.differences:
                return
            kind = _kind(ran.differences[0])
            self.known[kind] += 1
            if kind in known:
                return
            if kind not in smallest or len(program.text) <= len(smallest[kind][0].text):
                smallest[kind] = (program, ran.differences)
            raise AssertionError(kind)

        try:
            search()
        except AssertionError:
            pass
        for program, differences in smallest.values():
            print(f"--- seed {number}\n{program}", *differences[:8], sep="\n", flush=True)


def _kind(difference: str) -> str:
    """A difference without its numbers and names, by which another of the same fault is known."""
    return re.sub(r"\d+|0x…|'[^']*'", "#", difference)[:100]


def main() -> int:
    """Search until the time is over; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; random without")
    options = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    until = time.monotonic() + options.seconds
    search = Search()
    rounds = 0
    while time.monotonic() < until:
        search.round(first + rounds, until)
        rounds += 1
    operations, inside = search.operations
    print(
        f"seeds {first} to {first + rounds - 1}: {search.programs} programs, {len(search.known)} kinds of failures"
    )
    print(f"{inside} of {operations} operations of break-free programs ran inside of graphs")
    return 1 if search.known else 0


if __name__ == "__main__":
    sys.exit(main())
