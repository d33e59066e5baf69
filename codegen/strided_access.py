"""Elementwise kernels of float32 that read an array across, as a transpose does: square tiles of it are turned in
registers, so that all arrays are read and written by whole cache lines. The rest of the kernel is printed as vectors
along the result.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Val, Var, coefficient, linear, substitute, text, var, variables
from hybrid.ir.kernel import Kernel

from .dialect import C, PARALLEL
from .emit import Block, Emitter, loop_nest
from .lanes import F32, Refused, copied_text, masked_text
from .loops import (NEAR, PARALLEL_WORK, TEAM, Printed, group_loops, merged_axes, pointer_names, rename, signature,
                    work_of)
from .vector import FAR, VectorEmitter

LINE = 16                      # floats of a cache line: the least side of a tile
# sides of blocks of tiles, where arrays come from afar: neighbouring lines are read soon after each other
BLOCK = 64


@dataclass
class TileEmitter(VectorEmitter):
    """``other``: the loop along which the arrays that are read across have their neighbours. ``tiles``: address and
    step of the lines of each."""
    side: int = LINE
    other: Var = field(default_factory=lambda: Var("o", 2))
    tiles: dict[tuple[Node, Ix], str] = field(default_factory=dict)

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        lane, at = self.lane(idx, guard), linear(n.shape, idx)
        if lane is None or n.dtype != F32 or guard or coefficient(at,
                                                                  lane) in (1, None) or coefficient(at,
                self.other) != 1 or any(isinstance(u, Val) for u in variables(at)):
            return super()._load(n, idx, guard, block)
        name = self.tiles.setdefault((n, at), f"tile{len(self.tiles)}")
        return self.bind(block, "v", f"HYV_LOAD@({name} + ({self.other.name} - w0) * {self.side} + {lane.name} - v0)")


def print_across(k: Kernel, name: str, width: int, team: bool = False) -> Printed | None:
    """C of a kernel that reads large arrays across; None where it does not, or cannot be printed so. team: for threads
    that are all in the function already."""
    if k.kind != "elementwise" or k.root.dtype != F32 or k.extra or k.sides or width not in (4, 8,
            16) or len(k.root.shape) < 2:
        return None
    if not any(n.nbytes >= NEAR for n in k.reads):
        return None
    try:
        return _Across(k, name, width).print(team)
    except Refused:
        return None


class _Across:
    """v: the result's innermost loop; w: the one along which arrays that are read across are contiguous; rest: the
    other loops."""

    def __init__(self, k: Kernel, name: str, width: int):
        self.k, self.name, self.width = k, name, width
        self.side = max(width, LINE)
        self.args, self.names = pointer_names(k)
        plain = [[i] for i in range(len(k.root.shape))]
        fewest = self._divisions(plain)
        groups = merged_axes(k.root.shape, lambda g: self._divisions(g) <= fewest)
        self.loops, self.idx = group_loops(k.root.shape, groups)
        self.v = self.loops[-1]
        self.w = self._other()
        self.rest = [u for u in self.loops[:-1] if u is not self.w and u.extent > 1]
        self.blocked = k.root.nbytes >= FAR
        if min(self.v.extent, self.w.extent) < LINE or self.v.extent < 2 * LINE and self.v.extent % LINE:
            raise Refused("small sides")

    def _divisions(self, groups: list[list[int]]) -> int:
        _, idx = group_loops(self.k.root.shape, groups)
        e = Emitter(C, {n: p for n, p in self.names.items() if n is not self.k.root})
        e.value(self.k.root, idx, Block(None, frozenset()))
        return e.divisions

    def _other(self) -> Var:
        found = set()
        for n, uses in self.k.reads.items():
            for at in (linear(n.shape, rename(u.idx, self.k.loops, self.idx)) for u in uses):
                if coefficient(at, self.v) not in (0, 1, None):
                    found |= {u for u in self.loops[:-1] if u.extent > 1 and coefficient(at, u) == 1}
        if len(found) != 1:
            raise Refused("nothing is read across, or several ways")
        return found.pop()

    def print(self, team: bool) -> Printed:
        """The kernel; Refused where it cannot be."""
        k, v, w = self.k, self.v, self.w
        e = TileEmitter(C, {n: p for n, p in self.names.items() if n is not k.root}, width=self.width, lanes={v},
                        other=w, side=self.side)
        outer = Block(None, frozenset(self.rest))
        line = outer.child([w])
        block = line.child([v])
        store = str(e.store(self.names[k.root], k.root, self.idx, e.value(k.root, self.idx, block)))
        if not e.tiles:
            raise Refused("nothing is read across")
        tile = [*self._begin(w, "w"), *self._begin(v, "v"), *self._tiles(e),
                *self._rows(line.lines, [*block.lines, store])]
        if self.blocked:
            nest = self._blocks(w, self._blocks(v, self._steps(v, self._steps(w, tile))))
        else:
            nest = self._steps(w, self._steps(v, tile))
        pragma = [TEAM] if team else [PARALLEL] if work_of(k) >= PARALLEL_WORK else []
        nest = [*pragma, *loop_nest(self.rest, [*outer.lines, *nest])] if self.rest else [*outer.lines, *pragma, *nest]
        source = "\n".join([signature(self.name, self.args, 1), *("  " + s for s in nest), "}"])
        return Printed(self.name, source, self.args, k.kind, vectors=True)

    def _blocks(self, u: Var, body: list[str]) -> list[str]:
        return [f"for (long {u.name}_b = 0; {u.name}_b < {u.extent}; {u.name}_b += {BLOCK}) {{",
                *("  " + s for s in body), "}"]

    def _steps(self, u: Var, body: list[str]) -> list[str]:
        """The loop over tiles, within a block where there are some."""
        t, first, end = f"{u.name}_t", "0", str(u.extent)
        if self.blocked:
            first = f"{u.name}_b"
            end = (f"{first} + {BLOCK}" if u.extent % BLOCK == 0
                   else f"({first} + {BLOCK} < {u.extent} ? {first} + {BLOCK} : {u.extent})")
        return [f"for (long {t} = {first}; {t} < {end}; {t} += {self.side}) {{", *("  " + s for s in body), "}"]

    def _begin(self, u: Var, name: str) -> list[str]:
        """Where a tile begins: the last one overlaps the one before it, of which nothing is done twice."""
        last = u.extent - self.side
        return [f"const long {name}0 = {u.name}_t" + (f" < {last} ? {u.name}_t : {last};" if u.extent % self.side
                                                      else ";")]

    def _tiles(self, e: TileEmitter) -> list[str]:
        """Statements that turn the tiles."""
        v, w, side, width = self.v, self.w, self.side, self.width
        out: list[str] = []
        for (n, at), name in e.tiles.items():
            step = coefficient(at, v)
            base = text(substitute(at, {v: var(Var("v0", v.extent)), w: var(Var("w0", w.extent))}))
            spots = [(r, c) for r in range(0, side, width) for c in range(0, side, width)]
            out += [f"float {name}[{side * side}] __attribute__((aligned(64)));",
                    f"{{ const float *from = {e.stored[n]} + {base};",
                    *(f"  turn_vfloat{width}({name} + {r * side + c}, {side}, from + {c} * {step}l + {r}, {step}l);"
                      for r, c in spots), "}"]
        return out

    def _rows(self, before: list[str], body: list[str]) -> list[str]:
        """The lines of a tile: whole vectors, then what is left."""
        v, w, width, side = self.v, self.w, self.width, self.side
        ends = [f"{u.name}_t + {side}" if u.extent % side == 0
                else f"({u.name}_t + {side} < {u.extent} ? {u.name}_t + {side} : {u.extent})" for u in (v, w)]
        vectors = f"long {v.name} = {v.name}_t; for (; {v.name} + {width} <= end; {v.name} += {width}) {{"
        out = [f"const long end = {ends[0]};",
               f"for (long {w.name} = {w.name}_t; {w.name} < {ends[1]}; {w.name}++) {{", *("  " + s for s in before),
               "  " + vectors, *("    " + s for s in copied_text(body, 0)), "  }"]
        if v.extent % width:
            out += [f"  if ({v.name} < end) {{ const hy_m mk = HYV_FIRST((int)(end - {v.name}));",
                    *("    " + s for s in masked_text(body)), "  }"]
        return [*out, "}"]
