"""Programs about subclasses, distributions, numpy, and what else is no plain tensor: see `gradient_table`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.semantics.gradient_table import plain, program, rand, trained

# -- subclasses and objects with __torch_function__ -------------------------------------------------------------------------


class Tagged(Tensor):
    """A subclass that changes nothing."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self.as_subclass(Tensor).clone().as_subclass(Tagged)


class Loud(Tensor):
    """A subclass that sees every operation."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self.as_subclass(Tensor).clone().as_subclass(Loud)

    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Loud.calls.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})


class Doubling(Tensor):
    """A subclass whose sums are doubled."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self.as_subclass(Tensor).clone().as_subclass(Doubling)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func in (torch.Tensor.add, torch.add):
            return result * 2
        return result


class Wrapped:
    """No tensor, but torch's functions take it."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [each.value if isinstance(each, Wrapped) else each for each in args]
        return func(*plain, **(kwargs or {})) + 100


@program(arguments=lambda: (rand(3, 4).as_subclass(Tagged), rand(3, 4)))
def subclass_that_changes_nothing(x: Tensor, y: Tensor) -> Any:
    return x * 2 + y, type(x + 1) is Tagged


@program(
    arguments=lambda: (rand(3, 4).as_subclass(Loud), rand(3, 4)),
    graphs=0,
    peer_breaks=True,
    reason="a tensor of class Loud is not traced",
)
def subclass_that_sees(x: Tensor, y: Tensor) -> Any:
    Loud.calls.clear()
    z = torch.sin(x) * 2
    return z.as_subclass(Tensor), list(Loud.calls)


@program(
    arguments=lambda: (rand(3, 4).as_subclass(Doubling), rand(3, 4)),
    graphs=0,
    peer=2,
    peer_breaks=True,
    reason="a tensor of class Doubling is not traced",
)
def subclass_that_doubles(x: Tensor, y: Tensor) -> Any:
    return (x + y).as_subclass(Tensor), torch.add(x, 1).as_subclass(Tensor)


@program(graphs=0, peer_breaks=True, reason="tensor.as_subclass() does not go into a graph")
def subclass_made_inside(x: Tensor, y: Tensor) -> Any:
    return torch.add(x.as_subclass(Doubling), y).as_subclass(Tensor)


@program(graphs=0, reason="an object of class Wrapped is handed to a tensor operation")
def object_with_torch_function(x: Tensor, y: Tensor) -> Any:
    return torch.add(Wrapped(x), y), torch.sin(Wrapped(y))


@program(arguments=lambda: (nn.Parameter(rand(3, 4)), nn.Buffer(rand(3, 4))))
def parameters_and_buffers_as_arguments(x: Tensor, y: Tensor) -> Any:
    return x * y, isinstance(x, nn.Parameter), type(y).__name__


class Counting(torch.overrides.TorchFunctionMode):
    """Counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@program(
    graphs=0,
    peer=2,
    peer_breaks=True,
    reason="torch._C._push_on_torch_function_stack() is C code that is not known to be ",
)
def function_mode_inside(x: Tensor, y: Tensor) -> Any:
    with Counting() as mode:
        z = x * y + 1
    return z, mode.count


# -- distributions ------------------------------------------------------------------------------------------------------------


@program(arguments=trained)
def normal_distribution(x: Tensor, y: Tensor) -> Any:
    d = torch.distributions.Normal(x, y.exp())
    return d.rsample(), d.log_prob(x + 1), d.entropy(), d.mean


@program(arguments=plain)
def categorical_distribution(x: Tensor, y: Tensor) -> Any:
    d = torch.distributions.Categorical(logits=x)
    s = d.sample()
    return s, d.log_prob(s), d.entropy()


@program(arguments=plain)
def other_distributions(x: Tensor, y: Tensor) -> Any:
    b = torch.distributions.Bernoulli(logits=x)
    u = torch.distributions.Uniform(x, x + 1)
    i = torch.distributions.Independent(torch.distributions.Normal(x, 1.0), 1)
    return b.sample(), b.log_prob(torch.ones(3, 4)), u.rsample(), i.log_prob(y)


@program(arguments=plain)
def divergence(x: Tensor, y: Tensor) -> Any:
    p = torch.distributions.Normal(x, 1.0)
    q = torch.distributions.Normal(y, 2.0)
    return torch.distributions.kl_divergence(p, q).sum()


@program(arguments=plain)
def multivariate(x: Tensor, y: Tensor) -> Any:
    d = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3) * 2)
    return d.rsample((2,)), d.log_prob(x[:, 0])


@program(arguments=trained)
def variational(x: Tensor, y: Tensor) -> Any:
    d = torch.distributions.Normal(x, F.softplus(y), validate_args=False)
    z = d.rsample()
    prior = torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x), validate_args=False)
    return (z**2).sum() + torch.distributions.kl_divergence(d, prior).sum()


