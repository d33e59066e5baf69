"""Compiled programs on the CPU that time their kernels: the same kernels, with a clock around each of them."""
from __future__ import annotations

import time
from typing import Any, Sequence

import numpy as np

from ..base import forking
from ..base.records import dataclass
from ..ir.asked import Asked
from .cpu import CpuProgram
from .pending import PendingProgram
from .report import KernelReport
from .sized import Sizes, with_numbers

_lock = forking.LongLock()


@dataclass
class Took:
    """How long a kernel took in one call: seconds, of the clock of ``time.perf_counter``. Where the batch is computed
    in blocks, ``seconds`` is the sum over all of them, and ``began`` the first one's."""
    kernel: KernelReport
    began: float
    seconds: float


class TimedProgram(CpuProgram):
    """A program whose ``timed`` gives what a call gives, and how long each kernel took. Threads call it one after the
    other."""

    def __init__(self, program: CpuProgram):
        from .build import build                         # noqa: PLC0415  loads only where programs are built
        begin, planned = time.perf_counter(), program.planned
        with Asked().answering(False):                   # guards of sizes hold already
            built = build(planned, timed=True)
        self._take(built, lambda: planned, begin)
        if built.dims:                                   # for the sizes of the program
            sizes = program.recipe.constants[-1].tolist()
            self._set(Sizes(built.recipe, built.dims).at(sizes), self._lib, self.prepare, self._again,
                      with_numbers(built.report))

    def _called(self, table: list[Any]) -> None:
        from . import cpu                                # noqa: PLC0415
        times = np.zeros(2 * max(1, len(self.report.kernels)), np.int64)
        super()._called([*table, cpu._from_buffer(times)])
        self._last = times

    def timed(self, arrays: Sequence[Any], found: list[Took]) -> list[np.ndarray]:
        """Run; the outputs. found: gets the times of the kernels, in the order in which they run."""
        with _lock:
            outputs = self(arrays)
            times = self._last.reshape(-1, 2) * 1e-9
        found += [Took(k, float(began), float(took)) for k, (began, took) in zip(self.report.kernels, times)]
        return outputs


def timed(program: Any) -> "TimedProgram | None":
    """The form of a program that times its kernels, made once, after waiting for the compiler; None for what is not
    compiled C."""
    if isinstance(program, PendingProgram):
        program = program.settled(wait=True)
    if not isinstance(program, CpuProgram):
        return None
    found = program.__dict__.get("timed_form")
    if found is None:
        found = program.__dict__["timed_form"] = TimedProgram(program)
    return found
