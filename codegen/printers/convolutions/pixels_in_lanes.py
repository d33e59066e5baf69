"""Convolutions in C without gathering windows: tiles of filters times neighbouring pixels, which are read where they
are.

A vector holds neighbouring pixels of a line; filters are broadcast from memory. The image is padded in working memory
first. Depthwise convolutions, few channels and filters of one pixel are this form too.
"""
from __future__ import annotations

import math
from functools import partial
from itertools import product, takewhile
from typing import Any

from hybrid.base.records import dataclass
from hybrid.ir.contraction import of_windows
from hybrid.ir.index import Ix, Quot, Var, coefficient, linear, substitute, text, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, hint, may_exceed, same
from hybrid.ir.parse import used_words
from hybrid.ir.rewriting import expressions, parts
from hybrid.ir.stmt import For, Let, Op, Scope, Stmt

from . import padded_operand
from hybrid.codegen.program import local
from hybrid.codegen.printers.anchored import Anchored
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, decode
from hybrid.codegen.dialect import OF_TEAM, PARALLEL, TEAM
from hybrid.codegen.block import Level, loop, nested
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import Cut, Sums, count, function
from hybrid.codegen.printers.products.operand import Matmul, Operand, matmul, root_index
from hybrid.codegen.lanes import Refused

OWN_IMAGE = 1 << 18            # bytes of an image that each thread has for itself
UNROLL = 32                     # depth up to which a filter is written out


@dataclass
class Tile:
    """``mr`` filters, ``r`` lines of ``c`` pixels in ``nv`` vectors a line."""
    mr: int
    r: int
    c: int
    nv: int
    cost: float


