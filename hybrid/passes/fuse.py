"""Fusion: which values are stored, and which are computed inside the kernel of the value that needs them.

Nodes are visited users first. A node joins the kernel that holds all its users when that kernel can compute it where it
needs it; else it starts a kernel of its own, and the reason is kept. A kernel is therefore a cone with one exit, so
kernels never depend on each other in a circle. Movement is an index map and costs nothing.
"""
from __future__ import annotations

from functools import reduce
from typing import Callable, Collection


from ..ir import Node, Program
from ..ir.access import ELEMENTWISE, MOVEMENT, Index, pull, pull_unwindow
from ..ir.kernel import ALWAYS_ROOT, IN_MEMORY, WITH_SIDES, Fused, Kernel, Use, strip_reshape
from ..ir.node import describe
from ..ir.index import Ix, Val, Var, bounds, substitute, var
from ..ir.size import greater, hint, same
from .attention import Attention, Attends
from .fusion_legality import LEAVES, Rules, covers, read_whole
from .halves_in_products import converted_often, upcast_of_half
from .recomputed_scores import OverScores, ReadsScores


class Fuser(Rules):
    """One run of the pass."""

    def __init__(self, program: Program, attention: Attends = None, prints: Callable[[Node], bool] | None = None,
                 over: ReadsScores = None, alone: Collection[Node] = ()):
        super().__init__(program, attention, prints, over)
        self.alone = alone
        self.kernels: list[Kernel] = []
        self.counter = 0
        self.position = {n: i for i, n in enumerate(self.order)}
        self.merged: dict[Node, list[Use]] = {}
        self.items: dict[Node, list[Node]] = {}          # of each loop: what is read of it
        self.stored_as_half: dict[Node, str] = {}        # halves that are stored instead of their upcast, and why

    def run(self) -> Fused:
        """Fuse the program."""
        for n in reversed(self.order):
            uses = self.uses.pop(n, [])
            if n.prim == "item":
                self._take(n, uses)
            elif uses or n in self.stored or n in self.items:
                # else: only reached through a reshape that is a result
                self._place(n, uses)
        for n in dict.fromkeys([*self.stored, *(n for k in self.kernels if k.template == "loop" for n in k.reads)]):
            if n.prim in LEAVES - {"input", "data"}:    # a constant result has to be written too, and what a loop reads
                self._start(n, [], "result")
        self.kernels.sort(key=lambda k: self.position.get(k.root, -1))
        for i, k in enumerate(self.kernels):
            k.number = i
            if k.template == "sort" and k.root not in self.stored:
                k.first = self._places(k.root)
        results = [(strip_reshape(r), r.shape) for r in self.program.roots]
        return Fused(self.program, self.kernels, results, self.refusals)

    def _places(self, order: Node) -> int:
        """How many places of each row of an order are read."""
        last = [bounds(u.idx[-1])[1] for k in self.kernels for u in k.reads.get(order, ())]
        return 1 + reduce(greater, last) if last else order.shape[-1]

    def _refer(self, n: Node, uses: list[Use]) -> None:
        if n.prim not in LEAVES:
            self.uses.setdefault(n, []).extend(uses)

    def _take(self, n: Node, uses: list[Use]) -> None:
        """A result of a loop: it lies in memory."""
        for u in uses:
            u.kernel.reads.setdefault(n, []).append(u)
        self.items.setdefault(n.args[0], []).append(n)

    # ---- placing one node
    def _place(self, n: Node, uses: list[Use]) -> None:
        if self._beside_attention(n, uses):
            return
        if n in self.stored_as_half:
            self._start(n, uses, self.stored_as_half[n])
            return
        kernels = list(dict.fromkeys(u.kernel for u in uses))
        reason, ordered = "result" if n in self.stored and not uses else "", ""
        if n.prim in ALWAYS_ROOT:
            reason = f"{n.prim} is a kernel of its own"
        elif n in self.alone:
            reason = "a partial reduction, by the kernel of the product"
        elif n.prim == "reduce" and n in self.attentions:
            reason = "a sum of scores that are computed tile by tile"
        elif len(kernels) == 1:
            empty = n in self.stored and same(kernels[0].root.size, 0) and not same(n.size, 0)
            reason = "the kernel has nothing to compute" if empty else self._refusal(n, uses, kernels[0])
            if not reason:
                if n in self.stored:
                    kernels[0].extra.append(n)
                self._join(n, uses, kernels[0])
                return
        elif len(kernels) > 1 and self._gather_sides(n, uses, kernels):
            self._place(n, [u for u in self.merged.pop(n)])
            return
        elif len(kernels) > 1:
            reason = next(filter(None, (self._refuse_order(n, u) for u in uses)), "")
            if not reason and n not in self.stored and self._cheap_copy(n, uses, kernels) and not any(
                    k.template in IN_MEMORY for k in kernels) and not read_whole(n, uses):
                by_kernel: dict[Kernel, list[Use]] = {}
                for u in uses:
                    by_kernel.setdefault(u.kernel, []).append(u)
                for k, own in by_kernel.items():
                    self._join(n, own, k)
                return
            ordered, reason = reason, reason or f"needed by {len(kernels)} kernels and not cheap to compute again"
        # is smaller, or is stored in any case
        below = not ordered and (n.prim in ("window", "expand") or n.prim in ("permute", "pad")
                                 and self.needed[n.args[0]] > 1)
        upcast = upcast_of_half(n) and n.args[0].prim != "reshape" and not converted_often(n, uses)
        shared = ((below or upcast) and len(kernels) > 1 and n not in self.stored
                  and not any(k.template in IN_MEMORY for k in kernels) and not read_whole(n, uses))
        if shared and not below:
            self.stored_as_half[n.args[0]] = reason
        if n.prim == "reshape" or shared:                # its argument is stored instead: no copy
            for u in uses:
                self._push(n, u)
            return
        self._start(n, uses, reason or "result")

    def _beside_attention(self, n: Node, uses: list[Use]) -> bool:
        """Have an attention's kernel store the greatest score or the total of a row, which it has in any case."""
        if n.prim != "reduce" or n not in self.attentions:
            return False
        k = next((k for k in self.kernels if isinstance(k.attention, Attention) and n in k.attention.inner), None)
        if k is None or any(self.position[u.kernel.root] <= self.position[k.root] for u in uses):
            return False
        k.extra.append(n)
        for u in uses:
            u.kernel.reads.setdefault(n, []).append(u)
        return True

    def _gather_sides(self, n: Node, uses: list[Use], kernels: list[Kernel]) -> bool:
        """Move small results made of row values (running statistics) into the kernel that computes the rows."""
        if not self.row_value[n]:
            return False
        sides = [k for k in kernels if same(k.root.size, n.size) and self._is_side(n, k, uses)]
        mains = [k for k in kernels if k not in sides]
        if not sides or len(mains) != 1:
            return False
        main = mains[0]
        if main.kind not in WITH_SIDES:
            return False
        spots = {u.idx for u in uses if u.kernel is main}
        if len(spots) != 1 or not self._opens_rows([u for u in uses if u.kernel is main], main):
            return False
        (at,) = spots
        if not covers(n, at):
            return False
        for side in sides:
            self._absorb(side, main, {v: i for v, i in zip(side.loops, _spread(side.root.shape, n.shape, at))})
        self.merged[n] = [u for u in uses if u.kernel is main] + [Use(main, at, bijective=False) for _ in sides]
        return True

    def _is_side(self, n: Node, k: Kernel, uses: list[Use]) -> bool:
        """A result of elementwise functions of n and leaves, which nothing else reads."""
        return (k.root in self.stored and k.reason == "result" and all(r.prim in LEAVES for r in k.reads)
                and not k.extra
                and all(m.prim in ELEMENTWISE or m.prim in ("reshape", "expand") for m in k.members)
                and all(u.bijective for u in uses if u.kernel is k)
                and [d for d in k.root.shape if d > 1] == [d for d in n.shape if d > 1])

    def _absorb(self, side: Kernel, main: Kernel, names: dict[Var, Ix]) -> None:
        def moved(u: Use) -> Use:
            return Use(main, tuple(substitute(i, names) for i in u.idx), u.inside, False, u.guarded, u.share)
        for table, target in ((side.members, main.members), (side.reads, main.reads)):
            for m, old in table.items():
                target.setdefault(m, []).extend(moved(u) for u in old)
        for m, waiting in self.uses.items():
            self.uses[m] = [moved(u) if u.kernel is side else u for u in waiting]
        main.sides.append((side.root, tuple(substitute(var(v), names) for v in side.loops)))
        self.kernels.remove(side)

    def _start(self, n: Node, uses: list[Use], reason: str) -> None:
        loops = tuple(Var(f"i{k}", d) for k, d in enumerate(n.shape))
        kernel = Kernel(n, len(self.kernels), loops, reason=reason, extra=list(self.items.get(n, ())))
        self.kernels.append(kernel)
        for u in uses:
            u.kernel.reads.setdefault(n, []).append(u)
        if reason != "result":
            self.refusals.append((describe(n), reason))
        self._join(n, [Use(kernel, tuple(var(v) for v in loops), bijective=True)], kernel)

    def _join(self, n: Node, uses: list[Use], k: Kernel) -> None:
        k.members.setdefault(n, []).extend(uses)
        found = self.attentions.get(n)
        if n.prim in ("dot", "conv"):
            k.dot = n
        if found is not None:
            k.attention = found
            self._join_attention(n, found, k)
            return
        if k.dot is n:
            for a in n.args:                             # the template asks for operands at indices of its own
                self._push_operand(n, a, k)
            return
        seen = set()
        for u in uses:
            # one index may be reached in two ways, of which one is within padding
            spot = u.idx, u.inside, u.bijective, u.guarded
            if spot not in seen:
                seen.add(spot)
                self._push(n, u)

    def _join_attention(self, dot: Node, found: Attention | OverScores, k: Kernel) -> None:
        """All between the products is part of the kernel; what comes from outside are its operands. dot: the last
        product, or a sum."""
        for n in found.inner:
            loops = tuple(self._fresh("d", d) for d in n.shape)
            k.members[n] = [Use(k, tuple(var(v) for v in loops), inside=loops)]
        outside = dict.fromkeys(a for n in (*found.inner, dot) for a in n.args if a not in k.members)
        for a in outside:
            self._push_operand(dot, a, k)

    def _fresh(self, prefix: str, extent: int) -> Var:
        self.counter += 1
        return Var(f"{prefix}{self.counter}", extent)

    def _push_operand(self, n: Node, a: Node, k: Kernel) -> None:
        loops = tuple(self._fresh("d", d) for d in a.shape)
        self._give(a, Use(k, tuple(var(v) for v in loops), inside=loops))

    def _give(self, a: Node, u: Use) -> None:
        if a.prim == "input" or a.prim == "data" or a.prim in LEAVES and u.kernel.template == "loop":
            u.kernel.reads.setdefault(a, []).append(u)
        self._refer(a, [u])

    def _push(self, n: Node, u: Use) -> None:
        """Hand a use of n on to its arguments."""
        k = u.kernel
        if n.prim in ELEMENTWISE or n.prim in MOVEMENT:
            idx, guard = pull(n, u.idx)
            for a in n.args:
                one_to_one = u.bijective and same(a.size, n.size) and n.prim in ELEMENTWISE | {"reshape", "permute"}
                share = u.share * hint(a.size) / max(hint(n.size), 1) if n.prim == "pad" else u.share
                self._give(a, Use(k, idx, u.inside, one_to_one, u.guarded or bool(guard), share))
        elif n.prim in ("reduce", "argreduce"):
            axes = n.attrs["axes"] if n.prim == "reduce" else (n.attrs["axis"],)
            x, it = n.args[0], iter(u.idx)
            fresh = {ax: self._fresh("r", x.shape[ax]) for ax in axes}
            idx = tuple(var(fresh[ax]) if ax in fresh else next(it) for ax in range(x.ndim))
            self._give(x, Use(k, idx, u.inside + tuple(fresh.values()), guarded=u.guarded, share=u.share))
        elif n.prim == "unwindow":
            y = n.args[0]
            offsets = tuple(self._fresh("r", d) for d in y.shape[n.ndim:])
            idx, _ = pull_unwindow(n, u.idx, tuple(var(v) for v in offsets))
            self._give(y, Use(k, idx, u.inside + offsets, guarded=True))
        elif n.prim == "gather":
            x, i = n.args
            axis = n.attrs["axis"]
            inner = u.idx[axis:axis + i.ndim]
            self._give(i, Use(k, inner, u.inside, guarded=u.guarded))
            at = var(self._value(x.shape[axis]))
            self._give(x, Use(k, u.idx[:axis] + (at,) + u.idx[axis + i.ndim:], u.inside, guarded=u.guarded))
        elif n.prim == "cumulate":
            self._give(n.args[0], Use(k, u.idx, u.inside, u.bijective, u.guarded))
        elif n.prim in ("argsort", "rows", "pairs", "scan"):
            for a in n.args:
                self._give(a, Use(k, tuple(var(self._fresh("s", d)) for d in a.shape)))
        elif n.prim == "concat" or n.prim == "scatter_add":
            for a in n.args:
                loops = tuple(self._fresh("s", d) for d in a.shape)
                self._give(a, Use(k, tuple(var(v) for v in loops), inside=loops if n.prim == "scatter_add" else ()))
        elif n.prim == "random_bits":
            self._give(n.args[0], Use(k, (Ix(),), u.inside))

    def _value(self, extent: int) -> Val:
        self.counter += 1
        return Val(f"g{self.counter}", extent)



def _spread(shape: tuple[int, ...], inner: tuple[int, ...], idx: Index) -> list[Ix]:
    """Index into ``shape`` for an index into ``inner``, which has the same axes longer than one."""
    long = iter(i for i, d in zip(idx, inner) if d > 1)
    return [next(long) if d > 1 else Ix() for d in shape]


def fuse(program: Program, attention: Attends = None, prints: Callable[[Node], bool] | None = None,
         over: ReadsScores = None, alone: Collection[Node] = ()) -> Fused:
    """Partition a program into kernels. attention: of which the backend has kernels, if of any. prints: whether it can
    compute a value where a packed convolution is. over: which kernels it has over scores that are not stored.
    alone: values that are stored, each by a kernel of its own (``into_products`` moves such reductions to products).
    """
    return Fuser(program, attention, prints, over, alone).run()

