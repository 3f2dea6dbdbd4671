"""The C++ core is tested without torch too, where `framehook/__init__.py` cannot be imported.

FRAMEHOOK_NATIVE names the directory (of setup.py's --build-lib) that holds the extension for such a Python.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

if importlib.util.find_spec("torch") is None:
    package = sys.modules.setdefault("framehook", types.ModuleType("framehook"))
    wanted = [os.environ["FRAMEHOOK_NATIVE"]] if "FRAMEHOOK_NATIVE" in os.environ else []
    package.__path__ = [str(Path(place).resolve() / "framehook") for place in (*wanted, ROOT)]
elif importlib.util.find_spec("framehook") is None:
    sys.path.insert(0, str(ROOT))

from framehook import _C  # noqa: E402  (after the path is set)


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
