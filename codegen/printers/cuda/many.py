"""Independent elementwise kernels in one launch, each with a range of blocks of its own: the update of all parameters
of a network is one launch, not one a parameter.
"""
from __future__ import annotations

from typing import Sequence

from hybrid.ir.kernel import Kernel

from .flat import elements, thread_number
from .pieces import THREADS, PrintedCuda, index_type, launched

MOST_POINTERS = 480             # arguments of a launch: they may take 4 KB


def choose(parts: Sequence[tuple[int, list[str]]], first: int, block: str) -> list[str]:
    """Statements that find, by binary search, the part whose range of block numbers holds ``block`` (a C expression),
    and run it; there ``b`` is the number counted from the begin of the range."""
    if len(parts) == 1:
        return [f"const unsigned b = {block} - {first}u;", *parts[0][1]]
    half = len(parts) // 2
    middle = first + sum(count for count, _ in parts[:half])
    return [f"if ({block} < {middle}u) {{", *("  " + s for s in choose(parts[:half], first, block)), "} else {",
            *("  " + s for s in choose(parts[half:], middle, block)), "}"]


def print_many(kernels: Sequence[Kernel], name: str) -> PrintedCuda:
    """One function for several elementwise kernels."""
    stores = list(dict.fromkeys(n for k in kernels for n in k.stores))
    args = list(dict.fromkeys([*stores, *(n for k in kernels for n in k.reads)]))
    names = {n: f"p{i}" for i, n in enumerate(args)}
    parts = []
    for k in kernels:
        count, lines = elements(k, {n: names[n] for n in (*k.stores, *k.reads)}, k.root)
        parts.append((-(-count // THREADS), [*thread_number(index_type(k), count, "b"), *lines]))
    body = choose(parts, 0, "blockIdx.x")
    return launched(name, args, len(stores), body, sum(count for count, _ in parts))
