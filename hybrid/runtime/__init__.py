"""Running programs: compiled C, CUDA, or the reference backend."""
from __future__ import annotations

import functools
import sys
import time
from typing import Any, Callable, Sequence

import numpy as np

from ..base import config, forking
from ..base.device import Context, array_module, trim
from ..base.errors import CompileError
from ..ir import Program
from ..ir.at_sizes import AtSizes
from ..passes.host_rows import on_host
from ..passes.pipeline import plan
from . import progress
from .background import queue
from .job import Job
from .coming import ComingSized
from .observers import OBSERVERS, observed
from .pending import PendingProgram, begun, run_by_primitives
from .report import Report, make_report
from .staged import StagedProgram, has_calls

SETTINGS_CHANGED = [0]                   # grows with each change of settings that programs are compiled by


class ReferenceProgram:
    """The reference backend with the interface of a compiled program."""

    def __init__(self, program: Program, xp: Any = np):
        self.program, self.xp = program, xp

    @functools.cached_property
    def report(self) -> Report:
        """What the passes would decide; there are no kernels."""
        report = make_report(plan(self.program), "reference")
        report.kernels = []
        return report

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run; updated inputs are written in place."""
        return run_by_primitives(self.program, arrays, self.xp)


def compile(program: Program, ctx: Context) -> Callable[[Sequence[Any]], list[Any]]:  # noqa: A001  the field's word
    """An executable for a program on a device: ``exe(arrays) -> outputs``, with ``exe.report``."""
    key = ("executable", ctx.device_type, ctx.device_id, SETTINGS_CHANGED[0])
    found = program.memo.get(key)
    if found is None:
        found = program.memo[key] = _told(program, ctx)
    elif type(found) is PendingProgram and (made := found.settled(config.compile_mode() == "now")) is not None:
        found = program.memo[key] = made
    return found


def known(program: Program, ctx: Context, exe: Any) -> None:
    """Have a program run by an executable that is there already."""
    program.memo["executable", ctx.device_type, ctx.device_id, SETTINGS_CHANGED[0]] = exe


def words(ctx: Context) -> frozenset[str]:
    """Types of few bits whose products programs on a device do by the processor's own instructions."""
    if ctx.device_type != "cpu":
        return frozenset()
    from . import toolchain                          # noqa: PLC0415  few programs ask
    return toolchain.words()


def executables(program: Program, ctx: Context) -> list[Any]:
    """What a program runs by, as far as it was asked for: several where it calls Python code on the way."""
    found = program.memo.get(("executable", ctx.device_type, ctx.device_id, SETTINGS_CHANGED[0]))
    if found is None:
        return []
    if type(found) is StagedProgram:
        return [exe for part in found.parts() for exe in executables(part, ctx)]
    return [found]


def compiler_runs(exe: Any) -> tuple[str, int, int]:
    """The state of an executable (jit/programs.py), and runs of the C compiler for it in this process: those that a
    caller waited for, and those in the background."""
    if type(exe) is PendingProgram:
        made = exe.settled()
        return ("waiting", 0, 1) if made is None else compiler_runs(made)
    if type(exe) is ComingSized:
        return exe.runs()
    if type(exe) is ReferenceProgram:
        return "not compiled", 0, 0
    return "compiled", exe.compiled_here, exe.compiled_behind


def run(program: Program, ctx: Context, raw: list[Any]) -> list[Any]:
    """Outputs of a program, compiled at the first call; whoever observes the calls of programs sees this one."""
    exe = compile(program, ctx)
    return observed(program, exe, raw) if OBSERVERS else exe(raw)


def waits_for_compiler(program: Program, ctx: Context, calls: int = 0, seconds: float = 0.0) -> bool:
    """Whether a program that was asked for runs without its compiled form still. calls, seconds: that do without it
    now, and what they took."""
    exe = compile(program, ctx)
    every = [compile(part, ctx) for part in exe.parts()] if type(exe) is StagedProgram else [exe]
    waiting = [e for e in every if type(e) is PendingProgram]
    for e in waiting:
        e.job.count(calls, seconds)
    return bool(waiting)


def set_aside(program: Program, ctx: Context) -> None:
    """Have a program that waits for a compiler wait until it is asked for again: others come before it."""
    for e in executables(program, ctx):
        if type(e) is PendingProgram:
            queue().set_aside(e.job)


def _told(program: Program, ctx: Context) -> Any:
    """An executable, and what is told of its making."""
    name, begin = program.memo.get("name") or "a program", time.perf_counter()
    with progress.announced(name):
        made = _compile(program, ctx)
    progress.compiled(name, made, time.perf_counter() - begin)
    return made


def _whole(program: AtSizes, ctx: Context) -> Any:
    return program.shared(("executable", ctx, SETTINGS_CHANGED[0]), lambda: compile(program.whole, ctx))


def being_built(program: Program, ctx: Context) -> Job | None:
    """The job of building a program for any size, where a program is one size of it and it is not built yet."""
    found = _whole(program, ctx) if type(program) is AtSizes else None
    return found.job if type(found) is ComingSized and not found.job.ended.is_set() else None


def _of_whole(program: AtSizes, ctx: Context) -> Any:
    """The executable of one size, of the compiled symbolic program; None where that one cannot be had."""
    found = _whole(program, ctx)
    if type(found) is ComingSized:
        return found.of_size(program, lambda alone: _compile(alone, ctx))
    return found.at(program.values) if hasattr(found, "at") else None


def _compile(program: Program, ctx: Context) -> Any:
    if type(program) is AtSizes:
        return _of_whole(program, ctx) or _compile(program.alone(), ctx)
    if ctx.device_type != "gpu":
        program = on_host(program)
    if has_calls(program):
        return StagedProgram(program, array_module(ctx), lambda part: compile(part, ctx))
    if ctx.device_type == "gpu":
        from .cuda.program import (CudaProgram, planned_for)  # noqa: PLC0415  CUDA parts load only where they are used
        array_module(ctx)
        return CudaProgram(planned_for(program, ctx, program.memo.get("frozen", frozenset())), ctx)
    if f"{__name__}.cpu" not in sys.modules:
        # what initializing took makes room for what loads now
        trim()
    with forking.IMPORTS:
        from . import cpu, sized, warmed  # noqa: PLC0415  cffi loads only when something is compiled
    mode = config.compile_mode()
    if sized.sized(program):
        if mode == "background":
            return sized.SizedProgram.ready(program) or ComingSized(
                program, sized.SizedProgram, sized.SizedProgram.ready)
        return sized.SizedProgram(program)
    if mode != "never" and warmed.folder() is not None and (found := cpu.ready(program)) is not None:
        return found
    if mode == "background" and cpu.has_compiler():
        return begun(program, program.memo.get("frozen", frozenset()), _compile_here)
    return ReferenceProgram(program) if mode == "never" else _compile_here(program)


def _compile_here(program: Program) -> Any:
    """An executable on the CPU, made while the caller waits."""
    from . import cpu  # noqa: PLC0415  as above

    while cpu.has_compiler():
        try:
            made = cpu.compiled(program)
            cpu.follow_preparation(program, made)
            return made
        except CompileError as err:
            if not cpu.set_aside(err):
                break
    return ReferenceProgram(program)
