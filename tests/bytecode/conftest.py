"""The bytecode room is tested on Pythons without torch, where `framehook/__init__.py` cannot be imported."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if importlib.util.find_spec("torch") is None:
    # The tests of the C++ core may have made the package already.
    package = sys.modules.setdefault("framehook", types.ModuleType("framehook"))
    if not hasattr(package, "__path__"):
        package.__path__ = [str(ROOT / "framehook")]
elif importlib.util.find_spec("framehook") is None:
    sys.path.insert(0, str(ROOT))
