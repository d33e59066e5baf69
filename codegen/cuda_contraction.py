"""Contractions in CUDA: a warp an output where one side is a few vectors, else 64x64 tiles in shared memory."""
from __future__ import annotations

import math

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Var, coefficient, linear
from hybrid.ir.kernel import Kernel

from .contraction import decode
from .cuda_pieces import Launch, PrintedCuda, THREADS, emitter, function, names_of
from .dialect import CUDA, is_half
from .emit import Block
from .operand import Matmul, matmul, root_index

TILE, DEPTH = 64, 16
FEW = 4


def print_contraction(k: Kernel, name: str) -> PrintedCuda:
    """CUDA of a contraction kernel."""
    assert k.dot is not None
    args, names = names_of(k)
    reads = {n: p for n, p in names.items() if n not in k.stores}
    for swap in (False, True):
        m = matmul(k.dot, reads, swap)
        if m.sizes[0] <= FEW and m.sizes[2] >= 32:
            return _warps(k, name, args, names, m)
    return _tiles(k, name, args, names, matmul(k.dot, reads, _swap_for_stores(k, reads)))


def _swap_for_stores(k: Kernel, reads: dict[Node, str]) -> bool:
    """Columns are the axis along which the root is contiguous."""
    assert k.dot is not None
    m = matmul(k.dot, reads, False)
    at = linear(k.root.shape, root_index(k, m.dot_index))
    return bool(m.rows) and coefficient(at, m.rows[-1]) == 1 and m.rows[-1].extent > 1


def _accumulator(k: Kernel) -> tuple[str, np.dtype]:
    assert k.dot is not None
    d = np.dtype(np.float32) if is_half(k.dot.dtype) else k.dot.dtype
    return CUDA.compute(d), d


def _loads(k: Kernel, names: dict[Node, str], m: Matmul, side: str) -> tuple[list[str], str]:
    """Statements that load one element of an operand at the current variables, and its name."""
    o = m.a if side == "a" else m.b
    e = emitter(k, names)
    e.count = 1000 if side == "a" else 2000
    block = Block(None, frozenset([*m.batch, *m.rows, *m.columns, *m.depth]))
    return block.lines, e.value(o.node, o.index, block)


def _finish(k: Kernel, names: dict[Node, str], m: Matmul, cell: str) -> list[str]:
    """The epilogue of one element: the root from the sum, and its store."""
    e = emitter(k, names)
    e.count = 3000
    e.given[k.dot] = lambda idx: cell                                       # type: ignore[index]
    at = root_index(k, m.dot_index)
    block = Block(None, frozenset([*m.batch, *m.rows, *m.columns]))
    value = e.value(k.root, at, block)
    return [*block.lines, e.store(names[k.root], k.root, at, value)]


def _rounded(k: Kernel, value: str) -> str:
    """A sum at the precision of the contraction's dtype."""
    d = k.dot.dtype                                                         # type: ignore[union-attr]
    return CUDA.half_load[d.name].format(CUDA.half_store[d.name].format(value)) if is_half(d) else value


