"""Row, reduction and heavy elementwise kernels of float32, printed as vectors; Refused where they cannot be."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from hybrid.ir.size import fixed, hint, may_exceed, same
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, coefficient, linear, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.parse import parsed
from hybrid.ir.rewriting import length, walk
from hybrid.ir.stmt import For, Let, Name, Prefetch, Stmt

from hybrid.codegen.block import Block, chain, loop
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.loops import (
    PARALLEL_WORK, SINGLE, TEAM, KernelPrinter, Printed, group_loops, merged_axes, rename, rows_first, store_side,
    work_of,
)
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.lanes import F32, F64, LaneLoop, Refused, in_doubles, iterations
from .row_reductions import reduce_row
from hybrid.codegen.schedule.software_pipelining import in_stages
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.vector import FAR, NEAR, VectorEmitter
from hybrid.codegen.vector_forms import heavy, in_float32, library_call, one_plus

LARGE = 3 << 22                 # bytes of a result from which several rows under way bring nothing: memory is the limit


def print_rows(k: Kernel, name: str, target: Target) -> Printed:
    """C of an elementwise, reduction or row kernel as vectors; Refused where plain loops do as well or it cannot be."""
    kind, width = _type(k), target.lanes(F32)
    if width < (8 if kind == F64 or _halves(k) else 4):
        raise Refused("short vectors")
    if not _pays(k):
        raise Refused("plain loops do as well")
    told = k.root.dtype == kind or in_float32(k.root.dtype) or k.root.dtype == np.bool_ and kind == F32
    forms = [False] if told and (k.root.shape or k.hoisted) else []
    reason = Refused(f"a result of {k.root.dtype}, or a single number")
    for single in [*forms, *([True] if k.kind == "reduction" and not target.team else [])]:
        try:
            return _Rows(k, name, width * 4 // kind.itemsize, target.team, single, kind).print()
        except Refused as err:
            reason = err
    raise reason


class _Rows(KernelPrinter):
    """single: results are computed one by one, each by vectors along what it is reduced from."""

    def __init__(self, k: Kernel, name: str, width: int, team: bool, single: bool, kind: np.dtype):
        self.kind, self.line = kind, 64 // kind.itemsize              # and elements of a cache line
        super().__init__(k, name)
        self.width, self.team, self.single = width, team, single
        self.order, self.first = rows_first(k)

    def print(self) -> Printed:
        """The kernel; Refused where it cannot be."""
        sizes = [self.k.root.shape[a] for a in self.order]
        groups = merged_axes(sizes, lambda g: self._build(g)[0].divisions, self.first)
        e, blocks, loops = self._build(groups)
        body = self._close(e, blocks, loops)
        out = self.kernel(body, vectors=True)
        return replace(out, code=parsed(map(in_doubles, out.lines))) if self.kind == F64 else out

    def _build(self, groups: list[list[int]]) -> tuple[VectorEmitter, list[Block], list[Var]]:
        k, names = self.k, self.names
        loops, place = group_loops(k.root.shape, groups, order=self.order)
        self.place = place
        rows = frozenset(v for g, v in zip(groups, loops) if g[0] < self.first)
        lane = None if self.single else self._lane(place, loops, rows)
        if self.single:
            rows = frozenset(loops)
        e = VectorEmitter(C, self.reads, extra=self.extra, width=self.width,
                          lanes=set() if lane is None else {lane}, rows=rows, reducer=reduce_row,
                          one_plus=one_plus(k) if self.kind == F32 else {}, type=self.kind,
                          allow_halves=self.kind == F32)
        e.keep = self._keep(place) if lane is not None and lane not in rows else {}
        blocks = chain(loops)
        for n in reversed(k.hoisted):
            e.value(n, rename(k.members[n][0].idx, k.loops, place), blocks[-1])
        store = e.store(names[k.root], k.root, place, e.value(k.root, place, blocks[-1]))
        blocks[-1].body.append(store)
        for n, spot in k.sides:
            store_side(e, n, rename(spot, k.loops, place), names[n], blocks)
        return e, blocks, loops

    def _lane(self, place: Index, loops: list[Var], rows: frozenset[Var]) -> Var:
        """The loop whose turns are neighbours in the result: the innermost, or rows themselves where rows lie
        across."""
        at = linear(self.k.root.shape, place)
        found = [v for v in loops if may_exceed(v.extent, 1) and same(coefficient(at, v), 1)]
        least = 4 if self.width == 16 or self.kind == F64 else self.width
        if not found or fixed(found[0].extent) and found[0].extent < least:
            raise Refused("no long run of neighbours")
        if found[0] is not loops[-1] and found[0] not in rows:
            raise Refused("an axis that is neither innermost nor a row")
        return found[0]

    def _keep(self, place: Index) -> dict[Node, str]:
        """Heavy values that several loops of a row need, with where they are kept: their own array, the result's row, a
        buffer."""
        out: dict[Node, str] = {}
        free = self.k.root.dtype == self.kind and not self.k.sides
        for m, uses in self.k.members.items():
            if m.dtype != self.kind or len({(u.idx, u.inside) for u in uses}) < 2 or not heavy(m):
                continue
            if m in self.k.extra:
                out[m] = self.names[m]
            elif free and m.shape == self.k.root.shape and any(u.idx == self.k.members[self.k.root][0].idx
                                                               for u in uses):
                out[m], free = self.names[self.k.root], False
            else:
                out[m] = ""
        return out

    def _close(self, e: VectorEmitter, blocks: list[Block], loops: list[Var]) -> list[Stmt]:
        """The loops around the statements."""
        work = work_of(self.k)
        lane = None if self.single else next(v for v in loops if v in e.lanes)
        if self.single and not any(isinstance(s, Let) and s.type == "hy_v" for b in blocks for s in walk(b.body)):
            raise Refused("no vectors")
        body, staged = blocks[-1].body, self._staged(e, blocks, loops, lane, work)
        for depth in reversed(range(len(loops))):
            v = loops[depth]
            pragma = self._pragma(v, depth, work)
            if v is lane:
                last = self._last(v, body)
                fetch = self._fetch(e, v, loops[depth + 1:]) if depth else None
                before = [For(v.name, Ix(), Ix(v.extent), (fetch,), self.line)] if fetch else []
                body = [*before, *iterations(v, body, self.width, last.unroll, pragma,
                                             SINGLE if pragma == TEAM else "")]
            else:
                body = [loop(v, body, pragma)]
            if staged and depth == len(loops) - (1 if lane is None else 2):
                body = staged
            body = [*blocks[depth].body, *body]
        return body

    def _pragma(self, v: Var, depth: int, work: int) -> str:
        if self.team and depth == 0:
            return TEAM
        return where_it_pays(PARALLEL, self.k.root.size, work, PARALLEL_WORK) if depth == 0 and v.extent > 1 else ""

    def _last(self, lane: Var, body: list[Stmt]) -> LaneLoop:
        return LaneLoop(lane, body, self._copies(lane, body))

    def _staged(self, e: VectorEmitter, blocks: list[Block], loops: list[Var], lane: Var | None,
                work: int) -> list[Stmt] | None:
        """The loop over rows with several under way; None where a row's loops are not of that form."""
        depth = len(loops) - (1 if lane is None else 2)
        if depth < 0 or lane is not None and (lane is not loops[-1] or lane in e.rows) or loops[depth] not in e.rows:
            return None
        row, block = loops[depth], blocks[depth + 1]
        if hint(self.k.root.nbytes) > LARGE:
            return None
        last = None if lane is None else self._last(lane, blocks[-1].body)
        own = [(begin, end, loop) for at, begin, end, loop in e.loops if at is block]
        fetch = self._fetch(e, lane, []) if lane is not None else None
        return in_stages(row, block.body, own, last, self.width, fetch, self._pragma(row, depth, work),
                         self.kind.itemsize, any(hint(n.nbytes) >= FAR for n in self.args),
                         hint(self.k.root.nbytes) >= FAR)

    def _copies(self, lane: Var, body: list[Stmt]) -> int:
        """Vectors that are computed in one turn: two, or as many as go down the columns of a reduction together."""
        count = length(body)
        if any(isinstance(s, For) for s in body):
            most = 8 if count <= 11 else 4 if count <= 23 else 1
            return max((n for n in (1, 2, 4, 8) if n <= most and n * self.width <= hint(lane.extent)), default=1)
        return 1 if hint(lane.extent) < 2 * self.width or count > 60 else 2

    def _fetch(self, e: VectorEmitter, lane: Var, after: list[Var]) -> Prefetch | None:
        """A statement that asks for a cache line of a row of a large result that nothing was written to while the row
        was read: all at once they come sooner than one by one (LayerNorm: 0.7 of the time).
        """
        root = self.k.root
        if (not self.k.hoisted or hint(root.nbytes) < FAR
                or not 2 * 64 <= hint(lane.extent) * self.kind.itemsize <= NEAR
                or self.names[root] in e.keep.values()):
            return None
        place = linear(root.shape, self.place)
        if variables(place) & set(after):                    # lanes are rows: a row's elements are no neighbours
            return None
        return Prefetch(Name(self.names[root]), place, how=", 1")


def _type(k: Kernel) -> np.dtype:
    """The elements of a kernel's vectors: doubles where it computes with those and no floats."""
    kinds = {n.dtype for n in (*k.members, *k.reads)}
    return F64 if F64 in kinds and F32 not in kinds else F32


def _halves(k: Kernel) -> bool:
    """Whether half types are among its values: processors with vectors of 32 bytes convert those by an instruction that
    compilers do not think of."""
    return any(in_float32(n.dtype) for n in (*k.members, *k.reads))


def _pays(k: Kernel) -> bool:
    """Whether explicit vectors are better than what a compiler makes of plain loops."""
    if _halves(k):
        return True
    # the compiler makes vectors of the other functions
    if _type(k) == F64 and not k.hoisted and k.kind != "reduction":
        return any(map(library_call, k.members))
    return bool(k.hoisted) or k.kind == "reduction" or any(heavy(m) or m.prim == "random_bits" for m in k.members)
