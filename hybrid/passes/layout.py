"""Layout: channels last between the convolutions of an inference program, and weights packed once instead of at every
call.

Convolutions (contractions over windows) of data (N, C, H, W) become ``conv`` primitives of data (N, H, W, C), those of
volumes (N, C, D, H, W) of data (N, D, H, W, C); vectors are channels; the permutation back is moved behind the
functions, pools and concatenations that follow, where it meets the next convolution's own and both are gone. What
depends on parameters alone (packed and transformed weights, the factors of BatchNorm) becomes a program of its own, run
again only when a parameter changes.
"""
from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Callable, Mapping

import numpy as np

from ..base.records import dataclass
from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.build import make
from ..ir.contraction import convolution, dense
from ..ir.size import Specialised, fixed, hint
from ..ir.low_precision import narrow
from ..ir.packed import joined, met, pack, product
from ..ir.pattern import matched
from ..ir.winograd import TILES, WINOGRAD_WORDS, by_rule, possible
from .frozen import Frozen, Layout, apart
from .low_precision import Words, fastest_form, words
from .axis_orders import (Window, channels_first_order, channels_last_order, line, permuted_inside_pad, unbordered,
                          with_axes)
from .rewrite import rebuild, relaid

# products of a convolution below which it stays as it is. A quarter is enough for a matrix, a 16th for one row with it:
# beyond a first cache, weights come twice as fast in the order in which they are read
LEAST_WORK = 1 << 18
MOST_TOGETHER = 8                                 # groups whose convolution is done as one
# of a matrix that is packed: a larger one is read from memory in any case, and not held twice
MOST_BYTES = 1 << 26
MANY_ROWS = 1 << 16             # of a product that takes any number of rows
USUAL = 16                      # rows and columns that images of any size are taken to have at least
# the form by rule, programs of all, their work: which, and why
Choose = Callable[[str, Mapping[str, Program], int], "tuple[str, str]"]


@dataclass(frozen=True)
class Blocking:
    """What a backend can print: elements of a vector, and filters of a panel for (form, filters, pixels)."""
    lanes: int
    panel: Callable[[str, int, int], int]
    group: Callable[[int, int], int]             # filters together over so many vectors of pictures
    prints: Callable[[Node], bool]               # whether a value can be computed where its packed convolution is
    choose: Choose | None = None                 # measures forms that compete
    # types of data that it multiplies by words (ir/low_precision.py), and "tiles" where it has such registers
    words: frozenset[str] = frozenset()
    any_size: bool = False                       # whether no faster program for each size follows
    tile: Callable[[int], int] = lambda width: 1     # most pixels of a register tile, by the width of its panel


