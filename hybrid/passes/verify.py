"""The verifier: what must hold between passes. Run when HYBRID_VERIFY=1 (always in the tests)."""
from __future__ import annotations

from ..base import config
from ..base.errors import HybridError
from ..ir import PRIMS, SCALARS, Program
from ..ir.kernel import WITH_SIDES, Fused


def verify_program(program: Program, stage: str) -> None:
    """Every node is a known primitive whose inferred shape and dtype are the ones it carries; inputs are the
    program's."""
    if not config.verify():
        return
    for n in program.order():
        if n.prim not in PRIMS:
            raise HybridError(f"after {stage}: unknown primitive {n.prim}")
        if n.prim == "map" and n.attrs["fn"] not in SCALARS:
            raise HybridError(f"after {stage}: unknown scalar function {n.attrs['fn']}")
        if n.prim == "input":
            slot = n.attrs["slot"]
            if slot >= len(program.inputs) or program.inputs[slot] is not n:
                raise HybridError(f"after {stage}: {n!r} is not an input of the program")
            continue
        shape, dtype = PRIMS[n.prim].infer(n.args, **n.attrs)
        if tuple(shape) != n.shape or dtype != n.dtype:
            raise HybridError(f"after {stage}: {n!r} should be {dtype}{shape}")
        if n.prim == "map" and n.attrs["fn"] != "where" and len({a.dtype for a in n.args}) != 1:
            raise HybridError(f"after {stage}: {n!r} takes mixed dtypes {[a.dtype.name for a in n.args]}")


def verify_kernels(fused: Fused) -> None:
    """Only kernels whose printers store a result a row have such results."""
    if config.verify():
        for k in fused.kernels:
            if k.sides and k.kind not in (*WITH_SIDES, "contraction"):
                raise HybridError(f"after fusing: a {k.kind} kernel has results a row: {[n for n, _ in k.sides]}")
