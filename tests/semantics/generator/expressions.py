"""Expressions by the kind of their value."""

from __future__ import annotations

from tests.semantics.generator.scope import Draw

_UNARY = (
    "-{}",
    "{}.sin()",
    "torch.relu({})",
    "{}.tanh()",
    "torch.abs({})",
    "{}.clone()",
    "{}.flip(0)",
    "{}.detach()",
)
_BINARY = ("{} + {}", "{} * {}", "{} - {}", "torch.maximum({}, {})", "torch.add({}, {}, alpha=2)")
_COMPARISONS = ("<", ">=", "==", "!=")
_KEYS = ("'a'", "'b'", "'c'")


def tensor(d: Draw, depth: int = 2) -> str:
    """A tensor of three numbers, or one that broadcasts with them."""
    name = d.name("tensor") or "torch.ones(3)"
    if depth <= 0:
        return name
    if d.has_breaks and d.chance(6):
        forms = ("outside({x})", "pausing({x})", "(print({i}), {x})[1]", "[*map(pausing, ({x}, {x}))][1]",
                 "max(({x}, {x}), key=weight)", "Pausing({x}).value", "next(pauses({x}))", "sum(pauses({x}), {x})")  # fmt: skip
        return d.choice(forms).format(x=tensor(d, depth - 1), i=number(d, 0))
    form = d.number(0, 23)
    if form <= 1:
        return name
    if form <= 4:
        return "(" + d.choice(_BINARY).format(tensor(d, depth - 1), tensor(d, depth - 1)) + ")"
    if form <= 6:
        return f"({tensor(d, depth - 1)} {d.choice(('+', '*', '-'))} {number(d, 1)})"
    if form <= 8:
        return "(" + d.choice(_UNARY).format(tensor(d, depth - 1)) + ")"
    if form == 9:
        return f"{name}.sum()"
    if form == 10:
        return f"{name}[{d.choice((0, 1, -1))}]"
    if form == 11:
        return f"({tensor(d, depth - 1)} if {condition(d)} else {tensor(d, depth - 1)})"
    if form == 12:
        found = d.name("tensors")
        return f"{found}[{d.choice((0, -1, 1))}]" if found else name
    if form == 13:
        found = d.name("table")
        key = d.choice(_KEYS)
        return d.choice((f"{found}.get({key}, {name})", f"{found}[{key}]")) if found else name
    if form == 14:
        found = d.name("box")
        forms = ("{}.value", "{}.total", "{}[1]", "({} + 1).value", "{}.doubled", "{}.grow().value", "{}({x})",
                 "(2 + {}).value", "getattr({}, 'value')", "{}.twice({x})")  # fmt: skip
        return d.choice(forms).format(found, x=name) if found else name
    if form == 15:
        found = d.name("function")
        return f"{found}({tensor(d, depth - 1)})" if found else name
    if form == 16:
        forms = (
            f"mixed({name})",
            f"mixed({name}, {number(d, 0)})",
            f"mixed({name}, 2, {name}, flip={boolean(d)})",
            f"mixed({name}, a={tensor(d, 0)}, b={name})",
            f"mixed(*({name}, 3, {tensor(d, 0)}), **{{'c': {name}}})",
        )
        return d.choice(forms)
    if form == 17:
        return f"sum(counting({d.number(0, 3)}, {name}), {tensor(d, depth - 1)})"
    if form == 18:
        found = d.name("tensors")
        return f"sum([each * 2 for each in {found}], {name})" if found else name
    if form == 19:
        return f"({d.fresh('w')} := {tensor(d, depth - 1)})"
    if form == 20:
        return f"torch.stack([{name}, {name}]).sum(0)"
    if form == 21:
        return f"torch.where({name} > 0, {name}, {tensor(d, 0)})"
    if form == 22:
        return f"(lambda a, b={number(d, 0)}: a * b)({tensor(d, depth - 1)})"
    if d.helpers:
        return f"{d.choice(d.helpers)}({tensor(d, depth - 1)}, {number(d, 0)})"
    return name


