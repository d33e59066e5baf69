"""Background compilation of eager operators. A program of an eager operator runs on NumPy; after CALLS calls another
process compiles it, and the compiled form is used once it is ready.

That is worth it for operators that take several of NumPy's steps with temporaries (gradients of convolutions and
pools; functions that NumPy does not have, as erf). Programs of one step, and small ones, are never compiled, and no
call waits.
"""
from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

from ..base import config, forking
from ..ir import Program
from ..passes.host_rows import on_host
from . import ReferenceProgram, _compile_here
from .pending import PendingProgram, begun
from .staged import has_calls

CALLS = 16                       # calls after which a program is worth compiling
ELEMENTS = 1 << 16               # least total of elements that the program's steps make
_KEY = "repeated"
# primitives that NumPy has no work with: numbers, and other shapes of what is there
_NO_STEP = frozenset({"input", "const", "data", "reshape", "expand", "detach"})
# functions of one element (ir/scalar.py) that take several of NumPy's steps
_SEVERAL = frozenset("erf erfinv gamma gammaln digamma trigamma sigmoid softplus rsqrt round direction".split())


def worth_compiling(program: Program) -> bool:
    """Whether a program takes several of NumPy's steps with many elements, and such programs are compiled."""
    steps = [n for n in program.order() if n.prim not in _NO_STEP]
    several = len(steps) > 1 or any(n.prim == "map" and n.attrs["fn"] in _SEVERAL for n in steps)
    return several and sum(n.size for n in steps) >= ELEMENTS and config.compiles_eager()


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
    """The compiled form from the cache, a PendingProgram while it compiles, or None if compiling is not worth it or not
    possible."""
    if program.updates or not worth_compiling(program):
        return None
    with forking.IMPORTS:
        from . import cpu                                   # noqa: PLC0415  cffi loads when something is compiled
    if not cpu.has_compiler() or has_calls(on_host(program)) or sys.is_finalizing():
        return None
    made = begun(program, frozenset(), _compile_here)
    return None if type(made) is ReferenceProgram else made


def of_arrays(program: Program, raws: Any) -> list[Any] | None:
    """Outputs by the compiled form, where there is one and the arrays are NumPy's; else None."""
    run = compiled(program)
    if run is None or not all(type(x) is np.ndarray for x in raws):
        return None
    return run(list(raws))
