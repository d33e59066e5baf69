"""Matrix products on tensor cores (mma.sync): slices of both operands in shared memory (stages.py), warps that own a
part of the result each in registers, and an epilogue from there.

Halves are multiplied as they are, with sums in float. A float32 is multiplied as a sum of two numbers that tensor cores
take whole (three products of them, added outside: their own sums are cut off, not rounded), or as one where less is
asked for.
"""
from __future__ import annotations

import numpy as np

from hybrid.base import config
from hybrid.base.dtype import is_half
from hybrid.ir.index import Ix, Var, substitute, text, var
from .pieces import SCRATCH, TICKETS, CudaEmitter, Launch, PrintedCuda, emitter, function, neighbours
from .product import Product, share_depth
from .stages import STAGES, Slices, Tile, copies_whole
from .target import current
from .tile import tile_cost
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block
from hybrid.codegen.printers.products.operand import root_index

TILES = (Tile(128, 128, 2, 4), Tile(128, 64, 4, 2), Tile(64, 128, 2, 4), Tile(64, 64, 2, 2), Tile(64, 32, 4, 1),
         Tile(32, 64, 2, 2), Tile(32, 32, 2, 2))
# in clocks: how long the last block of a tile may take to add up the parts (a launch of their own takes 1.7 us), and a
# round trip to the L2 cache; bytes that come from there in a clock
MOST_ADDING, ROUND_TRIP, PORT = 2200, 263, 64
SUMMED_TOGETHER = 2             # parts whose loads are under way together
FUNCTION = {"float16": "hy_mma_half", "bfloat16": "hy_mma_bf16", "float32": "hy_mma_tf32"}


def takes_mma(p: Product) -> bool:
    """Whether a product is one for tensor cores."""
    same = all(a.dtype == p.dot.dtype for a in p.dot.args) and p.rows > 4 and p.columns > 4 and p.depth >= 8
    return same and multiplies(p.dot.dtype) and (is_half(p.dot.dtype) or min(p.rows, p.columns, p.depth) >= 16)


def multiplies(d: np.dtype) -> bool:
    """Whether tensor cores multiply a type, and faster than other units do."""
    gpu = current()
    return gpu.halves(d) or d.name == "float32" and (gpu.tf32 or gpu.number >= 80 and config.tf32())


def terms(p: Product) -> int:
    """Products of tensor cores for one of the program's."""
    return 1 if is_half(p.dot.dtype) or config.tf32() else 3


def cost(p: Product, t: Tile, faster: float = 1) -> float:
    """Time of a tile's launch (tile_cost). faster: the rate of the tensor cores, of theirs by mma.sync."""
    halves = is_half(p.dot.dtype)
    speed = faster * (2048 if halves else 1024 / terms(p))     # products of a block in the time of a thread's
    loads = (1 if halves else 2) * (t.rows + t.columns) / 32
    return tile_cost(p, t.rows, t.columns, t.rows * t.columns / speed + loads)


