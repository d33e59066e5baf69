"""Running programs: compiled C, CUDA, or the reference backend."""
from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

import numpy as np

from ..base import forking
from ..base.device import Context, array_module, trim
from ..base.errors import CompileError
from ..ir import Program
from ..passes.pipeline import plan
from . import reference
from .report import Report, make_report
from .staged import StagedProgram, has_calls


class ReferenceProgram:
    """The reference backend with the interface of a compiled program."""

    def __init__(self, program: Program, xp: Any = np):
        self.program, self.xp = program, xp
        self.report: Report = make_report(plan(program), "reference")
        self.report.kernels = []

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run; updated inputs are written in place."""
        outputs, updates = reference.run(self.program, arrays, self.xp)
        outputs = [self.xp.array(o) for o in outputs]                  # results never share memory with inputs
        if len(updates) > 1:
            updates = [self.xp.array(u) for u in updates]              # one may be another input, changed here too
        for (slot, _), value in zip(self.program.updates, updates):
            arrays[slot][...] = value
        return outputs


def compile(program: Program, ctx: Context) -> Callable[[Sequence[Any]], list[Any]]:  # noqa: A001  the field's word
    """An executable for a program on a device: ``exe(arrays) -> outputs``, with ``exe.report``."""
    key = ("executable", ctx.device_type, ctx.device_id)
    if key not in program.memo:
        program.memo[key] = _compile(program, ctx)
    return program.memo[key]


def _compile(program: Program, ctx: Context) -> Any:
    if has_calls(program):
        return StagedProgram(program, array_module(ctx), lambda part: compile(part, ctx))
    if ctx.device_type == "gpu":
        from .cuda.program import (JOINING, CudaProgram)  # noqa: PLC0415  CUDA parts load only where they are used
        array_module(ctx)
        return CudaProgram(plan(program, JOINING), ctx)
    if f"{__name__}.cpu" not in sys.modules:
        # what initializing took makes room for what loads now
        trim()
    with forking.IMPORTS:
        from . import cpu  # noqa: PLC0415  cffi loads only when something is compiled
    while cpu.has_compiler():
        try:
            return cpu.compiled(program)
        except CompileError as err:
            if not cpu.set_aside(err):
                break
    return ReferenceProgram(program)
