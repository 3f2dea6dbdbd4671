"""Which Pythons framehook is for: the package asks before it imports anything else, setup.py before it builds.

This module and errors.py must compile and run on every Python since 3.7, so that the answer reaches whoever has the
wrong one.  No imports of our own here, since setup.py runs this file alone.  `csrc/cpython.h` and `pyproject.toml`
name the versions once more; a test compares them.
"""

import platform
import sys

#: The CPython versions that hook, guards and tracer know; docs/python-versions.md says what adding one takes.
PYTHONS = ((3, 11), (3, 12), (3, 13))


def names() -> str:
    """The supported versions as a person lists them."""
    versions = [f"{major}.{minor}" for major, minor in PYTHONS]
    return f"{', '.join(versions[:-1])} and {versions[-1]}"


def problem() -> str:
    """Why the running interpreter is not supported, in one sentence; empty if it is."""
    implementation = platform.python_implementation()
    # PEP 703: "t" marks a build without the GIL, whose objects are laid out differently even while the GIL is on.
    is_free_threaded = "t" in getattr(sys, "abiflags", "")
    if implementation == "CPython" and sys.version_info[:2] in PYTHONS and not is_free_threaded:
        return ""
    major, minor, micro = sys.version_info[:3]
    build = " without the GIL (a free-threaded build)" if is_free_threaded else ""
    return (
        f"framehook supports CPython {names()}, with the GIL; "
        f"this is {implementation} {major}.{minor}.{micro}{build} ({sys.executable})"
    )
