"""The bytecode room is tested on Pythons without torch, where `framehook/__init__.py` cannot be imported."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if importlib.util.find_spec("torch") is None and "framehook" not in sys.modules:
    package = types.ModuleType("framehook")
    package.__path__ = [str(ROOT / "framehook")]
    sys.modules["framehook"] = package
elif importlib.util.find_spec("framehook") is None:
    sys.path.insert(0, str(ROOT))
