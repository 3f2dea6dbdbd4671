"""Loads the extension module and makes sure that it was built for this Python and this torch.

"This" means the same minor version.  A patch release of either keeps the layouts that the extension was compiled
with; a minor release, and anything before a release, may not.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pathlib
import platform
import re
import shlex
import sys
import sysconfig

import torch  # its libraries must be loaded before the extension that is linked to them

from framehook.errors import BuildMismatchError

_HERE = pathlib.Path(__file__).resolve().parent


def rebuild_command() -> str:
    """The command that builds framehook anew for the running interpreter."""
    if (_HERE.parent / "setup.py").exists():
        return _pip("--editable", str(_HERE.parent))
    origin = _installed_from()
    if origin is not None:
        return _pip("--force-reinstall", "--no-cache-dir", origin)
    # Neither a wheel of the index nor pip's own cache knows which torch it was built against.
    return _pip("--force-reinstall", "--no-cache-dir", "--no-binary", "framehook", "framehook")


def _pip(*arguments: str) -> str:
    command = (sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", *arguments)
    return shlex.join(command)


def _installed_from() -> str | None:
    """The source directory, archive or repository that pip installed from, unless an index or a wheel (PEP 610)."""
    try:
        text = importlib.metadata.distribution("framehook").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    if not text:
        return None
    record = json.loads(text)
    url: str = record["url"]
    if url.endswith(".whl"):
        return None
    vcs = record.get("vcs_info")
    return f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url


def _fits(built_for: str, found: str) -> bool:
    """Whether two versions are releases of one minor version; versions before a release must be the same."""
    release = re.compile(r"(\d+\.\d+)\.\d+(\+.*)?")  # the local part says for which devices torch was built
    built_release, found_release = release.fullmatch(built_for), release.fullmatch(found)
    if built_release is None or found_release is None:
        return built_for == found
    return built_release[1] == found_release[1]


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
    if not _fits(info["python"], version):
        raise BuildMismatchError("Python", info["python"], version, rebuild_command())
    if not _fits(info["torch"] or "no torch", torch.__version__):
        raise BuildMismatchError("torch", info["torch"] or "no torch", torch.__version__, rebuild_command())


check()
