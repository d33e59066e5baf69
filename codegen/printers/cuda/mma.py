"""Matrix products of half types on tensor cores (mma.sync m16n8k16, sums in float): tiles of both operands in shared
memory with the depth innermost, 8 warps that own a part of the result each, the next slice on its way in registers.
"""
from __future__ import annotations

from hybrid.base.dtype import is_half
from .pieces import THREADS, PrintedCuda
from .product import Product, share_depth
from .tile import Fill, tile_cost

DEPTH = 32                      # of a slice: two steps of the tensor cores
SKEW = 8                        # elements between the lines of a slice, so that a warp's loads meet different banks
SIDES = ((128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (32, 32))
FUNCTION = {"float16": "hy_mma_half", "bfloat16": "hy_mma_bf16"}


def takes_mma(p: Product) -> bool:
    """Whether a product is one for tensor cores."""
    return is_half(p.dot.dtype) and all(a.dtype == p.dot.dtype
                                        for a in p.dot.args) and p.rows > 4 and p.columns > 4 and p.depth >= 8


def _pick(p: Product) -> tuple[int, int]:
    """Sides of the tile that finishes first. Elements that are computed on the way take registers: then fewer of
    them."""
    most = [128 if o.address is not None else 64 for o in (p.m.a, p.m.b)]
    return min((t for t in SIDES if t[0] <= most[0] and t[1] <= most[1]),
               key=lambda t: tile_cost(p, t[0], t[1], t[0] * t[1] / 2048 + 1.5 * (t[0] + t[1]) / 32))


def print_mma(p: Product) -> PrintedCuda:
    """Warps in 2 rows and 4 columns; a warp's sums are pieces of 16 x 8."""
    bm, bn = _pick(p)
    mi, ni = bm // 32, bn // 32
    line = DEPTH + SKEW
    rt, ct = -(-p.rows // bm), -(-p.columns // bn)
    parts = share_depth(p.batch * rt * ct, p.depth, 256)
    step = -(-p.depth // (parts * DEPTH)) * DEPTH
    parts = -(-p.depth // step)
    fills = [Fill(p, side, size, DEPTH, True) for side, size in (("a", bm), ("b", bn))]
    slices, sums = 2 * (bm + bn) * line * 2, 32 * (bn + 4) * 4
    kind, part = p.kind, None if parts == 1 else f"({p.kind})part"
    body = [f"__shared__ __align__(16) unsigned char memory[{max(slices, sums)}];",
            f"unsigned short (*As)[{bm}][{line}] = (unsigned short (*)[{bm}][{line}])memory;",
            f"unsigned short (*Bs)[{bn}][{line}] = (unsigned short (*)[{bn}][{line}])(memory + {2 * bm * line * 2});",
            f"unsigned part = blockIdx.x % {parts}u, tile = blockIdx.x / {parts}u % {rt * ct}u;",
            f"{kind} u = ({kind})(blockIdx.x / {parts * rt * ct}u);",
            f"{kind} r0 = ({kind})(tile / {ct}u) * {bm}, c0 = ({kind})(tile % {ct}u) * {bn}, low = ({kind})part * "
            f"{step};",
            f"{kind} high = low + {step} < {p.depth} ? low + {step} : {p.depth};",
            "HY_ASSUME(u >= 0 && r0 >= 0 && c0 >= 0 && low >= 0);",
            *p.decode("u", p.m.batch),
            "int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2, buffer = 0;",
            f"int top = warp / 4 * {bm // 2}, left = warp % 4 * {bn // 4};", f"float acc[{mi}][{ni}][4] = {{}};",
            *(s for f in fills for s in f.declare("__align__(16) unsigned short")), "#pragma unroll 1",
            f"for ({kind} k0 = low;; k0 += {DEPTH}) {{", "  if (k0 < high) {",
            *("    " + s for f in fills for s in f.load("high")), "  }", "  if (k0 > low) {", "    #pragma unroll",
            f"    for (int d = 0; d < {DEPTH}; d += 16) {{",
            *("      " + s for s in _step(p, mi, ni)), "    }", "    buffer ^= 1;", "  }",
            "  if (k0 >= high) break;", *("  " + s for f,
                                          to in zip(fills, ("As[buffer]", "Bs[buffer]")) for s in f.keep_by_side(to)),
            "  __syncthreads();", "}", *_store(p, mi, ni, bm, bn, part)]
    return p.printed(body, p.batch * rt * ct * parts, THREADS, parts)


def _step(p: Product, mi: int, ni: int) -> list[str]:
    """16 deep: both operands' pieces from shared memory, and their products."""
    def word(to: str, row: str, depth: str) -> str:
        return f"*(const unsigned *)&{to}[buffer][{row}][d + pair{depth}]"
    return [f"unsigned a[{mi}][4], b[{ni}][2];", "#pragma unroll", f"for (int i = 0; i < {mi}; i++) {{",
            *(f"  a[i][{n}] = {word('As', f'top + i * 16 + g{row}', depth)};" for n, (row, depth) in
              enumerate((("", ""), (" + 8", ""), ("", " + 8"), (" + 8", " + 8")))), "}",
            "#pragma unroll", f"for (int j = 0; j < {ni}; j++) {{",
            *(f"  b[j][{n}] = {word('Bs', 'left + j * 8 + g', depth)};" for n, depth in enumerate(("", " + 8"))), "}",
            "#pragma unroll", f"for (int i = 0; i < {mi}; i++)", "  #pragma unroll",
            f"  for (int j = 0; j < {ni}; j++) {FUNCTION[p.dot.dtype.name]}(acc[i][j], a[i], b[j]);"]


def _store(p: Product, mi: int, ni: int, bm: int, bn: int, part: str | None) -> list[str]:
    """The tile, 16 rows of both rows of warps at a time through shared memory, finished by neighbouring threads."""
    return [f"float (*S)[{bn + 4}] = (float (*)[{bn + 4}])memory;", "#pragma unroll 1",
            f"for (int turn = 0; turn < {mi}; turn++) {{", "  __syncthreads();",
            "  #pragma unroll", f"  for (int i = 0; i < {mi}; i++)", "    if (i == turn) {", "      #pragma unroll",
            f"      for (int j = 0; j < {ni}; j++)",
            "        #pragma unroll",
            "        for (int n = 0; n < 4; n++) S[warp / 4 * 16 + g + n / 2 * 8][left + j * 8 + pair + n % 2] = "
            "acc[i][j][n];", "    }",
            "  __syncthreads();", "  #pragma unroll 1",
            f"  for (int e = threadIdx.x; e < {32 * bn}; e += {THREADS}) {{",
            f"    int line = e / {bn}, column = e % {bn};",
            f"    {p.kind} rr = r0 + line / 16 * {bm // 2} + turn * 16 + line % 16, cc = c0 + column;",
            *("    " + s for s in p.last("rr", "cc", "S[line][column]", part)), "  }", "}"]
