"""Forward and backward of a recorded call as two programs: what the forward pass keeps for the backward pass.

What is cheap to compute again from what is there (elementwise functions, movement) is computed again; sums, products
and the like are kept. A cheap value is kept instead where that takes at most half the memory of what it is computed
from (a mask, a cast to half precision).
"""
from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any, Callable, Container, Mapping, Sequence

from ..base.records import dataclass
from .. import ir
from ..base import collector
from ..ir import Node, Program
from ..ir.at_sizes import AtSizes, at_values, nodes_at
from ..ir.node import GRADIENT, noting
from ..ir.size import hint
from .attention_gradient import in_blocks
from .bits import compared
from .differentiate import cotangents
from .loops import tidied
from .recomputed_scores import not_kept
from .rewrite import rebuild
from .row_gradients import with_rows

CHEAP = frozenset({"map", "cast", "bitcast", "detach", "with_grad", "reshape", "permute", "expand", "slice", "pad",
                   "window", "concat", "random_bits"})
LEAVES = frozenset({"input", "const", "data", "iota"})


@dataclass(frozen=True)
class Partition:
    """``forward`` gives the program's outputs, then the kept values. ``backward`` takes the inputs numbered in
    ``reads``, the kept values and one cotangent an output; it gives the gradients of the inputs asked for. It is made
    when it is first asked for. Where only some outputs of a call have a cotangent, ``of_heads`` makes another instead.
    """
    forward: Program
    kept: tuple[Node, ...]
    # of each gradient the number of its pairs of row numbers and rows, None where it is one dense array
    layout: tuple[int | None, ...]
    make: "Callable[[], tuple[tuple[int, ...], Program]]"    # reads and the backward program

    # the same for other sets of heads, by their numbers (``of_heads``)
    others: "dict[tuple[int, ...], Partition | None]" = field(default_factory=dict, compare=False)
    # the program, the inputs asked for, and the rest of what ``partition`` was given
    of: "tuple[Program, tuple[int, ...], bool, tuple[int, ...]] | None" = field(default=None, compare=False)
    every: "tuple[Node, ...]" = field(default=(), compare=False)         # the gradients from all heads, in one graph
    # of one size: the partition with symbolic sizes, and the program for this size
    at_sizes: "tuple[Partition, AtSizes] | None" = field(default=None, compare=False)

    @cached_property
    def _made(self) -> tuple[tuple[int, ...], Program]:
        return self.make()

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the inputs that the backward program takes."""
        return self._made[0]

    @property
    def backward(self) -> Program:
        """The backward program."""
        return self._made[1]

    def complete(self) -> "Partition":
        """Itself; the backward program is made now, while it is noted what is asked of symbolic sizes."""
        self.backward                                        # noqa: B018
        return self

    def asked_for(self) -> list[Program]:
        """The forward program, and the backward programs that were asked for."""
        others = [p for p in list(self.others.values()) if p is not None]
        return [self.forward, *(p.backward for p in (self, *others) if "_made" in vars(p))]

    @property
    def kept_bytes(self) -> int:
        """Memory of the kept values."""
        total = sum(n.nbytes for n in self.kept)
        return int(at_values(total, self.at_sizes[1].values) if self.at_sizes is not None else total)


def partition(program: Program, wrt: tuple[int, ...], blocks: bool = False, rows: tuple[int, ...] = ()) -> Partition:
    """The two programs for gradients with respect to the inputs ``wrt``. Made once. blocks: whether gradients of
    attention are computed block by block (attention_gradient.py). rows: the inputs whose gradients are row_sparse
    (row_gradients.py).
    """
    key = ("partition", wrt, blocks, rows)
    if type(program) is AtSizes and key not in program.memo:
        whole = program.shared(key, lambda: partition(program.whole, wrt, blocks, rows).complete())
        program.memo[key] = (_at_sizes(whole, program) if whole is not None
                             else partition(program.alone(), wrt, blocks, rows))
    if key not in program.memo:
        program.memo[key] = _partition(program, wrt, blocks, rows)
    return program.memo[key]                              # type: ignore[no-any-return]


@collector.waits
def _partition(program: Program, wrt: tuple[int, ...], blocks: bool, rows: tuple[int, ...]) -> Partition:
    source, seeds = program, _seeds(program)
    with noting(dict(source.memo.get("origins", {}))) as origins:
        every, layout = with_rows(cotangents(program.outputs, seeds, [program.inputs[i] for i in wrt]),
                                  [i in rows for i in wrt])
        joint, again = _joint([*program.roots, *every], blocks)
        found = tidied(joint)             # a loop that keeps its steps for the gradient replaces the plain loop
        program, grads = program.with_roots(found[:len(program.roots)]), found[len(program.roots):]
        forward = set(program.order())
        forward |= {n for n in ir.toposort(grads) if n.prim in ("item", "host_item") and n.args[0] in forward}
        changed = {program.inputs[slot] for slot, _ in program.updates}    # hold other values when backward runs
        kept = choose(grads, forward, changed, again)
    whole = Program(program.inputs, (*program.outputs, *kept), program.updates)
    whole.memo.update(origins=origins, **{k: v for k, v in source.memo.items() if k == "name" and v})
    return Partition(whole, tuple(kept), layout, lambda: _backward(program, grads, seeds, kept, whole.memo),
                     of=(source, wrt, blocks, rows), every=tuple(every))


def _joint(roots: list[Node], blocks: bool) -> tuple[list[Node], set[Node]]:
    """A graph with gradients as it is divided, and the values that are computed again whatever they cost."""
    return (in_blocks(roots), set()) if blocks else not_kept(roots)


def of_heads(parts: Partition, heads: tuple[int, ...]) -> Partition | None:
    """The partition whose backward program takes cotangents of those outputs alone; the others' count for nothing, not
    even where zero times a derivative is no number (a square root's at zero). It takes what the forward pass kept for
    all of them; None where that is not enough.
    """
    if heads not in parts.others:
        parts.others[heads] = _of_heads(parts, heads) if parts.at_sizes is None else _of_heads_at_sizes(parts, heads)
    return parts.others[heads]


def _of_heads_at_sizes(parts: Partition, heads: tuple[int, ...]) -> Partition | None:
    assert parts.at_sizes is not None
    whole, program = parts.at_sizes
    found = program.shared((id(whole), heads), lambda: (of_heads(whole, heads),))
    if found is not None:
        return _at_sizes(found[0], program) if found[0] is not None else None
    assert whole.of is not None
    kept = tuple(nodes_at(Program(whole.forward.inputs, whole.kept), program.values))
    alone, wrt, blocks, rows = program.alone(), *whole.of[1:]
    every = partition(alone, wrt, blocks, rows).every
    return _of_heads(Partition(parts.forward, kept, parts.layout, parts.make, of=(alone, wrt, blocks, rows),
                               every=every), heads)


def _at_sizes(whole: Partition, program: AtSizes) -> Partition:
    """The partition of a symbolic program for the sizes of a program."""
    def at(part: Program) -> AtSizes:
        made = AtSizes(part, program.values)
        made.memo.update({k: program.memo[k] for k in ("name",) if k in program.memo and k not in made.memo})
        return made
    return Partition(at(whole.forward), whole.kept, whole.layout, lambda: (whole.reads, at(whole.backward)),
                     of=whole.of, at_sizes=(whole, program))


@collector.waits
def _of_heads(parts: Partition, heads: tuple[int, ...]) -> Partition | None:
    assert parts.of is not None
    program, wrt, blocks, rows = parts.of
    inputs, sparse = [program.inputs[i] for i in wrt], [i in rows for i in wrt]
    seeds = _seeds(program)
    some, layout = with_rows(cotangents(program.outputs, [s if i in heads else None for i, s in enumerate(seeds)],
                                        inputs), sparse)
    kept = set(parts.kept)
    changed = {program.inputs[slot] for slot, _ in program.updates} - kept
    for beside in (parts.every, ()):        # loops are one with those of all heads, whose steps were kept, if they can
        joint = [*program.roots, *beside, *some]
        grads = tidied(_joint(joint, blocks)[0])[len(joint) - len(some):]
        used = set(ir.reached(grads, lambda n: n not in kept))
        if changed & used or any(s in used for i, s in enumerate(seeds) if i not in heads):
            continue
        found = _backward(program, grads, [seeds[i] for i in heads], parts.kept, parts.forward.memo)
        return Partition(parts.forward, parts.kept, layout, lambda: found)
    return None


def _seeds(program: Program) -> list[Node]:
    """Inputs behind those of a program: a cotangent of each output."""
    return [ir.input(len(program.inputs) + i, o.shape, o.dtype) for i, o in enumerate(program.outputs)]


def choose(grads: list[Node], forward: set[Node], changed: set[Node],
           again: "Container[Node]" = ()) -> list[Node]:
    """The values of the forward pass that are kept, in the order of the graph. again: those that never are."""
    order = ir.toposort(grads)
    needed: set[Node] = set(grads) & forward
    for n in order:
        if n not in forward:
            needed.update(a for a in n.args if a in forward)
    once = compared(order)
    kept: set[Node] = set()
    for n in reversed(order):                          # users before what they are computed from
        if n not in needed or n in kept:
            continue
        if n.prim in LEAVES:
            if n in changed:
                kept.add(n)
            continue
        if n in again or n.prim in CHEAP and n not in once and not _better_kept(n, needed, kept):
            needed.update(n.args)
        else:
            kept.add(n)
    return [n for n in order if n in kept]


def _better_kept(n: Node, needed: set[Node], kept: set[Node]) -> bool:
    fresh = sum(a.nbytes for a in set(n.args) if a.prim not in LEAVES and a not in needed and a not in kept)
    return 0 < 2 * hint(n.nbytes) <= hint(fresh)


def _backward(program: Program, grads: list[Node], seeds: list[Node], kept: Sequence[Node],
              memo: Mapping[str, Any]) -> tuple[tuple[int, ...], Program]:
    """The numbers of the inputs that the backward program takes, and that program. memo: the forward program's."""
    new: dict[Node, Node] = {}
    leaves: list[Node] = []

    def leaf(n: Node) -> None:
        new[n] = ir.input(len(leaves), n.shape, n.dtype)
        leaves.append(new[n])
    own = set(kept)
    used = set(ir.reached(grads, lambda n: n not in own))
    reads = tuple(i for i, x in enumerate(program.inputs) if x in used and x not in own)
    for n in (*(program.inputs[i] for i in reads), *kept, *seeds):
        leaf(n)
    with noting(memo.get("origins", {})) as origins:
        for n in ir.toposort(grads):
            if n not in new and n in used:
                new[n] = rebuild(n, [new[a] for a in n.args])
    made = Program(tuple(leaves), tuple(new[g] for g in grads))
    made.memo["origins"] = origins
    if memo.get("name"):
        made.memo["name"] = GRADIENT + memo["name"]
    return reads, made
