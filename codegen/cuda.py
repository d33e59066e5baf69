"""CUDA for a fused program: one module, kernels that take pointers only, and how each is launched."""
from __future__ import annotations

import math
from typing import Sequence

from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Var, substitute, text, unlinear, var, variables
from hybrid.ir.kernel import Kernel

from . import sort
from .cuda_contraction import print_contraction
from .cuda_pieces import THREADS, Launch, PrintedCuda, emitter, function, index_type, names_of
from .dialect import CUDA, is_half
from .emit import Block, Emitter, Reduction, identity, loop_nest, plan_reduction, serial_reduce

LONG_REDUCTION = 128            # elements from which a block works together on one reduction
HEADER = '#include "hy_common.h"\n#include "philox.h"\n#include "hybrid_cuda.cuh"\n'


# ---- one thread an element
def print_flat(k: Kernel, name: str) -> PrintedCuda:
    """elementwise kernels and short reductions: one thread computes one element of the root."""
    args, names = names_of(k)
    e = emitter(k, names)
    t = Var("t", k.root.size)
    idx = tuple(unlinear(var(t), k.root.shape))
    block = Block(None, frozenset([t]))
    value = e.value(k.root, idx, block)
    block.lines.append(e.store(names[k.root], k.root, idx, value))
    kind = index_type([*args])
    body = [f"{kind} t = ({kind})blockIdx.x * {THREADS} + threadIdx.x;", f"if (t >= {k.root.size}) return;", *block.lines]
    return PrintedCuda(function(name, args, len(k.stores), body), [Launch(name, -(-k.root.size // THREADS), THREADS, args)])


# ---- one block a row
def block_reduce(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """All threads of the block reduce together; every thread gets the result."""
    at = {v for i in idx for v in variables(i)}
    if block.parent is not None or n.prim == "unwindow" or not at <= block.vars:
        return serial_reduce(e, n, idx, guard, block)
    r = plan_reduction(e, n, idx, guard, False)
    total = math.prod(v.extent for v in r.loops)
    q = Var(e.name("q"), total)
    names = dict(zip(r.loops, unlinear(var(q), [v.extent for v in r.loops])))
    moved = plan_again(e, n, idx, guard, names)
    inner = block.child([q])
    T = CUDA.compute(r.dtype)
    if n.prim == "argreduce":
        return _block_arg(e, moved, block, inner, q, T)
    acc = e.let(block, r.dtype, identity(e, r.op, r.dtype), "a")
    value = e.let(inner, r.dtype, moved.element(inner))
    inner.lines.append(f"{acc} = hy_{r.op}_op()({acc}, {value});")
    block.lines += [f"for (int {q.name} = threadIdx.x; {q.name} < {total}; {q.name} += {THREADS}) {{", *("  " + s for s in inner.lines), "}"]
    shared = e.name("shared")
    block.lines.append(f"__shared__ {T} {shared}[32];")
    block.lines.append(f"{acc} = hy_block_reduce({acc}, hy_{r.op}_op(), ({T}){identity(e, r.op, r.dtype)}, {shared});")
    if is_half(n.dtype):
        return e.let(block, n.dtype, CUDA.half_load[n.dtype.name].format(CUDA.half_store[n.dtype.name].format(acc)))
    return acc


def plan_again(e: Emitter, n: Node, idx: Index, guard: Guard, names: dict[Var, Ix]) -> Reduction:
    """The reduction with its loop variables replaced by functions of one."""
    if n.prim == "dot":
        raise NotImplementedError("a contraction is not reduced by a block")
    x = n.args[0]
    axes = n.attrs["axes"] if n.prim == "reduce" else (n.attrs["axis"],)
    fresh = dict(zip(axes, names.values()))
    free = iter(idx)
    full = tuple(fresh[a] if a in fresh else next(free) for a in range(x.ndim))
    return Reduction(n.attrs["op"], x.dtype, [], lambda block: e.value(x, full, block, guard), fresh[axes[0]] if n.prim == "argreduce" else None)


def _block_arg(e: Emitter, r: Reduction, block: Block, inner: Block, q: Var, T: str) -> str:
    name, shared = e.name("w"), e.name("shared")
    op = "hy_argmax_op" if r.op == "argmax" else "hy_argmin_op"
    worst = identity(e, "max" if r.op == "argmax" else "min", r.dtype)
    value = e.let(inner, r.dtype, r.element(inner))
    start = f"hy_indexed<{T}>{{({T}){worst}, 0x7fffffffffffffffll}}"
    inner.lines.append(f"{name}p = {op}()({name}p, hy_indexed<{T}>{{{value}, (long long)({text(r.position or Ix())})}});")
    block.lines += [f"hy_indexed<{T}> {name}p = {start};",
                    f"for (int {q.name} = threadIdx.x; {q.name} < {q.extent}; {q.name} += {THREADS}) {{", *("  " + s for s in inner.lines), "}",
                    f"__shared__ hy_indexed<{T}> {shared}[32];", f"{name}p = hy_block_reduce({name}p, {op}(), {start}, {shared});",
                    f"long long {name} = {name}p.index;"]
    return name


def print_rows(k: Kernel, name: str, rows: list[Var]) -> PrintedCuda:
    """Row kernels: a block owns one position of the row axes; its threads share the rest."""
    args, names = names_of(k)
    e = emitter(k, names, block_reduce)
    row_block = Block(None, frozenset(rows))
    rest = [v for v in k.loops if v not in rows and v.extent > 1]
    q = Var("q0", math.prod(v.extent for v in rest))
    moved = dict(zip(rest, unlinear(var(q), [v.extent for v in rest])))
    idx = tuple(moved.get(v, var(v)) for v in k.loops)
    inner = row_block.child([q]) if rest else row_block
    side_values = [(n, at, e.value(n, tuple(substitute(i, moved) for i in at), row_block)) for n, at in k.sides]
    value = e.value(k.root, idx, inner)
    store = e.store(names[k.root], k.root, idx, value)
    guard_first = [e.store(names[n], n, at, v) for n, at, v in side_values]
    body = decode_rows(rows, index_type(args)) + row_block.lines
    body += [f"if (threadIdx.x == 0) {{ {s} }}" for s in guard_first]
    if rest:
        body += [f"for (int q0 = threadIdx.x; q0 < {q.extent}; q0 += {THREADS}) {{", *("  " + s for s in [*inner.lines, store]), "}"]
    else:
        body.append(f"if (threadIdx.x == 0) {{ {store} }}")
    count = math.prod(v.extent for v in rows)
    return PrintedCuda(function(name, args, len(k.stores), body), [Launch(name, count, THREADS, args)])


def decode_rows(rows: list[Var], kind: str) -> list[str]:
    """Row variables from the block's number."""
    out, stride = [], 1
    for i, v in reversed(list(enumerate(rows))):
        if v.extent > 1:
            out.append(f"{kind} {v.name} = blockIdx.x / {stride}u{'' if i == 0 else f' % {v.extent}u'};")
        stride *= v.extent
    return out


# ---- concatenation, scatter
def print_concat(k: Kernel, name: str) -> PrintedCuda:
    """One function a part."""
    args, names = names_of(k)
    axis, at, texts, launches = k.root.attrs["axis"], 0, [], []
    for j, part in enumerate(k.root.args):
        if part.size:
            e = emitter(k, names)
            t = Var("t", part.size)
            idx = tuple(unlinear(var(t), part.shape))
            block = Block(None, frozenset([t]))
            value = e.value(part, idx, block)
            target = tuple(i + at if a == axis else i for a, i in enumerate(idx))
            block.lines.append(e.store(names[k.root], k.root, target, value))
            kind = index_type(args)
            body = [f"{kind} t = ({kind})blockIdx.x * {THREADS} + threadIdx.x;", f"if (t >= {part.size}) return;", *block.lines]
            texts.append(function(f"{name}_{j}", args, 1, body))
            launches.append(Launch(f"{name}_{j}", -(-part.size // THREADS), THREADS, args))
        at += part.shape[axis]
    return PrintedCuda("\n".join(texts), launches)


def print_scatter(k: Kernel, name: str) -> PrintedCuda:
    """A thread owns one line along the scattered axis and adds its updates in order: the same sum each time."""
    args, names = names_of(k)
    root = k.root
    idx_node, upd = root.args
    axis = root.attrs["axis"]
    lines_shape = upd.shape[:axis] + upd.shape[axis + idx_node.ndim:]
    count = math.prod(lines_shape)
    e = emitter(k, names)
    t = Var("t", count)
    at = unlinear(var(t), lines_shape)
    block = Block(None, frozenset([t]))
    loops = [Var(f"s{j}", d) for j, d in enumerate(idx_node.shape)]
    inner = block.child(loops)
    idx = (*at[:axis], *(var(v) for v in loops), *at[axis:])
    value = e.value(upd, tuple(idx), inner)
    where = e.value(idx_node, tuple(var(v) for v in loops), inner)
    slot = Var(e.name("g"), max(root.shape[axis], 2))
    inner.lines.append(f"long {slot.name} = hy_clamp({where}, {root.shape[axis] - 1});")
    target = (*at[:axis], var(slot), *at[axis:])
    inner.lines.append(_accumulate(e, names[root], root, tuple(target), value))
    z = Var("z", max(root.shape[axis], 1))
    zero = f"{names[root]}[{e.address(root.shape, (*at[:axis], var(z), *at[axis:]))}] = 0;"
    kind = index_type(args)
    body = [f"{kind} t = ({kind})blockIdx.x * {THREADS} + threadIdx.x;", f"if (t >= {count}) return;", *loop_nest([z], [zero]),
            *block.lines, *loop_nest(loops, inner.lines)]
    return PrintedCuda(function(name, args, 1, body), [Launch(name, -(-count // THREADS), THREADS, args)])


def _accumulate(e: Emitter, pointer: str, n: Node, idx: Index, value: str) -> str:
    cell = f"{pointer}[{e.address(n.shape, idx)}]"
    if is_half(n.dtype):
        return e.store(pointer, n, idx, f"{CUDA.half_load[n.dtype.name].format(cell)} + {value}")
    return f"{cell} += {value};"


def print_kernel(k: Kernel, name: str) -> PrintedCuda:
    """CUDA of one kernel."""
    if k.kind == "concat":
        return print_concat(k, name)
    if k.kind == "scatter":
        return print_scatter(k, name)
    if k.kind == "sort":
        return sort.print_cuda(k, name)
    if k.dot is not None:
        return print_contraction(k, name)
    if k.hoisted:
        return print_rows(k, name, [v for v in k.loops if v in (k.rows or ())])
    longest = max((m.args[0].size // max(m.size, 1) for m in k.members if m.prim in ("reduce", "argreduce")), default=0)
    if longest >= LONG_REDUCTION and not k.extra:
        return print_rows(k, name, [v for v in k.loops if v.extent > 1])
    return print_flat(k, name)


def print_program(kernels: Sequence[Kernel]) -> tuple[str, list[Launch]]:
    """The module's text and its launches in order."""
    printed = [print_kernel(k, f"k{k.number}") for k in kernels if k.root.size]
    return HEADER + "\n".join(p.source for p in printed), [launch for p in printed for launch in p.launches]
