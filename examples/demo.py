"""A network that MXNet 1.9.1 trained and exported reads real handwritten digits, as one compiled program.

Run it with ``make demo``. Data: examples/data (UCI handwritten digits; see digits.LICENSE.rst).
"""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable

import numpy as onp

import hybrid as mx
from hybrid import nd
from hybrid.gluon import SymbolBlock, nn

os.environ.setdefault("HYBRID_COMPILE", "now")             # the times shown are those of compiled code

DATA = Path(__file__).resolve().parent / "data"


def test_digits() -> tuple[Any, onp.ndarray]:
    """The last 360 digits as (360, 1, 28, 28) float32 and their labels: pixels / 16, tripled, padded by 2."""
    with onp.load(DATA / "digits.npz") as f:
        names = list(f)
        images = next(f[n] for n in names if f[n].size >= 1797 * 64)
        labels = next(f[n] for n in names if f[n].size == 1797)
    pixels = images.reshape(-1, 8, 8)[-360:].astype("float32") / 16
    wide = pixels.repeat(3, axis=1).repeat(3, axis=2)
    return nd.array(onp.pad(wide, ((0, 0), (2, 2), (2, 2)))[:, None]), labels.reshape(-1)[-360:]


def microseconds(call: Callable[[], Any], repeat: int = 50) -> float:
    """Median time of a call."""
    call()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        nd.waitall()
        times.append(time.perf_counter() - begin)
    return float(onp.median(times) * 1e6)


def digits() -> None:
    """LeNet on the digits, eager and hybridized."""
    x, labels = test_digits()
    net = SymbolBlock.imports(DATA / "lenet_digits-symbol.json", ["data"], DATA / "lenet_digits-0025.params")
    expected = onp.load(DATA / "lenet_digits.test_logits.npy")
    eager = net(x).asnumpy()
    batch = x[:16].copy()
    eager_time = microseconds(lambda: net(batch))

    net.hybridize()
    begin = time.perf_counter()
    logits = net(x).asnumpy()
    first = time.perf_counter() - begin
    hybrid_time = microseconds(lambda: net(batch))
    report = net.report()

    print("LeNet, trained and exported by MXNet 1.9.1, on 360 real handwritten digits")
    print(f"  right                             {int((logits.argmax(1) == labels).sum())} of {len(labels)}")
    print(f"  largest difference from MXNet     {abs(logits - expected).max():.1e} hybridized, "
          f"{abs(eager - expected).max():.1e} eager")
    print(f"  first hybridized call             {first:.2f} s (compiling, or reading the cache)")
    print(f"  a batch of 16                     {eager_time:.0f} us eager, {hybrid_time:.0f} us hybridized "
          f"({eager_time / hybrid_time:.1f} times faster)")
    print(f"  kernels                           {report.eager_kernels} before fusion, {len(report.kernels)} after")
    print(f"  bytes for a batch of 16           {report.eager_bytes} eager, {report.planned_bytes} planned, "
          f"{report.bound_bytes} liveness bound")
    print(f"  generated source                  {report.source_path}")


def mlp() -> None:
    """A multilayer perceptron, 1000 forward passes before and after hybridizing."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Dense(256, activation="relu"))
        net.add(nn.Dense(128, activation="relu"))
        net.add(nn.Dense(2))
    net.initialize()
    x = nd.random_normal(shape=(1, 512))

    def bench() -> float:
        net(x)
        begin = time.time()
        for _ in range(1000):
            net(x)
        mx.nd.waitall()
        return time.time() - begin
    print("MLP 512-256-128-2, batch 1, 1000 forward passes")
    print(f"  before hybridizing                {bench():.4f} sec")
    net.hybridize()
    print(f"  after hybridizing                 {bench():.4f} sec")


if __name__ == "__main__":
    digits()
    mlp()
