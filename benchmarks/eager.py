"""What eager code costs: small operators and operators of a million elements beside NumPy's, and training steps.

    python benchmarks/eager.py [small] [large] [steps]

Times are the least of many runs. ``large`` lists the operators that take longest beside NumPy's function first;
``eager_rows.py`` has all of them, of every dtype.
"""
from __future__ import annotations

import argparse
import timeit
from typing import Any, Callable

import numpy as onp

from hybrid import autograd, gluon, nd, np, npx
from hybrid.gluon import nn

MILLION = 10 ** 6
ELEMENTWISE = ("exp log sqrt tanh sin cos abs sign floor ceil rint square log1p expm1 cbrt arctan sinh negative "
               "reciprocal isnan isfinite degrees").split()
TWO = "add subtract multiply true_divide maximum minimum power mod arctan2 hypot equal less logical_and".split()
REDUCTIONS = "sum mean max min prod var std argmax argmin cumsum any all".split()


def least(run: Callable[[], Any], rounds: int, times: int) -> float:
    """Seconds of one call: the least of some rounds."""
    run()
    return min(timeit.repeat(run, number=times, repeat=rounds)) / times


def small() -> None:
    """Microseconds of small operators, and how much NumPy's function takes of them."""
    raw = onp.random.rand(4, 4).astype("float32")
    x, y, p, q = nd.array(raw), nd.array(raw), np.array(raw), np.array(raw)
    rows = {"nd x + y": (lambda: x + y, lambda: raw + raw), "np x + y": (lambda: p + q, lambda: raw + raw),
            "nd x * 2": (lambda: x * 2.0, lambda: raw * 2.0), "nd.exp(x)": (lambda: nd.exp(x), lambda: onp.exp(raw)),
            "np.exp(x)": (lambda: np.exp(p), lambda: onp.exp(raw)), "x.sum()": (lambda: p.sum(), lambda: raw.sum()),
            "x[1]": (lambda: x[1], lambda: raw[1]), "x.reshape": (lambda: p.reshape(2, 8), lambda: raw.reshape(2, 8))}
    for name, (ours, theirs) in rows.items():
        a, b = least(ours, 60, 500) * 1e6, least(theirs, 60, 500) * 1e6
        print(f"{name:12} {a:7.2f} us   NumPy {b:6.2f} us   above it {a - b:6.2f} us")


def _large() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    raw = (onp.random.rand(1000, 1000) + 0.1).astype("float32")
    other = (onp.random.rand(1000, 1000) + 0.1).astype("float32")
    x, y = np.array(raw), np.array(other)
    i = onp.random.randint(0, 1000, 1000)
    j = np.array(i)
    rows = {n: ((lambda f=getattr(np, n): f(x)), (lambda f=getattr(onp, n): f(raw))) for n in ELEMENTWISE + REDUCTIONS}
    rows.update({n: ((lambda f=getattr(np, n): f(x, y)), (lambda f=getattr(onp, n): f(raw, other))) for n in TWO})
    rows.update({f"{n} axis 0": ((lambda f=getattr(np, n): f(x, axis=0)), (lambda f=getattr(onp, n): f(raw, axis=0)))
                 for n in REDUCTIONS})
    flat, rawflat = np.array(raw.ravel()), raw.ravel()
    rows.update({
        "sort": (lambda: np.sort(flat), lambda: onp.sort(rawflat)),
        "argsort": (lambda: np.argsort(flat), lambda: onp.argsort(rawflat)),
        "sort rows": (lambda: np.sort(x), lambda: onp.sort(raw)),
        "topk 10": (lambda: npx.topk(x, k=10), lambda: onp.argpartition(raw, -10)),
        "x + 1": (lambda: x + 1, lambda: raw + onp.float32(1)), "x ** 2": (lambda: x ** 2, lambda: raw ** 2),
        "transpose": (lambda: x.T, lambda: onp.ascontiguousarray(raw.T)),
        "concatenate": (lambda: np.concatenate([x, y]), lambda: onp.concatenate([raw, other])),
        "stack": (lambda: np.stack([x, y]), lambda: onp.stack([raw, other])),
        "where": (lambda: np.where(x > y, x, y), lambda: onp.where(raw > other, raw, other)),
        "take": (lambda: np.take(x, j, axis=0), lambda: onp.take(raw, i, axis=0)),
        "clip": (lambda: np.clip(x, 0.2, 0.8), lambda: onp.clip(raw, onp.float32(0.2), onp.float32(0.8))),
        "flip": (lambda: np.flip(x, 0), lambda: onp.flip(raw, 0).copy()),
        "roll": (lambda: np.roll(x, 7), lambda: onp.roll(raw, 7)),
        "tile": (lambda: np.tile(x, 2), lambda: onp.tile(raw, 2)),
        "repeat": (lambda: np.repeat(x, 2, axis=0), lambda: onp.repeat(raw, 2, axis=0)),
        "dot": (lambda: np.dot(x, y), lambda: onp.dot(raw, other)),
        "einsum": (lambda: np.einsum("ij,ij->i", x, y), lambda: onp.einsum("ij,ij->i", raw, other)),
        "astype": (lambda: x.astype("float64"), lambda: raw.astype("float64")),
        "copy": (lambda: x.copy(), lambda: raw.copy()), "x + row": (lambda: x + x[0], lambda: raw + raw[0]),
        "outer": (lambda: np.outer(x[0], x[1]), lambda: onp.outer(raw[0], raw[1])),
        "tril": (lambda: np.tril(x), lambda: onp.tril(raw)), "diff": (lambda: np.diff(x), lambda: onp.diff(raw)),
        "softmax": (lambda: npx.softmax(x), lambda: _softmax(raw)),
        "relu": (lambda: npx.relu(x), lambda: onp.maximum(raw, 0)),
        "sigmoid": (lambda: npx.sigmoid(x), lambda: 1 / (1 + onp.exp(-raw))),
        "unique": (lambda: np.unique(j), lambda: onp.unique(i)),
    })
    return rows


