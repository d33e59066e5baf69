"""Compiled programs on the CPU: generated C, one foreign call for the whole program."""
from __future__ import annotations

import time
from typing import Any, Sequence

import cffi
import numpy as np

from hybrid.codegen import c as printer

from .. import config
from ..ir import Node
from ..ir.kernel import strip_reshape
from ..passes.pipeline import Planned
from . import toolchain
from .report import Report, make_report

_ffi = cffi.FFI()
_ffi.cdef("void net(void **); void hy_set_threads(int);")
_from_buffer, _new = _ffi.from_buffer, _ffi.new
ALIGN = 64


def aligned_bytes(n: int) -> np.ndarray:
    """Uninitialised bytes whose address is a multiple of 64."""
    raw = np.empty(n + ALIGN, np.uint8)
    skip = -raw.ctypes.data % ALIGN
    return raw[skip:skip + n]


class CpuProgram:
    """A compiled program. ``program(arrays)`` takes one NumPy array an input slot and returns new output arrays; arrays
    in updated slots are overwritten. Safe to call from several threads at once: each call has an arena of its own.
    """

    def __init__(self, planned: Planned):
        begin = time.perf_counter()
        self.planned = planned
        self.report: Report = make_report(planned, "C")
        self._layout()
        source = self._source()
        so, c = toolchain.build(source)
        self._lib = _ffi.dlopen(str(so))
        self._lib.hy_set_threads(config.num_threads())
        self._net = self._lib.net
        self.report.source_path, self.report.source = str(c), source
        self.report.compile_seconds = time.perf_counter() - begin
        self._arenas: list[np.ndarray] = []

    # ---- the pointer table: inputs, embedded constants, written results, arena
    def _layout(self) -> None:
        fused = self.planned.fused
        self._inputs = [(n.shape, n.dtype) for n in fused.program.inputs]
        index: dict[Node, int] = {n: i for i, n in enumerate(fused.program.inputs)}
        self._constants: list[np.ndarray] = []
        for k in fused.kernels:
            for n in k.reads:
                if n.prim == "data" and n not in index:
                    index[n] = len(index)
                    self._constants.append(np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape))
        self._fresh: list[Node] = []
        for n, _ in fused.results:
            if n not in index:
                index[n] = len(index)
                self._fresh.append(n)
        self._index = index
        self._arena_slot = len(index)
        outputs = len(fused.program.outputs)
        self._results = [(index[n], shape) for n, shape in fused.results[:outputs]]
        self._updates = [(slot, index[n], shape) for (slot, _), (n, shape) in zip(fused.program.updates, fused.results[outputs:])]
        self._new = [(n.shape, n.dtype) for n in self._fresh]
        self._simple = (len(self._fresh) == outputs and not self._updates and
                        all(i == self._arena_slot - len(self._fresh) + k and shape == self._fresh[k].shape
                            for k, (i, shape) in enumerate(self._results)))

    def _pointer(self, n: Node) -> str:
        if n in self._index:
            return f"b[{self._index[n]}]"
        return f"(void *)((char *)b[{self._arena_slot}] + {self.planned.memory.offsets[n]})"

    def _source(self) -> str:
        arena = self.planned.memory.arena
        source, scratch = printer.print_program(self.planned.fused.kernels, self._pointer, f"(void *)((char *)b[{self._arena_slot}] + {arena})",
                                                toolchain.vector_bytes())
        self._arena_bytes = arena + scratch
        self.report.scratch_bytes = scratch
        return source

    # ---- calls
    def _arena(self) -> np.ndarray:
        try:
            return self._arenas.pop()
        except IndexError:
            return aligned_bytes(self._arena_bytes)

    def check(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Arrays as the program reads them: C order, aligned, native; ValueError when shapes or dtypes differ."""
        out = []
        for i, (a, (shape, dtype)) in enumerate(zip(arrays, self._inputs)):
            if a.shape != shape or a.dtype != dtype:
                raise ValueError(f"input {i} is {a.dtype}{a.shape}, the program was compiled for {dtype}{shape}")
            out.append(a if a.flags.carray or (a.flags.c_contiguous and a.flags.aligned) else np.ascontiguousarray(a))
        return out

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run. Updated inputs are written in place."""
        return self.run(self.check(arrays), arrays)

    def run(self, ready: Sequence[np.ndarray], originals: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on arrays that ``check`` returned; updates go into ``originals``."""
        fresh = [np.empty(s, d) for s, d in self._new]
        table: list[Any] = [*ready, *self._constants, *fresh]
        arena = self._arena()
        keep = [_from_buffer(a) for a in table]
        keep.append(_from_buffer(arena))
        self._net(_new("void *[]", keep))
        self._arenas.append(arena)
        for slot, i, shape in self._updates:
            originals[slot][...] = table[i].reshape(shape)
        if self._simple:
            return fresh
        first = self._arena_slot - len(fresh)
        out, seen = [], set()
        for i, shape in self._results:
            a = table[i].reshape(shape)
            out.append(a.copy() if i < first or i in seen else a)      # inputs and repeated results are copied
            seen.add(i)
        return out


def has_compiler() -> bool:
    """Whether generated C can be compiled here."""
    return toolchain.compiler() is not None


__all__ = ["CpuProgram", "aligned_bytes", "has_compiler", "strip_reshape"]
