"""The GPU through CuPy: its memory, streams and module loader; compiled by our own NVRTC wrapper."""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hybrid.base import config, gpu_scope
from hybrid.base.device import gpu

from . import driver_api, native, nvrtc
from .interface import Driver, Launch, Module, Plan, checked
from ...ir.parse import parse
from ...ir.stmt import Function, text_of
from .texts import split

KERNELS = 2                                                # that are worth a thread to compile them
_MAX_DYNAMIC_SHARED = 8                                    # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DEFAULT_SHARED_LIMIT = 48 * 1024
_thread = threading.local()


def _ensure_context(cupy: Any, device: int) -> None:
    """Launches through the driver API need the context of the current device, which a new thread has not."""
    seen = _thread.__dict__.setdefault("devices", set())
    if device not in seen:
        cupy.cuda.runtime.free(0)
        seen.add(device)


class CuPyPlan(Plan):
    """Launches with their parameters laid out once: a run gives the pointers and launches.

    Through the driver itself (native.py), in one CUDA graph after some runs; without a C compiler one by one through
    CuPy.
    """

    def __init__(self, module: CuPyModule, launches: list[Launch]):
        self._cupy, self._module = module.cupy, module       # the module must outlive its functions
        self._stream = module.cupy.cuda.get_current_stream
        self._size = 1 + max((a for launch in launches for a in launch.args), default=-1)
        self.launches = module.ready(launches)
        self.native = native_plan(self.launches, self._size)
        self._lock = threading.Lock()
        self._table = np.zeros(max(1, self._size), np.uint64)
        base = self._table.ctypes.data
        # cuLaunchKernel wants an array of addresses of the arguments: they are entries of the table
        self._parameters = [np.array([base + 8 * a for a in launch.args] or [0], np.uint64) for launch in launches]

    def run(self, pointers: Sequence[int]) -> None:
        """Launch all on CuPy's current stream; returns before they are done."""
        if len(pointers) < self._size:
            raise ValueError(f"the launches use {self._size} pointers, {len(pointers)} were given")
        if self._cupy.cuda.runtime.getDevice() == self._module.device:
            return self._launch(pointers)
        with self._cupy.cuda.Device(self._module.device):
            return self._launch(pointers)

    def _launch(self, pointers: Sequence[int]) -> None:
        _ensure_context(self._cupy, self._module.device)
        stream = self._stream().ptr
        if self.native is None:
            return self._each(pointers, stream)
        self.native.run(pointers[:self._size], stream, self._module.source_path)

    def _each(self, pointers: Sequence[int], stream: int) -> None:
        api, waits = self._cupy.cuda.driver, config.cuda_sync()
        with self._lock:                                   # the driver copies arguments while it launches
            self._table[:self._size] = pointers[:self._size]
            for launch, params in zip(self.launches, self._parameters):
                sizes = (launch.function, *launch.grid, *launch.block, launch.shared, stream, params.ctypes.data)
                try:
                    if launch.cooperative:
                        api.launchCooperativeKernel(*sizes)
                    else:
                        api.launchKernel(*sizes, 0)
                    if waits:
                        self._stream().synchronize()
                except self._cupy.cuda.driver.CUDADriverError as err:
                    raise native.failure(str(err), launch.name, waits, self._module.source_path) from None

    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """Capture the run as one CUDA graph; the arrays behind the pointers must stay alive as long as the call."""
        device = self._module.device
        with self._cupy.cuda.Device(device):
            _ensure_context(self._cupy, device)
            capture = self._cupy.cuda.Stream(non_blocking=True)
            with capture:
                capture.begin_capture()
                try:
                    self._launch(pointers)
                finally:
                    graph = capture.end_capture()

        def replay() -> None:
            with self._cupy.cuda.Device(device):
                graph.launch(self._stream())
        return replay


def native_plan(launches: Sequence[native.Ready], entries: int,
                places: Sequence[tuple[int, int]] = ()) -> native.NativePlan | None:
    """Launches of loaded kernels in C; None where there is no C compiler."""
    library = native.library()
    return native.NativePlan(library, launches, entries, places) if library is not None else None


def most_arguments() -> int:
    """Pointers that a kernel may take: parameters may take 4 KB, and 32,764 bytes from CUDA 12.1 on."""
    release = driver_api.version()
    return 4095 if release is not None and release >= (12, 1) and nvrtc.version() >= (12, 1) else 512


