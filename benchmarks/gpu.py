"""Compiled programs of hybrid on a GPU: ``make bench-gpu``, or ``python benchmarks/gpu.py [--quick] [--out FILE]``.

Needs CuPy and a GPU, installs nothing, and takes less than ten minutes. Writes one table and one image.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import gpu_timing  # noqa: E402  it lies beside this file
import nets  # noqa: E402  as do these
from gpu_networks import mlp, networks  # noqa: E402
import numpy as np  # noqa: E402

import hybrid as mx  # noqa: E402
from hybrid import nd  # noqa: E402
from hybrid.gluon import nn, rnn  # noqa: E402

GPU = mx.gpu(0)
Make = Callable[[], Callable[[], Any]]


def normal(*shape: int, dtype: str = "float32") -> Any:
    """An array of normal numbers on the GPU."""
    return nd.array(np.random.default_rng(0).standard_normal(shape), ctx=GPU, dtype=dtype)


def block(net: Any, x: Any) -> Callable[[], Any]:
    """Inference of a block, in its input's dtype."""
    net.initialize(ctx=GPU)
    net.cast(x.dtype)
    net.hybridize()
    return lambda: net(x)


def training() -> Callable[[], Any]:
    """A step of Adam of the small network, one program."""
    net, data, label = mlp(), normal(64, 512), nd.zeros((64,), ctx=GPU)
    net.initialize(ctx=GPU)
    net.hybridize()
    step = mx.hybridize(nets.gluon_step(net, nets.Step("Adam step", mlp, data.shape, "adam")))
    return lambda: step(data, label)


def function(f: Callable[..., Any], *arrays: Any) -> Callable[[], Any]:
    """A call of a compiled function."""
    compiled = mx.hybridize(f)
    return lambda: compiled(*arrays)


def product(n: int, dtype: str, transposed: bool = False) -> Make:
    """Of two matrices; transposed: the second one's rows are columns, as a dense layer's weights have them."""
    return lambda: function(lambda a, b: nd.dot(a, b, transpose_b=transposed), *[normal(n, n, dtype=dtype)] * 2)


def programs(quick: bool) -> dict[str, Make]:
    """What is timed, by name; smaller where it is only to be seen that it runs."""
    n, row = (64, 5000) if quick else (4096, 1_000_000)
    steps, units = (4, 16) if quick else (64, 256)
    return {
        **{n.program: lambda n=n: block(n.make(), normal(*n.shape, dtype=n.dtype)) for n in networks(quick)},
        "Adam step of the MLP, batch 64": training,
        f"LSTM, {steps} steps, batch 32": lambda: block(rnn.LSTM(units, input_size=units), normal(steps, 32, units)),
        f"softmax ({n}, 1024)": lambda: function(nd.softmax, normal(n, 1024)),
        f"LayerNorm ({n}, 1024)": lambda: block(nn.LayerNorm(in_channels=1024), normal(n, 1024)),
        f"order of a row of {row:,}": lambda: function(nd.argsort, normal(1, row)),
        f"product {n}, float32": product(n, "float32"),
        **{f"product {n}, {dtype}{', transposed' * turned}": product(n, dtype, turned)
           for dtype in ("float16", "bfloat16") for turned in (False, True)},
    }


def main() -> int:
    """Time all, print the table and write it; 1 where a program failed on the stand-in, which is there to tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats: to see that it runs")
    parser.add_argument("--only", default="", help="programs whose names hold this")
    parser.add_argument("--out", type=Path, default=Path("build/gpu.md"))
    given = parser.parse_args()
    rows = []
    for name, make in programs(given.quick).items():
        if given.only in name:
            rows.append(gpu_timing.measure(name, "hybrid", make, nd.waitall, given.quick))
            print(rows[-1], flush=True)
    print(gpu_timing.report("Compiled programs", gpu_timing.gpu_name(), rows, given.out))
    return int(gpu_timing.stand_in() and any(row.error for row in rows))


if __name__ == "__main__":
    sys.exit(main())
