"""Every test of the interface starts with nothing compiled and with our own errors raised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import framehook


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framehook.reset()
    with framehook.config.patch(raise_internal_errors=True):
        yield
    framehook.reset()
