"""Attention in CUDA: softmax(f(Q Kᵀ)) V in one kernel, whose matrix of weights is never in memory.

A block has 64 queries, 16 a warp; keys and values come in tiles, the next under way by asynchronous copies. Scores stay
in the registers in which tensor cores leave them: they become exponentials under a running maximum, and those are the
left operand of the second product as they are. Sums so far are scaled again when the maximum grows (Milakov and
Gimelshein, Online normalizer calculation for softmax, 2018; Dao, FlashAttention-2, 2023). Masks and scales are printed
into the loop over a thread's scores.
"""
from __future__ import annotations

import math

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Quot, Rem, Val, Var, substitute, text, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.passes.attention import Attention

from .pieces import Launch, PrintedCuda, decode, emitter, function, index_type, names_of
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.products.operand import Operand, operand, root_index

QUERIES, WARPS = 64, 4          # of a block
KEYS = {2: 64, 4: 32}           # of a tile, by bytes of an element
MOST = 128                      # elements of a query or value: registers
FUNCTION = {"float16": "hy_mma_half", "bfloat16": "hy_mma_bf16"}


def takes_attention(found: Attention, dot: Node) -> bool:
    """Whether a kernel is printed for an attention: others keep their products."""
    depth = found.scores.args[0].shape[found.scores.attrs["contract"][0][0]]
    return (max(depth, dot.shape[-1]) <= MOST and found.row.extent >= 16 and found.place.extent >= 32
            and all(a.dtype == dot.dtype for a in (*found.scores.args, *dot.args)))


def print_attention(k: Kernel, name: str) -> PrintedCuda:
    """The kernel."""
    return _Attention(k, name).print()


class _Tile:
    """Lines of an operand in shared memory: ``lines`` of ``line`` bytes, the first ``width`` elements of each."""

    def __init__(self, name: str, o: Operand, line: Var, along: Var, lines: int, item: int, at: int):
        self.name, self.o, self.line_var, self.along, self.lines, self.at = name, o, line, along, lines, at
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


