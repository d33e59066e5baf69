"""Tiles of attention on a GPU: lines of queries, keys and values in shared memory, products of them whose sums stay in
registers, and functions of a thread's elements. What attention and its gradients are made of.
"""
from __future__ import annotations

import math
from typing import Callable, Sequence

import numpy as np

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Quot, Rem, Val, Var, substitute, text, var, variables
from hybrid.ir.kernel import Kernel

from .pieces import PrintedCuda, emitter, index_type, launched, names_of, neighbours, unrolled, when
from .target import current
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.products.operand import Operand, argument, root_index
from hybrid.codegen.schedule.tiling import decode

LINES, WARPS = 16, 4            # lines of a warp, most warps of a block
# blocks of a multiprocessor: asked for no more, the compiler keeps in registers what it spilled when it took 64 or 72
RESIDENT = 2
QUERIES = LINES * WARPS
MOST = 128                      # elements of a query or value: registers
FUNCTION = {"float16": "hy_mma_half", "bfloat16": "hy_mma_bf16"}


def multiplied(dtype: np.dtype) -> bool:
    """Whether the current GPU's tensor cores multiply a type: before sm_80 they know float16 alone."""
    return current().halves(dtype) or dtype.name == "float32" and current().number >= 80


def _named(name: str) -> Callable[[Index], str]:
    """What gives the same text at every index."""
    return lambda idx: name


