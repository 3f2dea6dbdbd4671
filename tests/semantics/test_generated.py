"""Random programs, the same in each run: eager and compiled are the same, and what has no break runs in graphs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.semantics.generator.programs import Program, programs
from tests.semantics.generator.running import run

_SETTINGS = {
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.generate, Phase.shrink),
    "print_blob": False,
}


def _numbers(quick: int, count: int) -> list[Any]:
    """Seeds; those behind the first `quick` are for whole runs."""
    return [pytest.param(n, marks=[pytest.mark.slow] if n >= quick else []) for n in range(count)]


@pytest.mark.parametrize("number", _numbers(3, 10))
def test_programs_with_breaks(number: int) -> None:
    @seed(number)
    @settings(max_examples=120, **_SETTINGS)
    @given(programs(True))
    def same(program: Program) -> None:
        assert not run(program).differences, program

    same()


@pytest.mark.parametrize("number", _numbers(1, 2))
def test_programs_without_breaks(number: int) -> None:
    operations, inside = 0, 0

    @seed(number)
    @settings(max_examples=400, **_SETTINGS)
    @given(programs(False))
    def same(program: Program) -> None:
        nonlocal operations, inside
        ran = run(program)
        assert not ran.differences, program
        operations += ran.operations
        inside += ran.inside

    same()
    assert operations > 800
    assert inside >= 0.9 * operations, f"{inside} of {operations} operations ran inside of graphs"
