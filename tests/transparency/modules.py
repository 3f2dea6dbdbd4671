"""Which of CPython's own test modules must not notice framehook, and the few tests that may, each with its reason."""

from __future__ import annotations

MODULES = (
    "test_grammar", "test_generators", "test_generator_stop", "test_contextlib", "test_exceptions", "test_raise",
    "test_with", "test_dict", "test_list", "test_set", "test_tuple", "test_deque", "test_ordered_dict",
    "test_collections", "test_functools", "test_itertools", "test_operator", "test_iter", "test_iterlen",
    "test_slice", "test_sort", "test_enum", "test_dataclasses", "test_descr", "test_property", "test_super",
    "test_class", "test_scope", "test_closures", "test_unpack", "test_unpack_ex", "test_extcall",
    "test_keywordonlyarg", "test_named_expressions", "test_patma", "test_fstring", "test_string", "test_int",
    "test_float", "test_math", "test_bool", "test_copy", "test_weakref", "test_typing", "test_types",
    "test_traceback", "test_inspect",
)  # fmt: skip

#: Test ids (or the beginning of several) that may end otherwise, and why.
EXCEPTIONS: dict[str, str] = {}


def reason_for(test: str) -> str:
    """Why a test may end otherwise under capture; empty if it may not."""
    return next((reason for start, reason in EXCEPTIONS.items() if test.startswith(start)), "")
