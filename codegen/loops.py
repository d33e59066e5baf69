"""Loop nests of C kernels: merged axes, nested blocks, threads and lanes; what all printers of C share."""
from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Callable, Sequence

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, coefficient, linear, substitute, unlinear, var, variables
from hybrid.ir.kernel import Kernel

from .dialect import C
from .emit import Block, Emitter, loop_nest

PARALLEL_WORK = 1 << 18        # additions (about 50 us) below which waking threads costs more than they save
TALL, WIDE = 64, 8             # turns of the last two loops that are done together where an array is read across
LINES = 256                    # cache lines that stay in a core's first cache from one turn to the next
NEAR = 1 << 16                 # bytes of an array that may be read in any order
COLUMNS = 256                  # results that are computed beside each other, their reduction going from line to line
DEFINED = re.compile(r"(?:const )?((?:(?:un)?signed )?[A-Za-z_]\w*) (\w+) = (?=.*;$)")
TEAM = "#pragma omp for schedule(static) nowait"      # a loop of which each of a team of threads does a part
SINGLE = "#pragma omp single nowait"          # what one of a team of threads does


@dataclass
class Printed:
    """A printed kernel: function name, text, the stored values it takes in order (written ones first)."""
    name: str
    source: str
    args: list[Node]
    kind: str
    scratch: int = 0               # bytes of working memory the kernel wants
    takes_scratch: bool = False
    vectors: bool = False          # whether it needs lanes.support
    numbers: tuple[str, ...] = ()  # what a shared function takes after all else (kernel_deduplication.py)


def pointer_names(k: Kernel) -> tuple[list[Node], dict[Node, str]]:
    """Arguments of a kernel and their C names: stores first, then reads."""
    args = list(dict.fromkeys([*k.stores, *k.reads]))
    return args, {n: f"p{i}" for i, n in enumerate(args)}


def signature(name: str, args: Sequence[Node], written: int) -> str:
    """Head of a kernel's function."""
    parts = [f"{'' if i < written else 'const '}{C.storage(n.dtype)} *p{i}" for i, n in enumerate(args)]
    return f"static void {name}({', '.join(parts)}) {{"


def merged_axes(extents: Sequence[int], probe: Callable[[list[list[int]]], bool], barrier: int = 0) -> list[list[int]]:
    """Groups of adjacent axes that can be one loop: tried from the inside out. No group crosses ``barrier``."""
    groups = [[i] for i in range(len(extents))]
    i = len(groups) - 2
    while i >= 0:
        if groups[i + 1][0] != barrier:
            trial = groups[:i] + [groups[i] + groups[i + 1]] + groups[i + 2:]
            if probe(trial):
                groups = trial
        i -= 1
    return groups


def group_loops(extents: Sequence[int], groups: list[list[int]], prefix: str = "i") -> tuple[list[Var], Index]:
    """Loop variables of axis groups, and the index of each axis."""
    idx: list[Ix] = [Ix()] * len(extents)
    loops = []
    for g in groups:
        v = Var(f"{prefix}{g[0]}", math.prod(extents[a] for a in g))
        loops.append(v)
        for a, x in zip(g, unlinear(var(v), [extents[a] for a in g])):
            idx[a] = x
    return loops, tuple(idx)


def chain(loops: Sequence[Var]) -> list[Block]:
    """Nested blocks, one a loop, the outermost without loops first."""
    blocks = [Block(None, frozenset())]
    for v in loops:
        blocks.append(blocks[-1].child([v]))
    return blocks


def close(blocks: list[Block], loops: Sequence[Var], pragma: Callable[[int, list[str]], str],
          columns: bool = False) -> list[str]:
    """Statements of nested blocks with their loops around them. columns: the turns of the innermost loop are done side
    by side, if they can be."""
    body = blocks[-1].lines
    for depth in reversed(range(len(loops))):
        beside = side_by_side(loops[depth], body) if columns and depth == len(loops) - 1 else None
        nest = beside or loop_nest([loops[depth]], body)
        head = pragma(depth, body)
        if beside:
            head = head.replace(" simd", "") if "parallel" in head or " for " in head else ""
        body = [*blocks[depth].lines, *([head] if head else []), *nest]
    return body


def crosses(k: Kernel, loops: Sequence[Var], idx: Sequence[Ix]) -> bool:
    """Whether a large array is read across (neighbours of it in turns of the last loop but one) in more cache lines
    than stay near, or in lines that take one another's place. idx: the result's index by axis.
    """
    if k.kind != "elementwise" or len(loops) < 2 or loops[-2].extent < TALL or loops[-1].extent < WIDE:
        return False
    for n, uses in k.reads.items():
        for at in (linear(n.shape, rename(u.idx, k.loops, idx)) for u in uses if n.nbytes >= NEAR):
            step = coefficient(at, loops[-1])
            if step and coefficient(at, loops[-2]) == 1 and (loops[-1].extent > LINES
                                                             or step * n.dtype.itemsize % 2048 == 0):
                return True
    return False


