"""Small programs about functions: arguments of all kinds, closures, globals, recursion, decorators, stores and deletions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.semantics.language_table import program, tensors

# -- arguments ---------------------------------------------------------------------------------------------


def _every_kind(
    a: Any, b: Any = 2, /, c: Any = 3, *rest: Any, d: Any, e: Any = 5, **named: Any
) -> tuple[Any, ...]:
    return a, b, c, rest, d, e, sorted(named.items())


@program
def every_kind_of_argument(x: Tensor, y: Tensor) -> Any:
    return (
        _every_kind(x, d=y),
        _every_kind(x, 1, d=4),
        _every_kind(x, 1, 2, 3, 4, d=y, e=6, f=7),
        _every_kind(*(x, y), **{"d": 1, "a": 2, "b": 3}),
        _every_kind(x, c=8, d=x + 1),
    )


@program
def names_of_positional_only_arguments_are_free(x: Tensor, y: Tensor) -> Any:
    def of(self: Any, /, **named: Any) -> Any:
        return self, named

    return of(x, self=y, other=1), of(y + 1)


@program
def stars_in_the_middle_of_a_call(x: Tensor, y: Tensor) -> Any:
    def collect(*args: Any, **named: Any) -> Any:
        return args, named

    pair, one = [x, y], (1,)
    return (
        collect(0, *pair, 2, *one, *range(2), k=1, **{"m": 2}, **{"n": y}),
        collect(*pair, *pair),
        collect(*{"a": 1, "b": 2}),
        collect(*(value * 2 for value in pair)),
        collect(**dict(zip("ab", pair, strict=True))),
    )


@program
def defaults_are_made_once(x: Tensor, y: Tensor) -> Any:
    def remember(value: Any, seen: list[Any] = []) -> Any:  # noqa: B006
        seen.append(value)
        return len(seen), seen

    first = remember(1)
    second = remember(x)
    return first[1] is second[1], first[0], second[0], remember(y, [])[0], y + 1


@program(peer=0)
def defaults_are_computed_when_the_function_is_made(x: Tensor, y: Tensor) -> Any:
    scale = 2.0

    def scaled(value: Tensor, by: float = scale, *, plus: Tensor = y * 2) -> Tensor:
        return value * by + plus

    scale = 5.0
    return scaled(x), scaled(x, scale), scaled(x, plus=y), scaled.__defaults__, scaled.__kwdefaults__


@program
def defaults_are_replaced(x: Tensor, y: Tensor) -> Any:
    def scaled(value: Tensor, by: float = 1.0, *, plus: float = 0.0) -> Tensor:
        return value * by + plus

    before = scaled(x)
    scaled.__defaults__ = (3.0,)
    scaled.__kwdefaults__ = {"plus": 4.0}
    return before, scaled(x), scaled(y, 1.0)


@program
def lambdas_with_every_kind_of_argument(x: Tensor, y: Tensor) -> Any:
    add = lambda a, b=2, *c, d=4, **e: (a + b, c, d, e)  # noqa: E731
    return add(x), add(x, y, 1, 2, d=3, f=4), (lambda: y)(), (lambda *a: len(a))(x, y)


@program(peer=0)
def arguments_that_do_not_fit(x: Tensor, y: Tensor) -> Any:
    def two(a: Any, b: Any) -> Any:
        return a, b

    found = []
    for args, named in (((x,), {}), ((x, y, 1), {}), ((x,), {"c": 1}), ((x,), {"a": 1}), ((), {})):
        try:
            found.append(two(*args, **named))
        except TypeError as error:
            found.append(str(error))
    return found, x + 1


@program(peer=0)
def a_keyword_only_argument_that_is_missing(x: Tensor, y: Tensor) -> Any:
    def need(a: Any, *, b: Any, c: Any) -> Any:
        return a, b, c

    try:
        need(x, c=1)
    except TypeError as error:
        return str(error), need(x + 1, b=y, c=2)


@program
def arguments_evaluated_from_left_to_right(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []

    def note(name: str, value: Any) -> Any:
        log.append(name)
        return value

    def take(*args: Any, **named: Any) -> Any:
        return [*args, *named.values()]

    made = take(note("a", x), *note("b", [1]), note("c", y), k=note("d", 2), **note("e", {"z": 3}))
    table = {note("key", "k"): note("value", x)}
    note("owner", table)[note("index", "q")] = note("stored", y)
    return made, log, table, x + 1


@program(arguments=lambda variant: (*tensors(), 2 + variant), in_all=3)
def a_number_among_the_arguments(x: Tensor, y: Tensor, count: int) -> Any:
    return sum((x * n for n in range(count)), y), [count] * count


@program(arguments=lambda variant: (*tensors(), ("relu", "tanh", "relu")[variant]), in_all=2)
def a_name_among_the_arguments(x: Tensor, y: Tensor, name: str) -> Any:
    return getattr(torch, name)(x) + y, f"{name}!"


@program(arguments=lambda variant: (*tensors(), variant == 1), in_all=2)
def a_flag_among_the_arguments(x: Tensor, y: Tensor, flag: bool) -> Any:
    return (x + 1 if flag else x - y), not flag


# -- closures, nonlocal, global ----------------------------------------------------------------------------


@program
def a_counter_in_a_closure(x: Tensor, y: Tensor) -> Any:
    def make() -> tuple[Callable[..., int], Callable[[], int]]:
        count = 0

        def up(by: int = 1) -> int:
            nonlocal count
            count += by
            return count

        return up, lambda: count

    up, read = make()
    other, _ = make()
    return [up(), up(5), read(), other()], x * up(), y


@program
def tensors_in_nonlocal_variables(x: Tensor, y: Tensor) -> Any:
    total, steps = torch.zeros(4), []

    def add(value: Tensor) -> None:
        nonlocal total
        total = total + value
        steps.append(total)

    for row in x:
        add(row)
    add(y)
    return total, steps


@program
def nonlocal_across_two_functions(x: Tensor, y: Tensor) -> Any:
    value: Any = x

    def outer() -> Any:
        def inner() -> Any:
            nonlocal value
            value = value + y
            return value

        return inner() * 2 + value

    return outer(), value


@program(peer=0)
def a_variable_is_bound_after_the_function_that_reads_it(x: Tensor, y: Tensor) -> Any:
    def read() -> Any:
        return late  # noqa: F821

    try:
        read()
    except NameError as error:
        text = str(error)
    late = x + 1
    before = read()
    del late
    try:
        read()
    except NameError as error:
        return text, before, str(error), type(error).__name__, y * 2


@program
def functions_made_in_a_loop_share_a_variable(x: Tensor, y: Tensor) -> Any:
    late = [lambda: x * n for n in range(3)]
    bound = [lambda n=n: y * n for n in range(3)]
    adders = []
    for n in range(3):

        def add(value: Tensor) -> Tensor:
            return value + n

        adders.append(add)
    return [f() for f in late], [f() for f in bound], [f(y) for f in adders]


@program
def closures_that_are_returned(x: Tensor, y: Tensor) -> Any:
    scaled = x * 2
    state = {"calls": 0}

    def later(value: Tensor) -> Tensor:
        state["calls"] += 1
        return value + scaled

    later(y)
    return later.__name__, later.__closure__ is not None, state, [c.cell_contents for c in later.__closure__]


@program
def closures_that_are_returned_and_called(x: Tensor, y: Tensor) -> Any:
    return _compose(lambda v: v + 1, lambda v: v * 2, functools.partial(torch.add, y))(x)


def _compose(*functions: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def composed(value: Any) -> Any:
        for each in functions:
            value = each(value)
        return value

    return composed


COUNT = 0
LAST: Any = None
TABLE: dict[str, Any] = {}


@program(state=("COUNT", "LAST"))
def globals_that_are_written(x: Tensor, y: Tensor) -> Any:
    global COUNT, LAST
    COUNT += 1
    LAST = x + 1
    return LAST * 2


@program(state=("TABLE",), in_all=2)  # the first call finds it empty
def globals_that_are_containers(x: Tensor, y: Tensor) -> Any:
    TABLE["sum"] = TABLE.get("sum", 0) + y
    TABLE.setdefault("rows", []).clear()
    TABLE["rows"].extend(x)
    return len(TABLE), TABLE["sum"] + 1


@program(peer=0, state=("MADE",))
def a_global_is_made_and_deleted(x: Tensor, y: Tensor) -> Any:
    global MADE
    MADE = x + 1
    kept = MADE
    del MADE
    try:
        return MADE
    except NameError as error:
        return kept, str(error)


@program(peer=2, state=("MADE_HERE",), graphs=2, in_all=3, reason="globals() as a dict")
def a_global_is_made(x: Tensor, y: Tensor) -> Any:
    global MADE_HERE
    MADE_HERE = [x * 2, y]
    return "MADE_HERE" in globals(), x + 1


@program
def a_builtin_hidden_by_a_local(x: Tensor, y: Tensor) -> Any:
    len = lambda value: 7  # noqa: E731, A001
    max = min  # noqa: A001
    return len([1]), max(1, 2), x + len(())


# -- recursion, decorators, functions as objects -------------------------------------------------------------


@program
def mutual_recursion(x: Tensor, y: Tensor) -> Any:
    def even(n: int, value: Tensor) -> Any:
        return ("even", value) if n == 0 else odd(n - 1, value + 1)

    def odd(n: int, value: Tensor) -> Any:
        return ("odd", value) if n == 0 else even(n - 1, value * 2)

    return even(4, x), even(3, y)


@program
def recursion_over_a_tree(x: Tensor, y: Tensor) -> Any:
    tree = {"a": x, "b": [y, (x + 1, {"c": y * 2})], "d": 3}

    def visit(node: Any, path: tuple[Any, ...] = ()) -> list[Any]:
        if isinstance(node, dict):
            return [found for key, item in node.items() for found in visit(item, (*path, key))]
        if isinstance(node, list | tuple):
            return [found for index, item in enumerate(node) for found in visit(item, (*path, index))]
        return [(path, node * 2)]

    return visit(tree)


@program
def a_function_that_calls_itself_through_a_combinator(x: Tensor, y: Tensor) -> Any:
    fix = lambda f: (lambda g: g(g))(lambda g: f(lambda *a: g(g)(*a)))  # noqa: E731
    return fix(lambda again: lambda n, v: v if n == 0 else again(n - 1, v + y))(3, x)


def logged(log: list[str]) -> Callable[..., Any]:
    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **named: Any) -> Any:
            log.append(f"> {fn.__name__}")
            try:
                return fn(*args, **named)
            finally:
                log.append(f"< {fn.__name__}")

        return wrapper

    return decorate


@program
def decorators_with_arguments(x: Tensor, y: Tensor) -> Any:
    log: list[str] = []

    @logged(log)
    @logged(log)
    def double(value: Tensor, *, plus: float = 0.0) -> Tensor:
        """Twice."""
        return value * 2 + plus

    return double(x, plus=1.0), double.__name__, double.__doc__, double.__wrapped__.__name__, log


class CountCalls:
    """A decorator that is a class."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.fn(*args)


