"""Elementwise kernels of float32 and half types that read an array across, as a transpose does: square tiles of it are
transposed in registers, so that all arrays are read and written by whole cache lines. The rest of the kernel is printed
as vectors along the result.
"""
from __future__ import annotations

from dataclasses import field
from typing import Sequence

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir.size import fixed, hint, same
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Val, Var, coefficient, linear, substitute, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import MASK, Do, Expr, For, Let, Load, Local, Name, Op, Scope, Stmt, When

from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.block import Block, chain, loop
from hybrid.codegen.emit import Emitter
from hybrid.codegen.lanes import F32, HALF_LANES, Refused, copies, half, masked
from hybrid.codegen.loops import (NEAR, PARALLEL_WORK, TEAM, KernelPrinter, Printed, close, merged_loops,
                                  rename, work_of)
from hybrid.codegen.program.size_parameters import literal, where_it_pays
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.vector import FAR, VectorEmitter

LINE = 16                      # floats of a cache line: the least side of a tile
# sides of blocks of tiles, where arrays come from afar: neighbouring lines are read soon after each other
BLOCK = 64
FEW = 1 << 12                  # bytes of halves from which on it pays: plain loops convert them one by one



@dataclass
class TileEmitter(VectorEmitter):
    """``other``: the loop along which the arrays that are read across have their neighbours. ``tiles``: address and
    step of the lines of each."""
    side: int = LINE
    other: Var = field(default_factory=lambda: Var("o", 2))
    tiles: dict[tuple[Node, Ix], Name] = field(default_factory=dict)

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        lane, at = self.lane(idx, guard), linear(n.shape, idx)
        if (lane is None or n.dtype != F32 and not is_half(n.dtype) or guard
                or any(same(coefficient(at, lane), c) for c in (1, None))
                or not same(coefficient(at, self.other), 1) or any(isinstance(u, Val) for u in variables(at))):
            return super()._load(n, idx, guard, block)
        name = self.tiles.setdefault((n, at), Name(f"tile{len(self.tiles)}"))
        row, column = (var(v) - var(Var(first, v.extent)) for v, first in ((self.other, "w0"), (lane, "v0")))
        return self.bind(block, "v", Load(name, row * self.side + column, "LOAD"))


def print_across(k: Kernel, name: str, target: Target) -> Printed:
    """C of a kernel that reads large arrays across; Refused where it does not, or cannot be printed so."""
    width = target.lanes(F32)
    if (k.kind != "elementwise" or not _in_float32(k.root) or k.sides or width not in (4, 8, 16)
            or len(k.root.shape) < 2):
        raise Refused("not an elementwise kernel with a result of float32 or a half type and two axes or more")
    if k.extra and not any(is_half(n.dtype) for n in k.reads):
        raise Refused("several results and no operand of a half type: plain loops are as fast")
    if width < HALF_LANES and any(is_half(n.dtype) for n in (*k.reads, *k.stores)):
        raise Refused(f"half types take vectors of {HALF_LANES} lanes or more")
    if not any(hint(n.nbytes) >= (FEW if is_half(n.dtype) else NEAR) for n in k.reads):
        raise Refused(f"reads no large array ({NEAR} bytes, or {FEW} of a half type)")
    return _Across(k, name, width).print(target.team)