class CuPyModule(Module):
    """Cubins of one text loaded on a device, which must be current."""

    def __init__(self, cupy: Any, compiled: Sequence[tuple[nvrtc.Compiled, Sequence[str]]], device: int):
        self.cupy, self.device = cupy, device
        self.kernels = tuple(k for _, names in compiled for k in names)
        self.source_path = ", ".join(str(c.source_path) for c, _ in compiled)
        self.resources = {k: r for c, _ in compiled for k, r in c.resources.items()}
        _ensure_context(cupy, device)
        self.most_arguments = most_arguments()
        self._modules, self._functions = [], {}
        for part, names in compiled:
            module = cupy.cuda.function.Module()
            module.load(part.cubin)
            self._modules.append(module)
            self._functions.update({k: module.get_function(k) for k in names})
        self._shared: dict[str, int] = {}

    def function(self, kernel: str, shared: int) -> int:
        """The CUfunction of a kernel, allowed to use that much dynamic shared memory."""
        pointer = self._functions[kernel].ptr
        static = self.resources[kernel].shared if kernel in self.resources else 0
        if static + shared > _DEFAULT_SHARED_LIMIT and shared > self._shared.get(kernel, 0):
            self.cupy.cuda.driver.funcSetAttribute(pointer, _MAX_DYNAMIC_SHARED, shared)
            self._shared[kernel] = shared
        return int(pointer)

    def resident(self, kernel: str, threads: int, shared: int) -> int:
        """See ``Module.resident``; the driver is asked."""
        each = self.cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(self.function(kernel, shared), threads,
                                                                               shared)
        return int(each) * int(self.cupy.cuda.Device(self.device).attributes["MultiProcessorCount"])

    def spilled(self, kernel: str) -> int:
        """See ``Module.spilled``."""
        return self.resources[kernel].spill_stores if kernel in self.resources else 0

    def ready(self, launches: Sequence[Launch]) -> list[native.Ready]:
        """Launches with their kernels' functions."""
        return [native.Ready(launch.kernel, self.function(launch.kernel, launch.shared), launch.grid, launch.block,
                             launch.shared, launch.args, launch.cooperative, launch.maps) for launch in launches]

    def plan(self, launches: Sequence[Sequence[Any]]) -> CuPyPlan:
        """See ``Module.plan``."""
        return CuPyPlan(self, checked(launches, self.kernels, self.most_arguments))


class CuPyDriver(Driver):
    """One GPU. Works whichever device is current in CuPy."""
    name = "cupy"

    def __init__(self, cupy: Any, device_id: int = 0):
        self._cupy, self._id = cupy, int(device_id)
        capability = str(cupy.cuda.Device(device_id).compute_capability)
        self._arch = f"sm_{capability}a" if capability == "90" else f"sm_{capability}"

    @property
    def arch(self) -> str:
        """``sm_90a`` on a Hopper GPU, else ``sm_`` and the compute capability."""
        return self._arch

    def load(self, source: str, kernels: Sequence[str]) -> CuPyModule:
        """See ``Driver.load``; compiled with NVRTC, many kernels in several threads."""
        modules = split(parse(source), min(config.usable_cores(), len(kernels) // KERNELS))
        names = [[s.name for s in code if isinstance(s, Function) and s.name in kernels] for code in modules]
        texts = [text_of(code) for code in modules]
        if len(texts) == 1:
            compiled = [nvrtc.compile(source, self.arch)]
        else:
            with ThreadPoolExecutor(len(texts)) as threads:
                compiled = list(threads.map(lambda text: nvrtc.compile(text, self.arch), texts))
        with self._cupy.cuda.Device(self._id):
            return CuPyModule(self._cupy, list(zip(compiled, names if len(texts) > 1 else [kernels])), self._id)

    def stream(self) -> int:
        """The handle of CuPy's current stream."""
        return int(self._cupy.cuda.get_current_stream().ptr)

    def capturing(self) -> bool:
        """Whether CuPy's current stream is being captured."""
        stream = self._cupy.cuda.get_current_stream()
        return bool(stream.ptr) and bool(stream.is_capturing())

    def memory(self) -> tuple[int, int]:
        """See ``Driver.memory`` and ``gpu_scope.memory``."""
        with self._cupy.cuda.Device(self._id):
            return gpu_scope.memory(self._cupy)

    def alloc(self, nbytes: int) -> Any:
        """A uint8 array from CuPy's memory pool."""
        with self._cupy.cuda.Device(self._id):
            return self._cupy.empty(nbytes, self._cupy.uint8)

    @property
    def processors(self) -> int:
        """See ``Driver.processors``."""
        return int(self._cupy.cuda.Device(self._id).attributes["MultiProcessorCount"])

    @property
    def no_maps(self) -> str:
        """See ``Driver.no_maps``."""
        return native.no_maps()

    def clear(self, array: Any, first: int, nbytes: int) -> None:
        """See ``Driver.clear``."""
        (array.data + first).memset_async(0, nbytes, self._cupy.cuda.get_current_stream())

    def active(self) -> AbstractContextManager[Any]:
        """See ``gpu_scope.OnGpu``."""
        return gpu_scope.OnGpu(self._cupy, gpu(self._id))

    def pointer(self, array: Any) -> int:
        """Address of a CuPy array."""
        return int(array.data.ptr)

    def synchronize(self) -> None:
        """Wait for CuPy's current stream on this device."""
        with self._cupy.cuda.Device(self._id):
            self._cupy.cuda.get_current_stream().synchronize()
