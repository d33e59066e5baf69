"""Which driver is picked, and CuPy's driver against a stand-in that runs its launches in the emulator."""
from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hybrid import device
from hybrid.base.errors import DeviceError
from hybrid.runtime import cuda
from hybrid.runtime.cuda import Launch, cupy_driver, nvrtc
from hybrid.runtime.cuda.emulator import EmulatorDriver

TEXT = r"""
#include "hybrid_cuda.cuh"
extern "C" __global__ void scale(const float *x, float *y) { y[threadIdx.x] = 2.f * x[threadIdx.x]; }
extern "C" __global__ void add(const float *x, const float *y, float *z) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x];
    z[threadIdx.x] = s[threadIdx.x];
}
"""
KERNELS = ["scale", "add"]
LAUNCHES = [("scale", (1, 1, 1), (64, 1, 1), 0, (0, 1)), ("add", (1, 1, 1), (64, 1, 1), 256, (0, 1, 2))]


def _streams(outer: Any) -> type:
    """The class of a fake CuPy's streams."""
    class Stream:
        ptr = 8

        def __init__(self, non_blocking: bool = False): ...

        def __enter__(self):
            outer.stream, self.before = self, outer.stream

        def __exit__(self, *_):
            outer.stream = self.before

        def begin_capture(self) -> None:
            outer.captures += 1

        def end_capture(self):
            return SimpleNamespace(launch=lambda stream: setattr(outer, "replayed", stream.ptr))
    return Stream


def _devices(outer: Any) -> type:
    """The class of a fake CuPy's devices."""
    class Device:
        compute_capability = "90"

        def __init__(self, number: int):
            self.number = number

        def __enter__(self):
            self.before, outer.device = outer.device, self.number

        def __exit__(self, *_):
            outer.device = self.before
    return Device


class FakeCuPy:
    """The part of CuPy that the driver uses. Kernel launches go to the emulator, with the parameters it was given."""

    def __init__(self) -> None:
        module = EmulatorDriver().load(TEXT, KERNELS)
        self.attributes: list[tuple[int, int, int]] = []
        self.contexts = self.captures = 0
        outer = self

        class LoadedModule:
            def load(self, cubin: bytes) -> None:
                assert cubin[:4] == b"\x7fELF" and outer.contexts

            def get_function(self, name: str) -> SimpleNamespace:
                return SimpleNamespace(ptr=100 + KERNELS.index(name))

        def launch(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra=0):
            assert stream in (7, 8) and not extra and outer.device == 1
            count = (2, 3)[function - 100]
            slots = (ctypes.c_uint64 * count).from_address(params)
            args = [ctypes.c_uint64.from_address(s).value for s in slots]
            module.launch_list([(KERNELS[function - 100], (gx, gy, gz), (bx, by, bz), shared, args)])

        def free(pointer: int) -> None:
            outer.contexts += 1

        self.device = 0
        self.stream = SimpleNamespace(ptr=7, synchronize=lambda: None)
        self.uint8 = np.uint8
        self.empty = np.empty
        self.cuda = SimpleNamespace(
            driver=SimpleNamespace(launchKernel=launch, launchCooperativeKernel=launch,
                                   funcSetAttribute=lambda *a: self.attributes.append(a)),
            function=SimpleNamespace(Module=LoadedModule),
            runtime=SimpleNamespace(free=free, getDevice=lambda: self.device),
            Stream=_streams(self), Device=_devices(self), get_current_stream=lambda: self.stream)


@pytest.fixture
def fake(monkeypatch):
    """A stand-in for the cupy module, on a thread that has no context yet."""
    monkeypatch.setattr(cupy_driver, "_thread", threading.local())
    monkeypatch.setattr(cupy_driver.native, "library", lambda: None)         # its streams are none of a driver's
    return FakeCuPy()


def arrays() -> list[np.ndarray]:
    return [np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)]


def test_the_emulator_is_picked_by_the_environment(monkeypatch):
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    assert cuda.driver() is cuda.driver() and cuda.driver().name == "emulator" and cuda.driver().arch == "sm_90"


def test_no_gpu_is_a_clear_error(monkeypatch):
    monkeypatch.delenv("HYBRID_CUDA", raising=False)
    monkeypatch.setattr(device, "find_cupy", lambda: None)
    with pytest.raises(DeviceError, match="no GPU was found: install CuPy"):
        cuda.driver()


def test_the_emulator_has_one_device(monkeypatch):
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    with pytest.raises(DeviceError, match=r"gpu\(1\) was asked for"):
        cuda.driver(1)


@pytest.mark.parametrize("run", ["plan", "list"])
def test_emulator_runs_a_list(run):
    driver = EmulatorDriver()
    module, (x, y, z) = driver.load(TEXT, KERNELS), arrays()
    pointers = [driver.pointer(a) for a in (x, y, z)]
    if run == "plan":
        module.plan(LAUNCHES).freeze(pointers)()
    else:
        module.launch_list([(*launch[:4], [pointers[i] for i in launch[4]]) for launch in LAUNCHES])
    assert np.array_equal(y, 2 * x) and np.array_equal(z, 3 * x)


def test_emulated_memory_is_aligned_and_holds_garbage():
    driver = EmulatorDriver()
    for size in (0, 1, 1000):
        a = driver.alloc(size)
        assert a.shape == (size,) and a.dtype == np.uint8 and (driver.pointer(a) % 256 == 0 or not size)
        assert np.isnan(a[:size // 4 * 4].view(np.float32)).all()


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_cupy_driver_lays_out_parameters(fake):
    driver = cupy_driver.CuPyDriver(fake, 1)
    assert driver.arch == "sm_90a"
    module = driver.load(TEXT, KERNELS)
    assert module.resources["add"].registers and module.source_path.endswith(".cu")
    plan = module.plan(LAUNCHES)
    for _ in range(2):                                     # other pointers, same plan
        x, y, z = arrays()
        plan.run([a.ctypes.data for a in (x, y, z)])
        assert np.array_equal(y, 2 * x) and np.array_equal(z, 3 * x)
    with pytest.raises(ValueError, match="use 3 pointers, 2 were given"):
        plan.run([1, 2])
    assert not fake.attributes and fake.device == 0
    module.launch_list([])


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_cupy_driver_captures_a_graph_and_asks_for_large_shared_memory(fake):
    driver = cupy_driver.CuPyDriver(fake, 1)
    module, (x, y, z) = driver.load(TEXT, KERNELS), arrays()
    plan = module.plan([Launch("add", (1, 1, 1), (64, 1, 1), 100_000, (0, 1, 2), cooperative=True)])
    assert fake.attributes == [(101, 8, 100_000)]
    replay = plan.freeze([a.ctypes.data for a in (x, y, z)])
    assert fake.captures == 1 and fake.stream.ptr == 7
    replay()
    assert fake.replayed == 7
