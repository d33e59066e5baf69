"""Products with an operand of which about half is zero, as what comes out of a ReLU or goes back through one: the steps
of a row whose factor is zero are left out.

Each row has a bit for each of 64 steps, and goes from one set bit to the next: the step's factor is broadcast, times
some vectors of the other operand, whose lines stay in a first cache. Which form runs is seen at run time: the tiles of
all steps take over where too few factors are zero. Zero times an infinity or a NaN is NaN: 64 lines in which there is
one have all bits set. Steps are added in the order of the depth, and zeros change no sum: it has the bits of a tile's,
if that sums the whole depth at once.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Sequence

from hybrid.base.config import skip_zeros
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT
from hybrid.ir.index import Ix, coefficient
from hybrid.ir.scalar import SCALARS
from hybrid.passes.fold import constant

from hybrid.codegen.program import local
from hybrid.codegen.dialect import PARALLEL
from .gemv import Dots
from .epilogue import FAR
from hybrid.codegen.lanes import F32
from .operand import Matmul, matmul
from .prefetch import Prefetch
from hybrid.codegen.schedule.tiling import PARALLEL_WORK, Target, Tile, in_one_set

STEPS = 64                      # that a word has bits for
LINES = 32 << 10                # bytes of the other operand that stay in a first cache
WAYS = 9                        # lines of as many steps stay in one set of a first cache
VALUES, SUMS = 64 << 10, 32 << 10      # bytes of transposed factors, and of sums, that a thread has on its stack
TOGETHER = 8                    # rows whose sums are kept until something follows from them
LEAST_ROWS, MOST_ROWS = 32, 4096      # of a product; that a thread takes at once
MOST_DEPTH = 1024
# cycles, as measured on processors that load two vectors and multiply two in a cycle
BEGUN = 26                      # to begin a row of a panel and to find where it ends
BITS = (12, 30)                 # to find the bits of a row; to turn its factors before
LINE = (1, 2.5)                 # to see whether a vector of a line is finite; to pack it before
SLOWER = 1.06                   # of a step, by its loads
DENSE = 1.03                    # of a step of a full tile
SEEN = 64                       # runs of factors that are looked at
HOPED = 0.55                    # the form is printed where it pays for this part of the factors at least


def often_zero(n: Node) -> bool:
    """Whether about half of a value is likely to be zero, and factors may be left out for it: it comes out of a ReLU,
    or goes back through one."""
    if not skip_zeros():
        return False
    while n.prim in MOVEMENT:
        n = n.args[0]
    if n.prim != "map":
        return False
    fn, args = n.attrs["fn"], n.args
    if fn == "mul":
        return any(map(often_zero, args))
    if fn != "relu" and SCALARS[fn].zero or fn in ("div", "minimum") and (constant(args[1]) or 0) > 0:
        return often_zero(args[0])
    if fn == "where" and any(map(often_zero, args[1:])):
        return True
    return fn == "relu" or fn in ("where", "maximum") and any((c := constant(a)) is not None and float(c) == 0
                                                              for a in args[-2:])


@dataclass
class Skipping:
    """A product with zeros left out. factors: elements from row to row and from step to step of the operand with the
    zeros; line: from step to step of the other one's lines, None where they are packed first; part: of the factors,
    that may be other than zero.
    """
    m: Matmul
    tile: Tile
    factors: tuple[int, int]
    line: int | None
    part: float
    after: list[str]                   # what follows the sums of some rows
    prefetches: list[Prefetch]         # what this touches of large arrays, from row rb + i on


def widest(target: Target, depth: int) -> int:
    """The most vectors of a panel whose lines stay in a first cache, and whose sums in registers."""
    return min(target.accumulators - 2, LINES // (min(depth, STEPS) * target.lanes(F32) * 4))


def pays(depth: int, nv: int, vectors: float, panels: int, rows: int, transposed: bool = False,
         packed: bool = False) -> float:
    """The part of the factors up to which panels of ``nv`` vectors take less time than the tiles of all steps, for
    blocks of so many rows. vectors: of all columns; transposed: whether factors are; packed: whether rows are packed at
    each call.
    """
    steps = depth / -(-depth // STEPS)                     # of a word
    beside = BEGUN + nv + BITS[transposed] / panels + LINE[packed] * steps * nv / rows
    return (vectors / panels * steps / 2 * DENSE - beside) / (steps * max((nv + 1) / 2 * SLOWER, 4))


def bits(rows: str, depth: int, values: str, apart: int) -> list[str]:
    """Lines that set the bits of some rows, in ``some``."""
    words, whole = -(-depth // STEPS), depth // STEPS * STEPS
    count = STEPS if whole == depth else f"w < {depth // STEPS} ? {STEPS} : {depth - whole}"
    return [f"for (long i = 0; i < {rows}; i++) for (long w = 0; w < {words}; w++) some[i * {words} + w] = "
            f"hy_nonzero({values} + i * {apart}l + w * {STEPS}, {count});"]


def sums(name: str, lanes: int, at: list[int], to: list[int], line: int, more: bool,
         prefetches: Sequence[Prefetch]) -> str:
    """The function of a row: the sums of a panel over the set bits. A: the row's factors; B: the panel's first line; C:
    where sums go. at: where the vectors are in a line; to: in the sums; more: whether it adds to sums. prefetches: rows
    of vectors that are fetched into the caches meanwhile.
    """
    V, U = f"vfloat{lanes}", f"ufloat{lanes}"
    arguments = ["const float *A", "unsigned long some", "const float *B", "float *C", *["long more"] * more,
                 *(f"const float *E{i}" for i in range(len(prefetches)))]
    out = [f"static __attribute__((noinline)) void {name}_sums({', '.join(arguments)}) {{",
           *("  " + " ".join(p.line(f"E{i} + {v}") for v in range(0, to[-1] + lanes, 16))
             for i, p in enumerate(prefetches)),
           "  " + " ".join(f"{V} c{j} = {{0}};" for j in range(len(at)))]
    if more:
        out.append(f"  if (more) {{ {' '.join(f'c{j} = *({U} *)(C + {v});' for j, v in enumerate(to))} }}")
    copies = ", ".join(["a"] * lanes)
    out += ["  for (; some; some &= some - 1) {", "    const long k = __builtin_ctzl(some);",
            f"    const float a = A[k], *b = B + k * {line}l; const {V} w = {{{copies}}};",
            "    " + " ".join(f"c{j} += w * *(const {U} *)(b + {v});" for j, v in enumerate(at)), "  }"]
    return "\n".join([*out, "  " + " ".join(f"*({U} *)(C + {v}) = c{j};" for j, v in enumerate(to)), "}"])


def looks(factors: str, part: float, count: int, run: int, step: int) -> str:
    """Whether enough factors are zero, in C. part: of the factors, that may be other than zero; count, run, step: they
    are so many runs, of which some are looked at.
    """
    every = max(1, count // SEEN)
    count //= every
    return f"hy_sparse({factors}, {count}, {run}, {step * every}l, {int(part * count * run)})"


def every_step(lines: str, steps: str | int) -> str:
    """The bits of all steps where a line of theirs is not finite, else none, as ``all``. lines: arguments of
    hy_finite."""
    return f"const unsigned long all = hy_finite({lines}) ? 0 : (unsigned long)-1 >> ({STEPS} - {steps});"


def parts(least: int, most: int) -> str:
    """How many parts of the rows there are: ``least``, or more for more threads, up to ``most``."""
    return (f"const long parts = hy_threads < 2 || 2 * hy_threads < {least} ? {least} : 2 * hy_threads < {most} ? 2 * "
            f"hy_threads : {most};")


class Zeros(Dots):
    """What a Contraction prints where an operand is often zero."""
    plain: tuple[str, int] | None

    def _plans(self) -> list[Matmul]:
        """The product with one operand's rows, and with the other's."""
        # halves are converted on the way into a panel
        straight = {n: p for n, p in self.reads.items() if not is_half(n.dtype)}
        return [matmul(self.dot, straight, swap) for swap in (False, True)]

    def _skipping(self) -> Skipping | None:
        """How zeros can be left out; None where they are few, or where it does not pay."""
        if self.d != F32 or self.dot.dtype != F32 or self.lanes < 8 or not any(map(often_zero, self.dot.args)):
            return None
        return next((s for m in self._plans() if m.a.base is not None and often_zero(m.a.base)
                     and (s := self._skipped(m)) is not None), None)

    def _skipped(self, m: Matmul) -> Skipping | None:
        rows, columns, depth = m.sizes
        if (m.batch or not len(m.rows) == len(m.columns) == len(m.depth) == 1 or rows < LEAST_ROWS
            or not self.lanes <= depth <= MOST_DEPTH or columns < self.lanes):
            return None
        factors = m.a.stride(m.rows[0]), m.a.stride(m.depth[0])
        lines = m.b.stride(m.depth[0]), m.b.stride(m.columns[0])
        if None in (*factors,
                    *lines) or 1 not in factors or 1 not in lines or not self._in_vectors() or coefficient(
                self._stored_at(m), m.columns[0]) != 1:
            return None
        def packs(nv: int) -> bool:
            return lines[1] != 1 or in_one_set(min(depth, STEPS), lines[0] * 4,  # type: ignore[operator]
                                               min(nv * self.lanes, columns) * 4) > WAYS
        part, nv = max((pays(depth, nv, columns / self.lanes, -(-columns // (nv * self.lanes)), rows, factors[1] != 1,
                             packs(nv)), nv)
                       for nv in range(1, max(1, widest(self.target, depth)) + 1))
        if part < HOPED:
            return None
        tile = Tile(TOGETHER, nv, 1, min(nv * self.lanes, columns), 2)         # of so many rows as m_rows says
        line = None if packs(nv) else lines[0]
        after = self._after(m, tile)
        if not after:
            return None
        far = [replace(p, start=f"{p.start} + (rb + i) * {p.step}l")
               for n, p in self._touched(m, tile, m.columns[0]) if n.nbytes >= FAR]
        return Skipping(m, tile, factors, line, part, after, far)              # type: ignore[arg-type]

    # ---- the kernel
    def _either(self, dense: Callable[[], str], s: Skipping) -> str:
        """The kernel that looks at the operands first. dense: prints the tiles of all steps under this name."""
        name, self.name = self.name, f"{self.name}_dense"
        full, self.name = dense(), name
        self.plain, self.prefetches, self.steps = None, [], s.m.sizes[2]
        m, (rows, _, depth) = s.m, s.m.sizes
        (count, run), step = ((depth, rows), s.factors[1]) if s.factors[0] == 1 else ((rows, depth), s.factors[0])
        arguments = ", ".join([*(f"p{i}" for i in range(len(self.args))), "scratch"])
        body = [f"const float *A = {self._base(m.a, {m.rows[0]: Ix()}, m)};",
                f"if (!{looks('A', s.part, count, run, step)}) {{", f"  {name}_dense({arguments});", "  return;", "}",
                *([] if s.line is None else [f"const float *B = {self._base(m.b, {m.columns[0]: Ix()}, m)};"]),
                *self._blocks(s)]
        at, line = self._places(s), s.line or s.tile.nv * self.lanes
        row = sums(name, self.lanes, at, at, line, depth > STEPS, s.prefetches)
        return "\n".join([full, row, self._head(), *("  " + line for line in body), "}"])

    def _places(self, s: Skipping) -> list[int]:
        """Where the vectors of a panel begin in its lines: the last one may overlap the one before it."""
        last = s.tile.c - self.lanes
        return [j * self.lanes if s.line is None else min(j * self.lanes, last) for j in range(s.tile.nv)]

    def _after(self, m: Matmul, t: Tile) -> list[str]:
        """What follows the sums of m_rows rows from m_first on, which are in acc; nothing where it cannot be vectors
        along the columns."""
        (x,) = m.columns
        self.begin = {x: f"xt * {t.c} - x0"} if self.k.once and x.extent % t.c else {}
        lines = self._vector_epilogue(m, t, x, None, t.nv * self.lanes)
        self.begin = {}
        return lines

    def _blocks(self, s: Skipping) -> list[str]:
        """Threads take blocks of rows: their bits, then one panel after another."""
        rows, columns, depth = s.m.sizes
        lanes, transposed, width = self.lanes, s.factors[1] != 1, s.tile.nv * self.lanes
        padded, words = -(-depth // lanes) * lanes, -(-depth // STEPS)
        most = max(lanes, min(VALUES // 4 // (padded if transposed else 1),
                              SUMS // 4 // width if words > 1 else MOST_ROWS) // lanes * lanes)
        least = min(-(-rows // most), rows // lanes)
        block, apart = -(-rows // least), padded if transposed else s.factors[0]
        body = [f"const long rb = {rows} * part / parts, rows = {rows} * (part + 1) / parts - rb;",
                local.array("unsigned long", "some", block * words, 8)]
        if transposed:
            body += [local.array("float", "values", block * padded), *self._turned(s, padded)]
        else:
            body.append(f"const float *values = A + rb * {apart}l;")
        body += bits("rows", depth, "values", apart)
        if words > 1:
            body.append(local.array("float", "sums", block * width))
        if s.line is None:
            body.append(local.array("float", "Bp", min(depth, STEPS) * width))
        x = f"const long x0 = xt * {s.tile.c} < {columns - s.tile.c} ? xt * {s.tile.c} : {columns - s.tile.c};"
        body += [f"for (long xt = 0; xt < {-(-columns // s.tile.c)}; xt++) {{", f"  {x}",
                 *("  " + line for line in self._panel(s, apart, words)), "}"]
        shared = [PARALLEL] if rows * columns * depth >= PARALLEL_WORK else []
        return [parts(least, rows // lanes), *shared, "for (long part = 0; part < parts; part++) {",
                *("  " + line for line in body), "}"]

    def _panel(self, s: Skipping, apart: int, words: int) -> list[str]:
        """A panel of a block of rows: its lines packed if need be, sums, and what follows from them."""
        x, width = s.m.columns[0], s.tile.nv * self.lanes
        self.steps = min(s.m.sizes[2], STEPS)
        packs = self._pack_columns(s.m, s.tile, {x: (s.tile.c, "x0")}) if s.line is None else []
        touched = "".join(f", {p.start}" for p in s.prefetches)
        first = "Bp" if packs else "B + x0" if words == 1 else f"B + kb * {s.line}l + x0"
        steps = str(s.m.sizes[2]) if words == 1 else "kn"
        packs.append(every_step(f"{first}, {steps}, {s.tile.c}, {s.line or width}l", steps))
        if words > 1:
            call = (f"{self.name}_sums(values + i * {apart}l + kb, some[i * {words} + kb / {STEPS}] | all, {first}, "
                    f"sums + i * {width}, kb{touched});")
            return [*self._depth_loop(s.m, [*packs, f"for (long i = 0; i < rows; i++) {call}"]),
                    "const long m_first = rb, m_rows = rows;", "const float *acc = sums;", *s.after]
        call = f"{self.name}_sums(values + i * {apart}l, some[i] | all, {first}, acc + (i - ib) * {width}{touched});"
        return [*packs, f"for (long ib = 0; ib < rows; ib += {TOGETHER}) {{",
                f"  const long m_first = rb + ib, m_rows = rows - ib < {TOGETHER} ? rows - ib : {TOGETHER};",
                f"  float acc[{TOGETHER * width}] __attribute__((aligned(64)));",
                f"  for (long i = ib; i < ib + m_rows; i++) {call}", *("  " + line for line in s.after), "}"]

    def _turned(self, s: Skipping, padded: int) -> list[str]:
        """Copies factors that are neighbours from row to row so that they are from step to step. Blocks at the ends
        overlap those before."""
        L, depth = self.lanes, s.m.sizes[2]
        return [f"for (long it = 0; it < rows; it += {L}) for (long kt = 0; kt < {depth}; kt += {L}) {{",
                f"  const long i = it < rows - {L} ? it : rows - {L}, k = kt < {depth - L} ? kt : {depth - L};",
                f"  turn_{self.V}(values + i * {padded} + k, {padded}, A + rb + i + k * {s.factors[1]}l, "
                f"{s.factors[1]}l);", "}"]
