"""What the CUDA kernels of a contraction share: operands as elements, the epilogue, and sums that several blocks
share."""
from __future__ import annotations

import math
from dataclasses import field
from typing import Mapping, Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, text, unlinear, var
from hybrid.ir.kernel import Kernel

from .carried import reduced_values
from .flat import print_flat
from .pieces import PROCESSORS, RAW, THREADS, PrintedCuda, TensorMap, emitter, in_turn, index_type, launched, names_of
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block, Emitter, Reducer, serial_reduce
from hybrid.codegen.printers.products.operand import Matmul, Operand, matmul, root_index
from hybrid.codegen.schedule.tiling import decode

MANY_PARTS = 16                 # of a sum, from which several warps put them together
WARPS = THREADS // 32


@dataclass
class Element:
    """Statements that give an element of an operand: common to all lanes, of one lane; its name; whether lanes load as
    one."""
    common: list[str]
    own: list[str]
    value: str
    whole: bool


@dataclass
class Product:
    """A contraction as a matrix product inside a kernel: batch x (rows x depth) (depth x columns)."""
    k: Kernel
    name: str
    swap: bool = False
    args: list[Node] = field(init=False)
    names: dict[Node, str] = field(init=False)
    m: Matmul = field(init=False)

    def __post_init__(self) -> None:
        assert self.k.dot is not None
        self.args, self.names = names_of(self.k)
        stores = set(self.k.stores)
        self.m = matmul(self.k.dot, {n: p for n, p in self.names.items() if n not in stores}, self.swap)
        self.dot = self.k.dot
        self.kind = index_type(self.k)
        self.rows, self.columns, self.depth = self.m.sizes
        self.batch = math.prod(v.extent for v in self.m.batch)
        self.T = CUDA.compute(self.sum_dtype)

    @property
    def sum_dtype(self) -> np.dtype:
        """Sums of half types are float."""
        return np.dtype(np.float32) if is_half(self.dot.dtype) else self.dot.dtype

    def group(self, side: str) -> list[Var]:
        """The axes that an operand does not share with the other one."""
        return self.m.rows if side == "a" else self.m.columns

    def operand(self, side: str) -> Operand:
        """The row operand a, or the column operand b."""
        return self.m.a if side == "a" else self.m.b

    def depth_major(self, side: str) -> bool:
        """Whether an operand's neighbours in memory are neighbours along the depth."""
        return bool(self.m.depth) and self.operand(side).stride(self.m.depth[-1]) == 1

    def element(self, side: str, known: frozenset[Var], lane: Var | None = None, names: dict[Var, Ix] | None = None,
                raw: bool = False) -> Element:
        """One element of an operand, or of each lane, where the variables ``known`` are. raw: half types as 16 bits."""
        o = self.operand(side)
        e = emitter(self.k, self.names, None, lane)
        e.d = RAW if raw else e.d
        e.count = 1000 if side == "a" else 2000
        outer = Block(None, known)
        inner = outer.child([e.lane]) if e.lane else outer
        index = tuple(substitute(i, names) for i in o.index) if names else o.index
        value = e.value(o.node, index, inner)
        return Element(outer.lines, inner.lines if e.lane else [], value, e.packed > 0 and not e.loose)

    def finish(self, cell: str, kept: Sequence[str] = ()) -> list[str]:
        """The epilogue of one element: the root from the sum, and its store. kept: where to keep the values of the
        reductions that the kernel carries."""
        e = emitter(self.k, self.names)
        e.count = 3000
        e.given[self.dot] = lambda idx: cell
        at = root_index(self.k, self.m.dot_index)
        block = Block(None, frozenset([*self.m.batch, *self.m.rows, *self.m.columns]))
        e.put(self.names[self.k.root], self.k.root, at, block)
        if kept:
            block.body += [f"{to} = {value};" for to, value in zip(kept, reduced_values(self.k, e, at, block))]
        return block.lines

    def keep(self, cell: str, part: str) -> list[str]:
        """A part of a sum into working memory, where the contraction's own result would lie."""
        e = emitter(self.k, self.names)
        at = text(e.offset(self.dot.shape, self.m.dot_index))
        return [f"scratch[{part} * ({self.kind}){self.dot.size} + {at}] = {cell};"]

    def rounded(self, value: str) -> str:
        """A sum at the precision of the contraction's dtype."""
        return str(CUDA.rounded(self.dot.dtype, value))

    def decode(self, number: str, vs: list[Var]) -> list[str]:
        """Variables from a row-major number."""
        return decode(number, vs, self.kind)

    def last(self, row: str, column: str, cell: str, part: str | None, kept: Sequence[str] = ()) -> list[str]:
        """What happens to a finished sum (or part of one) at a row and column, if they are inside. kept: as of
        ``finish``."""
        done = self.finish("sum", kept) if part is None else self.keep("sum", part)
        value = self.rounded(cell) if part is None else cell
        return [f"if ({row} < {self.rows} && {column} < {self.columns}) {{",
                *("  " + s for s in [*self.decode(row, self.m.rows), *self.decode(column, self.m.columns),
                                     f"{self.T} sum = {value};", *done]), "}"]

    def printed(self, body: list[str], blocks: int, threads: int, parts: int = 1, shared: int = 0, resident: int = 0,
                maps: Mapping[str, tuple[Node, TensorMap]] | None = None) -> PrintedCuda:
        """The kernel; with parts, also the launch that puts the parts of each sum together and does the epilogue.
        shared, resident, maps: as of ``launched``."""
        if parts == 1:
            return launched(self.name, self.args, len(self.k.stores), body, blocks, threads, "", True, shared, resident,
                            maps)
        first = launched(f"{self.name}_parts", self.args, 0, body, blocks, threads, self.T, False, shared,
                         resident, maps)
        last = (print_gathered(self.k, self.name, self._sum_of(parts, True), self.T) if parts >= MANY_PARTS else None
                ) or print_flat(self.k, self.name, self._sum_of(parts, False), self.T)
        return in_turn([first, last], parts * self.dot.size * max(4, self.sum_dtype.itemsize))

    def arrays(self, **shapes: tuple[int, ...]) -> tuple[list[str], int]:
        """Declarations of arrays of sums in dynamic shared memory, which other stages of a launch use too, and their
        bytes."""
        out, at = ["extern __shared__ __align__(1024) unsigned char tile_memory[];"], 0
        for name, (count, *rest) in shapes.items():
            row = "".join(f"[{n}]" for n in rest)
            out.append(f"{self.T} (*{name}){row} = ({self.T} (*){row})(tile_memory + {at});")
            at += -(-count * math.prod(rest) * max(4, self.sum_dtype.itemsize) // 16) * 16
        return out, at

    def _sum_of(self, parts: int, shared: bool) -> Reducer:
        """What adds up the parts of a sum: one thread, or (shared) several warps, whose sums meet in shared memory."""
        def finish(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
            if n is not self.dot:
                return serial_reduce(e, n, idx, guard, block)
            at = text(e.offset(n.shape, idx))
            acc = e.let(block, self.sum_dtype, "0" if shared else f"scratch[{at}]", "a")
            steps = f"warp; part < {parts}; part += {WARPS}" if shared else f"1; part < {parts}; part++"
            loop = f"for (int part = {steps}) {acc} += scratch[part * ({e.index}){n.size} + {at}];"
            block.body += ["#pragma unroll 4", loop, f"shared[warp][lane] = {acc};", "__syncthreads();",
                           "if (warp || !inside) return;", "#pragma unroll",
                           f"for (int w = 1; w < {WARPS}; w++) {acc} += shared[w][lane];"] if shared else [loop]
            return e.let(block, n.dtype, self.rounded(acc)) if is_half(n.dtype) else acc
        return finish


def print_gathered(k: Kernel, name: str, reducer: Reducer, scratch: str) -> PrintedCuda | None:
    """The launch that puts many parts together: 32 results a block, whose warps share the parts. None where results
    need several sums. reducer: gives a sum to the first warp."""
    args, names = names_of(k)
    kind, t = index_type(k), Var("t", k.root.size)
    sums: list[Block] = []

    def counted(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        if n is k.dot:
            sums.append(block)
        return reducer(e, n, idx, guard, block)
    e, block = emitter(k, names, counted), Block(None, frozenset([t]))
    idx = tuple(unlinear(var(t), k.root.shape))
    value = e.value(k.root, idx, block)
    if [b is block for b in sums] != [True] or len(k.stores) > 1:
        return None
    blocks = -(-k.root.size // 32)
    body = ["const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
            f"{kind} t = ({kind})blockIdx.x * 32 + lane;", f"const bool inside = t < {k.root.size};",
            f"if (!inside) t = {k.root.size - 1};", "HY_ASSUME(t >= 0);", f"__shared__ {scratch} shared[{WARPS}][32];",
            *block.lines, str(e.store(names[k.root], k.root, idx, value))]
    return launched(name, args, len(k.stores), body, blocks, scratch=scratch)


def columns_first(k: Kernel) -> bool:
    """Whether rows and columns change places, so that columns are the axis along which the root is contiguous."""
    assert k.dot is not None
    stores = set(k.stores)
    m = matmul(k.dot, {n: "" for n in k.reads if n not in stores}, False)
    at = linear(k.root.shape, root_index(k, m.dot_index))
    return bool(m.rows) and coefficient(at, m.rows[-1]) == 1 and m.rows[-1].extent > 1


def share_depth(blocks: int, depth: int, least: int) -> int:
    """Parts into which the depth is split so that the launch keeps the GPU busy; each is at least that deep."""
    if blocks >= PROCESSORS or depth < 2 * least:
        return 1
    return min(-(-2 * PROCESSORS // blocks), depth // least)
