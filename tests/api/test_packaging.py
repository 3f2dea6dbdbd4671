"""What is supported, what a build is for, and what the distributions hold."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib

import pytest

import framehook
from framehook import native, supported, torch_compat

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]
SUPPORTED = "3.11, 3.12 and 3.13"
# Tests build from the pinned packages around them, and nothing else.
OFFLINE = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""}


WHERE = "import sysconfig; print(sysconfig.get_path('platlib'))"


def run(
    *command: str | pathlib.Path, cwd: pathlib.Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=OFFLINE, capture_output=True, text=True, timeout=900
    )
    if check:
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def fresh_environment(place: pathlib.Path) -> pathlib.Path:
    """A virtual environment that sees the packages of this one, pip among them (a .pth file adds no editable ones)."""
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    python = place / "bin" / "python"
    libraries = run(python, "-c", WHERE, cwd=place).stdout
    (pathlib.Path(libraries.strip()) / "around.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


# -- what is supported: said in four places, the same in all ---------------------------------------------------


def test_the_metadata_declares_the_supported_pythons() -> None:
    first, last = supported.PYTHONS[0], supported.PYTHONS[-1]
    assert PROJECT["requires-python"] == f">={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}"
    prefix = "Programming Language :: Python :: 3."
    declared = [name for name in PROJECT["classifiers"] if name.startswith(prefix)]
    assert declared == [
        f"Programming Language :: Python :: {major}.{minor}" for major, minor in supported.PYTHONS
    ]
    assert supported.names() == SUPPORTED


def test_the_metadata_declares_the_torch_releases_that_were_checked() -> None:
    checked = sorted({tuple(map(int, text.split(".")[:2])) for text in torch_compat.CHECKED_VERSIONS})
    first, last = checked[0], checked[-1]
    wanted = f"torch>={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}"
    assert PROJECT["dependencies"][0] == wanted
    assert wanted in BUILD["requires"]


def test_the_version_has_one_source() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", framehook.__version__)
    for path in (ROOT / "pyproject.toml", ROOT / "setup.py", *(ROOT / "framehook").rglob("*.py")):
        stated = re.findall(r"^_*version_*\s*=\s*[\"']", path.read_text(), re.M)
        assert len(stated) == (path == ROOT / "framehook" / "__init__.py"), path


# -- another Python ------------------------------------------------------------------------------------------

PRETEND = {
    "3.10": "sys.version_info = (3, 10, 13, 'final', 0)",
    "3.14": "sys.version_info = (3, 14, 0, 'final', 0)",
    "3.15": "sys.version_info = (3, 15, 0, 'alpha', 2)",
    "free-threaded": "sys.abiflags = 't'",
    "PyPy": "import platform; platform.python_implementation = lambda: 'PyPy'",
}


@pytest.mark.parametrize("what", PRETEND)
def test_an_unsupported_python_is_told_which_are_before_torch_is_imported(what: str) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
{PRETEND[what]}
try:
    import framehook
except ImportError as error:
    # With the real version again: what was loaded so far must be the errors and nothing that needs torch.
    from framehook.errors import FramehookError, UnsupportedPythonError
    assert type(error) is UnsupportedPythonError and isinstance(error, FramehookError)
    assert "torch" not in sys.modules and "framehook._C" not in sys.modules
    print(error)
"""
    message = run(sys.executable, "-c", program, cwd=ROOT).stdout
    assert SUPPORTED in message
    assert what in message


@pytest.mark.parametrize("what", PRETEND)
def test_an_unsupported_python_cannot_start_a_build(what: str) -> None:
    program = f"import sys, runpy\n{PRETEND[what]}\nsys.argv = ['setup.py', 'build_ext']\nrunpy.run_path('setup.py')"
    done = run(sys.executable, "-c", program, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert SUPPORTED in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.9", "3.10", "3.14", "3.15"])
def test_a_real_unsupported_python_says_so(version: str, tmp_path: pathlib.Path) -> None:
    python = run(ROOT / ".ci" / "find-python", version, cwd=ROOT).stdout.strip()
    if not python:
        pytest.skip(f"no CPython {version} here")
    path = f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(ROOT)!r}); "
    imported = run(python, "-c", path + "import framehook", cwd=tmp_path, check=False)
    assert imported.returncode == 1
    last = imported.stderr.splitlines()[-1]
    assert last.startswith(f"framehook.errors.UnsupportedPythonError: framehook supports CPython {SUPPORTED}")
    assert f"this is CPython {version}." in last
    built = run(python, "setup.py", "build_ext", cwd=ROOT, check=False)
    assert built.returncode == 1
    assert built.stderr.startswith(f"framehook supports CPython {SUPPORTED}")


