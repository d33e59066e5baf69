"""A program on a GPU whose parameters keep their addresses between calls: the fast way in, and the C launcher's."""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hybrid.base import config

from .. import launcher
from ..prepacked import Prepared, prepared
from . import driver_api, native
from .interface import Driver, Launch

if TYPE_CHECKING:
    from .program import CudaProgram

ALIGN = 16                      # bytes: kernels read and write whole vectors
MOST_SLOTS = 4096               # of a launcher's table, which lies on the stack
MOST_RESULTS = 64
KEPT = 64 << 20                 # bytes of working memory that a program keeps for each stream
STREAMS = 4                     # that it keeps working memory for
REUSED = 1 << 20                # bytes of a result whose memory is used again once nobody holds it
NUMBERS = 480                   # numbers that one launch carries


def bind(program: CudaProgram, fixed: Sequence[int], arrays: Sequence[Any], old: Bound | None = None) -> Bound | None:
    """See ``CudaProgram.bind``; the old binding itself, where all its arrays are still the same."""
    if getattr(program._plan, "native", None) is None or program._swaps:
        return None
    results = [i for i, _ in program._results]
    if len(set(results)) < len(results) or any(i < program._first for i in results):
        return None
    with program.driver.active():
        ready: dict[int, Any] = {}
        hosts: dict[int, Any] = {}
        for i, a in zip(fixed, arrays):
            host = getattr(a, "host_values", None)
            if host is not None and host.nbytes % 8 == 0 and i not in program._written:
                hosts[i] = host
                continue
            raw = a._data if hasattr(a, "_data") and not isinstance(a, program.xp.ndarray) else a
            if not isinstance(raw, program.xp.ndarray) or program._ready(i, raw)[0] is not raw:
                return None
            ready[i] = raw
        values: Prepared | None = None
        if program.prepare is not None:
            given = dict(zip(fixed, arrays))
            if program.driver.capturing() or not given.keys() >= set(program.slots):
                return None
            values = prepared(old._prepared if old is not None else None, [given[s] for s in program.slots],
                              program.prepare, [None] * len(program.slots))
            if values is None:
                return None
            if not program.prepare.recipe.parts:             # else ``run_part`` has waited for them
                program.driver.synchronize()
        if old is not None and old.keeps(program, ready, hosts, values):
            return old
        return Bound(program, ready, hosts, values)


@functools.lru_cache(maxsize=64)
def _putting(driver: Driver, count: int) -> Any:
    """A kernel that writes so many 8-byte numbers, which are its own arguments: no copy to the GPU is waited for."""
    values = "".join(f", const void *v{i}" for i in range(count))
    lines = "\n".join(f"  to[{i}] = (unsigned long long)v{i};" for i in range(count))
    return driver.load(f'extern "C" __global__ void put_numbers(unsigned long long *to{values}) {{\n{lines}\n}}\n',
                       ["put_numbers"])


