"""The programs of benchmarks/gpu.py in other libraries, whichever of PyTorch, JAX, TensorRT and CuPy are installed.

``python benchmarks/gpu_peers.py [--quick] [--device cpu] [--out FILE]``. float32 without TF32, as hybrid computes it.
Networks have hybrid's weights. TensorRT reads them from ONNX, which needs the package onnx.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")        # JAX leaves the GPU's memory to the others
sys.path.insert(0, str(Path(__file__).parent))

import gpu_timing  # noqa: E402  it lies beside this file
import numpy as np  # noqa: E402
from gpu_networks import Network, networks, on_host  # noqa: E402
from gpu_timing import Row  # noqa: E402

from hybrid.base.dtype import as_dtype  # noqa: E402

rng = np.random.default_rng(0)
Call = Callable[[], Any]
AUTOTUNE = "max-autotune"                         # compiles for minutes, so that the others come first


@dataclass
class Work:
    """A program of a library: what makes it, and what waits for it."""
    program: str
    by: str
    make: Callable[[], Call]
    wait: Call


def normal(*shape: int) -> Any:
    """Normal numbers on the host."""
    return rng.standard_normal(shape, dtype=np.float32)


def size(quick: bool) -> int:
    """Rows of matrices."""
    return 64 if quick else 4096


def torch_work(device: str, quick: bool) -> list[Work]:
    """Eager, torch.compile with CUDA graphs, and with autotuning; images of halves in the order that suits cuDNN."""
    import torch  # noqa: PLC0415  optional, as the others
    from torch import nn  # noqa: PLC0415
    from torch_models import to_torch, whole  # noqa: PLC0415

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)

    def inference(network: Network, mode: str) -> Call:
        kind = getattr(torch, network.dtype)
        net = to_torch(on_host(network), 1).to(device, kind).eval()
        x = torch.from_numpy(normal(*network.shape)).to(device, kind)
        if x.ndim == 4 and x.itemsize == 2:
            net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        f = whole(net, mode) if mode else net

        def call() -> Any:
            with torch.inference_mode():
                return f(x)
        return call

    def step() -> Call:
        net = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2))
        net, x = net.to(device).train(), torch.from_numpy(normal(64, 512)).to(device)
        label = torch.zeros(64, dtype=torch.long, device=device)
        adam = torch.optim.Adam(net.parameters(), 1e-3, fused=device == "cuda")

        def call() -> None:
            adam.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(x), label).backward()
            adam.step()
        return call

    def of(f: Callable[..., Any], *arrays: Any, kind: Any = torch.float32) -> Call:
        given = [torch.from_numpy(a).to(device, kind) for a in arrays]
        return lambda: f(*given)
    n = size(quick)
    modes = ("", "reduce-overhead", AUTOTUNE) if device == "cuda" else ("",)
    return [
        *(Work(w.program, f"torch.compile, {m}" if m else "PyTorch", lambda w=w, m=m: inference(w, m), wait)
          for w in networks(quick) for m in modes),
        Work("Adam step of the MLP, batch 64", "PyTorch", step, wait),
        Work(f"softmax ({n}, 1024)", "PyTorch", lambda: of(lambda x: torch.softmax(x, 1), normal(n, 1024)), wait),
        *(Work(f"product {n}, {kind}", "PyTorch",
               lambda kind=kind: of(torch.matmul, normal(n, n), normal(n, n), kind=getattr(torch, kind)), wait)
          for kind in ("float32", "float16"))]


def jax_work(device: str, quick: bool) -> list[Work]:
    """jit."""
    import jax  # noqa: PLC0415
    from jax import numpy as jnp  # noqa: PLC0415
    from jax_models import jitted  # noqa: PLC0415

    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    if device == "cuda" and jax.default_backend() != "gpu":
        raise RuntimeError(f"JAX sees no GPU, only {jax.default_backend()}")
    last: list[Any] = [None]

    def of(f: Callable[..., Any], *arrays: Any, kind: str = "float32") -> Call:
        given = [jnp.asarray(a, kind) for a in arrays]

        def call() -> None:
            last[0] = f(*given)
        return call

    def wait() -> None:
        jax.block_until_ready(last[0])
    n = size(quick)
    return [
        *(Work(w.program, "JAX", lambda w=w: of(jitted(on_host(w), 1, w.dtype), normal(*w.shape), kind=w.dtype), wait)
          for w in networks(quick)),
        Work(f"softmax ({n}, 1024)", "JAX", lambda: of(jax.jit(lambda x: jax.nn.softmax(x, 1)), normal(n, 1024)), wait),
        *(Work(f"product {n}, {kind}", "JAX",
               lambda kind=kind: of(jax.jit(jnp.matmul), normal(n, n), normal(n, n), kind=kind), wait)
          for kind in ("float32", "float16"))]


def tensorrt_work(device: str, quick: bool) -> list[Work]:
    """Engines of the networks' ONNX models, launched one by one and as CUDA graphs."""
    import cupy  # noqa: PLC0415
    from gpu_tensorrt import Inference, engine  # noqa: PLC0415
    from onnx_models import to_onnx  # noqa: PLC0415

    stream, made = cupy.cuda.Stream(non_blocking=True), {}

    def inference(network: Network, graph: bool) -> Call:
        if network not in made:
            made.clear()                                   # the memory of the one before
            x = normal(*network.shape).astype(as_dtype(network.dtype))
            model = to_onnx(on_host(network), [network.shape], network.dtype)
            made[network] = Inference(engine(model), {"x0": x.tobytes()}, stream)
        return made[network].graph() if graph else made[network]
    return [Work(w.program, "TensorRT, CUDA graph" if graph else "TensorRT", lambda w=w, g=graph: inference(w, g),
                 stream.synchronize) for w in networks(quick) for graph in (False, True)]


