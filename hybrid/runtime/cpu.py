"""Compiled programs on the CPU: generated C, one foreign call for the whole program."""
from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

import numpy as np

from ..base import forking
from ..base.device import aligned_bytes, trim
from ..base.errors import CompileError
from ..ir import Program
from . import buffers, cache, compiler_trial, launcher, plans, shared_objects, threads, toolchain, warmed
from .interruptible import Patience
from .libraries import opened
from .net_ffi import ffi as _ffi
from .prepacked import Prepared, buffer_of, fits, prepared
from .recipe import Recipe
from .report import Report

if TYPE_CHECKING:
    from ..passes.pipeline import Planned
    from .build import Built

_from_buffer, _new = _ffi.from_buffer, _ffi.new
MAX_LAUNCHER_SLOTS = 4096            # its pointer table lies on the stack
MOST_RESULTS = 64                    # of a launcher


def _build(planned: "Planned") -> "Built":
    # planning and printing load only where a program is not in the disk cache
    from .build import build  # noqa: PLC0415
    return build(planned)


def _opened(built: "Built") -> Any:
    """The library of a program just built. A damaged file in the cache is built again."""
    so = built.library
    for _ in range(2):
        try:
            return opened(so)
        except OSError as err:
            reason = err
            with contextlib.suppress(OSError):
                so.unlink()
            so, _ = shared_objects.build(built.source)
    raise CompileError(f"the compiled program {so} cannot be loaded; delete it, or set HYBRID_CACHE to another "
                       f"folder: {reason}")


