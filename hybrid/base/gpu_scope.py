"""The scope in which a GPU is CuPy's current device, and what errors say that CuPy raises there."""
from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable

from . import config
from .errors import DeviceError, HybridError, OutOfMemoryError, user_location

if TYPE_CHECKING:
    from .device import Context

MAY_BE_EARLIER = ("The error may be of an earlier kernel: run again with HYBRID_CUDA_SYNC=1, which waits for each "
                  "kernel and names the one that fails.")
CUDA_ERRORS = ("CUDARuntimeError", "CUDADriverError")           # the classes of CuPy for errors that CUDA returns
NO_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")       # their names for too little memory


class OnGpu:
    """Scope in which a GPU is the current device, if it is not. CuPy's errors (out of memory, a failed kernel, a copy
    on a stream that is captured) are raised as DeviceErrors that say what to do."""
    __slots__ = ("_ctx", "_cupy", "_device")

    def __init__(self, cupy: ModuleType, ctx: Context):
        self._cupy, self._ctx = cupy, ctx
        self._device = None if cupy.cuda.runtime.getDevice() == ctx.device_id else cupy.cuda.Device(ctx.device_id)

    def __enter__(self) -> None:
        if self._device is not None:
            self._device.__enter__()

    def __exit__(self, kind: Any, err: BaseException | None, trace: Any) -> None:
        try:
            told = None if err is None else self._told(err)
        finally:
            self._leave(kind, err, trace)
        if told is not None:
            raise told from err

    def _leave(self, kind: Any, err: BaseException | None, trace: Any) -> None:
        """Make the device before current again. An error of that never takes the place of the scope's own."""
        try:
            if self._device is not None:
                self._device.__exit__(kind, err, trace)
        except Exception:
            if err is None:
                raise

    def _told(self, err: BaseException) -> DeviceError | None:
        """The error to raise in place of one of CuPy's."""
        name, ctx = type(err).__name__, self._ctx
        if isinstance(err, HybridError):
            return None
        if name == "OutOfMemoryError" or name in CUDA_ERRORS and lacks_memory(str(err)):
            return OutOfMemoryError(f"{user_location()}: {ctx} is out of memory: {str(err).rstrip('.')}"
                                    f"{and_free(lambda: memory(self._cupy))}. {make_room(ctx)}")
        if name in CUDA_ERRORS:
            hint = "" if config.cuda_sync() else f". {MAY_BE_EARLIER}"
            return DeviceError(f"{user_location()}: {ctx} failed: {str(err).rstrip('.')}{hint}")
        if isinstance(err, RuntimeError) and "capturing" in str(err):
            return DeviceError(f"{user_location()}: {ctx}: {err}: its work becomes a CUDA graph, which copies no "
                               f"arrays from or to the host. Copy them before begin_capture() or after end_capture()")
        return None


def memory(cupy: ModuleType) -> tuple[int, int]:
    """Free and total bytes of the current device; what CuPy's pool holds unused is free too."""
    free, total = cupy.cuda.runtime.memGetInfo()
    return free + cupy.get_default_memory_pool().free_bytes(), total


def and_free(ask: Callable[[], tuple[int, int]]) -> str:
    """How much memory is free, for the end of a message; empty where the driver does not answer, as after a failed
    kernel. ask: gives the free and all bytes."""
    try:
        free, total = ask()
    except Exception:
        return ""
    return f", and {megabytes(free)} of {megabytes(total)} are free"


def lacks_memory(text: str) -> bool:
    """Whether CUDA's error, by its name or a text with it, is that there is too little memory."""
    return any(name in text for name in NO_MEMORY)


def megabytes(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.1f} MB"


def make_room(owner: Any) -> str:
    """What to do where a GPU has too little memory. owner: its context, as the message names it."""
    return (f"Take a smaller batch, compute in float16 or bfloat16 instead of float32, drop arrays that are not "
            f"needed, or give unused memory back: {owner}.empty_cache()")
