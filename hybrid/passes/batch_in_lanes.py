"""Layout of small nets over many images: blocks (B, C, H, W, L) of L images, one pixel of each in a vector.

Nets of few channels leave vectors of channels half empty, and their rows are too short for vectors of pixels. Blocks
have neither: convolutions, pools and dense layers read them as they are, broadcast their weights, and become ``conv``
primitives (``ir/batch_in_lanes.py``); data changes its layout at the ends of a net alone. Taken where it needs fewer
vector operations than channels last (``layout.py``), by count.
"""
from __future__ import annotations

import math

import numpy as np

from ..base.records import dataclass
from .. import ir
from ..base.dtype import is_float
from ..ir import Node, Program, winograd
from ..ir.access import beneath
from ..ir.build import make
from ..ir.packed import conv
from ..ir.batch_in_lanes import pack
from ..ir.contraction import convolution, dense, of_windows
from ..ir.node import made_from
from ..ir.scalar import SCALARS
from .axis_orders import unbordered
from .frozen import Layout
from .layout import Blocking, Conversion
from .rewrite import rebuild, relaid

LEAST_WORK = 1 << 16             # products of a net below which it stays as it is
BLOCK_BYTES = 1 << 19            # of a value for one block of images: it should stay in the second cache
RING_BYTES = 160 << 10           # of the transformed rows that a convolution keeps on the stack
DENSE_BYTES = 1 << 21            # weights of a dense layer, which each block reads
Sizes = tuple[int, int]


