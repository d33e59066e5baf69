"""Convolutions in C without gathering windows: tiles of filters times neighbouring pixels, which are read where they
are.

A vector holds neighbouring pixels of a line; filters are broadcast from memory. The image is padded in working memory
first. Depthwise convolutions, few channels and filters of one pixel are this form too.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Sequence

from hybrid.ir import Node
from hybrid.ir.index import Ix, Quot, Var, coefficient, linear, substitute, text, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, hint, may_exceed, same
from hybrid.ir.rewriting import expressions, parts, used
from hybrid.ir.stmt import Let, Op, Scope, Stmt, lines

from . import padded_operand
from hybrid.codegen.program import local
from hybrid.codegen.printers.anchored import Anchored
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, counted, decode
from hybrid.codegen.dialect import OF_TEAM, PARALLEL, TEAM
from hybrid.codegen.block import Block, nested
from hybrid.codegen.loops import Printed
from hybrid.codegen.nest import Cut, Sums, function
from hybrid.codegen.printers.products.operand import Matmul, matmul, root_index
from hybrid.codegen.lanes import Refused, lane_loop

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


class Direct(Anchored):
    """Prints one convolution: what its parts are, the tile, the text."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)
        self.tile: Any = None
        self.before: list[str] = []

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
            if not _windows(side):
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
        loads: float = r * nv * (2 if self.step == 1 else 5)              # most of them cross a line of the cache
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
        sa, sb = [m.a.stride(v) or 0 for v in m.depth], [m.b.stride(v) or 0 for v in m.depth]
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
                        [*sums.zero(), *steps, *sums.write("to", lambda i, j: (i * len(sums.vectors) + j) * L)],
                        "always_inline" if self.straight else "noinline")

    def _sums(self, a: str, b: str) -> Sums:
        """The sums of filters at an address and pixels at another."""
        t, L = self.tile, self.lanes
        lines, sm = (self.m.b.stride(self.y) or 0) if self.y else 0, self.m.a.stride(self.rows) or 0

        def pixels(line: int, j: int) -> str:
            at = f"{b} + {line * lines + j * L * self.step}"
            if self.image is None and t.c < (j + 1) * L:
                return f"HYV_LOADM(HYV_FIRST({t.c - j * L}), {at})"
            return f"HYV_LOAD({at})" if self.step == 1 else f"HYV_EVEN(HYV_LOAD({at}), HYV_LOAD({at} + {L}))"
        return Sums([f"HYV_B(*({a} + {i * sm}))" for i in range(t.mr)],
                    [pixels(line, j) for line in range(t.r) for j in range(t.nv)])

    def body(self) -> list[str]:
        count = math.prod(v.extent for v in self.outer)
        work = count * math.prod(v.extent
                                 for v in self.rest) * self.rows.extent * self.x.extent * (self.y.extent if self.y
                else 1) * self.depth
        self.pays = where_it_pays("{}", work, hint(work), PARALLEL_WORK)      # of a pragma: itself, when it pays
        parallel = bool(self.pays)
        # each thread its own images
        own = parallel and may_exceed(count, 1) and (self.image is None or self.image.nbytes <= OWN_IMAGE)
        head = [self.head()]
        loop, before = self._outer_loops(own)
        filled: list[str] = []
        if self.image is not None:
            border, inside = padded_operand.fill(self.image, "image", self.reads, self.lanes, frozenset(self.outer),
                                        self.pays.format(PARALLEL) if parallel and not own else "")
            before, filled = self._memory(before, border), inside
        inner = self.tiles(parallel and not own)
        body = [*before, *loop, *("  " + s for s in [*filled, *inner])]
        return [*head, *("  " + s for s in body), *["  }"] * self.closing, "}"]

    def _outer_loops(self, parallel: bool) -> tuple[list[str], list[str]]:
        """The loop over images and groups, and what stands before it."""
        self.closing = 0
        count = math.prod(v.extent for v in self.outer)
        if not may_exceed(count, 1):
            return [], []
        self.closing = 1
        out = [f"for (long g = 0; g < {count}; g++) {{",
               *("  " + s for s in decode("g", counted(self.outer)))]
        if parallel:
            self.closing = 2
            return [OF_TEAM, *out], [self.pays.format(TEAM), "{"]
        return out, []

    def _memory(self, before: list[str], border: list[str]) -> list[str]:
        """Where the image is: a thread's own, where it is small and there are several, else in working memory."""
        assert self.image is not None
        size = self.image.nbytes
        if before or may_exceed(math.prod(v.extent for v in self.outer), 1) and size <= OWN_IMAGE:
            return [*before, local.array("float", "image", size // 4), *border]
        at, self.scratch = self.scratch, self.scratch + size
        return [*before, f"float *image = (float *)((char *)scratch + {at});", *border]

    def base(self, address: Ix, base: str, names: dict[Var, Ix]) -> str:
        return f"({base} + ({text(substitute(address, names))}))"

    def pixels(self, zero: dict[Var, Ix]) -> str:
        """Address of the first pixel of an image."""
        img, m = self.image, self.m
        assert m.b.address is not None and m.b.base is not None
        return self.base(img.address, "image",
                         zero) if img is not None else self.base(m.b.address, self.reads[m.b.base], zero)

    def tiles(self, parallel: bool) -> list[str]:
        """All tiles of an image."""
        m, t, L = self.m, self.tile, self.lanes
        rows, xs = Cut.overlapping(self.rows.extent, t.mr), Cut.overlapping(self.x.extent, t.c)
        ys = Cut.overlapping(self.y.extent if self.y else 1, t.r)
        assert m.a.address is not None and m.b.address is not None and m.a.base is not None and m.b.base is not None
        zero = {v: Ix() for v in [*m.depth, self.x, self.rows, *([self.y] if self.y else [])]}
        a = self.base(m.a.address, self.reads[m.a.base], zero)
        b = self.pixels(zero)
        sx, sy, sm = m.b.stride(self.x) or 0, (m.b.stride(self.y) or 0) if self.y else 0, m.a.stride(self.rows) or 0
        each = rows.count * xs.count * ys.count
        count = math.prod(v.extent for v in self.rest) * each
        out = [self.pays.format(PARALLEL)] if parallel and may_exceed(count, 1) else []
        out += [f"for (long u = 0; u < {count}; u++) {{",
                f"  const long rt = u % {rows.count}, xt = u / {rows.count} % {xs.count}, yt = u / "
                f"{rows.count * xs.count} % {ys.count};",
                *(f"  {s}" for s in decode(f"(u / {each})", counted(self.rest))),
                f"  const long m0_ = {rows.first('rt')}, x0 = {xs.first('xt')}, y0 = {ys.first('yt')};",
                f"  float acc[{t.mr * t.r * t.nv * L}] __attribute__((aligned(64)));",
                f"  {self.name}_tile({a} + m0_ * {sm}l, {b} + y0 * {sy}l + x0 * {sx}l, acc);"]
        epilogue = self._epilogue()
        return [*self.before, *out, *("  " + s for s in epilogue), "}"]

    def _epilogue(self) -> list[str]:
        """The kernel's root from the sums of a tile."""
        t, L, m = self.tile, self.lanes, self.m
        q, x0, ym = Var("q_", t.c), Var("x0", max(self.x.extent, 2)), self.y
        blocks = [Block(None, frozenset([*self.outer, *self.rest, x0]))]
        for v in (self.rows, ym, q):
            blocks.append(blocks[-1].child([v] if v else []))
        outer, of_filter, of_line, last = blocks
        at = root_index(self.k, tuple(substitute(i, {self.x: var(x0) + var(q)}) for i in m.dot_index))
        self.store_root(self.emitter(q), at, last)
        where = f"acc + (i_m * {t.r} + {'i_y' if ym else '0'}) * {t.nv * L} + q_"
        body = lane_loop(q, [f"const hy_v sum@ = HYV_LOAD({where});", *last.body], L, 1)
        head = [f"const long {ym.name} = y0 + i_y;"] if ym and ym.extent > 1 else []
        body = [f"for (long i_y = 0; i_y < {t.r}; i_y++) {{", *("  " + s for s in [*head, *of_line.lines, *body]),
                "}"] if ym else [*of_line.lines, *body]
        body = self.filter_loop(str(t.mr), of_filter.body, [*of_line.body, *last.body], body)
        return [*outer.lines, *body]

    def filter_loop(self, count: str, of_filter: Sequence[Stmt], inner: Sequence[Stmt], body: list[str]) -> list[str]:
        """The loop over a tile's filters. What is costly and of the filter alone is computed once, before all tiles.

        of_filter: statements of a filter; inner: those of its pixels, whose text is in ``body``."""
        name = self.rows.name
        head = [f"const long {name} = m0_ + i_m;"] if self.rows.extent > 1 else []
        made = [s.name for s in of_filter if isinstance(s, Let) and s.type == "float"]
        written = lines(of_filter)
        if any(map(_costly, of_filter)) and len(made) == len(of_filter) and not self.rest and self.rows.extent > 1:
            read = set().union(*map(used, inner))
            kept = [n for n in made if n in read]
            self.before = [f"float {', '.join(f'{n}_of[{self.rows.extent}]' for n in kept)};",
                           f"for (long {name} = 0; {name} < {self.rows.extent}; {name}++) {{",
                           *("  " + s for s in written),
                           *(f"  {n}_of[{name}] = {n};" for n in kept), "}"]
            written = [f"const float {n} = {n}_of[{name}];" for n in kept]
        return [f"for (long i_m = 0; i_m < {count}; i_m++) {{", *("  " + s for s in [*head, *written, *body]), "}"]


def _constant(step: int | None) -> bool:
    return step is not None and fixed(step)


def _costly(s: Stmt) -> bool:
    """Whether a statement divides, or computes a function."""
    every = [x for e in expressions(s) for x in parts(e)]
    return (any(isinstance(x, Op) and any(word in x.form for word in ("sqrt", " / ", "hy_")) for x in every)
            or any(isinstance(x, Ix) and any(isinstance(a, Quot) for a, _ in x.terms) for x in every))


def _windows(n: Node) -> bool:
    """Whether an operand is made of windows."""
    while n.prim in ("reshape", "permute", "expand", "slice", "window"):
        if n.prim == "window":
            return True
        n = n.args[0]
    return False
