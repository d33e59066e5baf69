"""Computes a program's prepared values (glossary: prepare) without a compiled program: NumPy computes one primitive
after the other.

The program that prepares values runs once, but compiling it took up to a fourth of the time before the program itself
could run. So compilers in the background leave it out at first (``left_out``), and the recipe holds its text instead.
It is compiled when nobody waits for another program (``follow``): for values that are prepared again, and for later
processes.
"""
from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from ..base import config
from ..ir import Program
from ..ir.text import from_text, to_text
from . import buffers, plans, reference
from .background import queue
from .job import Job
from .prepacked import fits
from .recipe import Recipe, Spec

_scopes: list[None] = []


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Scope in which programs are compiled without those that prepare their values."""
    _scopes.append(None)
    try:
        yield
    finally:
        _scopes.pop()


def is_left_out() -> bool:
    """Whether programs that prepare values are left out now."""
    return bool(_scopes)


def will_do(recipe: Recipe) -> bool:
    """Whether a recipe from the disk cache can be used: not if its preparing program is not compiled although
    calls wait for compilers (``HYBRID_COMPILE=now``)."""
    return recipe.prepare is None or not recipe.prepare.program or is_left_out() or config.compile_mode() != "now"


class Preparation:
    """A program that prepares values, with the interface of a compiled one (``prepacked.Preparing``)."""
    keeps_memory = False
    compiled_here = 0
    memory = staticmethod(buffers.together)

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self._job: Job | None = None
        self._load: Callable[[], Any] = lambda: None
        self._compiled: Any = None

    @functools.cached_property
    def _program(self) -> Program:
        return from_text(self.recipe.program)

    def libraries(self) -> int:
        """The number of its shared objects."""
        return 0

    def reads(self, a: Any, spec: Spec) -> bool:
        """Whether it can read an array where it is, without a copy."""
        return fits(a, *spec)

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """All values."""
        out = self.memory(self.recipe.fresh)
        self.run_part(dict(enumerate(arrays)), dict(enumerate(out)))
        return out

    def run_part(self, given: Mapping[int, np.ndarray], results: Mapping[int, np.ndarray]) -> None:
        """Compute some values. given: the inputs that they need, by slot. results: arrays to write to, by number."""
        compiled = self._found()
        if compiled is not None:
            compiled.run_part(given, results)
            return
        program = self._program
        some = Program(program.inputs, tuple(program.outputs[k] for k in results))
        values, _ = reference.run(some, [given.get(i) for i in range(len(program.inputs))], np)
        for a, value in zip(results.values(), values):
            a[...] = value

    def follow(self, program: Program, frozen: frozenset[int], load: Callable[[], Any]) -> None:
        """Have it compiled when nobody waits for a compiler. program: the one that it prepares values for. load: finds
        the compiled one."""
        self._load = load
        job = Job(f"whole {id(program)}", lambda: (plans.key(program, frozen), to_text(program)), frozen)
        job.around["whole"], job.last, job.follows = True, True, False
        self._job = queue().submit(job)

    def _found(self) -> Any:
        """The compiled program that does the same by the same parts, once it is there."""
        if self._job is not None and self._job.ended.is_set():
            made = None if self._job.failed else self._load()
            self._job = None
            if made is not None and made.recipe.parts == self.recipe.parts:
                self._compiled = made
        return self._compiled
