"""Rows in registers: each element of a row is read and computed once, by the thread that needs it in every pass over
the row."""
from __future__ import annotations

from dataclasses import field
from typing import Callable, Iterator, Sequence

from hybrid.base.records import dataclass
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.index import Ix, Var, unlinear
from hybrid.ir.kernel import Kernel

from .pieces import CudaEmitter, joined, widths
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.reductions import reduced_index

MOST = 32                       # elements of a row that a thread keeps

Body = Callable[[Block, dict[Var, Ix], str], None]


@dataclass
class Kept:
    """Values of a row of ``total`` elements, ``lanes`` neighbours a turn in each of ``width`` threads.

    Every pass gives the same elements to the same thread. What a reduction is of stays in an array of registers, and
    later passes find it among the values that are known.
    """
    total: int
    width: int
    lanes: int
    cells: list[tuple[Node, Index, Ix, str]] = field(default_factory=list)     # node, its index, the position in it
    used: int = 0

    @classmethod
    def choices(cls, k: Kernel, rest: Sequence[Var], width: int) -> Iterator["Kept | None"]:
        """Ways to keep a kernel's rows, most neighbours first; None at the end: rows that are read in each pass."""
        total = rest[0].extent if len(rest) == 1 else 0
        again = [n for n in k.hoisted if n.prim == "reduce"]
        if total and again and len(again) == len(k.hoisted) and total <= MOST * width:
            items = [n.dtype.itemsize for n in (*k.reads, k.root)]
            for lanes in [*(w for w in widths(total, *items) if total // w >= width), 1]:
                yield cls(total, width, lanes)
        yield None

    @property
    def turns(self) -> int:
        """Turns of a pass."""
        return -(-self.total // (self.lanes * self.width))

    def takes(self, n: Node) -> bool:
        """Whether a reduction is a pass over the row."""
        x, axes = n.args[0], n.attrs["axes"]
        return len(axes) == 1 and x.shape[axes[0]] == self.total

    def declared(self) -> list[str]:
        """The arrays."""
        return [f"{CUDA.compute(n.dtype)} {name}[{self.turns}][{self.lanes}];" for n, _, _, name in self.cells]

    def loop(self, e: CudaEmitter, outer: Block, vs: Sequence[Var], body: Body) -> list[str]:
        """A pass over the row."""
        lane, counter, turn = Var(e.name("j"), self.lanes), e.name("q"), e.name("i")
        q, at = joined(counter, vs, lane)
        middle = outer.child([q])
        inner = middle.child([lane]) if self.lanes > 1 else middle
        cell = f"[{turn}][{lane.name if self.lanes > 1 else 0}]"
        for n, index, position, name in self.cells:
            inner.memo[(n, tuple(at if i == position else i for i in index), ())] = name + cell
        with e.counted_by(lane):
            body(inner, dict(zip(vs, unlinear(at, [v.extent for v in vs]))), cell)
            lines = [*middle.lines, *e.lanes(inner.lines)] if self.lanes > 1 else middle.lines
        self.used += bool(self.cells)
        guard = [] if q.extent % self.width == 0 else [f"  if ({counter} >= {q.extent}) break;"]
        return ["#pragma unroll", f"for (int {turn} = 0; {turn} < {self.turns}; {turn}++) {{",
                f"  const {e.index} {counter} = lane + {turn} * {self.width};", *guard, *("  " + s for s in lines), "}"]

    def reduction(self, e: CudaEmitter, n: Node, idx: Index, block: Block, acc: str) -> list[str]:
        """The loop of a reduction over the row; the elements that it reads stay in registers for later loops."""
        x, op, axis = n.args[0], n.attrs["op"], n.attrs["axes"][0]
        v, name = Var(e.name("r"), self.total), e.name("kept")

        new: list[tuple[Node, Index, Ix, str]] = []

        def body(inner: Block, names: dict[Var, Ix], cell: str) -> None:
            at = names[v]
            whole = reduced_index(x, [axis], idx, [at])
            value = e.value(x, whole, inner)
            inner.body.append(f"{acc} = hy_{op}_op()({acc}, {value});")
            source, index = e.source(x, whole)
            if value.isidentifier() and at in index:
                inner.body.append(f"{name}{cell} = {value};")
                new.append((source, index, at, name))
        lines = self.loop(e, block, [v], body)
        self.cells += new
        return lines


def why_not_kept(k: Kernel, rest: Sequence[Var], width: int) -> str:
    """Why a kernel's rows are read in each pass, where they are."""
    if len(rest) != 1:
        return "rows have several axes" if rest else "a row has one result, for which it is read once"
    if not k.hoisted or any(n.prim != "reduce" for n in k.hoisted):
        return "their elements' places are searched for"
    if rest[0].extent > MOST * width:
        return f"{rest[0].extent} elements are more than {MOST} for each of {width} threads"
    return "passes do not read the same values"
