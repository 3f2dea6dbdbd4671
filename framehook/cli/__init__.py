"""The command line: run a script under capture, explain one function, write a report, look the installation over."""

from framehook.cli.commands import main

__all__ = ["main"]
