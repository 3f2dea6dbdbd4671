"""What every test of the C++ core begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framehook import _C


@pytest.fixture(autouse=True)
def own_callbacks() -> Iterator[None]:
    """Each test begins without callbacks and leaves those of the engine as they were."""
    miss = _C.set_miss_callback(None)
    classify = _C.set_classify_callback(None)
    yield
    assert not _C.is_hook_installed()
    assert not _C.is_capture_off()
    assert _C.active_handle() is None
    _C.set_miss_callback(miss)
    _C.set_classify_callback(classify)


@pytest.fixture
def handle() -> _C.Handle:
    return _C.Handle()
