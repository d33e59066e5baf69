"""How the blocks of a launch share a product on tensor cores: tiles of its result, and parts of its depth."""
from __future__ import annotations

from .epilogue import epilogue
from .pieces import SCRATCH, TICKETS, Launch, PrintedCuda, function
from .product import Product, share_depth
from .stages import Tile
from .target import current

# in clocks: how long the last block of a tile may take to add up the parts (a launch of their own takes 1.7 us), and a
# round trip to the L2 cache; bytes that come from there in a clock
MOST_ADDING, ROUND_TRIP, PORT = 2200, 263, 64
SUMMED_TOGETHER = 2             # parts whose loads are under way together


class Grid:
    """How blocks share a product: tiles of the result, and parts of the depth, ``deep`` a round. others: a block's
    threads that multiply nothing; they come last, and end before its sums are finished."""

    def __init__(self, p: Product, tile: Tile, deep: int, others: int = 0):
        self.p, self.tile, self.threads = p, tile, tile.threads + others
        self.sync = f"hy_sync<{tile.threads}>();" if others else "__syncthreads();"
        self.down, self.across = -(-p.rows // tile.rows), -(-p.columns // tile.columns)
        parts = share_depth(p.batch * self.down * self.across, p.depth, 256)
        self.step = -(-p.depth // (parts * deep)) * deep
        self.parts = -(-p.depth // self.step)
        self.rounds, self.blocks = self.step // deep, p.batch * self.down * self.across * self.parts
        adding = -(-self.parts // SUMMED_TOGETHER) * ROUND_TRIP + self.parts * tile.rows * tile.columns * 4 / PORT
        self.last_adds = self.parts > 1 and current().processors > 0 and adding <= MOST_ADDING
        self.trip = str(self.rounds)
        self.part = None if self.parts == 1 or self.last_adds else f"({p.kind})part"

    def _head(self) -> list[str]:
        """What a block is for, and its sums."""
        p, tile, kind, count = self.p, self.tile, self.p.kind, self.down * self.across
        return ["extern __shared__ __align__(1024) unsigned char tile_memory[];",
                f"const unsigned part = blockIdx.x % {self.parts}u, tile = blockIdx.x / {self.parts}u % {count}u;",
                f"const {kind} u = ({kind})(blockIdx.x / {self.parts * count}u);",
                f"const {kind} r0 = ({kind})(tile / {self.across}u) * {tile.rows}, "
                f"c0 = ({kind})(tile % {self.across}u) * {tile.columns}, low = ({kind})part * {self.step};",
                f"const {kind} high = low + {self.step} < {p.depth} ? low + {self.step} : {p.depth};",
                "HY_ASSUME(u >= 0 && r0 >= 0 && c0 >= 0 && low >= 0);", *p.decode("u", p.m.batch),
                "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;",
                f"const int top = warp / {tile.across} * {16 * tile.mi}, left = warp % {tile.across} * {8 * tile.ni};",
                f"float acc[{tile.mi}][{tile.ni}][4] = {{}};"]

    def _added(self) -> list[str]:
        """Each block of a tile leaves its sums in working memory and takes a ticket. The one with the last ticket adds
        up the sums of all, in the order of the parts, whichever block it is; the others end."""
        pieces, threads = self.tile.mi * self.tile.ni, self.tile.threads
        at = f"own[n * {threads}]"
        each = [f"for (int n = 0; n < {pieces}; n++) {{",
                f"  const int i = n / {self.tile.ni}, j = n % {self.tile.ni};"]
        where = "(hy_sums *)scratch + (size_t){} * " + f"{pieces * threads} + threadIdx.x;"
        return ["typedef hy_pack<float, 4> hy_sums;", "{", f"  hy_sums *own = {where.format('blockIdx.x')}",
                "  #pragma unroll", *_indented(each), "    hy_sums v;", "    #pragma unroll",
                "    for (int w = 0; w < 4; w++) v.x[w] = acc[i][j][w], acc[i][j][w] = -0.0f;", f"    {at} = v;",
                "  }", "}", self.sync, "if (threadIdx.x == 0) {",
                f"  unsigned *ticket = (unsigned *)tickets + blockIdx.x / {self.parts}u;", "  __threadfence();",
                "  const unsigned before = atomicAdd(ticket, 1u);", "  __threadfence();",
                f"  if (before == {self.parts - 1}) *ticket = 0;",
                "  *(unsigned *)tile_memory = before;", "}", self.sync,
                f"if (*(unsigned *)tile_memory != {self.parts - 1}) return;", f"#pragma unroll {SUMMED_TOGETHER}",
                f"for (int from = 0; from < {self.parts}; from++) {{",
                f"  const hy_sums *own = {where.format(f'(blockIdx.x / {self.parts}u * {self.parts} + from)')}",
                "  #pragma unroll", *_indented(each), f"    const hy_sums v = {at};", "    #pragma unroll",
                "    for (int w = 0; w < 4; w++) acc[i][j][w] += v.x[w];", "  }", "}"]

    def printed(self, sums: list[str], mixed: bool, shared: int) -> PrintedCuda:
        """The kernel. sums: statements that add up the products of a block's rounds; mixed: as of ``epilogue``; shared:
        bytes of dynamic shared memory."""
        p = self.p
        body = [*self._head(), *sums, "hy_wait<0>();", *(self._added() if self.last_adds else []),
                *epilogue(p, self.tile, mixed, self.part)]
        if not self.last_adds:
            return p.printed(body, self.blocks, self.threads, self.parts, shared)
        text = function(p.name, p.args, len(p.k.stores), body, self.threads, "float", True, word="tickets")
        return PrintedCuda(text, [Launch(p.name, self.blocks, self.threads, [*p.args, SCRATCH, TICKETS], shared)],
                           4 * self.blocks * self.tile.rows * self.tile.columns, self.blocks // self.parts)


def _indented(lines: list[str]) -> list[str]:
    return ["  " + s for s in lines]
