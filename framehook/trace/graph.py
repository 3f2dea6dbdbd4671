"""The FX graph that a trace builds: inputs, calls, and what each will give, on fake tensors."""

from __future__ import annotations

import contextlib
import operator
import re
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from framehook import torch_compat, torch_symbols
from framehook.directives import dynamic_dims
from framehook.source import AttrSource, ItemSource, Source
from framehook.trace import in_place, overlap
from framehook.trace.frame import lines
from framehook.trace.number_bounds import ANY, WHOLE, Bounds, bounds_of
from framehook.trace.number_inputs import takes_number
from framehook.trace.number_policy import NO_NUMBERS, NumberPolicy
from framehook.trace.randomness import is_random
from framehook.trace.symbols import Symbols, UnknownSymbol
from framehook.values.base import (
    BreakGraph,
    ChangingNumber,
    ConstantValue,
    LazyValue,
    Tracer,
    Value,
    is_constant,
    to_constant,
)
from framehook.values.graph_functions import GraphFunction
from framehook.values.mappings import DictValue
from framehook.values.numbers import (
    DeferredNumber,
    guard_types,
    is_deferred,
    is_untouched_number,
    leaves,
)
from framehook.values.objects import ObjectValue
from framehook.values.sequences import ListValue, SequenceValue, SliceValue, TupleValue
from framehook.values.symbolic import SymbolicInteger, is_symbolic_size
from framehook.values.tensor import TensorValue

_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift", "and_", "or_"),
)
_DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)


#: Operations that make quantized tensors.
_QUANTIZING = re.compile(r"^quantize_per_|^_(empty|make)_(affine|per_channel)")

#: In-place operators.
_IN_PLACE = frozenset(
    {"setitem", *(f"i{name}" for name in _OPERATORS), *(f"__i{name}__" for name in _OPERATORS)}
)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _is_in_place(target: Any, kwargs: dict[str, Value]) -> bool:
    """Whether an operation's name says that it may change its arguments; inference tensors do not count changes."""
    name = _name(target)
    if target in (operator.and_, operator.or_):
        return False  # named so because `and` and `or` are keywords
    return (name.endswith("_") and not name.endswith("__")) or name in _IN_PLACE or "out" in kwargs


def _is_buffer(source: Source) -> bool:
    """Whether a tensor was found among the buffers of a module."""
    owner = source.base
    return isinstance(source, ItemSource) and isinstance(owner, AttrSource) and owner.key == "_buffers"


class GraphInput:
    """One placeholder: its name, where its tensor comes from, and what it looks like."""

    __slots__ = ("example", "fake", "is_static", "name", "node", "source", "value", "version")

    def __init__(self, name: str, source: Source, example: torch.Tensor, fake: torch.Tensor, is_static: bool):
        self.name = name
        self.source = source
        self.example: Any = example
        self.fake = fake
        self.is_static = is_static
        self.node: torch.fx.Node | None = None
        self.value: TensorValue | None = None
        self.version = 0 if fake.is_inference() else fake._version

    def release(self) -> None:
        """Let go of the real tensor and of what stands for it."""
        self.example = self.value = self.node = None


class Region:
    """A graph of its own for a function that an operation of the graph is given.

    Attributes:
        free: tensors from outside of the function that it uses, in the order of their placeholders.
        nodes: id of a tensor's value -> its node here: of the free ones, and what an operation gave back.
        made: the tensors that were made inside.
    """

    __slots__ = ("free", "graph", "made", "nodes")

    def __init__(self) -> None:
        self.graph = torch.fx.Graph()
        self.free: list[TensorValue] = []
        self.nodes: dict[int, torch.fx.Node] = {}
        self.made: list[TensorValue] = []


