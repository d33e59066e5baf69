"""C of updates that leave most of an array as it is: loops in which what stays is neither read nor written."""
from __future__ import annotations

from functools import partial

from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import Let, Op, Scope, When
from hybrid.passes.changes import Changes, changes

from hybrid.codegen.block import Block, chain
from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Emitter
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.loops import SINGLE, KernelPrinter, Printed, close, group_loops, loop_pragma, merged_axes, work_of


def changed(e: Emitter, k: Kernel, found: Changes, idx: Index, block: Block) -> Op:
    """Whether the element at an index gets another value. A condition does not depend on axes outside ``found.axes``:
    it is computed with index 0 there, in the outermost loop possible."""
    at = tuple(i if a in found.axes else Ix() for a, i in enumerate(idx))
    names = []
    for n in (c.condition for c in found.choices):
        names.append(e.value(n, at, block))
        if len(k.members.get(n, ())) + len(k.reads.get(n, ())) == 1:       # needed for the choice alone
            e.given[n] = partial(_known, names[-1])
    forms = (("" if c.holds else "!") + f"{{{i}}}" for i, c in enumerate(found.choices))
    return Op(" || ".join(forms), tuple(names))


def _known(name: str, idx: Index) -> str:
    """The same name at every index."""
    return name


def print_changes(k: Kernel, name: str, target: Target) -> Printed:
    """An elementwise kernel that changes a part of an array: the loops over axes along which conditions vary are
    outermost, others in an ``if``."""
    p, root, axes, found, team = KernelPrinter(k, name), k.root, range(k.root.ndim), changes(k), target.team
    assert found is not None
    order = [*(a for a in axes if a in found.axes), *(a for a in axes if a not in found.axes)]

    def build(groups: list[list[int]]) -> tuple[Emitter, list[Block], list[Var], int, int, Op]:
        loops, idx = group_loops(root.shape, groups, order=order)
        e, blocks = Emitter(C, p.reads), chain(loops)
        condition = changed(e, k, found, idx, blocks[-1])
        depth = max((i for i, b in enumerate(blocks) for s in b.body
                     if isinstance(s, Let) and s.name in condition.args), default=0)
        first = len(blocks[depth].body)
        e.put(p.names[root], root, idx, blocks[-1])
        return e, blocks, loops, depth, first, condition
    _, blocks, loops, depth, first, condition = build(merged_axes(
        [root.shape[a] for a in order], lambda groups: build(groups)[0].divisions, len(found.axes)))
    pragma = loop_pragma(loops, work_of(k), team)
    inside = close(blocks[depth:], loops[depth:], lambda i, body: pragma(depth + i, body))
    blocks[depth].body = [*inside[:first], When(condition, tuple(inside[first:]))]
    body = close(blocks[:depth + 1], loops[:depth], pragma)
    if team and loops[0].extent == 1:
        body = [SINGLE, Scope(tuple(body))]
    return p.kernel(body)
