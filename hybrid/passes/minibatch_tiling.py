"""A batch in blocks: where values between the layers of a whole batch are too large for the caches, a program for some
of its images runs once for each block of them. It needs less memory, too: that of one block.

Taken where each result of an image depends on that image and on parameters alone, which is followed from node to
node.
"""
from __future__ import annotations

from ..base.records import dataclass
from .. import ir
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.build import make
from ..ir.node import made_from
from .axis_orders import axis_in
from .rewrite import relaid

CACHE = 1 << 23                  # bytes of a layer's data and results that stay in the last cache
MOVED = ("window", "pad", "reshape", "permute", "slice", "detach", "with_grad")


class Whole(Exception):
    """A program that is not computed image by image."""


@dataclass(frozen=True)
class Blocks:
    """How many there are, and the inputs of which each has a part."""
    count: int
    inputs: frozenset[int]


class Division:
    """A program for ``size`` of the ``batch`` images. axis: where each value has them; nothing where it has none."""

    def __init__(self, program: Program, frozen: frozenset[int], size: int):
        self.size = size
        self.given = [n for n in program.inputs if n.attrs["slot"] not in frozen and n.ndim]
        found = {n.shape[0] for n in self.given}
        if len(found) != 1 or program.updates:
            raise Whole
        self.batch = found.pop()
        self.axis: dict[Node, int] = dict.fromkeys(self.given, 0)
        self.new: dict[Node, Node] = {n: n for n in program.inputs}
        self.new.update((n, ir.input(n.attrs["slot"], (size, *n.shape[1:]), n.dtype)) for n in self.given)
        for n in program.order():
            if n not in self.new:
                made_from(n)
                self.new[n] = n
                if any(a in self.axis for a in n.args):
                    self.axis[n], self.new[n] = self._part(n)
        if any(self.axis.get(r) != 0 for r in program.roots):
            raise Whole

    def narrow(self, n: Node, axis: int) -> Node:
        """A value of parameters that is the same for all images, for fewer of them."""
        if n in self.axis:
            if self.axis[n] != axis:
                raise Whole
            return self.new[n]
        if n.prim == "expand" and n.args[0].shape[axis] == 1:
            return ir.expand(n.args[0], self._resized(n.shape, axis))
        if n.prim in ("map", "cast"):
            return make(n.prim, tuple(self.narrow(a, axis) for a in n.args), **n.attrs)
        raise Whole

    def _resized(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        return (*shape[:axis], self.size, *shape[axis + 1:])

    def _mixes(self, n: Node, side: int, axis: int) -> bool:
        """Whether a node makes values of several images of an operand that has them at an axis."""
        a = n.attrs
        return bool(n.prim == "concat" and a["axis"] == axis or n.prim == "window" and axis in a["axes"]
                    or n.prim == "pad" and (a["lo"][axis] or a["hi"][axis])
                    or n.prim == "slice" and (a["size"][axis] != self.batch or a["step"][axis] != 1)
                    or n.prim == "dot" and (axis in a["batch"][side] or n.args[1 - side] in self.axis))

    def _part(self, n: Node) -> tuple[int, Node]:
        """Where a node has the images, and the node for fewer of them."""
        side = next(i for i, a in enumerate(n.args) if a in self.axis)
        axis = axis_in(n, side, self.axis[n.args[side]])
        if (axis is None or n.prim not in DIVIDED or n.prim in MARKS and side
                or self._mixes(n, side, self.axis[n.args[side]])):
            raise Whole
        if n.prim in MARKS:
            return axis, self.new[n.args[0]]
        if n.prim in ("reshape", "expand"):
            return axis, getattr(ir, n.prim)(self.new[n.args[0]], self._resized(n.shape, axis))
        beside = n.prim in ("map", "cast", "concat")
        return axis, relaid(n, [self.narrow(a, axis) if beside else self.new[a] for a in n.args],
                            range(n.args[0].ndim))


MARKS = ("detach", "with_grad")                       # what speaks to gradients alone
DIVIDED = frozenset({"map", "cast", "concat", "slice", "pad", "window", "permute", "reshape", "expand", "reduce", "dot",
                     *MARKS})


def _size(program: Program, whole: Division, threads: int) -> int:
    """Images of a block; all of them where that pays as well. Counted are bytes: of layers that do not stay in the
    cache, and of parameters that are read again."""
    each = [(n.nbytes + beneath(a, MOVED).nbytes) / whole.batch for n in program.order() if n.prim == "dot"
            and n in whole.axis for a in n.args if a in whole.axis]
    largest = max(each, default=0)
    ways = [b for b in range(1, whole.batch) if whole.batch % b == 0
            and (threads == 1 or whole.batch // b % threads == 0)]
    size = max((b for b in ways if b * largest <= CACHE), default=min(ways, default=whole.batch))
    saved = sum(whole.batch * s for s in each if whole.batch * s > CACHE)
    parameters = sum(n.nbytes for n in program.inputs if n not in whole.axis)
    return size if saved > parameters * (whole.batch // size - 1) else whole.batch


def in_blocks(program: Program, frozen: frozenset[int], threads: int) -> Program | None:
    """The program for one block, which says in ``memo["blocks"]`` how many there are; None where the whole batch is
    computed at once."""
    batch = next((n.shape[0] for n in program.inputs if n.attrs["slot"] not in frozen and n.ndim), 1)
    if batch < 2 or "blocks" in program.memo or not any(n.prim == "dot" for n in program.order()):
        return None
    try:
        size = _size(program, Division(program, frozen, batch), threads)
        if size == batch:
            return None
        d = Division(program, frozen, size)
    except Whole:
        return None
    origins = program.memo.get("origins", {})
    memo = {"origins": {d.new[n]: at for n, at in origins.items() if n in d.new}, "name": program.memo.get("name"),
            "frozen": frozen, "blocks": Blocks(batch // size, frozenset(n.attrs["slot"] for n in d.given))}
    return Program(tuple(d.new[n] for n in program.inputs), tuple(d.new[r] for r in program.outputs), (), memo)
