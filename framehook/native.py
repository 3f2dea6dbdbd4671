"""Loads the extension module and makes sure that it was built for this Python and this torch."""

from __future__ import annotations

import importlib
import pathlib
import platform
import sys
import sysconfig

import torch  # its libraries must be loaded before the extension that is linked to them

from framehook.errors import BuildMismatchError

_HERE = pathlib.Path(__file__).resolve().parent


def rebuild_command() -> str:
    """The command that builds framehook anew for the running interpreter."""
    source = _HERE.parent if (_HERE.parent / "setup.py").exists() else "framehook"
    return f"{sys.executable} -m pip install --no-build-isolation --no-deps --force-reinstall {source}"


def check() -> None:
    """Import `framehook._C` and compare what it was built for with what runs.

    Raises:
        BuildMismatchError: when they differ, or when there is no extension that this interpreter can load.
    """
    version = platform.python_version()
    try:
        native = importlib.import_module("framehook._C")
    except ImportError as error:
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        if (_HERE / f"_C{suffix}").exists():
            # It is there and cannot be linked: symbols of torch's libraries have changed.
            raise BuildMismatchError(
                "torch", f"another release ({error})", torch.__version__, rebuild_command()
            ) from error
        others = ", ".join(sorted(path.name for path in _HERE.glob("_C.*.so"))) or "no Python yet"
        raise BuildMismatchError("Python", others, version, rebuild_command()) from error
    info = native.build_info()
    if info["python"].split(".")[:2] != version.split(".")[:2]:
        raise BuildMismatchError("Python", info["python"], version, rebuild_command())
    if info["torch"] != torch.__version__:
        raise BuildMismatchError("torch", info["torch"], torch.__version__, rebuild_command())


check()
