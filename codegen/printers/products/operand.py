"""Contractions as matrix products: axes in four groups (batch, rows, columns, depth), operands as affine addresses."""
from __future__ import annotations

import math
from dataclasses import field
from typing import Callable, Mapping, Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import ELEMENTWISE, MOVEMENT, Guard, Index, pull
from hybrid.ir.index import Ix, Var, coefficient, linear, regroup, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, same


def any_size(dot: Node) -> bool:
    """Whether sizes of a product are known only at the call."""
    return not all(fixed(d) for a in (dot, *dot.args) for d in a.shape)


def sum_dtype(dot: Node) -> np.dtype:
    """The dtype of products and sums: halves are multiplied and summed as float32."""
    return np.dtype(np.float32) if is_half(dot.dtype) else dot.dtype


@dataclass
class Operand:
    """One side of a contraction. ``address`` is its offset in ``base`` when it is read straight from memory, else
    None."""
    node: Node
    index: Index
    base: Node | None
    address: Ix | None
    guard: Guard = ()                                      # when it is in ``memory`` at ``place``, else zero
    memory: Node | None = None
    place: Ix | None = None

    def stride(self, v: Var) -> int | None:
        """Elements between neighbours along a loop; None when that is not a constant."""
        return None if self.address is None else coefficient(self.address, v)


