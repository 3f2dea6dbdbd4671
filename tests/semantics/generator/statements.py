"""Statements: each writes some lines and notes the variables that it binds."""

from __future__ import annotations

from collections.abc import Callable

from tests.semantics.generator.expressions import boolean, condition, key, number, tensor, text
from tests.semantics.generator.scope import Draw, Scope
from tests.semantics.generator.snippets import snippet

#: Elements that a container may have before something is added where it may come again.
_FULL = 6
_MAX_DEPTH = 4


def statements(d: Draw, low: int, high: int) -> None:
    """A few statements."""
    for _ in range(d.number(low, high)):
        if d.budget <= 0:
            return
        d.budget -= 1
        _statement(d)


def _statement(d: Draw) -> None:
    if d.has_breaks and d.chance(12):
        return interrupt(d)
    d.choice(_SIMPLE if d.depth >= _MAX_DEPTH or d.budget <= 1 else _ALL)(d)


def _bind(d: Draw, kind: str, value: str) -> None:
    """Assign to a variable of that kind, a new one or one that is there."""
    name = d.own(kind) if d.chance(35) else None
    # A loop that makes something longer each time has to come to an end.
    d.line(f"{name or (name := d.fresh(kind[0]))} = {value}")
    d.scope.add(kind, name)


# -- simple ------------------------------------------------------------------------------------------------------


def assign_tensor(d: Draw) -> None:
    _bind(d, "tensor", tensor(d))


def assign_int(d: Draw) -> None:
    _bind(d, "int", f"({number(d)}) % 11")


def assign_str(d: Draw) -> None:
    _bind(d, "str", f"({text(d)})[:8]")


def assign_container(d: Draw) -> None:
    x, y, i = tensor(d, 1), tensor(d, 0), number(d, 1)
    kind, value = d.choice(
        (
            ("tensors", f"[{x}, {y}]"),
            ("ints", f"[{i}, {number(d, 0)}]"),
            ("table", f"{{'a': {x}, 'b': {y}}}"),
            ("set", f"{{{i}, {number(d, 0)}}}"),
            ("deque", f"deque([{i}, 2], maxlen={d.choice((3, None))})"),
            ("box", f"{d.choice(('Box', 'Crate'))}({x}, {i}, [{number(d, 0)}])"),
            ("table", f"dict(a={x}, **{{'c': {y}}})"),
            (
                "ints",
                f"[each * {number(d, 0)} for each in range({d.number(0, 3)}) if each != {d.number(0, 2)}]",
            ),
            ("tensors", f"list(counting({d.number(0, 3)}, {y}))"),
            ("table", f"{{str(each): {y} * each for each in range({d.number(1, 3)})}}"),
            ("ints", f"sorted({{{i}, {number(d, 0)}}}, reverse={boolean(d)})"),
            ("table", f"OrderedDict(b={y}, a={x})"),
            ("tensors", f"[*chained([{x}], ({y},))]"),
            ("box", f"Box.of({x})"),
            ("table", f"defaultdict(lambda: {y}, a={x})"),
            ("table", f"{{key: value * 2 for key, value in {d.name('table') or '{}'}.items()}}"),
            (
                "ints",
                f"[a + b for a, b in zip({d.name('ints') or '(1, 2)'}, range(5)) if a != {number(d, 0)}]",
            ),
            (
                "tensors",
                f"[a if len({d.name('ints') or '()'}) > 1 else a + i for i, a in enumerate([{y}, x])]",
            ),
            ("tensors", f"[*map(lambda a: a * {number(d, 0)}, ({x}, {y}))]"),
            ("box", f"Box({x}, {i}, {d.name('ints') or '[1]'})"),
        )
    )
    _bind(d, kind, value)


def alias(d: Draw) -> None:
    kind = d.choice(("tensors", "ints", "table", "set", "deque", "box", "tensor"))
    name = d.name(kind)
    if name:
        _bind(d, kind, name)
    else:
        assign_tensor(d)


