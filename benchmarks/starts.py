"""From nothing to the first result, and again with what was cached on disk: each in a fresh process, medians of a few
rounds in turns.

``make bench`` has these as rows; ``python benchmarks/starts.py`` prints them alone, with the imports, which are not
counted.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterable

WORKLOADS = ("LeNet, batch 16", "ResNet-18, batch 1", "training step, MLP, batch 64, Adam")
PEERS = ("hybrid", "hybrid eager", "ONNX Runtime", "OpenVINO", "torch.compile", "JAX")


def one(peer: str, title: str) -> dict[str, float]:
    """In a process of its own: seconds of the imports, and from the network with its weights to its first result."""
    begin = time.perf_counter()
    import nets
    import peers
    work: Any = next(w for w in nets.INFERENCE + nets.TRAINING if w.title == title)
    for module in {"ONNX Runtime": ("onnxruntime", "onnx"), "OpenVINO": ("openvino", "onnx"),
                   "torch.compile": ("torch", "torch_models"),
                   "JAX": ("jax", "jax_models")}.get(peer, ()):
        __import__(module)
    imported = time.perf_counter() - begin
    peers.network(work), peers.saved(work)
    begin = time.perf_counter()
    made = dict(peers.makers(work))[peer]() if peer in dict(peers.makers(work)) else None
    if made is None:
        return {}
    made[0](1)
    return {"import": imported, "first": time.perf_counter() - begin}


def fresh(peer: str, title: str, cache: str) -> dict[str, float]:
    """The figures of a process that keeps what it caches in a folder."""
    env = {**os.environ, "HYBRID_CACHE": f"{cache}/hybrid", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch",
           "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax",
           "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    env.pop("MXNET_PYTHON", None)
    run = subprocess.run([sys.executable, __file__, "--one", peer, title], env=env, capture_output=True, text=True,
                         cwd=Path(__file__).parent, check=False)
    lines = run.stdout.splitlines()
    return json.loads(lines[-1]) if run.returncode == 0 and lines else {}


def measured(title: str, rounds: int, without: Iterable[str] = ()) -> dict[str, dict[str, float]]:
    """Median seconds of every participant: with nothing cached ("first"), with a warm cache ("cached"), and of its
    imports."""
    samples: dict[str, list[tuple[float, float, float]]] = {}
    missing = set(without)
    for _ in range(rounds):
        for peer in PEERS:
            if peer in missing:
                continue
            with tempfile.TemporaryDirectory() as cache:
                cold = fresh(peer, title, cache)
                warm = fresh(peer, title, cache) if cold else {}
            if cold and warm:
                samples.setdefault(peer, []).append((cold["first"], warm["first"], warm["import"]))
            else:
                missing.add(peer)
    return {peer: dict(zip(("first", "cached", "import"), map(statistics.median, zip(*found))))
            for peer, found in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=2, metavar=("PEER", "TITLE"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--without", action="append", default=[], metavar="PEER",
                        help="leave a peer out, as it is named in the table")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(*args.one)))
        return
    print(f"{'seconds to the first result':36s} {'peer':14s} {'nothing cached':>14s} {'cached':>8s} {'import':>8s}")
    for title in WORKLOADS:
        for peer, took in measured(title, args.rounds, args.without).items():
            print(f"{title:36s} {peer:14s} {took['first']:14.3f} {took['cached']:8.3f} {took['import']:8.2f}",
                  flush=True)


if __name__ == "__main__":
    main()
