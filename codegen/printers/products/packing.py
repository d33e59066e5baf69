"""Panels of a contraction: its packed rows and columns, and the sums of a tile over them."""
from __future__ import annotations

from typing import Sequence

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, substitute, text

from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.program.size_parameters import more_declared
from hybrid.codegen.emit import Block, Emitter, loop_nest
from .epilogue import Epilogue
from .operand import Matmul, Operand
from .prefetch import Prefetch
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Tile, decode, flat, inner_name

DEEP = 8192                     # steps of a depth above which sums of STEPS of them are added to the result
STEPS = 512
AHEAD = 16                      # steps of the depth that columns are fetched before they are packed or multiplied
APART = 256                     # bytes from one step of the depth to the next, in rows that are asked for ahead as well
COPY = 50                       # multiplications that take as long as to put an element elsewhere
FIRST = 16 << 10                # bytes of packed columns that stay in the first cache of a core


class Panels(Epilogue):
    """What a Contraction prints to pack its operands and to multiply them."""
    name: str
    d: np.dtype
    args: list[Node]
    scratch: int
    U: str
    prefetches: list[Prefetch]
    steps: int
    fetched: bool
    deep: bool

    def _micros(self, t: Tile, depth: int | None, strides: tuple[int, int], direct: int | None, out: int,
                packs: int | None) -> str:
        """The functions of a tile: of all its rows, of one row less, and the one that packs the columns that it reads.

        depth: steps that are summed; None: some, of a greater depth, and sums are added to those that are there
        already. strides: (row, depth) of the rows. direct: elements from one step of the depth to the next in columns
        that are read in place; None: they are packed. out: from row to row in the result. packs: the same as ``direct``
        for the function that packs, None where there is none.
        """
        whole = [j * self.lanes for j in range(t.nv)]
        # the last vector of columns that are no whole vectors overlaps the one before it
        at = whole if direct is None and packs is None else [min(j, t.c - self.lanes) for j in whole]
        texts = [self._micro("tile", t.mr, depth, strides,
                             (direct or 0, at) if direct is not None else (t.nv * self.lanes, whole), out, at)]
        if t.uneven:
            texts.append(self._micro("less", t.mr - 1, depth, strides,
                                     (direct or 0, at) if direct is not None else (t.nv * self.lanes, whole), out, at))
        if packs is not None:
            texts.append(self._micro("first", t.mr, depth, strides, (packs, at), out, at, True))
        return "\n".join(texts)

    def _micro(self, suffix: str, rows: int, depth: int | None, strides: tuple[int, int],
               columns: tuple[int, list[int]], to: int, at: list[int], packs: bool = False) -> str:
        """Sums of a tile. A, B: its rows and columns; C: where its sums go; P: where the columns are packed. columns:
        elements to the next step of the depth, and where its vectors begin; at: where they go.
        """
        (sm, sk), (ldb, vectors), nv = strides, columns, len(at)
        ij = [(i, j) for i in range(rows) for j in range(nv)]
        steps, last = depth or self.steps, depth or "n"
        blocks = [f"{self.V} total[{len(ij)}]; for (long kt = 0; kt < {last}; kt += {STEPS}) {{ "
                  f"const long end = kt + {STEPS} < {last} ? kt + {STEPS} : {last};"] * (self.deep and steps > STEPS)
        more = [f"{self.T} *P"] * packs + [f"const {self.T} *E{i}"
                                           for i in range(len(self.prefetches))] + ["long n", "long more", "long apart"] * (depth is None)  # noqa: E501
        out = [f"static __attribute__((noinline)) void "
               f"{self.name}_{suffix}({', '.join([f'const {self.T} *A', f'const {self.T} *B', f'{self.T} *C', *more])}) {{",  # noqa: E501
               *(f"  {line}" for line in blocks), "  " + " ".join(f"{self.V} c{i}_{j} = {{0}};" for i, j in ij),
               f"  for (long k = {'kt' if blocks else 0}; k < {'end' if blocks else last}; k++) {{",
               "    " + " ".join(f"{self.V} b{j} = *(const {self.U} *)(B + k * {ldb}l + {v});" for j,
                                 v in enumerate(vectors))]
        if packs:
            out.append("    " + " ".join(f"*({self.U} *)(P + k * {nv * self.lanes} + {j * self.lanes}) = b{j};"
                                         for j in range(nv)))
        if packs or ldb == nv * self.lanes and steps * ldb * self.d.itemsize > FIRST:
            out.append("    " + " ".join(f"__builtin_prefetch(B + (k + {AHEAD}) * {ldb}l + {v});" for v in vectors))
        if self.prefetches:
            each = 1 << max(0, (steps * 3 // 4 // rows).bit_length() - 1)             # steps from one row's to the next
            lines = [p.line(f"E{i} + k / {each} * {p.step}l + {v}") for i, p in enumerate(self.prefetches)
                     for v in range(0, nv * self.lanes, 64 // self.d.itemsize)]
            out.append(f"    if (k < {rows * each}{f' && k % {each} == 0' if each > 1 else ''}) {{ {' '.join(lines)} }}")  # noqa: E501
        if sk * self.d.itemsize >= APART:
            out.append(f"    __builtin_prefetch(A + (k + {AHEAD}) * {sk}l);")
        if self.fetched:
            line = 64 // self.d.itemsize
            only = f"if ((k & {line - 1}) < {rows}) " if self.lanes < line else ""
            out.append(f"    {only}__builtin_prefetch(A + {rows * sm}l + (k & {line - 1}) * {sm}l + (k & -{line}), 0, "
                       "2);")
        for i in range(rows):
            copies = ", ".join(["a"] * self.lanes)
            out.append(f"    {{ {self.T} a = A[{i * sm}l + k * {sk}l]; {self.V} w = {{{copies}}}; "
                       + " ".join(f"c{i}_{j} += w * b{j};" for j in range(nv)) + " }")
        cells = [f"*({self.U} *)(C + {f'{i} * apart' if depth is None else f'{i * to}l'} + {at[j]})" for i, j in ij]

        def joined(op: str, left: Sequence[str], right: Sequence[str]) -> str:
            return " ".join(f"{x} {op} {y};" for x, y in zip(left, right))
        sums, totals = [f"c{i}_{j}" for i, j in ij], [f"total[{q}]" for q in range(len(ij))]
        if blocks:                                         # not in C: tiles of two threads may overlap there
            end = (f"if (kt) {{ {joined('+=', sums, totals)} }} {joined('=', totals, sums)} }} "
                   f"{joined('=', cells, totals)}")
        elif depth:
            end = joined("=", cells, sums)
        else:
            end = f"if (more) {{ {joined('+=', cells, sums)} }} else {{ {joined('=', cells, sums)} }}"
        return "\n".join([*out, "  }", f"  {end}", "}"])

    def _packed_strides(self, m: Matmul, t: Tile) -> tuple[int, int]:
        """Strides (row, depth) of a packed row tile. Rows that are neighbours in memory stay so; others keep their
        order along the depth, which is copied faster than transposed, and begin at different places of the first cache.
        """
        line = 64 // self.d.itemsize
        return (1, t.mr) if self._rows_are_neighbours(m) else ((-(-self.steps // line) | 1) * line, 1)

    def _packed_size(self, m: Matmul, t: Tile) -> int:
        """Elements of a packed row tile."""
        return max(self._packed_strides(m, t)) * (self.steps if self._rows_are_neighbours(m) else t.mr)

    def _rows_are_neighbours(self, m: Matmul) -> bool:
        return len(m.rows) == 1 and m.a.address is not None and m.a.stride(m.rows[0]) == 1

    def _pack_rows(self, m: Matmul, t: Tile, first: str, last: str) -> list[str]:
        """Row tiles from ``first`` up to ``last`` into scratch memory."""
        number = f"(({text(flat(m.batch))}) * {t.tiles} + rt)" if m.batch else f"(rt - {first})"
        outer, mid, nest = self._row_packing(m, t, number)
        parallel = t.tiles > 1 and m.sizes[0] * m.sizes[2] * COPY >= PARALLEL_WORK
        loop = [*([PARALLEL] if parallel else []), f"for (long rt = {first}; rt < {last}; rt++) {{",
                *("  " + s for s in nest), "}"]
        return [f"{self.T} *Ap = ({self.T} *)scratch;", *outer, *loop_nest(m.batch, [*mid, *loop])]

    def _row_packing(self, m: Matmul, t: Tile, number: str) -> tuple[list[str], list[str], list[str]]:
        """What packs row tile ``rt``: lines before all loops, lines within those of the batch, the rows of the tile.
        number: of the tile's place in Ap.
        """
        rows, (sm, sk) = m.sizes[0], self._packed_strides(m, t)
        e = Emitter(C, self.reads, count=1000)
        outer = Block(None, frozenset())
        mid = outer.child([*m.batch])
        inner = mid.child([*m.rows, *m.depth])
        value = e.value(m.a.node, m.a.index, inner)
        inner.body.append(f"Ap[{number} * {self._packed_size(m, t)} + ({self._step(m)}) * {sk} + ri * {sm}] = {value};")  # noqa: E501
        body = [f"long rr = {t.first(rows)};", *([f"if (rr > {rows - t.mr}) rr = {rows - t.mr};"] if t.uneven else []),
                "rr += ri;", *decode("rr", m.rows)]
        row = Var("ri", t.mr)
        if self._rows_are_neighbours(m):
            return outer.lines, mid.lines, self._along_depth(m, loop_nest([row], body + inner.lines))
        along = self._along_depth(m, inner.lines, "#pragma omp simd")
        return outer.lines, mid.lines, loop_nest([row], body + along)

    def _along_depth(self, m: Matmul, body: list[str], pragma: str = "") -> list[str]:
        """Loops over the depth, or over the steps of it that are done at once."""
        if self.steps == m.sizes[2]:
            return loop_nest(m.depth, body, pragma)
        k = m.depth[0].name
        return [*([pragma] if pragma else []), f"for (long {k} = kb; {k} < kb + kn; {k}++) {{",
                *("  " + s for s in body), "}"]

    def _depth_loop(self, m: Matmul, lines: list[str]) -> list[str]:
        """Lines for all steps of the depth, some at a time."""
        depth = m.sizes[2]
        if self.steps == depth:
            return lines
        return [f"for (long kb = 0; kb < {depth}; kb += {self.steps}) {{",
                f"  const long kn = kb + {self.steps} < {depth} ? {self.steps} : {depth} - kb;",
                *("  " + s for s in lines), "}"]

    def _step(self, m: Matmul) -> str:
        """The number of a step among those that are packed."""
        return text(flat(m.depth)) + (" - kb" if self.steps < m.sizes[2] else "")

    def _count(self, m: Matmul) -> str:
        """How many steps of the depth are packed, in C."""
        return "kn" if self.steps < m.sizes[2] else str(m.sizes[2])

    def _copy_columns(self, m: Matmul, t: Tile, source: str, step: int) -> list[str]:
        """Packs columns that are neighbours in memory for tiles of which none packs them: those of the smaller size."""
        width, lanes = t.nv * self.lanes, self.lanes
        copies = " ".join(f"*({self.U} *)(Bp + k * {width} + {j}) = *(const {self.U} *)(from + k * {step}l + "
                          f"{min(j, t.c - lanes)});" for j in range(0, width, lanes))
        return [f"if (first >= {t.full}) {{", f"  const {self.T} *from = {source};",
                f"  for (long k = 0; k < {self._count(m)}; k++) {{ {copies} }}", "}"]

    def _pack_columns(self, m: Matmul, t: Tile, spans: dict[Var, tuple[int, str]], pragma: str = "") -> list[str]:
        """The tile's columns, depth by depth, lanes beyond the tile zero. pragma: of the loop over the depth."""
        width = t.nv * self.lanes
        e = Emitter(C, self.reads, count=2000)
        blocks = [Block(None, frozenset(), [])]
        blocks[0].vars = frozenset([*m.batch, *m.columns]) - frozenset(spans)
        across = (m.b.address is not None and len(spans) == 1 and len(m.depth) == 1 and m.b.stride(m.depth[0]) == 1
                  and m.b.stride(list(spans)[0]) not in (None, 1))
        if across:
            return self._pack_across(m, t, spans, pragma)
        for vs in [m.depth, *([v] for v in spans)]:
            blocks.append(blocks[-1].child(vs))
        value = e.value(m.b.node, m.b.index, blocks[-1])
        line = "".join(f"{inner_name(v)} * {t.c} + " for v in list(spans)[:-1]) + inner_name(list(spans)[-1])
        body = [*blocks[-1].lines, f"Bp[({self._step(m)}) * {width} + {line}] = {value};"]
        for at in reversed(range(len(spans))):
            body = [*blocks[at + 1].lines, *self._span_loop(list(spans)[at], spans, body, at == len(spans) - 1)]
        return [*self._zeros(m, t.r * t.c, width), *blocks[0].lines, *self._along_depth(m, body, pragma)]

    def _zeros(self, m: Matmul, count: int, width: int) -> list[str]:
        """Zeros beyond the columns of a panel."""
        return [] if count == width else [f"for (long zk = 0; zk < {self._count(m)}; zk++) for (long z = {count}; z < "
                                          f"{width}; z++) Bp[zk * {width} + z] = 0;"]

    def _pack_across(self, m: Matmul, t: Tile, spans: dict[Var, tuple[int, str]], pragma: str) -> list[str]:
        """Columns that lie along the depth in memory: read in short runs, written across the panel."""
        depth, width, run = self._count(m), t.nv * self.lanes, self.lanes
        (x, (count, start)) = next(iter(spans.items()))
        step, blocks = m.b.stride(x), count // run * run
        out = [f"const {self.T} *from = {self._base(m.b, {x: Ix()}, m)} + {start} * {step}l;",
               *self._zeros(m, count, width),
               *([pragma] if pragma else []), f"for (long kr = 0; kr < {depth} - {run - 1}; kr += {run}) {{"]
        if blocks:
            out.append(f"  for (long c = 0; c < {blocks}; c += {run}) turn_{self.V}(Bp + kr * {width}l + c, {width}, "
                       f"from + c * {step}l + kr, {step}l);")
        if blocks < count:
            out += [f"  for (long c = {blocks}; c < {count}; c++)",
                    f"    for (long q = 0; q < {run}; q++) Bp[(kr + q) * {width} + c] = from[c * {step}l + kr + q];"]
        out.append("}")
        if m.sizes[2] % run:
            out.append(f"for (long q = {depth} - {depth} % {run}; q < {depth}; q++) for (long c = 0; c < {count}; "
                       f"c++) Bp[q * {width} + c] = from[c * {step}l + q];")
        return out

    def _base(self, o: Operand, names: dict[Var, Ix], m: Matmul) -> str:
        """Where an operand begins at some positions, at the first step of the depth that is summed."""
        assert o.base is not None and o.address is not None
        at = text(substitute(o.address, {**names, **{v: Ix() for v in m.depth}}))
        return f"({self.reads[o.base]} + ({at}){f' + kb * {o.stride(m.depth[0])}l' if self.steps < m.sizes[2] else ''})"

    def _head(self) -> str:
        parts = [f"{'' if i < len(self.k.stores) else 'const '}{C.storage(n.dtype)} *p{i}" for i,
                 n in enumerate(self.args)]
        return f"static void {self.name}({', '.join([*parts, 'void *scratch'])}{more_declared()}) {{"

    def _batch_open(self, m: Matmul, work: int) -> list[str]:
        out = []
        for i, v in enumerate(m.batch):
            if i == 0 and work >= PARALLEL_WORK:
                out.append("  " + PARALLEL)
            out.append(f"  for (long {v.name} = 0; {v.name} < {v.extent}; {v.name}++) {{")
        return out

    def _batch_close(self, m: Matmul) -> list[str]:
        return ["  }" for _ in m.batch]
