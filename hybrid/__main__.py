"""``python -m hybrid`` says what is installed here and whether it works: to read, and to put into a bug report.

    python -m hybrid                               this report
    python -m hybrid.as_mxnet train.py             runs a program written for MXNet
    python -m hybrid.export NETWORK PARAMS         writes a network as C
    python -m hybrid.serve FOLDER                  serves models over HTTP
    python -m hybrid.launch -n 2 python train.py   starts a program on several processes
    python -m hybrid.warm FOLDER SCRIPT            compiles beforehand what a script calls

Each takes --help.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
import warnings
from typing import Iterator

import cffi
import numpy

import hybrid
from . import autograd, nd
from .base import config, device
from .runtime import cache, compilers, toolchain

# what the extras of setup.cfg bring: the module that is imported, and the package that it comes with
OPTIONAL = {"cupy": "cupy-cuda12x", "ml_dtypes": "ml_dtypes", "mpi4py": "mpi4py", "onnx": "onnx", "PIL": "Pillow",
            "safetensors": "safetensors", "scipy": "scipy", "tqdm": "tqdm", "uvicorn": "uvicorn", "ziglang": "ziglang"}
MEGA = 1 << 20


def compiler_lines() -> Iterator[tuple[str, str]]:
    """The C compiler, what it says of itself, and the flags that programs are compiled with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cc = toolchain.compiler()
    if cc is None:
        yield "compiler", (f"none: {compilers.missing(os.environ.get('HYBRID_CC'))}, so compiled programs run on "
                           f"NumPy. "
                           f"{compilers.GET_ONE}")
        return
    yield "compiler", toolchain.compiler_version(cc)
    yield "flags", " ".join(toolchain.flags(cc))


def cache_line() -> str:
    """Where compiled programs are kept, and how much that is."""
    folder, count, size = cache.folder(), 0, 0
    for entry in os.scandir(folder):
        if entry.is_file():
            count, size = count + entry.name.endswith(".so"), size + entry.stat().st_size
    most = config.cache_bytes()
    limit = f"of at most {most // MEGA} MB" if most else "without a limit"
    return f"{folder}: {count} programs, {size / MEGA:.1f} MB {limit}"


def lines() -> Iterator[tuple[str, str]]:
    """The report, without the self-test: what, and how it is here."""
    yield "hybrid", f"{hybrid.__version__}, {os.path.dirname(os.path.abspath(hybrid.__file__))}"
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    yield "NumPy, cffi", f"{numpy.__version__}, {cffi.__version__}"
    yield "system", f"{platform.system()} {platform.machine()}, vectors of {8 * toolchain.vector_bytes()} bits"
    yield "device", f"{device.current_context()}; GPUs: {device.num_gpus()}"
    yield "threads", f"{config.num_threads()} of {config.usable_cores()} cores"
    yield from compiler_lines()
    yield "cache", cache_line()
    there = [name for name in OPTIONAL if importlib.util.find_spec(name)]
    yield "also installed", ", ".join(map(_with_version, there)) or "none of the optional packages"
    own = sorted(k for k in os.environ if k.startswith("HYBRID_"))
    yield "settings", ", ".join(f"{k}={os.environ[k]}" for k in own) or "no HYBRID_ variable is set"


def _with_version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(OPTIONAL[name])}"
    except importlib.metadata.PackageNotFoundError:
        return name


def self_test() -> str:
    """Compile a small function, and compare its value and gradient with what eager code gives. AssertionError where
    they differ."""
    def f(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
        return nd.softmax(nd.dot(nd.tanh(x), w) * scale).sum(axis=0)

    # a constant that no program of an earlier run has: the compiler is tried, not the cache
    scale = 1 + time.time() % 1
    x, w = nd.arange(12).reshape((4, 3)) / 12, nd.arange(15).reshape((3, 5)) / 15
    weights, answers = nd.arange(5), []
    for function in (f, hybrid.hybridize(f)):
        x.attach_grad()
        with config.at_once():
            with autograd.record():
                value = (function(x, w) * weights).sum()
            value.backward()
        assert x.grad is not None
        answers.append((value.asnumpy(), x.grad.asnumpy()))
    for eager, compiled in zip(*answers):
        numpy.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-6)
    how = "compiled" if toolchain.compiler() else "hybridized, on NumPy,"
    return f"a function and its gradient, {how} and eager, agree"


def main() -> int:
    """Print the report; 1 where the self-test fails. ``--help`` tells about the other commands."""
    argparse.ArgumentParser("python -m hybrid", description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for name, value in lines():
        print(f"{name + ':':16}{value}")
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            said, status = f"{self_test()} ({time.perf_counter() - begin:.2f} s)", 0
        except Exception as err:                         # whatever is broken: that is what this tells
            said, status = f"FAILED: {type(err).__name__}: {err}", 1
    for warning in seen:
        print(f"{'warning:':16}{warning.message}")
    print(f"{'self-test:':16}{said}")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
