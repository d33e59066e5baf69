"""Attention in C: softmax(f(Q Kᵀ)) V in one kernel, tile by tile; the matrix of weights is never whole.

For each batch and group of query tiles, blocks of keys and values are packed; for each tile a block of scores is
computed in registers, then turned into exponentials under a running maximum, whose sums and products with V are scaled
again when the maximum grows (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al.,
FlashAttention, 2022). Masks and scales are printed into the loop over a block of scores.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, substitute, text, var
from hybrid.ir.size import fixed, hint, may_exceed
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import MASK, Assign, Let, Name, Scope, Stmt, When
from hybrid.passes.attention import Attention

from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, decode
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.block import chain, nested, within_levels
from hybrid.codegen.emit import Block, Emitter
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import Cut, Sums, count, function, statements, within
from hybrid.codegen.printers.anchored import Anchored
from hybrid.codegen.program.size_parameters import literal, more_declared, where_it_pays
from .operand import Operand, argument, root_index
from .tiles import DotFunction, together
from hybrid.codegen.lanes import F32, Refused, iterations, masked, unmasked
from hybrid.codegen.vector import VectorEmitter

ROWS = 4                        # queries up to which a packed key would be read too seldom: scores are dot products
KEYS = 128                      # of a block
BYTES = 1 << 17                 # of a block of keys or values
GROUP = 1 << 18                 # bytes of the sums of a group of tiles
UNITS = 8                       # pieces of work for threads, where there are tiles enough


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def _in_place(o: Operand, along: Var, across: Var) -> int | None:
    """Elements from one key to the next of an operand that can be read where it is, else None. across: the variable of
    neighbours."""
    return None if o.base is None or o.base.dtype != F32 or o.stride(across) != 1 else o.stride(along)


def print_attention(k: Kernel, name: str, target: Target) -> Printed:
    """The kernel."""
    return _Attention(k, name, target).print()


class _Attention(Anchored):
    """Sizes, operands and the pieces of the text."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)
        found: Attention = k.attention
        self.found = found
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
        few = not self.any and self.row.extent <= ROWS and self.depth.extent >= self.lanes    # dot products of vectors
        self.key_step = _in_place(keys, self.key, self.depth) if few else None
        vectors, rest = divmod(self.column.extent, self.lanes)
        self.value_step = _in_place(values, self.key, self.column) if (
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
        batch = tuple(map(var, f.batch)) if which == 2 else f.scores_at[:-2]
        free, inner = ((self.column, self.key), (self.row, self.depth), (self.key, self.depth))[(which + 1) % 3]
        return argument(dot, side, batch, free, inner, self.reads)

    def _base(self, o: Operand, *zero: Var) -> str:
        assert o.base is not None and o.address is not None
        return f"({self.reads[o.base]} + ({text(substitute(o.address, {v: Ix() for v in zero}))}))"

    # ---- products
    def _micros(self, suffix: str, vectors: int, *rest: Any) -> list[Stmt]:
        """The function of a tile; for any number of queries those of even numbers of rows."""
        if not self.any:
            return [self._micro(suffix, vectors, self.mr, *rest)]
        return [self._micro(f"{suffix}{rows}", vectors, rows, *rest) for rows in range(2, self.mr + 1, 2)]

    def _call(self, suffix: str, arguments: str) -> str:
        """A call of the function of a tile."""
        if not self.any:
            return f"{self.name}_{suffix}({arguments});"
        cases = " ".join(f"case {rows // 2}: {self.name}_{suffix}{rows}({arguments}); break;"
                         for rows in range(2, self.mr + 1, 2))
        return f"switch ((height + 1) / 2) {{ {cases} }}"

    def _micro(self, suffix: str, vectors: int, rows: int, a_row: int, a_depth: int, b_row: int, c_row: int,
               depth: str, scaled: bool) -> Stmt:
        """The function of a tile: C = A B, or C = f C + A B."""
        L, more = self.lanes, (", const float *f" if scaled else "") + (", long n" if depth == "n" else "")
        sums = Sums([f"HYV_B(A[{literal(i * a_row)} + k * {literal(a_depth)}])" for i in range(rows)],
                    [f"HYV_LOAD(B + {j * L})" for j in range(vectors)])
        scale: list[Stmt] = [Assign(s, f"HYV_B(f[{i}])", "*=") for i, _, s in sums.all()]
        return function(f"{self.name}_{suffix}", f"const float *A, const float *B, float *C{more}",
                        [*([*sums.read("C", c_row, L), *scale] if scaled else sums.zero()),
                         *within([f"for (long k = 0; k < {depth}; k++, B += {b_row}) {{"], sums.step()),
                         *sums.write("C", c_row, L)])

    # ---- packing
    def _queries(self) -> tuple[list[Stmt], str, int, int]:
        """Statements for a group, the address of a tile, and its strides: read in place where that can be."""
        o = self._operand(0)
        strides = o.stride(self.row), o.stride(self.depth)
        if not self.any and o.base is not None and o.base.dtype == F32 and None not in strides and (
                self.key_step is None or strides[1] == 1):
            return [], f"{self._base(o, self.row, self.depth)} + q0 * {literal(strides[0])}", strides[0], strides[
                    1]          # type: ignore[return-value]
        rows = self.together * self.mr if self.any else min(self.together * self.mr, self.row.extent)
        body: list[Stmt] = ["const long row = first + i;", *self._element(o, (self.row, self.depth),
                                                              f"Qs[i * {self.depth.extent} + depth]", [self.depth])]
        return [f"float Qs[{rows * self.depth.extent}] __attribute__((aligned(64)));",
                "for (long i = 0; i < last - first; i++) {", *body,
                "}"], f"Qs + (q0 - first) * {self.depth.extent}l", self.depth.extent, 1

    def _element(self, o: Operand, loops: tuple[Var, Var], cell: str, inside: list[Var]) -> list[Stmt]:
        """Loops that store an operand's elements; of ``loops``, those not ``inside`` are open already."""
        e = Emitter(C, self.reads, count=1000)
        return within_levels({*self.found.batch, *loops} - {*inside},
                             [(inside, lambda body: nested(inside, body, "#pragma omp simd"))],
                             lambda b: b.body.append(f"{cell} = {e.value(o.node, o.index, b)};"))

    def _keys(self) -> list[Stmt]:
        """The block's keys in panels (depth, keys)."""
        if self.key_step is not None:
            return [f"Kp = {self._base(self._operand(1), self.key, self.depth)} + begin * {literal(self.key_step)};"]
        o, L, W, D = self._operand(1), self.lanes, self.along, self.depth.extent
        stride = o.stride(self.key)
        zero = [f"if (keys % {W}) for (long z = 0; z < {D}; z++) for (long c = keys % {W}; c < {W}; c++) Kp[keys / "
                f"{W} * {W * D} + z * {W} + c] = 0;"]
        if o.base is None or o.base.dtype != F32 or stride is None or o.stride(self.depth) != 1:
            cell = f"Kp[c / {W} * {W * D} + depth * {W} + c % {W}]"
            return [*zero, count("c", "keys", ["const long key = begin + c;", *self._element(
                o, (self.key, self.depth), cell, [self.depth])])]
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

    def _values(self) -> list[Stmt]:
        """The block's values in panels (keys, columns)."""
        if self.value_step is not None:
            return [f"Vp = {self._base(self._operand(2), self.key, self.column)} + begin * {literal(self.value_step)};"]
        o, W, E, B = self._operand(2), self.across, self.column.extent, self.block
        zero = [] if E % W == 0 else [f"for (long c = 0; c < keys; c++) for (long z = {E % W}; z < {W}; z++) "
                                      f"Vp[{E // W * W * B} + c * {W} + z] = 0;"]
        out: list[Stmt] = [*zero, "for (long c = 0; c < keys; c++) {", "  const long key = begin + c;"]
        for first in range(0, E, W):
            part = Var("z", min(W, E - first))
            moved = Operand(o.node, tuple(substitute(i, {self.column: var(part) + first}) for i in o.index), None, None)
            cell = f"Vp[{first * B} + c * {W} + {'z' if part.extent > 1 else '0'}]"
            out += ["  {", *self._element(moved, (self.key, part), cell, [part]), "  }"]
        return [*out, "}"]

    # ---- softmax of a block of scores
    def _function(self, top: Node, at: Index, bottom: Node,
                  start: int) -> "tuple[list[Stmt], list[Stmt], list[Stmt], str] | None":
        """Statements of a block of keys, a row, a vector ``x@``, and the resulting vector, for what is between two
        nodes; None where there are no vectors of it."""
        first, lane = Var("begin", max(self.key.extent, 2)), Var("c_", max(self.block, 2))
        e = VectorEmitter(C, self.reads, given={bottom: lambda idx: Name("x@")}, count=start, width=self.lanes,
                          lanes={lane})
        e.kind["x@"] = "v"
        blocks = self._blocks(first, lane)
        try:
            value = e.floats(e.value(top, tuple(substitute(i, {self.key: var(first) + var(lane)}) for i in at),
                                     blocks[2]))
        except Refused:
            return None
        return blocks[0].body, blocks[1].body, blocks[2].body, str(value)

    def _blocks(self, *last: Var) -> list[Block]:
        return chain([self.row, last[-1]], Block(None, frozenset([*self.found.batch, *last[:-1]])))

    def _one_by_one(self, top: Node, at: Index, bottom: Node, start: int) -> list[Stmt]:
        """A loop over a row's elements, for what cannot be vectors."""
        e = Emitter(C, self.reads, given={bottom: lambda idx: "sp[c]"}, count=start)
        blocks = self._blocks(self.key)
        value = e.value(top, at, blocks[2])
        body = ["const long key = begin + c;", *blocks[2].body, f"sp[c] = {value};"]
        return [*blocks[0].body, *blocks[1].body, count("c", "keys", body)]

    def _over(self, pattern: list[Stmt]) -> Stmt:
        """A loop over the vectors of a row of the block."""
        L = self.lanes
        even = fixed(self.key.extent) and self.key.extent % L == 0 and self.block % L == 0
        mask = Let("hy_m", Name(MASK), "HYV_FIRST((int)(keys - c_))", True)
        return Scope(("long c_ = 0;", *within([f"for (; c_ + {L} <= keys; c_ += {L}) {{"], unmasked(pattern)),
                      *([] if even else [When("c_ < keys", (mask, *masked(pattern)))])))

    def _softmax(self) -> tuple[list[Stmt], Stmt]:
        """Statements of a block of keys, and of a tile: its scores become exponentials, whose weights are in S."""
        f = self.found
        before = self._function(f.logits, f.weights_at, f.scores, 3000)
        after = self._function(f.given, f.given_at, f.weights, 4000)
        outer = [*(before[0] if before else []), *(after[0] if after else [])]
        low = "-__builtin_inff()"
        logits = before or ([], [], [], "x@")
        weights = after or ([], [], [], "x@")
        body: list[Stmt] = [
                "const long row = q0 + i;", f"float *sp = S + i * {self.block};", f"hy_v most = HYV_B({low});",
                *(self._one_by_one(f.logits, f.weights_at, f.scores, 5000) if before is None else logits[1]),
                self._over(["const hy_v x@ = HYV_LOAD(sp + c_);", *logits[2],
                            f"const hy_v y@ = HYV_KEEP@({logits[3]}, HYV_B({low}));",
                            "HYV_STORE(sp + c_, y@);", "most = HYV_MAX(most, y@);"]),
                f"const float peak = hyv_max(most), old = M[i], m = old > peak ? old : peak, by = "
                f"{'m' if self.one and self.replaced else 'm == -__builtin_inff() ? 0.0f : m'};",
                "hy_v sum = {0};", *(weights[1] if after else []),
                self._over(["const hy_v x@ = HYV_KEEP@(hyv_exp_below(HYV_LOAD(sp + c_) - HYV_B(by)), (hy_v){0});",
                            "sum += x@;", *weights[2], f"HYV_STORE(sp + c_, {weights[3]});"]),
                *(self._one_by_one(f.given, f.given_at, f.weights, 6000) if after is None else []),
                *([] if self.one else ["f[i] = hy_expf(old - by);"]),
                f"M[i] = m; T[i] = {'' if self.one else 'T[i] * f[i] + '}hyv_sum(sum);"]
        return outer, count("i", self.rows, body)

    # ---- results
    def _results(self) -> list[Stmt]:
        """The epilogue of a tile, from sums O and totals T."""
        at = root_index(self.k, (*map(var, self.found.batch), var(self.row), var(self.column)))
        lane = Var("c_", self.column.extent)
        name = self.column.name
        try:
            e: Emitter = replace(self.emitter(lane), count=7000)
            if lane.extent < 2 or self.k.root.dtype != F32:
                raise Refused("no vectors")
            blocks = self._stored(e, tuple(substitute(i, {self.column: var(lane)}) for i in at), lane)
            total, out = f"HYV_LOAD(O + i * {self.columns} + c_)", "total@ / HYV_B(T[i])"
            out = f"HYV_SELECT(HYV_EQ(total@, (hy_v){{}}), total@, {out})" if self.replaced else out
            loop = iterations(lane, [f"const hy_v total@ = {total};", f"const hy_v sum@ = {out};", *blocks[2].body],
                              self.lanes, 1)
        except Refused:
            # what is of one row may stand before the loop over rows
            i = "i" if self.any or self.row.extent > 1 else "0"
            total = f"O[{i} * {self.columns} + {name if self.column.extent > 1 else 0}]"
            cell = f"({total} == 0 ? {total} : {total} / T[{i}])" if self.replaced else f"({total} / T[{i}])"
            e = Emitter(C, self.reads, given={self.dot: lambda idx: cell}, extra=self.extra, count=7000)
            blocks = self._stored(e, at, self.column)
            loop = [count(name, self.column.extent, blocks[2].body)]
        return [*blocks[0].body, count("i", self.rows, ["const long row = q0 + i;", *blocks[1].body, *loop])]

    def _stored(self, e: Emitter, at: Index, lane: Var) -> list[Block]:
        blocks = self._blocks(lane)
        self.store_root(e, at, blocks[2])
        return blocks

    # ---- the kernel
    def print(self) -> Printed:
        """Its text: units of work are batches and, in each, groups of query tiles."""
        pack, place, a_row, a_depth = self._queries()
        micros = [*(self._micros("qk", self.nk, a_row, a_depth, self.along, self.block, str(self.depth.extent), False)
                    if self.key_step is None else
                    [DotFunction(F32, self.lanes, self.mr, together(self.mr, self.lanes, self.depth.extent),
                                 {"sm": a_row, "sn": self.key_step, "apart": self.block, "n": self.depth.extent,
                                  "more": 0}).text(f"{self.name}_qk")]),
                  *self._micros("pv", self.nc, self.block, 1, self.value_step or self.across, self.columns, "n",
                               not self.one)]
        batch = list(self.found.batch)
        batches = math.prod(v.extent for v in batch)
        work = hint(batches * self.row.extent * self.key.extent) * (self.depth.extent + self.column.extent)
        many = batches * self.row.extent * self.key.extent
        threads = where_it_pays(PARALLEL, many, work, PARALLEL_WORK) if may_exceed(batches * self.groups, 1) else ""
        parallel = [threads] if threads else []
        share = (f"const long t0 = g * {self.together}, t1 = t0 + {self.together} < {self.tiles} ? t0 + "
                 f"{self.together} : {self.tiles};" if self.any else
                 f"const long t0 = g * {self.tiles} / {self.groups}, t1 = (g + 1) * {self.tiles} / {self.groups};")
        body = [f"const long g = u % {self.groups}; u /= {self.groups};", *decode("u", batch), share,
                *self._unit(pack, place)]
        code = [*micros, f"static void {self.name}({self.pointers}{more_declared()}) {{", *parallel,
                count("unit", batches * self.groups, ["long u = unit;", *body]), "}"]
        return Printed(self.name, statements(code), self.args, "attention", vectors=True)

    def _unit(self, pack: list[Stmt], place: str) -> list[Stmt]:
        """Tiles t0 ... t1 - 1 of a batch over all blocks of keys, then their results."""
        mr, rows, keys, n = self.mr, self.row.extent, self.key.extent, self.together * self.mr
        outer, softmax = self._softmax()
        cut = Cut(rows, mr, self.tiles)
        span: list[Stmt] = [f"const long first = {cut.first('t0')}, last = t1 * {mr} < {rows} ? t1 * {mr} : {rows};"
                ] if pack and not self.any else []
        if self.any:
            span = [f"const long height = ({rows} + {self.tiles} - 1) / {self.tiles};",
                    f"const long first = t0 * height, last = t1 * height < {rows} ? t1 * height : {rows};"]
        where = ["const long q0 = t * height, own = height < last - q0 ? height : last - q0;" if self.any else
                 f"const long q0 = {cut.first('t')};",
                 f"float *O = sums + (t - t0) * {mr * self.columns}, *T = totals + (t - t0) * {mr};"]
        tile: list[Stmt] = [
                *where, f"float *M = peaks + (t - t0) * {mr};", f"const float *A = {place};",
                f"for (long c = 0; c < keys; c += {self.along}) " + self._call(
                    "qk", f"A, Kp + c * {self.depth.extent}l, S + c") if self.key_step is None else
                f"{self.name}_qk(A, Kp, S, keys);", softmax,
                f"for (long c = 0; c < {self.columns}; c += {self.across}) " + self._call(
                    "pv", f"S, Vp + c * {self.block if self.value_step is None else 1}l, "
                          f"O + c{'' if self.one else ', f'}, keys")]
        block = [Scope(tuple(self._keys())), Scope(tuple(self._values())), *outer, count("t", "t1", tile, first="t0")]
        packed = {"Kp": self.block * self.depth.extent if self.key_step is None else 0,
                  "Vp": self.block * self.columns if self.value_step is None else 0}
        sizes = {**packed, "S": mr * self.block, "sums": n * self.columns}
        return [*span, *pack, *(f"float {name}[{size}] __attribute__((aligned(64)));" if size
                                else f"const float *{name};" for name, size in sizes.items()),
                f"float peaks[{n}], totals[{n}]{'' if self.one else f', f[{mr}]'};",
                f"for (long i = 0; i < {n}; i++) {{ peaks[i] = -__builtin_inff(); totals[i] = 0; }}",
                *([] if self.one else ["__builtin_memset(sums, 0, sizeof sums);"]),
                count("begin", keys, [f"const long keys = {keys} - begin < {self.block} ? {keys} - begin : "
                                      f"{self.block};", *block], self.block),
                count("t", "t1", [*where, *self._results()], first="t0")]
