"""A batch on its way from a worker process: array contents in shared memory without a name, the rest as a message.

The memory is a Linux ``memfd``. Its descriptor travels over the socket, so there is nothing in /dev/shm that a killed
process could leave behind, and no limit of /dev/shm to run into. Other systems send the contents over the pipe.
"""
from __future__ import annotations

import io
import os
import pickle
import socket
import sys
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Callable, Sequence

import cffi
import numpy as np

from ...buffers.array import NDArray, wrap
from ...base.device import cpu

SHARED = sys.platform == "linux" and hasattr(os, "memfd_create")
SMALL = 1 << 15                        # below this many bytes a message is cheaper than shared memory
_ALIGN = 64
_ffi = cffi.FFI()
# ffi.gc calls its destructor with the pointer, which munmap gets as a third argument and, as any C function would,
# ignores.
# A Python function there would do too, but an interrupt (Ctrl-C) that arrives while it runs would be lost.
_ffi.cdef("void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t, void *);")
_READ_WRITE, _SHARED_POPULATED = 3, 1 | 0x8000                   # PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE
_library: list[Any] = []


def _restore(cls: Any, data: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    return wrap(np.frombuffer(data, dtype).reshape(shape), cpu(), cls)


class _Pickler(ForkingPickler):
    """Array contents go out of band; an NDArray is not copied on the other side."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, NDArray):
            raw = np.ascontiguousarray(obj._data if isinstance(obj._data, np.ndarray)
                                       else obj.asnumpy()).reshape(obj.shape)
            return _restore, (type(obj), pickle.PickleBuffer(raw.reshape(-1).view(np.uint8)), raw.dtype, raw.shape)
        return NotImplemented


def dump(value: Any) -> tuple[bytes, list[memoryview]]:
    """The message of a value, and the contents of its arrays."""
    out = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(out, 5, True, buffers.append).dump(value)        # type: ignore[call-arg, arg-type]
    return out.getvalue(), [b.raw() for b in buffers]


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of buffers one after another, each at a multiple of 64, and the size of all."""
    offsets, at = [], 0
    for size in sizes:
        offsets.append(at)
        at += size + -size % _ALIGN
    return offsets, at


def _write_all(fd: int, view: memoryview, offset: int) -> None:
    while len(view):
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


def send(conn: Any, head: Any, value: Any) -> None:
    """Send ``value`` after the small picklable ``head``."""
    message, buffers = dump(value)
    sizes = [b.nbytes for b in buffers]
    offsets, total = layout(sizes)
    shared = SHARED and total >= SMALL
    fd = os.memfd_create("hybrid-batch", os.MFD_CLOEXEC) if shared else -1
    try:
        if shared:
            os.ftruncate(fd, total)
            for view, offset in zip(buffers, offsets):
                _write_all(fd, view, offset)
        conn.send_bytes(pickle.dumps((head, sizes, shared)))
        conn.send_bytes(message)
        if shared:
            with socket.fromfd(conn.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                socket.send_fds(channel, [b"F"], [fd])
        elif total:
            conn.send_bytes(b"".join(bytes(b) + bytes(-b.nbytes % _ALIGN) for b in buffers))
    finally:
        if shared:
            os.close(fd)


def _receive_descriptor(conn: Any) -> int:
    with socket.fromfd(conn.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not data:
        raise EOFError
    if not descriptors:
        raise OSError("a batch in shared memory could not be taken over: too many open files in this process (ulimit "
                      "-n)")
    return descriptors[0]


def receive(conn: Any) -> tuple[Any, Callable[[], Any]]:
    """What was sent: the head, and a function that gives the value. EOFError or OSError when the sender is gone."""
    head, sizes, shared = pickle.loads(conn.recv_bytes())
    message = conn.recv_bytes()
    offsets, total = layout(sizes)
    if shared:
        fd = _receive_descriptor(conn)
        try:
            memory = _map(fd, total)
        finally:
            os.close(fd)
    else:
        memory = memoryview(bytearray(conn.recv_bytes()) if total else bytearray())
    views = [memory[at:at + size] for at, size in zip(offsets, sizes)]
    return head, lambda: pickle.loads(message, buffers=views)


def _map(fd: int, size: int) -> memoryview:
    """The contents of a file as writable memory that is given back with the last array over it.

    Not ``mmap.mmap``, which keeps a descriptor open as long as the mapping: a list of all batches of an epoch would run
    into the limit of open files.
    """
    if not _library:
        _library.append(_ffi.dlopen(None))
    at = _library[0].mmap(_ffi.NULL, size, _READ_WRITE, _SHARED_POPULATED, fd, 0)
    if int(_ffi.cast("intptr_t", at)) == -1:                     # too many mappings: copy instead
        copy = bytearray(size)
        view, done = memoryview(copy), 0
        while done < size:
            done += os.preadv(fd, [view[done:]], done)
        return view
    return memoryview(_ffi.buffer(_ffi.gc(at, partial(_library[0].munmap, at, size)), size))
