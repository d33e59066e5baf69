"""When a node may join the kernel that holds its users: what is known of each node beforehand, and the reasons that
speak against it.

An empty reason means that it may. ``fuse.py`` asks, and keeps the reasons for the report.
"""
from __future__ import annotations

import math
from collections import Counter
from typing import Callable, Sequence

from ..ir import Node, Program
from ..ir.access import ELEMENTWISE, MOVEMENT, Index, beneath, pull
from ..ir.index import Val, Var, coefficient, fills, linear, variables
from ..ir.kernel import IN_MEMORY, Kernel, Use, strip_reshape
from ..ir.node import describe
from ..ir.size import hint, may_exceed, same
from .attention import Attention, Attends, escapes, match
from .bits import compared
from .fusion_costs import CHEAP, cost_with_arguments, visits
from .halves_in_products import stores_halves, upcast_of_half
from .operands_in_memory import why_stored
from .recomputed_scores import OverScores, ReadsScores, without_scores

LEAVES = frozenset({"input", "const", "data", "iota"})
MAX_NODES = 192                 # nodes in one kernel: longer chains cost compile time and registers
SMALL_REDUCE = 64               # elements of a reduction that may run once per output element inside a larger kernel
FEW_ROWS, LARGE = 4, 1 << 16    # a row kernel over fewer rows and more elements than these would run on one core
FEW_ACROSS = 2048               # rows below which a GPU's threads do not take one each, where rows lie across memory
SLOW = 2                        # cost up to which a few rows of an operand are computed again for each row of the other
BESIDE = 16                     # times smaller than the other operand of a product: put in order at no cost that counts


