"""A whole training step (forward, loss, backward, update) three ways: eagerly, with the net hybridized, and as one
program.

``python examples/train_step.py``. In one program the gradients go straight into the update: they are never written to
memory.
"""
from __future__ import annotations

import argparse
from typing import Any, Callable, Sequence

import numpy as onp
from shared import digits, milliseconds, table, training_step

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn


def make(args: argparse.Namespace, way: str) -> tuple[Any, Callable[[Any, Any], Any]]:
    """A net and its training step, made in one of three ways from the same seed."""
    mx.random.seed(args.seed)
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu", in_units=784), nn.Dense(128, activation="relu", in_units=256),
            nn.Dense(10, in_units=128))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), args.optimizer, {"learning_rate": args.lr})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    step = training_step(net, loss_of, trainer)
    if way == "net hybridized":
        net.hybridize()
        loss_of.hybridize()
    return net, mx.hybridize(step) if way == "one program" else step


def first_batches(args: argparse.Namespace) -> list[tuple[Any, Any]]:
    """Batches of the digits as rows of 784 numbers."""
    images, labels = digits()
    order = onp.random.RandomState(args.seed).permutation(len(labels))
    parts = [order[i:i + args.batch] for i in range(0, len(order) - args.batch + 1, args.batch)]
    return [(nd.array(images[p].reshape(len(p), -1)), nd.array(labels[p])) for p in parts]


def gradient(net: Any) -> str:
    """What is to be seen of the first gradient after a step."""
    weight = net[0].weight
    try:
        return f"written: {weight.grad().size * 4} bytes for the first weight alone"
    except mx.errors.HybridError as err:
        return f"not written ({str(err).split(':')[0].split(',')[0]})"


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line; train and time all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3, help="epochs over the digits, before timing (3)")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--optimizer", default="adam", help="any of hybrid's (adam)")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    batches = first_batches(args)
    rows, losses, weights, notes = [], [], [], []
    for way in ("eager", "net hybridized", "one program"):
        net, step = make(args, way)
        losses.append([float(step(x, y).mean().asscalar()) for _ in range(args.epochs) for x, y in batches])
        weights.append(net[0].weight.data().asnumpy())
        time = milliseconds(lambda step=step: step(*batches[0]), 50)
        rows.append((way, f"{losses[-1][-1]:.4f}", f"{time:.2f}", f"{float(rows[0][2]) / time if rows else 1:.1f}"))
        notes.append((way, gradient(net)))
    print(f"MLP 784-256-128-10, batch {args.batch}, {args.optimizer}: {len(losses[0])} steps from the same seed, then "
          f"timed")
    table(("a step", "last loss", "ms", "times faster"), rows)
    print(f"  largest difference of the losses  "
          f"{max(onp.abs(onp.subtract(losses[0], other)).max() for other in losses[1:]):.1e}")
    print(f"  largest difference of a weight    {max(onp.abs(weights[0] - other).max() for other in weights[1:]):.1e}")
    for way, text in notes:
        print(f"  gradients, {way:<22} {text}")
    report = step.report()                                       # type: ignore[attr-defined]
    print(f"  kernels of the one program        {report.eager_kernels} before fusion, {len(report.kernels)} after")
    print(f"  bytes                             {report.eager_bytes} eager, {report.planned_bytes} planned, "
          f"{report.bound_bytes} liveness bound")
    print(f"  generated source                  {report.source_path}")


if __name__ == "__main__":
    main()
