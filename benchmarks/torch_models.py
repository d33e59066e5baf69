"""The benchmark networks as torch functions with the same weights, and training steps."""
from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as f
from nets import Step
from symbols import Table, program, run, sizes, traced, weights_of


def _dense(a: Any, x: Any, w: Any, b: Any = None) -> Any:
    return f.linear(x.flatten(1) if a.flatten else x, w, b)


def _pooling(a: Any, x: Any) -> Any:
    if a.global_pool:
        return f.adaptive_avg_pool2d(x, 1) if a.pool_type == "avg" else f.adaptive_max_pool2d(x, 1)
    return (f.max_pool2d if a.pool_type == "max" else f.avg_pool2d)(x, tuple(a.kernel), tuple(a.stride), tuple(a.pad))


OPERATORS: Table = {
    "FullyConnected": _dense, "Pooling": _pooling, "Flatten": lambda a, x: x.flatten(1),
    "Activation": lambda a, x: getattr(torch, a.act_type)(x),
    "Convolution": lambda a, x, w, b=None: f.conv2d(x, w, b, tuple(a.stride), tuple(a.pad), tuple(a.dilate),
                                                    a.num_group),
    "BatchNorm": lambda a, x, gamma, beta, mean, var: f.batch_norm(x, mean, var, gamma, beta, eps=a.eps),
    "LayerNorm": lambda a, x, gamma, beta: f.layer_norm(x, gamma.shape, gamma, beta, a.eps),
    "softmax": lambda a, x: torch.softmax(x, a.axis),
    "LeakyReLU": lambda a, x: f.gelu(x), "clip": lambda a, x: x.clamp(a.a_min, a.a_max),
    "tanh": lambda a, x: torch.tanh(x),
    "elemwise_add": lambda a, x, y: x + y, "elemwise_mul": lambda a, x, y: x * y,
    "_plus_scalar": lambda a, x: x + a.scalar, "_mul_scalar": lambda a, x: x * a.scalar,
    "dot": lambda a, x, y: x @ y, "batch_dot": lambda a, x, y: x @ (y.transpose(1, 2) if a.transpose_b else y),
    "transpose": lambda a, x: x.permute(*a.axes), "Reshape": lambda a, x: x.reshape(sizes(x.shape, a.shape)),
}


class Module(torch.nn.Module):
    """A network with its weights as buffers: CUDA graphs of torch.compile copy other tensors at each call."""

    def __init__(self, net: Any, inputs: int):
        super().__init__()
        symbol, self.inputs = traced(net, inputs)
        weights = weights_of(net)
        self.program, self.weights = program(symbol, OPERATORS), tuple(weights)
        for name, w in weights.items():
            self.register_buffer(name, torch.from_numpy(w))

    def forward(self, *xs: Any) -> Any:
        return self.program({**{name: getattr(self, name) for name in self.weights}, **dict(zip(self.inputs, xs))})


def to_torch(net: Any, inputs: int) -> Callable[..., Any]:
    """A module of tensors; GELU as torch's own operator."""
    if type(net).__name__ == "Gelu":
        return lambda x: f.gelu(x, approximate="tanh")
    return Module(net, inputs)


def whole(function: Callable[..., Any], mode: str | None = None) -> Callable[..., Any]:
    """torch.compile of a function, all of it or an error. All nets share the code of one function, of which torch
    compiles eight forms and runs further ones eagerly without a word: it forgets those of earlier workloads first.
    """
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, mode=mode)


def torch_step(net: Any, work: Step, compiled: bool) -> Callable[..., Any]:
    """A training step, with torch's fused optimizer."""
    symbol, names = traced(net, 1)
    weights = {name: torch.from_numpy(w.copy()).requires_grad_() for name, w in weights_of(net).items()}
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[work.optimizer]
    optimizer = kind(list(weights.values()), lr=work.rate, fused=True)

    def loss(x: Any, y: Any) -> Any:
        return f.cross_entropy(run(symbol, OPERATORS, {**weights, names[0]: x}), y)
    forward = whole(loss) if compiled else loss

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = forward(x, y)
        out.backward()
        optimizer.step()
        return out
    return step
