"""Functions of tiles that every product of a program with symbolic sizes calls: sums of any number of rows up to what
registers hold. Strides and the depth are arguments, so that one set serves all products, and is compiled once."""
from __future__ import annotations

from typing import AbstractSet, Mapping

import numpy as np

from hybrid.codegen.dialect import C
from hybrid.codegen.schedule.tiling import Target

BUSY = 8                        # sums that keep the multipliers busy: fewer are summed in parts
ROWS = {28: {1: 14, 2: 14, 4: 7}, 12: {1: 6, 2: 6, 4: 3}}      # of a tile, by accumulators and vectors of columns
POINTERS = 4                    # rows that one pointer and multiples of the stride reach
DOTS = {28: 8, 12: 4}           # rows of a tile of dot products, by accumulators
LEAST = 4                       # elements of vectors that dot products are worth


def most_rows(target: Target, vectors: int) -> int:
    """Rows of the highest tile of so many vectors of columns."""
    return ROWS[target.accumulators][vectors]


def name(d: np.dtype, lanes: int, vectors: int) -> str:
    """The function of tiles of so many vectors: ``(rows, A, sm, sk, B, ldb, C, apart, n, more)``. A: the rows, ``sm``
    apart, their steps ``sk`` apart; B: the columns of a step, ``ldb`` apart; C: where the sums go, rows ``apart``; n:
    steps; more: whether they are added to what is in C."""
    return f"hy_tile_{C.storage(d)}{lanes}x{vectors}"


def dots(d: np.dtype, lanes: int) -> str:
    """The function of tiles whose columns lie along the depth: ``(rows, A, sm, B, sn, C, apart, n, columns, more)``. It
    multiplies rows ``sm`` apart with columns ``sn`` apart, a vector of steps at a time. Where n is less than a vector,
    it reads what stands before the first step."""
    return f"hy_dots_{C.storage(d)}{lanes}"


def support(d: np.dtype, target: Target, used: AbstractSet[str]) -> str:
    """The functions of this dtype that a program uses. used: its words."""
    lanes, out = target.lanes(d), []
    for v in ROWS[target.accumulators]:
        if (called := name(d, lanes, v)) in used:
            rows = range(1, most_rows(target, v) + 1)
            out += _family(d, called, TILE, [_tile(d, lanes, f"{called}_{r}", r, v) for r in rows])
    if (called := dots(d, lanes)) in used:
        rows = range(1, DOTS[target.accumulators] + 1)
        out += _family(d, called, DOT, [_dots(d, lanes, f"{called}_{r}", r) for r in rows])
    return "".join(out)


TILE = {"A": "const {T} *", "sm": "long ", "sk": "long ", "B": "const {T} *", "ldb": "long ", "C": "{T} *",
        "apart": "long ", "n": "long ", "more": "long "}
DOT = {"A": "const {T} *", "sm": "long ", "B": "const {T} *", "sn": "long ", "C": "{T} *", "apart": "long ",
       "n": "long ", "columns": "long ", "more": "long "}


def _parameters(d: np.dtype, types: Mapping[str, str]) -> str:
    return ", ".join(f"{t.format(T=C.storage(d))}{n}" for n, t in types.items())


def _family(d: np.dtype, called: str, types: Mapping[str, str], functions: list[str]) -> list[str]:
    """Functions of one row, two rows and so on, and the one that chooses among them. types: of the arguments."""
    cases = "".join(f"  case {r}: {called}_{r}({', '.join(types)}); break;\n" for r in range(1, len(functions) + 1))
    head = f"static inline void {called}(long rows, {_parameters(d, types)})"
    return [*functions, f"{head} {{\n  switch (rows) {{\n{cases}  }}\n}}\n"]


