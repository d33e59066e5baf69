"""Reductions of a product's columns or rows, from the tiles in which they are computed. Of columns: BatchNorm's
statistics of a convolution's result, sums of the gradient that a product gives (a bias's gradient) and of what is
computed from it. Of rows: the greatest score and the sum of exponentials of a softmax over a product's result, sums and
maxima. The result is then not read again for them.

Each group of neighbours (``result_groups``) has a result of its own; a small kernel puts these together, always in the
same order. ``over_tiles`` looks at the kernels of a program, and gives the program with such reductions in two steps.
After these are fused, ``into_products`` finds the kernels that would read a product's result again, and has the
product's kernel store their results instead.
"""
from __future__ import annotations

from typing import Callable, Iterator

from .. import ir
from ..base.dtype import float32
from ..base.records import dataclass
from ..ir import Node, Program
from ..ir.access import beneath
from ..ir.index import Ix, Var, substitute
from ..ir.kernel import Fused, Kernel, Use
from ..ir.node import describe
from ..ir.size import fixed
from .fusion_legality import LEAVES
from .result_groups import OF_COLUMNS, OF_ROWS, OPS, Groups, first_of_groups, sides, ungrouped
from .rewrite import rebuild

LEAST = 132 << 14               # elements of a result; smaller ones are read again from the cache
MOST_CARRIED = 2                # reductions that a kernel carries: a thread has their parts in registers
IN_REGISTERS = 1 << 14          # elements of a row up to which a kernel of rows reads them once in any case
WhyNot = Callable[[Kernel, Groups], str]


@dataclass
class Tiled:
    """A program in which the reductions that products' kernels can carry are reductions of groups' results.
    of_groups: the reductions of groups. refusals: others, and why a kernel does not carry them."""
    program: Program
    of_groups: set[Node]
    refusals: list[tuple[str, str]]


def over_tiles(fused: Fused, why_not_carried: WhyNot) -> Tiled:
    """The program with reductions in two steps. why_not_carried: why a kernel's printer cannot carry reductions of such
    groups; empty if it can."""
    wanted: dict[Node, Groups] = {}
    order, stored = fused.program.order(), _stored(fused)
    tiled, carrying = Tiled(fused.program, set(), []), set()
    for groups in (OF_COLUMNS, OF_ROWS):
        reductions = [n for n in order if groups.reduces(n)]
        for number, k in enumerate(fused.kernels):
            able = _is_product(k) and number not in carrying
            found = _carried(fused, number, groups, reductions, stored) if able else []
            why = _why_not(fused, k, groups, found) or why_not_carried(k, groups) if found else ""
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
            groups, rests = wanted[n], wanted[n].rests_on(n) is not None
            parts = groups.of_groups(new[n], rests)
            tiled.of_groups.add(parts)
            new[n] = groups.of_all(new[n], parts, rests)
    if wanted:
        tiled.program = fused.program.with_roots([new[r] for r in fused.program.roots])
    return tiled


def _is_product(k: Kernel) -> bool:
    """Whether a kernel's result is a product's, of rows and columns, and has elements."""
    return k.kind == "contraction" and bool(k.root.ndim) and all(map(fixed, k.root.shape)) and bool(k.root.size)


def _too_small(k: Kernel, groups: Groups) -> str:
    """Why a result is too small to be divided, or for that to pay; empty if it is not."""
    if k.root.size < LEAST:
        return f"a result of fewer than {LEAST} elements is still in the cache when it is read again"
    return groups.refusal(*sides(k.root))


def _why_not(fused: Fused, k: Kernel, groups: Groups, found: list[Node]) -> str:
    """Why a kernel need not or cannot carry some reductions of its result."""
    why = _too_small(k, groups)
    if why:
        return why
    beside = [h for h in fused.kernels if any(n in h.members for n in found)]
    if groups is OF_ROWS and k.root.shape[-1] <= IN_REGISTERS and all(h.root.size >= k.root.size for h in beside):
        return "the kernel that needs it reads all elements in any case: carrying it would save no reading"
    return ""


def _stored(fused: Fused) -> dict[Node, int]:
    """The numbers of the kernels that store values."""
    return {n: i for i, k in enumerate(fused.kernels) for n in k.stores}


def _carried(fused: Fused, number: int, groups: Groups, reductions: list[Node], stored: dict[Node, int]) -> list[Node]:
    """Those reductions that a kernel can carry: two of its result, the second of which rests on the first, or a few of
    what is computed from it."""
    k = fused.kernels[number]
    alike = [n for n in reductions if n.args[0].size == k.root.size and n.args[0].shape[-1] == k.root.shape[-1]]
    for n in alike:
        first = groups.rests_on(n)
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


# ---- into kernels
def into_products(fused: Fused, why_not_carried: WhyNot) -> None:
    """Have products' kernels store the reductions of tiles. why_not_carried: as of ``over_tiles``."""
    for k in [k for k in fused.kernels if _is_product(k)]:
        for groups in (OF_COLUMNS, OF_ROWS):
            found = _together(list(_of_its_tiles(fused, k, groups)))
            if found and not why_not_carried(k, groups):
                for s in found:
                    _absorb(s, k, groups)
                    fused.kernels.remove(s)
                break


def _together(found: list[Kernel]) -> list[Kernel]:
    """Those that one kernel can carry: two, the second of which rests on the first, or a few others."""
    by_root = {s.root: s for s in found}
    for n in by_root:
        first = first_of_groups(n)
        if first is not None and first in by_root:
            return [by_root[first], by_root[n]]
    return [s for s in found if first_of_groups(s.root) is None][:MOST_CARRIED]


def _of_its_tiles(fused: Fused, k: Kernel, groups: Groups) -> Iterator[Kernel]:
    """The kernels that reduce groups of a kernel's result, or of what is computed from it, in order."""
    number, stored = fused.kernels.index(k), _stored(fused)
    if _too_small(k, groups):
        return
    rows, columns = sides(k.root)
    shape = groups.shape(rows, columns)
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