class _Across(KernelPrinter):
    """v: the result's innermost loop; w: the one along which arrays that are read across are contiguous; rest: the
    other loops."""

    def __init__(self, k: Kernel, name: str, width: int):
        super().__init__(k, name)
        self.width, self.side = width, max(width, LINE)
        _, self.loops, self.idx = merged_loops(k.root.shape, self._value)
        self.v = self.loops[-1]
        self.w = self._other()
        self.rest = [u for u in self.loops[:-1] if u is not self.w and not same(u.extent, 1)]
        self.blocked = hint(k.root.nbytes) >= FAR
        across, down = hint(self.v.extent), hint(self.w.extent)
        if min(across, down) < LINE or across < 2 * LINE and across % LINE:
            raise Refused("small sides")

    def _value(self, idx: Index, _: list[Block]) -> Emitter:
        e = Emitter(C, {n: p for n, p in self.names.items() if n is not self.k.root})
        e.value(self.k.root, idx, Block(None, frozenset()))
        return e

    def _other(self) -> Var:
        found = set()
        for n, uses in self.k.reads.items():
            for at in (linear(n.shape, rename(u.idx, self.k.loops, self.idx)) for u in uses):
                if not any(same(coefficient(at, self.v), c) for c in (0, 1, None)):
                    found |= {u for u in self.loops[:-1] if not same(u.extent, 1) and same(coefficient(at, u), 1)}
        if len(found) != 1:
            raise Refused("no array is read across, or arrays along different loops")
        return found.pop()

    def print(self, team: bool) -> Printed:
        """The kernel; Refused where it cannot be."""
        k, v, w = self.k, self.v, self.w
        e = TileEmitter(C, self.reads, width=self.width, lanes={v}, other=w, side=self.side, allow_halves=True,
                        extra=self.extra)
        outer, line, block = chain([w, v], Block(None, frozenset(self.rest)))
        store = e.store(self.names[k.root], k.root, self.idx, e.value(k.root, self.idx, block))
        if not e.tiles:
            raise Refused("nothing is read across")
        tile = [self._begin(w, "w"), self._begin(v, "v"), *self._tiles(e), *self._rows(line.body, [*block.body, store])]
        threads = TEAM if team else where_it_pays(PARALLEL, k.root.size, work_of(k), PARALLEL_WORK)
        head = "" if self.rest else threads
        if self.blocked:
            nest = self._blocks(w, self._blocks(v, self._steps(v, self._steps(w, tile))), head)
        else:
            nest = self._steps(w, self._steps(v, tile), head)
        body = [*outer.body, *nest]
        for depth, u in enumerate(reversed(self.rest)):
            body = [loop(u, body, threads if depth == len(self.rest) - 1 else "")]
        return self.kernel(self._where_tiles_fit(body, threads), vectors=True)

    def _where_tiles_fit(self, body: list[Stmt], threads: str) -> list[Stmt]:
        """The tiles, and plain loops for sides that turn out to be shorter than a tile."""
        least = [(u.extent, n) for u, n in ((self.v, 2 * LINE), (self.w, LINE)) if not fixed(u.extent)]
        if not least:
            return body
        fit = " && ".join(f"{extent} >= {n}" for extent, n in least)
        e, blocks = Emitter(C, self.reads, extra=self.extra), chain(self.loops)
        e.put(self.names[self.k.root], self.k.root, self.idx, blocks[-1])
        plain = close(blocks, self.loops, lambda depth, _: "" if depth else threads)
        return [When(Op(fit, ()), tuple(body)), When(Op(f"!({fit})", ()), tuple(plain))]

    def _blocks(self, u: Var, body: Sequence[Stmt], pragma: str = "") -> list[Stmt]:
        return [For(f"{u.name}_b", Ix(), Ix(u.extent), tuple(body), BLOCK, pragma)]

    def _steps(self, u: Var, body: Sequence[Stmt], pragma: str = "") -> list[Stmt]:
        """The loop over tiles, within a block where there are some."""
        first: Expr = Ix()
        last: Expr = Ix(u.extent)
        if self.blocked:
            first = Name(f"{u.name}_b")
            last = _end(first, BLOCK, u.extent)
        return [For(f"{u.name}_t", first, last, tuple(body), self.side, pragma)]

    def _begin(self, u: Var, name: str) -> Stmt:
        """Where a tile begins: the last one overlaps the one before it, of which nothing is done twice."""
        last, at = u.extent - self.side, Name(f"{u.name}_t")
        whole = same(u.extent % self.side, 0)
        return Let("long", Name(f"{name}0"), at if whole else Op(f"{{0}} < {last} ? {{0}} : {last}", (at,)), True)

    def _tiles(self, e: TileEmitter) -> list[Stmt]:
        """Statements that transpose the tiles."""
        v, w, side, width = self.v, self.w, self.side, self.width
        out: list[Stmt] = []
        source = Name("from")
        for (n, at), name in e.tiles.items():
            step = literal(coefficient(at, v))
            base = substitute(at, {v: var(Var("v0", v.extent)), w: var(Var("w0", w.extent))})
            spots = [(r, c) for r in range(0, side, width) for c in range(0, side, width)]
            turn = f"turn_vfloat{width}({{0}} + {{1}}, {side}, {{2}} + {{3}} * {step} + {{4}}, {step})"
            turned = [turn]
            if is_half(n.dtype):
                turned = [f"hyv_square{half(n.dtype)}(square, {{2}} + {{3}} * {step} + {{4}}, {step})",
                          f"turn_vfloat{width}({{0}} + {{1}}, {side}, square, {width})"]
            out += [Local("float", name, side * side),
                    Scope((Let(f"const {C.storage(n.dtype)} *", source, Op("{0} + {1}", (Name(e.stored[n]), base))),
                           *([Local("float", Name("square"), width * width)] if len(turned) > 1 else []),
                           *(Do(Op(t, (name, Ix(r * side + c), source, Ix(c), Ix(r)))) for r, c in spots
                             for t in turned)))]
        return out

    def _rows(self, before: Sequence[Stmt], body: Sequence[Stmt]) -> list[Stmt]:
        """The rows of a tile: whole vectors, then what is left."""
        v, w, width, side = self.v, self.w, self.width, self.side
        end, at, first = Name("end"), Name(v.name), Name(f"{v.name}_t")
        whole = Op(f"{{0}} - {width - 1}", (end,))
        inner: list[Stmt] = [*before, For(v.name, first, whole, tuple(copies(body, 0)), width)]
        if not same(v.extent % width, 0):
            left: list[Stmt] = [
                Let("long", at, Op(f"{{0}} + ({{1}} - {{0}}) / {width} * {width}", (first, end)), True),
                    When(Op("{0} < {1}", (at, end)),
                         (Let("hy_m", Name(MASK), Op("HYV_FIRST((int)({0} - {1}))", (end, at)), True),
                          *masked(body)))]
            inner.append(Scope(tuple(left)))
        return [Let("long", end, _end(first, side, v.extent), True),
                For(w.name, Name(f"{w.name}_t"), _end(Name(f"{w.name}_t"), side, w.extent), tuple(inner))]


def _in_float32(n: Node) -> bool:
    """Whether a value is float32, or of a half type, which is computed in float32."""
    return n.dtype == F32 or is_half(n.dtype)


def _end(first: Name, size: int, extent: int) -> Op:
    """Where a part of a loop ends that begins at ``first``."""
    if same(extent % size, 0):
        return Op(f"{{0}} + {size}", (first,))
    return Op(f"({{0}} + {size} < {extent} ? {{0}} + {size} : {extent})", (first,))
