"""Run a script on real CuPy where there is no GPU, over driver.c and runtime.c: its kernels run in the emulator.

    LD_LIBRARY_PATH=build/stand-in python -m tests.stand_in.cuda.rehearse benchmarks/gpu_peers.py --quick

README.md beside it says how the libraries and CuPy's runtime module are built. Times are no measurement of a GPU.
As a plugin of pytest (``-p tests.stand_in.cuda.rehearse``) it does the same for tests.
"""
from __future__ import annotations

import os
import re
import runpy
import sys
from typing import Any

os.environ["HYBRID_STAND_IN"] = "1"
from hybrid.runtime.cuda import cupy_driver, emulator, nvrtc  # noqa: E402  after the setting

_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(")


class Compiler:
    """In place of NVRTC: an image that names the emulator's library and its kernels."""
    version = staticmethod(lambda: (13, 0))

    @staticmethod
    def compile(source: str, arch: str, options: Any = ()) -> nvrtc.Compiled:
        """The library that the C++ compiler makes of a text, as an image for driver.c."""
        kernels = list(dict.fromkeys(_KERNEL.findall(source)))
        path = emulator.compile_module(source, kernels)
        return nvrtc.Compiled(b"\x7fELF-EMU:" + "\n".join([str(path), *kernels]).encode() + b"\0", "source.cu", "", {})


cupy_driver.nvrtc = Compiler                               # type: ignore[attr-defined]

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
