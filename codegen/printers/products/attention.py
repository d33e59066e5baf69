"""Attention in C: softmax(f(Q Kᵀ)) V in one kernel, tile by tile; the matrix of weights is never whole.

For each batch and group of query tiles, blocks of keys and values are packed; for each tile a block of scores is
computed in registers, then turned into exponentials under a running maximum, whose sums and products with V are scaled
again when the maximum grows (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al.,
FlashAttention, 2022). Masks and scales are printed into the loop over a block of scores.
"""
from __future__ import annotations

import math
from typing import Any

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, substitute, text, var
from hybrid.ir.size import fixed, hint, may_exceed
from hybrid.ir.kernel import Kernel
from hybrid.passes.attention import Attention

from .attention_few import ROWS, in_place, score_function
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, decode
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Block, Emitter, loop_nest
from hybrid.codegen.loops import Printed, pointer_names
from hybrid.codegen.program.size_parameters import literal, more_declared, where_it_pays
from .operand import Operand, operand, root_index
from hybrid.codegen.lanes import F32, Refused, copied_text, masked_text
from hybrid.codegen.vector import VectorEmitter

KEYS = 128                      # of a block
BYTES = 1 << 17                 # of a block of keys or values
GROUP = 1 << 18                 # bytes of the sums of a group of tiles
UNITS = 8                       # pieces of work for threads, where there are tiles enough


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def print_attention(k: Kernel, name: str, target: Target) -> Printed:
    """The kernel."""
    return _Attention(k, name, target).print()


