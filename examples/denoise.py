"""A denoising autoencoder: it learns to take noise off handwritten digits by squeezing each one through a few numbers.

``python examples/denoise.py`` prints errors before and after, and saves an image of digits that it has not seen. Data:
examples/data.
"""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Sequence

import numpy as onp
from shared import DATA, TEST, canvas, note, picture, progress, save, table, training_step

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn


class Autoencoder(nn.HybridBlock):
    """Images of 8 by 8 through ``code`` numbers and back."""

    def __init__(self, code: int, channels: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.encode, self.decode = nn.HybridSequential(), nn.HybridSequential()
        self.encode.add(nn.Conv2D(channels, 3, padding=1, activation="relu", in_channels=1),
                        nn.BatchNorm(in_channels=channels),
                        nn.Conv2D(2 * channels, 3, strides=2, padding=1, activation="relu", in_channels=channels),
                        nn.Flatten(),
                        nn.Dense(code, in_units=32 * channels))
        self.decode.add(nn.Dense(32 * channels, activation="relu", in_units=code),
                        nn.HybridLambda(lambda F, x: F.reshape(x, (0, -1, 4, 4))),
                        nn.Conv2DTranspose(channels, 4, strides=2, padding=1, activation="relu",
                                           in_channels=2 * channels),
                        nn.Conv2D(1, 3, padding=1, activation="sigmoid", in_channels=channels))

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """x: (batch, 1, 8, 8) from 0 to 1; the same shape comes out."""
        return self.decode(self.encode(x))


def noisy(images: onp.ndarray, args: argparse.Namespace, random: onp.random.RandomState) -> onp.ndarray:
    """Images with Gaussian noise, and some pixels lost."""
    grain = images + args.noise * random.randn(*images.shape)
    lost = random.rand(*images.shape) < args.lost
    return onp.clip(onp.where(lost, 0, grain), 0, 1).astype("float32")


def smoothed(images: onp.ndarray) -> onp.ndarray:
    """What needs no learning: each pixel the mean of its neighbourhood of 3 by 3."""
    wide = onp.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return onp.mean([wide[..., i:i + 8, k:k + 8] for i in range(3) for k in range(3)], axis=0)


def decibels(images: onp.ndarray, clean: onp.ndarray) -> float:
    """Peak signal-to-noise ratio: -10 log10 of the mean square error, of pixels from 0 to 1."""
    return float(-10 * onp.log10(onp.square(images - clean).mean()))


def train(net: Autoencoder, clean: onp.ndarray, args: argparse.Namespace) -> list[float]:
    """Train on noise that is new in each epoch; gives the mean loss of each."""
    random = onp.random.RandomState(args.seed)
    loss_of = gluon.loss.L2Loss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    step = mx.hybridize(training_step(net, loss_of, trainer))
    losses = []
    bar = progress(range(args.epochs), "epochs")
    for _ in bar:
        order = random.permutation(len(clean))
        data = gluon.data.ArrayDataset(noisy(clean, args, random)[order], clean[order])
        loader = gluon.data.DataLoader(data, args.batch, last_batch="discard")
        losses.append(float(onp.mean([step(x, y).mean().asscalar() for x, y in loader])))
        note(bar, loss=f"{losses[-1]:.4f}")
    return losses


def draw(path: Path, rows: list[tuple[str, onp.ndarray]], seed: int) -> None:
    """Some digits, a row for each thing that was done to them."""
    figure = canvas(10, 1.15 * len(rows))
    if figure is not None:
        chosen = onp.random.RandomState(seed).permutation(len(rows[0][1]))[:12]
        axes = figure.subplots(len(rows), len(chosen))
        for line, (name, images) in zip(axes, rows):
            for ax, i in zip(line, chosen):
                picture(ax, images[i, 0])
            line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontweight="bold")
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, train, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--noise", type=float, default=0.3, help="deviation of the noise; pixels are from 0 to 1 (0.3)")
    parser.add_argument("--lost", type=float, default=0.2, help="share of the pixels that are lost (0.2)")
    parser.add_argument("--code", type=int, default=24,
                        help="numbers that a picture of 64 pixels is squeezed through (24)")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path, default=Path("out/denoise.png"))
    args = parser.parse_args(argv)
    with onp.load(DATA / "digits.npz") as f:
        images = f["images"].astype("float32")[:, None] / 16
    clean, before = images[-TEST:], noisy(images[-TEST:], args, onp.random.RandomState(args.seed + 1))
    mx.random.seed(args.seed)
    net = Autoencoder(args.code, args.channels)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    losses = train(net, images[:-TEST], args)
    after = net(nd.array(before)).asnumpy()
    rows = [("clean", clean), ("noisy", before), ("smoothed", smoothed(before)), ("network", after)]
    print(f"{len(images) - TEST} digits to learn from, {args.epochs} epochs, loss {losses[0]:.4f} in the first and "
          f"{losses[-1]:.4f} in the last")
    print(f"The last {TEST} digits, with noise of {args.noise} and {args.lost:.0%} of the pixels lost")
    table(("", "root mean square error", "dB"), [(n, f"{onp.sqrt(onp.square(x - clean).mean()):.3f}",
                                                  f"{decibels(x, clean):.1f}") for n, x in rows[1:]])
    draw(args.picture, rows, args.seed)


if __name__ == "__main__":
    main()
