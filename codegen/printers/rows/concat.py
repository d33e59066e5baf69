"""Concatenation in C: line by line, every part of a line after the other. Parts that are in memory are copied, others
computed in loops."""
from __future__ import annotations

import math
from hybrid.ir.size import hint, same
from hybrid.ir import Node
from hybrid.ir.index import Ix, Var, linear, text, var
from hybrid.ir.kernel import Kernel, strip_reshape
from hybrid.ir.stmt import For, Scope, Stmt

from hybrid.codegen.dialect import C, PARALLEL, PARALLEL_SIMD
from hybrid.codegen.block import Block, Level, chain, level, within_levels
from hybrid.codegen.emit import Emitter
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.loops import (PARALLEL_WORK, KernelPrinter, Printed, close, group_loops, loop_pragma, merged_axes)

# bytes of a line's part from which on the C library copies it: for shorter ones it takes up to five times as long as a
# loop
COPIED = 1 << 16
PIECE = 1 << 18                # bytes that are copied at once where threads share a copy


def print_concat(k: Kernel, name: str, target: Target) -> Printed:
    """C of a concatenation, the same for all targets."""
    p = _Concat(k, name)
    return p.kernel(p.body())


class _Concat(KernelPrinter):
    """outer: the loops over all axes before the one along which the parts lie; places: where each part begins."""

    def __init__(self, k: Kernel, name: str):
        super().__init__(k, name)
        self.root, self.axis = k.root, k.root.attrs["axis"]
        self.outer = [Var(f"i{a}", d) for a, d in enumerate(self.root.shape[:self.axis])]
        self.places: list[tuple[Node, int]] = []
        at = 0
        for part in self.root.args:
            if part.size:
                self.places.append((part, at))
            at += part.shape[self.axis]

    def body(self) -> list[Stmt]:
        """The statements."""
        if math.prod(v.extent for v in self.outer) == 1:
            return [s for part, at in self.places for s in self._alone(part, at)]
        parallel = hint(self.root.size) * 2 >= PARALLEL_WORK
        single = all(self._run(part) == 1 for part, _ in self.places)
        first = next(v for v in self.outer if v.extent > 1)

        def around(v: Var) -> Level:
            simd = single and v is self.outer[-1]
            return level(v, (PARALLEL_SIMD if simd else PARALLEL) if parallel and v is first
                         else "#pragma omp simd" if simd else "")

        def inner(block: Block) -> None:
            parts = [s for i, (part, at) in enumerate(self.places)
                     for s in self._copied(part, at) or self._within(part, at, block, i)]
            block.body += parts
        return within_levels((), [*map(around, self.outer)], inner)

    def _run(self, part: Node) -> int:
        """Elements of a part that are neighbours in memory."""
        return math.prod(part.shape[self.axis:])

    def _target(self, at: int) -> Ix:
        """Where a part of a line begins."""
        zero = [Ix()] * (self.root.ndim - self.axis - 1)
        return linear(self.root.shape, (*(var(v) for v in self.outer), Ix(at), *zero))

    def _stored(self, part: Node) -> str | None:
        n = strip_reshape(part)
        return self.names.get(n) if n is not self.root and n.dtype == self.root.dtype else None

    def _copied(self, part: Node, at: int) -> list[Stmt]:
        p, run, size = self._stored(part), self._run(part), self.root.dtype.itemsize
        if p is None or hint(run) * size < COPIED:
            return []
        source = linear(part.shape, (*(var(v) for v in self.outer), *[Ix()] * (part.ndim - self.axis)))
        return [f"hy_copy({self.names[self.root]} + {text(self._target(at))}, {p} + {text(source)}, {run * size});"]

    def _within(self, part: Node, at: int, around: Block, number: int) -> list[Stmt]:
        """Loops over a part of a line. around: the block of the outer loops, where stands what does not depend on the
        place within the line."""
        groups = [[a] for a in range(self.axis)] + [g for g in self._groups(part, at, self.axis) if g[0] >= self.axis]
        _, blocks, loops = self._build(part, at, groups, around, 1000 * (number + 1))
        if same(self._run(part), 1):
            return [s for b in blocks for s in b.body]
        return [Scope(tuple(close(blocks, loops[self.axis:], loop_pragma(loops[self.axis:], 0))))]

    def _groups(self, part: Node, at: int, barrier: int) -> list[list[int]]:
        """Axes that can be one loop."""
        return merged_axes(part.shape, lambda g: self._build(part, at, g)[0].divisions, barrier)

    def _build(self, part: Node, at: int, groups: list[list[int]], around: Block | None = None,
               count: int = 0) -> tuple[Emitter, list[Block], list[Var]]:
        """A part's statements, the blocks of its own loops, and all loops."""
        loops, idx = group_loops(part.shape, groups)
        e = Emitter(C, self.reads, count=count)
        blocks = chain(loops[self.axis if around else 0:], around and around.child([]))
        value = e.value(part, idx, blocks[-1])
        target = tuple(i + at if a == self.axis else i for a, i in enumerate(idx))
        blocks[-1].body.append(e.store(self.names[self.root], self.root, target, value))
        return e, blocks, loops

    def _alone(self, part: Node, at: int) -> list[Stmt]:
        """A part of a result with one line."""
        p, nbytes = self._stored(part), part.nbytes
        target = f"{self.names[self.root]} + {text(self._target(at))}"
        if p is not None and hint(nbytes) >= COPIED:
            if hint(part.size) * 2 < PARALLEL_WORK:
                return [f"hy_copy({target}, {p}, {nbytes});"]
            left = f"{nbytes} - c < {PIECE} ? {nbytes} - c : {PIECE}"
            copy = f"hy_copy((char *)({target}) + c, (const char *){p} + c, {left});"
            return [For("c", Ix(), Ix(nbytes), (copy,), PIECE, PARALLEL)]
        _, blocks, loops = self._build(part, at, self._groups(part, at, -1))
        return [Scope(tuple(close(blocks, loops, loop_pragma(loops, hint(part.size) * 2))))]
