"""Register tiles of contractions: their sizes, and loops over groups of variables."""
from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Callable, Iterable, Mapping, Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir.index import Ix, Var, var
from hybrid.ir.size import Int, may_exceed, same

PARALLEL_WORK = 1 << 21            # multiplications (about 40 us): below, waking threads costs more than they save


FEW = 4                            # rows up to which a tile may be wider than 4 vectors


@dataclass(frozen=True)
class Alone:
    """A kernel as a program of its own, to be measured: C text, shapes and dtypes of the arrays in its pointer table,
    bytes of the memory after them."""
    source: str
    arrays: tuple[tuple[tuple[int, ...], np.dtype], ...]
    arena: int


# hybrid/runtime/tune.py
Choose = Callable[[str, str, Mapping[str, "Callable[[], Alone | None]"], int], "tuple[str, str]"]


@dataclass
class Target:
    """The machine: bytes of a vector and how many registers there are; who measures forms of kernels that compete.
    team: whether kernels are printed for threads that are all in the function already, and do not wait for each
    other."""
    vector: int = 64
    choose: Choose | None = None
    team: bool = False

    def lanes(self, d: np.dtype) -> int:
        """Elements in a vector."""
        return max(1, self.vector // d.itemsize)

    @property
    def registers(self) -> int:
        """Vectors that the processor holds."""
        return 32 if self.vector == 64 else 16

    @property
    def accumulators(self) -> int:
        """Vectors that can hold sums at once."""
        return 28 if self.vector == 64 else 12


@dataclass(frozen=True)
class Tile:
    """mr rows; r lines of c columns in nv vectors."""
    mr: Int
    nv: int
    r: Int
    c: Int
    cost: float = 0                    # cycles of a step of the depth, of all tiles


@lru_cache(maxsize=4096)
def choose_tile(rows: int, y: int, x: int, lanes: int, accumulators: int, most: int = 14) -> Tile:
    """The largest of the tiles that waste least: rows in tiles of two sizes, a row apart; columns as whole lines where
    lines are short. Tiles are wider than 4 vectors where rows are few. most: rows.
    """
    best, found = math.inf, Tile(1, 1, 1, min(x, lanes))
    for mr_max in range(min(most, 14 if accumulators >= 28 else 6), 0, -1):
        tiles = -(-rows // mr_max)
        mr = -(-rows // tiles)
        full = rows - tiles * (mr - 1)
        for nv in range(1, min(accumulators // mr, 4 if rows > FEW else 16) + 1):
            width = nv * lanes
            c = min(x, width)
            r = max(1, min(y, width // c)) if c == x else 1
            if -(-r * c // lanes) != nv:
                continue
            blocks = -(-x // c) * -(-y // r)
            cost = blocks * (full * _tile_cost(mr, nv) + (tiles - full) * _tile_cost(mr - 1, nv))
            if cost < best:
                best, found = cost, Tile(mr, nv, r, c, cost)
    return found


def _tile_cost(mr: int, nv: int) -> float:
    """Cycles of a step of the depth."""
    loads, fmas = nv + mr, nv * mr
    traffic = (64 * nv + 12 * mr) / max(fmas, 1)           # bytes a product; those of the rows come from farther away
    return max(fmas / 2, loads / 2, 4) * (1 + 0.01 * traffic)


def in_one_set(count: int, step: int, nbytes: int = 64) -> int:
    """The most lines of memory that fall into one of the 64 sets of a first cache, of so many pieces of ``nbytes`` that
    are ``step`` bytes apart."""
    return max(Counter((i * step // 64 + j) % 64 for i in range(count) for j in range(-(-nbytes // 64))).values())


def inner_name(v: Var) -> str:
    """Counter of a tile's loop."""
    return f"i_{v.name}" if may_exceed(v.extent, 1) else "0"


def flat(vs: list[Var]) -> Ix:
    """Row-major number of a position in some loops."""
    out, stride = Ix(), 1
    for v in reversed(vs):
        out = out + var(v) * stride
        stride *= v.extent
    return out


def counted(vs: Iterable[Var]) -> list[Var]:
    """The loops that may have more than one iteration."""
    return [v for v in vs if may_exceed(v.extent, 1)]


def positions(name: str, number: str, vs: Sequence[Var]) -> list[str]:
    """Loop variables from a row-major number, an expression, to which several of them give a name."""
    vs = counted(vs)
    return [f"const long {v.name} = {number};" for v in vs] if len(vs) < 2 else [
        f"const long {name} = {number};", *decode(name, vs)]


def decode(name: str, vs: Sequence[Var], kind: str = "long") -> list[str]:
    """Loop variables, of a C type, from a row-major number; those of one value need none."""
    vs, out, stride = counted(vs), [], 1
    for i, v in reversed(list(enumerate(vs))):
        by, of = "" if same(stride, 1) else f" / {stride}", f" % {v.extent}" if i else ""
        out.append(f"{kind} {v.name} = {name}{by}{of};")
        stride *= v.extent
    return out[::-1]
