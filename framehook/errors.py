"""The errors that framehook raises, written for the person who meets them."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch.fx


class FramehookError(Exception):
    """Base of all errors of framehook."""


_source_lines: dict[str, list[str]] = {}


def _source_line(filename: str, line: int) -> str:
    """A line of source text; the program's own `linecache` is left as it is."""
    lines = _source_lines.get(filename)
    if lines is None:
        is_known = filename in linecache.cache
        lines = linecache.getlines(filename)
        if not is_known:
            linecache.cache.pop(filename, None)
        if lines:
            _source_lines[filename] = lines
    return lines[line - 1] if 0 < line <= len(lines) else ""


class CodeLocation(NamedTuple):
    """One place in Python source; columns are 0-based characters, None where unknown."""

    filename: str
    line: int
    function: str
    column: int | None = None
    end_column: int | None = None

    @classmethod
    def of(cls, code: CodeType, offset: int) -> CodeLocation:
        """The location of the instruction at byte `offset` of `code` (`co_positions`, PEP 657)."""
        line, end_line, start, end = (None, None, None, None)
        for index, position in enumerate(code.co_positions()):
            if index == offset // 2:
                line, end_line, start, end = position
                break
        if line is None:
            return cls(code.co_filename, code.co_firstlineno, code.co_qualname)
        text = _source_line(code.co_filename, line)
        column = _characters(text, start)
        # An expression that goes on in the next line is marked to the end of its first.
        end_column = _characters(text, end) if end_line == line else len(text.rstrip())
        return cls(code.co_filename, line, code.co_qualname, column, end_column)

    def source_line(self) -> str:
        """The source text of the line without its end, empty when it cannot be read."""
        return _source_line(self.filename, self.line).rstrip()

    def format(self) -> str:
        """File, line and function, the source line, and a caret line where the columns are known."""
        text = [f'  File "{self.filename}", line {self.line}, in {self.function}']
        source = self.source_line()
        if source:
            stripped = source.lstrip()
            text.append(f"    {stripped}")
            if self.column is not None and self.end_column is not None:
                start = self.column - (len(source) - len(stripped))
                if start >= 0:
                    text.append("    " + " " * start + "^" * max(1, self.end_column - self.column))
        return "\n".join(text)


def _characters(text: str, byte_offset: int | None) -> int | None:
    """`co_positions` counts UTF-8 bytes; carets count characters."""
    if byte_offset is None:
        return None
    return len(text.encode()[:byte_offset].decode(errors="replace"))