def _dots(d: np.dtype, lanes: int, called: str, rows: int) -> str:
    """One function of dot products: as many columns at once as make a vector of sums, then the others one by one. The
    last vector of a depth overlaps the one before it, whose part counts as zero."""
    M, count = f"m{C.storage(d)}{lanes}", ", ".join
    first = f"({M}){{{count(map(str, range(lanes)))}}}"
    least = f"({M}){{{count(['q'] * lanes)}}}"
    together = max(1, lanes // rows)
    out = [f"static __attribute__((noinline)) void {called}({_parameters(d, DOT)}) {{",
           f"  const long whole = n / {lanes} * {lanes}, q = {lanes} - (n - whole); long j = 0;",
           f"  const {M} some = {first} >= {least};",
           f"  for (; j + {together} <= columns; j += {together}) {{", *_dots_body(d, lanes, rows, together), "  }"]
    if together > 1:
        out += ["  for (; j < columns; j++) {", *_dots_body(d, lanes, rows, 1), "  }"]
    return "\n".join([*out, "}", ""])


def _dots_body(d: np.dtype, lanes: int, rows: int, columns: int) -> list[str]:
    T = C.storage(d)
    V, U, M = (f"{x}{T}{lanes}" for x in "vum")
    cells = [(i, j) for i in range(rows) for j in range(columns)]

    def step(mask: str) -> list[str]:
        def load(at: str) -> str:
            return f"({V})(({M})(*(const {U} *)({at})) & some)" if mask else f"*(const {U} *)({at})"
        loads = " ".join(f"const {V} x{i} = {load(f'A + {i} * sm + k')};" for i in range(rows))
        return [f"      {loads}", *(f"      {{ const {V} w = {load(f'B + (j + {j}) * sn + k')}; "
                                  f"{' '.join(f's{i}_{j} += x{i} * w;' for i in range(rows))} }}"
                                  for j in range(columns))]
    out = ["    " + " ".join(f"{V} s{i}_{j} = {{0}};" for i, j in cells),
           f"    for (long k = 0; k < whole; k += {lanes}) {{", *step(""), "    }",
           "    if (whole < n) {", f"      const long k = n - {lanes};", *step("some"), "    }"]
    zeros = [f"({V}){{0}}"] * lanes
    for at in range(0, len(cells), lanes):
        group = cells[at:at + lanes]
        if len(group) < lanes // 2:
            sums = [f"hsum_{V}(s{i}_{j})" for i, j in group]
        else:
            names = [f"s{i}_{j}" for i, j in group]
            out.append(f"    const {V} t{at} = sums_{V}({', '.join((names + zeros)[:lanes])});")
            sums = [f"t{at}[{c}]" for c in range(len(group))]
        out += [f"    C[{i} * apart + j + {j}] = {s} + (more ? C[{i} * apart + j + {j}] : 0);"
                for (i, j), s in zip(group, sums)]
    return out


def _tile(d: np.dtype, lanes: int, called: str, rows: int, vectors: int) -> str:
    """One function. Rows are reached from a few pointers, since there are fewer registers than rows."""
    T, V, U = C.storage(d), f"v{C.storage(d)}{lanes}", f"u{C.storage(d)}{lanes}"
    cells = [(i, j) for i in range(rows) for j in range(vectors)]
    parts = 1
    while parts * 2 * len(cells) <= BUSY:
        parts *= 2
    pointers, multiples = -(-rows // POINTERS), ["0", "sm", "s2", "s3"]

    def step(part: int) -> list[str]:
        columns = " ".join(f"const {V} b{j} = *(const {U} *)(B + {j * lanes});" for j in range(vectors))
        out = [f"    {{ {columns}"]
        for i in range(rows):
            copies = ", ".join(["x"] * lanes)
            sums = " ".join(f"c{i}_{j}_{part} += w * b{j};" for j in range(vectors))
            out.append(f"      {{ const {T} x = a{i // POINTERS}[{multiples[i % POINTERS]}]; "
                       f"const {V} w = {{{copies}}}; {sums} }}")
        return [*out, f"      B += ldb; {' '.join(f'a{q} += sk;' for q in range(pointers))} }}"]
    out = [f"static __attribute__((noinline)) void {called}({_parameters(d, TILE)}) {{",
           "  const long s2 = 2 * sm, s3 = 3 * sm; long k = 0; (void)s2; (void)s3;",
           "  " + " ".join(f"const {T} *a{q} = A + {q * POINTERS} * sm;" for q in range(pointers)),
           "  " + " ".join(f"{V} c{i}_{j}_{p} = {{0}};" for p in range(parts) for i, j in cells)]
    if parts > 1:
        out += [f"  for (; k + {parts} <= n; k += {parts}) {{", *(s for p in range(parts) for s in step(p)), "  }"]
    out += ["  for (; k < n; k++) {", *step(0), "  }"]
    out += ["  " + " ".join(f"c{i}_{j}_0 += {' + '.join(f'c{i}_{j}_{p}' for p in range(1, parts))};" for i, j in cells)
            ] if parts > 1 else []
    places = [(f"*({U} *)(C + {i} * apart + {j * lanes})", f"c{i}_{j}_0") for i, j in cells]
    end = (f"  if (more) {{ {' '.join(f'{p} += {c};' for p, c in places)} }} else "
           f"{{ {' '.join(f'{p} = {c};' for p, c in places)} }}")
    return "\n".join([*out, end, "}", ""])
