"""The tracer: a symbolic interpreter of CPython bytecode, and all that values may ask of it."""

from __future__ import annotations

import builtins
import copy
import enum
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from framehook import torch_compat, torch_state
from framehook.bytecode.decode import decode
from framehook.bytecode.opcodes import SEND_KEEPS_RECEIVER
from framehook.bytecode.resume import (
    changing_parameters,
    entry_index,
    has_original,
    is_resume_code,
    layout_of,
    native_parameters,
    origin,
    original_index,
)
from framehook.bytecode.stack import LoopOver, StackItem
from framehook.guards.guard import Check, Guard, GuardSet
from framehook.source import BuiltinsSource, ClosureSource, GlobalsSource, LocalSource, ObjectSource, Source
from framehook.trace import (
    builtin_rules,
    c_calls,
    calls,
    copying,
    distribution_rules,
    functools_rules,
    library_rules,
    loops,
    operators,
    optimizer_rules,
    places,
    rules,
    torch_rules,
    transforms,
)
from framehook.trace.budget import Budget
from framehook.trace.classes import ClassLookup, construct
from framehook.trace.frame import Frame, PreviousException, RaisedAt, StopHere, TracebackValue
from framehook.trace.graph import GraphBuilder
from framehook.trace.handlers import HANDLERS
from framehook.trace.number_policy import NumberPolicy
from framehook.trace.wrap import make_cell, wrap
from framehook.values.base import (
    NULL,
    BreakGraph,
    ChangingNumber,
    ConstantValue,
    LazyValue,
    MethodOfConstant,
    ObservedException,
    Value,
    defines,
    fold,
    is_constant,
)
from framehook.values.classes import CallableValue, ClassValue, ModuleObjectValue
from framehook.values.endings import check_let_go
from framehook.values.exceptions import ExceptionValue, native_exception
from framehook.values.frame_classes import FrameClassValue
from framehook.values.functions import (
    BoundMethodValue,
    CellValue,
    FunctionValue,
    GeneratorValue,
    GlobalsView,
    NestedFunctionValue,
)
from framehook.values.graph_functions import GraphFunction
from framehook.values.iterators import ConstantIterator
from framehook.values.mappings import DictValue
from framehook.values.numbers import DeferredNumber
from framehook.values.objects import ObjectValue
from framehook.values.sequences import ListValue, SliceValue, TupleValue, drain
from framehook.values.sets import SetValue
from framehook.values.tensor import TensorValue
from framehook.values.wording import type_name

rules.rule(copy.copy)(copying.shallow_copy)
rules.rule(copy.deepcopy)(copying.deepcopy)
for _target, _rule in library_rules.TABLE.items():
    rules.rule(_target)(_rule)

#: Instructions between two looks at the budget.
_STEPS_BETWEEN_CHECKS = 1_000
#: Depth of inlined calls after which a call is left native.
MAX_DEPTH = 120


def _nothing_is_handled() -> bool:
    return sys.exc_info()[1] is None


def original_unit(code: types.CodeType, index: int) -> int:
    """Code unit of an instruction in the code that a resume function continues (or in the code itself)."""
    original, _ = origin(code)
    return decode(original).instructions[original_index(code, index)].offset // 2