def number(d: Draw, depth: int = 2) -> str:
    """A small integer."""
    name = d.name("int")
    if d.has_breaks and d.chance(4):
        return d.choice(
            (f"int({tensor(d, 0)}.sum().item())", "random.randint(0, 3)", f"int({tensor(d, 0)}.max())")
        )
    form = d.number(0, 16) if depth > 0 else d.number(0, 2)
    if form == 0 or (form <= 3 and name is None):
        return str(d.number(0, 4))
    if form <= 3:
        return str(name)
    if form <= 6:
        return f"({number(d, depth - 1)} {d.choice(('+', '-', '*'))} {number(d, depth - 1)})"
    if form == 7:
        return f"({number(d, depth - 1)} {d.choice(('//', '%'))} {number(d, depth - 1)})"
    if form == 8:
        container = d.name(d.choice(("ints", "tensors", "table", "set", "deque", "box", "str")))
        return f"len({container})" if container else "1"
    if form == 9:
        found = d.name("ints")
        return f"{found}[{d.choice((0, -1, 1))}]" if found else "2"
    if form == 10:
        found = d.name("ints") or "()"
        return d.choice((f"sum({found})", f"max({found}, default=1)", f"min([3, *{found}])"))
    if form == 11:
        return f"{d.name('tensor') or 'torch.ones(3)'}.{d.choice(('dim()', 'numel()', 'ndim'))}"
    if form == 12:
        found = d.name("box")
        return f"{found}.count" if found else "3"
    if form == 13:
        found = d.name("str")
        return d.choice((f"len({found})", f"{found}.count('a')", f"{found}.find('b')")) if found else "0"
    if form == 14:
        found = d.name("deque") or d.name("ints")
        return f"sum(each + 1 for each in {found} if each != {number(d, 0)})" if found else "5"
    if form == 15:
        found = d.name("ints")
        return f"len([a for a in itertools.chain({found}, (1, 2)) if a > 1])" if found else "1"
    return f"int({boolean(d)})"


def text(d: Draw) -> str:
    """A string."""
    name = d.name("str")
    form = d.number(0, 7)
    if form == 0 or name is None and form in (1, 2, 3):
        return d.choice(("'a'", "'b'", "'ab'", "''"))
    if form == 1:
        return str(name)
    if form == 2:
        return f"({name} + {d.choice(_KEYS)})"
    if form == 3:
        return f"{name}.{d.choice(('upper()', 'strip()', 'title()'))}"
    if form == 4:
        return f'f"{{{number(d, 1)}}}-{{{number(d, 0)}:02d}}"'
    if form == 5:
        return f"f'{{{d.name('tensor') or 1}.shape}}'" if d.name("tensor") else "'s'"
    if form == 6:
        return f"str({number(d, 1)})"
    return f"'%s,%d' % ({d.choice(_KEYS)}, {number(d, 0)})"


def boolean(d: Draw) -> str:
    """A condition that no tensor's data decides."""
    form = d.number(0, 10)
    if form <= 1:
        return f"{number(d, 1)} {d.choice(_COMPARISONS)} {number(d, 0)}"
    if form == 2:
        return f"{d.number(0, 2)} < {number(d, 0)} <= {d.number(2, 5)}"
    if form == 3:
        container = d.name(d.choice(("ints", "set", "deque", "box")))
        return f"{number(d, 0)} {d.choice(('in', 'not in'))} {container}" if container else "True"
    if form == 4:
        left, right = d.name("tensors") or d.name("tensor"), d.name("tensors") or d.name("tensor")
        return f"{left} {d.choice(('is', 'is not'))} {right}" if left and right else "False"
    if form == 5:
        container = d.name(d.choice(("ints", "tensors", "table", "box", "str", "deque")))
        return d.choice((f"bool({container})", f"not {container}")) if container else "True"
    if form == 6:
        return f"({boolean(d)} {d.choice(('and', 'or'))} {boolean(d)})"
    if form == 7:
        found = d.name("box")
        return f"isinstance({found}, {d.choice(('Box', 'Crate', '(int, Crate)'))})" if found else "True"
    if form == 8:
        found = d.name("table")
        return f"{d.choice(_KEYS)} in {found}" if found else "False"
    if form == 9:
        found = d.name("ints")
        return f"{d.choice(('any', 'all'))}(each > 1 for each in {found})" if found else "True"
    return f"{d.name('tensor') or 'torch.ones(3)'}.shape[-1:] == (3,)"


def condition(d: Draw) -> str:
    """A condition, on data where breaks may be."""
    if not d.has_breaks or not d.chance(25):
        return boolean(d)
    x = tensor(d, 1)
    return d.choice(
        (f"{x}.sum() > 0", f"bool(({x} > 0).any())", f"{x}.mean().item() > 0.1", f"{x}.max() < 1")
    )


def key(d: Draw) -> str:
    """A key of a table."""
    return d.choice(_KEYS)
