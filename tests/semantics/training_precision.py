"""Precision, random numbers and torch's own state in training scripts: see `training_table`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.semantics.training_table import Running, calling, rows, script

Compile = Callable[[Any], Any]


def function(compile: Compile, fn: Callable[[Tensor], Any]) -> Running:
    """A function of one tensor."""
    compiled = compile(fn)
    return Running(lambda call: compiled(rows(call)), lambda: None)


# -- autocast ------------------------------------------------------------------------------------------------------------


@script()
def autocast_around_the_call(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
    compiled = compile(module)

    def step(call: int) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = compiled(rows(call))
        result.float().sum().backward()
        return result

    return Running(step, lambda: module)


@script()
def autocast_nested(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x.T
            with torch.autocast("cpu", enabled=False):
                b = a.float() @ x
                with torch.autocast("cpu", dtype=torch.float16):
                    c = x @ x.T
            d = x @ x.T
        return a, b, c, d, x @ x.T, torch.is_autocast_enabled("cpu")

    return function(compile, fn)


@script(in_all=3, peer=(1, 3))
def autocast_dtype_switched(compile: Compile) -> Running:
    module = nn.Linear(4, 4)
    compiled = compile(module)

    def step(call: int) -> Any:
        dtype = [torch.bfloat16, torch.float16, torch.bfloat16, torch.float32][call]
        with torch.autocast("cpu", dtype=dtype, enabled=call < 3):
            return compiled(rows(call))

    return Running(step, lambda: module)


@script()
def autocast_for_cuda(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        with torch.autocast("cuda", dtype=torch.float16, enabled=torch.cuda.is_available()):
            return x @ x.T

    return function(compile, fn)


@script()
def autocast_old_spelling(compile: Compile) -> Running:
    @torch.amp.custom_fwd(device_type="cpu")
    def inner(x: Tensor) -> Tensor:
        return x @ x.T

    def fn(x: Tensor) -> Any:
        with torch.amp.autocast("cpu", torch.bfloat16, cache_enabled=False):
            return x @ x.T, torch.is_autocast_cache_enabled(), torch.get_autocast_dtype("cpu")

    return function(compile, fn)


@script()
def autocast_over_a_loop(compile: Compile) -> Running:
    module = nn.Linear(4, 4)

    def fn(x: Tensor) -> Any:
        for i in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=i % 2 == 0):
                x = module(x)
            x = x.float()
        return x

    running = function(compile, fn)
    return Running(running.step, lambda: module)


@script(graphs=2, peer=(2, 3))
def autocast_over_a_break(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x.T
            scale = float(x.sum().item() > 1e9)
            b = x @ x.T + scale
        return a, b, x @ x.T

    return function(compile, fn)


# -- torch's own state -----------------------------------------------------------------------------------------------------


@script()
def default_dtype_read(compile: Compile) -> Running:
    return function(compile, lambda x: (x + torch.ones(4), torch.get_default_dtype()))


@script(in_all=2, peer=(1, 2))
def default_dtype_changed_between_calls(compile: Compile) -> Running:
    compiled = compile(lambda x: x.sum() + torch.ones(4))

    def step(call: int) -> Any:
        torch.set_default_dtype([torch.float32, torch.float64][call % 2])
        try:
            return compiled(rows(0).float())
        finally:
            torch.set_default_dtype(torch.float32)

    return Running(step, lambda: None)


@script(graphs=2, reason="the default dtype is set natively")
def default_dtype_set_inside(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        y = torch.ones(4)
        torch.set_default_dtype(before)
        return y, x + torch.ones(4)

    return function(compile, fn)


@script(graphs=3, peer=(0, 0))
def device_as_context_inside(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        with torch.device("meta"):
            a = torch.zeros(4)
        with torch.device("cpu"):
            b = torch.zeros(4)
        return a.device.type, b + x

    return function(compile, fn)


@script()
def device_as_context_outside(compile: Compile) -> Running:
    compiled = compile(lambda x: x + torch.zeros(4))

    def step(call: int) -> Any:
        with torch.device("cpu"):
            return compiled(rows(call))

    return Running(step, lambda: None)


@script(in_all=2, peer=(1, 2))
def default_device_changed_between_calls(compile: Compile) -> Running:
    compiled = compile(lambda x: (x.sum(), torch.zeros(4) + 1))

    def step(call: int) -> Any:
        with torch.device(["cpu", "meta"][call % 2]):
            x = rows(call)
        return compiled(x.to("cpu") if call % 2 == 0 else torch.zeros(2))[1].device

    return Running(step, lambda: None)


@script()
def matmul_precision_inside(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        y = x @ x.T
        torch.set_float32_matmul_precision(before)
        return y, before

    return function(compile, fn)


@script(in_all=2, peer=(1, 2))
def matmul_precision_between_calls(compile: Compile) -> Running:
    compiled = compile(lambda x: x @ x.T)

    def step(call: int) -> Any:
        torch.set_float32_matmul_precision(["highest", "high"][call % 2])
        try:
            return compiled(rows(call))
        finally:
            torch.set_float32_matmul_precision("highest")

    return Running(step, lambda: None)


@script(in_all=2, peer=(1, 2))
def deterministic_between_calls(compile: Compile) -> Running:
    compiled = compile(lambda x: (x @ x.T, torch.are_deterministic_algorithms_enabled()))

    def step(call: int) -> Any:
        torch.use_deterministic_algorithms(call % 2 == 1)
        try:
            return compiled(rows(call))
        finally:
            torch.use_deterministic_algorithms(False)

    return Running(step, lambda: None)


@script()
def deterministic_inside(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)
        y = x.cumsum(0)
        torch.use_deterministic_algorithms(before)
        return y, before, torch.is_deterministic_algorithms_warn_only_enabled()

    return function(compile, fn)


@script()
def backend_flags_read(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        flags = (
            torch.backends.cudnn.enabled,
            torch.backends.cudnn.benchmark,
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.mkldnn.enabled,
            torch.backends.cuda.flash_sdp_enabled(),
        )
        return x * 2, flags

    return function(compile, fn)


@script()
def sdpa_kernel_chosen(compile: Compile) -> Running:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def fn(x: Tensor) -> Any:
        q = x.view(1, 1, 5, 4)
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, q, q)

    return function(compile, fn)


@script()
def gradients_off_and_on(compile: Compile) -> Running:
    module = nn.Linear(4, 4)

    def fn(x: Tensor) -> Any:
        with torch.no_grad():
            target = module(x)
            with torch.enable_grad():
                online = module(x)
        with torch.set_grad_enabled(False):
            more = module(x)
        return F.mse_loss(online, target + 1), more

    compiled = compile(fn)

    def step(call: int) -> Any:
        loss, more = compiled(rows(call))
        loss.backward()
        return loss, more

    return Running(step, lambda: module)


@script()
def inference_mode_around_the_call(compile: Compile) -> Running:
    module = nn.Linear(4, 4)
    compiled = compile(module)

    def step(call: int) -> Any:
        with torch.inference_mode():
            return compiled(rows(call)).is_inference()

    return Running(step, lambda: module)


# -- random numbers --------------------------------------------------------------------------------------------------------


@script()
def random_numbers_of_a_step(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.RReLU(), nn.AlphaDropout(0.2))

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = module

        def forward(self, x: Tensor) -> Tensor:
            noise = torch.randn_like(x) + torch.rand(4) + torch.empty(4).exponential_()
            return self.body(x + noise) * torch.bernoulli(torch.full((4,), 0.5))  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def seeded_inside(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        torch.manual_seed(3)
        return x + torch.rand(4)

    return function(compile, fn)


@script()
def generator_of_its_own(compile: Compile) -> Running:
    generator = torch.Generator().manual_seed(7)
    running = function(compile, lambda x: x + torch.rand(4, generator=generator))
    return Running(running.step, generator.get_state)


@script(graphs=2, peer=(2, 2))
def random_state_kept(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        state = torch.get_rng_state()
        a = torch.rand(4)
        torch.set_rng_state(state)
        return x + a, x + torch.rand(4)

    return function(compile, fn)


@script(graphs=2, peer=(0, 0))
def random_state_forked(compile: Compile) -> Running:
    def fn(x: Tensor) -> Any:
        with torch.random.fork_rng(devices=[]):
            a = torch.rand(4)
        return x + a, x + torch.rand(4)

    return function(compile, fn)


@script(peer=(1, 2))
def python_random_numbers(compile: Compile) -> Running:
    import random

    def fn(x: Tensor) -> Any:
        return x * random.random() + torch.rand(4)

    return function(compile, fn)


@script(peer=(1, 2))
def numpy_random_numbers(compile: Compile) -> Running:
    import numpy

    def fn(x: Tensor) -> Any:
        return x * float(numpy.random.rand()) + torch.rand(4)

    return function(compile, fn)


@script(peer=(2, 2))
def sampled_latent(compile: Compile) -> Running:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Linear(4, 6)
            self.decode = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            mean, log_variance = self.encode(x).chunk(2, -1)
            posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
            prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
            latent = posterior.rsample()
            divergence = torch.distributions.kl_divergence(posterior, prior).sum()
            return F.mse_loss(self.decode(latent), x) + divergence

    return calling(compile, Module())
