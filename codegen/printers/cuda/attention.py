"""Attention in CUDA: softmax(f(Q Kᵀ)) V in one kernel, whose matrix of weights is never in memory.

A block has 64 queries, 16 a warp, or fewer where there are fewer; keys and values come in tiles, the next under way by
asynchronous copies. Scores stay in the registers in which tensor cores leave them: they become exponentials under a
running maximum, and those are the left operand of the second product as they are. Sums so far are scaled again when the
maximum grows (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao, FlashAttention-2, 2023).
Masks and scales are printed into the loop over a thread's scores.

Where that gives too few blocks (a token and its cache of keys), keys are split: each part leaves its sums, maximum and
total in working memory, and a second launch weighs them (Dao, Haziza, Massa, Sizov, Flash-Decoding, 2023).
"""
from __future__ import annotations

import math

from hybrid.ir import Node
from hybrid.ir.access import beneath
from hybrid.ir.index import Ix, Var, var
from hybrid.ir.kernel import Kernel
from hybrid.passes.attention import Attention

from .attention_tiles import LINES, MOST, WARPS, Tiled, multiplied
from .pieces import PROCESSORS, PrintedCuda, emitter, in_turn, launched, unrolled, when
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.lanes import Refused
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.schedule.choose import first_that_fits
from hybrid.codegen.schedule.tiling import decode

KEYS = {2: 64, 4: 32}           # of a tile, by bytes of an element
MOST_PARTS = 128                # four a lane of the warp that weighs them
COMBINING = 128                 # threads of a block that weighs parts
FULL = 8                        # warps that keep a multiprocessor busy
TURN = 420                      # clocks that a tile takes to arrive
COMBINED, EACH = 3000, 8        # clocks of a launch that weighs parts, and of each part there


def takes_attention(found: Attention, dot: Node) -> bool:
    """Whether a kernel is printed for an attention on the current GPU: others keep their products."""
    depth = found.scores.args[0].shape[found.scores.attrs["contract"][0][0]]
    return (multiplied(dot.dtype) and max(depth, dot.shape[-1]) <= MOST and found.place.extent >= 32
            and all(a.dtype == dot.dtype for a in (*found.scores.args, *dot.args)))


def print_attention(k: Kernel, name: str) -> PrintedCuda:
    """The kernel."""
    whole = _Attention(k, name)
    parts, why = split_keys(math.prod(v.extent for v in whole.batch) * whole.tiles, whole.warps, whole.turns)

    def split(*_: object) -> PrintedCuda:
        if parts == 1:
            raise Refused(why)
        return _Split(k, name, parts).print()
    named = f"attention of keys in {parts} parts" if parts > 1 else "attention of keys in parts"
    return first_that_fits(k, [(named, split), ("attention of all keys", lambda _: whole.print())])


