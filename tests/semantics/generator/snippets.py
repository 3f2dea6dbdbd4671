"""Idioms of several lines, with places in them that are filled at random.

`{x}` is a tensor, `{i}` an integer, `{c}` a condition, `{s}` a string, `{xs}`, `{ints}`, `{table}`, `{box}` variables,
`{1}`, `{2}`, … new names; a line `BODY` stands for some statements.  After a colon, what a name is a variable of.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.semantics.generator.expressions import condition, number, tensor, text
from tests.semantics.generator.scope import Draw

_SNIPPETS: tuple[tuple[str, str], ...] = (
    ("1:tensor", """
{1} = {x}
try:
    BODY
    {1} = {x} * 2
finally:
    {1} = {1} + 1
    BODY
"""),
    ("", """
for {2} in range({k}):
    try:
        BODY
        if {c}: continue
        if {c}: break
    finally:
        LOG.append({2})
        BODY
else:
    BODY
"""),
    ("1:function", """
def {1}(a, *, b={i}):
    try:
        BODY
        if {c}: return a * b
        raise KeyError({s})
    except LookupError as error:
        BODY
        return a + len(str(error))
    finally:
        LOG.append(b)
        BODY
"""),
    ("1:tensors", """
{2} = [lambda a, k=k: a * k + len(LOG) for k in range({k})]
{1} = [each({x}) for each in {2}]
"""),
    ("1:tensors", """
{2} = []
for {3} in range({k}):
    def {4}(a):
        return a * {3} + {i}
    {2}.append({4})
    BODY
{1} = [each({x}) for each in {2}]
"""),
    ("1:function", """
{2} = {i}
def {1}(a):
    nonlocal {2}
    {2} += 1
    def inner(b):
        nonlocal {2}
        {2} = ({2} * 2) % 7
        BODY
        return b + {2}
    return inner(a) * {2}
"""),
    ("", """
try:
    with {box} as {1}:
        BODY
        raise Other({i})
    LOG.append('after')
except Problem as {2}:
    LOG.append({2})
    BODY
"""),
    ("", """
with contextlib.ExitStack() as {1}:
    {1}.enter_context(noting(LOG, {s}))
    {1}.callback(LOG.append, {i})
    BODY
"""),
    ("", """
with contextlib.suppress(Problem, LookupError), noting(LOG, {s}):
    BODY
    if {c}: raise Problem({s})
    BODY
"""),
    ("", """
try:
    try:
        BODY
        raise Problem({s})
    except Problem as {1}:
        BODY
        raise KeyError({i}) from {1}
    finally:
        BODY
except KeyError as {2}:
    LOG.append({2}.__cause__)
    LOG.append({2}.__context__ is {2}.__cause__)
"""),
    ("", """
try:
    for {1} in {table}:
        BODY
        if len({table}) < 5: {table}[{1} + 'x'] = {x}
except RuntimeError as {2}:
    LOG.append(str({2}))
"""),
    ("", """
for {1} in {ints}:
    if len({ints}) < 6: {ints}.append({i})
    elif {c}: {ints}.pop(0)
    BODY
    if len(LOG) > 20: break
    LOG.append({1})
