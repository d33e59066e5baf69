"""Loop nests of C kernels: merged axes, nested blocks, threads and lanes; what all printers of C share."""
from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Callable, Mapping, Sequence

from hybrid.base.records import dataclass
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, hint
from hybrid.ir.parse import Words, flat, parse
from hybrid.ir.rewriting import Unstructured, renamed, used, walk
from hybrid.ir.stmt import Assign, For, Let, Literal, Local, Name, Op, Scope, Stmt, Store, When, lines

from hybrid.codegen.program.size_parameters import more_declared, where_it_pays
from .block import Block, chain, loop
from .dialect import C
from .emit import Emitter
from .lanes import Refused

PARALLEL_WORK = 1 << 18        # additions (about 50 us) below which waking threads costs more than they save
TALL, WIDE = 64, 8             # turns of the last two loops that are done together where an array is read across
LINES = 256                    # cache lines that stay in a core's first cache from one turn to the next
NEAR = 1 << 16                 # bytes of an array that may be read in any order
PLANES = 4                     # turns of a last loop that are done one after another in the loop before
COLUMNS = 256                  # results that are computed beside each other, their reduction going from line to line
TEAM = "#pragma omp for schedule(static) nowait"      # a loop of which each of a team of threads does a part
Pragma = Callable[[int, Sequence[Stmt]], str]          # what stands before the loop at a depth, around statements
SINGLE = "#pragma omp single nowait"          # what one of a team of threads does


@dataclass
class Printed:
    """A printed kernel: function name, statements (a text is parsed), the stored values it takes in order (written
    ones first)."""
    name: str
    code: Sequence[Stmt]
    args: list[Node]
    kind: str
    scratch: int = 0               # bytes of working memory the kernel wants
    takes_scratch: bool = False
    vectors: bool = False          # whether it needs lanes.support
    numbers: tuple[str, ...] = ()  # what a shared function takes after all else (kernel_deduplication.py)

    def __post_init__(self) -> None:
        if isinstance(self.code, str):
            self.code = parse(self.code)

    @cached_property
    def lines(self) -> list[Words]:
        """The words of each line."""
        return flat(self.code)

    @cached_property
    def source(self) -> str:
        """The text."""
        return "\n".join("".join(line) for line in self.lines)


def pointer_names(k: Kernel) -> tuple[list[Node], dict[Node, str]]:
    """Arguments of a kernel and their C names: stores first, then reads."""
    args = list(dict.fromkeys([*k.stores, *k.reads]))
    return args, {n: f"p{i}" for i, n in enumerate(args)}


def signature(name: str, args: Sequence[Node], written: int, *more: str) -> str:
    """Head of a kernel's function. more: further parameters."""
    parts = [*(f"{'' if i < written else 'const '}{C.storage(n.dtype)} *p{i}" for i, n in enumerate(args)), *more]
    return f"static void {name}({', '.join(parts)}{more_declared()}) {{"


def function(name: str, args: Sequence[Node], written: int, body: Sequence[Stmt]) -> str:
    """The text of a kernel's function."""
    return "\n".join([signature(name, args, written), *lines(body), "}"])


def merged_axes(sizes: Sequence[int], divisions: Callable[[list[list[int]]], int], barrier: int = 0
                ) -> list[list[int]]:
    """Groups of adjacent axes that can be one loop without more divisions than loops of their own: tried from the
    inside out. divisions: counts those of a grouping; Refused where it cannot be printed. No group crosses
    ``barrier``; fixed innermost axes are not merged with one of symbolic size if that takes a division: there are no
    vector divisions by symbolic sizes."""
    groups = [[i] for i in range(len(sizes))]
    fewest = divisions(groups) if len(sizes) > 1 else 0
    for i in reversed(range(len(sizes) - 1)):
        trial = groups[:i] + [groups[i] + groups[i + 1]] + groups[i + 2:]
        innermost = len(trial) == i + 1
        not_vectorized = (fewest > 0 and innermost and not fixed(sizes[i])
                          and all(fixed(sizes[a]) for a in groups[-1]))
        if groups[i + 1][0] != barrier and not not_vectorized:
            try:
                groups = trial if divisions(trial) <= fewest else groups
            except Refused:
                pass
    return groups


