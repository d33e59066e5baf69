"""Calls of operators as lines of text, run by MXNet when recording and by hybrid when checking.

``F.topk(a, k=2) | a=f(3,4) b=!i(3)``: an expression (``F`` is nd or sym) and its inputs, made from the line's own text;
``!`` before an input that no gradient is wanted of; ``T:`` before a line that runs in training mode.
"""
from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
LINES = [line for line in (HERE / "operator_lines.txt").read_text().splitlines() if line and not line.startswith("#")]


def parse(line: str) -> tuple[bool, str, list[tuple[str, str, bool]]]:
    """Training mode, expression, and each input's name, maker and whether a gradient is wanted."""
    train = line.startswith("T:")
    expression, _, inputs = line.removeprefix("T:").partition(" | ")
    rows = [part.partition("=") for part in inputs.split()]
    return train, expression.strip(), [(name, maker.removeprefix("!"), not maker.startswith("!"))
                                       for name, _, maker in rows]


def make(maker: str, number: int) -> np.ndarray:
    """An input: the same one wherever the line is run."""
    rng = np.random.RandomState(zlib.crc32(f"{maker}{number}".encode()) & 0x7FFFFFFF)

    def f(*shape: int, dtype: str = "float32", low: float = -2.0, high: float = 2.0) -> np.ndarray:
        values = rng.uniform(low, high, shape)
        # not next to jumps
        values = np.where(np.abs(values * 2 - np.round(values * 2)) < 0.05, values + 0.07, values)
        return np.clip(values, low, high).astype(dtype)

    def i(*shape: int, dtype: str = "int32", low: int = -5, high: int = 6) -> np.ndarray:
        return rng.randint(low, high, shape).astype(dtype)

    def spd(n: int, *lead: int) -> np.ndarray:
        a = rng.uniform(-1, 1, (*lead, n, n))
        return (a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype("float32")

    def tri(n: int, *lead: int) -> np.ndarray:
        return (np.tril(rng.uniform(-1, 1, (*lead, n, n))) + 2 * np.eye(n)).astype("float32")

    space = {"f": f, "i": i, "spd": spd, "tri": tri, "arr": lambda values, dtype="float32": np.array(values, dtype),
             "h": lambda *s: f(*s, dtype="float16"), "d": lambda *s: f(*s, dtype="float64"),
             "pos": lambda *s, dtype="float32": f(*s, dtype=dtype, low=0.3, high=2.4),
             "unit": lambda *s, dtype="float32": f(*s, dtype=dtype, low=-0.9, high=0.9)}
    return eval(maker, space)                                            # noqa: S307  our own table


def flat(values: Any) -> list[Any]:
    """Results, also of nested lists, in order."""
    return [x for v in values for x in flat(v)] if isinstance(values, (list, tuple)) else [values]


def run(mx: Any, line: str, wrap: Any = None) -> dict[str, np.ndarray]:
    """Outputs, gradients for fixed heads, and inputs that were changed, by name. wrap: what makes the function
    hybridized."""
    train, expression, rows = parse(line)
    raw = {name: make(maker, k) for k, (name, maker, _) in enumerate(rows)}
    xs = {name: mx.nd.array(value, dtype=value.dtype) for name, value in raw.items()}
    wanted = [name for name, _, grad in rows if grad and raw[name].dtype.kind == "f"]
    for name in wanted:
        xs[name].attach_grad()
    code = compile(expression, line, "eval")

    def call(*args: Any) -> list[Any]:
        return flat(eval(code, {"F": mx.nd, "nd": mx.nd, "mx": mx, **dict(zip(raw, args))}))            # noqa: S307
    if wanted:
        with mx.autograd.record(train_mode=train):
            ys = flat((wrap(call) if wrap else call)(*xs.values()))
    else:
        with mx.autograd.train_mode() if train else mx.autograd.predict_mode():
            ys = flat((wrap(call) if wrap else call)(*xs.values()))
    found = {f"out{k}": y.asnumpy() for k, y in enumerate(ys)}
    found.update({f"after_{n}": x.asnumpy() for n,
                  x in xs.items() if not np.array_equal(x.asnumpy(), raw[n], equal_nan=raw[n].dtype.kind == "f")})
    if wanted:
        rng = np.random.RandomState(1)
        mx.autograd.backward(ys, [mx.nd.array(rng.uniform(0.5, 1.5, y.shape), dtype=y.dtype) for y in ys],
                             train_mode=train)
        found.update({f"grad_{n}": xs[n].grad.asnumpy() for n in wanted})
    return found
