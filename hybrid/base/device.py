"""Devices (MXNet calls them contexts): ``cpu()``, ``gpu(i)``, the current one, and the array module of each."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import re
import threading
from types import ModuleType
from typing import Any, Callable

import numpy as np

from . import config
from .errors import DeviceError, DTypeError, TooLargeError, user_location
from .gpu_scope import OnGpu
from .names import Assignable, ClassProperty, Holder

_TYPES = ("cpu", "gpu", "cpu_pinned", "cpu_shared")
_local = threading.local()
_probe: dict[str, Any] = {}
CACHES: list[Callable[[], None]] = []            # what gives unused memory of the CPU back


class Context(metaclass=Assignable):
    """A device. ``with gpu(0):`` makes it the default of the block.

    >>> cpu() == Context("cpu", 0)
    True
    """
    __slots__ = ("device_type", "device_id")
    devtype2str = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type = {v: k for k, v in devtype2str.items()}
    # the current device, also under MXNet's name
    default_ctx = ClassProperty(lambda cls: current_context(), lambda new: set_current(new))
    _default_ctx = Holder(lambda: current_context(), lambda new: set_current(new))
    device_type: str
    device_id: int

    def __init__(self, device_type: Any, device_id: int = 0):
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if device_type not in _TYPES:
            raise DeviceError(f"unknown device type {device_type!r}; known: {', '.join(_TYPES)}")
        object.__setattr__(self, "device_type", device_type)
        object.__setattr__(self, "device_id", int(device_id))

    def __setattr__(self, name: str, value: Any) -> None:
        # programs that read a device from a file: ctx = cpu(); ctx.device_id = 0
        if getattr(self, name, None) == value:
            return
        raise AttributeError(f"a device does not change, so its {name} cannot be set: make another one, "
                             f"Context(device_type, device_id)")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.device_type, self.device_id)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become the device of a state in one of MXNet's pickles."""
        Context.__init__(self, self.devtype2str.get(state["device_typeid"]), state["device_id"])

    @property
    def device_typeid(self) -> int:
        """MXNet's number of the device type (1 cpu, 2 gpu, 3 cpu_pinned, 5 cpu_shared)."""
        return self.devstr2type[self.device_type]

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Context) and (self.device_type,
                                                                self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __str__ = __repr__

    def __enter__(self) -> "Context":
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    def empty_cache(self) -> None:
        """Give unused pooled memory back: a GPU's to the driver, the CPU's to the system."""
        if self.device_type != "gpu":
            for clear in CACHES:
                clear()
        cupy = find_cupy()
        if self.device_type == "gpu" and cupy is not None:
            cupy.get_default_memory_pool().free_all_blocks()


Device = Context


def _stack() -> list[Context]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


def cpu(device_id: int = 0) -> Context:
    """The CPU."""
    return _one("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Host memory; kept for MXNet's name, the same as the CPU here."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """A GPU. Making the handle never fails; using it where there is none raises DeviceError."""
    return _one("gpu", device_id)


@functools.lru_cache(maxsize=64)
def _one(device_type: str, device_id: int) -> Context:
    """The same object each time: arrays of one device are told by its identity, which takes a tenth of the time of
    comparing."""
    return Context(device_type, device_id)


_used: set[int] = set()                        # GPUs; others are not asked for anything, which would take memory there


def find_cupy() -> ModuleType | None:
    """The cupy module if it is installed and sees a GPU, else None. Asked once."""
    if "cupy" not in _probe:
        try:
            import cupy  # an optional package, so it cannot be imported at the top
            _probe["cupy"] = cupy if cupy.cuda.runtime.getDeviceCount() > 0 else None
        except Exception:                        # not installed, no driver, no GPU: all mean "no"
            _probe["cupy"] = None
    return _probe["cupy"]


_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


def on(ctx: Context) -> contextlib.AbstractContextManager[Any]:
    """Scope in which a device is the current one of its array module: where CuPy makes arrays and runs kernels. Errors
    that CuPy raises there for want of memory, failed kernels and captured streams are DeviceErrors."""
    if ctx.device_type != "gpu" or config.cuda_emulated():
        return _NOTHING
    cupy = find_cupy()
    return _NOTHING if cupy is None else OnGpu(cupy, ctx)


def refuse_apart(what: str, ctx: Context, other: Context) -> None:
    """DeviceError where two devices have not the same memory: parts of the CPU have. what: of what they are."""
    if other != ctx and "gpu" in (ctx.device_type, other.device_type):
        raise DeviceError(f"{what} are on {ctx} and {other}; move one with x.as_in_context({ctx})")


def wait_for_gpus() -> None:
    """Wait until the GPUs that were used, and CuPy's current one, have done all that they were given."""
    cupy = find_cupy()
    if cupy is not None:
        for number in {cupy.cuda.runtime.getDevice(), *_used}:
            with on(gpu(number)):
                cupy.cuda.Device(number).synchronize()


def check_dtype(dtype: np.dtype, ctx: Context) -> None:
    """DTypeError where a device's array module has no such type: CuPy has bfloat16 from release 14 on."""
    if dtype.name != "bfloat16" or ctx.device_type != "gpu" or config.cuda_emulated():
        return
    release = str(getattr(find_cupy(), "__version__", "14"))
    if int(release.split(".")[0]) < 14:
        raise DTypeError(f"{user_location()}: bfloat16 arrays on {ctx} need CuPy 14, this is CuPy {release}: "
                         f"pip install -U 'cupy-cuda12x[ctk]>=14' (or cuda13x), or use float16")


def num_gpus() -> int:
    """How many GPUs can be used (one under the CUDA emulator)."""
    if config.cuda_emulated():
        return 1
    cupy = find_cupy()
    return int(cupy.cuda.runtime.getDeviceCount()) if cupy is not None else 0


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory."""
    xp = array_module(gpu(device_id))
    if xp is np:
        raise DeviceError("the CUDA emulator has no memory of its own to ask for")
    with xp.cuda.Device(device_id):
        free, total = xp.cuda.runtime.memGetInfo()
    return int(free), int(total)


def set_current(ctx: Context) -> None:
    """Make a device this thread's current one: of the ``with`` block it is in, or outside of all of them."""
    if not isinstance(ctx, Context):
        raise TypeError(f"the default device must be a Context, got {ctx!r:.80}")
    _stack()[-1:] = [ctx]


def current_context() -> Context:
    """The innermost ``with`` device, else HYBRID_DEVICE, else a GPU where CuPy sees one, else the CPU."""
    stack = _stack()
    return stack[-1] if stack else default_context()


def default_context() -> Context:
    """The device used outside every ``with`` block."""
    text = config.default_device()
    if text is None:
        return gpu(0) if find_cupy() is not None else cpu(0)
    return _named(text)


@functools.lru_cache(maxsize=8)
def _named(text: str) -> Context:
    found = re.fullmatch(r"(cpu|gpu|cuda)(?:[(:](\d+)\)?)?", text.strip())
    if not found:
        raise DeviceError(f"HYBRID_DEVICE={text!r} names no device; write cpu, gpu or gpu(1)")
    return _one("cpu" if found[1] == "cpu" else "gpu", int(found[2] or 0))


ALIGN = 64                            # bytes: a cache line, and the widest vector register
HUGE_PAGE = 1 << 21               # bytes


def aligned_bytes(n: int) -> np.ndarray:
    """Uninitialised bytes whose address is a multiple of 64, or of a huge page where they fill such pages: NumPy asks
    the system for them from 4 MB on, and what is not touched takes no memory.
    """
    align = HUGE_PAGE if n >= HUGE_PAGE and -n % HUGE_PAGE * 16 <= n else ALIGN
    try:
        raw = np.empty(n + align, np.uint8)
    except (MemoryError, ValueError, OverflowError) as err:          # NumPy raises the last two from 2^63 bytes on
        raise too_large(n, "compiled code's arrays") from err
    skip = -raw.ctypes.data % align
    return raw[skip:skip + n]


def too_large(nbytes: int, what: str) -> TooLargeError:
    """The error for memory that the system does not give."""
    return TooLargeError(f"{user_location()}: {what} need {nbytes} bytes ({nbytes / 2**30:.1f} GiB), which the system "
                         f"does not give: "
                         f"make the arrays smaller, or compute them in parts")


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array in C order that begins at a cache line, if it is large enough for that to count."""
    size = math.prod(shape) * dtype.itemsize
    return np.empty(shape,
                    dtype) if size < 1 << 12 or dtype.hasobject else aligned_bytes(size).view(dtype).reshape(shape)


def aligned_copy(host: np.ndarray) -> np.ndarray:
    """A copy in C order that begins where ``aligned_empty`` does."""
    if host.nbytes < 1 << 12:
        return np.array(host, order="C")
    out = aligned_empty(host.shape, host.dtype)
    out[...] = host
    return out


def trim() -> None:
    """Give freed memory below what is used back to the system; where the C library cannot, it keeps it for what
    comes."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def zeros(shape: tuple[int, ...], dtype: Any, ctx: Context) -> Any:
    """A raw array of zeros on a device. On the CPU it begins at a cache line: a vector load across two costs twice. Its
    pages are the system's until they are written: gradients that nobody computes take no memory.
    """
    xp = array_module(ctx)
    if xp is not np:
        with on(ctx):
            return xp.zeros(shape, dtype)
    count = math.prod(map(int, shape)) * np.dtype(dtype).itemsize
    try:
        raw = np.zeros(count + ALIGN, np.uint8)
    except (MemoryError, ValueError, OverflowError) as err:
        raise too_large(count, f"zeros of shape {tuple(shape)}") from err
    skip = -raw.ctypes.data % ALIGN
    return raw[skip:skip + count].view(dtype).reshape(shape)


def array_module(ctx: Context) -> Any:
    """NumPy or CuPy for a device; DeviceError where the device is not there."""
    if ctx.device_type != "gpu":
        return np
    if config.cuda_emulated():
        if ctx.device_id:
            raise DeviceError(f"{ctx} was asked for, but the CUDA emulator has gpu(0) alone")
        return np
    cupy = find_cupy()
    if cupy is None:
        raise DeviceError(f"{ctx} was asked for, but no GPU was found: install CuPy for your CUDA (pip "
                          "install 'cupy-cuda12x[ctk]>=14' or 'cupy-cuda13x[ctk]>=14') on a machine with an NVIDIA "
                          "GPU, or use hybrid.cpu()")
    count = num_gpus()
    if ctx.device_id >= count:
        raise DeviceError(f"{ctx} was asked for, but this machine has {count} GPU(s): gpu(0) to gpu({count - 1})")
    _used.add(ctx.device_id)
    return cupy
