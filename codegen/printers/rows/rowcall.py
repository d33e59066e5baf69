"""Calls of row kernels: their text with the element type written in, and a loop over rows (C) or a block a row
(CUDA)."""
from __future__ import annotations

import math
from functools import cache
from typing import Sequence

import numpy as np

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel, strip_reshape
from hybrid.ir.rowcall import ROW_KERNELS, own_shapes
from hybrid.ir.size import fixed, hint
from hybrid.kernels import text as kernel_text

from hybrid.codegen.printers.cuda.pieces import PrintedCuda, launched, names_of
from hybrid.codegen.dialect import C, CUDA, PARALLEL, Dialect
from hybrid.codegen.loops import KernelPrinter, Printed
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import Target

THREADS = 128
MANY = 4097                     # elements of which threads do different rows
LANES = {"c": "#define HY_LANE 0\n#define HY_LANES 1\n#define HY_SYNC\n",
         "cuda": "#define HY_LANE threadIdx.x\n#define HY_LANES blockDim.x\n#define HY_SYNC __syncthreads()\n"}


@cache
def _text(header: str) -> str:
    return kernel_text("include", header)


def support(kernels: Sequence[Kernel], d: Dialect) -> str:
    """The texts that the kernels call, each once for each type."""
    used = {(ROW_KERNELS[k.root.attrs["name"]].header, k.root.dtype) for k in kernels if k.root.prim == "rows"}
    if not used:
        return ""
    return LANES[d.name] + "\n".join(_typed(_text(header), t, d) for header, t in sorted(used, key=str)) + "\n"


def _typed(text: str, t: np.dtype, d: Dialect) -> str:
    """The text for one element type."""
    suffix, builtin = "" if t == np.float64 else "f", "__builtin_" if d.name == "c" else ""
    for name, c in (("SQRT", "sqrt"), ("ABS", "fabs"), ("LOG", "log")):
        text = text.replace(f"HY_{name}(", f"{builtin}{c}{suffix}(")
    return text.replace("HY_EPS", f"{np.finfo(t).eps!s}{suffix}").replace("HY_T", d.storage(t))


def call(root: Node, names: dict[Node, str], d: Dialect, row: str) -> str:
    """The call for one row."""
    kernel = ROW_KERNELS[root.attrs["name"]]
    own = own_shapes(kernel, [a.shape for a in root.args])
    mine = root.shape[len(root.args[0].shape) - len(own[0]):]
    pointers = [f"{names[strip_reshape(a)]} + {row} * {math.prod(s)}" for a, s in zip(root.args, own)]
    numbers = [d.literal(v, root.dtype) if isinstance(v, float) else str(int(v) if fixed(v) else v)
               for v in kernel.params(own, root.attrs["params"])]
    return (f"hy_{kernel.name}_{d.storage(root.dtype)}({', '.join([f'{names[root]} + {row} * {math.prod(mine)}', *pointers, *numbers])});")  # noqa: E501


def _rows(root: Node) -> int:
    return math.prod(root.args[0].shape[:root.args[0].ndim - ROW_KERNELS[root.attrs["name"]].ranks[0]])


def print_c(k: Kernel, name: str, target: Target) -> Printed:
    """A loop over the rows, the same for all targets."""
    p, rows = KernelPrinter(k, name), _rows(k.root)
    size = k.root.args[0].size
    pragma = [where_it_pays(PARALLEL, size, hint(size), MANY)] if hint(rows) > 1 else []
    return p.kernel([*filter(None, pragma), f"for (long r = 0; r < {rows}; r++) {call(k.root, p.names, C, 'r')}"])


def print_cuda(k: Kernel, name: str) -> PrintedCuda:
    """A block for each row."""
    args, names = names_of(k)
    body = ["long long r = blockIdx.x;", call(k.root, names, CUDA, "r")]
    return launched(name, args, 1, body, _rows(k.root), THREADS)
