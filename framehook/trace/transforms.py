"""Functions that are handed to torch to be run by it: `torch.func`, `torch.utils.checkpoint`, `torch.cond`.

The function is traced into a graph module of its own while torch's own transform runs on fake tensors, and one node
of the graph calls the transform with that module.  So torch sees to levels, batches and tangents, in the trace as well
as in the graph.  Each call of the function is traced, as often as the transform makes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx

from framehook import functional_compat, torch_compat
from framehook.polyfills import jacobians
from framehook.trace.graph import Region
from framehook.trace.reachable import Reachable
from framehook.trace.rules import rule
from framehook.values.base import BreakGraph, ConstantValue, ObservedException, Value, is_constant
from framehook.values.graph_functions import GraphFunction
from framehook.values.mappings import DictValue
from framehook.values.plain import as_plain
from framehook.values.sequences import ListValue, TupleValue
from framehook.values.tensor import TensorValue

_HINT = "call it outside of the compiled function"


class Body:
    """A function of tensors: a graph module, and which of the free tensors it is given behind its own arguments."""

    def __init__(self, module: torch.fx.GraphModule, places: tuple[int, ...]) -> None:
        self.module = module
        self.places = places
        self._run = torch_compat.plain_forward(module)

    def __call__(self, tensors: Sequence[Any], free: Sequence[Any]) -> Any:
        return self._run(*tensors, *(free[place] for place in self.places))


class Transformed:
    """The target of a node: a transform, and the bodies of the calls that it makes of its function."""

    def __init__(self, transform: Callable[..., Any], bodies: list[Body], name: str) -> None:
        self.transform = transform
        self.bodies = bodies
        self.__name__ = self.__qualname__ = name

    def __call__(self, free: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        calls = iter(self.bodies)

        def function(*given: Any, **named: Any) -> Any:
            return next(calls)(list(tensors_in([given, named])), free)

        return self.transform(function, *args, **kwargs)


class Checkpointed:
    """The target of a node: `torch.utils.checkpoint.checkpoint` of a body."""

    __name__ = __qualname__ = "checkpoint"

    def __init__(self, body: Body, options: dict[str, Any], has_random: bool) -> None:
        self.body = body
        self.options = options
        self.has_random = has_random

    def __call__(self, free: Sequence[Any], tensors: Sequence[Any]) -> Any:
        if functional_compat.is_traced_again():
            if self.has_random:
                # A compiler would draw other numbers when it computes them again.
                return self.body(tensors, free)
            inputs = [*tensors, *(free[place] for place in self.body.places)]
            return functional_compat.tagged_checkpoint(self.body.module, inputs)
        return torch.utils.checkpoint.checkpoint(
            lambda *given: self.body(given, free), *tensors, **self.options
        )


class Conditional:
    """The target of a node: `torch.cond` of two bodies."""

    __name__ = __qualname__ = "cond"

    def __init__(self, bodies: Sequence[Body], count: int) -> None:
        self.bodies = bodies
        self.count = count  # of the operands; the free tensors follow them

    def __call__(self, predicate: Any, tensors: Sequence[Any]) -> Any:
        def branch(body: Body) -> Callable[..., Any]:
            return lambda *given: body(given[: self.count], given[self.count :])

        if_true, if_false = map(branch, self.bodies)
        return functional_compat.cond(predicate, if_true, if_false, tuple(tensors))


def tensors_in(structure: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested tuples, lists and dicts, in order."""
    if isinstance(structure, torch.Tensor):
        yield structure
    elif isinstance(structure, (tuple, list)):
        for each in structure:
            yield from tensors_in(each)
    elif isinstance(structure, dict):
        for each in structure.values():
            yield from tensors_in(each)


