"""Loops over time in C: the kernels of the body are functions, called step after step with pointers to each step's
values.

A carried value goes back and forth between two places, so that a step may read the old one while it writes the new one;
one of the two is the result's own memory, where the last step writes.
"""
from __future__ import annotations

import functools
from typing import Callable

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel, every, strip_reshape
from hybrid.ir.scan import STEPS, count_of, stacked
from hybrid.ir.size import greater, smaller

from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.program.size_parameters import literal, more_passed
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.loops import Printed, pointer_names, signature, work_of

ALIGN = 64
PARTS = 8                       # of the steps of a loop that carries nothing, for threads: each with values of its own
PARALLEL_WORK = 1 << 19         # additions of a step from which threads do different steps


def _rounded(n: int) -> int:
    return -(-max(n, 1) // ALIGN) * ALIGN


class Loop:
    """Where the values of a loop lie: what every target asks of a loop kernel."""

    def __init__(self, k: Kernel):
        a = k.root.attrs
        self.kernel, self.loop, self.plan = k, k.root, k.inner
        self.body = k.inner.fused.program
        self.length, self.carries, self.slices = a["length"], a["carries"], a["slices"]
        self.reverse, self.stops, self.count = a["reverse"], a["stops"], count_of(k.root)
        self.dynamic = self.stops or self.count is not None
        stored = [n for n, _ in k.inner.fused.results]
        self.next = stored[:self.carries]                       # stored value (or leaf) of each new carried value
        self.flag = stored[self.carries] if self.stops else None
        self.stacks = stored[self.carries + self.stops:]
        self.items = {n.attrs["index"]: n for n in k.extra}
        self.results = set(stored)
        self.scratch = 0

    def take(self, nbytes: int) -> int:
        """An offset in the kernel's working memory."""
        at, self.scratch = self.scratch, self.scratch + _rounded(nbytes)
        return at

    def arg(self, i: int) -> Node:
        """The stored value of an argument."""
        return strip_reshape(self.loop.args[i])

    def leaf(self, n: Node) -> int | None:
        """Number of a body's input, None for what the body computes."""
        return n.attrs["slot"] if n.prim == "input" else None

    def stack_of(self, n: Node) -> int | None:
        """The stacked result into which a value is written at once."""
        return (self.stacks.index(n) if n in self.stacks and self.leaf(n) is None
                and self.carries + self.stacks.index(n) in self.items else None)


class _CLoop(Loop):
    """Prints a loop."""

    def __init__(self, k: Kernel, name: str, target: Target, print_kernel: Callable[..., Printed]):
        super().__init__(k)
        self.name = name
        self.args, self.names = pointer_names(k)
        self.parts = [print_kernel(inner, f"{name}_{inner.number}", target) for inner in k.inner.fused.kernels
                      if inner.root.size]
        self.spots: dict[Node, int] = {}
        # computed value -> the carried value whose two places it takes
        self.owner: dict[Node, int] = {}
        for i, n in enumerate(self.next):
            if self.leaf(n) is None and n.prim != "data" and self.stack_of(n) is None:
                self.owner.setdefault(n, i)

    # ---- places
    def pointer(self, n: Node) -> str:
        """C text of the address of a value of the body in this step."""
        slot = self.leaf(n)
        if slot is not None:
            return (f"c{slot}" if slot < self.carries else f"x{slot}" if slot < self.carries + self.slices
                    else self.names[self.arg(slot)])
        if n in self.names:                                     # an embedded constant
            return self.names[n]
        stack = self.stack_of(n)
        if stack is not None:
            return f"y{stack}"
        if n in self.owner:
            return f"n{self.owner[n]}"
        if n in self.results:                                   # the condition, or what only a copy is made of
            return f"HY_ANY(arena + {self._spot(n)})"
        return f"HY_ANY(arena + {self.arena + self.plan.memory.offsets[n]})"

    def _spot(self, n: Node) -> int:
        if n not in self.spots:
            self.spots[n] = self.take(n.nbytes)
        return self.spots[n]

    def source(self) -> str:
        """The text: the body's functions, then the loop."""
        self.arena = self.take(self.plan.memory.arena)
        calls = []
        inner = functools.reduce(greater, (p.scratch for p in self.parts), 0)
        self.work = self.take(inner)
        for p in self.parts:
            given = [self.pointer(n) for n in p.args] + ([f"HY_ANY(arena + {self.work})"] if p.takes_scratch else [])
            calls.append(f"{p.name}({', '.join(given)}{more_passed()});")
        head = signature(self.name, self.args, len(self.kernel.stores), "char *scratch")
        body = self._in_parts(calls) if self._apart() else ["char *arena = scratch;", *self._begin(),
                                                            *self._loop(calls), *self._end()]
        return "\n".join([*(p.source for p in self.parts), head, *body, "}"])

    def _apart(self) -> bool:
        """Whether threads may do different steps: none needs another one, and there is enough to do in each."""
        work = sum(work_of(k) for k in every(self.plan.fused.kernels) if k.kind != "loop")
        return (not self.carries and not self.dynamic and self.length > 1 and STEPS not in self.items
                and work >= PARALLEL_WORK)

    def _in_parts(self, calls: list[str]) -> list[str]:
        """The steps in as many parts as there is memory for."""
        loop = self._loop(calls, "end")
        size, parts = self.scratch, smaller(self.length, PARTS)
        self.scratch = size * parts
        return [self._steps(), f"const long parts = hy_threads > 1 ? {parts} : 1;", PARALLEL,
                "for (long u = 0; u < parts; u++) {", f"  char *arena = scratch + u * {literal(size)};",
                "  long s = u * n / parts; const long end = (u + 1) * n / parts;",
                *loop, "}"]

    # ---- statements
    def _steps(self) -> str:
        if self.count is None:
            return f"const long n = {self.length};"
        given = f"{self.names[strip_reshape(self.count)]}[0]"
        return f"const long n = {given} < 0 ? 0 : {given} > {self.length} ? {self.length} : {given};"

    def _begin(self) -> list[str]:
        out = [self._steps()]
        for i in range(self.carries):
            leaf = self.body.inputs[i]
            T = C.storage(leaf.dtype)
            last = self.names[self.items[i]] if i in self.items else f"({T} *)(arena + {self.take(leaf.nbytes)})"
            out.append(f"{T} *a{i} = ({T} *)(arena + {self.take(leaf.nbytes)}), *b{i} = {last}; const {T} *c{i} = "
                       f"{self.names[self.arg(i)]};")
        return [*out, "long s = 0;"]

    def _loop(self, calls: list[str], end: str = "n") -> list[str]:
        out = [f"for (; s < {end}; s++) {{", f"  const long t = {'n - 1 - s' if self.reverse else 's'};"]
        for j in range(self.carries, self.carries + self.slices):
            leaf = self.body.inputs[j]
            out.append(f"  const {C.storage(leaf.dtype)} *x{j} = {self.names[self.arg(j)]} + t * {literal(leaf.size)};")
        for j, n in enumerate(self.stacks):
            if self.carries + j in self.items:
                out.append(f"  {C.storage(n.dtype)} *y{j} = {self.names[self.items[self.carries + j]]} + t * {literal(n.size)};")  # noqa: E501
        for i in range(self.carries):
            out.append(f"  {C.storage(self.body.inputs[i].dtype)} *n{i} = (n - 1 - s) & 1 ? a{i} : b{i};")
        out += ["  " + line for line in calls]
        out += [f"  __builtin_memcpy(y{j}, {self.pointer(n)}, {n.nbytes});" for j, n in enumerate(self.stacks)
                if self.carries + j in self.items and self.stack_of(n) != j]
        copied, moved = self._moves()
        out += ["  " + line for line in [*copied, *moved]]
        if self.flag is not None:
            out.append(f"  if (!*(const unsigned char *){self.pointer(self.flag)}) {{ s++; break; }}")
        return [*out, "}"]

    def _moves(self) -> tuple[list[str], list[str]]:
        """Copies of carried values that take another's place, and the new pointers."""
        copied, moved = [], []
        for i, n in enumerate(self.next):
            slot = self.leaf(n)
            if slot == i:
                continue
            if slot is not None and slot < self.carries:        # its place is written again two steps later
                copied.append(f"__builtin_memcpy(n{i}, {self.pointer(n)}, {n.nbytes});")
                moved.append(f"c{i} = n{i};")
            else:
                moved.append(f"c{i} = {self.pointer(n)};")
        return copied, moved

    def _end(self) -> list[str]:
        out = []
        for index, n in self.items.items():
            p = self.names[n]
            if index == STEPS:
                out.append(f"*{p} = s;")
            elif index < self.carries:
                out.append(f"if ((const void *)c{index} != (const void *){p}) __builtin_memcpy({p}, c{index}, "
                           f"{n.nbytes});")
            elif self.dynamic:
                row = literal(n.nbytes // max(self.length, 1))
                out.append(f"__builtin_memset((char *){p} + s * {row}, 0, ({self.length} - s) * {row});")
        return out


def print_c(k: Kernel, name: str, target: Target, print_kernel: Callable[..., Printed]) -> Printed:
    """A loop kernel. print_kernel: prints a kernel of its body under a name."""
    loop = _CLoop(k, name, target, print_kernel)
    source = loop.source()
    return Printed(name, source, loop.args, "loop", loop.scratch, True, any(p.vectors for p in loop.parts))


__all__ = ["Loop", "every", "print_c", "stacked"]
