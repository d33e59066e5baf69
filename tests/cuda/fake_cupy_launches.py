"""What the stand-in for CuPy launches: devices, streams, events, graphs, kernels and pointers to device memory, by the
functions of a stand-in for NVIDIA's libraries."""
from __future__ import annotations

import atexit
import functools
import subprocess
import tempfile
import weakref
from types import SimpleNamespace
from typing import Any

import cffi

from hybrid.runtime.cuda import driver_api

from ..paths import TESTS

ROOTS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()      # arrays by the id of NumPy's


def root_of(view: Any, root: Any) -> Any:
    """The array that one is a view of (root: NumPy's); None where it is no view."""
    if view._a is root:
        ROOTS.setdefault(id(root), view)
        return None
    found = ROOTS.get(id(root))
    return type(view)(root) if found is None else found


class CUDADriverError(RuntimeError):
    """An error of the driver."""


class Place(SimpleNamespace):
    """A pointer to device memory."""

    def __add__(self, offset: int) -> Place:
        return Place(**{**vars(self), "ptr": self.ptr + offset})

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Set bytes."""
        library().cudaMemsetAsync(_pointer(self.ptr), value, size, _pointer((stream or STATE.stream).ptr))


class State:
    """What the stand-in counted, and the device and stream that are current."""
    devices = 1
    contexts: set[int] = set()
    streams: dict[int, Stream] = {}                         # each device has a current one

    @property
    def stream(self) -> Stream:
        return self.streams.get(self.device, Stream.null)

    @property
    def device(self) -> int:
        return int(library().stand_in_device)

    @device.setter
    def device(self, number: int) -> None:
        library().stand_in_device = number

    def __getattr__(self, name: str) -> int:
        return int(getattr(library().stand_in_counts, name))


FOLDER = TESTS / "stand_in" / "cuda"
ffi = cffi.FFI()
ffi.cdef(driver_api.DECLARATIONS + """
struct counts { long launches, graphs, replays, mallocs, frees, copies, waits, sets, maps; };
extern struct counts stand_in_counts;
extern char stand_in_fails[64];
extern int stand_in_version, stand_in_device, stand_in_resident, stand_in_late;
extern long stand_in_memory;
int cuModuleLoadData(void **, const char *);
int cuModuleGetFunction(void **, void *, const char *);
int cudaStreamCreateWithFlags(void **, unsigned);
int cudaStreamWaitEvent(void *, void *, unsigned);
int cudaLaunchHostFunc(void *, void (*)(void *), void *);
int cudaMemsetAsync(void *, int, size_t, void *);
int cudaDeviceSynchronize(void);
int cudaEventCreate(void **);
int cudaEventRecord(void *, void *);
int cudaEventQuery(void *);
int cudaEventSynchronize(void *);
void stand_in_reach(void *);
int cudaStreamBeginCapture(void *, int);
int cudaStreamEndCapture(void *, void **);
""")


@functools.cache
def library() -> Any:
    """tests/stand_in/cuda, compiled."""
    folder = tempfile.TemporaryDirectory(prefix="stand-in-")
    atexit.register(folder.cleanup)
    so = f"{folder.name}/libcuda.so"
    subprocess.run(["gcc", "-w", "-O1", "-shared", "-fPIC", *map(str, sorted(FOLDER.glob("*.c"))), "-o", so, "-ldl",
                    "-lpthread"], check=True)
    return ffi.dlopen(so)


def _handle(make: Any, *args: Any) -> int:
    out = ffi.new("void **")
    assert make(out, *args) == 0
    return int(ffi.cast("uintptr_t", out[0]))


def _pointer(number: int) -> Any:
    return ffi.cast("void *", number)


STATE = State()


class Device:
    compute_capability = "90"
    attributes = {"MultiProcessorCount": 132}

    def __init__(self, number: int | None = None):
        self.id = STATE.device if number is None else number
        self._before: list[int] = []

    def __enter__(self) -> Device:
        self._before.append(STATE.device)
        STATE.device = self.id
        return self

    def __exit__(self, *_: Any) -> None:
        STATE.device = self._before.pop()

    def synchronize(self) -> None:
        with self:
            assert library().cudaDeviceSynchronize() == 0


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
        self.ptr = _handle(library().cudaEventCreate)

    def record(self, stream: Any = None) -> None:
        assert library().cudaEventRecord(_pointer(self.ptr), _pointer((stream or STATE.stream).ptr)) == 0

    @property
    def done(self) -> bool:
        return not library().cudaEventQuery(_pointer(self.ptr))

    def synchronize(self) -> None:
        assert library().cudaEventSynchronize(_pointer(self.ptr)) == 0


class Graph:
    def __init__(self, graph: int):
        self._graph = graph

    def launch(self, stream: Any = None) -> None:
        assert library().cuGraphLaunch(_pointer(self._graph), _pointer((stream or STATE.stream).ptr)) == 0


class Stream:
    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False):
        self.ptr = 0 if null else _handle(library().cudaStreamCreateWithFlags, int(non_blocking))
        self._home = None if null else STATE.device
        self._before: list[tuple[int, Stream]] = []

    def __enter__(self) -> Stream:
        device = STATE.device
        assert self._home in (None, device), "a stream of another device"
        self._before.append((device, STATE.stream))
        STATE.streams[device] = self
        return self

    def __exit__(self, *_: Any) -> None:
        device, before = self._before.pop()
        STATE.streams[device] = before

    def synchronize(self) -> None:
        code = library().cuStreamSynchronize(_pointer(self.ptr))
        if code:
            raise CUDADriverError(f"error {code}")

    def wait_event(self, event: Event) -> None:
        assert library().cudaStreamWaitEvent(_pointer(self.ptr), _pointer(event.ptr), 0) == 0

    def begin_capture(self, mode: int | None = None) -> None:
        assert self.ptr, "the null stream cannot be captured"
        assert library().cudaStreamBeginCapture(_pointer(self.ptr), 0) == 0

    def is_capturing(self) -> bool:
        out = ffi.new("int *")
        library().cuStreamIsCapturing(_pointer(self.ptr), out)
        return bool(out[0])

    def end_capture(self) -> Graph:
        return Graph(_handle(lambda out: library().cudaStreamEndCapture(_pointer(self.ptr), out)))


class Module:
    """A loaded image: a library of the emulator."""

    def load(self, cubin: bytes) -> None:
        assert STATE.device in STATE.contexts, "no context on this thread"
        self._module = _handle(library().cuModuleLoadData, ffi.new("char[]", cubin))

    def get_function(self, name: str) -> Any:
        return SimpleNamespace(ptr=_handle(library().cuModuleGetFunction, _pointer(self._module), name.encode()))


Stream.null = Stream(null=True)


def launch(function: int, *sizes: int) -> None:
    """launchKernel, with a last argument more, or launchCooperativeKernel."""
    *numbers, stream, params = sizes[:9]
    extra = (ffi.NULL,) * (len(sizes) - 9)
    code = (library().cuLaunchKernel if extra else library().cuLaunchCooperativeKernel)(
        _pointer(function), *numbers, _pointer(stream), ffi.cast("void **", params), *extra)
    if code:
        raise CUDADriverError(f"error {code}")


__name__ = "cupy.stand_in_launches"             # frames of this file count as CuPy's own, as those of fake_cupy.py do
