"""Compiled programs with symbolic sizes (hybrid/ir/size.py). The shared object is compiled once and takes the sizes as
arguments; ``at(sizes)`` makes a cheap program for one set of values, which shares it and differs in shapes and
arguments."""
from __future__ import annotations

import time
from dataclasses import is_dataclass, replace
from typing import Any, Mapping, Sequence

import numpy as np

from ..base import forking
from ..ir import Program
from ..ir.size import Dim, Size, number_of
from . import launcher, threads, warmed
from .cpu import CpuProgram, _opened
from .recipe import Recipe


class SizedProgram:
    """A program whose inputs have symbolic dimensions. ``at(sizes)`` is the program for their values."""

    compiled_behind = 0                                  # runs of the compiler in the background

    def __init__(self, program: Program):
        begin = time.perf_counter()
        with forking.IMPORTS:
            from .build import build, planned            # noqa: PLC0415  planning and printing load only where needed
        threads.prepare()
        self._again = lambda: planned(program, warmed.frozen(program))
        built = build(self._again())
        self.dims: list[Dim] = built.dims
        self.recipe, self.report = built.recipe, built.report
        self._library = _opened(built)
        self._prepare: CpuProgram | None = None
        self._arenas: list[np.ndarray] = []
        self.compiled_here = int(built.ran)
        if built.prepare is not None:
            part = built.prepare
            self._prepare = CpuProgram.__new__(CpuProgram)
            self._prepare._take(part, self._again, begin)
            self.compiled_here += self._prepare.compiled_here
        launcher.prepare()
        self.report.compile_seconds = time.perf_counter() - begin
        with_numbers(self.report)

    def at(self, sizes: Mapping[str, int]) -> CpuProgram:
        """The program for concrete sizes, by the names of their dimensions."""
        program = CpuProgram.__new__(CpuProgram)
        program._set(of_sizes(self.recipe, self.dims, [sizes[d.name] for d in self.dims]), self._library, self._prepare,
                     self._again, self.report)
        program._arenas, program.one_of_many = self._arenas, True
        return program


def of_sizes(r: Recipe, dims: Sequence[Dim], values: Sequence[int]) -> Recipe:
    """The recipe with every symbolic shape replaced by its numbers. values: of the dimensions, in their order; the last
    constant of a program is those values, too."""
    sizes = {d.name: int(v) for d, v in zip(dims, values)}

    def shape(of: tuple[int, ...]) -> tuple[int, ...]:
        for d in of:
            if type(d) is Size:
                return tuple([number_of(d, sizes) for d in of])
        return of
    return replace(r, inputs=[(shape(s), d) for s, d in r.inputs], fresh=[(shape(s), d) for s, d in r.fresh],
                   constants=[*r.constants[:-1], np.array([*sizes.values()], np.int64)],
                   arena_bytes=number_of(r.arena_bytes, sizes), results=[(i, shape(s)) for i, s in r.results],
                   updates=[(slot, i, shape(s)) for slot, i, s in r.updates])


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
    """Whether any input of a program has a symbolic dimension."""
    return any(type(d) is not int for n in program.inputs for d in n.shape)