def pick(p: Product) -> Tile:
    """The tile that finishes first. Elements that are computed on the way take registers: then fewer of them."""
    most = [128 if p.operand(x).address is not None or copies_whole(p, x, 16 // p.dot.dtype.itemsize)[1] else 64
            for x in "ab"]
    return min((t for t in TILES if t.rows <= most[0] and t.columns <= most[1]), key=lambda t: cost(p, t))


def best_cost(p: Product) -> float:
    """Time of the tile that finishes first."""
    return cost(p, pick(p))


class Grid:
    """How blocks share a product: tiles of the result, and parts of the depth, ``deep`` a round. others: a block's
    threads that multiply nothing; they come last, and end before the epilogue."""

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
        self.part = None if self.parts == 1 or self.last_adds else f"({p.kind})part"

    def head(self) -> list[str]:
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

    def epilogue(self, mixed: bool) -> list[str]:
        """Statements that finish a block's sums and store them; where parts of the depth are in several blocks of one
        launch, after the last block has added them up. mixed: as of the function ``epilogue``."""
        return [*(self._added() if self.last_adds else []), *epilogue(self.p, self.tile, mixed, self.part)]

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

    def printed(self, body: list[str], shared: int) -> PrintedCuda:
        """The kernel. shared: bytes of dynamic shared memory."""
        p = self.p
        if not self.last_adds:
            return p.printed(body, self.blocks, self.threads, self.parts, shared)
        text = function(p.name, p.args, len(p.k.stores), body, self.threads, "float", True, word="tickets")
        return PrintedCuda(text, [Launch(p.name, self.blocks, self.threads, [*p.args, SCRATCH, TICKETS], shared)],
                           4 * self.blocks * self.tile.rows * self.tile.columns, self.blocks // self.parts)


def _indented(lines: list[str]) -> list[str]:
    return ["  " + s for s in lines]


def print_mma(p: Product) -> PrintedCuda:
    """A block's part of the depth goes through its stages; each round waits for one slice and begins another."""
    tile = pick(p)
    a, b = Slices(p, "a", tile), Slices(p, "b", tile)
    b.offset = a.bytes
    stage, deep, kind = a.bytes + b.bytes, a.deep, p.kind
    grid = Grid(p, tile, deep)
    # a loop that is unrolled whole lets ptxas load for the epilogue before it, until registers do not suffice
    turns = STAGES if a.copied and b.copied and grid.rounds > STAGES else 1
    body = [*grid.head(), "const hy_shared base = hy_shared_of(tile_memory);",
            *a.declare("base"), *b.declare(f"base + {a.bytes}"), *origins(a), *_columns_origins(b),
            "#pragma unroll", f"for (int ahead = 0; ahead < {STAGES - 1}; ahead++) {{",
            *bring(a, b, f"ahead * {stage}", f"low + ahead * {deep}", True), "}",
            f"#pragma unroll {turns}", f"for (int round = 0; round < {grid.rounds}; round++) {{",
            f"  hy_wait<{STAGES - 2}>();", "  __syncthreads();",
            f"  const int now = round % {STAGES} * {stage}, later = (round + {STAGES - 1}) % {STAGES} * {stage};",
            f"  const {kind} next = low + (round + {STAGES - 1}) * {deep};",
            *bring(a, b, "later", "next", False), "  #pragma unroll", "  for (int d = 0; d < 2; d++) {",
            *("    " + s for s in (_halves if a.item == 2 else _floats)(p, tile, a, b)), "  }",
            *("  " + s for x in (a, b) for s in x.end("later")), "}", "hy_wait<0>();",
            *grid.epilogue(b.mixed)]
    return grid.printed(body, STAGES * stage)


def bring(a: Slices, b: Slices, to: str, k: str, whole: bool) -> list[str]:
    """Begins a slice of both operands; whole: and waits for what passes through registers."""
    out = [*(s for x in (a, b) for s in [*x.begin(to, k), *(x.end(to) if whole else [])]), "hy_commit();"]
    return ["  " + s for s in out]


# ---- fragments
def origins(a: Slices) -> list[str]:
    """Where in a slice a lane's pieces of its rows lie: what does not change from slice to slice."""
    if a.by_depth:
        return ["const int a_row = top + lane % 16, a_piece = lane / 16;"]
    if a.item == 2:
        return ["const int a_row = top + (lane / 8 & 1) * 8, a_piece = lane % 8 + lane / 16 * 8;"]
    return ["const int a_row = top + lane / 4, a_piece = lane % 4;"]


def _columns_origins(b: Slices) -> list[str]:
    """The same of its columns."""
    if b.by_depth:
        return [f"const int b_row = left + lane % 8 / 2 * {2 * b.tile.ni} + lane / 16 * 2 + lane % 2, "
                "b_piece = lane / 8 & 1;"]
    if b.item == 2:
        return ["const int b_row = left + lane / 16 * 8, b_piece = lane % 16;"]
    return ["const int b_row = left + lane / 4, b_piece = lane % 4;"]


def _piece(x: Slices, row: str, whole: int) -> str:
    """Bytes to what a lane gives ldmatrix for step d: ``row`` along the side; whole: elements of a step."""
    if x.by_depth:
        return x.place(row, f"d * {whole} + {x.side}_piece * {x.each}")
    return x.place(row, f"d * {whole} + {x.side}_piece")


def load_fragments(x: Slices, count: int, deep: int) -> list[str]:
    """Statements that load an operand's fragments of step d."""
    name = f"now + {x.offset} + "
    if x.side == "a":
        head = [f"unsigned a[{count}][4];", "#pragma unroll", f"for (int i = 0; i < {count}; i++)"]
        row = "a_row + i * 16"
        if x.by_depth or x.item == 2:
            return [*head, f"  hy_ldmatrix{'' if x.by_depth else '_trans'}<4>(a[i], base + ({name}"
                    f"{_piece(x, row, deep)}));"]
        cell = x.place("a_row + i * 16 + w % 2 * 8", f"d * {deep} + a_piece + w / 2 * 4")
        return [*head, "  #pragma unroll",
                f"  for (int w = 0; w < 4; w++) a[i][w] = hy_word_at(base + ({name}{cell}));"]
    head = [f"unsigned b[{count}][2];", "#pragma unroll"]
    if x.by_depth or x.item == 2:
        row = f"b_row + j * {4 if x.by_depth else 16}"
        return [*head, f"for (int j = 0; j < {count // 2}; j++)",
                f"  hy_ldmatrix{'' if x.by_depth else '_trans'}<4>(b[2 * j], base + ({name}{_piece(x, row, deep)}));"]
    cell = x.place("b_row + j * 8", f"d * {deep} + b_piece + w * 4")
    return [*head, f"for (int j = 0; j < {count}; j++)", "  #pragma unroll",
            f"  for (int w = 0; w < 2; w++) b[j][w] = hy_word_at(base + ({name}{cell}));"]


def _halves(p: Product, tile: Tile, a: Slices, b: Slices) -> list[str]:
    """A step of 16: both operands' fragments, and their products."""
    return [*load_fragments(a, tile.mi, 16), *load_fragments(b, tile.ni, 16), "#pragma unroll",
            f"for (int i = 0; i < {tile.mi}; i++)",
            "  #pragma unroll",
            f"  for (int j = 0; j < {tile.ni}; j++) {FUNCTION[p.dot.dtype.name]}(acc[i][j], a[i], b[j]);"]


def _floats(p: Product, tile: Tile, a: Slices, b: Slices) -> list[str]:
    """A step of 8: small parts first."""
    mi, ni = tile.mi, tile.ni
    out = [*load_fragments(a, mi, 8), *load_fragments(b, ni, 8)]
    if terms(p) == 1:
        return [*out, "#pragma unroll",
                f"for (int n = 0; n < {4 * mi}; n++) a[n / 4][n % 4] = hy_one_tf32(a[n / 4][n % 4]);",
                "#pragma unroll", f"for (int n = 0; n < {2 * ni}; n++) b[n / 2][n % 2] = hy_one_tf32(b[n / 2][n % 2]);",
                "#pragma unroll", f"for (int i = 0; i < {mi}; i++)", "  #pragma unroll",
                f"  for (int j = 0; j < {ni}; j++) hy_mma_tf32(acc[i][j], a[i], b[j]);"]
    each = ["#pragma unroll", f"for (int j = 0; j < {ni}; j++) hy_mma_tf32(sum[j], {{0}}, {{1}});"]
    return [*out, f"unsigned b_small[{ni}][2];", "#pragma unroll",
            f"for (int n = 0; n < {2 * ni}; n++) hy_two_tf32(b[n / 2][n % 2], b_small[n / 2][n % 2]);",
            "#pragma unroll", f"for (int i = 0; i < {mi}; i++) {{", "  unsigned a_small[4];", "  #pragma unroll",
            "  for (int n = 0; n < 4; n++) hy_two_tf32(a[i][n], a_small[n]);", f"  float sum[{ni}][4] = {{}};",
            *("  " + s.format(x, y) for x, y in (("a_small", "b[j]"), ("a[i]", "b_small[j]"), ("a[i]", "b[j]"))
              for s in each),
            "  #pragma unroll", f"  for (int n = 0; n < {4 * ni}; n++) acc[i][n / 4][n % 4] += sum[n / 4][n % 4];", "}"]


# ---- epilogue
def epilogue(p: Product, tile: Tile, mixed: bool, part: str | None) -> list[str]:
    """A thread's sums stand in rows of neighbours (as many as fragments give, or as the result takes together)."""
    together = 2 * tile.ni if mixed else 2
    inner = next((v for v in reversed(p.m.columns) if v.extent > 1), None)
    for width in (w for w in (8, 4, 2, 1) if together % w == 0):
        if width == 1 or inner is not None and inner.extent % width == 0:
            lines = _finish(p, width, inner, part)
            if lines is not None:
                break
    assert lines is not None
    at = f"lane % 4 * {together}" if mixed else "y * 8 + lane % 4 * 2"
    rounds = 1 if mixed else tile.ni
    whole = p.rows % tile.rows == 0, p.columns % tile.columns == 0
    inside = [t for t, w in zip((f"rr < {p.rows}", f"cc < {p.columns}"), whole) if not w]
    return ["#pragma unroll", f"for (int y = 0; y < {rounds}; y++)", "  #pragma unroll",
            f"  for (int x = 0; x < {2 * tile.mi}; x++)", "    #pragma unroll",
            f"    for (int z = 0; z < {together // width}; z++) {{",
            f"      const {p.kind} rr = r0 + top + x * 8 + lane / 4, cc = c0 + left + {at} + z * {width};",
            "      HY_ASSUME(rr >= 0 && cc >= 0);", f"      if ({' && '.join(inside) or 'true'}) {{",
            *("        " + s for s in lines), "      }", "    }", *_statistics(p, tile, mixed)]


def _statistics(p: Product, tile: Tile, mixed: bool) -> list[str]:
    """Lines that store the statistics of each 16 rows of a warp's results, which are now where its sums were: lanes
    merge them by halves, until each has one of 8 columns."""
    if not p.k.sides:
        return []
    total, squares = (p.names[n] for n, _ in p.k.sides)
    at = (f"lane % 4 * {2 * tile.ni} + y * 8 + lane / 4" if mixed else
          "y * 32 + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2")
    return ["#pragma unroll", f"for (int i = 0; i < {tile.mi}; i++)", "  #pragma unroll",
            f"  for (int y = 0; y < {tile.ni // 4}; y++) {{", "    float sum[8], square[8];", "    #pragma unroll",
            "    for (int n = 0; n < 8; n++) {",
            "      const float a = acc[i][y * 4 + n / 2][n % 2], b = acc[i][y * 4 + n / 2][n % 2 + 2];",
            "      sum[n] = a + b, square[n] = (a - b) * (a - b) * 0.5f;", "    }",
            "    hy_merge_columns(sum, square, lane);",
            f"    const {p.kind} row = (r0 + top) / 16 + i, cc = c0 + left + {at};",
            f"    if (row < {p.rows // 16} && cc < {p.columns}) {{",
            f"      {total}[row * {p.columns} + cc] = sum[0];", f"      {squares}[row * {p.columns} + cc] = square[0];",
            "    }", "  }"]


def _cell(width: int) -> str:
    """A lane's sum among the accumulators."""
    at = f"z * {width} + j"
    at = f"({at})" if width > 1 else "z"
    return f"acc[x / 2][y + {at} / 2][x % 2 * 2 + {at} % 2]"


def _finish(p: Product, width: int, inner: Var | None, part: str | None) -> list[str] | None:
    """Statements that finish ``width`` neighbouring sums of row rr from column cc on; None where they are not stored as
    one."""
    lane, first = Var("j", width), Var("step", inner.extent // width if inner is not None else 1)
    names: dict[Var, Ix] = {} if inner is None or width == 1 else {inner: var(first) * width + var(lane)}
    e = emitter(p.k, p.names, None, lane)
    e.count = 3000
    columns = [v for v in p.m.columns if v not in names]

    def one(block: Block) -> None:
        index = tuple(substitute(i, names) for i in p.m.dot_index)
        block.body.append(f"float raw = {_cell(width)};")
        if part is None:
            result(p, e, index, block, _cell(width))
        else:
            _keep(p, e, index, block, part)
    lines = neighbours(e, lane, [*p.m.batch, *p.m.rows, *columns, first], one)
    if lines is None:
        return None
    decoded = [*p.decode("rr", p.m.rows), *(p.decode(f"cc / {inner.extent}", columns) if names and inner and columns
                                             else p.decode("cc", p.m.columns) if not names else [])]
    if names and inner is not None:
        decoded.append(f"const {p.kind} step = cc % {inner.extent} / {width};")
    return [*decoded, *lines]


def _keep(p: Product, e: CudaEmitter, index: tuple[Ix, ...], block: Block, part: str) -> None:
    """A part of a sum goes to working memory."""
    at = e.offset(p.dot.shape, index)
    if e.lane is None:
        block.body.append(f"scratch[{part} * ({p.kind}){p.dot.size} + {text(at)}] = raw;")
        return
    block.body.append(e.pack(f"scratch + {part} * ({p.kind}){p.dot.size}", "float", at, "raw"))


def result(p: Product, e: CudaEmitter, index: tuple[Ix, ...], block: Block, cell: str = "raw") -> None:
    """Compute the root from the sum ``raw`` and store it. cell: the sum's place, where the root is kept for statistics
    of results, if these are wanted."""
    if is_half(p.dot.dtype):
        block.body.append(f"float sum = {CUDA.rounded(p.dot.dtype, 'raw')};")
        e.halves["sum"] = CUDA.half_stored(p.dot.dtype, "raw")
    e.given[p.dot] = lambda idx: "sum" if is_half(p.dot.dtype) else "raw"
    at = root_index(p.k, index)
    value = e.value(p.k.root, at, block)
    if p.k.sides:
        block.body.append(f"{cell} = {value};")
    block.body.append(e.store(p.names[p.k.root], p.k.root, at, value))
