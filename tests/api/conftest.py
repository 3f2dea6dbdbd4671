"""Every test of the interface starts with nothing compiled and with our own errors raised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import framehook
from framehook import events


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framehook.reset()
    callbacks = dict(events._callbacks)
    with framehook.config.patch(raise_internal_errors=True):
        yield
    events._callbacks.update(callbacks)
    framehook.reset()
