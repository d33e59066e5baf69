"""Fusion: which values are stored, and which are computed inside the kernel of the value that needs them.

Nodes are visited users first. A node joins the kernel that holds all its users when that kernel can compute it where it
needs it; else it starts a kernel of its own, and the reason is kept. A kernel is therefore a cone with one exit, so
kernels never depend on each other in a circle. Movement is an index map and costs nothing.
"""
from __future__ import annotations

import math
from collections import Counter

from typing import Callable

from ..ir import Node, Program
from ..ir.access import ELEMENTWISE, MOVEMENT, Index, pull, pull_unwindow
from ..ir.kernel import ALWAYS_ROOT, IN_MEMORY, Fused, Kernel, Use, strip_reshape
from ..ir.index import Ix, Val, Var, coefficient, linear, substitute, var, variables
from ..ir.scalar import SCALARS
from .attention import Attention, escapes, match

LEAVES = frozenset({"input", "const", "data", "iota"})
MAX_NODES = 192                 # nodes in one kernel: longer chains cost compile time and registers
CHEAP = 8                       # cost (additions) up to which a value may be computed twice
SMALL_REDUCE = 64               # elements of a reduction that may run once per output element inside a larger kernel
FEW_ROWS, LARGE = 4, 1 << 16    # a row kernel over fewer rows and more elements than these would run on one core


def cost(n: Node) -> int:
    """Rough cost of one element of a node, its arguments not counted."""
    if n.prim == "map":
        return SCALARS[n.attrs["fn"]].cost
    if n.prim == "argreduce":                            # the gradient of a pooling window is computed once, not stored as positions
        return CHEAP + 1
    return 40 if n.prim == "random_bits" else 1 if n.prim in ("cast", "gather") else 0