class _Attention:
    """Sizes, operands and the pieces of the text."""

    def __init__(self, k: Kernel, name: str):
        assert k.dot is not None
        self.k, self.name, self.dot, self.found = k, name, k.dot, k.attention
        self.args, self.names = names_of(k)
        self.reads = {n: p for n, p in self.names.items() if n not in k.stores}
        self.kind, self.half = index_type(k), is_half(k.dot.dtype)
        self.item = k.dot.dtype.itemsize
        self.keys = KEYS[self.item]
        f, self.row, self.key = self.found, self.found.row, self.found.place
        self.depth = Var("depth", f.scores.args[0].shape[f.scores.attrs["contract"][0][0]])
        self.column = Var("column", self.dot.shape[-1])
        self.q = _Tile("q", self._operand(0), self.row, self.depth, QUERIES, self.item, 0)
        self.kt = _Tile("k", self._operand(1), self.key, self.depth, self.keys, self.item, self.q.bytes)
        values = self.q.bytes + 2 * self.kt.bytes
        self.v = _Tile("v", self._operand(2), self.key, self.column, self.keys, self.item, values)
        self.shared = self.v.at + 2 * self.v.bytes
        self.tiles = -(-self.row.extent // QUERIES)
        self.turns = -(-self.key.extent // self.keys)
        # fragments of a warp: steps along the depth, pieces of 8 keys, of 8 columns
        self.steps, self.nk, self.nc = self.q.padded // (2 * self.q.each), self.keys // 8, self.v.padded // 8

    @property
    def replaced(self) -> bool:
        """Whether weights are changed before the second product: a row of zeros in place of weights that are none is
        zero."""
        n = self.found.given
        while n.prim in ("cast", "reshape", "permute"):
            n = n.args[0]
        return n is not self.found.weights

    def _operand(self, which: int) -> Operand:
        """Q (0), K (1) or V (2) at their index."""
        f = self.found
        dot, side = (self.dot, 1) if which == 2 else (f.scores, f.query if which == 0 else 1 - f.query)
        batch = tuple(var(v) for v in f.batch) if which == 2 else f.scores_at[:-2]
        free, inner = ((self.row, self.depth), (self.key, self.depth), (self.column, self.key))[which]
        n = dot.args[side]
        at = [var(free)] * n.ndim
        for a, i in zip(dot.attrs["batch"][side], batch):
            at[a] = i
        at[dot.attrs["contract"][side][0]] = var(inner)
        return operand(n, tuple(at), self.reads)

    # ---- tiles
    def _bring(self, t: _Tile, first: str, to: str) -> list[str]:
        """Statements that begin to bring a tile whose first line is ``first`` to ``to`` (bytes); zeros outside."""
        across = t.padded // t.each if t.whole else t.padded
        count, v, a = t.lines * across, t.line_var, t.along
        rounds = -(-count // (32 * WARPS))
        head = ["#pragma unroll" if t.whole else "#pragma unroll 4", f"for (int i = 0; i < {rounds}; i++) {{",
                f"  const int e = (int)threadIdx.x + i * {32 * WARPS};",
                *([f"  if (e >= {count}) break;"] if count % (32 * WARPS) else []),
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
        block = Block(None, frozenset([*self.found.batch, v, a]))
        value = e.value(t.o.node, t.o.index, block)
        cell, zero = (CUDA.half_stored(self.dot.dtype, value), "0") if self.half else (value, "0.f")
        T = "unsigned short" if self.half else "float"
        return [*head, *("  " + s for s in block.lines), f"  *({T} *)(tile_memory + ({to}) + line * {t.line} + piece * "
                f"{self.item}) = inside ? ({T})({cell}) : {zero};", "}"]

    # ---- products
    def _scores(self) -> list[str]:
        """S = Q Kᵀ of the warp's 16 queries and a tile of keys."""
        q = f"base + (warp * 16 + lane % 16) * {self.q.line} + lane / 16 * 16 + d * 32"
        k = (f"base + {self.kt.at} + stage * {self.kt.bytes} + (j * 16 + lane % 8 + lane / 16 * 8) * {self.kt.line} + "
             "(lane / 8 & 1) * 16 + d * 32")
        out = [f"float s[{self.nk}][4] = {{}};", "#pragma unroll", f"for (int d = 0; d < {self.steps}; d++) {{",
               "  unsigned a[4];", f"  hy_ldmatrix<4>(a, {q});"]
        if not self.half:
            out += ["  unsigned a_small[4];", "  #pragma unroll",
                    "  for (int n = 0; n < 4; n++) hy_two_tf32(a[n], a_small[n]);"]
        out += ["  #pragma unroll", f"  for (int j = 0; j < {self.nk // 2}; j++) {{", "    unsigned b[2][2];",
                f"    hy_ldmatrix<4>(b[0], {k});"]
        if self.half:
            f = FUNCTION[self.dot.dtype.name]
            return [*out, f"    {f}(s[2 * j], a, b[0]);", f"    {f}(s[2 * j + 1], a, b[1]);", "  }", "}"]
        return [*out, "    #pragma unroll",
                "    for (int n = 0; n < 2; n++) hy_three_tf32(s[2 * j + n], a, a_small, b[n]);",
                "  }", "}"]

    def _values(self) -> list[str]:
        """O = f O + P V of a tile, in sums of their own."""
        v = f"{self.v.at} + stage * {self.v.bytes}"
        if self.half:
            pack = "hy_two_bf16" if self.dot.dtype.name == "bfloat16" else "hy_two_half"
            return [f"float o[{self.nc}][4] = {{}};", "#pragma unroll",
                    f"for (int d = 0; d < {self.keys // 16}; d++) {{",
                    f"  const unsigned a[4] = {{{pack}(s[2 * d][0], s[2 * d][1]), {pack}(s[2 * d][2], s[2 * d][3]), "
                    f"{pack}(s[2 * d + 1][0], s[2 * d + 1][1]), {pack}(s[2 * d + 1][2], s[2 * d + 1][3])}};",
                    "  #pragma unroll", f"  for (int j = 0; j < {self.nc // 2}; j++) {{", "    unsigned b[2][2];",
                    f"    hy_ldmatrix_trans<4>(b[0], base + {v} + (d * 16 + lane % 16) * {self.v.line} + "
                    f"lane / 16 * 16 + j * 32);",
                    *(f"    {FUNCTION[self.dot.dtype.name]}(o[2 * j + {n}], a, b[{n}]);" for n in (0, 1)), "  }", "}"]
        cell = f"hy_word_at(base + {v} + (d * 8 + lane % 4 * 2 + n) * {self.v.line} + (j * 8 + lane / 4) * 4)"
        return [f"float o[{self.nc}][4] = {{}};", "#pragma unroll", f"for (int d = 0; d < {self.nk}; d++) {{",
                "  unsigned a[4], a_small[4];", "  #pragma unroll", "  for (int n = 0; n < 4; n++) {",
                "    a[n] = __float_as_uint(s[d][n % 2 * 2 + n / 2]);", "    hy_two_tf32(a[n], a_small[n]);", "  }",
                "  #pragma unroll", f"  for (int j = 0; j < {self.nc}; j++) {{", "    unsigned b[2];",
                "    #pragma unroll",
                f"    for (int n = 0; n < 2; n++) b[n] = {cell};", "    hy_three_tf32(o[j], a, a_small, b);", "  }",
                "}"]

    # ---- softmax
    def _element(self, top: Node, at: Index, bottom: Node, start: int) -> tuple[list[str], str]:
        """Statements of what lies between two nodes at row and key, of a number x, and the result."""
        e = emitter(self.k, self.names)
        e.count, e.given[bottom] = start, lambda idx: "x"
        block = Block(None, frozenset([*self.found.batch, self.row, self.key]))
        value = e.value(top, at, block)
        return block.lines, value

    def _softmax(self) -> list[str]:
        """Scores become exponentials under the running maximum, times what is behind the softmax."""
        f, x = self.found, "s[n / 4][n % 4]"
        before = self._element(f.logits, f.weights_at, f.scores, 3000)
        after = self._element(f.given, f.given_at, f.weights, 4000)
        each = ["#pragma unroll", f"for (int n = 0; n < {4 * self.nk}; n++) {{",
                f"  const {self.kind} row_ = q0 + warp * 16 + lane / 4 + n / 2 % 2 * 8, key_ = k0 + n / 4 * 8 + "
                "lane % 4 * 2 + n % 2;",
                f"  const {self.kind} row = row_ < {self.row.extent} ? row_ : {self.row.extent - 1}, key = key_ < "
                f"{self.key.extent} ? key_ : {self.key.extent - 1};", "  HY_ASSUME(row >= 0 && key >= 0);"]
        inside = "key_ < " + str(self.key.extent) if self.key.extent % self.keys else "true"
        rounded = CUDA.rounded(f.scores.dtype, x)
        return ["float peak[2] = {-HY_INF, -HY_INF}, by[2], again[2];", *each, f"  const float x = {rounded};",
                *("  " + s for s in before[0]), f"  {x} = {inside} ? {before[1]} : -HY_INF;",
                f"  peak[n / 2 % 2] = fmaxf(peak[n / 2 % 2], {x});", "}",
                "#pragma unroll", "for (int h = 0; h < 2; h++) {",
                "  peak[h] = fmaxf(peak[h], __shfl_xor_sync(~0u, peak[h], 1));",
                "  peak[h] = fmaxf(most[h], fmaxf(peak[h], __shfl_xor_sync(~0u, peak[h], 2)));",
                "  by[h] = peak[h] == -HY_INF ? 0.f : peak[h];",
                "  again[h] = hy_exp2((most[h] - by[h]) * 1.44269504f), most[h] = peak[h], total[h] *= again[h];", "}",
                *each, f"  const float x = hy_exp2(({x} - by[n / 2 % 2]) * 1.44269504f);", "  total[n / 2 % 2] += x;",
                *("  " + s for s in after[0]), f"  {x} = {inside} ? {after[1]} : 0.f;", "}"]

    # ---- results
    def _results(self) -> list[str]:
        """The root, from sums and totals; two neighbours at once where they are stored as one."""
        width = 2 if self.column.extent % 2 == 0 else 1
        lines = self._stored(width) or self._stored(1)
        width = width if self._stored(width) else 1
        assert lines is not None
        return ["#pragma unroll", "for (int h = 0; h < 2; h++) {",
                "  total[h] += __shfl_xor_sync(~0u, total[h], 1);", "  total[h] += __shfl_xor_sync(~0u, total[h], 2);",
                "}",
                "const float part[2] = {1 / total[0], 1 / total[1]};",
                "#pragma unroll", f"for (int c = 0; c < {4 * self.nc}; c += {width}) {{",
                f"  const {self.kind} row = q0 + warp * 16 + lane / 4 + c / 2 % 2 * 8, column = c / 4 * 8 + "
                "lane % 4 * 2 + c % 2;",
                "  HY_ASSUME(row >= 0 && column >= 0);",
                f"  if (row < {self.row.extent} && column < {self.column.extent}) {{",
                f"    const {self.kind} step = column / {width};", *("    " + s for s in lines), "  }", "}"]

    def _quotient(self, width: int) -> str:
        """A result: its sum over the total of its row, where ``j`` counts the neighbours."""
        cell = f"sums[c / 4][c % 4 / 2 * 2 + {'j' if width == 2 else 'c % 2'}]"
        return f"({cell} == 0 ? {cell} : {cell} * part[c / 2 % 2])" if self.replaced else f"{cell} * part[c / 2 % 2]"

    def _stored(self, width: int) -> list[str] | None:
        lane, first = Var("j", width), Var("step", max(self.column.extent // width, 2))
        at = root_index(self.k, (*(var(v) for v in self.found.batch), var(self.row), var(self.column)))
        names: dict[Var, Ix] = {self.column: var(first) * width + var(lane)}
        e = emitter(self.k, self.names, None, lane)
        e.count, e.given[self.dot] = 7000, lambda idx: "sum"
        outer = Block(None, frozenset([*self.found.batch, self.row, first]))
        block = outer.child([lane]) if width > 1 else outer
        block.body.append(f"const float sum = {CUDA.rounded(self.dot.dtype, self._quotient(width))};")
        index = tuple(substitute(i, names) for i in at)
        value = e.value(self.k.root, index, block)
        block.body.append(e.store(self.names[self.k.root], self.k.root, index, value))
        if width > 1 and (e.loose or not e.packed):
            return None
        return [*outer.lines, *(e.lanes(block.lines) if width > 1 else [])]

    # ---- the kernel
    def print(self) -> PrintedCuda:
        """Its text: a block has some queries of a batch."""
        batch, kind = list(self.found.batch), self.kind
        count = math.prod(v.extent for v in batch)
        stage = (self.kt, self.v)
        ahead = [s for t in stage for s in self._bring(t, "next", f"{t.at} + turn % 2 * {t.bytes}")]
        body = ["extern __shared__ __align__(128) unsigned char tile_memory[];",
                "const hy_shared base = hy_shared_of(tile_memory);",
                "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
                f"const {kind} u = ({kind})(blockIdx.x / {self.tiles}u), q0 = ({kind})(blockIdx.x % {self.tiles}u) * "
                f"{QUERIES};",
                "HY_ASSUME(u >= 0 && q0 >= 0);", *decode("u", batch, kind),
                f"float sums[{self.nc}][4] = {{}}, most[2] = {{-HY_INF, -HY_INF}}, total[2] = {{0, 0}};",
                *self._bring(self.q, "q0", "0"), "#pragma unroll 1",
                f"for (int turn = 0; turn <= {self.turns}; turn++) {{",
                f"  if (turn < {self.turns}) {{", f"    const {kind} next = ({kind})turn * {self.keys};",
                *("    " + s for s in ahead), "  }", "  hy_commit();", "  if (turn == 0) continue;",
                "  hy_wait<1>();", "  __syncthreads();", f"  const {kind} k0 = ({kind})(turn - 1) * {self.keys};",
                "  const int stage = (turn - 1) % 2;",
                *("  " + s for s in [*self._scores(), *self._softmax(), *self._values()]),
                "  #pragma unroll", f"  for (int n = 0; n < {4 * self.nc}; n++)",
                "    sums[n / 4][n % 4] = sums[n / 4][n % 4] * again[n / 2 % 2] + o[n / 4][n % 4];",
                "  __syncthreads();", "}", "hy_wait<0>();", *self._results()]
        return PrintedCuda(function(self.name, self.args, len(self.k.stores), body, 32 * WARPS, alone=True),
                           [Launch(self.name, count * self.tiles, 32 * WARPS, self.args, self.shared)])