class Rules:
    """What is known of a program's nodes, and may one of them be computed where it is needed?"""

    def __init__(self, program: Program, attention: Attends, prints: Callable[[Node], bool] | None,
                 over: ReadsScores = None):
        self.program, self.prints = program, prints
        self.attentions: dict[Node, Attention | OverScores] = {}
        self.uses: dict[Node, list[Use]] = {}            # of nodes that have no kernel yet
        self.refusals: list[tuple[str, str]] = []
        self.order = [n for n in program.order() if n.prim not in LEAVES]
        self.stored = {strip_reshape(r) for r in program.roots}
        self.subtree: dict[Node, int] = {}
        self.carries: dict[Node, Node | None] = {}
        self.row_value: dict[Node, bool] = {}
        self.once = compared(self.order)
        self.users: dict[Node, list[Node]] = {}
        for n in self.order:
            for a in set(n.args):
                self.users.setdefault(a, []).append(n)
        self.needed = Counter({a: len(users) for a, users in self.users.items()})
        self.late: dict[Node, int] = {}                  # position of the last anchor a node depends on
        for i, n in enumerate(program.order()):
            anchor = n.prim not in LEAVES | ELEMENTWISE | MOVEMENT
            self.late[n] = i if anchor else max((self.late[a] for a in n.args), default=-1)
            self.carries[n] = self._carried(n)
            self.subtree[n] = cost_with_arguments(n, self.subtree, self.carries)
            self.row_value[n] = self._is_row_value(n)
        if attention is not None:
            self._find_attention(attention, over)

    def _find_attention(self, attention: Callable[[Attention, Node], bool], over: ReadsScores) -> None:
        results, waiting = {*self.program.roots, *self.stored}, {}
        for n in self.order:
            found = match(n, halves=True)
            if found is None or not attention(found, n):
                continue
            if escapes(found, n, self.users, results):
                waiting[n] = found
            else:
                self.attentions[n] = found
        readers = without_scores(self.order, self.users, results, self.once, over) if over is not None else {}
        self.attentions = {**readers, **self.attentions}
        for n, found in waiting.items():
            if n in readers and len(readers[n].products) == 1:     # a softmax needs no sums of rows beforehand
                self.attentions[n] = found
            elif n not in readers:
                self.refusals.append((describe(n), "no attention kernel: something else reads its weights"))

    def _carried(self, n: Node) -> Node | None:
        """The contraction whose epilogue this node could be: all else that n needs is known before it starts."""
        if n.prim in ("dot", "conv"):
            return n
        if n.prim not in ELEMENTWISE and n.prim not in ("reshape", "permute"):
            return None
        found = [d for a in n.args if (d := self.carries.get(a)) is not None and same(a.size, n.size)]
        if not found:
            return None
        d = max(found, key=lambda d: self.late[d])
        ready = all(self.carries.get(a) is d or self.late[a] < self.late[d] for a in n.args)
        return d if ready else None

    def _is_row_value(self, n: Node) -> bool:
        """Made of reductions without broadcasting them again: a mean, a variance, its root."""
        if n.prim in ("reduce", "argreduce"):
            return hint(n.args[0].size) > hint(n.size)
        return (n.prim in ELEMENTWISE or n.prim == "reshape") and any(self.row_value[a] and same(a.size, n.size)
                                                                      for a in n.args)

    def _attends(self, n: Node) -> bool:
        """Whether a value is attention's, needed here alone."""
        while n.prim == "reshape" and self.needed[n] == 1:
            n = n.args[0]
        return n in self.attentions and self.needed[n] == 1

    # ---- may n be computed inside k?
    def _cheap_copy(self, n: Node, uses: list[Use], kernels: Sequence[Kernel]) -> bool:
        if n.prim not in ELEMENTWISE and n.prim not in MOVEMENT and n.prim != "random_bits":
            return False
        if n in self.once or self.carries[n] is not None and n.prim in ELEMENTWISE and not self._apart(n, kernels):
            return False
        if self.prints is not None and why_stored(n, uses):
            return False
        often = 1.5 * hint(n.size)
        if n.prim in ELEMENTWISE and self.subtree[n] > 1 and any(u.kernel.dot is not None
                                                                 and visits(u, u.kernel) > often for u in uses):
            return False                                 # windows would compute it again and again
        return self.subtree[n] <= CHEAP or n.prim in MOVEMENT and self.subtree[n.args[0]] <= CHEAP

    def _refusal(self, n: Node, uses: list[Use], k: Kernel) -> str:
        reason = self._refuse_any(n, uses, k) or self._refuse_permuted(n, uses, k)
        if reason:
            return reason
        if n.prim in ("dot", "conv"):
            return self._refuse_dot(n, uses, k)
        if n.prim in ("reduce", "argreduce", "unwindow"):
            return self._refuse_reduce(n, uses, k)
        if n in self.stored and not all(u.bijective for u in uses):
            return "a result that this kernel does not compute element by element"
        if k.dot is not None and k.dot.prim == "conv" and self.prints is not None and not self.prints(n):
            return "no function of vectors, in which a packed convolution is printed"
        if k.dot is not None and _widens(n) and all(u.inside for u in uses):
            return ""                                       # memory holds the narrow integers
        operand = k.dot is not None and any(u.inside for u in uses)
        return (self._refuse_operand(n, k) if operand else "") or self._refuse_epilogue(
            n, uses, k) or self._refuse_repeated(n, uses, k)

    def _refuse_any(self, n: Node, uses: list[Use], k: Kernel) -> str:
        """Refusals that hold for any node: the kernel is full, or reads its operands only from memory."""
        if len(k.members) >= MAX_NODES:
            return f"the kernel has {MAX_NODES} nodes already"
        template = k.template
        if template in IN_MEMORY and n.prim != "reshape":
            return "a hand-written kernel reads it from memory"
        if template == "attention" and n.prim in ("dot", "conv", "reduce", "argreduce", "unwindow"):
            return "attention reads it from memory"
        if template == "running" and n.prim not in ELEMENTWISE and n.prim not in MOVEMENT:
            return "a running sum reads it from memory"
        if self.prints is not None and (reason := why_stored(n, uses)):
            return reason
        return "a convolution or product with packed weights reads it from memory" if read_whole(n, uses) else ""

    def _refuse_permuted(self, n: Node, uses: list[Use], k: Kernel) -> str:
        """Operands of a product in another order of axes, and of kernels that go block by block."""
        if (n.prim == "permute" and k.dot is None and self.prints is not None and n.attrs["axes"][-1] != n.ndim - 1
                and any(not isinstance(v, Var) for i in uses[0].idx for v, _ in i.terms)):
            return "read transposed at indices that take divisions: transposed once, beforehand"
        if n.prim != "permute" or k.dot is None:
            return ""
        if not uses[0].inside:
            beside = self.prints is not None and k.dot.prim == "conv" and n.attrs["axes"][-1] != n.ndim - 1
            return "vectors of a packed convolution hold channels, which are apart in memory here" if beside else ""
        if self._attends(n.args[0]):
            return "the form in which the next contraction reads what attention gives"
        if _beside(n, k) and _scattered(n, uses[0]):
            return "a product would read it out of order again and again"
        if n.attrs["axes"][-1] != n.ndim - 1 and n in map(_picture, k.dot.args):
            return "vectors of a convolution hold pixels, not channels"
        return self._refuse_order(n, uses[0])

    def _refuse_order(self, n: Node, u: Use) -> str:
        """Operands of convolutions that read along channels, in another order; grouped results that several read."""
        dot, y = u.kernel.dot, n.args[0]
        if (self.prints is None and n.prim == "permute" and y.prim == "dot" and y.attrs["batch"][0]
                and self.needed[y] == 1 and any(map(_over_lines, y.args))):
            return "channels of a convolution in groups, beside each other"
        if (n.prim == "permute" and n.args[0].prim != "window" and dot is not None and u.inside
                and n.attrs["axes"][-1] != n.ndim - 1 and any(map(_over_lines, dot.args))):
            return "weights or gradient of a convolution, read along its channels"
        return ""

    def _refuse_operand(self, n: Node, k: Kernel) -> str:
        """What a product would compute again and again."""
        if n.prim in ELEMENTWISE and self.row_value[n]:
            return "operand of a contraction, computed where its reduction is"
        if n.prim in ELEMENTWISE and self.subtree[n] > (SLOW if _beside(n, k) else CHEAP):
            return "operand of a contraction, computed once"
        if n.prim == "map" and hint(n.size) >= LARGE and sum(map(_wide, n.args)) > 1:
            return "operand of a contraction, made of several arrays"
        return ""

    def _refuse_epilogue(self, n: Node, uses: list[Use], k: Kernel) -> str:
        """What may be computed right behind a product of its own."""
        dot = self.carries[n]
        if dot is None or n.prim not in ELEMENTWISE or upcast_of_half(n):
            return ""
        if dot.prim == "conv" and any(linear(n.shape, u.idx) != linear(k.root.shape, k.members[k.root][0].idx)
                                      for u in uses):
            return "computed with its convolution or product, channels last"
        if not self._compares_stored(n):
            if not all(u.bijective for u in uses):
                return "" if k.dot is None and self._apart(n, [k]) else "kept as the epilogue of its contraction"
            if k.dot is not None or k.hoisted:
                return "the kernel has a contraction or rows already; this is the epilogue of another contraction"
        return ""

    def _refuse_repeated(self, n: Node, uses: list[Use], k: Kernel) -> str:
        """What this kernel would compute more often than it is needed."""
        spots = len({u.idx for u in uses})
        if spots > 1 and self.subtree[n] * (spots - 1) > 4 * CHEAP and n.prim in ELEMENTWISE:
            return f"would be computed at {spots} places"
        if self.row_value[n] and self._opens_rows(uses, k):
            return ""
        if n.prim in ELEMENTWISE and self.subtree[n] > CHEAP:
            often = max(visits(u, k) for u in uses)
            # little beside the kernel's own work is computed again
            if often > 1.5 * hint(n.size) and often * self.subtree[n] > hint(k.root.size):
                return f"would be computed {often / max(hint(n.size), 1):.1f} times"
        return ""

    def _compares_stored(self, n: Node) -> bool:
        """A comparison of values that are stored in any case, because others need them."""
        return n.dtype == bool and n.prim == "map" and all(a.prim in LEAVES | MOVEMENT or self.needed[a] > 1
                                                           for a in n.args)

    def _apart(self, n: Node, kernels: Sequence[Kernel]) -> bool:
        """Whether this, needed in some kernels, cannot be the epilogue of its contraction: others read what it is
        computed from, which is stored then."""
        dot = self.carries[n]
        return any(self._read(a, n, set(kernels)) for a in n.args
                   if same(a.size, n.size) and self.carries.get(a) is dot)

    def _read(self, a: Node, n: Node, kernels: set[Kernel]) -> bool:
        """Whether a value is read, perhaps in another shape, in other kernels than those that n is needed in."""
        if self.uses.get(a):
            return True
        others = {u.kernel for m in self.users[a] if m is not n for u in self.uses.get(m, ())}
        return bool(others) and len(others | kernels) > 1 or a.prim == "reshape" and self._read(a.args[0], a, kernels)

    def _opens_rows(self, uses: list[Use], k: Kernel) -> bool:
        """Whether a value per row can be computed once a row here; the kernel's rows are then fixed."""
        at = frozenset(v for i in uses[0].idx for v in variables(i))
        loops = frozenset(v for v in k.loops if may_exceed(v.extent, 1))
        if k.dot is not None or k.template in ("concat", "scatter") or not at < loops or any(u.guarded for u in uses):
            return False
        if k.rows is None:
            k.rows = at                                 # type: ignore[assignment]
        return k.rows == at

    def _refuse_dot(self, n: Node, uses: list[Use], k: Kernel) -> str:
        if k.dot is not None:
            return "the kernel has a contraction already"
        if k.hoisted or k.kind in ("concat", "scatter", "row", "reduction"):
            return f"a contraction is not part of a {k.kind} kernel"
        if k.sides:
            return "a contraction is not part of a kernel that stores a result a row"
        if not all(u.bijective for u in uses) or len({u.idx for u in uses}) != 1:
            return "its elements are not used one by one in order"
        if math.prod(n.shape) == 0:
            return "empty"
        if self.prints is not None and any(map(_picture, n.args)) and stores_halves(n, k):
            return "a float32 convolution stores its vectors unconverted, and the kernel's result is of a half type"
        if n.prim == "dot" and _turned(n, uses[0], k):
            return "vectors of a convolution hold pixels, not channels"
        if n.prim == "conv" and linear(n.shape, uses[0].idx) != linear(k.root.shape, k.members[k.root][0].idx):
            return "channels-last results are stored as they are"
        if n.prim == "conv" and self.prints is not None and not all(map(self.prints, k.members)):
            return "what follows is no function of vectors, in which a packed convolution is printed"
        return ""

    def _refuse_reduce(self, n: Node, uses: list[Use], k: Kernel) -> str:
        if k.root is n:
            return ""
        if k.dot is not None or k.template in ("concat", "scatter"):
            return f"a reduction is not part of a {k.kind} kernel"
        if len({u.idx for u in uses}) != 1:
            return "reduced values are needed at several places"
        if (n.args[0].prim == "window" and n.args[0].attrs["axes"] == (1, 2)
                and linear(n.shape, uses[0].idx) != linear(k.root.shape, k.members[k.root][0].idx)):
            return "windows of channels-last pictures: results are stored as they are"
        if any(u.guarded for u in uses):
            return "its index may lie outside (padding)"
        at = frozenset(v for i in uses[0].idx for v in variables(i))
        loops = frozenset(v for v in k.loops if may_exceed(v.extent, 1))
        work = hint(n.args[0].size) // max(hint(n.size), 1)
        if any(isinstance(v, Val) for v in at):
            return "its position is known only at run time"
        if not at <= loops:
            return "inside another reduction" if work > 1 else ""
        if at == loops:
            if n in self.stored and not all(u.bijective for u in uses):
                return "a result that this kernel does not compute element by element"
            done = work <= SMALL_REDUCE or self._only_root(n, k) or k.rows == at
            return "" if done else "a long reduction for each element"
        return self._refuse_row(n, uses, k, frozenset(v for v in at if isinstance(v, Var)))

    def _only_root(self, n: Node, k: Kernel) -> bool:
        """A reduction whose elementwise tail is the rest of the kernel."""
        return not k.hoisted

    def _refuse_row(self, n: Node, uses: list[Use], k: Kernel, at: frozenset[Var]) -> str:
        if n.prim == "unwindow":
            return "a window sum is computed per element"
        if n in self.stored and not covers(n, uses[0].idx):
            return "a result of which this kernel needs a part"
        if k.rows is not None and k.rows != at:
            return "rows of the kernel are other axes"
        if k.rows is None and any(m.prim in ("reduce", "argreduce", "unwindow") and m is not n for m in k.members):
            return "the kernel reduces per element already"
        if any(coefficient(i, v) is None for i in uses[0].idx for v in at):
            return "its axes are split by a reshape"
        rows = hint(math.prod(v.extent for v in at))
        if rows < FEW_ROWS and hint(n.args[0].size) > LARGE:
            return f"{rows} rows of {hint(n.args[0].size) // max(hint(n.size), 1)}: one core would do it all"
        inner = next((v for v in reversed(k.loops) if may_exceed(v.extent, 1)), None)
        if self.prints is None and inner in at and rows < FEW_ACROSS and hint(n.args[0].size) > LARGE:
            return f"{rows} rows whose neighbours lie in memory beside each other"
        k.rows = at
        k.hoisted.append(n)
        return ""