class SymbolicTracer:
    """One trace of one frame.  Implements the protocol `values.base.Tracer`."""

    def __init__(
        self,
        record: Any,
        options: Any,
        state_snapshot: Any,
        entry_state: torch_state.TorchState,
        budget: Budget,
        numbers: NumberPolicy,
    ) -> None:
        self.record = record
        self.numbers = numbers
        self.risky: list[DeferredNumber] = []
        self.budget = budget
        self.options = options
        self.guards = GuardSet()
        self.builder = GraphBuilder(numbers)
        self.known: dict[int, tuple[Any, Value]] = {}
        self.keep_alive: list[Any] = []
        self.callees: dict[int, calls.Callee] = {}
        #: id of a tuple among the constants of a code object -> its value.
        self.constant_tuples: dict[int, Value] = {}
        self.effects: list[Any] = []
        self.weak_references: dict[int, Value] = {}
        self.has_let_go = False  # of an object from outside
        self.silent: set[int] = set()  # ids of objects whose end nobody sees
        self.steps = 0  # instructions of all frames
        self.stop_at = 0  # the step to stop before
        self.births: dict[int, tuple[Value, int]] = {}
        self.looked_up: list[LazyValue] = []
        self.gradient_guards: dict[int, tuple[Guard, TensorValue]] = {}
        self.entry_state = entry_state
        self.is_autocast_cache_enabled = entry_state.autocast_cache
        self.autocast_nesting = 0
        self.inference_guards: list[Value] = []  # the entered ones, innermost last
        self.depth = -1
        #: Per code object the instructions that were executed, by index.
        self.visited: dict[types.CodeType, bytearray] = {}
        self.ended: list[
            types.CodeType
        ] = []  # the code of each inlined call that came to its end, but generators'
        self.absolute_sources: dict[int, ObjectSource] = {}
        self.templates: dict[int, FrameClassValue] = {}  # of the classes that the frame defines, by id
        self.views: dict[int, GlobalsView] = {}
        #: id of the `__dict__` of an object, a function or a module -> the value whose attributes it holds.
        self.namespaces: dict[int, Value] = {}
        self._classes = ClassLookup(self)
        self.guard(None, Check.STATE, state_snapshot)
        self.loops_left: dict[Any, int] = {}
        self.may_break: Callable[[types.CodeType], bool] = lambda code: True
        self.frame: Frame
        self.root = self._root_frame()

    def begin(self) -> None:
        """Put the root frame's variables in place, and all of a frame that is resumed."""
        frame, record = self.root, self.record
        code = record.code
        if is_resume_code(code):
            if not has_original(code):
                self.graph_break("call", "the code of a function was replaced while the function ran")
            self._resume(frame, 0)
            return
        for slot, obj in enumerate(record.slots):
            name = code.co_varnames[slot]
            frame.locals[name] = self.root_argument(obj, LocalSource(name, slot))

    def _root_frame(self) -> Frame:
        record = self.record
        code = record.code
        builtins_source = BuiltinsSource()
        if record.builtins is builtins.__dict__:
            self.guard(builtins_source, Check.IDENTITY, record.builtins)
            builtins_place: Source = self.absolute(builtins, None).instance_dict()
        else:
            builtins_place = builtins_source
        view = GlobalsView(record.globals, GlobalsSource(), record.builtins, builtins_place)
        self.views[id(record.globals)] = view
        self.frame = frame = Frame(code, view, None)
        for index, cell in enumerate(record.closure or ()):
            frame.closure.append(make_cell(self, cell, ClosureSource(index, code.co_freevars[index])))
        return frame

    def _resume(self, frame: Frame, first: int) -> None:
        """Put the variables and the stack of a resumed frame in place, as the prologue does for real.

        Its parameters begin at slot `first` of the root frame.
        """
        code = frame.code
        layout = layout_of(code)
        root_code = self.record.code
        names = root_code.co_varnames
        slots = self.record.slots
        changing = changing_parameters(root_code)
        native = native_parameters(root_code)
        on_stack: dict[int, Value] = {}
        run_over: dict[int, Value] = {}
        for slot, (kind, key) in enumerate(layout.parameters, first):
            name, obj = names[slot], slots[slot]
            source = LocalSource(name, slot)
            value = self.root_argument(obj, source)
            if (type(obj) is float and name in native) or (type(obj) in (int, float) and name in changing):
                value = ChangingNumber(obj, source)
            if kind == "cell":
                frame.cells[str(key)] = value  # type: ignore[assignment]
            elif kind == "local":
                frame.locals[str(key)] = value
            elif kind == "over":
                run_over[int(key)] = value
            else:
                on_stack[int(key)] = value
        frame.cells.update(zip(code.co_freevars, frame.closure, strict=True))
        for position, item in enumerate(layout.stack):
            if item is StackItem.NULL:
                frame.push(NULL)
                continue
            value = on_stack[position]
            if item is StackItem.EXC:
                frame.handling.append(value)
                value = PreviousException(value)
            elif item is StackItem.LASTI:
                value = RaisedAt(value.realize(self).value)  # type: ignore[attr-defined]
            elif isinstance(item, LoopOver):
                value = loops.resumed_loop(self, frame, item, value, run_over[position])
            frame.push(value)
        frame.index = entry_index(code)
        frame.inst = frame.instructions[frame.index]
        if layout.callee is not None:
            self._resume_callee(frame, layout.callee, first + len(layout.parameters))

    def _resume_callee(self, frame: Frame, code: types.CodeType, slot: int) -> None:
        """Put the frame in place that a resumed frame has called; its function is in `slot`."""
        source = LocalSource(self.record.code.co_varnames[slot], slot)
        function = self.root_argument(self.record.slots[slot], source).realize(self)
        if not isinstance(function, FunctionValue):
            self.graph_break("call", f"{function.describe()} stands for itself and cannot be continued")
        callee = frame.callee = Frame(code, self.globals_of(function.fn, function.source), frame)
        callee.function = function
        callee.is_replaceable = True
        callee.closure = calls.closure_of(self, function.fn, function.source)
        self._resume(callee, slot + 1)

    def root_argument(self, obj: Any, source: LocalSource) -> Value:
        """The value of one argument slot."""
        if type(obj) is types.CellType:
            return make_cell(self, obj, source)
        return LazyValue(obj, source)

    # -- the loop --------------------------------------------------------------------------------
    def run_inner(self, frame: Frame, thrown: Value | None = None) -> Value:
        """Run a frame, the root or an inlined one, until it returns or yields.

        Raises:
            StopHere: at the step where the trace has to stop.
        """
        if self.depth >= MAX_DEPTH:
            self.graph_break("depth", f"calls are nested deeper than {MAX_DEPTH}")
        caller = self.frame
        self.frame = frame
        self.depth += 1
        instructions = frame.instructions
        handlers = HANDLERS
        last_check = self.steps
        visited = self.visited.setdefault(frame.code, bytearray(len(instructions)))
        frame.result = None
        try:
            if thrown is not None and not self.unwind(frame, thrown):
                raise ObservedException(thrown)
            while frame.result is None:
                inst = instructions[frame.index]
                visited[frame.index] = 1
                frame.inst = inst
                frame.step = step = self.steps = self.steps + 1
                if step == self.stop_at:
                    raise StopHere(frame)
                frame.index += 1
                try:
                    if frame.callee is None:
                        handlers[inst.opname](self, frame, inst)
                    else:
                        callee, frame.callee = frame.callee, None
                        frame.stack.append(self.run_inner(callee))
                except ObservedException as observed:
                    if not observed.step:
                        observed.step = step
                    if not self.unwind(frame, observed.value):
                        if frame.caller is not None and not isinstance(observed.value, ExceptionValue):
                            # On its way out, a real exception takes down the frames that it passes.
                            self.graph_break("exception", "an exception from outside leaves a function")
                        raise
                if frame.yielded is not None:
                    return frame.yielded
                if self.steps - last_check > _STEPS_BETWEEN_CHECKS:
                    last_check = self.steps
                    self.budget.check(step, self.builder.operations)
            return frame.result
        except BreakGraph as stop:
            if stop.frames is None:
                stop.frames = self.frames()
                stop.step = places.innermost(frame, self.may_break).step
            raise
        finally:
            self.frame = caller
            self.depth -= 1

    def release(self) -> None:
        """Let go of everything: values and frames refer to each other, and to the call's objects."""
        self.root.release()
        for value, _ in self.births.values():
            if isinstance(value, GeneratorValue):
                value.frame.release()
        self.__dict__.clear()

    def note_birth(self, value: Value) -> Value:
        """Note when a value was made that cannot be rebuilt once it is in use (a generator, `chain`)."""
        self.births[id(value)] = (value, self.frame.step)
        return value

    def forget_birth(self, value: Value) -> None:
        """See the protocol."""
        self.births.pop(id(value), None)

    def unwind(self, frame: Frame, raised: Value) -> bool:
        """Continue at the handler of an exception; False when the frame has none there."""
        region = frame.inst.handler
        if isinstance(raised, ExceptionValue):
            # It has no traceback: where anybody else gets to see it, it has to be raised for real.
            self.births.setdefault(id(raised), (raised, frame.step))
            raised.note_raised(self)
        if region is None:
            return False
        del frame.stack[region.depth :]
        if region.lasti:
            frame.stack.append(RaisedAt(original_unit(frame.code, frame.inst.index)))
        frame.stack.append(raised)
        frame.index = region.target
        return True

    def frames(self) -> list[tuple[types.CodeType, int]]:
        """Code and byte offset of every frame of the trace, outermost first."""
        return [] if self.frame is None else self.frame.places()

    # -- guards and sources ----------------------------------------------------------------------
    def guard(self, source: Source | None, check: Check, constant: Any = None) -> Guard:
        """Add a guard on behalf of the instruction that is being executed."""
        frame = getattr(self, "frame", None)
        if frame is not None:
            self.guards.location = (frame.code, frame.inst.offset)
        return self.guards.add(source, check, constant)

    def absolute(self, obj: Any, via: Source | None) -> ObjectSource:
        """The absolute source of an object whose identity is guarded or cannot change."""
        found = self.absolute_sources.get(id(obj))
        if found is None:
            found = self.absolute_sources[id(obj)] = ObjectSource(obj, via)
            self.keep_alive.append(obj)
        return found

    def wrap(self, obj: object, source: Source) -> Value:
        """See the protocol."""
        return wrap(self, obj, source)

    def lazy(self, obj: object, source: Source | None) -> Value:
        """See the protocol."""
        assert source is not None
        return LazyValue(obj, source)

    def found(self, value: Value) -> Value:
        """See the protocol."""
        if isinstance(value, LazyValue) and value.actual is None and value.source is not None:
            self.looked_up.append(value)
        return value

    def lazy_or_raw(self, raw: object, source: Source) -> Value:
        """The value of a raw class attribute."""
        return LazyValue(raw, source)

    def constant_object(self, obj: object) -> Value:
        """See the protocol."""
        if is_constant(obj):
            return ConstantValue(obj)
        if isinstance(obj, type):
            template = self.templates.get(id(obj))
            return ClassValue(obj, self.absolute(obj, None)) if template is None else template
        if isinstance(obj, enum.Enum):
            return self.wrap(obj, self.absolute(obj, None))
        if isinstance(obj, types.FunctionType):
            return FunctionValue(obj, self.absolute(obj, None))
        return CallableValue(obj, self.absolute(obj, None))

    def add_template(self, made: FrameClassValue) -> FrameClassValue:
        """Note a class that the frame defines."""
        self.templates[id(made.fn)] = made
        self.note_birth(made)
        return made

    def class_value(self, cls: type, owner: Value | None) -> Value:
        """The class of an object whose type is guarded."""
        return self.constant_object(cls)

    def class_attr(self, cls: type, name: str) -> Any:
        """Raw class attribute along the MRO, or MISSING; guarded."""
        return self._classes.raw(cls, name)

    def class_value_attr(self, cls: type, name: str) -> Value:
        """The same as a value."""
        return self._classes.value(cls, name)

    def stored_class_attr(self, cls: type, name: str) -> Value | None:
        """A class attribute along the MRO that the frame has stored, or None."""
        return self._classes.stored(cls, name)

    def store_class_attr(self, cls: type, name: str, value: Value | None) -> None:
        """Store a class attribute; None deletes it."""
        self._classes.store(cls, name, value)

    def forget_class(self, cls: type) -> None:
        """A template was changed while tracing: what was looked up in it does not hold any more."""
        self._classes.forget(cls)

    def super_attr(self, start: type, bases: Sequence[type], owner: type, name: str) -> Value:
        """What `super()` finds."""
        return self._classes.super_value(start, bases, owner, name)

    def globals_of(self, fn: types.FunctionType, source: Source) -> GlobalsView:
        """The globals of a function that exists outside the frame."""
        namespace = fn.__globals__
        function: Any = fn  # typeshed knows `__builtins__` of functions in some releases only
        own_builtins = function.__builtins__
        view = self.views.get(id(namespace))
        if view is None:
            if isinstance(self.known.get(id(namespace), (None, None))[1], DictValue) or not isinstance(
                self.namespaces.get(id(namespace)), ModuleObjectValue | None
            ):
                self.graph_break("container", f"the globals of {fn.__qualname__} are also used as a dict")
            place = source.member("__globals__")
            fn_builtins = own_builtins
            builtins_place: Source = self.absolute(builtins, None).instance_dict()
            if fn_builtins is not builtins.__dict__:
                builtins_place = source.member("__builtins__")
            view = self.views[id(namespace)] = GlobalsView(namespace, place, fn_builtins, builtins_place)
            self.keep_alive.append(namespace)
        if not isinstance(source, ObjectSource):
            # Another function object of the same code may live in another module.
            place = source.member("__globals__")
            if place is not view.source:
                self.guard(place, Check.SAME, view.source)
            self.guard(source.member("__builtins__"), Check.IDENTITY, own_builtins)
        return view

    # -- what values ask -------------------------------------------------------------------------
    def graph_break(self, kind: str, reason: str, hint: str = "") -> NoReturn:
        """See the protocol."""
        raise BreakGraph(kind, reason, hint)

    def throw(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """See the protocol."""
        if native_exception(cls) is not cls:
            self.graph_break("exception", f"{cls.__name__} is raised, which keeps more than its arguments")
        values = [arg if isinstance(arg, Value) else self.from_plain(arg) for arg in args]
        raise ObservedException(ExceptionValue(cls, values))

    def call(self, fn: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """See the protocol."""
        return fn.realize(self).call(self, args, kwargs)

    def inline(self, fn: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """See the protocol."""
        if isinstance(fn, FunctionValue):
            original = torch_compat.behind_generation_tag(fn.fn)
            original = original or torch_compat.behind_optimizer_patch(fn.fn)
            if original is not None:
                self.guard_function_as_is(fn)
                fn = FunctionValue(original, self.absolute(original, None))
            rule = rules.rule_of(fn.fn) or functools_rules.rule_of(self, fn)
            if rule is not None:
                self.guard_function_as_is(fn)
                self.frame.awaited = (0, None)  # the rule's result is its own
                return rule(self, args, kwargs)
            if torch_rules.is_operation(fn.fn):
                self.guard_function_as_is(fn)
                return self.graph_call(fn.fn, args, kwargs)
            if torch_compat.is_assumed_constant(fn.fn):
                self.guard_function_as_is(fn)
                return functools_rules.assumed_constant(self, fn.fn, args, kwargs)
        return calls.inline(self, fn, args, kwargs)

    def guard_function_as_is(self, fn: FunctionValue) -> None:
        """A function that stands for itself: its identity and its code."""
        if not isinstance(fn.source, ObjectSource):
            self.guard(fn.source, Check.IDENTITY, fn.fn)
        self.guard(fn.source.member("__code__"), Check.IDENTITY, fn.fn.__code__)

    def check_inlinable(self, fn: Value) -> None:
        """Break at functions that were told to run eagerly."""
        torch_rules.check_inlinable(self, fn)

    def see_through(self, obj: Any, source: Source) -> Value | None:
        """The function inside a wrapper of ours, or None."""
        return c_calls.see_through(self, obj, source)

    def graph_call(
        self, target: Any, args: Sequence[Value], kwargs: dict[str, Value], *, method: bool = False
    ) -> Value:
        """See the protocol."""
        self.budget.check(self.steps, self.builder.operations + 1)
        if (done := optimizer_rules.scaled_by_tensor(self, target, args, kwargs)) is not None:
            return done
        return self.builder.call(self, target, args, kwargs, method)

    def mutated(self, value: Value) -> None:
        """See the protocol."""
        if value.source is not None:
            self.effects.append(value)

    def let_go(self, container: Value, *values: Value) -> None:
        """See the protocol."""
        if container.source is not None:
            check_let_go(self, *values)
            self.has_let_go = True

    def record_effect(self, effect: Any) -> None:
        """See the protocol."""
        self.effects.append(effect)

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """See the protocol."""
        return operators.binary(self, op, left, right)

    def compare(self, op: str, left: Value, right: Value) -> Value:
        """See the protocol."""
        return operators.compare(self, op, left, right)

    def is_same(self, left: Value, right: Value) -> bool:
        """See the protocol."""
        return operators.is_same(self, left, right)

    def equals(self, left: Value, right: Value) -> bool:
        """See the protocol."""
        return operators.equals(self, left, right)

    def truth(self, value: Value) -> bool:
        """`bool(value)`."""
        return operators.truth(self, value)

    def drain(self, value: Value) -> list[Value]:
        """All elements of an iterable."""
        return drain(self, value)

    def from_plain(self, obj: Any) -> Value:
        """A value for a fresh plain object; parts may be values already."""
        if isinstance(obj, Value):
            return obj
        cls = type(obj)
        if cls is torch.Size:
            return TupleValue([ConstantValue(item) for item in obj], cls=torch.Size)
        if cls is tuple:
            return TupleValue([self.from_plain(item) for item in obj])
        if cls is re.Match:
            return self.note_birth(ConstantValue(obj))  # a new object in every call
        if is_constant(obj):
            return ConstantValue(obj)
        if cls is list:
            return ListValue([self.from_plain(item) for item in obj])
        if cls is dict:
            return DictValue(
                {key: (self.from_plain(key), self.from_plain(item)) for key, item in obj.items()}
            )
        if cls is set or cls is frozenset:
            return SetValue.wrapping(set(obj), cls, {item: ConstantValue(item) for item in obj})
        if cls is slice:
            return SliceValue([self.from_plain(part) for part in (obj.start, obj.stop, obj.step)])
        if isinstance(obj, type) or callable(obj):
            return self.constant_object(obj)
        self.graph_break("call", f"a fresh object of class {cls.__qualname__} is not modelled")

    def construct(self, value: ClassValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """`cls(*args, **kwargs)`."""
        rule = rules.RULES.get(id(value.fn))
        if rule is not None:
            return rule(self, args, kwargs)
        return construct(self, value, args, kwargs)

    def call_real(self, fn: Any, value: Value, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call a callable of C level."""
        rule = builtin_rules.class_method_rule(fn)
        if rule is not None:
            return rule(self, args, kwargs)
        return torch_rules.call_real(self, fn, value, args, kwargs)

    def call_object(self, value: ObjectValue, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call an object whose `__call__` is C code, or that has none."""
        return c_calls.call_object(self, value, args, kwargs)

    def is_checked(self, value: TensorValue) -> bool:
        """See the protocol."""
        return distribution_rules.is_checked(self, value)

    def call_given(self, function: GraphFunction, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """Call a function that an operation of the graph has given."""
        return transforms.call_given(self, function, args, kwargs)

    def call_c_method(
        self, owner: Value, name: str, args: Sequence[Value], kwargs: dict[str, Value]
    ) -> Value:
        """Call a method that a builtin base class serves from C."""
        return c_calls.call_c_method(self, owner, name, args, kwargs)

    def call_constant_method(
        self, value: MethodOfConstant, args: Sequence[Value], kwargs: dict[str, Value]
    ) -> Value:
        """A method of a constant: folded when pure."""
        return c_calls.call_constant_method(self, value, args, kwargs)

    def getset_value(self, owner: Value, raw: Any, name: str) -> Value | None:
        """An attribute served by a getset descriptor of C code."""
        return c_calls.getset_value(self, owner, raw, name)

    def module_getattr(self, owner: ObjectValue, fallback: Any, name: str) -> Value | None:
        """`nn.Module.__getattr__` without interpreting it."""
        return torch_rules.module_getattr(self, owner, fallback, name)

    def call_until_stop(self, method: Value) -> Value | None:
        """Call `__next__`; None when it raises StopIteration."""
        try:
            return self.call(method, [], {})
        except ObservedException as observed:
            if issubclass(observed.value.python_type(), StopIteration):
                return None
            raise

    def get_item_until_stop(self, owner: Value, key: Value) -> Value | None:
        """`owner[key]`; None when it raises IndexError or StopIteration."""
        try:
            return owner.get_item(self, key)
        except ObservedException as observed:
            if issubclass(observed.value.python_type(), (IndexError, StopIteration)):
                return None
            raise

    def is_changing(self, value: Value) -> bool:
        """See the protocol."""
        return self.numbers.is_changing(value)

    def compare_symbols(self, compare: Callable[[Any, Any], Any], left: Value, right: Value) -> bool | None:
        """See the protocol."""
        is_known = not (self.is_changing(left) or self.is_changing(right))
        return None if is_known else self.builder.compare(self, compare, left, right)

    def note_specialised(self) -> None:
        """See the protocol."""
        self.builder.symbols.check_marked("what looks at its value", self.frame.where())

    def note_risky(self, value: Value) -> None:
        """See the protocol."""
        assert isinstance(value, DeferredNumber)
        self.risky.append(value)

    def is_held(self, value: Value) -> bool:
        """See the protocol."""
        frame: Frame | None = self.frame
        while frame is not None:
            held = list(frame.locals.values())
            held += [
                cell.contents
                for cell in frame.cells.values()
                if isinstance(cell, CellValue) and cell.contents
            ]
            if any((each.actual if isinstance(each, LazyValue) else each) is value for each in held):
                return True
            frame = frame.caller
        return False

    def as_exception(self, value: Value) -> Value:
        """The instance that `raise value` raises."""
        value = value.realize(self)
        if isinstance(value, ClassValue) and issubclass(value.fn, BaseException):
            value = self.call(value, [], {}).realize(self)
        if isinstance(value, ObjectValue) and issubclass(value.cls, BaseException):
            return value
        self.throw(TypeError, "exceptions must derive from BaseException")

    def resume_generator(self, generator: GeneratorValue, sent: Value) -> Value | None:
        """`next(generator)`."""
        return calls.resume_generator(self, generator, sent)

    def generator_method(self, generator: GeneratorValue, name: str, args: Sequence[Value]) -> Value:
        """`send`, `throw`, `close`."""
        return calls.generator_method(self, generator, name, args)

    def need_requires_grad(self, value: TensorValue) -> None:
        """The trace depends on `requires_grad` of an input."""
        guard, _ = self.gradient_guards.pop(id(value), (None, None))
        if guard is not None:
            assert value.example is not None
            guard.constant = guard.constant._replace(requires_grad=value.example.requires_grad)

    def iterate(self, value: Value) -> Value:
        """`iter(value)`."""
        value = value.realize(self)
        if isinstance(value, ConstantValue):
            if isinstance(value.value, (str, bytes, range, tuple, frozenset)):
                return ConstantIterator(value.value)
            self.throw(TypeError, f"'{type(value.value).__name__}' object is not iterable")
        iterator = value.iterate(self)
        if isinstance(value, ObjectValue) and not defines(iterator.python_type(), "__next__"):
            name = type_name(iterator.python_type())
            self.throw(TypeError, f"iter() returned non-iterator of type '{name}'")
        return iterator if iterator is value else self.note_birth(iterator)

    def special_method(self, owner: Value, name: str) -> Value | None:
        """A special method, looked up on the class."""
        owner = owner.realize(self)
        if isinstance(owner, ObjectValue):
            return owner.special(self, name)
        return None

    def current_exception(self) -> Value | None:
        """The exception that is being handled."""
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.handling:
                return frame.handling[-1]
            frame = frame.caller
        return None

    def nothing_handled_outside(self) -> bool:
        """Whether no caller of the root frame handles an exception; guarded."""
        if sys.exc_info()[1] is not None:
            return False
        self.guard(None, Check.PREDICATE, (_nothing_is_handled, ()))
        return True

    def traceback_value(self) -> Value:
        """The traceback of an exception of the trace: there is none to look at."""
        return TracebackValue()

    def send(self, generator: GeneratorValue, sent: Value) -> Value | None:
        """`generator.send(sent)`; None when it returned."""
        return calls.resume_generator(self, generator, sent)

    def finish_send(self, frame: Frame, result: Value) -> None:
        """What SEND leaves when the receiver has returned."""
        if SEND_KEEPS_RECEIVER:
            frame.stack.append(result)
        else:
            frame.stack[-1] = result

    def import_module(self, name: str, from_names: Value, level: Value) -> Value:
        """`import name` inside a function."""
        return c_calls.import_module(self, name, from_names, level)

    # -- torch state -----------------------------------------------------------------------------
    def change_state(self, setter: Any, args: list[Any]) -> Any:
        """Change autocast's state or a flag: now, in the graph, and (where the trace stops) for real."""
        self.builder.state_call(setter, *args)
        if setter is torch.set_autocast_cache_enabled:
            # The cache stays off while tracing: fake casts must not enter it.
            self.is_autocast_cache_enabled = bool(args[0])
            return None
        if setter is torch.autocast_increment_nesting:
            self.autocast_nesting += 1
        elif setter is torch.autocast_decrement_nesting:
            self.autocast_nesting -= 1
        return setter(*args)

    def set_grad_enabled(self, is_enabled: bool) -> None:
        """Grad mode from here on, while tracing, in the graph and after it."""
        torch._C._set_grad_enabled(is_enabled)
        self.builder.state_call(torch._C._set_grad_enabled, is_enabled)


__all__ = ["BoundMethodValue", "CellValue", "NestedFunctionValue", "SymbolicTracer", "fold"]