"""),
    ("1:tensor", """
{1} = {x}
{2} = {1}[1:]
{2} += {i}
BODY
{2}.mul_({1}[0])
{1}[:1] = {2}[:1]
"""),
    ("1:tensor,2:tensor", """
{1} = {x} * 1
{2} = {1}.view(3)
BODY
{1}.add_({i})
LOG.append({2})
"""),
    ("", """
{xs}[0] += {i}
BODY
{xs}[-1] *= 2
"""),
    ("", """
{table}['a'] -= {x}
{table}.get('b', {x}).add_({i})
BODY
"""),
    ("", """
{box}.value -= {x}
{box}.items[0:1] += [{i}]
{box}.items = {box}.items[-4:]
BODY
{box}.count ^= {i}
"""),
    ("1:tensor", """
{2} = Pair({x}, {i})
{2}.rest.append({2}.left * 2)
{3} = dataclasses.replace({2}, left={x})
LOG.append({3})
LOG.append({2} is {3} or {3}.rest is {2}.rest)
{1} = {3}.left + {2}.right
"""),
    ("1:tensor", """
{2} = Slotted({x})
{2}.count = {i}
BODY
{1} = {2}.value * {2}.count
LOG.append(hasattr({2}, 'missing'))
LOG.append({2})
"""),
    ("1:tensor", """
{2} = Lazy({x})
LOG.append({2}.cached)
BODY
{1} = {2}.cached + {2}.described
{2}.described = {i}
LOG.append(vars({2}))
"""),
    ("1:tensor", """
{2} = Point({x}, {i})
{3}, {4} = {2}
LOG.append({2}._replace(n={4} + 1))
{1} = {2}.value * {2}[1]
"""),
    ("1:int", """
{2} = {s}
{1} = len(f'{{{2}!r:>8}}|{{{i}:+d}}') + {2}.startswith('a')
LOG.append('-'.join([{2}, str({i}), *{2}[:2]]).split('-'))
"""),
    ("1:tensor", """
{2} = {xs}[:]
{2}.sort(key=lambda each: each.numel())
{1} = torch.cat([{x}.reshape(-1), *[each.reshape(-1) for each in {2}]])[:3]
"""),
    ("1:table", """
{2} = Counter({s})
{2}.update('ab')
LOG.append({2}.most_common(2))
{1} = {{key: {x} * count for key, count in {2}.items()}}
"""),
    ("1:tensor", """
{2} = defaultdict(list)
for {3} in range({k}):
    {2}[{3} % 2].append({x})
    BODY
{1} = sum([sum(each) for each in {2}.values()], {x})
LOG.append({2})
"""),
    ("1:tensor", """
{2} = (lambda f: f(f, {k}))(lambda f, n: {x} if n <= 0 else f(f, n - 1) * 2)
{1} = {2}
"""),
    ("", """
{1} = iter({xs})
for {2} in {1}:
    BODY
    {3} = next({1}, None)
    LOG.append({3} is {2})
LOG.append(next({1}, 'done'))
"""),
    ("1:tensor", """
def {2}(a):
    try:
        b = yield a * 2
        LOG.append(b)
        BODY
        yield a + {i}
    except Problem as error:
        LOG.append(str(error))
        yield a - 1
    finally:
        LOG.append('closed')
{3} = {2}({x})
{1} = next({3})
BODY
{1} = {1} + {3}.send({i})
{3}.close()
"""),
    ("1:tensor", """
def {2}(a):
    total = a
    while True:
        try:
            got = yield total
            BODY
        except Problem:
            total = total * 2
        else:
            total = total + (1 if got is None else got)
{3} = {2}({x})
{1} = next({3})
{1} = {3}.throw(Problem('in')) + {3}.send({i})
LOG.append({3}.gi_running)
"""),
    ("1:tensor", """
match {ints}:
    case [{2}, *{3}] if {c}:
        {1} = {x} * {2}
        BODY
    case []:
        {1} = {x}
    case _:
        {1} = {x} + 1
        BODY
"""),
    ("1:tensor", """
match {box}:
    case Crate(count={2}, value={1}):
        BODY
    case Box(items=[{2}, *_], value={1}):
        BODY
    case _:
        {1} = {x}
"""),
    ("", """
LOG.append(({i} if {c} else {s}, {c}))
LOG.append([each for each in {table}] + [*{table}.values()][:1])
"""),
    ("", """
{x}.mark = {i}
BODY
"""),
    ("1:tensor", """
{1} = {x}.clone()
with torch.no_grad():
    {1}.copy_({x})
    BODY
    {1}[{k} % 3] = {i}
"""),
    ("1:tensor", """
{1} = torch.empty(3)
torch.add({x}, {i}, out={1})
BODY
"""),
    ("1:function", """
