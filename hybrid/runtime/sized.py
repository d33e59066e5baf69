"""Compiled programs with symbolic sizes (hybrid/ir/size.py). The shared object is compiled once and takes the sizes as
arguments; ``at(sizes)`` makes a cheap program for one set of values, which shares it and differs in shapes and
arguments."""
from __future__ import annotations

import contextlib
import time
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

import numpy as np

from ..base import forking
from ..ir import Program
from ..ir.asked import Asked
from ..ir.size import Dim, Size, ask
from . import by_primitives, cache, launcher, plans, shared_objects, threads, toolchain, unfinished, warmed
from .cpu import CpuProgram, _opened, _planning, _prepare_plan
from .once import once
from .recipe import Recipe
from .report import Report

if TYPE_CHECKING:
    from ..passes.pipeline import Planned


class SizedProgram:
    """A program whose inputs have symbolic dimensions. ``at(sizes)`` is the program for their values."""

    compiled_behind = 0                                  # runs of the compiler in the background
    _sizes: "Sizes | None" = None

    def __init__(self, program: Program):
        begin = time.perf_counter()
        threads.prepare()
        self._planned = _planning(program)
        key = plans.key(program, warmed.frozen(program))
        self._report: Report | None = None
        self._arenas: list[np.ndarray] = []
        self.compiled_here = 0
        if not self._read(program, key):
            with once(key):                                  # another process may have built it meanwhile
                if not self._read(program, key) and not self._finish(program, key):
                    with unfinished.compiling(key):
                        self._build(key, begin)
        if (text := plans.content(key)) is not None:
            warmed.collect(program, self.recipe, text)
        launcher.prepare()

    @classmethod
    def ready(cls, program: Program) -> "SizedProgram | None":
        """The program as an earlier process compiled it, or None."""
        found = cls.__new__(cls)
        found._planned, found._report, found._arenas, found.compiled_here = _planning(program), None, [], 0
        try:
            with toolchain.at_hand():
                key = plans.key(program, warmed.frozen(program))
        except toolchain.NotAtHand:
            return None
        threads.prepare()
        if not found._read(program, key):
            return None
        launcher.prepare()
        if isinstance(found._prepare, by_primitives.Preparation):
            found._prepare.follow(program, warmed.frozen(program), lambda: found._compiled_preparation(program, key))
        return found

    def _compiled_preparation(self, program: Program, key: str | None) -> Any:
        """What prepares values, compiled, where the disk cache has it now."""
        kept = self._in_cache(program, key)
        return CpuProgram.of(kept[0], self._planned).prepare if kept is not None else None

    @staticmethod
    def _in_cache(program: Program, key: str | None) -> "tuple[Recipe, list[Dim], list[plans.Guard]] | None":
        """What the disk cache has of the program, or else the folder of programs that were compiled beforehand."""
        known = {d.name: d for d in program.dims()}
        found = plans.read_sized(key, known) or warmed.read_sized(program, known)
        return None if found is None else (found[0], [known[n] for n in found[1]], found[2])

    def _read(self, program: Program, key: str | None) -> bool:
        """Take it from the disk cache, with what was asked of sizes, if it is there."""
        kept = self._in_cache(program, key)
        if kept is None or not by_primitives.will_do(kept[0]):
            return False
        recipe, own, guards = kept
        with contextlib.suppress(OSError):
            whole = CpuProgram.of(recipe, self._planned)
            for asked in guards:
                ask(*asked)
            self.dims, self.recipe = own, recipe
            self._library, self._prepare = whole._lib, whole.prepare
            return True
        return False

    def _finish(self, program: Program, key: str | None) -> bool:
        """Compile it where an earlier process printed it."""
        done = unfinished.finish(key) and self._read(program, key)
        self.compiled_here = int(done and shared_objects.ran(cache.folder() / self.recipe.library))
        return done

    def _build(self, key: str | None, begin: float) -> None:
        with forking.IMPORTS:
            from .build import build                     # noqa: PLC0415  planning and printing load only where needed
        asked = Asked()
        with asked.answering(False):
            built = build(self._planned(), printed=lambda recipe, dims: unfinished.keep(
                key, recipe, plans.sized_head(dims, asked)))
        for (kind, x), (answer, _) in asked.facts.items():
            ask(kind, x, answer)
        self.dims = built.dims
        self.recipe, self._report = built.recipe, built.report
        self._library, self._prepare = _opened(built), None
        if built.prepare is None and built.recipe.prepare is not None:
            self._prepare = by_primitives.Preparation(built.recipe.prepare)
        self.compiled_here = int(built.ran)
        if built.prepare is not None:
            self._prepare = CpuProgram.__new__(CpuProgram)
            self._prepare._take(built.prepare, lambda: _prepare_plan(self._planned()), begin)
            self.compiled_here += self._prepare.compiled_here
        built.report.compile_seconds = time.perf_counter() - begin
        with_numbers(built.report)
        plans.keep_sized(key, self.recipe, self.dims, asked)

    @property
    def report(self) -> Report:
        """What was decided, and the source. Of a program that the disk cache gave it is found out now."""
        if self._report is None:
            from .build import build                     # noqa: PLC0415  as above
            with Asked().answering(False):
                self._report = with_numbers(build(self._planned()).report)
        return self._report

    def libraries(self) -> int:
        """Its shared objects, each of which a run of the compiler makes."""
        return 1 + (self._prepare.libraries() if self._prepare is not None else 0)

    def at(self, sizes: Mapping[str, int]) -> CpuProgram:
        """The program for concrete sizes, by the names of their dimensions."""
        program = OneSize.__new__(OneSize)
        if self._sizes is None:
            self._sizes = Sizes(self.recipe, self.dims)
        program._set(self._sizes.at([sizes[d.name] for d in self.dims]), self._library, self._prepare, self._planned,
                     self._report)
        program._arenas, program.one_of_many, program.of_all = self._arenas, True, self
        return program


