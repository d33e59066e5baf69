"""Matrix products of warpgroups (wgmma, sm_90a): four warps multiply 64 rows by up to 256 columns that lie in shared
memory, at the full rate of its tensor cores, which the products of single warps (mma.py) do not reach.

Halves are read from their slices as they were copied. Floats are split in two numbers that tensor cores take whole: the
rows' in registers, the columns' in shared memory, while the products of the slice before are under way.
"""
from __future__ import annotations

from typing import Sequence, TypeVar

from hybrid.base.dtype import is_half

from .boxes import FORM, Boxes, boxes_of
from .grid import Grid
from .mma import best_cost, bring, load_fragments, origins, terms, work
from .pieces import PROCESSORS, PrintedCuda, alone, indented
from .product import Product
from .shares import Division, best_division, count
from .stages import Plain, Slices, Swizzled, Tile
from .target import current

TILES = (Tile(128, 128, 8, 1), Tile(64, 128, 4, 1), Tile(128, 64, 8, 1), Tile(64, 64, 4, 1))
WIDE = Tile(128, 256, 8, 1)     # of halves alone: a product of 256 columns, for which its rows are read once, not twice
FASTER = 1.6                    # rate of tensor cores, of that by mma.sync
STAGES = 3                      # slices in shared memory
SPECIALIZED_STAGES = 4          # where a producer warpgroup copies them
PRODUCERS = 128                 # its threads
BY_COPIES = "slices copied by a warpgroup of their own"
PRODUCER_REGISTERS = 40         # of each of its threads, where one thread copies
SLOT = f"round % {SPECIALIZED_STAGES}"                    # where a producer's slice lies
_WAIT_FOR_SLOT = f"hy_mbarrier_wait(used + {SLOT} * 8, (round / {SPECIALIZED_STAGES} + 1) & 1);"
REUSE = 240                     # products for each element of memory: the ratio of their rates on an H100, by the model
TOGETHER = 2                    # slices of floats whose sums tensor cores add up


def pick_warpgroup(p: Product) -> Division[Tile] | None:
    """The division that finishes first; None where ``why_no_warpgroups`` says why."""
    best = None if _unsuited(p) else _best(p)
    return best if best is not None and best.cost < best_cost(p) else None


def why_no_warpgroups(p: Product) -> str:
    """Why products of single warps are taken, where they are."""
    return _unsuited(p) or "products of single warps are done first"


def _unsuited(p: Product) -> str:
    if not current().warpgroups:
        return "only GPUs of sm_90a multiply by them"
    slices = Swizzled if is_half(p.dot.dtype) else Plain
    return "" if all(slices(p, side, TILES[-1]).copied for side in "ab") else "operands are computed on the way"


