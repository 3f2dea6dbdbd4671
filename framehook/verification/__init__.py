"""`verify`: eager and compiled side by side on copies, and everything that a caller could see compared."""

from framehook.verification.differences import Difference, assert_same
from framehook.verification.report import Verification, Verifier, verify
from framehook.verification.snapshots import snapshot

__all__ = ["Difference", "Verification", "Verifier", "assert_same", "snapshot", "verify"]