def cupy_work(device: str, quick: bool) -> list[Work]:
    """CuPy's own functions: cuBLAS behind its products."""
    import cupy  # noqa: PLC0415

    def wait() -> None:
        cupy.cuda.get_current_stream().synchronize()
    n = size(quick)

    def product(kind: str) -> Call:
        a, b = (cupy.asarray(normal(n, n).astype(kind)) for _ in range(2))
        return lambda: a @ b
    return [Work(f"product {n}, {kind}", "cuBLAS by CuPy", lambda kind=kind: product(kind), wait)
            for kind in ("float32", "float16")]


LIBRARIES = {"PyTorch": torch_work, "JAX": jax_work, "CuPy": cupy_work, "TensorRT": tensorrt_work}
ON_CPU = ("PyTorch", "JAX")


def all_work(device: str, quick: bool, rows: list[Row]) -> list[Work]:
    """The programs of what is installed, the slowest to compile last; what fails to start is a row."""
    found = []
    for name, library in LIBRARIES.items():
        if device == "cpu" and name not in ON_CPU:
            print(f"{name} is left out: it has no CPU")
            continue
        try:
            found += library(device, quick)
        except ImportError as err:
            print(f"{name} is left out: {err}")
        except Exception as err:                           # noqa: BLE001  one library less, the others go on
            rows.append(gpu_timing.failed("all", name, err))
            print(rows[-1], flush=True)
    return sorted(found, key=lambda work: AUTOTUNE in work.by)


def main() -> None:
    """Time what is installed, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats: to see that it runs")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to see that it runs")
    parser.add_argument("--seconds", type=float, default=480, help="after which nothing more is begun")
    parser.add_argument("--out", type=Path, default=Path("build/gpu_peers.md"))
    given = parser.parse_args()
    rows: list[Row] = []
    gpu = "none (the CPU: no measurement of a GPU)" if given.device == "cpu" else gpu_timing.gpu_name()
    end = time.perf_counter() + given.seconds
    for work in all_work(given.device, given.quick, rows):
        if time.perf_counter() < end:
            rows.append(gpu_timing.measure(work.program, work.by, work.make, work.wait, given.quick))
        else:
            rows.append(Row(work.program, work.by, error=f"left out after {given.seconds:.0f} s"))
        print(rows[-1], flush=True)
    print(gpu_timing.report("The same programs in other libraries", gpu, rows, given.out))


if __name__ == "__main__":
    main()