def copied(d: Draw) -> None:
    kind = d.choice(("tensors", "ints", "table", "set", "deque"))
    name = d.name(kind)
    if name is None:
        return assign_container(d)
    forms = {
        "tensors": ("{0}[:]", "list({0})", "{0}[::-1]", "[*{0}]", "({0} + [{x}])[-3:]"),
        "ints": ("{0}[1:]", "{0}.copy()", "list(reversed({0}))", "({0} * 2)[:5]", "list(map(abs, {0}))"),
        "table": ("dict({0})", "{{**{0}, 'c': {x}}}", "{0}.copy()", "{0} | {{'a': {x}}}"),
        "set": ("{0} | {{1, 9}}", "{0} & {{1, 2, 3}}", "set({0})", "{0} - {{2}}", "{0} ^ {{0}}"),
        "deque": ("{0}.copy()", "deque({0})", "deque(reversed({0}), maxlen=4)"),
    }
    _bind(d, kind, d.choice(forms[kind]).format(name, x=tensor(d, 0)))


def augment(d: Draw) -> None:
    kind = d.choice(("tensor", "int", "box"))
    name = d.own(kind)
    if name is None:
        return assign_tensor(d)
    if kind == "tensor":
        d.line(f"{name} {d.choice(('+=', '*=', '-='))} {d.choice((tensor(d, 1), number(d, 1)))}")
    elif kind == "int":
        d.line(f"{name} {d.choice(('+=', '-=', '^='))} {number(d, 1)}")
        d.line(f"{name} %= 13")
    else:
        d.line(f"{name} += {tensor(d, 1)}")


def in_place(d: Draw) -> None:
    name = d.name("tensor") or "x"
    forms = ("{}.add_(1)", "{}.mul_({y})", "{}[0] = 2.0", "{}[1:] = {}[:-1] * 2", "{}[:2].mul_(3)",
             "{}.view(-1)[1] += 1", "{}.copy_({y})", "{}.unsqueeze(0).add_({i})", "torch.neg_({})",
             "{}.zero_()", "{}[{y} > 0] = 0.5" if d.has_breaks else "{}.fill_({i})")  # fmt: skip
    d.line(d.choice(forms).replace("{}", name).format(y=tensor(d, 1), i=number(d, 0)))


def change_list(d: Draw) -> None:
    kind = d.choice(("tensors", "ints", "deque"))
    name = d.name(kind)
    if name is None:
        return assign_container(d)
    item = tensor(d, 1) if kind == "tensors" else number(d, 1)
    shared = ("{0}.append({1})", "{0}.pop()", "{0}[0] = {1}", "{0}[-1] = {1}", "{0}.reverse()", "{0}.clear()",
              "del {0}[0]", "{0}.extend([{1}])", "{0} += [{1}]")  # fmt: skip
    lists = (
        "{0}.insert(1, {1})",
        "{0}[1:] = [{1}]",
        "{0}[:0] = ({1},)",
        "del {0}[-1:]",
        "{0}.pop(0)",
        "{0} *= 1",
    )
    numbers = ("{0}.sort()", "{0}.remove({1})", "{0}.sort(key=lambda each: -each)", "{0}.sort(reverse={2})")
    deques = (
        "{0}.appendleft({1})",
        "{0}.popleft()",
        "{0}.rotate(1)",
        "{0}.extendleft([{1}, 1])",
        "{0}.remove({1})",
    )
    forms = shared + {"tensors": lists, "ints": lists + numbers, "deque": deques}[kind]
    form = d.choice(forms)
    if "= " in form and "[" not in form.split("=")[0] and name not in d.scope.variables[kind]:
        form = shared[0]  # it would bind a variable of another function
    written = form.format(name, item, boolean(d) if "{2}" in form else "")
    d.line(f"if len({name}) < {_FULL}: {written}" if d.loops or d.scope.is_nested else written)


def change_table(d: Draw) -> None:
    name = d.name("table")
    if name is None:
        return assign_container(d)
    forms = ("{0}[{k}] = {x}", "{0}.pop({k}, None)", "del {0}[{k}]", "{0}.update(c={x})", "{0}.setdefault({k}, {x})",
             "{0} |= {{{k}: {x}}}", "{0}.pop({k})", "{0}[{k}] += 1", "{0}.popitem()", "{0}.clear()")  # fmt: skip
    form = d.choice(forms)
    if "|=" in form and name not in d.scope.variables["table"]:
        form = forms[0]
    d.line(form.format(name, k=key(d), x=tensor(d, 1)))


def change_set(d: Draw) -> None:
    name = d.name("set")
    if name is None:
        return assign_container(d)
    forms = ("{0}.add({i})", "{0}.discard({i})", "{0}.remove({i})", "{0}.update([{i}, 3])", "{0}.clear()",
             "{0}.difference_update({{{i}}})")  # fmt: skip
    d.line(d.choice(forms).format(name, i=number(d, 1)))


