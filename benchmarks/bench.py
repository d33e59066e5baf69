"""Latency beside the peers that are installed, interleaved in one run: medians, ratios, JSON.

One thread unless HYBRID_NUM_THREADS says otherwise. ``make bench`` installs onnx and onnxruntime. Torch is used where it
is installed; MXNet where MXNET_PYTHON names a Python that has it.
"""
from __future__ import annotations

import os

THREADS = os.environ.setdefault("HYBRID_NUM_THREADS", "1")
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, THREADS)

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import hybrid as mx  # noqa: E402
from hybrid import nd  # noqa: E402
from hybrid.gluon import nn  # noqa: E402

Call = Callable[[], Any]
ABSENT: set[str] = set()


def mlp_net() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(256, activation="relu"), nn.Dense(128, activation="relu"), nn.Dense(2))
    return net


def lenet() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(2),
            nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
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


WORKLOADS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "MLP 512-256-128-2, batch 1": (mlp_net, (1, 512)),
    "MLP 512-256-128-2, batch 256": (mlp_net, (256, 512)),
    "LeNet, batch 16": (lenet, (16, 1, 28, 28)),
    "x * x + 1, 1000 floats": (Elementwise, (1000,)),
    "x * x + 1, 4M floats": (Elementwise, (4096, 1024)),
    "GELU chain, 4M floats": (Gelu, (4096, 1024)),
    "softmax (4096, 1024)": (Softmax, (4096, 1024)),
    "LayerNorm (4096, 1024)": (nn.LayerNorm, (4096, 1024)),
}


def onnx_session(net: Any, x: np.ndarray) -> Call | None:
    """ONNX Runtime on the same network with the same weights, or None."""
    try:
        import onnxruntime as ort
        from onnx_models import to_onnx
    except ImportError as err:
        absent("ONNX Runtime", err)
        return None
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = ort.InferenceSession(to_onnx(net, x.shape), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def torch_call(net: Any, x: np.ndarray) -> Call | None:
    """torch's eager mode on the same network with the same weights, or None."""
    try:
        import torch
        from torch_models import to_torch
    except ImportError as err:
        absent("torch", err)
        return None
    torch.set_num_threads(int(THREADS))
    model, data = to_torch(net), torch.from_numpy(x)

    def call() -> Any:
        with torch.inference_mode():
            return model(data).numpy()
    return call


def numpy_call(net: Any, x: np.ndarray) -> Call | None:
    """What one would write by hand in NumPy; None where nobody would (convolution)."""
    layers = list(net._children.values()) if isinstance(net, nn.HybridSequential) else [net]
    if any(isinstance(layer, nn.Conv2D) for layer in layers):
        return None
    if isinstance(net, nn.HybridSequential):
        weights = [(np.ascontiguousarray(d.weight.data().asnumpy().T), d.bias.data().asnumpy()) for d in layers]

        def perceptron() -> np.ndarray:
            y = x
            for i, (w, b) in enumerate(weights):
                y = y @ w + b
                if i + 1 < len(weights):
                    np.maximum(y, 0, out=y)
            return y
        return perceptron
    if isinstance(net, nn.LayerNorm):
        gamma, beta = net.gamma.data().asnumpy(), net.beta.data().asnumpy()

        def layer_norm() -> np.ndarray:
            y = x - x.mean(-1, keepdims=True)
            return y * (gamma / np.sqrt((y * y).mean(-1, keepdims=True) + np.float32(1e-5))) + beta
        return layer_norm

    def softmax() -> np.ndarray:
        y = np.exp(x - x.max(-1, keepdims=True))
        y /= y.sum(-1, keepdims=True)
        return y
    return {Softmax: softmax, Elementwise: lambda: x * x + np.float32(1),
            Gelu: lambda: np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)))}[type(net)]


def absent(peer: str, why: object) -> None:
    """Say once that a peer is left out, and why."""
    if peer not in ABSENT:
        ABSENT.add(peer)
        print(f"without {peer}: {why}", file=sys.stderr)


def calls(make: Callable[[], Any], shape: tuple[int, ...]) -> dict[str, Call]:
    """What is timed for one workload. Every peer's result is checked against the eager one."""
    mx.random.seed(1)
    x = nd.random.normal(shape=shape)
    eager, hybrid = make(), make()
    eager.initialize()
    hybrid.initialize()
    want = eager(x)
    hybrid(x)
    for p, q in zip(hybrid.collect_params().values(), eager.collect_params().values()):
        p.set_data(q.data())
    hybrid.hybridize(static_alloc=True, static_shape=True)
    out: dict[str, Call] = {"hybrid": lambda: hybrid(x), "hybrid eager": lambda: eager(x)}
    for name, peer in {"NumPy": numpy_call, "ONNX Runtime": onnx_session, "torch": torch_call}.items():
        found = peer(eager, x.asnumpy())
        if found is not None:
            out[name] = found
    for name, call in out.items():
        got = call()
        np.testing.assert_allclose(np.asarray(got), want.asnumpy(), rtol=1e-3, atol=1e-4, err_msg=name)
    return out


def measure(named: dict[str, Call], seconds: float) -> dict[str, float]:
    """Median microseconds a call, the candidates taking turns."""
    inner = {}
    for name, call in named.items():
        begin = time.perf_counter()
        call()
        inner[name] = max(1, int(0.002 / max(time.perf_counter() - begin, 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in named}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(next(iter(samples.values()))) < 7:
        for name, call in named.items():
            begin = time.perf_counter()
            for _ in range(inner[name]):
                call()
            samples[name].append((time.perf_counter() - begin) / inner[name])
    return {name: float(np.median(s) * 1e6) for name, s in samples.items()}


def mxnet_times(python: str) -> dict[str, float]:
    """MXNet's hybridized time of the networks, by its own process."""
    script = Path(__file__).with_name("mxnet_times.py")
    run = subprocess.run([python, str(script)], capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": THREADS})
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per workload")
    parser.add_argument("--json", help="write the figures here")
    args = parser.parse_args()
    foreign = mxnet_times(os.environ["MXNET_PYTHON"]) if "MXNET_PYTHON" in os.environ else {}
    print(f"{platform.processor() or platform.machine()}, {THREADS} thread(s), Python {sys.version.split()[0]}, NumPy {np.__version__}; median us a call")
    rows = {}
    for title, (make, shape) in WORKLOADS.items():
        times = measure(calls(make, shape), args.seconds)
        if title in foreign:
            times["MXNet 1.9.1"] = foreign[title]
        rows[title] = times
        peers = {k: v for k, v in times.items() if not k.startswith("hybrid")}
        best = f"; {min(peers.values()) / times['hybrid']:.2f} times faster than {min(peers, key=peers.__getitem__)}" if peers else ""
        print(f"{title:32s} " + "  ".join(f"{k} {v:.1f}" for k, v in times.items()) + best)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
