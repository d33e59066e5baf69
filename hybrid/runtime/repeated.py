"""Programs of eager operators that come again and again: processes beside this one compile them, and NumPy's functions
make way when they are ready.

What NumPy does in one step it does as fast; a convolution's or a pooling's gradient takes it many, with copies between
them. Nobody waits for the compiler, and small or rare operators are never compiled.
"""
from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

from ..base import config, forking
from ..ir import Program
from ..ir.text import to_text
from ..passes.host_rows import on_host
from . import ReferenceProgram, _compile_here
from .pending import PendingProgram, pending
from .staged import has_calls

CALLS = 16                       # calls after which a program is worth compiling
ELEMENTS = 1 << 16               # that all its steps make together, at least
_KEY = "repeated"


def compiled(program: Program) -> Callable[[Any], list[Any]] | None:
    """The compiled form of a program of arrays on the CPU: ``f(arrays) -> outputs``; None as long as there is none."""
    state = program.memo.get(_KEY, 0)
    if type(state) is int:
        if state < CALLS:
            program.memo[_KEY] = state + 1
            return None
        state = program.memo[_KEY] = _asked_for(program)
    if type(state) is PendingProgram:
        made = state.settled()
        if made is None:
            return None
        state = program.memo[_KEY] = None if type(made) is ReferenceProgram else made
    return state if state is not None and config.compiles_eager() else None       # type: ignore[return-value]


def _asked_for(program: Program) -> Any:
    """The compiled form where the cache has it, a promise of it otherwise; None where it does not pay or may not be."""
    steps = [n for n in program.order() if n.prim != "input"]
    if len(steps) < 2 or sum(n.size for n in steps) < ELEMENTS or program.updates or not config.compiles_eager():
        return None
    with forking.IMPORTS:
        from . import cpu, plans                            # noqa: PLC0415  cffi loads when something is compiled
    if not cpu.has_compiler() or has_calls(on_host(program)) or sys.is_finalizing():
        return None
    name = plans.key(program, frozenset())
    if name is None:
        return None
    if plans.read(name) is not None:
        made = _compile_here(program)
        return None if type(made) is ReferenceProgram else made
    return pending(program, name, frozenset(), to_text(program), _compile_here)


def of_arrays(program: Program, raws: Any) -> list[Any] | None:
    """Outputs by the compiled form, where there is one and the arrays are NumPy's; else None."""
    run = compiled(program)
    if run is None or not all(type(x) is np.ndarray for x in raws):
        return None
    return run(list(raws))