def change_object(d: Draw) -> None:
    name = d.name("box")
    if name is None:
        return assign_container(d)
    forms = ("{0}.value = {x}", "{0}.count += 1", "{0}.items.append({i})", "setattr({0}, 'value', {x})",
             "{0}.total = {x}", "{0}.value.mul_(2)", "{0}.grow({i})", "{0}[0] = {i}", "{0}.note = {s}", "del {0}.note",
             "{0}.items = {0}.items[:2]", "{0}.value += 1", "{0}.missing", "{0}.__dict__['count'] = {i}")  # fmt: skip
    form = d.choice(forms).format(name, x=tensor(d, 1), i=number(d, 1), s=text(d))
    d.line(f"if len({name}.items) < {_FULL}: {form}" if d.loops or d.scope.is_nested else form)


def unpack(d: Draw) -> None:
    first, second = d.fresh("t"), d.fresh("t")
    found = d.name("tensors")
    forms = [f"{first}, {second} = {tensor(d, 1)}, {tensor(d, 1)}"]
    if found:
        forms += [
            f"{first}, *rest, {second} = [{tensor(d, 0)}, *{found}, {tensor(d, 0)}]",
            f"{first}, {second} = {found}",
        ]
    forms.append(f"({first}, [{second}, _]) = {tensor(d, 0)}, ({tensor(d, 1)}, {number(d, 1)})")
    d.line(d.choice(forms))
    d.scope.add("tensor", first)
    d.scope.add("tensor", second)


def swap(d: Draw) -> None:
    kind = d.choice(("tensor", "int", "ints"))
    left, right = d.own(kind), d.own(kind)
    if left and right:
        d.line(f"{left}, {right} = {right}, {left}")
    else:
        assign_int(d)


def delete(d: Draw) -> None:
    kind = d.choice(("tensor", "ints", "table"))
    names = [name for name in d.scope.variables[kind] if len(name) > 1 and name[1].isdigit()]
    if not names or d.depth or d.loops:
        return assign_tensor(d)
    name = d.choice(names)
    d.line(f"del {name}")
    d.scope.variables[kind].remove(name)


def advance(d: Draw) -> None:
    """Make an iterator, or take something from one."""
    name = d.name("iterator")
    if name is None or d.chance(40):
        x, ints, tensors_ = d.name("tensor") or "x", d.name("ints") or "[1, 2]", d.name("tensors") or "[x]"
        forms = (
            f"iter({ints})", f"(each + {x} for each in {ints})", f"enumerate({tensors_})", f"zip({tensors_}, {ints})",
            f"map(lambda a: a * 2, {tensors_})", f"reversed({ints})", f"chained({tensors_}, {ints})",
            f"counting(3, {x})", f"iter({d.name('table') or '{}'}.items())", f"filter(None, {ints})",
            f"itertools.chain({ints}, [{x}])", f"itertools.islice({tensors_}, 2)", f"iter({d.name('box') or ints})",
            f"itertools.count({number(d, 0)})", f"itertools.cycle([{x}, 1])",
        )  # fmt: skip
        return _bind(d, "iterator", d.choice(forms))
    forms = (f"LOG.append(next({name}, 'end'))", f"LOG.extend(itertools.islice({name}, 2))",
             f"for each in {name}: LOG.append(each); break", f"a, *b = itertools.islice({name}, 3)",
             f"LOG.append(2 in itertools.islice({name}, 1))" if not d.has_breaks else f"next({name})",
             f"LOG.append([*zip({name}, 'ab')])")  # fmt: skip
    d.line(d.choice(forms))


def lambda_(d: Draw) -> None:
    name = d.fresh("f")
    d.line(f"{name} = lambda a, b={number(d, 0)}: a * b + {tensor(d, 0)}")
    d.scope.add("function", name)


def global_state(d: Draw) -> None:
    d.line(d.choice((f"LOG.append({number(d, 1)})", f"LOG.append({text(d)})", "LOG[-1:] = []")))


def check(d: Draw) -> None:
    d.line(
        f"assert {boolean(d)} or n, {text(d)}" if not d.scope.is_nested else f"assert {boolean(d)} or not LOG"
    )


