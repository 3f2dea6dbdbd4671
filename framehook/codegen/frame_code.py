"""The generated function: graph call, side effects, then the result or the way to the resume function.

def original_name(slot0, slot1, ..., inputs):
    extras = the tail of inputs             # objects that are needed again
    g0, g1, ... = graph(inputs)
    side effects
    return result                            # whole frame
    -- or, at a graph break --
    locals and stack as they were; the breaking instruction, natively;
    return make_continuation(resume code, locals..., stack...)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import CodeType
from typing import Any

import torch

from framehook import _C
from framehook.bytecode.assemble import CodeBuilder
from framehook.bytecode.resume import is_resume_code, native_parameters
from framehook.codegen.aliasing import guard_aliasing
from framehook.codegen.break_point import BreakPoint, LeftFrame, make_pieces, stage, stage_calls
from framehook.codegen.effects import replay
from framehook.codegen.emitter import CycleFound, Emitter, NotRebuildable, class_source
from framehook.source import LocalSource, ObjectSource, Source
from framehook.trace.abandoned import abandoned
from framehook.trace.capture import Capture, GraphBreak, Unsupported
from framehook.trace.number_bounds import ANY, Bounds
from framehook.trace.session import Stop
from framehook.values.frame_classes import FrameClassValue
from framehook.values.numbers import is_deferred
from framehook.values.tensor import TensorValue

INPUTS = ".inputs"


class Plan:
    """What a capture's code needs: the graph's outputs, and objects from outside beyond the graph's inputs."""

    __slots__ = ("capture", "extras", "looked_up", "outputs")

    def __init__(self, capture: Capture, outputs: list[TensorValue], extras: list[Source]) -> None:
        self.capture = capture
        self.outputs = outputs
        self.extras = extras
        #: What the frame looked up without using it: the entry fits only if it is there.
        self.looked_up: list[Source] = [
            value.source
            for value in capture.looked_up
            if value.actual is None and not isinstance(value.source, LocalSource | ObjectSource)
        ]

    def sources(self) -> list[Source]:
        """What the guard program hands over: the graph's inputs, then the extras."""
        return [each.source for each in self.capture.inputs] + self.extras


def plan(capture: Capture) -> Plan:
    """Decide the graph's outputs and close the graph; `capture.graph` and `capture.inputs` are final then.

    Raises:
        NotRebuildable: when the frame's state cannot be rebuilt.
    """
    generator = abandoned(capture.births)
    if generator is not None:
        raise NotRebuildable(
            "a generator that is left in its middle has to be closed when it is dropped", generator
        )
    while True:
        capture.numbers = list(capture.builder.numbers.values())
        writer = _Writer(capture, None, [], [])
        try:
            writer.write()
            break
        except CycleFound as found:
            capture.cyclic.append(found.value)
    emitter = writer.emitter
    outputs = list(emitter.outputs.values())
    mutated = capture.builder.mutates_inputs()
    guard_aliasing(capture, mutated)
    capture.mutates_inputs = bool(mutated)
    graph = capture.builder.finish(outputs)
    capture.operations = capture.builder.count()
    capture.inputs = capture.builder.inputs
    capture.numbers = list(capture.builder.numbers.values())
    if capture.operations or outputs:
        capture.graph = graph
    return Plan(capture, outputs, list(emitter.extras))


def emit(planned: Plan, run_graph: Any) -> CodeType:
    """Write the code; `run_graph` takes the list of inputs and returns the outputs (None: no graph)."""
    writer = _Writer(planned.capture, run_graph, planned.outputs, planned.extras)
    writer.write()
    return writer.builder.build()


def earlier_stop(capture: Capture, error: NotRebuildable) -> Stop:
    """Where a trace must stop so that a value that cannot be rebuilt is made by the native instruction.

    Raises:
        Unsupported: when there is no such place.
    """
    stop = capture.graph_break
    if stop is None:
        reason = GraphBreak("rebuild", str(error), "", (capture.frame.where(),))
    elif isinstance(error.value, FrameClassValue):
        reason = GraphBreak("class_body", f"{error}; {stop.reason}", "", stop.frames)
    else:
        reason = GraphBreak(stop.kind, f"{stop.reason}; {error}", stop.hint, stop.frames)
    frames = capture.frames
    birth = capture.births.get(id(error.value))
    if birth is not None:
        step = birth[1]
    elif len(frames) > 1:
        step = frames[-2].step  # the frame above calls it natively
    else:
        raise Unsupported(reason)
    if frames and step >= frames[-1].step:
        raise Unsupported(reason)
    return Stop(step, reason)


def _within(bounds: Sequence[tuple[int, Bounds]]) -> Any:
    """What raises for inputs with a number outside of its bounds, as a graph does before it has changed anything."""

    def check(inputs: list[Any]) -> tuple[()]:
        for place, each in bounds:
            if not each.hold(inputs[place]):
                raise OverflowError(f"the graph does not take the number {inputs[place]}")
        return ()

    return _C.GraphCallable(check, True, False, "numbers")


