"""CUDA: one driver interface, run by CuPy on a GPU or by the emulator on the CPU.

>>> module = cuda.driver().load(source, ["scale"])                                            # doctest: +SKIP
>>> plan = module.plan([("scale", (4, 1, 1), (256, 1, 1), 0, (0, 1))])     # args: places in the pointer table
>>> plan.run([driver.pointer(x), driver.pointer(y)])
"""
from __future__ import annotations

import threading

from hybrid.base import config, device
from hybrid.base.errors import DeviceError

from .cupy_driver import CuPyDriver
from .interface import Driver, Launch, Module, Plan
from .emulator import EmulatorDriver, EmulatorError

__all__ = ["Driver", "EmulatorError", "Launch", "Module", "Plan", "driver"]

_drivers: dict[tuple[str, int], Driver] = {}
_lock = threading.Lock()


def driver(device_id: int = 0) -> Driver:
    """The driver of ``gpu(device_id)``: the emulator under HYBRID_CUDA=emulator, else CuPy's.

    Raises DeviceError where there is no such GPU.
    """
    with _lock:
        if config.cuda_emulated():
            key: tuple[str, int] = ("emulator", 0)
            device.array_module(device.gpu(device_id))         # says that there is gpu(0) alone
            if key not in _drivers:
                _drivers[key] = EmulatorDriver()
            return _drivers[key]
        cupy = device.find_cupy()
        if cupy is None:
            raise DeviceError("no GPU was found: install CuPy (pip install 'cupy-cuda12x[ctk]>=14' "
                              "or 'cupy-cuda13x[ctk]>=14') on a "
                              "machine with an NVIDIA GPU, or set HYBRID_CUDA=emulator to run CUDA kernels on the CPU")
        key = ("cupy", device_id)
        if key not in _drivers:
            device.array_module(device.gpu(device_id))         # says how many there are
            _drivers[key] = CuPyDriver(cupy, device_id)
        return _drivers[key]
