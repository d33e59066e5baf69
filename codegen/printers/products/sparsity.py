"""Products with an operand of which about half is zero, as what comes out of a ReLU or goes back through one: the steps
of a row whose factor is zero are left out.

Each row has a bit for each of 64 steps, and goes from one set bit to the next: the step's factor is broadcast, times
some vectors of the other operand, whose lines stay in a first cache. Which form runs is seen at run time: the tiles of
all steps take over where too few factors are zero. Zero times an infinity or a NaN is NaN: 64 lines in which there is
one have all bits set. Steps are added in the order of the depth, and zeros change no sum: it has the bits of a tile's,
if that sums the whole depth at once.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Callable, Sequence

from hybrid.base import system
from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.base.config import skip_zeros
from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT, beneath
from hybrid.ir.index import Ix, Var, coefficient, substitute, text
from hybrid.ir.size import Dim, Int, fixed, greater, hint, product, quotient, same, size, smaller
from hybrid.ir.rewriting import change, walk
from hybrid.ir.scalar import SCALARS
from hybrid.ir.pattern import constant
from hybrid.ir.stmt import Name, Prefetch, Stmt, Store

from hybrid.codegen.program import local
from hybrid.codegen.program.size_parameters import literal, more_passed
from .epilogue import FAR
from hybrid.codegen.dialect import C
from hybrid.codegen.lanes import F32, Refused, half
from .operand import Matmul, matmul
from .packing import Panels, threads, up
from .tiles import places
from hybrid.codegen.schedule.tiling import Target, Tile, in_one_set

LETTERS = ("b_", "m_", "n_", "k_")     # names of loops begin so: no size has such a name (n_0 is none)
STEPS = 64                      # that a word has bits for
LINES = 32 << 10                # bytes of the other operand that stay in a first cache
# bytes from which a product is written past the caches, if no kernel of the program waits for it (a gradient that the
# program returns)
STREAM = 1 << 19
LINE_LENGTH = 16                # numbers of a cache line
ALONG = ("x0", "q_")            # variables of an index along a panel's columns (Epilogue._of_columns)
ROWS_AHEAD = 4                  # rows from the one whose results are stored to the one that is prefetched
WAYS = 9                        # lines of as many steps stay in one set of a first cache
VALUES, SUMS = 64 << 10, 32 << 10      # bytes of transposed factors, and of sums, that a thread has on its stack
LIKELY = 64                     # of a size that only the call tells
LEAST_ROWS, MOST_ROWS = 32, 4096      # of a product; that a thread takes at once
MOST_DEPTH, MOST_ANY = 1024, 256       # of a product; of one whose depth only the call tells
# cycles, measured on processors that load and multiply two vectors a cycle, and on those that split vectors and do one
BEGUN = 26                      # to begin a row of a panel and to find where it ends
BITS = (12, 30)                 # to find the bits of a row; to turn its factors before
LINE = (1, 2.5)                 # to see whether a vector of a line is finite; to pack it before
SLOWER = 1.06                   # of a step, by its loads
DENSE = 1.03                    # of a step of a full tile
# to store and reload one vector of sums after each word of 64 steps, on processors that split vectors
SPILL = 8
SEEN = 64                       # runs of factors that are looked at
HOPED = 0.55                    # the form is printed where it pays for this part of the factors at least


def often_zero(n: Node) -> bool:
    """Whether about half of a value is likely to be zero, and factors may be left out for it: it comes out of a ReLU,
    or goes back through one."""
    if not skip_zeros():
        return False
    n = beneath(n, MOVEMENT | {"cast"})
    if n.prim != "map":
        return False
    fn, args = n.fn, n.args
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
    """A product with zeros left out, in panels of ``nv`` vectors. factors: elements from row to row and from step to
    step of the operand with the zeros; packs: whether the other one's lines are packed first; part: of the factors,
    that may be other than zero.
    """
    m: Matmul
    nv: int
    factors: tuple[Int, Int]
    packs: bool
    part: float
    after: list[Stmt]                  # what follows the sums of a row, or of all rows if the depth is cut in blocks
    outside: list[Stmt]                # what of it no loop changes
    past: Sequence[str]                # the pointers of results that ``after`` writes past the caches


def _near(s: Stmt) -> Stmt:
    """The statement; if it stores past the caches, the one that stores the same to the caches."""
    return replace(s, vector="STORE") if isinstance(s, Store) and s.vector == "PAST" else s


def likely(n: Int) -> int:
    """The size by which a form is judged: of one that only the call tells not the first call's, which may have been
    small. The kernel looks at the size, too."""
    return hint(n) if fixed(n) else max(hint(n), LIKELY)


def widest(target: Target, depth: int) -> int:
    """The most vectors of a panel whose lines stay in a first cache, and whose sums in registers."""
    return min(target.accumulators - 2, LINES // (min(depth, STEPS) * target.lanes(F32) * 4))


def splits_vectors(target: Target) -> bool:
    """Whether the processor executes an operation on this target's vectors as two of half the width."""
    return target.vector == 64 and system.splits_wide_vectors()


