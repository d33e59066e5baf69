"""What single calls take with the host, where there is no GPU: ``FOLDER/python benchmarks/gpu_walls.py``.

FOLDER is what tests/stand_in/cuda/build.py makes: CuPy's own wheel over a stand-in for the driver. For each program:
its first call with no compiled kernels on disk (printing, NVRTC and loading; by wall clock and by processor), what a
later call takes on the host (the least of many, measured; kernels are left out, and the driver's launch costs next to
nothing), and the whole call, by wall clock: that and the launches and kernels of the model
(tests/data/gpu_budgets.json, an H100). Whole calls are no measurement of a GPU. Ends with 1 where one takes longer than
its limit.
"""
from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

CACHE = tempfile.TemporaryDirectory(prefix="gpu_walls_")
os.environ["HYBRID_CACHE"] = CACHE.name
sys.path.insert(0, str(Path(__file__).parent))

import nets  # noqa: E402  after the settings
import numpy as np  # noqa: E402

import hybrid as mx  # noqa: E402
from hybrid import nd  # noqa: E402
from hybrid.runtime import launcher  # noqa: E402

BUDGETS = json.loads((Path(__file__).parent.parent / "tests" / "data" / "gpu_budgets.json").read_text())
GPU, CPU = mx.gpu(0), mx.cpu()
WARM, ROUNDS, CALLS = 300, 60, 50
Call = Callable[[], Any]


class Limits(NamedTuple):
    """Most microseconds of a later call with its launches and kernels, and most seconds of the first call."""
    later_us: float = float("inf")
    first_s: float = 3.0


def zeros(*shape: int) -> Any:
    """An array on the GPU, filled by the host: CuPy's own kernels do not run here."""
    return nd.array(np.zeros(shape, np.float32), ctx=GPU)


def on_gpu(net: Any, shape: tuple[int, ...]) -> Any:
    """A network with its parameters, made by the host."""
    net.initialize(ctx=CPU)
    net(nd.zeros((1, *shape[1:]), ctx=CPU))
    net.collect_params().reset_ctx(GPU)
    return net


def inference(make: Callable[[], Any], *shape: int) -> Call:
    """A hybridized network on one input."""
    net, x = on_gpu(make(), shape), zeros(*shape)
    net.hybridize(static_alloc=True, static_shape=True)
    return lambda: net(x)


def step(work: nets.Step) -> Call:
    """A training step as one program."""
    one = mx.hybridize(nets.gluon_step(on_gpu(work.make(), work.shape), work))
    x, y = zeros(*work.shape), zeros(work.shape[0])
    return lambda: one(x, y)


def encoder(length: int, width: int, heads: int) -> Call:
    """Four layers, batch 8."""
    nets.LENGTH, nets.WIDTH, nets.HEADS = length, width, heads
    return inference(nets.encoder, 8, length, width)


PROGRAMS: dict[str, tuple[Callable[[], Call], Limits]] = {
    "MLP, batch 1": (lambda: inference(nets.mlp, 1, 512), Limits(10)),
    "MLP, batch 256": (lambda: inference(nets.mlp, 256, 512), Limits()),
    "Adam step of the MLP": (lambda: step(nets.TRAINING[1]), Limits(45)),
    "ResNet-18, batch 1": (lambda: inference(nets.vision.resnet18_v1, 1, 3, 224, 224), Limits(180)),
    "encoder 4 x 512, length 1024": (lambda: encoder(1024, 512, 8), Limits()),
}


def host(call: Call) -> float:
    """Microseconds until a call returns, the least of many rounds, with the C launcher."""
    while launcher.coming():
        time.sleep(0.1)
    for _ in range(WARM):
        call()
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append(time.perf_counter() - begin)
    return min(times) / CALLS * 1e6


def main() -> int:
    """Time all, print the table; how many limits were missed."""
    if not os.environ.get("HYBRID_STAND_IN"):
        raise SystemExit(__doc__)
    print("First calls and host are measured here, kernels and launches modelled for an H100.\n\n"
          "| program | first call, s | of processor, s | at most, s | host, us | kernels and launches, us "
          "| whole call, us | at most, us |\n|" + "---|" * 8)
    missed = 0
    for name, (make, limits) in PROGRAMS.items():
        call = make()
        began, processor = time.perf_counter(), time.process_time()
        call()
        first, processor = time.perf_counter() - began, time.process_time() - processor
        own, kernels = host(call), BUDGETS[name]["H100"]["us"]
        missed += (own + kernels > limits.later_us) + (first > limits.first_s)
        print(f"| {name} | {first:.2f} | {processor:.2f} | {limits.first_s:g} | {own:.1f} | {kernels:.1f} | "
              f"{own + kernels:.1f} | {'-' if limits.later_us == float('inf') else f'{limits.later_us:g}'} |",
              flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
