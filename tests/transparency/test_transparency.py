"""CPython's own tests must not notice that every frame is captured; `make transparency` runs all of the list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.transparency import page
from tests.transparency.check import Comparison, Worker, compare, missing
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


def test_page_shows_what_was_kept() -> None:
    rows = [
        Comparison("test_bool", [], 30, 69, 95, 900, 1000, plain_seconds=0.1, captured_seconds=1.1),
        Comparison("test_set", ["test_x: pass, with framehook fail\nText"], 625, 222, 464, 100, 200),
    ]
    text = page.of({"3.11.7": {row.module: row.to_dict() for row in rows}})
    assert "| `test_set` | 625 | 1 | 100 | 200 | 50% | 222 | 464 | 48% | 0.0 | 0.0 |" in text
    assert "| **2 modules** | 655 | 1 | 1000 | 1200 | 83% | 291 | 559 | 52% | 0.1 | 1.1 |" in text
    assert "- `test_set`: test_x: pass, with framehook fail\n" in text
    assert all(reason in text for reason in EXCEPTIONS.values())
