"""A small character language model: embeddings, causal self-attention, one compiled program a step. It prints what it
writes.

``python examples/char_lm.py`` learns nine of Shakespeare's sonnets (examples/data/sonnets.txt, public domain). Six
thousand letters are little: the model soon knows them by heart, and the loss on the lines it has not seen goes up
again. Both are shown.
"""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Sequence

import numpy as onp
from shared import DATA, note, progress, table, training_step

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn


class Attention(nn.HybridBlock):
    """Causal self-attention with several heads: each letter looks at itself and at those before it."""

    def __init__(self, units: int, heads: int, length: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.heads, self.size = heads, units // heads
        self.into, self.out = nn.Dense(3 * units, flatten=False,
                                       in_units=units), nn.Dense(units, flatten=False, in_units=units)
        self.later = self.params.get_constant("later", onp.triu(onp.full((1, length, length), -1e9, "float32"), 1))

    def hybrid_forward(self, F: Any, x: Any, later: Any) -> Any:  # noqa: N803
        """x: (batch, length, units); the same shape comes out."""
        # (batch, 3 heads, length, size)
        parts = F.reshape(self.into(x), (0, 0, 3 * self.heads, -1)).transpose((0, 2, 1, 3))
        # (batch heads, length, size)
        query, key, value = (F.reshape(p, (-3, 0, 0)) for p in F.split(parts, 3, axis=1))
        scores = F.batch_dot(query, key, transpose_b=True) / self.size ** 0.5
        mixed = F.batch_dot(F.softmax(F.broadcast_add(scores, later)), value)
        return self.out(F.reshape(F.reshape(mixed, (-4, -1, self.heads, 0, 0)).transpose((0, 2, 1, 3)), (0, 0, -3)))


class Layer(nn.HybridBlock):
    """Attention and a small perceptron, each on normalised input and added to what was there."""

    def __init__(self, units: int, heads: int, length: int, dropout: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.before, self.between = nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)
        self.attention = Attention(units, heads, length)
        self.wide, self.narrow = nn.Dense(4 * units, activation="relu", flatten=False,
                                          in_units=units), nn.Dense(units, flatten=False, in_units=4 * units)
        self.drop = nn.Dropout(dropout)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """x: (batch, length, units)."""
        x = x + self.drop(self.attention(self.before(x)))
        return x + self.drop(self.narrow(self.wide(self.between(x))))


class Writer(nn.HybridBlock):
    """Scores of the next letter, for each letter of the input."""

    def __init__(self, letters: int, args: argparse.Namespace, **kwargs: Any):
        super().__init__(**kwargs)
        self.embedding = nn.Embedding(letters, args.units)
        self.position = self.params.get("position", shape=(1, args.length, args.units), init=mx.init.Normal(0.02))
        self.layers = nn.HybridSequential()
        for _ in range(args.layers):
            self.layers.add(Layer(args.units, args.heads, args.length, args.dropout))
        self.last, self.scores = nn.LayerNorm(in_channels=args.units), nn.Dense(letters, flatten=False,
                in_units=args.units)

    def hybrid_forward(self, F: Any, x: Any, position: Any) -> Any:  # noqa: N803
        """x: (batch, length) numbers of letters; (batch, length, letters) scores."""
        return self.scores(self.last(self.layers(F.broadcast_add(self.embedding(x), position))))


class Text:
    """Letters as numbers; the last tenth of the text is kept apart."""

    def __init__(self, path: Path, length: int, batch: int, seed: int):
        text = path.read_text(encoding="utf-8")
        self.letters = sorted(set(text))
        numbers = onp.array([self.letters.index(c) for c in text], "float32")
        cut = len(numbers) * 9 // 10
        if cut <= length + 1 or len(numbers) - cut <= length + 1:
            raise SystemExit(f"{path} has {len(numbers)} letters, too few for --length {length}: a tenth of them must "
                             f"be longer than that")
        self.seen, self.kept = numbers[:cut], numbers[cut:]
        self.length, self.batch, self.random = length, batch, onp.random.RandomState(seed)

    def pieces(self, numbers: onp.ndarray, starts: Any) -> tuple[Any, Any]:
        """Pieces of text and, letter for letter, what comes next."""
        return tuple(nd.array(onp.stack([numbers[s + k:s + k + self.length] for s in starts]))
                     for k in (0, 1))       # type: ignore[return-value]

    def epoch(self) -> Any:
        """As many letters as the text has, in batches of pieces that begin anywhere."""
        for _ in range(max(1, len(self.seen) // (self.batch * self.length))):
            yield self.pieces(self.seen, self.random.randint(0, len(self.seen) - self.length, self.batch))

    def test(self) -> tuple[Any, Any]:
        """The text that was kept apart, in pieces."""
        return self.pieces(self.kept, range(0, len(self.kept) - self.length, self.length))


def write(net: Writer, text: Text, begin: str, count: int, heat: float) -> str:
    """Let the model write on from a beginning. heat: 1 as it has learned, less for the likelier letters."""
    found = [text.letters.index(c) for c in begin if c in text.letters] or [0]
    for _ in range(count):
        window = found[-text.length:]
        # what comes after is not looked at
        padded = onp.array([window + [0] * (text.length - len(window))], "float32")
        scores = net(nd.array(padded)).asnumpy()[0, len(window) - 1] / heat
        chances = onp.exp(scores - scores.max())
        found.append(int(text.random.choice(len(chances), p=chances / chances.sum())))
    return "".join(text.letters[k] for k in found)


def line(net: Writer, text: Text, args: argparse.Namespace) -> str:
    """A short sample, on one line."""
    return write(net, text, args.begin, 48 - len(args.begin), args.heat).replace("\n", "/").ljust(48)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, train, let it write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=DATA / "sonnets.txt")
    parser.add_argument("--epochs", type=int, default=120, help="times the text is read (120)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=32, help="letters that the model sees at once (32)")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--begin", default="Shall I ")
    parser.add_argument("--heat", type=float, default=0.7, help="1 writes as learned, less the likelier letters (0.7)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    text = Text(args.text, args.length, args.batch, args.seed)
    mx.random.seed(args.seed)
    net = Writer(len(text.letters), args)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    train(net, text, args)


def train(net: Writer, text: Text, args: argparse.Namespace) -> None:
    """Train, print losses and samples on the way."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    steps = args.epochs * len(list(text.epoch()))
    schedule = mx.lr_scheduler.CosineScheduler(steps, base_lr=args.lr, final_lr=args.lr / 20,
                                               warmup_steps=min(20, steps // 10))
    trainer = gluon.Trainer(net.collect_params(), "adamw",
                            {"learning_rate": args.lr, "lr_scheduler": schedule, "wd": 0.01})
    step = mx.hybridize(training_step(net, loss_of, trainer))
    print(f"{len(text.seen)} letters to learn from, {len(text.letters)} different ones")
    print(f"(a guess among all letters alike has a loss of {onp.log(len(text.letters)):.3f})")
    rows = [("0", "", "", line(net, text, args))]
    bar = progress(range(1, args.epochs + 1), "reading")
    for epoch in bar:
        losses = [float(step(x, y).mean().asscalar()) for x, y in text.epoch()]
        if epoch in (1, args.epochs) or epoch % max(1, args.epochs // 6) == 0:
            x, y = text.test()
            rows.append((str(epoch), f"{onp.mean(losses):.3f}", f"{float(loss_of(net(x), y).mean().asscalar()):.3f}",
                         line(net, text, args)))
            note(bar, loss=rows[-1][1])
    table(("times read", "loss", "on unseen lines", "it writes".ljust(48)), rows)
    print("Trained, it writes")
    print("\n".join(f"  | {part}" for part in write(net, text, args.begin, 300, args.heat).splitlines()))


if __name__ == "__main__":
    main()