@program
def a_decorator_that_is_a_class(x: Tensor, y: Tensor) -> Any:
    @CountCalls
    def triple(value: Tensor) -> Tensor:
        return value * 3

    return triple(x), triple(triple(y)), triple.calls, triple.__name__


@program
def a_decorator_that_remembers(x: Tensor, y: Tensor) -> Any:
    def remembered(fn: Callable[[int], Any]) -> Callable[[int], Any]:
        known: dict[int, Any] = {}

        def wrapper(n: int) -> Any:
            if n not in known:
                known[n] = fn(n)
            return known[n]

        wrapper.known = known
        return wrapper

    @remembered
    def fib(n: int) -> Any:
        return y if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(6), sorted(fib.known), x


@program
def functions_have_attributes(x: Tensor, y: Tensor) -> Any:
    def fn(value: Tensor) -> Tensor:
        fn.calls += 1
        return value + fn.calls

    fn.calls = 0
    made = fn(x), fn(y)
    fn.note = "kept"
    del fn.note
    return made, fn.calls, hasattr(fn, "note"), getattr(fn, "other", None), fn.__dict__


@program
def functions_in_tables(x: Tensor, y: Tensor) -> Any:
    table = {"double": lambda v: v * 2, "sum": torch.sum, "neg": torch.Tensor.neg, "abs": abs}
    chosen = [name for name, fn in table.items() if callable(fn)]
    return {name: table[name](x) for name in chosen}, table["double"] is table["double"]


