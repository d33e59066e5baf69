"""Streams of the stand-in for CuPy that run late: memory as CuPy's pool gives it, and what CuPy's own functions write.

A function of the stand-in reads when it is called, behind all that its stream was given; what it makes is there only
when the stream's work is done (tests/stand_in/cuda/streams.c), and not a number until then.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .fake_cupy_launches import STATE, ffi, library


class Late:
    """Memory and late writes over the stand-in's library."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, int, int], list[bytearray]] = {}
        self._waiting: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count(1)
        self._run = ffi.callback("void(void *)", lambda number: self._waiting.pop(int(ffi.cast("long", number)))())

    @property
    def on(self) -> bool:
        """Whether streams run late."""
        return bool(library().stand_in_late)

    def stream(self) -> Any:
        """The current stream, as the library takes it."""
        return ffi.cast("void *", STATE.stream.ptr)

    def settle(self, *given: Any) -> None:
        """What the current stream was given is done, before arrays are read: for a copy that the null stream makes of
        another device's array, also what that one's null stream was given."""
        devices = {x._home for x in flat(given) if hasattr(x, "_home")} if self.on else set()
        if not devices:
            return
        stream = self.stream()
        library().stand_in_reach(stream)
        if not STATE.stream.ptr:
            for device in devices - {STATE.device}:
                self.settle_on(device, stream)

    def settle_on(self, device: int, stream: Any) -> None:
        """What a stream was given is done: of a device, where the stream is the null stream."""
        lib = library()
        before, lib.stand_in_device = lib.stand_in_device, device
        lib.stand_in_reach(stream)
        lib.stand_in_device = before

    def later(self, write: Callable[[], None]) -> None:
        """Write something when the current stream's turn comes."""
        number = next(self._numbers)
        self._waiting[number] = write
        library().cudaLaunchHostFunc(self.stream(), self._run, ffi.cast("void *", number))

    def copied(self, source: np.ndarray) -> np.ndarray:
        """A copy that is made late and reads what is there then, whoever has got the memory in the meantime."""
        made, same = self.empty(source)
        last = root(source)
        if isinstance(last.base, bytearray):                   # of ours: it stays, also when nobody holds the array
            begin = np.frombuffer(last.base, np.uint8).ctypes.data
            source = np.ndarray(source.shape, source.dtype, last.base, source.ctypes.data - begin, source.strides)
        self.later(lambda: np.copyto(same, source))
        return made

    def empty(self, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An array as another one, twice: the memory is used again once nobody holds the first, on the stream that is
        current now alone, as in CuPy's pool."""
        size = -(-max(like.nbytes, 1) // 512) * 512
        key = (library().stand_in_device, STATE.stream.ptr, size)
        free = self._free.setdefault(key, [])
        block = free.pop() if free else bytearray((b"\x01" if like.dtype == bool else b"\xff") * (size + 64))
        begin = -np.frombuffer(block, np.uint8).ctypes.data % 64
        strides = np.empty_like(like).strides
        made, same = (np.ndarray(like.shape, like.dtype, block, begin, strides) for _ in range(2))
        weakref.finalize(made, free.append, block).atexit = False
        return made, same

    def result(self, computed: Any, *given: Any, filled: bool = True) -> Any:
        """What a function gives: views of what it was given stay as they are, what it made is written late. filled:
        it has values at all."""
        if not self.on:
            return computed
        if isinstance(computed, (tuple, list)):
            made = [self.result(c, *given, filled=filled) for c in computed]        # a named tuple's names, too
            return computed._make(made) if hasattr(computed, "_make") else type(computed)(made)
        if not isinstance(computed, (np.ndarray, np.generic)):
            return computed
        values = np.asarray(computed)
        if any(root(values) is root(x._a) for x in flat(given) if hasattr(x, "_a")):
            return values
        made, same = self.empty(values)
        if filled:
            values = values if values.base is None and values.flags.owndata else values.copy()
            self.later(lambda: np.copyto(same, values))
        return made


LATE = Late()


def root(a: np.ndarray) -> np.ndarray:
    """The array whose memory one shares."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def flat(x: Any) -> list[Any]:
    """Arguments, those in lists among them."""
    x = list(x.values()) if isinstance(x, dict) else x
    return [v for y in x for v in flat(y)] if isinstance(x, (list, tuple)) else [x]


__name__ = "cupy.stand_in_late"                 # frames of this file count as CuPy's own, as those of fake_cupy.py do