class Conversion:
    """One run over a program."""
    ranks: tuple[int, ...] = (1, 2, 3)                   # of convolutions: axes that their windows slide along

    def __init__(self, program: Program, frozen: frozenset[int], blocking: Blocking,
                 packs: Mapping[Node, str] = MappingProxyType({})):
        self.program, self.blocking = program, blocking
        self._known = Frozen(program, frozen)
        self.packs = dict(packs)
        self.notes: list[str] = []
        self.lines: set[Node] = set()                # channels-last lines shown channels first

    def run(self) -> list[Node]:
        """The roots, converted."""
        new: dict[Node, Node] = {}
        for n in self.program.order():
            m = rebuild(n, [new[a] for a in n.args])
            new[n] = (self._convolution(m) or self._dense(m) or self._shuffled(m)
                      or self._affine(self._moved(m) or m))
        return [new[r] for r in self.program.roots]

    # ---- convolutions
    def _convolution(self, n: Node) -> Node | None:
        c = convolution(n)
        if c is None or c.rank not in self.ranks:
            return None
        (batch, filters, *out), rank, w = c.shape, c.rank, c.w
        windows = self._windows_last(c.windows) if rank > 1 else self._windows_of_line(c.windows)
        if rank == 1:
            w, out = ir.reshape(w, (*w.shape[:2], 1, w.shape[2])), [1, *out]
        y = windows and self._packed(w, windows, (batch, filters, *out), c.groups,
                                     self._permuted(c.windows) is not None, c.may_round_operands)
        if y is None:
            return self._unpacked(n) if c.groups == 1 and rank > 1 else None
        y = self._first(ir.reshape(y, (batch, *out[-rank:], filters)), rank)
        return ir.permute(y, [1 - a if a < 2 else a for a in c.order])

    def _windows_of_line(self, win: Node) -> Node | None:
        """Windows (N, 1, W, C, 1, k) over pictures of one line, for windows (N, C, W, k) along one axis."""
        found = self._permuted(win)
        win, axis, order = (found[0], 1, (0, 1, 2)) if found is not None else (win, 2, channels_last_order(1))
        if win.prim != "window" or win.attrs["axes"] != (axis,) or win.args[0].ndim != 3:
            return None
        size, stride, dilation = ((1, *win.attrs[k]) for k in ("size", "stride", "dilation"))
        return make("window", (line(win.args[0], order),), axes=(1, 2), size=size, stride=stride, dilation=dilation)

    def _first(self, n: Node, rank: int) -> Node:
        """A channels-last value (N, *size, C, …) shown channels first. rank: how many sizes there are."""
        out = ir.permute(n, (*channels_first_order(rank), *range(2 + rank, n.ndim)))
        if rank == 1 and out.prim == "permute" and out.args[0] is n:
            self.lines.add(out)
        return out

    def _permuted(self, n: Node) -> tuple[Node, int] | None:
        """x and how many sizes it has, if n is a channels-last x shown channels first."""
        if n.prim != "permute" or n.ndim < 3:
            return None
        if n in self.lines:
            return n.args[0], 1
        rank = next((r for r in (2, 3) if n.attrs["axes"] == (*channels_first_order(r), *range(2 + r, n.ndim))), None)
        return (n.args[0], rank) if rank is not None else None

    def _may_pack(self, w: Node) -> bool:
        """Whether weights may be packed: where that is done once, and not at every call."""
        return self._known(w)

    def _packed(self, w: Node, win: Node, shape: tuple[int, ...], groups: int, between: bool,
                may_round_operands: bool) -> Node | None:
        """The packed convolution (N, *out, O) of windows (N, *out, C, *kernel), for a result of a shape (N, O, *out).
        between: the data is channels last already, so that half a vector of filters costs less than another order.
        may_round_operands: whether data and weights may be rounded to bfloat16.
        """
        if win.dtype != np.float32 or w.dtype != np.float32 or not self._may_pack(w):
            return None
        x, pads = unbordered(win.args[0], range(1, len(shape) - 1))
        stride, dilate, kernel = win.attrs["stride"], win.attrs["dilation"], win.attrs["size"]
        batch, filters, *out = shape
        work = hint(math.prod(shape)) * math.prod(w.shape[1:])
        w, kernel, pads = met(w, x.shape[1:], kernel, stride, dilate, pads, out)
        lanes, channels = self.blocking.lanes, x.shape[-1]
        depthwise = groups == filters == channels > 1
        # vectors would be mostly empty, or the depth short
        thin = channels < lanes // 2 and (depthwise or channels * math.prod(kernel) < lanes)
        few = filters < (lanes // 2 if depthwise or between else lanes)
        small = all(map(fixed, out)) and work < self._least_work(depthwise, between)     # other images may be large
        if small or few or thin:
            return None
        together = 1 if depthwise else self._together(groups, filters)
        if not together:
            return None
        c = Window(x, w, kernel, stride, dilate, pads, (batch, *out, filters)).flat()
        pixels = hint(math.prod(shape)) // filters
        c, low, form = (c, None, "depthwise" if depthwise else "") if depthwise or together > 1 else self._narrow(
            c, groups, pixels, may_round_operands)
        form, why = (form, "") if form else self._form(c, work) if groups == together else ("direct", "")
        groups = 1 if depthwise else groups // together
        width = lanes if depthwise else self.blocking.panel(form, filters // groups, pixels)
        packed = pack(joined(c.w, groups * together, together) if together > 1 else c.w, form, width, groups)
        packed = low.packed(packed) if low is not None else packed
        self.packs[packed] = f"{form} weights {list(w.shape)} packed as {list(packed.shape)}"
        y = c.conv(c.x, packed, form, groups, low.zero if low is not None else 0, together)
        y = low.sums(y) if low is not None else y
        self.notes.append(f"convolution {list(shape)}: channels last, "
                          f"{form}{f' in {groups} groups' if groups > 1 else ''}, panels of "
                          f"{width}{f' ({why})' if why else ''}")
        return ir.reshape(y, (batch, *out, filters))

    @staticmethod
    def _least_work(depthwise: bool, between: bool) -> int:
        """Products of a convolution below which it stays as it is."""
        return LEAST_WORK >> 4 if depthwise or between else LEAST_WORK

    def _together(self, groups: int, filters: int) -> int:
        """How many groups are done as one, with zeros between them, so that their filters fill a vector, or half of it;
        0 where that would be mostly zeros."""
        each, ways = filters // groups, [t for t in range(1, MOST_TOGETHER + 1) if groups % t == 0]
        return next((t for least in (self.blocking.lanes, self.blocking.lanes // 2) for t in ways
                     if t * each >= min(least, filters)), 0)

    def _narrow(self, c: Window, groups: int, pixels: int, may_round_operands: bool
                ) -> tuple[Window, Words | None, str]:
        """Chooses a low-precision form: returns the convolution with narrow operands, their ``Words``, and the form;
        returns it unchanged, None and "" if it stays float32. With Winograd's form ``Words`` is None, and only data
        that was cast from bfloat16 is narrow."""
        kernel, stride, dilate, out = (a[-2:] for a in (c.kernel, c.stride, c.dilate, c.shape[:-1]))

        def fastest(may_round_transformed: bool) -> str:
            return fastest_form(kernel, stride, dilate, out, c.x.shape[-1], c.shape[-1], math.prod(c.shape[:-3]),
                                self.blocking.words, may_round_transformed)
        may = may_round_operands and groups == 1 and len(c.kernel) == 2 and "bfloat16" in self.blocking.words
        if may and fastest(True) == WINOGRAD_WORDS:
            found = narrow(c.x)
            half = found is not None and found[0].dtype.name == "bfloat16"
            return replace(c, x=found[0]) if found is not None and half else c, None, WINOGRAD_WORDS
        low = words(c.x, c.w, groups, c.dilate, pixels, self.blocking.words)
        if low is None or low.word == 2 and fastest(False) != "words":
            return c, None, ""
        return replace(c, x=low.x, w=low.w), low, low.form

    def _form(self, c: Window, work: int) -> tuple[str, str]:
        """How a dense convolution is done, and why: by rule, or where both forms could be it by measurement."""
        (*before, filters), kernel, channels = c.shape, c.kernel, c.x.shape[-1]
        planes, out = math.prod(before[:-2]), tuple(n if fixed(n) else max(hint(n), USUAL) for n in before[-2:])
        any_image = not all(map(fixed, before[-2:]))
        size, stride, dilate = (a[-2:] for a in (kernel, c.stride, c.dilate))
        shallow = set(c.stride[:-2]) <= {1}                              # Winograd's form sums planes
        # symbolic batch size: choose the form as for one image; that also suits large batches, unless images are small
        images = 1 if self.blocking.any_size and not fixed(planes) else hint(planes)
        rule = shallow and by_rule(size, stride, dilate, out, channels, images) or "direct"
        if any_image or not fixed(planes):
            if rule != "direct" and not self.blocking.any_size and not any_image:
                raise Specialised(f"a convolution of form {rule}")
            return rule, ""
        both = shallow and possible(size, stride, dilate, out) and channels >= self.blocking.lanes
        if not both or self.blocking.choose is None:
            return rule, ""

        def alone(form: str) -> Program:
            data, w = ir.input(0, c.x.shape, c.x.dtype), ir.input(1, (filters, channels, *kernel), c.x.dtype)
            packed = pack(w, form, self.blocking.panel(form, filters, math.prod(before)))
            packed = ir.input(1, packed.shape, packed.dtype)
            return Program((data, packed), (c.conv(data, packed, form),))
        return self.blocking.choose(rule, {form: alone(form) for form in ("direct", *TILES)}, work)

    def _dense(self, n: Node) -> Node | None:
        """A product with a matrix of parameters, as a 1x1 convolution of its rows: the matrix is packed beforehand."""
        d = dense(n)
        if d is None or n.dtype != np.float32 or not self._known(d.w) or self._known(d.x):
            return None
        rows, filters, depth, w = d.rows, d.filters, d.depth, d.by_filter(d.w)
        if not fixed(rows):                                  # its tiles take any number of rows
            if w.nbytes > MOST_BYTES:
                return None
        elif not rows or filters < self.blocking.lanes or n.size * depth < LEAST_WORK >> (4 if rows == 1
                else 2) or w.nbytes > MOST_BYTES:
            return None
        width = self.blocking.panel("direct", filters, rows if fixed(rows) else MANY_ROWS)
        x, w = ir.reshape(d.x, (1, 1, rows, depth)), ir.reshape(w, (filters, depth, 1, 1))
        low = words(x, w, 1, (1, 1), hint(rows), self.blocking.words)
        x, w = (low.x, low.w) if low is not None else (x, w)
        form = "direct" if low is None else low.form
        packed = pack(w, form, width)
        packed = low.packed(packed) if low is not None else packed
        self.packs[packed] = f"weights {[filters, depth]} packed as {list(packed.shape)}"
        y = product(x, packed, filters, form, low.zero if low is not None else 0)
        y = low.sums(y) if low is not None else y
        self.notes.append(f"product {list(n.shape)}: weights packed, panels of {width}"
                          f"{f', {low.form} of {low.word}' if low is not None else ''}")
        return ir.reshape(y, n.shape)

    def _unpacked(self, n: Node) -> Node | None:
        """A convolution that stays one of channels first, over channels-last data: put in order beforehand, as its
        vectors hold pixels."""
        d = n.args[0]
        w, win = d.args
        found = self._permuted(win)
        if found is None or found[1] == 1 or found[0].prim != "window":
            return None
        rank = found[1]
        x = permuted_inside_pad(found[0].args[0], channels_first_order(rank), lambda y, _: self._first(y, rank))
        win = make("window", (x,), **{**found[0].attrs, "axes": tuple(range(2, 2 + rank))})
        return rebuild(n, [rebuild(d, [w, win])])

    def _windows_last(self, win: Node, channel: int = 1) -> Node | None:
        """Windows (N, *out, C, *kernel) over channels-last data, for windows (N, C, *out, *kernel), or with ``channel``
        0 (C, N, …)."""
        found = self._permuted(win)
        if found is not None:
            return found[0] if channel and found[0].prim == "window" and found[0].attrs["axes"][0] == 1 else None
        rank = win.ndim // 2 - 1
        if win.prim != "window" or win.attrs["axes"] != tuple(range(2, 2 + rank)) or win.args[0].ndim != 2 + rank:
            return None
        x = permuted_inside_pad(win.args[0], (1 - channel, *range(2, 2 + rank), channel))
        return make("window", (x,), **{**win.attrs, "axes": tuple(range(1, 1 + rank))})

    def _affine(self, n: Node) -> Node:
        """(x - m) s + b of channels-last data as x s + (b - m s), whose second part is computed once: BatchNorm after a
        convolution."""
        found = self._permuted(n)
        parts = matched(found[0], ("add", ("mul", ("sub", "x", "m"), "s"), "b")) if found is not None else None
        if found is None or parts is None or n.dtype != np.float32 or self._known(parts["x"]):
            return n
        x, m, s, b = (parts[k] for k in "xmsb")
        shape = found[0].shape
        narrow = [v.args[0] if v.prim == "expand" else v for v in (m, s, b)]
        small = all(self._known(v) and hint(v.size) < hint(x.size) for v in narrow)
        if not small or len({v.shape for v in narrow}) > 1:
            return n
        shift = ir.expand(narrow[2] - narrow[0] * narrow[1], shape)
        return self._first(ir.map("add", ir.map("mul", x, s), shift), found[1])

    # ---- the permutation moves towards the results
    def _moved(self, n: Node) -> Node | None:
        if not n.args or (found := next((f for a in n.args if (f := self._permuted(a)) is not None), None)) is None:
            return None
        x, rank = found
        axes = (*channels_first_order(rank), *range(2 + rank, x.ndim))
        every = all((f := self._permuted(a)) is not None and f[1] == rank for a in n.args)
        if n.prim == "map":
            if all(f[1] == rank if (f := self._permuted(a)) is not None else a.prim == "expand" or self._known(a)
                   for a in n.args):
                args = tuple(with_axes(a, channels_last_order(rank)) for a in n.args)
                return self._first(make("map", args, **n.attrs), rank)
        elif n.prim in ("cast", "pad", "slice", "window") or n.prim == "concat" and every:
            return self._first(relaid(n, [a.args[0] for a in n.args], axes), rank)
        elif n.prim == "reduce":
            return self._reduced(n, x, axes)
        return None

    def _shuffled(self, n: Node) -> Node | None:
        """Channels in another order (split into groups, groups and channels exchanged, put together) of channels-last
        data."""
        if n.prim != "reshape" or n.args[0].prim != "permute" or n.args[0].args[0].prim != "reshape":
            return None
        axes, split = n.args[0].attrs["axes"], n.args[0].args[0]
        found = self._permuted(split.args[0])
        if found is None or not found[0].ndim == n.ndim == 2 + found[1]:
            return None
        # spatial axes; where axes of channels end
        (x, rank), inner = found, split.ndim - n.ndim + 2
        if (n.shape != split.args[0].shape or split.shape[:1] + split.shape[inner:] != x.shape[:-1]
            or axes[:1] + axes[inner:] != (0, *range(inner, split.ndim))):
            return None
        y = ir.reshape(x, (*x.shape[:-1], *split.shape[1:inner]))
        y = ir.permute(y, (*range(1 + rank), *(a + rank for a in axes[1:inner])))
        return self._first(ir.reshape(y, x.shape), rank)

    def _reduced(self, n: Node, x: Node, axes: tuple[int, ...]) -> Node | None:
        out = relaid(n, (x,), axes)
        left = [a for a in range(x.ndim) if a not in out.attrs["axes"]]    # axes of x in the order of the result
        wanted = [axes[a] for a in range(x.ndim) if a not in n.attrs["axes"]]
        return ir.permute(out, [left.index(a) for a in wanted])

    def split(self, roots: list[Node]) -> Layout:
        """The program without the parts that ``prepare`` does."""
        return apart(self.program, roots, self._known, self.packs, self.notes)


def layout(program: Program, frozen: frozenset[int], blocking: Blocking,
           packs: Mapping[Node, str] = MappingProxyType({})) -> Layout:
    """The program with channels-last convolutions, and the program that prepares its weights. frozen: slots of inputs
    that seldom change (parameters), which the program itself does not change. packs: values that are packed weights
    already.
    """
    run = Conversion(program, frozen, blocking, packs)
    roots = run.run()
    return run.split(roots) if run.packs else Layout(program)


def of_products(program: Program) -> frozenset[int]:
    """Slots of the matrices that rows are multiplied with (dense layers)."""
    matrices = (beneath(n.args[1], ("permute", "reshape")) for n in program.order() if dense(n) is not None)
    return frozenset(w.attrs["slot"] for w in matrices if w.prim == "input")