@program
def methods_as_values(x: Tensor, y: Tensor) -> Any:
    append = (rows := []).append
    for row in x:
        append(row * 2)
    join, scale = ", ".join, y.mul
    return rows, join(str(n) for n in range(3)), scale(2), list(map(x.sum, (0, 1)))


@program
def signatures_and_defaults_are_read(x: Tensor, y: Tensor) -> Any:
    code = _every_kind.__code__
    names = list(inspect.signature(logged).parameters)
    return code.co_argcount, code.co_varnames[:3], _every_kind.__defaults__, names, x + len(names)


@program
def annotations_of_a_function_made_inside(x: Tensor, y: Tensor) -> Any:
    def fn(a: int, b: str = "b") -> float:
        return 0.5

    return fn.__annotations__, x * fn(1), fn.__qualname__, fn.__module__


# -- stores, deletions, unpacking, operators -----------------------------------------------------------------


class Box:
    """An object with attributes."""

    def __init__(self, **named: Any) -> None:
        self.__dict__.update(named)


@program(peer=0, in_all=2, arguments=lambda: (*tensors(), Box(a=1, rows=[1, 2, 3], table={"k": 1, "l": 2})))
def deletion_of_every_target(x: Tensor, y: Tensor, box: Box) -> Any:
    name, other, (third, *rest) = x, y, (1, 2, 3)
    rows = list(range(6))
    del name, (other, [third])
    del rows[0], rows[-1], rows[1:3]
    box.kept = x + 1
    box.gone = y
    del box.gone
    box.rows.append(4)
    del box.rows[:2]
    del box.table["k"]
    box.table["k"] = len(box.table)
    try:
        return name  # noqa: F821
    except UnboundLocalError as error:
        text = str(error)
    try:
        del box.gone
    except AttributeError as error:
        box.a = "left"
        return rows, rest, text, str(error)


