"""Small programs about strings, formatting, and regular expressions of constants."""

from __future__ import annotations

import json
import re
import string
import textwrap
from typing import Any

from torch import Tensor

from tests.semantics.language_lists import failures
from tests.semantics.language_table import program, tensors


class Label(str):
    """A string with a method."""

    __slots__ = ()

    def loud(self) -> str:
        return self.upper() + "!"


class Shown:
    """What is shown in three ways."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"<{self.name}>"

    def __repr__(self) -> str:
        return f"Shown({self.name!r})"

    def __format__(self, spec: str) -> str:
        return f"{self.name}:{spec}"


@program
def case_and_tests_of_strings(x: Tensor, y: Tensor) -> Any:
    word = "hello World"
    return (
        word.upper(),
        word.lower(),
        word.title(),
        word.capitalize(),
        word.swapcase(),
        "ß".casefold(),
        word.isalpha(),
        "12".isdigit(),
        "a1".isalnum(),
        " ".isspace(),
        "A".isupper(),
        "a".islower(),
        "Ab".istitle(),
        "x1".isidentifier(),
        "½".isnumeric(),
        "1".isdecimal(),
        "\n".isprintable(),
        "é".isascii(),
        x + 1,
    )


@program
def searching_strings(x: Tensor, y: Tensor) -> Any:
    word = "banana"
    return (
        word.find("an"),
        word.find("an", 2),
        word.rfind("an"),
        word.find("z"),
        word.index("n"),
        word.rindex("a"),
        word.count("an"),
        word.startswith("ba"),
        word.startswith(("x", "b")),
        word.endswith("na", 2),
        "nan" in word,
        failures(lambda: word.index("z")),
        x + 1,
    )


@program
def cutting_strings(x: Tensor, y: Tensor) -> Any:
    return (
        "a,b,,c".split(","),
        " a  b ".split(),
        "a b c".split(None, 1),
        "a b c".rsplit(" ", 1),
        "a\nb\r\nc".splitlines(),
        "a\nb".splitlines(True),
        "k=v=w".partition("="),
        "k=v=w".rpartition("="),
        " a ".strip(),
        "xxaxx".lstrip("x"),
        "xxaxx".rstrip("x"),
        "prefix_a".removeprefix("prefix_"),
        "a.py".removesuffix(".py"),
        failures(lambda: "a".split("")),
        x + 1,
    )


@program(peer=0)
def building_strings(x: Tensor, y: Tensor) -> Any:
    parts = ["a", "b"]
    return (
        "-".join(parts),
        "".join(c for c in "abc" if c != "b"),
        "a" * 3,
        "a" + "b",
        "ab".replace("a", "c"),
        "aaa".replace("a", "b", 2),
        "a".center(5, "*"),
        "a".ljust(3) + "|",
        "a".rjust(3),
        "-5".zfill(4),
        "a\tb".expandtabs(4),
        "abc".translate(str.maketrans("ab", "xy", "c")),
        "%".join({"k": 1}),
        failures(lambda: "".join([1]), lambda: "a" + 1),
        x + 1,
    )  # type: ignore


@program
def strings_as_sequences(x: Tensor, y: Tensor) -> Any:
    word = "hello"
    first, *rest = word
    return (
        word[0],
        word[-1],
        word[1:3],
        word[::-1],
        len(word),
        list(word),
        first,
        rest,
        "a" < "b",
        max(word),
        sorted(word),
        [c + "!" for c in "ab"],
        dict.fromkeys(word),
        failures(lambda: word[9], lambda: word["a"], lambda: word.nope),
        x + 1,
    )  # type: ignore


@program
def encoding_strings(x: Tensor, y: Tensor) -> Any:
    return (
        "é".encode(),
        "é".encode("latin-1"),
        b"\xc3\xa9".decode(),
        "é".encode("ascii", "replace"),
        str(b"a", "ascii"),
        "a".encode().hex(),
        ascii("é"),
        x + 1,
    )


@program
def format_strings(x: Tensor, y: Tensor) -> Any:
    value, width = 3.14159, 8
    return (
        f"{value:.2f}",
        f"{value:{width}.1f}|",
        f"{x.shape}",
        f"{x.shape[0]}x{x.size(1)}",
        f"{value!r}",
        f"{'a':>3}{1:03d}",
        f"{[1, 2]}",
        f"{ {'a': 1} }",
        f"{x.dtype}",
        f"{1 == 1}",
        f"{None}",
        f"{value=:.1f}",
        f"{(1, 'a')}",
        "{}",
        f"{x.dim()!s:^5}",
        f"{x.device}",
        f"{type(x).__name__}",
        x + 1,
    )


@program(peer=0)
def the_format_method(x: Tensor, y: Tensor) -> Any:
    return (
        "{} {}".format(1, "a"),
        "{1}{0}".format("a", "b"),
        "{a:>4}".format(a=1),
        "{0[1]} {1.shape}".format([1, 2], x),
        "{:.{}f}".format(2.5, 2),
        "{!r:>5}".format("a"),
        "{x[k]}".format(x={"k": 1}),
        "{:,}".format(10000),
        "{a}".format_map({"a": 2}),
        failures(lambda: "{}".format(), lambda: "{a}".format(), lambda: "{:d}".format("a")),  # noqa: F524
        x + 1,
    )  # noqa: UP030, UP032


@program
def percent_formatting(x: Tensor, y: Tensor) -> Any:
    return (
        "%d %s" % (1, "a"),
        "%5.2f|%-4d|%+d" % (1.5, 2, 3),
        "%s" % (x.shape,),
        "%r" % "a",
        "%x %o %e %c %%" % (255, 8, 1.5, "z"),
        "%(a)s" % {"a": 1},
        "%s" % [1, 2],
        "%s" % None,
        "%s has %s" % (x.dtype, list(x.shape)),
        failures(lambda: "%d" % "a", lambda: "%s %s" % (1,), lambda: "%s" % (1, 2)),  # noqa: F507
        x + 1,
    )  # type: ignore  # noqa: UP031


@program(peer=0)
def showing_objects(x: Tensor, y: Tensor) -> Any:
    shown = Shown("n")
    return (
        str(shown),
        repr(shown),
        f"{shown}",
        f"{shown:spec}",
        f"{shown!r}",
        f"{shown!s:>6}",
        "{}".format(shown),
        "{0.name}".format(shown),
        "%s %r" % (shown, shown),
        str([shown]),
        f"{[shown, 'a']}",
        f"{ {'k': shown} }",
        f"{(shown,)}",
        ", ".join(map(str, [shown, 1])),
        x + 1,
    )  # noqa: UP030, UP032, UP031


@program
def a_subclass_of_str(x: Tensor, y: Tensor) -> Any:
    label = Label("abc")
    return (
        label.loud(),
        label == "abc",
        len(label),
        label[0],
        label + "d",
        isinstance(label, str),
        {label: 1}["abc"],
        x + 1,
    )


@program(arguments=lambda: (*tensors(), "mean", "linear_1.weight"))
def strings_decide(x: Tensor, y: Tensor, mode: str, path: str) -> Any:
    reduce = {"sum": x.sum, "mean": x.mean}[mode]
    owner, _, name = path.rpartition(".")
    stem, number = owner.split("_")
    return (
        reduce() * int(number),
        f"{mode}_{name}",
        stem.capitalize(),
        mode.startswith("me"),
        getattr(x, mode)(dim=0),
    )


@program
def names_of_layers(x: Tensor, y: Tensor) -> Any:
    names = [f"layer{i}.{kind}" for i in range(2) for kind in ("weight", "bias")]
    state = {name: x + i for i, name in enumerate(names)}
    picked = {name.split(".")[0] for name in state if name.endswith("weight")}
    return (
        sorted(picked),
        {name.replace("layer", "block"): value.shape for name, value in state.items()},
        state["layer1.bias"],
    )


@program
def regular_expressions(x: Tensor, y: Tensor) -> Any:
    found = re.match(r"(\w+)_(\d+)", "layer_12")
    assert found is not None
    return (
        found.group(1),
        found.groups(),
        found[2],
        found.start(),
        re.sub(r"\d", "#", "a1b2"),
        re.findall(r"[a-c]", "abcd"),
        re.split(r",\s*", "a, b,c"),
        re.fullmatch(r"a+", "b"),
        bool(re.search("b", "abc")),
        re.escape("a.b"),
        re.sub("a", lambda m: m[0].upper(), "banana"),
        x + 1,
    )


@program(peer=0)
def a_compiled_pattern(x: Tensor, y: Tensor) -> Any:
    pattern = re.compile(r"(?P<name>[a-z]+)(?P<number>\d+)", re.IGNORECASE)
    found = pattern.match("Ab12")
    assert found is not None
    return (
        found.groupdict(),
        found.group("number"),
        pattern.pattern,
        pattern.sub("-", "a1 b2"),
        [m.group() for m in pattern.finditer("a1 b2")],
        x * int(found["number"]),
    )


PATTERN = re.compile(r"layers\.(\d+)\.")


@program(graphs=0, peer=0, reason="a match of a pattern is a new object in every call")
def a_match_is_returned(x: Tensor, y: Tensor) -> Any:
    found = PATTERN.search("layers.1.weight")
    return found.group() if found else "", [found], x + 1


@program
def a_pattern_of_the_module(x: Tensor, y: Tensor) -> Any:
    found = PATTERN.search("model.layers.3.weight")
    return x * int(found.group(1)) if found else x, PATTERN.sub("h.", "layers.1.a")


@program
def json_of_constants(x: Tensor, y: Tensor) -> Any:
    return (
        json.dumps({"a": [1, None, True], "b": "x"}),
        json.loads('{"a": [1, 2.5, null]}'),
        json.dumps([1], indent=2),
        json.dumps({"b": 1, "a": 2}, sort_keys=True),
        x + 1,
    )


@program
def texts_are_wrapped(x: Tensor, y: Tensor) -> Any:
    return (
        textwrap.dedent("  a\n  b"),
        textwrap.indent("a\nb", "> "),
        textwrap.fill("aa bb cc", 5),
        textwrap.shorten("a b c d", 5, placeholder=""),
        x + 1,
    )


@program(peer=0)
def templates_and_constants_of_string(x: Tensor, y: Tensor) -> Any:
    return (
        string.ascii_lowercase[:3],
        string.digits,
        string.capwords("a b"),
        string.Template("$a-${b}").substitute(a=1, b=2),
        x + 1,
    )


@program
def a_message_about_tensors(x: Tensor, y: Tensor) -> Any:
    if x.shape[-1] != y.shape[0] + 1:
        lines = [f"{name}: {tuple(t.shape)} {t.dtype}" for name, t in (("x", x), ("y", y))]
        message = "shapes do not fit\n" + "\n".join(lines)
    return message, message.count("\n"), x + len(message)


@program
def texts_that_grow(x: Tensor, y: Tensor) -> Any:
    text = ""
    for number, letter in enumerate("abc"):
        text += letter * number
        text = text + f"{number}"
    return text, text[-1:], x + len(text)
