"""Compiled programs on the CPU: generated C, one foreign call for the whole program."""
from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

import numpy as np

from ..base import forking
from ..base.device import aligned_bytes, trim
from ..base.errors import CompileError
from ..ir import Program
from .bound import Bound
from . import (buffers, by_primitives, cache, compiler_trial, launcher, plans, shared_objects, threads, toolchain,
               unfinished, warmed)
from .interruptible import Patience
from .libraries import opened
from .net_ffi import ffi as _ffi
from .once import once
from .prepacked import buffer_of, fits, prepared
from .recipe import Recipe, Spec
from .report import Report

if TYPE_CHECKING:
    from ..passes.pipeline import Planned
    from .build import Built, OnPrinted

_from_buffer, _new = _ffi.from_buffer, _ffi.new


def _build(planned: "Planned", printed: "OnPrinted | None" = None) -> "Built":
    # planning and printing load only where a program is not in the disk cache
    from .build import build  # noqa: PLC0415
    return build(planned, printed=printed)


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
    keeps_memory = False                 # of prepared values: a call in another thread may read the old ones
    memory = staticmethod(buffers.together)

    def __init__(self, planned: "Planned"):
        begin = time.perf_counter()
        threads.prepare()
        self._take(_build(planned), lambda: planned, begin)
        launcher.prepare()

    def _take(self, built: "Built", again: "Callable[[], Planned]", begin: float) -> None:
        prepare: CpuProgram | by_primitives.Preparation | None = None
        if built.prepare is not None:
            part, whole = built.prepare, again
            prepare = CpuProgram.__new__(CpuProgram)
            prepare._take(part, lambda: _prepare_plan(whole()), begin)
        elif built.recipe.prepare is not None:
            prepare = by_primitives.Preparation(built.recipe.prepare)
        self._set(built.recipe, _opened(built), prepare, again, built.report)
        self.compiled_here = built.ran + (prepare.compiled_here if prepare is not None else 0)
        built.report.compile_seconds = time.perf_counter() - begin

    def _set(self, recipe: Recipe, library: Any, prepare: "CpuProgram | by_primitives.Preparation | None",
             again: "Callable[[], Planned]", report: Report | None = None) -> None:
        self.recipe, self.prepare, self._again = recipe, prepare, again
        self._make = buffers.separate
        if isinstance(prepare, CpuProgram):
            prepare._make = buffers.together                     # its values are kept and replaced as a whole
        self._lib, self._net = library, library.net
        threads.share(library)
        self._report = report
        self._seconds = 0.0
        self._inputs, self._constants, self._new = recipe.inputs, recipe.constants, recipe.fresh
        self.given, self.slots = recipe.given, recipe.slots      # inputs of the caller; those after them are prepared
        self._arena_slot, self._arena_bytes = recipe.arena_slot, recipe.arena_bytes
        self._results, self._updates, self._simple = recipe.results, recipe.updates, recipe.simple
        self._written = set(recipe.written)
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
        prepare = prepared_by(recipe.prepare, lambda: _prepare_plan(again())) if recipe.prepare is not None else None
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

    def reads(self, a: Any, spec: Spec) -> bool:
        """Whether it can use an array in place."""
        return fits(a, *spec)

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

    def bind(self, fixed: Sequence[int], arrays: Sequence[Any], old: Bound | None = None) -> Bound | None:
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
        return Bound(self, raws, values, old)

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
            given = {**given, **{i: given[i].copy()
                                 for _, i, _ in self._updates
                                 if i in given}} if any(i in given for _, i, _ in self._updates) else given
        for slot, i, shape in self._updates:
            originals[slot][...] = at(i).reshape(shape)
        return out


def prepared_by(recipe: Recipe, again: "Callable[[], Planned]") -> "CpuProgram | by_primitives.Preparation":
    """What runs a recipe that prepares values: its compiled program, or NumPy if it has none."""
    return CpuProgram.of(recipe, again) if recipe.library else by_primitives.Preparation(recipe)


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
    with once(key):
        found = _on_disk(key, again)                             # another process may have built it meanwhile
        if found is None and unfinished.finish(key) and (found := _on_disk(key, again)) is not None:
            found.compiled_here = int(shared_objects.ran(cache.folder() / found.recipe.library))
        if found is not None:
            return found
        begin = time.perf_counter()
        threads.prepare()
        made = CpuProgram.__new__(CpuProgram)
        with unfinished.compiling(key):
            made._take(_build(again(), lambda recipe, _: unfinished.keep(key, recipe)), again, begin)
            launcher.prepare()
            plans.keep(key, made.recipe)
    trim()                                                       # texts and plans
    return made


def built_again(program: Program) -> None:
    """Build a program once more, with forms of kernels that are measured now; later processes find that one in the disk
    cache."""
    key = plans.key(program, warmed.frozen(program))
    plans.keep(key, _build(_planning(program)()).recipe)


def _on_disk(key: str | None, again: "Callable[[], Planned]") -> CpuProgram | None:
    """The program of a key, if the disk cache holds it whole."""
    recipe = plans.read(key)
    if recipe is not None and by_primitives.will_do(recipe):
        with contextlib.suppress(OSError):
            found = CpuProgram.of(recipe, again)
            launcher.prepare()
            return found
    return None


def follow_preparation(program: Program, made: CpuProgram) -> None:
    """Have the program that prepares values for another one compiled later, if it was left out. made: the other one."""
    if isinstance(made.prepare, by_primitives.Preparation):
        frozen = warmed.frozen(program)

        def compiled_one() -> Any:
            recipe = plans.read(plans.key(program, frozen))
            return CpuProgram.of(recipe, _planning(program)).prepare if recipe is not None else None
        made.prepare.follow(program, frozen, compiled_one)


def has_compiler() -> bool:
    """Whether generated C can be compiled here."""
    return toolchain.compiler() is not None


def set_aside(err: CompileError) -> bool:
    """After a program did not compile: whether it may be tried with another compiler, or none (compiler_trial.py)."""
    return compiler_trial.set_aside(err)
