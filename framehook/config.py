"""Defaults, and the options that a handle fixes when it is made.

`config` holds process-wide defaults only: a handle copies what it needs into its `CompileOptions`, so that
nothing changed later can disturb it.  Every field can be set by FRAMEHOOK_<NAME> in the environment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})

#: What `stance` takes: the words of `torch.compiler.set_stance`.
STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")

_listeners: dict[str, list[Callable[[Any], object]]] = {}


@dataclasses.dataclass
class Config:
    """Defaults of the process.  Read and write the fields, or set some for a while with `patch`."""

    #: Return what `compile()` is given, unchanged, and let `capture()` do nothing.
    disable: bool = False
    #: θ: a frame whose graph has fewer operations stays eager; with 0 a frame without any is compiled too.
    min_graph_ops: int = 1
    #: Entries that one handle keeps for one code object (for modules: for one code object and class).
    max_entries_per_code: int = 8
    #: Entries that one handle keeps in all.
    max_entries_per_handle: int = 256
    #: At a limit, an entry without a hit in so many lookups may be replaced.
    evict_after: int = 1000
    #: Churn: code that is compiled again and again, with a hit rate under `min_hit_rate` over `churn_window` calls,
    #: runs eagerly for `retry_after_calls` calls, and twice as long each time that it was no better then.
    churn_window: int = 16
    min_hit_rate: float = 0.5
    retry_after_calls: int = 1000
    #: Operations that one graph may have; a frame that needs more stays eager.
    max_trace_ops: int = 50_000
    #: Seconds that tracing one frame may take; a frame that needs longer stays eager.
    max_trace_seconds: float = 120.0
    #: Raise errors of framehook itself instead of running the frame eagerly.
    raise_internal_errors: bool = False
    #: For tests: compile frames of the standard library and of torch's modules too; see `testing.every_frame`.
    every_frame: bool = False
    #: Show a line in terminals while something is compiled for more than two seconds.
    progress: bool = True
    #: Topics to log, separated by commas; see `set_logs`.
    logs: str = ""
    #: What to do about frames without an entry in this process, where no block says otherwise; see `stance`.
    stance: str = "default"

    def __setattr__(self, name: str, value: object) -> None:
        kind = _KINDS.get(name)
        if kind is None:
            raise AttributeError(
                f"framehook.config has no field {name!r}; it has {', '.join(sorted(_KINDS))}"
            )
        # bool is an int, but `config.evict_after = True` is a slip.
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise TypeError(f"framehook.config.{name} is of type {kind.__name__}, not {type(value).__name__}")
        if isinstance(value, int | float) and not value >= 0:
            raise ValueError(f"framehook.config.{name} cannot be negative, got {value}")
        if isinstance(value, int) and kind is float:
            value = float(value)
        if name == "stance" and value not in STANCES:
            raise ValueError(f"unknown stance {value!r}; there are {', '.join(STANCES)}")
        object.__setattr__(self, name, value)
        for listener in _listeners.get(name, ()):
            listener(value)

    def watch(self, name: str, listener: Callable[[Any], object]) -> None:
        """Call `listener(value)` now, and whenever the field is set."""
        _listeners.setdefault(name, []).append(listener)
        listener(getattr(self, name))

    @contextlib.contextmanager
    def patch(self, **changes: Any) -> Iterator[Config]:
        """Set fields and put them back at the end; also a decorator.

        Raises:
            AttributeError: for a name that is not a field.
            TypeError, ValueError: for a value of the wrong type, or a negative one.
        """
        old = {name: getattr(self, name) for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in old.items():
                setattr(self, name, value)

    def load(self, environment: Mapping[str, str]) -> None:
        """Take fields from variables named FRAMEHOOK_<NAME>.

        Raises:
            ValueError: for a value that is not of the field's type.
        """
        for name, kind in _KINDS.items():
            text = environment.get(f"FRAMEHOOK_{name.upper()}")
            if text is not None:
                setattr(self, name, _parse(name, kind, text.strip()))


_KINDS: dict[str, type] = {field.name: type(field.default) for field in dataclasses.fields(Config)}


def _parse(name: str, kind: type, text: str) -> bool | int | float | str:
    variable = f"FRAMEHOOK_{name.upper()}"
    if kind is bool:
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError(f"{variable} is a switch: 1 or 0, not {text!r}")
        return text.lower() in _TRUE
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{variable} is a whole number, not {text!r}") from None
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{variable} is a number, not {text!r}") from None
    return text


config = Config()
config.load(os.environ)


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """What a handle was made with; the meaning of each is that of `framehook.compile`."""

    backend: Any = "inductor"
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None
    warmup_calls: int = 0
    min_graph_ops: int = dataclasses.field(default_factory=lambda: config.min_graph_ops)
    max_entries_per_code: int = dataclasses.field(default_factory=lambda: config.max_entries_per_code)
    max_entries_per_handle: int = dataclasses.field(default_factory=lambda: config.max_entries_per_handle)
    evict_after: int = dataclasses.field(default_factory=lambda: config.evict_after)
    churn_window: int = dataclasses.field(default_factory=lambda: config.churn_window)
    min_hit_rate: float = dataclasses.field(default_factory=lambda: config.min_hit_rate)
    retry_after_calls: int = dataclasses.field(default_factory=lambda: config.retry_after_calls)
    max_trace_ops: int = dataclasses.field(default_factory=lambda: config.max_trace_ops)
    max_trace_seconds: float = dataclasses.field(default_factory=lambda: config.max_trace_seconds)

    def __post_init__(self) -> None:
        _check("fullgraph", self.fullgraph, bool)
        _check("dynamic", self.dynamic, bool, type(None))
        _check("mode", self.mode, str, type(None))
        _check("options", self.options, Mapping, type(None))
        for name in ("warmup_calls", "min_graph_ops"):
            value = getattr(self, name)
            _check(name, value, int)
            if value < 0:
                raise ValueError(f"{name} cannot be negative, got {value}")
        if self.options is not None:
            # The caller may go on changing its dict.
            object.__setattr__(self, "options", dict(self.options))


def _check(name: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise TypeError(f"{name} takes {names}, not {value!r}")
