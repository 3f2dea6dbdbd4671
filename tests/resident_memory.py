"""The memory of this process, for tests that it does not grow."""

from __future__ import annotations

import os
import resource

import pytest


def resident_bytes() -> int:
    """What of the process is in memory now (proc(5), statm)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


#: For tests that compare it.
measures_memory = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps freed memory, to see it used"
)
