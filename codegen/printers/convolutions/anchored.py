"""What printers of a kernel around one product or reduction share: its parts, and the C names of what it reads and
writes."""
from __future__ import annotations

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel

from hybrid.codegen.dialect import C
from hybrid.codegen.lanes import F32
from hybrid.codegen.loops import pointer_names
from hybrid.codegen.program.size_parameters import more_declared
from hybrid.codegen.schedule.tiling import Target


class Anchored:
    """A printer of one kernel. dot: its product, convolution or reduction."""

    def __init__(self, k: Kernel, dot: Node | None, name: str, target: Target):
        assert dot is not None
        self.k, self.name, self.dot, self.target = k, name, dot, target
        self.lanes = target.lanes(F32)
        self.args, self.names = pointer_names(k)
        self.reads = {n: p for n, p in self.names.items() if n not in k.stores}
        self.pointers = ", ".join(f"{'' if i < len(k.stores) else 'const '}{C.storage(n.dtype)} *p{i}" for i,
                                  n in enumerate(self.args))
        self.passed = ", ".join(f"p{i}" for i in range(len(self.args)))
        self.scratch = 0

    def head(self) -> str:
        """The head of the kernel's function."""
        return f"static void {self.name}({self.pointers}, void *scratch{more_declared()}) {{"
