"""CUDA kernels in which a thread computes a few neighbouring elements by itself: elementwise, short reductions,
concatenation, copies.
"""
from __future__ import annotations

from typing import Sequence

from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import lines as text_of
from hybrid.passes.changes import changes

from . import pieces as cuda_pieces
from .pieces import THREADS, CudaEmitter, PrintedCuda, emitter, index_type, joined, launched, names_of, widths
from hybrid.codegen.emit import Block, Reducer
from hybrid.codegen.printers.rows.changes import changed

MOST_NODES = 512                # nodes times elements a thread takes: registers
MOVES = 100                     # copies in one launch
LEAST_BESIDE = 1 << 16          # of elements of a part, for a thread to compute an element of every part


def thread_number(kind: str, count: int, block: str = "blockIdx.x") -> list[str]:
    """A number for each thread; those beyond the count leave. block: the number of its block, in C."""
    return [f"{kind} t = ({kind}){block} * {THREADS} + ({kind})threadIdx.x;", f"if (t >= {count}) return;",
            "HY_ASSUME(t >= 0);"]


def _emit(k: Kernel, e: CudaEmitter, names: dict[Node, str], n: Node, q: Var, at: Ix,
          lift: tuple[int, int]) -> list[str]:
    """Statements for the elements that one thread owns of node n; lift: (axis, offset) of the part in a
    concatenation. What stays as it is in memory is neither read nor written."""
    outer = Block(None, frozenset([q]))
    inner = outer.child([e.lane]) if e.lane else outer
    idx = tuple(unlinear(at, n.shape))
    found = changes(k) if n is k.root else None
    condition = changed(e, k, found, idx, inner) if found is not None else None
    if e.lane and inner.body:                              # differs from lane to lane
        condition = None
    first = len(outer.body)
    value = e.value(n, idx, inner)
    axis, offset = lift
    place = tuple(i + offset if a == axis else i for a, i in enumerate(idx))
    inner.body.append(e.store(names[k.root], k.root, place, value))
    rest = [*text_of(outer.body[first:]), *(e.lanes(inner.lines) if e.lane else [])]
    under = [f"if ({condition}) {{", *("  " + s for s in rest), "}"] if condition is not None else rest
    return [*text_of(outer.body[:first]), *under]


def elements(k: Kernel, names: dict[Node, str], n: Node, reducer: Reducer | None = None,
             lift: tuple[int, int] = (0, 0)) -> tuple[int, list[str]]:
    """Threads wanted, and the statements of thread t, for node n stored in the kernel's root."""
    lanes = [1]
    if n.size >= cuda_pieces.VECTOR_FROM and k.kind in ("elementwise", "concat"):
        items = [k.root.dtype.itemsize, *(m.dtype.itemsize for m in k.reads if m.size == n.size)]
        lanes = [w for w in widths(n.size, *items) if w * len(k.members) <= MOST_NODES] + lanes
    for w in lanes:
        lane = Var("j", w)
        q, at = joined("t", [Var("all", n.size)], lane)
        e = emitter(k, names, reducer, lane)
        if w > 1:
            trial = e.trial()
            _emit(k, trial, names, n, q, at, lift)
            if trial.loose:
                continue
        return q.extent, _emit(k, e, names, n, q, at, lift)
    raise AssertionError("one element a thread always fits")


def print_flat(k: Kernel, name: str, reducer: Reducer | None = None, scratch: str = "") -> PrintedCuda:
    """Elementwise kernels and short reductions. reducer, scratch: for what other launches left in working memory."""
    args, names = names_of(k)
    count, lines = elements(k, names, k.root, reducer)
    body = [*thread_number(index_type(k), count), *lines]
    return launched(name, args, len(k.stores), body, -(-count // THREADS), scratch=scratch)


def _beside(k: Kernel) -> bool:
    """Whether one thread computes an element of every part of a concatenation: if the parts have one shape and are
    large enough to occupy the GPU, and if there are fewer arrays to read than parts: they are loaded once."""
    parts = k.root.args
    return (len({p.shape for p in parts}) == 1 and len(k.reads) < len(parts) and len(k.members) <= MOST_NODES
            and parts[0].size >= LEAST_BESIDE)


def _print_beside(k: Kernel, name: str) -> PrintedCuda:
    """A thread for each place of a part: it computes the elements of all parts at this place, then stores them."""
    args, names = names_of(k)
    axis, part = k.root.attrs["axis"], k.root.args[0]
    t = Var("t", part.size)
    e, block = emitter(k, names), Block(None, frozenset([t]))
    idx = tuple(unlinear(var(t), part.shape))
    values = [e.value(p, idx, block) for p in k.root.args]
    for n, value in enumerate(values):
        place = tuple(i + n * part.shape[axis] if a == axis else i for a, i in enumerate(idx))
        block.body.append(e.store(names[k.root], k.root, place, value))
    body = [*thread_number(index_type(k), t.extent), *block.lines]
    return launched(name, args, 1, body, -(-t.extent // THREADS))


def print_concat(k: Kernel, name: str) -> PrintedCuda:
    """A range of blocks for each part, or threads that each compute one element of every part."""
    if _beside(k):
        return _print_beside(k, name)
    args, names = names_of(k)
    kind, axis, at = index_type(k), k.root.attrs["axis"], 0
    body, blocks = ["unsigned b = blockIdx.x;"], 0
    for part in k.root.args:
        if part.size:
            count, lines = elements(k, names, part, lift=(axis, at))
            own = -(-count // THREADS)
            body += [f"if (b < {own}u) {{", *("  " + s for s in [*thread_number(kind, count, "b"), *lines]),
                     "  return;", "}", f"b -= {own}u;"]
            blocks += own
        at += part.shape[axis]
    return launched(name, args, 1, body, blocks)


def print_moves(moves: Sequence[tuple[Node, Node]]) -> list[PrintedCuda]:
    """Copies of whole arrays (from, to), many in one launch."""
    out = []
    moves = [m for m in moves if m[0].size]
    for first in range(0, len(moves), MOVES):
        part = moves[first:first + MOVES]
        body, blocks = ["unsigned b = blockIdx.x;"], 0
        for i, (source, _) in enumerate(part):
            own = -(-source.nbytes // (THREADS * 16))
            body += [f"if (b < {own}u) return hy_copy(p{i}, p{len(part) + i}, {source.nbytes}, b);", f"b -= {own}u;"]
            blocks += own
        args = [*(target for _, target in part), *(source for source, _ in part)]
        out.append(launched(f"moves{first}", args, len(part), body, blocks))
    return out