def covers(n: Node, idx: Index) -> bool:
    """Whether an index reaches every element of a node once: its variables count through the places as digits do, in
    any order."""
    return fills(linear(n.shape, idx), n.size)


def _picture(a: Node) -> Node | None:
    """What the windows that are an operand of a contraction lie over."""
    a = strip_reshape(a.args[0] if a.prim == "permute" else a)
    return beneath(a, ("window", "pad", "slice")) if a.prim == "window" else None


def _over_lines(a: Node) -> bool:
    """Whether an operand of a contraction is windows over channels-last data."""
    a = strip_reshape(a.args[0] if a.prim == "permute" else a)
    return a.prim == "window" and a.attrs["axes"][0] == 1


def _turned(n: Node, u: Use, k: Kernel) -> bool:
    """Whether a convolution's pixels are no longer the last axis of what a kernel stores."""
    if not any(map(_picture, n.args)) or any(map(_over_lines, n.args)):
        return False
    last = [v for v in k.loops if v.extent > 1][-1:]
    return last != [v for i, d in zip(u.idx, n.shape) if d > 1 for v in variables(i)][-1:]


def _beside(n: Node, k: Kernel) -> bool:
    """Whether an operand is small beside the other one, which is then read once and this one again and again."""
    return k.dot is not None and hint(n.size) * BESIDE <= max(hint(a.size) for a in k.dot.args)


def _widens(n: Node) -> bool:
    """Whether a value is that of narrower integers, which a product takes as they are."""
    return n.prim == "cast" and n.dtype.kind == n.args[0].dtype.kind == "i" and n.dtype.itemsize > n.args[
        0].dtype.itemsize


def _wide(n: Node) -> bool:
    """Whether a value is an array of its own, neither a constant nor spread over axes."""
    return n.prim not in ("const", "expand", "iota")


def _scattered(n: Node, u: Use) -> bool:
    """Whether steps of a loop over a permuted value are no constant number of elements: a flattened picture, channels
    last."""
    address = linear(n.args[0].shape, pull(n, u.idx)[0])
    return any(coefficient(address, v) is None for v in variables(address) if isinstance(v, Var))


def read_whole(n: Node, uses: list[Use]) -> bool:
    """Whether a value is an operand of a packed convolution, which reads memory."""
    return n.prim != "reshape" and any(u.inside and u.kernel.dot is not None and u.kernel.dot.prim == "conv"
                                       for u in uses)
