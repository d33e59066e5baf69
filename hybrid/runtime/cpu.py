"""Compiled programs on the CPU: generated C, one foreign call for the whole program."""
from __future__ import annotations

import contextlib
import functools
import time
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from hybrid.codegen import c as printer
from hybrid.codegen import packed

from ..device import aligned_bytes
from ..errors import CompileError
from ..ir import Node, Program
from ..passes.memory import in_place_updates
from ..passes.pipeline import Planned, plan
from ..passes.together import Joining
from . import buffers, launcher, threads, toolchain
from .net_ffi import ffi as _ffi
from .prepared import Prepared, prepared
from .report import Report, make_report, note_in_place

_from_buffer, _new = _ffi.from_buffer, _ffi.new
JOINING = Joining(printer.joins)
MAX_LAUNCHER_SLOTS = 4096            # its pointer table lies on the stack


def _loaded_library(source: str) -> tuple[Any, Path]:
    """The shared object of a C text, loaded, and its source file. A damaged file in the cache is built again."""
    so, c = toolchain.build(source)
    try:
        return threads.open_program(so), c
    except OSError:
        with contextlib.suppress(OSError):
            so.unlink()
    so, c = toolchain.build(source)
    try:
        return threads.open_program(so), c
    except OSError as err:
        raise CompileError(f"the compiled program {so} cannot be loaded; delete it, or set HYBRID_CACHE to another folder: {err}") from None