class NumberInput:
    """A placeholder for a number that differs between calls; generated code hands it over behind the tensors.

    Attributes:
        bounds: of the numbers that the graph can be run with.
    """

    __slots__ = ("bounds", "example", "fake", "name", "node", "value")

    def __init__(self, name: str, value: Value, example: int | float, fake: Any, node: torch.fx.Node) -> None:
        self.name = name
        self.fake = fake
        self.value = value
        self.example = example
        self.node = node
        self.bounds: Bounds = WHOLE if type(example) is int else ANY


class GraphBuilder:
    """Collects nodes.  One per trace.

    Args:
        policy: which numbers and sizes differ between calls.
    """

    def __init__(self, policy: NumberPolicy = NO_NUMBERS) -> None:
        self.policy = policy
        #: What `.data` of tensors gave, and its version then.
        self.data: list[tuple[torch.Tensor, int]] = []
        self.returns_data = False
        self.root = torch.fx.Graph()
        self.graph = self.root  # the one that operations go into
        self.regions: list[Region] = []  # the open ones, innermost last
        self.mode: FakeTensorMode = torch_compat.make_fake_mode()
        self.symbols = Symbols(self.mode)
        self.inputs: list[GraphInput] = []
        self.numbers: dict[Any, NumberInput] = {}  # by id of the source, or of a number that is computed
        self.integers: dict[Source, tuple[Any, Any]] = {}  # the symbols of integers from outside
        self.operations = 0
        self.state_setters: set[Any] = set()
        self._by_fake: dict[int, TensorValue] = {}
        self._last_placeholder: torch.fx.Node | None = None
        self.may_change_inference_tensors = False
        self.has_checks = False  # operations that raise where the program does

    def add_input(self, source: Source, tensor: torch.Tensor) -> TensorValue:
        """Return the value of a real tensor; it becomes a placeholder."""
        with torch._C.DisableTorchFunctionSubclass():
            is_plain = type(tensor) is torch.Tensor or isinstance(tensor, torch.nn.Parameter)
            plain = tensor if is_plain else tensor.as_subclass(torch.Tensor)
            dims = (
                self.policy.symbolic_dims(source, tensor)
                if is_plain and not (_is_buffer(source) or self.regions)
                else ()
            )
            if dims:
                fake = self.symbols.add_tensor(source, tensor.detach() if tensor._is_view() else tensor, dims)
                self.symbols.mark(source, dynamic_dims(tensor).keys())
            else:
                fake = torch_compat.fakify(self.mode, plain)
        name = f"input_{len(self.inputs)}"
        is_static = isinstance(tensor, torch.nn.Parameter) or _is_buffer(source)
        entry = GraphInput(name, source, tensor, fake, is_static)
        graph = self.root
        anchor = self._last_placeholder
        with graph.inserting_after(anchor) if anchor is not None else graph.inserting_before(_first(graph)):
            node = graph.placeholder(name)
        node.meta["example_value"] = fake
        self._last_placeholder = node
        value = TensorValue(node, fake, source, tensor)
        entry.node = node
        entry.value = value
        self.inputs.append(entry)
        self._by_fake[id(fake)] = value
        return value

    def add_number(self, tr: Tracer, value: LazyValue, symbol: torch.SymInt | None = None) -> torch.fx.Node:
        """The placeholder of a number that nobody has looked at; of an integer, maybe, that is a symbol."""
        key: Any = id(value) if is_deferred(value) else id(value.source)
        if symbol is not None:
            key = ("symbol", key)
        found = self.numbers.get(key)
        if found is None:
            guard_types(tr, *leaves(value))
            anchor = next(reversed(self.numbers.values())).node if self.numbers else self._last_placeholder
            name = f"number_{len(self.numbers)}"
            graph = self.root
            with (
                graph.inserting_after(anchor) if anchor is not None else graph.inserting_before(_first(graph))
            ):
                node = graph.placeholder(name)
            example: Any = value.obj
            fake = example if symbol is None else symbol
            node.meta["example_value"] = fake
            found = self.numbers[key] = NumberInput(name, value, example, fake, node)
        return found.node

    # -- calls ---------------------------------------------------------------------------------------
    def call(
        self, tr: Tracer, target: Any, args: Sequence[Value], kwargs: dict[str, Value], method: bool
    ) -> Value:
        """Run an operation on fakes and note it as a node if tensors come out or None does."""
        is_data = target is getattr and isinstance(args[1], ConstantValue) and args[1].value == "data"
        if is_data and self.regions:
            # Functions that an operation is given must change nothing: there it is the same.
            return self.call(tr, "detach", args[:1], {}, True)
        if target == "new" and method and any(_is_a_size(each) for each in args[1:]):
            # Graphs write sizes as tuples, which `new` takes for values.
            return self.call(tr, "new_empty", args, kwargs, True)
        places: list[tuple[int | str, Value]] = [*enumerate(args), *kwargs.items()]
        unknown: set[int | str] = {
            place
            for place, arg in places
            if is_untouched_number(arg)
            and not self.regions
            and tr.is_changing(arg)
            and not is_symbolic_size(arg)
        }
        lowered: dict[Any, tuple[Any, Any]] = {
            place: self.lower(tr, arg) for place, arg in places if place not in unknown
        }
        tensors = list(_tensors_in([pair[1] for pair in lowered.values()])) if unknown else []
        has_numbers = False
        for place, arg in places:
            if place in unknown:
                assert isinstance(arg, LazyValue)
                if (type(arg.obj) is float or WHOLE.hold(arg.obj)) and takes_number(
                    target, method, place, tensors, self.policy.form, torch_symbols.is_any_autocast_enabled()
                ):
                    lowered[place] = self.add_number(tr, arg), arg.obj
                    has_numbers = True
                else:
                    lowered[place] = self.lower(tr, arg)
        fx_args, fake_args = ([lowered[place][each] for place in range(len(args))] for each in (0, 1))
        fx_kwargs, fake_kwargs = ({name: lowered[name][each] for name in kwargs} for each in (0, 1))
        if target is operator.pow and not isinstance(fx_args[0], torch.fx.Node):
            target = (
                torch.pow
            )  # fx writes `-2.0 ** x`, which is another number; `Tensor.__rpow__` calls this one
        changes = _is_in_place(target, kwargs)
        if changes:  # before the fake takes it
            if in_place.is_refused(_name(target), fake_args, fake_kwargs, self.mode):
                raise BreakGraph("operation", f"{_name(target)} gives what its first argument cannot hold")
            self.check_numbers(tr, target, method, places, lowered, fake_kwargs.get("out", fake_args[:1]))
        result = self.run(target, fake_args, fake_kwargs, method)
        if not changes:
            self.check_numbers(tr, target, method, places, lowered, result)
        if self.symbols.roots:
            self.symbols.check_marked(f"{_name(target)}()", tr.frame.where())
        if is_data:
            self.data.append((result, _version(result)))
        if has_numbers:
            # A fake may know what is in it: not where a number of this one call went in.
            for fake in (*tensors, *_tensors_in(result)):
                torch_symbols.forget_contents(fake)
        if _QUANTIZING.search(_name(target)) or (isinstance(result, torch.Tensor) and result.is_nested):
            # Fake tensors are never quantized.
            raise BreakGraph("operation", f"{_name(target)} gives a quantized or nested tensor")
        if changes:
            self.may_change_inference_tensors = True
            if overlap.is_refused(target, fake_args, fake_kwargs):
                raise BreakGraph("operation", f"{_name(target)} writes to memory that overlaps an operand's")
        if torch.is_grad_enabled() or _is_view_or_input(result):
            self.need_requires_grad(tr, (*args, *kwargs.values()))
        if isinstance(result, torch.SymBool):
            result = bool(result)
        if result is not None and is_constant(result):
            _check_fact(target, (*fake_args, *fake_kwargs.values()))
            return tr.from_plain(result)
        node = self.graph.create_node(
            "call_method" if method else "call_function", target, tuple(fx_args), fx_kwargs
        )
        node.meta["example_value"] = result
        node.meta["lines"] = lines(tr)
        if _is_size(result):
            return self.wrap_result(tr, node, result)
        self.operations += 1
        self._note_flags(args, kwargs)
        value = self.wrap_result(tr, node, result)
        for cls in _subclasses((*args, *kwargs.values())):
            _make_member(tr, value, cls)
        return value

    def check_numbers(
        self,
        tr: Tracer,
        target: Any,
        method: bool,
        places: Sequence[tuple[int | str, Value]],
        lowered: dict[Any, tuple[Any, Any]],
        results: Any,
    ) -> None:
        """Leave numbers that an operation does not take to the real one; of inputs, note which ones it takes.

        Raises:
            BreakGraph: if a number of this call is none of those.
        """
        tensors = list(_tensors_in(results))
        for place, value in places:
            node, number = lowered[place]
            bounds = bounds_of(target, method, place, number, lowered, tensors)
            if bounds is ANY:
                continue
            if not bounds.hold(number):
                value.realize(tr)
                raise BreakGraph("operation", f"{_name(target)} does not take the number {number}")
            for each in self.numbers.values():
                if each.node is node and each.fake is number:
                    each.bounds = each.bounds.both(bounds)

    def need_requires_grad(self, tr: Tracer, values: Sequence[Value]) -> None:
        """What autograd does with the result depends on whether these inputs want gradients."""
        for value in values:
            if is_untouched_number(value):
                continue
            value = value.realize(tr)
            if isinstance(value, TensorValue):
                if value.example is not None:
                    tr.need_requires_grad(value)
            elif isinstance(value, SequenceValue):
                self.need_requires_grad(tr, value.items)
            elif isinstance(value, DictValue):
                self.need_requires_grad(tr, [item for _, item in value.items.values()])
            elif isinstance(value, ObjectValue) and isinstance(value.base, TupleValue):
                self.need_requires_grad(tr, value.base.items)

    def _note_flags(self, args: Sequence[Value], kwargs: dict[str, Value]) -> None:
        """`batch_norm(training=True)`, `relu(inplace=True)`: they change tensors, and names do not show it."""
        if any(isinstance(each, ConstantValue) and each.value is True for each in (*args, *kwargs.values())):
            self.may_change_inference_tensors = True

    def run(self, target: Any, args: list[Any], kwargs: dict[str, Any], method: bool) -> Any:
        """Run an operation on fake tensors; what goes wrong there is left to the real operation."""
        try:
            with (
                torch_compat.propagating(self.mode),
                torch_symbols.symbols_in_kernels(bool(self.symbols.roots)),
            ):
                if method:
                    return getattr(args[0], target)(*args[1:], **kwargs)
                return target(*args, **kwargs)
        except _DATA_DEPENDENT:
            name = target if method else getattr(target, "__name__", str(target))
            raise BreakGraph(
                "data_dependent",
                f"the result of {name} depends on the values of tensors",
                "use an operation whose output shape follows from input shapes, or do it outside",
            ) from None
        except BreakGraph:
            raise
        except Exception as error:
            name = target if method else getattr(target, "__name__", str(target))
            first = (str(error).strip().splitlines() or [""])[0]
            raise BreakGraph("operation", f"{name} raises {type(error).__name__}: {first}") from None

    def wrap_result(self, tr: Tracer, node: torch.fx.Node, result: Any) -> Value:
        """Make values of what an operation gave."""
        if isinstance(result, torch.Tensor):
            node.meta["example_value"] = result
            known = self._by_fake.get(id(result))
            if known is not None and self.is_open(known.node.graph):
                # In-place operations, x.contiguous(), x.to(same dtype): the very object comes back.
                if known.node.graph is self.graph:
                    known.node = node
                else:
                    self.regions[-1].nodes[id(known)] = node
                return known
            value = TensorValue(node, result, None, None)
            self._by_fake[id(result)] = value
            if self.regions:
                self.regions[-1].made.append(value)
            return value
        if isinstance(result, dict) and all(type(key) is str for key in result):
            rows = ((key, self._wrap_item(tr, node, key, item)) for key, item in result.items())
            return DictValue({key: (ConstantValue(key), item) for key, item in rows})
        if isinstance(result, (tuple, list)):
            node.meta["example_value"] = result
            items: list[Value] = []
            items += (self._wrap_item(tr, node, place, item) for place, item in enumerate(result))
            if isinstance(result, list):
                return ListValue(items)
            return TupleValue(items, cls=type(result))
        if isinstance(result, torch.SymInt):
            if not torch_symbols.is_symbolic(result):
                return ConstantValue(int(result))
            node.meta["example_value"] = result
            return SymbolicInteger(node, result, torch_symbols.hint_of(result))
        if result is None or is_constant(result):
            return ConstantValue(result)
        if isinstance(result, types.FunctionType) and not self.regions:
            return tr.note_birth(GraphFunction(node, result))
        raise BreakGraph("operation", f"{node.target} gives an object of type {type(result).__name__}")

    def _wrap_item(self, tr: Tracer, node: torch.fx.Node, key: Any, item: Any) -> Value:
        if isinstance(item, (torch.Tensor, tuple, list, dict, types.FunctionType)) or (
            torch_symbols.is_symbolic(item)
        ):
            node = self.graph.call_function(operator.getitem, (node, key))
        return self.wrap_result(tr, node, item)

    def lower(self, tr: Tracer, value: Value) -> tuple[Any, Any]:
        """Return what stands for a value in a node's arguments, and what the fake run is given."""
        if is_untouched_number(value) and tr.is_changing(value):
            symbolic = self.symbolic(tr, value)
            if symbolic is not None:
                return symbolic
        value = value.realize(tr)
        if isinstance(value, TensorValue):
            return self.node_of(value), value.fake
        if isinstance(value, ConstantValue):
            return value.value, value.value
        if isinstance(value, ObjectValue) and isinstance(value.base, TupleValue):
            value = value.base
        if isinstance(value, SequenceValue):
            value.guard_length(tr)
            pairs = [self.lower(tr, item) for item in value.items]
            kind: Any = list if isinstance(value, ListValue) else tuple
            return kind(pair[0] for pair in pairs), kind(pair[1] for pair in pairs)
        if isinstance(value, SliceValue):
            pairs = [self.lower(tr, item) for item in value.parts]
            return slice(*(pair[0] for pair in pairs)), slice(*(pair[1] for pair in pairs))
        if isinstance(value, DictValue):
            value.guard_keys(tr)
            rows = [(key, self.lower(tr, item)) for key, (_, item) in value.items.items()]
            if all(type(key) is str for key, _ in rows):
                return {key: pair[0] for key, pair in rows}, {key: pair[1] for key, pair in rows}
        known, obj = to_constant(tr, value)
        if known:
            return obj, obj
        raise BreakGraph("call", f"{value.describe()} is handed to a tensor operation")

    # -- functions inside of the graph ---------------------------------------------------------------
    def is_open(self, graph: torch.fx.Graph) -> bool:
        """Whether nodes of a graph can still be used."""
        return graph is self.root or any(graph is region.graph for region in self.regions)

    def node_of(self, value: TensorValue) -> torch.fx.Node:
        """What stands for a tensor in the graph that operations go into.

        Raises:
            BreakGraph: for a tensor that was made inside of a function that has ended.
        """
        node: torch.fx.Node = value.node
        if node.graph is self.graph:
            return node
        if not self.is_open(node.graph):
            raise BreakGraph("call", "a tensor made inside of a transformed function is used outside of it")
        region = self.regions[-1]
        found = region.nodes.get(id(value))
        if found is None:
            found = self.add_parameter(region, value.fake)
            region.nodes[id(value)] = found
            region.free.append(value)
        return found

    def add_parameter(self, region: Region, fake: torch.Tensor) -> torch.fx.Node:
        """A further placeholder of a region."""
        count = sum(node.op == "placeholder" for node in region.graph.nodes)
        last = next((node for node in reversed(region.graph.nodes) if node.op == "placeholder"), None)
        place = (
            region.graph.inserting_after(last)
            if last
            else region.graph.inserting_before(_first(region.graph))
        )
        with place:
            node = region.graph.placeholder(f"input_{count}")
        node.meta["example_value"] = fake
        return node

    @contextlib.contextmanager
    def region(self) -> Iterator[Region]:
        """Operations go into a graph of their own.

        Raises:
            BreakGraph: if a tensor from outside was changed.
        """
        if self.symbols.roots:
            raise UnknownSymbol  # graphs inside of the graph take tensors and numbers only
        outer = self.graph
        before = [(value, _version(value.fake)) for value in self._by_fake.values()]
        inputs = len(self.inputs)
        region = Region()
        self.regions.append(region)
        self.graph = region.graph
        may_change, self.may_change_inference_tensors = self.may_change_inference_tensors, False
        try:
            try:
                yield region
            finally:
                self.regions.pop()
                self.graph = outer
        except BreakGraph:
            raise
        except BaseException:
            self._check_unchanged(before, inputs)
            raise
        self._check_unchanged(before, inputs)
        self.may_change_inference_tensors |= may_change

    def _check_unchanged(self, before: Sequence[tuple[TensorValue, int]], inputs: int) -> None:
        if (
            any(_version(value.fake) != old for value, old in before)
            or any(_version(entry.fake) != entry.version for entry in self.inputs[inputs:])
            or (self.may_change_inference_tensors and any(value.fake.is_inference() for value, _ in before))
        ):
            raise BreakGraph("operation", "a function that is transformed changes a tensor from outside")

    def note(self, tr: Tracer, target: Any, args: tuple[Any, ...], result: Any) -> Value:
        """A node for what has been run on fakes already."""
        node = self.graph.call_function(target, args)
        node.meta["example_value"] = result
        node.meta["lines"] = lines(tr)
        self.operations += 1
        return self.wrap_result(tr, node, result)

    def has_random(self, graph: torch.fx.Graph) -> bool:
        """Whether operations of a graph may draw random numbers."""
        return any(node.op != "placeholder" and is_random(node) for node in graph.nodes)

    def symbolic(self, tr: Tracer, value: Value) -> tuple[Any, Any] | None:
        """An integer that nobody has looked at as a node and a symbol; None where it has to be a number."""
        if not is_untouched_number(value) or type(value.obj) is not int:
            return None
        if self.regions:
            return None
        if isinstance(value, SymbolicInteger):
            return value.node, value.symbol
        if is_deferred(value):
            return self._symbolic_result(tr, value)
        if (
            not self.policy.takes_symbols
            or isinstance(value, ChangingNumber)
            or not 1 < value.obj < 1 << 62
            or not tr.is_changing(value)
        ):
            return None
        guard_types(tr, value)
        found = self.integers.get(value.source)
        if found is None:
            symbol = self.symbols.add_integer(value.source, value.obj)
            if not torch_symbols.is_symbolic(symbol):
                return None
            node = self.add_number(tr, value, symbol)
            found = self.integers[value.source] = node, symbol
        return found

    def compare(
        self, tr: Tracer, compare: Callable[[Any, Any], Any], left: Value, right: Value
    ) -> bool | None:
        """Compare two integers that are symbols or constants; None where they are neither."""
        pair: list[Any] = []
        for value in (left, right):
            known = self.symbolic(tr, value)
            if known is not None:
                pair.append(known[1])
                continue
            if isinstance(value, LazyValue) and type(value.obj) is not int:
                return None
            plain = value.realize(tr)
            if not isinstance(plain, ConstantValue) or type(plain.value) is not int:
                return None
            pair.append(plain.value)
        answer = bool(compare(*pair))
        self.symbols.check_marked("a comparison", tr.frame.where())
        return answer

    def _symbolic_result(self, tr: Tracer, value: DeferredNumber) -> tuple[Any, Any] | None:
        if value.symbol not in ("+", "-", "*", "//", "%", "neg"):
            return None
        nodes, symbols = [], []
        for operand in value.operands:
            known = self.symbolic(tr, operand)
            if known is None:
                plain = operand.realize(tr)
                if not isinstance(plain, ConstantValue) or type(plain.value) is not int:
                    return None
                known = plain.value, plain.value
            nodes.append(known[0])
            symbols.append(known[1])
        try:
            result = value.function(*symbols)
        except Exception:
            return None
        if not torch_symbols.is_symbolic(result):
            return int(result), int(result)
        node = self.graph.call_function(value.function, tuple(nodes))
        node.meta["example_value"] = result
        return node, result

    # -- state ---------------------------------------------------------------------------------------
    def state_call(self, target: Any, *args: Any) -> torch.fx.Node:
        """Note a call that changes torch's state (grad mode, autocast) while the graph runs."""
        self.state_setters.add(target)
        node = self.graph.create_node("call_function", target, args)
        node.meta["example_value"] = None
        return node

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Trace something and drop it again; only inputs that were found stay.

        Raises:
            BreakGraph: if it changed a tensor that was there before.
        """
        last = next(iter(reversed(self.graph.nodes)), None)
        before = [(value, value.node, _version(value.fake)) for value in self._by_fake.values()]
        state = (self.operations, self.may_change_inference_tensors, set(self.state_setters))
        yield
        changed = any(value.node is not node or _version(value.fake) != old for value, node, old in before)
        for node in reversed(self.graph.nodes):
            if node is last:
                break
            if node.op != "placeholder":
                self.graph.erase_node(node)
        known = {id(value.fake): value for value, _, _ in before}
        found = [entry for entry in self.inputs if id(entry.fake) not in known]
        self._by_fake = known | {id(entry.fake): entry.value for entry in found if entry.value is not None}
        self.operations, self.may_change_inference_tensors, self.state_setters = state
        if changed or any(_version(entry.fake) != entry.version for entry in found):
            raise BreakGraph("operation", "an autograd function changes a tensor")

    # -- the end -------------------------------------------------------------------------------------
    def mutates_inputs(self) -> list[GraphInput]:
        """The inputs that the graph changes in place."""
        return [entry for entry in self.inputs if self._is_changed(entry)]

    def _is_changed(self, entry: GraphInput) -> bool:
        if entry.fake.is_inference():
            return self.may_change_inference_tensors
        return entry.fake._version != entry.version or self.is_changed_unseen(entry)

    def is_changed_unseen(self, entry: GraphInput) -> bool:
        """Whether an input is changed through `.data`, which its version does not count."""
        return any(
            _version(data) != version and overlap.shares_memory(data, entry.fake)
            for data, version in self.data
        )

    def hands_out_data(self, outputs: Sequence[TensorValue]) -> bool:
        """Whether an output may be `.data` of a tensor: one that counts its changes by itself."""
        return any(
            value.source is None and any(overlap.shares_memory(data, value.fake) for data, _ in self.data)
            for value in outputs
        )

    def finish(self, outputs: list[TensorValue]) -> torch.fx.GraphModule:
        """Close the graph: drop inputs and parts that nobody uses, count, set the outputs."""
        assert self.graph is self.root
        self.returns_data = self.hands_out_data(outputs)
        self.graph.output(tuple(value.node for value in outputs))
        for node in reversed(self.graph.nodes):
            if not node.users and _is_size(node.meta.get("example_value")) and node.op != "placeholder":
                self.graph.erase_node(node)
                continue
            if not node.users and node.target is operator.getitem and isinstance(node.args[1], (int, str)):
                parent = node.args[0]
                if isinstance(parent, torch.fx.Node) and isinstance(
                    parent.meta.get("example_value"), (tuple, list, dict)
                ):
                    self.graph.erase_node(node)
        kept = []
        for entry in self.inputs:
            assert entry.node is not None
            if entry.node.users:
                kept.append(entry)
            else:
                self.graph.erase_node(entry.node)
        self.inputs = kept
        for key, number in list(self.numbers.items()):
            if not number.node.users:
                self.graph.erase_node(number.node)
                del self.numbers[key]
        return torch_compat.make_graph_module(torch.nn.Module(), self.graph)

    def count(self) -> int:
        """Operations as they are counted everywhere: calls in the graph."""
        return sum(
            node.op in ("call_function", "call_method", "call_module")
            and not _is_size(node.meta.get("example_value"))
            for node in self.graph.nodes
        )


def _is_size(result: Any) -> bool:
    """Whether a result is an integer of the graph, or several."""
    if isinstance(result, (tuple, list)):
        return bool(result) and all(isinstance(item, (int, torch.SymInt)) for item in result)
    return isinstance(result, torch.SymInt)


def _is_a_size(value: Value) -> bool:
    return issubclass(value.python_type(), torch.Size)


def _tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among values, those in lists and tuples included."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for each in values:
            yield from _tensors_in(each)


def _version(fake: torch.Tensor) -> int:
    return 0 if fake.is_inference() else fake._version


#: Questions about tensors that guarded metadata answers.  Others (offset, version, base) may change unseen.
_FACTS = frozenset(
    {"size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous", "get_device"}
    | {"is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg", "is_inference", "is_same_size", "type"}
    | {"result_type", "promote_types", "can_cast", "broadcast_shapes", "sym_numel", "sym_size", "dense_dim"}
    | {"sparse_dim", "is_tensor", "__len__", "is_distributed", "is_vulkan_available", "has_names", "ndim"}
    | {"is_cuda", "is_cpu", "is_sparse", "is_mkldnn", "is_quantized", "is_meta", "is_nested", "itemsize", "nbytes"}
)  # fmt: skip


def _check_fact(target: Any, fakes: Sequence[Any]) -> None:
    """Break where the answer of a query rests on something of a tensor that no guard covers."""
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if name not in _FACTS and any(isinstance(fake, torch.Tensor) for fake in fakes):
        raise BreakGraph("call", f"{name}() asks for something of a tensor that is not guarded")


def _is_view_or_input(result: Any) -> bool:
    """Whether a result shares its place in autograd with an operand: views, and operations in place."""
    if isinstance(result, (tuple, list)):
        return any(_is_view_or_input(item) for item in result)
    return isinstance(result, torch.Tensor) and (
        result.is_inference() or result._is_view() or result._version > 0
    )


def _subclasses(values: Sequence[Value]) -> set[type]:
    """The subclasses of tensors among operands."""
    found: set[type] = set()
    for value in values:
        if isinstance(value, LazyValue):
            value = value.actual or value
        if isinstance(value, TensorValue) and value.subclass is not None:
            found.add(value.subclass)
        elif isinstance(value, SequenceValue):
            found |= _subclasses(value.items)
    return found


def _make_member(tr: Tracer, value: Value, cls: type) -> None:
    """What `torch.Tensor.__torch_function__` does with the results of operations on a subclass."""
    if isinstance(value, SequenceValue):
        for item in value.items:
            _make_member(tr, item, cls)
    elif isinstance(value, TensorValue) and value.subclass is not cls:
        if value.subclass is not None or value.source is not None or value.fake._version:
            tr.graph_break("subclass", f"an operation mixes {cls.__name__} with tensors of another class")
        value.subclass = cls


def _first(graph: torch.fx.Graph) -> torch.fx.Node:
    return next(iter(graph.nodes), graph._root)