class OneSize(CpuProgram):
    """A program for any size at one of them. of_all: that program."""
    of_all: SizedProgram

    @property
    def planned(self) -> "Planned":
        """What the passes decided for all sizes. They may run again here: guards are answered from the sizes' hints, as
        when it was compiled, and no new ones are kept."""
        with Asked().answering(False):
            return super().planned

    @property
    def report(self) -> Report:
        """What was decided for all sizes."""
        return self.of_all.report


class Sizes:
    """A recipe with symbolic sizes, and the places of the shapes that have some: ``at`` replaces only these.

    given: the dimensions whose values a call gives, in their order. The last constant of a program has these values.
    """

    def __init__(self, recipe: Recipe, given: Sequence[Dim]):
        self.recipe, self.names = recipe, [d.name for d in given]
        self._sizes: dict[str, Size] = {}                    # each size of a recipe once, by its text
        self._inputs, self._fresh = self._open(s for s, _ in recipe.inputs), self._open(s for s, _ in recipe.fresh)
        self._results, self._updates = (self._open(row[-1] for row in rows)
                                        for rows in (recipe.results, recipe.updates))
        self._arena, = self._one((recipe.arena_bytes,))

    def _one(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._sizes.setdefault(d.c_text(), d) if type(d) is Size else d for d in shape)

    def _open(self, shapes: Iterable[tuple[Any, ...]]) -> list[tuple[int, tuple[Any, ...]]]:
        return [(i, self._one(s)) for i, s in enumerate(shapes) if any(type(d) is Size for d in s)]

    def at(self, values: Sequence[int]) -> Recipe:
        """The recipe with these numbers in the place of the dimensions."""
        sizes = dict(zip(self.names, map(int, values)))
        numbers = {id(size): size.value(sizes) for size in self._sizes.values()}

        def filled(rows: Sequence[Any], places: list[tuple[int, tuple[Any, ...]]], at: int) -> list[Any]:
            out = list(rows)
            for i, shape in places:
                out[i] = (*rows[i][:at], tuple([numbers.get(id(d), d) for d in shape]), *rows[i][at + 1:])
            return out
        r = self.recipe
        return replace(r, inputs=filled(r.inputs, self._inputs, 0), fresh=filled(r.fresh, self._fresh, 0),
                       constants=[*r.constants[:-1], np.array([*sizes.values()], np.int64)],
                       arena_bytes=numbers.get(id(self._arena), self._arena),
                       results=filled(r.results, self._results, 1), updates=filled(r.updates, self._updates, 2))


def with_numbers(value: Any) -> Any:
    """Replaces sizes in a report, in place, by the values that they were traced with."""
    if type(value) is Size:
        return value.hint
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(with_numbers, value))
    if is_dataclass(value):
        for name, own in vars(value).items():
            if not isinstance(own, (str, int, float)):
                setattr(value, name, with_numbers(own))
    return value


def sized(program: Program) -> bool:
    """Whether a program has symbolic sizes."""
    return bool(program.dims())