class Tile:
    """Lines of an operand in shared memory: ``lines`` of ``line`` bytes, the first ``padded`` elements of each."""

    def __init__(self, o: Operand, line: Var, along: Var, lines: int, item: int, at: int):
        self.o, self.line_var, self.along, self.lines, self.at = o, line, along, lines, at
        self.each = 16 // item
        self.padded = -(-along.extent // (2 * self.each)) * 2 * self.each
        self.line = self.padded * item + 16
        self.bytes = self.line * lines
        self.whole = self._whole()

    def _whole(self) -> bool:
        """Whether pieces of 16 bytes are copied as they lie in memory."""
        a = self.o.address
        if a is None or self.along.extent % self.each or a.const % self.each:
            return False
        if any(isinstance(v, Val) for v in variables(a)):
            return False
        for atom, c in a.terms:
            if isinstance(atom, (Quot, Rem)) and self.along in variables(atom.x):
                return False
            if c != 1 if atom == self.along else c % self.each:
                return False
        return any(atom == self.along for atom, _ in a.terms)


class Tiled:
    """A kernel over pairs of a row, which the block has, and a key, of which tiles come one after the other."""

    def __init__(self, k: Kernel, name: str, dtype: np.dtype, places: tuple[tuple[Var, ...], Var, Var], keys: int,
                 warps: int = WARPS, parts: int = 1):
        """places: the loops of the batch, the row and the key; keys: those of a tile; parts: into which keys are split,
        each a block's."""
        self.k, self.name, self.dtype, self.keys = k, name, dtype, keys
        self.args, self.names = names_of(k)
        self.reads = {n: p for n, p in self.names.items() if n not in k.stores}
        self.kind, self.half, self.item = index_type(k), is_half(dtype), dtype.itemsize
        self.batch, self.row, self.key = places
        self.warps, self.lines, self.parts = warps, LINES * warps, parts
        self.tiles = -(-self.row.extent // self.lines)
        self.turns = -(-self.key.extent // (keys * parts))      # of a part
        self.nk = keys // 8                             # fragments of a warp along keys
        self.shared = 0                                 # bytes of the tiles

    def operand(self, dot: Node, side: int, batch: Index, free: Var, inner: Var) -> Operand:
        """As of ``argument``, of what the kernel reads."""
        return argument(dot, side, batch, free, inner, self.reads)

    # ---- tiles
    def tile(self, o: Operand, line: Var, along: Var) -> Tile:
        """The next tile in shared memory: a block's rows once, keys in two stages."""
        own = line == self.row
        made = Tile(o, line, along, self.lines if own else self.keys, self.item, self.shared)
        self.shared += made.bytes if own else 2 * made.bytes
        return made

    def bring(self, t: Tile, first: str, to: str) -> list[str]:
        """Statements that begin to bring a tile whose first line is ``first`` to ``to`` (bytes); zeros outside."""
        across = t.padded // t.each if t.whole else t.padded
        count, v, a = t.lines * across, t.line_var, t.along
        rounds = -(-count // (32 * self.warps))
        head = ["#pragma unroll" if t.whole else "#pragma unroll 4", f"for (int i = 0; i < {rounds}; i++) {{",
                f"  const int e = (int)threadIdx.x + i * {32 * self.warps};",
                *([f"  if (e >= {count}) break;"] if count % (32 * self.warps) else []),
                f"  const int line = e / {across}, piece = e % {across};",
                f"  const {self.kind} {v.name}_ = {first} + line;", f"  const bool inside = {v.name}_ < {v.extent} && "
                f"piece < {a.extent // t.each if t.whole else a.extent};",
                f"  const {self.kind} {v.name} = {v.name}_ < {v.extent} ? {v.name}_ : {v.extent - 1}, {a.name} = "
                + (f"piece * {t.each};" if t.whole else f"piece < {a.extent} ? piece : {a.extent - 1};"),
                f"  HY_ASSUME({v.name} >= 0 && {a.name} >= 0);"]
        if t.whole:
            assert t.o.base is not None and t.o.address is not None
            return [*head, f"  hy_chunk now;  hy_fetch(now, base + ({to}) + line * {t.line} + piece * 16, "
                    f"{self.names[t.o.base]} + ({text(t.o.address)}), inside);",
                    f"  hy_put(now, base + ({to}) + line * {t.line} + piece * 16);", "}"]
        e = emitter(self.k, self.names)
        e.count = 1000
        block = Block(None, frozenset([*self.batch, v, a]))
        value = e.value(t.o.node, t.o.index, block)
        cell, zero = (CUDA.half_stored(self.dtype, value), "0") if self.half else (value, "0.f")
        T = "unsigned short" if self.half else "float"
        return [*head, *("  " + s for s in block.lines), f"  *({T} *)(tile_memory + ({to}) + line * {t.line} + piece * "
                f"{self.item}) = inside ? ({T})({cell}) : {zero};", "}"]

    # ---- products
    def product(self, to: str, q: Tile, kt: Tile) -> list[str]:
        """``to`` = Q Kᵀ of the warp's 16 lines of one tile and all of another, which has two stages."""
        first = f"base + {q.at} + (warp * 16 + lane % 16) * {q.line} + lane / 16 * 16 + d * 32"
        k = (f"base + {kt.at} + stage * {kt.bytes} + (j * 16 + lane % 8 + lane / 16 * 8) * {kt.line} + "
             "(lane / 8 & 1) * 16 + d * 32")
        steps = q.padded // (2 * q.each)
        if self.half:
            split, f = [], FUNCTION[self.dtype.name]
            products = [f"{f}({to}[2 * j], a, b[0]);", f"{f}({to}[2 * j + 1], a, b[1]);"]
        else:
            split = ["unsigned a_small[4];", *unrolled([("n", 4)], ["hy_two_tf32(a[n], a_small[n]);"])]
            products = unrolled([("n", 2)], [f"hy_three_tf32({to}[2 * j + n], a, a_small, b[n]);"])
        keys = unrolled([("j", self.nk // 2)], ["unsigned b[2][2];", f"hy_ldmatrix<4>(b[0], {k});", *products])
        return [f"float {to}[{self.nk}][4] = {{}};",
                *unrolled([("d", steps)], ["unsigned a[4];", f"hy_ldmatrix<4>(a, {first});", *split, *keys])]

    def sums(self, tile: Tile) -> list[str]:
        """``o`` = ``s`` V of a tile."""
        v, columns = f"{tile.at} + stage * {tile.bytes}", tile.padded // 8
        if self.half:
            pack = "hy_two_bf16" if self.dtype.name == "bfloat16" else "hy_two_half"
            return [f"float o[{columns}][4] = {{}};", *unrolled([("d", self.keys // 16)], [
                f"const unsigned a[4] = {{{pack}(s[2 * d][0], s[2 * d][1]), {pack}(s[2 * d][2], s[2 * d][3]), "
                f"{pack}(s[2 * d + 1][0], s[2 * d + 1][1]), {pack}(s[2 * d + 1][2], s[2 * d + 1][3])}};",
                *unrolled([("j", columns // 2)], [
                    "unsigned b[2][2];", f"hy_ldmatrix_trans<4>(b[0], base + {v} + (d * 16 + lane % 16) * {tile.line} "
                    "+ lane / 16 * 16 + j * 32);",
                    *(f"{FUNCTION[self.dtype.name]}(o[2 * j + {n}], a, b[{n}]);" for n in (0, 1))])])]
        cell = f"hy_word_at(base + {v} + (d * 8 + lane % 4 * 2 + n) * {tile.line} + (j * 8 + lane / 4) * 4)"
        rows = ["a[n] = __float_as_uint(s[d][n % 2 * 2 + n / 2]);", "hy_two_tf32(a[n], a_small[n]);"]
        return [f"float o[{columns}][4] = {{}};", *unrolled([("d", self.nk)], [
            "unsigned a[4], a_small[4];", *unrolled([("n", 4)], rows), *unrolled([("j", columns)], [
                "unsigned b[2];", *unrolled([("n", 2)], [f"b[n] = {cell};"]), "hy_three_tf32(o[j], a, a_small, b);"])])]

    # ---- functions of scores
    def element(self, top: Node, at: Index, given: dict[Node, str], start: int) -> tuple[list[str], str]:
        """Statements that compute a node at row and key from others, whose values have names, and the result."""
        e = emitter(self.k, self.names)
        e.count = start
        e.given.update({n: _named(text) for n, text in given.items()})
        block = Block(None, frozenset([*self.batch, self.row, self.key]))
        value = e.value(top, at, block)
        return block.lines, value

    @property
    def inside(self) -> str:
        """Whether a thread's key is one."""
        return f"key_ < {self.key.extent}" if self.key.extent % self.keys else "true"

    def each_score(self) -> list[str]:
        """The head of a loop over a thread's scores: their row and key, those beyond the last being the last."""
        return ["#pragma unroll", f"for (int n = 0; n < {4 * self.nk}; n++) {{",
                f"  const {self.kind} row_ = q0 + warp * 16 + lane / 4 + n / 2 % 2 * 8, key_ = k0 + n / 4 * 8 + "
                "lane % 4 * 2 + n % 2;",
                f"  const {self.kind} row = row_ < {self.row.extent} ? row_ : {self.row.extent - 1}, key = key_ < "
                f"{self.key.extent} ? key_ : {self.key.extent - 1};", "  HY_ASSUME(row >= 0 && key >= 0);"]

    # ---- results
    def each_row(self, body: Sequence[str], before: Sequence[str] = ()) -> list[str]:
        """Statements for each of a thread's two rows, ``h``; the body for one of the threads that have it."""
        return unrolled([("h", 2)], [*before, f"const {self.kind} row = q0 + warp * 16 + lane / 4 + h * 8;",
                                     *when(f"lane % 4 == 0 && row < {self.row.extent}", body)])

    def written(self, dot: Node, side: int, tile: Tile, value: Callable[[str], str]) -> list[str]:
        """The root, from a thread's ``sums``; two neighbours at once where they are stored as one. side: which argument
        of the product has the rows; tile: the columns of the other; value: an element from a sum."""
        column = tile.along
        width = 2 if column.extent % 2 == 0 else 1
        lines = self._stored(dot, side, column, width, value)
        if lines is None:
            width, lines = 1, self._stored(dot, side, column, 1, value)
        assert lines is not None
        return ["#pragma unroll", f"for (int c = 0; c < {tile.padded // 2}; c += {width}) {{",
                f"  const {self.kind} row = q0 + warp * 16 + lane / 4 + c / 2 % 2 * 8, column = c / 4 * 8 + "
                "lane % 4 * 2 + c % 2;",
                "  HY_ASSUME(row >= 0 && column >= 0);",
                f"  if (row < {self.row.extent} && column < {column.extent}) {{",
                f"    const {self.kind} step = column / {width};", *("    " + s for s in lines), "  }", "}"]

    def _stored(self, dot: Node, side: int, column: Var, width: int, value: Callable[[str], str]) -> list[str] | None:
        lane, first = Var("j", width), Var("step", max(column.extent // width, 2))
        free = (self.row, column) if side == 0 else (column, self.row)
        at = root_index(self.k, (*map(var, self.batch), *map(var, free)))
        e = emitter(self.k, self.names, None, lane)
        e.count, e.given[dot] = 7000, lambda idx: "sum"
        cell = f"sums[c / 4][c % 4 / 2 * 2 + {'j' if width == 2 else 'c % 2'}]"
        names: dict[Var, Ix] = {column: var(first) * width + var(lane)}
        index = tuple(substitute(i, names) for i in at)

        def one(block: Block) -> None:
            block.body.append(f"const float sum = {CUDA.rounded(dot.dtype, value(cell))};")
            e.put(self.names[self.k.root], self.k.root, index, block)
        return neighbours(e, lane, [*self.batch, self.row, first], one)

    # ---- the kernel
    def kernel(self, before: Sequence[str], own: Sequence[Tile], staged: Sequence[Tile], turn: Sequence[str],
               after: Sequence[str]) -> PrintedCuda:
        """A block has some rows of a batch, and all keys or a part of them. own: the rows' tiles, brought once; staged:
        those of keys, the next under way while ``turn`` is done with one. With parts, ``after`` leaves what is computed
        in working memory."""
        batch, kind, split = list(self.batch), self.kind, self.parts > 1
        first = [f"const {kind} part = ({kind})(blockIdx.x / {self.tiles}u % {self.parts}u), low = part * "
                 f"{self.turns * self.keys};"] if split else []
        low = "low + " if split else ""
        ahead = [s for t in staged for s in self.bring(t, "next", f"{t.at} + turn % 2 * {t.bytes}")]
        body = ["extern __shared__ __align__(128) unsigned char tile_memory[];",
                "const hy_shared base = hy_shared_of(tile_memory);",
                "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
                f"const {kind} u = ({kind})(blockIdx.x / {self.tiles * self.parts}u), q0 = ({kind})(blockIdx.x % "
                f"{self.tiles}u) * {self.lines};", *first,
                "HY_ASSUME(u >= 0 && q0 >= 0);", *decode("u", batch, kind), *before,
                *(s for t in own for s in self.bring(t, "q0", str(t.at))), "#pragma unroll 1",
                f"for (int turn = 0; turn <= {self.turns}; turn++) {{",
                f"  if (turn < {self.turns}) {{", f"    const {kind} next = {low}({kind})turn * {self.keys};",
                *("    " + s for s in ahead), "  }", "  hy_commit();", "  if (turn == 0) continue;",
                "  hy_wait<1>();", "  __syncthreads();", f"  const {kind} k0 = {low}({kind})(turn - 1) * {self.keys};",
                "  const int stage = (turn - 1) % 2;", *("  " + s for s in turn), "  __syncthreads();", "}",
                "hy_wait<0>();", *after]
        count, threads = math.prod(v.extent for v in batch) * self.tiles * self.parts, 32 * self.warps
        name = f"{self.name}_parts" if split else self.name
        return launched(name, self.args, 0 if split else len(self.k.stores), body, count, threads,
                        "float" if split else "", alone=True, shared=self.shared, resident=RESIDENT)
