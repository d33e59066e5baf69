"""The programs and the tables of operators through another C compiler: ``HYBRID_CC=tcc python -c "from
tests.codegen import target_worker; target_worker.main()"`` prints how many of each kind ran, and what was
wrong (test_targets.py)."""
from __future__ import annotations

import json
from typing import Iterator

import numpy as np

from hybrid.runtime import cpu, toolchain

from .. import programs
from . import sanit_programs
from ..ops.op_cases_index import CASES, Case
from .sanit_worker import copied, wrong
from .sanit_worker import run as run_in_blocks


def operators() -> Iterator[tuple[str, str]]:
    """Each row of the tables: its name, and what is wrong."""
    for i, case in enumerate(CASES):
        yield f"{i} {case.name}", checked(case)


def checked(case: Case) -> str:
    """What is wrong with an operator's results, or nothing. Its gradient compiles and runs too."""
    exe = cpu.compiled(case.program())
    got = exe([copied(x) for x in case.inputs])
    for a, b in zip(got, case.expected(), strict=True):
        try:
            np.testing.assert_allclose(np.asarray(a, b.dtype), b, rtol=20 * case.tol, atol=20 * case.tol)
        except AssertionError as err:
            return str(err)
    return ""


def whole_programs() -> Iterator[tuple[str, str]]:
    """Programs of every kind of kernel and their gradients, compared with float64."""
    found = [*((n, c, 1e-3) for n, c in programs.cases().items()), *sanit_programs.sized((5, 17))]
    for name, case, tol in found:
        exe = cpu.compiled(case[0])
        yield name, wrong(case, *run_in_blocks(exe, case[1]), tol)


def main() -> None:
    """Everything; a line of JSON."""
    out = {"target": toolchain.target().name, "vector": toolchain.vector_bytes()}
    for kind, run in (("operators", operators), ("programs", whole_programs)):
        done = dict(run())
        out[kind] = [len(done), {name: said for name, said in done.items() if said}]
    print(json.dumps(out), flush=True)