class {2}:
    def __init__(self, scale): self.scale = scale
    def __get__(self, owner, kind=None):
        return lambda a: a * self.scale
    def __call__(self, a):
        BODY
        return a + self.scale
{1} = {2}({i})
"""),
    ("1:function", """
{1} = functools.partial(mixed, by={i}, flip={c})
{2} = functools.wraps({1})(lambda a: a)
LOG.append({1}.keywords)
"""),
    ("", """
{1} = {ints}
{1} += [{i}]
{2} = {1} = {1}[-5:]
LOG.append({1} is {2})
BODY
"""),
    ("", """
LOG.append([(a, b) for a in range({k}) if a != {i} for b in ('p', {s})])
LOG.append({{a: b for b, a in enumerate({s})}})
"""),
    ("1:box", """
{1} = copy.deepcopy({box})
{1}.items.append({i})
{2} = copy.copy({box})
LOG.append({2}.items is {box}.items)
BODY
"""),
    ("", """
{1} = weakref.ref({box})
LOG.append({1}() is {box})
BODY
"""),
)  # fmt: skip

_HOLE = re.compile(r"\{(\w+)\}")


def snippet(d: Draw, statements: Callable[[Draw, int, int], None]) -> None:
    """Write one of them."""
    bound, template = d.choice(_SNIPPETS)
    if "nonlocal" in template and d.scope.is_nested or "for " in template and d.loops >= 2:
        return
    if "class " in template and not d.has_breaks:
        return
    names: dict[str, str] = {}
    kinds = dict(each.split(":") for each in bound.split(",") if each)

    def fill(match: re.Match[str]) -> str:
        hole = match[1]
        if hole.isdigit():
            return names.setdefault(hole, d.fresh("v"))
        if hole in _WRITERS:
            return _WRITERS[hole](d)
        kind, default = _VARIABLES[hole]
        return d.name(kind) or default

    base, loops, tries = d.indent, d.loops, d.tries
    kept = d.scope.saved()
    depth = d.depth
    d.depth += 2
    lines = template.strip("\n").split("\n")
    for position, line in enumerate(lines):
        stripped = line.lstrip()
        d.indent = base + (len(line) - len(stripped)) // 4
        if stripped == "BODY":
            d.loops = _loops_around(lines, position, loops)
            before = len(d.lines)
            statements(d, 0, 2)
            d.scope.variables = {kind: list(each) for kind, each in kept.items()}
            if len(d.lines) == before:
                d.line("pass")
        else:
            doubled = stripped.replace("{{", "\0").replace("}}", "\1")
            d.line(_HOLE.sub(fill, doubled).replace("\0", "{").replace("\1", "}"))
    d.indent, d.loops, d.tries, d.depth = base, loops, tries, depth
    for number_, kind in kinds.items():
        d.scope.add(kind, names[number_])


def _loops_around(lines: list[str], position: int, outside: int) -> int:
    """How many loops there are around a line of a snippet in its function."""
    indent = len(lines[position]) - len(lines[position].lstrip())
    found = 0
    for line in reversed(lines[:position]):
        stripped = line.lstrip()
        if len(line) - len(stripped) < indent:
            indent = len(line) - len(stripped)
            if stripped.startswith("def "):
                return found
            found += stripped.startswith(("for ", "while "))
    return found + outside


_WRITERS: dict[str, Callable[[Draw], str]] = {
    "x": lambda d: tensor(d, 1),
    "i": lambda d: number(d, 1),
    "k": lambda d: str(d.number(0, 3)),
    "c": lambda d: condition(d),
    "s": text,
}
_VARIABLES = {
    "xs": ("tensors", "[torch.ones(3)]"),
    "ints": ("ints", "[1, 2]"),
    "table": ("table", "{'a': torch.ones(3)}"),
    "box": ("box", "Box(torch.ones(3), 1)"),
}