def close_blocks(blocks: list[Block], loops: Sequence[Var], pragma: Callable[[int, list[str]], str]) -> list[str]:
    """As ``close``, the two innermost loops in blocks: a cache line that is read across serves one side of a block."""
    u, v = loops[-2:]
    depth = len(loops) - 1

    def steps(x: Var, size: int, body: list[str]) -> list[str]:
        return [f"for (long {x.name}_b = 0; {x.name}_b < {x.extent}; {x.name}_b += {size}) {{",
                *("  " + line for line in body), "}"]

    def part(x: Var, size: int, body: list[str]) -> list[str]:
        end = (f"{x.name}_b + {size}" if x.extent % size == 0
               else f"({x.name}_b + {size} < {x.extent} ? {x.name}_b + {size} : {x.extent})")
        return [f"for (long {x.name} = {x.name}_b; {x.name} < {end}; {x.name}++) {{", *("  " + line for line in body),
                "}"]
    lanes = pragma(depth, blocks[-1].lines)
    block = part(u, TALL, [*blocks[depth].lines, *([lanes] if lanes else []), *part(v, WIDE, blocks[-1].lines)])
    body = steps(u, TALL, steps(v, WIDE, block))
    for outer in reversed(range(depth)):
        head = pragma(outer, body)
        nest = body if outer == depth - 1 else loop_nest([loops[outer]], body)
        body = [*blocks[outer].lines, *([head] if head else []), *nest]
    return body


def work_of(k: Kernel) -> int:
    """Rough additions a kernel does."""
    n = max((m.size if m.prim != "dot" else m.size * m.args[0].size // max(_free_size(m), 1) for m in k.members),
            default=0)
    n = max([n] + [m.args[0].size for m in k.members if m.prim in ("reduce", "argreduce")])
    return n * (2 + len(k.members) // 2)


def _free_size(dot: Node) -> int:
    (ca, _), _ = dot.attrs["contract"], dot.attrs["batch"]
    a = dot.args[0]
    return math.prod(a.shape[i] for i in range(a.ndim) if i not in ca)


def loop_pragma(loops: Sequence[Var], work: int, team: bool = False) -> Callable[[int, list[str]], str]:
    """Where threads and vector lanes go: the outermost loop, the innermost loop. team: whether all threads are here
    already."""
    def choose(depth: int, body: list[str]) -> str:
        parallel = depth == 0 and (team or work >= PARALLEL_WORK) and loops[0].extent > 1
        simd = depth == len(loops) - 1 and loops[depth].extent >= 4 and not any("#pragma" in line for line in body)
        if parallel and team:
            return f"#pragma omp for{' simd' if simd else ''} schedule(static) nowait"
        if parallel:
            return f"#pragma omp parallel for{' simd' if simd else ''} schedule(static) num_threads(hy_threads)"
        return "#pragma omp simd" if simd else ""
    return choose


def down_columns(k: Kernel, loops: Sequence[Var], idx: Sequence[Ix], body: list[str]) -> bool:
    """Whether a reduction's results are neighbours where they are read, and its loop goes from line to line."""
    if k.kind != "reduction" or not loops or loops[-1].extent < WIDE or not any("for (" in line for line in body):
        return False
    steps = [(coefficient(at, loops[-1]), [coefficient(at, v) for v in u.inside]) for n,
             uses in k.reads.items() for u in uses if u.inside
             for at in [linear(n.shape, rename(u.idx, k.loops, idx))]]
    return any(step == 1 for step, _ in steps) and all(1 not in inside for _, inside in steps)


def side_by_side(v: Var, body: list[str]) -> list[str] | None:
    """The turns of an innermost loop with loops in it, ``COLUMNS`` of them beside each other in each turn of those:
    what lives from one loop to another is kept in small arrays. None where a statement is of another form.
    """
    runs: list[list[str]] = [[]]
    frame: list[str | int] = [0]                     # structure, and the numbers of runs of statements within it
    for line in body:
        text_ = line.strip()
        if text_.startswith("#pragma"):
            continue
        if text_.startswith("for (") and text_.endswith("{") or text_ == "}":
            frame += [text_, len(runs)]
            runs.append([])
        elif "for (" in text_ or text_.endswith("{") or text_.startswith(("union", "}")):
            return None
        else:
            runs[-1].append(text_)
    made = {m[2]: (i, m[1]) for i, run in enumerate(runs) for line in run if (m := DEFINED.match(line))}
    kept = {name: kind for name, (at, kind) in made.items() if any(re.search(rf"\b{name}\b", line) for i,
                                                                   run in enumerate(runs) if i != at for line in run)}
    out = [f"const long {v.name}_n = {v.extent} - {v.name}_b < {COLUMNS} ? {v.extent} - {v.name}_b : {COLUMNS};",
           *(f"{kind} {name}[{COLUMNS}];" for name, kind in kept.items())]
    for part in frame:
        if isinstance(part, str):
            out.append(part)
        elif runs[part]:
            out += ["#pragma omp simd", f"for (long {v.name}_j = 0; {v.name}_j < {v.name}_n; {v.name}_j++) {{",
                    f"  const long {v.name} = {v.name}_b + {v.name}_j;",
                    *("  " + _kept(line, kept, f"{v.name}_j") for line in runs[part]), "}"]
    return [f"for (long {v.name}_b = 0; {v.name}_b < {v.extent}; {v.name}_b += {COLUMNS}) {{",
            *("  " + line for line in out), "}"]


def _kept(line: str, kept: dict[str, str], at: str) -> str:
    found = DEFINED.match(line)
    if found and found[2] in kept:
        line = f"{found[2]} = {line[found.end():]}"
    return re.sub(r"\b[a-z]+\d+\b", lambda m: f"{m[0]}[{at}]" if m[0] in kept else m[0], line)


def rename(at: Index, old: Sequence[Var], new: Sequence[Ix]) -> Index:
    """An index in a kernel's loop variables, in those that are printed."""
    names = dict(zip(old, new))
    return tuple(substitute(i, names) for i in at)


def store_side(e: Emitter, n: Node, at: Index, pointer: str, blocks: list[Block]) -> None:
    """Compute and store a side result in the outermost block that has its index."""
    needed = {v for i in at for v in variables(i)}
    block = next(b for b in blocks if needed <= b.vars)
    block.lines.append(e.store(pointer, n, at, e.value(n, at, block)))