@dataclass
class Window:
    """A convolution: weights, data, sizes."""
    w: Node
    x: Node
    kernel: Sizes
    stride: Sizes
    dilate: Sizes
    pads: Sizes
    out: Sizes
    filters: int
    pool: Sizes = (1, 1)

    @property
    def channels(self) -> int:
        return self.x.shape[1]

    def rows(self) -> int:
        """Lines of results that are computed together."""
        return self.pool[0] if self.pool != (1, 1) else min(2, self.out[0])

    def ring(self, across: int, lanes: int) -> int:
        """Bytes of the rows kept, each of so many vectors a channel."""
        rows = (self.rows() - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilate[0] + 1
        return rows * self.channels * across * lanes * 4

    def winograd(self, lanes: int) -> tuple[float, int]:
        """Vector operations of a filter for a block, and m of the best F(m, kw); 1 for none."""
        (kh, kw), (oh, ow), (ph, pw), c = self.kernel, self.out, self.pool, self.channels
        best, found = oh * ow * ph * pw * (kh * kw * c + 2.0), 1
        for n in (4, 6, 8) if self.stride[1] == self.dilate[1] == 1 and kw > 1 else ():
            m = n - kw + 1
            if m < 2 or m > ow * pw or m % pw or self.ring(n * -(-ow * pw // m), lanes) > RING_BYTES:
                continue
            cost = oh * ph * -(-ow * pw // m) * (n * kh * c + 3 * n + 2 * m + 5 * n * c / self.filters)
            if cost < best:
                best, found = cost, m
        return best, found


def window(n: Node) -> Window | None:
    """The convolution of which n, (N, filters, oh, ow), is the result."""
    c = convolution(n)
    if c is None or c.order != (1, 0, 2, 3) or c.groups > 1 or c.w.dtype != np.float32 or n.dtype != np.float32:
        return None
    w, win = c.w, c.windows
    if win.prim != "window" or win.attrs["axes"] != (2, 3):
        return None
    x, pads = unbordered(win.args[0], (2, 3))
    return Window(w, x, w.shape[2:], win.attrs["stride"], win.attrs["dilation"],  # type: ignore[arg-type]
                  pads, n.shape[2:], n.shape[1])                                  # type: ignore[arg-type]


def _pool(n: Node) -> Node | None:
    """The windows over rows and columns that n reduces."""
    if n.prim != "reduce" or n.attrs["axes"] != (4, 5):
        return None
    win = n.args[0]
    return win if win.prim == "window" and win.attrs["axes"] == (2, 3) and win.args[0].ndim == 4 else None


def _rises(n: Node) -> bool:
    """Whether a greater operand never gives a smaller value: monotone functions, sums, and roundings."""
    if n.prim == "cast":
        return is_float(n.dtype) and is_float(n.args[0].dtype)
    return n.prim == "map" and (SCALARS[n.fn].monotone or n.fn == "add")


class BatchInLanes(Conversion):
    """One run over a program. ``blocks``: the values that are blocks, by the program's own nodes."""

    def __init__(self, program: Program, frozen: frozenset[int], blocking: Blocking):
        super().__init__(program, frozen, blocking)
        self.order = program.order()
        self.lanes = blocking.lanes
        self.blocks: dict[Node, Node] = {}
        self.new: dict[Node, Node] = {}
        self.windows = {n: w for n in self.order if (w := window(n)) is not None and self._known(w.w)}
        # convolution and functions between it and the pool it takes over
        self.pooled: dict[Node, Node] = {}
        users: dict[Node, int] = {}
        for used in [*(a for n in self.order for a in n.args), *program.roots]:
            users[used] = users.get(used, 0) + 1
        for n in self.order:
            self._take_over(n, users)

    def _take_over(self, n: Node, users: dict[Node, int]) -> None:
        """A pool of the greatest right after a convolution: it commutes with what follows the convolution, if that
        rises."""
        win = _pool(n)
        if (win is None or n.attrs["op"] != "max" or win.attrs["size"] != win.attrs["stride"]
            or set(win.attrs["dilation"]) != {1} or math.prod(win.attrs["size"]) > 6):
            return
        chain, at = [], win.args[0]
        while at not in self.windows:
            chain.append(at)
            below = [a for a in at.args if not self._filterwise(a)]
            if users.get(at) != 1 or len(below) != 1 or not _rises(at):
                return
            at = below[0]
        if users.get(at) == users.get(win) == 1:
            w = self.windows[at]
            w.pool, w.out = win.attrs["size"], n.shape[2:]                          # type: ignore[assignment]
            self.pooled.update(dict.fromkeys([at, *chain, win, n], n))

    def _filterwise(self, a: Node) -> bool:
        """One number for each filter."""
        return a.prim == "expand" and a.ndim == 4 and (a.args[0].ndim == 0 or a.args[0].ndim == 4
                                                       and a.args[0].shape[0] == 1 and a.args[0].shape[2:] == (1, 1))

    # ---- whether
    def pays(self) -> bool:
        """Whether blocks need fewer vector operations than channels last, and stay in the cache."""
        others = [n for n in self.order if n.prim == "dot"
                  and any(of_windows(beneath(a, ("reshape", "permute", "cast"))) for a in n.args)
                  and not any(n is m.args[0] for m in self.windows)]
        batches = {n.shape[0] for n in self.windows}
        if not self.windows or len(batches) > 1 or others:
            return False
        self.batch = batches.pop()
        self.count = -(-self.batch // self.lanes)
        blocks = channels = work = 0.0
        for n, c in self.windows.items():
            size = max(math.prod(c.x.shape[1:]), c.filters * math.prod(c.out)) * self.lanes * 4
            across = c.x.shape[3] + 2 * c.pads[1] if any(c.pads) else 0
            if size > BLOCK_BYTES or c.ring(across, self.lanes) > RING_BYTES:
                return False
            blocks += self.count * c.filters * c.winograd(self.lanes)[0]
            channels += self._elsewhere(c)
            work += n.size * math.prod(c.w.shape[1:])
        return work >= LEAST_WORK and blocks < channels

    def _elsewhere(self, c: Window) -> float:
        """Vector operations of a convolution in the other layouts."""
        (kh, kw), (oh, ow), lanes = c.kernel, (c.out[0] * c.pool[0], c.out[1] * c.pool[1]), self.lanes
        if c.filters < lanes or c.channels < lanes // 2 and c.channels * kw * kh < lanes:
            return 1.3 * self.batch * c.filters * kh * kw * c.channels * oh * -(-ow // lanes)
        rule = winograd.by_rule(c.kernel, c.stride, c.dilate, (oh, ow), c.channels, self.batch)
        faster = {"winograd": 1.8, "winograd4": 2.8}.get(rule, 1.0)
        return self.batch * oh * ow * kh * kw * c.channels * -(-c.filters // lanes) / faster

    # ---- the run
    def run(self) -> list[Node]:
        """The roots, converted."""
        for n in self.order:
            made_from(n)
            b = self._block(n) if n.ndim and n.shape[0] == self.batch or n in self.pooled else None
            if b is not None:
                self.blocks[n] = b
        return [self.plain(r) for r in self.program.roots]

    def plain(self, n: Node) -> Node:
        """A value of the program in its own layout."""
        todo = [n]
        while todo:
            m = todo[-1]
            if m in self.new:
                todo.pop()
            elif m in self.blocks:
                b = self.blocks[m]
                y = ir.reshape(ir.permute(b, (0, b.ndim - 1, *range(1, b.ndim - 1))),
                               (self.count * self.lanes, *m.shape[1:]))
                self.new[m] = y if y.shape == m.shape else ir.slice(y, (0,) * m.ndim, m.shape)
            elif missing := [a for a in m.args if a not in self.new]:
                todo += missing
            else:
                self.new[m] = rebuild(m, [self.new[a] for a in m.args])
        return self.new[n]

    def block(self, n: Node) -> Node:
        """A value (N, …) as blocks (B, …, L)."""
        if n in self.blocks:
            return self.blocks[n]
        x, more = self.plain(n), self.count * self.lanes - self.batch
        if more:
            x = ir.pad(x, (0,) * x.ndim, (more, *(0,) * (x.ndim - 1)))
        x = ir.reshape(x, (self.count, self.lanes, *x.shape[1:]))
        self.blocks[n] = ir.permute(x, (0, *range(2, x.ndim), 1))
        return self.blocks[n]

    def _block(self, n: Node) -> Node | None:
        if n in self.windows:
            return self._convolved(self.windows[n])
        if n in self.pooled and self.pooled[n] is n:
            return self.blocks[n.args[0].args[0]]
        if n.prim == "dot":
            return self._dense(n)
        if n.prim == "reduce" and _pool(n) is not None:
            return self._reduced_windows(n)
        if not any(a in self.blocks for a in n.args):
            return None
        return self._moved_block(n)

    def _convolved(self, c: Window) -> Node:
        if c.x not in self.blocks:
            self.block(c.x)
        results = c.winograd(self.lanes)[1]
        positions = c.rows() if results > 1 else math.prod(c.pool) if c.pool != (1, 1) else min(4, math.prod(c.out))
        group = self.blocking.group(c.filters, positions)
        w, form = pack(c.w, group, results), "batch_in_lanes" if results == 1 else "batch_in_lanes_winograd"
        self.packs[w] = f"{form} weights {list(c.w.shape)} packed as {list(w.shape)}"
        y = conv(self.blocks[c.x], w, form, c.kernel, c.stride, c.dilate, c.pads, c.out, c.filters, c.pool)
        pooled = f", max of {c.pool[0]} x {c.pool[1]}" if c.pool != (1, 1) else ""
        self.notes.append(f"convolution {[self.batch, *y.shape[1:-1]]}: blocks of {self.lanes} images, "
                          f"{f'F({results}, {c.kernel[1]}) along rows' if results > 1 else 'direct'}, groups of "
                          f"{group} filters{pooled}")
        return y

    def _dense(self, n: Node) -> Node | None:
        d = dense(n)
        if d is None or d.x not in self.blocks or d.x.ndim != 2:
            return None
        if not self._known(d.w) or n.dtype != np.float32 or d.w.dtype != np.float32 or d.w.size * 4 > DENSE_BYTES:
            return None
        b, w = ir.reshape(self.blocks[d.x], (self.count, d.depth, 1, 1, self.lanes)), d.by_filter(d.w)
        filters = d.filters
        group = self.blocking.group(filters, 1)
        packed = pack(ir.reshape(w, (*w.shape, 1, 1)), group, 1)
        self.packs[packed] = f"dense weights {list(w.shape)} packed as {list(packed.shape)}"
        self.notes.append(f"dense {list(n.shape)}: blocks of {self.lanes} rows, groups of {group} results")
        y = conv(b, packed, "batch_in_lanes", (1, 1), (1, 1), (1, 1), (0, 0), (1, 1), filters)
        return ir.reshape(y, (self.count, filters, self.lanes))

    def _reduced_windows(self, n: Node) -> Node | None:
        """A pool; the channels are one axis with the blocks."""
        win = n.args[0]
        x = win.args[0]
        padded = x if x.prim == "pad" and not any((*x.attrs["lo"][:2], *x.attrs["hi"][:2])) else None
        x = padded.args[0] if padded is not None else x
        if x not in self.blocks:
            return None
        b = self.blocks[x]
        y = ir.reshape(b, (b.shape[0] * b.shape[1], *b.shape[2:]))
        if padded is not None:
            lo, hi = ((0, *padded.attrs[k][2:], 0) for k in ("lo", "hi"))
            y = make("pad", (y,), lo=lo, hi=hi, value=padded.attrs["value"])
        y = make("window", (y,), **{**win.attrs, "axes": (1, 2)})
        y = make("reduce", (y,), op=n.attrs["op"], axes=(4, 5))
        return ir.reshape(y, (*b.shape[:2], *y.shape[1:]))

    # ---- what follows
    def _moved_block(self, n: Node) -> Node | None:
        """Functions and movement that leave the images apart."""
        a = n.attrs
        if n.prim == "map":
            args = [self._operand(x, n) for x in n.args]
            return None if any(x is None for x in args) else make("map", tuple(args),  # type: ignore[arg-type]
                                                                  **a)
        x = self.blocks.get(n.args[0])
        if n.prim == "concat":
            return relaid(n, [self.block(v) for v in n.args],
                          range(n.ndim)) if a["axis"] and all(v.shape[0] == self.batch for v in n.args) else None
        if x is None or n.args[0].shape[0] != self.batch:
            return None
        if n.prim == "reshape":
            return ir.reshape(x, (self.count, *n.shape[1:], self.lanes))
        if n.prim == "permute":
            return ir.permute(x, (*a["axes"], n.ndim)) if a["axes"][0] == 0 else None
        if n.prim == "expand":
            return ir.expand(x, (self.count, *n.shape[1:], self.lanes))
        apart = (n.prim == "cast" or n.prim == "pad" and not a["lo"][0] and not a["hi"][0]
                 or n.prim == "slice" and a["size"][0] == self.batch and a["step"][0] == 1
                 or n.prim == "reduce" and 0 not in a["axes"])
        return relaid(n, (x,), range(n.args[0].ndim)) if apart else None

    def _operand(self, x: Node, n: Node) -> Node | None:
        """An argument of a function as blocks of its result's shape."""
        if x in self.blocks:
            return self.blocks[x]
        places = self.pooled[n].shape if n in self.pooled else n.shape
        shape = (self.count, *places[1:], self.lanes)
        if x.prim == "expand":
            inner = x.args[0]
            if inner.ndim == 0:
                return ir.expand(self.plain(inner), shape)
            if inner.ndim == n.ndim and inner.shape[0] == 1:
                return ir.expand(ir.reshape(self.plain(inner), (*inner.shape, 1)), shape)
        return self.block(x) if x.ndim == n.ndim and x.shape[0] == self.batch and n not in self.pooled else None


def pictures(program: Program, frozen: frozenset[int], blocking: Blocking) -> Layout | None:
    """The program over blocks of images and the program that packs its weights, where that takes less; else None."""
    run = BatchInLanes(program, frozen, blocking)
    return run.split(run.run()) if run.pays() else None
