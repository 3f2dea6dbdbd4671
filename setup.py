"""Builds framehook._C.

FRAMEHOOK_WITHOUT_TORCH=1 leaves tensor guards out, for tests of the core without torch.
FRAMEHOOK_SANITIZE=address builds for `make test-asan`: every access to memory is checked.
"""

from __future__ import annotations

import os
import runpy
import sys
from glob import glob
from typing import Any

unsupported = runpy.run_path("framehook/supported.py")["problem"]()
if unsupported:
    sys.exit(unsupported)  # in these words, rather than in the compiler's

import setuptools  # noqa: E402
from setuptools import Extension, setup  # noqa: E402

# A new environment of Python 3.11 comes with 65.
if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(
        f"setuptools {setuptools.__version__} cannot read framehook's metadata (PEP 639): pip install 'setuptools>=77'"
    )

without_torch = os.environ.get("FRAMEHOOK_WITHOUT_TORCH", "") not in ("", "0")

options: dict[str, Any] = {
    "name": "framehook._C",
    "sources": sorted(glob("csrc/*.cpp")),
    "depends": sorted(glob("csrc/*.h")),
    "extra_compile_args": [
        "-O2",
        "-g0",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
        # Type and method tables fill in what they use.
        "-Wno-missing-field-initializers",
        # Functions in method tables have the signature that their flags promise, not PyCFunction's.
        "-Wno-cast-function-type",
    ],
}

sanitizer = os.environ.get("FRAMEHOOK_SANITIZE", "")
if sanitizer:
    # What the sanitizer adds makes gcc warn of variables in pybind11's headers.
    no_warning = "-Wno-maybe-uninitialized"
    options["extra_compile_args"] += [
        f"-fsanitize={sanitizer}",
        "-fno-omit-frame-pointer",
        "-O1",
        "-g1",
        no_warning,
    ]
    options["extra_link_args"] = [f"-fsanitize={sanitizer}"]

if without_torch:
    import pybind11
    from setuptools.command.build_ext import build_ext

    options["define_macros"] = [("FRAMEHOOK_WITHOUT_TORCH", "1")]
    options["include_dirs"] = [pybind11.get_include()]
    options["extra_compile_args"] += ["-std=c++17"]
    extension = Extension(**options)
    command = build_ext
else:
    try:
        import pybind11
        import torch
    except ModuleNotFoundError as missing:
        sys.exit(
            f"framehook is built against the torch that it will run with, and needs {missing.name} installed: "
            "pip install torch 'setuptools>=77' pybind11 ninja, then pip install --no-build-isolation framehook"
        )
    from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

    # Unquoted: the module turns it into a string, so that no shell or build file has to.
    options["define_macros"] = [("FRAMEHOOK_TORCH_VERSION", torch.__version__)]
    extension = CppExtension(**options)
    # As system headers, so that our warnings stay errors and theirs stay theirs.
    extension.include_dirs = [d for d in extension.include_dirs if d not in include_paths()]
    extension.extra_compile_args += [f"-isystem{d}" for d in (pybind11.get_include(), *include_paths())]
    command = BuildExtension

setup(ext_modules=[extension], cmdclass={"build_ext": command})
