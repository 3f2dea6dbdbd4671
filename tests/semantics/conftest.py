"""Every test starts with nothing compiled, and framehook's own errors are raised instead of hidden."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

import pytest

import framehook


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    framehook.reset()
    with framehook.config.patch(raise_internal_errors=True):
        yield
    framehook.reset()


@pytest.fixture(scope="module")
def another_process() -> Iterator[Executor]:
    """Where the peer is measured.

    It can leave its evaluation hook behind, with which objects live longer, and patches torch's optimizers.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        yield executor