def merged_loops(shape: Sequence[int], emit: Callable[[Index, list[Block]], Emitter], prefix: str = "i",
                 order: Sequence[int] | None = None, barrier: int = 0) -> tuple[list[Block], list[Var], Index]:
    """Loops over an array's elements, neighbouring axes as one where that takes no more divisions: their blocks, their
    variables and the index of each axis. emit: puts statements into the blocks, for an index; order, barrier: as of
    ``group_loops`` and ``merged_axes``."""
    @lru_cache(1)                                        # the grouping that is tried last is taken, as a rule
    def built(groups: tuple[tuple[int, ...], ...]) -> tuple[int, list[Block], list[Var], Index]:
        loops, idx = group_loops(shape, groups, prefix, order)
        blocks = chain(loops)
        return emit(idx, blocks).divisions, blocks, loops, idx
    sizes = shape if order is None else [shape[a] for a in order]
    groups = merged_axes(sizes, lambda groups: built(tuple(map(tuple, groups)))[0], barrier)
    return built(tuple(map(tuple, groups)))[1:]


class KernelPrinter:
    """What printers of one kernel share: the C names of what it reads and writes, and its function."""

    def __init__(self, k: Kernel, name: str):
        self.k, self.name = k, name
        self.args, self.names = pointer_names(k)
        self.reads = {n: p for n, p in self.names.items() if n not in k.stores}
        self.extra = {n: self.names[n] for n in k.extra}

    def kernel(self, body: Sequence[Stmt], vectors: bool = False) -> Printed:
        """The kernel of these statements."""
        return Printed(self.name, function(self.name, self.args, len(self.k.stores), body), self.args, self.k.kind,
                       vectors=vectors)


def group_loops(extents: Sequence[int], groups: Sequence[Sequence[int]], prefix: str = "i",
                order: Sequence[int] | None = None) -> tuple[list[Var], Index]:
    """Loop variables of axis groups, and the index of each axis. order: the axes as groups count them."""
    idx: list[Ix] = [Ix()] * len(extents)
    loops, axes = [], range(len(extents)) if order is None else order
    for g in groups:
        sizes = [extents[axes[a]] for a in g]
        v = Var(f"{prefix}{g[0]}", math.prod(sizes))
        loops.append(v)
        for a, x in zip(g, unlinear(var(v), sizes)):
            idx[axes[a]] = x
    return loops, tuple(idx)


def rows_first(k: Kernel) -> tuple[list[int], int]:
    """The axes of a kernel's result, those of rows before the others, and how many these are."""
    first = [a for a, v in enumerate(k.loops) if v in (k.rows or ())] if k.hoisted else []
    return first + [a for a in range(k.root.ndim) if a not in first], len(first)


def close(blocks: list[Block], loops: Sequence[Var], pragma: Pragma, columns: bool = False) -> list[Stmt]:
    """Statements of nested blocks with their loops around them. columns: the iterations of the innermost loop are done
    beside each other, if they can be."""
    body = blocks[-1].body
    for depth in reversed(range(len(loops))):
        beside = side_by_side(loops[depth], body) if columns and depth == len(loops) - 1 else None
        head = pragma(depth, [beside] if beside else body)
        body = [*blocks[depth].body, replace(beside, pragma=head) if beside else loop(loops[depth], body, head)]
    return body


def crosses(k: Kernel, loops: Sequence[Var], idx: Sequence[Ix]) -> bool:
    """Whether a large array is read across (neighbours of it in turns of the last loop but one) in more cache lines
    than stay near, or in lines that take one another's place. idx: the result's index by axis.
    """
    if k.kind != "elementwise" or len(loops) < 2 or hint(loops[-2].extent) < TALL or hint(loops[-1].extent) < WIDE:
        return False
    for n, uses in k.reads.items():
        for at in (linear(n.shape, rename(u.idx, k.loops, idx)) for u in uses if hint(n.nbytes) >= NEAR):
            step = coefficient(at, loops[-1])
            if step and coefficient(at, loops[-2]) == 1 and (hint(loops[-1].extent) > LINES
                                                             or hint(step) * n.dtype.itemsize % 2048 == 0):
                return True
    return False


