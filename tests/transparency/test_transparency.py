"""CPython's own tests must not notice that every frame is captured; `make transparency` runs all of the list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.transparency.check import Worker, compare, missing
from tests.transparency.modules import EXCEPTIONS, IN_SUITE, MODULES


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("module", IN_SUITE)
def test_module(worker: Worker, module: str) -> None:
    reason = missing(module)
    if reason:
        pytest.skip(reason)
    result = compare(worker, module)
    assert result.is_transparent, str(result)
    assert result.attempted and result.tests


def test_lists_agree() -> None:
    assert set(IN_SUITE) <= set(MODULES)
    assert len(set(MODULES)) == len(MODULES)
    for test, reason in EXCEPTIONS.items():
        assert test.split(".")[0] in MODULES and reason
