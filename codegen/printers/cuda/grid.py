"""How the blocks of a launch share a product: tiles of its result, and parts of its depth."""
from __future__ import annotations

from typing import Any, Mapping

from hybrid.ir import Node

from .epilogue import epilogue
from .pieces import SCRATCH, TICKETS, Launch, PrintedCuda, TensorMap, function, indented, unrolled, with_maps
from .product import Product, share_depth
from .shares import FORM, PORT, ROUND_TRIP, Division
from .target import current

# clocks that the last block of a tile may take to add up the parts (a launch of their own takes 1.7 us)
MOST_ADDING = 2200
SUMMED_TOGETHER = 2             # parts whose loads are under way together


class Grid:
    """How blocks share a product: tiles of the result, and parts of the depth; or equal shares of all k-iterations,
    each ``deep`` elements of the depth. ``trip``: k-iterations of a block's part, as text; ``last_adds``: parts are
    added up by the last block of a tile; ``in_registers``: some block of this launch holds the whole sums in registers
    (else a second launch adds the parts). producers: a block's threads that only copy slices; they come last, and end
    before its sums are finished.

    Tickets, and the flags by which blocks say that their sums are stored, are 0 when a launch begins, and each launch
    sets them to 0 again. A kernel that fails does not, but after it CUDA's context and its memory cannot be used.
    """
    in_registers: bool
    last_adds: bool
    wait: list[str] = ["hy_wait<0>();"]                        # statements that follow the last products

    def __init__(self, p: Product, division: Division[Any], deep: int, producers: int = 0):
        tile = division.tile
        self.threads = tile.threads + producers
        self.sync = f"hy_sync<{tile.threads}>();" if producers else "__syncthreads();"
        self.p, self.tile, self.deep, self.shares, self.why = p, tile, deep, division.shares, division.why
        self.item = max(4, p.sum_dtype.itemsize)
        self.width = min(tile.sums, 16 // self.item)           # sums of a thread that are stored as one
        self.places = self._places()
        self.across = -(-p.columns // tile.columns)
        self.count = -(-p.rows // tile.rows) * self.across     # of a matrix
        tiles = p.batch * self.count
        self._divide(tiles, 1 if self.shares else share_depth(tiles, p.depth, 256))
        if p.k.sides and not self.in_registers:                # a second launch has no statistics
            self._divide(tiles, 1)
        self.trip = "rounds" if self.shares else str(self.iterations)
        self.part = None if self.in_registers else f"({p.kind})part"
        if self.shares:
            self.blocks = self.shares.blocks + tiles - self.shares.tiles

    def _places(self) -> list[str]:
        """Statements that find out where a thread's sums stand in its tile."""
        t = self.tile
        return ["const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
                f"const int top = warp / {t.across} * {16 * t.mi}, left = warp % {t.across} * {8 * t.ni};"]

    def _declared(self) -> str:
        """The declaration of a thread's sums."""
        return f"float acc[{self.tile.mi}][{self.tile.ni}][4] = {{}};"

    def _finished(self, mixed: bool, part: str | None) -> list[str]:
        """What follows when the sums of a tile are there. mixed, part: as of ``epilogue``."""
        return epilogue(self.p, self.tile, mixed, part)

    def _divide(self, tiles: int, parts: int) -> None:
        """Choose parts of the depth, at most so many."""
        p, tile, deep = self.p, self.tile, self.deep
        self.step = -(-p.depth // (parts * deep)) * deep
        self.parts = -(-p.depth // self.step)
        self.iterations, self.blocks = self.step // deep, tiles * self.parts
        # in clocks; the blocks that add are few, so that each reads at the rate of its own port to the L2
        moved = self.parts * tile.rows * tile.columns * self.item
        adding = -(-self.parts // SUMMED_TOGETHER) * ROUND_TRIP + moved / PORT
        self.last_adds = self.parts > 1 and current().processors > 0 and adding <= MOST_ADDING
        self.in_registers = self.parts == 1 or self.last_adds

    def _block_header(self) -> list[str]:
        """Statements that find a block's tile and part, and declare its sums."""
        return [f"const unsigned part = blockIdx.x % {self.parts}u, tile = blockIdx.x / {self.parts}u;",
                *self._tile_header(f"({self.p.kind})part * {self.step}", str(self.step))]

    def _tile_header(self, low: str, step: str) -> list[str]:
        """Statements that find where ``tile`` lies and which part of the depth is summed, and declare the sums."""
        p, tile, kind = self.p, self.tile, self.p.kind
        return [f"const {kind} u = ({kind})(tile / {self.count}u);",
                f"const {kind} r0 = ({kind})(tile % {self.count}u / {self.across}u) * {tile.rows}, "
                f"c0 = ({kind})(tile % {self.across}u) * {tile.columns}, low = {low};",
                f"const {kind} high = low + {step} < {p.depth} ? low + {step} : {p.depth};",
                "HY_ASSUME(u >= 0 && r0 >= 0 && c0 >= 0 && low >= 0);", *p.decode("u", p.m.batch),
                self._declared()]

    # ---- parts of the same depth
    def _added(self) -> list[str]:
        """Each block of a tile leaves its sums in working memory and takes a ticket. The one with the last ticket adds
        up the sums of all, in the order of the parts, whichever block it is; the others end."""
        return [*self._store_sums("blockIdx.x", True), self.sync, "if (threadIdx.x == 0) {",
                f"  unsigned *ticket = (unsigned *)tickets + blockIdx.x / {self.parts}u;", "  __threadfence();",
                "  const unsigned before = atomicAdd(ticket, 1u);", "  __threadfence();",
                f"  if (before == {self.parts - 1}) *ticket = 0;",
                "  *(unsigned *)tile_memory = before;", "}", self.sync,
                f"if (*(unsigned *)tile_memory != {self.parts - 1}) return;", f"#pragma unroll {SUMMED_TOGETHER}",
                f"for (int from = 0; from < {self.parts}; from++) {{",
                *indented(self._add_sums_of(f"(blockIdx.x / {self.parts}u * {self.parts} + from)")), "}"]

    def _each_piece(self, body: list[str]) -> list[str]:
        """A loop over the pieces of a thread's sums, each of which is stored as one."""
        return unrolled([("n", self.tile.sums // self.width)], body)

    def _sum(self) -> str:
        """The w-th sum of the n-th piece."""
        return f"(({self.p.T} *)acc)[n * {self.width} + w]"

    def _own_sums(self, number: str) -> str:
        """Declares where in working memory a thread's sums of block ``number`` lie."""
        return (f"hy_sums *own = (hy_sums *)scratch + (size_t){number} * "
                f"{self.tile.sums // self.width * self.tile.threads} + threadIdx.x;")

    def _store_sums(self, number: str, clear: bool) -> list[str]:
        """Stores a thread's sums as those of block ``number``. clear: then sets them to -0.0 (to which x adds up to x,
        also if x is -0.0), so that all parts, its own too, are added in order."""
        cleared = f", {self._sum()} = -({self.p.T})0" if clear else ""
        return ["{", *indented([self._own_sums(number), *self._each_piece([
            "hy_sums v;", *unrolled([("w", self.width)], [f"v.x[w] = {self._sum()}{cleared};"]),
            f"own[n * {self.tile.threads}] = v;"])]), "}"]

    def _add_sums_of(self, number: str) -> list[str]:
        """Adds the sums that block ``number`` stored to a thread's own."""
        return [self._own_sums(number), *self._each_piece([
            f"const hy_sums v = own[n * {self.tile.threads}];",
            *unrolled([("w", self.width)], [f"{self._sum()} += v.x[w];"])])]

    # ---- equal shares
    def _shared(self, sums: list[str], mixed: bool) -> list[str]:
        """A block takes the next number, which says what its share is, and goes through the share's tiles."""
        s = self.shares
        assert s is not None
        finished = self._finished(mixed, None)
        first, last = f"{s.blocks - 1} - number", f"{s.blocks} - number"
        whole = f"(number - {s.blocks}u + {s.tiles}u) * {s.iterations}"
        return ["if (threadIdx.x == 0) {", "  const unsigned before = atomicAdd((unsigned *)tickets, 1u);",
                "  __threadfence();", f"  if (before == {self.blocks - 1}) *(unsigned *)tickets = 0;",
                "  *(unsigned *)tile_memory = before;", "}", "__syncthreads();",
                "const unsigned number = *(unsigned *)tile_memory;",
                f"unsigned from = number < {s.blocks} ? {s.begin(first)} : {whole};",
                f"const unsigned to = number < {s.blocks} ? {s.begin(last)} : from + {s.iterations};",
                "#pragma unroll 1", "while (from < to) {", "  __syncthreads();",
                f"  const unsigned tile = from / {s.iterations}u, first = from % {s.iterations}u;",
                f"  const int rounds = min({s.iterations}u - first, to - from);",
                *indented([*self._tile_header(f"({self.p.kind})first * {self.deep}", f"rounds * {self.deep}"), *sums,
                            *self.wait, "if (first) {",
                            *indented(self._publish(f"({first})")), "} else {",
                            *indented([*self._wait_and_add(f"({first})"), *finished]), "}"]),
                "  from += rounds;", "}"]

    def _publish(self, share: str) -> list[str]:
        """Stores the sums of a share's first tile, and sets the flag for which the block that finishes it waits."""
        return [*self._store_sums(share, False), "__syncthreads();", "if (threadIdx.x == 0) {", "  __threadfence();",
                f"  ((volatile unsigned *)tickets)[1 + {share}] = 1;", "}"]

    def _wait_and_add(self, share: str) -> list[str]:
        """Adds the sums of the shares that follow a block's own, which has the tile's first k-iterations."""
        s = self.shares
        assert s is not None
        return [f"for (unsigned other = {share} + 1, done = to; done < (tile + 1) * {s.iterations}u; "
                f"other++, done = {s.begin('other')}) {{",
                "  if (threadIdx.x == 0) hy_wait_for((unsigned *)tickets + 1 + other);",
                "  __syncthreads();", *indented(self._add_sums_of("other")), "}"]

    def printed(self, sums: list[str], mixed: bool, shared: int, resident: int = 0,
                maps: Mapping[str, tuple[Node, TensorMap]] | None = None) -> PrintedCuda:
        """The kernel. sums: statements that add up the products of a block's k-iterations; mixed: as of ``epilogue``;
        shared, resident, maps: as of ``launched``."""
        p, tile = self.p, self.tile
        if self.shares:
            p.k.form = FORM
        else:
            p.k.not_taken.append((FORM, self.why))
        body = ["extern __shared__ __align__(1024) unsigned char tile_memory[];", *self.places]
        if self.shares or self.last_adds:
            body.append(f"typedef hy_pack<{p.T}, {self.width}> hy_sums;")
        body += self._shared(sums, mixed) if self.shares else [
            *self._block_header(), *sums, *self.wait, *(self._added() if self.last_adds else []),
            *self._finished(mixed, self.part)]
        if not self.shares and not self.last_adds:
            return p.printed(body, self.blocks, self.threads, self.parts, shared, resident, maps)
        text = function(p.name, p.args, len(p.k.stores), body, self.threads, p.T, True, resident, "tickets",
                        list(maps or {}))
        left, words = ((self.shares.blocks, 1 + self.shares.blocks) if self.shares else
                       (self.blocks, self.blocks // self.parts))
        launch = Launch(p.name, self.blocks, self.threads, [*p.args, SCRATCH, TICKETS], shared)
        return PrintedCuda(text, [with_maps(launch, maps or {})], self.item * left * tile.rows * tile.columns, words)
