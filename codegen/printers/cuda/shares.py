"""Equal shares of a product's depth: each of some blocks does as many k-iterations of the tiles that they share, one
tile after the other, so that no multiprocessor is idle in a last, partly filled wave of blocks (M. Osama et al.,
"Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023).

The block that has a tile's first k-iterations finishes the tile. The others leave their sums in working memory; each
of them has at most one such tile, the first of its share, so that they are done early. The finishing block adds them up
in the order of the k-iterations. Shares are given out from the last one on, to blocks in the order in which they begin:
a block waits only for blocks that began before it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .pieces import PROCESSORS, THREADS
from .product import Product, share_depth
from .target import current

FORM = "equal shares of the depth"
ROUND_TRIP = 263                # clocks of a round trip to the L2 cache
BEGIN = 700                     # clocks until the first slices of a share's next tile are there
PORT = 64                       # bytes a clock from the L2 to one multiprocessor
OF_ALL = 24                     # bytes a clock to each multiprocessor, where all read the L2 at once
LAUNCH = 2500                   # of a second launch, in products of a thread
LEAST_GAIN = 0.95               # of the time without
LEAST_DEPTH = 64                # of a share
LEAST_TIME = 25000              # products of a thread: shorter launches wait for memory more than for their products


class BlockTile(Protocol):
    """A block's part of a product's result."""
    @property
    def rows(self) -> int:
        """Rows of the tile."""

    @property
    def columns(self) -> int:
        """Columns of the tile."""

    @property
    def threads(self) -> int:
        """Threads of the block."""

    @property
    def sums(self) -> int:
        """Sums of a thread."""


T = TypeVar("T", bound=BlockTile)


@dataclass(frozen=True)
class Shares:
    """The first ``tiles`` tiles, of ``iterations`` k-iterations each, are shared by ``blocks`` blocks; others are one
    block's."""
    blocks: int
    tiles: int
    iterations: int

    @property
    def all(self) -> int:
        """K-iterations of all shares."""
        return self.tiles * self.iterations

    @property
    def most_parts(self) -> int:
        """Blocks that have a part of one tile beside the one that finishes it."""
        return -(-(self.iterations - 1) // (self.all // self.blocks))

    def begin(self, number: str) -> str:
        """The first k-iteration of a share, of all of them one after the other."""
        each, rest = divmod(self.all, self.blocks)
        return f"({number}) * {each}u" + (f" + min({number}, {rest}u)" if rest else "")


@dataclass(frozen=True)
class Division(Generic[T]):
    """How a product is divided: tiles, and shares of some, or the reason why there are none. cost: as of
    ``launch_cost``."""
    tile: T
    cost: float
    shares: Shares | None = None
    why: str = ""


def best_division(p: Product, tiles: Iterable[T], deep: Callable[[T], int], work: Callable[[T], float]) -> Division[T]:
    """The division that finishes first. tiles: those to choose from; deep: elements of a k-iteration; work: of a tile,
    as of ``launch_cost``."""
    tiles, processors = list(tiles), current().processors
    # chosen for PROCESSORS, as parts of the depth are (``share_depth``), without regard to the GPU; choosing it
    # for ``processors`` takes 1.3 % longer, by the model, for ResNet-18 of batch 32 in float32 on an A100
    tile = min(tiles, key=lambda t: launch_cost(p, t, work(t), PROCESSORS))
    whole = launch_cost(p, tile, work(tile), processors or PROCESSORS)
    if whole < LEAST_TIME:
        return Division(tile, whole, None, f"the launch is short: below {LEAST_TIME} products of a thread")
    if not processors:
        return Division(tile, whole, None, "no cooperative launches, or an unknown number of multiprocessors")
    found = [(t, shares_of(p, t, deep(t))) for t in tiles]
    equal = [Division(t, launch_cost(p, t, work(t), processors, s), s) for t, s in found if isinstance(s, Shares)]
    best = min(equal, key=lambda d: d.cost, default=None)
    if best is None:
        return Division(tile, whole, None, next(str(s) for t, s in found if t == tile))
    if best.cost < LEAST_GAIN * whole:
        return best
    return Division(tile, whole, None, f"sharing would take {best.cost / whole:.2f} of the time, not less than "
                    f"{LEAST_GAIN}: it adds up the sums of several blocks")


def shares_of(p: Product, tile: BlockTile, deep: int) -> Shares | str:
    """Equal shares of the tiles beyond whole waves and of one wave more; or why there are none."""
    tiles, iterations = count(p, tile), -(-p.depth // deep)
    blocks = current().processors * max(1, THREADS // tile.threads)
    if tiles % blocks == 0:
        return f"{tiles} tiles are whole waves of {blocks} blocks"
    shares = Shares(blocks, tiles if tiles < 2 * blocks else blocks + tiles % blocks, iterations)
    if shares.all // blocks * deep < LEAST_DEPTH:
        return f"{blocks} shares of {tiles} tiles {p.depth} deep are too short"
    return shares


def launch_cost(p: Product, tile: BlockTile, work: float, processors: int, shares: Shares | None = None) -> float:
    """Time of a launch, in products of a thread: the time in which each thread of a block multiplies once (about two
    clocks of a multiprocessor, which has 128 units for 256 threads). work: of a tile, for each step of the depth, loads
    included. shares: of the depth, if blocks have equal ones; else each tile has as many blocks as ``share_depth``
    says."""
    tiles = count(p, tile)
    parts = 1 if shares else share_depth(tiles, p.depth, 256)
    waves = -(-tiles * parts // processors)
    products = work * p.depth * (tiles / processors if shares else waves / parts)
    finish = tile.rows * tile.columns / THREADS * (40 if parts > 1 else 10) * waves
    return products + finish + (_adding(p, tile, processors, shares) if shares else LAUNCH if parts > 1 else 0)


def _adding(p: Product, tile: BlockTile, processors: int, shares: Shares) -> float:
    """Time in which the block that finishes a tile adds the sums of others. It is in clocks and counts as as many
    products of a thread, each of which takes more than one clock: shares are chosen where they pay in any case."""
    moved = shares.blocks // processors * tile.rows * tile.columns * max(4, p.sum_dtype.itemsize) / OF_ALL
    return (1 + shares.most_parts) * moved + (3 + 2 * shares.most_parts) * ROUND_TRIP + BEGIN


def count(p: Product, tile: BlockTile) -> int:
    """Tiles of a product."""
    return p.batch * -(-p.rows // tile.rows) * -(-p.columns // tile.columns)
