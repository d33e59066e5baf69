"""Reductions of a product's columns, from the tiles in which they are computed: BatchNorm's statistics of a
convolution's result, sums of the gradient that a product gives (a bias's gradient) and of what is computed from it.
The result is then not read again for them.

Each ``ROWS`` rows have a result of their own; a small kernel puts these together, always in the same order. Squared
differences are from the mean of the ``ROWS`` rows: this needs no mean of all, and loses no digits. ``over_tiles`` looks
at the kernels of a program, and gives the program with such reductions in two steps. After these are fused,
``into_products`` finds the kernels that would read a product's result again, and has the product's kernel store their
results instead.
"""
from __future__ import annotations

import math
from typing import Callable, Iterator

from .. import ir
from ..base.dtype import float32
from ..ir import Node, Program
from ..ir.access import Index, beneath
from ..ir.index import Ix, Var, div, linear, mod, substitute, var
from ..ir.kernel import Fused, Kernel, Use
from ..ir.size import fixed
from .fusion_legality import LEAVES
from .rewrite import rebuild

ROWS = 16                       # of a tile, as many as fragments of tensor cores have
LEAST = 132 << 14               # elements of a result; smaller ones are read again from the cache
MOST_CARRIED = 2                # reductions that a kernel carries: a thread has their parts in registers
OPS = ("sum", "max", "min")
Takes = Callable[[Kernel], bool]


def over_tiles(fused: Fused, takes: Takes) -> Program:
    """The program, in which the reductions that products' kernels can carry are reductions of tiles' results. takes:
    whether a kernel's printer can do so."""
    wanted: set[Node] = set()
    reductions, stored = [n for n in fused.program.order() if _of_columns(n)], _stored(fused)
    for number, k in enumerate(fused.kernels):
        found = _carried(fused, number, reductions, stored) if _large(k) else []
        if found and takes(k):
            wanted |= set(found)
    if not wanted:
        return fused.program
    new: dict[Node, Node] = {}
    for n in fused.program.order():
        m = rebuild(n, [new[a] for a in n.args])
        new[n] = m if n not in wanted else _in_two_steps(m) if _total(n) is None else _squared(m)
    return fused.program.with_roots([new[r] for r in fused.program.roots])