class GraphBreakError(FramehookError):
    """With `fullgraph=True`: the frame cannot become one graph.

    Attributes:
        reason: what cannot be captured, in one sentence.
        kind: a short stable word for programs, such as "data_dependent"; docs/graph-breaks.md lists them.
        stack: the call stack of inlined functions, outermost first; the last is the place of the break.
        hint: what to write instead.
    """

    def __init__(self, reason: str, *, kind: str, stack: Sequence[CodeLocation] = (), hint: str = "") -> None:
        self.reason = reason
        self.kind = kind
        self.stack = tuple(stack)
        self.hint = hint
        super().__init__(self._message())

    @property
    def location(self) -> CodeLocation | None:
        """The user's line at which the graph breaks."""
        return self.stack[-1] if self.stack else None

    def _message(self) -> str:
        text = [f"fullgraph=True, but the graph breaks here: {self.reason}"]
        if self.stack:
            text.append(self.stack[-1].format())
        if len(self.stack) > 1:
            text.append("called through (outermost first):")
            text.extend(location.format() for location in self.stack[:-1])
        if self.hint:
            text.append(f"hint: {self.hint}")
        return "\n".join(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _graph_break_error, (self.reason, self.kind, self.stack, self.hint)


def _graph_break_error(reason: str, kind: str, stack: Sequence[CodeLocation], hint: str) -> GraphBreakError:
    return GraphBreakError(reason, kind=kind, stack=stack, hint=hint)


class RecompileLimitError(FramehookError):
    """With `fullgraph=True`: a function has as many entries as it may have, and needs another one.

    Attributes:
        function, filename, line: the function.
        guard: what kept failing, in words with the values seen.
        cure: what to do about it.
    """

    def __init__(self, reason: str, *, place: tuple[str, str, int], guard: str, cure: str) -> None:
        self.reason = reason
        self.function, self.filename, self.line = place
        self.guard = guard
        self.cure = cure
        super().__init__(
            f"fullgraph=True, but {self.function} ({self.filename}:{self.line}) is compiled no more: {reason}\n"
            f"the guard that kept failing: {guard}\nhint: {cure}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.function, self.filename, self.line)
        return _recompile_limit_error, (self.reason, place, self.guard, self.cure)


def _recompile_limit_error(
    reason: str, place: tuple[str, str, int], guard: str, cure: str
) -> RecompileLimitError:
    return RecompileLimitError(reason, place=place, guard=guard, cure=cure)


class RecompileError(FramehookError, RuntimeError):
    """Under the stance "fail_on_recompile": a frame has no entry that fits, and would have to be compiled.

    Attributes:
        function, filename, line: the function.
        reasons: for each entry which guard failed, in words; empty when it was never compiled.
    """

    def __init__(self, place: tuple[str, str, int], reasons: Sequence[str]) -> None:
        self.function, self.filename, self.line = place
        self.reasons = tuple(reasons)
        why = "it has not been compiled before"
        if reasons:
            why = "none of its entries fits:\n" + "\n".join(f"    {reason}" for reason in reasons)
        super().__init__(
            f"{self.function} ({self.filename}:{self.line}) would have to be compiled, which the stance "
            f"fail_on_recompile forbids; {why}\n"
            "hint: compile it ahead with framehook.warmup(fn, inputs), with inputs like these"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ((self.function, self.filename, self.line), self.reasons)


class BackendError(FramehookError):
    """A backend raised or returned something that cannot be called; its exception is `__cause__`.

    Attributes:
        backend: the backend's name.
        graph: the graph it was given, for inspection (`error.graph.print_readable()`).
    """

    def __init__(self, message: str, backend: str, graph: torch.fx.GraphModule | None = None) -> None:
        super().__init__(message, backend, graph)
        self.backend = backend
        self.graph = graph

    def __str__(self) -> str:
        return f"backend {self.backend!r}: {self.args[0]}"


class DynamicDimensionError(FramehookError):
    """A dimension that `mark_dynamic` named has to have the size that it has.

    Attributes:
        dimension: the size, as guards write it.
        size: the number that it has to be.
        operation: what needs it.
        location: the line of the program where it does; None where the backend does.
    """

    def __init__(self, dimension: str, size: int, operation: str, location: CodeLocation | None) -> None:
        super().__init__(dimension, size, operation, location)
        self.dimension = dimension
        self.size = size
        self.operation = operation
        self.location = location

    def __str__(self) -> str:
        where = "" if self.location is None else f"\n{self.location.format()}"
        return (
            f"{self.dimension} was marked as dynamic, but {self.operation} needs it to be {self.size}; "
            f"take back the mark, or write the function so that it works for any size{where}"
        )


class UnknownBackendError(FramehookError, ValueError):
    """No backend has this name; says which exist and which one was probably meant."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        self.nearest = tuple(difflib.get_close_matches(name, self.known, n=3))
        super().__init__(name, self.known)

    def __str__(self) -> str:
        meant = f"did you mean {' or '.join(map(repr, self.nearest))}? " if self.nearest else ""
        return f"unknown backend {self.name!r}: {meant}known backends: {', '.join(self.known)}"


class BackendOptionError(FramehookError, ValueError):
    """A `mode` or an entry of `options` that the backend does not have, or of the wrong type."""


class VerificationError(FramehookError, AssertionError):
    """With `verify(fn, raise_on_difference=True)`: eager and compiled are not the same.

    Attributes:
        verification: the report, with all differences.
    """

    def __init__(self, verification: Any) -> None:
        super().__init__(verification)
        self.verification = verification

    def __str__(self) -> str:
        return str(self.verification)


class CannotCopyError(FramehookError, TypeError):
    """`verify` runs on copies, and `copy.deepcopy` could not make one; its exception is `__cause__`."""

    def __init__(self, name: str, value: object, error: BaseException) -> None:
        super().__init__(
            f"eager and compiled run on copies, and {name}, of type {type(value).__name__}, cannot be copied: "
            f"{type(error).__name__}: {error}. Make it inside of the function, or give its class a __deepcopy__."
        )


class UnsupportedPythonError(FramehookError, ImportError):
    """The interpreter is none that framehook is for; the message names those that are.

    Any Python 3.7 and later can import this module, so that the error reaches whoever has the wrong one.
    """


class BuildMismatchError(FramehookError, ImportError):
    """The extension module was built for another torch or Python than the one that imports it."""

    def __init__(self, component: str, built_for: str, found: str, command: str) -> None:
        self.component = component
        self.built_for = built_for
        self.found = found
        self.command = command
        super().__init__(
            f"framehook._C was built for {component} {built_for}, but this is {component} {found}; "
            f"rebuild it with: {command}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.component, self.built_for, self.found, self.command)