class _Writer:
    """Writes one generated function."""

    def __init__(
        self, capture: Capture, run_graph: Any, outputs: Sequence[TensorValue], extras: Sequence[Source]
    ) -> None:
        code = capture.record.code
        self.capture = capture
        self.code = code
        self.run_graph = run_graph
        self.slots = code.co_varnames[: len(capture.record.slots)]
        self.builder = CodeBuilder(code, (*self.slots, INPUTS), free=code.co_freevars)
        self.emitter = Emitter(capture, self.builder)
        for value in outputs:
            self.emitter.outputs[id(value)] = value
        for position, source in enumerate(extras):
            self.emitter.extras[source] = position
        self.outputs = outputs
        self.extras = extras

    def write(self) -> None:
        """Emit everything."""
        builder, capture = self.builder, self.capture
        builder.set_line(self.code.co_firstlineno)
        builder.begin()
        for template in capture.templates.values():
            # Guards look at them: they live as long as this code.
            builder.load_const(template.fn)
            builder.pop_top()
        self._take_inputs()
        for number in capture.risky:
            if is_deferred(number):
                self.emitter.emit(number)
                builder.pop_top()
        self._run_graph()
        if capture.frame.inst.line is not None:
            builder.set_line(capture.frame.inst.line)
        for value in capture.cyclic:
            self.emitter.emit(value)
            builder.pop_top()
        for effect in capture.effects:
            replay(self.emitter, effect)
        if capture.result is not None:
            self.emitter.emit(capture.result)
            self._change_state()
            builder.return_value()
        else:
            self._break()

    def _take_inputs(self) -> None:
        """Move the extras from the end of the list of inputs into variables."""
        builder = self.builder
        for position in reversed(range(len(self.extras))):
            self.emitter.begin_method(functools.partial(builder.load_fast, INPUTS), "pop")
            builder.call(0)
            builder.store_fast(f".x{position}")

    def _run_graph(self) -> None:
        builder = self.builder
        numbers = [each.value for each in self.capture.numbers]
        if self.run_graph is None:
            for value in numbers:  # the first pass finds what they are made of
                self.emitter.emit(value)
                builder.pop_top()
            builder.delete_fast(INPUTS)
            return
        if numbers:
            builder.load_fast(INPUTS)
            for value in numbers:
                self.emitter.emit(value)
                builder.emit("LIST_APPEND", 1)
            builder.pop_top()
            self._check_numbers()
        builder.begin_call(lambda: builder.load_const(self.run_graph))
        builder.take_fast(INPUTS)
        builder.call(1)
        if self.outputs:
            builder.unpack_sequence(len(self.outputs))
            for position in range(len(self.outputs)):
                builder.store_fast(f".g{position}")
            for position, value in enumerate(self.outputs):
                if value.subclass is not None:
                    self._make_member(position, value.subclass)
        else:
            builder.pop_top()

    def _check_numbers(self) -> None:
        """Run the frame eagerly for numbers that the graph cannot be run with."""
        numbers = self.capture.numbers
        bounds = [(at - len(numbers), each.bounds) for at, each in enumerate(numbers) if each.bounds != ANY]
        if bounds:
            self.emitter.call(_within(bounds), functools.partial(self.builder.load_fast, INPUTS))
            self.builder.pop_top()

    def _make_member(self, position: int, cls: type) -> None:
        """Give an output of the graph the class that eager's result has."""
        builder, emitter = self.builder, self.emitter
        emitter.call(
            torch.Tensor.as_subclass,
            lambda: builder.load_fast(f".g{position}"),
            lambda: emitter.emit_source(class_source(emitter, cls)),
        )
        builder.store_fast(f".g{position}")

    def _change_state(self) -> None:
        """Make changes of torch's state real."""
        for setter, args in self.capture.state:
            self.emitter.call(setter, *(self.emitter.const(arg) for arg in args))
            self.builder.pop_top()

    # -- at a graph break ------------------------------------------------------------------------------
    def _break(self) -> None:
        builder, emitter = self.builder, self.emitter
        frames = self.capture.frames
        native = native_parameters(self.code)
        loops = self.capture.tracer.loops_left
        left = [
            LeftFrame(frames[: number + 1], native, each is frames[-1], loops)
            for number, each in enumerate(frames)
        ]
        root = left[0]
        pieces, exits = make_pieces(left)
        moves = stage(emitter, root)
        stage_calls(emitter, left, pieces)
        for name in list(emitter.hidden):
            builder.delete_fast(name)
        for position in range(len(self.extras)):
            builder.delete_fast(f".x{position}")
        for position in range(len(self.outputs)):
            builder.delete_fast(f".g{position}")
        for staged, name in moves:
            builder.take_fast(staged)
            builder.store_fast(name)
        for name in self.slots:
            if name not in root.bound:
                builder.delete_fast(name)
        self._change_state()
        if is_resume_code(self.code):
            emitter.call(_C.drop_arguments)
            builder.pop_top()
        BreakPoint(builder, root, exits, is_root=True).run()