@dataclass
class Matmul:
    """A contraction with merged axes. ``root_index`` is where its elements stand in the kernel's root. over: outer
    axes of the depth; one product is computed for each of their elements and added to the result."""
    batch: list[Var]
    rows: list[Var]
    columns: list[Var]
    depth: list[Var]
    a: Operand
    b: Operand
    dot_index: Index
    over: list[Var] = field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns, depth."""
        return tuple(math.prod(v.extent for v in g)
                     for g in (self.rows, self.columns, self.depth))      # type: ignore[return-value]


def argument(dot: Node, side: int, batch: Index, free: Var, inner: Var, stored: Mapping[Node, str]) -> Operand:
    """An argument of a product at an index of the batch, its free axis and the one that is summed over."""
    n, at = dot.args[side], [var(free)] * dot.args[side].ndim
    for a, i in zip(dot.attrs["batch"][side], batch):
        at[a] = i
    at[dot.attrs["contract"][side][0]] = var(inner)
    return operand(n, tuple(at), stored)


def operand(node: Node, index: Index, stored: Mapping[Node, str], direct_dtype: np.dtype | None = None) -> Operand:
    """Follow movement down to memory, if nothing else is in between but zeros around it. direct_dtype: only arrays of
    this dtype are read in place, others are converted (None: any are read)."""
    n, idx = node, index
    guards: list[tuple[str, Ix, int]] = []
    while n not in stored:
        if n.prim not in MOVEMENT or n.prim == "pad" and float(n.attrs["value"]) != 0:
            return Operand(node, index, None, None)
        idx, guard = pull(n, idx)
        guards += guard
        n = n.args[0]
    at = linear(n.shape, idx)
    straight = not guards and direct_dtype in (None, n.dtype)
    return Operand(node, index, n if straight else None, at if straight else None, tuple(guards), n, at)


def _axes(dot: Node) -> tuple[list[list[tuple[int | None, int | None]]], list[list[int]]]:
    """For each group the axes as (axis of a, axis of b), and their extents."""
    a, b = dot.args
    (ca, cb), (ba, bb) = dot.attrs["contract"], dot.attrs["batch"]
    groups: list[list[tuple[int | None, int | None]]] = [
        list(zip(ba, bb)), [(i, None) for i in range(a.ndim) if i not in ca + ba],
        [(None, j) for j in range(b.ndim) if j not in cb + bb], list(zip(ca, cb))]
    return groups, [[a.shape[i] if i is not None else b.shape[j] for i, j in g]  # type: ignore[index]
                    for g in groups]


def matmul(dot: Node, stored: Mapping[Node, str], swap: bool = False, letters: Sequence[str] = "bmnk",
           direct_dtype: np.dtype | None = None, merged: bool = True,
           place: Callable[[Matmul], Ix] | None = None) -> Matmul:
    """The contraction, if ``merged`` with neighbouring axes merged where both operands allow it. swap: b is the row
    operand; letters: what the names of loops begin with, by group; direct_dtype: as of ``operand``; place: the
    address at which an element is stored, if merged axes have to keep it affine, as they keep those of the operands."""
    groups, extents = _axes(dot)
    if swap:
        groups[1], groups[2] = groups[2], groups[1]
        extents[1], extents[2] = extents[2], extents[1]
    parts = [[[i] for i in range(len(g))] for g in groups]
    best = _assemble(dot, groups, extents, parts, stored, swap, letters, direct_dtype)
    for g in range(4) if merged else ():
        i = len(parts[g]) - 2
        while i >= 0:
            trial = [list(p) for p in parts]
            trial[g] = parts[g][:i] + [parts[g][i] + parts[g][i + 1]] + parts[g][i + 2:]
            candidate = _assemble(dot, groups, extents, trial, stored, swap, letters, direct_dtype)
            if _no_worse(candidate, best) and not (
                    place is not None and _divides(place(candidate)) and not _divides(place(best))):
                parts, best = trial, candidate
            i -= 1
    return best


def _no_worse(new: Matmul, old: Matmul) -> bool:
    """Every operand that was affine still is."""
    for n, o in ((new.a, old.a), (new.b, old.b)):
        if o.address is None:
            if n.index is not None and any(_divides(i) for i in n.index):
                return False
        elif n.address is None or _divides(n.address) and not _divides(o.address):
            return False
    return True


def _divides(x: Ix) -> bool:
    return any(not isinstance(a, Var) for a, _ in x.terms)


def _assemble(dot: Node, groups: list, extents: list[list[int]], parts: list[list[list[int]]],
              stored: Mapping[Node, str], swap: bool, letters: Sequence[str], direct_dtype: np.dtype | None) -> Matmul:
    a, b = dot.args
    ia: list[Ix] = [Ix()] * a.ndim
    ib: list[Ix] = [Ix()] * b.ndim
    loops: list[list[Var]] = []
    values: list[list[Ix]] = []
    for name, group, sizes, merged in zip(letters, groups, extents, parts):
        vs, at = [], [Ix()] * len(group)
        for p in merged:
            v = Var(f"{name}{p[0]}", math.prod(sizes[i] for i in p))
            vs.append(v)
            for i, x in zip(p, unlinear(var(v), [sizes[i] for i in p])):
                at[i] = x
        for (i, j), x in zip(group, at):
            if i is not None:
                ia[i] = x
            if j is not None:
                ib[j] = x
        loops.append(vs)
        values.append(at)
    free = values[2] + values[1] if swap else values[1] + values[2]
    left, right = operand(a, tuple(ia), stored, direct_dtype), operand(b, tuple(ib), stored, direct_dtype)
    if swap:
        left, right = right, left
    return Matmul(loops[0], loops[1], loops[2], loops[3], left, right, tuple(values[0] + free))


def root_index(k: Kernel, index: Index) -> Index:
    """Where an element of the kernel's contraction stands in its root: the way up through functions and movement."""
    assert k.dot is not None
    path = _path(k.root, k.dot)
    n, idx = k.dot, index
    for user in path:
        if user.prim == "permute":
            idx = tuple(idx[a] for a in user.attrs["axes"])
        elif user.prim == "reshape":
            idx = regroup(user.shape, n.shape, idx)
        n = user
    return idx


def _path(root: Node, dot: Node) -> list[Node]:
    """Nodes from above the contraction up to the root, each of the contraction's size."""
    parent: dict[Node, Node | None] = {root: None}
    stack = [root]
    while stack:
        n = stack.pop()
        if n is dot:
            break
        if n.prim in ELEMENTWISE or n.prim in ("permute", "reshape"):
            for a in n.args:
                if a not in parent and same(a.size, dot.size):
                    parent[a] = n
                    stack.append(a)
    path, n = [], dot
    while parent[n] is not None:
        n = parent[n]                                   # type: ignore[assignment]
        path.append(n)
    return path
