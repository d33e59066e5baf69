"""CUDA of long reductions. A team of threads takes each result where the reduced elements are neighbours in memory;
where neighbouring results are, 32 lanes take 32 results and the warps of the block share the elements. Where there are
few results, many blocks reduce a part each into working memory and a second launch puts the parts together, always in
the same order.
"""
from __future__ import annotations

from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Var, substitute, unlinear, var
from hybrid.ir.kernel import Kernel

from .flat import print_flat
from .pieces import PROCESSORS, THREADS, PrintedCuda, emitter, in_turn, index_type, launched, names_of
from .rows import ALONE, Team, accumulator_loop, lies_across, operation, print_rows
from hybrid.codegen.reductions import reduced_index, rounded
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block, Emitter, identity, serial_reduce

WARPS = THREADS // 32
LONG = 128                      # elements from which a reduction is worth more than a thread
PART = 4096                     # elements that a block should have at least, along and across
PART_ACROSS = 512


def print_reduction(k: Kernel, name: str) -> PrintedCuda:
    """A kernel whose results each need a long reduction."""
    long = [m for m in k.members if m.prim in ("reduce", "argreduce") and m.args[0].size // max(m.size, 1) > ALONE]
    across = lies_across(k, k.loops)
    count = k.root.size
    if across and count >= PROCESSORS * 1024:                 # enough threads without sharing
        return print_flat(k, name)
    if len(long) != 1 or long[0].prim != "reduce":
        if across and count >= 8 * THREADS:
            return print_flat(k, name)
        return print_rows(k, name, [v for v in k.loops if v.extent > 1])
    length = long[0].args[0].size // long[0].size
    blocks = -(-count // 32) if across else count
    parts = 1
    if blocks < PROCESSORS and length >= 2 * (PART_ACROSS if across else PART):
        parts = min(-(-length // (PART_ACROSS if across else PART)), -(-2 * PROCESSORS // blocks))
    if parts == 1 and not across:
        return print_rows(k, name, [v for v in k.loops if v.extent > 1])
    k.form = k.form or ("sums side by side" if across else "blocks that share each result")
    return (_across if across else _along)(k, name, long[0], length, parts)


def _step(length: int, parts: int) -> int:
    """Elements of a part: a multiple of 8."""
    return -(-length // (8 * parts)) * 8


def _along(k: Kernel, name: str, n: Node, length: int, parts: int) -> PrintedCuda:
    """Blocks that take a part of a result each, then the sum of the parts."""
    args, names = names_of(k)
    kind, T, count, step = index_type(k), CUDA.compute(n.args[0].dtype), k.root.size, _step(length, parts)
    parts = -(-length // step)
    t, team = Var("t", count), Team(THREADS, THREADS)
    e = emitter(k, names)
    block = Block(None, frozenset([t]))
    zero, op = identity(e, n.attrs["op"], n.args[0].dtype), operation(n.attrs["op"], n.args[0].dtype)
    lines = accumulator_loop(e, n, _index_of(k, n, t), (), block, team, "acc", ("low", "high"))
    body = [f"{kind} t = ({kind})(blockIdx.x / {parts}), lane = ({kind})threadIdx.x, low = ({kind})(blockIdx.x % "
            f"{parts}) * {step};",
            f"{kind} high = low + {step} < {length} ? low + {step} : {length};",
            "HY_ASSUME(t >= 0 && lane >= 0 && low >= 0);",
            *block.lines, f"{T} acc = {zero};", *lines,
            f"__shared__ {T} shared[32];", f"acc = hy_block_reduce(acc, {op}, ({T}){zero}, shared);",
            f"if (lane == 0) scratch[blockIdx.x % {parts} * ({kind}){count} + t] = acc;"]
    return _with_parts(k, name, n, parts, body, count * parts, args)


def _across(k: Kernel, name: str, n: Node, length: int, parts: int) -> PrintedCuda:
    """32 results a block, or a part of each."""
    args, names = names_of(k)
    kind, T, count, step = index_type(k), CUDA.compute(n.args[0].dtype), k.root.size, _step(length, parts)
    parts = -(-length // step)
    groups = -(-count // 32)
    t = Var("t", count)
    e = emitter(k, names)
    block = Block(None, frozenset([t]))
    zero, op = identity(e, n.attrs["op"], n.args[0].dtype), operation(n.attrs["op"], n.args[0].dtype)
    x, axes = n.args[0], n.attrs["axes"]
    q = Var("q", length)
    inner = block.child([q])
    value = e.value(x, reduced_index(x, axes, _index_of(k, n, t), unlinear(var(q), [x.shape[a] for a in axes])), inner)
    body = [f"{kind} lane = ({kind})(threadIdx.x % 32), warp = ({kind})(threadIdx.x / 32), t = ({kind})(blockIdx.x % "
            f"{groups}u) * 32 + lane;",
            f"{kind} low = ({kind})(blockIdx.x / {groups}u) * {step}, high = low + {step} < {length} ? low + {step} : "
            f"{length};",
            f"bool inside = t < {count};", f"if (!inside) t = {count - 1};",
            "HY_ASSUME(t >= 0 && warp >= 0 && low >= 0);",
            *block.lines, f"{T} acc = {zero};",
            "#pragma unroll 4", f"for ({kind} q = low + warp; q < high; q += {WARPS}) {{",
            *("  " + s for s in inner.lines), f"  acc = {op}(acc, {value});", "}",
            f"__shared__ {T} shared[{WARPS}][32];", "shared[warp][lane] = acc;", "__syncthreads();",
            "if (warp || !inside) return;",
            "#pragma unroll", f"for (int w = 1; w < {WARPS}; w++) acc = {op}(acc, shared[w][lane]);"]
    if parts > 1:
        return _with_parts(k, name, n, parts, [*body, f"scratch[blockIdx.x / {groups}u * ({kind}){count} + t] = acc;"],
                           groups * parts, args)
    rest = emitter(k, names, lambda e, m, idx, guard, b: rounded(e, n, "acc", b) if m is n
                   else serial_reduce(e, m, idx, guard, b))
    rest.count = 1000
    idx = tuple(unlinear(var(t), k.root.shape))
    end = Block(None, frozenset([t]))
    rest.put(names[k.root], k.root, idx, end)
    return launched(name, args, len(k.stores), [*body, *end.lines], groups)


def _index_of(k: Kernel, n: Node, t: Var) -> Index:
    """The index at which the kernel needs the reduction, for result number t."""
    at = dict(zip(k.loops, unlinear(var(t), k.root.shape)))
    return tuple(substitute(i, at) for i in k.members[n][0].idx)


def _with_parts(k: Kernel, name: str, n: Node, parts: int, body: list[str], blocks: int,
                args: list[Node]) -> PrintedCuda:
    """A launch that leaves parts in working memory, and one that puts them together."""
    T, op = CUDA.compute(n.args[0].dtype), operation(n.attrs["op"], n.args[0].dtype)

    def finish(e: Emitter, m: Node, idx: Index, guard: Guard, block: Block) -> str:
        if m is not n:
            return serial_reduce(e, m, idx, guard, block)
        acc = e.let(block, n.args[0].dtype, "scratch[t]", "a")
        block.body.append(f"for (int part = 1; part < {parts}; part++) {acc} = {op}({acc}, scratch[part * "
                           f"({e.index}){k.root.size} + t]);")
        return rounded(e, n, acc, block)
    first, last = launched(f"{name}_parts", args, 0, body, blocks, scratch=T), print_flat(k, name, finish, T)
    return in_turn([first, last], parts * k.root.size * max(4, n.args[0].dtype.itemsize))
