"""Equal shares of a product's depth: each of some blocks does as many rounds of the tiles that they share, one tile
after the other, so that no multiprocessor is idle in a last, partly filled turn (M. Osama et al., "Stream-K:
Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023).

The block that has a tile's first rounds finishes the tile. The others leave their sums in working memory; each of them
has at most one such tile, the first of its share, so that they are done early. The finishing block adds them up in the
order of the rounds. Shares are given out from the last one on, to blocks in the order in which they begin: a block
waits only for blocks that began before it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .pieces import PROCESSORS, THREADS
from .product import Product
from .stages import Tile
from .target import current
from .tile import tile_cost

FORM = "equal shares of the depth"
# in clocks: a round trip to the L2 cache, and the first loads of a tile; bytes that come from there in a clock to one
# multiprocessor, and to each of all
ROUND_TRIP, BEGIN, PORT, OF_ALL = 263, 700, 64, 24
LEAST_GAIN = 0.95               # of the time without
LEAST_DEPTH = 64                # of a share
LEAST_TIME = 25000              # as of ``tile_cost``: shorter launches wait for memory more than for their products


@dataclass(frozen=True)
class Shares:
    """The first ``tiles`` tiles, of so many rounds each, are shared by ``blocks`` blocks; others are one block's."""
    blocks: int
    tiles: int
    rounds: int

    @property
    def all(self) -> int:
        """Rounds of all shares."""
        return self.tiles * self.rounds

    @property
    def most_parts(self) -> int:
        """Blocks that have a part of one tile beside the one that finishes it."""
        return -(-(self.rounds - 1) // (self.all // self.blocks))

    def begin(self, number: str) -> str:
        """The first round of a share, of all rounds one after the other."""
        each, rest = divmod(self.all, self.blocks)
        return f"({number}) * {each}u" + (f" + min({number}, {rest}u)" if rest else "")


@dataclass(frozen=True)
class Way:
    """How a product is divided: tiles, and shares of some, or the reason why there are none. cost: as of
    ``tile_cost``."""
    tile: Tile
    cost: float
    shares: Shares | None = None
    why: str = ""


def best_way(p: Product, tiles: Iterable[Tile], deep: int, work: Callable[[Tile], float]) -> Way:
    """The way that finishes first. deep: elements of a round; work: of a tile, as of ``tile_cost``."""
    tiles, processors = list(tiles), current().processors
    tile = min(tiles, key=lambda t: tile_cost(p, t.rows, t.columns, work(t)))
    whole = tile_cost(p, tile.rows, tile.columns, work(tile), processors or PROCESSORS)
    if whole < LEAST_TIME:
        return Way(tile, whole, None, "the launch is short")
    if not processors:
        return Way(tile, whole, None, "the GPU has no cooperative launches")
    found = [(t, shares_of(p, t, deep)) for t in tiles]
    equal = [Way(t, shares_cost(p, t, work(t), s), s) for t, s in found if isinstance(s, Shares)]
    best = min(equal, key=lambda w: w.cost, default=None)
    if best is None:
        return Way(tile, whole, None, next(str(s) for t, s in found if t == tile))
    if best.cost < LEAST_GAIN * whole:
        return best
    return Way(tile, whole, None, "to add up the sums of several blocks takes what is gained by filling the last turn: "
               f"{best.cost / whole:.2f} of the time")


def shares_of(p: Product, tile: Tile, deep: int) -> Shares | str:
    """Equal shares of the tiles beyond whole turns and of one turn more; or why there are none."""
    tiles, rounds = count(p, tile), -(-p.depth // deep)
    blocks = current().processors * max(1, THREADS // tile.threads)
    if tiles % blocks == 0:
        return f"{tiles} tiles are whole turns of {blocks} blocks"
    shares = Shares(blocks, tiles if tiles < 2 * blocks else blocks + tiles % blocks, rounds)
    if shares.all // blocks * deep < LEAST_DEPTH:
        return f"{blocks} shares of {tiles} tiles {p.depth} deep are too short"
    return shares


def shares_cost(p: Product, tile: Tile, work: float, shares: Shares) -> float:
    """Time of a launch, as of ``tile_cost``."""
    tiles, processors = count(p, tile), current().processors
    moved = shares.blocks // processors * tile.rows * tile.columns * 4 / OF_ALL
    adding = (1 + shares.most_parts) * moved + (3 + 2 * shares.most_parts) * ROUND_TRIP + BEGIN
    finish = tile.rows * tile.columns / THREADS * 10 * -(-tiles // processors)
    return work * p.depth * tiles / processors + finish + adding


def count(p: Product, tile: Tile) -> int:
    """Tiles of a product."""
    return p.batch * -(-p.rows // tile.rows) * -(-p.columns // tile.columns)
