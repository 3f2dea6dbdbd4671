"""Every test starts and ends with nothing compiled and with torch's process state as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import framehook


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    framehook.reset()
    yield
    framehook.reset()