class CpuProgram:
    """A compiled program. ``program(arrays)`` takes one NumPy array an input slot and returns new output arrays; arrays
    in updated slots are overwritten. Safe to call from several threads at once: each call has an arena of its own.
    """

    # runs of the C compiler in this process that a caller waited for, and those in the background
    compiled_here = compiled_behind = 0

    def __init__(self, planned: "Planned"):
        begin = time.perf_counter()
        threads.prepare()
        self._take(_build(planned), lambda: planned, begin)
        launcher.prepare()

    def _take(self, built: "Built", again: "Callable[[], Planned]", begin: float) -> None:
        prepare = None
        if built.prepare is not None:
            part, whole = built.prepare, again
            prepare = CpuProgram.__new__(CpuProgram)
            prepare._take(part, lambda: _prepare_plan(whole()), begin)
        self._set(built.recipe, _opened(built), prepare, again, built.report)
        self.compiled_here = built.ran + (prepare.compiled_here if prepare is not None else 0)
        built.report.compile_seconds = time.perf_counter() - begin

    def _set(self, recipe: Recipe, library: Any, prepare: "CpuProgram | None", again: "Callable[[], Planned]",
             report: Report | None = None) -> None:
        self.recipe, self.prepare, self._again = recipe, prepare, again
        self._make = buffers.separate
        if prepare is not None:
            prepare._make = buffers.together                     # its values are kept and replaced as a whole
        self._lib, self._net = library, library.net
        threads.share(library)
        self._report = report
        self._seconds = 0.0
        self._inputs, self._constants, self._new = recipe.inputs, recipe.constants, recipe.fresh
        self.given, self.slots = recipe.given, recipe.slots      # inputs of the caller; those after them are prepared
        self._arena_slot, self._arena_bytes = recipe.arena_slot, recipe.arena_bytes
        self._results, self._updates, self._written, self._simple = recipe.results, recipe.updates, set(
                recipe.written), recipe.simple
        self._arenas: list[np.ndarray] = []                      # a symbolic program's sizes share one list
        self.one_of_many = False                                 # sizes of a symbolic program
        self.patience = Patience(recipe.work, bool(self._written))
        # read only to prepare: no call wants them
        self._unread = {slot for slot, way in zip(recipe.slots, recipe.ways) if way is not None}

    @classmethod
    def of(cls, recipe: Recipe, again: "Callable[[], Planned]") -> "CpuProgram":
        """The program of a recipe from the disk cache. again: plans it anew, for the report. OSError where its library
        cannot be loaded."""
        begin = time.perf_counter()
        threads.prepare()
        path = cache.folder() / recipe.library
        if not shared_objects.intact(path):
            raise OSError(f"{path} is not there or was changed")
        program = cls.__new__(cls)
        prepare = cls.of(recipe.prepare, lambda: _prepare_plan(again())) if recipe.prepare is not None else None
        program._set(recipe, opened(path), prepare, again)
        program._seconds = time.perf_counter() - begin
        return program

    @property
    def planned(self) -> "Planned":
        """What the passes decided."""
        return self._again()

    @property
    def report(self) -> Report:
        """What was decided, and the source. Of a program that the disk cache gave it is found out now."""
        if self._report is None:
            report = _build(self._again()).report
            report.compile_seconds = self._seconds
            self._report = report
        return self._report

    def libraries(self) -> int:
        """Its shared objects, each of which a run of the compiler makes."""
        return 1 + (self.prepare.libraries() if self.prepare is not None else 0)

    # ---- calls
    def rest(self) -> None:
        """Let go of working memory that is kept for the next call."""
        self._arenas.clear()

    def _arena(self) -> np.ndarray:
        try:
            found = self._arenas.pop()
        except IndexError:
            return aligned_bytes(self._arena_bytes)
        return found if len(found) >= self._arena_bytes else aligned_bytes(self._arena_bytes)

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
        fresh = self._make(self._new)
        prepared = self.prepare([ready[s] for s in self.slots]) if self.prepare is not None else []
        table: list[Any] = [*ready, *prepared, *self._constants, *fresh]
        arena = self._arena()
        keep = [_from_buffer(a) for a in table]
        keep.append(_from_buffer(arena))
        self._called(keep)
        if self._make is buffers.separate:                       # what prepares values runs hardly ever again
            self._arenas.append(arena)
        for slot in self._written:
            if ready[slot] is not originals[slot]:
                originals[slot][...] = ready[slot]
        return fresh if self._simple else self.finish(dict(enumerate(originals)), fresh)

    def _called(self, table: list[Any]) -> None:
        """Call the compiled function with what is in its pointer table."""
        pointers = _new("void *[]", table)
        self.patience.run(lambda: self._net(pointers), table)

    def run_part(self, given: Mapping[int, np.ndarray], results: Mapping[int, np.ndarray]) -> None:
        """Compute some results of a program in parts (recipe.parts) into arrays, from the inputs of their parts."""
        arrays = {**given, **{self.given + k: a for k, a in enumerate(self._constants)},
                  **{self._results[k][0]: a for k, a in results.items()}}
        arrays[self._arena_slot] = aligned_bytes(self._arena_bytes)
        table = _new("void *[]", self._arena_slot + 1)           # null where there is no array
        keep = []
        for slot, a in arrays.items():
            keep.append(_from_buffer(a))
            table[slot] = keep[-1]
        self._net(table)

    def bind(self, fixed: Sequence[int], arrays: Sequence[Any], old: "Bound | None" = None) -> "Bound | None":
        """The program with some inputs (parameters; raw arrays, or objects that hold one) kept between calls; None when
        one of them cannot be used in place (then call the program itself). old: an earlier one, whose prepared values
        may still be right.
        """
        given, values = dict(zip(fixed, arrays)), None
        if self.prepare is not None:
            if not given.keys() >= set(self.slots):
                return None
            values = prepared(old._prepared if old is not None else None, [given[s] for s in self.slots], self.prepare,
                              self.recipe.ways)
            if values is None:
                return None
        raws = {i: buffer_of(a) for i, a in given.items() if i not in self._unread}
        if any(not fits(a, *self._inputs[i]) or i in self._written and not a.flags.writeable for i, a in raws.items()):
            return None
        return Bound(self, raws, values)

    def finish(self, given: dict[int, np.ndarray], fresh: list[np.ndarray]) -> list[np.ndarray]:
        """Write updates into the given arrays and put the outputs in order; inputs and repeated results are copied."""
        first, originals = self._arena_slot - len(fresh), given

        def at(i: int) -> np.ndarray:
            return (fresh[i - first] if i >= first else given[i] if i in given
                    else self._constants[i - len(self._inputs)])
        results = [(i, at(i).reshape(shape)) for i, shape in self._results]
        out, seen = [], set()
        for i, a in results:
            out.append(a.copy() if i < first or i in seen else a)
            seen.add(i)
        # an input that is another's new value: taken before it changes
        if len(self._updates) > 1:
            given = {**given, **{i: given[i].copy() for _, i,
                                 _ in self._updates
                                 if i in given}} if any(i in given for _, i, _ in self._updates) else given
        for slot, i, shape in self._updates:
            originals[slot][...] = at(i).reshape(shape)
        return out


