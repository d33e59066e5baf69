"""Where the CUDA headers are, and their text."""
from __future__ import annotations

from functools import cache
from pathlib import Path

from hybrid.base.errors import HybridError


@cache
def kernels_folder() -> Path:
    """The folder of kernel sources: ``hybrid/kernels`` when installed, ``kernels`` beside ``hybrid`` in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "kernels", package.parent / "kernels"):
        if (folder / "emulator" / "cuda_on_cpu.h").is_file():
            return folder
    raise HybridError(f"the kernel sources are missing: no {package / 'kernels' / 'emulator' / 'cuda_on_cpu.h'}; "
                      "install the package again")


@cache
def device_headers() -> dict[str, str]:
    """Headers that a CUDA text may include, by name."""
    folder = kernels_folder()
    files = [*sorted((folder / "include").glob("*.h")), *sorted((folder / "cuda").glob("*.cuh"))]
    return {f.name: f.read_text() for f in files}


@cache
def emulator_headers() -> dict[str, str]:
    """The headers that make g++ understand CUDA C, by name."""
    return {f.name: f.read_text() for f in sorted((kernels_folder() / "emulator").glob("*.h"))}
