"""Deep recursion under the hook ends in a result or RecursionError, never in a crash."""

from __future__ import annotations

import pytest

from tests.native.capturing import run_script

SETUP = """
import threading
sys.setrecursionlimit(60_000)
handle = _C.Handle()
def outcome(call):
    try:
        return call()
    except RecursionError:
        return "RecursionError"
def plain(n):
    return 0 if n == 0 else 1 + plain(n - 1)
"""

CASES = {
    "under the hook": """
token = _C.enter_capture(handle)
print(outcome(lambda: plain(50_000)))
_C.exit_capture(token)
""",
    "with a miss in every frame": """
_C.set_miss_callback(lambda handle, record: None)
token = _C.enter_capture(handle)
print(outcome(lambda: plain(50_000)))
_C.exit_capture(token)
""",
    "with a hit in every frame": """
def generated(n):
    return 0 if n == 0 else 1 + plain(n - 1)
_C.add_entry(handle, plain.__code__, _C.Entry(None, generated.__code__))
token = _C.enter_capture(handle)
print(outcome(lambda: plain(50_000)))
_C.exit_capture(token)
""",
    "through a compiled function": """
def body(n):
    return 0 if n == 0 else 1 + compiled(n - 1)
compiled = _C.CompiledCallable(handle, body)
print(outcome(lambda: compiled(50_000)))
""",
    "through a whole entry": """
def body(n):
    return 0 if n == 0 else 1 + compiled(n - 1)
def generated(n):
    return 0 if n == 0 else 1 + compiled(n - 1)
compiled = _C.CompiledCallable(handle, body)
_C.add_entry(handle, body.__code__, _C.Entry(None, generated.__code__, is_whole=True))
print(outcome(lambda: compiled(50_000)))
""",
    "while another thread needs the hook": """
ready, go = threading.Event(), threading.Event()
def holds():
    token = _C.enter_capture(handle)
    ready.set()
    go.wait()
    _C.exit_capture(token)
thread = threading.Thread(target=holds)
thread.start()
ready.wait()
token = _C.enter_capture(handle)
print(outcome(lambda: plain(50_000)))
_C.exit_capture(token)
go.set()
thread.join()
""",
    "through generators": """
def numbers(n):
    if n:
        yield from numbers(n - 1)
    yield n
token = _C.enter_capture(handle)
print(outcome(lambda: sum(numbers(3_000))) in ("RecursionError", 3_000 * 3_001 // 2))
def chained(n):
    return (x for x in chained(n - 1)) if n else iter([1])
print(outcome(lambda: list(chained(20_000))))
_C.exit_capture(token)
""",
    "on a thread with a small stack": """
threading.stack_size(512 * 1024)
def work():
    token = _C.enter_capture(handle)
    results.append(outcome(lambda: plain(50_000)))
    _C.exit_capture(token)
results = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(results)
""",
    "in special methods": """
class Node:
    def __init__(self, child): self.child = child
    def __repr__(self): return f"Node({self.child!r})"
def build(n):
    node = None
    for _ in range(n): node = Node(node)
    return node
# 3.11 has no limit of its own for recursion in C: twice as deep, it crashes without framehook too.
node = build(10_000 if sys.version_info < (3, 12) else 50_000)
token = _C.enter_capture(handle)
print(len(outcome(lambda: repr(node))) > 0)
while node is not None: node = node.child
_C.exit_capture(token)
""",
    "again and again": """
token = _C.enter_capture(handle)
for _ in range(5):
    outcome(lambda: plain(50_000))
    print(plain(10))
_C.exit_capture(token)
print(plain(10), _C.is_hook_installed())
""",
}


@pytest.mark.parametrize("name", CASES)
def test_deep_recursion_never_crashes(name):
    assert run_script(SETUP + CASES[name])


def test_deep_recursion_has_a_result_where_eager_has_one():
    """When the C stack runs low the hook steps aside and CPython inlines calls again."""
    assert run_script(SETUP + CASES["under the hook"]).split() == ["50000"]
    assert run_script(SETUP + CASES["with a hit in every frame"]).split() == ["50000"]


def test_the_users_recursion_limit_holds_under_the_hook():
    script = """
def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
def start():
    return depth()
expected = start()
token = _C.enter_capture(_C.Handle())
got = start()
_C.exit_capture(token)
print(expected, got)
"""
    expected, got = map(int, run_script(script).split())
    assert abs(got - expected) <= 2