class Bound:
    """A program whose fixed inputs (parameters) keep their addresses between calls: the fast way in.

    ``bound(a, b)`` takes the remaining inputs in slot order. Where the fixed arrays are replaced, another one is made
    (``CpuProgram.bind``): this one does not change, so that a call in another thread keeps what it reads.
    """

    from_buffer = staticmethod(_from_buffer)
    empty = staticmethod(buffers.empty)

    def __init__(self, program: CpuProgram, fixed: dict[int, np.ndarray], values: Prepared | None):
        self.program = program
        self._fixed, self._prepared = fixed, values
        self._free = [i for i in range(program.given) if i not in fixed and i not in program._unread]
        self._checks = [(i, *program._inputs[i]) for i in self._free]
        self._finished = program._simple or not program._results and not program._updates
        self._writes_given = not program._written.isdisjoint(self._free)
        self._first = len(program._inputs) + len(program._constants)
        added = [*(values.values if values is not None else []), *program._constants]
        # slots and arrays that are the same in each call
        self._kept = [*fixed.items(), *((program.given + j, a) for j, a in enumerate(added))]
        self._keep = [(i, _from_buffer(a)) for i, a in self._kept]
        self._tables: list[Any] = []
        # the next call is the last that goes this way: a launcher with an arena of its own is there
        self._once = False
        self._launched: Any = launcher.later                     # the launcher of ``launched``
        self._launchers = launcher.Made()
        self.calls = 0                                           # that went another way

    def _table(self) -> tuple[Any, Any]:
        arena = self.program._arena()
        table = _new("void *[]", self.program._arena_slot + 1)
        for i, pointer in self._keep:
            table[i] = pointer
        table[self.program._arena_slot] = _from_buffer(arena)
        return table, arena

    def launcher(self, cls: type, ctx: Any, scope: Any, train: bool, counters: tuple[list[int], ...], kind: int = 0,
                 places: tuple[Any, ...] = (),
                 form: Any = None, step: Any = None) -> Any:
        """A launcher (launcher.c) of this program with its fixed inputs, for arrays of a class; None where there is
        none. kind: whether it gives one array (0), a tuple of them (1) or a list (2). It may write fixed inputs alone.
        places: variables that must be what they are (hybrid/jit/free_variables.py). form: of the arguments
        (hybrid/base/pytree.py), None for arrays by position. step: what it does beside that (hybrid/jit/fast_step.py).
        """
        program = self.program
        own = program.recipe.own_results()
        if (own is None or len(own) > MOST_RESULTS or not kind and len(own) != 1 or self._writes_given
            or program._arena_slot > MAX_LAUNCHER_SLOTS or program.patience.left):
            return None
        launcher.prepare()                                       # a process that was to make it may have ended
        if launcher.coming():
            return launcher.later
        made = launcher.load()
        if made is None:
            return None
        net = int(_ffi.cast("uintptr_t", program._net))
        outputs = tuple((slot, *spec) for (slot, _), spec in zip(program._results, own))
        allocate = tuple(functools.partial(buffers.empty, *spec) if buffers.pooled(*spec) else None for spec in own)
        found = made(cls, net, program._arena_slot + 1, program._arena_slot, program._arena_bytes,
                     tuple((i, shape, d) for i, shape, d in self._checks),
                     outputs, tuple(self._kept), ctx, scope, bool(train), counters, places, form, allocate, kind, step,
                     program._lib)
        self._once = True
        self._tables.clear()
        self._launchers.add(bool(counters), found)               # with and without counters
        return None if self.changed() else found

    def launched(self, cls: type, ctx: Any, scope: Any, kind: int, arguments: Sequence[Any]) -> Any:
        """What a launcher, made at the first call, gives; None where the slow path must be taken."""
        if self._launched is launcher.later:
            self._launched = self.launcher(cls, ctx, scope, scope.training, (), kind)
        found = self._launched
        return found(*arguments) if found is not None else None

    def uses(self) -> int:
        """How often it was called."""
        return self.calls + self._launchers.calls()

    def changed(self) -> bool:
        """Whether values that were prepared are of parameters as they were before a change."""
        return self._prepared is not None and self._prepared.token.stale

    def evicted(self) -> int:
        """Bytes of parameters whose buffers are evicted now, because prepared values hold them."""
        return self._prepared.evicted() if self._prepared is not None else 0

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray] | None:
        """Outputs; None when an array does not fit (shape, dtype, layout) and the slow path must be taken."""
        tables = self._tables
        self.calls += 1
        try:
            entry = tables.pop()
        except IndexError:
            entry = self._table()
        table = entry[0]
        try:
            for (i, shape, dtype), a in zip(self._checks, arrays):
                if a.shape != shape or a.dtype != dtype:
                    return None
                table[i] = _from_buffer(a,
                                        require_writable=i in self.program._written) if self._writes_given else _from_buffer(a)  # noqa: E501
        except (ValueError, BufferError):                        # not contiguous, or not to be written
            return None
        fresh = [buffers.empty(shape, dtype) for shape, dtype in self.program._new]
        at = self._first
        for a in fresh:
            table[at] = _from_buffer(a)
            at += 1
        if self.program.patience.left:
            self.program.patience.run(lambda: self.program._net(table), entry, fresh, arrays, self)
        else:
            self.program._net(table)
        if self._once:
            self._once = False
            tables.clear()
        elif self.program.one_of_many:                           # the next call may be of another size
            self.program._arenas.append(entry[1])
        else:
            tables.append(entry)
        return fresh if self._finished else self._rest(arrays, fresh)

    def _rest(self, arrays: Sequence[np.ndarray], fresh: list[np.ndarray]) -> list[np.ndarray]:
        given = {**self._fixed, **dict(zip(self._free, arrays))}
        return self.program.finish(given, fresh)