def _softmax(x: onp.ndarray) -> onp.ndarray:
    e = onp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def large() -> None:
    """Operators of a million elements, the slowest beside NumPy's first."""
    found = []
    for name, (ours, theirs) in _large().items():
        times = (least(ours, 5, 1), least(theirs, 5, 1))
        found.append((times[0] / times[1], name, *times))
    for ratio, name, ours, theirs in sorted(found, reverse=True):
        print(f"{name:14} {ours * 1e3:8.2f} ms   NumPy {theirs * 1e3:8.2f} ms   {ratio:5.2f}")


def lenet() -> Callable[[], None]:
    """A training step of LeNet, 32 images."""
    net = nn.Sequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
            nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="relu"), nn.Dense(10))
    return _step(net, nd.array(onp.random.rand(32, 1, 28, 28).astype("float32")), 10)


class _Layer(nn.Block):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)
        self.up, self.down = nn.Dense(4 * width, flatten=False, activation="relu"), nn.Dense(width, flatten=False)
        self.first, self.second = nn.LayerNorm(), nn.LayerNorm()

    def forward(self, x: Any) -> Any:
        b, n, width = x.shape
        q, k, v = (t.reshape((b, n, self.heads, -1)).transpose((0, 2, 1, 3)).reshape((b * self.heads, n, -1))
                   for t in nd.split(self.qkv(self.first(x)), 3, axis=2))
        weights = nd.softmax(nd.batch_dot(q, k, transpose_b=True) * (width // self.heads) ** -0.5)
        y = nd.batch_dot(weights, v).reshape((b, self.heads, n, -1)).transpose((0, 2, 1, 3)).reshape((b, n, width))
        x = x + self.out(y)
        return x + self.down(self.up(self.second(x)))


def transformer() -> Callable[[], None]:
    """A training step of a transformer of 4 layers, width 256, 8 sequences of 64 tokens."""
    net = nn.Sequential()
    net.add(nn.Embedding(1000, 256), *[_Layer(256, 8) for _ in range(4)], nn.Dense(1000, flatten=False))
    return _step(net, nd.array(onp.random.randint(0, 1000, (8, 64))), 1000, (8, 64))


def _step(net: Any, x: Any, classes: int, shape: tuple[int, ...] | None = None) -> Callable[[], None]:
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    y = nd.array(onp.random.randint(0, classes, shape or x.shape[:1]))

    def step() -> None:
        with autograd.record():
            found = loss(net(x), y)
        found.backward()
        trainer.step(x.shape[0])
    return step


def steps() -> None:
    """Training steps, eagerly."""
    for name, make in (("LeNet", lenet), ("transformer", transformer)):
        print(f"{name:12} {least(make(), 8, 1) * 1e3:8.1f} ms a step")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"small": small, "large": large, "steps": steps}
    parser.add_argument("part", nargs="*", help=f"{', '.join(parts)}; all by default")
    given = parser.parse_args().part
    if strange := [part for part in given if part not in parts]:
        parser.error(f"there is no part {', '.join(strange)}")
    for part in given or parts:
        parts[part]()
