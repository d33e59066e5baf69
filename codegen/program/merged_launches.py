"""Launches of few blocks in one launch: each kernel becomes a stage, a function that blocks call, and where a stage
needs what others wrote the blocks wait for each other.

Stages that need nothing of each other run side by side, in blocks of their own (*waves*). A launch has at most as many
blocks as the GPU has multiprocessors, so all of them are resident, as a barrier of the grid wants.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from hybrid.base.records import dataclass
from hybrid.ir.parse import Words, flat, parsed, substituted, words
from hybrid.ir.stmt import Function, Stmt

from hybrid.codegen.printers.cuda.many import MOST_POINTERS, choose
from hybrid.codegen.printers.cuda.pieces import BARRIER, THREADS, Argument, Launch

COUNTER = 64                    # bytes of working memory for the barrier's counter, which is 0 before the first launch
# the ``__launch_bounds__`` of a merged launch, in the order tried: threads of a block alone, with which ptxas limits
# registers; and one block a multiprocessor, as is so, with which a thread may have more of them
BOUNDS = (f"{THREADS}", f"{THREADS}, 1")
APART = len(BOUNDS)             # the number after those: launches are not merged


class Span(NamedTuple):
    """A range of bytes: the entry of the pointer table, the first byte there, and one past the last."""
    entry: int
    first: int
    end: float

    def meets(self, other: "Span") -> bool:
        """Whether they share bytes."""
        return self.entry == other.entry and self.first < other.end and other.first < self.end


@dataclass(frozen=True)
class _Stage:
    """A launch, its kernel, and what it reads and writes."""
    launch: Launch
    kernel: Function
    reads: list[Span]
    writes: list[Span]

    def waits_for(self, earlier: "_Stage") -> bool:
        """Whether it may not run beside an earlier one."""
        return any(w.meets(s) for w in earlier.writes for s in (*self.reads, *self.writes)) or any(
            w.meets(s) for w in self.writes for s in earlier.reads)


def merge_launches(code: Sequence[Stmt], launches: Sequence[Launch], processors: int, span: Callable[[Argument], Span],
                   forms: Mapping[str, int] | None = None) -> tuple[list[Stmt], list[Launch]]:
    """The module, and its launches with neighbours of few blocks merged. processors: of the GPU. span: where an
    argument lies. forms: for merged launches that do not take the first form, by name: an index of ``BOUNDS``, or
    ``APART``."""
    kernels = {s.name: s for s in code if isinstance(s, Function)}
    out: list[Launch] = []
    added: dict[str, Stmt] = {}
    first = 0
    for run in _runs(launches, processors):
        name, first = f"stages{first}", first + len(run)
        form = (forms or {}).get(name, 0)
        if len(run) == 1 or form == APART:
            out += run
            continue
        merged = _Merged(name, [_stage(launch, kernels[launch.name], span) for launch in run], processors, BOUNDS[form])
        added.update(merged.functions)
        out.append(merged.launch)
    launched = {launch.name for launch in out}
    kept = {kernel: [s for s in code if _is_kernel(s) == kernel] for kernel in (False, True)}
    return [*kept[False], *added.values(), *(s for s in kept[True] if s.name in launched)], out     # type: ignore[union-attr]


def _is_kernel(s: Stmt) -> bool:
    return isinstance(s, Function) and s.before[:1] == ("extern",)


def _runs(launches: Sequence[Launch], processors: int) -> Iterator[list[Launch]]:
    """Neighbours that can be stages of one launch."""
    run: list[Launch] = []
    pointers: set[Argument] = set()
    for launch in launches:
        small = not launch.alone and launch.blocks <= processors and launch.threads <= THREADS
        if run and not (small and len(pointers.union(launch.args)) < MOST_POINTERS):
            yield run
            run, pointers = [], set()
        if not small:
            yield [launch]
            continue
        run.append(launch)
        pointers.update(launch.args)
    if run:
        yield run


def _stage(launch: Launch, kernel: Function, span: Callable[[Argument], Span]) -> _Stage:
    reads: list[Span] = []
    writes: list[Span] = []
    for parameter, a in zip(_parameters(kernel), launch.args):
        (reads if "const" in parameter else writes).append(span(a))
    return _Stage(launch, kernel, reads, writes)


def _parameters(kernel: Function) -> list[Words]:
    out: list[list[str]] = [[]]
    for w in kernel.parameters:
        if w == ",":
            out.append([])
        else:
            out[-1].append(w)
    return [tuple(p) for p in out]


class _Merged:
    """Stages as one launch. ``functions``: for each name the functions that a kernel calls, then the kernel."""

    def __init__(self, name: str, stages: Sequence[_Stage], processors: int, bounds: str):
        self.waves = _waves(stages)
        # blocks that each wave has work for, and those of all behind it
        wanted = [min(processors, sum(s.launch.blocks for s in wave)) for wave in self.waves]
        self.alive = [max(wanted[i:]) for i in range(len(wanted))]
        self.cooperative = self.alive[0] > 1 and len(self.waves) > 1
        self.names = {a: f"a{i}" for i, a in enumerate(dict.fromkeys(a for s in stages for a in s.launch.args))}
        self.functions: dict[str, Stmt] = {}
        args = [*self.names, *([BARRIER] if self.cooperative else [])]
        body = [line for i in range(len(self.waves)) for line in self._wave(i)]
        parameters = ", ".join(f"void *{n}" for n in [*self.names.values(), *(["counter"] if self.cooperative else [])])
        head = words(f'extern "C" __global__ void __launch_bounds__({bounds}) ')
        self.functions[name] = Function(head, name, words(parameters), words(" {"), tuple(body))
        self.launch = Launch(name, self.alive[0], THREADS, args, max(s.launch.shared for s in stages),
                             cooperative=self.cooperative, waves=[[s.launch for s in wave] for wave in self.waves])

    def _wave(self, i: int) -> list[str]:
        """Statements of the stages that run side by side, and what stands between them and the next ones."""
        total, alive = sum(s.launch.blocks for s in self.waves[i]), self.alive[i]
        body = choose([(s.launch.blocks, self._call(s)) for s in self.waves[i]], 0, "v")
        again = total > alive
        step = [f"for (unsigned v = blockIdx.x; v < {total}u; v += {alive}u) {{" if again else
                f"if (const unsigned v = blockIdx.x; v < {total}u) {{", *("  " + s for s in body),
                *(["  __syncthreads();"] if again else []), "}"]
        if i + 1 == len(self.waves):
            return step
        later = self.alive[i + 1]
        if alive == 1:
            return [*step, "__syncthreads();"]
        return [*step, f"hy_grid_barrier(counter, {alive}, blockIdx.x < {later}u);",
                *([f"if (blockIdx.x >= {later}u) return;"] if later < alive else [])]

    def _call(self, s: _Stage) -> list[str]:
        """The call of a stage, by the threads that it has."""
        name, threads = f"{s.launch.name}_stage", s.launch.threads
        if name not in self.functions:
            self.functions[name] = _as_stage(s.kernel, name, threads)
        given = [f"({''.join(p[:p.index('*') + 1]).strip()}){self.names[a]}"
                 for p, a in zip(_parameters(s.kernel), s.launch.args)]
        call = f"{name}({', '.join([*given, 'hy_place{b}'])});"
        return [call if threads == THREADS else f"if (threadIdx.x < {threads}) {call}"]


def _waves(stages: Sequence[_Stage]) -> list[list[_Stage]]:
    """Stages by what they wait for."""
    level: list[int] = []
    for i, s in enumerate(stages):
        level.append(1 + max((level[j] for j in range(i) if s.waits_for(stages[j])), default=-1))
    # those of most blocks first: the last ones wait where there are more blocks than multiprocessors
    return [sorted((s for s, at in zip(stages, level) if at == n), key=lambda s: -s.launch.blocks)
            for n in range(max(level) + 1)]


def _as_stage(kernel: Function, name: str, threads: int) -> Function:
    """A kernel as a function of its block's number, whose barriers are of its own threads."""
    names = {"blockIdx": "hy_block", "__syncthreads": f"hy_sync<{threads}>",
             "hy_block_reduce": f"hy_block_reduce<{threads}>"}
    body = parsed(substituted(line, names) for line in flat(kernel.body))
    return replace(kernel, before=words("HY_STAGE void "), name=name, body=body,
                   parameters=(*kernel.parameters, *words(", const hy_place hy_block")))