def _prepare_plan(whole: "Planned") -> "Planned":
    from .build import prepare_plan                      # noqa: PLC0415
    return prepare_plan(whole)


def compiled(program: Program) -> CpuProgram:
    """A compiled program; what depends on its frozen inputs (``memo["frozen"]``: parameters) alone is prepared
    once."""
    made = _compiled(program)
    warmed.collect(program, made.recipe)
    return made


def _planning(program: Program) -> "Callable[[], Planned]":
    def again() -> "Planned":
        with forking.IMPORTS:
            from .build import planned                   # noqa: PLC0415
        return planned(program, warmed.frozen(program))
    return again


def ready(program: Program) -> CpuProgram | None:
    """The program as it was compiled beforehand (warmed.py) or by an earlier process; None where it was not."""
    key, again = plans.key(program, warmed.frozen(program)), _planning(program)
    found = _on_disk(key, again)
    if found is None and (recipe := warmed.read(program)) is not None:
        with contextlib.suppress(OSError):
            found = CpuProgram.of(recipe, again)
            launcher.prepare()
            plans.keep(key, recipe)
    return found


def _compiled(program: Program) -> CpuProgram:
    frozen, again = warmed.frozen(program), _planning(program)
    key = plans.key(program, frozen)
    found = _on_disk(key, again)
    if found is not None:
        return found
    with plans.building(key) if key is not None else contextlib.nullcontext():
        found = _on_disk(key, again)                             # another process may have built it meanwhile
        if found is not None:
            return found
        begin = time.perf_counter()
        threads.prepare()
        made = CpuProgram.__new__(CpuProgram)
        made._take(_build(again()), again, begin)
        launcher.prepare()
        plans.keep(key, made.recipe)
    trim()                                                       # texts and plans
    return made


def _on_disk(key: str | None, again: "Callable[[], Planned]") -> CpuProgram | None:
    """The program of a key, if the disk cache holds it whole."""
    recipe = plans.read(key)
    if recipe is not None:
        with contextlib.suppress(OSError):
            found = CpuProgram.of(recipe, again)
            launcher.prepare()
            return found
    return None


def has_compiler() -> bool:
    """Whether generated C can be compiled here."""
    return toolchain.compiler() is not None


def set_aside(err: CompileError) -> bool:
    """After a program did not compile: whether it may be tried with another compiler, or none (compiler_trial.py)."""
    return compiler_trial.set_aside(err)