class CpuProgram:
    """A compiled program. ``program(arrays)`` takes one NumPy array an input slot and returns new output arrays; arrays
    in updated slots are overwritten. Safe to call from several threads at once: each call has an arena of its own.
    """

    def __init__(self, planned: Planned):
        begin = time.perf_counter()
        launcher.prepare()
        self.planned = planned
        self.report: Report = make_report(planned, "C")
        self._layout()
        source = self._source()
        self._lib, c = _loaded_library(source)
        threads.share(self._lib)
        self._net = self._lib.net
        self.report.source_path, self.report.source = str(c), source
        self.given = len(planned.source.inputs)                  # inputs of the caller; those after them are prepared
        self.prepare = CpuProgram(plan(planned.prepare, JOINING)) if planned.prepare is not None else None
        self.report.compile_seconds = time.perf_counter() - begin
        self._arenas: list[np.ndarray] = []

    # ---- the pointer table: inputs, embedded constants, written results, arena
    def _layout(self) -> None:
        fused = self.planned.fused
        self._inputs = [(n.shape, n.dtype) for n in fused.program.inputs]
        index: dict[Node, int] = {n: i for i, n in enumerate(fused.program.inputs)}
        self._constants: list[np.ndarray] = []
        for n in [*(n for k in fused.kernels for n in k.reads), *(n for n, _ in fused.results)]:
            if n.prim == "data" and n not in index:
                index[n] = len(index)
                self._constants.append(np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape))
        placed = in_place_updates(fused, ("elementwise", "contraction"))         # written straight into the caller's array
        note_in_place(self.report, placed)
        for k in fused.kernels:
            k.once = any(n in placed for n in k.stores)
        self._written = set(placed.values())
        self._fresh: list[Node] = []
        for n, _ in fused.results:
            if n not in index and n not in placed:
                index[n] = len(index)
                self._fresh.append(n)
        self._arena_slot = len(index)
        index.update(placed)
        self._index = index
        outputs = len(fused.program.outputs)
        self._results = [(index[n], shape) for n, shape in fused.results[:outputs]]
        self._updates = [(slot, index[n], shape) for (slot, _), (n, shape) in zip(fused.program.updates, fused.results[outputs:]) if n not in placed]
        self._new = [(n.shape, n.dtype) for n in self._fresh]
        self._simple = (len(self._fresh) == outputs and not self._updates and not self._written and
                        all(i == self._arena_slot - len(self._fresh) + k and shape == self._fresh[k].shape
                            for k, (i, shape) in enumerate(self._results)))

    def _pointer(self, n: Node) -> str:
        if n in self._index:
            return f"b[{self._index[n]}]"
        return f"(void *)((char *)b[{self._arena_slot}] + {self.planned.memory.offsets[n]})"

    def _source(self) -> str:
        arena = self.planned.memory.arena
        source, scratch = printer.print_program(self.planned.groups, self._pointer, f"(void *)((char *)b[{self._arena_slot}] + {arena})",
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
            f = a.flags
            fits = f.c_contiguous and f.aligned and (i not in self._written or f.writeable)
            out.append(a if fits else np.array(a, order="C"))
        return out

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run. Updated inputs are written in place."""
        return self.run(self.check(arrays), arrays)

    def run(self, ready: Sequence[np.ndarray], originals: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on arrays that ``check`` returned; updates go into ``originals``."""
        fresh = [buffers.empty(s, d) for s, d in self._new]
        prepared = self.prepare([ready[s] for s in self.planned.slots]) if self.prepare is not None else []
        table: list[Any] = [*ready, *prepared, *self._constants, *fresh]
        arena = self._arena()
        keep = [_from_buffer(a) for a in table]
        keep.append(_from_buffer(arena))
        self._net(_new("void *[]", keep))
        self._arenas.append(arena)
        for slot in self._written:
            if ready[slot] is not originals[slot]:
                originals[slot][...] = ready[slot]
        return fresh if self._simple else self.finish(dict(enumerate(originals)), fresh)

    def bind(self, fixed: Sequence[int], old: "Bound | None" = None) -> "Bound":
        """The program with some inputs (parameters) kept between calls. old: an earlier one, whose prepared values may still be right."""
        bound = Bound(self, fixed)
        bound._prepared = old._prepared if old is not None else None
        return bound

    def finish(self, given: dict[int, np.ndarray], fresh: list[np.ndarray]) -> list[np.ndarray]:
        """Write updates into the given arrays and put the outputs in order; inputs and repeated results are copied."""
        first, originals = self._arena_slot - len(fresh), given

        def at(i: int) -> np.ndarray:
            return fresh[i - first] if i >= first else given[i] if i in given else self._constants[i - len(self._inputs)]
        results = [(i, at(i).reshape(shape)) for i, shape in self._results]
        out, seen = [], set()
        for i, a in results:
            out.append(a.copy() if i < first or i in seen else a)
            seen.add(i)
        if len(self._updates) > 1:                               # an input that is another's new value: taken before it changes
            given = {**given, **{i: given[i].copy() for _, i, _ in self._updates if i in given}} if any(i in given for _, i, _ in self._updates) else given
        for slot, i, shape in self._updates:
            originals[slot][...] = at(i).reshape(shape)
        return out


class Bound:
    """A program whose fixed inputs (parameters) keep their addresses between calls: the fast way in.

    ``bound(a, b)`` takes the remaining inputs in slot order. ``rebind(arrays)`` gives the fixed ones new addresses.
    """

    from_buffer = staticmethod(_from_buffer)
    empty = staticmethod(buffers.empty)

    def __init__(self, program: CpuProgram, fixed: Sequence[int]):
        self.program = program
        self._fixed = tuple(fixed)
        self._free = [i for i in range(program.given) if i not in set(fixed)]
        self._checks = [(i, *program._inputs[i]) for i in self._free]
        self._finished = program._simple or not program._results and not program._updates
        self._writes_given = not program._written.isdisjoint(self._free)
        self._first = len(program._inputs) + len(program._constants)
        self._keep: list[Any] = []
        self._tables: list[Any] = []
        self._fixed_arrays: dict[int, np.ndarray] = {}
        self._prepared: Prepared | None = None

    def _prepare(self, given: dict[int, np.ndarray]) -> bool:
        """Have the prepared values of these inputs; False when they cannot be kept."""
        program = self.program
        if program.prepare is None:
            return True
        if not given.keys() >= set(program.planned.slots):
            return False
        self._prepared = prepared(self._prepared, [given[s] for s in program.planned.slots], program.prepare)
        return self._prepared is not None

    def _added(self) -> list[tuple[int, np.ndarray]]:
        """Slots and arrays of what is prepared and of constants."""
        values = [*(self._prepared.values if self._prepared is not None else []), *self.program._constants]
        return [(self.program.given + j, a) for j, a in enumerate(values)]

    def rebind(self, arrays: Sequence[np.ndarray]) -> bool:
        """Set the fixed inputs. False when one of them cannot be used in place (then call the program itself)."""
        program = self.program
        for i, a in zip(self._fixed, arrays):
            shape, dtype = program._inputs[i]
            if a.shape != shape or a.dtype != dtype or not (a.flags.c_contiguous and a.flags.aligned) or i in program._written and not a.flags.writeable:
                return False
        if not self._prepare(dict(zip(self._fixed, arrays))):
            return False
        self._fixed_arrays = dict(zip(self._fixed, arrays))
        self._keep = [(i, _from_buffer(a)) for i, a in zip(self._fixed, arrays)]
        self._keep += [(i, _from_buffer(a)) for i, a in self._added()]
        self._tables = []
        return True

    def _table(self) -> tuple[Any, Any]:
        arena = aligned_bytes(self.program._arena_bytes)
        table = _new("void *[]", self.program._arena_slot + 1)
        for i, pointer in self._keep:
            table[i] = pointer
        table[self.program._arena_slot] = _from_buffer(arena)
        return table, arena

    def launcher(self, cls: type, ctx: Any, scope: Any, train: bool, counters: tuple[list[int], ...]) -> Any:
        """A launcher (launcher.c) of this program with its fixed inputs, for arrays of a class; None where there is none."""
        program = self.program
        if len(program._fresh) != 1 or len(program._results) != 1 or program._updates or program._written or program._arena_slot > MAX_LAUNCHER_SLOTS:
            return None
        made = launcher.load()
        if made is None:
            return None
        kept = [*self._fixed_arrays.items(), *self._added()]
        slot, shape = program._results[0]
        net = int(_ffi.cast("uintptr_t", program._net))
        output = program._new[0]
        found = made(cls, net, program._arena_slot + 1, program._arena_slot, program._arena_bytes, tuple((i, shape, d) for i, shape, d in self._checks),
                    (slot, shape, output[1]), tuple(kept), ctx, scope, bool(train), counters,
                    functools.partial(buffers.empty, *output) if buffers.pooled(*output) else None)
        return None if self._prepared is not None and self._prepared.token.stale else found

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray] | None:
        """Outputs; None when an array does not fit (shape, dtype, layout) and the careful way must be taken."""
        tables = self._tables
        try:
            entry = tables.pop()
        except IndexError:
            entry = self._table()
        table = entry[0]
        try:
            for (i, shape, dtype), a in zip(self._checks, arrays):
                if a.shape != shape or a.dtype != dtype:
                    return None
                table[i] = _from_buffer(a, require_writable=i in self.program._written) if self._writes_given else _from_buffer(a)
        except (ValueError, BufferError):                        # not contiguous, or not to be written
            return None
        fresh = [buffers.empty(shape, dtype) for shape, dtype in self.program._new]
        at = self._first
        for a in fresh:
            table[at] = _from_buffer(a)
            at += 1
        self.program._net(table)
        tables.append(entry)
        return fresh if self._finished else self._rest(arrays, fresh)

    def _rest(self, arrays: Sequence[np.ndarray], fresh: list[np.ndarray]) -> list[np.ndarray]:
        given = {**self._fixed_arrays, **dict(zip(self._free, arrays))}
        return self.program.finish(given, fresh)


def compiled(program: Program) -> CpuProgram:
    """A compiled program; what depends on its lasting inputs (``memo["lasting"]``: parameters) alone is prepared once."""
    return CpuProgram(plan(program, JOINING, program.memo.get("lasting", frozenset()), packed.blocking(toolchain.vector_bytes())))


def has_compiler() -> bool:
    """Whether generated C can be compiled here."""
    return toolchain.compiler() is not None