class PixelsInLanes(Anchored):
    """Prints one convolution: what its parts are, the tile, the text."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)
        self.tile: Any = None
        self.before: list[Stmt] = []

    def print(self) -> Printed:
        """The kernel; Refused where it is not of this form."""
        self.prepare()
        return self.finish()

    def prepare(self) -> None:
        """Find the parts and the best tile; Refused where there is none."""
        self.m, self.image = self._roles()
        self._check()
        self.tile = self.choose()

    def finish(self) -> Printed:
        """The text."""
        return self.printed([self.micro(), *self.body()], "contraction")

    # ---- what is convolved
    def _roles(self) -> tuple[Matmul, padded_operand.Image | None]:
        """Filters as rows, pixels as columns; the image is in memory, or will be."""
        for swap in (False, True):
            side = self.dot.args[0] if swap else self.dot.args[1]
            if not of_windows(side):
                continue
            below = padded_operand.unread(side, self.reads)
            stored = self.reads if below is None else {**self.reads, below: "image"}
            m = matmul(self.dot, stored, swap)
            if m.a.address is None or m.b.address is None or m.a.base is below:
                raise Refused("operands that are not read from memory")
            img = None
            if below is not None:
                at = padded_operand.index_of(m.b.node, m.b.index, below)
                img = padded_operand.image(below, at,
                                           frozenset([*m.batch, *m.columns[:-2 if len(m.columns) > 2 else -1]]))
                m.b.address = img.address
            return m, img
        raise Refused("no windows")

    def _check(self) -> None:
        m = self.m
        if not m.columns or not m.depth:
            raise Refused("no columns or no depth")
        self.x = m.columns[-1]
        of_image = self.image.around if self.image is not None else set()
        self.y = m.columns[-2] if len(m.columns) > 1 and m.columns[-2] not in of_image else None
        outer = [*m.batch, *m.columns[:-2 if self.y else -1]]
        around = of_image if self.image is not None else set(outer)
        self.outer = [v for v in outer if v in around]              # loops around the image, and those that share one
        self.rest = [v for v in outer if v not in around]
        self.rows = m.rows[0] if m.rows else Var("m0", 1)
        inner = [v.extent for v in (self.x, self.y, self.rows, *m.depth) if v is not None]
        if not all(map(fixed, [*inner, *(self.image.shape if self.image is not None else ())])):
            raise Refused("sizes of an image or of filters that are known at a call only")
        at = root_index(self.k, m.dot_index)
        if len(m.rows) > 1 or not same(coefficient(linear(self.k.root.shape, at), self.x), 1):
            raise Refused("filters of several axes, or pixels that are no neighbours in the result")
        step = m.b.stride(self.x)
        if not fixed(step) or step not in (1, 2) or not all(
                map(_constant, [*(a.stride(v) for a in (m.a, m.b) for v in m.depth), m.a.stride(self.rows)])):
            raise Refused("steps that are no constants")
        if self.y is not None and not _constant(m.b.stride(self.y)):
            raise Refused("lines that are no constant apart")
        self.step = step
        self.depth = math.prod(v.extent for v in m.depth)
        self.straight = self.depth <= UNROLL and self.rows.extent <= 2          # written out: depthwise
        if self.step == 2 and (self.image is None or self.x.extent < 4):
            raise Refused("every second pixel of a picture that is not in working memory")

    # ---- the tile
    def choose(self) -> Any:
        """The cheapest tile by a count of vector operations."""
        rows, xs, ys = self.rows.extent, self.x.extent, self.y.extent if self.y else 1
        # long straight code is slow to compile
        most = min(self.target.accumulators, max(128 // self.depth, 4) if self.straight else 99)
        best: Tile | None = None
        for nv in range(1, min(4, -(-xs // self.lanes)) + 1):
            c = nv * self.lanes
            if xs < c:
                if nv > -(-xs // self.lanes):
                    continue
                c = xs
            for r in range(1, min(ys, 8) + 1):
                if r * nv > most:
                    break
                mr = -(-rows // -(-rows // (most // (r * nv))))
                cost = self._cost(rows, xs, ys, mr, r, c, nv)
                if best is None or cost < best.cost:
                    best = Tile(mr, r, c, nv, cost)
        if best is None:
            raise Refused("no tile fits the registers")
        return best

    def _cost(self, rows: int, xs: int, ys: int, mr: int, r: int, c: int, nv: int) -> float:
        tiles = -(-rows // mr) * -(-ys // r) * -(-xs // c)
        # most of them cross a line of the cache, vectors of 64 bytes all
        loads: float = r * nv * (5 if self.step == 2 else 4 if self.lanes >= 16 and not self.straight else 2)
        if self.straight and len(self.m.depth) > 1 and self.step == 1:           # lines share what they read
            loads = loads * (r + 2) / (3 * r) if r > 1 else loads
        return tiles * (self.depth * max(mr * r * nv, loads + mr / 2, 4) + mr * r * nv * 5 + 12)

    def gathered(self) -> float:
        """The cost of tiles of gathered windows (contraction.py) by the same count."""
        rows, pixels = self.rows.extent, self.x.extent * (self.y.extent if self.y else 1)
        vectors = pixels / self.lanes
        gather = 4 if self.step == 1 and self.x.extent >= self.lanes else 10
        # short lines without a border: copied as they are
        if self.image is None and self.step == 1 and self.x.extent < self.lanes and rows >= 8:
            return self.depth * vectors * (rows * 1.05 + 8) + rows * vectors * 6
        return self.depth * vectors * (max(rows, 4) * (1.35 if rows >= 8 else 2) + gather) + rows * vectors * 6

    # ---- text
    def micro(self) -> Stmt:
        """The tile: sums of all its pixels, for its filters, into ``to``."""
        m, L = self.m, self.lanes
        sa, sb = (self.steps(o, *m.depth) for o in (m.a, m.b))
        if self.straight:
            at = [[sum(i * s for i, s in zip(place, strides)) for strides in (sa, sb)]
                  for place in product(*(range(v.extent) for v in m.depth))]
            steps: list[Stmt] = [Scope(tuple(self._sums(f"A + {filters}", f"B + {pixels}").step()))
                                 for filters, pixels in at]
        else:
            a, b = (" + ".join(f"{v.name} * {s}l" for v, s in zip(m.depth, strides)) for strides in (sa, sb))
            steps = nested(m.depth, [f"const float *a_ = A + {a}, *b_ = B + {b};", *self._sums("a_", "b_").step()])
        sums = self._sums("A", "B")
        return function(f"{self.name}_tile", "const float *A, const float *B, float *to",
                        [*sums.zero(), *steps, *sums.write("to", len(sums.vectors) * L, L)],
                        "always_inline" if self.straight else "noinline")

    def _sums(self, a: str, b: str) -> Sums:
        """The sums of filters at an address and pixels at another."""
        t, L = self.tile, self.lanes
        (lines,), (sm,) = self.steps(self.m.b, self.y), self.steps(self.m.a, self.rows)

        def pixels(line: int, j: int) -> str:
            at = f"{b} + {line * lines + j * L * self.step}"
            if self.image is None and t.c < (j + 1) * L:
                return f"HYV_LOADM(HYV_FIRST({t.c - j * L}), {at})"
            return f"HYV_LOAD({at})" if self.step == 1 else f"HYV_EVEN(HYV_LOAD({at}), HYV_LOAD({at} + {L}))"
        return Sums([f"HYV_B(*({a} + {i * sm}))" for i in range(t.mr)],
                    [pixels(line, j) for line in range(t.r) for j in range(t.nv)])

    def body(self) -> list[Stmt]:
        count, rest, y = (math.prod(v.extent for v in vs) for vs in (self.outer, self.rest, [self.y] if self.y else []))
        work = count * rest * self.rows.extent * self.x.extent * y * self.depth
        self.pays = where_it_pays("{}", work, hint(work), PARALLEL_WORK)      # of a pragma: itself, when it pays
        parallel, several = bool(self.pays), may_exceed(count, 1)
        # each thread its own images
        own = parallel and several and (self.image is None or self.image.nbytes <= OWN_IMAGE)
        before: list[Stmt] = []
        filled: list[Stmt] = []
        if self.image is not None:
            border, filled = padded_operand.fill(self.image, "image", self.reads, self.lanes, frozenset(self.outer),
                                                 self.pays.format(PARALLEL) if parallel and not own else "")
            before = [self._memory(own or several and self.image.nbytes <= OWN_IMAGE), *border]
        inner = [*filled, *self.tiles(parallel and not own)]
        if several:
            inner = [For("g", Ix(), Ix(count), (*decode("g", self.outer), *inner), 1, OF_TEAM if own else "")]
        body = [*before, *inner]
        return [self.head(), *([self.pays.format(TEAM), Scope(tuple(body))] if own else body), "}"]

    def _memory(self, own: bool) -> str:
        """Where the image is: a thread's own, where it is small and there are several, else in working memory."""
        assert self.image is not None
        size = self.image.nbytes
        if own:
            return local.array("float", "image", size // 4)
        at, self.scratch = self.scratch, self.scratch + size
        return f"float *image = (float *)((char *)scratch + {at});"

    def pixels(self) -> str:
        """Address of the first pixel of an image."""
        address, base = self.m.b.address, "image"
        if self.image is not None:
            address = self.image.address
        elif self.m.b.base is not None:
            base = self.reads[self.m.b.base]
        assert address is not None
        zero = {v: Ix() for v in (*self.m.depth, self.x, self.rows, *([self.y] if self.y else []))}
        return f"({base} + ({text(substitute(address, zero))}))"

    def filters(self) -> str:
        """Address of the first filter."""
        a = self.m.a
        assert a.address is not None and a.base is not None
        zero = {v: Ix() for v in (*self.m.depth, self.rows)}
        return f"({self.reads[a.base]} + ({text(substitute(a.address, zero))}))"

    def steps(self, o: Operand, *loops: Var | None) -> list[int]:
        """Elements of an operand from iteration to iteration of some loops."""
        return [(o.stride(v) or 0) if v is not None else 0 for v in loops]

    def cuts(self, r: int, c: int) -> tuple[Cut, Cut]:
        """Lines and columns of pixels, in tiles."""
        return Cut.overlapping(self.y.extent if self.y else 1, r), Cut.overlapping(self.x.extent, c)

    def tiles(self, parallel: bool) -> list[Stmt]:
        """All tiles of an image."""
        t, (ys, xs) = self.tile, self.cuts(self.tile.r, self.tile.c)
        rows = Cut.overlapping(self.rows.extent, t.mr)
        (sy, sx), (sm,) = self.steps(self.m.b, self.y, self.x), self.steps(self.m.a, self.rows)
        each = rows.count * xs.count * ys.count
        total = math.prod(v.extent for v in self.rest) * each
        epilogue = self._epilogue()
        return [*self.before, For("u", Ix(), Ix(total), (
            f"const long rt = u % {rows.count}, xt = u / {rows.count} % {xs.count};",
            f"const long yt = u / {rows.count * xs.count} % {ys.count};",
            *decode(f"(u / {each})", self.rest),
            f"const long m0_ = {rows.first('rt')}, x0 = {xs.first('xt')}, y0 = {ys.first('yt')};",
            f"float acc[{t.mr * t.r * t.nv * self.lanes}] __attribute__((aligned(64)));",
            f"{self.name}_tile({self.filters()} + m0_ * {sm}l, {self.pixels()} + y0 * {sy}l + x0 * {sx}l, acc);",
            *epilogue), 1, self.pays.format(PARALLEL) if parallel and may_exceed(total, 1) else "")]

    def _epilogue(self) -> list[Stmt]:
        """The kernel's root from the sums of a tile."""
        t, q, x0, y = self.tile, Var("q_", self.tile.c), Var("x0", max(self.x.extent, 2)), self.y
        at = root_index(self.k, tuple(substitute(i, {self.x: var(x0) + var(q)}) for i in self.m.dot_index))
        where = f"acc + (i_m * {t.r} + {'i_y' if y else '0'}) * {t.nv * self.lanes} + q_"

        def lines(body: list[Stmt]) -> list[Stmt]:
            line = [f"const long {y.name} = y0 + i_y;"] if y and y.extent > 1 else []
            return [count("i_y", t.r, [*line, *body])] if y else body
        levels: list[Level] = [([self.rows], partial(self.filter_loop, str(t.mr))), ([y] if y else [], lines)]
        return self.results(at, levels, q, f"HYV_LOAD({where})", [*self.outer, *self.rest, x0])

    def filter_loop(self, last: str, body: list[Stmt]) -> list[Stmt]:
        """The loop over a tile's filters. What is costly and of the filter alone is computed once, before all tiles."""
        v, of_filter = self.rows, list(takewhile(lambda s: not isinstance(s, (For, Scope)), body))
        inner = body[len(of_filter):]
        made = [s.name for s in of_filter if isinstance(s, Let) and s.type == "float"]
        if any(map(_costly, of_filter)) and len(made) == len(of_filter) and not self.rest and v.extent > 1:
            kept = [n for n in made if n in used_words(inner)]
            self.before = [f"float {', '.join(f'{n}_of[{v.extent}]' for n in kept)};",
                           loop(v, [*of_filter, *(f"{n}_of[{v.name}] = {n};" for n in kept)])]
            of_filter = [f"const float {n} = {n}_of[{v.name}];" for n in kept]
        head = [f"const long {v.name} = m0_ + i_m;"] if v.extent > 1 else []
        return [count("i_m", last, [*head, *of_filter, *inner])]


def _constant(step: int | None) -> bool:
    return step is not None and fixed(step)


def _costly(s: Stmt) -> bool:
    """Whether a statement divides, or computes a function."""
    every = [x for e in expressions(s) for x in parts(e)]
    return (any(isinstance(x, Op) and any(word in x.form for word in ("sqrt", " / ", "hy_")) for x in every)
            or any(isinstance(x, Ix) and any(isinstance(a, Quot) for a, _ in x.terms) for x in every))
