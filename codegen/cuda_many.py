"""Independent elementwise kernels in one launch, each with a range of blocks of its own: the update of all parameters of a
network is one launch, not one a parameter.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Collection, Mapping, Sequence

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel

from .cuda_flat import elements
from .cuda_pieces import THREADS, Launch, PrintedCuda, function, index_type

MOST_POINTERS = 480             # arguments of a launch: they may take 4 KB


@dataclass
class Group:
    """Kernels that are launched together, in an order in which they could also be launched one by one."""
    kernels: list[Kernel]
    open: bool                                           # whether others may join
    reads: set[Node] = field(default_factory=set)
    writes: set[Node] = field(default_factory=set)

    def meets(self, reads: set[Node], writes: set[Node]) -> bool:
        """Whether one of them writes what the other reads or writes."""
        return not (self.writes.isdisjoint(reads) and self.writes.isdisjoint(writes) and self.reads.isdisjoint(writes))


def group(kernels: Sequence[Kernel], flat: Callable[[Kernel], bool], kept: Collection[Node], replaced: Mapping[Node, Node]) -> list[Group]:
    """Kernels in launch order, independent ones together.

    flat: whether each thread of a kernel works by itself. kept: values that have memory of their own (not in the arena, where
    another value may lie before or afterwards). replaced: value -> input over which it is written.
    """
    out: list[Group] = []
    for k in kernels:
        reads = set(k.reads)
        writes = {*k.stores, *(replaced[n] for n in k.stores if n in replaced)}
        joins = flat(k) and all(n in kept for n in k.stores)
        home = None
        for g in reversed(out) if joins else ():
            if g.meets(reads, writes):
                break
            if g.open and len(g.reads | g.writes | reads | writes) <= MOST_POINTERS:
                home = g
        if home is None:
            home = Group([], joins)
            out.append(home)
        home.kernels.append(k)
        home.reads |= reads
        home.writes |= writes
    return out


def _choose(parts: Sequence[tuple[int, list[str]]], first: int, blocks: str) -> list[str]:
    """Statements that go to the part whose range of blocks this one is in, by halves."""
    if len(parts) == 1:
        return [f"const unsigned b = blockIdx.x - {first}u;", *parts[0][1]]
    half = len(parts) // 2
    middle = first + sum(count for count, _ in parts[:half])
    return [f"if ({blocks} < {middle}u) {{", *("  " + s for s in _choose(parts[:half], first, blocks)), "} else {",
            *("  " + s for s in _choose(parts[half:], middle, blocks)), "}"]


def print_many(kernels: Sequence[Kernel], name: str) -> PrintedCuda:
    """One function for several elementwise kernels."""
    stores = list(dict.fromkeys(n for k in kernels for n in k.stores))
    args = list(dict.fromkeys([*stores, *(n for k in kernels for n in k.reads)]))
    names = {n: f"p{i}" for i, n in enumerate(args)}
    parts = []
    for k in kernels:
        count, lines = elements(k, {n: names[n] for n in (*k.stores, *k.reads)}, k.root)
        kind = index_type(k)
        parts.append((-(-count // THREADS), [f"{kind} t = ({kind})b * {THREADS} + ({kind})threadIdx.x;", f"if (t >= {count}) return;",
                                             "HY_ASSUME(t >= 0);", *lines]))
    body = _choose(parts, 0, "blockIdx.x")
    return PrintedCuda(function(name, args, len(stores), body), [Launch(name, sum(count for count, _ in parts), THREADS, args)])
