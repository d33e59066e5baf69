"""Fused kernels: what the fusion pass decides and code generation prints."""
from __future__ import annotations

from dataclasses import field
from typing import Any, Iterator, Sequence

from ..base.records import dataclass
from .access import Index, beneath
from .index import Var
from .node import Node, reached
from .program import Program

_OWN_KIND = {"concat": "concat", "cumulate": "running", "scatter_add": "scatter", "argsort": "sort", "rows": "call",
             "pairs": "call", "scan": "loop"}
ALWAYS_ROOT = frozenset(_OWN_KIND)
WITH_SIDES = ("elementwise", "reduction", "row")     # kinds that may store one more result a row
IN_MEMORY = ("sort", "call", "loop")             # kinds of kernels that read whole values


@dataclass
class Use:
    """A place where a node is needed: the kernel, the index there, the loops of reductions around it. share: the part
    of the places that lie outside padding."""
    kernel: "Kernel"
    idx: Index
    inside: tuple[Var, ...] = ()
    bijective: bool = False
    guarded: bool = False
    share: float = 1.0


@dataclass(eq=False)
class Kernel:
    """A fused kernel. ``root`` is stored; ``extra`` are members stored on the way; ``sides`` are further results, one
    element a row (of a contraction: reductions of 16 rows of a column each), with their index in the loop variables.
    """
    root: Node
    number: int
    loops: tuple[Var, ...]
    members: dict[Node, list[Use]] = field(default_factory=dict)
    extra: list[Node] = field(default_factory=list)
    sides: list[tuple[Node, Index]] = field(default_factory=list)
    reads: dict[Node, list[Use]] = field(default_factory=dict)
    dot: Node | None = None
    rows: frozenset[Var] | None = None             # loop variables outside the hoisted reductions
    hoisted: list[Node] = field(default_factory=list)
    # whether results overwrite inputs, so that each element is written once
    once: bool = False
    over: Node | None = None                       # the input whose place the root takes
    unread: frozenset[Node] = frozenset()          # stored values that no kernel reads
    reason: str = "result"                          # why the root is stored and not part of another kernel
    inner: Any = None                              # of a loop: its planned body
    first: int | None = None                       # of a sort: how many places of each row are read, if not all
    form: str = ""                                  # how it is computed, and why other forms do not fit
    not_taken: list[tuple[str, str]] = field(default_factory=list)
    attention: Any = None                          # passes.attention.Attention, if the contraction is its last product

    def computed_from(self, value: Node, source: Node) -> bool:
        """Whether this kernel computes a value from what it reads of an array (not by way of what others stored)."""
        def own(n: Node) -> bool:
            return n is value or n in self.members and n not in self.reads
        return any(own(n) and source in n.args for n in reached([value], own))

    @property
    def template(self) -> str:
        """The kind of a kernel that has a printer for its root, or for attention: the kinds from concat on, and
        attention. "" for others: what they are depends on all members."""
        return _OWN_KIND.get(self.root.prim) or ("attention" if self.attention is not None else "")

    @property
    def kind(self) -> str:
        """elementwise, reduction, row, contraction, convolution, concat, running (sums), scatter, sort, call, loop or
        attention."""
        template = self.template
        if template:
            return template
        if self.dot is not None:
            return "convolution" if self.dot.prim == "conv" else "contraction"
        if self.hoisted:
            return "row"
        return "reduction" if any(n.prim in ("reduce", "argreduce") for n in self.members) else "elementwise"

    @property
    def stores(self) -> list[Node]:
        """All values that the kernel writes."""
        if self.root.prim == "scan":                     # its items
            return list(self.extra)
        return [*self.extra, *(n for n, _ in self.sides), self.root]


@dataclass
class Fused:
    """Kernels in launch order, and where each result of the program is."""
    program: Program
    kernels: list[Kernel]
    results: list[tuple[Node, tuple[int, ...]]]     # stored (or leaf) node and the shape to show it in
    refusals: list[tuple[str, str]]


def strip_reshape(n: Node) -> Node:
    """What is stored for a value: a reshape shares its argument's memory."""
    return beneath(n, ("reshape",))


def every(kernels: Sequence[Kernel]) -> Iterator[Kernel]:
    """Kernels, and those of the loops' bodies."""
    for k in kernels:
        yield k
        if k.inner is not None:
            yield from every(k.inner.fused.kernels)
