"""The scope in which a GPU is CuPy's current device, and what errors say that CuPy raises there."""
from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import config
from .errors import DeviceError, HybridError, OutOfMemoryError, user_location

if TYPE_CHECKING:
    from .device import Context

EARLIER = ("The error may be of an earlier kernel: run again with HYBRID_CUDA_SYNC=1, which waits for each kernel and "
           "names the one that fails.")
FAILED = ("CUDARuntimeError", "CUDADriverError")               # what CuPy raises for errors of CUDA


class OnGpu:
    """Scope in which a GPU is the current device, if it is not. CuPy's errors about memory, kernels that failed and
    captured streams are DeviceErrors there, which say what to do."""
    __slots__ = ("_ctx", "_cupy", "_device")

    def __init__(self, cupy: ModuleType, ctx: Context):
        self._cupy, self._ctx = cupy, ctx
        self._device = None if cupy.cuda.runtime.getDevice() == ctx.device_id else cupy.cuda.Device(ctx.device_id)

    def __enter__(self) -> None:
        if self._device is not None:
            self._device.__enter__()

    def __exit__(self, kind: Any, err: BaseException | None, trace: Any) -> None:
        told = None if err is None else self._told(err)
        if self._device is not None:
            self._device.__exit__(kind, err, trace)
        if told is not None:
            raise told from err

    def _told(self, err: BaseException) -> DeviceError | None:
        """The error to raise in place of one of CuPy's."""
        name, ctx = type(err).__name__, self._ctx
        if isinstance(err, HybridError):
            return None
        if name == "OutOfMemoryError":
            free, total = memory(self._cupy)
            return OutOfMemoryError(f"{user_location()}: {ctx} is out of memory: {str(err).rstrip('.')}, and "
                                    f"{megabytes(free)} of {megabytes(total)} are free. {make_room(ctx)}")
        if name in FAILED:
            hint = "" if config.cuda_sync() else f". {EARLIER}"
            return DeviceError(f"{user_location()}: {ctx} failed: {str(err).rstrip('.')}{hint}")
        if isinstance(err, RuntimeError) and "capturing" in str(err):
            return DeviceError(f"{user_location()}: {ctx}: {err}: its work becomes a CUDA graph, which copies no "
                               f"arrays from or to the host. Copy them before begin_capture() or after end_capture()")
        return None


def memory(cupy: ModuleType) -> tuple[int, int]:
    """Free and total bytes of the current device; what CuPy's pool holds unused is free too."""
    free, total = cupy.cuda.runtime.memGetInfo()
    return free + cupy.get_default_memory_pool().free_bytes(), total


def megabytes(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.1f} MB"


def make_room(ctx: Context) -> str:
    """What to do where a GPU has too little memory."""
    return (f"Take a smaller batch, compute in float16 or bfloat16, drop arrays that are not needed, or give unused "
            f"memory back: {ctx}.empty_cache()")
