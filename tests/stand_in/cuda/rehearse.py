"""Run a script on real CuPy where there is no GPU, over driver.c and runtime.c: its kernels run in the emulator.

    LD_LIBRARY_PATH=build/stand-in python -m tests.stand_in.cuda.rehearse benchmarks/gpu_peers.py --quick

README.md beside it says how the libraries and CuPy's runtime module are built. Times are no measurement of a GPU.
As a plugin of pytest (``-p tests.stand_in.cuda.rehearse``) it does the same for tests. CuPy's own kernels do not run
there: a test that fails is skipped where its file has launched one, since it tells nothing.
"""
from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import cffi
import pytest

os.environ["HYBRID_STAND_IN"] = "1"
from hybrid.base import device  # noqa: E402  after the setting
from hybrid.runtime.cuda import cupy_driver, emulator, nvrtc  # noqa: E402

_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(")


class Compiler:
    """In place of NVRTC: its log and resources, with an image that names the emulator's library and its kernels."""
    version = staticmethod(nvrtc.version)

    @staticmethod
    def compile(source: str, arch: str, options: Any = ()) -> nvrtc.Compiled:
        """What NVRTC says of a text, and the library that the C++ compiler makes of it as an image for driver.c."""
        kernels = list(dict.fromkeys(_KERNEL.findall(source)))
        path = emulator.compile_module(source, kernels)
        image = b"\x7fELF-EMU:" + "\n".join([str(path), *kernels]).encode() + b"\0"
        return replace(nvrtc.compile(source, arch, options), cubin=image)


cupy_driver.nvrtc = Compiler                               # type: ignore[attr-defined]

ffi = cffi.FFI()
ffi.cdef("extern long stand_in_left_out, stand_in_memory; extern int stand_in_late; extern char stand_in_fails[64];")
_driver = ffi.dlopen("libcuda.so.1")
_before: dict[str, int] = {}                               # by file of tests: launches left out before it


def left_out() -> int:
    """How many launches of CuPy's own kernels did nothing."""
    return int(_driver.stand_in_left_out)


def late() -> int:
    """How late streams run (streams.c)."""
    return int(_driver.stand_in_late)


def run_late(order: int) -> None:
    """How late streams run from now on; until now, all is done."""
    device.wait_for_gpus()
    _driver.stand_in_late = order


@contextmanager
def failing(kernel: str) -> Iterator[None]:
    """Scope in which a kernel fails."""
    _driver.stand_in_fails = kernel.encode()
    try:
        yield
    finally:
        _driver.stand_in_fails = b""


@contextmanager
def with_memory(nbytes: int) -> Iterator[None]:
    """Scope in which the GPU gives so many bytes at most."""
    before, _driver.stand_in_memory = _driver.stand_in_memory, nbytes
    try:
        yield
    finally:
        _driver.stand_in_memory = before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note where a file's tests begin."""
    _before.setdefault(str(item.path), left_out())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure behind a kernel that was left out is a skip."""
    report: Any = yield
    since = left_out() - _before.get(str(item.path), 0)
    if report.failed and since:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), None, f"Skipped: {since} kernels of CuPy's own were left out")
    return report                                          # type: ignore[return-value]


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
