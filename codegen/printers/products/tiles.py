"""Functions of tiles: sums of some rows and some vectors of columns over steps of the depth.

A product of constant sizes has its own, in which strides and steps are constants. Products of a program whose sizes are
known at the call share a family of them: one for each number of rows up to what registers hold, whose strides and steps
are arguments."""
from __future__ import annotations

from dataclasses import field
from typing import AbstractSet, Mapping, Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir.stmt import Assign, For, Let, Literal, Name, Op, Scope, Stmt, When, text_of

from hybrid.codegen.dialect import C
from hybrid.codegen.nest import Arithmetic, Sums, function, within
from hybrid.codegen.schedule.tiling import Target

BUSY = 8                        # sums that keep the multipliers busy: fewer are summed in parts
ROWS = {28: {1: 14, 2: 14, 4: 7}, 12: {1: 6, 2: 6, 4: 3}}      # of a tile, by accumulators and vectors of columns
POINTERS = 4                    # rows that one pointer and multiples of the stride reach
DOTS = {28: 8, 12: 4}           # rows of a tile of dot products, by accumulators
LEAST = 4                       # elements of vectors that dot products are worth
SHORT = 16                      # vectors of a depth beside which adding up the lanes of a sum takes long
STEPS = 256                     # of the depth in a block of a longer one
AHEAD = 16                      # steps of the depth that columns are fetched before they are multiplied
APART = 256                     # bytes from one step of the depth to the next, in rows that are asked for ahead as well
FIRST = 16 << 10                # bytes of packed columns that stay in the first cache of a core
# of a tile's function, in the order of its arguments
LONGS = ("sm", "sk", "ldb", "apart", "n", "last", "more")
DOT_LONGS = ("sm", "sn", "apart", "n", "columns", "more")


def most_rows(target: Target, vectors: int) -> int:
    """Rows of the highest tile of so many vectors of columns."""
    return ROWS[target.accumulators][vectors]


def name(d: np.dtype, lanes: int, vectors: int) -> str:
    """The function that calls, of a family of tiles of so many vectors, the one of ``rows``, its first argument."""
    return f"hy_tile_{C.storage(d)}{lanes}x{vectors}"


def dots(d: np.dtype, lanes: int) -> str:
    """The function that calls the one of ``rows``, its first argument, of the tiles of dot products."""
    return f"hy_dots_{C.storage(d)}{lanes}"