def _warps(k: Kernel, name: str, args: list[Node], names: dict[Node, str], m: Matmul) -> PrintedCuda:
    """One warp computes one column for all rows; lanes walk the depth."""
    rows, columns, depth = m.sizes
    T, _ = _accumulator(k)
    batch = math.prod(v.extent for v in m.batch)
    a_lines, a = _loads(k, names, m, "a")
    b_lines, b = _loads(k, names, m, "b")
    count = batch * columns
    body = [f"long w = (long)blockIdx.x * {THREADS // 32} + threadIdx.x / 32;", f"if (w >= {count}) return;", f"long u = w / {columns}, c = w % {columns};",
            *decode("u", m.batch), *decode("c", m.columns), f"{T} acc[{rows}] = {{0}};",
            f"for (long kk = threadIdx.x % 32; kk < {depth}; kk += 32) {{", *("  " + s for s in decode("kk", m.depth)), *("  " + s for s in b_lines),
            "  #pragma unroll", f"  for (int r = 0; r < {rows}; r++) {{", *("    " + s for s in [*decode("r", m.rows), *a_lines]),
            f"    acc[r] += {a} * {b};", "  }", "}",
            "#pragma unroll", f"for (int r = 0; r < {rows}; r++) acc[r] = hy_warp_reduce(acc[r], hy_sum_op());",
            f"if (threadIdx.x % 32 < {rows}) {{", "  int r = threadIdx.x % 32;", f"  {T} sum = acc[0];",
            *(f"  if (r == {i}) sum = acc[{i}];" for i in range(1, rows)), f"  sum = {_rounded(k, 'sum')};", *("  " + s for s in decode("r", m.rows)),
            *("  " + s for s in _finish(k, names, m, "sum")), "}"]
    return PrintedCuda(function(name, args, len(k.stores), body), [Launch(name, -(-count // (THREADS // 32)), THREADS, args)])


def _tiles(k: Kernel, name: str, args: list[Node], names: dict[Node, str], m: Matmul) -> PrintedCuda:
    """256 threads compute a 64x64 tile, 4x4 sums each, over slices of depth 16 in shared memory."""
    rows, columns, depth = m.sizes
    T, _ = _accumulator(k)
    batch = math.prod(v.extent for v in m.batch)
    rt, ct = -(-rows // TILE), -(-columns // TILE)
    a_lines, a = _loads(k, names, m, "a")
    b_lines, b = _loads(k, names, m, "b")
    a_major = bool(m.depth) and m.a.stride(m.depth[-1]) == 1               # neighbouring threads read neighbouring memory
    b_major = bool(m.depth) and m.b.stride(m.depth[-1]) == 1
    body = [f"__shared__ {T} As[{DEPTH}][{TILE + 4}];", f"__shared__ {T} Bs[{DEPTH}][{TILE + 4}];",
            f"long u = blockIdx.x / {rt * ct}; long tile = blockIdx.x % {rt * ct};", *decode("u", m.batch),
            f"long r0 = tile / {ct} * {TILE}, c0 = tile % {ct} * {TILE};", "int tx = threadIdx.x % 16, ty = threadIdx.x / 16;",
            f"{T} acc[4][4] = {{}};", f"for (long k0 = 0; k0 < {depth}; k0 += {DEPTH}) {{",
            *("  " + s for s in _fill("As", "r0", rows, depth, a_major, [*a_lines], a, m.rows, m.depth)),
            *("  " + s for s in _fill("Bs", "c0", columns, depth, b_major, [*b_lines], b, m.columns, m.depth)),
            "  __syncthreads();", "  #pragma unroll", f"  for (int q = 0; q < {DEPTH}; q++) {{", f"    {T} x[4], y[4];", "    #pragma unroll",
            "    for (int i = 0; i < 4; i++) { x[i] = As[q][ty + 16 * i]; y[i] = Bs[q][tx + 16 * i]; }", "    #pragma unroll",
            "    for (int i = 0; i < 4; i++)", "      #pragma unroll", "      for (int j = 0; j < 4; j++) acc[i][j] += x[i] * y[j];", "  }",
            "  __syncthreads();", "}", "#pragma unroll", "for (int i = 0; i < 4; i++) {", "  #pragma unroll", "  for (int j = 0; j < 4; j++) {",
            "    long rr = r0 + ty + 16 * i, cc = c0 + tx + 16 * j;", f"    if (rr < {rows} && cc < {columns}) {{",
            *("      " + s for s in [*decode("rr", m.rows), *decode("cc", m.columns), f"{T} sum = {_rounded(k, 'acc[i][j]')};", *_finish(k, names, m, "sum")]),
            "    }", "  }", "}"]
    return PrintedCuda(function(name, args, len(k.stores), body), [Launch(name, batch * rt * ct, THREADS, args)])


def _fill(shared: str, start: str, extent: int, depth: int, depth_major: bool, lines: list[str], value: str, vs: list[Var], ds: list[Var]) -> list[str]:
    """Load a slice of an operand into shared memory, zero outside."""
    split = (f"int q = e % {DEPTH}, s = e / {DEPTH};" if depth_major else f"int s = e % {TILE}, q = e / {TILE};")
    return ["#pragma unroll 1" if len(lines) > 8 else "#pragma unroll", f"for (int e = threadIdx.x; e < {TILE * DEPTH}; e += {THREADS}) {{", "  " + split,
            f"  long at = {start} + s, kk = k0 + q;", f"  {shared}[q][s] = 0;", f"  if (at < {extent} && kk < {depth}) {{",
            *("    " + s for s in [*decode("at", vs), *decode("kk", ds), *lines]), f"    {shared}[q][s] = {value};", "  }", "}"]