class _Attention:
    """Sizes, operands and the pieces of the text."""

    def __init__(self, k: Kernel, name: str, target: Target):
        assert k.dot is not None
        self.k, self.name, self.dot, self.target = k, name, k.dot, target
        found: Attention = k.attention
        self.found, self.lanes = found, target.lanes(F32)
        self.args, self.names = pointer_names(k)
        self.reads = {n: p for n, p in self.names.items() if n not in k.stores}
        self.row, self.key = found.row, found.place
        scores = found.scores
        self.depth = Var("depth", scores.args[0].shape[scores.attrs["contract"][0][0]])
        self.column = Var("column", self.dot.shape[-1])
        most = 14 if target.accumulators >= 28 else 6
        self.tiles = -(-self.row.extent // most)
        # any number of queries: tiles of equal heights, known at the call, of at most so many
        self.any = not fixed(self.row.extent)
        self.mr = most if self.any else -(-self.row.extent // self.tiles)
        self.nk, self.nc = (2 if hint(n) > self.lanes else 1 for n in (self.key.extent, self.column.extent))
        self._places()
        # columns of a panel of values, keys of one of keys
        self.across, self.along = self.nc * self.lanes, self.nk * self.lanes
        self.columns = _up(self.column.extent, self.across)
        fits = max(BYTES // 4 // max(self.depth.extent, self.columns), self.along)
        most_keys = min(KEYS, fits) // self.along * self.along
        if fixed(self.key.extent):
            blocks = -(-self.key.extent // most_keys)
            self.block = _up(-(-self.key.extent // blocks), self.along)
        else:
            self.block = most_keys
        self.one = fixed(self.key.extent) and self.block >= self.key.extent
        self._groups()

    def _places(self) -> None:
        """Which keys and values are read where they are: those of few queries."""
        keys, values = self._operand(1), self._operand(2)
        self.key_step = in_place(keys, self.key, self.depth) if not self.any and self.row.extent <= ROWS else None
        vectors, rest = divmod(self.column.extent, self.lanes)
        self.value_step = in_place(values, self.key, self.column) if (
            not self.any and self.tiles == 1 and vectors and not rest) else None
        if self.key_step is not None:
            self.nk = 1
        if self.value_step is not None:
            self.nc = next(n for n in (4, 3, 2, 1) if vectors % n == 0 and n * self.mr <= self.target.accumulators)

    @property
    def rows(self) -> str:
        """C text of a tile's rows."""
        return "own" if self.any else str(self.mr)

    @property
    def replaced(self) -> bool:
        """Whether weights are replaced before the second product: a row of zeros in place of weights that are none is
        zero."""
        return self.found.given is not self.found.weights

    def _groups(self) -> None:
        """How many groups the query tiles of a batch are in: a group packs the keys and values anew."""
        batch = math.prod(v.extent for v in self.found.batch)
        most = max(GROUP // (4 * self.mr * max(self.columns, self.depth.extent)), 1)
        if self.any:
            self.together = min(most, max(hint(self.tiles) // -(-UNITS // max(hint(batch), 1)), 4))
            self.groups = -(-self.tiles // self.together)
            return
        self.groups = max(-(-self.tiles // most), min(self.tiles // 4, -(-UNITS // batch)), 1)
        self.together = -(-self.tiles // self.groups)

    # ---- operands
    def _operand(self, which: int) -> Operand:
        """Q (0), K (1) or V (2) at their index."""
        f = self.found
        dot, side = (self.dot, 1) if which == 2 else (f.scores, f.query if which == 0 else 1 - f.query)
        batch = self._batch_of_values() if which == 2 else f.scores_at[:-2]
        free, inner = ((self.column, self.key), (self.row, self.depth), (self.key, self.depth))[(which + 1) % 3]
        contract, axes = dot.attrs["contract"][side], dot.attrs["batch"][side]
        n = dot.args[side]
        at = [var(free)] * n.ndim
        for a, i in zip(axes, batch):
            at[a] = i
        at[contract[0]] = var(inner)
        return operand(n, tuple(at), self.reads)

    def _batch_of_values(self) -> Index:
        return tuple(var(v) for v in self.found.batch)

    def _base(self, o: Operand, *zero: Var) -> str:
        assert o.base is not None and o.address is not None
        return f"({self.reads[o.base]} + ({text(substitute(o.address, {v: Ix() for v in zero}))}))"

    # ---- products
    def _micros(self, suffix: str, vectors: int, *rest: Any) -> list[str]:
        """The function of a tile; for any number of queries those of even numbers of rows."""
        if not self.any:
            return self._micro(suffix, vectors, self.mr, *rest)
        return [s for rows in range(2, self.mr + 1, 2) for s in self._micro(f"{suffix}{rows}", vectors, rows, *rest)]

    def _call(self, suffix: str, arguments: str) -> str:
        """A call of the function of a tile."""
        if not self.any:
            return f"{self.name}_{suffix}({arguments});"
        cases = " ".join(f"case {rows // 2}: {self.name}_{suffix}{rows}({arguments}); break;"
                         for rows in range(2, self.mr + 1, 2))
        return f"switch ((height + 1) / 2) {{ {cases} }}"

    def _micro(self, suffix: str, vectors: int, rows: int, a_row: int, a_depth: int, b_row: int, c_row: int,
               depth: str, scaled: bool) -> list[str]:
        """The function of a tile: C = A B, or C = f C + A B."""
        L, ij = self.lanes, [(i, j) for i in range(rows) for j in range(vectors)]
        more = (", const float *f" if scaled else "") + (", long n" if depth == "n" else "")
        start = (lambda i, j: f"HYV_LOAD(C + {i * c_row + j * L}) * HYV_B(f[{i}])") if scaled else (lambda i, j: "{0}")
        out = [f"static __attribute__((noinline)) void {self.name}_{suffix}(const float *A, const float *B, float "
               f"*C{more}) {{",
               "  " + " ".join(f"hy_v c{i}_{j} = {start(i, j)};" for i, j in ij),
               f"  for (long k = 0; k < {depth}; k++, B += {b_row}) {{",
               "    " + " ".join(f"const hy_v b{j} = HYV_LOAD(B + {j * L});" for j in range(vectors))]
        for i in range(rows):
            out.append(f"    {{ const hy_v a = HYV_B(A[{literal(i * a_row)} + k * {literal(a_depth)}]); "
                       + " ".join(f"c{i}_{j} += a * b{j};" for j in range(vectors)) + " }")
        return [*out, "  }", "  " + " ".join(f"HYV_STORE(C + {i * c_row + j * L}, c{i}_{j});" for i, j in ij), "}"]

    # ---- packing
    def _queries(self) -> tuple[list[str], str, int, int]:
        """Statements for a group, the address of a tile, and its strides: read in place where that can be."""
        o = self._operand(0)
        strides = o.stride(self.row), o.stride(self.depth)
        if not self.any and o.base is not None and o.base.dtype == F32 and None not in strides and (
                self.key_step is None or strides[1] == 1):
            return [], f"{self._base(o, self.row, self.depth)} + q0 * {literal(strides[0])}", strides[0], strides[
                    1]          # type: ignore[return-value]
        rows = self.together * self.mr if self.any else min(self.together * self.mr, self.row.extent)
        body = ["const long row = first + i;", *self._element(o, (self.row, self.depth),
                                                              f"Qs[i * {self.depth.extent} + depth]", [self.depth])]
        return [f"float Qs[{rows * self.depth.extent}] __attribute__((aligned(64)));",
                "for (long i = 0; i < last - first; i++) {", *("  " + s for s in body),
                "}"], f"Qs + (q0 - first) * {self.depth.extent}l", self.depth.extent, 1

    def _element(self, o: Operand, loops: tuple[Var, Var], cell: str, inside: list[Var],
                 head: "list[str] | None" = None) -> list[str]:
        """Loops that store an operand's elements; of ``loops``, those not ``inside`` are open already."""
        e = Emitter(C, self.reads, count=1000)
        outer = Block(None, frozenset(self.found.batch) | (frozenset(loops) - frozenset(inside)))
        inner = outer.child(inside)
        value = e.value(o.node, o.index, inner)
        nest = loop_nest(inside, [*inner.lines, f"{cell} = {value};"], "#pragma omp simd")
        return [*outer.lines, *(head or []), *nest]

    def _keys(self) -> list[str]:
        """The block's keys in panels (depth, keys)."""
        if self.key_step is not None:
            return [f"Kp = {self._base(self._operand(1), self.key, self.depth)} + begin * {literal(self.key_step)};"]
        o, L, W, D = self._operand(1), self.lanes, self.along, self.depth.extent
        stride = o.stride(self.key)
        zero = [f"if (keys % {W}) for (long z = 0; z < {D}; z++) for (long c = keys % {W}; c < {W}; c++) Kp[keys / "
                f"{W} * {W * D} + z * {W} + c] = 0;"]
        if o.base is None or o.base.dtype != F32 or stride is None or o.stride(self.depth) != 1:
            cell = f"Kp[c / {W} * {W * D} + depth * {W} + c % {W}]"
            body = ["const long key = begin + c;", *self._element(o, (self.key, self.depth), cell, [self.depth])]
            return [*zero, "for (long c = 0; c < keys; c++) {", *("  " + s for s in body), "}"]
        to, vector = f"Kp + c / {W} * {W * D} + c % {W}", f"vfloat{L}"
        whole = D // L * L
        out = [*zero, f"const float *from = {self._base(o, self.key, self.depth)} + begin * {literal(stride)};",
               "long c = 0;"]
        if whole:
            out += [f"for (; c + {L} <= keys; c += {L}) {{",
                    f"  for (long d = 0; d < {whole}; d += {L}) turn_{vector}({to} + d * {W}l, {W}, from + c * "
                    f"{literal(stride)} + d, {literal(stride)});"]
            if whole < D:
                out.append(f"  for (long d = {whole}; d < {D}; d++) for (long i = 0; i < {L}; i++) ({to})[d * {W} + "
                           f"i] = from[(c + i) * {literal(stride)} + d];")
            out.append("}")
        return [*out,
                f"for (; c < keys; c++) for (long d = 0; d < {D}; d++) ({to})[d * {W}] = from[c * {literal(stride)} + "
                f"d];"]

    def _values(self) -> list[str]:
        """The block's values in panels (keys, columns)."""
        if self.value_step is not None:
            return [f"Vp = {self._base(self._operand(2), self.key, self.column)} + begin * {literal(self.value_step)};"]
        o, W, E, B = self._operand(2), self.across, self.column.extent, self.block
        zero = [] if E % W == 0 else [f"for (long c = 0; c < keys; c++) for (long z = {E % W}; z < {W}; z++) "
                                      f"Vp[{E // W * W * B} + c * {W} + z] = 0;"]
        out = [*zero, "for (long c = 0; c < keys; c++) {", "  const long key = begin + c;"]
        for first in range(0, E, W):
            part, count = Var("z", min(W, E - first)), min(W, E - first)
            moved = Operand(o.node, tuple(substitute(i, {self.column: var(part) + first}) for i in o.index), None, None)
            out += ["  {",
                    *("    " + s for s in self._element(moved, (self.key, part),
                                                        f"Vp[{first * B} + c * {W} + {'z' if count > 1 else '0'}]",
                                                        [part])), "  }"]
        return [*out, "}"]

    # ---- softmax of a block of scores
    def _function(self, top: Node, at: Index, bottom: Node,
                  start: int) -> "tuple[list[str], list[str], list[str], str] | None":
        """Statements of a block of keys, a row, a vector ``x@``, and the resulting vector, for what is between two
        nodes; None where there are no vectors of it."""
        first, lane = Var("begin", max(self.key.extent, 2)), Var("c_", max(self.block, 2))
        e = VectorEmitter(C, self.reads, given={bottom: lambda idx: "x@"}, count=start, width=self.lanes, lanes={lane})
        e.kind["x@"] = "v"
        blocks = self._blocks(first, lane)
        try:
            value = e.floats(e.value(top, tuple(substitute(i, {self.key: var(first) + var(lane)}) for i in at),
                                     blocks[2]))
        except Refused:
            return None
        return blocks[0].lines, blocks[1].lines, blocks[2].lines, str(value)

    def _blocks(self, *last: Var) -> list[Block]:
        out = [Block(None, frozenset([*self.found.batch, *last[:-1]]))]
        out.append(out[-1].child([self.row]))
        return [*out, out[-1].child(last[-1:])]

    def _one_by_one(self, top: Node, at: Index, bottom: Node, start: int) -> list[str]:
        """A loop over a row's elements, for what cannot be vectors."""
        e = Emitter(C, self.reads, given={bottom: lambda idx: "sp[c]"}, count=start)
        blocks = self._blocks(self.key)
        value = e.value(top, at, blocks[2])
        body = ["const long key = begin + c;", *blocks[2].lines, f"sp[c] = {value};"]
        return [*blocks[0].lines, *blocks[1].lines, "for (long c = 0; c < keys; c++) {", *("  " + s for s in body), "}"]

    def _over(self, lines: list[str]) -> list[str]:
        """A loop over the vectors of a row of the block."""
        L = self.lanes
        whole = [f"for (; c_ + {L} <= keys; c_ += {L}) {{", *("  " + s for s in copied_text(lines, 0)), "}"]
        rest = ["if (c_ < keys) { const hy_m mk = HYV_FIRST((int)(keys - c_));",
                *("  " + s for s in masked_text(lines)),
                "}"]
        even = fixed(self.key.extent) and self.key.extent % L == 0 and self.block % L == 0
        return ["{ long c_ = 0;", *("  " + s for s in [*whole, *([] if even else rest)]), "}"]

    def _softmax(self) -> tuple[list[str], list[str]]:
        """Statements of a block of keys, and of a tile: its scores become exponentials, whose weights are in S."""
        f = self.found
        before = self._function(f.logits, f.weights_at, f.scores, 3000)
        after = self._function(f.given, f.given_at, f.weights, 4000)
        outer = [*(before[0] if before else []), *(after[0] if after else [])]
        low = "-__builtin_inff()"
        logits = before or ([], [], [], "x@")
        weights = after or ([], [], [], "x@")
        body = ["const long row = q0 + i;", f"float *sp = S + i * {self.block};", f"hy_v most = HYV_B({low});",
                *(self._one_by_one(f.logits, f.weights_at, f.scores, 5000) if before is None else logits[1]),
                *self._over(["const hy_v x@ = HYV_LOAD(sp + c_);", *logits[2],
                             f"const hy_v y@ = HYV_KEEP@({logits[3]}, HYV_B({low}));",
                             "HYV_STORE(sp + c_, y@);", "most = HYV_MAX(most, y@);"]),
                f"const float peak = hyv_max(most), old = M[i], m = old > peak ? old : peak, by = "
                f"{'m' if self.one and self.replaced else 'm == -__builtin_inff() ? 0.0f : m'};",
                "hy_v sum = {0};", *(weights[1] if after else []),
                *self._over(["const hy_v x@ = HYV_KEEP@(hyv_exp_below(HYV_LOAD(sp + c_) - HYV_B(by)), (hy_v){0});",
                             "sum += x@;", *weights[2],
                             f"HYV_STORE(sp + c_, {weights[3]});"]),
                *(self._one_by_one(f.given, f.given_at, f.weights, 6000) if after is None else []),
                *([] if self.one else ["f[i] = hy_expf(old - by);"]),
                f"M[i] = m; T[i] = {'' if self.one else 'T[i] * f[i] + '}hyv_sum(sum);"]
        return outer, [f"for (long i = 0; i < {self.rows}; i++) {{", *("  " + s for s in body), "}"]

    # ---- results
    def _results(self) -> list[str]:
        """The epilogue of a tile, from sums O and totals T."""
        at = root_index(self.k, (*self._batch_of_values(), var(self.row), var(self.column)))
        lane = Var("c_", self.column.extent)
        name = self.column.name
        try:
            e: Emitter = VectorEmitter(C, self.reads, given={self.dot: lambda idx: "sum@"},
                                       extra={n: self.names[n] for n in self.k.extra}, count=7000,
                                       width=self.lanes, lanes={lane})
            e.kind["sum@"] = "v"                             # type: ignore[attr-defined]
            if lane.extent < 2 or self.k.root.dtype != F32:
                raise Refused("no vectors")
            blocks = self._stored(e, tuple(substitute(i, {self.column: var(lane)}) for i in at), lane)
            total, out = f"HYV_LOAD(O + i * {self.columns} + c_)", "total@ / HYV_B(T[i])"
            out = f"HYV_SELECT(HYV_EQ(total@, (hy_v){{}}), total@, {out})" if self.replaced else out
            body = [f"const hy_v total@ = {total}, sum@ = {out};", *blocks[2].lines]
            whole, rest, L = self.column.extent // self.lanes * self.lanes, self.column.extent % self.lanes, self.lanes
            loop = [f"for (long c_ = 0; c_ < {whole}; c_ += {L}) {{", *("  " + s for s in copied_text(body, 0)),
                    "}"] if whole else []
            loop += [f"{{ const long c_ = {whole}; const hy_m mk = HYV_FIRST({rest});",
                     *("  " + s for s in masked_text(body)), "}"] if rest else []
        except Refused:
            # what is of one row may stand before the loop over rows
            i = "i" if self.any or self.row.extent > 1 else "0"
            total = f"O[{i} * {self.columns} + {name if self.column.extent > 1 else 0}]"
            cell = f"({total} == 0 ? {total} : {total} / T[{i}])" if self.replaced else f"({total} / T[{i}])"
            e = Emitter(C, self.reads, given={self.dot: lambda idx: cell},
                        extra={n: self.names[n] for n in self.k.extra}, count=7000)
            blocks = self._stored(e, at, self.column)
            loop = [f"for (long {name} = 0; {name} < {self.column.extent}; {name}++) {{",
                    *("  " + s for s in blocks[2].lines), "}"]
        return [*blocks[0].lines, f"for (long i = 0; i < {self.rows}; i++) {{", "  const long row = q0 + i;",
                *("  " + s for s in [*blocks[1].lines, *loop]), "}"]

    def _stored(self, e: Emitter, at: Index, lane: Var) -> list[Block]:
        blocks = self._blocks(lane)
        value = e.value(self.k.root, at, blocks[2])
        blocks[2].body.append(e.store(self.names[self.k.root], self.k.root, at, value))
        return blocks

    # ---- the kernel
    def print(self) -> Printed:
        """Its text: units of work are batches and, in each, groups of query tiles."""
        pack, place, a_row, a_depth = self._queries()
        micros = [*(self._micros("qk", self.nk, a_row, a_depth, self.along, self.block, str(self.depth.extent), False)
                    if self.key_step is None else
                    score_function(f"{self.name}_qk", self.mr, self.depth.extent, self.lanes, a_row, self.key_step,
                                   self.block)),
                  *self._micros("pv", self.nc, self.block, 1, self.value_step or self.across, self.columns, "n",
                               not self.one)]
        pointers = ", ".join(f"{'' if i < len(self.k.stores) else 'const '}{C.storage(n.dtype)} *p{i}" for i,
                             n in enumerate(self.args))
        batch = list(self.found.batch)
        count = math.prod(v.extent for v in batch)
        work = hint(count * self.row.extent * self.key.extent) * (self.depth.extent + self.column.extent)
        many = count * self.row.extent * self.key.extent
        threads = where_it_pays(PARALLEL, many, work, PARALLEL_WORK) if may_exceed(count * self.groups, 1) else ""
        parallel = ["  " + threads] if threads else []
        share = (f"const long t0 = g * {self.together}, t1 = t0 + {self.together} < {self.tiles} ? t0 + "
                 f"{self.together} : {self.tiles};" if self.any else
                 f"const long t0 = g * {self.tiles} / {self.groups}, t1 = (g + 1) * {self.tiles} / {self.groups};")
        body = [f"const long g = u % {self.groups}; u /= {self.groups};", *decode("u", batch), share,
                *self._unit(pack, place)]
        lines = [*micros, f"static void {self.name}({pointers}{more_declared()}) {{", *parallel,
                 f"  for (long unit = 0; unit < {count * self.groups}; unit++) {{",
                 "    long u = unit;", *("    " + s for s in body), "  }", "}"]
        return Printed(self.name, "\n".join(lines), self.args, "attention", vectors=True)

    def _unit(self, pack: list[str], place: str) -> list[str]:
        """Tiles t0 ... t1 - 1 of a batch over all blocks of keys, then their results."""
        mr, rows, keys, n = self.mr, self.row.extent, self.key.extent, self.together * self.mr
        outer, softmax = self._softmax()
        span = [f"const long first = t0 * {mr} < {rows - mr} ? t0 * {mr} : {rows - mr}, last = t1 * {mr} < {rows} ? "
                f"t1 * {mr} : {rows};"] if pack else []
        if self.any:
            span = [f"const long height = ({rows} + {self.tiles} - 1) / {self.tiles};",
                    f"const long first = t0 * height, last = t1 * height < {rows} ? t1 * height : {rows};"]
        where = ["const long q0 = t * height, own = height < last - q0 ? height : last - q0;" if self.any else
                 f"const long q0 = t * {mr} < {rows - mr} ? t * {mr} : {rows - mr};",
                 f"float *O = sums + (t - t0) * {mr * self.columns}, *T = totals + (t - t0) * {mr};"]
        tile = [*where, f"float *M = peaks + (t - t0) * {mr};", f"const float *A = {place};",
                f"for (long c = 0; c < keys; c += {self.along}) " + self._call(
                    "qk", f"A, Kp + c * {self.depth.extent}l, S + c") if self.key_step is None else
                f"{self.name}_qk(A, Kp, S, keys);", *softmax,
                f"for (long c = 0; c < {self.columns}; c += {self.across}) " + self._call(
                    "pv", f"S, Vp + c * {self.block if self.value_step is None else 1}l, "
                          f"O + c{'' if self.one else ', f'}, keys")]
        block = ["{", *self._keys(), "}", "{", *self._values(), "}", *outer, "for (long t = t0; t < t1; t++) {",
                 *("  " + s for s in tile), "}"]
        packed = {"Kp": self.block * self.depth.extent if self.key_step is None else 0,
                  "Vp": self.block * self.columns if self.value_step is None else 0}
        sizes = {**packed, "S": mr * self.block, "sums": n * self.columns}
        return [*span, *pack, *(f"float {name}[{size}] __attribute__((aligned(64)));" if size
                                else f"const float *{name};" for name, size in sizes.items()),
                f"float peaks[{n}], totals[{n}]{'' if self.one else f', f[{mr}]'};",
                f"for (long i = 0; i < {n}; i++) {{ peaks[i] = -__builtin_inff(); totals[i] = 0; }}",
                *([] if self.one else ["__builtin_memset(sums, 0, sizeof sums);"]),
                f"for (long begin = 0; begin < {keys}; begin += {self.block}) {{",
                f"  const long keys = {keys} - begin < {self.block} ? {keys} - begin : {self.block};",
                *("  " + s for s in block), "}",
                "for (long t = t0; t < t1; t++) {", *("  " + s for s in [*where, *self._results()]), "}"]
