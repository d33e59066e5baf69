"""The benchmark networks as torch modules with the same weights."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn


def _filled(layer: Any, weight: Any, bias: Any) -> Any:
    layer.weight.data = torch.from_numpy(weight.data().asnumpy().copy())
    layer.bias.data = torch.from_numpy(bias.data().asnumpy().copy())
    return layer


def _layer(layer: Any) -> list[Any]:
    kind = type(layer).__name__
    after = [nn.ReLU()] if getattr(layer, "act", None) is not None else []
    if kind == "Dense":
        out, inside = layer.weight.shape
        return [nn.Flatten(), _filled(nn.Linear(inside, out), layer.weight, layer.bias), *after]
    if kind == "Conv2D":
        out, inside, *kernel = layer.weight.shape
        return [_filled(nn.Conv2d(inside, out, tuple(kernel)), layer.weight, layer.bias), *after]
    if kind == "MaxPool2D":
        return [nn.MaxPool2d(2)]
    if kind == "LayerNorm":
        return [_filled(nn.LayerNorm(layer.gamma.shape), layer.gamma, layer.beta)]
    raise ValueError(f"no torch form of {kind}")


def to_torch(net: Any) -> Any:
    """A module or a function of a tensor."""
    kind = type(net).__name__
    if kind == "Elementwise":
        return lambda x: x * x + 1
    if kind == "Gelu":
        return nn.GELU(approximate="tanh")
    if kind == "Softmax":
        return nn.Softmax(-1)
    layers = net._children.values() if kind == "HybridSequential" else [net]
    return nn.Sequential(*[piece for layer in layers for piece in _layer(layer)]).eval()
