"""What modules write, hold, hook and wrap in training scripts: see `training_table`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch.nn.utils.parametrizations
import torch.nn.utils.parametrize
from torch import Tensor, nn

from tests.semantics.training_table import Running, calling, contents, rows, script

Compile = Callable[[Any], Any]


# -- what forward writes -------------------------------------------------------------------------------------------------


class _Writing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("unset", None)


@script(peer=(1, 4))
def python_counter(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.linear(x)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def buffer_counter(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            self.steps += 1
            return self.linear(x) / self.steps

    return calling(compile, Module())


@script()
def running_mean_assigned(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return self.linear(x - self.mean)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def running_mean_in_place(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
                self.steps.add_(1)
            return self.linear(x - self.mean)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script(in_all=2, peer=(1, 2))
def buffer_set_on_the_first_call(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            if self.unset is None:
                self.unset = x.detach().mean(0)
            return self.linear(x - self.unset)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script(in_all=2, peer=(1, 2))
def buffer_registered_on_the_first_call(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            if not hasattr(self, "table"):
                self.register_buffer("table", torch.arange(4.0), persistent=False)
            return self.linear(x) + self.table

    return calling(compile, Module())


@script(in_all=3, peer=(1, 3))
def cache_that_grows(compile: Compile) -> Running:
    class Module(_Writing):
        cache: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            self.cache = y.detach() if self.cache is None else torch.cat([self.cache, y.detach()])
            return y + self.cache.mean()  # type: ignore[no-any-return]

    return calling(compile, Module())


@script(in_all=4, peer=(1, 4))
def list_of_results(compile: Compile) -> Running:
    class Module(_Writing):
        def __init__(self) -> None:
            super().__init__()
            self.results: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            self.results.append(y.detach())
            return y + len(self.results)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script(peer=(1, 4))
def list_that_nobody_reads(compile: Compile) -> Running:
    class Module(_Writing):
        def __init__(self) -> None:
            super().__init__()
            self.results: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            self.results.append(y.detach())
            return y  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def last_activation(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            self.last = self.linear(x)
            self.losses = {"mean": self.last.mean()}
            return self.last.relu()

    return calling(compile, Module())


@script(in_all=2, peer=(1, 2))
def a_flag_after_the_first_call(compile: Compile) -> Running:
    class Module(_Writing):
        ready = False

        def forward(self, x: Tensor) -> Tensor:
            if not self.ready:
                self.ready = True
                return self.linear(x)  # type: ignore[no-any-return]
            return self.linear(x) * 2  # type: ignore[no-any-return]

    return calling(compile, Module())


@script(in_all=2, peer=(1, 4))
def every_second_call(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.linear(x) * (self.calls % 2)

    return calling(compile, Module())


@script()
def parameter_written_in_forward(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.linear.weight.clamp_(-0.3, 0.3)
            return self.linear(x)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def parameter_data_written(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            self.linear.weight.data.mul_(0.9)
            return self.linear(x)  # type: ignore[no-any-return]

    return calling(compile, Module())


# -- containers ----------------------------------------------------------------------------------------------------------


class _Held(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Linear(4, 4)})
        self.sequence = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.scales = nn.ParameterList([torch.ones(4), torch.zeros(4)])
        self.more = nn.ParameterDict({"x": nn.Parameter(torch.ones(4)), "y": nn.Parameter(torch.ones(4))})


@script()
def containers_in_every_use(compile: Compile) -> Running:
    class Module(_Held):
        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            for i in range(len(self.layers)):
                x = self.layers[i](x)
            for layer in reversed(self.layers):
                x = layer(x)
            for i, (layer, scale) in enumerate(zip(self.layers, self.scales, strict=False)):
                x = layer(x) * scale + i
            for layer in self.layers[1:]:
                x = layer(x)
            x = self.layers[-1](x)
            for key in self.named:
                x = self.named[key](x)
            for key, module in self.named.items():
                x = module(x) + len(key)
            for module in self.named.values():
                x = module(x)
            if "a" in self.named and "c" not in self.named and "x" in self.more:
                x = x + len(self.named) + len(self.more)
            for _key, value in self.more.items():
                x = x * value
            for key in self.more.keys():  # noqa: SIM118
                x = x * self.more[key]
            x = x * self.more.x + sum(self.scales) + self.scales[-1]
            for module in self.sequence:
                x = module(x)
            for module in self.sequence[:2]:
                x = module(x)
            return self.sequence[1:](x) + self.sequence[-1](x)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def walks_over_parameters(compile: Compile) -> Running:
    class Module(_Held):
        def forward(self, x: Tensor) -> Tensor:
            x = x + sum(p.pow(2).sum() for p in self.parameters())
            x = x + sum(p.abs().sum() for name, p in self.named_parameters() if name.endswith("weight"))
            x = x + len(list(self.named_buffers())) + sum(b.sum() for b in self.buffers())
            return x + sum(p.numel() for p in self.layers.parameters() if p.requires_grad)

    return calling(compile, Module())


@script()
def walks_over_modules(compile: Compile) -> Running:
    class Module(_Held):
        def forward(self, x: Tensor) -> Tensor:
            for name, child in self.named_children():
                if name == "sequence":
                    x = child(x)
            for child in self.layers.children():
                x = child(x)
            for name, module in self.named_modules():
                if isinstance(module, nn.Linear):
                    x = module(x) + len(name)
            return x + sum(isinstance(module, nn.ReLU) for module in self.modules())

    return calling(compile, Module())


@script()
def submodules_by_name(compile: Compile) -> Running:
    class Module(_Held):
        def forward(self, x: Tensor) -> Tensor:
            x = self.get_submodule("layers.1")(x)
            x = x * self.get_parameter("more.x")
            x = getattr(self, "sequence")(x)  # noqa: B009
            return self._modules["named"]["b"](x) + self._parameters.get("nothing", 1)  # type: ignore

    return calling(compile, Module())


@script()
def shared_parameters(compile: Compile) -> Running:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight
            self.again = self.head

        def forward(self, x: Tensor) -> Tensor:
            return self.again(self.embed(torch.arange(5)) + x) + self.head(x)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script(in_all=4, peer=(1, 4))
def submodules_swapped_between_calls(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    running = calling(compile, module)

    def step(call: int) -> Any:
        module[0] = [nn.Linear(4, 4), nn.Linear(4, 3), nn.Identity(), nn.Linear(4, 2)][call]
        return running.step(call)

    return Running(step, running.state)


# -- overrides -----------------------------------------------------------------------------------------------------------


@script()
def getattr_that_delegates(compile: Compile) -> Running:
    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) @ self.weight + self.bias  # type: ignore[no-any-return]

    return calling(compile, Wrapper(nn.Linear(4, 4)))


@script()
def call_that_is_overridden(compile: Compile) -> Running:
    class Scaled(nn.Linear):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) * 2

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scaled = Scaled(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.scaled(x) + 1  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def property_and_setattr(compile: Compile) -> Running:
    class Module(_Writing):
        @property
        def scale(self) -> Tensor:
            return self.linear.weight.mean()

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)

        def forward(self, x: Tensor) -> Tensor:
            self.last_scale = self.scale
            return self.linear(x) * self.scale

    return calling(compile, Module())


@script()
def forward_replaced_on_the_instance(compile: Compile) -> Running:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            inner = self.linear.forward
            self.linear.forward = lambda x: inner(x) * 3  # type: ignore[method-assign]

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def training_flag_changed_inside(compile: Compile) -> Running:
    class Module(_Writing):
        def forward(self, x: Tensor) -> Tensor:
            was = self.training
            self.eval()
            y = F.dropout(self.linear(x), 0.5, self.training)
            self.train(was)
            return y

    return calling(compile, Module())


@script(peer=(0, 0))
def gradients_switched_off_inside(compile: Compile) -> Running:
    class Module(_Held):
        def forward(self, x: Tensor) -> Tensor:
            for p in self.layers.parameters():
                p.requires_grad_(False)
            x = self.layers[0](x)
            return self.sequence(x)  # type: ignore[no-any-return]

    return calling(compile, Module())


# -- hooks ---------------------------------------------------------------------------------------------------------------


def _hooked(compile: Compile, register: Callable[[nn.Linear], Any]) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    register(module[0])
    return Running(calling(compile, module).step, lambda: contents(module))


@script()
def forward_hook(compile: Compile) -> Running:
    return _hooked(compile, lambda m: m.register_forward_hook(lambda module, args, output: output * 2))


@script(in_all=2, peer=(1, 2))
def forward_hook_that_only_looks(compile: Compile) -> Running:
    seen: dict[str, Any] = {}

    def hook(module: nn.Module, args: Any, output: Tensor) -> None:
        seen["mean"] = output.detach().mean()

    running = _hooked(compile, lambda m: m.register_forward_hook(hook))
    return Running(running.step, lambda: (running.state(), seen))


@script()
def forward_pre_hook(compile: Compile) -> Running:
    return _hooked(compile, lambda m: m.register_forward_pre_hook(lambda module, args: args[0] + 1))


@script()
def hooks_with_keywords(compile: Compile) -> Running:
    class Inner(nn.Linear):
        def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
            return super().forward(x) * scale

    def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return args, {**kwargs, "scale": 3.0}

    def after(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        return output + kwargs["scale"]  # type: ignore[no-any-return]

    module = nn.Sequential(Inner(4, 4), nn.ReLU())
    module[0].register_forward_pre_hook(before, with_kwargs=True)
    module[0].register_forward_hook(after, with_kwargs=True)
    return calling(compile, module)


@script()
def hooks_on_the_root(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    module.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    module.register_forward_hook(lambda module, args, output: output + args[0].mean())
    module.register_forward_hook(lambda module, args, output: None, always_call=True)
    return calling(compile, module)


@script(in_all=3, reason="the peer does not see hooks that come later")
def hooks_added_and_removed(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    running = calling(compile, module)
    handles: list[Any] = []

    def step(call: int) -> Any:
        if call in (1, 2):
            handles.append(module[0].register_forward_hook(lambda m, args, output, c=call: output * c))
        if call == 3:
            for handle in handles:
                handle.remove()
        return running.step(call)

    return Running(step, lambda: [p.grad for p in module.parameters()])


@script(graphs=2, peer=(0, 0))
def full_backward_hook(compile: Compile) -> Running:
    return _hooked(compile, lambda m: m.register_full_backward_hook(lambda module, gi, go: (gi[0], *gi[1:])))


@script(graphs=2, peer=(0, 0))
def full_backward_pre_hook(compile: Compile) -> Running:
    return _hooked(compile, lambda m: m.register_full_backward_pre_hook(lambda module, go: (go[0] * 2,)))


@script(in_all=4, peer=(1, 4))
def global_forward_hook(compile: Compile) -> Running:
    running = _hooked(compile, lambda m: None)

    def step(call: int) -> Any:
        handle = nn.modules.module.register_module_forward_hook(lambda m, args, output: output * 1.5)
        try:
            return running.step(call)
        finally:
            handle.remove()

    return Running(step, running.state)


@script()
def state_dict_hooks(compile: Compile) -> Running:
    module = nn.Linear(4, 4)
    module.register_state_dict_post_hook(
        lambda m, state, prefix, meta: state.__setitem__(prefix + "extra", 1)
    )
    module.register_load_state_dict_pre_hook(
        lambda m, state, prefix, *rest: state.pop(prefix + "extra", None)
    )
    compiled = compile(module)

    def step(call: int) -> Any:
        result = compiled(rows(call))
        state = compiled.state_dict()
        compiled.load_state_dict(dict(state))
        return result, list(state)

    return Running(step, lambda: list(module.parameters()))


# -- parametrizations and lazy modules -----------------------------------------------------------------------------------


@script()
def weight_norm(compile: Compile) -> Running:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    return Running(calling(compile, module).step, lambda: contents(module))


@script()
def old_weight_norm(compile: Compile) -> Running:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calling(compile, nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)), nn.ReLU()))


@script()
def spectral_norm(compile: Compile) -> Running:
    return calling(compile, nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)))


@script()
def spectral_norm_in_eval(compile: Compile) -> Running:
    return calling(compile, nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).eval())


@script()
def old_spectral_norm(compile: Compile) -> Running:
    module = nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)), nn.ReLU())
    return Running(calling(compile, module).step, lambda: contents(module))


@script()
def orthogonal(compile: Compile) -> Running:
    return calling(compile, nn.utils.parametrizations.orthogonal(nn.Linear(4, 4), "weight", "cayley"))


class _Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


@script()
def own_parametrization(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    nn.utils.parametrize.register_parametrization(module[0], "weight", _Symmetric())
    return calling(compile, module)


@script()
def cached_parametrization(compile: Compile) -> Running:
    layer = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(layer, "weight", _Symmetric())

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            with nn.utils.parametrize.cached():
                return self.layer(self.layer(x))  # type: ignore[no-any-return]

    return calling(compile, Module())


@script()
def pruned(compile: Compile) -> Running:
    import torch.nn.utils.prune

    module = nn.Linear(4, 4)
    torch.nn.utils.prune.l1_unstructured(module, "weight", 0.5)
    return calling(compile, module)


@script(graphs=3, in_all=4, reason="the first call makes the parameters")
def lazy_modules(compile: Compile) -> Running:
    return calling(compile, nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyBatchNorm1d()))


@script()
def skip_init(compile: Compile) -> Running:
    module = nn.utils.skip_init(nn.Linear, 4, 4)
    with torch.no_grad():
        for p in module.parameters():
            p.fill_(0.5)
    return calling(compile, module)


# -- built-in modules ----------------------------------------------------------------------------------------------------


@script(graphs=2, in_all=3, peer=(0, 0))
def batch_norm_in_train_and_eval(compile: Compile) -> Running:
    module = nn.Sequential(
        nn.Linear(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4, momentum=None), nn.Dropout(0.5)
    )
    running = calling(compile, module)

    def step(call: int) -> Any:
        module.train(call % 2 == 0)
        return running.step(call)

    return Running(step, running.state)


@script()
def dropout_in_eval_gives_its_input(compile: Compile) -> Running:
    module = nn.Dropout(0.5).eval()

    class Module(nn.Module):
        def forward(self, x: Tensor) -> Any:
            y = module(x)
            return y, x * 2

    compiled = compile(Module())

    def step(call: int) -> Any:
        x = rows(call)
        y, z = compiled(x)
        return y is x, y, z

    return Running(step, lambda: None)


def _sequences(call: int) -> Tensor:
    return rows(call, 12).reshape(5, 3, 4)


@script(peer=(0, 0))
def lstm(compile: Compile) -> Running:
    return calling(compile, nn.LSTM(4, 3, num_layers=2, batch_first=True), _sequences)


@script(peer=(0, 0))
def gru(compile: Compile) -> Running:
    return calling(compile, nn.GRU(4, 3, bidirectional=True), _sequences)


@script(peer=(0, 0))
def rnn_with_state(compile: Compile) -> Running:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(4, 3, dropout=0.3, num_layers=2)
            self.hidden = torch.zeros(2, 3, 3)

        def forward(self, x: Tensor) -> Tensor:
            y, hidden = self.rnn(x, self.hidden)
            self.hidden = hidden.detach()
            return y  # type: ignore[no-any-return]

    return calling(compile, Module(), _sequences)


@script(graphs=3, reason="the lengths are data")
def packed_sequences(compile: Compile) -> Running:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(4, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x * 2, [3, 3, 2, 1, 1], batch_first=True)
            y, _ = self.rnn(packed)
            return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0] * 2  # type: ignore[no-any-return]

    return calling(compile, Module(), _sequences)


@script()
def transformer_layers(compile: Compile) -> Running:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return calling(compile, nn.TransformerEncoder(layer, 2), _sequences)


@script()
def transformer_layers_in_eval(compile: Compile) -> Running:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).eval()
    compiled = compile(module)

    def step(call: int) -> Any:
        with torch.no_grad():
            return compiled(_sequences(call))

    return Running(step, lambda: module)


@script(graphs=2, peer=(0, 0))
def scripted_submodule(compile: Compile) -> Running:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.scripted = torch.jit.script(nn.Linear(4, 4))
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(self.scripted(x * 2)) + 1  # type: ignore[no-any-return]

    running = calling(compile, module := Module())
    return Running(running.step, lambda: [(p, p.grad) for p in module.parameters()])


@script(in_all=3, peer=(1, 3))
def cast_between_calls(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    compiled = compile(module)

    def step(call: int) -> Any:
        dtype = [torch.float32, torch.float64, torch.bfloat16, torch.float32][call]
        compiled.to(dtype)
        result = compiled(rows(call).to(dtype))
        result.float().square().sum().backward()
        compiled.zero_grad()
        return result

    return Running(step, lambda: module)


@script()
def weights_initialised_by_apply(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    running = calling(compile, module)

    def initialise(each: nn.Module) -> None:
        if isinstance(each, nn.Linear):
            nn.init.xavier_uniform_(each.weight)
            nn.init.zeros_(each.bias)

    def step(call: int) -> Any:
        module.apply(initialise)
        return running.step(call)

    return Running(step, running.state)


@script(in_all=2, peer=None)
def saved_and_loaded(compile: Compile) -> Running:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = compile(module)
    held = [compiled]

    def step(call: int) -> Any:
        if call == 2:
            file = io.BytesIO()
            torch.save(held[0].state_dict(), file)
            file.seek(0)
            other = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
            other.load_state_dict(torch.load(file))
            held[0] = compile(other)
        result = held[0](rows(call))
        result.sum().backward()
        return result

    return Running(step, lambda: held[0].state_dict())