def planes(k: Kernel, loops: Sequence[Var], idx: Sequence[Ix]) -> bool:
    """Whether the last loop goes over a few planes of a large array, as where a picture's channels become the last
    axis: neighbours of an array are turns of the loop before."""
    if k.kind != "elementwise" or len(loops) < 2 or not fixed(loops[-1].extent):
        return False
    at = [linear(n.shape, rename(u.idx, k.loops, idx)) for n, uses in k.reads.items() for u in uses]
    return 1 < loops[-1].extent <= PLANES and hint(loops[-2].extent) >= TALL and any(
        coefficient(i, loops[-2]) == 1 and coefficient(i, loops[-1]) not in (None, 0, 1) for i in at)


def close_planes(blocks: list[Block], loops: Sequence[Var], pragma: Pragma) -> list[Stmt]:
    """As ``close``, with the turns of the last loop one after another in the loop before. pragma: of the loops but the
    last."""
    last = loops[-1]
    blocks[-2].body += [Scope((Let("long", Name(last.name), Literal(str(q)), True), *blocks[-1].body))
                        for q in range(last.extent)]
    return close(blocks[:-1], loops[:-1], pragma)


def close_blocks(blocks: list[Block], loops: Sequence[Var], pragma: Pragma) -> list[Stmt]:
    """As ``close``, the two innermost loops in blocks: a cache line that is read across serves one side of a block."""
    u, v = loops[-2:]
    depth = len(loops) - 1

    def steps(x: Var, size: int, body: Sequence[Stmt], head: str = "") -> For:
        return For(f"{x.name}_b", Ix(), Ix(x.extent), tuple(body), size, head)

    def part(x: Var, size: int, body: Sequence[Stmt], head: str = "") -> For:
        first = Name(f"{x.name}_b")
        form = f"{{0}} + {size}"
        last = Op(form if x.extent % size == 0 else f"({form} < {x.extent} ? {form} : {x.extent})", (first,))
        return For(x.name, first, last, tuple(body), 1, head)
    tile = part(u, TALL, [*blocks[depth].body, part(v, WIDE, blocks[-1].body, pragma(depth, blocks[-1].body))])
    inner = steps(v, WIDE, [tile])
    blocks[depth - 1].body.append(steps(u, TALL, [inner], pragma(depth - 1, [inner])))
    return close(blocks[:depth], loops[:depth - 1], pragma)


