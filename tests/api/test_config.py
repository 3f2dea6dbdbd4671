"""Defaults, the environment, and options that a handle fixes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import framehook
from framehook.config import CompileOptions, Config


def test_patch_sets_and_puts_back() -> None:
    before = framehook.config.min_graph_ops
    with framehook.config.patch(min_graph_ops=7, evict_after=3) as patched:
        assert patched is framehook.config
        assert (framehook.config.min_graph_ops, framehook.config.evict_after) == (7, 3)
    assert framehook.config.min_graph_ops == before


def test_patch_puts_back_after_an_exception() -> None:
    before = framehook.config.evict_after
    with pytest.raises(KeyError), framehook.config.patch(evict_after=1):
        raise KeyError
    assert framehook.config.evict_after == before


def test_patch_is_a_decorator() -> None:
    @framehook.config.patch(min_graph_ops=5)
    def look() -> int:
        return framehook.config.min_graph_ops

    assert look() == 5
    assert framehook.config.min_graph_ops != 5


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"no_such_field": 1}, AttributeError),
        ({"evict_after": "many"}, TypeError),
        ({"evict_after": True}, TypeError),
        ({"evict_after": -1}, ValueError),
        ({"min_graph_ops": 2, "no_such_field": 1}, AttributeError),
    ],
)
def test_bad_fields_and_values_are_refused(changes: dict[str, object], error: type[Exception]) -> None:
    before = framehook.config.min_graph_ops
    with pytest.raises(error), framehook.config.patch(**changes):
        pass
    assert framehook.config.min_graph_ops == before


def test_environment_sets_every_field() -> None:
    config = Config()
    config.load(
        {
            "FRAMEHOOK_DISABLE": "yes",
            "FRAMEHOOK_MIN_GRAPH_OPS": "3",
            "FRAMEHOOK_RAISE_INTERNAL_ERRORS": "0",
            "FRAMEHOOK_LOGS": "graph,guards",
        }
    )
    assert (config.disable, config.min_graph_ops, config.raise_internal_errors) == (True, 3, False)
    assert config.logs == "graph,guards"


@pytest.mark.parametrize(("name", "text"), [("DISABLE", "maybe"), ("EVICT_AFTER", "1e3")])
def test_environment_errors_name_the_variable(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"FRAMEHOOK_{name}"):
        Config().load({f"FRAMEHOOK_{name}": text})


def test_environment_is_read_at_import() -> None:
    program = "import framehook; print(framehook.config.evict_after)"
    environment = {**os.environ, "FRAMEHOOK_EVICT_AFTER": "17"}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert found.stdout.strip() == "17", found.stderr


def test_options_are_fixed_when_the_handle_is_made() -> None:
    given = {"a": 1}
    with framehook.config.patch(min_graph_ops=4):
        options = CompileOptions(options=given)
    given["a"] = 2
    assert options.min_graph_ops == 4
    assert options.options == {"a": 1}


def test_disable_in_config_returns_what_it_was_given() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with framehook.config.patch(disable=True):
        assert framehook.compile(fn) is fn
    assert framehook.compile(fn, disable=True) is fn
