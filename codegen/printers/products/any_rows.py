"""Functions of tiles that every product of a program with symbolic sizes calls: sums of any number of rows up to what
registers hold. Strides and the depth are arguments, so that one set serves all products, and is compiled once."""
from __future__ import annotations

from typing import AbstractSet

import numpy as np

from hybrid.codegen.dialect import C
from hybrid.codegen.schedule.tiling import Target

BUSY = 8                        # sums that keep the multipliers busy: fewer are summed in parts
ROWS = {28: {1: 14, 2: 14, 4: 7}, 12: {1: 6, 2: 6, 4: 3}}      # of a tile, by accumulators and vectors of columns
POINTERS = 4                    # rows that one pointer and multiples of the stride reach


def most_rows(target: Target, vectors: int) -> int:
    """Rows of the highest tile of so many vectors of columns."""
    return ROWS[target.accumulators][vectors]


def name(d: np.dtype, lanes: int, vectors: int) -> str:
    """The function of tiles of so many vectors: ``(rows, A, sm, sk, B, ldb, C, apart, n, more)``. A: the rows, ``sm``
    apart, their steps ``sk`` apart; B: the columns of a step, ``ldb`` apart; C: where the sums go, rows ``apart``; n:
    steps; more: whether they are added to what is in C."""
    return f"hy_tile_{C.storage(d)}{lanes}x{vectors}"


def support(d: np.dtype, target: Target, used: AbstractSet[str]) -> str:
    """The functions of this dtype that a program uses. used: its words."""
    lanes = target.lanes(d)
    wanted = [v for v in ROWS[target.accumulators] if name(d, lanes, v) in used]
    return "".join(_family(d, lanes, v, most_rows(target, v)) for v in wanted)


def _family(d: np.dtype, lanes: int, vectors: int, most: int) -> str:
    T, called = C.storage(d), name(d, lanes, vectors)
    given = "A, sm, sk, B, ldb, C, apart, n, more"
    parameters = f"const {T} *A, long sm, long sk, const {T} *B, long ldb, {T} *C, long apart, long n, long more"
    cases = "".join(f"  case {r}: {called}_{r}({given}); break;\n" for r in range(1, most + 1))
    return "".join([*(_tile(d, lanes, f"{called}_{r}", parameters, r, vectors) for r in range(1, most + 1)),
                    f"static inline void {called}(long rows, {parameters}) {{\n  switch (rows) {{\n{cases}  }}\n}}\n"])


def _tile(d: np.dtype, lanes: int, called: str, parameters: str, rows: int, vectors: int) -> str:
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
    out = [f"static __attribute__((noinline)) void {called}({parameters}) {{",
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