class Bound:
    """``bound(a, b)`` takes the remaining inputs in slot order and gives new output arrays.

    The table: inputs, constants, results, the working memory, numbers given by value; behind them the places within
    other entries. ``hosts``: inputs whose numbers are given at each call, as 8-byte values in host memory.
    """

    plain = False                    # a closure of hybrid/jit/fast_path.py knows NumPy's arrays alone

    def __init__(self, program: CudaProgram, fixed: dict[int, Any], hosts: dict[int, Any],
                 values: Prepared | None = None):
        self.program, self._fixed, self._hosts, self._prepared = program, fixed, hosts, values
        self._values = values.values if values is not None else []
        self._free = [i for i in range(program.given) if i not in fixed and i not in hosts]
        self._checks = [(i, *program._inputs[i]) for i in self._free]
        self._writes_given = not program._written.isdisjoint(self._free)
        self._arena_at = program._table
        pointer = program.driver.pointer
        self._kept = [(i, pointer(a)) for i, a in
                      [*fixed.items(), *enumerate([*self._values, *program._constants], program.given)]]
        # results: (entry, shape, dtype)
        self._own = [(i, shape, program._fresh[i - program._first][1]) for i, shape in program._results]
        self.plan = self._lay_out()
        self._arenas: dict[int, tuple[int, Any]] = {}
        self._launched: Any = launcher.later
        self._launchers = launcher.Made()
        self.calls = 0

    def _lay_out(self) -> native.NativePlan:
        """The launches, those that put the numbers first."""
        program, arena, entry = self.program, self.program._arena_bytes, self._arena_at + 1
        launches: list[native.Ready] = []
        places: list[tuple[int, int]] = []
        puts: list[tuple[Any, int, int, int]] = []           # (kernel's module, place, first entry, count)
        at: dict[int, int] = {}                              # byte of the working memory where an input's numbers lie
        self._numbers: list[tuple[int, int, int]] = []       # (address on the host, entry, count)
        for slot, host in self._hosts.items():
            at[slot] = arena = -(-arena // 256) * 256
            words = host.nbytes // 8
            self._numbers.append((host.ctypes.data, entry, words))
            for first in range(0, words, NUMBERS):
                count = min(NUMBERS, words - first)
                puts.append((_putting(program.driver, count), arena + 8 * first, entry + first, count))
            arena, entry = arena + host.nbytes, entry + words
        results = {i for i, _ in program._results}
        for k, (shape, dtype) in enumerate(program._fresh, program._first):
            if k not in results:                             # on its way into an updated input
                at[k] = arena = -(-arena // 256) * 256
                arena += math.prod(shape) * dtype.itemsize
        self._arena_bytes, self._entries = arena, entry
        for base, offset in program._offsets:
            places.append((self._arena_at, offset) if base < 0 else
                          (self._arena_at, at[base] + offset) if base in at else (base, offset))
        moved = {}
        for slot, offset in at.items():
            moved[slot] = entry + len(places)
            places.append((self._arena_at, offset))
        for module, offset, first, count in puts:
            launches += module.ready([Launch("put_numbers", (1, 1, 1), (1, 1, 1), 0,
                                             (entry + len(places), *range(first, first + count)))])
            places.append((self._arena_at, offset))
        table = program._table

        def place(a: int) -> int:
            return moved.get(a, a) if a < table else a - table + entry
        launches += program._module.ready([launch._replace(args=tuple(map(place, launch.args)))
                                           for launch in program._launches])
        library = native.library()
        assert library is not None
        self._library = library
        return native.NativePlan(library, launches, entry, places)

    def keeps(self, program: CudaProgram, fixed: dict[int, Any], hosts: dict[int, Any],
              values: Prepared | None) -> bool:
        """Whether this binding is of the same program and arrays, so that it can be used again; the prepared values may
        be new ones that were written where the old ones were."""
        def same(a: Sequence[Any], b: Sequence[Any]) -> bool:
            return len(a) == len(b) and all(x is y for x, y in zip(a, b))
        found = (program is self.program and fixed.keys() == self._fixed.keys() and hosts.keys() == self._hosts.keys()
                 and same([*fixed.values(), *hosts.values()], [*self._fixed.values(), *self._hosts.values()])
                 and same(values.values if values is not None else [], self._values))
        if found:
            self._prepared = values
        return found

    # ---- calls
    def _arena(self, stream: int) -> tuple[int, Any]:
        """Address of the working memory for a stream, and what holds it: kernels of one stream wait for each other."""
        found = self._arenas.get(stream)
        if found is not None:
            return found
        with self.program.enough_memory():
            array = self.program.working_memory(max(1, self._arena_bytes))
        made = self.program.driver.pointer(array), array
        if self._arena_bytes <= KEPT and stream != native.PER_THREAD:
            while len(self._arenas) >= STREAMS:
                self._arenas.pop(next(iter(self._arenas)), None)
            self._arenas[stream] = made
        return made

    def __call__(self, *arrays: Any) -> list[Any] | None:
        """Outputs; None when an array does not fit (shape, dtype, layout) and the slow path must be taken."""
        program, self.calls = self.program, self.calls + 1
        with program.driver.active(), program.enough_memory():
            table = [0] * self._entries
            for i, pointer in self._kept:
                table[i] = pointer
            for (i, shape, dtype), a in zip(self._checks, arrays):
                if not isinstance(a, program.xp.ndarray) or a.shape != shape or a.dtype != dtype:
                    return None
                ready, table[i] = program._ready(i, a)
                if ready is not a:
                    return None
            for (_, entry, count), host in zip(self._numbers, self._hosts.values()):
                table[entry:entry + count] = host.view("uint64").tolist()
            fresh = [program.xp.empty(shape, dtype) for _, shape, dtype in self._own]
            for (i, _, _), a in zip(self._own, fresh):
                table[i] = program.driver.pointer(a)
            stream = program.driver.stream()
            capturing = self._library.capturing(stream)
            # the user's graph may be launched when parameters have changed, so that it has to prepare the values itself
            if capturing and self._values:
                return None
            table[self._arena_at], arena = self._arena(stream if not capturing else native.PER_THREAD)
            self.plan.run(table, stream, program.report.source_path)
            if capturing:                                    # the graph writes there whenever it is launched
                program._kept += [arena, *fresh]
        return fresh

    # ---- the C launcher
    def launcher(self, cls: type, ctx: Any, scope: Any, train: bool, counters: tuple[list[int], ...], kind: int = 0,
                 places: tuple[Any, ...] = (), form: Any = None, step: Any = None) -> Any:
        """A launcher (launcher.c) of this program; see ``hybrid.runtime.bound.Bound.launcher``."""
        program, own = self.program, self._own
        if (len(own) > MOST_RESULTS or not kind and len(own) != 1 or self._writes_given or config.cuda_sync()
                or self._entries > MOST_SLOTS):
            return None
        made = launcher.found()
        if made is None or made is launcher.later:
            return made
        allocate = tuple(functools.partial(self._empty, shape, dtype) for _, shape, dtype in own)
        with program.driver.active():
            device = self._device()
        found = made(cls, 0, self._entries, self._arena_at, 0, tuple(self._checks), tuple(own), (), ctx, scope,
                     bool(train), counters, places, form, allocate, kind, step, self, device)
        self._launchers.add(bool(counters), found)               # with and without counters
        return found

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> tuple[Any, int, Any, bool]:
        """A new result: the array, its address, its pointer's object, and whether its memory may be used again."""
        with self.program.enough_memory():
            a = self.program.xp.empty(shape, dtype)
        return a, self.program.driver.pointer(a), a.data, a.nbytes <= REUSED

    def _device(self) -> tuple[Any, ...]:
        """What the launcher needs of the GPU beside the table, as kernels/c/launcher_device.h reads it."""
        lib, cast = self._library, native.ffi.cast
        addresses = [int(cast("uintptr_t", native.ffi.addressof(lib.c, name)))
                     for name in ("hy_device_run", "hy_device_capturing", "hy_device_current")]
        return (*addresses, int(cast("uintptr_t", self.plan.plan)), int(cast("uintptr_t", lib.driver)),
                driver_api.context(), self.program.driver.stream, self.program.xp.ndarray, self._arena, self._error,
                tuple(self._kept), tuple(self._numbers), self._arena_bytes <= KEPT)

    def _error(self, code: int, failed: int) -> None:
        raise self.plan.error(code, failed, self.program.report.source_path)

    def launched(self, cls: type, ctx: Any, scope: Any, kind: int, arguments: Sequence[Any]) -> Any:
        """What a launcher, made at the first call, gives; None where the slow path must be taken."""
        if self._launched is launcher.later:
            self._launched = self.launcher(cls, ctx, scope, scope.training, (), kind)
        return self._launched(*arguments) if self._launched is not None else None

    def uses(self) -> int:
        """How often it was called."""
        return self.calls + self._launchers.calls()

    def changed(self) -> bool:
        """Whether a parameter was written since values were prepared from it."""
        return self._prepared is not None and self._prepared.token.stale

    def evicted(self) -> int:
        """Bytes of parameters that are held in another form alone: none on a GPU."""
        return 0