def _large(k: Kernel) -> bool:
    """Whether a kernel's result is a large product's, with rows that fill tiles."""
    return (k.kind == "contraction" and bool(k.root.ndim) and all(map(fixed, k.root.shape)) and k.root.size >= LEAST
            and k.root.size // k.root.shape[-1] % ROWS == 0)


def _stored(fused: Fused) -> dict[Node, int]:
    """The numbers of the kernels that store values."""
    return {n: i for i, k in enumerate(fused.kernels) for n in k.stores}


def _carried(fused: Fused, number: int, reductions: list[Node], stored: dict[Node, int]) -> list[Node]:
    """Those reductions that a kernel can carry: statistics of its result, or a few of what is computed from it."""
    k = fused.kernels[number]
    alike = [n for n in reductions if n.args[0].size == k.root.size and n.args[0].shape[-1] == k.root.shape[-1]]
    for n in alike:
        total = _total(n)
        if total is not None and beneath(total.args[0], ("cast", "reshape")) is k.root:
            return [n, total]
    return [n for n in alike if _computed(n.args[0], k.root, stored, number)][:MOST_CARRIED]


def _of_columns(n: Node) -> bool:
    """Whether a node is a reduction over all axes but the last."""
    return (n.prim == "reduce" and n.attrs["op"] in OPS and n.dtype == float32 and n.args[0].ndim > 1
            and n.attrs["axes"] == tuple(range(n.args[0].ndim - 1)) and all(map(fixed, n.args[0].shape)))


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
def _total(n: Node) -> Node | None:
    """The sum from which the mean is computed, if a node is a sum of squared differences from a mean over the same
    axes."""
    x = _difference(n)
    if x is None:
        return None
    mean = _of_columns_alone(x.args[1])
    if mean is None:
        return None
    while mean.prim == "map" and mean.attrs["fn"] in ("div", "mul") and mean.args[1].prim in ("const", "expand"):
        mean = beneath(mean.args[0], ("expand", "reshape"))
    same = mean.prim == "reduce" and mean.attrs == n.attrs and mean.args[0] is x.args[0]
    return mean if same else None


def _of_columns_alone(n: Node) -> Node | None:
    """The value of one element for each column that all rows of ``n`` repeat; None where there is none."""
    x = n
    while x.prim in ("expand", "reshape"):
        if x.prim == "expand" and x.args[0].shape[-1:] != x.shape[-1:]:
            return None                                     # columns repeat the elements of rows
        x = x.args[0]
    return x if x.size == n.shape[-1] else None


def _difference(n: Node) -> Node | None:
    """The difference that is squared, if a node is a sum of squared differences over all axes but the last."""
    if n.prim != "reduce" or n.attrs["op"] != "sum" or n.dtype != float32:
        return None
    x = n.args[0]
    square = x.prim == "map" and x.attrs["fn"] in ("square", "mul") and x.args[0] is x.args[-1]
    if not square or n.attrs["axes"] != tuple(range(x.ndim - 1)):
        return None
    d = x.args[0]
    return d if d.prim == "map" and d.attrs["fn"] == "sub" else None


def in_tiles(x: Node) -> Node:
    """A value in shape (tiles, ROWS, columns)."""
    return ir.reshape(x, (math.prod(x.shape[:-1]) // ROWS, ROWS, x.shape[-1]))


def reduced_in_tiles(op: str, x: Node) -> Node:
    """The reduction of each column of each tile."""
    return ir.reduce(op, in_tiles(x), (1,))


def squares(x: Node) -> Node:
    """The sum of squared differences from the mean, of each column of each tile."""
    t = in_tiles(x)
    d = ir.map("sub", t, ir.expand(_mean(x), t.shape))
    return ir.reduce("sum", ir.map("mul", d, d), (1,))


def _mean(x: Node) -> Node:
    s = reduced_in_tiles("sum", x)
    return ir.reshape(ir.map("mul", s, ir.full(1 / ROWS, s.shape, s.dtype)), (s.shape[0], 1, s.shape[1]))


def _in_two_steps(n: Node) -> Node:
    """A reduction over all rows, as that of its tiles' results."""
    return ir.reduce(n.attrs["op"], reduced_in_tiles(n.attrs["op"], n.args[0]), (0,))


def _squared(n: Node) -> Node:
    """A sum of squared differences from the mean of all: those within tiles, and ROWS times those of the tiles'
    means."""
    d = _difference(n)
    assert d is not None
    x, mean = d.args[0], _of_columns_alone(d.args[1])
    assert mean is not None
    within = squares(x)
    apart = ir.map("sub", ir.reshape(_mean(x), within.shape),
                    ir.expand(ir.reshape(mean, (1, within.shape[1])), within.shape))
    between = ir.map("mul", ir.map("mul", apart, apart), ir.full(ROWS, within.shape, within.dtype))
    return ir.reduce("sum", ir.map("add", within, between), (0,))


# ---- into kernels
def into_products(fused: Fused, takes: Takes) -> None:
    """Have products' kernels store the reductions of tiles. takes: as of ``over_tiles``."""
    for k in [k for k in fused.kernels if _large(k)]:
        found = _together(list(_of_its_tiles(fused, k)))
        if found and takes(k):
            for s in found:
                _absorb(s, k)
                fused.kernels.remove(s)


def _together(found: list[Kernel]) -> list[Kernel]:
    """Those that one kernel can carry: a sum and squared differences from its mean alone, or a few others."""
    by_root = {s.root: s for s in found}
    for n in by_root:
        x = sum_of_squares(n)
        if x is not None and reduced_in_tiles("sum", x) in by_root:
            return [by_root[reduced_in_tiles("sum", x)], by_root[n]]
    return [s for s in found if sum_of_squares(s.root) is None][:MOST_CARRIED]


def _of_its_tiles(fused: Fused, k: Kernel) -> Iterator[Kernel]:
    """The kernels that reduce tiles of a kernel's result, or of what is computed from it, in order."""
    number, stored = fused.kernels.index(k), _stored(fused)
    shape = k.root.size // k.root.shape[-1] // ROWS, ROWS, k.root.shape[-1]
    for s in fused.kernels[number + 1:]:
        n = s.root
        if s.kind != "reduction" or s.extra or s.sides or n.prim != "reduce" or n.args[0].shape != shape:
            continue
        if n.attrs["axes"] != (1,) or n.attrs["op"] not in OPS or n.dtype != float32:
            continue
        x = sum_of_squares(n)
        if x is not None and beneath(x, ("cast", "reshape")) is k.root or _computed(n.args[0], k.root, stored, number):
            yield s


def sum_of_squares(n: Node) -> Node | None:
    """The value x if a node is ``squares(x)``, else None."""
    d = n.args[0].args[0] if n.args[0].fn == "mul" else n
    x = beneath(d.args[0], ("reshape",)) if d.fn == "sub" else None
    return x if x is not None and x.ndim > 1 and squares(x) is n else None


def _absorb(s: Kernel, k: Kernel) -> None:
    """A kernel becomes a reduction that another one carries, and what it reads is read there."""
    at = linear(k.root.shape[:-1], tuple(var(v) for v in k.loops[:-1]))
    place: Index = (div(at, ROWS), var(k.loops[-1]))
    inner = {v for uses in s.members.values() for u in uses for v in u.inside}
    names: dict[Var, Ix] = {**dict(zip(s.loops, place)), **{v: mod(at, ROWS) for v in inner}}

    def moved(u: Use) -> Use:
        return Use(k, tuple(substitute(i, names) for i in u.idx), (), False, u.guarded, u.share)
    k.sides.append((s.root, place))
    for old, target in ((s.members, k.members), (s.reads, k.reads)):
        for m, uses in old.items():
            if m is not k.root and m not in k.stores:
                target.setdefault(m, []).extend(map(moved, uses))
