"""`compile`, `capture`, `reset`, `stats`: what users call.  Thin: options go into a handle, C++ does the rest."""

from __future__ import annotations

import contextvars
import copy
import dataclasses
import functools
import inspect
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any, TypeVar, overload

import torch

from framehook import _C, backends, engine, module_view, policy, stances, torch_compat
from framehook.config import CompileOptions, config
from framehook.handle import Handle, live_handles, place_of
from framehook.observe import counters
from framehook.observe.counters import Stats
from framehook.observe.explanation import Explanation, Recorder
from framehook.observe.history import history
from framehook.observe.terminal import short_place
from framehook.observe.warming import WarmedUp, tracked

F = TypeVar("F", bound=Callable[..., Any])

#: What a compiled function or module has besides the attributes of what was compiled.
_EXTRAS = ("entries", "explain", "reset", "stats")


class CompiledFunction(_C.CompiledCallable):
    """What `compile()` makes of a function or another callable: called like it, with the same result."""

    handle: Handle

    @property
    def __wrapped__(self) -> Any:
        """What was compiled."""
        return self.fn

    def stats(self) -> Stats:
        """Hits, misses, compiles and recompiles of this function; see `framehook.stats`."""
        return counters.stats_of([self.handle])

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Call it once, compiled anew, and tell what became of that call; see `framehook.explain`."""
        return explain(self)(*args, **kwargs)

    def entries(self) -> list[_C.Entry]:
        """The cache entries, functions called by this one included where they are compiled on their own."""
        return self.handle.entries()

    def reset(self) -> None:
        """Forget all entries and counts."""
        _reset(self.handle)

    def __repr__(self) -> str:
        return f"<compiled {self.__wrapped__!r}>"

    def __copy__(self) -> CompiledFunction:
        fn = self.__wrapped__
        return self if _is_atomic(fn) else _compile_callable(copy.copy(fn), self.handle.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        fn = self.__wrapped__
        return self if _is_atomic(fn) else _compile_callable(copy.deepcopy(fn, memo), self.handle.options)

    def __reduce__(self) -> str | tuple[Any, ...]:
        fn = self.__wrapped__
        name = getattr(fn, "__qualname__", "")
        # A decorated function is found under its own name, as functions are.
        if _find(getattr(fn, "__module__", None), name) is self:
            return name
        return _compile_callable, (fn, self.handle.options)


def _is_atomic(fn: object) -> bool:
    """Functions are copied as themselves; methods and other callables have an object behind them."""
    return isinstance(fn, FunctionType | type) or inspect.isbuiltin(fn)


def _find(module: str | None, qualified_name: str) -> object:
    found: object = sys.modules.get(module or "")
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found


@overload
def compile(
    fn_or_module: F,
    *,
    backend: str | Callable[..., Any] = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
    warmup_calls: int = ...,
    min_graph_ops: int | None = ...,
    disable: bool = ...,
) -> F: ...
@overload
def compile(
    fn_or_module: None = None,
    *,
    backend: str | Callable[..., Any] = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
    warmup_calls: int = ...,
    min_graph_ops: int | None = ...,
    disable: bool = ...,
) -> Callable[[F], F]: ...
def compile(
    fn_or_module: Any = None,
    *,
    backend: str | Callable[..., Any] = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    warmup_calls: int = 0,
    min_graph_ops: int | None = None,
    disable: bool = False,
) -> Any:
    """Return a function or module compiled: called like the original, with the same result, faster.

    Args:
        fn_or_module: a function, lambda, method, any callable, or a `torch.nn.Module`, which gives a module with
            the same attributes, parameters and class.  Without it, a decorator.
        backend: a name (`framehook.backends.list()`) or a function `(GraphModule, example_inputs) -> callable`.
        fullgraph: raise `GraphBreakError` where the function cannot become one graph.
        dynamic: whether sizes are symbols. None: numbers at first, and symbols in the dimensions that are seen to
            change; True: symbols from the start; False: never. Integers and floats that change likewise.
        mode, options: passed to the backend, with the meaning they have for `torch.compile`.
        warmup_calls: number of calls that run eagerly before compiling.
        min_graph_ops: tensor operations that a graph must have; a frame with fewer stays eager.  None: as
            `config.min_graph_ops` says, which is 1.
        disable: return what was given.

    Raises:
        TypeError: when it cannot be called, or an option has the wrong type.
        UnknownBackendError: when there is no backend of that name.
        BackendOptionError: when the backend does not know the mode or an option.
    """
    choice = _options(backend, fullgraph, dynamic, mode, options, warmup_calls, min_graph_ops)
    _compiler(choice)
    if fn_or_module is None:
        return lambda decorated: _compile(decorated, choice, disable)
    return _compile(fn_or_module, choice, disable)


def _options(
    backend: str | Callable[..., Any],
    fullgraph: bool,
    dynamic: bool | None,
    mode: str | None,
    options: Mapping[str, Any] | None,
    warmup_calls: int,
    min_graph_ops: int | None,
) -> CompileOptions:
    least = config.min_graph_ops if min_graph_ops is None else min_graph_ops
    return CompileOptions(backend, fullgraph, dynamic, mode, options, warmup_calls, least)


def _compile(fn: Any, options: CompileOptions, disable: bool) -> Any:
    if not callable(fn):
        raise TypeError(
            f"framehook.compile() takes a function, another callable or a torch.nn.Module, "
            f"not {type(fn).__name__} ({fn!r})"
        )
    if disable or config.disable:
        return fn
    fn = module_view.original(fn)
    if isinstance(fn, torch.nn.Module):
        return _compile_module(fn, options)
    return _compile_callable(fn.__wrapped__ if isinstance(fn, CompiledFunction) else fn, options)


def _compile_module(module: torch.nn.Module, options: CompileOptions) -> Any:
    call = CompiledFunction(_make_handle(options, type(module).__qualname__), module)
    return module_view.make_view(module, call, (_compile_module, (options,)), _EXTRAS)


def _compile_callable(fn: Callable[..., Any], options: CompileOptions) -> CompiledFunction:
    handle = _make_handle(options, _name(fn))
    handle.skipped = _why_skipped(fn)
    compiled = CompiledFunction(handle, fn)
    for name in ("__module__", "__name__", "__qualname__", "__annotations__"):
        # What a class has of these describes the class, not the callable.
        if (
            name in getattr(fn, "__dict__", ())
            or isinstance(fn, FunctionType | MethodType | type)
            or inspect.isbuiltin(fn)
        ):
            value = getattr(fn, name, None)
            if value is not None:
                compiled.__dict__[name] = value
    # Also None, or else it would be that of CompiledFunction.
    compiled.__dict__["__doc__"] = getattr(fn, "__doc__", None)
    if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        # `inspect` and `asyncio` believe whatever has the attributes of a function, and read the flags of its code.
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            compiled.__dict__[name] = getattr(fn, name)
    if isinstance(fn, FunctionType):
        for name, value in fn.__dict__.items():
            compiled.__dict__.setdefault(name, value)
    return compiled


def _compiler(options: CompileOptions) -> Any:
    return backends.resolve(
        options.backend, mode=options.mode, options=options.options, dynamic=options.dynamic
    )


def _make_handle(options: CompileOptions, name: str) -> Handle:
    handle = Handle(options, _compiler(options))
    handle.name = name
    return handle


def _why_skipped(fn: Any) -> str:
    """Why frames of a callable are never looked up, if that is known beforehand."""
    call = fn if isinstance(fn, FunctionType | MethodType) else type(fn).__call__
    function: Any = getattr(call, "__func__", call)
    if isinstance(function, CompiledFunction):
        return function.handle.skipped
    if not isinstance(function, FunctionType):
        return f"{type(fn).__qualname__} is called by C code; what it calls may be compiled"
    kinds = (
        (inspect.isasyncgenfunction, "an asynchronous generator"),
        (inspect.iscoroutinefunction, "a coroutine"),
        (inspect.isgeneratorfunction, "a generator"),
    )
    return next((f"it is {name}, which runs eagerly; what it calls may be compiled" for is_one, name in kinds
                 if is_one(function)), "")  # fmt: skip


# The captures that this context is in, with the tokens that end them: one capture may be entered again, and by
# several tasks and threads at once.
_entered: contextvars.ContextVar[tuple[tuple[Any, _C.CaptureToken], ...]] = contextvars.ContextVar(
    "framehook_entered", default=()
)


class Capture:
    """`with capture:` compiles the frames that run inside, in this context; also a decorator.

    One capture is one handle: enter it as often as you like, what was compiled once is used again.
    """

    def __init__(self, options: CompileOptions, name: str = "a capture") -> None:
        self.handle = _make_handle(options, name)

    def __enter__(self) -> Capture:
        if not config.disable:
            _entered.set((*_entered.get(), (self, _C.enter_capture(self.handle))))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        entered = list(_entered.get())
        # Generators may leave in another order than they entered, or in another context: then there is none.
        for index in range(len(entered) - 1, -1, -1):
            owner, token = entered[index]
            if owner is self:
                del entered[index]
                _entered.set(tuple(entered))
                _C.exit_capture(token)
                return

    def __call__(self, fn: F) -> F:
        """Return `fn` such that each call runs inside this capture."""
        if not callable(fn):
            raise TypeError(f"framehook.capture() decorates callables, not {type(fn).__name__} ({fn!r})")
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await fn(*args, **kwargs)

            return call_async  # type: ignore[return-value]

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return call  # type: ignore[return-value]

    def stats(self) -> Stats:
        """Hits, misses, compiles and recompiles inside this capture; see `framehook.stats`."""
        return counters.stats_of([self.handle])

    def entries(self) -> list[_C.Entry]:
        """The cache entries."""
        return self.handle.entries()

    def reset(self) -> None:
        """Forget all entries and counts."""
        _reset(self.handle)


def capture(
    *,
    backend: str | Callable[..., Any] = "inductor",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    warmup_calls: int = 1,
    min_graph_ops: int | None = None,
) -> Capture:
    """Return a context manager (and decorator) in which frames are compiled; the keywords are those of `compile`.

    Capture follows the `contextvars` context: it does not reach other threads or tasks, and a task that is started
    inside keeps it.  Keep the capture and enter it for each request: its entries live as long as it does.
    """
    caller = sys._getframe(1)
    name = f"the capture at {short_place(caller.f_code.co_filename, caller.f_lineno)}"
    return Capture(_options(backend, fullgraph, dynamic, mode, options, warmup_calls, min_graph_ops), name)


def _handle_of(fn: object) -> Handle:
    fn = fn.__func__ if isinstance(fn, MethodType) else fn
    view = module_view.view_of(fn)
    target = fn if view is None else type(fn).__call__.__get__(fn)
    handle = getattr(target, "handle", None) if isinstance(target, CompiledFunction | Capture) else None
    if not isinstance(handle, Handle):
        raise TypeError(f"not compiled by framehook: {fn!r}")
    return handle


def stats(fn: Any = None) -> Stats:
    """Return the counts of a compiled function, module or capture; without `fn`, those of the whole process.

    Raises:
        TypeError: when `fn` was not compiled by framehook.
    """
    return counters.process_stats() if fn is None else counters.stats_of([_handle_of(fn)])


def explain(
    fn: Callable[..., Any], *, backend: str | Callable[..., Any] | None = None
) -> Callable[..., Explanation]:
    """Return a function that calls `fn` once, compiled anew, and tells what became of that call.

    Graphs, graph breaks with reason, line and hint, guards in words, frames by class, and seconds by phase:
    `print(framehook.explain(fn)(*args))`.

    Args:
        fn: a function or module, compiled or not; what is compiled of it already stays as it is.
        backend: what compiles; None: what `fn` was compiled with, and "eager", which is quick, where it was not.

    Raises:
        TypeError: when `fn` cannot be called.
    """
    view = module_view.view_of(fn)
    compiled = fn if view is None else type(fn).__call__.__get__(fn)
    options = CompileOptions(backend="eager" if backend is None else backend)
    if isinstance(compiled, CompiledFunction):
        kept = compiled.handle.options
        options = dataclasses.replace(kept, backend=backend or kept.backend, fullgraph=False, warmup_calls=0)
    fresh = _compile(fn, options, False)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        if fresh is fn:
            return Explanation(_name(fn), "nothing", nothing="config.disable is set (FRAMEHOOK_DISABLE)")
        handle = _handle_of(fresh)
        is_inside = _C.active_handle() is not None
        with Recorder(Explanation(handle.name, handle.compiler.name), handle.serial) as found:
            try:
                found.result = fresh(*args, **kwargs)
            except Exception as error:
                found.error = f"{type(error).__name__}: {error}"
        found.nothing = counters.stats_of([handle]).nothing
        if is_inside:
            found.nothing = (
                "a capture or a compiled function around it has its frames: call it outside of that"
            )
        return found

    return explained


def time_eager(fn: Any, calls: int = 10) -> Callable[..., float]:
    """Return a function that runs a compiled `fn` eagerly and returns the seconds of one call.

    What was measured is remembered: `stats()` then has a `speedup`, and the call with which compiling has paid off.

    Args:
        fn: what `compile` returned.
        calls: how often it is called; side effects happen as often.  The fastest call counts.

    Raises:
        TypeError: when `fn` was not compiled by framehook.
    """
    handle = _handle_of(fn)
    code = _code_of(fn)

    def measured(*args: Any, **kwargs: Any) -> float:
        least = math.inf
        token = _C.enter_capture(None)
        try:
            for _ in range(max(1, calls)):
                start = time.perf_counter()
                fn(*args, **kwargs)
                least = min(least, time.perf_counter() - start)
        finally:
            _C.exit_capture(token)
        if code is not None:
            handle.eager_times[place_of(code)] = (1, least)
        return least

    return measured


def warmup(fn: Any, inputs: Iterable[Any], *, progress: bool | None = None) -> WarmedUp:
    """Compile ahead: call a compiled function once with each of some inputs, under a progress bar.

    The calls are real: what they change is changed.  `warmup_calls` of the function is not waited for, and a stance
    that lets nothing be compiled does not hold here.

    Args:
        fn: what `compile` returned.
        inputs: for each call a tuple of arguments, a dict of keyword arguments, or one argument.
        progress: whether to show the bar; None: where standard error is a terminal.

    Raises:
        TypeError: when `fn` was not compiled by framehook.
        and whatever a call raises.
    """
    handle = _handle_of(fn)
    before = counters.stats_of([handle])
    seconds: list[float] = []
    with policy.warmed_up(), stances.block("default"):
        for each in tracked(list(inputs), handle.name, progress):
            args, kwargs = (
                ((), each) if isinstance(each, dict) else (each if isinstance(each, tuple) else (each,), {})
            )
            start = time.perf_counter()
            fn(*args, **kwargs)
            seconds.append(time.perf_counter() - start)
    after = counters.stats_of([handle])
    return WarmedUp(
        len(seconds),
        after.compiles - before.compiles,
        after.hits - before.hits,
        tuple(seconds),
        tuple(after.graph_breaks[len(before.graph_breaks) :]),
        tuple(after.eager_reasons[len(before.eager_reasons) :]),
    )


def _code_of(fn: Any) -> CodeType | None:
    """The code of the frame that a compiled function runs first."""
    view = module_view.view_of(fn)
    target: Any = type(fn).__call__.__get__(fn) if view is not None else fn
    target = target.fn if isinstance(target, CompiledFunction) else target
    if not isinstance(target, FunctionType | MethodType):
        target = type(target).__call__
    found = getattr(target, "__code__", None)
    return found if isinstance(found, CodeType) else None


def _name(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))


def reset(fn: Any = None) -> None:
    """Forget entries and counts of a compiled function, module or capture; without `fn`, of the whole process.

    Raises:
        TypeError: when `fn` was not compiled by framehook.
    """
    if fn is not None:
        _reset(_handle_of(fn))
        return
    for handle in live_handles():
        handle.reset()
    counters.forget()
    history.clear()


def _reset(handle: Handle) -> None:
    handle.reset()
    counters.forget(handle)


for _code in torch_compat.uncapturable_roots():
    _C.mark(_code, None, "skip_recursive", "runs compiled graphs backwards")
for _code in (engine.compile_frame.__code__, policy.is_candidate.__code__, Handle.__del__.__code__):
    torch_compat.hide_from_peer(_code)
_C.set_miss_callback(engine.compile_frame)
_C.set_classify_callback(policy.is_candidate)
