"""Regression on a table: a small network against the mean and against linear least squares, and which columns matter to
it.

``python examples/tabular.py``. The table is Friedman's (1991, Multivariate adaptive regression splines, equation 61):
y = 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise, with five columns more that mean nothing. No model can
come below the noise. ``--csv table.csv`` takes a table of one's own instead: numbers with a line of names, the last
column to be told.
"""
from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any, Sequence

import numpy as onp
from shared import COLORS, canvas, note, progress, save, table, training_step

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

NOISE = 1.0


def friedman(rows: int, seed: int) -> tuple[list[str], onp.ndarray, onp.ndarray]:
    """Names of the columns, the columns (rows, 10) and what is to be told (rows,)."""
    random = onp.random.RandomState(seed)
    x = random.rand(rows, 10)
    y = 10 * onp.sin(onp.pi * x[:, 0] * x[:, 1]) + 20 * (x[:,
                                                           2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:,
            4] + NOISE * random.randn(rows)
    return [f"x{i}" for i in range(10)], x, y


def read(path: Path) -> tuple[list[str], onp.ndarray, onp.ndarray]:
    """The same from a CSV file."""
    with path.open(newline="", encoding="utf-8") as f:
        lines = list(csv.reader(f))
    try:
        numbers = onp.array(lines[1:], float)
    except ValueError as err:
        raise SystemExit(f"{path}: below the line of names there must be numbers alone, equally many in each line "
                         f"({err})") from None
    if numbers.ndim != 2 or numbers.shape[0] < 20 or numbers.shape[1] < 2:
        raise SystemExit(f"{path}: needs 20 lines and 2 columns or more, has {numbers.shape}")
    return lines[0][:-1], numbers[:, :-1], numbers[:, -1]


class Table:
    """A table in two parts, every column with mean 0 and deviation 1 in the first."""

    def __init__(self, names: list[str], x: onp.ndarray, y: onp.ndarray, seed: int):
        order = onp.random.RandomState(seed).permutation(len(y))
        cut = len(y) * 3 // 4
        train, test = order[:cut], order[cut:]
        self.names, self.shift, self.scale = names, float(y[train].mean()), float(y[train].std()) or 1.0
        scaled = (x - x[train].mean(0)) / onp.maximum(x[train].std(0), 1e-9)
        self.x, self.y = scaled[train].astype("float32"), ((y[train] - self.shift) / self.scale).astype("float32")
        self.test_x, self.test_y = scaled[test].astype("float32"), y[test]

    def error(self, told: onp.ndarray) -> float:
        """Root mean square error of what was told of the second part, in the table's own units."""
        metric = mx.metric.RMSE()
        metric.update(nd.array(self.test_y), nd.array(told))
        return float(metric.get()[1])

    def least_squares(self) -> onp.ndarray:
        """What linear least squares tells of the second part."""
        ones = [onp.c_[x, onp.ones(len(x))] for x in (self.x, self.test_x)]
        return ones[1] @ onp.linalg.lstsq(ones[0], self.y, rcond=None)[0] * self.scale + self.shift


def perceptron(units: int, columns: int) -> nn.HybridSequential:
    """Two hidden layers."""
    net = nn.HybridSequential()
    net.add(nn.Dense(units, activation="softrelu", in_units=columns),
            nn.Dense(units, activation="softrelu", in_units=units), nn.Dense(1, in_units=units))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def tell(net: Any, data: Table, x: onp.ndarray) -> onp.ndarray:
    """What the net tells of rows, in the table's own units."""
    return net(nd.array(x)).asnumpy()[:, 0] * data.scale + data.shift


def train(net: Any, data: Table, args: argparse.Namespace) -> list[tuple[float, float]]:
    """Train; gives (loss, error on the second part) of each epoch."""
    loss_of = gluon.loss.L2Loss()
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(data.x, data.y), args.batch, shuffle=True,
                                   last_batch="discard")
    schedule = mx.lr_scheduler.CosineScheduler(args.epochs * len(loader), base_lr=args.lr)
    trainer = gluon.Trainer(net.collect_params(), "adamw",
                            {"learning_rate": args.lr, "lr_scheduler": schedule, "wd": args.wd})
    step = mx.hybridize(training_step(net, loss_of, trainer))
    history = []
    bar = progress(range(args.epochs), "epochs")
    for _ in bar:
        losses = [float(step(x, y).mean().asscalar()) for x, y in loader]
        history.append((float(onp.mean(losses)), data.error(tell(net, data, data.test_x))))
        note(bar, error=f"{history[-1][1]:.3f}")
    return history


def importance(net: Any, data: Table, seed: int) -> list[tuple[str, float]]:
    """How much larger the error becomes when a column is shuffled, largest first."""
    random, out = onp.random.RandomState(seed), []
    least = data.error(tell(net, data, data.test_x))
    for i, name in enumerate(data.names):
        shuffled = data.test_x.copy()
        shuffled[:, i] = random.permutation(shuffled[:, i])
        out.append((name, data.error(tell(net, data, shuffled)) - least))
    return sorted(out, key=lambda pair: -pair[1])


def draw(path: Path, data: Table, net: Any, columns: list[tuple[str, float]]) -> None:
    """What was told beside what is true; columns by importance."""
    figure = canvas(9, 4)
    if figure is not None:
        left, right = figure.subplots(1, 2)
        told = tell(net, data, data.test_x)
        ends = min(told.min(), data.test_y.min()), max(told.max(), data.test_y.max())
        left.plot(ends, ends, color=COLORS[1], linewidth=1)
        left.scatter(data.test_y, told, s=8, alpha=0.5, color=COLORS[0], edgecolors="none")
        left.set(title="Rows the net has not seen", xlabel="true", ylabel="told")
        right.barh([n for n, _ in columns[::-1]], [v for _, v in columns[::-1]], color=COLORS[0])
        right.set(title="Importance of a column", xlabel="growth of the error when it is shuffled")
        right.grid(axis="y", visible=False)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, train, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, help="a table of one's own")
    parser.add_argument("--rows", type=int, default=2000, help="rows of Friedman's table (2000)")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--wd", type=float, default=0.1, help="weight decay (0.1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path, default=Path("out/tabular.png"))
    args = parser.parse_args(argv)
    data = Table(*(read(args.csv) if args.csv else friedman(args.rows, args.seed)), args.seed)
    mx.random.seed(args.seed)
    onp.random.seed(args.seed)                                   # the order of the rows
    net = perceptron(args.units, len(data.names))
    history = train(net, data, args)
    rows = [("mean of the rows seen", data.error(onp.full(len(data.test_y), data.shift))),
            ("linear least squares", data.error(data.least_squares())),
            (f"network, after {args.epochs} epochs", history[-1][1])]
    print(f"{len(data.y)} rows to learn from, {len(data.test_y)} others to test, {len(data.names)} columns")
    table(("", "root mean square error"), [(n, f"{v:.3f}") for n,
                                           v in rows + ([] if args.csv else [("noise: the least possible", NOISE)])])
    columns = importance(net, data, args.seed)
    print("Growth of the error when a column is shuffled")
    widest = max(columns[0][1], 1e-9)
    table(("column", "growth", "".ljust(30)), [(n, f"{v:.3f}", ("#" * max(0, round(30 * v / widest))).ljust(30))
                                               for n, v in columns])
    draw(args.picture, data, net, columns)


if __name__ == "__main__":
    main()
