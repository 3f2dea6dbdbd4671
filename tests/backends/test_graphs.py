"""Hand-built graphs through each backend: values, gradients, mutation, aliasing, state."""

import gc
import operator
import weakref

import pytest
import torch
import torch.nn.functional as F

from framehook import torch_compat, torch_state

BOTH = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def describe(tensor):
    state = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad, tensor.is_leaf)
    return (*state, tensor.is_inference(), tensor.detach().double().flatten().tolist())


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
            assert describe(one)[:6] == describe(other)[:6]
        else:
            assert one == other


def sharing(values):
    """Which of the values share storage with which, and which are the same object."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return [
        (a is b, a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
        for a in tensors
        for b in tensors
    ]


def linear(x, w, b):
    return (F.relu(F.linear(x, w, b)),)


@BOTH
def test_values_and_gradients_equal_eager(compile_for, backend):
    x, w, b = torch.randn(4, 8), torch.nn.Parameter(torch.randn(3, 8)), torch.nn.Parameter(torch.randn(3))
    graph = compile_for(backend, linear, (x, w, b), static=(1, 2))
    for _ in range(2):
        assert_same(graph.run(x, w, b), linear(x, w, b))
    expected = torch.autograd.grad(linear(x, w, b)[0].square().sum(), (w, b))
    actual = torch.autograd.grad(graph.run(x, w, b)[0].square().sum(), (w, b))
    torch.testing.assert_close(actual, expected)


def test_parameters_are_static_inputs_and_the_call_is_boxed(compile_for, contexts):
    x, w, b = torch.randn(4, 8), torch.nn.Parameter(torch.randn(3, 8)), torch.nn.Parameter(torch.randn(3))
    graph = compile_for("aot_eager", linear, (x, w, b), static=(1, 2))
    assert torch_compat.static_input_indices(contexts[-1]) == (1, 2)
    assert graph.compiled.is_boxed


def test_inputs_are_not_kept_after_a_boxed_inference_call(compile_for):
    graph = compile_for("aot_eager", lambda x: (x.sin(),), (torch.randn(3),))
    inputs = [torch.randn(3)]
    graph.compiled.callable(inputs)
    assert inputs == []


def test_nothing_is_faked_twice(compile_for, monkeypatch):
    mode_type = type(torch_compat.make_fake_mode())
    calls = []
    original = mode_type.from_tensor
    monkeypatch.setattr(mode_type, "from_tensor", lambda *a, **k: calls.append(a) or original(*a, **k))
    compile_for("aot_eager", lambda x, y: (x + y,), (torch.randn(3), torch.randn(3)))
    assert len(calls) == 2


# -- aliasing: fn, inputs. Mutations are compared on the inputs afterwards.


def add_one_in_place(x, y):
    x.add_(1)
    return (y * 2,)


def mutate_and_return_input(x):
    x.mul_(2)
    return (x, x.view(-1))


def views_only(x):
    return (x.t(), x[1:], x)


def alias_of_intermediate(x):
    y = x.sin()
    return (y, y.view(-1), y)


def mutate_with_gradient(x, w):
    x.mul_(w)
    return (x.sum(),)


def mutate_view(x):
    x[0].fill_(7)
    return (x + 1,)


def transpose_in_place(x):
    x.t_()
    return (x + 1,)


def batch_norm(x, mean, var, w, b):
    return (F.batch_norm(x, mean, var, w, b, True, 0.1),)


def write_under_no_grad(x, w):
    torch._C._set_grad_enabled(False)
    w.copy_(x)
    torch._C._set_grad_enabled(True)
    return (w * x,)


def fresh(*shape, grad=False, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def overlapping():
    base = fresh(4)
    return (base[:3], base[1:])


def view_and_base():
    base = fresh(2, 2)
    return (base, base.view(-1))


CASES = {
    "distinct inputs": (add_one_in_place, lambda: (fresh(3), fresh(3, seed=1))),
    "overlapping views": (add_one_in_place, overlapping),
    "view and base": (add_one_in_place, view_and_base),
    "outputs are inputs": (mutate_and_return_input, lambda: (fresh(2, 3),)),
    "views only": (views_only, lambda: (fresh(2, 3),)),
    "views only, with gradient": (views_only, lambda: (fresh(2, 3, grad=True),)),
    "outputs alias each other": (alias_of_intermediate, lambda: (fresh(2, 3),)),
    "outputs alias each other, with gradient": (alias_of_intermediate, lambda: (fresh(2, 3, grad=True),)),
    "mutation brings a gradient": (mutate_with_gradient, lambda: (fresh(3), fresh(3, grad=True, seed=1))),
    "mutation through a view": (mutate_view, lambda: (fresh(2, 3),)),
    "metadata mutation": (transpose_in_place, lambda: (fresh(2, 3),)),
    "running statistics": (
        batch_norm,
        lambda: (
            fresh(5, 3),
            torch.zeros(3),
            torch.ones(3),
            fresh(3, grad=True),
            fresh(3, grad=True, seed=1),
        ),
    ),
}


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_mutation_and_aliasing_equal_eager(compile_for, backend, case):
    fn, make = CASES[case]
    graph = compile_for(backend, fn, make())
    expected_inputs, actual_inputs = make(), make()
    expected, actual = fn(*expected_inputs), graph.run(*actual_inputs)
    assert_same(actual, expected)
    assert_same(actual_inputs, expected_inputs)
    assert sharing([*actual, *actual_inputs]) == sharing([*expected, *expected_inputs])
    leaves = [t for t in expected_inputs if t.requires_grad and t.is_leaf]
    if leaves:
        ours = [t for t in actual_inputs if t.requires_grad and t.is_leaf]
        torch.testing.assert_close(
            torch.autograd.grad(sum(t.square().sum() for t in actual), ours),
            torch.autograd.grad(sum(t.square().sum() for t in expected), leaves),
        )


def test_one_tensor_is_one_input(compile_for):
    x = fresh(3)
    with pytest.raises(ValueError, match="one tensor was passed as two"):
        compile_for("aot_eager", add_one_in_place, (x, x))


def test_a_graph_that_autograd_tracing_gets_wrong_runs_eagerly(compile_for):
    graph = compile_for("aot_eager", mutate_with_gradient, (fresh(3), fresh(3, grad=True, seed=1)))
    assert graph.compiled.eager_reason


@pytest.mark.filterwarnings("ignore:Error detected in")
def test_overwriting_what_backward_needs_fails_at_backward_only(compile_for):
    def overwrite(x, w):
        y = x * w
        x.mul_(3)
        return (y,)

    inputs = (fresh(3), fresh(3, grad=True, seed=1))
    graph = compile_for("aot_eager", overwrite, inputs)
    (actual,) = graph.run(*inputs)
    torch.testing.assert_close(actual, fresh(3) * inputs[1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        actual.sum().backward()


def test_a_program_compiled_for_distinct_inputs_is_wrong_for_aliases(compile_for):
    """Why the engine must guard the sameness and overlap of inputs where the graph mutates one."""
    graph = compile_for("aot_eager", add_one_in_place, (fresh(3), fresh(3, seed=1)))
    assert graph.compiled.extra_guards == ()
    x, y = torch.zeros(3), torch.zeros(3)
    assert add_one_in_place(x, x)[0].tolist() != graph.run(y, y)[0].tolist()


# -- graphs with little in them


@BOTH
def test_graph_without_inputs(compile_for, backend):
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.zeros, (2,)),))
    compiled = compile_for(backend, torch.fx.GraphModule({}, graph), ())
    assert_same(compiled.run(), (torch.zeros(2),))


@BOTH
def test_empty_graph(compile_for, backend):
    graph = torch.fx.Graph()
    graph.output(())
    assert tuple(compile_for(backend, torch.fx.GraphModule({}, graph), ()).run()) == ()


@BOTH
def test_graph_that_only_mutates(compile_for, backend):
    graph = torch.fx.Graph()
    graph.call_method("add_", (graph.placeholder("x"), 1))
    graph.output(())
    compiled = compile_for(backend, torch.fx.GraphModule({}, graph), (torch.zeros(2),))
    x = torch.zeros(2)
    assert tuple(compiled.run(x)) == ()
    assert x.tolist() == [1, 1]


@BOTH
def test_numbers_and_none_pass_through(compile_for, backend):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.neg, (x,)), None, 3))
    assert_same(
        compile_for(backend, torch.fx.GraphModule({}, graph), (fresh(2),)).run(fresh(2)), (-fresh(2), None, 3)
    )


@BOTH
def test_a_compiled_graph_keeps_no_tensor_alive(compile_for, backend):
    gc.disable()
    try:
        base = fresh(4, 3)
        x, w = base[1:], fresh(4, 3, grad=True)
        graph = compile_for(backend, lambda x, w: (F.linear(x, w),), (x, w), static=(1,))
        graph.run(x, w)[0].sum().backward()
        alive = [weakref.ref(tensor) for tensor in (base, x, w)]
        del base, x, w
        assert [reference() for reference in alive] == [None, None, None]
    finally:
        gc.enable()


# -- modes around the call and inside the graph


@BOTH
def test_no_grad_around_the_call(compile_for, backend):
    x, w = fresh(2, 3), fresh(4, 3, grad=True)
    with torch.no_grad():
        graph = compile_for(backend, lambda x, w: (F.linear(x, w),), (x, w), static=(1,))
        assert_same(graph.run(x, w), (F.linear(x, w),))


@BOTH
def test_inference_mode_around_the_call(compile_for, backend):
    w = fresh(4, 3, grad=True)
    with torch.inference_mode():
        x = fresh(2, 3)
        graph = compile_for(backend, lambda x, w: (F.linear(x, w), x.t()), (x, w), static=(1,))
        assert_same(graph.run(x, w), (F.linear(x, w), x.t()))


@BOTH
def test_autocast_around_the_call(compile_for, backend):
    x, w = fresh(2, 3), fresh(4, 3, grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        graph = compile_for(backend, lambda x, w: (F.linear(x, w),), (x, w), static=(1,))
        (actual,), expected = graph.run(x, w), F.linear(x, w)
        assert torch.is_autocast_enabled("cpu")
    assert_same((actual,), (expected,))
    actual.float().sum().backward()
    assert w.grad.dtype is torch.float32


def grad_mode_nodes(graph, x, w):
    before = graph.call_function(torch.mm, (x, w))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    inside = graph.call_function(torch.mm, (before, w))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return inside, graph.call_function(torch.add, (before, inside))


def autocast_nodes(graph, x, w):
    arguments = ("cpu", torch.bfloat16, True, True)
    region = graph.call_function(torch.amp.autocast_mode._enter_autocast, arguments)
    inside = graph.call_function(torch.mm, (x, w))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (region,))
    return inside, graph.call_function(torch.mm, (x, w))


def build(nodes):
    graph = torch.fx.Graph()
    graph.output(nodes(graph, graph.placeholder("x"), graph.placeholder("w")))
    return torch.fx.GraphModule({}, graph)


@BOTH
@pytest.mark.parametrize("nodes", [grad_mode_nodes, autocast_nodes])
def test_modes_inside_the_graph_are_honoured(compile_for, backend, nodes):
    x, w = fresh(3, 3), fresh(3, 3, grad=True, seed=1)
    before = torch_state.save_state()
    expected = build(nodes)(x, w)
    graph = compile_for(backend, build(nodes), (x, w), static=(1,))
    actual = graph.run(x, w)
    assert_same(actual, expected)
    assert torch_state.save_state() == before
    torch.testing.assert_close(
        torch.autograd.grad(actual[1].sum(), w), torch.autograd.grad(expected[1].sum(), w)
    )


def test_compiling_leaves_random_state_and_modes_alone(compile_for):
    torch.manual_seed(0)
    random, state = torch.get_rng_state(), torch_state.save_state()
    compile_for("aot_eager", lambda x: (F.dropout(x, 0.5, True),), (fresh(8),))
    assert torch.equal(torch.get_rng_state(), random)
    assert torch_state.save_state() == state


@BOTH
def test_dropout_draws_the_numbers_that_eager_draws(compile_for, backend):
    x = fresh(64, grad=True)
    graph = compile_for(backend, lambda x: (F.dropout(x, 0.5, True),), (x,))
    torch.manual_seed(3)
    expected = F.dropout(x, 0.5, True)
    torch.manual_seed(3)
    assert_same(graph.run(x), (expected,))


def body():
    graph = torch.fx.Graph()
    product = graph.call_function(torch.mm, (graph.placeholder("x"), graph.placeholder("w")))
    graph.output((graph.call_function(torch.sin, (graph.call_function(torch.relu, (product,)),)),))
    return torch.fx.GraphModule({}, graph)


@BOTH
def test_checkpoint_as_a_higher_order_operator(compile_for, backend):
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    arguments = (graph.get_attr("body"), x, w)
    checkpoint = torch.ops.higher_order.tag_activation_checkpoint
    results = graph.call_function(checkpoint, arguments, {"use_reentrant": False})
    graph.output((graph.call_function(operator.getitem, (results, 0)),))
    inputs = (fresh(4, 4), fresh(4, 4, grad=True, seed=1))
    compiled = compile_for(backend, torch.fx.GraphModule({"body": body()}, graph), inputs)
    (actual,), expected = compiled.run(*inputs), torch.sin(torch.relu(torch.mm(*inputs)))
    assert_same((actual,), (expected,))
    torch.testing.assert_close(
        torch.autograd.grad(actual.sum(), inputs[1]), torch.autograd.grad(expected.sum(), inputs[1])
    )


class ThriceTheGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x)
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        return None, 3 * gradient * ctx.saved_tensors[0]


def apply_function(*args):
    return ThriceTheGradient.apply(*args)


@BOTH
def test_autograd_function_behind_a_plain_function(compile_for, backend):
    graph = torch.fx.Graph()
    arguments = (graph.placeholder("x"), graph.placeholder("w"))
    graph.output((graph.call_function(apply_function, arguments),))
    inputs = (fresh(3), fresh(3, grad=True, seed=1))
    (actual,) = compile_for(backend, torch.fx.GraphModule({}, graph), inputs).run(*inputs)
    torch.testing.assert_close(torch.autograd.grad(actual.sum(), inputs[1])[0], 3 * inputs[0])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_inductor_on_cuda(compile_for, mode):
    x, w, b = (tensor.cuda() for tensor in (fresh(4, 8), fresh(3, 8), fresh(3)))
    graph = compile_for("inductor", linear, (x, w, b), static=(1, 2), mode=mode)
    for _ in range(4):
        torch.testing.assert_close(graph.run(x, w, b)[0], linear(x, w, b)[0])
