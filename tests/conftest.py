"""Where torch is not installed, `framehook/__init__.py` cannot be imported: a bare package stands in for it.

The rooms that know nothing of torch (csrc/, bytecode/, the guard programs) are tested on such Pythons.
FRAMEHOOK_NATIVE names the directory (of setup.py's --build-lib) that holds the extension built for one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if importlib.util.find_spec("torch") is None:
    places = [os.environ["FRAMEHOOK_NATIVE"]] if "FRAMEHOOK_NATIVE" in os.environ else []
    package = types.ModuleType("framehook")
    package.__path__ = [str(Path(place).resolve() / "framehook") for place in (*places, ROOT)]
    sys.modules["framehook"] = package
elif importlib.util.find_spec("framehook") is None:
    sys.path.insert(0, str(ROOT))
