"""Register tiles of contractions: their sizes, and loops over groups of variables."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Mapping

import numpy as np

from hybrid.ir.index import Ix, Var, var

PARALLEL_WORK = 1 << 21            # multiplications (about 40 us): below, waking threads costs more than they save


@dataclass(frozen=True)
class Alone:
    """A kernel as a program of its own, to be measured: C text, shapes and dtypes of the arrays in its pointer table, bytes of the memory after them."""
    source: str
    arrays: tuple[tuple[tuple[int, ...], np.dtype], ...]
    arena: int


Choose = Callable[[str, str, Mapping[str, "Callable[[], Alone | None]"], int], "tuple[str, str]"]      # hybrid/runtime/tune.py


@dataclass
class Target:
    """The machine: bytes of a vector and how many registers there are; who measures forms of kernels that compete."""
    vector: int = 64
    choose: Choose | None = None

    def lanes(self, d: np.dtype) -> int:
        """Elements in a vector."""
        return self.vector // d.itemsize

    @property
    def accumulators(self) -> int:
        """Vectors that can hold sums at once."""
        return 28 if self.vector == 64 else 12


@dataclass
class Tile:
    """mr rows; r lines of c columns in nv vectors."""
    mr: int
    nv: int
    r: int
    c: int


def choose_tile(rows: int, y: int, x: int, lanes: int, accumulators: int) -> Tile:
    """The tile that wastes least: rows in equal tiles, columns as whole lines where lines are short."""
    best, found = math.inf, Tile(1, 1, 1, min(x, lanes))
    for mr_max in range(14 if accumulators >= 28 else 6, 0, -1):
        tiles = -(-rows // mr_max)
        mr = -(-rows // tiles)
        for nv in range(1, min(accumulators // mr, 4) + 1):
            width = nv * lanes
            c = min(x, width)
            r = max(1, min(y, width // c)) if c == x else 1
            vectors = -(-r * c // lanes)
            if vectors > nv or vectors < nv:
                continue
            blocks = -(-x // c) * -(-y // r)
            loads, fmas = nv + mr, nv * mr
            traffic = (64 * nv + 12 * mr) / fmas           # bytes a product; those of the rows come from farther away
            cost = tiles * blocks * max(fmas / 2, loads / 2, 4) * (1 + 0.01 * traffic)
            if cost < best:
                best, found = cost, Tile(mr, nv, r, c)
    return found


def inner_name(v: Var) -> str:
    """Counter of a tile's loop."""
    return f"i_{v.name}" if v.extent > 1 else "0"


def flat(vs: list[Var]) -> Ix:
    """Row-major number of a position in some loops."""
    out, stride = Ix(), 1
    for v in reversed(vs):
        out = out + var(v) * stride
        stride *= v.extent
    return out


def decode(name: str, vs: list[Var]) -> list[str]:
    """Loop variables from a row-major number."""
    out, stride = [], 1
    for i, v in reversed(list(enumerate(vs))):
        out.append(f"long {v.name} = {name} / {stride}{'' if i == 0 else f' % {v.extent}'};")
        stride *= v.extent
    return out[::-1]
