"""Small programs about exceptions and context managers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.semantics.language_iteration import Logged
from tests.semantics.language_table import program, tensors

# -- try, except, else, finally ------------------------------------------------------------------------------


class AppError(Exception):
    """An exception with a field of its own."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return f"[{self.code}] {self.args[0]}"


class NotThere(AppError, KeyError):
    """An exception with two bases."""


@program
def try_with_every_clause(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []

    def run(error: BaseException | None) -> Any:
        try:
            log.append("try")
            if error is not None:
                raise error
        except KeyError:
            log.append("key")
            return x + 1
        except (ValueError, TypeError) as caught:
            log.append(str(caught))
            return x * 2
        else:
            log.append("else")
            return x - 1
        finally:
            log.append("finally")

    return [run(each) for each in (None, KeyError("k"), ValueError("v"), TypeError("t"))], log


@program
def finally_overrides_and_restores(x: Tensor, y: Tensor) -> Any:
    def returns() -> Any:
        try:
            return x
        finally:
            return y  # noqa: B012

    def swallows() -> Any:
        try:
            raise KeyError
        finally:
            return y + 1  # noqa: B012

    def loops() -> Any:
        found = []
        for n in range(4):
            try:
                if n == 1:
                    continue
                if n == 3:
                    break
                found.append(x * n)
            finally:
                found.append(n)
        return found

    return returns(), swallows(), loops()


@program(peer=0)
def exceptions_of_ones_own(x: Tensor, y: Tensor) -> Any:
    found = []
    for make in (lambda: AppError("a"), lambda: AppError("b", code=7), lambda: NotThere("c", 3)):
        try:
            raise make()
        except KeyError as error:
            found.append(("key", str(error), error.code))
        except AppError as error:
            found.append(("app", str(error), error.code, error.args))
    return found, x + found[1][2]


@program(peer=0)
def exceptions_are_chained(x: Tensor, y: Tensor) -> Any:
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise AppError("outer") from error
    except AppError as outer:
        chained = repr(outer.__cause__), outer.__suppress_context__
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise TypeError("second")  # noqa: B904
    except TypeError as second:
        context = repr(second.__context__), second.__cause__, second.__suppress_context__
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise TypeError("third") from None
    except TypeError as third:
        return chained, context, third.__cause__, third.__suppress_context__, x + 1


@program
def an_exception_is_raised_again(x: Tensor, y: Tensor) -> Any:
    log = []
    try:
        try:
            raise ValueError("v")
        except ValueError as error:
            log.append("inner")
            kept = error
            raise
    except ValueError as error:
        log.append(error is kept)
    try:
        raise kept
    except ValueError as error:
        return log, error is kept, str(error), y * 2


@program(peer=0)
def the_name_of_an_exception_is_unbound(x: Tensor, y: Tensor) -> Any:
    error = "before"
    try:
        raise KeyError(error)
    except KeyError as error:
        pass
    try:
        return error
    except UnboundLocalError as unbound:
        return str(unbound), x + 1


@program(peer=0)
def exceptions_as_control_flow(x: Tensor, y: Tensor) -> Any:
    table, rows, log = {"a": x}, [x], []

    def get(key: Any) -> Any:
        try:
            return table[key]
        except KeyError as error:
            log.append(str(error))
            return y

    def first(values: Any) -> Any:
        try:
            return next(iter(values))
        except StopIteration:
            return "empty"

    try:
        rows[3]
    except IndexError as error:
        log.append(str(error))
    try:
        int("x")
    except ValueError as error:
        log.append(str(error))
    try:
        1 / 0
    except ZeroDivisionError as error:
        log.append(str(error))
    try:
        x.nothing
    except AttributeError as error:
        log.append(str(error))
    try:
        None.nothing
    except AttributeError as error:
        log.append(str(error))
    try:
        "a" + 1
    except TypeError as error:
        log.append(str(error))
    try:
        nowhere  # noqa: B018
    except NameError as error:
        log.append(str(error))
    return get("a") + 1, get("b"), first([]), first(x), log


@program
def nested_handlers_and_their_order(x: Tensor, y: Tensor) -> Any:
    log = []
    for kind in (KeyError, IndexError, OverflowError, RuntimeError):
        try:
            try:
                raise kind("e")
            except LookupError as error:
                log.append(type(error).__name__)
                if kind is IndexError:
                    raise ArithmeticError("from the handler") from error
            else:
                log.append("never")
        except (ArithmeticError, RuntimeError) as error:
            log.append(f"outer {error!r}")
        finally:
            log.append("f")
    return log, x * 2


@program
def handlers_chosen_by_a_variable(x: Tensor, y: Tensor) -> Any:
    kinds = {"lookup": (KeyError, IndexError), "all": Exception}
    found = []
    for name, kind in kinds.items():
        try:
            raise IndexError(name)
        except kind as error:
            found.append(str(error))
    return found, y + 1


@program(peer=0)
def an_exception_leaves_functions(x: Tensor, y: Tensor) -> Any:
    log = []

    def deep(n: int) -> Any:
        try:
            if n == 0:
                raise AppError("deep", n)
            return deep(n - 1)
        finally:
            log.append(n)

    try:
        deep(3)
    except AppError as error:
        return log, str(error), x + 1


@program
def mutations_before_an_exception_are_kept(x: Tensor, y: Tensor) -> Any:
    rows: list[Any] = []
    table: dict[str, Any] = {}
    try:
        rows.append(x + 1)
        table["a"] = y
        rows[5] = x
        table["b"] = y
    except IndexError as error:
        return rows, table, str(error)


@program
def exceptions_are_objects(x: Tensor, y: Tensor) -> Any:
    error = ValueError("a", 2)
    made = [KeyError("k"), error, AppError("m", 5), StopIteration(3), AssertionError()]
    return (
        [str(each) for each in made],
        [repr(each) for each in made],
        [each.args for each in made],
        isinstance(error, Exception),
        issubclass(NotThere, LookupError),
        made[3].value,
        x * made[2].code,
    )


@program(peer=0)
def raising_what_is_no_exception(x: Tensor, y: Tensor) -> Any:
    found = []
    for thing in (1, "text", int, None):
        try:
            raise thing
        except TypeError as error:
            found.append(str(error))
    try:
        try:
            raise KeyError
        except "no class":  # noqa: B030
            pass
    except TypeError as error:
        found.append(str(error))
    return found, y + 1


@program(peer=0, reason="the real operation words the error")
def a_tensor_operation_fails(x: Tensor, y: Tensor) -> Any:
    z = x * 2
    try:
        return z @ x
    except RuntimeError as error:
        return type(error).__name__, z


@program(peer=0)
def exceptions_with_notes(x: Tensor, y: Tensor) -> Any:
    try:
        error = ValueError("v")
        error.add_note("first")
        raise error
    except ValueError as caught:
        caught.add_note("second")
        return caught.__notes__, x + 1


@program(peer=0, reason="exception groups are split natively")
def exception_groups(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    found = []
    try:
        raise ExceptionGroup("several", [ValueError("v"), KeyError("k")])
    except* ValueError as group:
        found.append([str(each) for each in group.exceptions])
    except* KeyError as group:
        found.append(len(group.exceptions))
    return found, z * 2


@program(reason="an exception that leaves the frame is raised natively")
def a_frame_that_raises(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    if z.shape[0] == 3:
        raise AppError("out", 4)
    return z


@program(
    peer=0,
    arguments=lambda: (*tensors(), [1]),
    reason="an exception that leaves the frame is raised natively",
)
def a_frame_that_raises_after_a_mutation(x: Tensor, y: Tensor, rows: list[Any]) -> Any:
    rows.append(x + 1)
    y.add_(1)
    raise KeyError("after") from ValueError("cause")


@program
def warnings_of_a_handler_that_is_not_reached(x: Tensor, y: Tensor) -> Any:
    try:
        z = x + 1
    except RuntimeError:
        print("never")
        raise
    except Exception as error:
        raise AppError("other") from error
    return z


# -- with ----------------------------------------------------------------------------------------------------


@program
def with_of_a_class(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []
    with Logged(log) as manager:
        z = x + 1
    with Logged(log), Logged(log) as second:
        z = z * 2
    with Logged(log, swallow=True):
        raise KeyError("swallowed")
    try:
        with Logged(log):
            raise ValueError("passed on")
    except ValueError as error:
        log.append(str(error))
    return z, log, manager.log is second.log


@program
def leaving_a_with_statement_early(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []

    def returns() -> Any:
        with Logged(log):
            return x + 1

    found = [returns()]
    for n in range(3):
        with Logged(log):
            if n == 0:
                continue
            found.append(y * n)
            break
    return found, log


@contextlib.contextmanager
def noted(log: list[Any], name: str) -> Iterator[str]:
    log.append(f"+{name}")
    try:
        yield name
    except KeyError as error:
        log.append(f"caught {error}")
    finally:
        log.append(f"-{name}")


@program
def context_managers_by_generators(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []
    with noted(log, "a") as a, noted(log, "b"):
        z = x + len(a)
    with noted(log, "c"):
        raise KeyError("k")
    try:
        with noted(log, "d"):
            raise ValueError("v")
    except ValueError as error:
        log.append(str(error))
    return z, log


@program
def context_managers_as_decorators(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    @noted(log, "fn")
    def double(value: Tensor) -> Tensor:
        return value * 2

    return double(x), double(y), log


@program
def a_context_manager_made_inside(x: Tensor, y: Tensor) -> Any:
    log = []

    @contextlib.contextmanager
    def scaled(by: float) -> Iterator[Any]:
        log.append(by)
        yield lambda v: v * by
        log.append(-by)

    with scaled(2.0) as double, scaled(3.0) as triple:
        z = double(x) + triple(y)
    return z, log


@program
def nullcontext_and_suppress(x: Tensor, y: Tensor) -> Any:
    found = []
    with contextlib.nullcontext() as nothing, contextlib.nullcontext(x) as given:
        found.append(given + 1)
    with contextlib.suppress(KeyError, IndexError):
        found.append({}["k"])
    with contextlib.suppress(KeyError):
        found.append("through")
    try:
        with contextlib.suppress(KeyError):
            raise ValueError("v")
    except ValueError as error:
        found.append(str(error))
    with contextlib.suppress():
        found.append(y)
    return found, nothing


@program
def an_exit_stack(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(noted(log, name)) for name in "ab"]
        stack.callback(log.append, "callback")
        stack.enter_context(Logged(log))
        z = x * len(names)
    return z, names, log


@program
def an_exit_stack_with_an_exception(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted(log, "outer"))
        stack.enter_context(Logged(log))
        raise KeyError("k")
    try:
        with contextlib.ExitStack() as stack:
            stack.push(lambda cls, value, traceback: log.append(cls.__name__))
            raise ValueError("v")
    except ValueError as error:
        log.append(str(error))
    return log, x + 1


@program
def an_exit_stack_by_hand(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []
    stack = contextlib.ExitStack()
    stack.callback(log.append, 1)
    stack.callback(log.append, 2)
    with contextlib.ExitStack() as other:
        other.callback(log.append, 3)
        kept = other.pop_all()
    log.append("left")
    kept.close()
    stack.close()
    return log, y * 2


class Closable:
    """Something that is closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


@program(peer=0)
def closing(x: Tensor, y: Tensor) -> Any:
    with contextlib.closing(Closable()) as thing:
        before = thing.closed
        z = x + 1
    return before, thing.closed, z


@program(graphs=1, reason="what is printed goes to a real file")
def redirected_output(x: Tensor, y: Tensor) -> Any:
    target = io.StringIO()
    z = x + 1
    with contextlib.redirect_stdout(target):
        print("inside", z.shape)
    print("outside")
    return target.getvalue(), z


@program(arguments=lambda: (torch.ones(3, 4, requires_grad=True), torch.ones(4)))
def torch_contexts_and_user_contexts(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []
    with Logged(log), torch.no_grad(), noted(log, "n"):
        a = x * 2
    with torch.enable_grad(), contextlib.nullcontext():
        b = x * 3
    return a.requires_grad, b.requires_grad, a, b, log


class Reusable(contextlib.ContextDecorator):
    """A context manager that decorates."""

    depth = 0

    def __enter__(self) -> Reusable:
        self.depth += 1
        return self

    def __exit__(self, *exc: Any) -> None:
        self.depth -= 1


@program
def a_context_decorator(x: Tensor, y: Tensor) -> Any:
    reusable = Reusable()

    @reusable
    def work(value: Tensor) -> Tensor:
        return value * reusable.depth

    with reusable, reusable:
        z = work(x)
    return z, reusable.depth


@program
def abstract_context_managers(x: Tensor, y: Tensor) -> Any:
    return (
        isinstance(Reusable(), contextlib.AbstractContextManager),
        isinstance(Logged([]), contextlib.AbstractContextManager),
        x + 1,
    )


@program
def a_context_manager_that_fails(x: Tensor, y: Tensor) -> Any:
    class_log: list[str] = []

    @contextlib.contextmanager
    def fails(at: str) -> Iterator[None]:
        if at == "enter":
            raise KeyError(at)
        yield
        if at == "exit":
            raise IndexError(at)

    for at in ("enter", "exit"):
        try:
            with Logged(class_log), fails(at):
                class_log.append("body")
        except LookupError as error:
            class_log.append(repr(error))
    return class_log, x + 1
