"""The programs of benchmarks/gpu.py in other libraries, whichever of PyTorch, JAX and CuPy are installed.

``python benchmarks/gpu_peers.py [--quick] [--device cpu] [--out FILE]``. float32 without TF32, as hybrid computes it.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import gpu_timing  # noqa: E402  it lies beside this file
import numpy as np  # noqa: E402

rng = np.random.default_rng(0)
Work = tuple[str, str, Callable[[], Callable[[], Any]], Callable[[], Any]]      # program, library, what makes it, wait


def normal(*shape: int) -> Any:
    """Normal numbers on the host."""
    return rng.standard_normal(shape, dtype=np.float32)


def torch_work(device: str, n: int) -> list[Work]:
    """Eager, torch.compile with CUDA graphs, and with autotuning."""
    import torch  # noqa: PLC0415  optional, as the others
    from torch import nn  # noqa: PLC0415

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)

    def mlp() -> Any:
        return nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                             nn.Linear(128, 2)).to(device).eval()

    def inference(batch: int, mode: str) -> Callable[[], Any]:
        net, x = mlp(), torch.from_numpy(normal(batch, 512)).to(device)
        f = torch.compile(net, mode=mode) if mode else net

        def call() -> Any:
            with torch.inference_mode():
                return f(x)
        return call

    def step() -> Callable[[], Any]:
        net, x = mlp().train(), torch.from_numpy(normal(64, 512)).to(device)
        label = torch.zeros(64, dtype=torch.long, device=device)
        adam = torch.optim.Adam(net.parameters(), 1e-3, fused=device == "cuda")

        def call() -> None:
            adam.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(x), label).backward()
            adam.step()
        return call

    def of(f: Callable[..., Any], *arrays: Any, kind: Any = torch.float32) -> Callable[[], Any]:
        given = [torch.from_numpy(a).to(device, kind) for a in arrays]
        return lambda: f(*given)
    modes = [("PyTorch", ""), ("torch.compile, reduce-overhead", "reduce-overhead"),
             ("torch.compile, max-autotune", "max-autotune")] if device == "cuda" else [("PyTorch", "")]
    out: list[Work] = [(f"MLP, batch {batch}", by, lambda b=batch, m=mode: inference(b, m), wait)
                       for batch in (1, 256) for by, mode in modes]
    out += [("Adam step of the MLP, batch 64", "PyTorch", step, wait),
            (f"softmax ({n}, 1024)", "PyTorch", lambda: of(lambda x: torch.softmax(x, 1), normal(n, 1024)), wait),
            (f"product {n}, float32", "PyTorch", lambda: of(torch.matmul, normal(n, n), normal(n, n)), wait),
            (f"product {n}, float16", "PyTorch",
             lambda: of(torch.matmul, normal(n, n), normal(n, n), kind=torch.float16), wait)]
    return out


def jax_work(device: str, n: int) -> list[Work]:
    """jit."""
    import jax  # noqa: PLC0415
    from jax import numpy as jnp  # noqa: PLC0415

    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    last: list[Any] = [None]

    def of(f: Callable[..., Any], *arrays: Any) -> Callable[[], Any]:
        compiled, given = jax.jit(f), [jnp.asarray(a) for a in arrays]

        def call() -> None:
            last[0] = compiled(*given)
        return call

    def mlp(x: Any, a: Any, b: Any, c: Any) -> Any:
        return jnp.maximum(jnp.maximum(x @ a, 0) @ b, 0) @ c
    layers = normal(512, 256), normal(256, 128), normal(128, 2)

    def wait() -> None:
        jax.block_until_ready(last[0])
    return [*((f"MLP, batch {b}", "JAX", lambda b=b: of(mlp, normal(b, 512), *layers), wait) for b in (1, 256)),
            (f"softmax ({n}, 1024)", "JAX", lambda: of(lambda x: jax.nn.softmax(x, 1), normal(n, 1024)), wait),
            (f"product {n}, float32", "JAX", lambda: of(jnp.matmul, normal(n, n), normal(n, n)), wait)]


def cupy_work(device: str, n: int) -> list[Work]:
    """CuPy's own functions: cuBLAS behind its products."""
    import cupy  # noqa: PLC0415

    def wait() -> None:
        cupy.cuda.get_current_stream().synchronize()

    def product(kind: Any) -> Callable[[], Any]:
        a, b = (cupy.asarray(normal(n, n).astype(kind)) for _ in range(2))
        return lambda: a @ b
    return [(f"product {n}, float32", "cuBLAS by CuPy", lambda: product(np.float32), wait),
            (f"product {n}, float16", "cuBLAS by CuPy", lambda: product(np.float16), wait)]


def main() -> None:
    """Time what is installed, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats: to see that it runs")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("build/gpu_peers.md"))
    given = parser.parse_args()
    rows, gpu = [], "none (the CPU: no measurement of a GPU)" if given.device == "cpu" else gpu_timing.gpu_name()
    for library in (torch_work, jax_work, cupy_work):
        name = library.__name__.split("_")[0]
        try:
            work = library(given.device, 64 if given.quick else 4096)
        except ImportError as err:
            print(f"{name} is left out: {err}")
            continue
        for program, by, make, wait in work:
            rows.append(gpu_timing.measure(program, by, make, wait, given.quick))
            print(rows[-1], flush=True)
    print(gpu_timing.report("The same programs in other libraries", gpu, rows, given.out))


if __name__ == "__main__":
    main()
