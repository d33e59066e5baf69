"""Programs for any size beside programs made for each: a growing sequence from an empty cache, and steady calls.

    python benchmarks/sizes.py [tokens]
"""
from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any, Callable

if __name__ == "__main__":                                      # cold: before anything is loaded
    os.environ.setdefault("HYBRID_CACHE", tempfile.mkdtemp())
    os.environ.setdefault("HYBRID_NUM_THREADS", "1")
    os.environ.setdefault("HYBRID_COMPILE", "now")        # what is timed is compiled

import numpy

from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import nn

WIDTH, HEADS, LAYERS = 64, 4, 4
SIZES = (2, 3, 7, 14, 16, 33, 64)


class Layer(gluon.HybridBlock):
    """A layer of a decoder that keeps keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(), nn.LayerNorm()
        self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, flatten=False) for _ in range(4))
        self.up, self.down = nn.Dense(4 * WIDTH, flatten=False), nn.Dense(WIDTH, flatten=False)

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        """The result, and keys and values with those of this token."""
        y = self.before(x)
        q, k, v = (t(y).reshape((0, 0, HEADS, -1)).transpose((0, 2, 1, 3)).reshape((-3, 0, 0))
                   for t in (self.query, self.key, self.value))
        keys, values = nd.concat(keys, k, dim=1), nd.concat(values, v, dim=1)
        a = nd.batch_dot(nd.softmax(nd.batch_dot(q, keys, transpose_b=True) / 4), values)
        x = x + self.out(a.reshape((-4, 1, HEADS, 0, 0)).transpose((0, 2, 1, 3)).reshape((0, 0, -3)))
        return x + self.down(nd.relu(self.up(self.between(x)))), keys, values


class Decoder(gluon.HybridBlock):
    """Tokens to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.logits = nn.Embedding(100, WIDTH), nn.Dense(100, flatten=False)
        for i in range(LAYERS):
            setattr(self, f"layer{i}", Layer())

    def forward(self, token: Any, *kept: Any) -> Any:
        """Logits, then keys and values of each layer."""
        x, new = self.table(token), []
        for i in range(LAYERS):
            x, *own = getattr(self, f"layer{i}")(x, *kept[2 * i:2 * i + 2])
            new += own
        return self.logits(x), *new


