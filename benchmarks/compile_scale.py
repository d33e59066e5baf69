"""Tracing, planning and compiling of large networks: seconds and memory, cold and from the disk cache; growth with the
number of operators.

``python benchmarks/compile_scale.py [words]`` prints the tables (of what the words occur in). Processor seconds of
Python (tracing, passes, printing) and of the C compiler stand apart: the first must grow with the number of operators
and not with its square, and stay under 1 s for 200 layers.
"""
from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import hybrid as mx
from hybrid.gluon import nn, rnn
from hybrid.gluon.model_zoo import vision

KINDS = ("functions", "layers", "residual rows", "branches", "unrolled cell")
GRADIENT = ", forward and backward"
NETWORKS = ("resnet152_v1", "densenet201", "inceptionv3", "mobilenetv2_1.0")


class Functions(nn.HybridBlock):
    """Networks of n operators, of one kind each."""

    def __init__(self, kind: str, n: int):
        super().__init__()
        self.kind, self.n = kind, n
        with self.name_scope():
            self.layers = nn.HybridSequential()
            self.layers.add(*(nn.Dense(8, in_units=8, activation="relu")
                              for _ in range(n // 2 if kind == "layers" else 0)))
            self.cell = rnn.LSTMCell(8, input_size=8)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        if self.kind == "layers":
            return self.layers(x)
        if self.kind == "unrolled cell":
            steps = self.n // 14
            return self.cell.unroll(steps, F.broadcast_to(F.expand_dims(x, 1), (8, steps, 8)), layout="NTC",
                                    merge_outputs=True)[0]
        if self.kind == "branches":
            return F.add_n(*(F.softmax(x * (i + 1)) for i in range(self.n // 2)))
        for i in range(self.n // (1 if self.kind == "functions" else 4)):
            x = x + F.relu(F.softmax(x) * 0.5) if self.kind == "residual rows" else F.tanh(x) if i % 2 else x * 1.01
        return x


def cpu() -> tuple[float, float]:
    """Processor seconds of this process and of its finished children."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


def one(kind: str, size: str) -> None:
    """Prints the figures of a network's first hybridized call, in a process of its own."""
    gradient, kind = kind.endswith(GRADIENT), kind.removesuffix(GRADIENT)
    net: Any = Functions(kind, int(size)) if kind in KINDS else vision.get_model(kind)
    net.initialize()
    side = 299 if kind == "inceptionv3" else 224
    x = mx.nd.array(np.random.RandomState(0).rand(*((8, 8) if kind in KINDS else (1, 3, side, side))).astype("float32"))
    net(x).asnumpy()                                       # draws the weights
    net.hybridize()
    begin, (own, others) = time.perf_counter(), cpu()
    if gradient:
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward()
        x.grad.asnumpy()
    else:
        net(x).asnumpy()
    wall, (own2, others2) = time.perf_counter() - begin, cpu()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{wall:9.2f} {own2 - own:9.2f} {others2 - others:9.2f} {memory:9.0f}")


def row(title: str, kind: str, size: str, cache: str) -> None:
    """Figures without and with the cached program."""
    for state in ("cold", "cached"):
        run = subprocess.run([sys.executable, __file__, "--one", kind, size],
                             capture_output=True, text=True, check=False,
                             env={**os.environ, "HYBRID_CACHE": cache, "HYBRID_COMPILE": "now"})
        print(f"{title:56s} {state:7s}", run.stdout.rstrip() if run.returncode == 0
              else run.stderr.strip().splitlines()[-1][:100], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="rows whose titles hold these")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(*given.one)
        return
    words = given.words
    print(f"{'first call':56s} {'':7s} {'wall s':>9s} {'Python s':>9s} {'C s':>9s} {'MiB':>9s}")
    with tempfile.TemporaryDirectory() as cache:
        for name in (n for n in NETWORKS if all(w in n for w in words)):
            row(name, name, "0", f"{cache}/{name}")
        for kind in (k for k in [kind + part for part in ("", GRADIENT) for kind in KINDS]
                     if all(w in k for w in words)):
            for n in (1000, 10000):
                row(f"{kind}, {n} operators", kind, str(n), f"{cache}/{kind}{n}")


if __name__ == "__main__":
    main()