def _best(p: Product) -> Division[Tile]:
    slices = Swizzled if is_half(p.dot.dtype) else Plain
    return best_division(p, (*TILES, *([WIDE] if slices is Swizzled else [])),
                         lambda t: slices.deep_line // p.dot.dtype.itemsize, lambda t: work(p, t, FASTER))


def print_warpgroup(p: Product, division: Division[Tile]) -> PrintedCuda:
    """A block's warpgroups own 64 rows each; all its threads copy slices, or a producer warpgroup does, or one thread
    of it through tensor maps."""
    if not is_half(p.dot.dtype):
        x, y = _slices(Plain, p, division.tile)
        grid, stage = Grid(p, division, x.deep), x.bytes + y.bytes
        return alone(grid.printed(_floats(p, grid, x, y, stage), False, STAGES * stage + _split_bytes(p, y)))
    a, b = _slices(Swizzled, p, division.tile, PRODUCERS, division.tile.threads)
    boxes, stage = boxes_of(p, a, b), a.bytes + b.bytes
    if specializes(p, division, not isinstance(boxes, str)):
        grid, shared = Grid(p, division, a.deep, PRODUCERS), SPECIALIZED_STAGES * (stage + 16)
        if not isinstance(boxes, str):
            p.k.form = FORM
            return alone(grid.printed(_through_maps(p, grid, boxes, stage), False, shared, 1,
                                      {x.name: (x.array, x.map) for x in boxes}))
        p.k.form, p.k.not_taken = BY_COPIES, [*p.k.not_taken, (FORM, boxes)]
        return alone(grid.printed(_specialized(p, grid, a, b, stage), False, shared))
    p.k.not_taken.append((FORM, boxes if isinstance(boxes, str) else "blocks share the depth" if division.shares else
                          "multiprocessors have one block at most, or wait for memory"))
    a, b = _slices(Swizzled, p, division.tile)
    grid = Grid(p, division, a.deep)
    return alone(grid.printed(_halves(p, grid, a, b, stage), False, STAGES * stage))


S = TypeVar("S", bound=Slices)


def _slices(kind: type[S], p: Product, tile: Tile, *copying: int) -> tuple[S, S]:
    """Those of both operands. copying: the number of threads that copy, and the first of them, if not all do."""
    a, b = (kind(p, side, tile, *copying) for side in "ab")
    b.offset = a.bytes
    return a, b


def specializes(p: Product, division: Division[Tile], maps: bool) -> bool:
    """Whether warps are specialized: a producer warpgroup copies slices, the consumers multiply them. By the model that
    is faster where a block has a multiprocessor to itself, and one tile; through tensor maps also where there are more
    blocks than multiprocessors, if products take longer than memory."""
    if division.shares is not None:
        return False
    arrays = p.batch * (p.rows * p.depth + p.depth * p.columns + p.rows * p.columns)
    return division.tile == WIDE or (maps and count(p, division.tile) > (current().processors or PROCESSORS)
                                     and p.batch * p.rows * p.columns * p.depth >= REUSE * arrays)


def _ahead(a: Slices, b: Slices, stage: int, count: int) -> list[str]:
    """Begins the first slices."""
    return ["#pragma unroll", f"for (int ahead = 0; ahead < {count}; ahead++) {{",
            *bring(a, b, f"ahead * {stage}", f"low + ahead * {a.deep}", True), "}"]


# ---- halves
class Halves:
    """The products of a slice of halves: both operands are read from where they were copied to. ``base`` is the first
    slice's begin."""

    def __init__(self, p: Product, grid: Grid, a: Slices, b: Slices):
        how = " | ".join(w for x, w in ((a, "HY_TURNED_A"), (b, "HY_TURNED_B")) if not x.by_depth) or "0"
        self.name = f"hy_wgmma_{'half' if p.dot.dtype.name == 'float16' else 'bf16'}_n{grid.tile.columns}<{how}>"
        self.lead = [0 if x.by_depth else x.deep * 128 for x in (a, b)]
        self.step = [32 if x.by_depth else 2048 for x in (a, b)]
        self.own = 64 * 128 if a.by_depth else self.lead[0]                # bytes between the rows of two warpgroups
        self.offset, self.deep = b.offset, a.deep

    def begin(self, now: str) -> list[str]:
        """Statements that begin those of the slice ``now`` (bytes)."""
        return [f"const hy_matrix x = hy_matrix_of(base + {now} + warp / 4 * {self.own}, 1024, {self.lead[0]});",
                f"const hy_matrix y = hy_matrix_of(base + {now} + {self.offset}, 1024, {self.lead[1]});",
                "hy_wgmma_fence();", "#pragma unroll", f"for (int d = 0; d < {self.deep // 16}; d++)",
                f"  {self.name}((float *)acc, hy_matrix_at(x, d * {self.step[0]}), hy_matrix_at(y, d * "
                f"{self.step[1]}));", "hy_wgmma_commit();"]


def _halves(p: Product, grid: Grid, a: Slices, b: Slices, stage: int) -> list[str]:
    """Each k-iteration waits for a slice, begins its products, then another slice where the one before lay."""
    return ["const hy_shared base = hy_shared_of(tile_memory);", *a.declare("base"), *b.declare(f"base + {a.bytes}"),
            *_ahead(a, b, stage, STAGES - 1),
            "#pragma unroll 1", f"for (int round = 0; round < {grid.trip}; round++) {{",
            f"  hy_wait<{STAGES - 2}>();", "  hy_proxy_fence();", "  __syncthreads();",
            f"  const int now = round % {STAGES} * {stage}, later = (round + {STAGES - 1}) % {STAGES} * {stage};",
            f"  const {p.kind} next = low + (round + {STAGES - 1}) * {a.deep};",
            *indented(Halves(p, grid, a, b).begin("now")),
            *bring(a, b, "later", "next", False), "  hy_wgmma_wait<0>();", "}"]


def _specialized(p: Product, grid: Grid, a: Slices, b: Slices, stage: int) -> list[str]:
    """The block's last warpgroup is the producer, which copies slices; the consumers multiply them."""
    copies = [f"const int to = {SLOT} * {stage};", f"const {p.kind} next = low + round * {a.deep};",
              *a.begin("to", "next"), *b.begin("to", "next"), f"hy_cp_async_arrive(full + {SLOT} * 8);"]
    return [*_barriers(grid, stage, PRODUCERS), f"if (threadIdx.x >= {grid.tile.threads}) {{",
            *indented([*a.declare("base"), *b.declare(f"base + {a.bytes}"), *_rounds(grid, _WAIT_FOR_SLOT, copies),
                       "hy_commit();", "hy_wait<0>();", "return;"]), "}",
            *_products_of_slices(grid, Halves(p, grid, a, b), stage, ["hy_proxy_fence();"])]


def _through_maps(p: Product, grid: Grid, boxes: list[Boxes], stage: int) -> list[str]:
    """One thread of the producer copies slices, whose bytes the mbarriers count. The threads that multiply get
    registers that the producer's do not need."""
    a, b = (x.x for x in boxes)
    copies = [f"const hy_shared to = base + {SLOT} * {stage}, ready = full + {SLOT} * 8;",
              f"const int next = (int)(low + round * {a.deep});", f"hy_mbarrier_expect(ready, {stage});",
              *(s for x in boxes for s in x.copy("to", "next", "ready"))]
    fewer, more = _registers(grid)
    return [*_barriers(grid, stage, 1, ["  hy_proxy_fence();"]), f"if (threadIdx.x >= {grid.tile.threads}) {{",
            *indented([*fewer, f"if (threadIdx.x > {grid.tile.threads}) return;", "(void)high;",
                       *(f"hy_prefetch_map({x.name});" for x in boxes), *_rounds(grid, _WAIT_FOR_SLOT, copies),
                       "return;"]), "}", *more,
            *_products_of_slices(grid, Halves(p, grid, a, b), stage, [])]


def _registers(grid: Grid) -> tuple[list[str], list[str]]:
    """Statements of the producer and of the consumers that redistribute a multiprocessor's registers; none if every
    thread may already have 255."""
    each = min(255, 65536 // grid.threads) // 8 * 8
    more = (each * grid.threads - PRODUCER_REGISTERS * PRODUCERS) // grid.tile.threads // 8 * 8
    if more > 248:
        return [], []
    return [f"hy_fewer_registers<{PRODUCER_REGISTERS}>();"], [f"hy_more_registers<{more}>();"]


def _barriers(grid: Grid, stage: int, arrivals: int, after: Sequence[str] = ()) -> list[str]:
    """Of each slice one mbarrier tells that it is there, another one that all have used it: while one consumer waits,
    the other one's products are under way. arrivals: for a slice to be there; after: more statements of the thread that
    initialises them."""
    warps, count = grid.tile.threads // 32, SPECIALIZED_STAGES
    return ["const hy_shared base = hy_shared_of(tile_memory);",
            f"const hy_shared full = base + {count * stage}, used = full + {8 * count};",
            "if (threadIdx.x == 0) {", "  #pragma unroll", f"  for (int s = 0; s < {count}; s++) {{",
            f"    hy_mbarrier_init(full + s * 8, {arrivals});", f"    hy_mbarrier_init(used + s * 8, {warps});",
            "  }", *after, "}", "__syncthreads();"]


def _rounds(grid: Grid, wait: str, body: Sequence[str]) -> list[str]:
    """A loop over a block's k-iterations, each of which begins with a wait."""
    return ["#pragma unroll 1", f"for (int round = 0; round < {grid.trip}; round++) {{", *indented([wait, *body]), "}"]


def _products_of_slices(grid: Grid, halves: Halves, stage: int, fence: Sequence[str]) -> list[str]:
    """The loop of the consumers. fence: for what comes by other ways than the products' own."""
    return _rounds(grid, f"hy_mbarrier_wait(full + {SLOT} * 8, round / {SPECIALIZED_STAGES} & 1);",
                   [*fence, f"const int now = {SLOT} * {stage};", *halves.begin("now"), "hy_wgmma_wait<0>();",
                    f"if (lane == 0) hy_mbarrier_arrive(used + {SLOT} * 8);"])


# ---- floats
def _split_bytes(p: Product, b: Slices) -> int:
    """Bytes of the columns as tensor cores take them: of two slices, each number's parts."""
    return 2 * (2 if terms(p) > 1 else 1) * b.size * 64


def _floats(p: Product, grid: Grid, a: Slices, b: Slices, stage: int) -> list[str]:
    """Each round begins a slice's products, and splits the next one's columns meanwhile. Tensor cores cut sums off:
    those of TOGETHER slices are added outside."""
    three, one, split, count = terms(p) > 1, b.size * 64, _split_bytes(p, b), grid.tile.ni * 4
    adds = ["const int adds = 1;"] if not three else [f"const int adds = round % {TOGETHER} != 0;"]
    done = [f"if (round % {TOGETHER} == {TOGETHER - 1} || round == {grid.trip} - 1) {{", "  #pragma unroll",
            f"  for (int n = 0; n < {count}; n++) ((float *)acc)[n] += sum[n];", "}"] if three else []
    return [f"const hy_shared base = hy_shared_of(tile_memory) + {split};", *a.declare("base"),
            *b.declare(f"base + {a.bytes}"), *origins(a), *_ahead(a, b, stage, STAGES),
            "unsigned big[2][4], raw[2][4];", *(["unsigned small[2][4];", f"float sum[{count}];"] if three else []),
            f"hy_wait<{STAGES - 1}>();", "__syncthreads();", "{", "  const int now = 0, half = 0;",
            *indented([*_rows(a), *_columns(b, split, one, three)]), "}", "#pragma unroll 1",
            f"for (int round = 0; round < {grid.trip}; round++) {{",
            *indented(_parts(three, "raw", "big", "small", 8)),
            f"  hy_wait<{STAGES - 2}>();", "  hy_proxy_fence();", "  __syncthreads();",
            f"  const int later = round % {STAGES} * {stage}, now = (round + 1) % {STAGES} * {stage};",
            f"  const int half = (round + 1) % 2 * {split // 2};", *indented(adds),
            f"  const {p.kind} next = low + (round + {STAGES}) * {a.deep};",
            f"  const hy_matrix y = hy_matrix_of(hy_shared_of(tile_memory) + round % 2 * {split // 2}, 512, 16, 64);",
            "  hy_wgmma_fence();", *indented(_products(grid.tile, three, one)), "  hy_wgmma_commit();",
            *bring(a, b, "later", "next", False),
            *indented([*_rows(a), *_columns(b, split, one, three)]), "  hy_wgmma_wait<0>();", *indented(done), "}"]


def _products(tile: Tile, three: bool, one: int) -> list[str]:
    """A slice of 16: small parts first."""
    pairs = (("small", 0), ("big", one), ("big", 0)) if three else (("big", 0),)
    to = "sum" if three else "(float *)acc"
    return [f"hy_wgmma_tf32_n{tile.columns}({to}, {x}[{d}], hy_matrix_at(y, {at + d * 32}), "
            f"{'1' if n or d else 'adds'});" for n, (x, at) in enumerate(pairs) for d in range(2)]


def _parts(three: bool, raw: str, big: str, small: str, count: int) -> list[str]:
    """Statements that split numbers."""
    at = "[n / 4][n % 4]" if count == 8 else "[n]"
    how = f"hy_two_tf32({big}{at}, {small}{at});" if three else f"{big}{at} = hy_one_tf32({big}{at});"
    return ["#pragma unroll", f"for (int n = 0; n < {count}; n++) {{",
            *([f"  {big}{at} = {raw}{at};"] if raw != big else []), f"  {how}", "}"]


def _rows(a: Slices) -> list[str]:
    """A slice's rows of a thread, as they are: who writes what a product reads while others are under way makes these
    wait for each other."""
    return ["#pragma unroll", "for (int d = 0; d < 2; d++) {", *indented([
        *load_fragments(a, 1, 8), "#pragma unroll", "for (int n = 0; n < 4; n++) raw[d][n] = a[0][n];"]), "}"]


def _columns(b: Slices, split: int, one: int, three: bool) -> list[str]:
    """A slice's columns, split, where products read them."""
    raw = f"tile_memory + {split} + now + {b.offset}"
    if b.by_depth:
        at = [f"const int at = ((int)threadIdx.x + i * {b.threads}) * 16;",
              f"hy_pack<unsigned, 4> v = *(const hy_pack<unsigned, 4> *)({raw} + at);"]
    else:
        cell = b.place("s", "q * 4 + n")
        at = [f"const int s = (int)threadIdx.x % {b.size};",
              f"const int q = (int)threadIdx.x / {b.size} + i * {b.threads // b.size};",
              "const int at = s * 64 + (q ^ s / 2 & 3) * 16;", "hy_pack<unsigned, 4> v;", "#pragma unroll",
              f"for (int n = 0; n < 4; n++) v.x[n] = *(const unsigned *)({raw} + {cell});"]
    store = "*(hy_pack<unsigned, 4> *)(tile_memory + half + {}at) = {};"
    return ["#pragma unroll", f"for (int i = 0; i < {b.size * 4 // b.threads}; i++) {{", *indented([
        *at, *(["hy_pack<unsigned, 4> w;"] if three else []), *_parts(three, "v.x", "v.x", "w.x", 4),
        store.format("", "v"), *([store.format(f"{one} + ", "w")] if three else [])]), "}"]
