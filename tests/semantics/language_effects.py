"""Small programs that reach outside: output, logging, warnings, randomness, time, the environment, numpy, weak references."""

from __future__ import annotations

import io
import logging
import os
import random
import sys
import time
import warnings
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.semantics.language_table import program, tensors

LOG = logging.getLogger("tests.language_effects")
LOG.setLevel(logging.INFO)
LOG.propagate = False


class Sink(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.funcName} {record.getMessage()}")


class Held:
    def __init__(self, value: Any) -> None:
        self.value = value


COUNTS = {"calls": 0}
CALLS: list[Any] = []
TOTAL = 0


def logger_with(sink: Sink) -> logging.Logger:
    logger = logging.Logger("own", logging.INFO)
    logger.addHandler(sink)
    return logger


def numpy_arguments() -> tuple[Any, ...]:
    return (*tensors(), np.arange(4, dtype=np.float32))


@program(graphs=2, peer=2, reason="print() writes to the outside")
def printing_between_operations(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    print("shape", z.shape, sep=":", end="!\n")
    return z * 2


@program(graphs=3, peer=3, reason="print() writes to the outside")
def printing_a_tensor(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    print(z)
    print("done", y.sum().item() > 0)
    return z * y


@program(graphs=3, peer=0, reason="print() writes to the outside")
def printing_in_a_loop(x: Tensor, y: Tensor) -> Any:
    for step in range(2):
        x = x * (step + 2)
        print(f"step {step}")
    return x + 1


@program(graphs=2, peer=2, reason="an object of class StringIO, which has __del__, is made")
def printing_into_a_file(x: Tensor, y: Tensor) -> Any:
    file = io.StringIO()
    z = x + 1
    print("a", 1, file=file)
    return z * 2, file.getvalue()


@program(graphs=2, peer=2, reason="write() of an object of class StringIO is C code that is not modelled")
def writing_to_standard_output(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    sys.stdout.write("text\n")
    return z * 2


@program(arguments=lambda: (*tensors(), logger_with(Sink())), graphs=2, peer=2, reason="a message is logged")
def logging_between_operations(x: Tensor, y: Tensor, logger: logging.Logger) -> Any:
    z = x + 1
    logger.info("shape %s", tuple(z.shape))
    return z * 2


@program(peer=2)
def logging_below_the_level(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    if LOG.isEnabledFor(logging.DEBUG):
        LOG.debug("values %s", z)
    return z * 2


@program(graphs=2, peer=0, reason="warnings.catch_warnings.__init__() is not traced")
def warning_between_operations(x: Tensor, y: Tensor) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        z = x + 1
        warnings.warn("careful", UserWarning, stacklevel=1)
        z = z * 2
    return z, [str(each.message) for each in caught]


@program(reason="print() writes to the outside")
def order_of_output_is_kept(x: Tensor, y: Tensor) -> Any:
    print("first")
    z = x + 1
    sys.stdout.write("second\n")
    print("third")
    return z


@program(graphs=2, peer=2, reason="Random.random() is C code that is not known to be an operation")
def numbers_by_chance(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    number = random.random()
    return z * number, random.randint(1, 5)


@program(reason="class Random is instantiated by C code")
def chance_of_a_generator_of_its_own(x: Tensor, y: Tensor) -> Any:
    chance = random.Random(3)
    values = [1, 2, 3]
    chance.shuffle(values)
    return x + 1, values, chance.random()


@program(graphs=2, peer=2, reason="random.Random.shuffle() is not traced")
def shuffling_by_chance(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    values = [1, 2, 3, 4]
    random.shuffle(values)
    return z * values[0], random.choice(values), random.sample(values, 2)


@program(
    graphs=2, peer=2, reason="an object of class cython_function_or_method is called: its __call__ is C code"
)
def numbers_by_chance_of_numpy(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    number = np.random.rand()
    return z * float(number)


@program
def chance_of_torch(x: Tensor, y: Tensor) -> Any:
    return x + torch.rand(3, 4), torch.randn_like(y), torch.randint(0, 5, (2,)), torch.randperm(3)


@program(graphs=2, peer=2, reason="torch.random.manual_seed() is not traced")
def seeding_torch(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    torch.manual_seed(5)
    return z + torch.rand(3, 4)


@program(reason="time.perf_counter() is C code that is not known to be an operation")
def the_time(x: Tensor, y: Tensor) -> Any:
    start = time.perf_counter()
    z = x + 1
    return z * 2, time.perf_counter() >= start


@program
def the_environment(x: Tensor, y: Tensor) -> Any:
    scale = int(os.environ.get("TESTS_SCALE_THAT_NOBODY_SETS", "3"))
    return (
        x * scale,
        "TESTS_SCALE_THAT_NOBODY_SETS" in os.environ,
        os.getenv("TESTS_SCALE_THAT_NOBODY_SETS") is None,
    )


@program(graphs=2, peer=2, reason="posix.putenv() is C code that is not known to be an operation")
def a_store_to_the_environment(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    os.environ["TESTS_LANGUAGE_EFFECTS"] = "5"
    found = int(os.environ.pop("TESTS_LANGUAGE_EFFECTS"))
    return z * found


@program
def facts_of_the_platform(x: Tensor, y: Tensor) -> Any:
    return sys.version_info >= (3, 11), sys.maxsize > 0, sys.byteorder, os.sep, sys.platform == "win32", x + 1


@program
def globals_are_changed(x: Tensor, y: Tensor) -> Any:
    global TOTAL
    TOTAL = x.dim()
    COUNTS["calls"] = y.dim()
    CALLS.append(1)
    CALLS.clear()
    return x + TOTAL, COUNTS["calls"]


@program(
    arguments=numpy_arguments, graphs=2, reason="an object of class ndarray is handed to a tensor operation"
)
def an_array_into_a_tensor(x: Tensor, y: Tensor, array: Any) -> Any:
    return torch.from_numpy(array) + y, torch.as_tensor(array) * 2, torch.tensor(array)


@program(graphs=2, reason="tensor.numpy() needs the values of the tensor")
def a_tensor_into_an_array(x: Tensor, y: Tensor) -> Any:
    array = (x + 1).numpy()
    return array.shape, torch.from_numpy(array) * 2


@program(graphs=1, peer=2, reason="an object of class ufunc is called: its __call__ is C code")
def numbers_of_numpy(x: Tensor, y: Tensor) -> Any:
    return x * float(np.sqrt(4.0)), np.pi, int(np.prod([2, 3])), np.float32(1.5) + 1


@program(arguments=numpy_arguments, reason="__mul__ of an object of class ndarray is served by C code")
def arithmetic_of_arrays(x: Tensor, y: Tensor, array: Any) -> Any:
    doubled = array * 2 + 1
    return doubled, doubled.sum(), x + 1


@program
def weak_references(x: Tensor, y: Tensor) -> Any:
    held = Held(x)
    reference = weakref.ref(held)
    alive = reference() is held
    return alive, reference().value + 1  # type: ignore[union-attr]


@program(
    arguments=lambda: (*tensors(), Held(3)),
    in_all=4,
    reason="weakref.WeakValueDictionary.__init__() is not traced",
)
def weak_references_to_what_the_caller_has(x: Tensor, y: Tensor, held: Held) -> Any:
    reference = weakref.ref(held)
    table = weakref.WeakValueDictionary({"a": held})
    return x * reference().value, table["a"] is held  # type: ignore[union-attr]


@program(arguments=lambda: (*tensors(), Held(3)), reason="weakref.WeakKeyDictionary.__init__() is not traced")
def weak_keys(x: Tensor, y: Tensor, held: Held) -> Any:
    table: Any = weakref.WeakKeyDictionary()
    table[held] = 2
    return x * table[held], len(table), held in table


@program(graphs=2, reason="weakref.finalize.__init__() is not traced")
def an_object_dies(x: Tensor, y: Tensor) -> Any:
    gone = []
    held = Held(1)
    weakref.finalize(held, gone.append, "gone")
    z = x + 1
    del held
    return z * 2, gone


@program(graphs=2, reason="io.open() is C code that is not known to be an operation")
def reading_a_file(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    with open(__file__) as file:
        line = file.readline()
    return z * 2, line[:3]


@program(graphs=2, peer=2, reason="tensor.item() needs the values of the tensor")
def numbers_out_of_tensors(x: Tensor, y: Tensor) -> Any:
    z = x + 1
    number = z.sum().item()
    return z * number, y.tolist()
