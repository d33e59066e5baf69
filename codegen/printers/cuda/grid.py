"""How the blocks of a launch share a product on tensor cores: tiles of its result, and parts of its depth."""
from __future__ import annotations

from .epilogue import epilogue
from .pieces import SCRATCH, TICKETS, Launch, PrintedCuda, function
from .product import Product, share_depth
from .shares import FORM, PORT, ROUND_TRIP, Way
from .target import current

# clocks that the last block of a tile may take to add up the parts (a launch of their own takes 1.7 us)
MOST_ADDING = 2200
SUMMED_TOGETHER = 2             # parts whose loads are under way together


class Grid:
    """How blocks share a product: tiles of the result, and parts of the depth, ``deep`` a round; or equal shares of all
    rounds. ``trip``: rounds of a block's part, as text; ``last_adds``: parts are added up by the last block of a tile;
    ``in_registers``: by whichever block of this launch, which has the whole sums then. others: a block's threads that
    multiply nothing; they come last, and end before its sums are finished."""
    in_registers: bool
    last_adds: bool

    def __init__(self, p: Product, way: Way, deep: int, others: int = 0):
        tile = way.tile
        self.threads = tile.threads + others
        self.sync = f"hy_sync<{tile.threads}>();" if others else "__syncthreads();"
        self.p, self.tile, self.deep, self.shares, self.why = p, tile, deep, way.shares, way.why
        self.across = -(-p.columns // tile.columns)
        self.count = -(-p.rows // tile.rows) * self.across     # of a matrix
        tiles = p.batch * self.count
        self._divide(tiles, 1 if self.shares else share_depth(tiles, p.depth, 256))
        if p.k.sides and not self.in_registers:                # a second launch has no statistics
            self._divide(tiles, 1)
        self.trip = "rounds" if self.shares else str(self.rounds)
        self.part = None if self.in_registers else f"({p.kind})part"
        if self.shares:
            self.blocks = self.shares.blocks + tiles - self.shares.tiles

    def _divide(self, tiles: int, parts: int) -> None:
        """Choose parts of the depth, at most so many."""
        p, tile, deep = self.p, self.tile, self.deep
        self.step = -(-p.depth // (parts * deep)) * deep
        self.parts = -(-p.depth // self.step)
        self.rounds, self.blocks = self.step // deep, tiles * self.parts
        adding = -(-self.parts // SUMMED_TOGETHER) * ROUND_TRIP + self.parts * tile.rows * tile.columns * 4 / PORT
        self.last_adds = self.parts > 1 and current().processors > 0 and adding <= MOST_ADDING
        self.in_registers = self.parts == 1 or self.last_adds

    def _head(self) -> list[str]:
        """What a block is for, and its sums."""
        return [f"const unsigned part = blockIdx.x % {self.parts}u, tile = blockIdx.x / {self.parts}u;",
                *self._place(f"({self.p.kind})part * {self.step}", str(self.step))]

    def _place(self, low: str, step: str) -> list[str]:
        """Where a tile lies, which part of the depth is summed, and the sums."""
        p, tile, kind = self.p, self.tile, self.p.kind
        return [f"const {kind} u = ({kind})(tile / {self.count}u);",
                f"const {kind} r0 = ({kind})(tile % {self.count}u / {self.across}u) * {tile.rows}, "
                f"c0 = ({kind})(tile % {self.across}u) * {tile.columns}, low = {low};",
                f"const {kind} high = low + {step} < {p.depth} ? low + {step} : {p.depth};",
                "HY_ASSUME(u >= 0 && r0 >= 0 && c0 >= 0 && low >= 0);", *p.decode("u", p.m.batch),
                f"float acc[{tile.mi}][{tile.ni}][4] = {{}};"]

    # ---- parts of the same depth
    def _added(self) -> list[str]:
        """Each block of a tile leaves its sums in working memory and takes a ticket. The one with the last ticket adds
        up the sums of all, in the order of the parts, whichever block it is; the others end."""
        return [*self._left("blockIdx.x", True), self.sync, "if (threadIdx.x == 0) {",
                f"  unsigned *ticket = (unsigned *)tickets + blockIdx.x / {self.parts}u;", "  __threadfence();",
                "  const unsigned before = atomicAdd(ticket, 1u);", "  __threadfence();",
                f"  if (before == {self.parts - 1}) *ticket = 0;",
                "  *(unsigned *)tile_memory = before;", "}", self.sync,
                f"if (*(unsigned *)tile_memory != {self.parts - 1}) return;", f"#pragma unroll {SUMMED_TOGETHER}",
                f"for (int from = 0; from < {self.parts}; from++) {{",
                *_indented(self._more(f"(blockIdx.x / {self.parts}u * {self.parts} + from)")), "}"]

    def _each(self) -> list[str]:
        return ["#pragma unroll", f"for (int n = 0; n < {self.tile.mi * self.tile.ni}; n++) {{",
                f"  const int i = n / {self.tile.ni}, j = n % {self.tile.ni};"]

    def _where(self, number: str) -> str:
        """Where the sums of a block's part lie in working memory."""
        return (f"hy_sums *own = (hy_sums *)scratch + (size_t){number} * "
                f"{self.tile.mi * self.tile.ni * self.tile.threads} + threadIdx.x;")

    def _left(self, number: str, anew: bool) -> list[str]:
        """A thread's sums go to working memory. anew: and are nothing then, to which all parts are added."""
        clear = ", acc[i][j][w] = -0.0f" if anew else ""
        return ["{", f"  {self._where(number)}", *_indented(self._each()), "    hy_sums v;", "    #pragma unroll",
                f"    for (int w = 0; w < 4; w++) v.x[w] = acc[i][j][w]{clear};",
                f"    own[n * {self.tile.threads}] = v;", "  }", "}"]

    def _more(self, number: str) -> list[str]:
        """A thread's sums of another block's part are added to its own."""
        return [self._where(number), *self._each(), f"  const hy_sums v = own[n * {self.tile.threads}];",
                "  #pragma unroll", "  for (int w = 0; w < 4; w++) acc[i][j][w] += v.x[w];", "}"]

    # ---- equal shares
    def _shared(self, sums: list[str], mixed: bool) -> list[str]:
        """A block takes the next number, which says what its share is, and goes through the share's tiles."""
        s = self.shares
        assert s is not None
        first, last = f"{s.blocks - 1} - number", f"{s.blocks} - number"
        whole = f"(number - {s.blocks}u + {s.tiles}u) * {s.rounds}"
        return ["if (threadIdx.x == 0) {", "  const unsigned before = atomicAdd((unsigned *)tickets, 1u);",
                "  __threadfence();", f"  if (before == {self.blocks - 1}) *(unsigned *)tickets = 0;",
                "  *(unsigned *)tile_memory = before;", "}", "__syncthreads();",
                "const unsigned number = *(unsigned *)tile_memory;",
                f"unsigned from = number < {s.blocks} ? {s.begin(first)} : {whole};",
                f"const unsigned to = number < {s.blocks} ? {s.begin(last)} : from + {s.rounds};",
                "#pragma unroll 1", "while (from < to) {", "  __syncthreads();",
                f"  const unsigned tile = from / {s.rounds}u, first = from % {s.rounds}u;",
                f"  const int rounds = min({s.rounds}u - first, to - from);",
                *_indented([*self._place(f"({self.p.kind})first * {self.deep}", f"rounds * {self.deep}"), *sums,
                            "hy_wait<0>();", "if (first) {",
                            *_indented(self._hands_on(f"({first})")), "} else {",
                            *_indented([*self._waits(f"({first})"), *epilogue(self.p, self.tile, mixed, None)]), "}"]),
                "  from += rounds;", "}"]

    def _hands_on(self, share: str) -> list[str]:
        """A block leaves the sums of its first tile to the block that finishes it."""
        return [*self._left(share, False), "__syncthreads();", "if (threadIdx.x == 0) {", "  __threadfence();",
                f"  ((volatile unsigned *)tickets)[1 + {share}] = 1;", "}"]

    def _waits(self, share: str) -> list[str]:
        """The block that has a tile's first rounds adds the sums of the shares behind its own."""
        s = self.shares
        assert s is not None
        return [f"for (unsigned other = {share} + 1, done = to; done < (tile + 1) * {s.rounds}u; "
                f"other++, done = {s.begin('other')}) {{",
                "  if (threadIdx.x == 0) hy_wait_for((unsigned *)tickets + 1 + other);",
                "  __syncthreads();", *_indented(self._more("other")), "}"]

    def printed(self, sums: list[str], mixed: bool, shared: int) -> PrintedCuda:
        """The kernel. sums: statements that add up the products of a block's rounds; mixed: as of ``epilogue``; shared:
        bytes of dynamic shared memory."""
        p, tile = self.p, self.tile
        if self.shares:
            p.k.form = FORM
        else:
            p.k.not_taken.append((FORM, self.why))
        body = ["extern __shared__ __align__(1024) unsigned char tile_memory[];",
                "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
                f"const int top = warp / {tile.across} * {16 * tile.mi}, left = warp % {tile.across} * {8 * tile.ni};"]
        if self.shares or self.last_adds:
            body.append("typedef hy_pack<float, 4> hy_sums;")
        body += self._shared(sums, mixed) if self.shares else [
            *self._head(), *sums, "hy_wait<0>();", *(self._added() if self.last_adds else []),
            *epilogue(p, tile, mixed, self.part)]
        if not self.shares and not self.last_adds:
            return p.printed(body, self.blocks, self.threads, self.parts, shared)
        text = function(p.name, p.args, len(p.k.stores), body, self.threads, "float", True, word="tickets")
        left, words = ((self.shares.blocks, 1 + self.shares.blocks) if self.shares else
                       (self.blocks, self.blocks // self.parts))
        return PrintedCuda(text, [Launch(p.name, self.blocks, self.threads, [*p.args, SCRATCH, TICKETS], shared)],
                           4 * left * tile.rows * tile.columns, words)


def _indented(lines: list[str]) -> list[str]:
    return ["  " + s for s in lines]
