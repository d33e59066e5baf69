"""For tests of CUDA sources: compile for real GPUs, and run in the emulator in every order of threads."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hybrid.runtime.cuda import nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver

ARCHS = ("sm_80", "sm_90")
ORDERS = (("forward", 1), ("reverse", 1), ("random", 1), ("random", 2))


def check_cuda_source(source: str, kernels: Sequence[str], archs: Sequence[str] = ARCHS,
                      spills: int = 0) -> dict[str, dict[str, nvrtc.Resources]]:
    """Compile a source with NVRTC for each architecture; every kernel must be there and spill no register to memory.

    Returns each architecture's resources by kernel. ``spills``: bytes of spill stores that are expected.
    """
    found = {}
    for arch in archs:
        compiled = nvrtc.compile(source, arch)
        assert compiled.cubin[:4] == b"\x7fELF", f"{arch}: not a cubin"
        missing = sorted(set(kernels) - set(compiled.resources))
        assert not missing, f"{arch}: no kernel {', '.join(missing)} in {compiled.source_path}"
        for name in kernels:
            r = compiled.resources[name]
            assert r.spill_stores <= spills, (f"{arch}: {name} spills {r.spill_stores} bytes with {r.registers} registers; "
                                              f"source {compiled.source_path}")
        found[arch] = compiled.resources
    return found


def run_emulated(source: str, launches: Sequence[Sequence[object]], arrays: Sequence[np.ndarray], order: str = "forward",
                 seed: int = 1) -> list[np.ndarray]:
    """Run launches on copies of arrays; a launch's args are positions in ``arrays``. Returns the copies."""
    copies = [np.array(a, copy=True) for a in arrays]
    driver = EmulatorDriver(order, seed)
    module = driver.load(source, sorted({str(launch[0]) for launch in launches}))
    module.plan(launches).run([driver.pointer(c) for c in copies])
    return copies