class Fuser:
    """One run of the pass."""

    def __init__(self, program: Program, attention: bool = False, prints: Callable[[Node], bool] | None = None):
        self.program, self.prints = program, prints
        self.attentions: dict[Node, Attention] = {}
        self.order = [n for n in program.order() if n.prim not in LEAVES]
        self.uses: dict[Node, list[Use]] = {}
        self.kernels: list[Kernel] = []
        self.refusals: list[tuple[str, str]] = []
        self.counter = 0
        self.stored = {strip_reshape(r) for r in program.roots}
        self.subtree: dict[Node, int] = {}
        self.carries: dict[Node, Node | None] = {}
        self.row_value: dict[Node, bool] = {}
        self.merged: dict[Node, list[Use]] = {}
        self.items: dict[Node, list[Node]] = {}          # of each loop: what is read of it
        self.needed = Counter(a for n in self.order for a in set(n.args))
        self.late: dict[Node, int] = {}                  # position of the last anchor a node depends on
        for i, n in enumerate(program.order()):
            anchor = n.prim not in LEAVES | ELEMENTWISE | MOVEMENT
            self.late[n] = i if anchor else max((self.late[a] for a in n.args), default=-1)
            self.subtree[n] = min(cost(n) + sum(self.subtree[a] for a in n.args), 10**6) if n.prim in ELEMENTWISE | MOVEMENT else cost(n)
            self.carries[n] = self._carried(n)
            self.row_value[n] = self._is_row_value(n)
        if attention:
            self._find_attention()

    def _find_attention(self) -> None:
        users: dict[Node, list[Node]] = {}
        for n in self.program.order():
            for a in n.args:
                users.setdefault(a, []).append(n)
        for n in self.order:
            found = match(n)
            if found is not None and escapes(found, n, users, {*self.program.roots, *self.stored}):
                self.refusals.append((repr(n), "no attention kernel: something else reads its weights"))
            elif found is not None:
                self.attentions[n] = found

    def _carried(self, n: Node) -> Node | None:
        """The contraction whose epilogue this node could be: all else that n needs is known before it starts."""
        if n.prim in ("dot", "conv"):
            return n
        if n.prim not in ELEMENTWISE and n.prim not in ("reshape", "permute"):
            return None
        found = [d for a in n.args if (d := self.carries.get(a)) is not None and a.size == n.size]
        if not found:
            return None
        d = max(found, key=lambda d: self.late[d])
        ready = all(self.carries.get(a) is d or self.late[a] < self.late[d] for a in n.args)
        return d if ready else None

    def _is_row_value(self, n: Node) -> bool:
        """Made of reductions without broadcasting them again: a mean, a variance, its root."""
        if n.prim in ("reduce", "argreduce"):
            return n.args[0].size > n.size
        return (n.prim in ELEMENTWISE or n.prim == "reshape") and any(self.row_value[a] and a.size == n.size for a in n.args)

    def run(self) -> Fused:
        """Fuse the program."""
        for n in reversed(self.order):
            uses = self.uses.pop(n, [])
            if n.prim == "item":
                self._take(n, uses)
            elif uses or n in self.stored or n in self.items:                # else: only reached through a reshape that is a result
                self._place(n, uses)
        for n in dict.fromkeys([*self.stored, *(n for k in self.kernels if k.kind == "loop" for n in k.reads)]):
            if n.prim in LEAVES - {"input", "data"}:    # a constant result has to be written too, and what a loop reads
                self._start(n, [], "result")
        position = {n: i for i, n in enumerate(self.order)}
        self.kernels.sort(key=lambda k: position.get(k.root, -1))
        for i, k in enumerate(self.kernels):
            k.number = i
        results = [(strip_reshape(r), r.shape) for r in self.program.roots]
        return Fused(self.program, self.kernels, results, self.refusals)

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
        kernels = list(dict.fromkeys(u.kernel for u in uses))
        reason = "result" if n in self.stored and not uses else ""
        if n.prim in ALWAYS_ROOT:
            reason = f"{n.prim} is a kernel of its own"
        elif len(kernels) == 1:
            reason = self._refusal(n, uses, kernels[0])
            if not reason:
                if n in self.stored:
                    kernels[0].extra.append(n)
                self._join(n, uses, kernels[0])
                return
        elif len(kernels) > 1 and self._gather_sides(n, uses, kernels):
            self._place(n, [u for u in self.merged.pop(n)])
            return
        elif len(kernels) > 1:
            if n not in self.stored and self._cheap_copy(n) and not any(k.kind in IN_MEMORY for k in kernels) and not _read_whole(n, uses):
                by_kernel: dict[Kernel, list[Use]] = {}
                for u in uses:
                    by_kernel.setdefault(u.kernel, []).append(u)
                for k, own in by_kernel.items():
                    self._join(n, own, k)
                return
            reason = f"needed by {len(kernels)} kernels and not cheap to compute again"
        shared = (n.prim == "permute" and len(kernels) > 1 and self.needed[n.args[0]] > 1 and n not in self.stored
                  and not any(k.kind in IN_MEMORY for k in kernels) and not _read_whole(n, uses))
        if n.prim == "reshape" or shared:                # its argument is stored instead: no copy
            for u in uses:
                self._push(n, u)
            return
        self._start(n, uses, reason or "result")

    def _gather_sides(self, n: Node, uses: list[Use], kernels: list[Kernel]) -> bool:
        """Move small results made of row values (running statistics) into the kernel that computes the rows."""
        if not self.row_value[n]:
            return False
        sides = [k for k in kernels if k.root.size == n.size and self._is_side(n, k, uses)]
        mains = [k for k in kernels if k not in sides]
        if not sides or len(mains) != 1:
            return False
        main = mains[0]
        spots = {u.idx for u in uses if u.kernel is main}
        if len(spots) != 1 or not self._opens_rows([u for u in uses if u.kernel is main], main):
            return False
        (at,) = spots
        for side in sides:
            self._absorb(side, main, {v: i for v, i in zip(side.loops, _spread(side.root.shape, n.shape, at))})
        self.merged[n] = [u for u in uses if u.kernel is main] + [Use(main, at, bijective=False) for _ in sides]
        return True

    def _is_side(self, n: Node, k: Kernel, uses: list[Use]) -> bool:
        """A result of elementwise functions of n and leaves, which nothing else reads."""
        return (k.root in self.stored and k.reason == "result" and all(r.prim in LEAVES for r in k.reads) and not k.extra
                and all(m.prim in ELEMENTWISE or m.prim in ("reshape", "expand") for m in k.members)
                and all(u.bijective for u in uses if u.kernel is k) and [d for d in k.root.shape if d > 1] == [d for d in n.shape if d > 1])

    def _absorb(self, side: Kernel, main: Kernel, names: dict[Var, Ix]) -> None:
        def moved(u: Use) -> Use:
            return Use(main, tuple(substitute(i, names) for i in u.idx), u.inside, False, u.guarded)
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
            self.refusals.append((repr(n), reason))
        self._join(n, [Use(kernel, tuple(var(v) for v in loops), bijective=True)], kernel)

    def _join(self, n: Node, uses: list[Use], k: Kernel) -> None:
        k.members.setdefault(n, []).extend(uses)
        if n.prim in ("dot", "conv"):
            k.dot = n
            k.attention = self.attentions.get(n)
            if k.attention is not None:
                self._join_attention(n, k.attention, k)
                return
            for a in n.args:                             # the template asks for operands at indices of its own
                self._push_operand(n, a, k)
            return
        seen = set()
        for u in uses:
            spot = u.idx, u.inside, u.bijective, u.guarded       # one index may be reached in two ways, of which one is within padding
            if spot not in seen:
                seen.add(spot)
                self._push(n, u)

    def _join_attention(self, dot: Node, found: Attention, k: Kernel) -> None:
        """All between the two products is part of the kernel; what comes from outside are its operands."""
        for n in found.inner:
            loops = tuple(self._fresh("d", d) for d in n.shape)
            k.members[n] = [Use(k, tuple(var(v) for v in loops), inside=loops)]
        outside = dict.fromkeys(a for n in (*found.inner, dot) for a in n.args if a not in k.members)
        for a in outside:
            self._push_operand(dot, a, k)

    def _attends(self, n: Node) -> bool:
        """Whether a value is attention's, needed here alone."""
        while n.prim == "reshape" and self.needed[n] == 1:
            n = n.args[0]
        return n in self.attentions and self.needed[n] == 1

    def _fresh(self, prefix: str, extent: int) -> Var:
        self.counter += 1
        return Var(f"{prefix}{self.counter}", extent)

    def _push_operand(self, n: Node, a: Node, k: Kernel) -> None:
        loops = tuple(self._fresh("d", d) for d in a.shape)
        self._give(a, Use(k, tuple(var(v) for v in loops), inside=loops))

    def _give(self, a: Node, u: Use) -> None:
        if a.prim == "input" or a.prim == "data" or a.prim in LEAVES and u.kernel.kind == "loop":
            u.kernel.reads.setdefault(a, []).append(u)
        self._refer(a, [u])

    def _push(self, n: Node, u: Use) -> None:
        """Hand a use of n on to its arguments."""
        k = u.kernel
        if n.prim in ELEMENTWISE or n.prim in MOVEMENT:
            idx, guard = pull(n, u.idx)
            for a in n.args:
                same = u.bijective and a.size == n.size and n.prim in ELEMENTWISE | {"reshape", "permute"}
                self._give(a, Use(k, idx, u.inside, same, u.guarded or bool(guard)))
        elif n.prim in ("reduce", "argreduce"):
            axes = n.attrs["axes"] if n.prim == "reduce" else (n.attrs["axis"],)
            x, it = n.args[0], iter(u.idx)
            fresh = {ax: self._fresh("r", x.shape[ax]) for ax in axes}
            idx = tuple(var(fresh[ax]) if ax in fresh else next(it) for ax in range(x.ndim))
            self._give(x, Use(k, idx, u.inside + tuple(fresh.values()), guarded=u.guarded))
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
        elif n.prim in ("argsort", "rows", "scan"):
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

    # ---- may n be computed inside k?
    def _cheap_copy(self, n: Node) -> bool:
        if n.prim not in ELEMENTWISE and n.prim not in MOVEMENT and n.prim != "random_bits":
            return False
        if self.carries[n] is not None and n.prim in ELEMENTWISE:
            return False
        return self.subtree[n] <= CHEAP or n.prim in MOVEMENT and self.subtree[n.args[0]] <= CHEAP

    def _refusal(self, n: Node, uses: list[Use], k: Kernel) -> str:
        if len(k.members) >= MAX_NODES:
            return f"the kernel has {MAX_NODES} nodes already"
        if k.kind in IN_MEMORY and n.prim != "reshape":
            return "a hand-written kernel reads it from memory"
        if _read_whole(n, uses):
            return "a convolution reads it from memory"
        if n.prim == "permute" and k.dot is not None and uses[0].inside and self._attends(n.args[0]):
            return "the form in which the next contraction reads what attention gives"
        if n.prim in ("dot", "conv"):
            return self._refuse_dot(n, uses, k)
        if n.prim in ("reduce", "argreduce", "unwindow"):
            return self._refuse_reduce(n, uses, k)
        if n in self.stored and not all(u.bijective for u in uses):
            return "a result that this kernel does not compute element by element"
        if k.dot is not None and k.dot.prim == "conv" and self.prints is not None and not self.prints(n):
            return "no function of vectors, in which a packed convolution is printed"
        dot = self.carries[n]
        if k.dot is not None and any(u.inside for u in uses) and n.prim in ELEMENTWISE and self.row_value[n]:
            return "operand of a contraction, computed where its reduction is"
        if k.dot is not None and any(u.inside for u in uses) and n.prim in ELEMENTWISE and self.subtree[n] > CHEAP:
            return "operand of a contraction, computed once"
        if dot is not None and dot.prim == "conv" and n.prim in ELEMENTWISE and any(linear(n.shape, u.idx) != linear(k.root.shape, k.members[k.root][0].idx) for u in uses):
            return "computed where its convolution is, channels last"
        if dot is not None and n.prim in ELEMENTWISE and not self._mask(n):
            if not all(u.bijective for u in uses):
                return "kept as the epilogue of its contraction"
            if k.dot is not None or k.hoisted:
                return "the kernel has a contraction or rows already; this is the epilogue of another contraction"
        spots = len({u.idx for u in uses})
        if spots > 1 and self.subtree[n] * (spots - 1) > 4 * CHEAP and n.prim in ELEMENTWISE:
            return f"would be computed at {spots} places"
        if self.row_value[n] and self._opens_rows(uses, k):
            return ""
        if n.prim in ELEMENTWISE and self.subtree[n] > CHEAP:
            visits = max(_visits(u, k) for u in uses)
            if visits > 1.5 * n.size and visits * self.subtree[n] > k.root.size:     # little beside the kernel's own work is computed again
                return f"would be computed {visits / max(n.size, 1):.1f} times"
        return ""

    def _mask(self, n: Node) -> bool:
        """A comparison of values that are stored in any case, because others need them."""
        return n.dtype == bool and n.prim == "map" and all(a.prim in LEAVES | MOVEMENT or self.needed[a] > 1 for a in n.args)

    def _opens_rows(self, uses: list[Use], k: Kernel) -> bool:
        """Whether a value per row can be computed once a row here; the kernel's rows are then fixed."""
        at = frozenset(v for i in uses[0].idx for v in variables(i))
        loops = frozenset(v for v in k.loops if v.extent > 1)
        if k.dot is not None or k.kind in ("concat", "scatter") or not at < loops or any(u.guarded for u in uses):
            return False
        if k.rows is None:
            k.rows = at                                 # type: ignore[assignment]
        return k.rows == at

    def _refuse_dot(self, n: Node, uses: list[Use], k: Kernel) -> str:
        if k.dot is not None:
            return "the kernel has a contraction already"
        if k.hoisted or k.kind in ("concat", "scatter", "row", "reduction"):
            return f"a contraction is not part of a {k.kind} kernel"
        if not all(u.bijective for u in uses) or len({u.idx for u in uses}) != 1:
            return "its elements are not used one by one in order"
        if math.prod(n.shape) == 0:
            return "empty"
        if n.prim == "conv" and linear(n.shape, uses[0].idx) != linear(k.root.shape, k.members[k.root][0].idx):
            return "channels-last results are stored as they are"
        if n.prim == "conv" and self.prints is not None and not all(map(self.prints, k.members)):
            return "what follows is no function of vectors, in which a packed convolution is printed"
        return ""

    def _refuse_reduce(self, n: Node, uses: list[Use], k: Kernel) -> str:
        if k.root is n:
            return ""
        if k.dot is not None or k.kind in ("concat", "scatter"):
            return f"a reduction is not part of a {k.kind} kernel"
        if len({u.idx for u in uses}) != 1:
            return "reduced values are needed at several places"
        if any(u.guarded for u in uses):
            return "its index may lie outside (padding)"
        at = frozenset(v for i in uses[0].idx for v in variables(i))
        loops = frozenset(v for v in k.loops if v.extent > 1)
        work = n.args[0].size // max(n.size, 1)
        if any(isinstance(v, Val) for v in at):
            return "its position is known only at run time"
        if not at <= loops:
            return "inside another reduction" if work > 1 else ""
        if at == loops:
            if n in self.stored and not all(u.bijective for u in uses):
                return "a result that this kernel does not compute element by element"
            return "" if work <= SMALL_REDUCE or self._only_root(n, k) or k.rows == at else "a long reduction for each element"
        return self._refuse_row(n, uses, k, frozenset(v for v in at if isinstance(v, Var)))

    def _only_root(self, n: Node, k: Kernel) -> bool:
        """A reduction whose elementwise tail is the rest of the kernel."""
        return not k.hoisted

    def _refuse_row(self, n: Node, uses: list[Use], k: Kernel, at: frozenset[Var]) -> str:
        if n.prim == "unwindow":
            return "a window sum is computed per element"
        if k.rows is not None and k.rows != at:
            return "rows of the kernel are other axes"
        if k.rows is None and any(m.prim in ("reduce", "argreduce", "unwindow") and m is not n for m in k.members):
            return "the kernel reduces per element already"
        if any(coefficient(i, v) is None for i in uses[0].idx for v in at):
            return "its axes are split by a reshape"
        rows = math.prod(v.extent for v in at)
        if rows < FEW_ROWS and n.args[0].size > LARGE:
            return f"{rows} rows of {n.args[0].size // max(n.size, 1)}: one core would do it all"
        k.rows = at
        k.hoisted.append(n)
        return ""


