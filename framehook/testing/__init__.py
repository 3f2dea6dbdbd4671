"""Helpers for tests, ours and users': a counting backend, and eager and compiled side by side."""

from framehook.testing.checking import Checked, check
from framehook.testing.counting import CompileCounter
from framehook.verification import assert_same, snapshot

__all__ = ["Checked", "CompileCounter", "assert_same", "check", "snapshot"]