# -- data, numpy, types ---------------------------------------------------------------------------------------------------------


@program
def tensors_from_data(x: Tensor, y: Tensor) -> Any:
    n = x.shape[0]
    return (
        *(
            torch.tensor([1.0, n]),
            torch.as_tensor([[1, 2], [3, n]]),
            torch.tensor(2.5) * x,
            torch.as_tensor(x),
        ),
        *(
            torch.tensor([[True, False]]),
            torch.tensor(range(3)),
            torch.tensor(()),
            torch.asarray([1, 2]),
            x.new_tensor([n]),
        ),
    )


@program
def tensor_of_tensors(x: Tensor, y: Tensor) -> Any:
    return torch.tensor([1, 2], dtype=x.dtype, device=x.device) + x[:, :2], torch.stack([x[0, 0], y[0, 0]])


@program(reason="numpy.arange() is C code that is not known to be an operation")
def from_numpy(x: Tensor, y: Tensor) -> Any:
    return torch.from_numpy(np.arange(4, dtype=np.float32)) + x


@program(graphs=2, reason="tensor.numpy() needs the values of the tensor")
def to_numpy(x: Tensor, y: Tensor) -> Any:
    a = (x * 2).numpy()
    return torch.from_numpy(a + 1) * y


@program(reason="tensor.numpy() needs the values of the tensor")
def numpy_functions(x: Tensor, y: Tensor) -> Any:
    a = x.numpy()
    b = np.sin(a).sum(axis=0) + np.ones(4, dtype=np.float32)
    return torch.as_tensor(b) + y


@program(graphs=3, reason="class float32 is instantiated by C code")
def numpy_constants(x: Tensor, y: Tensor) -> Any:
    return x * np.pi + np.float32(2.0) * y, x * float(np.sqrt(16)), x + np.float64(0.5)


@program(peer_breaks=True)
def dtypes_as_values(x: Tensor, y: Tensor) -> Any:
    table = {torch.float32: 1, torch.float64: 2}
    dtype = x.dtype if x.dtype.is_floating_point else torch.float32
    low = torch.finfo(dtype).min
    return (
        *(x.to(torch.float64).dtype == torch.float64, table[x.dtype], x.masked_fill(x > 0, low)),
        *(
            torch.iinfo(torch.int32).max,
            torch.finfo(torch.bfloat16).bits,
            str(dtype),
            dtype.itemsize,
            dtype.is_complex,
        ),
        torch.promote_types(x.dtype, torch.float64),
        torch.result_type(x, 1.0),
    )


@program
def devices_as_values(x: Tensor, y: Tensor) -> Any:
    device = torch.device("cpu")
    other = torch.device(x.device.type, 0) if x.is_cuda else x.device
    return (
        *(x.to(device) + 1, x.device == device, x.device.type, x.device.index, torch.zeros(2, device=other)),
        *(str(device), device in {torch.device("cpu"): 1}, torch.ones(2, device=x.device.type)),
    )


@program(
    peer=0, peer_breaks=True, reason="the context of a 'ConstantValue' object is entered and left by C code"
)
def device_context(x: Tensor, y: Tensor) -> Any:
    with torch.device("cpu"):
        return torch.zeros(3, 4) + x


@program
def asks_whether_it_is_compiled(x: Tensor, y: Tensor) -> Any:
    if torch.jit.is_scripting() or torch.jit.is_tracing():
        return x
    return x * 2 + y


@program(peer_breaks=True, reason="tensor.untyped_storage() does not go into a graph")
def storage_queries(x: Tensor, y: Tensor) -> Any:
    return x * 2, x.untyped_storage().nbytes()


@program(reason="attribute '__call__' of an object of class torch.jit.ScriptFunction is serv")
def scripted_function(x: Tensor, y: Tensor) -> Any:
    return SCRIPTED(x, y) * 2


def _scripted(x: Tensor, y: Tensor) -> Tensor:
    return x * y + 1


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    SCRIPTED = torch.jit.trace(_scripted, (torch.ones(3, 4), torch.ones(3, 4)))


@program(arguments=trained)
def pytrees(x: Tensor, y: Tensor) -> Any:
    import torch.utils._pytree as pytree

    doubled = pytree.tree_map(lambda t: t * 2, {"a": x, "b": [y, (x,)]})
    flat, spec = pytree.tree_flatten(doubled)
    return pytree.tree_unflatten([each + 1 for each in flat], spec)


@program(peer_breaks=True, reason="class Generator is instantiated by C code")
def seeds(x: Tensor, y: Tensor) -> Any:
    g = torch.Generator().manual_seed(5)
    return torch.rand(3, generator=g), x * 2


@program(graphs=2, peer=0, peer_breaks=True, reason="torch.random.fork_rng() is not traced")
def forked_random_state(x: Tensor, y: Tensor) -> Any:
    with torch.random.fork_rng(devices=[]):
        a = torch.rand(3)
    return a, torch.rand(3), x * 2
