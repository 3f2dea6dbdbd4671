"""Run random programs for a while: `python -m tests.semantics.generator --seconds 3600`; prints shrunken failures."""

from __future__ import annotations

import argparse
import logging
import random
import re
import sys
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.semantics.generator.programs import Program, programs
from tests.semantics.generator.reducing import reduced
from tests.semantics.generator.running import run

_ROUND = 100


class Search:
    """What has been run and found so far."""

    def __init__(self) -> None:
        self.programs = 0
        self.operations = [0, 0]
        self.known: Counter[str] = Counter()

    def round(self, number: int, until: float) -> None:
        """One seed; a failure is made smaller and printed, and the next ones like it are only counted."""

        @seed(number)
        @settings(
            max_examples=_ROUND,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
        )
        @given(programs())
        def search(program: Program) -> None:
            if time.monotonic() > until:
                return
            self.programs += 1
            ran = run(program)
            self.operations[0] += ran.operations
            self.operations[1] += ran.inside
            kind = _kind(ran.differences)
            if not kind:
                return
            self.known[kind] += 1
            if self.known[kind] == 1:
                smallest = reduced(program, lambda other: _fails_like(other, kind))
                print(f"--- seed {number}\n{smallest}", *run(smallest).differences[:8], sep="\n", flush=True)

        search()


def _fails_like(program: Program, kind: str) -> bool:
    try:
        return _kind(run(program).differences) == kind
    except Exception:  # without some of its lines it is no program
        return False


def _kind(differences: list[str]) -> str:
    """The first difference without its numbers and names, by which another of the same fault is known."""
    return re.sub(r"\d+|0x…|'[^']*'", "#", differences[0])[:100] if differences else ""


def main() -> int:
    """Search until the time is over; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; random without")
    options = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    until = time.monotonic() + options.seconds
    logging.getLogger("framehook").setLevel(logging.ERROR)  # that limits are reached is no news here
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
