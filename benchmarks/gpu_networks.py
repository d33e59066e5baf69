"""The networks of benchmarks/gpu.py and benchmarks/gpu_peers.py."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import nets

import hybrid as mx
from hybrid import nd
from hybrid.gluon import nn
from hybrid.gluon.model_zoo import vision


@dataclass(frozen=True)
class Network:
    """A network under the name of its program, and the shape and dtype of its input."""
    program: str
    make: Callable[[], Any]
    shape: tuple[int, ...]
    dtype: str = "float32"


def mlp() -> Any:
    """512-256-128-2."""
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu", in_units=512), nn.Dense(128, activation="relu", in_units=256),
            nn.Dense(2, in_units=128))
    return net


def encoder(length: int, width: int, heads: int) -> Any:
    """Four layers."""
    nets.LENGTH, nets.WIDTH, nets.HEADS = length, width, heads
    return nets.encoder()


def networks(quick: bool) -> list[Network]:
    """What is timed; smaller where it is only to be seen that it runs."""
    image, batch = (32, 2) if quick else (224, 32)
    length, width, heads = (32, 64, 2) if quick else (1024, 512, 8)
    resnet, layers = vision.resnet18_v1, partial(encoder, length, width, heads)
    return [
        Network("MLP, batch 1", mlp, (1, 512)),
        Network("MLP, batch 256", mlp, (256, 512)),
        Network("ResNet-18, batch 1", resnet, (1, 3, image, image)),
        Network(f"ResNet-18, batch {batch}", resnet, (batch, 3, image, image)),
        Network(f"ResNet-18, batch {batch}, float16", resnet, (batch, 3, image, image), "float16"),
        Network(f"encoder 4 x {width}, length {length}", layers, (8, length, width)),
        Network(f"encoder 4 x {width}, length {length}, bfloat16", layers, (8, length, width), "bfloat16"),
    ]


@cache
def _made(make: Callable[[], Any], shape: tuple[int, ...]) -> Any:
    net = make()
    net.initialize(ctx=mx.cpu())
    net(nd.zeros(shape, ctx=mx.cpu()))                     # which gives the parameters their shapes
    return net


def on_host(network: Network) -> Any:
    """The network on the CPU, in float32: weights for other libraries. Batches of one network share them."""
    return _made(network.make, (1, *network.shape[1:]))
