"""Run by a Python that has MXNet 1.9.1: microseconds a hybridized call, as one line of JSON."""
import json
import time

import mxnet as mx
from mxnet.gluon import nn


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
    return net


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(2),
            nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


out = {}
for title, make, shape in (("MLP 512-256-128-2, batch 1", mlp, (1, 512)), ("MLP 512-256-128-2, batch 256", mlp, (256, 512)), ("LeNet, batch 16", lenet, (16, 1, 28, 28))):
    net = make()
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    x = mx.nd.random.normal(shape=shape)
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        net(x).wait_to_read()
        times.append(time.perf_counter() - begin)
    out[title] = sorted(times)[len(times) // 2] * 1e6
print(json.dumps(out))
