"""Every test starts with nothing compiled, and framehook's own errors are raised instead of hidden."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import framehook


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    framehook.reset()
    with framehook.config.patch(raise_internal_errors=True):
        yield
    framehook.reset()
