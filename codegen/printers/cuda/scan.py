"""Loops over time in CUDA: the launches of the body's kernels, step after step, with the pointers of each step.

A loop whose number of steps is known only on the device launches all of them; a flag a step says whether its kernels do
anything. A stretch of a stacked array that kernels could not read in whole vectors is copied to where they can.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Callable, Iterable, Sequence

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel
from hybrid.ir.parse import parse, words
from hybrid.ir.scan import STEPS
from hybrid.ir.stmt import Code, Function, Stmt, text_of

from .pieces import BARRIER, SCRATCH, THREADS, TICKETS, Argument, At, Launch, PrintedCuda
from .resident import print_resident
from hybrid.codegen.printers.rows.scan import Loop
from hybrid.codegen.schedule.choose import first_that_fits

VECTOR = 16                     # bytes: kernels move whole vectors from such boundaries


def print_loop(k: Kernel, name: str, print_kernel: Callable[[Kernel, str], PrintedCuda]) -> PrintedCuda:
    """A loop kernel. print_kernel: prints a kernel of its body under a name."""
    return first_that_fits(k, [("one launch, matrices in registers", print_resident),
                               ("launches of each step", lambda *_: _CudaLoop(k, name, print_kernel).printed())], name)


class _CudaLoop(Loop):
    def __init__(self, k: Kernel, name: str, print_kernel: Callable[[Kernel, str], PrintedCuda]):
        super().__init__(k)
        self.name = name
        self.parts = [print_kernel(inner, f"{name}_{inner.number}") for inner in k.inner.fused.kernels
                      if inner.root.size]
        self.launches: list[Launch] = []
        self.helpers: dict[str, str] = {}
        self.spots: dict[Node, int] = {}
        self.arena = self.take(self.plan.memory.arena)
        self.work = self.take(max((p.scratch for p in self.parts), default=0))
        self.flags = self.take(4 * (self.length + 1)) if self.dynamic else 0
        sizes = [leaf.nbytes for leaf in self.body.inputs[:self.carries]]
        self.buffers = [(self.take(n), self.take(n)) for n in sizes]
        self.aligned = {j: self.take(leaf.nbytes) for j, leaf in enumerate(self.body.inputs)
                        if self.carries <= j < self.carries + self.slices and leaf.nbytes % VECTOR}

    # ---- places
    def _at(self, n: Node, offset: int = 0) -> At:
        return At(n, offset)

    def _own(self, offset: int) -> At:
        return At(SCRATCH, offset)

    def _spot(self, n: Node) -> At:
        if n not in self.spots:
            self.spots[n] = self.take(n.nbytes)
        return self._own(self.spots[n])

    def _place(self, n: Node, now: Sequence[At], t: int) -> At:
        """Where a value of the body lies in step t. now: the places of the carried values."""
        slot = self.leaf(n)
        if slot is not None:
            if slot < self.carries:
                return now[slot]
            if slot in self.aligned:
                return self._own(self.aligned[slot])
            return self._at(self.arg(slot), t * n.nbytes if slot < self.carries + self.slices else 0)
        if n.prim == "data":
            return self._at(n)
        stack = self._direct(n)
        if stack is not None:
            return self._at(self.items[self.carries + stack], t * n.nbytes)
        if n in self.results:
            return self._next_place(n, now) or self._spot(n)
        return self._own(self.arena + self.plan.memory.offsets[n])

    def _direct(self, n: Node) -> int | None:
        """The stacked result into which kernels write a value at once."""
        return None if n.nbytes % VECTOR else self.stack_of(n)

    def _next_place(self, n: Node, now: Sequence[At]) -> At | None:
        """The free one of the two places of the carried value that n becomes."""
        if n not in self.next:
            return None
        i = self.next.index(n)
        return self._free(i, now)

    def _free(self, i: int, now: Sequence[At]) -> At:
        first, second = (self._own(o) for o in self.buffers[i])
        return second if now[i] == first else first

    # ---- launches
    def _launch(self, helper: str, blocks: int, args: Sequence[At], threads: int = THREADS) -> None:
        self.launches.append(Launch(helper, blocks, threads, list(args)))

    def _copy(self, to: At, source: At, nbytes: int, live: At | None = None) -> None:
        if to == source or not nbytes:
            return
        width = math.gcd(nbytes, 4)
        count, kind = nbytes // width, {4: "int", 2: "short", 1: "char"}[width]
        name = f"{self.name}_{'take' if live else 'copy'}{nbytes}"
        flag = "const int *live, " if live else ""
        guard = "*live && " if live else ""
        self.helpers[name] = (f'extern "C" __global__ void __launch_bounds__({THREADS}) {name}({flag}{kind} *to, '
                              f'const {kind} *from) {{\n'
                              f"  long long i = blockIdx.x * {THREADS}ll + threadIdx.x;\n  if ({guard}i < {count}) "
                              f"to[i] = from[i];\n}}")
        self._launch(name, -(-count // THREADS), [*([live] if live else []), to, source])

    def _fill(self, to: At, nbytes: int) -> None:
        name = f"{self.name}_zero{nbytes}"
        self.helpers[name] = (f'extern "C" __global__ void __launch_bounds__({THREADS}) {name}(char *to) {{\n'
                              f"  long long i = blockIdx.x * {THREADS}ll + threadIdx.x;\n  if (i < {nbytes}) to[i] = "
                              f"0;\n}}")
        if nbytes:
            self._launch(name, -(-nbytes // THREADS), [to])

    def _one(self, what: str, parameters: str, body: str, args: Sequence[At]) -> None:
        """A launch of one thread."""
        name = f"{self.name}_{what}"
        self.helpers[name] = (f'extern "C" __global__ void __launch_bounds__(32) {name}({parameters}) {{\n  if '
                              f'(threadIdx.x) return;\n  {body}\n}}')
        self._launch(name, 1, args, 32)

    def _step(self, now: list[At], s: int) -> list[At]:
        """The launches of a step; the places of the carried values after it."""
        t = self.length - 1 - s if self.reverse else s
        live = self._own(self.flags + 4 * s) if self.dynamic else None
        for j, spot in self.aligned.items():
            n = self.body.inputs[j]
            self._copy(self._own(spot), self._at(self.arg(j), t * n.nbytes), n.nbytes)
        for p in self.parts:
            for launch in p.launches:
                args = [self._own(self.work) if a is SCRATCH else self._inner(a, now, t) for a in launch.args]
                self.launches.append(replace(launch, args=[*([live] if live else []), *args]))
        for j, n in enumerate(self.stacks):
            if self.carries + j in self.items and self._direct(n) != j:
                self._copy(self._at(self.items[self.carries + j], t * n.nbytes), self._place(n, now, t), n.nbytes, live)
        after = self._moved(now, t, live)
        if self.flag is not None:
            self._one("stop", "int *live, const unsigned char *go", "live[1] = live[1] && live[0] && *go;",
                      [live, self._place(self.flag, now, t)])  # type: ignore[list-item]
        return after

    def _inner(self, a: object, now: Sequence[At], t: int) -> Argument:
        if a is BARRIER or a is TICKETS:
            return a                                            # type: ignore[return-value]
        if isinstance(a, At):                                   # of a loop within the loop
            if a.base is SCRATCH:
                return self._own(self.work + a.offset)
            found = self._place(a.base, now, t)                 # type: ignore[arg-type]
            return At(found.base, found.offset + a.offset)
        return self._place(a, now, t)                           # type: ignore[arg-type]

    def _moved(self, now: Sequence[At], t: int, live: At | None) -> list[At]:
        """New places of the carried values: where the step wrote them; those they had, to which new values are copied,
        where a flag tells whether the step was done."""
        after = []
        for i, n in enumerate(self.next):
            slot = self.leaf(n)
            place = self._place(n, now, t)
            # it is written again two steps later, or in the next step
            if slot is not None and slot < self.carries and slot != i or live is None and slot in self.aligned:
                self._copy(self._free(i, now), place, n.nbytes, live)
                place = self._free(i, now)
            after.append(place)
        if live is None:
            return after
        for i, (n, place) in enumerate(zip(self.next, after)):
            self._copy(now[i], place, n.nbytes, live)
        return list(now)

    def printed(self) -> PrintedCuda:
        """Text and launches of the whole loop."""
        now = [self._at(self.arg(i)) for i in range(self.carries)]
        if self.dynamic:
            now = self._begin(now)
        for s in range(self.length):
            now = self._step(now, s)
        self._end(now)
        sources = [text_of(guarded(parse(p.source), f"live_{self.name}")) if self.dynamic else p.source
                   for p in self.parts]
        return PrintedCuda("\n".join([*self.helpers.values(), *sources]), self.launches, self.scratch,
                           max((p.tickets for p in self.parts), default=0))

    def _begin(self, now: list[At]) -> list[At]:
        """Flags of the steps, first values in places that stay, zeros where perhaps no step writes."""
        t = f"{self.length} - 1 - s" if self.reverse else "s"
        given = [self._at(self.arg(len(self.body.inputs)))] if self.count is not None else []
        self._one("begin", f"int *live{', const long long *count' if given else ''}",
                  f"for (int s = 0; s <= {self.length}; s++) live[s] = s < "
                  f"{self.length}{f' && {t} < *count' if given else ''};", [self._own(self.flags), *given])
        places = [self._own(first) for first, _ in self.buffers]
        for i, (place, begin) in enumerate(zip(places, now)):
            self._copy(place, begin, self.body.inputs[i].nbytes)
        for index, n in self.items.items():
            if index >= self.carries:
                self._fill(self._at(n), n.nbytes)
        return places

    def _end(self, now: Sequence[At]) -> None:
        for index, n in self.items.items():
            if 0 <= index < self.carries:
                self._copy(self._at(n), now[index], n.nbytes)
            elif index == STEPS and self.dynamic:
                self._one("steps", "const int *live, long long *steps",
                          f"long long n = 0; for (int s = 0; s < {self.length}; s++) n += live[s]; *steps = n;",
                          [self._own(self.flags), self._at(n)])
            elif index == STEPS:
                self._one("steps", "long long *steps", f"*steps = {self.length};", [self._at(n)])


def guarded(code: Iterable[Stmt], flag: str) -> list[Stmt]:
    """Kernels that do nothing where a flag, their first argument, is 0."""
    check = Code(words(f"if (!*{flag}) return;"))
    return [replace(s, parameters=words(f"const int *{flag}{', ' if s.parameters else ''}") + s.parameters,
                    body=(check, *s.body)) if isinstance(s, Function) and "__global__" in s.before else s for s in code]