@program(
    in_all=2,
    arguments=lambda: (*tensors(), Box(n=1, v=torch.ones(4), rows=[1, [2]], table={"k": torch.ones(4)})),
)
def augmented_assignment_to_every_target(x: Tensor, y: Tensor, box: Box) -> Any:
    n, text, row, pair, flags = 3, "a", [1], (1,), {1}
    n += 1
    n -= 2
    n *= 5
    n //= 3
    n **= 2
    n %= 7
    n <<= 2
    n |= 1
    n ^= 3
    n &= 14
    n >>= 1
    text += "b"
    text *= 2
    same = row
    row += [2]
    row *= 2
    pair += (2,)
    flags |= {2}
    flags -= {1}
    box.n += 1
    box.v = box.v + y
    box.rows[0] += 10
    box.rows[1] += [3]
    box.table["k"] = box.table["k"] * y
    box.rows[1][0] -= 1
    total = x
    total = total + 1
    total /= 2
    return n, text, row is same, row, pair, flags, total


@program
def augmented_assignment_in_place_on_tensors(x: Tensor, y: Tensor) -> Any:
    same = y
    y += 1
    x[0] += y
    x[:, 1] *= 2
    rows = [x, y]
    rows[1] -= 0.5
    return same is y, rows[1] is y, x, y


@program
def subscripts_are_evaluated_once(x: Tensor, y: Tensor) -> Any:
    log, rows = [], [1, 2]

    def at(index: int) -> int:
        log.append(index)
        return index

    rows[at(0)] += 5
    rows[at(1)], rows[at(0)] = rows[at(0)], rows[at(1)]
    return rows, log, x + rows[0]


@program
def unpacking_of_every_shape(x: Tensor, y: Tensor) -> Any:
    first, *middle, last = range(5)
    (a, b), [c, (d, *e)] = (1, 2), [3, (4, 5, 6)]
    *start, (end, _) = [0, 1, (x, y)]
    (only,) = {"k": 1}
    p = q = [x]
    head, tail = x[0], x[1:]
    one, two, three = x
    (k, v), *others = {"a": 1, "b": 2}.items()
    for index, (name, (left, *right)) in enumerate([("n", (1, 2, 3))]):
        found = index, name, left, right
    return (
        first,
        middle,
        last,
        a,
        b,
        c,
        d,
        e,
        start,
        end,
        only,
        p is q,
        head,
        tail,
        one + two,
        three,
        k,
        v,
        others,
        found,
    )


