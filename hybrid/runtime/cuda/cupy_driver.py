"""The GPU through CuPy: its memory, streams and module loader; compiled by our own NVRTC wrapper."""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hybrid.base import config

from . import nvrtc
from .interface import Driver, Launch, Module, Plan, checked

# launches from which one graph is quicker than each by itself
GRAPH_FROM = 4
GRAPH_AFTER = 2                                            # runs with the same pointers before they become a graph
GRAPHS = 8                                                 # graphs that a plan keeps
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
    """Launches with their parameters laid out once: a run writes the pointers and launches."""

    def __init__(self, module: CuPyModule, launches: list[Launch]):
        self._driver_api, self._stream = module.cupy.cuda.driver, module.cupy.cuda.get_current_stream
        self._cupy, self._module = module.cupy, module       # the module must outlive its functions
        self._lock = threading.Lock()
        size = 1 + max((a for launch in launches for a in launch.args), default=-1)
        self._table = np.zeros(max(1, size), np.uint64)
        self._size = size
        self._graphs: dict[tuple[int, ...], Any] = {}
        self._seen: dict[tuple[int, ...], int] = {}
        self._graphed = len(launches) >= GRAPH_FROM and config.cuda_graphs()
        base = self._table.ctypes.data
        self._calls: list[tuple[Any, ...]] = []
        self._parameters = []
        for launch in launches:
            # cuLaunchKernel wants an array of addresses of the arguments: they are entries of the table
            params = np.array([base + 8 * a for a in launch.args] or [0], np.uint64)
            self._parameters.append(params)
            self._calls.append((launch.cooperative, module.function(launch.kernel, launch.shared), *launch.grid,
                                *launch.block, launch.shared, params.ctypes.data))

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
        stream = self._stream()
        with self._lock:                                   # the driver copies arguments while it launches
            graph = self._graph(tuple(pointers[:self._size]), stream) if self._graphed else None
            if graph is None:
                return self._each(pointers, stream.ptr)
        graph.launch(stream)

    def _each(self, pointers: Sequence[int], stream: int) -> None:
        api = self._driver_api
        self._table[:self._size] = pointers[:self._size]
        for cooperative, function, gx, gy, gz, bx, by, bz, shared, params in self._calls:
            if cooperative:
                api.launchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params)
            else:
                api.launchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, 0)

    def _graph(self, pointers: tuple[int, ...], stream: Any) -> Any:
        """The graph of a run that came again and again with the same pointers (as a loop's do, which CuPy's memory pool
        gives the same places each turn); None where it is not worth one, or the caller is capturing a graph of his own.
        """
        found = self._graphs.get(pointers)
        if found is None:
            seen = self._seen[pointers] = self._seen.get(pointers, 0) + 1
            if seen <= GRAPH_AFTER:
                if len(self._seen) > 8 * GRAPHS:
                    self._seen.clear()
                return None
        if stream.is_capturing():
            return None
        if found is None:
            found = self._graphs[pointers] = self._capture(pointers)
            while len(self._graphs) > GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))
        return found

    def _capture(self, pointers: Sequence[int]) -> Any:
        capture = self._cupy.cuda.Stream(non_blocking=True)
        with capture:
            capture.begin_capture()
            try:
                self._each(pointers, capture.ptr)
            finally:
                graph = capture.end_capture()
        return graph

    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """Capture the run as one CUDA graph; the arrays behind the pointers must stay alive as long as the call."""
        device = self._module.device
        with self._cupy.cuda.Device(device):
            _ensure_context(self._cupy, device)
            with self._lock:
                graph = self._capture(pointers)

        def replay() -> None:
            with self._cupy.cuda.Device(device):
                graph.launch(self._stream())
        return replay


class CuPyModule(Module):
    """A cubin loaded on a device, which must be current."""

    def __init__(self, cupy: Any, compiled: nvrtc.Compiled, kernels: Sequence[str], device: int):
        self.cupy, self.kernels, self.device = cupy, tuple(kernels), device
        self.source_path, self.resources = compiled.source_path, compiled.resources
        _ensure_context(cupy, device)
        self._module = cupy.cuda.function.Module()
        self._module.load(compiled.cubin)
        self._functions = {k: self._module.get_function(k) for k in kernels}
        self._shared: dict[str, int] = {}

    def function(self, kernel: str, shared: int) -> int:
        """The CUfunction of a kernel, allowed to use that much dynamic shared memory."""
        pointer = self._functions[kernel].ptr
        static = self.resources[kernel].shared if kernel in self.resources else 0
        if static + shared > _DEFAULT_SHARED_LIMIT and shared > self._shared.get(kernel, 0):
            self.cupy.cuda.driver.funcSetAttribute(pointer, _MAX_DYNAMIC_SHARED, shared)
            self._shared[kernel] = shared
        return int(pointer)

    def plan(self, launches: Sequence[Sequence[Any]]) -> CuPyPlan:
        """See ``Module.plan``."""
        return CuPyPlan(self, checked(launches, self.kernels))


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
        """See ``Driver.load``; compiled with NVRTC."""
        compiled = nvrtc.compile(source, self.arch)
        with self._cupy.cuda.Device(self._id):
            return CuPyModule(self._cupy, compiled, kernels, self._id)

    def alloc(self, nbytes: int) -> Any:
        """A uint8 array from CuPy's memory pool."""
        with self._cupy.cuda.Device(self._id):
            return self._cupy.empty(nbytes, self._cupy.uint8)

    def active(self) -> AbstractContextManager[Any]:
        """Makes this device CuPy's current one, if it is not."""
        return super().active() if self._cupy.cuda.runtime.getDevice() == self._id else self._cupy.cuda.Device(self._id)

    def pointer(self, array: Any) -> int:
        """Address of a CuPy array."""
        return int(array.data.ptr)

    def synchronize(self) -> None:
        """Wait for CuPy's current stream on this device."""
        with self._cupy.cuda.Device(self._id):
            self._cupy.cuda.get_current_stream().synchronize()
