"""Groups of a product's results, for reductions that its kernel carries: 16 rows of a column, or 32 columns of a row.

Each group has a result of its own. Squared differences are from the mean of their group, exponentials from its greatest
value: these need no mean and no maximum of all, and lose no digits.
"""
from __future__ import annotations

import math

import numpy as np

from .. import ir
from ..base.dtype import float32
from ..base.records import dataclass
from ..ir import Node
from ..ir.access import Index, beneath
from ..ir.index import Ix, div, linear, mod, var
from ..ir.kernel import Kernel
from ..ir.reductions import reduce_identity
from ..ir.size import fixed

OPS = ("sum", "max", "min")
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Groups:
    """How the results of a product are divided for reductions. axis: of the three axes of a value that is ``parted``,
    the one within a group: 1 (rows of a column), 2 (columns of a row). size: elements of a group.

    Two reductions can be carried together, a first one and a sum that rests on it: of ``functions`` of differences from
    a ``center`` of the first one's results. op: of the first. functions: their names, for a node of two equal arguments
    or of one.
    """
    axis: int
    size: int
    op: str
    functions: tuple[str, ...]

    # ---- what differs between groups of columns and of rows
    def refusal(self, rows: int, columns: int) -> str:
        """Why a value of so many rows and columns cannot be divided; empty if it can."""
        raise NotImplementedError

    def shape(self, rows: int, columns: int) -> tuple[int, int, int]:
        """The shape of a value that is ``parted``."""
        raise NotImplementedError

    def filled(self, x: Node, rest: float) -> Node:
        """A value with whole groups. rest: what fills the last one."""
        return x

    def axes(self, ndim: int) -> tuple[int, ...]:
        """The axes over which a value is reduced: those of whole columns, or of whole rows."""
        raise NotImplementedError

    def repeats(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> bool:
        """Whether a value expanded to ``outer`` still is one of an element for each column, or each row."""
        raise NotImplementedError

    def unscaled(self, x: Node) -> Node:
        """The reduction from which a value that is subtracted is computed."""
        return x

    def center(self, x: Node) -> Node:
        """What is subtracted within each group."""
        raise NotImplementedError

    def function(self, d: Node) -> Node:
        """The function of differences that is summed."""
        raise NotImplementedError

    def joined(self, within: Node, apart: Node) -> Node:
        """The parts of a sum of functions of differences from the center of all. within: the sums of differences from
        each group's own center. apart: the differences of these from that of all."""
        raise NotImplementedError

    def place(self, k: Kernel) -> tuple[Index, Ix]:
        """The index of the group in which an element of a kernel's root is, and its number there."""
        raise NotImplementedError

    # ---- what does not
    def parted(self, x: Node, op: str) -> Node:
        """A value of rows and columns in groups, with three axes, for a reduction."""
        return ir.reshape(self.filled(x, float(reduce_identity(op, x.dtype))), self.shape(*sides(x)))

    def reduced(self, op: str, x: Node) -> Node:
        """The reduction of each group."""
        return ir.reduce(op, self.parted(x, op), (self.axis,))

    def spread(self, x: Node) -> Node:
        """The sum of functions of differences from each group's own center."""
        t, c = self.parted(x, self.op), self.center(x)
        c = ir.reshape(c, (*c.shape[:self.axis], 1, *c.shape[self.axis:]))
        return ir.reduce("sum", self.function(ir.map("sub", t, ir.expand(c, t.shape))), (self.axis,))

    def reduces(self, n: Node) -> bool:
        """Whether a node is a reduction over whole columns, or whole rows, that can be carried."""
        if n.prim != "reduce" or n.attrs["op"] not in OPS or n.dtype != float32 or n.args[0].ndim < 2:
            return False
        return n.attrs["axes"] == self.axes(n.args[0].ndim) and all(map(fixed, n.args[0].shape))

    def difference(self, n: Node) -> Node | None:
        """The difference of which a function is summed, if a reduction is such a sum."""
        x = n.args[0]
        if n.attrs["op"] != "sum" or x.prim != "map" or x.fn not in self.functions or x.args[0] is not x.args[-1]:
            return None
        d = x.args[0]
        return d if d.prim == "map" and d.fn == "sub" else None

    def repeated(self, n: Node) -> Node | None:
        """The value of one element for each column that all rows of ``n`` repeat, or for each row that all columns
        repeat; None where there is none."""
        x = n
        while x.prim in ("expand", "reshape"):
            if x.prim == "expand" and not self.repeats(x.shape, x.args[0].shape):
                return None
            x = x.args[0]
        return x if x.size == math.prod(d for i, d in enumerate(n.shape) if i not in self.axes(n.ndim)) else None

    def rests_on(self, n: Node) -> Node | None:
        """The reduction on which a node rests, of the same value over the same axes: the sum from whose mean it is a
        sum of squared differences, or the greatest value, from which it is a sum of exponentials of differences."""
        d = self.difference(n)
        found = None if d is None else self.repeated(d.args[1])
        if d is None or found is None:
            return None
        first = self.unscaled(found)
        same = first.prim == "reduce" and first.attrs == {**n.attrs, "op": self.op} and first.args[0] is d.args[0]
        return first if same else None

    def of_groups(self, n: Node, rests: bool) -> Node:
        """The first step of a reduction: that of each group. rests: whether it rests on another one."""
        d = self.difference(n)
        return self.reduced(n.attrs["op"], n.args[0]) if d is None or not rests else self.spread(d.args[0])

    def of_all(self, n: Node, parts: Node, rests: bool) -> Node:
        """A reduction over all rows, or all columns, as that of its groups' results ``parts``."""
        d = self.difference(n)
        if rests and d is not None:
            own, of_all = self.center(d.args[0]), self.repeated(d.args[1])
            assert of_all is not None
            once = tuple(1 if i == self.axis - 1 else size for i, size in enumerate(own.shape))
            parts = self.joined(parts, ir.map("sub", own, ir.expand(ir.reshape(of_all, once), own.shape)))
        return ir.reshape(ir.reduce(n.attrs["op"], parts, (self.axis - 1,)), n.shape)


class _OfColumns(Groups):
    """Rows of a column. The sum of squared differences from the mean rests on the sum: squared differences from the
    mean of all are those within groups, and those of the groups' means as often as a group has rows."""

    def refusal(self, rows: int, columns: int) -> str:
        return f"{self.size} does not divide {rows} rows" if rows % self.size else ""

    def shape(self, rows: int, columns: int) -> tuple[int, int, int]:
        return rows // self.size, self.size, columns

    def axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(range(ndim - 1))

    def repeats(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> bool:
        return inner[-1:] == outer[-1:]                     # else columns repeat the elements of rows

    def unscaled(self, x: Node) -> Node:
        while x.prim == "map" and x.attrs["fn"] in ("div", "mul") and x.args[1].prim in ("const", "expand"):
            x = beneath(x.args[0], ("expand", "reshape"))
        return x

    def center(self, x: Node) -> Node:
        s = self.reduced("sum", x)
        return ir.map("mul", s, ir.full(1 / self.size, s.shape, s.dtype))

    def function(self, d: Node) -> Node:
        return ir.map("mul", d, d)

    def joined(self, within: Node, apart: Node) -> Node:
        times = ir.full(self.size, within.shape, within.dtype)
        return ir.map("add", within, ir.map("mul", ir.map("mul", apart, apart), times))

    def place(self, k: Kernel) -> tuple[Index, Ix]:
        at = linear(k.root.shape[:-1], tuple(var(v) for v in k.loops[:-1]))
        return (div(at, self.size), var(k.loops[-1])), mod(at, self.size)


class _OfRows(Groups):
    """Columns of a row. The sum of exponentials of differences from the greatest value rests on that: exponentials of
    all are those of groups, each times the exponential of its own greatest value's difference."""

    def refusal(self, rows: int, columns: int) -> str:
        return f"rows of {columns} are shorter than a group of {self.size}" if columns < self.size else ""

    def shape(self, rows: int, columns: int) -> tuple[int, int, int]:
        return rows, -(-columns // self.size), self.size

    def filled(self, x: Node, rest: float) -> Node:
        none = (0,) * (x.ndim - 1)
        return ir.pad(x, (*none, 0), (*none, -x.shape[-1] % self.size), rest)

    def axes(self, ndim: int) -> tuple[int, ...]:
        return (ndim - 1,)

    def repeats(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> bool:
        return inner == (*outer[:-1], 1)

    def center(self, x: Node) -> Node:
        most = self.reduced("max", x)                       # finite also where all are -infinity
        return ir.map("maximum", most, ir.full(LOWEST, most.shape, most.dtype))

    def function(self, d: Node) -> Node:
        return ir.map("exp", d)

    def joined(self, within: Node, apart: Node) -> Node:
        return ir.map("mul", within, ir.map("exp", apart))

    def place(self, k: Kernel) -> tuple[Index, Ix]:
        at, column = linear(k.root.shape[:-1], tuple(var(v) for v in k.loops[:-1])), var(k.loops[-1])
        return (at, div(column, self.size)), mod(column, self.size)


# reductions of columns: groups of 16 rows, the rows of a tensor core's fragment
OF_COLUMNS: Groups = _OfColumns(1, 16, "sum", ("square", "mul"))
# reductions of rows: groups of 32 columns, all of which one warp has in every form of tile
OF_ROWS: Groups = _OfRows(2, 32, "max", ("exp",))


def sides(x: Node) -> tuple[int, int]:
    """How many rows and columns a value has."""
    return math.prod(x.shape[:-1]), x.shape[-1]


def groups_of(n: Node) -> Groups:
    """Whether a carried reduction is of groups of columns or of rows."""
    return OF_COLUMNS if n.attrs["axes"] == (OF_COLUMNS.axis,) else OF_ROWS


def ungrouped(n: Node) -> Node:
    """The value that a reduction of groups reduces, before it was padded and cut into groups."""
    x = beneath(n.args[0], ("reshape",))
    return x.args[0] if x.prim == "pad" else x


def first_of_groups(n: Node) -> Node | None:
    """The reduction of the same groups on which a node rests, if it is ``spread`` of a value."""
    x = n.args[0]
    d = x.args[0] if x.fn in ("mul", "exp") else x
    if d.fn != "sub":
        return None
    groups, t = groups_of(n), beneath(d.args[0], ("reshape",))
    for value in (t, t.args[0] if t.prim == "pad" else t):
        if value.ndim > 1 and value.size and not groups.refusal(*sides(value)) and groups.spread(value) is n:
            return groups.reduced(groups.op, value)
    return None
