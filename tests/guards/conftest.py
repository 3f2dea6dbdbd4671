"""Guard programs are also tested on Pythons without torch, where `framehook/__init__.py` cannot be imported.

There FRAMEHOOK_NATIVE names the folder that `setup.py build_ext --build-lib` filled.
"""

from __future__ import annotations

import importlib.util
import os
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
native = os.environ.get("FRAMEHOOK_NATIVE")
if native and isinstance(sys.modules.get("framehook"), types.ModuleType):
    sys.modules["framehook"].__path__.append(str(Path(native) / "framehook"))

collect_ignore = (
    [] if importlib.util.find_spec("torch") else ["test_tensors.py", "test_state.py", "test_models.py"]
)
