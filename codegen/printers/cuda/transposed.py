"""Elementwise CUDA kernels that read across memory: a block copies a square of what it reads into shared memory, in
the order in which that lies, and computes the results of the square in theirs."""
from __future__ import annotations

import math
from collections import Counter

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Var, coefficient, linear, text, var, variables
from hybrid.ir.kernel import Kernel

from .pieces import THREADS, CudaEmitter, PrintedCuda, index_type, launched, names_of
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.lanes import Refused
from hybrid.codegen.schedule.tiling import decode

SIDE = 32                       # of a square; its lines are one element longer, so that columns meet all banks
LINES = THREADS // SIDE
FROM = 1 << 16                  # elements from which memory is read more than once where it is read across
SHORT = 16                      # axes that fill no square
MOST = 40960                    # bytes of shared memory


class _Tiled(CudaEmitter):
    """Emits an element; what lies along ``along`` in memory is read from squares. squares: their names, by what is
    read and where."""
    along: Var | None
    last: Var
    squares: dict[tuple[Node, Ix], str]
    seen: Counter[Var]

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        x = linear(n.shape, idx)
        neighbours = [v for v in variables(x) if isinstance(v, Var) and coefficient(x, v) == 1]
        if guard or self.last in neighbours or not neighbours:
            return super()._load(n, idx, guard, block)
        self.seen.update(neighbours)
        if self.along not in neighbours:
            return super()._load(n, idx, guard, block)
        name = self.squares.setdefault((n, x), f"square{len(self.squares)}")
        cell = f"{name}[{self.last.name} - b0][{self.along.name} - a0]"          # type: ignore[union-attr]
        return self.let(block, n.dtype, CUDA.half_load[n.dtype.name].format(cell) if is_half(n.dtype) else cell)


def print_transposed(k: Kernel, name: str) -> PrintedCuda:
    """CUDA of an elementwise kernel; Refused where it does not read across memory, or has few elements."""
    root = k.root
    if k.kind != "elementwise" or root.size < FROM or k.over is not None or k.extra or k.sides or root.ndim < 2:
        raise Refused("not elementwise alone, or of few elements")
    args, names = names_of(k)
    axes = [Var(f"i{a}", n) for a, n in enumerate(root.shape)]
    found = _emitted(k, names, axes, None)[0].seen
    along = next((v for v, _ in found.most_common() if v.extent >= SHORT), None)
    if along is None or axes[-1].extent < SHORT:
        raise Refused("nothing is read across memory, or short axes are")
    e, lines = _emitted(k, names, axes, along)
    if sum(n.dtype.itemsize for n, _ in e.squares) * SIDE * (SIDE + 1) > MOST:
        raise Refused("it reads too many arrays across memory")
    return launched(name, args, 1, _body(k, names, axes, along, e, lines), _blocks(axes, along))


def _emitted(k: Kernel, names: dict[Node, str], axes: list[Var], along: Var | None) -> tuple[_Tiled, list[str]]:
    """Statements that compute and store an element, and what emitted them."""
    e = _Tiled(CUDA, {n: p for n, p in names.items() if n is not k.root}, index=index_type(k))
    e.along, e.last, e.squares, e.seen = along, axes[-1], {}, Counter()
    block, at = Block(None, frozenset(axes)), tuple(map(var, axes))
    e.put(names[k.root], k.root, at, block)
    return e, block.lines


def _blocks(axes: list[Var], along: Var) -> int:
    others = math.prod(v.extent for v in axes[:-1] if v != along)
    return others * -(-along.extent // SIDE) * -(-axes[-1].extent // SIDE)


def _body(k: Kernel, names: dict[Node, str], axes: list[Var], along: Var, e: _Tiled, lines: list[str]) -> list[str]:
    """The squares are read, then the elements computed; a warp takes a line of a square."""
    kind, last = index_type(k), axes[-1]
    down, across = -(-along.extent // SIDE), -(-last.extent // SIDE)
    inside = f"if ({along.name} < {along.extent} && {last.name} < {last.extent})"
    whole = along.extent % SIDE == last.extent % SIDE == 0

    def each(a: str, b: str, then: list[str]) -> list[str]:
        return ["#pragma unroll", f"for (int line = warp; line < {SIDE}; line += {LINES}) {{",
                f"  const {kind} {along.name} = a0 + {a}, {last.name} = b0 + {b};",
                f"  HY_ASSUME({along.name} >= 0 && {last.name} >= 0);", f"  {'' if whole else inside} {{",
                *("    " + s for s in then), "  }", "}"]
    reads = [f"{name}[line][lane] = {names[n]}[{text(x)}];" for (n, x), name in e.squares.items()]
    return [*(f"__shared__ {CUDA.storage(n.dtype)} {name}[{SIDE}][{SIDE + 1}];" for (n, _), name in e.squares.items()),
            "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
            f"const {kind} b0 = blockIdx.x % {across}u * {SIDE}, a0 = blockIdx.x / {across}u % {down}u * {SIDE}, "
            f"other = blockIdx.x / {across * down}u;", "HY_ASSUME(other >= 0);",
            *decode("other", [v for v in axes[:-1] if v != along], kind),
            *each("lane", "line", reads), "__syncthreads();", *each("line", "lane", lines)]
