"""What printers of a kernel around one product or reduction share: its parts, the C names of what it reads and writes,
and what follows the sums."""
from __future__ import annotations

from typing import Iterable, Sequence

from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Val, Var
from hybrid.ir.kernel import Kernel
from hybrid.ir.stmt import Name, Stmt

from hybrid.codegen.block import Level, within_levels
from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Block, Emitter
from hybrid.codegen.lanes import F32, iterations
from hybrid.codegen.loops import KernelPrinter, Printed
from hybrid.codegen.nest import statements
from hybrid.codegen.program.size_parameters import more_declared
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.vector import VectorEmitter
from hybrid.codegen.vector_forms import one_plus


class Anchored(KernelPrinter):
    """A printer of one kernel. dot: its product, convolution or reduction."""

    def __init__(self, k: Kernel, dot: Node | None, name: str, target: Target):
        assert dot is not None
        super().__init__(k, name)
        self.dot, self.target = dot, target
        self.lanes = target.lanes(F32)
        self.pointers = ", ".join(f"{'' if i < len(k.stores) else 'const '}{C.storage(n.dtype)} *p{i}"
                                  for i, n in enumerate(self.args))
        self.passed = ", ".join(f"p{i}" for i in range(len(self.args)))
        self.scratch = 0
        self.outside: list[Stmt] | None = None             # where results leave what no loop changes

    def head(self) -> str:
        """The head of the kernel's function."""
        return f"static void {self.name}({self.pointers}, void *scratch{more_declared()}) {{"

    def emitter(self, lane: Var) -> VectorEmitter:
        """What computes the kernel's root from a vector of sums, which is named ``sum@``."""
        e = VectorEmitter(C, self.reads, given={self.dot: lambda idx: Name("sum@")}, extra=self.extra, count=3000,
                          width=self.lanes, lanes={lane}, one_plus=one_plus(self.k))
        e.kind["sum@"] = "v"
        return e

    def store_root(self, e: Emitter, at: Index, block: Block) -> None:
        """Computes the root at an index, and stores it, in a block and those around it."""
        e.put(self.names[self.k.root], self.k.root, at, block)

    def results(self, at: Index, levels: Sequence[Level], lane: Var, sums: str,
                known: Iterable[Var | Val], fetches: Sequence[Stmt] = ()) -> list[Stmt]:
        """Loops that compute the root at an index from vectors of sums and store it. levels, known: as of
        ``within_levels``, for the loops around those of the lane variable; sums: the C expression of a vector;
        fetches: statements before each vector."""
        e = self.emitter(lane)
        first = [*fetches, f"const hy_v sum@ = {sums};"]
        vectors: Level = [lane], lambda body: iterations(lane, [*first, *body], self.lanes, 1)
        return within_levels(known, [*levels, vectors], lambda block: self.store_root(e, at, block), self.outside)

    def printed(self, code: Sequence[Stmt], kind: str = "convolution") -> Printed:
        """The kernel of these statements, or lines of text."""
        return Printed(self.name, statements(code), self.args, kind, self.scratch, True, vectors=True)