def call_given(tr: Any, function: GraphFunction, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    """Call a function that an operation of the graph has given."""
    if function.node.graph is not tr.builder.graph:
        tr.graph_break("call", f"{function.describe()} is called in another function", _HINT)
    for value in (*args, *kwargs.values()):
        _check_plain(tr, value, "vjp_fn")
    builder = tr.builder
    given = [builder.lower(tr, value) for value in args]
    named = {key: builder.lower(tr, value) for key, value in kwargs.items()}
    values = {key: pair[1] for key, pair in named.items()}
    result = builder.run(function.fn, [pair[1] for pair in given], values, False)
    builder.need_requires_grad(tr, (*args, *kwargs.values()))
    nodes = (function.node, tuple(pair[0] for pair in given), {key: pair[0] for key, pair in named.items()})
    noted: Value = builder.note(tr, apply_given, nodes, result)
    return noted


def apply_given(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The target of a node: a call of a function that another node has given."""
    return function(*args, **kwargs)


def _leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, (tuple, list)):
        for each in structure:
            yield from _leaves(each)
    elif isinstance(structure, dict):
        for each in structure.values():
            yield from _leaves(each)
    else:
        yield structure


def _shape(structure: Any) -> Any:
    """Nested containers without what is in them."""
    if isinstance(structure, (tuple, list)):
        return type(structure), [_shape(each) for each in structure]
    if isinstance(structure, dict):
        return dict, [(key, _shape(each)) for key, each in structure.items()]
    return type(structure) if isinstance(structure, torch.Tensor) else structure


def _rebuilt(structure: Any, leaves: Iterator[Value]) -> Value:
    """A value of the same nested containers, with other leaves."""
    if isinstance(structure, tuple):
        return TupleValue([_rebuilt(each, leaves) for each in structure])
    if isinstance(structure, list):
        return ListValue([_rebuilt(each, leaves) for each in structure])
    if isinstance(structure, dict):
        return DictValue(
            {key: (ConstantValue(key), _rebuilt(each, leaves)) for key, each in structure.items()}
        )
    return next(leaves)


def _check_plain(tr: Any, value: Value, name: str) -> list[TensorValue]:
    """The tensors in a value; break where it holds anything but tensors, constants and plain containers."""
    value = value.realize(tr)
    if isinstance(value, TensorValue) and value.subclass is None:
        return [value]
    if isinstance(value, ConstantValue):
        return []
    items: list[Value] | None = None
    if type(value) is ListValue or (isinstance(value, TupleValue) and value.is_exact()):
        value.guard_length(tr)
        items = list(value.items)
    elif isinstance(value, DictValue) and value.cls is dict:
        value.guard_keys(tr)
        if all(type(key) is str for key in value.items):
            items = [item for _, item in value.items.values()]
    if items is None:
        tr.graph_break("call", f"{name}() with {value.describe()}", _HINT)
        raise AssertionError
    return [found for item in items for found in _check_plain(tr, item, name)]


def _bound(tr: Any, region: Region, given: Any, name: str) -> Value:
    """The value of an argument that a transform hands to its function: tensors become placeholders."""
    if isinstance(given, torch.Tensor):
        node = tr.builder.add_parameter(region, given)
        value: Value = tr.builder.wrap_result(tr, node, given)
        return value
    if isinstance(given, tuple) and type(given) is tuple:
        return TupleValue([_bound(tr, region, each, name) for each in given])
    if isinstance(given, list):
        return ListValue([_bound(tr, region, each, name) for each in given])
    if isinstance(given, dict):
        rows = ((key, _bound(tr, region, each, name)) for key, each in given.items())
        return DictValue({key: (ConstantValue(key), item) for key, item in rows})
    if is_constant(given):
        return ConstantValue(given)
    raise BreakGraph("call", f"{name}() hands over an object of type {type(given).__name__}")


def _traced(
    tr: Any,
    region: Region,
    fn: Value,
    args: Sequence[Value],
    kwargs: dict[str, Value],
    name: str,
    is_flat: bool = False,
) -> Any:
    """Trace a call into a region and close it; returns the fakes of the result.

    The region gives the result, or the leaves of it in a tuple if `is_flat`.
    """
    state = (torch.is_grad_enabled(), tr.autocast_nesting, tr.is_autocast_cache_enabled)
    result = tr.call(fn, args, kwargs)
    if state != (torch.is_grad_enabled(), tr.autocast_nesting, tr.is_autocast_cache_enabled):
        tr.graph_break("call", f"the function that {name}() calls changes torch's state", _HINT)
    _check_plain(tr, result, name)
    nodes, fakes = tr.builder.lower(tr, result)
    region.graph.output(tuple(_leaves(nodes)) if is_flat else nodes)
    for made in region.made:
        # It may not leave the function; where it does, the whole call is left native.
        tr.births[id(made)] = (made, tr.frame.step)
    return fakes


def _bodies(regions: Sequence[Region]) -> tuple[list[TensorValue], list[Body]]:
    """The free tensors of all regions, each once, and what the regions become."""
    free: dict[int, TensorValue] = {id(value): value for region in regions for value in region.free}
    places = {each: place for place, each in enumerate(free)}
    bodies = [
        Body(
            torch_compat.make_graph_module(torch.nn.Module(), region.graph),
            tuple(places[id(value)] for value in region.free),
        )
        for region in regions
    ]
    return list(free.values()), bodies


def transform(
    tr: Any, run: Callable[..., Any], name: str, fn: Value, args: Sequence[Value], kwargs: dict[str, Value]
) -> Value:
    """The result of `run(fn, *args, **kwargs)`, where `run` is a transform of torch's, as one node."""
    builder = tr.builder
    for value in (*args, *kwargs.values()):
        _check_plain(tr, value, name)
    given = [builder.lower(tr, value) for value in args]
    named = {key: builder.lower(tr, value) for key, value in kwargs.items()}
    regions: list[Region] = []

    def function(*inner_args: Any, **inner_kwargs: Any) -> Any:
        with torch_compat.no_dispatch_modes(), builder.region() as region:
            values = [_bound(tr, region, each, name) for each in inner_args]
            by_name = {key: _bound(tr, region, each, name) for key, each in inner_kwargs.items()}
            regions.append(region)
            return _traced(tr, region, fn, values, by_name, name)

    try:
        with torch_compat.propagating(builder.mode):
            result = run(
                function, *(pair[1] for pair in given), **{key: pair[1] for key, pair in named.items()}
            )
    except (BreakGraph, ObservedException):
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise BreakGraph("operation", f"{name} raises {type(error).__name__}: {first}") from None
    free, bodies = _bodies(regions)
    builder.need_requires_grad(tr, (*args, *kwargs.values(), *free))
    inputs = (
        tuple(builder.node_of(value) for value in free),
        tuple(pair[0] for pair in given),
        {key: pair[0] for key, pair in named.items()},
    )
    return builder.note(tr, Transformed(run, bodies, name), inputs, result)


# -- torch.func ------------------------------------------------------------------------------------------------


def _options(tr: Any, values: Sequence[Value], name: str) -> list[Any]:
    found = []
    for value in values:
        is_known, plain = as_plain(tr, value)
        if not is_known:
            tr.graph_break("call", f"{name}() with {value.realize(tr).describe()} as an option", _HINT)
        found.append(plain)
    return found


def _with_arguments(run: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    """`grad_impl` and its like take the arguments of the function as a tuple and a dict."""
    return lambda fn, args, kwargs: run(fn, *options, args, kwargs)


def _gradient(run: Any, name: str) -> None:
    @rule(run)
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        fn, argnums, has_aux, given, named = args
        options = _options(tr, [argnums, has_aux], name)
        return transform(tr, _with_arguments(run, *options), name, fn, [given, named], {})


_gradient(functional_compat.grad, "grad")
_gradient(functional_compat.grad_and_value, "grad_and_value")


@rule(functional_compat.vmap)
def _vmap(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    fn, *options = args[:5]
    functional_compat.load_decompositions()
    in_dims, out_dims, randomness, chunk_size = _options(tr, options, "vmap")

    def run(function: Any, *given: Any, **named: Any) -> Any:
        return functional_compat.vmap(function, in_dims, out_dims, randomness, chunk_size, *given, **named)

    return transform(tr, run, "vmap", fn, args[5:], kwargs)


@rule(functional_compat.jvp)
def _jvp(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    names = ("primals", "tangents", "argnums", "strict", "has_aux")
    given = dict(zip(names, args[1:], strict=False)) | kwargs
    argnums, strict, has_aux = _options(
        tr, [given.get(name, ConstantValue(default)) for name, default in
             (("argnums", None), ("strict", False), ("has_aux", False))], "jvp"
    )  # fmt: skip
    run = functools.partial(functional_compat.jvp, argnums=argnums, strict=strict, has_aux=has_aux)
    return transform(tr, run, "jvp", args[0], [given["primals"], given["tangents"]], {})


@rule(functional_compat.vjp)
def _vjp(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(kwargs)
    (has_aux,) = _options(tr, [given.pop("has_aux", ConstantValue(False))], "vjp")
    if given:
        tr.graph_break("call", "vjp() is called in another way", _HINT)
    run = functools.partial(functional_compat.vjp, has_aux=has_aux)
    return transform(tr, run, "vjp", args[0], args[1:], {})


def _jacobian(original: Any, traced: Any, applied: Any, name: str) -> None:
    @rule(original)
    def make(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        result: Value = tr.inline(tr.constant_object(traced), args, kwargs)
        return result

    @rule(applied)
    def apply(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        options, named = _options(tr, args[1:3], name)
        given = args[3].realize(tr)
        assert isinstance(given, TupleValue)

        def run(function: Any, *values: Any) -> Any:
            return original(function, *options, **named)(*values)

        functional_compat.load_decompositions()
        return transform(tr, run, name, args[0], given.items, {})


_jacobian(torch.func.jacrev, jacobians.jacrev, jacobians.apply_jacrev, "jacrev")
_jacobian(torch.func.jacfwd, jacobians.jacfwd, jacobians.apply_jacfwd, "jacfwd")


# -- checkpoints -----------------------------------------------------------------------------------------------

_CHECKPOINT_OPTIONS = ("use_reentrant", "preserve_rng_state", "determinism_check", "early_stop")


@rule(torch.utils.checkpoint.checkpoint)
def _checkpoint(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    name, builder = "checkpoint", tr.builder
    given = dict(kwargs)
    options = {key: _options(tr, [given.pop(key)], name)[0] for key in _CHECKPOINT_OPTIONS if key in given}
    is_reentrant = options.get("use_reentrant")
    if "context_fn" in given or "debug" in given or is_reentrant is None or (is_reentrant and given):
        tr.graph_break("call", "checkpoint() with context_fn, with debug, or without use_reentrant", _HINT)
    fn, *inputs = args
    tensors: list[TensorValue] = []
    for value in (*inputs, *given.values()):
        tensors += _check_plain(tr, value, name)
    builder.need_requires_grad(tr, tensors)
    if is_reentrant:
        if not all(isinstance(value.realize(tr), (TensorValue, ConstantValue)) for value in inputs):
            tr.graph_break("call", "checkpoint(use_reentrant=True) with containers", _HINT)
        if not any(value.fake.requires_grad for value in tensors):
            tr.graph_break("call", "checkpoint(use_reentrant=True) without gradients warns", _HINT)
    effects, setters = len(tr.effects), set(builder.state_setters)
    own = Reachable(fn, *inputs, *given.values())  # backward calls the function again
    unique = list({id(value): value for value in tensors}.values())
    with builder.region() as region:
        for value in unique:
            region.nodes[id(value)] = builder.add_parameter(region, value.fake)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_reentrant):
            result = _traced(tr, region, fn, inputs, given, name)
    if len(tr.effects) != effects or own.is_changed():
        tr.graph_break("call", "a function under checkpoint() does more than compute tensors", _HINT)
    if is_reentrant:
        if not all(
            isinstance(each, torch.Tensor) for each in (result if type(result) is tuple else [result])
        ):
            tr.graph_break("call", "checkpoint(use_reentrant=True) of what returns no tensors", _HINT)
        with torch_compat.propagating(builder.mode):
            result = torch.utils.checkpoint.checkpoint(
                lambda *_: result,
                *(value.fake for value in unique),
                use_reentrant=True,
                preserve_rng_state=False,
            )
    builder.state_setters |= setters
    free, (body,) = _bodies([region])
    builder.need_requires_grad(tr, free)
    target = Checkpointed(body, options, builder.has_random(region.graph))
    nodes = (tuple(map(builder.node_of, free)), tuple(map(builder.node_of, unique)))
    value = builder.note(tr, target, nodes, result)
    return value


# -- control flow ----------------------------------------------------------------------------------------------


@rule(functional_compat.cond_call)
def _cond(tr: Any, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
    name, builder = "cond", tr.builder
    if kwargs or len(args) != 5:
        tr.graph_break("call", "cond() is called in another way", _HINT)
    predicate, if_true, if_false, operands = (each.realize(tr) for each in args[1:])
    if isinstance(predicate, ConstantValue):
        branch = if_true if predicate.value else if_false
        result: Value = tr.call(branch, tr.drain(operands), {})
        return result
    if not isinstance(predicate, TensorValue):
        raise BreakGraph("call", f"cond() of {predicate.describe()}", _HINT)
    inputs: list[TensorValue] = []
    for each in tr.drain(operands):
        value = each.realize(tr)
        if not isinstance(value, TensorValue) or value.subclass is not None:
            tr.graph_break("call", "cond() with operands that are no tensors", _HINT)
            raise AssertionError
        inputs.append(value)
    unique = list({id(value): value for value in inputs}.values())
    effects, own = len(tr.effects), Reachable(if_true, if_false, *inputs)  # one of them runs, in the end
    regions, results = [], []
    for branch in (if_true, if_false):
        with builder.region() as region:
            for value in unique:
                region.nodes[id(value)] = builder.add_parameter(region, value.fake)
            results.append(_traced(tr, region, branch, inputs, {}, name, is_flat=True))
        regions.append(region)
    if not all(isinstance(leaf, torch.Tensor) for result in results for leaf in _leaves(result)) or (
        _shape(results[0]) != _shape(results[1])
    ):
        tr.graph_break("call", "the branches of cond() give different things", _HINT)
    if len(tr.effects) != effects or own.is_changed():
        tr.graph_break("call", "a branch of cond() does more than compute tensors", _HINT)
    free, bodies = _bodies(regions)
    builder.need_requires_grad(tr, [*unique, *free])
    target = Conditional(bodies, len(unique))
    tensors: list[TensorValue] = [*unique, *free]
    fakes = [tensor.fake for tensor in tensors]
    result = builder.run(target, [predicate.fake, fakes], {}, False)
    nodes = (builder.node_of(predicate), tuple(map(builder.node_of, tensors)))
    return _rebuilt(results[0], iter(tr.drain(builder.note(tr, target, nodes, result))))