def throw(d: Draw) -> None:
    if not d.tries and d.chance(80):
        return assign_tensor(d)  # or few programs would come to their end
    error = d.choice((f"Problem({text(d)})", f"Other({number(d, 0)})", "ValueError", f"KeyError({key(d)})"))
    cause = d.choice(("", "", " from None", " from TypeError('cause')"))
    d.line(f"if {boolean(d)}: raise {error}{cause}")


def leave(d: Draw) -> None:
    if d.loops:
        d.line(f"if {condition(d)}: {d.choice(('break', 'continue'))}")
    elif d.chance(70):
        assign_tensor(d)
    elif d.scope.is_nested:
        d.line(f"if {condition(d)}: return {tensor(d, 1)}")
    else:
        d.line(f"if {condition(d)}: return 'early', {tensor(d, 1)}")


def interrupt(d: Draw) -> None:
    if not d.has_breaks:
        return assign_tensor(d)
    form = d.choice(("break", "print", "item", "outside", "text", "warn", "random"))
    if form == "break":
        d.line("framehook.graph_break()")
    elif form == "print":
        d.line(f"print({text(d)}, {number(d, 1)})")
    elif form == "item":
        _bind(d, "int", f"int({tensor(d, 1)}.sum().item()) % 5")
    elif form == "warn":
        d.line(f"warnings.warn({text(d)}, stacklevel={d.number(1, 2)})")
    elif form == "random":
        _bind(d, "tensor", f"{tensor(d, 1)} * random.random()")
    elif form == "outside":
        _bind(d, "tensor", f"outside({tensor(d, 1)})")
    else:
        _bind(d, "str", f"str({tensor(d, 0)}.sum().tolist())[:6]")


def generator(d: Draw) -> None:
    name = d.fresh("t")
    source = d.name("tensors")
    forms = [f"list(counting(2, {tensor(d, 1)}))[-1]", f"next(counting(1, {tensor(d, 1)}), {tensor(d, 0)})"]
    if source:
        forms += [f"next(iter({source}))", f"sum(map(lambda a: a + 1, {source}), {tensor(d, 0)})",
                  f"max([(index, each) for index, each in enumerate({source})], key=lambda p: p[0])[1]"]  # fmt: skip
    if d.chance(20):
        iterator = d.fresh("g")
        d.line(f"{iterator} = echo({tensor(d, 1)})")
        d.line(f"next({iterator})")
        forms = [f"{iterator}.send({tensor(d, 0)})"]
    d.line(f"{name} = {d.choice(forms)}")
    d.scope.add("tensor", name)


# -- compound ----------------------------------------------------------------------------------------------------


def branch(d: Draw) -> None:
    with d.block(f"if {condition(d)}:"):
        statements(d, 1, 3)
    if d.chance(30):
        with d.block(f"elif {condition(d)}:"):
            statements(d, 1, 2)
    if d.chance(50):
        with d.block("else:"):
            statements(d, 1, 3)


def loop(d: Draw) -> None:
    if d.loops >= 2:
        return branch(d)
    index = d.fresh("i")
    tensors_, ints, table, box = (d.name(kind) for kind in ("tensors", "ints", "table", "box"))
    forms: list[tuple[str, tuple[tuple[str, str], ...]]] = [
        (f"{index} in range({d.number(0, 3)})", (("int", index),)),
        (f"{index} in range({number(d, 0)} % 4)", (("int", index),)),
        (f"{index} in counting(2, {tensor(d, 1)})", (("tensor", index),)),
        (f"{index} in {d.name('tensor') or 'x'}.expand(3)", ()),
        (f"{index} in {text(d)}[:3]", (("str", index),)),
    ]
    other = d.fresh("t")
    if tensors_:
        forms += [
            (f"{index} in {tensors_}", (("tensor", index),)),
            (f"{index}, {other} in enumerate({tensors_}, 1)", (("int", index), ("tensor", other))),
            (
                f"{other}, {index} in zip({tensors_}, {ints or 'range(2)'})",
                (("int", index), ("tensor", other)),
            ),
            (f"{index} in reversed({tensors_})", (("tensor", index),)),
        ]
    if ints:
        forms += [
            (f"{index} in {ints}", (("int", index),)),
            (f"{index} in list({ints})[:3]", (("int", index),)),
        ]
    if table:
        forms += [
            (f"{index}, {other} in {table}.items()", (("str", index), ("tensor", other))),
            (f"{index} in list({table})", (("str", index),)),
            (f"{other} in {table}.values()", (("tensor", other),)),
        ]
    if box:
        forms.append((f"{index} in {box}", (("int", index),)))
    header, bound = d.choice(forms)
    with d.block(f"for {header}:"):
        for kind, name in bound:
            d.scope.add(kind, name)
        d.loops += 1
        statements(d, 1, 3)
        d.loops -= 1
    if d.chance(15):
        with d.block("else:"):
            statements(d, 1, 1)


