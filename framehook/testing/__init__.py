"""Helpers for tests, ours and users': a counting backend, eager and compiled side by side, capture of every frame."""

from framehook.testing.checking import Checked, check
from framehook.testing.counting import CompileCounter
from framehook.testing.dumping import dump
from framehook.testing.every_frame import every_frame
from framehook.verification import assert_same, snapshot

__all__ = ["Checked", "CompileCounter", "assert_same", "check", "dump", "every_frame", "snapshot"]
