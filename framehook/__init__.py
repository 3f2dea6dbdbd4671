"""framehook: a compiler front end for PyTorch that hooks CPython's frame evaluation.

The public names, and nothing else.
"""

import gc as _gc

from framehook import supported as _supported

__version__ = "0.1.0"

# Before anything that another Python may not even parse, and before the extension, which it does not have.
if _supported.problem():
    from framehook.errors import UnsupportedPythonError as _UnsupportedPythonError

    raise _UnsupportedPythonError(_supported.problem())

# What an import makes stays: a collection in the middle of it would only walk all of torch's objects.
_collects = _gc.isenabled()
_gc.disable()

try:
    from framehook import native as _native  # noqa: F401  first: it says so when the extension does not fit
    from framehook import backends, errors, events, testing
    from framehook.api import capture, compile, explain, reset, stats, time_eager, warmup
    from framehook.config import config
    from framehook.directives import (
        allow_in_graph,
        disable,
        disallow_in_graph,
        graph_break,
        is_compiling,
        mark_dynamic,
        mark_static,
    )
    from framehook.errors import (
        BackendError,
        BackendOptionError,
        BuildMismatchError,
        CannotCopyError,
        DynamicDimensionError,
        FramehookError,
        GraphBreakError,
        RecompileError,
        RecompileLimitError,
        UnknownBackendError,
        UnsupportedPythonError,
        VerificationError,
    )
    from framehook.observe import progress as _progress  # noqa: F401  listens from now on
    from framehook.observe.logs import set_logs
    from framehook.observe.report import report
    from framehook.stances import stance
    from framehook.verification import verify
finally:
    if _collects:
        _gc.enable()

__all__ = [
    "BackendError",
    "BackendOptionError",
    "BuildMismatchError",
    "CannotCopyError",
    "DynamicDimensionError",
    "FramehookError",
    "GraphBreakError",
    "RecompileError",
    "RecompileLimitError",
    "UnknownBackendError",
    "UnsupportedPythonError",
    "VerificationError",
    "__version__",
    "allow_in_graph",
    "backends",
    "capture",
    "compile",
    "config",
    "disable",
    "disallow_in_graph",
    "errors",
    "events",
    "explain",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "report",
    "reset",
    "set_logs",
    "stance",
    "stats",
    "testing",
    "time_eager",
    "verify",
    "warmup",
]
