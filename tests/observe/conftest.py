"""As for the interface: every test starts with nothing compiled, and with our own errors raised."""

from tests.api.conftest import fresh

__all__ = ["fresh"]