def test_setuptools_that_cannot_read_the_metadata_is_named(tmp_path: pathlib.Path) -> None:
    wanted = next(need for need in BUILD["requires"] if need.startswith("setuptools"))
    (tmp_path / "setuptools.py").write_text("__version__ = '65.5.0'\nExtension = setup = None")
    program = f"import sys, runpy\nsys.path.insert(0, {str(tmp_path)!r})\nrunpy.run_path('setup.py')"
    done = run(sys.executable, "-c", program, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert f"pip install '{wanted}'" in done.stderr


def preprocess(path: pathlib.Path, includes: pathlib.Path, *flags: str) -> str:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    return run(compiler, "-E", "-I", includes, *flags, path, "-o", os.devnull, cwd=ROOT, check=False).stderr


@pytest.mark.parametrize(
    ("python", "is_supported"),
    [("030a0df0", False), ("030b07f0", True), ("030c01f0", True), ("030d00f0", True), ("030e00f0", False),
     ("030f00a2", False), ("030d00f0 free-threaded", False)],
)  # fmt: skip
def test_headers_of_an_unsupported_python_are_refused(
    python: str, is_supported: bool, tmp_path: pathlib.Path
) -> None:
    version, _, build = python.partition(" ")
    gil = "#define Py_GIL_DISABLED 1\n" if build else ""
    (tmp_path / "Python.h").write_text(f"#define PY_VERSION_HEX 0x{version}\n{gil}")
    errors = preprocess(ROOT / "csrc" / "cpython.h", tmp_path)
    assert (f"framehook supports CPython {SUPPORTED}" in errors) != is_supported, errors


@pytest.mark.parametrize(
    ("torch", "is_supported"), [((2, 12), False), ((2, 13), True), ((2, 14), True), ((2, 15), False)]
)
def test_headers_of_an_unsupported_torch_are_refused(
    torch: tuple[int, int], is_supported: bool, tmp_path: pathlib.Path
) -> None:
    place = tmp_path / "torch" / "headeronly"
    place.mkdir(parents=True)
    major, minor = torch
    (place / "version.h").write_text(
        f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n"
    )
    errors = preprocess(
        ROOT / "csrc" / "tensor_check.cpp", tmp_path, "-I", sysconfig.get_path("include"), "-std=c++17"
    )
    assert ("framehook supports torch 2.13 and 2.14" in errors) != is_supported, errors


# -- another torch or Python than the one built against ----------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "built_for", "found", "fits"),
    [
        ("torch", "2.13.0", "2.13.0", True),
        ("torch", "2.13.0+cpu", "2.13.0+cu130", True),
        ("torch", "2.14.0", "2.14.1+cu130", True),
        ("torch", "2.13.0", "2.14.0", False),
        ("torch", "2.14.1", "2.13.0", False),
        ("torch", "2.13.0", "3.13.0", False),
        ("torch", "2.1.0", "2.13.0", False),
        # Before a release anything may change from one day to the next.
        ("torch", "2.14.0.dev20260801+cpu", "2.14.0.dev20260801+cpu", True),
        ("torch", "2.14.0.dev20260801+cpu", "2.14.0.dev20260802+cpu", False),
        ("torch", "2.14.0a0+git123", "2.14.0", False),
        ("torch", "2.14.0", "2.14.0rc2", False),
        ("torch", None, "2.13.0", False),
        ("python", "3.12.1", "3.12.9", True),
        ("python", "3.12.1", "3.13.0", False),
        ("python", "3.13.0rc2", "3.13.0", False),
    ],
)
def test_a_build_fits_the_minor_version_that_it_was_made_for(
    component: str, built_for: str | None, found: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        framehook._C, "build_info", lambda info={**framehook._C.build_info(), component: built_for}: info
    )
    if component == "torch":
        monkeypatch.setattr(native.torch, "__version__", found)
    else:
        monkeypatch.setattr(native.platform, "python_version", lambda: found)
    if fits:
        native.check()
        return
    with pytest.raises(framehook.BuildMismatchError) as caught:
        native.check()
    assert isinstance(caught.value, ImportError)
    message = str(caught.value)
    assert (built_for or "no torch") in message
    assert found in message
    assert native.rebuild_command() in message


