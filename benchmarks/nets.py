"""What is timed: networks as Gluon code, which this library and MXNet both run (BENCH_FRAMEWORK says which)."""
from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any, Callable

mx: Any = importlib.import_module(os.environ.get("BENCH_FRAMEWORK", "hybrid"))
gluon: Any = mx.gluon
nn: Any = gluon.nn
vision: Any = importlib.import_module(f"{mx.__name__}.gluon.model_zoo.vision")


def mlp() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
    return net


def lenet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(2),
            nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


LENGTH, WIDTH, HEADS, LAYERS = 128, 256, 4, 4


class EncoderLayer(nn.HybridBlock):
    """Self-attention and a feed-forward net, each after a LayerNorm and added to its input."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.before, self.between = nn.LayerNorm(in_channels=WIDTH), nn.LayerNorm(in_channels=WIDTH)
            self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, flatten=False, in_units=WIDTH) for _ in range(4))
            self.wide, self.narrow = nn.Dense(4 * WIDTH, flatten=False, in_units=WIDTH), nn.Dense(WIDTH, flatten=False, in_units=4 * WIDTH)
            self.gelu = nn.GELU()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        def heads(y: Any) -> Any:
            y = F.transpose(F.reshape(y, shape=(-1, LENGTH, HEADS, WIDTH // HEADS)), axes=(0, 2, 1, 3))
            return F.reshape(y, shape=(-1, LENGTH, WIDTH // HEADS))
        y = self.before(x)
        scores = F.softmax(F.batch_dot(heads(self.query(y)), heads(self.key(y)), transpose_b=True) * (WIDTH // HEADS) ** -0.5)
        y = F.reshape(F.batch_dot(scores, heads(self.value(y))), shape=(-1, HEADS, LENGTH, WIDTH // HEADS))
        x = x + self.out(F.reshape(F.transpose(y, axes=(0, 2, 1, 3)), shape=(-1, LENGTH, WIDTH)))
        return x + self.narrow(self.gelu(self.wide(self.between(x))))


def encoder() -> Any:
    net = nn.HybridSequential()
    net.add(*[EncoderLayer() for _ in range(LAYERS)])
    return net


class Gelu(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return 0.5 * x * (1 + F.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


class Softmax(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.softmax(x)


class Elementwise(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x * x + 1


class Product(nn.HybridBlock):
    def hybrid_forward(self, F: Any, a: Any, b: Any) -> Any:
        return F.dot(a, b)


@dataclass(frozen=True)
class Workload:
    """A network, the shapes of its inputs, and whether torch.compile is asked too (it takes minutes for long chains)."""
    title: str
    make: Callable[[], Any]
    shapes: tuple[tuple[int, ...], ...]


def _image(size: int = 224) -> tuple[tuple[int, ...]]:
    return ((1, 3, size, size),)


INFERENCE = [
    Workload("MLP 512-256-128-2, batch 1", mlp, ((1, 512),)),
    Workload("MLP 512-256-128-2, batch 256", mlp, ((256, 512),)),
    Workload("LeNet, batch 16", lenet, ((16, 1, 28, 28),)),
    Workload("ResNet-18, batch 1", vision.resnet18_v1, _image()),
    Workload("ResNet-50, batch 1", vision.resnet50_v1, _image()),
    Workload("MobileNetV2, batch 1", vision.mobilenet_v2_1_0, _image()),
    Workload("encoder of 4 layers, batch 1", encoder, ((1, LENGTH, WIDTH),)),
    Workload("encoder of 4 layers, batch 8", encoder, ((8, LENGTH, WIDTH),)),
    Workload("x * x + 1, 1000 floats", Elementwise, ((1000,),)),
    Workload("GELU chain, 16M floats", Gelu, ((1 << 24,),)),
    Workload("softmax (4096, 1024)", Softmax, ((4096, 1024),)),
    Workload("LayerNorm (4096, 1024)", nn.LayerNorm, ((4096, 1024),)),
    *(Workload(f"GEMM {n}", Product, ((n, n), (n, n))) for n in (512, 1024, 2048)),
]


# ---- training steps
def train_mlp() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu", in_units=784), nn.Dense(128, activation="relu", in_units=256), nn.Dense(10, in_units=128))
    return net


def train_lenet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu", in_channels=1), nn.MaxPool2D(2), nn.Conv2D(50, 5, activation="relu", in_channels=20), nn.MaxPool2D(2),
            nn.Dense(128, activation="relu", in_units=800), nn.Dense(10, in_units=128))
    return net


@dataclass(frozen=True)
class Step:
    """A training step: softmax cross-entropy, backward, update."""
    title: str
    make: Callable[[], Any]
    shape: tuple[int, ...]
    optimizer: str
    rate: float = 1e-3


TRAINING = [
    Step("training step, MLP, batch 64, SGD", train_mlp, (64, 784), "sgd"),
    Step("training step, MLP, batch 64, Adam", train_mlp, (64, 784), "adam"),
    Step("training step, LeNet, batch 64, SGD", train_lenet, (64, 1, 28, 28), "sgd"),
]


def gluon_step(net: Any, work: Step) -> Callable[[Any, Any], Any]:
    """The step of a Gluon net, as it is written eagerly."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), work.optimizer, {"learning_rate": work.rate})

    def step(x: Any, y: Any) -> Any:
        with mx.autograd.record():
            out = loss(net(x), y)
        out.backward()
        trainer.step(work.shape[0])
        return out
    return step
