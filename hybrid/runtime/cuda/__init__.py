"""CUDA: one driver interface, run by CuPy on a GPU or by the emulator on the CPU.

>>> module = cuda.driver().load(source, ["scale"])                                            # doctest: +SKIP
>>> plan = module.plan([("scale", (4, 1, 1), (256, 1, 1), 0, (0, 1))])     # args: places in the pointer table
>>> plan.run([driver.pointer(x), driver.pointer(y)])
"""
from __future__ import annotations

import threading

from hybrid import config, device
from hybrid.errors import DeviceError

from .cupy_driver import CuPyDriver
from .driver import Driver, Launch, Module, Plan
from .emulator import EmulatorDriver, EmulatorError

__all__ = ["Driver", "EmulatorError", "Launch", "Module", "Plan", "driver"]

_drivers: dict[str, Driver] = {}
_lock = threading.Lock()


def driver() -> Driver:
    """The driver of ``gpu(i)``: the emulator under HYBRID_CUDA=emulator, else CuPy's. DeviceError without a GPU."""
    with _lock:
        if config.cuda_emulated():
            return _drivers.setdefault("emulator", EmulatorDriver())
        cupy = device.find_cupy()
        if cupy is None:
            raise DeviceError("no GPU was found: install CuPy (pip install 'hybridize[cuda12]' or 'hybridize[cuda13]') on a "
                              "machine with an NVIDIA GPU, or set HYBRID_CUDA=emulator to run CUDA kernels on the CPU")
        if "cupy" not in _drivers:
            _drivers["cupy"] = CuPyDriver(cupy)
        return _drivers["cupy"]
