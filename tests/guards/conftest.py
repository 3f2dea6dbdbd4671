"""Tests of guards on torch's objects are left out where torch is not installed."""

from __future__ import annotations

import importlib.util

collect_ignore = (
    [] if importlib.util.find_spec("torch") else ["test_tensors.py", "test_state.py", "test_models.py"]
)