def while_(d: Draw) -> None:
    if d.loops >= 2:
        return branch(d)
    name = d.fresh("k")
    d.line(f"{name} = {d.number(0, 3)}")
    with d.block(f"while {name} > 0 and {condition(d)}:"):
        d.line(f"{name} -= 1")
        d.loops += 1
        statements(d, 1, 3)
        d.loops -= 1
    if d.chance(15):
        with d.block("else:"):
            statements(d, 1, 1)


def try_(d: Draw) -> None:
    d.tries += 1
    with d.block("try:"):
        statements(d, 1, 3)
        if d.chance(60):
            throw(d)
    d.tries -= 1
    handlers = 0
    if d.chance(85):
        handlers = d.number(1, 2)
        kinds = ("Problem", "Other", "(ValueError, KeyError)", "Exception", "(IndexError, LookupError)")
        for _ in range(handlers):
            error = d.fresh("e")
            with d.block(f"except {d.choice(kinds)} as {error}:"):
                if d.chance(30):
                    d.line(
                        f"LOG.append({d.choice(('type({}).__name__', 'str({})', '{}', '{}.__context__'))})".format(
                            error
                        )
                    )
                statements(d, 1, 2)
                if d.chance(15):
                    d.line(
                        d.choice(("raise", f"raise Problem('again') from {error}", "raise KeyError('new')"))
                    )
        if d.chance(20):
            with d.block("else:"):
                statements(d, 1, 2)
    if not handlers or d.chance(30):
        with d.block("finally:"):
            statements(d, 1, 2)


def with_(d: Draw) -> None:
    box = d.name("box")
    name = d.fresh("s")
    forms = ["torch.no_grad()", "contextlib.suppress(KeyError, Problem)", f"noting(LOG, {text(d)}) as {name}",
             "contextlib.nullcontext()"]  # fmt: skip
    if box:
        forms += [f"{box}", f"{box} as {d.fresh('b')}, torch.no_grad()"]
    if d.has_breaks:
        pausing = d.fresh("p")
        forms += [f"Pausing({tensor(d, 0)})", f"Pausing({tensor(d, 0)}) as {pausing}, torch.no_grad()"]
    with d.block(f"with {d.choice(forms)}:"):
        statements(d, 1, 3)
        if d.chance(25):
            throw(d)


def function(d: Draw) -> None:
    """A closure, which may write variables of the function around it."""
    if d.scope.is_nested:
        return lambda_(d)
    name = d.fresh("f")
    parameter = d.fresh("a")
    if d.chance(15):
        d.line("@twice")
    written = {kind: d.own(kind) for kind in ("tensor", "int") if d.chance(40)}
    is_generator = d.chance(25)
    loops, d.loops = d.loops, 0
    d.line(f"def {name}({parameter}, *more, scale={number(d, 0)}):")
    outer, d.scope = d.scope, Scope(d.scope)
    d.indent += 1
    d.depth += 1
    for kind, variable in written.items():
        if variable and variable.isidentifier():
            d.line(f"{'global' if variable == 'COUNT' else 'nonlocal'} {variable}")
            d.scope.add(kind, variable)
    d.scope.add("tensor", parameter)
    if is_generator:
        _yields(d)
    else:
        statements(d, 1, 4)
        d.line(f"return {tensor(d, 1)} * scale")
    d.indent -= 1
    d.depth -= 1
    d.scope, d.loops = outer, loops
    if is_generator:
        iterator = d.fresh("q")
        d.line(f"{iterator} = {name}({tensor(d, 1)})")
        d.scope.add("iterator", iterator)
    else:
        d.scope.add("function", name)


