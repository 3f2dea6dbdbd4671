"""Which of CPython's own test modules must not notice framehook, and the few tests that are left out, with reasons."""

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

#: Those that the test suite runs; they take seconds each.
IN_SUITE = (
    "test_generator_stop", "test_raise", "test_bool", "test_slice", "test_unpack", "test_unpack_ex", "test_extcall",
    "test_keywordonlyarg", "test_super", "test_property", "test_class", "test_with", "test_operator", "test_iterlen",
    "test_patma", "test_scope",
)  # fmt: skip

#: Frames that have to be traced whole, of all in all modules together.
LEAST_SHARE = 0.6

_COUNTS_OBJECTS = (
    "compares how many objects the garbage collector knows before and after a loop, and compiling what the loop calls "
    "makes some"
)
_LIMIT_OF_RECURSION = (
    "asks what the frame that met the recursion limit keeps alive; calls that were inlined have no frames of their own, "
    "so another one meets it"
)
_LOOKS_AT_FRAMES = "looks at variables of a frame of a traceback that are not used any more"
_LOOKS_AT_LAST_LINE = (
    "looks at the line that a frame of a traceback was left at, which is not the one that raised"
)

#: Tests that are left out, by their id from the module on, and why.
EXCEPTIONS: dict[str, str] = {
    "test_descr.ClassPropertiesAndMethods.test_slots": _COUNTS_OBJECTS,
    "test_exceptions.ExceptionTests.test_recursion_error_cleanup": _LIMIT_OF_RECURSION,
    "test_exceptions.PEP626Tests.test_lineno_after_other_except": _LOOKS_AT_LAST_LINE,
    "test_exceptions.PEP626Tests.test_lineno_in_try": _LOOKS_AT_LAST_LINE,
    "test_traceback.MiscTracebackCases.test_clear": _LOOKS_AT_FRAMES,
    "test_traceback.TestStack.test_format_locals": _LOOKS_AT_FRAMES,
    "test_traceback.TestTracebackException.test_print": _LOOKS_AT_FRAMES,
}


def is_left_out(test: str) -> bool:
    """Whether a test is left out; `test` is its id."""
    return test.removeprefix("test.") in EXCEPTIONS
