"""Launches through kernels/c/device_plan.c: the C compiler builds it once, and it calls NVIDIA's driver itself."""
from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cffi

from hybrid import kernels
from hybrid.base import config
from hybrid.base.errors import CompileError, DeviceError, OutOfMemoryError
from hybrid.base.gpu_scope import MAY_BE_EARLIER, lacks_memory, make_room

from .. import plans, shared_objects, toolchain
from . import driver_api, tensor_maps

if TYPE_CHECKING:
    from hybrid.codegen.cuda import TensorMap

FUNCTIONS = ("cuLaunchKernel", "cuLaunchCooperativeKernel", "cuStreamSynchronize", "cuStreamIsCapturing",
             "cuCtxGetCurrent", "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags",
             "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy",
             "cuGraphKernelNodeSetAttribute")
PER_THREAD = 2                          # the handle of a thread's own default stream: one number for many streams

ffi = cffi.FFI()
ffi.cdef(kernels.text("c", "device_plan.h") + f"struct Driver {{ void *function[{len(FUNCTIONS) + 1}]; }};")


class Ready(NamedTuple):
    """A launch whose kernel is loaded: the CUfunction, sizes, the positions of its arguments in the table, and those
    arguments, by number, that are given as tensor maps."""
    name: str
    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[int, ...]
    cooperative: bool
    maps: tuple[tuple[int, TensorMap], ...] = ()


class Library(NamedTuple):
    """The C library, the driver's functions as it takes them, and the same as addresses for the launcher."""
    c: Any
    driver: Any

    def capturing(self, stream: int) -> bool:
        """Whether a stream is being captured for a CUDA graph."""
        return bool(self.c.hy_device_capturing(self.driver, ffi.cast("void *", stream)) > 0)


def _built() -> Path | None:
    return plans.remembered("device_plan", lambda: shared_objects.build(kernels.self_contained("c", "device_plan.c"),
                                                                        ("-lpthread",))[0])


@functools.cache
def library() -> Library | None:
    """The library; None where there is no C compiler, or the driver lacks a function that it calls."""
    found = driver_api.addresses(*FUNCTIONS)
    if found is None or toolchain.compiler() is None:
        return None
    try:
        so = _built()
    except (CompileError, OSError):
        return None
    if so is None:
        return None
    found += driver_api.addresses(tensor_maps.ENCODE) or [driver_api.ffi.NULL]
    driver = ffi.new("Driver *", {"function": [ffi.cast("void *", int(driver_api.ffi.cast("uintptr_t", f)))
                                               for f in found]})
    return Library(ffi.dlopen(str(so)), driver)


def no_maps() -> str:
    """Why launches take no tensor maps; empty where they do."""
    if library() is None:
        return "without a C compiler hybrid cannot pass tensor maps"
    return "" if driver_api.addresses(tensor_maps.ENCODE) else f"the GPU's driver has no {tensor_maps.ENCODE} (CUDA 12)"


class NativePlan:
    """Launches laid out once, in C. ``places``: entries that follow those a run is given, each bytes behind another."""

    def __init__(self, lib: Library, launches: Sequence[Ready], entries: int, places: Sequence[tuple[int, int]] = ()):
        self._lib, self.names, self.given = lib, [launch.name for launch in launches], entries
        index = [a for launch in launches for a in launch.args]
        native = ffi.new("Launch[]", len(launches))
        first, maps = 0, []
        for number, (n, launch) in enumerate(zip(native, launches)):
            maps += [tensor_maps.fields(m, first + i, number) for i, m in launch.maps]
            n.function, n.grid, n.block = ffi.cast("void *", launch.function), launch.grid, launch.block
            n.shared, n.cooperative, n.first, n.count = launch.shared, launch.cooperative, first, len(launch.args)
            first += len(launch.args)
        self.sync = config.cuda_sync()
        self.plan = lib.c.hy_device_plan(lib.driver, native, len(launches), ffi.new("int[]", index),
                                         entries + len(places), ffi.new("Place[]", list(places)),
                                         len(places), ffi.new("Map[]", maps), len(maps), config.cuda_graphs(),
                                         self.sync)
        if self.plan == ffi.NULL:
            raise MemoryError("no memory for the launches of a program")
        self._end = weakref.finalize(self, lib.c.hy_device_free, self.plan)

    def run(self, pointers: Sequence[int], stream: int, source: str = "") -> None:
        """Launch all on a stream. DeviceError names the kernel that the driver refused."""
        table = ffi.new("void *[]", [ffi.cast("void *", p) for p in pointers] or [ffi.NULL])
        failed = ffi.new("int *")
        code = self._lib.c.hy_device_run(self.plan, table, ffi.cast("void *", stream), self._lib.capturing(stream),
                                         failed)
        if code:
            raise self.error(code, failed[0], source)

    def error(self, code: int, failed: int, source: str = "") -> DeviceError:
        """The error of a run."""
        return failure(driver_api.error_name(code), self.names[failed - 1] if failed else "", self.sync, source)

    def counts(self) -> dict[str, int]:
        """How many runs came before there was a graph, graphs were made, and kernels were set anew in it."""
        out = ffi.new("long[3]")
        self._lib.c.hy_device_counts(self.plan, out)
        return {"runs": out[0], "graphs": out[1], "set": out[2]}


def failure(name: str, kernel: str, waited: bool, source: str = "") -> DeviceError:
    """What to say of a launch that failed with an error of the driver."""
    where = f" Source: {source}" if source else ""
    doing = f"launching kernel {kernel}" if kernel else "launching a program's graph"
    if lacks_memory(name):
        return OutOfMemoryError(f"{doing} takes more memory than the GPU has: {name}. {make_room('context')}{where}")
    if kernel and waited:
        return DeviceError(f"kernel {kernel} failed on the GPU: {name}.{where}")
    return DeviceError(f"{doing} failed on the GPU: {name}. {MAY_BE_EARLIER}{where}")
