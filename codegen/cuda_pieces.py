"""Pieces that all CUDA kernels share: arguments, functions, launches."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel

from .dialect import CUDA
from .emit import Emitter, Reducer

THREADS = 256


@dataclass
class Launch:
    """A kernel launch: function, blocks, threads, arguments in order."""
    name: str
    blocks: int
    threads: int
    args: list[Node]


@dataclass
class PrintedCuda:
    """Text of one fused kernel (one or more functions) and its launches."""
    source: str
    launches: list[Launch]


def names_of(k: Kernel) -> tuple[list[Node], dict[Node, str]]:
    """Arguments of a kernel and their C names: stores first, then reads."""
    args = list(dict.fromkeys([*k.stores, *k.reads]))
    return args, {n: f"p{i}" for i, n in enumerate(args)}


def index_type(args: Sequence[Node]) -> str:
    """32-bit indices where every array has fewer than 2^31 elements."""
    return "int" if all(n.size < 2**31 for n in args) else "long long"


def function(name: str, args: Sequence[Node], stores: int, body: Sequence[str], threads: int = THREADS) -> str:
    """Text of a __global__ function."""
    parts = [f"{'' if i < stores else 'const '}{CUDA.storage(n.dtype)} *p{i}" for i, n in enumerate(args)]
    return "\n".join([f'extern "C" __global__ void __launch_bounds__({threads}) {name}({", ".join(parts)}) {{',
                      *("  " + line for line in body), "}"])


def emitter(k: Kernel, names: dict[Node, str], reducer: Reducer | None = None) -> Emitter:
    """An emitter for a kernel: what it reads is in memory, what it stores on the way is written."""
    stores = set(k.stores)
    return Emitter(CUDA, {n: p for n, p in names.items() if n not in stores}, reducer=reducer, extra={n: names[n] for n in k.extra})