def support(d: np.dtype, target: Target, used: AbstractSet[str]) -> str:
    """The functions of this dtype that a program uses. used: its words."""
    lanes, out = target.lanes(d), []
    families: list[tuple[str, Sequence[TileFunction | DotFunction]]] = [
        (name(d, lanes, v), [TileFunction(d, lanes, r, v, sure=v // 2) for r in range(1, most_rows(target, v) + 1)])
        for v in ROWS[target.accumulators]]
    families.append((dots(d, lanes), [DotFunction(d, lanes, r, together(r, lanes, 0))
                                           for r in range(1, DOTS[target.accumulators] + 1)]))
    for called, family in families:
        if called in used:
            parameters = family[0].parameters()
            given = ", ".join(p.split()[-1].lstrip("*") for p in parameters)
            cases = "".join(f"  case {f.rows}: {called}_{f.rows}({given}); break;\n" for f in family)
            head = f"static inline void {called}(long rows, {', '.join(parameters)})"
            out += [*(f.text(f"{called}_{f.rows}") for f in family), f"{head} {{\n  switch (rows) {{\n{cases}  }}\n}}"]
    return "".join(f"{text}\n" for text in out)


@dataclass(frozen=True)
class DotFunction:
    """The function of a tile whose columns lie along the depth: ``(A, B, C, sm, sn, apart, n, columns, more)``. It
    multiplies rows ``sm`` apart with columns ``sn`` apart, a vector of steps at a time; where n is less than a vector,
    it reads what stands before the first step. As many columns at once as make a vector of sums, then the others one
    by one. The last vector of a depth overlaps the one before it, whose part counts as zero.

    constants: as of TileFunction. together: columns at once, at most. ahead: elements of the columns that are fetched
    before they are multiplied; 0: none.
    """
    d: np.dtype
    lanes: int
    rows: int
    together: int
    constants: Mapping[str, int] = field(default_factory=dict)
    ahead: int = 0

    def parameters(self) -> list[str]:
        """Its parameters, in C."""
        return _parameters(self.d, DOT_LONGS, self.constants)

    def text(self, called: str) -> str:
        """Its text."""
        L, M, known = self.lanes, f"m{C.storage(self.d)}{self.lanes}", self.constants
        columns, n = known.get("columns"), known.get("n")
        most = min(self.together, columns or L)
        lanes, same = ", ".join(map(str, range(L))), ", ".join(["q"] * L)
        body: list[Stmt] = [*_constants(known), f"const long whole = n / {L} * {L}; long j = 0;"]
        if n is None or n % L:
            body.append(f"const long q = {L} - (n - whole); const {M} some = ({M}){{{lanes}}} >= ({M}){{{same}}};")
        body += within([f"for (; j + {most} <= columns; j += {most}) {{"], self._columns(most))
        if columns is None:
            # as many at once as before: compilers round chains of other numbers of sums in other ways
            body += within(["if (j < columns) {"], self._columns(most, some=True))
        elif columns % most:
            body += self._columns(columns % most)
        return text_of([function(called, ", ".join(self.parameters()), body)])

    def _columns(self, columns: int, some: bool = False) -> list[Stmt]:
        """The sums of some columns. some: where they may be fewer, the last one stands for those that are not there."""
        L, V, n = self.lanes, f"v{C.storage(self.d)}{self.lanes}", self.constants.get("n")
        cells = [(i, j) for i in range(self.rows) for j in range(columns)]
        ahead = " ".join(f"__builtin_prefetch(B + (j + {j}) * sn + k + {self.ahead});" for j in range(columns))
        out: list[Stmt] = [" ".join(f"{V} s{i}_{j} = {{0}};" for i, j in cells), For("k", Literal("0"), Literal(
            "whole"), (*([ahead] if self.ahead else []), *self._step(columns, False, some)), L)]
        if n is None or n % L:
            out.append(When("whole < n", (f"const long k = n - {L};", *self._step(columns, True, some))))
        for at in range(0, len(cells), L):
            group = cells[at:at + L]
            sums = [f"s{i}_{j}" if L == 1 else f"hsum_{V}(s{i}_{j})" for i, j in group]
            if L > 1 and len(group) >= L // 2:
                names = [*(f"s{i}_{j}" for i, j in group), *[f"({V}){{0}}"] * (L - len(group))]
                out.append(f"const {V} t{at} = sums_{V}({', '.join(names)});")
                sums = [f"t{at}[{c}]" for c in range(len(group))]
            out += [f"{f'if (j + {j} < columns) ' if some and j else ''}"
                    f"C[{i} * apart + j + {j}] = {s} + (more ? C[{i} * apart + j + {j}] : 0);"
                    for (i, j), s in zip(group, sums)]
        return out

    def _step(self, columns: int, masked: bool, some: bool) -> list[Stmt]:
        """The products of a vector of steps of each row and column. masked: of the last steps; some: as of
        ``_columns``."""
        V, U, M = (f"{x}{C.storage(self.d)}{self.lanes}" for x in "vum")

        def load(at: str) -> str:
            return f"({V})(({M})(*(const {U} *)({at})) & some)" if masked else f"*(const {U} *)({at})"
        loads = " ".join(f"const {V} x{i} = {load(f'A + {i} * sm + k')};" for i in range(self.rows))
        at = [f"(j + {j} < columns ? j + {j} : columns - 1)" if some and j else f"(j + {j})" for j in range(columns)]
        return [loads, *(f"{{ const {V} w = {load(f'B + {at[j]} * sn + k')}; "
                         f"{' '.join(f's{i}_{j} += x{i} * w;' for i in range(self.rows))} }}" for j in range(columns))]


def together(rows: int, lanes: int, depth: int) -> int:
    """Columns of dot products that are done together: as many as make a vector of sums, fewer for one long row."""
    return 4 if rows == 1 and depth > SHORT * lanes else lanes // rows or 8 // rows or 1


def _parameters(d: np.dtype, longs: Sequence[str], constants: Mapping[str, int]) -> list[str]:
    T = C.storage(d)
    return [f"const {T} *A", f"const {T} *B", f"{T} *C", *(f"long {n}" for n in longs if n not in constants)]


def _constants(known: Mapping[str, int | str]) -> list[Stmt]:
    return [f"const long {', '.join(f'{n} = {v}' for n, v in known.items())};"] if known else []


def places(vectors: int, lanes: int, last: int | None = None, sure: int = 1) -> tuple[list[str], list[str]]:
    """Where the vectors of a panel begin, in C, the last one at ``last``, None where that is a variable; and the
    declarations of those that are not sure to stand side by side."""
    if last is not None or vectors == 1:
        return [str(min(j * lanes, last or 0)) for j in range(vectors)], []
    at = [str(j * lanes) if j < max(sure, 1) else f"o{j}" for j in range(vectors - 1)]
    return [*at, "last"], [f"const long {o} = {j * lanes} < last ? {j * lanes} : last;"
                           for j, o in enumerate(at) if o.startswith("o")]


@dataclass(frozen=True)
class Prefetch:
    """Rows of an array. start: address of the first one, in C; step: elements from row to row; written: whether they
    are only written: then the cache line is fetched to be owned by this core."""
    start: str
    step: int
    written: bool = False

    def line(self, address: str) -> str:
        """The statement that fetches the cache line at an address."""
        return f"__builtin_prefetch({address}{', 1' if self.written else ''});"


@dataclass(frozen=True)
class TileFunction:
    """The function of a tile: ``(A, B, C, sm, sk, ldb, apart, n, last, more)``. A: the rows, ``sm`` apart, their steps
    ``sk`` apart; B: the columns of a step, ``ldb`` apart; C: where the sums go, rows ``apart``; n: steps; last: where
    the last vector begins, which may overlap the one before; more: whether they are added to what is in C.

    constants: the arguments that it does not take, since they are known. sure: so many vectors stand side by side
    whatever ``last`` is. fetched: whether it asks for the rows of the next tile; prefetches: for other arrays, given
    as further arguments."""
    d: np.dtype
    lanes: int
    rows: int
    vectors: int
    constants: Mapping[str, int] = field(default_factory=dict)
    sure: int = 1
    fetched: bool = False
    prefetches: tuple[Prefetch, ...] = ()

    def parameters(self) -> list[str]:
        """Its parameters, in C."""
        return [*_parameters(self.d, LONGS, self.constants),
                *(f"const {C.storage(self.d)} *E{i}" for i in range(len(self.prefetches)))]

    def text(self, called: str) -> str:
        """Its text. Rows are reached from a few pointers, since there are fewer registers than rows."""
        pointers, parts = len(dict.fromkeys(map(self._pointer, range(self.rows)))), 1
        while parts * 2 * self.rows * self.vectors <= BUSY:
            parts *= 2
        blocks = [self._sums(f"_{p}" if parts > 1 else "") for p in range(parts)]
        rows = ["A", *(f"A + {q * POINTERS} * sm" for q in range(1, pointers))]
        body: list[Stmt] = [*_constants(self._named), "long k = 0;",
                            " ".join(f"const {C.storage(self.d)} *a{q} = {at};" for q, at in enumerate(rows)),
                            *self._places[1], *(s for b in blocks for s in b.zero())]
        if parts > 1:
            body += within([f"for (; k + {parts} <= n; k += {parts}) {{"],
                           [Scope(tuple(self._step(b, pointers))) for b in blocks])
        step = [*(self._asked() if parts == 1 else []), *self._step(blocks[0], pointers)]
        if parts == 1 and self._apart:
            body += self._steps_between_prefetches(step)
        body += within(["for (; k < n; k++) {"], step)
        body += [Assign(s, Op(" + ".join(f"{{{p}}}" for p in range(parts - 1)),
                              tuple(b.name(i, j) for b in blocks[1:])), "+=")
                 for i, j, s in blocks[0].all() if parts > 1]
        cells = [(f"*({self._u} *)({self._to(i, j)})", s) for i, j, s in blocks[0].all()]
        if self.constants.get("more") != 0:
            body.append(When("more", tuple(f"{s} += {cell};" for cell, s in cells)))
        return text_of([function(called, ", ".join(self.parameters()), [*body, *(f"{c} = {s};" for c, s in cells)])])

    @property
    def _named(self) -> dict[str, int | str]:
        """The constants that its statements name, and multiples of the stride of rows."""
        known: dict[str, int | str] = {n: v for n, v in self.constants.items()
                                       if n not in ("apart", "last", "more") and (n != "sm" or self.fetched)}
        return known if "sm" in self.constants else {
            **known, **{f"s{i}": f"{i} * sm" for i in range(2, min(self.rows, POINTERS))}}

    @property
    def _u(self) -> str:
        return f"u{C.storage(self.d)}{self.lanes}"

    def _pointer(self, i: int) -> int:
        """The pointer that reaches a row: by a constant, or by some multiples of the stride."""
        return 0 if "sm" in self.constants else i // POINTERS

    @property
    def _places(self) -> tuple[list[str], list[str]]:
        return places(self.vectors, self.lanes, self.constants.get("last"), self.sure)

    def _at(self, j: int) -> str:
        """Where a vector begins, in C."""
        return self._places[0][j]

    def _to(self, i: int, j: int) -> str:
        """Where a vector of sums goes, in C."""
        apart = self.constants.get("apart")
        row = f"{i} * apart" if apart is None else str(i * apart)
        return " + ".join(["C", *(at for at in (row, self._at(j)) if at[0] != "0")])

    def _sums(self, suffix: str) -> Sums:
        T, copies = C.storage(self.d), ", ".join(["x"] * self.lanes)
        vector = f"v{T}{self.lanes}"
        loads = [f"*(const {self._u} *)(B + {self._at(j)})" for j in range(self.vectors)]
        return Sums([f"{{{copies}}}"] * self.rows, loads, Arithmetic(T, vector, vector), suffix)

    def _step(self, sums: Sums, pointers: int) -> list[Stmt]:
        """A step of the depth, from the pointers on."""
        def row(i: int) -> list[Stmt]:
            known = self.constants.get("sm")
            at = ("0", "sm", "s2", "s3")[i % POINTERS] if known is None else i * known
            return [Let(C.storage(self.d), Name("x"), f"a{self._pointer(i)}[{at}]", True)]
        return [*sums.step(before=row), f"B += ldb; {' '.join(f'a{q} += sk;' for q in range(pointers))}"]

    @property
    def _apart(self) -> bool:
        """Whether prefetches of a row's lines stand outside of the steps: beside the few products of a step of short
        vectors, a condition in each takes a noticeable part of the instructions that a core can begin."""
        return bool(self.prefetches) and self.lanes * self.d.itemsize < 64

    @property
    def _steps_of_row(self) -> int:
        """Steps of the depth for which the prefetches of one row's lines are enough."""
        return 1 << max(0, (self.constants.get("n", STEPS) * 3 // 4 // self.rows).bit_length() - 1)

    def _row_lines(self, row: str) -> str:
        """Statements that fetch what the epilogue touches of a row."""
        return " ".join(p.line(f"E{i} + {row} * {p.step}l + {v}") for i, p in enumerate(self.prefetches)
                        for v in range(0, self.vectors * self.lanes, 64 // self.d.itemsize))

    def _steps_between_prefetches(self, step: Sequence[Stmt]) -> list[Stmt]:
        """Steps of the depth, as many after the prefetches of each row as those need; all prefetches before the steps
        where these are few or only the call tells how many."""
        each, rows = self._steps_of_row, f"for (long r = 0; r < {self.rows}; r++) {{"
        if each < AHEAD or "n" not in self.constants:
            return within([rows], [self._row_lines("r")])
        return within([rows], [self._row_lines("r"), f"const long stop = k + {each};",
                               *within(["for (; k < stop; k++) {"], step)])

    def _asked(self) -> list[str]:
        """What is asked for ahead: columns of a panel that does not stay in a first cache, rows with steps far apart,
        rows of the next tile, and what the epilogue touches."""
        known, item, out = self.constants, self.d.itemsize, []
        if known.get("ldb") == self.vectors * self.lanes and known.get("n", STEPS) * known["ldb"] * item > FIRST:
            lines = range(0, known["ldb"], 64 // item) if self.lanes * item < 64 else map(self._at, range(self.vectors))
            out.append(" ".join(f"__builtin_prefetch(B + {AHEAD} * ldb + {j});" for j in lines))
        if self.prefetches and not self._apart:
            each = self._steps_of_row
            some = f" && k % {each} == 0" if each > 1 else ""
            out.append(f"if (k < {self.rows * each}{some}) {{ {self._row_lines(f'k / {each}')} }}")
        if known.get("sk", 0) * item >= APART:
            out.append(f"__builtin_prefetch(a0 + {AHEAD} * sk);")
        if self.fetched:
            line = 64 // item
            only = f"if ((k & {line - 1}) < {self.rows}) " if self.lanes < line else ""
            out.append(f"{only}__builtin_prefetch(A + {self.rows} * sm + (k & {line - 1}) * sm + (k & -{line}), 0, 2);")
        return out