def work_of(k: Kernel) -> int:
    """Rough additions a kernel does."""
    n = max((hint(m.size) if m.prim != "dot" else hint(m.size) * hint(m.args[0].size) // max(_free_size(m), 1)
             for m in k.members), default=0)
    n = max([n] + [hint(m.args[0].size) for m in k.members if m.prim in ("reduce", "argreduce")])
    return n * (2 + len(k.members) // 2)


def _free_size(dot: Node) -> int:
    (ca, _), _ = dot.attrs["contract"], dot.attrs["batch"]
    a = dot.args[0]
    return hint(math.prod(a.shape[i] for i in range(a.ndim) if i not in ca))


def loop_pragma(loops: Sequence[Var], work: int, team: bool = False) -> Pragma:
    """Where threads and vector lanes go: the outermost loop, the innermost loop. team: whether all threads are here
    already."""
    count = math.prod(v.extent for v in loops)

    def choose(depth: int, body: Sequence[Stmt]) -> str:
        parallel = depth == 0 and (team or work >= PARALLEL_WORK) and loops[0].extent > 1
        simd = (depth == len(loops) - 1 and hint(loops[depth].extent) >= 4
                and not any(isinstance(s, For) and s.pragma for s in walk(body)))
        if parallel and team:
            return f"#pragma omp for{' simd' if simd else ''} schedule(static) nowait"
        if parallel or not team and depth == 0 and not fixed(count) and work > 0:
            pragma = f"#pragma omp parallel for{' simd' if simd else ''} schedule(static) num_threads(hy_threads)"
            return where_it_pays(pragma, count, work, PARALLEL_WORK)
        return "#pragma omp simd" if simd else ""
    return choose


def down_columns(k: Kernel, loops: Sequence[Var], idx: Sequence[Ix], body: Sequence[Stmt]) -> bool:
    """Whether a reduction's results are neighbours where they are read, and its loop goes from row to row."""
    if (k.kind != "reduction" or not loops or hint(loops[-1].extent) < WIDE
            or not any(isinstance(s, For) for s in walk(body))):
        return False
    steps = [(coefficient(at, loops[-1]), [coefficient(at, v) for v in u.inside])
             for n, uses in k.reads.items() for u in uses if u.inside
             for at in [linear(n.shape, rename(u.idx, k.loops, idx))]]
    return any(step == 1 for step, _ in steps) and all(1 not in inside for _, inside in steps)


def side_by_side(v: Var, body: Sequence[Stmt]) -> For | None:
    """The iterations of an innermost loop with loops in it, ``COLUMNS`` of them beside each other in each iteration of
    those: what lives from one loop to another is kept in small arrays. None where a statement is of another form.
    """
    runs: list[list[Stmt]] = []
    try:
        tree = _runs(body, runs)
        using = [set().union(*map(used, run)) for run in runs]
    except Unstructured:
        return None
    made = {s.name: (i, s.type) for i, run in enumerate(runs) for s in run if isinstance(s, Let)}
    kept: dict[str, str] = {name: kind for name, (at, kind) in made.items()
            if any(name in names for i, names in enumerate(using) if i != at)}
    count, base = Name(f"{v.name}_n"), Name(f"{v.name}_b")
    left = Op(f"{v.extent} - {{0}} < {COLUMNS} ? {v.extent} - {{0}} : {COLUMNS}", (base,))
    arrays = [Local(kind, Name(name), COLUMNS) for name, kind in kept.items()]
    beside = _beside(v, tree, [_kept(run, kept, f"{v.name}_j") for run in runs])
    return For(base, Ix(), Ix(v.extent), (Let("long", count, left, True), *arrays, *beside), COLUMNS)


Tree = list["int | tuple[For, Tree]"]            # numbers of runs of statements, and loops around such


def _runs(body: Sequence[Stmt], runs: list[list[Stmt]]) -> Tree:
    """Statements as runs between loops."""
    tree: Tree = []
    for s in body:
        if isinstance(s, For):
            tree.append((s, _runs(s.body, runs)))
        elif isinstance(s, (Let, Assign, Store, When)):
            if not tree or not isinstance(tree[-1], int):
                tree.append(len(runs))
                runs.append([])
            runs[-1].append(s)
        else:
            raise Unstructured(str(s))
    return tree


def _kept(run: Sequence[Stmt], kept: Mapping[str, str], at: str) -> list[Stmt]:
    """A run whose kept names are elements of arrays."""
    names = {n: f"{n}[{at}]" for n in kept}
    new = (renamed(s, names) for s in run)
    return [Assign(t.name, t.value) if isinstance(s, Let) and isinstance(t, Let) and s.name in kept else t
            for s, t in zip(run, new)]


def _beside(v: Var, tree: Tree, runs: Sequence[Sequence[Stmt]]) -> list[Stmt]:
    """The loops again, each run with a loop over the iterations that are beside each other."""
    j, n = f"{v.name}_j", Name(f"{v.name}_n")
    here = Let("long", Name(v.name), Op("{0} + {1}", (Name(f"{v.name}_b"), Name(j))), True)
    return [replace(part[0], body=tuple(_beside(v, part[1], runs)), pragma="") if isinstance(part, tuple)
            else For(j, Ix(), n, (here, *runs[part]), 1, "#pragma omp simd") for part in tree]


def rename(at: Index, old: Sequence[Var], new: Sequence[Ix]) -> Index:
    """An index in a kernel's loop variables, in those that are printed."""
    names = dict(zip(old, new))
    return tuple(substitute(i, names) for i in at)


def store_side(e: Emitter, n: Node, at: Index, pointer: str, blocks: list[Block]) -> None:
    """Compute and store a side result in the outermost block that has its index."""
    e.put(pointer, n, at, e.home(at, (), blocks[-1]))
