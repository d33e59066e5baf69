"""C of the transforms of fast convolutions (hybrid/ir/winograd.py), from named vectors to named vectors."""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Callable, Iterable, Sequence

from hybrid.base.records import dataclass
from hybrid.ir.stmt import Expr, Let, Name, Scope, Stmt
from hybrid.ir.winograd import Rows


@dataclass(frozen=True)
class Transform:
    """Lines of C from vectors named d0, d1 … to v0, v1 …, or other letters than ``of`` and ``to``."""
    lines: tuple[str, ...]
    of: str
    to: str

    def along(self, given: Iterable[Expr], store: Callable[[int, str], Stmt], results: int) -> Scope:
        """Loads the vectors of a line, transforms them, and stores the results."""
        return Scope((*(Let("hy_v", Name(f"{self.of}{q}"), x, True) for q, x in enumerate(given)), *self.lines,
                      *(store(i, f"{self.to}{i}") for i in range(results))))


def square(transform: Transform, size: int, results: int, between: str, load: Callable[[int, int], Expr],
           store: Callable[[int, int, str], Stmt]) -> list[Stmt]:
    """A transform of a square of vectors: along each of ``size`` lines, then along each of ``results`` columns.
    between: the name of an array for what is transformed once."""
    def line(i: int) -> Scope:
        return transform.along([load(i, j) for j in range(size)],
                               lambda j, v: f"{between}[{i * results + j}] = {v};", results)

    def column(j: int) -> Scope:
        return transform.along([f"{between}[{i * results + j}]" for i in range(size)],
                               lambda i, v: store(i, j, v), results)
    return [f"hy_v {between}[{size * results}];", *map(line, range(size)), *map(column, range(results))]


@lru_cache(maxsize=64)
def forward(bt: Rows) -> Transform:
    """v = Bᵀ d. Points stand in pairs p, -p after the first: their even and odd parts are shared."""
    n = len(bt)
    out = [f"const hy_v v0 = {_sum([(c, f'd{q}') for q, c in enumerate(bt[0])])};"]
    i = 1
    while i < n - 1:
        if i + 1 < n - 1 and all(a in (b, -b) for a, b in zip(bt[i], bt[i + 1])):
            even = [(a, f"d{q}") for q, (a, b) in enumerate(zip(bt[i], bt[i + 1])) if a == b]
            odd = [(a, f"d{q}") for q, (a, b) in enumerate(zip(bt[i], bt[i + 1])) if a != b]
            out.append(f"const hy_v e{i} = {_sum(even)}, o{i} = {_sum(odd)}, v{i} = e{i} + o{i}, v{i + 1} = e{i} - "
                       f"o{i};")
            i += 2
        else:
            out.append(f"const hy_v v{i} = {_sum([(c, f'd{q}') for q, c in enumerate(bt[i])])};")
            i += 1
    out.append(f"const hy_v v{n - 1} = {_sum([(c, f'd{q}') for q, c in enumerate(bt[n - 1])])};")
    return Transform(tuple(out), "d", "v")


@lru_cache(maxsize=64)
def backward(at: Rows) -> Transform:
    """z = Aᵀ m, with sums and differences of the pairs."""
    n = len(at[0])
    pairs = [i for i in range(1, n - 2, 2) if at[1][i] == -at[1][i + 1]]
    paired = {j for i in pairs for j in (i, i + 1)}
    out = [f"const hy_v a{i} = m{i} + m{i + 1}, b{i} = m{i} - m{i + 1};" for i in pairs]
    for r, row in enumerate(at):
        terms = [(c, f"m{p}") for p, c in enumerate(row) if p not in paired]
        out.append(f"const hy_v z{r} = {_sum([*terms, *((row[i], ('b' if r % 2 else 'a') + str(i)) for i in pairs)])};")
    return Transform(tuple(out), "m", "z")


def _sum(terms: Sequence[tuple[Fraction, str]]) -> str:
    """Text of a sum of products."""
    out = ""
    for c, v in sorted((t for t in terms if t[0]), key=lambda t: (abs(t[0]) != 1, t[0] < 0)):
        product = v if abs(c) == 1 else f"HYV_B({float(abs(c))!r}f) * {v}"
        out = f"{out} {'-' if c < 0 else '+'} {product}" if out else f"-{product}" if c < 0 else product
    return out or "(hy_v){}"
