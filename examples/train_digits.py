"""Train LeNet on real handwritten digits: eagerly and hybridized side by side, then hybridized to the end.

``python examples/train_digits.py`` prints an accuracy table and saves the curves as an image. Data: examples/data.
"""
from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Sequence

import numpy as onp
from shared import COLORS, TEST, canvas, digits, lenet, note, picture, progress, save, table

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.contrib import amp


class Training:
    """A net, its trainer and its batches, all from one seed: two of them see the same numbers in the same order."""

    def __init__(self, args: argparse.Namespace, hybridized: bool):
        mx.random.seed(args.seed)
        self.order = onp.random.RandomState(args.seed)
        self.images, self.labels = digits()
        self.net = lenet()
        self.net.initialize(mx.init.Xavier())
        if hybridized:
            self.net.hybridize()
        self.net(nd.array(self.images[:args.batch]))             # the first call finds the shapes and draws the weights
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = gluon.Trainer(self.net.collect_params(), "adam", {"learning_rate": args.lr})
        if args.amp:
            amp.init_trainer(self.trainer)
        self.batch, self.amp = args.batch, bool(args.amp)
        self.losses: list[float] = []

    def batches(self) -> Any:
        """One epoch of the training digits in a new order; what is left over at the end is dropped."""
        count = len(self.labels) - TEST
        sampler = gluon.data.BatchSampler(self.order.permutation(count).tolist(), self.batch, "discard")
        return gluon.data.DataLoader(gluon.data.ArrayDataset(self.images, self.labels), batch_sampler=sampler)

    def step(self, x: Any, y: Any) -> float:
        """One update; gives the mean loss of the batch before it."""
        with autograd.record():
            loss = self.loss(self.net(x), y)
            with amp.scale_loss(loss, self.trainer) if self.amp else nullcontext(loss) as scaled:
                scaled.backward()
        self.trainer.step(self.batch)
        self.losses.append(float(loss.mean().asscalar()))
        return self.losses[-1]

    def steps(self, count: int, title: str) -> float:
        """That many updates; gives the seconds they took, the first one (shapes, compiling) left out."""
        begin, done = time.perf_counter(), 0
        bar = progress(range(count), title)
        todo = iter(bar)
        while done < count:
            for x, y in self.batches():
                if next(todo, None) is None:
                    break
                self.step(x, y)
                begin = begin if done else time.perf_counter()
                done += 1
        return time.perf_counter() - begin

    def test(self) -> tuple[float, onp.ndarray]:
        """Accuracy on the test digits, and what they were read as."""
        metric = mx.metric.Accuracy()
        scores = self.net(nd.array(self.images[-TEST:]))
        metric.update(nd.array(self.labels[-TEST:]), scores)
        return metric.get()[1], scores.asnumpy().argmax(axis=1)


def side_by_side(args: argparse.Namespace) -> tuple[Training, Training]:
    """The first steps, eagerly and hybridized, from the same seed."""
    eager, hybridized = Training(args, False), Training(args, True)
    times = eager.steps(args.compare, "eager"), hybridized.steps(args.compare, "hybridized")
    difference = onp.abs(onp.subtract(eager.losses, hybridized.losses)).max()
    print(f"The first {args.compare} steps, same seed and order")
    print(f"  largest difference of the losses  {difference:.1e}")
    print(f"  eager                             {times[0]:.2f} s")
    print(f"  hybridized                        {times[1]:.2f} s ({times[0] / times[1]:.1f} times faster)")
    return eager, hybridized


def train(args: argparse.Namespace) -> tuple[Training, list[tuple[float, float]]]:
    """All epochs, hybridized; gives (mean loss, test accuracy) of each."""
    training = Training(args, True)
    history = []
    bar = progress(range(args.epochs), "epochs")
    begin = time.perf_counter()
    for _ in bar:
        loss = onp.mean([training.step(x, y) for x, y in training.batches()])
        history.append((float(loss), training.test()[0]))
        note(bar, loss=f"{history[-1][0]:.3f}", accuracy=f"{history[-1][1]:.3f}")
    seconds = time.perf_counter() - begin
    print(f"{args.epochs} epochs with Adam, hybridized, {seconds:.1f} s")
    shown = sorted({0, 1, 2, 4, 9, 14, 19, args.epochs - 1} & set(range(args.epochs)))
    table(("epoch", "loss", "test accuracy"), [(str(i + 1), f"{history[i][0]:.4f}", f"{history[i][1]:.4f}")
                                               for i in shown])
    return training, history


def by_digit(training: Training) -> list[tuple[int, int]]:
    """Print how each digit was read; gives (index, reading) of the wrong ones."""
    labels, (accuracy, found) = training.labels[-TEST:].astype(int), training.test()
    right = [int(((labels == d) & (found == d)).sum()) for d in range(10)]
    every = [int((labels == d).sum()) for d in range(10)]
    table(("digit", *map(str, range(10)), "all"), [("right", *right, sum(right)), ("of", *every, sum(every)),
                                                   ("percent", *(f"{100 * r / n:.0f}" for r, n in zip(right, every)),
                                                    f"{100 * accuracy:.1f}")])
    print(f"  test accuracy                     {accuracy:.4f} on the last {TEST} digits")
    return [(i, int(found[i])) for i in onp.flatnonzero(labels != found)]


def draw(path: Path, eager: Training, hybridized: Training, training: Training, history: list[tuple[float, float]],
         wrong: list[tuple[int, int]]) -> None:
    """Curves above, the digits that were misread below."""
    figure = canvas(10, 5)
    if figure is None:
        return save(None, path)
    grid = figure.add_gridspec(2, 10, height_ratios=(3, 1))
    left, right = figure.add_subplot(grid[0, :5]), figure.add_subplot(grid[0, 5:])
    left.plot(eager.losses, color=COLORS[1], linewidth=4, alpha=0.45, label="eager")
    left.plot(hybridized.losses, color=COLORS[0], linewidth=1.2, label="hybridized")
    left.set(title="Loss, first steps", xlabel="step", ylim=(0, None))
    left.legend(frameon=False)
    epochs = range(1, len(history) + 1)
    right.plot(epochs, [a for _, a in history], color=COLORS[0], marker="o", markersize=3)
    right.axhline(history[-1][1], color=COLORS[3], linewidth=0.8, linestyle="--")
    right.set(title=f"Test accuracy: {history[-1][1]:.3f} at the end", xlabel="epoch", ylim=(None, 1))
    for k, (i, read) in enumerate(wrong[:10]):
        ax = figure.add_subplot(grid[1, k])
        picture(ax, training.images[i - TEST, 0], f"{int(training.labels[i - TEST])} read as {read}")
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, train, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=25, help="epochs of the whole training (25)")
    parser.add_argument("--compare", type=int, default=100, help="steps trained both eagerly and hybridized (100)")
    parser.add_argument("--batch", type=int, default=64, help="digits a step (64)")
    parser.add_argument("--lr", type=float, default=0.002, help="learning rate of Adam (0.002)")
    parser.add_argument("--amp", choices=("float16", "bfloat16"),
                        help="mixed precision: products and convolutions in this type")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path, default=Path("out/train_digits.png"), help="where to save the curves")
    args = parser.parse_args(argv)
    if min(args.epochs, args.compare, args.batch) < 1:
        parser.error("--epochs, --compare and --batch must be 1 or more")
    if args.amp:
        amp.init(args.amp)
    eager, hybridized = side_by_side(args)
    training, history = train(args)
    draw(args.picture, eager, hybridized, training, history, by_digit(training))


if __name__ == "__main__":
    main()
