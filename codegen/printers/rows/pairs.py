"""Packs operands of bfloat16 products by words (two numbers that are neighbours along the depth) into panels or tiles
(hybrid/ir/pairs.py, kernels/c/pairs.h): square blocks of words are transposed in registers where the operand is stored
along the depth; otherwise vectors of two neighbouring steps of the depth are put beside each other."""
from __future__ import annotations

from hybrid.ir.kernel import Kernel, strip_reshape
from hybrid.ir.pairs import LANES, words_of
from hybrid.ir.size import hint

from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.lanes import half
from hybrid.codegen.loops import Printed, pointer_names, signature
from hybrid.codegen.nest import Cut
from hybrid.codegen.program.size_parameters import literal, where_it_pays
from hybrid.codegen.schedule.tiling import Target

LEAST_PARALLEL = 1 << 17          # elements from which on the loop runs in threads


def print_c(k: Kernel, name: str, target: Target) -> Printed:
    """A kernel that packs a matrix, on processors whose vectors have ``LANES`` words."""
    args, names = pointer_names(k)
    x, a = k.root.args[0], k.root.attrs
    columns, depth = x.shape if a["along"] else x.shape[::-1]
    out, source = f"(hy_word *){names[k.root]}", names[strip_reshape(x)]
    body = (_along if a["along"] else _tiles if a["tile"] else _across)(
        half(x.dtype), out, source, columns, depth, a["tile"] or a["width"])
    pragma = where_it_pays(PARALLEL, k.root.size, hint(k.root.size), LEAST_PARALLEL)
    return Printed(name, "\n".join([signature(name, args, 1), *([pragma] if pragma else []), *body, "}"]), args, "call",
                   vectors=True)


def _along(kind: str, out: str, source: str, columns: int, depth: int, width: int) -> list[str]:
    """Panels of columns that lie along the depth. The last block along the depth overlaps the one before it; columns
    that a panel lacks are zero."""
    words = depth // 2
    return [f"for (long c = 0; c < {-(-columns // width) * width}; c += {LANES})",
            f"for (long kt = 0; kt < {words}; kt += {LANES}) {{",
            f"const long k = kt < {words - LANES} ? kt : {words - LANES};",
            f"hyv_pairs_along{kind}({out} + (c / {width} * {words * width} + c % {width} + k * {width}), {width}, "
            f"{source} + (c * {depth} + 2 * k), {depth}, {columns} - c);", "}"]


def _across(kind: str, out: str, source: str, columns: int, depth: int, width: int) -> list[str]:
    """Panels of columns that are neighbours."""
    words = words_of(depth)
    return [f"for (long c = 0; c < {-(-columns // width) * width}; c += {LANES})",
            f"hyv_pairs_across{kind}({out} + (c / {width} * {literal(words * width)} + c % {width}), {width}, "
            f"{source} + c, {columns}, {columns} - c, {LANES}, {depth}, {words});"]


def _tiles(kind: str, out: str, source: str, columns: int, depth: int, most: int) -> list[str]:
    """Tiles of columns that are neighbours."""
    tiles, words = Cut.even(columns, most), words_of(depth)
    return [f"for (long t = 0; t < {tiles.count}; t++) {{",
            f"const long c = {tiles.first('t')}, size = {tiles.rows('t')};",
            f"for (long j = 0; j < size; j += {LANES})",
            f"hyv_pairs_across{kind}({out} + (c * {literal(words)} + j), size, {source} + (c + j), {columns}, "
            f"size - j, size - j, {depth}, {words});", "}"]
