"""Loss curves of ordinary loops of hybridized nets are those of eager loops: networks with Dropout and BatchNorm, with
prints, metrics, schedules, evaluation and a smaller last batch in between.

    python -m tests.gluon.test_loss_curves 500     runs so many steps of each network, and prints how far apart they are
"""
from __future__ import annotations

import contextlib
import io
import sys
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, metric, nd
from hybrid.gluon import nn, rnn

CLASSES, ROWS, BATCH = 4, 56, 16        # 56 rows: the last batch of an epoch has 8
APART = 1e-4                            # of a loss, or of its size where that is above 1


def perceptron() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu"), nn.BatchNorm(), nn.Dropout(0.2), nn.Dense(16, activation="tanh"),
            nn.Dense(CLASSES))
    return net


def convolutions() -> Any:
    """The layer below BatchNorm has no bias: its gradient is rounding noise, which Adam divides by its own size."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2),
            nn.Dropout(0.1), nn.Conv2D(8, 3), nn.GlobalAvgPool2D(), nn.Dense(CLASSES))
    return net


class Residual(nn.HybridBlock):
    """Two convolutions beside their input."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first, self.norm, self.last = nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Conv2D(8, 3, padding=1)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return F.relu(x + self.last(F.relu(self.norm(self.first(x)))))


def residual() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, strides=2), Residual(), Residual(), nn.Flatten(), nn.Dropout(0.3), nn.Dense(CLASSES))
    return net


class Recurrent(nn.HybridBlock):
    """An LSTM over rows of an image, and a product of its last state."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.lstm, self.drop, self.out = rnn.LSTM(12, layout="NTC"), nn.Dropout(0.2), nn.Dense(CLASSES)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        states = self.lstm(F.reshape(x, shape=(0, -1, 8)))
        return self.out(self.drop(F.mean(states, axis=1)))


class Normed(nn.HybridBlock):
    """Layers with LayerNorm and GELU, as in a transformer."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.into, self.norm, self.wide = nn.Dense(16), nn.LayerNorm(), nn.Dense(32)
            self.gelu, self.back, self.drop, self.out = nn.GELU(), nn.Dense(16), nn.Dropout(0.1), nn.Dense(CLASSES)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        x = self.into(x)
        return self.out(x + self.drop(self.back(self.gelu(self.wide(self.norm(x))))))


NETWORKS: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "perceptron": (perceptron, "sgd", {"learning_rate": 0.05, "momentum": 0.9}),
    "convolutions": (convolutions, "adam", {"learning_rate": 2e-3}),
    "residual": (residual, "nag", {"learning_rate": 0.01, "momentum": 0.8, "wd": 1e-3}),
    "recurrent": (Recurrent, "adam", {"learning_rate": 3e-3, "epsilon": 1e-4}),
    "normed": (Normed, "sgd", {"learning_rate": 0.05, "clip_gradient": 1.0}),
}


def data() -> tuple[np.ndarray, np.ndarray]:
    """Images whose class their brightest corner tells, with noise."""
    rng = np.random.RandomState(7)
    x, y = 0.3 * rng.rand(ROWS, 1, 8, 8), rng.randint(0, CLASSES, ROWS)
    for image, k in zip(x[:, 0], y):
        image[4 * (k // 2):4 * (k // 2) + 4, 4 * (k % 2):4 * (k % 2) + 4] += 0.5
    return x.astype("f"), y.astype("f")


def curve(name: str, steps: int, hybridized: bool) -> tuple[np.ndarray, Any]:
    """The mean loss of each step, and the net."""
    make, optimizer, options = NETWORKS[name]
    mx.random.seed(11)
    net, loss_of, accuracy = make(), gluon.loss.SoftmaxCrossEntropyLoss(), metric.Accuracy()
    net.initialize(mx.init.Xavier())
    x, y = data()
    net(nd.array(x[:2]))
    if hybridized:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    starts, seen, total = range(0, ROWS, BATCH), [], nd.zeros((1,))
    for i in range(steps):
        first = starts[i % len(starts)]
        a, b = nd.array(x[first:first + BATCH]), nd.array(y[first:first + BATCH])
        with autograd.record():
            out = net(a)
            loss = loss_of(out, b)
        loss.backward()
        trainer.step(a.shape[0])
        accuracy.update([b], [out])
        total += loss.mean()
        seen.append(float(loss.mean().asscalar()))
        if i % 10 == 9:
            print(f"step {i}: loss {loss.mean().asscalar():.4f}, {accuracy.get()[0]} {accuracy.get()[1]:.3f}, "
                  f"weights up to {max(float(p.data().abs().max().asscalar()) for p in trainer._params):.3f}")
            accuracy.reset()
        if i % 50 == 49:
            trainer.set_learning_rate(trainer.learning_rate * 0.9)
            seen.append(float(loss_of(net(nd.array(x)), nd.array(y)).mean().asscalar()))           # evaluation
    seen.append(float(total.asscalar()) / steps)
    return np.array(seen), net


def apart(name: str, steps: int) -> tuple[float, Any, np.ndarray]:
    """The largest difference of two losses, in units of the larger of one and their size; the hybridized net; its
    curve."""
    eager, _ = curve(name, steps, False)
    found, net = curve(name, steps, True)
    return float((np.abs(found - eager) / np.maximum(1, np.abs(eager))).max()), net, found


@pytest.mark.parametrize("name", NETWORKS)
def test_a_loop_gives_the_losses_of_an_eager_one(name: str) -> None:
    difference, net, seen = apart(name, 60)
    assert difference < APART
    assert seen[-8:].mean() < seen[:8].mean()            # it learns
    assert net._engine.rounds.joined > 30


def low_precision_curve(name: str, dtype: str, steps: int) -> np.ndarray:
    """The losses of a compiled step whose layers compute in a half type, the optimizer in float32."""
    make, optimizer, options = NETWORKS[name]
    mx.random.seed(11)
    net, loss_of = make(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    x, y = (nd.array(a) for a in data())
    net(x[:2])
    net.cast(dtype)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {**options, "multi_precision": dtype != "float32"})

    @mx.hybridize
    def step(a: Any, b: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(a.astype(dtype)).astype("float32"), b)
        loss.backward()
        trainer.step(len(a))
        return loss.mean()
    starts = range(0, ROWS - BATCH + 1, BATCH)
    rows = [starts[i % len(starts)] for i in range(steps)]
    return np.array([step(x[k:k + BATCH], y[k:k + BATCH]).asscalar() for k in rows])


@pytest.mark.parametrize("dtype, most", [("float16", 2e-3), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("name", ["perceptron", "convolutions", "normed"])
def test_compiled_training_in_half_types_follows_float32(name: str, dtype: str, most: float) -> None:
    exact, found = (low_precision_curve(name, d, 60) for d in ("float32", dtype))
    assert 0 < np.abs(found - exact).mean() < most * exact.mean()
    assert found[-8:].mean() < found[:8].mean()


def main() -> None:
    """As many steps as asked for."""
    for name in NETWORKS:
        with contextlib.redirect_stdout(io.StringIO()):
            difference, net, seen = apart(name, int(sys.argv[1]))
        print(f"{name}: {difference:.2e} apart over {sys.argv[1]} steps, loss {seen[0]:.3f} to {seen[-2]:.4f}; "
              f"{net._engine.rounds}", flush=True)


if __name__ == "__main__":
    main()
