"""Reductions of a product's columns or rows, from the tiles in which they are computed. Of columns: BatchNorm's
statistics of a convolution's result, sums of the gradient that a product gives (a bias's gradient) and of what is
computed from it. Of rows: the greatest score and the sum of exponentials of a softmax over a product's result, sums and
maxima. The result is then not read again for them.

Each group of neighbours (``Groups``) has a result of its own; a small kernel puts these together, always in the same
order. Squared differences are from the mean of their group, exponentials from its greatest value: these need no mean
and no maximum of all, and lose no digits. ``over_tiles`` looks at the kernels of a program, and gives the program with
such reductions in two steps. After these are fused, ``into_products`` finds the kernels that would read a product's
result again, and has the product's kernel store their results instead.
"""
from __future__ import annotations

import math
from typing import Callable, Iterator

import numpy as np

from .. import ir
from ..base.dtype import float32
from ..base.records import dataclass
from ..ir import Node, Program
from ..ir.access import Index, beneath
from ..ir.index import Ix, Var, div, linear, mod, substitute, var
from ..ir.kernel import Fused, Kernel, Use
from ..ir.node import describe
from ..ir.reductions import reduce_identity
from ..ir.size import fixed
from .fusion_legality import LEAVES
from .rewrite import rebuild

LEAST = 132 << 14               # elements of a result; smaller ones are read again from the cache
MOST_CARRIED = 2                # reductions that a kernel carries: a thread has their parts in registers
IN_REGISTERS = 1 << 14          # elements of a row up to which a kernel of rows reads them once in any case
OPS = ("sum", "max", "min")
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Groups:
    """How the results of a product are divided for reductions. ``axis``: 1 if ``size`` neighbours of each column make a
    group, 2 if those of each row do; the same axis of a value ``parted`` is reduced."""
    axis: int
    size: int

    def parted(self, x: Node, rest: float = 0) -> Node:
        """A value of rows and columns in groups, with three axes. rest: what fills the last group of a row."""
        rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
        if self.axis == 1:
            return ir.reshape(x, (rows // self.size, self.size, columns))
        count = -(-columns // self.size)
        filled = ir.pad(x, (0,) * x.ndim, (*(0,) * (x.ndim - 1), count * self.size - columns), rest)
        return ir.reshape(filled, (rows, count, self.size))

    def reduced(self, op: str, x: Node) -> Node:
        """The reduction of each group."""
        return ir.reduce(op, self.parted(x, float(reduce_identity(op, x.dtype))), (self.axis,))

    def reduces(self, n: Node) -> bool:
        """Whether a node is a reduction over whole columns, or whole rows, that can be carried."""
        if n.prim != "reduce" or n.attrs["op"] not in OPS or n.dtype != float32 or n.args[0].ndim < 2:
            return False
        last = n.args[0].ndim - 1
        return n.attrs["axes"] == (tuple(range(last)) if self.axis == 1 else (last,)) and all(
            map(fixed, n.args[0].shape))

    def place(self, k: Kernel) -> tuple[Index, Ix]:
        """The index of the group in which an element of a kernel's root is, and its number there."""
        at = linear(k.root.shape[:-1], tuple(var(v) for v in k.loops[:-1]))
        column = var(k.loops[-1])
        if self.axis == 1:
            return (div(at, self.size), column), mod(at, self.size)
        return (at, div(column, self.size)), mod(column, self.size)


OF_COLUMNS = Groups(1, 16)      # rows, as many as fragments of tensor cores have
OF_ROWS = Groups(2, 32)         # columns, of which a warp has all, in tiles of each form
Takes = Callable[[Kernel, Groups], str]


def groups_of(n: Node) -> Groups:
    """The groups that a reduction which a kernel carries is of."""
    return OF_COLUMNS if n.attrs["axes"] == (OF_COLUMNS.axis,) else OF_ROWS


def ungrouped(n: Node) -> Node:
    """The value that a reduction of groups reduces, as it is computed."""
    x = beneath(n.args[0], ("reshape",))
    return x.args[0] if x.prim == "pad" else x


@dataclass
class Tiled:
    """A program in which the reductions that products' kernels can carry are reductions of groups' results. ``first``:
    the reductions of groups; ``refusals``: others, and why a kernel does not carry them."""
    program: Program
    first: set[Node]
    refusals: list[tuple[str, str]]


def over_tiles(fused: Fused, takes: Takes) -> Tiled:
    """The program with reductions in two steps. takes: why a kernel's printer cannot carry reductions of such groups;
    empty if it can."""
    wanted: dict[Node, Groups] = {}
    order, stored = fused.program.order(), _stored(fused)
    tiled, carrying = Tiled(fused.program, set(), []), set()
    for groups in (OF_COLUMNS, OF_ROWS):
        reductions = [n for n in order if groups.reduces(n)]
        for number, k in enumerate(fused.kernels):
            found = _carried(fused, number, reductions, stored) if _is_product(k) and number not in carrying else []
            why = _why_not(fused, k, groups, found) or takes(k, groups) if found else ""
            if why:
                tiled.refusals += [(describe(n), f"the kernel of {describe(k.root)} does not carry it: {why}")
                                   for n in found]
            elif found:
                wanted.update(dict.fromkeys(found, groups))
                carrying.add(number)
    new: dict[Node, Node] = {}
    for n in order if wanted else ():
        new[n] = rebuild(n, [new[a] for a in n.args])
        if n in wanted:
            first = _of_groups(new[n], wanted[n], _first(n) is not None)
            tiled.first.add(first)
            new[n] = _in_two_steps(new[n], wanted[n], first)
    if wanted:
        tiled.program = fused.program.with_roots([new[r] for r in fused.program.roots])
    return tiled


def _is_product(k: Kernel) -> bool:
    """Whether a kernel's result is a product's, of rows and columns, and has elements."""
    return k.kind == "contraction" and bool(k.root.ndim) and all(map(fixed, k.root.shape)) and bool(k.root.size)


def _why_not(fused: Fused, k: Kernel, groups: Groups, found: list[Node]) -> str:
    """Why a kernel had better not carry some reductions of its result."""
    if k.root.size < LEAST:
        return f"fewer than {LEAST} elements are read again from the cache"
    rows, columns = k.root.size // k.root.shape[-1], k.root.shape[-1]
    if groups is OF_COLUMNS:
        return f"{rows} rows are no groups of {groups.size}" if rows % groups.size else ""
    if columns < groups.size:
        return f"rows of {columns} are shorter than a group of {groups.size}"
    beside = [h for h in fused.kernels if any(n in h.members for n in found)]
    if columns <= IN_REGISTERS and all(h.root.size >= k.root.size for h in beside):
        return "the kernel that needs it reads all elements in any case, and each once"
    return ""


def _stored(fused: Fused) -> dict[Node, int]:
    """The numbers of the kernels that store values."""
    return {n: i for i, k in enumerate(fused.kernels) for n in k.stores}


def _carried(fused: Fused, number: int, reductions: list[Node], stored: dict[Node, int]) -> list[Node]:
    """Those reductions that a kernel can carry: two of its result, the second of which takes the first, or a few of
    what is computed from it."""
    k = fused.kernels[number]
    alike = [n for n in reductions if n.args[0].size == k.root.size and n.args[0].shape[-1] == k.root.shape[-1]]
    for n in alike:
        first = _first(n)
        if first is not None and beneath(first.args[0], ("cast", "reshape")) is k.root:
            return [n, first]
    return [n for n in alike if _computed(n.args[0], k.root, stored, number)][:MOST_CARRIED]


def _computed(x: Node, root: Node, stored: dict[Node, int], number: int) -> bool:
    """Whether a value is a function, element by element, of a kernel's root and of what is stored before it."""
    def known(n: Node) -> bool:
        return n is root or stored.get(n, number) < number or n.prim in LEAVES
    of_root = False
    for n in ir.reached([x], lambda n: not known(n)):
        of_root = of_root or n is root
        if not known(n) and (n in stored or n.prim not in ("map", "cast", "reshape", "expand")):
            return False
    return of_root


# ---- in two steps
def _first(n: Node) -> Node | None:
    """The reduction that a node takes, of the same value over the same axes: the sum from whose mean it is a sum of
    squared differences, or the greatest value, from which it is a sum of exponentials of differences."""
    d = _difference(n)
    if d is None:
        return None
    first = _of_columns_alone(d.args[1]) if OF_COLUMNS.reduces(n) else _of_rows_alone(d.args[1])
    if first is None:
        return None
    if OF_COLUMNS.reduces(n):
        while first.prim == "map" and first.attrs["fn"] in ("div", "mul") and first.args[1].prim in (
                "const", "expand"):
            first = beneath(first.args[0], ("expand", "reshape"))
    op = "sum" if OF_COLUMNS.reduces(n) else "max"
    same = first.prim == "reduce" and first.attrs == {**n.attrs, "op": op} and first.args[0] is d.args[0]
    return first if same else None


def _of_columns_alone(n: Node) -> Node | None:
    """The value of one element for each column that all rows of ``n`` repeat; None where there is none."""
    x = n
    while x.prim in ("expand", "reshape"):
        if x.prim == "expand" and x.args[0].shape[-1:] != x.shape[-1:]:
            return None                                     # columns repeat the elements of rows
        x = x.args[0]
    return x if x.size == n.shape[-1] else None


def _of_rows_alone(n: Node) -> Node | None:
    """The value of one element for each row that all columns of ``n`` repeat; None where there is none."""
    x = n
    while x.prim in ("expand", "reshape"):
        if x.prim == "expand" and x.args[0].shape != (*x.shape[:-1], 1):
            return None
        x = x.args[0]
    return x if x.size * n.shape[-1] == n.size else None


def _difference(n: Node) -> Node | None:
    """The difference that is squared, if a node is a sum of squared differences over columns; of which the exponential
    is taken, if it is a sum of exponentials over rows."""
    if n.attrs["op"] != "sum" or n.args[0].prim != "map":
        return None
    x = n.args[0]
    square = x.fn in ("square", "mul") and x.args[0] is x.args[-1]
    d = x.args[0] if (square if OF_COLUMNS.reduces(n) else x.fn == "exp") else x
    return d if d is not x and d.prim == "map" and d.fn == "sub" else None


def squares(x: Node) -> Node:
    """The sum of squared differences from the mean, of each column of each group."""
    t = OF_COLUMNS.parted(x)
    d = ir.map("sub", t, ir.expand(_mean(x), t.shape))
    return ir.reduce("sum", ir.map("mul", d, d), (1,))


def _mean(x: Node) -> Node:
    s = OF_COLUMNS.reduced("sum", x)
    return ir.reshape(ir.map("mul", s, ir.full(1 / OF_COLUMNS.size, s.shape, s.dtype)), (s.shape[0], 1, s.shape[1]))


def exponentials(x: Node) -> Node:
    """The sum of exponentials of differences from the greatest value, of each group of a row."""
    t, most = OF_ROWS.parted(x, -math.inf), _greatest(x)
    return ir.reduce("sum", ir.map("exp", ir.map("sub", t, ir.expand(ir.reshape(most, (*most.shape, 1)), t.shape))),
                     (2,))


def _greatest(x: Node) -> Node:
    """The greatest value of each group of a row, and a finite one where all are -infinity."""
    most = OF_ROWS.reduced("max", x)
    return ir.map("maximum", most, ir.full(LOWEST, most.shape, most.dtype))


def _of_groups(n: Node, groups: Groups, takes_first: bool) -> Node:
    """The first step of a reduction. takes_first: whether it takes another one (``_first``)."""
    d = _difference(n)
    if not takes_first or d is None:
        return groups.reduced(n.attrs["op"], n.args[0])
    return squares(d.args[0]) if groups is OF_COLUMNS else exponentials(d.args[0])


def _in_two_steps(n: Node, groups: Groups, first: Node) -> Node:
    """A reduction over all rows, or all columns, as that of its groups' results."""
    if first_of_groups(first) is not None:
        first = _squares_of_all(n, first) if groups is OF_COLUMNS else _exponentials_of_all(n, first)
    return ir.reshape(ir.reduce(n.attrs["op"], first, (groups.axis - 1,)), n.shape)


def _squares_of_all(n: Node, within: Node) -> Node:
    """Squared differences from the mean of all: those within groups, and those of the groups' means as often as a group
    has rows."""
    d = _difference(n)
    assert d is not None
    mean = _of_columns_alone(d.args[1])
    assert mean is not None
    apart = ir.map("sub", ir.reshape(_mean(d.args[0]), within.shape),
                   ir.expand(ir.reshape(mean, (1, within.shape[1])), within.shape))
    between = ir.map("mul", ir.map("mul", apart, apart), ir.full(OF_COLUMNS.size, within.shape, within.dtype))
    return ir.map("add", within, between)


def _exponentials_of_all(n: Node, within: Node) -> Node:
    """Exponentials of differences from the greatest value of all: those of groups, each times the exponential of its
    own greatest value's difference."""
    d = _difference(n)
    assert d is not None
    most, own = _of_rows_alone(d.args[1]), _greatest(d.args[0])
    assert most is not None
    apart = ir.map("sub", own, ir.expand(ir.reshape(most, (own.shape[0], 1)), own.shape))
    return ir.map("mul", within, ir.map("exp", apart))


# ---- into kernels
def into_products(fused: Fused, takes: Takes) -> None:
    """Have products' kernels store the reductions of tiles. takes: as of ``over_tiles``."""
    for k in [k for k in fused.kernels if _is_product(k)]:
        for groups in (OF_COLUMNS, OF_ROWS):
            found = _together(list(_of_its_tiles(fused, k, groups)))
            if found and not takes(k, groups):
                for s in found:
                    _absorb(s, k, groups)
                    fused.kernels.remove(s)
                break


def _together(found: list[Kernel]) -> list[Kernel]:
    """Those that one kernel can carry: two, the second of which takes the first, or a few others."""
    by_root = {s.root: s for s in found}
    for n in by_root:
        first = first_of_groups(n)
        if first is not None and first in by_root:
            return [by_root[first], by_root[n]]
    return [s for s in found if first_of_groups(s.root) is None][:MOST_CARRIED]


def _of_its_tiles(fused: Fused, k: Kernel, groups: Groups) -> Iterator[Kernel]:
    """The kernels that reduce groups of a kernel's result, or of what is computed from it, in order."""
    number, stored = fused.kernels.index(k), _stored(fused)
    rows, columns = k.root.size // k.root.shape[-1], k.root.shape[-1]
    if k.root.size < LEAST or groups is OF_COLUMNS and rows % groups.size:
        return
    shape = ((rows // groups.size, groups.size, columns) if groups is OF_COLUMNS else
             (rows, -(-columns // groups.size), groups.size))
    for s in fused.kernels[number + 1:]:
        n = s.root
        if s.kind != "reduction" or s.extra or s.sides or n.prim != "reduce" or n.args[0].shape != shape:
            continue
        if n.attrs["axes"] != (groups.axis,) or n.attrs["op"] not in OPS or n.dtype != float32:
            continue
        first = first_of_groups(n)
        x = ungrouped(n if first is None else first)
        if (beneath(x, ("cast", "reshape")) is k.root if first is not None else
                x.shape[-1] == columns and _computed(x, k.root, stored, number)):
            yield s


def first_of_groups(n: Node) -> Node | None:
    """The reduction of the same groups that a node takes, if it is ``squares`` or ``exponentials`` of a value."""
    x = n.args[0]
    d = x.args[0] if x.fn in ("mul", "exp") else x
    if d.fn != "sub":
        return None
    t = beneath(d.args[0], ("reshape",))
    for value in (t, t.args[0] if t.prim == "pad" else t):
        if value.ndim < 2 or not value.size:
            continue
        if groups_of(n) is OF_ROWS and exponentials(value) is n:
            return OF_ROWS.reduced("max", value)
        if groups_of(n) is OF_COLUMNS and value.size // value.shape[-1] % OF_COLUMNS.size == 0 and squares(value) is n:
            return OF_COLUMNS.reduced("sum", value)
    return None


def _absorb(s: Kernel, k: Kernel, groups: Groups) -> None:
    """A kernel becomes a reduction that another one carries, and what it reads is read there."""
    place, within = groups.place(k)
    inner = {v for uses in s.members.values() for u in uses for v in u.inside}
    names: dict[Var, Ix] = {**dict(zip(s.loops, place)), **dict.fromkeys(inner, within)}

    def moved(u: Use) -> Use:
        return Use(k, tuple(substitute(i, names) for i in u.idx), (), False, u.guarded, u.share)
    k.sides.append((s.root, place))
    for old, target in ((s.members, k.members), (s.reads, k.reads)):
        for m, uses in old.items():
            if m is not k.root and m not in k.stores:
                target.setdefault(m, []).extend(map(moved, uses))