def pays(depth: int, nv: int, vectors: float, panels: int, rows: int, transposed: bool = False,
         packed: bool = False, split: bool = False) -> float:
    """The part of the factors up to which panels of ``nv`` vectors take less time than the tiles of all steps, for
    blocks of so many rows. vectors: of all columns; transposed: whether factors are; packed: whether rows are packed at
    each call; split: whether the processor splits vectors (``splits_vectors``).
    """
    steps = depth / -(-depth // STEPS)                     # of a word
    beside = BEGUN + nv + BITS[transposed] / panels + LINE[packed] * steps * nv / rows
    if split:
        beside += SPILL * nv * (depth > STEPS)
        return (vectors / panels * steps * DENSE - beside) / (steps * max(nv + 0.5, 4))
    return (vectors / panels * steps / 2 * DENSE - beside) / (steps * max((nv + 1) / 2 * SLOWER, 4))


def bits(rows: str, depth: Int, values: str, apart: Int, words: int = 0) -> list[str]:
    """Lines that set the bits of some rows, in ``some``. words: of a row, where only the call tells the depth."""
    if fixed(depth):
        words, whole = -(-depth // STEPS), depth // STEPS * STEPS
        count = STEPS if whole == depth else f"w < {depth // STEPS} ? {STEPS} : {depth - whole}"
        last: Int = words
    else:
        count, last = f"{depth} - w * {STEPS} < {STEPS} ? {depth} - w * {STEPS} : {STEPS}", up(depth, STEPS)
    return [f"for (long i = 0; i < {rows}; i++) for (long w = 0; w < {last}; w++) some[i * {words} + w] = "
            f"hy_nonzero({values} + i * {literal(apart)} + w * {STEPS}, {count});"]


def sums(name: str, lanes: int, at: Sequence[int | str], to: Sequence[int | str], line: Int | str, more: bool,
         longs: Sequence[str] = (), before: Sequence[str] = ()) -> str:
    """The function of a row: the sums of a panel over the set bits. A: the row's factors; B: the panel's first line; C:
    where sums go. at: where the vectors are in a line; to: in the sums; more: whether it adds to sums. longs: further
    parameters; before: lines that begin it.
    """
    V, U = f"vfloat{lanes}", f"ufloat{lanes}"
    arguments = ["const float *A", "unsigned long some", "const float *B", "float *C", *(f"long {n}" for n in longs),
                 *["long more"] * more]
    out = [f"static __attribute__((noinline)) void {name}_sums({', '.join(arguments)}) {{", *before,
           "  " + " ".join(f"{V} c{j} = {{0}};" for j in range(len(at)))]
    if more:
        out.append(f"  if (more) {{ {' '.join(f'c{j} = *({U} *)(C + {v});' for j, v in enumerate(to))} }}")
    copies = ", ".join(["a"] * lanes)
    out += ["  for (; some; some &= some - 1) {", "    const long k = __builtin_ctzl(some);",
            f"    const float a = A[k], *b = B + k * {literal(line)}; const {V} w = {{{copies}}};",
            "    " + " ".join(f"c{j} += w * *(const {U} *)(b + {v});" for j, v in enumerate(at)), "  }"]
    return "\n".join([*out, "  " + " ".join(f"*({U} *)(C + {v}) = c{j};" for j, v in enumerate(to)), "}"])


def looks(factors: str, part: float, count: Int, run: Int, step: Int, halves: bool = False) -> str:
    """Whether enough factors are zero, in C. part: of the factors, that may be other than zero; count, run, step: they
    are so many runs, of which some are looked at; halves: whether they are of a half type.
    """
    every = greater(1, quotient(count, SEEN))
    seen = quotient(count, every)
    few = int(part * seen * run) if fixed(seen) and fixed(run) else f"(long)({part} * {product(seen, run)})"
    return f"hy_sparse{'_halves' if halves else ''}({factors}, {seen}, {run}, {literal(product(step, every))}, {few})"


def every_step(lines: str, steps: str | int) -> str:
    """The bits of all steps where a line of theirs is not finite, else none, as ``all``. lines: arguments of
    hy_finite."""
    return f"const unsigned long all = hy_finite({lines}) ? 0 : (unsigned long)-1 >> ({STEPS} - {steps});"


def parts(least: Int | str, most: Int) -> str:
    """How many parts of the rows there are: ``least``, or more for more threads, up to ``most``."""
    return (f"const long parts = hy_threads < 2 || 2 * hy_threads < {least} ? {least} : 2 * hy_threads < {most} ? 2 * "
            f"hy_threads : {most};")


class Zeros(Panels):
    """What a Contraction prints where an operand is often zero."""

    def _plans(self) -> list[Matmul]:
        """The product with one operand's rows, and with the other's."""
        # halves are converted on the way into a panel
        return [matmul(self.dot, self.reads, swap, LETTERS, self.d) for swap in (False, True)]

    def _skipping(self) -> Skipping | None:
        """How zeros can be left out; None where they are few, or where it does not pay."""
        if self.d != F32 or self.lanes < 8 or not any(map(often_zero, self.dot.args)):
            return None
        return next((s for m in self._plans() if m.a.memory is not None and often_zero(m.a.memory)
                     and (s := self._skipped(m)) is not None), None)

    def _factors(self, m: Matmul) -> tuple[Int, Int] | None:
        """Elements from row to row and from step to step of the operand with the zeros; None where they are no
        neighbours in either way, or of a type that is not read."""
        memory, place = m.a.memory, m.a.place
        if memory is None or place is None or m.a.guard or memory.dtype != F32 and not is_half(memory.dtype):
            return None
        found = coefficient(place, m.rows[0]), coefficient(place, m.depth[0])
        return found if None not in found and any(same(n, 1) for n in found) else None      # type: ignore[arg-type,return-value]

    def _lines(self, m: Matmul) -> tuple[Int, Int] | None:
        """The same of the other operand: from step to step, and from column to column."""
        found = m.b.stride(m.depth[0]), m.b.stride(m.columns[0])
        return found if None not in found and any(same(n, 1) for n in found) else None      # type: ignore[arg-type,return-value]

    def _skipped(self, m: Matmul) -> Skipping | None:
        rows, columns, depth = map(likely, m.sizes)
        if (m.batch or not len(m.rows) == len(m.columns) == len(m.depth) == 1 or rows < LEAST_ROWS
            or not self.lanes <= depth <= _most_depth(m) or columns < self.lanes):
            return None
        converted = self._runs(m.b, m.columns[0]) or self._along_depth(m, m.b)
        factors, lines = self._factors(m), None if converted else self._lines(m)
        if factors is None or lines is None and not converted:
            return None
        if not self._in_vectors() or not same(coefficient(self._stored_at(m), m.columns[0]), 1):
            return None
        def packs(nv: int) -> bool:
            return lines is None or not same(lines[1], 1) or in_one_set(
                min(depth, STEPS), hint(lines[0]) * 4, min(nv * self.lanes, columns) * 4) > WAYS
        part, nv = max(((pays(depth, nv, columns / self.lanes, -(-columns // (nv * self.lanes)), rows,
                              _copies(m, factors), packs(nv), splits_vectors(self.target)), nv)
                        for nv in range(1, max(1, widest(self.target, depth)) + 1) if self._in_panels(m, nv)),
                       default=(0.0, 1))
        if part < HOPED:
            return None
        self.lay(m, Tile(1, nv, 1, nv * self.lanes), STEPS)
        if not (after := self._after()):
            return None
        past = list(dict.fromkeys(x.pointer for x in walk(after) if isinstance(x, Store) and x.vector == "PAST"))
        return Skipping(m, nv, factors, packs(nv), part, after, self.outside or [], past)

    def _in_panels(self, m: Matmul, nv: int) -> bool:
        """Whether panels of so many vectors have a whole one at least."""
        return nv > 1 or fixed(m.columns[0].extent) and m.columns[0].extent % self.lanes == 0

    # ---- the kernel
    def _either(self, dense: Callable[[], list[Stmt]], s: Skipping) -> list[Stmt]:
        """The kernel that looks at the operands first. dense: prints the tiles of all steps under this name."""
        name, self.name = self.name, f"{self.name}_dense"
        full, self.name = dense(), name
        self.lay(s.m, Tile(1, s.nv, 1, s.nv * self.lanes), STEPS)
        m, (rows, columns, depth) = s.m, s.m.sizes
        (count, run), step = ((depth, rows), s.factors[1]) if same(s.factors[0], 1) else ((rows, depth), s.factors[0])
        fits = [f"{n} >= {least}" for n, least in ((rows, LEAST_ROWS), (columns, self.lanes), (depth, self.lanes))
                if not fixed(n)] + ([] if fixed(depth) else [f"{depth} <= {_most_depth(m)}"])
        assert m.a.memory is not None and m.a.place is not None
        of = m.a.memory.dtype
        when = " && ".join([*fits, looks("A", s.part, count, run, step, is_half(of))])
        start = text(substitute(m.a.place, {m.rows[0]: Ix(), m.depth[0]: Ix()}))
        aligned = " && ".join(f"!((unsigned long){pointer} % 64)" for pointer in s.past)
        body = [f"const {C.storage(of)} *A = ({self.reads[m.a.memory]} + ({start}));",
                f"if (!({when})) {{", f"  {name}_dense({self.passed}, scratch{more_passed()});", "  return;", "}",
                *([f"const int past = {aligned};"] if s.past else []), *s.outside,
                *self._blocks(s)]
        at, before = places(s.nv, self.lanes, None if self.ragged else int(self.last))
        longs = ["last"] * self.ragged + ["ldb"] * (not fixed(self._line(s)))
        row = sums(name, self.lanes, at, at, self._line(s) if fixed(self._line(s)) else "ldb", self.blocked, longs,
                   before)
        return [*full, row, self.head(), *body, "}"]

    def _line(self, s: Skipping) -> Int:
        """Elements from a line of a panel to the next."""
        return self.width if s.packs else s.m.b.stride(s.m.depth[0])           # type: ignore[return-value]

    def _after(self) -> list[Stmt]:
        """What follows the sums of rows from m_first on, which are in acc: of one row, while the sums of the next one
        begin, or of m_rows where the depth goes by in blocks. Nothing where it cannot be vectors along the columns."""
        tile = replace(self.tile, mr=_own() if self.blocked else 1)
        touched = self._large(tile)
        self.past = frozenset(n for n, at, step in touched if self._goes_past(n, at))
        try:
            return self._vector_epilogue(self.m, tile, self.x, None, self.width, self._fetches(touched))
        finally:
            self.past = frozenset()

    def _goes_past(self, n: Node, at: Ix) -> bool:
        """Whether an array is written past the caches: the product itself, if it is large, no other kernel reads it,
        and no vector of it crosses a cache line. at: where a vector of it begins."""
        if n is self.k.root or n not in self.k.unread or beneath(n, MOVEMENT) is not self.dot:
            return False
        lines = [at.const, self.x.extent, *(c for v, c in at.terms if not (isinstance(v, Var) and v.name in ALONG))]
        return n.dtype == F32 and n.nbytes >= STREAM and all(fixed(c) and c % LINE_LENGTH == 0 for c in lines)

    def _large(self, tile: Tile) -> list[tuple[Node, Ix, int]]:
        """The large arrays that are read or written after the sums; for each where its vector begins, and the number of
        elements from row to row."""
        try:
            return [(n, at, step) for n, at, step, _ in self._touched(self.m, tile, self.x)
                    if fixed(n.size) and n.nbytes >= FAR]
        except Refused:
            return []

    def _fetches(self, touched: Sequence[tuple[Node, Ix, int]]) -> list[Stmt]:
        """Returns the prefetches before a vector of a row's results: the same vector ``ROWS_AHEAD`` rows further, of
        all large arrays that are read or written, into L2, since lines of the panel fill L1."""
        return [Prefetch(Name(self.names[n]), at, step, ROWS_AHEAD, ", 0, 2") for n, at, step in touched
                if n not in self.past]

    def _blocks(self, s: Skipping) -> list[Stmt]:
        """Threads take blocks of rows: their bits, then one panel after another."""
        (rows, columns, depth), L = s.m.sizes, self.lanes
        copied = _copies(s.m, s.factors)
        greatest = depth if fixed(depth) else _most_depth(s.m)
        padded, words = -(-greatest // L) * L, -(-greatest // STEPS)
        most = max(L, min(VALUES // 4 // (padded if copied else 1),
                          SUMS // 4 // self.width if self.blocked else MOST_ROWS) // L * L)
        least: Int = smaller(up(rows, most), quotient(rows, L))
        block = -(-rows // least) if fixed(rows) else most + L
        apart: Int = padded if copied else s.factors[0]
        body: list[Stmt] = [f"const long rb = {rows} * part / parts, rows = {rows} * (part + 1) / parts - rb;",
                local.array("unsigned long", "some", block * words, 8)]
        if copied:
            body += [local.array("float", "values", block * padded), *self._copied(s, padded)]
        else:
            body.append(f"const float *values = A + rb * {literal(apart)};")
        body += bits("rows", depth, "values", apart, words)
        if self.blocked:
            body.append(local.array("float", "sums", block * self.width))
        if s.packs:
            body.append(local.array("float", "Bp", self.block * self.width))
        body += [f"for (long xt = 0; xt < {self.pieces}; xt++) {{",
                 *self._panel_index("xt"), *self._panel(s, apart, words), "}", *["HYV_STREAMED;"] * bool(s.past)]
        shared = threads(product(product(rows, columns), depth))
        return [parts(least, quotient(rows, L)), *([shared] if shared else []),
                "for (long part = 0; part < parts; part++) {", *body, "}"]

    def _panel(self, s: Skipping, apart: Int, words: int) -> list[Stmt]:
        """A panel of a block of rows: its lines packed if need be, sums, and what follows from them."""
        n, after = self.steps_at_once, s.after
        if s.past:
            after = ["if (past) {", *after, "} else {", *(change(x, lambda e: e, _near) for x in after), "}"]
        more = [*["last"] * self.ragged, *["ldb"] * (not fixed(self._line(s))), *["kb"] * self.blocked]
        line = self._line(s)
        lines = [*self._columns(not s.packs), every_step(f"B, {n}, {self.columns}, "
                                                         f"{line if fixed(line) else 'ldb'}", n)]
        if self.blocked:
            call = ", ".join([f"values + i * {literal(apart)} + kb", f"some[i * {words} + kb / {STEPS}] | all", "B",
                              f"sums + i * {self.width}", *more])
            return [*self._depth_blocks([*lines, f"for (long i = 0; i < rows; i++) {self.name}_sums({call});"]),
                    f"const long m_first = rb, {_own()} = rows;", "const float *acc = sums;", *after]
        call = ", ".join([f"values + i * {literal(apart)}", "some[i] | all", "B", "acc", *more])
        return [*lines, "for (long i = 0; i < rows; i++) {", "const long m_first = rb + i;",
                f"float acc[{self.width}] __attribute__((aligned(64)));", f"{self.name}_sums({call});", *after, "}"]

    def _copied(self, s: Skipping, padded: int) -> list[str]:
        """Copies factors so that they are neighbours from step to step, and float32. Blocks at the ends overlap those
        before."""
        L, depth, (row, step) = self.lanes, s.m.sizes[2], map(literal, s.factors)
        assert s.m.a.memory is not None
        of, at = s.m.a.memory.dtype, f"const long k = kt < {depth} - {L} ? kt : {depth} - {L}"
        self.vectors = self.vectors or is_half(of)
        if same(s.factors[1], 1):
            return [f"for (long i = 0; i < rows; i++) for (long kt = 0; kt < {depth}; kt += {L}) {{", f"  {at};",
                    f"  HYV_STORE(values + i * {padded} + k, HYV_LOAD{half(of)}(A + (rb + i) * {row} + k));", "}"]
        block, lines, apart = f"A + rb + i + k * {step}", [], step
        if is_half(of):
            lines = [f"  {local.array('float', 'square', L * L)}",
                     f"  hyv_square{half(of)}(square, {block}, {step});"]
            block, apart = "square", str(L)
        return [f"for (long it = 0; it < rows; it += {L}) for (long kt = 0; kt < {depth}; kt += {L}) {{",
                f"  const long i = it < rows - {L} ? it : rows - {L}; {at};", *lines,
                f"  turn_{self.V}(values + i * {padded} + k, {padded}, {block}, {apart});", "}"]


def _copies(m: Matmul, factors: tuple[Int, Int]) -> bool:
    """Whether factors are copied: they are no neighbours from step to step, or halves."""
    return not same(factors[1], 1) or m.a.memory is not None and is_half(m.a.memory.dtype)


def _most_depth(m: Matmul) -> int:
    """Steps of the depth up to which zeros are left out."""
    return MOST_DEPTH if fixed(m.sizes[2]) else MOST_ANY


def _own() -> Int:
    """Rows of a block, as a variable."""
    return size(Dim("m_rows", 2, 8, 8))
