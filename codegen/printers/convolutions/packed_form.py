"""What the forms of packed convolutions (``conv`` primitives, hybrid/ir/packed.py) in C share: the window over images
(N, H, W, C) or volumes (N, D, H, W, C), and what follows the sums (factors of BatchNorm, additions, functions), which
is computed on vectors of filters in registers."""
from __future__ import annotations

from dataclasses import replace
from typing import Callable, Sequence

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, unlinear, var
from hybrid.ir.kernel import Kernel, strip_reshape
from hybrid.ir.rewriting import length
from hybrid.ir.size import fixed, hint
from hybrid.ir.stmt import MASK, Expr, Let, Name, Scope, Stmt

from hybrid.codegen.printers.anchored import Anchored
from hybrid.codegen.dialect import PARALLEL
from hybrid.codegen.block import Block, chain
from hybrid.codegen.lanes import Refused, masked, unmasked
from hybrid.codegen.loops import PARALLEL_WORK
from hybrid.codegen.nest import count
from hybrid.codegen.printers.products.operand import root_index
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import Target

SCALARS = 8                     # statements for a kernel's call that are repeated for each vector of a tile


class Packed(Anchored):
    """What the forms share: the window, the epilogue."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, k.dot, name, target)
        a, (x, w) = self.dot.attrs, self.dot.args
        self.x, self.w = self.names[strip_reshape(x)], self.names[strip_reshape(w)]
        self._window(a["kernel"], a["stride"], a["dilate"], a["pads"])
        self._shapes(x, w)
        # groups; how many each of them stands for
        self.groups, self.joined = a.get("groups", 1), a.get("together", 1)
        # channels that a filter reads, filters of a group
        self.deep, self.each = self.c // self.groups, self.filters // self.groups

    def _window(self, kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], pads: Sequence[int]) -> None:
        """The window over images or volumes."""
        self.volume = len(kernel) == 3
        (self.kd, self.kh, self.kw), (self.sz, self.sy, self.sx) = (1, *kernel)[-3:], (1, *stride)[-3:]
        (self.dz, self.dy, self.dx), (self.pz, self.py, self.px) = (1, *dilate)[-3:], (0, *pads)[-3:]

    def _shapes(self, x: Node, w: Node) -> None:
        """Sizes of the data, the filters and the result."""
        self._sizes(x)
        self.weights = w.shape

    def _sizes(self, x: Node) -> None:
        *_, self.oh, self.ow, self.filters = self.dot.shape
        *_, self.h, self.wide, self.c = x.shape
        # of the results and of the data
        self.planes, self.layers = (self.dot.shape[1], x.shape[1]) if self.volume else (1, 1)
        self.batch = self.dot.shape[0] * self.planes

    # ---- what follows the sums
    def epilogue(self) -> tuple[Block, Block, Block]:
        """Statements for a kernel's call, for a vector of filters ``ch``, and for it at pixel ``px`` (numbered
        through), from the sums ``sum@``."""
        pixels = self.batch * self.oh * self.ow
        ch, px = Var("ch", self.filters), Var("px", max(pixels, 2) if fixed(pixels) else pixels)
        outer, filters, last = chain([ch, px])
        at = self.place((*unlinear(var(px), self.dot.shape[:-1]), var(ch)))
        self.store_root(replace(self.emitter(ch), allow_halves=True), at, last)
        return outer, filters, last

    def place(self, idx: Index) -> Index:
        """Where a result stands in the kernel's root."""
        return root_index(self.k, idx)

    def prepare(self) -> None:
        """Makes the statements that follow the sums; Refused where they are not of vectors."""
        whole, filters, last = self.epilogue()
        if length(whole.lines) > SCALARS:
            raise Refused("values of the whole kernel")
        self.of_filters, self.of_pixel = [*whole.body, *filters.body], last.body

    def finished(self, vector: int, sums: Sequence[tuple[str, Expr]], partial: int,
                 around: Callable[[tuple[Stmt, ...]], Stmt] = Scope) -> Scope:
        """The epilogue for one vector of a panel (filters c0_ + vector * lanes …) and some (pixel, sum). partial:
        filters in it, 0 for all. around: makes one statement of those of a pixel."""
        form = masked if partial else unmasked
        mask = [Let("hy_m", Name(MASK), f"HYV_FIRST({partial})", True)] if partial else []
        pixels = [around((Let("long", Name("px"), pixel, True), Let("hy_v", Name("sum_0"), value, True),
                          *form(self.of_pixel))) for pixel, value in sums]
        return Scope((Let("long", Name("ch"), f"c0_ + {vector * self.lanes}", True), *mask,
                      *form(self.of_filters), *pixels))

    # ---- loops
    def over_channels(self, block: Callable[[str, int], Sequence[Stmt]], kind: str = "") -> list[Stmt]:
        """Loops over channels as vectors, from lines ``s`` of them. block(load, partial): the statements of one
        vector. kind: the suffix of the HYV_LOAD macro of the data's type, "" for float32."""
        whole, rest = self.c // self.lanes * self.lanes, self.c % self.lanes
        out: list[Stmt] = []
        if whole:
            out.append(count("c0_", whole, block(f"HYV_LOAD{kind}(s[{{}}] + c0_)", 0), self.lanes))
        if rest:
            out.append(Scope((Let("long", Name("c0_"), Ix(whole), True),
                              *block(f"HYV_LOADM{kind}(HYV_FIRST({rest}), s[{{}}] + c0_)", rest))))
        return out

    def inside(self, y: str = "y", x: str = "x") -> str:
        """Whether a pixel is one of an image, in C."""
        return f"{y} >= 0 && {y} < {self.h} && {x} >= 0 && {x} < {self.wide}"

    @property
    def parallel(self) -> str:
        """A pragma for a loop that threads share, where they pay."""
        return self.threads(PARALLEL)

    def threads(self, pragma: str) -> str:
        """A pragma, where threads pay."""
        work = hint(self.dot.size) * (self.kd * self.kh * self.kw * (1 if self.dot.attrs["form"] == "depthwise"
                                                                     else hint(self.deep)))
        return where_it_pays(pragma, self.dot.size, work, PARALLEL_WORK)

    @staticmethod
    def taps(name: str, at: str, size: int, kernel: int, stride: int, dilate: int, pad: int) -> str:
        """The taps of an axis that meet data, for a place of results: the first, and the one behind the last, as name0
        and name1."""
        front, step = f"({pad} - {at} * {stride})", f" + {dilate - 1}) / {dilate}" if dilate > 1 else ")"
        return (f"const long {name}0 = {front} > 0 ? ({front}{step} : 0, {name}_ = ({front} + {size}{step},"
                f" {name}1 = {name}_ < {kernel} ? {name}_ > {name}0 ? {name}_ : {name}0 : {kernel};")

    def partial(self, panel: int, width: int) -> list[int]:
        """Filters in each vector of a group's panel: 0 for all, -1 for none."""
        out = []
        for j in range(width // self.lanes):
            left = self.each - panel * width - j * self.lanes
            out.append(0 if left >= self.lanes else left if left > 0 else -1)
        return out