def tokens(net: Any, count: int) -> list[int]:
    """A sequence, each token the likeliest one."""
    token, kept, out = nd.zeros((1, 1)), [nd.zeros((HEADS, 1, WIDTH // HEADS)) for _ in range(2 * LAYERS)], []
    for _ in range(count):
        y, *kept = net(token, *kept)
        token = nd.argmax(y, axis=-1)
        out.append(int(token.asscalar()))
    return out


def timed(f: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    begin = time.perf_counter()
    out = f()
    return time.perf_counter() - begin, out


def decoding(count: int) -> None:
    """A sequence eagerly, hybridized from nothing, and once more."""
    net = Decoder()
    net.initialize()
    tokens(net, 2)
    eager, wanted = timed(lambda: tokens(net, count))
    net.hybridize()
    (first, a), (second, b) = timed(lambda: tokens(net, count)), timed(lambda: tokens(net, count))
    print(f"decoding {count} tokens: eager {eager:.2f} s; hybridized {first:.2f} s from an empty cache "
          f"({first / eager:.2f}), then {second:.2f} s ({second / eager:.2f}); {len(net.programs)} programs; "
          f"{'the same tokens' if a == b == wanted else 'OTHER TOKENS'}")


def perceptron(**options: Any) -> Any:
    """512-256-128-2."""
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
    net.initialize()
    net.hybridize(**options)
    return net


def serving() -> None:
    """Batches of many sizes: a program for all against one for each, best of many in turn."""
    nets = perceptron(), perceptron(dynamic=False)
    for n in (24, 48):
        nets[0](nd.ones((n, 512)))
    told = []
    for n in SIZES:
        x, best = nd.array(numpy.random.randn(n, 512).astype("float32")), [1.0, 1.0]
        for _ in range(40):
            for i, net in enumerate(nets):
                best[i] = min(best[i], timed(lambda net=net, x=x: [net(x) for _ in range(20)])[0] / 20)
        told.append(f"{n}: {best[0] / best[1]:.2f} of {best[1] * 1e6:.0f} us")
    print(f"MLP, a program for all sizes: {', '.join(told)}; {len(nets[0].programs)} programs")


class Tagger(gluon.HybridBlock):
    """A label for each token: embedding, a layer of attention, two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(100, WIDTH), nn.LayerNorm()
        self.query, self.key, self.value = (nn.Dense(WIDTH, flatten=False) for _ in range(3))
        self.up, self.down = nn.Dense(4 * WIDTH, flatten=False, activation="relu"), nn.Dense(100, flatten=False)

    def forward(self, tokens: Any) -> Any:
        """Logits."""
        x = self.norm(self.table(tokens))
        q, k, v = (t(x) for t in (self.query, self.key, self.value))
        scores = nd.batch_dot(q, k, transpose_b=True) / q.shape[2] ** 0.5
        return self.down(self.up(x + nd.batch_dot(nd.softmax(scores), v)))


def training_step(**options: Any) -> Any:
    """A compiled step of a network that tags sequences."""
    net = Tagger()
    net.initialize()
    net(nd.ones((2, 3)))
    return step_of(net, "adam", **options)


def digits_step(**options: Any) -> Any:
    """A compiled step of an MLP 784-256-128-10."""
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(10))
    net.initialize()
    net(nd.ones((2, 784)))
    return step_of(net, "sgd", **options)


def step_of(net: Any, optimizer: str, **options: Any) -> Any:
    """A compiled training step of a classifier."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 1e-3})

    @hybridize(**options)
    def step(data: Any, labels: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(data), labels)
        loss.backward()
        trainer.step(data.shape[0])
        return loss.mean()
    return step


def labels(*shape: int) -> Any:
    """Numbers below 10."""
    return nd.array(numpy.random.RandomState(0).randint(0, 10, shape), dtype="float32")


def training(name: str, make: Callable[..., Any], lengths: list[int], data: list[Any], rounds: int) -> None:
    """Steps of 30 lengths by one program, against a program for each length, each length's best of many in turn; and
    memory after more steps."""
    steps = make(), make(dynamic=False)
    first = [timed(lambda step=step: [step(*d).asscalar() for d in data])[0] for step in steps]
    best = [[9.0] * len(data) for _ in steps]
    for _ in range(rounds):
        for k, d in enumerate(data):
            for i, step in enumerate(steps):
                best[i][k] = min(best[i][k], timed(lambda step=step, d=d: step(*d).asscalar())[0])
    ratios = sorted(a / b for a, b in zip(*best))
    print(f"training step of {name} with {len(lengths)} lengths ({lengths[0]} to {lengths[-1]}): "
          f"{sum(best[0]) / sum(best[1]):.3f} of programs for each length in all, "
          f"{ratios[0]:.2f} to {ratios[-1]:.2f} by length, "
          f"{sum(best[1]) / len(data) * 1e3:.2f} ms a step; {len(steps[0].programs)} programs, first round "
          f"{first[0]:.1f} s, with one for each {first[1]:.1f} s")
    begin = memory()
    for k in range(int(os.environ.get("STEPS", "2000"))):
        steps[0](*data[k % len(data)])
    print(f"memory after {os.environ.get('STEPS', '2000')} more steps: {memory() - begin:+.1f} MiB of {begin:.0f} MiB")


def memory() -> float:
    """MiB that this process has in memory."""
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2 ** 20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens", type=int, nargs="?", default=256, help="of the decoder (256)")
    tokens = parser.parse_args().tokens
    serving()
    every = [*range(4, 124, 4)]
    training("a tagger", training_step, every, [(labels(8, n), labels(8, n)) for n in every], 15)
    every = [*range(8, 248, 8)]
    images = nd.array(numpy.random.RandomState(0).randn(every[-1], 784).astype("float32"))
    training("an MLP", digits_step, every, [(images[:n].copy(), labels(n)) for n in every], 15)
    decoding(tokens)