def test_a_python_without_an_extension_is_told_for_which_there_are_some(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "framehook"
    shutil.copytree(ROOT / "framehook", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (package / "_C.cpython-399-x86_64-linux-gnu.so").touch()
    program = """
import gc
try:
    import framehook
except ImportError as error:
    print(type(error).__name__, gc.isenabled(), error)
"""
    python = fresh_environment(tmp_path / "venv")
    message = run(python, "-c", program, cwd=tmp_path).stdout
    assert message.startswith("BuildMismatchError True framehook._C was built for Python _C.cpython-399")
    assert "pip install --no-build-isolation" in message


def test_the_command_rebuilds_a_checkout_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_HERE", ROOT / "framehook")
    assert native.rebuild_command().startswith(f"{sys.executable} -m pip install --no-build-isolation")
    assert native.rebuild_command().endswith(f"--editable {ROOT}")


@pytest.mark.parametrize(
    ("record", "source"),
    [
        (None, "--no-binary framehook framehook"),  # from an index
        ('{"url": "file:///wheels/framehook-1-cp311-cp311-linux_x86_64.whl"}', "--no-binary framehook framehook"),
        ('{"url": "file:///src/framehook", "dir_info": {}}', "file:///src/framehook"),
        ('{"url": "file:///framehook-1.tar.gz", "archive_info": {}}', "file:///framehook-1.tar.gz"),
        ('{"url": "https://host/framehook", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
         "git+https://host/framehook@abc"),
    ],
)  # fmt: skip
def test_the_command_builds_from_where_it_was_installed_from(
    record: str | None, source: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "framehook-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: framehook\nVersion: 1\n")
    if record is not None:
        (installed / "direct_url.json").write_text(record)
    monkeypatch.setattr(native, "_HERE", tmp_path / "framehook")
    found = importlib.metadata.PathDistribution(installed)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert native.rebuild_command().endswith(f"--force-reinstall --no-cache-dir {source}")


# -- distributions -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy of the checkout, so that building leaves nothing behind in it."""
    tree = tmp_path_factory.mktemp("source") / "framehook"
    leave_out = shutil.ignore_patterns(
        ".*cache",
        ".git",
        ".venv*",
        ".hypothesis",
        ".benchmarks",
        "build",
        "dist",
        "*.egg-info",
        "__pycache__",
    )  # the extension in place stays: it must not get into an sdist
    shutil.copytree(ROOT, tree, ignore=leave_out)
    return tree


@pytest.fixture(scope="module")
def sdist(source_tree: pathlib.Path) -> pathlib.Path:
    output = source_tree.parent / "sdist"
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", output, cwd=source_tree)
    (made,) = output.iterdir()
    return made


# A checkout that is installed around an environment is not an installation in it.
IN_HERE = ("--ignore-installed", "--no-deps")

USE = """
import pathlib, sys, torch, framehook
from framehook import _C
print(pathlib.Path(framehook.__file__).is_relative_to(sys.prefix), framehook.__version__, _C.build_info()["torch"])
graph = framehook.compile(lambda x: torch.relu(x) + 1, backend="eager", fullgraph=True)
print(graph(torch.tensor([-1.0, 2.0])).tolist(), graph(torch.tensor([3.0, -2.0])).tolist())
"""


@pytest.mark.slow
def test_the_sdist_holds_what_a_build_needs_and_nothing_built(sdist: pathlib.Path) -> None:
    name = f"framehook-{framehook.__version__}"
    assert sdist.name == f"{name}.tar.gz"
    with tarfile.open(sdist) as archive:
        held = {member.name.removeprefix(f"{name}/") for member in archive.getmembers() if member.isfile()}
        metadata = archive.extractfile(f"{name}/PKG-INFO")
        assert metadata is not None
        fields = metadata.read().decode().splitlines()
    for folder, pattern in (("csrc", "*.cpp"), ("csrc", "*.h"), ("framehook", "*.py"), ("framehook", "*.pyi"),
                            ("requirements", "*.txt"), ("tests", "*.py"), ("docs", "*.md"), ("examples", "*.py"),
                            ("benchmarks", "*.py"), (".ci", "*")):  # fmt: skip
        wanted = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(pattern) if path.is_file()}
        assert wanted, folder
        assert wanted <= held, wanted - held
    assert held >= {"framehook/py.typed", "setup.py", "pyproject.toml", "LICENSE", "README.md", "Makefile"}
    assert not [path for path in held if path.endswith((".so", ".o", ".pyc"))]
    assert f"Version: {framehook.__version__}" in fields
    assert "Requires-Python: <3.14,>=3.11" in fields
    assert "Requires-Dist: torch<2.15,>=2.13" in fields


@pytest.mark.slow
def test_the_sdist_installs_without_isolation_as_a_wheel_for_its_python(
    sdist: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    python = fresh_environment(tmp_path / "venv")
    # pip builds a wheel by way of the backend, as `python -m build` does, and installs that.
    run(python, "-m", "pip", "install", "--no-build-isolation", *IN_HERE, sdist, cwd=tmp_path)
    libraries = pathlib.Path(run(python, "-c", WHERE, cwd=tmp_path).stdout.strip())
    (installed,) = libraries.glob("framehook-*.dist-info")
    python_tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform_tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    wheel = (installed / "WHEEL").read_text().splitlines()
    assert [line for line in wheel if line.startswith("Tag:")] == [
        f"Tag: {python_tag}-{python_tag}-{platform_tag}"
    ]
    held = [line.split(",")[0] for line in (installed / "RECORD").read_text().splitlines()]
    assert [path for path in held if path.endswith(".so")] == [
        f"framehook/_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    ]
    assert {path.split("/")[0] for path in held if not path.startswith("__pycache__/")} == {
        "framehook",
        "framehook_pytest.py",
        installed.name,
    }
    first, second = run(python, "-c", USE, cwd=tmp_path).stdout.splitlines()
    assert first == f"True {framehook.__version__} {native.torch.__version__}"
    assert second == "[1.0, 3.0] [4.0, 1.0]"