@program
def unpacking_that_fails(x: Tensor, y: Tensor) -> Any:
    found = []
    for row in ([1], [1, 2, 3], (1,), iter([1, 2, 3]), 5):
        try:
            a, b = row
        except (TypeError, ValueError) as error:
            found.append((type(error).__name__, str(error)))
    try:
        a, b, *c = [1]
    except ValueError as error:
        found.append(str(error))
    return found, y + 1


@program
def swaps_and_chains_of_targets(x: Tensor, y: Tensor) -> Any:
    a, b, c = 1, 2, 3
    a, b, c = c, a, b
    rows = [1, 2, 3]
    index = 0
    index, rows[index] = 1, 9
    x, y = y, x
    rows[0] = rows[1:] = (first := [7, 8])[0:2]
    return a, b, c, index, rows, first, x + 1, y


@program
def displays_with_stars(x: Tensor, y: Tensor) -> Any:
    pair = [x, y]
    table = {"a": 1, **{"b": 2}, "a": 3, **dict(c=x)}  # noqa: C408, F601, PIE794
    return [*pair, 1, *"ab"], (*pair, *range(2)), {*(5, 3), *(1, 2)}, table, list(table), [*x][0] * 2


@program
def chained_comparisons(x: Tensor, y: Tensor) -> Any:
    log: list[int] = []

    def value(n: int) -> int:
        log.append(n)
        return n

    found = (
        value(1) < value(2) < value(3),
        value(3) < value(2) < value(1),
        1 < x.shape[0] <= 3 != 4,
        "a" in "abc" in ["abc"],
        0 == 0.0 == False,  # noqa: E712
        None is None is not x,
    )
    return found, log, x + 1


@program
def walrus_in_every_place(x: Tensor, y: Tensor) -> Any:
    kept = [last := n * 2 for n in range(4)]
    rows = [r for row in x if (r := row * 2).shape[0] == 4]
    count = 0
    while (count := count + 1) < 5:
        pass
    total = (a := y + 1) + (b := a * 2)
    if any((seen := n) > 2 for n in range(10)):
        kept.append(seen)
    return kept, last, rows, count, total, b, {(k := "key"): (v := 1)}, k, v, f"{(z := 3)}{z}"


@program
def short_circuits(x: Tensor, y: Tensor) -> Any:
    log: list[Any] = []

    def value(v: Any) -> Any:
        log.append(v)
        return v

    found = (
        value(0) or value("") or value([]) or value(3),
        value(1) and value("a") and value(()) and value(4),
        not value(None),
        value(1) if value(0) else value(2),
        [] or {} or None,
    )
    return found, log, x * 2


@program
def loops_with_else_and_continue(x: Tensor, y: Tensor) -> Any:
    found: list[Any] = []
    for row in x:
        if row.shape[0] == 3:
            break
    else:
        found.append("no break")
    for n in range(10):
        if n % 2:
            continue
        if n > 6:
            break
        found.append(y * n)
    else:
        found.append("never")
    n = 5
    while n:
        n -= 1
        if n == 2:
            break
    else:
        found.append("never")
    while n < 4:
        n += 1
    else:
        found.append("done")
    for n in ():
        pass
    return found, n


@program(reason="globals() as a dict")
def global_and_local_namespaces(x: Tensor, y: Tensor) -> Any:
    return "Box" in globals(), globals()["COUNT"] == COUNT, x + 1


@program
def assertions(x: Tensor, y: Tensor) -> Any:
    assert x.dim() == 2, "two dimensions"
    try:
        assert x.dim() == 3, f"not {x.dim()}"
    except AssertionError as error:
        return str(error), error.args, x * 2


@program
def strings_of_shapes_and_constants(x: Tensor, y: Tensor) -> Any:
    width, name = 8, "v"
    return (
        f"{x.shape} {x.dtype} {tuple(y.shape)!r}",
        f"{name!r:>{width}}|{3.14159:.2f}|{255:#x}|{1_000_000:,}|{True}|{None}",
        f"{name=} {x.shape[0] + 1=}",
        "%s %d %5.1f %r" % (name, 3, 2.5, "q"),
        "{0} {k} {0!r} {1[0]}".format("a", [1], k=2),
        x + len(name),
    )
