"""Packs operands of bfloat16 products, by square blocks of words (a word: two numbers that are neighbours along the
depth), transposed in registers where the operand is not stored in the result's order (hybrid/ir/pairs.py,
kernels/c/pairs.h)."""
from __future__ import annotations

from hybrid.ir.kernel import Kernel, strip_reshape

from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.lanes import half
from hybrid.codegen.loops import Printed, pointer_names, signature

LANES = 16                        # words of a vector, where a processor multiplies pairs
LEAST_PARALLEL = 1 << 17          # elements from which on the loop runs in threads


def print_c(k: Kernel, name: str) -> Printed:
    """A kernel that packs a matrix. The last block along the depth overlaps the one before it, as does the last one of
    rows; columns that a panel lacks are zero."""
    args, names = pointer_names(k)
    x, along, width = k.root.args[0], k.root.attrs["along"], k.root.attrs["width"]
    columns, depth = x.shape if along else x.shape[::-1]
    words, form = depth // 2, "along" if along else "across" if width else "turned"
    first = "ct" if width else f"ct < {columns - LANES} ? ct : {columns - LANES}"
    line, step = (f"c / {width} * {words * width} + c % {width} + k * {width}", width) if width else (
        f"c * {words} + k", words)
    at, stride = (f"c * {depth} + 2 * k", depth) if along else (f"2 * k * {columns} + c", columns)
    out, source = names[k.root], names[strip_reshape(x)]
    lines = [signature(name, args, 1), *([PARALLEL] if k.root.size >= LEAST_PARALLEL else []),
             f"for (long ct = 0; ct < {k.root.shape[0] * width if width else columns}; ct += {LANES}) {{",
             f"const long c = {first};", f"for (long kt = 0; kt < {words}; kt += {LANES}) {{",
             f"const long k = kt < {words - LANES} ? kt : {words - LANES};",
             f"hyv_pairs_{form}{half(x.dtype)}((hy_word *){out} + ({line}), {step}, {source} + ({at}), {stride}, "
             f"{columns} - c);", "}", "}", "}"]
    return Printed(name, "\n".join(lines), args, "call", vectors=True)                 # type: ignore[arg-type]
