"""The pipeline: a list of passes from a traced program to fused kernels with a memory plan."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..ir import Program
from ..ir.kernel import Fused
from .fold import fold
from .fuse import fuse
from .memory import MemoryPlan, plan_memory
from .verify import verify_program

PROGRAM_PASSES: list[tuple[str, Callable[[Program], Program]]] = [("fold", fold)]


@dataclass
class Planned:
    """A program ready for code generation."""
    source: Program
    fused: Fused
    memory: MemoryPlan


def plan(program: Program) -> Planned:
    """Run the pipeline."""
    verify_program(program, "trace")
    current = program
    for name, run in PROGRAM_PASSES:
        current = run(current)
        verify_program(current, name)
    fused = fuse(current)
    return Planned(program, fused, plan_memory(fused))
