"""Graphs, guards and code of one call in a folder, for a bug report."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from framehook import _C
from framehook.api import explain
from framehook.config import config


def dump(
    fn: Callable[..., Any],
    folder: str | Path = "framehook-dump",
    *,
    backend: str | Callable[..., Any] | None = None,
) -> Callable[..., Path]:
    """Return a function that calls `fn` once, compiled anew, and writes what became of it to a folder.

    There are no contents of tensors in it, but shapes, the names and lines of the source, and constants that guards
    name: look it through before you hand it on.

    Args:
        fn: a function or module, compiled or not.
        folder: where to write; made if it is not there, and files of an earlier dump are replaced.
        backend: what compiles; None: what `fn` was compiled with, or "eager".

    Returns:
        a function with the arguments of `fn`, which returns the folder.  It holds `explanation.txt` and `.json`,
        `environment.txt`, and for each graph `graph_1.py`, `guards_1.txt` and `bytecode_1.txt`.
    """
    explained = explain(fn, backend=backend)

    def write(*args: Any, **kwargs: Any) -> Path:
        found = explained(*args, **kwargs)
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob("*_[0-9]*.*"):
            if old.name.startswith(("graph_", "guards_", "bytecode_")):
                old.unlink()
        texts = {
            "explanation.txt": found.text(is_coloured=False),
            "explanation.json": found.to_json(),
            "environment.txt": environment(),
        }
        for number, graph in enumerate(found.graphs, 1):
            texts[f"graph_{number}.py"] = (
                f"# {graph.function} ({graph.filename}:{graph.line})\n{graph.source}"
            )
            lines = [
                f"{about}\n" + "\n".join(f"    {text}" for text in each)
                for about, each in graph.guards.items()
            ]
            texts[f"guards_{number}.txt"] = "\n".join(lines)
            texts[f"bytecode_{number}.txt"] = graph.bytecode
        for name, text in texts.items():
            (place / name).write_text(text + "\n", encoding="utf-8")
        return place

    return write


def environment() -> str:
    """Versions and settings that a bug report needs."""
    built = _C.build_info()
    settings = "\n".join(f"config.{name} = {value!r}" for name, value in vars(config).items())
    return (
        f"Python {sys.version.replace(chr(10), ' ')}\ntorch {torch.__version__}, CUDA {torch.version.cuda}\n"
        f"framehook built for Python {built['python']}, torch {built['torch']}\n{platform.platform()}\n{settings}"
    )


__all__ = ["dump", "environment"]
