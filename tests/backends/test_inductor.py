"""The hand-over to Inductor: two real compiles, training with mutation and inference with options."""

import pytest
import torch
import torch._functorch.config
import torch.nn.functional as F

from framehook import torch_compat


def block(x, w, b, mean, var, counter):
    y = F.batch_norm(F.linear(x, w, b), mean, var, training=True)
    torch._C._set_grad_enabled(False)
    counter.add_(1)
    torch._C._set_grad_enabled(True)
    y = F.relu(y)
    return y.sum(), y, y.view(-1), x[0]


def make():
    random = torch.Generator().manual_seed(0)
    w = torch.nn.Parameter(torch.randn(16, 8, generator=random))
    b = torch.nn.Parameter(torch.randn(16, generator=random))
    return (torch.randn(4, 8, generator=random), w, b, torch.zeros(16), torch.ones(16), torch.zeros(()))


def test_training_graph_with_buffers_and_aliases(compile_for, contexts):
    # A hit in AOTAutograd's disk cache would leave no metadata to look at.
    with torch._functorch.config.patch(enable_autograd_cache=False):
        graph = compile_for("inductor", block, make(), static=(1, 2, 3, 4, 5))
    assert torch_compat.static_input_indices(contexts[-1]) == (1, 2, 3, 4, 5)
    assert graph.compiled.is_boxed
    assert not graph.compiled.eager_reason
    expected_inputs, actual_inputs = make(), make()
    for _ in range(2):
        expected, actual = block(*expected_inputs), graph.run(*actual_inputs)
        torch.testing.assert_close(actual, list(expected))
        expected[0].backward()
        actual[0].backward()
    torch.testing.assert_close(actual_inputs, expected_inputs)
    torch.testing.assert_close(actual_inputs[1].grad, expected_inputs[1].grad)
    assert actual[1].untyped_storage().data_ptr() == actual[2].untyped_storage().data_ptr()
    assert actual[3]._base is actual_inputs[0]


def test_options_reach_inductor(compile_for):
    x = torch.ones(64)
    options = {"fallback_random": True}
    with torch.no_grad():
        graph = compile_for("inductor", lambda x: (F.dropout(x, 0.5, True),), (x,), options=options)
        torch.manual_seed(3)
        expected = F.dropout(x, 0.5, True)
        torch.manual_seed(3)
        torch.testing.assert_close(graph.run(x)[0], expected)
    inputs = [x]
    graph.compiled.callable(inputs)
    assert inputs == []


@pytest.mark.slow
def test_a_second_process_finds_the_disk_cache(compile_for):
    """Inductor's caches are bypassed without a `ShapeEnv`; the first compile of a process fills them."""
    from torch._dynamo.utils import counters

    x = torch.ones(7)
    with torch.no_grad():
        compile_for("inductor", lambda x: (x.sin() * 2,), (x,))
        hits, bypasses = (
            counters["aot_autograd"]["autograd_cache_hit"],
            counters["inductor"]["fxgraph_cache_bypass"],
        )
        graph = compile_for("inductor", lambda x: (x.sin() * 2,), (x,))
    assert counters["aot_autograd"]["autograd_cache_hit"] == hits + 1
    assert counters["inductor"]["fxgraph_cache_bypass"] == bypasses
    torch.testing.assert_close(graph.run(x)[0], x.sin() * 2)


@pytest.mark.slow
def test_modes_inside_the_graph(compile_for):
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    arguments = ("cpu", torch.bfloat16, True, True)
    region = graph.call_function(torch.amp.autocast_mode._enter_autocast, arguments)
    y = graph.call_function(torch.mm, (x, w))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (region,))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    z = graph.call_function(torch.mm, (x, w))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((y, z))
    inputs = (torch.randn(4, 4), torch.randn(4, 4, requires_grad=True))
    y, z = compile_for("inductor", torch.fx.GraphModule({}, graph), inputs, static=(1,)).run(*inputs)
    assert (y.dtype, y.requires_grad) == (torch.bfloat16, True)
    assert (z.dtype, z.requires_grad) == (torch.float32, False)
    y.float().sum().backward()
    assert inputs[1].grad.dtype is torch.float32
