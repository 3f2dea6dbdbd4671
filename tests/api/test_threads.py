"""Threads: two handles never see each other's entries, one compile at a time, everybody gets eager's result."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

import framehook
from framehook.testing import CompileCounter


def work(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def test_two_handles_in_two_threads_are_strangers() -> None:
    counters = [CompileCounter(), CompileCounter()]
    compiled = [framehook.compile(work, backend=counter, dynamic=False) for counter in counters]
    barrier = threading.Barrier(2)

    def run(index: int) -> None:
        for size in range(1, 6):
            x = torch.full((size,), float(index))
            barrier.wait()
            # Whoever finds the other compiling runs eagerly, and compiles at a later call.
            deadline = time.monotonic() + 60
            while len(compiled[index].entries()) < size and time.monotonic() < deadline:
                assert torch.equal(compiled[index](x), work(x))
            assert torch.equal(compiled[index](x), work(x))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, [0, 1]))
    for index in (0, 1):
        assert len(compiled[index].entries()) == counters[index].frame_count == 5
    assert not set(map(id, compiled[0].entries())) & set(map(id, compiled[1].entries()))


def test_while_one_thread_compiles_others_run_eagerly() -> None:
    started, go_on = threading.Event(), threading.Event()
    backends_running = 0
    most_running = 0

    def slow(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        nonlocal backends_running, most_running
        backends_running += 1
        most_running = max(most_running, backends_running)
        started.set()
        assert go_on.wait(20)
        backends_running -= 1
        return gm.forward

    compiled = framehook.compile(work, backend=slow)
    x = torch.ones(3)
    first = threading.Thread(target=compiled, args=(x,))
    first.start()
    assert started.wait(20)
    begin = time.monotonic()
    other = framehook.compile(work, backend=slow)
    for _ in range(10):
        assert torch.equal(compiled(x), work(x))
        assert torch.equal(other(x), work(x))
    assert time.monotonic() - begin < 10
    go_on.set()
    first.join()
    assert most_running == 1
    assert torch.equal(compiled(x), work(x))
    assert len(compiled.entries()) == 1


def test_many_threads_one_function() -> None:
    counter = CompileCounter()
    compiled = framehook.compile(work, backend=counter, dynamic=False)

    def run(seed: int) -> None:
        for step in range(50):
            x = torch.ones(1 + (seed + step) % 4)
            assert torch.equal(compiled(x), work(x))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(8)))
    run(0)
    assert counter.frame_count == 4


def test_guards_are_checked_while_another_thread_changes_what_they_read() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4, bias=False)
            self.mode = "plain"
            self.options = {"sign": 1}

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            return -y if self.mode == "negated" else y * self.options["sign"]

    model, done = Scaled(), threading.Event()
    compiled = framehook.compile(model, backend="eager")
    x = torch.ones(2, 4)
    outcomes = [model(x), -model(x)]

    def change() -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            model.mode = ("plain", "negated")[turn % 2]
            model.options = {"sign": (-1, 1)[turn % 2]}
            model.__dict__[f"other{turn % 50}"] = turn
            model.__dict__.pop(f"other{(turn + 25) % 50}", None)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(3000):
            result = compiled(x)
            assert any(torch.equal(result, outcome) for outcome in outcomes)
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    model.mode, model.options = "plain", {"sign": 1}
    assert torch.equal(compiled(x), outcomes[0])