def _visits(u: Use, k: Kernel) -> int:
    """How often the kernel evaluates this use."""
    used = {v for i in u.idx for v in variables(i) if isinstance(v, Var)}
    deepest = max((i for i, v in enumerate(k.loops) if v in used), default=-1)
    outside = {v for v in k.loops[:deepest + 1]}
    if k.rows is not None and used & outside <= k.rows:
        outside = set(k.rows)                           # type: ignore[arg-type]
    return math.prod(v.extent for v in outside | (set(u.inside) if used & set(u.inside) else set()))


def _read_whole(n: Node, uses: list[Use]) -> bool:
    """Whether a value is an operand of a packed convolution, which reads memory."""
    return n.prim != "reshape" and any(u.inside and u.kernel.dot is not None and u.kernel.dot.prim == "conv" for u in uses)


def _spread(shape: tuple[int, ...], inner: tuple[int, ...], idx: Index) -> list[Ix]:
    """Index into ``shape`` for an index into ``inner``, which has the same axes longer than one."""
    long = iter(i for i, d in zip(idx, inner) if d > 1)
    return [next(long) if d > 1 else Ix() for d in shape]


def fuse(program: Program, attention: bool = False, prints: Callable[[Node], bool] | None = None) -> Fused:
    """Partition a program into kernels. attention: whether the backend has kernels for it. prints: whether it can compute a
    value where a packed convolution is.
    """
    return Fuser(program, attention, prints).run()