def _yields(d: Draw) -> None:
    statements(d, 0, 1)
    kind = d.number(0, 3)
    if kind == 0:
        d.line(f"yield {tensor(d, 1)}")
        statements(d, 1, 2)
        d.line(f"yield {number(d, 1)}")
    elif kind == 1:
        with d.block(f"for each in {d.name('ints') or 'range(3)'}:"):
            d.loops += 1
            statements(d, 0, 2)
            d.line(f"yield each, {tensor(d, 1)}")
            d.loops -= 1
    elif kind == 2:
        with d.block("try:"):
            d.line(f"yield {tensor(d, 1)}")
            statements(d, 1, 2)
            d.line(f"yield {tensor(d, 0)}")
        with d.block(d.choice(("finally:", "except Problem:"))):
            statements(d, 1, 2)
    else:
        got = d.fresh("t")
        d.line(f"{got} = (yield {tensor(d, 1)}) or {tensor(d, 0)}")
        d.scope.add("tensor", got)
        d.line(f"yield from counting(2, {got})")


def idiom(d: Draw) -> None:
    snippet(d, statements)


def recursion(d: Draw) -> None:
    if d.scope.is_nested or d.loops:
        return lambda_(d)
    name = d.fresh("f")
    d.line(f"def {name}(a, k={d.number(0, 3)}):")
    outer, d.scope = d.scope, Scope(d.scope)
    d.indent += 1
    d.depth += 1
    d.scope.add("tensor", "a")
    d.scope.add("int", "k")
    d.line("if k <= 0 or k > 4: return a")
    statements(d, 0, 2)
    d.line(f"return {name}({tensor(d, 1)}, min(k, 4) - 1) + {tensor(d, 0)}")
    d.indent -= 1
    d.depth -= 1
    d.scope = outer
    d.scope.add("function", name)


def class_(d: Draw) -> None:
    """A subclass of `Box` that overrides a method or two."""
    if d.scope.is_nested or d.loops or not d.has_breaks:  # a class in a frame breaks the graph
        return assign_container(d)
    name = d.fresh("C")
    base = d.choice(("Box", "Crate"))
    x = tensor(d, 1)
    d.line(f"class {name}({base}):")
    d.indent += 1
    outer, d.scope = d.scope, Scope(d.scope)
    d.depth += 1
    method, argument = d.choice(
        (("__call__", "x"), ("__add__", "x"), ("grow", "by"), ("__len__", ""), ("total", ""))
    )
    if method == "total":
        d.line("@property")
    d.line(f"def {method}(self{', ' + argument if argument else ''}):")
    d.indent += 1
    d.scope.add("box", "self")
    if argument == "x":
        d.scope.add("tensor", "x")
    # Not what it stands for itself, which would never end.
    d.line("self.count += 1")
    if method in ("__call__", "total"):
        d.line(f"return self.value * 2 + {d.number(0, 3)}")
    elif method == "__len__":
        d.line("return super().__len__() + 1")
    elif method == "grow":
        d.line("super().grow(3)")
        d.line("return self")
    else:
        d.line("return super().__add__(x * 2)")
    d.indent -= 2
    d.depth -= 1
    d.scope = outer
    variable = d.fresh("b")
    d.line(f"{variable} = {name}({x}, {number(d, 0)}, [1])")
    d.scope.add("box", variable)


def match_(d: Draw) -> None:
    subject = d.choice((number(d, 1), text(d), f"({number(d, 0)}, {number(d, 0)})", d.name("ints") or "3"))
    first, second = d.fresh("m"), d.fresh("m")
    cases = ("0 | 1", "'a'", f"({first}, {second})", f"[{first}, *_]", "int()", f"str() as {first}")
    d.line(f"match {subject}:")
    d.indent += 1
    for _ in range(d.number(1, 2)):
        guard = f" if {boolean(d)}" if d.chance(20) else ""
        with d.block(f"case {d.choice(cases)}{guard}:"):
            statements(d, 1, 2)
    with d.block("case _:"):
        statements(d, 1, 2)
    d.indent -= 1


_SIMPLE: tuple[Callable[[Draw], None], ...] = (
    assign_tensor, assign_tensor, assign_int, assign_str, assign_container, alias, copied, augment, in_place,
    change_list, change_list, change_table, change_set, change_object, change_object, unpack, swap, lambda_,
    global_state, check, throw, leave, interrupt, interrupt, generator, advance, advance, delete,
)  # fmt: skip
_COMPOUND = (
    branch,
    branch,
    loop,
    loop,
    loop,
    while_,
    try_,
    try_,
    with_,
    function,
    function,
    recursion,
    class_,
    match_,
)
_IDIOMS = (idiom,) * 12
_ALL = (*_SIMPLE, *_COMPOUND, *_IDIOMS)