def split_keys(blocks: int, warps: int, turns: int) -> tuple[int, str]:
    """Into how many parts keys are split, and why they are not if that is one. blocks: without parts; warps: of each;
    turns: tiles of keys, one after the other."""
    def clocks(parts: int) -> float:
        waves = max(1.0, blocks * parts * warps / (PROCESSORS * FULL))
        return -(-turns // parts) * TURN * waves + (COMBINED + EACH * parts if parts > 1 else 0)
    parts = min(range(1, min(MOST_PARTS, turns) + 1), key=clocks)
    return parts, (f"{blocks} blocks of {warps} warps keep the GPU busy" if blocks * warps >= PROCESSORS * FULL else
                   f"{turns} tiles of keys take less time than putting parts together")


class _Attention(Tiled):
    """Sizes, operands and the pieces of the text."""

    def __init__(self, k: Kernel, name: str, parts: int = 1):
        assert k.dot is not None
        f: Attention = k.attention
        super().__init__(k, name, k.dot.dtype, (f.batch, f.row, f.place), KEYS[k.dot.dtype.itemsize],
                         min(WARPS, -(-f.row.extent // LINES)), parts)
        self.dot, self.found = k.dot, f
        depth = Var("depth", f.scores.args[0].shape[f.scores.attrs["contract"][0][0]])
        self.column = Var("column", self.dot.shape[-1])
        at = f.scores_at[:-2]
        self.q = self.tile(self.operand(f.scores, f.query, at, self.row, depth), self.row, depth)
        self.kt = self.tile(self.operand(f.scores, 1 - f.query, at, self.key, depth), self.key, depth)
        self.v = self.tile(self.operand(self.dot, 1, tuple(map(var, f.batch)), self.column, self.key), self.key,
                           self.column)
        self.nc = self.v.padded // 8                    # fragments of a warp along columns

    @property
    def replaced(self) -> bool:
        """Whether weights are changed before the second product: a row of zeros in place of weights that are none is
        zero."""
        return beneath(self.found.given, ("cast", "reshape", "permute")) is not self.found.weights

    # ---- softmax
    def _softmax(self) -> list[str]:
        """Scores become exponentials under the running maximum, times what is behind the softmax."""
        f, x = self.found, "s[n / 4][n % 4]"
        before = self.element(f.logits, f.weights_at, {f.scores: "x"}, 3000)
        after = self.element(f.given, f.given_at, {f.weights: "x"}, 4000)
        each, inside = self.each_score(), self.inside
        rounded = CUDA.rounded(f.scores.dtype, x)
        return ["float peak[2] = {-HY_INF, -HY_INF}, by[2], again[2];", *each, f"  const float x = {rounded};",
                *("  " + s for s in before[0]), f"  {x} = {inside} ? {before[1]} : -HY_INF;",
                f"  peak[n / 2 % 2] = fmaxf(peak[n / 2 % 2], {x});", "}",
                *unrolled([("h", 2)], [
                    "peak[h] = fmaxf(peak[h], __shfl_xor_sync(~0u, peak[h], 1));",
                    "peak[h] = fmaxf(most[h], fmaxf(peak[h], __shfl_xor_sync(~0u, peak[h], 2)));",
                    "by[h] = peak[h] == -HY_INF ? 0.f : peak[h];",
                    "again[h] = hy_exp2((most[h] - by[h]) * 1.44269504f), most[h] = peak[h], total[h] *= again[h];"]),
                *each, f"  const float x = hy_exp2(({x} - by[n / 2 % 2]) * 1.44269504f);", "  total[n / 2 % 2] += x;",
                *("  " + s for s in after[0]), f"  {x} = {inside} ? {after[1]} : 0.f;", "}"]

    # ---- results
    def results(self) -> list[str]:
        """The root, from sums and totals."""
        kept = self.each_row(self.rows_kept("most[h]", "total[h]")) if self.k.extra else []
        return [*self.totals(), *kept, "const float share[2] = {1 / total[0], 1 / total[1]};",
                *self.written(self.dot, 0, self.v, lambda cell: self.quotient(cell, "share[c / 2 % 2]"))]

    def totals(self) -> list[str]:
        """Statements that add up the totals of four threads."""
        return unrolled([("h", 2)], [f"total[h] += __shfl_xor_sync(~0u, total[h], {by});" for by in (1, 2)])

    def quotient(self, cell: str, share: str) -> str:
        """A result: its sum times one over the total of its row."""
        return f"({cell} == 0 ? {cell} : {cell} * {share})" if self.replaced else f"{cell} * {share}"

    def rows_kept(self, most: str, total: str) -> list[str]:
        """Statements that store what else is kept of a row: its greatest score, its total."""
        out = []
        for n in self.k.extra:
            at = tuple(i for i in self.found.weights_at if i != var(self.key))
            e = emitter(self.k, self.names)
            out.append(str(e.store(self.names[n], n, at, most if n.attrs["op"] == "max" else total)))
        return out

    # ---- the kernel
    def print(self) -> PrintedCuda:
        """Its text: a block has some queries of a batch."""
        sums = f"float sums[{self.nc}][4] = {{}}, most[2] = {{-HY_INF, -HY_INF}}, total[2] = {{0, 0}};"
        turn = [*self.product("s", self.q, self.kt), *self._softmax(), *self.sums(self.v),
                *unrolled([("n", 4 * self.nc)], [
                    "sums[n / 4][n % 4] = sums[n / 4][n % 4] * again[n / 2 % 2] + o[n / 4][n % 4];"])]
        return self.kernel([sums], [self.q], [self.kt, self.v], turn, self.results())


class _Split(_Attention):
    """Keys in parts. Working memory has the sums of each part, then its maximum and total of each row."""

    @property
    def rows(self) -> int:
        """Those of all batches."""
        return math.prod(v.extent for v in (*self.batch, self.row))

    def results(self) -> list[str]:
        """What a part leaves."""
        columns, each = self.column.extent, 2 - self.column.extent % 2
        cells = [f"sums[j][2 * h + {i}]" for i in (0, 1)]
        store = ([f"if (column < {columns}) *(hy_pack<float, 2> *)(to + column) = {{{{{cells[0]}, {cells[1]}}}}};"]
                 if each == 2 else [f"if (column + {i} < {columns}) to[column + {i}] = {c};"
                                    for i, c in enumerate(cells)])
        return [*self.totals(), *unrolled([("h", 2)], [
            f"const {self.kind} row = q0 + warp * 16 + lane / 4 + h * 8;", f"if (row >= {self.row.extent}) break;",
            f"const {self.kind} at = part * {self.rows} + u * {self.row.extent} + row;",
            f"float *const to = scratch + at * {columns};",
            *unrolled([("j", self.nc)], ["const int column = j * 8 + lane % 4 * 2;", *store]),
            f"if (lane % 4 == 0) *(hy_pack<float, 2> *)(scratch + {self._sums} + at * 2) = "
            "{{most[h], total[h]}};"])]

    @property
    def _sums(self) -> int:
        """Elements of all parts' sums; an even number."""
        count = self.parts * self.rows * self.column.extent
        return count + count % 2

    def print(self) -> PrintedCuda:
        """Both launches."""
        parts, groups = super().print(), -(-self.column.extent // 32)
        last = launched(self.name, self.args, len(self.k.stores), self._combined(groups),
                        -(-self.rows * groups * 32 // COMBINING), COMBINING, "float")
        return in_turn([parts, last], (self._sums + 2 * self.parts * self.rows) * 4)

    def _combined(self, groups: int) -> list[str]:
        """A warp has 32 columns of a row: each lane weighs some parts, then adds up a column's."""
        kind, rows, columns = self.kind, self.rows, self.column.extent
        each, own = "for (int by = 16; by; by /= 2)", -(-self.parts // 32)
        return [f"const {kind} lane = ({kind})(threadIdx.x % 32), group = ({kind})blockIdx.x * {COMBINING // 32} + "
                f"({kind})(threadIdx.x / 32);", f"if (group >= {rows * groups}) return;",
                f"const {kind} at = group / {groups}, place = group % {groups} * 32 + lane;",
                f"const {kind} column = place < {columns} ? place : {columns - 1};",
                "HY_ASSUME(at >= 0 && column >= 0);",
                f"float weight[{own}], totals[{own}], most = -HY_INF, total = 0, all = 0;", *unrolled([("i", own)], [
                    f"const {kind} part = lane + 32 * i < {self.parts} ? lane + 32 * i : 0;",
                    "const hy_pack<float, 2> left = *(const hy_pack<float, 2> *)(scratch + "
                    f"{self._sums} + (part * {rows} + at) * 2);",
                    f"const bool inside = lane + 32 * i < {self.parts};",
                    "weight[i] = inside ? left.x[0] : -HY_INF, totals[i] = inside ? left.x[1] : 0.f;",
                    "most = fmaxf(most, weight[i]);"]),
                "#pragma unroll", f"{each} most = fmaxf(most, __shfl_xor_sync(~0u, most, by));",
                "const float by_most = most == -HY_INF ? 0.f : most;", *unrolled([("i", own)], [
                    "weight[i] = hy_exp2((weight[i] - by_most) * 1.44269504f);", "total += totals[i] * weight[i];"]),
                "#pragma unroll", f"{each} total += __shfl_xor_sync(~0u, total, by);",
                *unrolled([("part", self.parts)], [
                    f"all += scratch[(part * {rows} + at) * {columns} + column] * "
                    "__shfl_sync(~0u, weight[part / 32], part % 32);"]),
                f"if (place >= {columns}) return;",
                *decode("at", [*self.batch, self.row], kind),
                *when("place == 0", self.rows_kept("most", "total")),
                f"const float sum = {CUDA.rounded(self.dot.dtype, self.quotient('all', '(1 / total)'))};",
                *self._stored_at(var(self.column))]

    def _stored_at(self, column: Ix) -> list[str]:
        """The root at a row and column, from ``sum``."""
        at = root_index(self.k, (*map(var, (*self.batch, self.row)), column))
        e = emitter(self.k, self.names)
        e.count, e.given[self.dot] = 7000, lambda idx: "sum"
        block = Block(None, frozenset([*self.batch, self.row, self.column]))
        e.put(self.names[self.k.root], self.k.root, at, block)
        return block.lines
