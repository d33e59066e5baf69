"""A schedule: rows of an array are copied by memcpy."""
from __future__ import annotations

from hybrid.codegen.lanes import Refused
from hybrid.codegen.loops import Printed, pointer_names, signature
from hybrid.codegen.schedule.registered import Form, register
from hybrid.codegen.schedule.tiling import Target
from hybrid.ir.kernel import Kernel


def print_c(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel that gives rows of an array."""
    n = k.root
    if n.prim != "slice" or n.args[0] not in k.reads or n.shape[1:] != n.args[0].shape[1:] or n.attrs["step"][0] != 1:
        raise Refused("more than a copy of rows")
    args, _ = pointer_names(k)
    first = n.attrs["begin"][0] * n.size // n.shape[0]
    return Printed(name, f"{signature(name, args, 1)}\n  __builtin_memcpy(p0, p1 + {first}, {n.nbytes});\n}}", args,
                   k.kind)


register(Form("memcpy", print_c, "1"))
